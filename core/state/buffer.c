/* The double buffer; see buffer.h for the picture. The set holds dirty records, each of which knows its entry and what the
 * log says of it; the newest value is the entry's. */
#include "buffer.h"

#include "../base/error.h"
#include "../base/mem.h"
#include "entry.h"

static struct ms_dirty_set *working(struct ms_table_state *table)
{
    return &table->sets[table->working];
}

static struct ms_dirty_set *flushing(struct ms_table_state *table)
{
    return &table->sets[!table->working];
}

static void join(struct ms_dirty_set *set, struct ms_dirty *dirty)
{
    dirty->set = set;
    ms_list_add_tail(&set->list, &dirty->node);
    set->entries++;
    set->bytes += dirty->entry->key_size + (uint64_t)dirty->entry->value_size;
}

static void leave(struct ms_dirty *dirty)
{
    dirty->set->entries--;
    dirty->set->bytes -= dirty->entry->key_size + (uint64_t)dirty->entry->value_size;
    ms_list_remove(&dirty->node);
}

bool ms_entry_settle(struct ms_entry *entry, uint64_t *logged_hash)
{
    if (!(entry->flags & MS_ENTRY_DIRTY)) {
        *logged_hash = entry->u.logged_hash;
        return true;
    }
    struct ms_dirty *dirty = entry->u.dirty;
    bool logged = dirty->logged;
    *logged_hash = logged ? dirty->logged_hash : 0;
    leave(dirty);
    ms_release(dirty);
    entry->flags &= (uint8_t)~MS_ENTRY_DIRTY;
    entry->u.logged_hash = *logged_hash;
    return logged;
}

/* A dirty record for an entry (NULL: a new key). */
static struct ms_dirty *dirty_new(const struct ms_entry *entry)
{
    size_t size = entry ? entry->value_size : 0;
    struct ms_dirty *dirty = ms_alloc(sizeof *dirty + size);
    if (!dirty) return NULL;
    dirty->logged = entry != NULL;
    dirty->logged_hash = entry ? entry->u.logged_hash : 0;
    dirty->logged_size = (uint32_t)size;
    if (size) memcpy(dirty->logged_value, entry->bytes + entry->key_size, size);
    return dirty;
}

static int put_new(struct ms_table_state *table, struct ms_shard *shard, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value)
{
    if (ms_shard_reserve(table->content, shard)) return MS_E_MEMORY;
    struct ms_entry *entry = ms_entry_new(&table->content->pool, key, key_hash, value, 0);
    struct ms_dirty *dirty = entry ? dirty_new(NULL) : NULL;
    if (!dirty) {
        ms_entry_free(&table->content->pool, entry);
        return MS_E_MEMORY;
    }
    entry->flags |= MS_ENTRY_DIRTY;
    entry->u.dirty = dirty;
    dirty->entry = entry;
    ms_entry_link(shard, entry);
    join(working(table), dirty);
    table->content->live++;
    table->content->bytes += key.size + value.size;
    return 0;
}

/* The new current value of an existing, now dirty entry. `fresh` (may be NULL) replaces it when the size differs. */
static void set_current(struct ms_table_state *table, struct ms_entry **at, struct ms_entry *fresh, struct ms_bytes value)
{
    struct ms_content *content = table->content;
    struct ms_entry *entry = *at;
    struct ms_dirty *dirty = entry->u.dirty;
    struct ms_dirty_set *set = dirty->set;
    bool was_live = entry->flags & MS_ENTRY_VALUE;
    uint64_t key_size = entry->key_size, old_size = entry->value_size;
    if (fresh) {
        fresh->flags |= MS_ENTRY_DIRTY;
        fresh->u.dirty = dirty;
        dirty->entry = fresh;
        ms_entry_replace(&content->pool, at, fresh);
        entry = fresh;
    } else if (value.data) {
        ms_entry_write(entry, value);
        entry->flags |= MS_ENTRY_VALUE;
    } else {
        entry->flags &= (uint8_t)~MS_ENTRY_VALUE; /* the tombstone keeps its room */
        entry->value_size = 0;
    }
    set->bytes += entry->value_size - old_size;
    content->live += (uint64_t)(value.data != NULL) - (uint64_t)was_live;
    content->bytes += (value.data ? key_size + value.size : 0) - (was_live ? key_size + old_size : 0);
}

int ms_buffer_put(struct ms_table_state *table, const struct ms_spot *spot, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_entry **at = spot->at;
    if (!at) return value.data ? put_new(table, spot->shard, key, spot->key_hash, value) : 0;
    struct ms_entry *entry = *at, *fresh = NULL;
    if (ms_bytes_equal(ms_entry_value(entry), value)) return 0;
    /* 1. Memory. The entry always keeps room for its logged value. */
    struct ms_dirty *dirty = entry->flags & MS_ENTRY_DIRTY ? entry->u.dirty : dirty_new(entry);
    if (!dirty) return MS_E_MEMORY;
    if (value.data && !ms_entry_holds(entry, value.size)) {
        fresh = ms_entry_new(&table->content->pool, key, spot->key_hash, value, dirty->logged_size);
        if (!fresh) {
            if (!(entry->flags & MS_ENTRY_DIRTY)) ms_release(dirty);
            return MS_E_MEMORY;
        }
    }
    /* 2. Nothing can fail from here on. */
    if (!(entry->flags & MS_ENTRY_DIRTY)) {
        entry->flags |= MS_ENTRY_DIRTY;
        entry->u.dirty = dirty;
        dirty->entry = entry;
        join(working(table), dirty);
    }
    set_current(table, at, fresh, value);
    return 0;
}

uint64_t ms_buffer_entries(const struct ms_table_state *table)
{
    return table->sets[0].entries + table->sets[1].entries;
}

uint64_t ms_buffer_bytes(const struct ms_table_state *table)
{
    return table->sets[0].bytes + table->sets[1].bytes;
}

void ms_buffer_swap(struct ms_table_state *table)
{
    if (ms_list_empty(&flushing(table)->list)) table->working = !table->working;
}

/* The entry is clean now; a tombstone goes. */
static void clean(struct ms_table_state *table, struct ms_entry *entry)
{
    if (entry->flags & MS_ENTRY_VALUE) return;
    uint64_t key_hash = ms_key_hash(ms_entry_key(entry));
    struct ms_shard *shard = &table->content->shards[ms_shard_of(key_hash)];
    ms_entry_unlink(&table->content->pool, shard, ms_entry_find(shard, ms_entry_key(entry), key_hash));
}

bool ms_buffer_next(struct ms_table_state *table, struct ms_bytes *key, uint64_t *key_hash, struct ms_bytes *value)
{
    while (!ms_list_empty(&flushing(table)->list)) {
        struct ms_entry *entry = ms_list_entry(flushing(table)->list.next, struct ms_dirty, node)->entry;
        if (!ms_bytes_equal(ms_entry_value(entry), ms_entry_logged(entry))) {
            *key = ms_entry_key(entry);
            *key_hash = ms_key_hash(*key);
            *value = ms_entry_value(entry);
            return true;
        }
        uint64_t hash;
        (void)ms_entry_settle(entry, &hash);
        clean(table, entry);
    }
    return false;
}

void ms_buffer_done(struct ms_table_state *table)
{
    struct ms_entry *entry = ms_list_entry(flushing(table)->list.next, struct ms_dirty, node)->entry;
    uint64_t key_hash = ms_key_hash(ms_entry_key(entry));
    struct ms_bytes value = ms_entry_value(entry);
    uint64_t old_hash, new_hash = value.data ? ms_entry_hash(key_hash, value) : 0;
    bool was_logged = ms_entry_settle(entry, &old_hash);
    entry->u.logged_hash = new_hash;
    ms_content_logged(table->content, old_hash, was_logged, new_hash, value.data != NULL);
    clean(table, entry);
}

int ms_buffer_visit(const struct ms_table_state *table, ms_buffer_fn fn, void *context)
{
    const struct ms_list *heads[] = {&table->sets[0].list, &table->sets[1].list};
    for (size_t i = 0; i < 2; i++)
        for (struct ms_list *at = heads[i]->next; at != heads[i]; at = at->next) {
            const struct ms_entry *entry = ms_list_entry(at, struct ms_dirty, node)->entry;
            int rc = fn(context, ms_entry_key(entry), ms_entry_value(entry), ms_entry_logged(entry));
            if (rc) return rc;
        }
    return 0;
}

static void discard_one(struct ms_table_state *table, struct ms_entry *entry)
{
    struct ms_content *content = table->content;
    struct ms_dirty *dirty = entry->u.dirty;
    if (entry->flags & MS_ENTRY_VALUE) {
        content->live--;
        content->bytes -= (uint64_t)entry->key_size + entry->value_size;
    }
    leave(dirty);
    entry->flags &= (uint8_t)~MS_ENTRY_VALUE;
    if (dirty->logged) {
        entry->value_size = dirty->logged_size;
        entry->flags |= MS_ENTRY_VALUE;
        ms_entry_write(entry, ms_bytes(dirty->logged_value, dirty->logged_size));
        content->live++;
        content->bytes += (uint64_t)entry->key_size + entry->value_size;
    }
    entry->flags &= (uint8_t)~MS_ENTRY_DIRTY;
    entry->u.logged_hash = dirty->logged_hash;
    ms_release(dirty);
    clean(table, entry);
}

void ms_buffer_discard(struct ms_table_state *table)
{
    for (size_t i = 0; i < 2; i++)
        while (!ms_list_empty(&table->sets[i].list))
            discard_one(table, ms_list_entry(table->sets[i].list.next, struct ms_dirty, node)->entry);
}
