/* The host's callbacks: what a follower's host hears, in which order, and what it may do meanwhile. */
#include "node_lab.h"

enum { KEYS = 64 };

/* A host that keeps a copy of one int64 table "numbers" with keys k00..k63, as a broker would. */
struct copy {
    pthread_mutex_t mutex;
    struct ms_node *node;
    int64_t value[KEYS];
    bool present[KEYS], named[KEYS]; /* named: by a part of the FULL that is under way */
    uint64_t lsn;
    atomic_int fulls, deltas, audits, mended;
    int went_back, vanished, roles[8];
    bool in_full, out_of_order, auditing;
    atomic_int fail;     /* so many batches are refused */
    atomic_int slow_us;
    atomic_bool hold;    /* waits while set */
    atomic_int calls;
};

static struct lab lab;

static int index_of(struct ms_bytes key)
{
    const char *text = key.data;
    return key.size == 3 && text[0] == 'k' ? (text[1] - '0') * 10 + text[2] - '0' : -1;
}

static void take_change(struct copy *copy, const struct ms_change *change)
{
    int64_t number = 0;
    int i = index_of(change->key);
    CHECK(i >= 0 && i < KEYS, "an unknown key");
    if (change->op == MS_OP_PUT) OK(ms_int64_get(change->value, &number));
    /* Writers only ever count up, so that a smaller number is an old value that came back. */
    if (change->op == MS_OP_PUT && copy->present[i] && number < copy->value[i]) copy->went_back++;
    if (copy->auditing && (!copy->present[i] || copy->value[i] != number)) copy->mended++;
    copy->present[i] = change->op == MS_OP_PUT;
    copy->named[i] = true;
    copy->value[i] = number;
}

static void finish_full(struct copy *copy)
{
    for (int i = 0; i < KEYS; i++) {
        if (copy->named[i] || !copy->present[i]) continue;
        copy->present[i] = false;
        copy->vanished++;
        if (copy->auditing) copy->mended++;
    }
    if (copy->auditing) copy->audits++;
    else copy->fulls++;
}

static int apply(void *context, const struct ms_batch *batch)
{
    struct copy *copy = context;
    atomic_fetch_add(&copy->calls, 1);
    while (atomic_load(&copy->hold)) usleep(500);
    if (atomic_load(&copy->slow_us)) usleep((useconds_t)atomic_load(&copy->slow_us));
    if (atomic_load(&copy->fail) > 0) {
        atomic_fetch_sub(&copy->fail, 1);
        return 1;
    }
    if (strcmp(batch->table_name, "numbers") != 0) return 0;
    pthread_mutex_lock(&copy->mutex);
    bool full = batch->flags & MS_BATCH_FULL;
    copy->auditing = batch->flags & MS_BATCH_AUDIT;
    if (full && batch->flags & MS_BATCH_FIRST) memset(copy->named, 0, sizeof copy->named);
    if (!full && batch->lsn < copy->lsn) copy->out_of_order = true;
    copy->lsn = batch->lsn;
    for (size_t i = 0; i < batch->count; i++) take_change(copy, &batch->changes[i]);
    if (full && batch->flags & MS_BATCH_LAST) finish_full(copy);
    if (!full) copy->deltas++;
    pthread_mutex_unlock(&copy->mutex);
    return 0;
}

static void role(void *context, int now, const char *reason)
{
    struct copy *copy = context;
    (void)reason;
    copy->roles[now]++;
}

static void init_copy(struct copy *copy)
{
    memset(copy, 0, sizeof *copy);
    pthread_mutex_init(&copy->mutex, NULL);
}

static struct ms_host host_of(struct copy *copy)
{
    return (struct ms_host){.context = copy, .apply = apply, .role = role};
}

static bool equal(struct copy *copy, struct ms_table *table)
{
    bool same = true;
    pthread_mutex_lock(&copy->mutex);
    for (int i = 0; i < KEYS && same; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%02d", i);
        int64_t number = lab_number(table, key, -1);
        same = copy->present[i] ? number == copy->value[i] : number == -1;
    }
    pthread_mutex_unlock(&copy->mutex);
    return same;
}

struct writer {
    struct ms_table *table;
    atomic_bool stop;
    int64_t count;
};

static void *write_on(void *context)
{
    struct writer *writer = context;
    char key[8];
    while (!atomic_load(&writer->stop)) {
        int64_t n = ++writer->count;
        (void)snprintf(key, sizeof key, "k%02d", (int)(n * 7 % KEYS));
        if (n % 50 == 0) OK(ms_delete(writer->table, ms_str(key), MS_NOWAIT, NULL));
        else OK(lab_put(writer->table, key, n, MS_NOWAIT, NULL));
        if (n % 20 == 0) usleep(100);
    }
    return NULL;
}

static void confirmed_up_to(struct ms_node *follower, struct ms_node *leader)
{
    uint64_t head = lab_position(leader).head;
    EVENTUALLY(lab_position(follower).host_applied >= head, 30);
}

static void check_copy(struct copy *copy, struct ms_node *follower, struct ms_table *table)
{
    CHECK(equal(copy, table), "the host's copy differs");
    CHECK(copy->went_back == 0, "%d values went back", copy->went_back);
    CHECK(!copy->out_of_order, "batches came out of order");
    (void)follower;
}

/* ---- following -------------------------------------------------------------------------------------------------------------- */

static void full_then_deltas(void)
{
    struct copy copy;
    init_copy(&copy);
    struct ms_host host = host_of(&copy);
    lab_open(&lab);
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL);
    struct writer writer = {.table = lab_table(a, "numbers", MS_TYPE_INT64)};
    copy.present[3] = true; /* what the host has of its own and the leader has not is to go */
    copy.value[3] = 1;
    copy.present[63] = true;
    pthread_t thread = lab_thread(write_on, &writer);
    struct ms_node *b = lab_node(&lab, "b", NULL, &host);
    lab_follow(b, a);
    EVENTUALLY(lab_position(b).host_applied > 1000, 20);
    atomic_store(&writer.stop, true);
    pthread_join(thread, NULL);
    confirmed_up_to(b, a);
    check_copy(&copy, b, writer.table);
    CHECK(copy.fulls == 1, "%d FULLs of the table", copy.fulls);
    CHECK(copy.deltas > 0, "no deltas");
    ms_close(b);
    ms_close(a);
    CHECK(copy.roles[MS_ROLE_FOLLOWER] == 1, "told %d times of following", copy.roles[MS_ROLE_FOLLOWER]);
    lab_close(&lab);
}

static void put_all(struct ms_table *table, struct copy *copy)
{
    char key[8];
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "k%02d", i);
        OK(lab_put(table, key, i, MS_NOWAIT, NULL));
        copy->value[i] = i;
        copy->present[i] = true;
    }
}

/* A node that has lost its data goes through all of the log again, and its host has what stands at the end of it. */
static void nothing_vanishes(void)
{
    struct copy copy;
    init_copy(&copy);
    struct ms_host host = host_of(&copy);
    lab_open(&lab);
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL);
    struct ms_table *numbers = lab_table(a, "numbers", MS_TYPE_INT64), *filler = lab_table(a, "filler", MS_TYPE_INT64);
    for (int i = 0; i < 50000; i++) OK(lab_put(filler, "again", i, MS_NOWAIT, NULL));
    put_all(numbers, &copy);
    struct ms_node *b = lab_node(&lab, "b", NULL, &host);
    lab_follow(b, a);
    confirmed_up_to(b, a);
    check_copy(&copy, b, numbers);
    CHECK(copy.vanished == 0, "%d entries vanished for a moment", copy.vanished);
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

static void without_a_leader(void)
{
    struct copy copies[2];
    lab_open(&lab);
    for (int i = 0; i < 2; i++) init_copy(&copies[i]);
    struct ms_host hosts[2] = {host_of(&copies[0]), host_of(&copies[1])};
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *c = lab_node(&lab, "c", NULL, NULL);
    put_all(lab_table(a, "numbers", MS_TYPE_INT64), &copies[0]);
    put_all(lab_table(a, "numbers", MS_TYPE_INT64), &copies[1]);
    copies[1].present[0] = false;
    lab_follow(c, a);
    uint64_t head = lab_position(a).head;
    EVENTUALLY(lab_position(c).applied >= head, 20);
    ms_close(c);
    struct ms_node *b = lab_node(&lab, "b", NULL, &hosts[0]); /* has nothing */
    c = lab_node(&lab, "c", NULL, &hosts[1]);                 /* has all */
    char address[64];
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", ms_port(a));
    ms_close(a);
    OK(ms_follow(b, address));
    OK(ms_follow(c, address));
    EVENTUALLY(copies[1].fulls == 1, 20);
    CHECK(copies[1].present[0], "it was not given");
    CHECK(atomic_load(&copies[0].calls) == 0, "a node without any history has given its host something");
    ms_close(b);
    ms_close(c);
    lab_close(&lab);
}

static void slow_host(void)
{
    struct copy copy;
    init_copy(&copy);
    struct ms_host host = host_of(&copy);
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.host_queue_bytes = 4096;
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", &policy, &host);
    struct writer writer = {.table = lab_table(a, "numbers", MS_TYPE_INT64)};
    lab_follow(b, a);
    OK(lab_put(writer.table, "k00", 0, 0, NULL));
    confirmed_up_to(b, a);
    int fulls = copy.fulls;
    atomic_store(&copy.hold, true);
    pthread_t thread = lab_thread(write_on, &writer);
    /* The follower itself goes on while its host stands still. */
    EVENTUALLY(lab_position(b).applied > 3000, 30);
    atomic_store(&copy.hold, false);
    atomic_store(&copy.slow_us, 2000);
    EVENTUALLY(lab_position(b).applied > 6000, 30);
    atomic_store(&copy.slow_us, 0);
    atomic_store(&writer.stop, true);
    pthread_join(thread, NULL);
    confirmed_up_to(b, a);
    check_copy(&copy, b, writer.table);
    CHECK(copy.fulls > fulls, "the queue was never too long");
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

static void failing_host(void)
{
    struct copy copy;
    init_copy(&copy);
    struct ms_host host = host_of(&copy);
    lab_open(&lab);
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", NULL, &host);
    struct ms_table *numbers = lab_table(a, "numbers", MS_TYPE_INT64);
    lab_follow(b, a);
    OK(lab_put(numbers, "k01", 1, 0, NULL));
    confirmed_up_to(b, a);
    int fulls = copy.fulls;
    atomic_store(&copy.fail, 2);
    OK(lab_put(numbers, "k02", 2, 0, NULL));
    uint64_t lsn = lab_position(a).head;
    EVENTUALLY(lab_status_has(b, "\"host_failures\":2,"), 20);
    EVENTUALLY(lab_position(b).host_applied >= lsn, 20);
    CHECK(copy.fulls == fulls + 1, "%d FULLs after a failure", copy.fulls - fulls);
    CHECK(lab_status_has(b, "the host did not apply"), "no alarm");
    check_copy(&copy, b, numbers);
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

/* The host fails while its follower has not caught up: the end of the pause and that of the catching up may come in either order. */
static void failing_before_caught_up(void)
{
    struct copy copy;
    init_copy(&copy);
    struct ms_host host = host_of(&copy);
    lab_open(&lab);
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", NULL, &host);
    lab_follow(b, a);
    OK(lab_put(lab_table(a, "numbers", MS_TYPE_INT64), "k01", 1, 0, NULL));
    confirmed_up_to(b, a);
    int calls = atomic_load(&copy.calls);
    atomic_store(&copy.hold, true);
    OK(lab_put(lab_table(a, "numbers", MS_TYPE_INT64), "k01", 2, 0, NULL));
    EVENTUALLY(atomic_load(&copy.calls) > calls, 20);
    ms_close(a);
    a = lab_node(&lab, "a", NULL, NULL);
    OK(ms_lead_comparing(a, NULL, 0, 20000));
    lab_follow(b, a);
    EVENTUALLY(lab_status_has(a, "\"state\":\"held\""), 20);
    atomic_store(&copy.fail, 1);
    atomic_store(&copy.hold, false);
    EVENTUALLY(lab_status_has(b, "\"host_failures\":1,"), 20);
    OK(ms_compared(a));
    confirmed_up_to(b, a);
    check_copy(&copy, b, lab_table(a, "numbers", MS_TYPE_INT64));
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

/* Something else has changed the host's copy: no change of the log will ever mend it. */
static void audit_mends(void)
{
    struct copy copy;
    init_copy(&copy);
    struct ms_host host = host_of(&copy);
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.audit_every_ms = 60;
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", &policy, &host);
    struct ms_table *numbers = lab_table(a, "numbers", MS_TYPE_INT64);
    lab_follow(b, a);
    OK(lab_put(numbers, "k01", 1, 0, NULL));
    OK(lab_put(numbers, "k02", 2, 0, NULL));
    confirmed_up_to(b, a);
    int audits = copy.audits;
    EVENTUALLY(copy.audits > audits + 1, 20);
    CHECK(copy.mended == 0, "an audit mended %d entries of a sound copy", copy.mended);
    pthread_mutex_lock(&copy.mutex);
    copy.value[1] = 0;         /* a wrong value, */
    copy.present[2] = false;   /* a lost one */
    copy.present[9] = true;    /* and one too many */
    pthread_mutex_unlock(&copy.mutex);
    EVENTUALLY(copy.mended >= 3, 20);
    check_copy(&copy, b, numbers);
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

static void new_tables_come_full(void)
{
    struct copy copy;
    init_copy(&copy);
    struct ms_host host = host_of(&copy);
    lab_open(&lab);
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", NULL, &host);
    lab_follow(b, a);
    confirmed_up_to(b, a);
    CHECK(copy.fulls == 0, "a FULL of a table that does not exist");
    pthread_mutex_lock(&copy.mutex);
    copy.present[9] = true; /* the host's own, of a table that the leader has not had until now */
    pthread_mutex_unlock(&copy.mutex);
    struct ms_table *numbers = lab_table(a, "numbers", MS_TYPE_INT64);
    OK(lab_put(numbers, "k01", 1, 0, NULL));
    confirmed_up_to(b, a);
    CHECK(copy.fulls == 1, "%d FULLs of a new table", copy.fulls);
    check_copy(&copy, b, numbers);
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

/* ---- promotion ------------------------------------------------------------------------------------------------------------- */

struct promotion {
    struct ms_node *node;
    atomic_bool done;
    int rc;
};

static void *promote(void *context)
{
    struct promotion *promotion = context;
    promotion->rc = ms_promote(promotion->node, 0, 30000);
    atomic_store(&promotion->done, true);
    return NULL;
}

static void promotion_waits_for_the_host(void)
{
    struct copy copy;
    init_copy(&copy);
    struct ms_host host = host_of(&copy);
    lab_open(&lab);
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", NULL, &host);
    struct ms_table *numbers = lab_table(a, "numbers", MS_TYPE_INT64);
    lab_follow(b, a);
    OK(lab_put(numbers, "k01", 1, 0, NULL));
    confirmed_up_to(b, a);
    atomic_store(&copy.hold, true);
    uint64_t lsn;
    for (int i = 0; i < 100; i++) OK(lab_put(numbers, "k02", i, 0, &lsn));
    EVENTUALLY(lab_position(b).applied >= lsn, 20);
    struct promotion promotion = {.node = b};
    pthread_t thread = lab_thread(promote, &promotion);
    usleep(50000);
    CHECK(!atomic_load(&promotion.done) && lab_position(b).role != MS_ROLE_LEADER, "leads before its host has everything");
    atomic_store(&copy.hold, false);
    pthread_join(thread, NULL);
    CHECK(promotion.rc == 0, "%d", promotion.rc);
    CHECK(copy.value[2] == 99, "the host has %lld", (long long)copy.value[2]);
    /* A leader's host writes its own copy: it is not called. When the node follows again, it is compared anew. */
    struct ms_table *mine = lab_table(b, "numbers", MS_TYPE_INT64);
    int calls = atomic_load(&copy.calls), fulls = copy.fulls;
    OK(lab_put(mine, "k03", 3, 0, NULL));
    CHECK(atomic_load(&copy.calls) == calls, "the leader's host was called");
    lab_follow(b, a);
    EVENTUALLY(copy.fulls > fulls, 20);
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

static void check_own(struct copy *copy, int64_t k01, int64_t k02, bool has_k02)
{
    CHECK(copy->value[1] == k01, "k01 is %lld", (long long)copy->value[1]);
    CHECK(copy->present[2] == has_k02 && (!has_k02 || copy->value[2] == k02), "k02 is %lld, %d", (long long)copy->value[2], copy->present[2]);
}

/* A host that starts as leader is compared with the log; until its node follows, or is promoted, its own copy is nobody else's affair. */
static void an_idle_host_is_left_alone(void)
{
    struct copy copy;
    init_copy(&copy);
    struct ms_host host = host_of(&copy);
    lab_open(&lab);
    struct ms_node *node = lab_leader(&lab, "a", NULL, NULL);
    OK(lab_put(lab_table(node, "numbers", MS_TYPE_INT64), "k01", 1, 0, NULL));
    ms_close(node);
    copy.present[2] = true;
    copy.value[2] = 2;
    node = lab_node(&lab, "a", NULL, &host);
    usleep(50000);
    CHECK(atomic_load(&copy.calls) == 0, "an idle node's host was called");
    OK(ms_promote(node, MS_PROMOTE_COMPARE, 20000));
    usleep(50000);
    CHECK(atomic_load(&copy.calls) == 0, "the host of a node that leads was called");
    ms_close(node);
    check_own(&copy, 0, 2, true);
    node = lab_node(&lab, "a", NULL, &host);
    OK(ms_promote(node, 0, 20000));
    check_own(&copy, 1, 0, false); /* a plain promotion returns when the host has what the log has */
    ms_close(node);
    lab_close(&lab);
}

static void a_later_term_has_a_higher_reign(void)
{
    lab_open(&lab);
    struct ms_node *node = lab_node(&lab, "a", NULL, NULL);
    FAILS(ms_promote_to(node, (uint64_t)INT64_MAX + 1, 0, 20000), MS_E_INVALID);
    OK(ms_promote_to(node, 7, 0, 20000));
    CHECK(lab_position(node).reign == 7 && lab_position(node).run == 0, "reign %llu", (unsigned long long)lab_position(node).reign);
    OK(ms_promote_to(node, 9, 0, 20000));
    CHECK(lab_position(node).reign == 7, "a leader goes on in its reign");
    ms_close(node);
    node = lab_node(&lab, "a", NULL, NULL);
    OK(ms_promote_to(node, 3, 0, 20000));
    CHECK(lab_position(node).reign == 8, "higher than every one it knows, not %llu", (unsigned long long)lab_position(node).reign);
    ms_close(node);
    lab_close(&lab);
}

/* ---- inside a callback ------------------------------------------------------------------------------------------------------------ */

struct inside {
    struct ms_node *node;
    struct ms_table *table;
    atomic_int done;
};

static void try_everything(struct inside *inside)
{
    struct ms_txn *txn;
    struct ms_position position;
    uint64_t lsn;
    uint8_t bytes[8];
    char *status;
    struct ms_write write = {inside->table, ms_str("k00"), ms_int64_put(1, bytes)};
    FAILS(ms_begin(inside->table, ms_str("k00"), 0, &txn), MS_E_CALLBACK);
    FAILS(lab_put(inside->table, "k00", 1, 0, NULL), MS_E_CALLBACK);
    FAILS(ms_put_batch(inside->node, &write, 1, 0, NULL), MS_E_CALLBACK);
    FAILS(ms_lead(inside->node, NULL, 0, 1000), MS_E_CALLBACK);
    FAILS(ms_promote(inside->node, 0, 1000), MS_E_CALLBACK);
    FAILS(ms_lead_comparing(inside->node, NULL, 0, 1000), MS_E_CALLBACK);
    FAILS(ms_compared(inside->node), MS_E_CALLBACK);
    FAILS(ms_snapshot(inside->node, 1000), MS_E_CALLBACK);
    FAILS(ms_wait(inside->node, 1, MS_LEVEL_DISK, 0), MS_E_CALLBACK);
    OK(ms_position(inside->node, &position));
    OK(ms_status(inside->node, &status));
    ms_free(status);
    ms_close(inside->node); /* is no use here, and does nothing */
    OK(lab_put(inside->table, "k00", 41, MS_NOWAIT, &lsn));
    OK(ms_put_batch(inside->node, &write, 1, MS_NOWAIT, &lsn));
    OK(lab_put(inside->table, "k00", 42, MS_NOWAIT, &lsn));
    CHECK(lab_number(inside->table, "k00", 0) == 42, "reads");
}

static void log_line(void *context, int severity, const char *line)
{
    struct inside *inside = context;
    (void)severity;
    if (!strstr(line, "snapshot was not made") && !strstr(line, "refused")) return;
    if (atomic_load(&inside->done) == 1) try_everything(inside);
    atomic_fetch_add(&inside->done, 1);
}

static void no_waiting_inside(void)
{
    struct inside inside = {0};
    struct ms_host host = {.context = &inside, .log = log_line};
    lab_open(&lab);
    inside.node = lab_leader(&lab, "a", NULL, &host);
    inside.table = lab_table(inside.node, "numbers", MS_TYPE_INT64);
    atomic_store(&inside.done, 1);
    /* Something that is logged, on the host thread: a snapshot into a directory that is gone. */
    char command[128];
    (void)snprintf(command, sizeof command, "mv %s/a %s/moved", lab.dir, lab.dir);
    CHECK(system(command) == 0, "mv");
    FAILS(ms_snapshot(inside.node, 20000), MS_E_IO);
    EVENTUALLY(atomic_load(&inside.done) >= 2, 20);
    ms_close(inside.node);
    lab_close(&lab);
}

static const struct spec_case cases[] = {
    SPEC_CASE(full_then_deltas, "a host first gets all of a table, then each change, in order, and never an older value again"),
    SPEC_CASE(nothing_vanishes, "a follower that has lost its data catches up before its host is given anything: nothing that it has vanishes"),
    SPEC_CASE(without_a_leader, "where no leader is heard, the host gets the node's own tables after a while, but never those of an empty node"),
    SPEC_CASE(slow_host, "a host that is too slow holds nobody up: its queue is dropped, it gets all tables anew, and ends up equal"),
    SPEC_CASE(failing_host, "a batch that the host does not apply is an alarm, and all tables come anew after a pause"),
    SPEC_CASE(failing_before_caught_up, "a host that fails while its follower has not caught up gets all tables once it has"),
    SPEC_CASE(audit_mends, "an audit finds what something else has done to the host's copy, and finds nothing in a sound one"),
    SPEC_CASE(new_tables_come_full, "a table that is new comes as a FULL, so that the host drops what it had of its own"),
    SPEC_CASE(promotion_waits_for_the_host, "a promoted node leads when its host has applied everything, and not before"),
    SPEC_CASE(an_idle_host_is_left_alone, "the host of an idle node, or of one that leads, is given no tables, unless a promotion needs it"),
    SPEC_CASE(a_later_term_has_a_higher_reign, "a promotion by a term opens at least that reign, and one above all that it knows"),
    SPEC_CASE(no_waiting_inside, "inside a callback all that could wait is refused at once; reading and no-wait writes work"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
