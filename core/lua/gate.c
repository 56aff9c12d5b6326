/* A lock with a bounded wait. */
#include "gate.h"

#include <errno.h>
#include <time.h>

#include "../base/error.h"

int ms_gate_init(struct ms_gate *gate)
{
    *gate = (struct ms_gate){0};
    pthread_condattr_t attributes;
    if (pthread_mutex_init(&gate->mutex, NULL)) return ms_fail(MS_E_MEMORY, "no mutex for a policy");
    int rc = pthread_condattr_init(&attributes);
    if (!rc) {
        (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        rc = pthread_cond_init(&gate->freed, &attributes);
        (void)pthread_condattr_destroy(&attributes);
    }
    if (!rc) return 0;
    (void)pthread_mutex_destroy(&gate->mutex);
    return ms_fail(MS_E_MEMORY, "no condition for a policy");
}

void ms_gate_close(struct ms_gate *gate)
{
    (void)pthread_cond_destroy(&gate->freed);
    (void)pthread_mutex_destroy(&gate->mutex);
}

static struct timespec deadline_after(uint64_t wait_us)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    uint64_t ns = (uint64_t)at.tv_nsec + wait_us % 1000000 * 1000;
    at.tv_sec += (time_t)(wait_us / 1000000 + ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

bool ms_gate_enter(struct ms_gate *gate, uint64_t wait_us)
{
    (void)pthread_mutex_lock(&gate->mutex);
    if (gate->occupied && wait_us) {
        struct timespec deadline = {0};
        if (wait_us != MS_GATE_FOREVER) deadline = deadline_after(wait_us);
        gate->waiting++;
        int rc = 0;
        while (gate->occupied && rc != ETIMEDOUT) {
            rc = wait_us == MS_GATE_FOREVER ? pthread_cond_wait(&gate->freed, &gate->mutex)
                                            : pthread_cond_timedwait(&gate->freed, &gate->mutex, &deadline);
        }
        gate->waiting--;
    }
    bool entered = !gate->occupied;
    gate->occupied = true;
    (void)pthread_mutex_unlock(&gate->mutex);
    return entered;
}

void ms_gate_leave(struct ms_gate *gate)
{
    (void)pthread_mutex_lock(&gate->mutex);
    gate->occupied = false;
    if (gate->waiting) (void)pthread_cond_signal(&gate->freed);
    (void)pthread_mutex_unlock(&gate->mutex);
}
