/* Busy keys: transactions on one key follow each other, those on other keys don't notice.
 *
 * A key is busy while a transaction holds it. The holder stands in a bucket of `keys`, those that wait for the key in the holder's list;
 * at its end the first of them becomes the holder. Nobody can get in between, so that no thread waits longer than those before it
 * take. Each thread inside a transaction also stands in a bucket of `owners`, which is how a nested one is noticed. */
#include "node_key.h"

static _Thread_local char self; /* its address names this thread */

static struct ms_list *owner_bucket(struct ms_node *node, const void *owner)
{
    return &node->owners[ms_mix((uint64_t)(uintptr_t)owner) % MS_NODE_OWNERS];
}

static struct ms_list *key_bucket(struct ms_node *node, uint64_t key_hash)
{
    return &node->keys[key_hash % MS_NODE_KEYS];
}

bool ms_key_mine(struct ms_node *node)
{
    struct ms_list *bucket = owner_bucket(node, &self);
    for (struct ms_list *at = bucket->next; at != bucket; at = at->next)
        if (ms_list_entry(at, struct ms_txn, by_owner)->owner == &self) return true;
    return false;
}

struct ms_txn *ms_key_holder(struct ms_node *node, const struct ms_table *table, struct ms_bytes key, uint64_t key_hash)
{
    struct ms_list *bucket = key_bucket(node, key_hash);
    for (struct ms_list *at = bucket->next; at != bucket; at = at->next) {
        struct ms_txn *txn = ms_list_entry(at, struct ms_txn, by_key);
        if (txn->key_hash == key_hash && txn->table == table && ms_bytes_equal(ms_bytes(txn->key, txn->key_size), key)) return txn;
    }
    return NULL;
}

static struct ms_txn *new_txn(struct ms_table *table, struct ms_bytes key)
{
    struct ms_txn *txn = ms_alloc(sizeof *txn + key.size);
    if (!txn) return NULL;
    ms_list_init(&txn->by_key);
    ms_list_init(&txn->by_owner);
    ms_list_init(&txn->waiters);
    ms_parker_init(&txn->parker);
    txn->table = table;
    txn->owner = &self;
    txn->key_hash = ms_key_hash(key);
    txn->held = txn->committed = false;
    txn->result = 0;
    txn->value = ms_bytes(NULL, 0);
    txn->key_size = key.size;
    memcpy(txn->key, key.data, key.size);
    return txn;
}

static void free_txn(struct ms_txn *txn)
{
    if (txn->value.data != txn->room) ms_release((void *)(uintptr_t)txn->value.data);
    ms_release(txn);
}

/* With the lock. The key goes to who has waited longest. */
static void leave(struct ms_node *node, struct ms_txn *txn)
{
    ms_list_remove(&txn->by_owner);
    node->txns--;
    if (txn->held && !ms_list_empty(&txn->waiters)) {
        struct ms_txn *next = ms_list_entry(txn->waiters.next, struct ms_txn, by_key);
        ms_list_remove(&next->by_key);
        ms_list_splice(&next->waiters, &txn->waiters);
        ms_list_add_tail(key_bucket(node, next->key_hash), &next->by_key);
        next->held = true;
        ms_parker_wake(&next->parker);
    }
    ms_list_remove(&txn->by_key);
    if (node->batches || node->closing) (void)pthread_cond_broadcast(&node->changed);
}

/* With the lock, the key being held. */
static int copy_value(struct ms_txn *txn)
{
    struct ms_bytes value = ms_table_get(txn->table->state, ms_bytes(txn->key, txn->key_size), txn->key_hash);
    if (!value.data) return 0;
    void *copy = value.size <= sizeof txn->room ? txn->room : ms_alloc(value.size);
    if (!copy) return MS_E_MEMORY;
    memcpy(copy, value.data, value.size);
    txn->value = ms_bytes(copy, value.size);
    return 0;
}

/* With the lock: may this thread begin now? The engine checks the rest at the commit. */
static int check(struct ms_node *node)
{
    const struct ms_engine *engine = &node->engine;
    if (node->closing) return ms_fail(MS_E_CLOSED, "the node is being closed");
    if (engine->role == MS_ROLE_LEADER) return 0;
    if (!engine->log_error) return ms_fail(MS_E_NOT_LEADER, "this node is %s, not leader: %s", ms_role_name(engine->role), engine->reason);
    if (engine->policy.on_log_failure == MS_ON_LOG_FAILURE_PASS) return 0;
    return ms_fail(MS_E_LOG_FAILED, "%s", engine->alarm);
}

/* Waits behind the holder. With the lock before and after. */
static int wait_for_key(struct ms_node *node, struct ms_txn *holder, struct ms_txn *txn, int wait_ms)
{
    if (wait_ms == 0) return ms_fail(MS_E_BUSY, "the key is busy");
    uint64_t deadline = ms_clock_deadline(wait_ms);
    ms_list_add_tail(&holder->waiters, &txn->by_key);
    ms_node_unlock(node);
    (void)ms_parker_wait(&txn->parker, deadline);
    ms_node_lock(node);
    if (txn->result) return ms_fail(txn->result, "the node is being closed");
    if (!txn->held) return ms_fail(MS_E_BUSY, "the key was busy for %d ms", wait_ms);
    return check(node);
}

int ms_key_begin(struct ms_table *table, struct ms_bytes key, int wait_ms, bool with_value, struct ms_txn **result)
{
    struct ms_node *node = table->node;
    if (!key.data || key.size == 0) return ms_fail(MS_E_INVALID, "an empty key");
    if (key.size > node->policy.key_max) return ms_fail(MS_E_LIMIT, "a key of %zu bytes, the limit is %u", key.size, node->policy.key_max);
    struct ms_txn *txn = new_txn(table, key);
    if (!txn) return MS_E_MEMORY;
    ms_node_lock(node);
    int rc = check(node);
    if (!rc && node->txns && ms_key_mine(node)) rc = ms_fail(MS_E_REENTRANT, "this thread is inside a transaction already");
    if (rc) {
        ms_node_unlock(node);
        free_txn(txn);
        return rc;
    }
    node->txns++;
    ms_list_add_tail(owner_bucket(node, &self), &txn->by_owner);
    struct ms_txn *holder = ms_key_holder(node, table, key, txn->key_hash);
    if (holder) {
        rc = wait_for_key(node, holder, txn, wait_ms);
    } else {
        txn->held = true;
        ms_list_add_tail(key_bucket(node, txn->key_hash), &txn->by_key);
    }
    if (!rc && with_value) rc = copy_value(txn);
    if (rc) leave(node, txn);
    ms_node_unlock(node);
    if (rc) free_txn(txn);
    else *result = txn;
    return rc;
}

void ms_key_end(struct ms_txn *txn)
{
    struct ms_node *node = txn->table->node;
    ms_node_lock(node);
    leave(node, txn);
    ms_node_unlock(node);
    free_txn(txn);
}

void ms_key_drop_mine(struct ms_node *node)
{
    struct ms_list *bucket = owner_bucket(node, &self);
    for (struct ms_list *at = bucket->next, *next; at != bucket; at = next) {
        next = at->next;
        struct ms_txn *txn = ms_list_entry(at, struct ms_txn, by_owner);
        if (txn->owner != &self) continue;
        leave(node, txn);
        free_txn(txn);
    }
}
