/* A host's own copy meets the log at its start (ms_compare_*), and what a follower alone had meets its leader, while other threads write. */
#include "node_lab.h"

static struct lab lab;

/* ---- a host: what it was told to take ---------------------------------------------------------------------------------------------- */

enum { KEYS = 64 };

static struct host {
    pthread_mutex_t mutex;
    int64_t copy[KEYS]; /* by number of the key; -1 = none */
    int told;
    int refuse;
} host;

static int number_of(struct ms_bytes key)
{
    char text[16] = "";
    memcpy(text, key.data, key.size < sizeof text ? key.size : sizeof text - 1);
    return atoi(text + 1);
}

static int on_resolved(void *context, struct ms_table *table, struct ms_bytes key, struct ms_bytes value)
{
    int64_t number = -1;
    (void)context;
    CHECK(strcmp(ms_table_name(table), "t") == 0, "table %s", ms_table_name(table));
    if (value.data) OK(ms_int64_get(value, &number));
    pthread_mutex_lock(&host.mutex);
    host.copy[number_of(key)] = number;
    host.told++;
    int rc = host.refuse;
    pthread_mutex_unlock(&host.mutex);
    return rc;
}

static const struct ms_host callbacks = {.resolved = on_resolved};

static const char *key_name(int i, char text[16])
{
    (void)snprintf(text, 16, "k%d", i);
    return text;
}

static struct ms_compare_result compare(struct ms_table *table, const struct ms_host_copy *about)
{
    struct ms_compare_result result;
    struct ms_compare *compare = NULL;
    char key[16];
    uint8_t bytes[8];
    OK(ms_compare_begin(table, about, &compare));
    for (int i = 0; i < KEYS; i++)
        if (host.copy[i] >= 0) OK(ms_compare_entry(compare, ms_str(key_name(i, key)), ms_int64_put(host.copy[i], bytes)));
    OK(ms_compare_end(compare, &result));
    return result;
}

/* k0 equal, k1 differs, k2 only the log has, k3 only the host has. */
static struct ms_table *begin(struct ms_node **node, const struct ms_policy *policy)
{
    lab_open(&lab);
    host = (struct host){.mutex = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < KEYS; i++) host.copy[i] = -1;
    *node = lab_leader(&lab, "a", policy, &callbacks);
    struct ms_table *table = lab_table(*node, "t", MS_TYPE_INT64);
    OK(lab_put(table, "k0", 100, 0, NULL));
    OK(lab_put(table, "k1", 101, 0, NULL));
    OK(lab_put(table, "k2", 102, 0, NULL));
    host.copy[0] = 100;
    host.copy[1] = 201;
    host.copy[3] = 203;
    return table;
}

static void is(struct ms_table *table, int64_t k1, int64_t k2, int64_t k3)
{
    int64_t wanted[4] = {100, k1, k2, k3};
    char key[16];
    for (int i = 0; i < 4; i++) {
        int64_t log = lab_number(table, key_name(i, key), -1);
        CHECK(log == wanted[i] && host.copy[i] == wanted[i], "k%d: log %lld, host %lld, expected %lld", i, (long long)log,
              (long long)host.copy[i], (long long)wanted[i]);
    }
}

static void newer_side(void)
{
    struct ms_node *node;
    struct ms_table *table = begin(&node, NULL);
    struct ms_compare_result result = compare(table, &(struct ms_host_copy){.version = 1});
    is(table, 201, -1, 203);
    CHECK(result.equal == 1 && result.different == 3 && result.kept_host == 3 && result.newer == 1, "%llu different, %llu of the host",
          (unsigned long long)result.different, (unsigned long long)result.kept_host);
    CHECK(host.told == 0, "the host was told %d times what it has", host.told);
    ms_close(node);
    lab_close(&lab);

    table = begin(&node, NULL);
    result = compare(table, &(struct ms_host_copy){.version = -1});
    is(table, 101, 102, -1);
    CHECK(result.kept_log == 3 && result.newer == -1 && host.told == 3, "told %d times", host.told);
    ms_close(node);
    lab_close(&lab);
}

static void by_time(void)
{
    struct ms_node *node;
    for (int later = 0; later < 3; later++) { /* 2: with a snapshot, so that the time comes from it */
        struct ms_table *table = begin(&node, NULL);
        struct timespec now;
        EVENTUALLY(lab_position(node).synced == lab_position(node).head, 20);
        if (later == 2) OK(ms_snapshot(node, 20000));
        ms_close(node);
        clock_gettime(CLOCK_REALTIME, &now);
        uint64_t us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
        node = lab_leader(&lab, "a", NULL, &callbacks);
        table = lab_table(node, "t", MS_TYPE_INT64);
        struct ms_compare_result result = compare(table, &(struct ms_host_copy){.written_us = later == 1 ? us + 1 : 1});
        CHECK(result.newer == (later == 1 ? 1 : -1), "newer %d", result.newer);
        if (later == 1) is(table, 201, -1, 203);
        else is(table, 101, 102, -1);
        ms_close(node);
        lab_close(&lab);
    }
}

static void by_resolver(void)
{
    struct ms_node *node;
    struct ms_policy policy = lab_policy();
    policy.table_count = 1;
    policy.tables[0] = (struct ms_table_policy){.name = "t", .resolver = MS_RESOLVE_MAX};
    struct ms_table *table = begin(&node, &policy);
    struct ms_compare_result result = compare(table, &(struct ms_host_copy){.version = -1});
    is(table, 201, 102, 203); /* an entry beats none */
    CHECK(result.kept_host == 2 && result.kept_log == 1, "host %llu, log %llu", (unsigned long long)result.kept_host,
          (unsigned long long)result.kept_log);
    char command[200];
    (void)snprintf(command, sizeof command, "test $(cat %s/a/archive/loss-host-t-*.jsonl | wc -l) = 3", lab.dir);
    CHECK(system(command) == 0, "no loss report with 3 lines");
    ms_close(node);
    lab_close(&lab);
}

static void misuse(void)
{
    struct ms_node *node;
    struct ms_compare *first = NULL, *second = NULL;
    struct ms_table *table = begin(&node, NULL);
    uint8_t bytes[8];
    OK(ms_compare_begin(table, NULL, &first));
    FAILS(ms_compare_begin(table, NULL, &second), MS_E_BUSY);
    FAILS(ms_compare_entry(first, ms_str("k9"), ms_str("no number")), MS_E_TYPE);
    FAILS(ms_compare_entry(first, ms_str(""), ms_int64_put(1, bytes)), MS_E_INVALID);
    FAILS(ms_compare_end(first, NULL), MS_E_INVALID); /* it would take what is missing for something that only the log has */
    CHECK(lab_number(table, "k2", -1) == 102, "an entry was removed");
    OK(ms_compare_begin(table, NULL, &first));
    ms_compare_abandon(first);
    ms_compare_abandon(NULL);
    host.refuse = 1;
    (void)compare(table, NULL);
    char *json = NULL;
    OK(ms_status(node, &json));
    CHECK(strstr(json, "the host did not take"), "no alarm: %s", json);
    ms_free(json);
    ms_close(node);
    lab_close(&lab);
    lab_open(&lab);
    node = lab_node(&lab, "b", NULL, NULL);
    FAILS(ms_table_open(node, "t", MS_TYPE_INT64, &table), MS_E_NOT_LEADER);
    ms_close(node);
    lab_close(&lab);
}

/* ---- with others at work --------------------------------------------------------------------------------------------------------------- */

static atomic_bool stop;

static void *writer(void *context)
{
    struct ms_table *table = context;
    uint64_t random = (uint64_t)(uintptr_t)&random;
    char key[16];
    uint8_t bytes[8];
    while (!atomic_load(&stop)) {
        struct ms_txn *txn = NULL;
        int i = (int)(spec_random(&random) % KEYS);
        int64_t number = (int64_t)(spec_random(&random) % 1000);
        OK(ms_begin(table, ms_str(key_name(i, key)), -1, &txn));
        OK(ms_commit(txn, ms_int64_put(number, bytes), MS_NOWAIT, NULL));
        pthread_mutex_lock(&host.mutex); /* as a host does it: its own copy changes while the key is held */
        host.copy[i] = number;
        pthread_mutex_unlock(&host.mutex);
        ms_end(txn);
    }
    return NULL;
}

static void while_others_write(void)
{
    struct ms_node *node;
    pthread_t threads[3];
    char key[16];
    struct ms_table *table = begin(&node, NULL);
    atomic_store(&stop, false);
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, writer, table) == 0, "no thread");
    for (int round = 0; round < 20; round++) {
        struct ms_compare *compare = NULL;
        OK(ms_compare_begin(table, &(struct ms_host_copy){.version = -1}, &compare));
        for (int i = 0; i < KEYS; i++) {
            uint8_t bytes[8];
            pthread_mutex_lock(&host.mutex);
            int64_t number = host.copy[i];
            pthread_mutex_unlock(&host.mutex);
            if (number >= 0) OK(ms_compare_entry(compare, ms_str(key_name(i, key)), ms_int64_put(number, bytes)));
        }
        OK(ms_compare_end(compare, NULL));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < KEYS; i++)
        CHECK(lab_number(table, key_name(i, key), -1) == host.copy[i], "k%d: log %lld, host %lld", i,
              (long long)lab_number(table, key, -1), (long long)host.copy[i]);
    ms_close(node);
    lab_close(&lab);
}

static void extras_while_others_write(void)
{
    struct ms_policy policy = lab_policy();
    char key[16];
    pthread_t threads[3];
    policy.resolver = MS_RESOLVE_MINE;
    lab_open(&lab);
    host = (struct host){.mutex = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < KEYS; i++) host.copy[i] = -1;
    struct ms_node *old = lab_leader(&lab, "old", &policy, NULL), *node = lab_node(&lab, "new", &policy, &callbacks);
    struct ms_table *table = lab_table(old, "t", MS_TYPE_INT64);
    uint64_t lsn = 0;
    OK(lab_put(table, "k0", 1, 0, &lsn));
    lab_follow(node, old);
    EVENTUALLY(lab_position(node).applied >= lsn, 20);
    OK(ms_promote(node, 0, 20000)); /* cuts itself off; old still leads */
    for (int i = 0; i < KEYS; i++) OK(lab_put(table, key_name(i, key), 5000 + i, 0, NULL));
    table = lab_table(node, "t", MS_TYPE_INT64);
    atomic_store(&stop, false);
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, writer, table) == 0, "no thread");
    lab_follow(old, node);
    char *json = NULL;
    for (bool done = false; !done; usleep(1000)) {
        OK(ms_status(old, &json));
        done = strstr(json, "\"extras_pending\":0") && strstr(json, "\"extras_answered\":64");
        ms_free(json);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < KEYS; i++)
        CHECK(lab_number(table, key_name(i, key), -1) == host.copy[i], "k%d: log %lld, host %lld", i,
              (long long)lab_number(table, key, -1), (long long)host.copy[i]);
    CHECK(host.told > 0, "the host heard of nothing");
    EVENTUALLY(lab_position(old).applied == lab_position(node).head, 20);
    ms_close(old);
    ms_close(node);
    lab_close(&lab);
}

static const struct spec_case cases[] = {
    SPEC_CASE(newer_side, "without a resolver the side counts that the host says is newer, also for entries that one side lacks"),
    SPEC_CASE(by_time, "without versions, times decide: the file's and that of the last change in the log, also after a restart"),
    SPEC_CASE(by_resolver, "a resolver decides entry by entry, and the loss report has a line for each difference"),
    SPEC_CASE(misuse, "a comparison that missed an entry removes nothing; a host that refuses a value is an alarm"),
    SPEC_CASE(while_others_write, "threads may write while a host is compared: its copy and the log stay equal"),
    SPEC_CASE(extras_while_others_write, "extras are decided while others write, and the leader's host hears of each under its key"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
