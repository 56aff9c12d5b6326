/* A leader whose host compares its copy with the log, and its followers meanwhile: they wait, lose nothing, and are in as soon as that ends. */
#include "node_lab.h"

enum { KEYS = 2000 };

static struct lab lab;

/* ---- a follower's host, which had all entries before it had a node ------------------------------------------------------------------ */

struct copy {
    bool present[KEYS], named[KEYS];
    int vanished;
    atomic_int fulls;
};

static int apply(void *context, const struct ms_batch *batch)
{
    struct copy *copy = context;
    if (strcmp(batch->table_name, "t") != 0) return 0;
    if (batch->flags & MS_BATCH_FIRST) memset(copy->named, 0, sizeof copy->named);
    for (size_t i = 0; i < batch->count; i++) {
        char text[8] = "";
        memcpy(text, batch->changes[i].key.data, batch->changes[i].key.size < 7 ? batch->changes[i].key.size : 7);
        int key = atoi(text);
        copy->named[key] = copy->present[key] = batch->changes[i].op == MS_OP_PUT;
    }
    if (!(batch->flags & MS_BATCH_LAST)) return 0;
    for (int i = 0; i < KEYS; i++) {
        copy->vanished += copy->present[i] && !copy->named[i];
        copy->present[i] = copy->named[i];
    }
    atomic_fetch_add(&copy->fulls, 1);
    return 0;
}

static void init_copy(struct copy *copy)
{
    memset(copy, 0, sizeof *copy);
    memset(copy->present, true, sizeof copy->present);
}

static void put_range(struct ms_table *table, int from, int to)
{
    char key[16];
    for (int i = from; i < to; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        OK(lab_put(table, key, i, MS_NOWAIT, NULL));
    }
}

static struct ms_node *comparing(const char *name, const struct ms_policy *policy)
{
    struct ms_node *node = lab_node(&lab, name, policy, NULL);
    OK(ms_lead_comparing(node, NULL, 0, 20000));
    CHECK(lab_status_has(node, "\"comparing\":true"), "it does not say that it compares");
    return node;
}

static void is_held(struct ms_node *follower, struct ms_node *leader)
{
    EVENTUALLY(lab_status_has(follower, "\"state\":\"leader_compares\""), 20);
    EVENTUALLY(lab_status_has(leader, "\"state\":\"held\""), 20);
    CHECK(lab_position(follower).head == 0 && lab_status_has(follower, "\"alarms\":0"), "it has got something, or an alarm");
}

static void caught_up(struct ms_node *follower, struct ms_node *leader)
{
    uint64_t head = lab_position(leader).head;
    EVENTUALLY(lab_position(follower).host_applied >= head, 20);
}

/* ---- cases ---------------------------------------------------------------------------------------------------------------------------- */

/* Returns how many entries the follower's host missed while its leader's host filled the log. */
static int fill(bool told)
{
    static struct copy copy;
    struct ms_host host = {.context = &copy, .apply = apply};
    init_copy(&copy);
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.table_count = 1;
    policy.tables[0] = (struct ms_table_policy){.name = "hot", .interval_ms = 60000};
    struct ms_node *a = told ? comparing("a", &policy) : lab_leader(&lab, "a", &policy, NULL), *b = lab_node(&lab, "b", NULL, &host);
    struct ms_table *table = lab_table(a, "t", MS_TYPE_INT64), *hot = lab_table(a, "hot", MS_TYPE_INT64);
    put_range(table, 0, KEYS / 2);
    OK(lab_put(hot, "buffered", 1, 0, NULL));
    lab_follow(b, a);
    if (told) {
        is_held(b, a);
        usleep(300000); /* some heartbeats long */
    } else {
        EVENTUALLY(atomic_load(&copy.fulls) > 0, 20);
    }
    put_range(table, KEYS / 2, KEYS);
    CHECK(!told || atomic_load(&copy.fulls) == 0, "the follower's host was given a log that is not whole");
    OK(ms_compared(a));
    CHECK(lab_status_has(a, "\"comparing\":false"), "it goes on comparing");
    caught_up(b, a);
    EVENTUALLY(atomic_load(&copy.fulls) == 1, 20);
    CHECK(!told || lab_number(lab_table(b, "hot", MS_TYPE_INT64), "buffered", -1) == 1, "a buffered value was left behind");
    CHECK(!told || lab_status_has(b, "\"connects\":1,"), "it was let go, and had to come again");
    OK(ms_compared(a)); /* nothing to end */
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
    return copy.vanished;
}

static void nothing_vanishes(void)
{
    int vanished = fill(true);
    CHECK(vanished == 0, "%d entries vanished for a moment", vanished);
    CHECK(fill(false) == KEYS / 2, "a leader that was not told to compare serves what it has");
}

/* Longer than a link may be silent. */
static void held_links_live(void)
{
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.link_timeout_ms = 300;
    struct ms_node *a = comparing("a", &policy), *b = lab_node(&lab, "b", &policy, NULL);
    lab_follow(b, a);
    is_held(b, a);
    usleep(1500000);
    CHECK(lab_status_has(a, "\"state\":\"held\"") && lab_status_has(b, "\"connects\":1,"), "the link did not last");
    OK(ms_compared(a));
    caught_up(b, a);
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

/* The process of the host ends in the midst of it; the next one begins anew, and so does the waiting. */
static void a_host_that_dies(void)
{
    static struct copy copy;
    struct ms_host host = {.context = &copy, .apply = apply};
    struct ms_policy policy = lab_policy();
    init_copy(&copy);
    lab_open(&lab);
    struct ms_node *a = comparing("a", NULL), *b = lab_node(&lab, "b", NULL, &host);
    put_range(lab_table(a, "t", MS_TYPE_INT64), 0, 10);
    lab_follow(b, a);
    is_held(b, a);
    int port = ms_port(a);
    ms_close(a);
    EVENTUALLY(!lab_status_has(b, "\"state\":\"leader_compares\""), 20);
    char dir[100], listen[32];
    (void)snprintf(dir, sizeof dir, "%s/a", lab.dir);
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
    OK(ms_open(&(struct ms_config){.dir = dir, .cluster = "lab", .name = "a", .listen = listen, .policy = &policy}, &a));
    OK(ms_promote(a, MS_PROMOTE_COMPARE, 20000)); /* the same for a promotion */
    is_held(b, a);
    put_range(lab_table(a, "t", MS_TYPE_INT64), 10, KEYS);
    OK(ms_compared(a));
    caught_up(b, a);
    EVENTUALLY(atomic_load(&copy.fulls) == 1, 20);
    CHECK(copy.vanished == 0, "%d entries vanished for a moment", copy.vanished);
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

static void a_role_that_ends(void)
{
    lab_open(&lab);
    struct ms_node *a = comparing("a", NULL), *b = lab_node(&lab, "b", NULL, NULL), *c = lab_node(&lab, "c", NULL, NULL);
    char address[32];
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", ms_port(a));
    lab_follow(b, a);
    is_held(b, a);
    const char *peers[] = {address};
    FAILS(ms_lead(c, peers, 1, 20000), MS_E_DEPOSED); /* one that is asked answers as ever */
    OK(ms_promote_to(c, 9, 0, 20000));
    lab_follow(a, c);
    FAILS(ms_compared(a), MS_E_NOT_LEADER);
    EVENTUALLY(!lab_status_has(b, "\"state\":\"leader_compares\""), 20);
    CHECK(lab_status_has(a, "\"comparing\":false"), "a follower compares nothing");
    lab_follow(b, c);
    caught_up(b, c);
    ms_close(a);
    ms_close(b);
    ms_close(c);
    FAILS(ms_compared((c = lab_node(&lab, "d", NULL, NULL))), MS_E_NOT_LEADER);
    ms_close(c);
    lab_close(&lab);
}

/* Nobody can be in sync: who waits for that is refused as ever, but what the host brings into the log is taken. */
static void replicas(void)
{
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.level = MS_LEVEL_REPLICA;
    struct ms_node *a = comparing("a", &policy), *b = lab_node(&lab, "b", &policy, NULL);
    struct ms_table *table = lab_table(a, "t", MS_TYPE_INT64);
    lab_follow(b, a);
    is_held(b, a);
    FAILS(lab_put(table, "1", 1, 0, NULL), MS_E_NO_REPLICA);
    struct ms_compare *compare;
    struct ms_compare_result result;
    uint8_t bytes[8];
    uint64_t lsn;
    OK(ms_compare_begin(table, &(struct ms_host_copy){.version = 1}, &compare));
    OK(ms_compare_entry(compare, ms_str("2"), ms_int64_put(2, bytes)));
    OK(ms_compare_end(compare, &result));
    CHECK(result.kept_host == 1, "%llu", (unsigned long long)result.kept_host);
    struct ms_write batch = {.table = table, .key = ms_str("3"), .value = ms_int64_put(3, bytes)};
    OK(ms_put_batch(a, &batch, 1, MS_NOWAIT, NULL));
    OK(lab_put(table, "4", 4, MS_NOWAIT, &lsn));
    FAILS(ms_wait(a, lsn, MS_LEVEL_REPLICA, 20000), MS_E_NOT_REPLICATED);
    OK(ms_compared(a));
    EVENTUALLY(lab_status_has(a, "\"in_sync\":true"), 20);
    OK(ms_wait(a, lsn, MS_LEVEL_REPLICA, 20000));
    OK(lab_put(table, "1", 1, 0, NULL));
    ms_close(b);
    EVENTUALLY(lab_put(table, "1", 2, MS_NOWAIT, NULL) == MS_E_NO_REPLICA, 20); /* it was for as long as it compared */
    ms_close(a);
    lab_close(&lab);
}

static const struct spec_case cases[] = {
    SPEC_CASE(nothing_vanishes, "while a leader's host fills the log, followers wait; then they are in at once, and their hosts have lost nothing"),
    SPEC_CASE(held_links_live, "a link of one that waits lives on, however long that takes"),
    SPEC_CASE(a_host_that_dies, "a host that dies while it compares leaves followers as they were, and they wait for the next one"),
    SPEC_CASE(a_role_that_ends, "a leader that loses its role compares no more; its answers to other nodes are as ever"),
    SPEC_CASE(replicas, "a host that compares needs no follower in sync for what it logs without waiting, and nobody else is let off"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
