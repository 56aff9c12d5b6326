/* How long a lock is held: for status, and to be looked at when somebody asks why a call took long.
 *
 * Telling the time twice in each hold must cost next to nothing, since most holds are shorter than reading the clock twice. So holds are
 * measured by the processor's own counter, where there is one that can be read without help, and only those that are long by any
 * counter's measure are turned into microseconds, by how far clock and counter have come since the lock was made.
 *
 * Everything is called by who has the lock. */
#ifndef MS_DRIVE_HOLD_H
#define MS_DRIVE_HOLD_H

#include "threads.h"

#define MS_HOLD_BOUNDS(X) X(100) X(200) X(500) X(1000) X(2000) X(5000) X(10000) /* microseconds */
#define MS_HOLD_COUNT(bound) +1
enum { MS_HOLD_BOUND_COUNT = 0 MS_HOLD_BOUNDS(MS_HOLD_COUNT) };

struct ms_hold {
    uint64_t began;                      /* ticks */
    uint64_t first_tick, first_us;       /* both read at one moment */
    uint64_t max_us;                     /* the longest in which the thread kept its processor, and ... */
    uint64_t cut_us;                     /* ... the longest in which the system took that away */
    uint64_t over[MS_HOLD_BOUND_COUNT];  /* of the former: how many were longer than each of MS_HOLD_BOUNDS */
};

static inline uint64_t ms_ticks(void)
{
#if defined __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return ms_clock_now();
#endif
}

/* A hold that takes fewer ticks is shorter than the first bound, whatever processor counts them (no counter is slower than 0.5 GHz);
 * a clock counts microseconds. */
#if defined __x86_64__
#define MS_HOLD_SHORT 50000
#else
#define MS_HOLD_SHORT 50
#endif

void ms_hold_init(struct ms_hold *hold);
void ms_hold_long(struct ms_hold *hold, uint64_t ticks, bool kept); /* ms_hold_end has met one; kept: the thread its processor */

static inline void ms_hold_begin(struct ms_hold *hold)
{
    hold->began = ms_ticks();
    ms_core_watch();
}

static inline void ms_hold_end(struct ms_hold *hold)
{
    uint64_t ticks = ms_ticks() - hold->began;
    bool kept = ms_core_kept(); /* always: a watch that goes on would outlive the library */
    if (ticks >= MS_HOLD_SHORT) ms_hold_long(hold, ticks, kept);
}

#endif
