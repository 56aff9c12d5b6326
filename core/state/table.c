/* Tables; see table.h for the two views of an entry and the invariants.
 *
 * An entry is one allocation: header, key, value. A shard is an array of chains; it doubles when it has more entries than
 * buckets, which at 1/2048 of a table is short work even with millions of entries. */
#include "table.h"

#include <sched.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "../base/stock.h"
#include "entry.h"

enum { BUCKETS_MIN = MS_POOL_ARRAY_ALIGN / sizeof(struct ms_entry *), LOG2_MASK = MS_POOL_ARRAY_ALIGN - 1 };

enum { LIMBO_A_FREE = 8 }; /* entries that leave limbo with each one that is freed later: a few, in somebody's short lock */

/* How many buckets ahead of it a walk has the first entries fetched, and those behind them. */
enum { FAR = 12, NEAR = 5 };

static struct ms_stock contents = {
    .mutex = PTHREAD_MUTEX_INITIALIZER,
    .size = (sizeof(struct ms_content) + 4095) & ~(size_t)4095,
    .alignment = 4096,
    .link = offsetof(struct ms_content, kept),
};

static inline struct ms_entry **buckets_of(const struct ms_shard *shard)
{
    return (struct ms_entry **)(shard->buckets & ~(uintptr_t)LOG2_MASK);
}

/* 0 without buckets. */
static inline uint32_t length_of(const struct ms_shard *shard)
{
    return shard->buckets ? 1u << (shard->buckets & LOG2_MASK) : 0;
}

static inline struct ms_entry **bucket_of(const struct ms_shard *shard, uint32_t hash)
{
    return &buckets_of(shard)[hash & (length_of(shard) - 1)];
}

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
    table->content = ms_stock_take(&contents, NULL);
    return table->content ? 0 : MS_E_MEMORY;
}

static void shard_free(struct ms_content *content, struct ms_shard *shard)
{
    uint32_t length = length_of(shard);
    for (uint32_t i = 0; i < length; i++)
        for (struct ms_entry *entry = buckets_of(shard)[i], *next; entry; entry = next) {
            next = entry->next;
            if (entry->flags & MS_ENTRY_DIRTY) ms_release(entry->u.dirty);
            ms_entry_free(&content->pool, entry);
        }
    ms_pool_array_free(&content->arrays, buckets_of(shard), length * sizeof(struct ms_entry *));
}

static bool read_by_somebody(const struct ms_content *content)
{
    return __atomic_load_n(&content->readers, __ATOMIC_ACQUIRE) > 0;
}

static void leave_limbo(struct ms_content *content, uint32_t most)
{
    for (uint32_t i = 0; i < most && content->limbo; i++) {
        struct ms_entry *entry = content->limbo;
        content->limbo = entry->u.freed;
        ms_pool_free(&content->pool, entry, entry->units);
    }
}

void ms_table_close(struct ms_table_state *table)
{
    if (!table->content) return;
    while (read_by_somebody(table->content)) (void)sched_yield(); /* for microseconds, and who reads needs no lock to end */
    leave_limbo(table->content, UINT32_MAX);
    for (uint32_t i = 0; i < MS_TABLE_SHARDS; i++) shard_free(table->content, &table->content->shards[i]);
    ms_pool_close(&table->content->pool);
    ms_pool_close(&table->content->arrays);
    memset(table->content, 0, sizeof *table->content); /* as the next one will want it */
    ms_stock_give(&contents, table->content);
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
    if (!entry) return;
    struct ms_content *content = ms_list_entry(pool, struct ms_content, pool);
    if (read_by_somebody(content)) {
        entry->u.freed = content->limbo;
        content->limbo = entry;
        return;
    }
    if (content->limbo) leave_limbo(content, LIMBO_A_FREE);
    ms_pool_free(pool, entry, entry->units);
}

struct ms_entry **ms_entry_find(struct ms_shard *shard, struct ms_bytes key, uint64_t key_hash)
{
    if (!shard->buckets) return NULL;
    struct ms_entry **at = bucket_of(shard, (uint32_t)key_hash);
    for (; *at; at = &(*at)->next) {
        const struct ms_entry *entry = *at;
        if (entry->hash == (uint32_t)key_hash && entry->key_size == key.size && memcmp(entry->bytes, key.data, key.size) == 0) return at;
    }
    return NULL;
}

/* Shards are of about one size, and a snapshot fills one after the other: a shard begins as large as the one before it needs to be. */
static uint32_t first_length(const struct ms_content *content, const struct ms_shard *shard)
{
    uint32_t length = BUCKETS_MIN;
    while (shard > content->shards && length < shard[-1].entries) length *= 2;
    return length;
}

/* Makes sure that one more entry can be linked in without memory. */
int ms_shard_reserve(struct ms_content *content, struct ms_shard *shard)
{
    uint32_t length = length_of(shard);
    if (shard->entries < length || (length && read_by_somebody(content))) return 0; /* chains are a little longer for a while */
    uint32_t wanted = length ? length * 2 : first_length(content, shard);
    struct ms_entry **old = buckets_of(shard), **fresh = ms_pool_array(&content->arrays, wanted * sizeof *fresh);
    if (!fresh) return length ? 0 : MS_E_MEMORY; /* longer chains are better than a refusal */
    for (uint32_t i = 0; i < length; i++) {
        __builtin_prefetch(old[(i + FAR) & (length - 1)], 1);
        for (struct ms_entry *entry = old[i], *next; entry; entry = next) {
            next = entry->next;
            entry->next = fresh[entry->hash & (wanted - 1)];
            fresh[entry->hash & (wanted - 1)] = entry;
        }
    }
    ms_pool_array_free(&content->pool, old, length * sizeof *old); /* entries can use the room; arrays can't, they grow */
    __atomic_store_n(&shard->buckets, (uintptr_t)fresh | (uintptr_t)__builtin_ctz(wanted), __ATOMIC_RELEASE);
    return 0;
}

/* A reader without the lock finds an entry whole, or not at all. */
static void hang(struct ms_entry **at, struct ms_entry *entry)
{
    __atomic_store_n(at, entry, __ATOMIC_RELEASE);
}

void ms_entry_link(struct ms_shard *shard, struct ms_entry *entry)
{
    struct ms_entry **bucket = bucket_of(shard, entry->hash);
    entry->next = *bucket;
    hang(bucket, entry);
    shard->entries++;
}

void ms_entry_replace(struct ms_pool *pool, struct ms_entry **at, struct ms_entry *entry)
{
    struct ms_entry *old = *at;
    entry->next = old->next;
    hang(at, entry);
    ms_entry_free(pool, old);
}

void ms_entry_unlink(struct ms_pool *pool, struct ms_shard *shard, struct ms_entry **at)
{
    struct ms_entry *entry = *at;
    hang(at, entry->next);
    shard->entries--;
    ms_entry_free(pool, entry);
}

/* Keeps invariant 1 when the logged value goes from one hash to another; 0 stands for "no value". */
void ms_content_logged(struct ms_content *content, uint64_t old_hash, bool had, uint64_t new_hash, bool has)
{
    content->count += (uint64_t)has - (uint64_t)had;
    content->digest += new_hash - old_hash;
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

struct ms_bytes ms_table_get(const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash)
{
    struct ms_entry **at = ms_entry_find(&table->content->shards[ms_shard_of(key_hash)], key, key_hash);
    return at ? ms_entry_value(*at) : ms_bytes(NULL, 0);
}

struct ms_spot ms_table_find(const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash)
{
    struct ms_shard *shard = &table->content->shards[ms_shard_of(key_hash)];
    return (struct ms_spot){shard, ms_entry_find(shard, key, key_hash), key_hash};
}

bool ms_spot_live(const struct ms_spot *spot)
{
    return spot->at && (*spot->at)->flags & MS_ENTRY_VALUE;
}

bool ms_spot_holds(const struct ms_spot *spot, struct ms_bytes value, uint64_t value_hash)
{
    const struct ms_entry *entry = spot->at ? *spot->at : NULL;
    if (!entry) return !value.data;
    if (!(entry->flags & MS_ENTRY_DIRTY) && value.data && entry->u.logged_hash != value_hash) return false; /* usual; spares the value */
    return ms_bytes_equal(ms_entry_value(entry), value);
}

static void prefetch_entry(const struct ms_entry *entry)
{
    if (!entry) return;
    __builtin_prefetch(entry, 1);
    __builtin_prefetch((const char *)entry + 64, 1);
    __builtin_prefetch((const char *)entry + 128, 1);
}

static void prefetch_chain(const struct ms_entry *entry)
{
    if (entry) prefetch_entry(entry->next);
}

static int visit_chain(const struct ms_entry *entry, bool logged, ms_entry_fn fn, void *context)
{
    for (; entry; entry = entry->next) {
        struct ms_bytes value = logged ? ms_entry_logged(entry) : ms_entry_value(entry);
        int rc = value.data ? fn(context, ms_entry_key(entry), value) : 0;
        if (rc) return rc;
    }
    return 0;
}

int ms_table_visit(const struct ms_table_state *table, uint32_t index, bool logged, ms_entry_fn fn, void *context)
{
    const struct ms_shard *shard = &table->content->shards[index];
    struct ms_entry **buckets = buckets_of(shard);
    uint32_t length = length_of(shard);
    int rc = 0;
    for (uint32_t i = 0; i < length && !rc; i++) {
        prefetch_entry(buckets[(i + FAR) & (length - 1)]);
        prefetch_chain(buckets[(i + NEAR) & (length - 1)]);
        rc = visit_chain(buckets[i], logged, fn, context);
    }
    return rc;
}

static uint32_t reversed(uint32_t bits)
{
    bits = __builtin_bswap32(bits);
    bits = (bits >> 4 & 0x0f0f0f0f) | (bits & 0x0f0f0f0f) << 4;
    bits = (bits >> 2 & 0x33333333) | (bits & 0x33333333) << 2;
    return (bits >> 1 & 0x55555555) | (bits & 0x55555555) << 1;
}

enum { WALK_BUCKETS = 32 };

/* From one bucket of a walk to the next one; 0: there is only one. */
static uint32_t step_of(uint32_t length)
{
    return length > 1 ? 1u << (32 - __builtin_ctz(length)) : 0;
}

int ms_table_walk(const struct ms_table_state *table, struct ms_table_place *place, bool logged, ms_entry_fn fn, void *context)
{
    const struct ms_shard *shard = &table->content->shards[place->shard];
    struct ms_entry *const *buckets = buckets_of(shard);
    uint32_t length = length_of(shard), mask = length - 1, step = step_of(length);
    int rc = 0;
    for (uint32_t i = 0; i < WALK_BUCKETS && length > 0 && !rc; i++) {
        prefetch_entry(buckets[reversed(place->done + FAR * step) & mask]);
        prefetch_chain(buckets[reversed(place->done + NEAR * step) & mask]);
        rc = visit_chain(buckets[reversed(place->done) & mask], logged, fn, context);
        place->done += step;
        if (place->done == 0) length = 0;
    }
    if (length == 0) *place = (struct ms_table_place){place->shard + 1, 0};
    return rc;
}

/* ---- reading without the lock ---------------------------------------------------------------------------------------- */

/* Whoever changes the table goes on under the lock. What a reader follows is a pointer that was stored by hang() or before begin; an entry that is
 * taken out still leads to those behind it, and all of them are kept (limbo); new ones come at the head of their chain, or take the place of
 * one with the same key. So each chain, however it changes, has every entry that stays, once. */

struct ms_content *ms_table_read_begin(struct ms_table_state *table)
{
    (void)__atomic_add_fetch(&table->content->readers, 1, __ATOMIC_RELAXED); /* the lock orders it */
    return table->content;
}

void ms_table_read_end(struct ms_content *content)
{
    (void)__atomic_sub_fetch(&content->readers, 1, __ATOMIC_RELEASE);
}

static struct ms_entry *follow(struct ms_entry *const *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* Not for ThreadSanitizer: the flags of buffered entries change at any time, and either answer is good then. */
__attribute__((no_sanitize("thread"))) static bool has_value(const struct ms_entry *entry)
{
    return __atomic_load_n(&entry->flags, __ATOMIC_RELAXED) & MS_ENTRY_VALUE;
}

int ms_content_read(const struct ms_content *content, struct ms_table_place *place, ms_key_fn fn, void *context)
{
    struct ms_shard shard = {.buckets = __atomic_load_n(&content->shards[place->shard].buckets, __ATOMIC_ACQUIRE)};
    struct ms_entry *const *buckets = buckets_of(&shard);
    uint32_t length = length_of(&shard), mask = length - 1, step = step_of(length);
    int rc = 0;
    for (uint32_t i = 0; i < WALK_BUCKETS && length > 0 && !rc; i++) {
        __builtin_prefetch(follow(&buckets[reversed(place->done + FAR * step) & mask]));
        const struct ms_entry *soon = follow(&buckets[reversed(place->done + NEAR * step) & mask]);
        if (soon) __builtin_prefetch(follow(&soon->next));
        const struct ms_entry *entry = follow(&buckets[reversed(place->done) & mask]);
        for (; entry && !rc; entry = follow(&entry->next))
            if (has_value(entry)) rc = fn(context, ms_entry_key(entry));
        place->done += step;
        if (place->done == 0) length = 0;
    }
    if (length == 0) *place = (struct ms_table_place){place->shard + 1, 0};
    return rc;
}

/* ---- changing: logged values ---------------------------------------------------------------------------------------- */

int ms_table_prepare(struct ms_table_state *table, const struct ms_spot *spot, struct ms_bytes key, struct ms_bytes value,
                     struct ms_prepared *prepared)
{
    prepared->entry = NULL;
    prepared->pool = &table->content->pool;
    if (!value.data || (spot->at && ms_entry_holds(*spot->at, value.size))) return 0;
    if (!spot->at) { /* no place is lost when the shard grows: there is none */
        int rc = ms_shard_reserve(table->content, spot->shard);
        if (rc) return rc;
    }
    prepared->entry = ms_entry_new(prepared->pool, key, spot->key_hash, value, 0);
    return prepared->entry ? 0 : MS_E_MEMORY;
}

void ms_prepared_abandon(struct ms_prepared *prepared)
{
    if (prepared->entry) ms_entry_free(prepared->pool, prepared->entry);
    prepared->entry = NULL;
}

void ms_table_apply(struct ms_table_state *table, const struct ms_spot *spot, struct ms_bytes key, struct ms_bytes value,
                    uint64_t value_hash, struct ms_prepared *prepared)
{
    struct ms_content *content = table->content;
    struct ms_entry **at = spot->at;
    if (!at && !value.data) return;
    if (at && value.data && !prepared->entry && !((*at)->flags & MS_ENTRY_DIRTY)) { /* the usual case: in place, only digests move */
        uint64_t moved = value_hash - (*at)->u.logged_hash;
        ms_entry_write(*at, value);
        (*at)->u.logged_hash = value_hash;
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
        ms_content_logged(content, old_hash, was_logged, 0, false);
        ms_entry_unlink(&content->pool, spot->shard, at);
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
        ms_entry_link(spot->shard, entry);
    }
    /* 3. It joins the sums. */
    entry->u.logged_hash = value_hash;
    ms_content_logged(content, old_hash, was_logged, value_hash, true);
    content->live++;
    content->bytes += key.size + value.size;
}

int ms_table_fold(struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value)
{
    struct ms_prepared prepared;
    struct ms_spot spot = ms_table_find(table, key, key_hash);
    int rc = ms_table_prepare(table, &spot, key, value, &prepared);
    if (!rc) ms_table_apply(table, &spot, key, value, value.data ? ms_entry_hash(key_hash, value) : 0, &prepared);
    return rc;
}

void ms_table_prefetch_bucket(const struct ms_table_state *table, uint64_t key_hash)
{
    const struct ms_shard *shard = &table->content->shards[ms_shard_of(key_hash)];
    if (shard->buckets) __builtin_prefetch(bucket_of(shard, (uint32_t)key_hash));
}

void ms_table_prefetch_entry(const struct ms_table_state *table, uint64_t key_hash)
{
    const struct ms_shard *shard = &table->content->shards[ms_shard_of(key_hash)];
    if (shard->buckets) prefetch_entry(*bucket_of(shard, (uint32_t)key_hash));
}

#if MS_STOCK_KEEPS
/* Not for ThreadSanitizer: it reads what others change, and knows. */
__attribute__((no_sanitize("thread"))) void ms_table_look_ahead(const struct ms_table_state *table, uint64_t key_hash)
{
    const struct ms_content *content = __atomic_load_n(&table->content, __ATOMIC_RELAXED);
    if (!content) return;
    struct ms_shard shard = {.buckets = __atomic_load_n(&content->shards[ms_shard_of(key_hash)].buckets, __ATOMIC_RELAXED)};
    if (shard.buckets) prefetch_entry(__atomic_load_n(bucket_of(&shard, (uint32_t)key_hash), __ATOMIC_RELAXED));
}
#else
void ms_table_look_ahead(const struct ms_table_state *table, uint64_t key_hash)
{
    (void)table;
    (void)key_hash;
}
#endif

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
        all.entries = 0;
        for (uint32_t i = 0; i < length_of(shard); i++)
            for (const struct ms_entry *entry = buckets_of(shard)[i]; entry; entry = entry->next) {
                int rc = verify_entry(table, index, entry, &all);
                if (rc) return rc;
            }
        if (shard->entries != all.entries)
            return ms_fail(MS_E_DAMAGED, "table %s, shard %u: %u entries are counted as %u", table->name, index, all.entries, shard->entries);
    }
    const struct ms_content *content = table->content;
    if (content->count != all.count || content->digest != all.digest || content->live != all.live || content->bytes != all.bytes)
        return ms_fail(MS_E_DAMAGED, "table %s: count, digest, live or bytes do not fit its entries", table->name);
    if (table->sets[0].entries + table->sets[1].entries != all.dirty)
        return ms_fail(MS_E_DAMAGED, "table %s: %llu dirty entries are not in a dirty set", table->name, (unsigned long long)all.dirty);
    return 0;
}
