/* Conflicts on the leader: one entry, two values. Extras of followers and of this node (node_conflict.c), and the host's own copy at the
 * start (node_compare.c). */
#ifndef MS_NODE_CONFLICT_H
#define MS_NODE_CONFLICT_H

#include "node.h"

/* [lock] io->conflict: copies, and leaves the rest to the policy thread. */
void ms_conflict_queue(struct ms_node *node, uint64_t link, const struct ms_extra *extra);

struct ms_conflict_policy { /* what decides: taken once, kept for many entries */
    struct ms_rules *rules;    /* a reference, or NULL */
    struct ms_policy *numbers; /* owned; used without rules */
};

int ms_conflict_policy_take(struct ms_node *node, struct ms_conflict_policy *policy);
void ms_conflict_policy_drop(struct ms_conflict_policy *policy);

/* Without the lock. Begins the entry's key, decides between extra->mine and what the table has, commits what is chosen, gives it to the
 * host, ends. host: mine is what the host has, so it hears of everything else; otherwise it has what the table has. */
void ms_conflict_decide(struct ms_table *table, const struct ms_extra *extra, const struct ms_conflict_policy *policy, bool host,
                        struct ms_extra_answer *answer, struct ms_buf *bytes); /* bytes: what the answer points to; the caller's */

/* ---- node_host.c: without the lock. Has the host thread call host->resolved, and waits. A refusal is an alarm */
void ms_host_resolved(struct ms_table *table, struct ms_bytes key, struct ms_bytes value);

#endif
