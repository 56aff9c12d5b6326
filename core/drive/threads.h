/* Threads, the two clocks, and two ways to wait: a condition with a deadline, and a parker.
 *
 * A parker is one thread's place to wait for one event, usually on its stack: the waker sets it once, the owner returns from
 * ms_parker_wait only after that or at the deadline. Unlike a condition it needs no lock to be woken, so that a group commit
 * that frees a hundred callers wakes exactly those, and does it after the node's lock is released. */
#ifndef MS_DRIVE_THREADS_H
#define MS_DRIVE_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MS_FOREVER UINT64_MAX /* a deadline that never comes */

uint64_t ms_clock_now(void);  /* monotonic, microseconds */
uint64_t ms_clock_real(void); /* since 1970, microseconds */

/* now + timeout_ms; MS_FOREVER for a negative timeout. */
uint64_t ms_clock_deadline(int timeout_ms);

void ms_random(void *data, size_t size); /* from the system */

struct ms_thread {
    pthread_t id;
    bool started;
};

/* Starts fn(context) under a name of at most 15 bytes, with every signal blocked: signals are the host's. MS_E_MEMORY or
 * MS_E_LIMIT if the system gives no thread. */
int ms_thread_start(struct ms_thread *thread, const char *name, void *(*fn)(void *), void *context);
void ms_thread_join(struct ms_thread *thread); /* nothing if it was not started */

/* This thread works for microseconds at a time: it would rather run in short turns, and soon after it is woken, than wait for the tick
 * that ends the turn of whoever has the core. Its share of the processor, niceness and policy stay as they are. A wish; Linux heeds
 * it from 6.12 on. */
void ms_thread_be_prompt(void);

int ms_mutex_init(pthread_mutex_t *mutex);
int ms_cond_init(pthread_cond_t *cond); /* waits go by the monotonic clock */

/* Waits for a signal or the deadline (monotonic, microseconds); false at the deadline. May return true early. */
bool ms_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline);

/* Whether this thread kept its processor all the time since ms_core_watch, which costs next to nothing: for telling a long hold of a lock from a
 * short one in whose midst the system had other plans. Ends the watch, which every thread must do before it leaves the library: the kernel
 * reads what a watch names, also after a dlclose. True if the system can't tell (it needs Linux with restartable sequences, and glibc 2.35). */
void ms_core_watch(void);
bool ms_core_kept(void);

enum ms_parker_state { MS_PARKER_IDLE, MS_PARKER_SET, MS_PARKER_ASLEEP };

/* One breath of a thread that tries again soon. */
static inline void ms_pause(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb");
#endif
}

struct ms_parker {
    _Atomic uint32_t state;
};

void ms_parker_init(struct ms_parker *parker);

/* Returns true once the parker is set, false if the deadline comes first. */
bool ms_parker_wait(struct ms_parker *parker, uint64_t deadline);

/* Sets, and wakes if the owner sleeps: no system call if it does not. The owner may return and its stack may be gone before this
 * returns, which is harmless: only the address is used after the parker is set. */
void ms_parker_wake(struct ms_parker *parker);

#endif
