/* Word from the engine for the policy's functions. Nobody runs them here: a plan that is not answered is the one before, and an event is in the
 * log already. */
#include "node.h"

void ms_policy_ask_flush(struct ms_node *node, uint32_t table, const struct ms_flush_stats *stats)
{
    (void)node;
    (void)table;
    (void)stats;
}

void ms_policy_event(struct ms_node *node, const struct ms_event *event)
{
    (void)node;
    (void)event;
}
