/* Looking at all entries with a policy's eyes (sync/review.h): to count, before a reload takes effect, in the thread that reloads; and to
 * let entries leave and enter, after it, on the policy thread. Both in slices: a policy runs without the lock, and the lock is
 * never held for more than one slice. */
#include "node.h"

#include <stdio.h>

enum { PAUSE_MS = 100 };

/* ---- counting --------------------------------------------------------------------------------------------------------------------- */

static int count_slice(struct ms_node *node, struct ms_review *review)
{
    ms_review_look_ahead(review, &node->engine);
    ms_node_lock(node);
    int rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : ms_review_take(review, &node->engine);
    ms_node_unlock(node);
    if (rc == 1) (void)ms_review_decide(review); /* it counts, and that is all */
    return rc;
}

int ms_node_policy_count(struct ms_node *node, struct ms_rules *rules, struct ms_policy_counts *counts)
{
    struct ms_review *review = NULL;
    const struct ms_review_table *tables = NULL;
    counts->count = 0;
    ms_node_lock(node);
    counts->looked = node->engine.role == MS_ROLE_LEADER;
    int rc = counts->looked ? ms_review_new(&node->engine, rules, MS_REVIEW_COUNT, &review) : 0;
    ms_node_unlock(node);
    if (rc || !counts->looked) return rc;
    while ((rc = count_slice(node, review)) == 1) continue;
    if (rc == MS_E_NOT_LEADER) { /* no more: then there is no view to look at */
        counts->looked = false;
        rc = 0;
    }
    if (!rc && counts->looked) counts->count = ms_review_tables(review, &tables);
    if (counts->count > MS_TABLES_MAX) counts->count = MS_TABLES_MAX;
    if (counts->count) memcpy(counts->tables, tables, counts->count * sizeof *tables);
    ms_review_free(review);
    return rc;
}

/* ---- leaving and entering: policy thread; with the lock before and after ----------------------------------------------------------- */

/* Waits a moment for room, or memory; false: there is no sense in trying again. */
static bool pause_review(struct ms_node *node, int rc)
{
    if (rc != MS_E_AGAIN && rc != MS_E_MEMORY) return false;
    node->pump = true;
    (void)ms_node_watch(node, ms_clock_deadline(PAUSE_MS));
    return !node->closing && !node->rules.stop;
}

static void free_walk(struct ms_node *node)
{
    struct ms_review *walk = node->rules.review.walk;
    node->rules.review.walk = NULL;
    node->rules.review.active = false;
    ms_node_unlock(node);
    ms_review_free(walk);
    ms_node_lock(node);
}

static void note_progress(struct ms_node *node)
{
    struct ms_policy_review *r = &node->rules.review;
    const struct ms_review_table *tables;
    uint32_t count = ms_review_tables(r->walk, &tables);
    r->checked = r->left = 0;
    for (uint32_t i = 0; i < count; i++) {
        r->checked += tables[i].entries;
        r->left += tables[i].leaving;
    }
}

static void end_walk(struct ms_node *node, int rc)
{
    struct ms_policy_review *r = &node->rules.review;
    char line[MS_ERROR_SIZE + 200];
    note_progress(node);
    if (rc == 0 && (r->left || r->entered)) {
        (void)snprintf(line, sizeof line, "the policy's view: %llu of %llu entries have left, %llu have entered", (unsigned long long)r->left,
                       (unsigned long long)r->checked, (unsigned long long)r->entered);
        ms_node_tell(node, "view", MS_LOG_INFO, line);
    } else if (rc && rc != MS_E_CHANGED && !node->closing) {
        (void)snprintf(line, sizeof line, "the look at the policy's view has ended early, what it has not reached stays: %s",
                       ms_fail_message(rc));
        ms_node_tell(node, "view", MS_LOG_WARN, line);
    }
    free_walk(node);
}

static uint64_t count_entries(const struct ms_store *store)
{
    uint64_t total = 0;
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++)
        if (store->tables[id]) total += store->tables[id]->content->live;
    return total;
}

static void begin_walk(struct ms_node *node)
{
    struct ms_policy_review *r = &node->rules.review;
    if (r->walk) free_walk(node);
    r->wanted = false;
    if (node->engine.role != MS_ROLE_LEADER) return;
    int rc = ms_review_new(&node->engine, node->rules.now.rules, MS_REVIEW_APPLY, &r->walk);
    if (rc) {
        r->wanted = pause_review(node, rc);
        return;
    }
    r->active = true;
    r->left = r->entered = r->checked = 0;
    r->total = count_entries(&node->store);
}

/* Without the lock. A host that can't be told for want of memory hears that there was more. */
static void tell_entered(void *context, const char *table, struct ms_bytes key)
{
    struct ms_node *node = context;
    ms_node_lock(node);
    if (!ms_host_entered(node, table, key))
        ms_node_tell(node, "view", MS_LOG_ERROR, "an entry has entered the view, but there is no memory to tell the host of it");
    node->rules.review.entered += key.data != NULL;
    ms_node_unlock(node);
}

static int apply_slice(struct ms_node *node)
{
    struct ms_review *walk = node->rules.review.walk;
    int rc;
    while ((rc = ms_review_apply(walk, &node->engine)) != 0) {
        node->pump = true;
        if (rc != 1 && !pause_review(node, rc)) return rc;
        if (rc == 1) {
            ms_node_unlock(node);
            ms_review_look_ahead(walk, &node->engine);
            ms_node_lock(node);
        }
        if (node->closing || node->rules.stop) return MS_E_CLOSED;
    }
    node->pump = true; /* what has left is in the log's tail */
    ms_node_unlock(node);
    ms_review_entered(walk, tell_entered, node);
    ms_review_look_ahead(walk, &node->engine);
    ms_node_lock(node);
    return 0;
}

/* The rest of a slice, after take. */
static int finish_slice(struct ms_node *node)
{
    struct ms_review *walk = node->rules.review.walk;
    ms_node_unlock(node);
    bool changes = ms_review_decide(walk);
    ms_review_look_ahead(walk, &node->engine);
    ms_node_lock(node);
    int rc = changes ? apply_slice(node) : 0;
    if (!rc) note_progress(node);
    return rc;
}

bool ms_node_policy_review(struct ms_node *node)
{
    struct ms_policy_review *r = &node->rules.review;
    if (r->wanted) begin_walk(node);
    if (!r->active) return false;
    if (node->host.entered >= MS_HOST_ENTERED_MAX) return false; /* the host thread wakes us */
    int rc = ms_review_take(r->walk, &node->engine);
    if (rc == 1) {
        rc = finish_slice(node);
        if (rc) end_walk(node, rc);
    } else if (!pause_review(node, rc)) {
        end_walk(node, rc);
    }
    return true;
}

void ms_node_policy_review_drop(struct ms_node *node)
{
    if (node->rules.review.walk) free_walk(node);
}
