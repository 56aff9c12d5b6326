/* What the bench programs share: the workload's keys and values, clocks, /proc readings, child processes, results.
 *
 * Every program prints its results as lines "name value" on stdout, which is all that run.lua reads of it; complaints go to
 * stderr. A bench program that meets an error ends with exit code 1: bench_die does that from anywhere. Children are tied to
 * their parent's life by the kernel, so whatever ends a program ends its servers too. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

enum { BENCH_KEY = 40, BENCH_VALUE = 100, BENCH_VALUE_SLACK = 256 };

void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *bench_alloc(size_t size); /* zeroed and touched, so that it is in every reading of resident memory from the start */

/* ---- clocks ------------------------------------------------------------------------------------------------------- */

uint64_t bench_now_ns(void);  /* monotonic; the same for all processes of the machine */
uint64_t bench_real_us(void); /* real time: what ms_applied_at speaks */
void bench_sleep_until(uint64_t monotonic_ns);

/* ---- the workload --------------------------------------------------------------------------------------------------- */

/* The key of number n: 40 bytes of text. */
void bench_key(char key[BENCH_KEY], uint32_t n);

/* xorshift128+: cheap enough not to show in what is measured. */
struct bench_random {
    uint64_t a, b;
};
void bench_random_init(struct bench_random *random, uint64_t seed);
uint64_t bench_random_next(struct bench_random *random);
uint32_t bench_random_below(struct bench_random *random, uint32_t bound);

/* 100 random bytes: a random place in 1 MiB of noise, so that making a value costs the caller nothing and no two are equal.
 * BENCH_VALUE_SLACK bytes from the place on are readable. */
void bench_values_init(void);
const char *bench_value(struct bench_random *random);

/* ---- the machine ------------------------------------------------------------------------------------------------------ */

/* The longest time, microseconds, that a bare thread takes within so many seconds for a piece of work of about 100 us, although it keeps its core
 * meanwhile (stall.c): what a virtual machine's host and the kernel's own work take from whoever runs, a holder of a lock too. */
double bench_stall_us(unsigned seconds);

/* ---- processes -------------------------------------------------------------------------------------------------------- */

struct bench_usage {
    double cpu_s;  /* user and system time of all its threads since it started, and of its reaped children */
    uint64_t rss;  /* resident bytes now */
    uint64_t peak; /* highest resident bytes since the last bench_peak_reset */
};
void bench_usage(pid_t pid, struct bench_usage *usage); /* pid 0: this process */
void bench_peak_reset(pid_t pid);

struct bench_child {
    pid_t pid;
    FILE *in, *out; /* to its stdin, from its stdout; NULL if not piped */
};
/* Starts argv[0]. piped: stdin and stdout are pipes to us; else they are /dev/null. It is killed when this process ends. */
void bench_spawn(struct bench_child *child, char *const argv[], bool piped);
void bench_stop(struct bench_child *child); /* closes its pipes, SIGTERM unless it was piped, waits; SIGKILL after 20 s */
void bench_tie_to_parent(void);             /* this process is ended by SIGTERM when its parent dies */

/* Sends one line to a piped child / reads one line of its answer, without the newline. */
void bench_tell(struct bench_child *child, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bench_hear(struct bench_child *child, char *line, size_t size);

void bench_mkdir(const char *path); /* and its parents */

/* ---- results ------------------------------------------------------------------------------------------------------------ */

void bench_result(const char *name, double value);

/* Samples in nanoseconds; taken by one thread. */
struct bench_samples {
    uint32_t *ns;
    size_t count, capacity;
};
void bench_samples_init(struct bench_samples *samples, size_t capacity);
void bench_samples_close(struct bench_samples *samples);
static inline void bench_sample(struct bench_samples *samples, uint64_t ns)
{
    if (samples->count < samples->capacity) samples->ns[samples->count++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns;
}
/* Sorts, then prints PREFIX_p50_us, _p99_us, _p999_us, _max_us. */
void bench_samples_report(struct bench_samples *samples, const char *prefix);

/* ---- arguments: "--name value" pairs -------------------------------------------------------------------------------------- */

const char *bench_arg(int argc, char **argv, const char *name, const char *fallback);
uint64_t bench_arg_number(int argc, char **argv, const char *name, uint64_t fallback);

#endif
