/* See follower.h. The lines are:
 *
 *      follow PORT      -> ok
 *      await LSN        -> at NS CPU_S RSS       once LSN is applied
 *      usage            -> at NS CPU_S RSS
 *      sum              -> sum NUMBER
 *      times LSN        -> times APPLIED_US HOST_US
 *      (end of input)   closes the node
 */
#include "follower.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* With BENCH_LOG in the environment: what the node tells its operator, with the time and the process. */
static void log_line(void *context, int severity, const char *line)
{
    (void)context;
    (void)severity;
    fprintf(stderr, "%.4f %d %s\n", (double)bench_now_ns() / 1e9, (int)getpid(), line);
}

struct ms_node *bench_node_open(const char *dir, int level, uint64_t joinable, const struct ms_host *host)
{
    struct ms_policy policy;
    struct ms_node *node;
    ms_policy_init(&policy);
    snprintf(policy.tables[0].name, sizeof policy.tables[0].name, "bench");
    policy.tables[0].level = level;
    policy.table_count = 1;
    if (joinable) policy.log_keep_bytes = joinable * 4;
    if (joinable && joinable < 1000000) { /* a small run: shrink what a million entries go through, 64 and 16 MiB */
        policy.snapshot_log_bytes = joinable * 64;
        policy.log_segment_bytes = joinable * 16;
    }
    struct ms_host all = host ? *host : (struct ms_host){0};
    if (getenv("BENCH_LOG")) all.log = log_line;
    struct ms_config config = {.dir = dir, .cluster = "bench", .listen = "127.0.0.1:0", .policy = &policy, .host = &all};
    bench_mkdir(dir);
    if (ms_open(&config, &node)) bench_die("open %s: %s", dir, ms_error_message());
    return node;
}

struct ms_table *bench_table_open(struct ms_node *node)
{
    struct ms_table *table;
    if (ms_table_open(node, "bench", MS_TYPE_BYTES, &table)) bench_die("open table: %s", ms_error_message());
    return table;
}

static int add_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    uint64_t *sum = context;
    *sum += XXH3_64bits_withSeed(value.data, value.size, XXH3_64bits(key.data, key.size));
    return 0;
}

uint64_t bench_table_sum(struct ms_table *table)
{
    uint64_t sum = 0;
    if (ms_walk(table, add_entry, &sum)) bench_die("walk: %s", ms_error_message());
    return sum;
}

/* ---- the parent's side ---------------------------------------------------------------------------------------------- */

void bench_follower_start(struct bench_child *child, const char *program, const char *dir, int level, bool callback)
{
    char number[16], line[256];
    snprintf(number, sizeof number, "%d", level);
    char *argv[] = {(char *)program,
                    (char[]){"follower"},
                    (char[]){"--dir"},
                    (char *)dir,
                    (char[]){"--level"},
                    number,
                    (char[]){"--callback"},
                    callback ? (char[]){"1"} : (char[]){"0"},
                    NULL};
    bench_spawn(child, argv, true);
    bench_hear(child, line, sizeof line);
    if (strcmp(line, "ready") != 0) bench_die("the follower says: %s", line);
}

void bench_follower_follow(struct bench_child *child, int port)
{
    char line[256];
    bench_tell(child, "follow %d", port);
    bench_hear(child, line, sizeof line);
    if (strcmp(line, "ok") != 0) bench_die("the follower says: %s", line);
}

static void hear_usage(struct bench_child *child, uint64_t *at_ns, struct bench_usage *usage)
{
    char line[256];
    bench_hear(child, line, sizeof line);
    memset(usage, 0, sizeof *usage);
    if (sscanf(line, "at %" SCNu64 " %lf %" SCNu64, at_ns, &usage->cpu_s, &usage->rss) != 3)
        bench_die("the follower says: %s", line);
}

void bench_follower_await(struct bench_child *child, uint64_t lsn, uint64_t *at_ns, struct bench_usage *usage)
{
    bench_tell(child, "await %" PRIu64, lsn);
    hear_usage(child, at_ns, usage);
}

void bench_follower_usage(struct bench_child *child, struct bench_usage *usage)
{
    uint64_t at_ns;
    bench_tell(child, "usage");
    hear_usage(child, &at_ns, usage);
}

uint64_t bench_follower_sum(struct bench_child *child)
{
    char line[256];
    uint64_t sum;
    bench_tell(child, "sum");
    bench_hear(child, line, sizeof line);
    if (sscanf(line, "sum %" SCNu64, &sum) != 1) bench_die("the follower says: %s", line);
    return sum;
}

void bench_follower_times(struct bench_child *child, uint64_t lsn, uint64_t *applied_us, uint64_t *host_us)
{
    char line[256];
    bench_tell(child, "times %" PRIu64, lsn);
    bench_hear(child, line, sizeof line);
    if (sscanf(line, "times %" SCNu64 " %" SCNu64, applied_us, host_us) != 2) bench_die("the follower says: %s", line);
}

/* ---- the child's side ----------------------------------------------------------------------------------------------- */

enum { HEARD_MAX = 1 << 16 };

/* What the host callback heard, one row a batch; written by the host thread, read by main after `count`. */
static struct {
    struct {
        uint64_t lsn, host_us;
    } rows[HEARD_MAX];
    _Atomic size_t count;
} heard;

static int apply(void *context, const struct ms_batch *batch)
{
    (void)context;
    uint64_t now = bench_real_us();
    size_t at = atomic_load(&heard.count);
    if (at < HEARD_MAX) {
        heard.rows[at].lsn = batch->lsn;
        heard.rows[at].host_us = now;
        atomic_store(&heard.count, at + 1);
    }
    return 0;
}

/* The first batch that reaches lsn told the host. Asked in rising order, so the search goes on where it stopped. */
static uint64_t host_time(uint64_t lsn)
{
    static size_t from;
    size_t count = atomic_load(&heard.count);
    while (from < count && heard.rows[from].lsn < lsn) from++;
    return from < count ? heard.rows[from].host_us : 0;
}

static void await(struct ms_node *node, uint64_t lsn)
{
    struct ms_position position;
    uint64_t start = bench_now_ns(), deadline = start + 120000000000u;
    for (;;) {
        if (ms_position(node, &position)) bench_die("position: %s", ms_error_message());
        if (position.applied >= lsn) return;
        if (bench_now_ns() > deadline) bench_die("the follower stays at %" PRIu64 " of %" PRIu64, position.applied, lsn);
        uint64_t now = bench_now_ns(), pause = (now - start) / 1000; /* as fine as what is timed wants it: looking takes the node's lock */
        bench_sleep_until(now + (pause < 100000 ? 100000 : pause > 2000000 ? 2000000 : pause));
    }
}

static void say_usage(uint64_t at_ns)
{
    struct bench_usage usage;
    struct rusage fine; /* finer than the ticks of /proc */
    bench_usage(0, &usage);
    getrusage(RUSAGE_SELF, &fine);
    double cpu = (double)(fine.ru_utime.tv_sec + fine.ru_stime.tv_sec) +
                 (double)(fine.ru_utime.tv_usec + fine.ru_stime.tv_usec) / 1e6;
    printf("at %" PRIu64 " %.6f %" PRIu64 "\n", at_ns, cpu, usage.rss);
}

static void obey(struct ms_node *node, char *line)
{
    uint64_t number, applied_us = 0;
    char address[32];
    line[strcspn(line, "\n")] = 0;
    if (sscanf(line, "follow %" SCNu64, &number) == 1) {
        snprintf(address, sizeof address, "127.0.0.1:%" PRIu64, number);
        if (ms_follow(node, address)) bench_die("follow: %s", ms_error_message());
        puts("ok");
    } else if (sscanf(line, "await %" SCNu64, &number) == 1) {
        await(node, number);
        say_usage(bench_now_ns());
    } else if (strcmp(line, "usage") == 0) {
        say_usage(bench_now_ns());
    } else if (strcmp(line, "sum") == 0) {
        printf("sum %" PRIu64 "\n", bench_table_sum(bench_table_open(node)));
    } else if (sscanf(line, "times %" SCNu64, &number) == 1) {
        if (ms_applied_at(node, number, &applied_us)) bench_die("applied_at: %s", ms_error_message());
        printf("times %" PRIu64 " %" PRIu64 "\n", applied_us, host_time(number));
    } else {
        bench_die("follower: unknown command: %s", line);
    }
    fflush(stdout);
}

int bench_follower_main(int argc, char **argv)
{
    char line[256];
    struct ms_host host = {.apply = apply};
    bool callback = bench_arg_number(argc, argv, "--callback", 0);
    struct ms_node *node =
        bench_node_open(bench_arg(argc, argv, "--dir", ""), (int)bench_arg_number(argc, argv, "--level", MS_LEVEL_OS), 0,
                        callback ? &host : NULL);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) obey(node, line);
    ms_close(node);
    return 0;
}
