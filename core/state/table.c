/* Tables; see table.h for the two views of an entry and the invariants.
 *
 * An entry is one allocation: header, key, value. A shard is an array of chains; it doubles when it has more entries than
 * buckets, which at 1/2048 of a table is short work even with millions of entries. */
#include "table.h"

#include "../base/error.h"
#include "../base/mem.h"
#include "entry.h"

int ms_table_init(struct ms_table_state *table, uint32_t id, uint8_t type, struct ms_bytes name)
{
    *table = (struct ms_table_state){.id = id, .type = type};
    ms_list_init(&table->sets[0].list);
    ms_list_init(&table->sets[1].list);
    if (name.size == 0 || name.size > MS_TABLE_NAME_MAX)
        return ms_fail(MS_E_FORMAT, "a table name has 1..%d bytes, not %zu", MS_TABLE_NAME_MAX, name.size);
    memcpy(table->name, name.data, name.size);
    if (type != MS_TYPE_BYTES && type != MS_TYPE_INT64)
        return ms_fail(MS_E_VERSION, "table %s has the unknown value type %d", table->name, type);
    table->content = ms_alloc_zero(sizeof *table->content);
    return table->content ? 0 : MS_E_MEMORY;
}

static void shard_free(struct ms_pool *pool, struct ms_shard *shard)
{
    for (uint32_t i = 0; shard->buckets && i <= shard->mask; i++)
        for (struct ms_entry *entry = shard->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            if (entry->flags & MS_ENTRY_DIRTY) ms_release(entry->u.dirty);
            ms_entry_free(pool, entry);
        }
    ms_release(shard->buckets);
}

void ms_table_close(struct ms_table_state *table)
{
    if (!table->content) return;
    for (uint32_t i = 0; i < MS_TABLE_SHARDS; i++) shard_free(&table->content->pool, &table->content->shards[i]);
    ms_pool_close(&table->content->pool);
    ms_release(table->content);
    table->content = NULL;
}

uint64_t ms_entry_hash(uint64_t key_hash, struct ms_bytes value)
{
    return ms_mix(ms_hash_seeded(value.data, value.size, key_hash) + key_hash);
}

/* ---- entries and shards ------------------------------------------------------------------------------------------- */

struct ms_entry *ms_entry_new(struct ms_pool *pool, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value, size_t room)
{
    uint8_t units;
    size_t value_size = value.data ? value.size : 0;
    struct ms_entry *entry = ms_pool_alloc(pool, offsetof(struct ms_entry, bytes) + key.size + (room > value_size ? room : value_size), &units);
    if (!entry) return NULL;
    entry->next = NULL;
    entry->hash = (uint32_t)key_hash;
    entry->u.logged_hash = 0;
    entry->value_size = (uint32_t)value_size;
    entry->key_size = (uint16_t)key.size;
    entry->flags = value.data ? MS_ENTRY_VALUE : 0;
    entry->units = units;
    memcpy(entry->bytes, key.data, key.size);
    if (value_size) memcpy(entry->bytes + key.size, value.data, value_size);
    return entry;
}

void ms_entry_free(struct ms_pool *pool, struct ms_entry *entry)
{
    if (entry) ms_pool_free(pool, entry, entry->units);
}

struct ms_entry **ms_entry_find(struct ms_shard *shard, struct ms_bytes key, uint64_t key_hash)
{
    if (!shard->buckets) return NULL;
    struct ms_entry **at = &shard->buckets[key_hash & shard->mask];
    for (; *at; at = &(*at)->next) {
        const struct ms_entry *entry = *at;
        if (entry->hash == (uint32_t)key_hash && entry->key_size == key.size && memcmp(entry->bytes, key.data, key.size) == 0) return at;
    }
    return NULL;
}

/* Makes sure that one more entry can be linked in without memory. */
int ms_shard_reserve(struct ms_shard *shard)
{
    uint32_t buckets = shard->buckets ? shard->mask + 1 : 0;
    if (shard->entries < buckets) return 0;
    uint32_t wanted = buckets ? buckets * 2 : 2;
    struct ms_entry **fresh = ms_alloc_zero(wanted * sizeof *fresh);
    if (!fresh) return buckets ? 0 : MS_E_MEMORY; /* longer chains are better than a refusal */
    for (uint32_t i = 0; i < buckets; i++)
        for (struct ms_entry *entry = shard->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            entry->next = fresh[entry->hash & (wanted - 1)];
            fresh[entry->hash & (wanted - 1)] = entry;
        }
    ms_release(shard->buckets);
    shard->buckets = fresh;
    shard->mask = wanted - 1;
    return 0;
}

void ms_entry_link(struct ms_shard *shard, struct ms_entry *entry)
{
    struct ms_entry **bucket = &shard->buckets[entry->hash & shard->mask];
    entry->next = *bucket;
    *bucket = entry;
    shard->entries++;
}

void ms_entry_replace(struct ms_pool *pool, struct ms_entry **at, struct ms_entry *entry)
{
    entry->next = (*at)->next;
    ms_entry_free(pool, *at);
    *at = entry;
}

void ms_entry_unlink(struct ms_pool *pool, struct ms_shard *shard, struct ms_entry **at)
{
    struct ms_entry *entry = *at;
    *at = entry->next;
    shard->entries--;
    ms_entry_free(pool, entry);
}

/* Keeps invariants 1 and 2 when the logged value goes from one hash to another; 0 stands for "no value". */
void ms_content_logged(struct ms_content *content, struct ms_shard *shard, uint64_t old_hash, bool had, uint64_t new_hash, bool has)
{
    uint64_t count = (uint64_t)has - (uint64_t)had;
    shard->count += count;
    content->count += count;
    shard->digest += new_hash - old_hash;
    content->digest += new_hash - old_hash;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

struct ms_bytes ms_table_get(const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash)
{
    struct ms_entry **at = ms_entry_find(&table->content->shards[ms_shard_of(key_hash)], key, key_hash);
    return at ? ms_entry_value(*at) : ms_bytes(NULL, 0);
}

int ms_table_visit(const struct ms_table_state *table, uint32_t index, bool logged, ms_entry_fn fn, void *context)
{
    const struct ms_shard *shard = &table->content->shards[index];
    for (uint32_t i = 0; shard->buckets && i <= shard->mask; i++) {
        const char *ahead = (const char *)shard->buckets[(i + 8) & shard->mask];
        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead + 64);
        __builtin_prefetch(ahead + 128);
        for (const struct ms_entry *entry = shard->buckets[i]; entry; entry = entry->next) {
            struct ms_bytes value = logged ? ms_entry_logged(entry) : ms_entry_value(entry);
            if (!value.data) continue;
            int rc = fn(context, ms_entry_key(entry), value);
            if (rc) return rc;
        }
    }
    return 0;
}

/* ---- changing: logged values ---------------------------------------------------------------------------------------- */

int ms_table_prepare(struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value,
                     struct ms_prepared *prepared)
{
    prepared->entry = NULL;
    prepared->pool = &table->content->pool;
    if (!value.data) return 0;
    struct ms_shard *shard = &table->content->shards[ms_shard_of(key_hash)];
    struct ms_entry **at = ms_entry_find(shard, key, key_hash);
    if (at && ms_entry_holds(*at, value.size)) return 0;
    if (!at) {
        int rc = ms_shard_reserve(shard);
        if (rc) return rc;
    }
    prepared->entry = ms_entry_new(prepared->pool, key, key_hash, value, 0);
    return prepared->entry ? 0 : MS_E_MEMORY;
}

void ms_prepared_abandon(struct ms_prepared *prepared)
{
    if (prepared->entry) ms_entry_free(prepared->pool, prepared->entry);
    prepared->entry = NULL;
}

void ms_table_apply(struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value,
                    struct ms_prepared *prepared)
{
    struct ms_content *content = table->content;
    struct ms_shard *shard = &content->shards[ms_shard_of(key_hash)];
    struct ms_entry **at = ms_entry_find(shard, key, key_hash);
    if (!at && !value.data) return;
    if (at && value.data && !prepared->entry && !((*at)->flags & MS_ENTRY_DIRTY)) { /* the usual case: in place, only digests move */
        uint64_t hash = ms_entry_hash(key_hash, value), moved = hash - (*at)->u.logged_hash;
        ms_entry_write(*at, value);
        (*at)->u.logged_hash = hash;
        shard->digest += moved;
        content->digest += moved;
        return;
    }
    /* 1. The old value, current and logged, leaves the sums. */
    uint64_t old_hash = 0;
    bool was_logged = at && ms_entry_settle(*at, &old_hash);
    if (at && (*at)->flags & MS_ENTRY_VALUE) {
        content->live--;
        content->bytes -= (uint64_t)(*at)->key_size + (*at)->value_size;
    }
    if (!value.data) {
        ms_content_logged(content, shard, old_hash, was_logged, 0, false);
        ms_entry_unlink(&content->pool, shard, at);
        return;
    }
    /* 2. The new value goes in place, or the prepared entry takes the old one's place or a new one. */
    struct ms_entry *entry = prepared->entry;
    prepared->entry = NULL;
    if (!entry) {
        entry = *at;
        ms_entry_write(entry, value);
    } else if (at) {
        ms_entry_replace(&content->pool, at, entry);
    } else {
        ms_entry_link(shard, entry);
    }
    /* 3. It joins the sums. */
    entry->u.logged_hash = ms_entry_hash(key_hash, value);
    ms_content_logged(content, shard, old_hash, was_logged, entry->u.logged_hash, true);
    content->live++;
    content->bytes += key.size + value.size;
}

int ms_table_fold(struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value)
{
    struct ms_prepared prepared;
    int rc = ms_table_prepare(table, key, key_hash, value, &prepared);
    if (!rc) ms_table_apply(table, key, key_hash, value, &prepared);
    return rc;
}

void ms_table_prefetch_bucket(const struct ms_table_state *table, uint64_t key_hash)
{
    const struct ms_shard *shard = &table->content->shards[ms_shard_of(key_hash)];
    if (shard->buckets) __builtin_prefetch(&shard->buckets[key_hash & shard->mask]);
}

void ms_table_prefetch_entry(const struct ms_table_state *table, uint64_t key_hash)
{
    const struct ms_shard *shard = &table->content->shards[ms_shard_of(key_hash)];
    const struct ms_entry *entry = shard->buckets ? shard->buckets[key_hash & shard->mask] : NULL;
    if (!entry) return;
    __builtin_prefetch(entry, 1);
    __builtin_prefetch((const char *)entry + 64, 1);
    __builtin_prefetch((const char *)entry + 128, 1);
}

/* ---- checking -------------------------------------------------------------------------------------------------------- */

struct sums {
    uint64_t count, digest, live, bytes, dirty;
    uint32_t entries;
};

static int verify_entry(const struct ms_table_state *table, uint32_t index, const struct ms_entry *entry, struct sums *sums)
{
    struct ms_bytes key = ms_entry_key(entry), logged = ms_entry_logged(entry), value = ms_entry_value(entry);
    uint64_t key_hash = ms_key_hash(key);
    sums->entries++;
    if (entry->hash != (uint32_t)key_hash || ms_shard_of(key_hash) != index)
        return ms_fail(MS_E_DAMAGED, "table %s, shard %u: the hash of key %.*s is wrong", table->name, index, (int)key.size, (const char *)key.data);
    bool dirty = entry->flags & MS_ENTRY_DIRTY;
    if (!value.data && !dirty)
        return ms_fail(MS_E_DAMAGED, "table %s, shard %u: clean tombstone of key %.*s", table->name, index, (int)key.size, (const char *)key.data);
    if (!dirty && entry->u.logged_hash != ms_entry_hash(key_hash, value))
        return ms_fail(MS_E_DAMAGED, "table %s, shard %u: key %.*s is not the value that was logged", table->name, index, (int)key.size,
                       (const char *)key.data);
    if (logged.data) {
        sums->count++;
        sums->digest += ms_entry_hash(key_hash, logged);
    }
    if (value.data) {
        sums->live++;
        sums->bytes += key.size + value.size;
    }
    sums->dirty += dirty;
    return 0;
}

int ms_table_verify(const struct ms_table_state *table)
{
    struct sums all = {0};
    for (uint32_t index = 0; index < MS_TABLE_SHARDS; index++) {
        const struct ms_shard *shard = &table->content->shards[index];
        struct sums before = all;
        all.entries = 0;
        for (uint32_t i = 0; shard->buckets && i <= shard->mask; i++)
            for (const struct ms_entry *entry = shard->buckets[i]; entry; entry = entry->next) {
                int rc = verify_entry(table, index, entry, &all);
                if (rc) return rc;
            }
        if (shard->entries != all.entries || shard->count != all.count - before.count || shard->digest != all.digest - before.digest)
            return ms_fail(MS_E_DAMAGED, "table %s, shard %u: count or digest do not fit its entries", table->name, index);
    }
    const struct ms_content *content = table->content;
    if (content->count != all.count || content->digest != all.digest || content->live != all.live || content->bytes != all.bytes)
        return ms_fail(MS_E_DAMAGED, "table %s: count, digest, live or bytes do not fit its shards", table->name);
    if (table->sets[0].entries + table->sets[1].entries != all.dirty)
        return ms_fail(MS_E_DAMAGED, "table %s: %llu dirty entries are not in a dirty set", table->name, (unsigned long long)all.dirty);
    return 0;
}
