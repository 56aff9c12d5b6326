/* Replay: a recorded change log through a policy, with the times it was recorded at.
 *
 * The changes of a log are given to a real leader's engine (no followers), whose clock stands at each group's recorded time and whose disk
 * answers at once. What it logs, when, and what it does not, is counted: that is what the policy would have made of the same day.
 *
 * What can be replayed is what was recorded:
 *  - The input is what the old policy logged. Values that it merged in a buffer, or kept out of its view, are not in the log.
 *  - It begins with the oldest snapshot from which the log goes on (its entries are there at the start, those outside of the view are not);
 *    a log that reaches back to lsn 1 begins with nothing.
 *  - A log of one leader has no conflicts. Those that were resolved are in the loss reports of the data directory's archive, with base,
 *    mine and theirs: the caller gives them to ms_replay_conflict. Their outcome is counted, not written: the log has its effect.
 *  - A change's time is that of its group. Times that go back (another leader's clock) count as no time at all.
 *
 * One thread per replay. No clock, no files but the log's. */
#ifndef MS_SIM_REPLAY_H
#define MS_SIM_REPLAY_H

#include "../base/fs.h"
#include "../sync/policy.h"
#include "../sync/rules.h"

/* Made before the rules are loaded, so that os.time in them can be the recorded time. */
struct ms_replay_clock {
    uint64_t real_us; /* since 1970 */
};
uint64_t ms_replay_time(void *clock); /* for struct ms_lua_clock */
int ms_replay_first_time(struct ms_fs *fs, const char *dir, struct ms_replay_clock *clock); /* of the log in dir. NOT_FOUND: there is none */

struct ms_replay_options {
    struct ms_fs *fs;
    const char *dir;                /* a generation: segments and snapshots. borrowed */
    const struct ms_policy *policy; /* used where rules is NULL. copied */
    struct ms_rules *rules;         /* NULL = only numbers. a reference is taken */
    struct ms_replay_clock *clock;  /* of these rules; borrowed */
    bool remember;                  /* every entry, for ms_replay_compare; costs memory */
};

/* Per table. in = logged + coalesced + filtered + unchanged + refused. */
struct ms_replay_table {
    const char *name;                 /* the replay's, as all of this */
    int type;                         /* enum ms_type */
    bool buffered;
    uint64_t in, bytes_in;            /* changes recorded; bytes of keys and values */
    uint64_t logged, bytes_logged;
    uint64_t coalesced;               /* merged with a later change in the buffer */
    uint64_t filtered;                /* outside of the view */
    uint64_t unchanged;               /* no change to what this policy has */
    uint64_t refused;                 /* over a limit of this policy */
    uint64_t start, outside_at_start; /* entries at the beginning; those of the snapshot that are outside of the view */
    uint64_t flushes;                 /* of its buffer: moments at which something was logged */
    uint64_t resolved, resolved_mine, resolved_theirs, resolved_other, resolve_incidents;
    uint64_t stale_p50, stale_p99, stale_max; /* microseconds from an entry's oldest unlogged change to the log, per change logged; the
                                                 first two to within 7 % */
    uint64_t risk_max, risk_bytes_max; /* entries and bytes in the buffer */
    double risk_average;               /* entries, over time */
};

struct ms_replay_totals {
    uint64_t first, last;       /* lsns of the log */
    uint64_t from_us, to_us;    /* real time */
    uint64_t snapshot;          /* end of the snapshot that it began with, 0 = none */
    uint64_t groups, changes, epochs, leaves;
};

struct ms_replay;

/* Errors: IO, DAMAGED, FORMAT of the files; NOT_FOUND (there is no log); TYPE (a table's type is not the policy's); MEMORY. */
int ms_replay_new(const struct ms_replay_options *options, struct ms_replay **replay);
void ms_replay_free(struct ms_replay *replay); /* NULL is allowed */

/* Runs the whole log, then what is still buffered. Once. A log that is being written is run up to where it is whole. */
int ms_replay_run(struct ms_replay *replay);

/* After ms_replay_run. What the policy makes of one recorded conflict; resolution as in rules.h. */
int ms_replay_conflict(struct ms_replay *replay, const struct ms_conflict *conflict, struct ms_resolution *resolution);

const struct ms_replay_totals *ms_replay_totals(const struct ms_replay *replay);
const struct ms_replay_table *ms_replay_table(struct ms_replay *replay, uint32_t i); /* NULL after the last */

/* ---- two policies ---------------------------------------------------------------------------------------------------------- */

/* An entry of which the two disagree. Bytes are borrowed. */
struct ms_replay_difference {
    const char *table;
    int type;
    struct ms_bytes key;
    bool logged[2];               /* ever: by a, by b */
    struct ms_bytes value[2];     /* at the end; data == NULL: no entry */
};

struct ms_replay_comparison {
    uint64_t entries;             /* that any of the two met */
    uint64_t only[2];             /* logged by a only, by b only */
    uint64_t values;              /* the values at the end differ */
};

/* Both ran over the same log with `remember`. fn is called for each difference (in the order of first appearance) until it returns non-zero,
 * then only counted. */
int ms_replay_compare(struct ms_replay *a, struct ms_replay *b, int (*fn)(void *context, const struct ms_replay_difference *difference),
                      void *context, struct ms_replay_comparison *comparison);

#endif
