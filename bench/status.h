/* Numbers out of the library's JSON texts, for the programs that link it. */
#ifndef BENCH_STATUS_H
#define BENCH_STATUS_H

struct ms_node;

/* The number of the first field of that name, wherever it stands; -1 if there is none. */
double bench_number_in(const char *json, const char *field);
double bench_status_number(struct ms_node *node, const char *field); /* the same of ms_status */

/* The node's holds of its lock so far, and an upper bound (one of the status's) of the longest one since then by a thread that kept its
 * processor, microseconds. */
enum { BENCH_HOLD_BOUNDS = 7 };

struct bench_holds {
    double over[BENCH_HOLD_BOUNDS]; /* since the node's start */
};
void bench_holds(struct ms_node *node, struct bench_holds *holds);
double bench_longest_hold(struct ms_node *node, const struct bench_holds *since);

#endif
