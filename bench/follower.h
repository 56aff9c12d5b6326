/* The follower of a measurement: a child process that hosts one node, told what to do by lines on its stdin. */
#ifndef BENCH_FOLLOWER_H
#define BENCH_FOLLOWER_H

#include "../core/metasync.h"
#include "common.h"

/* A node on dir with one table policy ("bench" at `level`), listening on a loopback port. Dies on failure. joinable = 0: default
 * policy otherwise; else the number of entries that it will get, and then it keeps so little log that whoever joins later needs a
 * snapshot. */
struct ms_node *bench_node_open(const char *dir, int level, uint64_t joinable, const struct ms_host *host);

struct ms_table *bench_table_open(struct ms_node *node);

/* An order-free sum over all entries: equal tables give equal sums. */
uint64_t bench_table_sum(struct ms_table *table);

/* ---- the parent's side ---------------------------------------------------------------------------------------------- */

/* Starts `program follower` on dir (made). callback: with a host callback, so that it knows when the host heard of a change. */
void bench_follower_start(struct bench_child *child, const char *program, const char *dir, int level, bool callback);
void bench_follower_follow(struct bench_child *child, int port);

/* Returns when the follower has applied lsn: when that was (monotonic), and what it has used by then. */
void bench_follower_await(struct bench_child *child, uint64_t lsn, uint64_t *at_ns, struct bench_usage *usage);
uint64_t bench_follower_sum(struct bench_child *child);
void bench_follower_usage(struct bench_child *child, struct bench_usage *usage);

/* When lsn was applied, and when the host's callback was called with it: real time, microseconds. */
void bench_follower_times(struct bench_child *child, uint64_t lsn, uint64_t *applied_us, uint64_t *host_us);

/* ---- the child's side: main of the process ------------------------------------------------------------------------- */

int bench_follower_main(int argc, char **argv);

#endif
