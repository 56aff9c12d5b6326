/* See callers.h. */
#include "callers.h"

#include <pthread.h>

enum { THREADS_MAX = 8 };

struct caller {
    pthread_t thread;
    uint32_t id, threads, keys;
    uint64_t commits;
    bench_commit_fn commit;
    void *context;
    struct bench_samples samples;
};

static void *call(void *argument)
{
    struct caller *caller = argument;
    struct bench_random random;
    char key[BENCH_KEY];
    bench_random_init(&random, caller->id + 1);
    for (uint64_t i = 0; i < caller->commits; i++) {
        bench_key(key, bench_random_below(&random, caller->keys / caller->threads) * caller->threads + caller->id);
        const char *value = bench_value(&random);
        uint64_t start = bench_now_ns();
        caller->commit(caller->context, key, value);
        bench_sample(&caller->samples, bench_now_ns() - start);
    }
    return NULL;
}

void bench_callers_run(uint32_t threads, uint32_t keys, uint64_t commits, bench_commit_fn commit, void *context)
{
    static struct caller callers[THREADS_MAX];
    struct bench_samples all;
    if (threads < 1 || threads > THREADS_MAX) bench_die("1 to %d threads", THREADS_MAX);
    for (uint32_t i = 0; i < threads; i++) {
        callers[i] = (struct caller){
            .id = i, .threads = threads, .keys = keys, .commits = commits / threads, .commit = commit, .context = context};
        bench_samples_init(&callers[i].samples, callers[i].commits);
    }
    uint64_t start = bench_now_ns();
    for (uint32_t i = 0; i < threads; i++) {
        if (pthread_create(&callers[i].thread, NULL, call, &callers[i])) bench_die("no thread");
    }
    for (uint32_t i = 0; i < threads; i++) pthread_join(callers[i].thread, NULL);
    uint64_t end = bench_now_ns();
    bench_result("commits_per_s", (double)(commits / threads * threads) / ((double)(end - start) / 1e9));
    bench_samples_init(&all, commits);
    for (uint32_t i = 0; i < threads; i++) {
        for (size_t k = 0; k < callers[i].samples.count; k++) bench_sample(&all, callers[i].samples.ns[k]);
        bench_samples_close(&callers[i].samples);
    }
    bench_samples_report(&all, "commit");
    bench_samples_close(&all);
}
