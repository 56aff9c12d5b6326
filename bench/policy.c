/* What policies cost, through the public API.
 *
 *      policy commit  --dir DIR [--keys N --commits N]    commits of entries that exist: without rules, with patterns, with a filter
 *      policy first   --dir DIR [--keys N]                the first put of each key, without rules and with a filter
 *      policy reload  --dir DIR [--entries N]             one reload of each kind while another thread puts
 *      policy replay  --dir DIR [--keys N --commits N --conflicts N]   a recorded log and its conflicts through a declarative policy, and
 *                                                         through a filter and a resolver
 *
 * Where two things are compared they alternate in short slices of one run. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../core/metasync.h"
#include "common.h"
#include "status.h"

enum { KINDS = 3, SLICE = 10000 };

/* The patterns and the filter let every key of the workload in; the reload's let one in twenty leave. */
static const char *const kinds[KINDS] = {"plain", "patterns", "filter"};
static const char *const texts[KINDS] = {
    "return { name = 'plain', ack = 'memory' }\n",
    "return { name = 'patterns', ack = 'memory', replicate = { exclude = { bench = { 'tmp-*', '*.bak', 'x?y*z' } } } }\n",
    "local policy = { name = 'filter', ack = 'memory' }\n"
    "function policy.filter(entry) return not entry.key:find('^tmp%-') end\n"
    "return policy\n",
};
static const char *const leaving[] = {
    "return { name = 'patterns', ack = 'memory', replicate = { exclude = { bench = { '*7' } } }, reload = { leave = '100%' } }\n",
    "local policy = { name = 'filter', ack = 'memory', reload = { leave = '100%' } }\n"
    "function policy.filter(entry) return not entry.key:find('33$') end\n"
    "return policy\n",
};
static const char resolving[] = "local policy = { name = 'functions', ack = 'memory' }\n"
                                "function policy.filter(entry) return not entry.key:find('^tmp%-') end\n"
                                "function policy.resolve(conflict) return conflict.mine > conflict.theirs and conflict.mine or conflict.theirs end\n"
                                "return policy\n";

static void write_text(char path[512], const char *dir, const char *name, const char *text)
{
    snprintf(path, 512, "%s/%s.lua", dir, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file)) bench_die("can't write %s", path);
}

struct side {
    struct ms_node *node;
    struct ms_table *table;
};

static void open_side(struct side *side, const char *dir, const char *name, const char *policy_file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    bench_mkdir(path);
    struct ms_config config = {.dir = path, .cluster = "bench", .policy_file = policy_file};
    if (ms_open(&config, &side->node)) bench_die("open %s: %s", path, ms_error_message());
    if (ms_lead(side->node, NULL, 0, 10000)) bench_die("lead: %s", ms_error_message());
    if (ms_table_open(side->node, "bench", MS_TYPE_BYTES, &side->table)) bench_die("table: %s", ms_error_message());
}

static void put(struct side *side, struct bench_random *random, uint32_t number)
{
    char key[BENCH_KEY];
    bench_key(key, number);
    if (ms_put(side->table, (struct ms_bytes){key, sizeof key}, (struct ms_bytes){bench_value(random), BENCH_VALUE}, MS_NOWAIT, NULL) < 0)
        bench_die("put: %s", ms_error_message());
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return values[count / 2];
}

/* ---- commit ------------------------------------------------------------------------------------------------------------------- */

static double slice_ns(struct side *side, struct bench_random *random, uint32_t keys)
{
    uint64_t start = bench_now_ns();
    for (int i = 0; i < SLICE; i++) put(side, random, bench_random_below(random, keys));
    return (double)(bench_now_ns() - start) / SLICE;
}

static void commit(int argc, char **argv)
{
    const char *dir = bench_arg(argc, argv, "--dir", "");
    uint32_t keys = (uint32_t)bench_arg_number(argc, argv, "--keys", 100000);
    size_t slices = (size_t)bench_arg_number(argc, argv, "--commits", 1000000) / SLICE;
    struct side sides[KINDS];
    struct bench_random random;
    double *ns[KINDS], *ratios[KINDS];
    bench_random_init(&random, 1);
    for (int k = 0; k < KINDS; k++) {
        char path[512];
        write_text(path, dir, kinds[k], texts[k]);
        open_side(&sides[k], dir, kinds[k], path);
        for (uint32_t i = 0; i < keys; i++) put(&sides[k], &random, i);
        ns[k] = bench_alloc(slices * sizeof *ns[k]);
        ratios[k] = bench_alloc(slices * sizeof *ratios[k]);
    }
    for (size_t s = 0; s < slices; s++) {
        for (int k = 0; k < KINDS; k++) {
            int turn = s % 2 ? KINDS - 1 - k : k;
            ns[turn][s] = slice_ns(&sides[turn], &random, keys);
        }
        for (int k = 0; k < KINDS; k++) ratios[k][s] = ns[k][s] / ns[0][s];
    }
    bench_result("commit_patterns_ratio", median(ratios[1], slices));
    bench_result("commit_filter_ratio", median(ratios[2], slices));
    bench_result("commit_plain_ns", median(ns[0], slices));
    bench_result("commit_patterns_ns", median(ns[1], slices));
    bench_result("commit_filter_ns", median(ns[2], slices));
    for (int k = 0; k < KINDS; k++) {
        ms_close(sides[k].node);
        free(ns[k]);
        free(ratios[k]);
    }
}

/* ---- first ---------------------------------------------------------------------------------------------------------------------- */

static void first(int argc, char **argv)
{
    const char *dir = bench_arg(argc, argv, "--dir", "");
    uint32_t keys = (uint32_t)bench_arg_number(argc, argv, "--keys", 100000);
    struct side sides[2];
    struct bench_samples samples[2];
    struct bench_random random;
    bench_random_init(&random, 1);
    for (int k = 0; k < 2; k++) {
        char path[512];
        write_text(path, dir, kinds[2 * k], texts[2 * k]);
        open_side(&sides[k], dir, kinds[2 * k], path);
        bench_samples_init(&samples[k], keys);
    }
    for (uint32_t i = 0; i < keys; i++) {
        for (int k = 0; k < 2; k++) {
            uint64_t start = bench_now_ns();
            put(&sides[k], &random, i);
            bench_sample(&samples[k], bench_now_ns() - start);
        }
    }
    bench_samples_report(&samples[0], "first_plain");
    bench_samples_report(&samples[1], "first_filter");
    for (int k = 0; k < 2; k++) {
        bench_samples_close(&samples[k]);
        ms_close(sides[k].node);
    }
}

/* ---- reload --------------------------------------------------------------------------------------------------------------------- */

struct caller {
    struct side *side;
    uint32_t keys;
    atomic_bool stop;
    uint64_t longest_ns;
};

/* Puts now and then, as a broker does, and remembers how long the longest took. */
static void *call(void *context)
{
    struct caller *caller = context;
    struct bench_random random;
    bench_random_init(&random, 7);
    for (uint64_t next = bench_now_ns(); !atomic_load(&caller->stop); next += 200000) {
        uint64_t start = bench_now_ns();
        put(caller->side, &random, bench_random_below(&random, caller->keys));
        uint64_t took = bench_now_ns() - start;
        if (took > caller->longest_ns) caller->longest_ns = took;
        bench_sleep_until(next + 200000);
    }
    return NULL;
}

/* Another thread that wants a core, as the one that runs the rules does, but never the lock. */
static void *work(void *context)
{
    struct bench_random random;
    bench_random_init(&random, 9);
    while (!atomic_load((atomic_bool *)context))
        if (bench_random_below(&random, 1u << 30) == UINT32_MAX) bench_die("a number that can't be");
    return NULL;
}

/* The same load for some seconds with no reload: what the longest hold is then. */
static void no_reload(struct side *side, uint32_t entries, unsigned seconds)
{
    struct caller caller = {.side = side, .keys = entries};
    struct bench_holds holds;
    atomic_bool stop = false;
    pthread_t thread, worker;
    bench_holds(side->node, &holds);
    if (pthread_create(&thread, NULL, call, &caller) || pthread_create(&worker, NULL, work, &stop)) bench_die("no thread");
    bench_sleep_until(bench_now_ns() + seconds * 1000000000ull);
    atomic_store(&caller.stop, true);
    atomic_store(&stop, true);
    (void)pthread_join(thread, NULL);
    (void)pthread_join(worker, NULL);
    bench_result("no_reload_lock_us", bench_longest_hold(side->node, &holds));
}

static bool reviewing(struct ms_node *node)
{
    char *json;
    if (ms_policy_show(node, &json)) bench_die("policy: %s", ms_error_message());
    bool running = strstr(json, "\"running\":true") != NULL;
    ms_free(json);
    return running;
}

/* One reload under load, from the order to the last entry that left. */
static void reload_once(struct side *side, const char *dir, const char *kind, const char *text, uint32_t entries)
{
    char path[512], name[64], *report;
    struct caller caller = {.side = side, .keys = entries};
    pthread_t thread;
    uint64_t before = ms_table_count(side->table);
    write_text(path, dir, kind, text);
    if (pthread_create(&thread, NULL, call, &caller)) bench_die("no thread");
    uint64_t start = bench_now_ns();
    if (ms_policy_reload(side->node, path, MS_POLICY_FORCE, &report)) bench_die("reload: %s", ms_error_message());
    uint64_t swapped = bench_now_ns();
    ms_free(report);
    while (reviewing(side->node)) usleep(10000);
    uint64_t end = bench_now_ns();
    atomic_store(&caller.stop, true);
    (void)pthread_join(thread, NULL);
    if (ms_table_count(side->table) >= before) bench_die("nothing left the view");
    snprintf(name, sizeof name, "reload_%s_s", kind);
    bench_result(name, (double)(end - start) / 1e9);
    snprintf(name, sizeof name, "reload_%s_order_s", kind);
    bench_result(name, (double)(swapped - start) / 1e9);
    snprintf(name, sizeof name, "reload_%s_call_us", kind);
    bench_result(name, (double)caller.longest_ns / 1e3);
}

static void reload(int argc, char **argv)
{
    const char *dir = bench_arg(argc, argv, "--dir", "");
    uint32_t entries = (uint32_t)bench_arg_number(argc, argv, "--entries", 1000000);
    char path[512];
    struct side side;
    struct bench_random random;
    struct bench_holds holds;
    bench_random_init(&random, 1);
    write_text(path, dir, kinds[0], texts[0]);
    open_side(&side, dir, "reload", path);
    for (uint32_t i = 0; i < entries; i++) put(&side, &random, i);
    ms_close(side.node);
    open_side(&side, dir, "reload", path); /* anew, so that snapshots of the loading don't go on */
    no_reload(&side, entries, 4);
    bench_holds(side.node, &holds);
    reload_once(&side, dir, kinds[1], leaving[0], entries);
    reload_once(&side, dir, kinds[2], leaving[1], entries);
    bench_result("reload_lock_us", bench_longest_hold(side.node, &holds));
    bench_result("stall_us", bench_stall_us(5));
    ms_close(side.node);
}

/* ---- replay --------------------------------------------------------------------------------------------------------------------- */

/* The host's copy of every key is another one than the log's, so that each is a conflict; the log wins, and stays as it is. */
static void conflict_all(struct side *side, struct bench_random *random, uint32_t keys)
{
    struct ms_host_copy about = {.version = -1};
    struct ms_compare_result result;
    struct ms_compare *compare;
    char key[BENCH_KEY];
    if (ms_compare_begin(side->table, &about, &compare)) bench_die("compare: %s", ms_error_message());
    for (uint32_t i = 0; i < keys; i++) {
        bench_key(key, i);
        struct ms_bytes value = {bench_value(random), BENCH_VALUE};
        if (ms_compare_entry(compare, (struct ms_bytes){key, sizeof key}, value)) bench_die("compare: %s", ms_error_message());
    }
    if (ms_compare_end(compare, &result)) bench_die("compare: %s", ms_error_message());
    if (result.different != keys || result.kept_log != keys)
        bench_die("%" PRIu64 " of %" PRIu32 " entries are conflicts that the log won", result.kept_log, keys);
}

/* `commits` changes of `keys` keys, all of them named at first, then at least `conflicts` conflicts in the loss reports beside the log. */
static void record(const char *dir, uint32_t keys, uint64_t commits, uint64_t conflicts)
{
    char path[512];
    struct side side;
    struct bench_random random;
    bench_random_init(&random, 1);
    write_text(path, dir, kinds[0], "return { name = 'recorded', ack = 'memory', snapshot = { every = '1h', log_bytes = '16GiB' } }\n");
    open_side(&side, dir, "log", path);
    for (uint64_t i = 0; i < commits; i++) put(&side, &random, i < keys ? (uint32_t)i : bench_random_below(&random, keys));
    for (uint64_t made = 0; made < conflicts; made += keys) conflict_all(&side, &random, keys);
    ms_close(side.node);
}

/* How often a function of the policy was called, by the report of a replay. */
static double calls_of(const char *report, const char *function)
{
    char name[64];
    snprintf(name, sizeof name, "\"name\":\"%s\",", function);
    const char *at = strstr(report, name);
    return at ? bench_number_in(at, "calls") : 0;
}

/* One replay of everything, from loading the policy to its report. */
static void replay_once(const char *dir, const char *log, const char *name, const char *text)
{
    char path[512], metric[64], *report;
    write_text(path, dir, name, text);
    uint64_t start = bench_now_ns();
    if (ms_policy_replay(path, NULL, log, &report)) bench_die("replay: %s", ms_error_message());
    double seconds = (double)(bench_now_ns() - start) / 1e9, conflicts = bench_number_in(report, "conflicts");
    if (bench_number_in(report, "conflicts_unusable") > 0 || bench_number_in(report, "incidents") > 0)
        bench_die("replay %s: conflicts that can't be used, or incidents", name);
    const struct {
        const char *name;
        double value;
    } results[] = {
        {"per_s", (bench_number_in(report, "changes") + conflicts) / seconds},
        {"log_per_s", bench_number_in(report, "changes_per_second")},
        {"conflicts", conflicts},
        {"filter_calls", calls_of(report, "filter")},
        {"resolve_calls", calls_of(report, "resolve")},
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        snprintf(metric, sizeof metric, "replay_%s_%s", name, results[i].name);
        bench_result(metric, results[i].value);
    }
    ms_free(report);
}

static void replay(int argc, char **argv)
{
    const char *dir = bench_arg(argc, argv, "--dir", "");
    uint32_t keys = (uint32_t)bench_arg_number(argc, argv, "--keys", 100000);
    uint64_t commits = bench_arg_number(argc, argv, "--commits", 1000000);
    char log[512];
    snprintf(log, sizeof log, "%s/log", dir);
    record(dir, keys, commits, 0);
    replay_once(dir, log, "declarative", texts[1]);
    record(dir, keys, keys, bench_arg_number(argc, argv, "--conflicts", commits / 2));
    replay_once(dir, log, "conflicts", texts[1]);
    replay_once(dir, log, "functions", resolving);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    bench_values_init();
    if (strcmp(what, "commit") == 0) commit(argc, argv);
    else if (strcmp(what, "first") == 0) first(argc, argv);
    else if (strcmp(what, "reload") == 0) reload(argc, argv);
    else if (strcmp(what, "replay") == 0) replay(argc, argv);
    else bench_die("policy: commit, first, reload or replay, not '%s'", what);
    bench_result("complete", 1);
    return 0;
}
