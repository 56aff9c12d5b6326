/* The resume verdict (promises 5 and 6): what a follower has to do to be like its leader, as one pure function of what both
 * say about themselves. No I/O, no clock, no state; spec/unit/verdict_spec.lua holds the whole table. */
#ifndef MS_SYNC_VERDICT_H
#define MS_SYNC_VERDICT_H

#include "../state/lineage.h"

/* What a node knows of its log. */
struct ms_history {
    const struct ms_lineage *lineage;
    uint64_t first; /* oldest lsn its log still has (position + 1 if none) */
    uint64_t position; /* last lsn */
};

enum ms_verdict_kind {
    MS_VERDICT_CONTINUE = 1,   /* the leader's log has position + 1: stream from there */
    MS_VERDICT_EMPTY = 2,      /* the follower has no history and the log does not reach back to 1: snapshot */
    MS_VERDICT_TRIMMED = 3,    /* same history, but position + 1 was trimmed: snapshot */
    MS_VERDICT_AHEAD = 4,      /* the follower has records after the leader's last one, in the leader's own epoch */
    MS_VERDICT_DIVERGED = 5,   /* common history, then records that the leader does not have */
    MS_VERDICT_OTHER = 6,      /* no common epoch at all */
};

struct ms_verdict {
    int kind;
    uint64_t common;  /* last lsn that both have; 0 if none */
    uint64_t extra;   /* records the follower has after it */
    bool snapshot;    /* the follower needs a snapshot */
    bool allowed;     /* it may take the leader's history without being told to (adopt): see below */
};

/* allowed:
 *   CONTINUE                     always, except from a lower epoch than the follower's last (impossible with honest peers);
 *   EMPTY, TRIMMED               always;
 *   AHEAD, DIVERGED              only if the leader's epoch is higher than the follower's last one;
 *   OTHER                        never. A wiped leader's run counts up with each start, so a higher epoch without a common
 *                                one proves nothing: an operator must say adopt. (A follower without history is EMPTY.) */
struct ms_verdict ms_verdict(struct ms_history leader, struct ms_history follower);

const char *ms_verdict_name(int kind); /* "continue", "empty", "trimmed", "ahead", "diverged", "other_history" */

#endif
