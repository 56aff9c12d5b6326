/* Threads that commit as fast as they can, timing each call: the same for our `memory` commits and for the bare loop. */
#ifndef BENCH_CALLERS_H
#define BENCH_CALLERS_H

#include "common.h"

typedef void (*bench_commit_fn)(void *context, const char key[BENCH_KEY], const char *value);

/* `commits` calls in all, shared by the threads, each thread on keys of its own. Returns when all are done and prints
 * commits_per_s and the calls' percentiles. */
void bench_callers_run(uint32_t threads, uint32_t keys, uint64_t commits, bench_commit_fn commit, void *context);

#endif
