/* A loaded policy as the engine and its drivers see it: numbers (struct ms_policy), patterns, and functions that somebody else
 * implements (core/lua: a policy file). Without one, everything is in the view and named resolvers do the rest.
 *
 * Who calls what, and when. Never with the node's lock held, so that no policy can hold up the engine:
 *
 *      a commit of an entry that does not exist yet ─MS_ASK─> ms_rules_decide (patterns, else filter) ─> the commit again
 *      a flush that is planned          ─io.ask_flush─> ms_rules_flush    ─> ms_engine_flush_plan
 *      a conflict                       ─io.conflict──> ms_rules_resolve  ─> a commit of the outcome
 *      something for the operator       ─io.event─────> ms_rules_event
 *      a reload, on a leader            ─review.h─────> ms_rules_decide for every entry, in slices
 *
 * None of these calls fails: a function that is missing, quarantined, or does something wrong is replaced by what the built-in policy
 * would do (in the view, theirs, the table's interval), and the incident is counted and shown. Each returns within a bound that the
 * policy's limits state; calls from several threads are serialized inside, with a bounded wait. Everything here is data that is
 * decided once by the leader and logged: followers never run a policy on what they receive. */
#ifndef MS_SYNC_RULES_H
#define MS_SYNC_RULES_H

#include <stdbool.h>

#include "../base/bytes.h"

struct ms_rules;
struct ms_patterns; /* patterns.h */

enum ms_decision {
    MS_VIEW_UNKNOWN = 0,
    MS_VIEW_IN = 1,
    MS_VIEW_OUT = 2,
};

/* ---- conflicts ------------------------------------------------------------------------------------------------------------- */

/* Why two values of one entry meet. */
enum ms_conflict_reason {
    MS_CONFLICT_DEPOSED = 1,  /* mine: logged by a leader that was deposed, or restarted, and that nobody had taken */
    MS_CONFLICT_BUFFERED = 2, /* mine: was still in a buffer when the node stopped leading */
    MS_CONFLICT_HOST = 3,     /* mine: what the host loaded at start; theirs: what the log says */
};
const char *ms_conflict_reason_name(int reason); /* "deposed" "buffered" "host" */

struct ms_conflict {
    const char *table; /* borrowed, as all bytes here */
    int type;          /* enum ms_type */
    int reason;
    struct ms_bytes key;
    struct ms_bytes mine, theirs; /* data == NULL: there is no such entry. theirs is what stays if nobody decides otherwise */
    struct ms_bytes base;         /* what both had in common; data == NULL with base_known: nothing */
    bool base_known;
    int newer; /* 1: mine is known to be newer, -1: theirs is, 0: nobody knows */
};

enum ms_outcome { MS_OUTCOME_THEIRS = 0, MS_OUTCOME_MINE = 1, MS_OUTCOME_VALUE = 2, MS_OUTCOME_DELETE = 3 };
const char *ms_outcome_name(int outcome); /* "theirs" "mine" "value" "delete" */

struct ms_resolution {
    int outcome;         /* enum ms_outcome */
    struct ms_buf value; /* owned by the caller (ms_buf_init before); filled in for VALUE */
    const char *by;      /* static or the policy's: "theirs" ... "min", "function", or "incident" */
};

/* ---- buffers --------------------------------------------------------------------------------------------------------------- */

struct ms_flush_stats {
    char table[64];
    uint64_t entries, bytes; /* dirty now */
    double rate;             /* puts a second since the last flush, smoothed */
    uint64_t oldest_us;      /* age of the oldest unlogged value */
    uint64_t interval_us;    /* what the table's policy says */
    uint64_t lag;            /* lsns by which the slowest in-sync follower is behind; 0 without one */
    uint64_t flush_us;       /* how long the last flush took from its start to the level os */
};

/* ---- events ---------------------------------------------------------------------------------------------------------------- */

struct ms_event {
    const char *kind; /* "role" "alarm" "log" "policy" "conflict" "view"; static */
    int severity;     /* enum ms_severity */
    const char *text; /* borrowed */
};

/* ---- the policy ------------------------------------------------------------------------------------------------------------- */

enum ms_rules_functions { MS_RULES_FILTER = 1, MS_RULES_RESOLVE = 2, MS_RULES_FLUSH = 4, MS_RULES_EVENT = 8 };

struct ms_rules_ops {
    int (*filter)(struct ms_rules *rules, const char *table, struct ms_bytes key); /* enum ms_decision, never UNKNOWN */
    /* resolver: the function of this table if it has one, else the global one. false: an incident, nothing decided */
    bool (*resolve)(struct ms_rules *rules, const struct ms_conflict *conflict, struct ms_resolution *resolution);
    bool (*flush)(struct ms_rules *rules, const struct ms_flush_stats *stats, uint64_t *next_us); /* false: as the table's policy says */
    void (*event)(struct ms_rules *rules, const struct ms_event *event);
    int (*describe)(struct ms_rules *rules, char **json); /* name, file, hash, functions, incidents: for status and show. ms_free */
    void (*close)(struct ms_rules *rules);                /* the last reference is gone */
};

struct ms_rules {
    const struct ms_rules_ops *ops;
    uint32_t references;          /* atomic; see ms_rules_ref */
    uint32_t functions;           /* enum ms_rules_functions: those that exist */
    uint64_t hash;                /* of the sources: for hello and status */
    char name[64];                /* policy.name */
    struct ms_policy policy;      /* checked */
    uint64_t out_by_pattern, out_by_filter; /* atomic: what ms_rules_decide left out */
    struct ms_patterns *patterns; /* owned; NULL = all tables and keys are in the view unless filter says otherwise */
};

struct ms_rules *ms_rules_ref(struct ms_rules *rules); /* any thread. NULL is allowed */
void ms_rules_unref(struct ms_rules *rules);           /* NULL is allowed */

/* Patterns first, then the filter; rules NULL: IN. Bounded time, any thread, no lock held. */
bool ms_rules_view(const struct ms_rules *rules); /* whether any entry could be out of the view */
int ms_rules_decide(struct ms_rules *rules, const char *table, struct ms_bytes key);

/* The table's resolver (named or function), else the global one, else theirs (of a host's copy: newest). Never fails: what can't be decided
 * is THEIRS by "incident". rules NULL: as `policy` says. */
void ms_rules_resolve(struct ms_rules *rules, const struct ms_policy *policy, const struct ms_conflict *conflict,
                      struct ms_resolution *resolution);

#endif
