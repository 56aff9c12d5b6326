/* Extras that this node decides as leader, on the policy thread: each is a transaction on its key like one of the host's, so that nobody
 * writes the entry between the decision and the change, and the host hears of the change before anybody else can make the next one. */
#include "node_conflict.h"

#include "node_key.h"

/* ---- what decides --------------------------------------------------------------------------------------------------------------- */

int ms_conflict_policy_take(struct ms_node *node, struct ms_conflict_policy *policy)
{
    policy->rules = NULL;
    policy->numbers = ms_alloc(sizeof *policy->numbers);
    if (!policy->numbers) return MS_E_MEMORY;
    ms_node_lock(node);
    policy->rules = ms_rules_ref(node->engine.rules);
    *policy->numbers = node->engine.policy;
    ms_node_unlock(node);
    return 0;
}

void ms_conflict_policy_drop(struct ms_conflict_policy *policy)
{
    ms_rules_unref(policy->rules);
    ms_release(policy->numbers);
    *policy = (struct ms_conflict_policy){NULL, NULL};
}

/* ---- one entry ---------------------------------------------------------------------------------------------------------------------- */

/* What is in the table is in the log, and so on its way to followers. */
static int flush_table(struct ms_table *table, uint64_t *lsn)
{
    struct ms_node *node = table->node;
    ms_node_lock(node);
    bool dirty = ms_buffer_entries(table->state) > 0;
    *lsn = node->engine.tail.head;
    ms_node_unlock(node);
    return dirty ? ms_flush(node, table, lsn) : 0;
}

static int commit(struct ms_txn *txn, struct ms_bytes value, struct ms_extra_answer *answer)
{
    int rc = ms_commit(txn, value, MS_NOWAIT, &answer->lsn);
    if (rc == MS_LOCAL) { /* outside of the view, or the log has failed and the policy lets that pass: nothing to replicate */
        answer->outcome = MS_OUTCOME_THEIRS;
        answer->by = "view";
        return 0;
    }
    if (rc) return rc;
    answer->stands = true;
    return flush_table(txn->table, &answer->lsn);
}

/* Copies what the answer says into bytes, which outlives transaction and resolution. */
static int keep_answer(struct ms_bytes theirs, struct ms_bytes value, struct ms_extra_answer *answer, struct ms_buf *bytes)
{
    ms_buf_clear(bytes);
    ms_buf_add(bytes, theirs.data ? theirs.data : "", theirs.size);
    ms_buf_add(bytes, value.data ? value.data : "", value.size);
    if (bytes->failed) return MS_E_MEMORY;
    const uint8_t *at = ms_buf_bytes(bytes).data;
    answer->theirs = ms_bytes(theirs.data ? at : NULL, theirs.size);
    answer->value = ms_bytes(value.data ? at + theirs.size : NULL, value.size);
    return 0;
}

static void decide(struct ms_txn *txn, const struct ms_extra *extra, const struct ms_conflict_policy *policy, bool host,
                   struct ms_extra_answer *answer, struct ms_buf *bytes)
{
    struct ms_bytes theirs = ms_txn_value(txn);
    struct ms_resolution resolution = {0};
    ms_buf_init(&resolution.value);
    ms_extra_decide(extra, theirs, policy->rules, policy->numbers, &resolution);
    struct ms_bytes chosen = ms_extra_chosen(extra, theirs, &resolution);
    bool changes = resolution.outcome != MS_OUTCOME_THEIRS && resolution.outcome != MS_EXTRA_EQUAL;
    answer->outcome = resolution.outcome;
    answer->by = resolution.by;
    answer->err = keep_answer(theirs, resolution.outcome == MS_OUTCOME_VALUE ? chosen : ms_bytes(NULL, 0), answer, bytes);
    if (!answer->err && resolution.outcome == MS_EXTRA_EQUAL) answer->err = flush_table(txn->table, &answer->lsn);
    if (!answer->err && changes) answer->err = commit(txn, chosen, answer);
    bool stands = !answer->err && (answer->outcome == resolution.outcome || host);
    if (stands && !ms_bytes_equal(chosen, host ? extra->mine : theirs)) ms_host_resolved(txn->table, extra->key, chosen);
    ms_buf_close(&resolution.value);
}

void ms_conflict_decide(struct ms_table *table, const struct ms_extra *extra, const struct ms_conflict_policy *policy, bool host,
                        struct ms_extra_answer *answer, struct ms_buf *bytes)
{
    struct ms_txn *txn = NULL;
    *answer = (struct ms_extra_answer){.by = "leader"};
    answer->err = ms_begin(table, extra->key, MS_NODE_PATIENCE_MS, &txn);
    if (answer->err) return;
    decide(txn, extra, policy, host, answer, bytes);
    ms_end(txn);
}

/* ---- extras ----------------------------------------------------------------------------------------------------------------------------- */

/* The handle of the extra's table; *table NULL if there is no such table. */
static int find_table(struct ms_node *node, const struct ms_extra *extra, struct ms_table **table)
{
    *table = NULL;
    ms_node_lock(node);
    struct ms_table_state *state = ms_store_find(&node->store, ms_str(extra->table));
    if (state) *table = ms_node_table(node, state);
    int rc = state && !*table ? MS_E_MEMORY : 0;
    if (state && state->type != extra->type) rc = ms_fail(MS_E_TYPE, "table %s has the other value type here", extra->table);
    ms_node_unlock(node);
    return rc;
}

/* A table that this leader has not: it is made only if the entry is to be there. */
static int make_table(struct ms_node *node, const struct ms_extra *extra, const struct ms_conflict_policy *policy, struct ms_table **table,
                      struct ms_extra_answer *answer)
{
    struct ms_bytes none = {NULL, 0};
    struct ms_resolution resolution = {0};
    ms_buf_init(&resolution.value);
    ms_extra_decide(extra, none, policy->rules, policy->numbers, &resolution);
    answer->outcome = resolution.outcome;
    answer->by = resolution.by;
    bool wanted = ms_extra_chosen(extra, none, &resolution).data != NULL;
    ms_buf_close(&resolution.value);
    return wanted ? ms_table_open(node, extra->table, extra->type, table) : 0;
}

static void run(struct ms_node *node, void *context)
{
    struct ms_extra_waiting *conflict = context;
    struct ms_extra *extra = &conflict->extra;
    struct ms_extra_answer answer = {.by = "leader"};
    struct ms_conflict_policy policy = {NULL, NULL};
    struct ms_table *table = NULL;
    struct ms_buf bytes;
    ms_buf_init(&bytes);
    ms_node_lock(node);
    if (ms_engine_was_decided(&node->engine, extra)) extra->resent = true;
    ms_node_unlock(node);
    answer.err = ms_conflict_policy_take(node, &policy);
    if (!answer.err) answer.err = find_table(node, extra, &table);
    if (!answer.err && !table) answer.err = make_table(node, extra, &policy, &table, &answer);
    if (!answer.err && table) ms_conflict_decide(table, extra, &policy, false, &answer, &bytes);
    ms_node_lock(node);
    ms_engine_resolved(&node->engine, conflict->link, extra, &answer);
    node->pump = true;
    ms_node_unlock(node);
    ms_conflict_policy_drop(&policy);
    ms_buf_close(&bytes);
    ms_release(conflict);
}

void ms_conflict_queue(struct ms_node *node, uint64_t link, const struct ms_extra *extra)
{
    struct ms_extra_waiting *conflict = ms_extra_keep(link, extra);
    if (conflict && ms_policy_job(node, run, conflict) == 0) return;
    ms_release(conflict);
    node->engine.frame_lost = true; /* nobody would answer: the conversation begins anew */
    if (node->wake_at > ms_clock_now()) node->wake_at = ms_clock_now();
}
