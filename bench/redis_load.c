/* The peer's side of the benchmark: the same measurements as node.c, on a Redis master and its replica.
 *
 *      redis_load update   --conf FILE --dir DIR [--keys N --updates N --window N --connections N]
 *      redis_load latency  --conf FILE --dir DIR [--keys N --rate N --seconds N --push events|monitor]
 *      redis_load join     --conf FILE --dir DIR [--entries N]
 *
 * CPU seconds are those of the two servers; the client's own are printed apart and not counted, although our own caller sits
 * inside the process and is counted. Both that and switching off Redis's log rewriting (see the .conf files) favour Redis. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "redis_client.h"

static struct redis_server master, replica;
static struct redis_pipe pipeline;

static void start_both(const char *conf, const char *dir)
{
    char path[512], words[128], text[64];
    struct redis_connection c;
    snprintf(path, sizeof path, "%s/master", dir);
    redis_start(&master, conf, path);
    snprintf(path, sizeof path, "%s/replica", dir);
    redis_start(&replica, conf, path);
    redis_connect(&c, replica.port);
    snprintf(words, sizeof words, "REPLICAOF 127.0.0.1 %d", master.port);
    redis_command(&c, words, text, sizeof text);
    uint64_t deadline = bench_now_ns() + 20000000000u;
    do {
        if (bench_now_ns() > deadline) bench_die("the replica does not come up");
        bench_sleep_until(bench_now_ns() + 5000000);
        redis_info(&c, "master_link_status", text, sizeof text);
    } while (strcmp(text, "up") != 0);
    redis_close(&c);
}

/* Returns when the replica has executed all that the master has: WAIT makes the master ask it at once. It is about what
 * the master had when this connection's command before it ended, hence the PING. */
static void await_replica(struct redis_connection *to_master)
{
    char text[64];
    redis_command(to_master, "PING", text, sizeof text);
    if (redis_number(to_master, "WAIT 1 60000") != 1) bench_die("the replica does not catch up");
}

static void check_equal(struct redis_connection *to_master, uint64_t keys)
{
    struct redis_connection to_replica;
    redis_connect(&to_replica, replica.port);
    long long here = redis_number(to_master, "DBSIZE"), there = redis_number(&to_replica, "DBSIZE");
    long long sent = redis_info_number(to_master, "master_repl_offset"),
              got = redis_info_number(&to_replica, "slave_repl_offset");
    redis_close(&to_replica);
    if (here != (long long)keys || there != here)
        bench_die("%lld and %lld keys instead of %llu", here, there, (unsigned long long)keys);
    if (got < sent - 1000)
        bench_die("the replica is at %lld, the master at %lld", got, sent); /* pings may be on their way */
}

/* Loads all keys and waits for the replica, if there is one. */
static void load(struct redis_connection *to_master, uint32_t keys, uint32_t window, struct bench_random *random,
                 bool replicated)
{
    redis_pipe_open(&pipeline, master.port, 1, window);
    redis_pipe_run(&pipeline, keys, keys, true, random);
    redis_pipe_close(&pipeline);
    if (replicated) await_replica(to_master);
}

static void update(int argc, char **argv)
{
    uint32_t keys = (uint32_t)bench_arg_number(argc, argv, "--keys", 100000);
    uint32_t window = (uint32_t)bench_arg_number(argc, argv, "--window", 2000);
    uint64_t updates = bench_arg_number(argc, argv, "--updates", 1000000);
    struct redis_connection c;
    struct bench_random random;
    bench_random_init(&random, 1);
    start_both(bench_arg(argc, argv, "--conf", ""), bench_arg(argc, argv, "--dir", ""));
    redis_connect(&c, master.port);
    load(&c, keys, window, &random, true);

    redis_pipe_open(&pipeline, master.port, (uint32_t)bench_arg_number(argc, argv, "--connections", 1), window);
    struct bench_usage before[3], after[3];
    pid_t pids[3] = {master.child.pid, replica.child.pid, 0};
    long long offset = redis_info_number(&c, "master_repl_offset");
    for (int i = 0; i < 3; i++) bench_usage(pids[i], &before[i]);
    uint64_t start = bench_now_ns();
    redis_pipe_run(&pipeline, updates, keys, false, &random);
    uint64_t answered = bench_now_ns();
    await_replica(&c);
    uint64_t end = bench_now_ns();
    for (int i = 0; i < 3; i++) bench_usage(pids[i], &after[i]);
    long long wire = redis_info_number(&c, "master_repl_offset") - offset;
    redis_pipe_close(&pipeline);
    check_equal(&c, keys);
    redis_close(&c);

    double million = (double)updates / 1e6;
    bench_result("updates_per_s", (double)updates / ((double)(end - start) / 1e9));
    bench_result("answered_per_s", (double)updates / ((double)(answered - start) / 1e9));
    bench_result("cpu_s_leader", (after[0].cpu_s - before[0].cpu_s) / million);
    bench_result("cpu_s_follower", (after[1].cpu_s - before[1].cpu_s) / million);
    bench_result("cpu_s", (after[0].cpu_s - before[0].cpu_s + after[1].cpu_s - before[1].cpu_s) / million);
    bench_result("cpu_s_client", (after[2].cpu_s - before[2].cpu_s) / million);
    bench_result("wire_bytes", (double)wire / (double)updates);
}

/* ---- latency ------------------------------------------------------------------------------------------------------- */

struct listener {
    struct redis_connection c;
    const char *mark;  /* occurs once in each message */
    uint64_t *seen_ns; /* by update */
    uint64_t count, want;
};

/* Reads what the replica pushes: the n-th message is about the n-th update. */
static void *listen_pushed(void *argument)
{
    struct listener *l = argument;
    size_t length = strlen(l->mark);
    while (l->count < l->want) {
        ssize_t got = read(l->c.fd, l->c.in + l->c.have, sizeof l->c.in - l->c.have);
        uint64_t now = bench_now_ns();
        if (got <= 0) bench_die("the replica closed the connection that it pushes to");
        l->c.have += (size_t)got;
        char *at, *from = l->c.in;
        while (l->count < l->want && (at = memmem(from, l->c.have - (size_t)(from - l->c.in), l->mark, length))) {
            l->seen_ns[l->count++] = now;
            from = at + length;
        }
        size_t done = (size_t)(from - l->c.in);
        memmove(l->c.in, from, l->c.have - done);
        l->c.have -= done;
    }
    return NULL;
}

static void listener_start(struct listener *l, const char *push, uint64_t want)
{
    char text[256];
    redis_connect(&l->c, replica.port);
    if (strcmp(push, "monitor") == 0) {
        l->mark = "\"SET\"";
        redis_command(&l->c, "MONITOR", text, sizeof text);
    } else {
        l->mark = "pmessage"; /* one word of each message, and of nothing else in it */
        redis_command(&l->c, "CONFIG SET notify-keyspace-events E$", text, sizeof text);
        redis_command(&l->c, "PSUBSCRIBE __keyevent@0__:set", text, sizeof text); /* *3, then three parts */
        for (int i = 0; i < 3; i++) redis_reply(&l->c, text, sizeof text);
    }
    l->want = want;
    l->seen_ns = bench_alloc(want * sizeof *l->seen_ns);
}

static void latency(int argc, char **argv)
{
    uint32_t keys = (uint32_t)bench_arg_number(argc, argv, "--keys", 100000);
    uint64_t rate = bench_arg_number(argc, argv, "--rate", 500);
    uint64_t count = rate * bench_arg_number(argc, argv, "--seconds", 5);
    static struct listener listener;
    struct redis_connection c;
    struct bench_random random;
    struct bench_samples samples;
    pthread_t thread;
    char command[REDIS_SET], text[64];
    bench_random_init(&random, 2);
    start_both(bench_arg(argc, argv, "--conf", ""), bench_arg(argc, argv, "--dir", ""));
    redis_connect(&c, master.port);
    load(&c, keys, 2000, &random, true);
    listener_start(&listener, bench_arg(argc, argv, "--push", "events"), count);
    if (pthread_create(&thread, NULL, listen_pushed, &listener)) bench_die("no thread");

    uint64_t *called_ns = bench_alloc(count * sizeof *called_ns), next = bench_now_ns() + 100000000;
    for (uint64_t i = 0; i < count; i++, next += 1000000000u / rate) {
        redis_set(command, bench_random_below(&random, keys), bench_value(&random));
        bench_sleep_until(next);
        called_ns[i] = bench_now_ns();
        if (write(c.fd, command, sizeof command) != (ssize_t)sizeof command) bench_die("write to redis");
        if (redis_reply(&c, text, sizeof text) != '+') bench_die("redis: %s", text);
    }
    pthread_join(thread, NULL);
    bench_samples_init(&samples, count);
    for (uint64_t i = 0; i < count; i++) bench_sample(&samples, listener.seen_ns[i] - called_ns[i]);
    bench_samples_report(&samples, "applied");
}

/* ---- join ---------------------------------------------------------------------------------------------------------- */

static double start_replica_and_join(const char *conf, const char *dir, uint64_t entries)
{
    char path[512], words[128], text[64];
    struct redis_connection c;
    snprintf(path, sizeof path, "%s/replica", dir);
    redis_start(&replica, conf, path);
    redis_connect(&c, replica.port);
    snprintf(words, sizeof words, "REPLICAOF 127.0.0.1 %d", master.port);
    uint64_t start = bench_now_ns();
    redis_command(&c, words, text, sizeof text);
    do {
        if (bench_now_ns() - start > 120000000000u) bench_die("the replica does not come up");
        bench_sleep_until(bench_now_ns() + 2000000);
        redis_info(&c, "master_link_status", text, sizeof text);
    } while (strcmp(text, "up") != 0);
    uint64_t end = bench_now_ns();
    if (redis_number(&c, "DBSIZE") != (long long)entries) bench_die("the replica came up without all keys");
    redis_close(&c);
    return (double)(end - start) / 1e9;
}

static void join(int argc, char **argv)
{
    uint32_t entries = (uint32_t)bench_arg_number(argc, argv, "--entries", 1000000);
    const char *conf = bench_arg(argc, argv, "--conf", ""), *dir = bench_arg(argc, argv, "--dir", "");
    char path[512];
    struct redis_connection c;
    struct bench_random random;
    struct bench_usage empty, full, after, fresh;
    bench_random_init(&random, 3);
    snprintf(path, sizeof path, "%s/master", dir);
    redis_start(&master, conf, path);
    bench_usage(master.child.pid, &empty);
    redis_connect(&c, master.port);
    load(&c, entries, 2000, &random, false);
    bench_usage(master.child.pid, &full);
    bench_peak_reset(master.child.pid);
    double join_s = start_replica_and_join(conf, dir, entries);
    bench_usage(master.child.pid, &after);
    bench_usage(replica.child.pid, &fresh);
    redis_close(&c);

    bench_result("entry_bytes_leader", (double)(full.rss - empty.rss) / entries);
    bench_result("entry_bytes_follower", (double)(fresh.rss - empty.rss) / entries);
    bench_result("join_s", join_s);
    bench_result("leader_growth_mib", ((double)after.peak - (double)full.rss) / 1048576.0);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    bench_tie_to_parent();
    bench_values_init();
    if (strcmp(mode, "update") == 0) {
        update(argc, argv);
    } else if (strcmp(mode, "latency") == 0) {
        latency(argc, argv);
    } else if (strcmp(mode, "join") == 0) {
        join(argc, argv);
    } else {
        bench_die("usage: redis_load update|latency|join --conf FILE --dir DIR ...");
    }
    redis_stop(&replica);
    redis_stop(&master);
    bench_result("complete", 1);
    return 0;
}
