/* A node's policy while it runs: the file in use, the one before it, and the policy thread. Internal to core/node*.c.
 *
 *      ms_policy_reload (any thread):  load beside ─> selftest ─> count [slices] ─> swap [lock] ─> review
 *
 *      engine ──ask_flush, event, conflict──> queues ──> policy thread ──> the policy's functions, without the lock
 *             <──flush_plan, commits, leave────────────────────┘
 *
 * node_policy.c has the thread and its queues, node_policy_change.c reload, roll-back and probation, node_policy_review.c the walk that
 * a swap starts, node_policy_show.c the texts.
 *
 * Nothing here is ever done with the node's lock held except to copy and to swap pointers: a policy's function, a file, a look at all
 * entries take their time without it. */
#ifndef MS_NODE_POLICY_H
#define MS_NODE_POLICY_H

#include "base/fs.h"
#include "base/list.h"
#include "drive/threads.h"
#include "state/table.h"
#include "sync/policy.h"
#include "sync/review.h"
#include "sync/rules.h"

struct ms_node;

enum { MS_POLICY_EVENTS_MAX = 256, MS_POLICY_NAME_MAX = 64 };

/* A policy that was put in place. */
struct ms_policy_slot {
    struct ms_rules *rules; /* a reference; NULL = the built-in one, with the numbers of the node's configuration */
    char file[MS_PATH_MAX]; /* "" = built in */
    uint64_t loaded_us;     /* real time */
};

/* All of it is under the node's lock, unless it says otherwise. */
struct ms_node_policy {
    struct ms_policy base;            /* of the configuration; files are loaded on top of it. Does not change: no lock */
    struct ms_policy_slot now, before; /* before: what a roll-back brings back, if can_return */
    bool can_return;
    bool changing;                    /* a reload or a roll-back is under way: one at a time */
    uint64_t reloads, rollbacks, refused;

    /* Until then, monotonic, incidents bring the policy before back; 0 = no probation. */
    uint64_t probation_until, probation_real_us;
    uint64_t looked_at, incidents;    /* when incidents were looked at last; how many there were */
    char note[256];                   /* why the last roll-back came by itself; "" = none did */

    /* the thread */
    bool ready, stop;
    pthread_cond_t cond;
    struct ms_thread thread;
    struct ms_list jobs;              /* struct policy_job */
    struct ms_list events;            /* struct policy_event */
    uint32_t event_count;
    uint64_t events_lost;
    uint64_t asked[MS_TABLES_MAX / 64]; /* tables whose flush is to be planned: bits */
    struct ms_flush_stats stats[MS_TABLES_MAX];

    /* the review that a swap starts: node_policy_review.c */
    struct ms_policy_review {
        bool wanted;                  /* a swap asks for one; one that is under way begins anew */
        bool active;
        uint64_t left, entered, checked, total; /* of the last one: entries */
        struct ms_review *walk;       /* the thread's, while active */
    } review;
};

/* ---- life: node.c --------------------------------------------------------------------------------------------------------------- */

/* Loads the policy file, if there is one, on top of the configuration's numbers; *numbers gets those that are in force. */
int ms_node_policy_init(struct ms_node *node, const struct ms_policy *base, const char *file, struct ms_policy *numbers);
int ms_node_policy_start(struct ms_node *node); /* the thread, if the policy needs it */
void ms_node_policy_stop(struct ms_node *node);  /* without the lock: ends and joins the thread, in the middle of whatever it is at */
void ms_node_policy_close(struct ms_node *node);

/* ---- the thread: [lock] ----------------------------------------------------------------------------------------------------------- */

/* Has `run` called once on the policy thread, without the lock. A node that closes runs what is left all the same (node->closing is set
 * then, and every call of the node that would wait returns at once), so that `context` can be freed. MS_E_MEMORY, MS_E_LIMIT (no
 * thread), MS_E_CLOSED. */
int ms_policy_job(struct ms_node *node, void (*run)(struct ms_node *node, void *context), void *context);

int ms_node_policy_need_thread(struct ms_node *node); /* starts it if it does not run */
void ms_node_policy_wake(struct ms_node *node);

/* ---- node_policy_change.c: policy thread, [lock] -------------------------------------------------------------------------------------- */

/* Looks for incidents from time to time; the time of the next look, MS_FOREVER = none is due. */
uint64_t ms_node_policy_look(struct ms_node *node);

/* ---- node_policy_review.c ---------------------------------------------------------------------------------------------------------------- */

struct ms_policy_counts {
    uint32_t count;
    bool looked; /* false: only a leader has a view to look at */
    struct ms_review_table tables[MS_TABLES_MAX];
};

/* What these rules (NULL = all is in) would make leave and enter, without the lock. MS_E_CLOSED, MS_E_MEMORY. */
int ms_node_policy_count(struct ms_node *node, struct ms_rules *rules, struct ms_policy_counts *counts);

/* [lock], policy thread: one slice of the review. false: nothing to do. */
bool ms_node_policy_review(struct ms_node *node);
void ms_node_policy_review_drop(struct ms_node *node);

#endif
