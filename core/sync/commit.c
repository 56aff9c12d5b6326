/* Writing on the leader (promises 1 to 3). Every refusal comes before the append: memory, room and replicas are checked first; the
 * append and the table's change then can't fail. */
#include "inside.h"

#include <stdio.h>

/* ---- refusals ------------------------------------------------------------------------------------------------------ */

static int check_role(const struct ms_engine *e)
{
    if (e->role == MS_ROLE_LEADER) return 0;
    if (e->log_error && e->policy.on_log_failure == MS_ON_LOG_FAILURE_PASS) return MS_LOCAL;
    if (e->log_error) return ms_fail(MS_E_LOG_FAILED, "%s", e->alarm);
    return ms_fail(MS_E_NOT_LEADER, "this node is %s, not leader: %s", ms_role_name(e->role), e->reason);
}

/* The same for what makes no sense without a log, whatever the policy says. */
int ms_commit_check_logging(const struct ms_engine *e)
{
    int rc = check_role(e);
    return rc == MS_LOCAL ? ms_fail(MS_E_LOG_FAILED, "%s", e->alarm) : rc;
}

static int check_entry(const struct ms_engine *e, const struct ms_engine_write *write)
{
    const struct ms_table_state *table = write->table;
    struct ms_bytes key = write->key, value = write->value;
    if (table->id == 0) return ms_fail(MS_E_NOT_FOUND, "table %s is not in the adopted history; open it anew", table->name);
    if (key.size == 0 || !key.data) return ms_fail(MS_E_INVALID, "table %s: an empty key", table->name);
    if (key.size > e->policy.key_max)
        return ms_fail(MS_E_LIMIT, "table %s: a key of %zu bytes, the limit is %u", table->name, key.size, e->policy.key_max);
    if (!value.data) return 0;
    if (value.size > e->policy.value_max)
        return ms_fail(MS_E_LIMIT, "table %s: a value of %zu bytes, the limit is %u", table->name, value.size, e->policy.value_max);
    if (table->type == MS_TYPE_INT64 && value.size != 8)
        return ms_fail(MS_E_TYPE, "table %s holds int64 values, these are %zu bytes", table->name, value.size);
    return 0;
}

/* What a host logs without waiting while it compares is what it has already: it would never come to the end, and so to followers, if that
 * needed some. */
static int check_replica(const struct ms_engine *e, int level, bool nowait)
{
    if (e->comparing && nowait) return 0;
    if (level < MS_LEVEL_REPLICA || e->policy.on_no_replica == MS_ON_NO_REPLICA_DEGRADE || ms_engine_any_in_sync(e)) return 0;
    return ms_fail(MS_E_NO_REPLICA, "no follower is in sync");
}

/* A log at its bound has room as soon as it is trimmed behind the snapshot under way: worth a wait. A full disk is not. */
static bool room_is_near(const struct ms_engine *e)
{
    return !e->room_error || (e->room_error == MS_E_LIMIT && (e->snapshotting || e->trimming || e->reserving));
}

int ms_engine_room_for(struct ms_engine *e, size_t size, size_t margin)
{
    if (e->log_error) return ms_fail(MS_E_LOG_FAILED, "%s", e->alarm);
    if (e->tail.bytes + ms_tail_cost(&e->tail, size) + margin <= e->room_end) return 0;
    if (!room_is_near(e)) return ms_fail(MS_E_NO_SPACE, "no space for the log");
    if (!e->room_error) ms_engine_ask_room(e);
    return ms_fail(MS_E_AGAIN, "log space is being prepared");
}

int ms_commit_check_tail(struct ms_engine *e, size_t size)
{
    if (e->tail.unwritten > e->policy.tail_bytes) return ms_fail(MS_E_AGAIN, "the log's writer is behind");
    return ms_engine_room_for(e, size, MS_ROOM_MARGIN);
}

/* ---- unbuffered ------------------------------------------------------------------------------------------------------ */

static void want_level(struct ms_engine *e, int level)
{
    if (level >= MS_LEVEL_DISK) e->sync_wanted = true;
    if (level >= MS_LEVEL_REPLICA) e->tail.open->want_sync = true;
}

void ms_commit_count(struct ms_engine *e, uint64_t count)
{
    e->store->changes_since_mark += count;
    if (e->store->changes_since_mark >= e->policy.mark_changes) (void)ms_engine_append_mark(e); /* no room: the timer tries again */
}

static size_t write_size(const struct ms_engine_write *write)
{
    return ms_record_change_size(write->table->id, write->key, write->value);
}

/* Appends one change for which everything is reserved, and makes it the table's. */
static void append_change(struct ms_engine *e, const struct ms_engine_write *write, const struct ms_spot *spot, size_t size,
                          struct ms_prepared *prepared)
{
    uint8_t *at = ms_tail_append(&e->tail, size);
    (void)ms_record_change_put(at, write->value.data ? MS_RECORD_PUT : MS_RECORD_DELETE, write->table->id, write->key, write->value);
    ms_table_apply(write->table, spot, write->key, write->value, write->value_hash, prepared);
    e->store->applied = e->tail.head;
}

static int commit_logged(struct ms_engine *e, const struct ms_engine_write *write, const struct ms_spot *spot, int level)
{
    size_t size = write_size(write);
    struct ms_prepared prepared;
    int rc = check_replica(e, level, write->nowait);
    if (!rc) rc = ms_commit_check_tail(e, size);
    if (!rc) rc = ms_table_prepare(write->table, spot, write->key, write->value, &prepared);
    if (rc) return rc;
    rc = ms_tail_reserve(&e->tail, size);
    if (rc) {
        ms_prepared_abandon(&prepared);
        return rc;
    }
    append_change(e, write, spot, size, &prepared);
    want_level(e, level);
    return 0;
}

/* ---- the entry points ---------------------------------------------------------------------------------------------------- */

int ms_engine_commit(struct ms_engine *e, const struct ms_engine_write *write, uint64_t *lsn, int *level)
{
    int rc = check_role(e);
    if (!rc) rc = check_entry(e, write);
    if (rc) return rc;
    struct ms_table_state *table = write->table;
    const struct ms_table_policy *policy = &e->table_policy[table->id];
    struct ms_spot spot = ms_table_find(table, write->key, write->key_hash);
    if (e->viewing && !ms_spot_live(&spot)) rc = ms_engine_view(e, table, write->key, write->key_hash, write->value, write->decision);
    if (rc == MS_LOCAL) e->counters.outside++;
    bool logs = !rc && !policy->interval_ms && !ms_spot_holds(&spot, write->value, write->value_hash);
    if (logs) rc = commit_logged(e, write, &spot, policy->level);
    if (!rc && policy->interval_ms) rc = ms_flush_put(e, write, &spot);
    if (rc) return rc;
    if (policy->interval_ms) ms_flush_keep_bounds(e, table);
    *lsn = e->tail.head; /* an equal value logs nothing and waits for the head as of now */
    *level = policy->interval_ms ? 0 : policy->level;
    if (logs) ms_commit_count(e, 1);
    else if (*level >= MS_LEVEL_DISK) e->sync_wanted = true;
    return 0;
}

/* ---- batches --------------------------------------------------------------------------------------------------------------- */

/* Which writes are out of the view. MS_ASK: some have to be decided first; MS_LOCAL: none is left. */
static int batch_view(struct ms_engine *e, struct ms_engine_write *writes, size_t count)
{
    size_t out = 0, asks = 0;
    for (size_t i = 0; i < count; i++) {
        struct ms_engine_write *write = &writes[i];
        bool decides = e->viewing && !ms_table_get(write->table, write->key, write->key_hash).data;
        int rc = decides ? ms_engine_view(e, write->table, write->key, write->key_hash, write->value, write->decision) : 0;
        write->ask = rc == MS_ASK;
        write->out = rc == MS_LOCAL;
        asks += write->ask;
        out += write->out;
    }
    if (asks) return MS_ASK;
    return out && out == count ? MS_LOCAL : 0;
}

static int check_entries(const struct ms_engine *e, const struct ms_engine_write *writes, size_t count)
{
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) rc = check_entry(e, &writes[i]);
    return rc;
}

static int check_batch(struct ms_engine *e, const struct ms_engine_write *writes, size_t count, size_t *size, int *level)
{
    *size = 0;
    *level = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ms_table_policy *policy = &e->table_policy[writes[i].table->id];
        if (policy->interval_ms || writes[i].out) continue;
        *size += write_size(&writes[i]);
        if (policy->level > *level) *level = policy->level;
        if (*size > e->policy.batch_max) return ms_fail(MS_E_LIMIT, "a batch of more than %u bytes", e->policy.batch_max);
    }
    int rc = check_replica(e, *level, count > 0 && writes[0].nowait);
    return rc || *size == 0 ? rc : ms_commit_check_tail(e, *size);
}

struct batch {
    struct ms_prepared *prepared;
    bool *skip;
    uint32_t *slots; /* a hash set of the writes seen: index + 1 */
    size_t mask;
};

/* Whether a write of the same key was seen; remembers this one if not. */
static bool seen(struct batch *batch, const struct ms_engine_write *writes, size_t i)
{
    for (size_t slot = writes[i].key_hash & batch->mask;; slot = (slot + 1) & batch->mask) {
        uint32_t other = batch->slots[slot];
        if (!other) {
            batch->slots[slot] = (uint32_t)i + 1;
            return false;
        }
        const struct ms_engine_write *a = &writes[other - 1], *b = &writes[i];
        if (a->table == b->table && ms_bytes_equal(a->key, b->key)) return true;
    }
}

static void batch_close(struct batch *batch, size_t count)
{
    for (size_t i = 0; batch->prepared && i < count; i++) ms_prepared_abandon(&batch->prepared[i]);
    ms_release(batch->prepared);
    ms_release(batch->skip);
    ms_release(batch->slots);
}

static int batch_memory(struct batch *batch, size_t count)
{
    size_t slots = 4;
    while (slots < count * 2) slots *= 2;
    batch->mask = slots - 1;
    batch->prepared = ms_alloc_zero(count * sizeof *batch->prepared);
    batch->skip = ms_alloc_zero(count * sizeof *batch->skip);
    batch->slots = ms_alloc_zero(slots * sizeof *batch->slots);
    return batch->prepared && batch->skip && batch->slots ? 0 : MS_E_MEMORY;
}

/* Takes the memory that the batch will need: after this nothing can fail. From the last write to the first, since the last one
 * of a key wins and earlier ones are left out. */
static int batch_prepare(struct ms_engine *e, const struct ms_engine_write *writes, size_t count, struct batch *batch)
{
    int rc = batch_memory(batch, count);
    for (size_t i = count; i-- > 0 && !rc;) {
        const struct ms_engine_write *write = &writes[i];
        struct ms_spot spot = ms_table_find(write->table, write->key, write->key_hash);
        batch->skip[i] = write->out || e->table_policy[write->table->id].interval_ms || seen(batch, writes, i) ||
                         ms_spot_holds(&spot, write->value, write->value_hash);
        if (!batch->skip[i]) rc = ms_table_prepare(write->table, &spot, write->key, write->value, &batch->prepared[i]);
    }
    return rc;
}

/* Buffered writes of a batch join their buffers one by one; the first refusal (memory) ends the batch before anything is logged. */
static int batch_buffered(struct ms_engine *e, const struct ms_engine_write *writes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (writes[i].out || !e->table_policy[writes[i].table->id].interval_ms) continue;
        struct ms_spot spot = ms_table_find(writes[i].table, writes[i].key, writes[i].key_hash);
        int rc = ms_flush_put(e, &writes[i], &spot);
        if (rc) return rc;
    }
    return 0;
}

static void batch_append(struct ms_engine *e, const struct ms_engine_write *writes, size_t count, struct batch *batch, int level)
{
    uint64_t changes = 0;
    for (size_t i = 0; i < count; i++) {
        if (batch->skip[i]) continue;
        struct ms_spot spot = ms_table_find(writes[i].table, writes[i].key, writes[i].key_hash); /* the changes before may have moved it */
        append_change(e, &writes[i], &spot, write_size(&writes[i]), &batch->prepared[i]);
        changes++;
    }
    if (changes) {
        want_level(e, level);
        ms_commit_count(e, changes);
    } else if (level >= MS_LEVEL_DISK) {
        e->sync_wanted = true;
    }
}

/* What joined the buffers stays there, also of a batch that was refused half way for want of memory. A refusal moves no log, so the bounds of
 * that are kept by the next tick. */
static void batch_keep_bounds(struct ms_engine *e, const struct ms_engine_write *writes, size_t count, bool refused)
{
    for (size_t i = 0; i < count; i++) {
        if (writes[i].out || !e->table_policy[writes[i].table->id].interval_ms) continue;
        if (refused) ms_flush_keep_bounds_soon(e, writes[i].table);
        else ms_flush_keep_bounds(e, writes[i].table);
    }
}

int ms_engine_commit_batch(struct ms_engine *e, struct ms_engine_write *writes, size_t count, uint64_t *lsn, int *level)
{
    size_t size;
    struct batch batch = {0};
    int rc = check_role(e);
    if (!rc) rc = check_entries(e, writes, count);
    if (rc) return rc;
    rc = batch_view(e, writes, count);
    if (rc == MS_LOCAL) e->counters.outside += count;
    if (!rc) rc = check_batch(e, writes, count, &size, level);
    if (rc) return rc;
    rc = batch_prepare(e, writes, count, &batch);
    if (!rc && size > 0) rc = ms_tail_reserve(&e->tail, size); /* all of it fits into one group */
    if (!rc) rc = batch_buffered(e, writes, count);
    if (!rc) {
        batch_append(e, writes, count, &batch, *level);
        for (size_t i = 0; i < count; i++) e->counters.outside += writes[i].out;
        *lsn = e->tail.head;
    }
    batch_close(&batch, count);
    batch_keep_bounds(e, writes, count, rc != 0); /* last: it logs other things, and the batch is one group */
    return rc;
}

/* ---- the engine's own records, tables ---------------------------------------------------------------------------------------- */

int ms_engine_append(struct ms_engine *e, struct ms_bytes record)
{
    int rc = ms_engine_room_for(e, record.size, 0);
    if (!rc) rc = ms_tail_reserve(&e->tail, record.size);
    if (rc) return rc;
    memcpy(ms_tail_append(&e->tail, record.size), record.data, record.size);
    e->store->applied = e->tail.head;
    return 0;
}

int ms_engine_append_mark(struct ms_engine *e)
{
    struct ms_buf payload, record;
    ms_buf_init(&payload);
    ms_buf_init(&record);
    ms_store_mark(e->store, &payload);
    ms_record_add(&record, MS_RECORD_MARK, ms_buf_bytes(&payload));
    int rc = payload.failed || record.failed ? MS_E_MEMORY : ms_engine_append(e, ms_buf_bytes(&record));
    ms_buf_close(&record);
    ms_buf_close(&payload);
    if (rc) return rc;
    e->store->changes_since_mark = 0;
    e->mark_at = 0;
    return 0;
}

static int define_table(struct ms_engine *e, const char *name, int type, struct ms_table_state **table)
{
    uint32_t id = 1;
    while (id < MS_TABLES_MAX && e->store->tables[id]) id++;
    if (id == MS_TABLES_MAX) return ms_fail(MS_E_LIMIT, "table %s would be number %d", name, MS_TABLES_MAX);
    struct ms_buf record;
    ms_buf_init(&record);
    ms_record_add_table(&record, id, (uint8_t)type, ms_str(name));
    int rc = record.failed ? MS_E_MEMORY : ms_engine_room_for(e, record.size, MS_ROOM_MARGIN);
    if (!rc) rc = ms_tail_reserve(&e->tail, record.size);
    if (!rc) rc = ms_store_define(e->store, id, (uint8_t)type, ms_str(name));
    if (!rc) rc = ms_engine_append(e, ms_buf_bytes(&record)); /* can't fail: reserved */
    ms_buf_close(&record);
    if (rc) return rc;
    e->plans[id] = (struct ms_buffer_plan){0};
    e->flush_at[id] = 0;
    ms_flush_table_policy(e, id);
    *table = e->store->tables[id];
    return 0;
}

static int check_name(const char *name)
{
    size_t size = strlen(name);
    if (size == 0 || size > MS_TABLE_NAME_MAX) return ms_fail(MS_E_INVALID, "a table name has 1..%d bytes, not %zu", MS_TABLE_NAME_MAX, size);
    for (const char *at = name; *at; at++)
        if (!(*at >= 'a' && *at <= 'z') && !(*at >= 'A' && *at <= 'Z') && !(*at >= '0' && *at <= '9') && !strchr("_.-", *at))
            return ms_fail(MS_E_INVALID, "table name %s: only letters, digits and _ . - are allowed", name);
    return 0;
}

int ms_engine_table(struct ms_engine *e, const char *name, int type, struct ms_table_state **table)
{
    int rc = check_name(name);
    if (rc) return rc;
    struct ms_table_state *known = ms_store_find(e->store, ms_str(name));
    if (known) {
        if (known->type != type) return ms_fail(MS_E_TYPE, "table %s exists with the other value type", name);
        *table = known;
        return 0;
    }
    int wanted = ms_policy_table(&e->policy, name).type;
    if (wanted && wanted != type) return ms_fail(MS_E_TYPE, "table %s has the other value type in the policy", name);
    if (type != MS_TYPE_BYTES && type != MS_TYPE_INT64) return ms_fail(MS_E_INVALID, "table %s: value type %d is not known", name, type);
    if (e->role == MS_ROLE_FOLLOWER) return ms_fail(MS_E_NOT_FOUND, "table %s is not in the log yet", name);
    rc = ms_commit_check_logging(e);
    return rc ? rc : define_table(e, name, type, table);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------------------- */

/* Whether our log still has lsn as the epoch with this id wrote it. */
static bool still_ours(const struct ms_engine *e, uint64_t lsn, uint64_t epoch_id)
{
    const struct ms_lineage *lineage = &e->store->lineage;
    for (uint32_t i = lineage->count; i-- > 0;)
        if (lineage->entries[i].epoch.id == epoch_id) return i + 1 == lineage->count || lsn < lineage->entries[i + 1].first;
    return epoch_id == 0;
}

int ms_engine_reached(const struct ms_engine *e, uint64_t lsn, int level, uint64_t epoch_id)
{
    if (!still_ours(e, lsn, epoch_id)) return ms_fail(MS_E_UNKNOWN, "lsn %llu: another history was adopted", (unsigned long long)lsn);
    if (lsn > e->tail.head)
        return ms_fail(MS_E_INVALID, "lsn %llu is beyond the head %llu", (unsigned long long)lsn, (unsigned long long)e->tail.head);
    uint64_t reached = level <= MS_LEVEL_MEMORY ? e->tail.head
                       : level == MS_LEVEL_OS   ? e->written
                       : level == MS_LEVEL_DISK ? e->synced
                                                : e->replicated;
    if (lsn <= reached) return 1;
    if (e->log_error) return ms_fail(MS_E_UNKNOWN, "lsn %llu: %s", (unsigned long long)lsn, e->alarm);
    bool lost = e->role != MS_ROLE_LEADER && e->role != MS_ROLE_OPENING && (epoch_id == e->led || level >= MS_LEVEL_REPLICA);
    if (lost) return ms_fail(MS_E_UNKNOWN, "lsn %llu: this node leads no more (%s)", (unsigned long long)lsn, e->reason);
    if (level >= MS_LEVEL_REPLICA && lsn <= e->synced && !ms_engine_any_in_sync(e))
        return ms_fail(MS_E_NOT_REPLICATED, "lsn %llu is on disk here, no follower in sync is left", (unsigned long long)lsn);
    if (e->closing) return ms_fail(MS_E_CLOSED, "the node is being closed");
    return 0;
}
