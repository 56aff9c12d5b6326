/* A lock with a bounded wait by the monotonic clock: one thread at a time runs a policy. */
#ifndef MS_LUA_GATE_H
#define MS_LUA_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define MS_GATE_FOREVER UINT64_MAX

/* `mutex` is only held for a few instructions, never while somebody is inside: it also guards small things that others may read. */
struct ms_gate {
    pthread_mutex_t mutex;
    pthread_cond_t freed;
    bool occupied;
    uint32_t waiting;
};

int ms_gate_init(struct ms_gate *gate); /* MS_E_MEMORY */
void ms_gate_close(struct ms_gate *gate);

/* false: somebody else was inside for all of wait_us. */
bool ms_gate_enter(struct ms_gate *gate, uint64_t wait_us);
void ms_gate_leave(struct ms_gate *gate);

#endif
