/* A leader and a follower in one process: streaming, bootstrap, resuming, promotion, a deposed leader. */
#include "node_lab.h"

static struct lab lab;

static void fill(struct ms_node *node, const char *prefix, int count, uint64_t *lsn)
{
    struct ms_table *topics = lab_table(node, "topic", MS_TYPE_BYTES);
    char key[64], value[200];
    for (int i = 0; i < count; i++) {
        (void)snprintf(key, sizeof key, "%s%06d", prefix, i);
        (void)snprintf(value, sizeof value, "{\"name\":\"%s\",\"perm\":6,\"queues\":%d,\"note\":\"%0100d\"}", key, i % 16, i);
        OK(ms_put(topics, ms_str(key), ms_str(value), MS_NOWAIT, lsn));
    }
}

/* Every field of all tables of a node, folded into one number. */
static int add_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    uint64_t *sum = context, hash = 1469598103934665603u;
    const unsigned char *k = key.data, *v = value.data;
    for (size_t i = 0; i < key.size; i++) hash = (hash ^ k[i]) * 1099511628211u;
    for (size_t i = 0; i < value.size; i++) hash = (hash ^ v[i]) * 1099511628211u;
    *sum += hash;
    return 0;
}

static int add_table(void *context, struct ms_table *table)
{
    *(uint64_t *)context += 31 * ms_table_count(table);
    return ms_walk(table, add_entry, context);
}

static uint64_t digest(struct ms_node *node)
{
    uint64_t sum = 0;
    OK(ms_table_each(node, add_table, &sum));
    return sum;
}

static void catches_up(struct ms_node *follower, struct ms_node *leader)
{
    uint64_t head = lab_position(leader).head;
    EVENTUALLY(lab_position(follower).applied >= head, 30);
    CHECK(digest(follower) == digest(leader), "tables differ at lsn %llu", (unsigned long long)head);
}

static void streams(void)
{
    uint64_t lsn = 0, when = 0;
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.level = MS_LEVEL_REPLICA;
    struct ms_node *a = lab_leader(&lab, "a", &policy, NULL), *b = lab_node(&lab, "b", &policy, NULL);
    struct ms_table *topics = lab_table(a, "topic", MS_TYPE_BYTES);
    FAILS(ms_put(topics, ms_str("alone"), ms_str("v"), 0, NULL), MS_E_NO_REPLICA);
    lab_follow(b, a);
    EVENTUALLY(lab_status_has(a, "\"in_sync\":true"), 20);
    OK(ms_put(topics, ms_str("k"), ms_str("v"), 0, &lsn));
    CHECK(lab_position(a).replicated >= lsn && lab_position(b).synced >= lsn, "replica level was not reached");
    OK(ms_applied_at(a, lsn, &when));
    EVENTUALLY(ms_applied_at(b, lsn, &when) == 0, 10);
    FAILS(ms_applied_at(b, lsn + 1000, &when), MS_E_AGAIN);
    fill(a, "s", 2000, &lsn);
    OK(ms_wait(a, lsn, MS_LEVEL_REPLICA, 20000));
    catches_up(b, a);
    struct ms_table *copy = lab_table(b, "topic", MS_TYPE_BYTES);
    FAILS(ms_put(copy, ms_str("k"), ms_str("w"), 0, NULL), MS_E_NOT_LEADER);
    OK(ms_delete(topics, ms_str("s000001"), 0, &lsn));
    size_t size;
    catches_up(b, a);
    FAILS(ms_get(copy, ms_str("s000001"), NULL, 0, &size), MS_E_NOT_FOUND);
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

static void bootstraps(void)
{
    uint64_t lsn = 0;
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.log_keep_bytes = 64 << 10;
    policy.snapshot_keep = 1;
    policy.retain_bytes = 32 << 10;
    struct ms_node *a = lab_leader(&lab, "a", &policy, NULL), *b = lab_node(&lab, "b", &policy, NULL);
    fill(a, "x", 3000, &lsn);
    OK(ms_snapshot(a, 20000));
    fill(a, "y", 3000, &lsn);
    OK(ms_snapshot(a, 20000));
    EVENTUALLY(!lab_status_has(a, "\"first\":1,"), 20); /* trimmed, so that a stream from 1 is impossible */
    lab_follow(b, a);
    fill(a, "z", 500, &lsn);
    catches_up(b, a);
    CHECK(lab_status_has(b, "\"bootstraps\":1,"), "it did not take a snapshot");
    uint64_t before = lab_position(b).applied; /* a mark may still follow */
    ms_close(b);
    b = lab_node(&lab, "b", &policy, NULL);
    CHECK(lab_position(b).applied >= before, "recovered to %llu, was at %llu", (unsigned long long)lab_position(b).applied,
          (unsigned long long)before);
    fill(a, "w", 100, &lsn);
    lab_follow(b, a);
    catches_up(b, a);
    CHECK(lab_status_has(b, "\"bootstraps\":0,"), "a restart is no reason for a snapshot");
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

/* The follower reads the log's files when memory no longer has what it lacks. */
static void resumes_from_files(void)
{
    uint64_t lsn = 0;
    lab_open(&lab);
    struct ms_policy policy = lab_policy();
    policy.retain_bytes = 16 << 10;
    policy.log_keep_bytes = 16 << 20;
    policy.window_bytes = 64 << 10;
    struct ms_node *a = lab_leader(&lab, "a", &policy, NULL), *b = lab_node(&lab, "b", &policy, NULL);
    fill(a, "x", 300, &lsn);
    lab_follow(b, a);
    catches_up(b, a);
    ms_close(b);
    fill(a, "y", 5000, &lsn);
    OK(ms_wait(a, lsn, MS_LEVEL_DISK, 20000));
    b = lab_node(&lab, "b", &policy, NULL);
    lab_follow(b, a);
    catches_up(b, a);
    CHECK(lab_status_has(b, "\"bootstraps\":0,"), "it took a snapshot");
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

static void promotes(void)
{
    uint64_t lsn = 0;
    lab_open(&lab);
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", NULL, NULL);
    fill(a, "x", 500, &lsn);
    lab_follow(b, a);
    catches_up(b, a);
    /* b is cut off, a goes on: these records are lost, and must not be so in silence. */
    OK(ms_promote(b, 0, 20000));
    CHECK(lab_position(b).role == MS_ROLE_LEADER && lab_position(b).reign == lab_position(a).reign + 1, "no new reign");
    fill(a, "lost", 5, &lsn);
    fill(b, "new", 5, &lsn);
    lab_follow(a, b);
    catches_up(a, b);
    CHECK(lab_status_has(a, "\"archived\":1,"), "the lost records are in no archive");
    size_t size;
    FAILS(ms_get(lab_table(a, "topic", MS_TYPE_BYTES), ms_str("lost000001"), NULL, 0, &size), MS_E_NOT_FOUND);
    char path[100];
    (void)snprintf(path, sizeof path, "%s/a/archive", lab.dir);
    EVENTUALLY(lab_status_has(a, "\"extras_pending\":0"), 20);
    CHECK(lab_count_names(path, "records-") == 1 && lab_count_names(path, "loss-") == 1, "%d records, %d reports in the archive",
          lab_count_names(path, "records-"), lab_count_names(path, "loss-"));
    /* And a restarted deposed leader is told so. */
    ms_close(a);
    a = lab_node(&lab, "a", NULL, NULL);
    lab_follow(a, b);
    catches_up(a, b);
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

static void asks_first(void)
{
    char address[32];
    const char *peers[] = {address};
    uint64_t lsn = 0;
    lab_open(&lab);
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", NULL, NULL);
    fill(a, "x", 10, &lsn);
    lab_follow(b, a);
    catches_up(b, a);
    OK(ms_promote(b, 0, 20000));
    ms_close(a);
    a = lab_node(&lab, "a", NULL, NULL);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", ms_port(b));
    FAILS(ms_lead(a, peers, 1, 20000), MS_E_DEPOSED);
    CHECK(lab_position(a).role == MS_ROLE_IDLE, "role %d", lab_position(a).role);
    ms_close(b);
    FAILS(ms_lead(a, peers, 1, 20000), MS_E_DEPOSED); /* nobody answers any more, but it has not forgotten */
    OK(ms_promote(a, 0, 20000));
    CHECK(lab_position(a).reign == 2, "reign %llu", (unsigned long long)lab_position(a).reign);
    ms_close(a);
    lab_close(&lab);
}

static void wiped_leader(void)
{
    uint64_t lsn = 0;
    lab_open(&lab);
    struct ms_node *a = lab_leader(&lab, "a", NULL, NULL), *b = lab_node(&lab, "b", NULL, NULL);
    fill(a, "x", 50, &lsn);
    lab_follow(b, a);
    catches_up(b, a);
    uint64_t whole = digest(b);
    ms_close(a);
    ms_close(lab_leader(&lab, "wiped", NULL, NULL));
    a = lab_leader(&lab, "wiped", NULL, NULL); /* for the second time, so that its epoch is surely the higher one */
    lab_follow(b, a);
    EVENTUALLY(lab_status_has(b, "\"state\":\"leader_has_less_history\""), 20);
    CHECK(digest(b) == whole, "the follower lost tables to a leader that has none");
    OK(ms_adopt(b));
    EVENTUALLY(lab_position(b).id == lab_position(a).id, 20);
    catches_up(b, a);
    FAILS(ms_adopt(b), MS_E_INVALID);
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

static void closes_at_any_time(void)
{
    uint64_t lsn = 0, seed = 7;
    for (int i = 0; i < 12; i++) {
        lab_open(&lab);
        struct ms_policy policy = lab_policy();
        policy.retain_bytes = 16 << 10;
        policy.log_keep_bytes = 64 << 10;
        struct ms_node *a = lab_leader(&lab, "a", &policy, NULL), *b = lab_node(&lab, "b", &policy, NULL);
        fill(a, "x", 2000, &lsn);
        OK(ms_snapshot(a, 20000));
        lab_follow(b, a);
        fill(a, "y", 200, &lsn);
        usleep(spec_random(&seed) % 30000);
        ms_close(i % 2 ? a : b);
        usleep(spec_random(&seed) % 3000);
        ms_close(i % 2 ? b : a);
        lab_close(&lab);
    }
}

static const struct spec_case cases[] = {
    SPEC_CASE(streams, "a follower has what the leader wrote, byte for byte; the replica level is reached only with it"),
    SPEC_CASE(bootstraps, "a follower without history takes a snapshot when the log does not reach back, and resumes after a restart"),
    SPEC_CASE(resumes_from_files, "a follower that comes back late is served from the log's files"),
    SPEC_CASE(promotes, "a promoted follower leads a new reign; the old leader archives what only it had and follows"),
    SPEC_CASE(asks_first, "a leader that starts asks its peers, and does not lead when one knows a higher epoch"),
    SPEC_CASE(wiped_leader, "a follower keeps its tables when its leader comes back without history, until it is told to adopt"),
    SPEC_CASE(closes_at_any_time, "closing either node at any moment of a bootstrap ends cleanly"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
