#include "hold.h"

void ms_hold_init(struct ms_hold *hold)
{
    *hold = (struct ms_hold){.first_tick = ms_ticks(), .first_us = ms_clock_now()};
}

void ms_hold_long(struct ms_hold *hold, uint64_t ticks, bool kept)
{
#define BOUND(bound) bound,
    static const uint64_t bounds[MS_HOLD_BOUND_COUNT] = {MS_HOLD_BOUNDS(BOUND)};
    if (ticks >> 63) return; /* moved to a processor whose counter is behind */
    double tick = (double)(ms_clock_now() - hold->first_us) / (double)(ms_ticks() - hold->first_tick);
    uint64_t us = (uint64_t)((double)ticks * tick);
    if (!kept) {
        if (us > hold->cut_us) hold->cut_us = us;
        return;
    }
    if (us > hold->max_us) hold->max_us = us;
    for (int i = 0; i < MS_HOLD_BOUND_COUNT && us > bounds[i]; i++) hold->over[i]++;
}
