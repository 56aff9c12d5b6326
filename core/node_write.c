/* Writing: transactions, puts, batches. All of it comes down to ms_engine_commit under the lock, and a wait without it. */
#include "node_key.h"

/* A commit that is told to come again waits for room in the log or its tail, with nothing changed. Called with the lock; MS_E_AGAIN
 * means: try again now. */
static int wait_for_room(struct ms_node *node, uint64_t *deadline)
{
    int rc = ms_node_may_wait(node, "a write without room in the log");
    if (rc) return rc;
    if (!*deadline) *deadline = ms_clock_deadline(MS_NODE_PATIENCE_MS);
    node->pump = true;
    bool in_time = ms_node_watch(node, *deadline);
    if (node->closing) return ms_fail(MS_E_CLOSED, "the node is being closed");
    if (in_time) return MS_E_AGAIN;
    if (node->engine.room_error) return ms_fail(MS_E_NO_SPACE, "no space for the log");
    return ms_fail(MS_E_TIMEOUT, "no room in the log for %d ms", MS_NODE_PATIENCE_MS);
}

/* A commit that answers MS_ASK wants the policy's decision, which is made without the lock: a policy can't hold up others. With the lock
 * before and after; gives the rules to ask. */
static struct ms_rules *ask_begin(struct ms_node *node)
{
    struct ms_rules *rules = ms_rules_ref(node->engine.rules);
    node->inside++; /* ms_close waits for us */
    ms_node_unlock(node);
    return rules;
}

/* Whether the decision counts: that of a policy that was replaced meanwhile does not. */
static bool ask_end(struct ms_node *node, struct ms_rules *rules)
{
    ms_node_lock(node);
    bool same = node->engine.rules == rules;
    if (!same) { /* ours may be the last reference, and its end takes a while */
        ms_node_unlock(node);
        ms_rules_unref(rules);
        ms_node_lock(node);
    } else {
        ms_rules_unref(rules);
    }
    node->inside--;
    if (node->closing && node->inside == 0) (void)pthread_cond_broadcast(&node->changed);
    return same;
}

/* What a commit that did not go through needs: room, or a decision. MS_E_AGAIN: commit again. */
static int before_again(struct ms_node *node, int rc, struct ms_engine_write *write, uint64_t *deadline)
{
    if (rc == MS_E_AGAIN) {
        write->decision = MS_VIEW_UNKNOWN; /* the policy may change while we wait */
        return wait_for_room(node, deadline);
    }
    struct ms_rules *rules = ask_begin(node);
    write->decision = ms_rules_decide(rules, write->table->name, write->key);
    if (!ask_end(node, rules)) write->decision = MS_VIEW_UNKNOWN;
    return node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : MS_E_AGAIN;
}

/* After a commit, with the lock, which is let go for good: leaves word for the loop and waits for the level. */
static int committed(struct ms_node *node, uint64_t lsn, int level, int flags, uint64_t *result)
{
    if (node->engine.tail.open || node->engine.sync_wanted) node->pump = true;
    if (result) *result = lsn;
    if (level > MS_LEVEL_MEMORY && !(flags & MS_NOWAIT)) return ms_node_wait_unlock(node, lsn, level, MS_FOREVER);
    ms_node_unlock(node);
    return 0;
}

/* ---- transactions ------------------------------------------------------------------------------------------------------------ */

int ms_begin(struct ms_table *table, struct ms_bytes key, int wait_ms, struct ms_txn **txn)
{
    *txn = NULL;
    int rc = ms_node_may_wait(table->node, "ms_begin");
    return rc ? rc : ms_key_begin(table, key, wait_ms, true, txn);
}

struct ms_bytes ms_txn_value(const struct ms_txn *txn)
{
    return txn->value;
}

int ms_commit(struct ms_txn *txn, struct ms_bytes value, int flags, uint64_t *lsn)
{
    struct ms_node *node = txn->table->node;
    struct ms_engine_write write = ms_engine_write(txn->table->state, ms_bytes(txn->key, txn->key_size), txn->key_hash, value);
    write.nowait = flags & MS_NOWAIT;
    uint64_t at = 0, deadline = 0;
    int level = 0, rc;
    ms_node_lock(node);
    if (node->closing) rc = ms_fail(MS_E_CLOSED, "the node is being closed");
    else if (txn->committed) rc = ms_fail(MS_E_INVALID, "this transaction is committed already");
    else
        do {
            rc = ms_engine_commit(&node->engine, &write, &at, &level);
            if (rc == MS_ASK || rc == MS_E_AGAIN) rc = before_again(node, rc, &write, &deadline);
        } while (rc == MS_E_AGAIN);
    txn->committed |= rc == MS_LOCAL;
    if (rc) {
        ms_node_unlock(node);
        return rc;
    }
    txn->committed = true;
    return committed(node, at, level, flags, lsn);
}

void ms_end(struct ms_txn *txn)
{
    if (txn) ms_key_end(txn);
}

int ms_compute(struct ms_table *table, struct ms_bytes key, ms_compute_fn fn, void *context, int flags, uint64_t *lsn)
{
    struct ms_txn *txn;
    struct ms_bytes value = {NULL, 0};
    int rc = ms_begin(table, key, MS_NODE_PATIENCE_MS, &txn);
    if (rc) return rc;
    if (fn(context, txn->value, &value)) rc = ms_fail(MS_E_REFUSED, "the compute function refused");
    else rc = ms_commit(txn, value, flags, lsn);
    ms_end(txn);
    return rc;
}

/* ---- one entry ----------------------------------------------------------------------------------------------------------------- */

struct change {
    struct ms_table *table;
    struct ms_engine_write write;
    const struct ms_bytes *expected; /* NULL = any */
};

/* What can be done before the lock is taken: the hashes are worked out while what the change will touch is on its way into the cache. */
static struct change change_of(struct ms_table *table, struct ms_bytes key, struct ms_bytes value, const struct ms_bytes *expected)
{
    uint64_t key_hash = ms_key_hash(key);
    ms_table_look_ahead(table->state, key_hash);
    return (struct change){table, ms_engine_write(table->state, key, key_hash, value), expected};
}

static int compare(const struct change *change)
{
    if (!change->expected) return 0;
    struct ms_bytes current = ms_table_get(change->write.table, change->write.key, change->write.key_hash);
    return ms_bytes_equal(current, *change->expected) ? 0 : ms_fail(MS_E_CHANGED, "the value is not the expected one");
}

/* The key is held by a transaction: this becomes one too, behind it. */
static int write_behind(const struct change *change, int flags, uint64_t *lsn)
{
    struct ms_txn *txn;
    int rc = ms_node_may_wait(change->table->node, "a write to a busy key");
    if (!rc) rc = ms_key_begin(change->table, change->write.key, MS_NODE_PATIENCE_MS, change->expected != NULL, &txn);
    if (rc) return rc;
    if (change->expected && !ms_bytes_equal(txn->value, *change->expected)) rc = ms_fail(MS_E_CHANGED, "the value is not the expected one");
    else rc = ms_commit(txn, change->write.value, flags, lsn);
    ms_end(txn);
    return rc;
}

static int write_one(struct change *change, int flags, uint64_t *lsn)
{
    struct ms_node *node = change->table->node;
    uint64_t at = 0, deadline = 0;
    int level = 0, rc = flags & MS_NOWAIT ? 0 : ms_node_may_wait(node, "a write without MS_NOWAIT");
    if (rc) return rc;
    change->write.nowait = flags & MS_NOWAIT;
    ms_node_lock(node);
    do {
        if (node->closing) rc = ms_fail(MS_E_CLOSED, "the node is being closed");
        if (node->txns && ms_key_mine(node)) rc = ms_fail(MS_E_REENTRANT, "this thread is inside a transaction");
        if (rc && rc != MS_E_AGAIN) break;
        if (node->txns && ms_key_holder(node, change->table, change->write.key, change->write.key_hash)) {
            ms_node_unlock(node);
            return write_behind(change, flags, lsn);
        }
        rc = compare(change);
        if (!rc) rc = ms_engine_commit(&node->engine, &change->write, &at, &level);
        if (rc == MS_ASK || rc == MS_E_AGAIN) rc = before_again(node, rc, &change->write, &deadline);
    } while (rc == MS_E_AGAIN);
    if (!rc) return committed(node, at, level, flags, lsn);
    ms_node_unlock(node);
    return rc;
}

static int check_value(struct ms_bytes value)
{
    return value.data ? 0 : ms_fail(MS_E_INVALID, "no value; ms_delete deletes");
}

int ms_put(struct ms_table *table, struct ms_bytes key, struct ms_bytes value, int flags, uint64_t *lsn)
{
    struct change change = change_of(table, key, value, NULL);
    int rc = check_value(value);
    return rc ? rc : write_one(&change, flags, lsn);
}

int ms_delete(struct ms_table *table, struct ms_bytes key, int flags, uint64_t *lsn)
{
    struct change change = change_of(table, key, ms_bytes(NULL, 0), NULL);
    return write_one(&change, flags, lsn);
}

int ms_compare_and_set(struct ms_table *table, struct ms_bytes key, struct ms_bytes expected, struct ms_bytes value, int flags, uint64_t *lsn)
{
    struct change change = change_of(table, key, value, &expected);
    int rc = check_value(value);
    return rc ? rc : write_one(&change, flags, lsn);
}

/* ---- batches --------------------------------------------------------------------------------------------------------------------- */

enum { BATCH_ON_STACK = 32 };

static bool any_busy(struct ms_node *node, const struct ms_write *writes, const struct ms_engine_write *states, size_t count)
{
    for (size_t i = 0; node->txns && i < count; i++)
        if (ms_key_holder(node, writes[i].table, writes[i].key, states[i].key_hash)) return true;
    return false;
}

/* With the lock: waits until none of the keys is busy. */
static int wait_for_keys(struct ms_node *node, const struct ms_write *writes, const struct ms_engine_write *states, size_t count,
                         uint64_t *deadline)
{
    int rc = 0;
    while (!rc && any_busy(node, writes, states, count)) {
        rc = ms_node_may_wait(node, "a write to a busy key");
        if (rc) break;
        if (!*deadline) *deadline = ms_clock_deadline(MS_NODE_PATIENCE_MS);
        node->batches++;
        bool in_time = ms_node_watch(node, *deadline);
        node->batches--;
        if (node->closing) rc = ms_fail(MS_E_CLOSED, "the node is being closed");
        else if (!in_time) rc = ms_fail(MS_E_BUSY, "a key of the batch was busy for %d ms", MS_NODE_PATIENCE_MS);
    }
    return rc;
}

static void forget_decisions(struct ms_engine_write *states, size_t count)
{
    for (size_t i = 0; i < count; i++) states[i].decision = MS_VIEW_UNKNOWN;
}

/* One decision for all writes of an entry: a filter that fails in between must not split them. */
static int decide_once(struct ms_rules *rules, const struct ms_engine_write *states, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (states[k].ask && states[k].key_hash == states[i].key_hash && states[k].table == states[i].table &&
            ms_bytes_equal(states[k].key, states[i].key))
            return states[k].decision;
    return ms_rules_decide(rules, states[i].table->name, states[i].key);
}

/* As before_again, for the writes of a batch that asked. */
static int batch_before_again(struct ms_node *node, int rc, struct ms_engine_write *states, size_t count, uint64_t *deadline)
{
    if (rc == MS_E_AGAIN) {
        forget_decisions(states, count);
        return wait_for_room(node, deadline);
    }
    struct ms_rules *rules = ask_begin(node);
    for (size_t i = 0; i < count; i++)
        if (states[i].ask) states[i].decision = decide_once(rules, states, i);
    if (!ask_end(node, rules)) forget_decisions(states, count);
    return node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : MS_E_AGAIN;
}

static int write_batch(struct ms_node *node, const struct ms_write *writes, struct ms_engine_write *states, size_t count, int flags,
                       uint64_t *lsn)
{
    uint64_t at = 0, room = 0, keys = 0;
    int level = 0, rc = 0;
    ms_node_lock(node);
    if (node->closing) rc = ms_fail(MS_E_CLOSED, "the node is being closed");
    else if (node->txns && ms_key_mine(node)) rc = ms_fail(MS_E_REENTRANT, "this thread is inside a transaction");
    if (!rc)
        do {
            rc = wait_for_keys(node, writes, states, count, &keys);
            if (!rc) rc = ms_engine_commit_batch(&node->engine, states, count, &at, &level);
            if (rc == MS_ASK || rc == MS_E_AGAIN) rc = batch_before_again(node, rc, states, count, &room);
        } while (rc == MS_E_AGAIN);
    if (!rc) return committed(node, at, level, flags, lsn);
    ms_node_unlock(node);
    return rc;
}

int ms_put_batch(struct ms_node *node, const struct ms_write *writes, size_t count, int flags, uint64_t *lsn)
{
    struct ms_engine_write few[BATCH_ON_STACK], *states = few;
    int rc = flags & MS_NOWAIT ? 0 : ms_node_may_wait(node, "a write without MS_NOWAIT");
    for (size_t i = 0; !rc && i < count; i++)
        if (!writes[i].table || writes[i].table->node != node) rc = ms_fail(MS_E_INVALID, "write %zu of the batch: the table of another node", i);
    if (!rc && count > BATCH_ON_STACK) states = ms_alloc(count * sizeof *states);
    if (!states) rc = MS_E_MEMORY;
    if (rc) return rc;
    for (size_t i = 0; i < count; i++) {
        states[i] = ms_engine_write(writes[i].table->state, writes[i].key, ms_key_hash(writes[i].key), writes[i].value);
        states[i].nowait = flags & MS_NOWAIT;
    }
    rc = write_batch(node, writes, states, count, flags, lsn);
    if (states != few) ms_release(states);
    return rc;
}

/* ---- waiting, flushing ------------------------------------------------------------------------------------------------------------ */

int ms_wait(struct ms_node *node, uint64_t lsn, int level, int timeout_ms)
{
    int rc = ms_node_may_wait(node, "ms_wait");
    if (!rc && (level < MS_LEVEL_MEMORY || level > MS_LEVEL_REPLICA)) rc = ms_fail(MS_E_INVALID, "level %d is none of 1..4", level);
    if (rc) return rc;
    uint64_t deadline = ms_clock_deadline(timeout_ms);
    ms_node_lock(node);
    if (level >= MS_LEVEL_DISK && lsn > node->engine.synced) {
        node->engine.sync_wanted = true; /* it may have been written with a lower level in mind */
        node->pump = true;
    }
    return ms_node_wait_unlock(node, lsn, level, deadline);
}

enum { FLUSH_ENTRIES = 512 }; /* per hold of the lock */

int ms_flush(struct ms_node *node, struct ms_table *table, uint64_t *lsn)
{
    uint64_t deadline = 0;
    int rc;
    ms_node_lock(node);
    do {
        rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed")
                           : ms_engine_flush(&node->engine, table ? table->state : NULL, FLUSH_ENTRIES);
        node->pump = true;
        if (rc == MS_E_AGAIN) rc = wait_for_room(node, &deadline);
        if (rc == 1) {
            ms_node_unlock(node);
            ms_node_lock(node);
        }
    } while (rc == 1 || rc == MS_E_AGAIN);
    if (lsn) *lsn = node->engine.tail.head;
    ms_node_unlock(node);
    return rc;
}
