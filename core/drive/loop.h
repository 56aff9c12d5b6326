/* The loop thread: one libevent base, a wake-up descriptor, and one precise timer.
 *
 * A turn is: handle what the sockets had (callbacks of links), then turn(context), which runs the node's engine and performs
 * its effects, then sleep. Whether to sleep is decided under the node's lock by turn's caller's rules (see node_io.c); the loop
 * only offers the means: a wake-up written while it sleeps ends the sleep, one written before it sleeps prevents it.
 *
 * The timer is a timerfd on the monotonic clock, so that it is exact below a millisecond and no change of the wall clock moves
 * it. */
#ifndef MS_DRIVE_LOOP_H
#define MS_DRIVE_LOOP_H

#include <stdatomic.h>

#include "threads.h"

struct event;
struct event_base;

/* Returns true if it wants to come round again without sleeping. */
typedef bool (*ms_turn_fn)(void *context);

struct ms_loop {
    struct event_base *base;
    struct event *wake_event, *timer_event;
    int wake_fd, timer_fd; /* -1 = none */
    uint64_t armed;        /* what the timer is set to, MS_FOREVER = nothing */
    ms_turn_fn turn;
    void *context;
    atomic_bool stop;
    struct ms_thread thread;
};

/* Makes the base, without a thread: links may be set up before ms_loop_start. MS_E_MEMORY, MS_E_LIMIT (descriptors). */
int ms_loop_init(struct ms_loop *loop, ms_turn_fn turn, void *context);
int ms_loop_start(struct ms_loop *loop);

/* Any thread: the loop comes round once more. One system call. */
void ms_loop_wake(struct ms_loop *loop);

/* Loop thread: come round at `when` (monotonic, microseconds), MS_FOREVER = no such time. Costs a system call only if it
 * differs from what is set. */
void ms_loop_arm(struct ms_loop *loop, uint64_t when);

void ms_loop_stop(struct ms_loop *loop);  /* ends and joins the thread after the turn it is in */
void ms_loop_close(struct ms_loop *loop); /* after ms_loop_stop; also after a failed init */

#endif
