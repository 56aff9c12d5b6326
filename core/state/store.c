/* Folding the log into tables. */
#include "store.h"

#include "../base/error.h"
#include "../base/mem.h"

int ms_store_init(struct ms_store *store)
{
    *store = (struct ms_store){0};
    ms_lineage_init(&store->lineage);
    return 0;
}

void ms_store_close(struct ms_store *store)
{
    for (uint32_t id = 0; id < MS_TABLES_MAX; id++) {
        if (!store->tables[id]) continue;
        ms_table_close(store->tables[id]);
        ms_release(store->tables[id]);
    }
    for (uint32_t i = 0; i < store->parked_count; i++) {
        ms_table_close(store->parked[i]);
        ms_release(store->parked[i]);
    }
    ms_lineage_close(&store->lineage);
    *store = (struct ms_store){0};
}

struct ms_table_state *ms_store_find(const struct ms_store *store, struct ms_bytes name)
{
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        struct ms_table_state *table = store->tables[id];
        if (table && strlen(table->name) == name.size && memcmp(table->name, name.data, name.size) == 0) return table;
    }
    return NULL;
}

struct ms_table_state *ms_store_table(const struct ms_store *store, uint32_t id)
{
    return id < MS_TABLES_MAX ? store->tables[id] : NULL;
}

static int new_table(uint32_t id, uint8_t type, struct ms_bytes name, struct ms_table_state **table)
{
    struct ms_table_state *fresh = ms_alloc(sizeof *fresh);
    if (!fresh) return MS_E_MEMORY;
    int rc = ms_table_init(fresh, id, type, name);
    if (rc) {
        ms_table_close(fresh);
        ms_release(fresh);
        return rc;
    }
    *table = fresh;
    return 0;
}

/* The parked table of this name, taken out of the list; NULL if there is none. */
static struct ms_table_state *unpark(struct ms_store *store, struct ms_bytes name)
{
    for (uint32_t i = 0; i < store->parked_count; i++) {
        struct ms_table_state *table = store->parked[i];
        if (strlen(table->name) != name.size || memcmp(table->name, name.data, name.size) != 0) continue;
        store->parked[i] = store->parked[--store->parked_count];
        return table;
    }
    return NULL;
}

int ms_store_define(struct ms_store *store, uint32_t id, uint8_t type, struct ms_bytes name)
{
    if (id == 0 || id >= MS_TABLES_MAX) return ms_fail(MS_E_LIMIT, "table id %u is not in 1..%d", id, MS_TABLES_MAX - 1);
    struct ms_table_state *known = store->tables[id], *named = ms_store_find(store, name);
    if (known && known == named && known->type == type) return 0;
    if (known || named)
        return ms_fail(MS_E_DAMAGED, "table %u is defined as %.*s, but %s stands there already", id, (int)name.size, (const char *)name.data,
                       known ? known->name : named->name);
    struct ms_table_state *table = unpark(store, name);
    int rc = table ? 0 : new_table(id, type, name, &table);
    if (rc) return rc;
    table->id = id;
    table->type = type; /* an empty table may change its type: handles ask for it at each write */
    store->tables[id] = table;
    store->table_count++;
    return 0;
}

/* ---- folding -------------------------------------------------------------------------------------------------------- */

/* Records are decoded some way ahead of the one that is folded, so that what they will touch is on its way into the cache. */
enum { AHEAD = 8 };

struct ahead {
    struct ms_record record;
    uint64_t key_hash; /* of changes */
};

static bool is_change(const struct ms_record *record)
{
    return record->type >= MS_RECORD_PUT && record->type <= MS_RECORD_LEAVE;
}

static void look_ahead(const struct ms_store *store, struct ahead *ahead)
{
    if (!is_change(&ahead->record)) return;
    ahead->key_hash = ms_key_hash(ahead->record.key);
    const struct ms_table_state *table = ms_store_table(store, ahead->record.table);
    if (table) ms_table_prefetch_bucket(table, ahead->key_hash);
}

static void look_nearer(const struct ms_store *store, const struct ahead *ahead)
{
    const struct ms_table_state *table = is_change(&ahead->record) ? ms_store_table(store, ahead->record.table) : NULL;
    if (table) ms_table_prefetch_entry(table, ahead->key_hash);
}

static int fold_change(struct ms_store *store, const struct ahead *ahead, uint64_t lsn, ms_fold_fn fn, void *context)
{
    const struct ms_record *record = &ahead->record;
    struct ms_table_state *table = ms_store_table(store, record->table);
    if (!table) return ms_fail(MS_E_DAMAGED, "lsn %llu changes table %u, which is not defined", (unsigned long long)lsn, record->table);
    if (record->type == MS_RECORD_PUT && table->type == MS_TYPE_INT64 && record->value.size != 8)
        return ms_fail(MS_E_DAMAGED, "lsn %llu puts %zu bytes into the int64 table %s", (unsigned long long)lsn, record->value.size, table->name);
    int rc = ms_table_fold(table, record->key, ahead->key_hash, record->value);
    if (rc) return rc;
    store->changes_since_mark++;
    if (fn) fn(context, table, record->type, record->key, record->value, lsn);
    return 0;
}

static int fold_record(struct ms_store *store, const struct ahead *ahead, uint64_t lsn, ms_fold_fn fn, void *context)
{
    const struct ms_record *record = &ahead->record;
    switch (record->type) {
    case MS_RECORD_PUT:
    case MS_RECORD_DELETE:
    case MS_RECORD_LEAVE: return fold_change(store, ahead, lsn, fn, context);
    case MS_RECORD_TABLE: return ms_store_define(store, record->table, record->value_type, record->key);
    case MS_RECORD_EPOCH:
        return ms_lineage_add(&store->lineage, (struct ms_epoch){record->reign, record->run, record->id}, lsn);
    case MS_RECORD_MARK:
        store->changes_since_mark = 0;
        return store->fuzzy ? 0 : ms_store_check_mark(store, record->list, lsn);
    default:
        if (!(record->type & MS_RECORD_OPTIONAL))
            return ms_fail(MS_E_FORMAT, "lsn %llu: a record of type %d does not belong into a log", (unsigned long long)lsn, record->type);
        store->skipped++;
        return 0;
    }
}

int ms_store_fold(struct ms_store *store, struct ms_bytes group, const struct ms_group_header *header, ms_fold_fn fn, void *context)
{
    uint64_t next = store->applied + 1;
    if (header->flags & (MS_GROUP_ENTRIES | MS_GROUP_META) || header->first > next || ms_group_last(header) < next)
        return ms_fail(MS_E_FORMAT, "a group of the log with lsn %llu was expected, not lsn %llu (flags %d)",
                       (unsigned long long)next, (unsigned long long)header->first, header->flags);
    struct ms_record_reader reader = ms_record_reader(group, header);
    struct ahead ring[AHEAD];
    bool changed = false;
    int more = 1;
    for (uint64_t lsn = header->first; lsn < next && more > 0; lsn++) more = ms_record_next(&reader, &ring[0].record); /* folded already */
    for (uint32_t decoded = 0, folded = 0;; folded++) {
        while (more > 0 && decoded < folded + AHEAD) {
            more = ms_record_next(&reader, &ring[decoded % AHEAD].record);
            if (more > 0) look_ahead(store, &ring[decoded++ % AHEAD]);
        }
        if (folded == decoded) break;
        if (folded + AHEAD / 2 < decoded) look_nearer(store, &ring[(folded + AHEAD / 2) % AHEAD]);
        int rc = fold_record(store, &ring[folded % AHEAD], store->applied + 1, fn, context);
        if (rc) return rc;
        changed |= ring[folded % AHEAD].record.type <= MS_RECORD_LEAVE;
        store->applied++;
    }
    if (changed && header->time_us > store->changed_us) store->changed_us = header->time_us;
    return more < 0 ? ms_fail_wrap(more, "lsn %llu", (unsigned long long)store->applied + 1) : 0;
}

/* ---- marks ------------------------------------------------------------------------------------------------------------ */

void ms_store_mark(const struct ms_store *store, struct ms_buf *payload)
{
    ms_buf_add_varint(payload, store->table_count);
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        const struct ms_table_state *table = store->tables[id];
        if (!table) continue;
        ms_buf_add_varint(payload, id);
        ms_buf_add_varint(payload, table->content->count);
        ms_buf_add64(payload, table->content->digest);
    }
}

int ms_store_check_mark(struct ms_store *store, struct ms_bytes payload, uint64_t lsn)
{
    struct ms_reader reader;
    uint64_t count, seen = 0;
    int rc = ms_mark_begin(payload, &reader, &count), more;
    if (rc) return rc;
    struct ms_mark mark;
    while ((more = ms_mark_next(&reader, &mark)) > 0) {
        const struct ms_table_state *table = ms_store_table(store, mark.table);
        seen++;
        if (!table) return ms_fail(MS_E_DAMAGED, "mark at lsn %llu: table %u is not here", (unsigned long long)lsn, mark.table);
        const struct ms_content *content = table->content;
        if (content->count != mark.count || content->digest != mark.digest)
            return ms_fail(MS_E_DAMAGED, "mark at lsn %llu: table %s has %llu entries with digest %016llx, the mark says %llu with %016llx",
                           (unsigned long long)lsn, table->name, (unsigned long long)content->count, (unsigned long long)content->digest,
                           (unsigned long long)mark.count, (unsigned long long)mark.digest);
    }
    if (more < 0) return more;
    if (seen != count || count != store->table_count)
        return ms_fail(MS_E_DAMAGED, "mark at lsn %llu: %u tables here, %llu in the mark", (unsigned long long)lsn, store->table_count,
                       (unsigned long long)count);
    store->marks_checked++;
    return 0;
}

/* ---- replacing -------------------------------------------------------------------------------------------------------- */

static void swap_contents(struct ms_table_state *a, struct ms_table_state *b)
{
    struct ms_content *content = a->content;
    a->content = b->content;
    b->content = content;
}

/* Table ids belong to a history: after another history was adopted, a name may have another id. Handles are kept by name. */
static int check_types(const struct ms_store *store, const struct ms_store *from)
{
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        const struct ms_table_state *table = from->tables[id];
        const struct ms_table_state *mine = table ? ms_store_find(store, ms_str(table->name)) : NULL;
        if (mine && mine->type != table->type) return ms_fail(MS_E_TYPE, "table %s has another value type on the leader", table->name);
    }
    return 0;
}

/* For each table that only `store` has: an empty one, which gets its content. */
static int make_shells(const struct ms_store *store, const struct ms_store *from, struct ms_table_state *shells[MS_TABLES_MAX])
{
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        const struct ms_table_state *table = store->tables[id];
        if (!table || ms_store_find(from, ms_str(table->name))) continue;
        int rc = new_table(id, table->type, ms_str(table->name), &shells[id]);
        if (rc) return rc;
    }
    return 0;
}

static void park(struct ms_store *store, struct ms_table_state *table)
{
    table->id = 0;
    store->parked[store->parked_count++] = table;
}

/* Our table of that name, whether it has an id or is parked, taken out of where it was; NULL if there is none. */
static struct ms_table_state *take_mine(struct ms_store *store, struct ms_table_state *old[MS_TABLES_MAX], const char *name)
{
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        struct ms_table_state *table = old[id];
        if (!table || strcmp(table->name, name) != 0) continue;
        old[id] = NULL;
        return table;
    }
    return unpark(store, ms_str(name));
}

static void swap_positions(struct ms_store *a, struct ms_store *b)
{
    struct ms_lineage lineage = a->lineage;
    a->lineage = b->lineage;
    b->lineage = lineage;
    a->table_count = b->table_count;
    a->applied = b->applied;
    a->changes_since_mark = b->changes_since_mark;
    a->changed_us = b->changed_us;
    a->fuzzy = b->fuzzy;
}

int ms_store_take(struct ms_store *store, struct ms_store *from)
{
    struct ms_table_state *old[MS_TABLES_MAX], *shells[MS_TABLES_MAX] = {0};
    int rc = check_types(store, from);
    if (!rc) rc = make_shells(store, from, shells);
    if (rc) {
        for (uint32_t id = 1; id < MS_TABLES_MAX; id++)
            if (shells[id]) {
                ms_table_close(shells[id]);
                ms_release(shells[id]);
            }
        return rc;
    }
    memcpy(old, store->tables, sizeof old);
    memset(store->tables, 0, sizeof store->tables);
    /* 1. Tables that `from` has: under its ids, at our address where we know the name. */
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        struct ms_table_state *fresh = from->tables[id];
        if (!fresh) continue;
        struct ms_table_state *mine = take_mine(store, old, fresh->name);
        store->tables[id] = mine ? mine : fresh;
        if (!mine) {
            from->tables[id] = NULL;
            continue;
        }
        swap_contents(mine, fresh);
        mine->id = id;
        mine->type = fresh->type;
    }
    /* 2. Tables that only we had are parked, empty; what they held goes to `from`, to be freed with it. */
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        if (!old[id]) continue;
        swap_contents(old[id], shells[id]);
        park(store, old[id]);
        park(from, shells[id]);
    }
    swap_positions(store, from);
    return 0;
}
