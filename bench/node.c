/* Our side of the benchmark, through the public API only: a leader in this process, a follower in a child process.
 *
 *      node update   --dir DIR --level os|disk [--keys N --updates N --window N]
 *      node latency  --dir DIR --level os|disk [--keys N --rate N --seconds N]
 *      node join     --dir DIR [--entries N --seconds N]
 *      node memory   --dir DIR [--keys N --commits N --threads N]
 *      node follower ...   the child; see follower.c
 *
 * The caller is a thread of the leader, and its CPU time is counted. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "callers.h"
#include "follower.h"
#include "status.h"

static char program[4096];

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int level_arg(int argc, char **argv)
{
    return strcmp(bench_arg(argc, argv, "--level", "os"), "disk") == 0 ? MS_LEVEL_DISK : MS_LEVEL_OS;
}

static uint64_t head(struct ms_node *node)
{
    struct ms_position position;
    if (ms_position(node, &position)) bench_die("position: %s", ms_error_message());
    return position.head;
}

/* ---- a leader ------------------------------------------------------------------------------------------------------- */

struct leader {
    struct ms_node *node;
    struct ms_table *table;
    int level;
    struct bench_random random;
};

static void leader_open(struct leader *leader, const char *dir, int level, uint64_t joinable)
{
    char path[512];
    snprintf(path, sizeof path, "%s/leader", dir);
    leader->level = level;
    leader->node = bench_node_open(path, level, joinable, NULL);
    if (ms_lead(leader->node, NULL, 0, 10000)) bench_die("lead: %s", ms_error_message());
    leader->table = bench_table_open(leader->node);
    bench_random_init(&leader->random, 1);
}

/* Puts without waiting, with at most `window` changes that have not reached the level. The last ones are not waited for. */
static void leader_put_many(struct leader *leader, uint64_t updates, uint32_t keys, uint32_t window, bool in_order)
{
    char key[BENCH_KEY];
    uint64_t lsn = 0, reached = head(leader->node);
    for (uint64_t i = 0; i < updates; i++) {
        bench_key(key, in_order ? (uint32_t)i % keys : bench_random_below(&leader->random, keys));
        struct ms_bytes k = {key, sizeof key}, v = {bench_value(&leader->random), BENCH_VALUE};
        if (ms_put(leader->table, k, v, MS_NOWAIT, &lsn)) bench_die("put: %s", ms_error_message());
        if (lsn - reached < window) continue;
        reached = lsn - window / 2;
        if (ms_wait(leader->node, reached, leader->level, 20000)) bench_die("wait: %s", ms_error_message());
    }
}

static void leader_load(struct leader *leader, uint32_t keys)
{
    leader_put_many(leader, keys, keys, 2000, true);
    if (ms_wait(leader->node, head(leader->node), leader->level, 60000)) bench_die("wait: %s", ms_error_message());
}

static void check_equal(struct leader *leader, struct bench_child *follower)
{
    if (bench_table_sum(leader->table) != bench_follower_sum(follower)) bench_die("leader and follower differ");
}

static void start_follower(struct leader *leader, struct bench_child *follower, const char *dir, const char *name,
                           bool callback)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    bench_follower_start(follower, program, path, leader->level, callback);
}

/* ---- update ------------------------------------------------------------------------------------------------------------ */

static void update(int argc, char **argv)
{
    uint32_t keys = (uint32_t)bench_arg_number(argc, argv, "--keys", 100000);
    uint32_t window = (uint32_t)bench_arg_number(argc, argv, "--window", 2000);
    uint64_t updates = bench_arg_number(argc, argv, "--updates", 1000000), end, at;
    const char *dir = bench_arg(argc, argv, "--dir", "");
    struct leader leader;
    struct bench_child follower;
    struct bench_usage before, after;
    leader_open(&leader, dir, level_arg(argc, argv), 0);
    start_follower(&leader, &follower, dir, "follower", false);
    bench_follower_follow(&follower, ms_port(leader.node));
    leader_load(&leader, keys);
    bench_follower_await(&follower, head(leader.node), &at, &before);

    double wire = bench_status_number(leader.node, "bytes_sent"), cpu = cpu_seconds();
    uint64_t first = head(leader.node), start = bench_now_ns();
    leader_put_many(&leader, updates, keys, window, false);
    if (ms_wait(leader.node, head(leader.node), leader.level, 60000)) bench_die("wait: %s", ms_error_message());
    uint64_t answered = bench_now_ns(), last = head(leader.node);
    bench_follower_await(&follower, last, &end, &after);
    cpu = cpu_seconds() - cpu;
    wire = bench_status_number(leader.node, "bytes_sent") - wire;
    if (last - first < updates) bench_die("the follower moved by %" PRIu64 " only", last - first);
    check_equal(&leader, &follower);

    double million = (double)updates / 1e6, cpu_follower = after.cpu_s - before.cpu_s;
    bench_result("updates_per_s", (double)updates / ((double)(end - start) / 1e9));
    bench_result("answered_per_s", (double)updates / ((double)(answered - start) / 1e9));
    bench_result("cpu_s_leader", cpu / million);
    bench_result("cpu_s_follower", cpu_follower / million);
    bench_result("cpu_s", (cpu + cpu_follower) / million);
    bench_result("wire_bytes", wire / (double)updates);
    bench_stop(&follower);
    ms_close(leader.node);
}

/* ---- latency ------------------------------------------------------------------------------------------------------------ */

static void latency(int argc, char **argv)
{
    uint32_t keys = (uint32_t)bench_arg_number(argc, argv, "--keys", 100000);
    uint64_t rate = bench_arg_number(argc, argv, "--rate", 500), at;
    uint64_t count = rate * bench_arg_number(argc, argv, "--seconds", 5);
    const char *dir = bench_arg(argc, argv, "--dir", "");
    struct leader leader;
    struct bench_child follower;
    struct bench_usage usage;
    struct bench_samples applied, host;
    char key[BENCH_KEY];
    leader_open(&leader, dir, level_arg(argc, argv), 0);
    start_follower(&leader, &follower, dir, "follower", true);
    bench_follower_follow(&follower, ms_port(leader.node));
    leader_load(&leader, keys);
    bench_follower_await(&follower, head(leader.node), &at, &usage);

    struct {
        uint64_t lsn, called_us;
    } *calls = bench_alloc(count * sizeof *calls);
    uint64_t next = bench_now_ns() + 100000000;
    for (uint64_t i = 0; i < count; i++, next += 1000000000u / rate) {
        bench_key(key, bench_random_below(&leader.random, keys));
        struct ms_bytes k = {key, sizeof key}, v = {bench_value(&leader.random), BENCH_VALUE};
        bench_sleep_until(next);
        calls[i].called_us = bench_real_us();
        if (ms_put(leader.table, k, v, 0, &calls[i].lsn)) bench_die("put: %s", ms_error_message());
    }
    bench_follower_await(&follower, head(leader.node), &at, &usage);
    bench_sleep_until(bench_now_ns() + 200000000); /* the host's callback may still be under way */
    bench_samples_init(&applied, count);
    bench_samples_init(&host, count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t applied_us, host_us;
        bench_follower_times(&follower, calls[i].lsn, &applied_us, &host_us);
        if (host_us == 0) bench_die("the host's callback was not called for %" PRIu64, calls[i].lsn);
        bench_sample(&applied, (applied_us - calls[i].called_us) * 1000);
        bench_sample(&host, (host_us - calls[i].called_us) * 1000);
    }
    bench_samples_report(&applied, "applied");
    bench_samples_report(&host, "host");
    bench_stop(&follower);
    ms_close(leader.node);
}

/* ---- join --------------------------------------------------------------------------------------------------------------- */

enum { LOAD_PER_MS = 20 };

/* 20 calls every millisecond, the first of which waits for its level; the longest call is what a host would notice. */
struct load {
    struct leader *leader;
    uint32_t keys;
    uint64_t seconds;
    struct bench_samples samples;
};

static void *run_load(void *argument)
{
    struct load *load = argument;
    char key[BENCH_KEY];
    uint64_t next = bench_now_ns();
    for (uint64_t i = 0; i < load->seconds * 1000; i++, next += 1000000) {
        bench_sleep_until(next);
        for (int k = 0; k < LOAD_PER_MS; k++) {
            bench_key(key, bench_random_below(&load->leader->random, load->keys));
            struct ms_bytes name = {key, sizeof key}, value = {bench_value(&load->leader->random), BENCH_VALUE};
            uint64_t start = bench_now_ns();
            if (ms_put(load->leader->table, name, value, k ? MS_NOWAIT : 0, NULL)) bench_die("put: %s", ms_error_message());
            bench_sample(&load->samples, bench_now_ns() - start);
        }
    }
    return NULL;
}

/* The load, with a follower that joins half a second later if there is one; its join time is returned. */
static double join_under_load(struct leader *leader, uint32_t keys, uint64_t seconds, struct bench_child *follower,
                              const char *prefix, double *longest_hold)
{
    struct bench_holds holds;
    struct load load = {.leader = leader, .keys = keys, .seconds = seconds};
    struct bench_usage usage;
    pthread_t thread;
    double join_s = 0;
    bench_samples_init(&load.samples, (seconds + 1) * 1000 * LOAD_PER_MS);
    if (pthread_create(&thread, NULL, run_load, &load)) bench_die("no thread");
    if (follower) {
        uint64_t start = bench_now_ns() + 500000000, end;
        bench_sleep_until(start);
        uint64_t lsn = head(leader->node);
        bench_holds(leader->node, &holds);
        bench_follower_follow(follower, ms_port(leader->node));
        bench_follower_await(follower, lsn, &end, &usage);
        *longest_hold = bench_longest_hold(leader->node, &holds);
        join_s = (double)(end - start) / 1e9;
    }
    pthread_join(thread, NULL);
    bench_samples_report(&load.samples, prefix);
    bench_samples_close(&load.samples);
    return join_s;
}

/* Returns when a snapshot was made and the log behind it trimmed, so that a joiner can't start from the log. */
static void await_trim(struct ms_node *node)
{
    uint64_t deadline = bench_now_ns() + 60000000000u;
    while (bench_status_number(node, "first") <= 1) {
        if (bench_now_ns() > deadline) bench_die("the log is not trimmed");
        bench_sleep_until(bench_now_ns() + 20000000);
    }
}

static void join(int argc, char **argv)
{
    uint32_t entries = (uint32_t)bench_arg_number(argc, argv, "--entries", 1000000);
    uint64_t seconds = bench_arg_number(argc, argv, "--seconds", 4), end;
    const char *dir = bench_arg(argc, argv, "--dir", "");
    struct leader leader;
    struct bench_child first, second;
    struct bench_usage empty, full, after, fresh, joined;
    struct bench_holds holds;
    double hold, hold_loaded;
    leader_open(&leader, dir, MS_LEVEL_OS, entries);
    bench_usage(0, &empty);
    leader_load(&leader, entries);
    bench_usage(0, &full);
    await_trim(leader.node);
    start_follower(&leader, &first, dir, "first", false);
    bench_follower_usage(&first, &fresh);

    bench_peak_reset(0);
    bench_holds(leader.node, &holds);
    uint64_t start = bench_now_ns();
    bench_follower_follow(&first, ms_port(leader.node));
    bench_follower_await(&first, head(leader.node), &end, &joined);
    hold = bench_longest_hold(leader.node, &holds);
    bench_usage(0, &after);
    if (bench_status_number(leader.node, "snapshots_sent") < 1) bench_die("the follower joined without a snapshot");
    check_equal(&leader, &first);
    bench_result("entry_bytes_leader", (double)(full.rss - empty.rss) / entries);
    bench_result("entry_bytes_follower", (double)(joined.rss - fresh.rss) / entries);
    bench_result("join_s", (double)(end - start) / 1e9);
    bench_result("leader_growth_mib", ((double)after.peak - (double)full.rss) / 1048576.0);
    bench_stop(&first);

    join_under_load(&leader, entries, seconds, NULL, "call_alone", NULL);
    start_follower(&leader, &second, dir, "second", false);
    bench_usage(0, &full);
    bench_peak_reset(0);
    bench_result("join_loaded_s", join_under_load(&leader, entries, seconds, &second, "call_joining", &hold_loaded));
    bench_usage(0, &after);
    bench_result("leader_growth_loaded_mib", ((double)after.peak - (double)full.rss) / 1048576.0);
    bench_follower_await(&second, head(leader.node), &end, &joined);
    check_equal(&leader, &second);
    bench_result("join_lock_us", hold > hold_loaded ? hold : hold_loaded);
    bench_result("max_lock_us", bench_status_number(leader.node, "max_lock_us"));
    bench_result("stall_us", bench_stall_us(10));
    bench_stop(&second);
    ms_close(leader.node);
}

/* ---- memory --------------------------------------------------------------------------------------------------------------- */

static void commit(void *context, const char key[BENCH_KEY], const char *value)
{
    struct leader *leader = context;
    if (ms_put(leader->table, (struct ms_bytes){key, BENCH_KEY}, (struct ms_bytes){value, BENCH_VALUE}, 0, NULL)) {
        bench_die("put: %s", ms_error_message());
    }
}

static void memory(int argc, char **argv)
{
    uint32_t keys = (uint32_t)bench_arg_number(argc, argv, "--keys", 100000);
    struct leader leader;
    leader_open(&leader, bench_arg(argc, argv, "--dir", ""), MS_LEVEL_MEMORY, 0);
    leader_put_many(&leader, keys, keys, 2000, true);
    if (ms_wait(leader.node, head(leader.node), MS_LEVEL_DISK, 60000)) bench_die("wait: %s", ms_error_message());
    bench_callers_run((uint32_t)bench_arg_number(argc, argv, "--threads", 1), keys,
                      bench_arg_number(argc, argv, "--commits", 1000000), commit, &leader);
    ms_close(leader.node);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    if (size < 0) bench_die("/proc/self/exe is not there");
    bench_tie_to_parent();
    if (strcmp(mode, "follower") == 0) return bench_follower_main(argc, argv);
    bench_values_init();
    if (strcmp(mode, "update") == 0) {
        update(argc, argv);
    } else if (strcmp(mode, "latency") == 0) {
        latency(argc, argv);
    } else if (strcmp(mode, "join") == 0) {
        join(argc, argv);
    } else if (strcmp(mode, "memory") == 0) {
        memory(argc, argv);
    } else {
        bench_die("usage: node update|latency|join|memory --dir DIR ...");
    }
    bench_result("complete", 1);
    return 0;
}
