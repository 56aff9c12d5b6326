/* Closing: with calls that wait, with threads at work, with a log that is full or failing; and what a close leaves behind. */
#include "node_lab.h"

#include "../../core/node.h"

#include <sys/socket.h>
#include <netinet/in.h>

static struct lab lab;

struct call {
    struct ms_node *node;
    struct ms_table *table;
    int rc;
    atomic_bool started;
};

/* ---- calls that wait --------------------------------------------------------------------------------------------------------- */

static void *wait_for_key(void *context)
{
    struct call *call = context;
    struct ms_txn *txn = NULL;
    atomic_store(&call->started, true);
    call->rc = ms_begin(call->table, ms_str("held"), -1, &txn);
    if (call->rc == 0) ms_end(txn);
    return NULL;
}

static void *put_held_key(void *context)
{
    struct call *call = context;
    atomic_store(&call->started, true);
    call->rc = lab_put(call->table, "held", 1, 0, NULL);
    return NULL;
}

static void *batch_held_key(void *context)
{
    struct call *call = context;
    uint8_t bytes[8];
    struct ms_write write = {call->table, ms_str("held"), ms_int64_put(1, bytes)};
    atomic_store(&call->started, true);
    call->rc = ms_put_batch(call->node, &write, 1, 0, NULL);
    return NULL;
}

static void waiting_for_keys(void)
{
    void *(*const fns[])(void *) = {wait_for_key, put_held_key, batch_held_key, wait_for_key};
    enum { CALLS = sizeof fns / sizeof *fns };
    struct call calls[CALLS];
    pthread_t threads[CALLS];
    lab_open(&lab);
    struct ms_node *node = lab_leader(&lab, "a", NULL, NULL);
    struct ms_table *table = lab_table(node, "numbers", MS_TYPE_INT64);
    struct ms_txn *txn;
    OK(ms_begin(table, ms_str("held"), 0, &txn));
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct call){.node = node, .table = table};
        threads[i] = lab_thread(fns[i], &calls[i]);
        EVENTUALLY(atomic_load(&calls[i].started), 10);
    }
    EVENTUALLY(lab_status_has(node, "\"transactions\":4,") && lab_status_has(node, "\"waiting_calls\":1"), 10);
    ms_close(node); /* this thread's own transaction ends with it */
    for (int i = 0; i < CALLS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(calls[i].rc == MS_E_CLOSED, "call %d: %d", i, calls[i].rc);
    }
    lab_close(&lab);
}

struct holding {
    struct call call;
    atomic_bool release, held;
};

/* Holds the key until it is told to let go; its own commit comes too late. */
static void *hold_key(void *context)
{
    struct holding *holding = context;
    struct ms_txn *txn;
    uint8_t bytes[8];
    OK(ms_begin(holding->call.table, ms_str("held"), -1, &txn));
    atomic_store(&holding->held, true);
    while (!atomic_load(&holding->release)) usleep(500);
    holding->call.rc = ms_commit(txn, ms_int64_put(1, bytes), 0, NULL);
    ms_end(txn);
    return NULL;
}

static void *close_node(void *context)
{
    ms_close(context);
    return NULL;
}

static void waiting_behind_a_holder(void)
{
    lab_open(&lab);
    struct ms_node *node = lab_leader(&lab, "a", NULL, NULL);
    struct holding holding = {.call = {.table = lab_table(node, "numbers", MS_TYPE_INT64)}};
    struct call waiting = holding.call;
    pthread_t holder = lab_thread(hold_key, &holding);
    EVENTUALLY(atomic_load(&holding.held), 10);
    pthread_t waiter = lab_thread(wait_for_key, &waiting);
    EVENTUALLY(lab_status_has(node, "\"transactions\":2,"), 10);
    pthread_t closer = lab_thread(close_node, node);
    pthread_join(waiter, NULL); /* though the key is still held */
    CHECK(waiting.rc == MS_E_CLOSED, "%d", waiting.rc);
    atomic_store(&holding.release, true);
    pthread_join(holder, NULL);
    pthread_join(closer, NULL); /* not before the transaction has ended */
    CHECK(holding.call.rc == MS_E_CLOSED, "%d", holding.call.rc);
    lab_close(&lab);
}

static void *lead(void *context)
{
    struct call *call = context;
    char address[32];
    const char *peers[] = {address};
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", call->rc);
    atomic_store(&call->started, true);
    call->rc = ms_lead(call->node, peers, 1, -1);
    return NULL;
}

/* A port that accepts connections and never says a word. */
static int silent_port(int *fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(*fd, (struct sockaddr *)&address, size) == 0 && listen(*fd, 5) == 0, "no socket");
    CHECK(getsockname(*fd, (struct sockaddr *)&address, &size) == 0, "no name");
    return ntohs(address.sin_port);
}

static void waiting_for_a_role(void)
{
    int fd;
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.ask_ms = 60000;
    struct ms_node *node = lab_node(&lab, "a", &policy, NULL);
    struct call call = {.node = node, .rc = silent_port(&fd)};
    pthread_t thread = lab_thread(lead, &call);
    EVENTUALLY(lab_position(node).role == MS_ROLE_ASKING, 10);
    ms_close(node);
    pthread_join(thread, NULL);
    CHECK(call.rc == MS_E_CLOSED, "%d", call.rc);
    close(fd);
    lab_close(&lab);
}

static void *wait_for_replica(void *context)
{
    struct call *call = context;
    atomic_store(&call->started, true);
    call->rc = lab_put(call->table, "k", 1, 0, NULL);
    return NULL;
}

static int stuck_apply(void *context, const struct ms_batch *batch)
{
    (void)batch;
    atomic_bool *stuck = context;
    while (atomic_load(stuck)) usleep(1000);
    return 1;
}

static void *promote(void *context)
{
    struct call *call = context;
    atomic_store(&call->started, true);
    call->rc = ms_promote(call->node, 0, -1);
    return NULL;
}

static void waiting_for_a_level(void)
{
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.level = MS_LEVEL_REPLICA;
    policy.replica_lag_ms = 60000;
    policy.link_timeout_ms = 60000;
    policy.heartbeat_ms = 1000;
    struct ms_node *a = lab_leader(&lab, "a", &policy, NULL), *b = lab_node(&lab, "b", &policy, NULL);
    struct call call = {.node = a, .table = lab_table(a, "numbers", MS_TYPE_INT64)};
    lab_follow(b, a);
    EVENTUALLY(lab_status_has(a, "\"in_sync\":true"), 20);
    (void)pthread_mutex_lock(&b->mutex); /* the follower stands still, and confirms nothing */
    pthread_t threads[8];
    struct call calls[8];
    for (int i = 0; i < 8; i++) {
        calls[i] = call;
        threads[i] = lab_thread(wait_for_replica, &calls[i]);
    }
    EVENTUALLY(lab_status_has(a, "\"waiting_calls\":8"), 20);
    ms_close(a);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        CHECK(calls[i].rc == MS_E_CLOSED, "call %d: %d", i, calls[i].rc);
    }
    (void)pthread_mutex_unlock(&b->mutex);
    ms_close(b);
    lab_close(&lab);
}

static void waiting_for_the_host(void)
{
    atomic_bool stuck = true;
    struct ms_host host = {.context = &stuck, .apply = stuck_apply};
    lab_open(&lab);
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", NULL, &host);
    OK(lab_put(lab_table(a, "numbers", MS_TYPE_INT64), "k", 1, 0, NULL));
    lab_follow(b, a);
    EVENTUALLY(lab_position(b).applied >= lab_position(a).head, 20);
    struct call call = {.node = b};
    pthread_t thread = lab_thread(promote, &call);
    EVENTUALLY(lab_position(b).role == MS_ROLE_OPENING, 20);
    atomic_store(&stuck, false); /* a callback that never returns would hold up the close: that is the host's affair */
    ms_close(b);
    pthread_join(thread, NULL);
    CHECK(call.rc == MS_E_CLOSED, "%d", call.rc);
    ms_close(a);
    lab_close(&lab);
}

/* A host's way to know that nobody is inside before it closes: those that wait are told, later ones are refused, what was begun is ended. */
static void calls_are_ended_first(void)
{
    struct call call = {0};
    lab_open(&lab);
    struct ms_node *node = lab_leader(&lab, "a", NULL, NULL);
    struct ms_table *table = lab_table(node, "numbers", MS_TYPE_INT64);
    struct ms_txn *txn;
    OK(ms_begin(table, ms_str("held"), 0, &txn));
    call = (struct call){.node = node, .table = table};
    pthread_t thread = lab_thread(wait_for_key, &call);
    EVENTUALLY(lab_status_has(node, "\"transactions\":2,"), 10);
    ms_end_calls(node);
    pthread_join(thread, NULL);
    CHECK(call.rc == MS_E_CLOSED, "%d", call.rc);
    ms_end(txn);
    FAILS(lab_put(table, "other", 1, MS_NOWAIT, NULL), MS_E_CLOSED);
    ms_end_calls(node);
    ms_close(node);
    lab_close(&lab);
}

/* ---- threads at work --------------------------------------------------------------------------------------------------------------- */

static void *work(void *context)
{
    struct call *call = context;
    char key[16];
    atomic_store(&call->started, true);
    for (int i = 0;; i++) {
        (void)snprintf(key, sizeof key, "k%d", i % 100);
        call->rc = lab_put(call->table, key, i, 0, NULL);
        if (call->rc) return NULL; /* the last call of this thread */
    }
}

/* Every put that returned 0 is there after the next open. */
static void at_work(void)
{
    enum { CALLS = 4 };
    for (int round = 0; round < 5; round++) {
        struct call calls[CALLS];
        pthread_t threads[CALLS];
        lab_open(&lab);
        struct ms_node *node = lab_leader(&lab, "a", NULL, NULL);
        struct ms_table *table = lab_table(node, "numbers", MS_TYPE_INT64);
        for (int i = 0; i < CALLS; i++) {
            calls[i] = (struct call){.table = table};
            threads[i] = lab_thread(work, &calls[i]);
        }
        for (int i = 0; i < CALLS; i++) EVENTUALLY(atomic_load(&calls[i].started), 10);
        usleep(20000);
        /* The rule is that no call may start while the node is closed: so the threads are told by the role. */
        OK(ms_follow(node, "127.0.0.1:1"));
        for (int i = 0; i < CALLS; i++) {
            pthread_join(threads[i], NULL);
            CHECK(calls[i].rc == MS_E_NOT_LEADER || calls[i].rc == MS_E_UNKNOWN, "thread %d: %d", i, calls[i].rc);
        }
        ms_close(node);
        lab_close(&lab);
    }
}

static void memory_level_is_flushed(void)
{
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.level = MS_LEVEL_MEMORY;
    policy.table_count = 1;
    (void)snprintf(policy.tables[0].name, sizeof policy.tables[0].name, "hot");
    policy.tables[0].interval_ms = 60000;
    struct ms_node *node = lab_leader(&lab, "a", &policy, NULL);
    struct ms_table *table = lab_table(node, "numbers", MS_TYPE_INT64), *hot = lab_table(node, "hot", MS_TYPE_INT64);
    for (int i = 0; i < 2000; i++) OK(lab_put(table, "k", i, 0, NULL));
    char key[16];
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(key, sizeof key, "h%d", i);
        OK(lab_put(hot, key, i, 0, NULL));
    }
    ms_close(node);
    node = lab_node(&lab, "a", &policy, NULL);
    CHECK(lab_number(lab_table(node, "numbers", MS_TYPE_INT64), "k", 0) == 1999, "the tail was lost");
    CHECK(ms_table_count(lab_table(node, "hot", MS_TYPE_INT64)) == 2000, "the buffers were lost");
    ms_close(node);
    lab_close(&lab);
}

/* ---- what is left -------------------------------------------------------------------------------------------------------------------- */

static void nothing_is_left(void)
{
    int threads = 0, files = 0;
    for (int round = 0; round < 10; round++) {
        lab_open(&lab);
        struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", NULL, NULL);
        lab_follow(b, a);
        OK(lab_put(lab_table(a, "numbers", MS_TYPE_INT64), "k", 1, 0, NULL));
        ms_close(round % 2 ? a : b);
        ms_close(round % 2 ? b : a);
        lab_close(&lab);
        EVENTUALLY(round == 0 || lab_count_files("/proc/self/task") <= threads, 5); /* the kernel may take a moment */
        if (round == 0) files = lab_count_files("/proc/self/fd");
        if (round == 0) threads = lab_count_files("/proc/self/task");
        CHECK(lab_count_files("/proc/self/fd") == files, "descriptors: %d, at first %d", lab_count_files("/proc/self/fd"), files);
    }
}

static const struct spec_case cases[] = {
    SPEC_CASE(waiting_for_keys, "a close ends calls that wait for a busy key with MS_E_CLOSED"),
    SPEC_CASE(waiting_behind_a_holder, "who waits behind a holder is told at once; the close itself waits until the holder has ended"),
    SPEC_CASE(waiting_for_a_role, "a close ends a call that waits to lead with MS_E_CLOSED"),
    SPEC_CASE(waiting_for_a_level, "a close ends calls that wait for a follower with MS_E_CLOSED"),
    SPEC_CASE(calls_are_ended_first, "a host can have all calls ended before it closes, and none is under way then"),
    SPEC_CASE(waiting_for_the_host, "a close ends a promotion whose host never applies"),
    SPEC_CASE(at_work, "a leader that is told to follow ends all writers, and closes cleanly"),
    SPEC_CASE(memory_level_is_flushed, "a close leaves on disk what was only in memory, buffers included"),
    SPEC_CASE(nothing_is_left, "a close leaves no thread, no descriptor and no block of memory"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
