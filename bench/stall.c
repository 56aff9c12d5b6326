/* How long this machine stops a thread that has its core. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common.h"

enum { MEMORY = 64 << 20, PIECE_READS = 400 }; /* a piece takes 50 to 150 us: reads that miss the caches, as a walk over a table's */

static volatile uint64_t sink; /* so that the reads are not left out */

static long switches(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_THREAD, &usage)) bench_die("no usage of this thread");
    return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* The other core is not idle either. */
static void *keep_busy(void *context)
{
    char *memory = bench_alloc(MEMORY);
    while (!atomic_load((atomic_bool *)context)) memmove(memory, memory + MEMORY / 2, MEMORY / 2);
    free(memory);
    return NULL;
}

static uint64_t piece(const char *memory, struct bench_random *random, uint64_t *sum)
{
    uint64_t start = bench_now_ns();
    for (int i = 0; i < PIECE_READS; i++) *sum += (uint64_t)memory[bench_random_below(random, MEMORY)];
    return bench_now_ns() - start;
}

double bench_stall_us(unsigned seconds)
{
    char *memory = bench_alloc(MEMORY);
    struct bench_random random;
    pthread_t thread;
    atomic_bool stop = false;
    uint64_t longest = 0, sum = 0, end = bench_now_ns() + seconds * 1000000000ull;
    bench_random_init(&random, 3);
    if (pthread_create(&thread, NULL, keep_busy, &stop)) bench_die("no thread");
    while (bench_now_ns() < end) {
        long before = switches();
        uint64_t ns = piece(memory, &random, &sum);
        if (switches() == before && ns > longest) longest = ns;
    }
    atomic_store(&stop, true);
    (void)pthread_join(thread, NULL);
    free(memory);
    sink = sum;
    return (double)longest / 1e3;
}
