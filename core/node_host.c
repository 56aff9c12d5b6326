/* The host thread: the host's callbacks, one at a time, in the order of the log.
 *
 *      engine ──applied block──> items ──> host thread ──> apply(DELTA), apply(DELTA), ...
 *             ──replaced, or the queue is too long──> items dropped, full_wanted ──> apply(FULL) of every table
 *
 * A follower gives no FULL before it has caught up with its leader, so that the host does not drop what is only not here yet.
 * From time to time, when nothing is queued, the host gets a FULL for no other reason than to compare (audit).
 *
 * A FULL of a table is walked shard by shard under the lock while changes go on. The lsn at which each shard was copied is
 * remembered, and a later delta with an lsn up to it is left out, so that the host never sees a value go back. */
#include "node_conflict.h"

#include <stdio.h>

enum { PART_BYTES = 256 << 10, HOLD_BYTES = 32 << 10, LINES_MAX = 1000, PAUSE_MIN_US = 100000, PAUSE_MAX_US = 10000000 };

enum { HEAR_US = 3000000 }; /* how long a follower that knows no leader waits for one, before its own tables are the best there is */

enum host_kind { HOST_BLOCK, HOST_ROLE, HOST_LINE, HOST_ENTERED, HOST_RESOLVED };

/* A thread that waits for the host to take a value: on its stack. */
struct resolved {
    struct ms_table *table;
    struct ms_bytes key, value;
    int result;
    struct ms_parker parker;
};

struct host_item {
    struct ms_list node;
    int kind, number; /* the role, or the severity */
    struct ms_block *block;
    struct resolved *resolved; /* borrowed: its thread waits */
    struct ms_bytes key; /* of what has entered the view; behind the text. data == NULL: of some key or other */
    char text[];
};

static _Thread_local const struct ms_node *calling; /* the node whose callback this thread is in */

int ms_node_may_wait(const struct ms_node *node, const char *what)
{
    if (calling != node) return 0;
    return ms_fail(MS_E_CALLBACK, "%s would wait inside a callback", what);
}

/* ---- the queue: with the lock -------------------------------------------------------------------------------------------------- */

static void free_item(struct host_item *item)
{
    ms_block_unref(item->block);
    ms_release(item);
}

static struct host_item *new_item(int kind, const char *text, struct ms_bytes key)
{
    size_t size = strlen(text) + 1;
    struct host_item *item = ms_alloc(sizeof *item + size + key.size);
    if (!item) return NULL;
    *item = (struct host_item){.kind = kind};
    memcpy(item->text, text, size);
    if (!key.data) return item;
    if (key.size) memcpy(item->text + size, key.data, key.size);
    item->key = ms_bytes(item->text + size, key.size);
    return item;
}

static void push_item(struct ms_host_queue *host, struct host_item *item)
{
    ms_list_add_tail(&host->items, &item->node);
    (void)pthread_cond_signal(&host->cond);
}

static bool push(struct ms_host_queue *host, int kind, int number, struct ms_block *block, const char *text)
{
    struct host_item *item = new_item(kind, text, ms_bytes(NULL, 0));
    if (!item) return false;
    item->number = number;
    item->block = block ? ms_block_ref(block) : NULL;
    push_item(host, item);
    return true;
}

/* What is queued is part of the FULL that will come, or of a history that is no more. */
static void drop_blocks(struct ms_host_queue *host)
{
    for (struct ms_list *at = host->items.next, *next; at != &host->items; at = next) {
        next = at->next;
        struct host_item *item = ms_list_entry(at, struct host_item, node);
        if (item->kind != HOST_BLOCK) continue;
        ms_list_remove(&item->node);
        free_item(item);
    }
    host->bytes = 0;
}

static void want_full(struct ms_host_queue *host)
{
    drop_blocks(host);
    host->full_wanted = true;
    (void)pthread_cond_signal(&host->cond);
}

void ms_host_applied(struct ms_node *node, struct ms_block *block)
{
    struct ms_host_queue *host = &node->host;
    if (!host->host.apply || host->full_wanted) return;
    if (host->bytes > 0 && host->bytes + block->size > host->bytes_max) {
        ms_node_tell(node, "log", MS_LOG_WARN, "the host is too far behind, it gets all tables anew");
        want_full(host);
    } else if (push(host, HOST_BLOCK, 0, block, "")) {
        host->bytes += block->size;
    } else {
        want_full(host);
    }
}

void ms_host_replaced(struct ms_node *node)
{
    if (!node->host.host.apply) return;
    node->host.version++;
    want_full(&node->host);
}

void ms_host_role(struct ms_node *node, int role, const char *reason)
{
    struct ms_host_queue *host = &node->host;
    if (!host->active) return;
    /* A leader's host writes its own copy, and may have been told "unknown": it is compared as soon as the node leads no more. */
    if (host->host.apply && role != MS_ROLE_LEADER && host->led) ms_host_replaced(node);
    host->led = role == MS_ROLE_LEADER;
    host->role_since = ms_clock_now();
    if (host->host.role) (void)push(host, HOST_ROLE, role, NULL, reason);
    (void)pthread_cond_signal(&host->cond);
}

void ms_host_line(struct ms_node *node, int severity, const char *line)
{
    struct ms_host_queue *host = &node->host;
    if (!host->active || !host->host.log) return;
    if (host->lines >= LINES_MAX || !push(host, HOST_LINE, severity, NULL, line)) host->lines_lost++;
    else host->lines++;
}

bool ms_host_entered(struct ms_node *node, const char *table, struct ms_bytes key)
{
    struct ms_host_queue *host = &node->host;
    if (!host->active || !host->host.entered) return true;
    struct host_item *item = new_item(HOST_ENTERED, table, key);
    if (!item) return false;
    push_item(host, item);
    host->entered++;
    return true;
}

/* ---- calling the host: host thread, without the lock ----------------------------------------------------------------------------- */

struct batch {
    struct ms_table *table;
    uint32_t id;
    uint64_t lsn;
    int flags;
};

/* Gives what stands in `changes` to the host. */
static int call_apply(struct ms_node *node, const struct batch *batch)
{
    struct ms_host_queue *host = &node->host;
    struct ms_batch given = {
        .table = batch->table,
        .table_name = ms_table_name(batch->table),
        .flags = batch->flags,
        .lsn = batch->lsn,
        .changes = (const struct ms_change *)(const void *)host->changes.data,
        .count = host->changes.size / sizeof(struct ms_change),
    };
    if (host->changes.failed) return ms_fail(MS_E_MEMORY, "out of memory for a batch");
    int rc = host->host.apply(host->host.context, &given);
    ms_buf_clear(&host->changes);
    return rc ? ms_fail(MS_E_REFUSED, "the host did not apply a batch of table %s up to lsn %llu (%d)", given.table_name,
                        (unsigned long long)given.lsn, rc) : 0;
}

static void add_change(struct ms_host_queue *host, int op, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_change change = {op, key, value};
    ms_buf_add(&host->changes, &change, sizeof change);
}

/* The handle of a table by its id in the history of that version; MS_E_AGAIN if another one is in place. */
static int table_of(struct ms_node *node, uint32_t id, uint64_t version, struct ms_table **table)
{
    ms_node_lock(node);
    int rc = node->host.version == version && node->store.tables[id] ? 0 : MS_E_AGAIN;
    if (!rc) *table = ms_node_table(node, node->store.tables[id]);
    if (!rc && !*table) rc = MS_E_MEMORY;
    ms_node_unlock(node);
    return rc;
}

/* ---- FULL ---------------------------------------------------------------------------------------------------------------------- */

static int copy_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_buf *copy = context;
    ms_buf_add32(copy, (uint32_t)key.size);
    ms_buf_add32(copy, (uint32_t)value.size);
    ms_buf_add(copy, key.data, key.size);
    ms_buf_add(copy, value.data, value.size);
    return copy->failed;
}

/* Copies shards from *shard on until one hold's worth is copied. MS_E_AGAIN if the tables were replaced, or the node closes. */
static int copy_shards(struct ms_node *node, struct batch *batch, uint64_t version, uint32_t *shard)
{
    struct ms_host_queue *host = &node->host;
    size_t before = host->copy.size;
    ms_node_lock(node);
    int rc = host->version != version || host->stop ? MS_E_AGAIN : 0;
    const struct ms_table_state *state = rc ? NULL : batch->table->state;
    batch->lsn = node->store.applied;
    while (!rc && *shard < MS_TABLE_SHARDS && host->copy.size - before < HOLD_BYTES) {
        if (ms_table_visit(state, *shard, false, copy_entry, &host->copy)) rc = MS_E_MEMORY;
        host->copied[batch->id][(*shard)++] = batch->lsn;
    }
    if (!rc && batch->lsn > host->copied_last) host->copied_last = batch->lsn;
    ms_node_unlock(node);
    return rc;
}

static void changes_of_copy(struct ms_host_queue *host)
{
    struct ms_reader reader = ms_reader(ms_buf_bytes(&host->copy));
    while (ms_reader_left(&reader) > 0) {
        uint32_t key_size = ms_read32(&reader), value_size = ms_read32(&reader);
        struct ms_bytes key = ms_read_bytes(&reader, key_size), value = ms_read_bytes(&reader, value_size);
        add_change(host, MS_OP_PUT, key, value);
    }
}

static int full_table(struct ms_node *node, uint32_t id, uint64_t version)
{
    struct ms_host_queue *host = &node->host;
    struct batch batch = {.id = id, .flags = MS_BATCH_FULL | MS_BATCH_FIRST | (host->auditing ? MS_BATCH_AUDIT : 0)};
    uint32_t shard = 0;
    int rc = table_of(node, id, version, &batch.table);
    if (!rc && !host->copied[id]) {
        host->copied[id] = ms_alloc_zero(MS_TABLE_SHARDS * sizeof *host->copied[id]);
        if (!host->copied[id]) rc = MS_E_MEMORY;
    }
    while (!rc && shard < MS_TABLE_SHARDS) {
        ms_buf_clear(&host->copy);
        while (!rc && shard < MS_TABLE_SHARDS && host->copy.size < PART_BYTES) rc = copy_shards(node, &batch, version, &shard);
        if (rc) break;
        if (shard == MS_TABLE_SHARDS) batch.flags |= MS_BATCH_LAST;
        changes_of_copy(host);
        rc = call_apply(node, &batch);
        batch.flags &= ~MS_BATCH_FIRST;
    }
    ms_buf_clear(&host->changes);
    return rc;
}

static void forget_copies(struct ms_host_queue *host)
{
    for (uint32_t id = 0; id < MS_TABLES_MAX; id++) {
        ms_release(host->copied[id]);
        host->copied[id] = NULL;
    }
    host->copied_last = 0;
}

static void plan_audit(struct ms_node *node)
{
    uint32_t every = node->engine.policy.audit_every_ms;
    node->host.audit_at = every && node->host.host.apply ? ms_clock_now() + (uint64_t)every * 1000 : MS_FOREVER;
}

/* A FULL batch of every table; the host then is at least where the tables are now. Called and returns with the lock. */
static int full_all(struct ms_node *node)
{
    struct ms_host_queue *host = &node->host;
    uint64_t version = host->version, start = node->store.applied;
    int rc = 0;
    drop_blocks(host);
    host->full_wanted = false;
    ms_node_unlock(node);
    forget_copies(host);
    for (uint32_t id = 1; id < MS_TABLES_MAX && !rc; id++) {
        ms_node_lock(node);
        bool defined = host->version == version && node->store.tables[id];
        ms_node_unlock(node);
        if (defined) rc = full_table(node, id, version);
    }
    ms_node_lock(node);
    if (host->version != version) rc = MS_E_AGAIN;
    if (!rc) {
        host->pause_us = PAUSE_MIN_US;
        ms_engine_host_applied(&node->engine, start);
    }
    host->auditing = false;
    plan_audit(node);
    return rc;
}

/* ---- DELTA ----------------------------------------------------------------------------------------------------------------------- */

static bool is_copied(const struct ms_host_queue *host, const struct ms_record *record, uint64_t lsn)
{
    const uint64_t *copied = host->copied[record->table];
    return copied && lsn <= copied[ms_shard_of(ms_key_hash(record->key))];
}

static int flush(struct ms_node *node, const struct batch *batch)
{
    return node->host.changes.size > 0 ? call_apply(node, batch) : 0;
}

/* One record of a block; neighbours of one table are one batch. */
static int delta_record(struct ms_node *node, struct batch *batch, const struct ms_record *record, uint64_t lsn, uint64_t version)
{
    int rc = 0;
    if (record->type == MS_RECORD_TABLE) { /* the host may have such entries of its own: it gets what is in the table now */
        rc = flush(node, batch);
        batch->id = 0;
        return rc ? rc : full_table(node, record->table, version);
    }
    if (record->type != MS_RECORD_PUT && record->type != MS_RECORD_DELETE && record->type != MS_RECORD_LEAVE) return 0;
    if (is_copied(&node->host, record, lsn)) return 0;
    if (record->table != batch->id) {
        rc = flush(node, batch);
        if (!rc) rc = table_of(node, record->table, version, &batch->table);
        batch->id = record->table;
    }
    if (rc) return rc;
    batch->lsn = lsn;
    add_change(&node->host, record->type, record->key, record->type == MS_RECORD_PUT ? record->value : ms_bytes(NULL, 0));
    return 0;
}

_Static_assert((int)MS_OP_PUT == (int)MS_RECORD_PUT && (int)MS_OP_DELETE == (int)MS_RECORD_DELETE &&
                   (int)MS_OP_LEAVE == (int)MS_RECORD_LEAVE, "records and changes use the same numbers");

static int delta_block(struct ms_node *node, const struct ms_block *block, uint64_t version)
{
    struct ms_group_header header;
    struct ms_record record;
    struct batch batch = {0};
    struct ms_bytes group = ms_bytes(block->data, block->size);
    if (block->first > node->host.copied_last) forget_copies(&node->host);
    int rc = ms_group_open(group, &header), more = 0;
    struct ms_record_reader reader = ms_record_reader(group, &header);
    for (uint64_t lsn = block->first; !rc && (more = ms_record_next(&reader, &record)) == 1; lsn++)
        rc = delta_record(node, &batch, &record, lsn, version);
    if (!rc) rc = more;
    if (!rc) rc = flush(node, &batch);
    ms_buf_clear(&node->host.changes);
    return rc;
}

/* ---- the thread: with the lock, except where it calls the host -------------------------------------------------------------------- */

static void failed(struct ms_node *node, int rc)
{
    struct ms_host_queue *host = &node->host;
    want_full(host);
    if (rc == MS_E_AGAIN) return; /* not the host's fault: tables were replaced */
    node->engine.counters.host_failures++;
    ms_node_alarm(node, ms_fail_message(rc));
    host->retry_at = ms_clock_now() + host->pause_us;
    host->pause_us = host->pause_us * 2 < PAUSE_MAX_US ? host->pause_us * 2 : PAUSE_MAX_US;
}

static void apply_block(struct ms_node *node, struct ms_block *block)
{
    struct ms_host_queue *host = &node->host;
    uint64_t version = host->version;
    ms_node_unlock(node);
    int rc = delta_block(node, block, version);
    ms_node_lock(node);
    if (host->version != version) return; /* want_full is set */
    if (rc) {
        failed(node, rc);
        return;
    }
    host->pause_us = PAUSE_MIN_US;
    ms_engine_host_applied(&node->engine, block->last);
}

static void tell(struct ms_node *node, const struct host_item *item)
{
    const struct ms_host *host = &node->host.host;
    uint32_t lost = 0;
    char text[64];
    if (item->kind == HOST_LINE) {
        node->host.lines--;
        lost = node->host.lines_lost;
        node->host.lines_lost = 0;
    }
    if (item->kind == HOST_ENTERED && node->host.entered-- == MS_HOST_ENTERED_MAX) ms_node_policy_wake(node);
    ms_node_unlock(node);
    if (item->kind == HOST_ROLE) host->role(host->context, item->number, item->text);
    if (item->kind == HOST_LINE) host->log(host->context, item->number, item->text);
    if (item->kind == HOST_ENTERED) host->entered(host->context, item->text, item->key);
    (void)snprintf(text, sizeof text, "%u lines were lost before this one", lost);
    if (lost) host->log(host->context, MS_LOG_WARN, text);
    ms_node_lock(node);
}

static void call_resolved(struct ms_node *node, struct resolved *resolved)
{
    const struct ms_host *host = &node->host.host;
    ms_node_unlock(node);
    resolved->result = host->resolved(host->context, resolved->table, resolved->key, resolved->value);
    ms_parker_wake(&resolved->parker);
    ms_node_lock(node);
}

void ms_host_resolved(struct ms_table *table, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_node *node = table->node;
    struct resolved resolved = {.table = table, .key = key, .value = value, .result = MS_E_MEMORY};
    ms_parker_init(&resolved.parker);
    ms_node_lock(node);
    bool wanted = node->host.host.resolved && node->host.thread.started && !node->host.stop;
    bool queued = wanted && push(&node->host, HOST_RESOLVED, 0, NULL, "");
    if (queued) ms_list_entry(node->host.items.prev, struct host_item, node)->resolved = &resolved;
    ms_node_unlock(node);
    if (queued) (void)ms_parker_wait(&resolved.parker, MS_FOREVER);
    if (!wanted || resolved.result == 0) return;
    char line[200];
    (void)snprintf(line, sizeof line, "the host did not take what was decided for an entry of table %s (%d)", table->state->name,
                   resolved.result);
    ms_node_lock(node);
    node->engine.counters.host_failures++;
    ms_node_alarm(node, line);
    ms_node_unlock(node);
}

static void handle(struct ms_node *node, struct host_item *item)
{
    ms_list_remove(&item->node);
    if (item->kind == HOST_RESOLVED) {
        call_resolved(node, item->resolved);
        free_item(item);
        return;
    }
    if (item->kind == HOST_BLOCK) {
        node->host.bytes -= item->block->size;
        if (!node->host.stop) apply_block(node, item->block);
    } else {
        tell(node, item);
    }
    free_item(item);
}

/* The log decides what the host has only on a follower, and on one that is being promoted. The host of a node that is about to lead is
 * compared with the log (node_compare.c), and that of an idle one may go on without it. */
static bool takes_tables(const struct ms_node *node)
{
    const struct ms_engine *engine = &node->engine;
    if (!node->host.host.apply) return false;
    return engine->role == MS_ROLE_FOLLOWER || (engine->role == MS_ROLE_OPENING && engine->opening_host);
}

/* When a FULL that is wanted may be given. Tables without any history are never given for want of a leader. */
static uint64_t full_at(const struct ms_node *node)
{
    const struct ms_host_queue *host = &node->host;
    const struct ms_engine *engine = &node->engine;
    int caught = engine->role == MS_ROLE_FOLLOWER ? ms_engine_caught_up(engine) : MS_CAUGHT_UP;
    if (caught == MS_CAUGHT_UP) return host->retry_at;
    if (caught == MS_CAUGHT_NOT || engine->store->applied == 0) return MS_FOREVER;
    return host->role_since + HEAR_US > host->retry_at ? host->role_since + HEAR_US : host->retry_at;
}

void ms_host_look(struct ms_node *node)
{
    if (!node->host.held_back || ms_engine_caught_up(&node->engine) == MS_CAUGHT_NOT) return;
    node->host.held_back = false;
    (void)pthread_cond_signal(&node->host.cond);
}

static void *host_main(void *context)
{
    struct ms_node *node = context;
    struct ms_host_queue *host = &node->host;
    calling = node;
    ms_node_lock(node);
    for (;;) {
        bool due = host->full_wanted && takes_tables(node) && !host->stop;
        if (!ms_list_empty(&host->items)) {
            handle(node, ms_list_entry(host->items.next, struct host_item, node));
        } else if (host->stop) {
            break;
        } else if (due && ms_clock_now() >= full_at(node)) {
            int rc = full_all(node);
            if (rc && !host->stop) failed(node, rc);
        } else if (!due && ms_clock_now() >= host->audit_at) {
            host->auditing = node->engine.role == MS_ROLE_FOLLOWER;
            if (host->auditing) want_full(host);
            else plan_audit(node);
        } else {
            ms_node_settle(node);
            host->held_back = due && full_at(node) > host->retry_at; /* the pause alone would not keep it: ms_host_look ends the wait */
            (void)ms_node_sleep(node, &host->cond, due ? full_at(node) : host->audit_at);
        }
    }
    ms_node_unlock(node);
    return NULL;
}

/* ---- life ---------------------------------------------------------------------------------------------------------------------------- */

int ms_host_init(struct ms_node *node, const struct ms_host *host)
{
    struct ms_host_queue *queue = &node->host;
    ms_list_init(&queue->items);
    queue->bytes_max = node->policy.host_queue_bytes;
    queue->pause_us = PAUSE_MIN_US;
    queue->audit_at = MS_FOREVER;
    if (!host) return 0;
    queue->host = *host;
    queue->full_wanted = host->apply != NULL;
    int rc = ms_cond_init(&queue->cond);
    queue->ready = rc == 0;
    queue->active = queue->ready && (host->apply || host->role || host->log || host->entered || host->resolved);
    return rc;
}

void ms_host_policy(struct ms_node *node, const struct ms_policy *policy)
{
    if (!node->host.active) return;
    uint64_t every = policy->audit_every_ms, due = every ? ms_clock_now() + every * 1000 : MS_FOREVER;
    node->host.bytes_max = policy->host_queue_bytes;
    if (!every || due < node->host.audit_at) node->host.audit_at = node->host.host.apply ? due : MS_FOREVER;
    (void)pthread_cond_signal(&node->host.cond);
}

int ms_host_start(struct ms_node *node)
{
    return node->host.active ? ms_thread_start(&node->host.thread, "ms-host", host_main, node) : 0;
}

void ms_host_stop(struct ms_node *node)
{
    struct ms_host_queue *host = &node->host;
    if (!host->thread.started) return;
    ms_node_lock(node);
    host->stop = true;
    (void)pthread_cond_signal(&host->cond);
    ms_node_unlock(node);
    ms_thread_join(&host->thread);
}

void ms_host_close(struct ms_node *node)
{
    struct ms_host_queue *host = &node->host;
    if (!host->ready) return;
    drop_blocks(host);
    while (!ms_list_empty(&host->items)) {
        struct host_item *item = ms_list_entry(host->items.next, struct host_item, node);
        ms_list_remove(&item->node);
        free_item(item);
    }
    forget_copies(host);
    ms_buf_close(&host->copy);
    ms_buf_close(&host->changes);
    (void)pthread_cond_destroy(&host->cond);
    host->ready = false;
}
