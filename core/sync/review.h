/* A reload's look at everything that a leader has: which entries the new rules leave out, and which of those that were left out they want.
 *
 * In mode COUNT it only counts, before the rules are swapped. In mode APPLY, after the swap (ms_engine_set_rules), entries leave and the
 * host is told what it should put again. The driver moves it on, in slices, and neither do the rules run with the lock nor are keys read with
 * it: a look at millions of entries meets every moment in which the machine stops a thread, so it must not have the lock for all that time. The
 * lock is for choosing what is next, and for applying what there is to apply, which is brought into the cache before.
 *
 *      [lock]    ms_review_take ───0──> all is done
 *                     │ 1
 *      [no lock] ms_review_decide ──false──> take ...
 *                     │ true
 *      [no lock] ms_review_look_ahead <────────────────────────────────────────────┐
 *                     │                                                            │
 *      [lock]    ms_review_apply ──1: let go; MS_E_AGAIN: and wait for room────────┘
 *                     │ 0
 *      [no lock] ms_review_entered ──> take ...
 *
 * Entries that change meanwhile are no problem: what comes in new is decided by the rules of its time, and leaving what is gone does
 * nothing. Any other error ends it: MS_E_NOT_LEADER (a follower has nothing to decide), MS_E_CHANGED (APPLY: other rules by now, with a
 * review of their own), MS_E_MEMORY (the same step may be tried again). A review that ends early is not resumed by a restart or a promotion:
 * what has not left stays in the view until the next reload. */
#ifndef MS_SYNC_REVIEW_H
#define MS_SYNC_REVIEW_H

#include "engine.h"

enum ms_review_mode { MS_REVIEW_COUNT = 1, MS_REVIEW_APPLY = 2 };

struct ms_review;

struct ms_review_table {
    char name[MS_TABLE_NAME_MAX + 1];
    uint64_t entries, leaving; /* seen so far; of them those that are out */
    uint64_t entering;         /* of those that were left out and remembered: wanted now */
    bool more;                 /* more were left out than are remembered */
};

/* [lock] Takes a reference of the rules (NULL = the built-in policy, which wants everything). Owned by the caller. */
int ms_review_new(struct ms_engine *engine, struct ms_rules *rules, int mode, struct ms_review **review);
void ms_review_free(struct ms_review *review); /* [no lock]. NULL is allowed */

int ms_review_take(struct ms_review *review, struct ms_engine *engine);  /* [lock] 1, 0 or an error, see above */
bool ms_review_decide(struct ms_review *review);                         /* [no lock] after each 1. false: nothing to apply; always in COUNT */
int ms_review_apply(struct ms_review *review, struct ms_engine *engine); /* [lock] 0, 1 or an error. What has left wants ms_engine_pump */

/* [no lock] What the next hold will touch; may be left out. */
void ms_review_look_ahead(const struct ms_review *review, const struct ms_engine *engine);

/* [no lock] After apply: calls fn for each entry of this slice that is wanted now; key.data == NULL: more of this table than were remembered.
 * Both borrowed. Nothing in mode COUNT. */
typedef void (*ms_review_fn)(void *context, const char *table, struct ms_bytes key);
void ms_review_entered(const struct ms_review *review, ms_review_fn fn, void *context);

/* One for each table that has been looked at. Borrowed from the review; any thread that drives it. */
uint32_t ms_review_tables(const struct ms_review *review, const struct ms_review_table **tables);

#endif
