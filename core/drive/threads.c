#include "threads.h"

#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if __GLIBC_PREREQ(2, 35)
#include <sys/rseq.h>
#endif

#include "../base/error.h"

enum { MICRO = 1000000, NANO_PER_MICRO = 1000 };

static uint64_t clock_us(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * MICRO + (uint64_t)t.tv_nsec / NANO_PER_MICRO;
}

uint64_t ms_clock_now(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

uint64_t ms_clock_real(void)
{
    return clock_us(CLOCK_REALTIME);
}

uint64_t ms_clock_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? MS_FOREVER : ms_clock_now() + (uint64_t)timeout_ms * 1000;
}

void ms_random(void *data, size_t size)
{
    uint8_t *at = data;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got <= 0) continue; /* interrupted */
        at += got;
        size -= (size_t)got;
    }
}

static struct timespec timespec_of(uint64_t us)
{
    return (struct timespec){(time_t)(us / MICRO), (long)(us % MICRO) * NANO_PER_MICRO};
}

int ms_thread_start(struct ms_thread *thread, const char *name, void *(*fn)(void *), void *context)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&thread->id, NULL, fn, context);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err) return ms_fail(MS_E_LIMIT, "no thread for %s: %s", name, strerror(err));
    (void)pthread_setname_np(thread->id, name);
    thread->started = true;
    return 0;
}

/* As <linux/sched/types.h> has it, which can't be included beside <sched.h>. */
struct sched_attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period; /* runtime: the length of a turn, nanoseconds, 0 = usual */
};

enum { PROMPT_NS = 100000 }; /* the least that is taken */

void ms_thread_be_prompt(void)
{
    struct sched_attributes attributes = {.size = 0};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) || attributes.policy != SCHED_OTHER) return;
    attributes.runtime = PROMPT_NS;
    (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void ms_thread_join(struct ms_thread *thread)
{
    if (!thread->started) return;
    (void)pthread_join(thread->id, NULL);
    thread->started = false;
}

int ms_mutex_init(pthread_mutex_t *mutex)
{
    /* Holds are shorter than a switch of threads, so that a few turns of waiting beat going to sleep. */
    pthread_mutexattr_t attributes;
    (void)pthread_mutexattr_init(&attributes);
    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    int err = pthread_mutex_init(mutex, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
    return err ? ms_fail(MS_E_MEMORY, "no mutex: %s", strerror(err)) : 0;
}

int ms_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int err = pthread_cond_init(cond, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return err ? ms_fail(MS_E_MEMORY, "no condition: %s", strerror(err)) : 0;
}

bool ms_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, uint64_t deadline)
{
    if (deadline == MS_FOREVER) return pthread_cond_wait(cond, mutex) == 0;
    struct timespec until = timespec_of(deadline);
    return pthread_cond_timedwait(cond, mutex, &until) == 0;
}

void ms_parker_init(struct ms_parker *parker)
{
    atomic_init(&parker->state, MS_PARKER_IDLE);
}

bool ms_parker_wait(struct ms_parker *parker, uint64_t deadline)
{
    struct timespec until = timespec_of(deadline == MS_FOREVER ? 0 : deadline);
    for (;;) {
        uint32_t state = MS_PARKER_IDLE;
        (void)atomic_compare_exchange_strong(&parker->state, &state, MS_PARKER_ASLEEP);
        if (state == MS_PARKER_SET) return true;
        if (deadline != MS_FOREVER && ms_clock_now() >= deadline) return false;
        /* With FUTEX_WAIT_BITSET the time is a point on the monotonic clock. */
        (void)syscall(SYS_futex, &parker->state, FUTEX_WAIT_BITSET_PRIVATE, MS_PARKER_ASLEEP, deadline == MS_FOREVER ? NULL : &until,
                      NULL, FUTEX_BITSET_MATCH_ANY);
    }
}

void ms_parker_wake(struct ms_parker *parker)
{
    if (atomic_exchange(&parker->state, MS_PARKER_SET) != MS_PARKER_ASLEEP) return;
    (void)syscall(SYS_futex, &parker->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- the processor ------------------------------------------------------------------------------------------------------------ */

#ifdef RSEQ_SIG

/* Each thread has an area in which it may name a restartable sequence: instructions that the kernel starts anew if it took the processor from
 * the thread within them. If it did so elsewhere, it takes the name away, and that is all that we want: ours is a sequence in which
 * no thread ever is. */
static const struct {
    uint32_t signature, after; /* the kernel wants to see the signature before the address that it would go on at */
} landing = {RSEQ_SIG, 0};

static const struct rseq_cs nowhere __attribute__((aligned(32))) = {
    .start_ip = (uintptr_t)&landing, .post_commit_offset = 1, .abort_ip = (uintptr_t)&landing.after};

/* The kernel changes it at any time, seen from this thread. */
static volatile uint64_t *sequence(void)
{
    struct rseq *area = (struct rseq *)(void *)((char *)__builtin_thread_pointer() + __rseq_offset);
    return (volatile uint64_t *)(void *)&area->rseq_cs;
}

void ms_core_watch(void)
{
    if (__rseq_size) *sequence() = (uintptr_t)&nowhere;
}

bool ms_core_kept(void)
{
    if (!__rseq_size) return true;
    bool kept = *sequence() != 0; /* or it is another one by now: somebody else's in this process */
    if (*sequence() == (uintptr_t)&nowhere) *sequence() = 0;
    return kept;
}

#else

void ms_core_watch(void)
{
}

bool ms_core_kept(void)
{
    return true;
}

#endif
