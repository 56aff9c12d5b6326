/* The set of entries outside of the view: a hash table of a fixed number of buckets, and a queue to forget by. The buckets are on pages that are
 * made when they are used: all at once would be megabytes to clear in somebody's short lock. */
#include "view.h"

#include "../base/mem.h"

enum { BUCKETS_MAX = 1 << 20, PAGE_BUCKETS = 512, WALK_BUCKETS = 1 << 12 };

struct ms_outside {
    struct ms_outside *next;
    struct ms_list order;
    uint64_t key_hash;
    uint32_t version;
    uint16_t slot; /* of its table */
    uint16_t key_size;
    uint8_t key[];
};

void ms_view_init(struct ms_view *view, uint32_t max)
{
    *view = (struct ms_view){.max = max, .version = 1};
    ms_list_init(&view->order);
}

void ms_view_renew(struct ms_view *view, uint32_t max)
{
    view->max = max;
    view->version++;
}

/* NULL: its page was not made yet. */
static struct ms_outside **bucket_at(const struct ms_view *view, uint32_t index)
{
    struct ms_outside **page = view->pages[index / PAGE_BUCKETS];
    return page ? &page[index % PAGE_BUCKETS] : NULL;
}

static struct ms_outside **bucket_of(const struct ms_view *view, uint64_t key_hash)
{
    return bucket_at(view, (uint32_t)key_hash & view->mask);
}

/* Where it hangs, or NULL. */
static struct ms_outside **find(const struct ms_view *view, const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash)
{
    if (view->entries == 0) return NULL;
    for (struct ms_outside **at = bucket_of(view, key_hash); at && *at; at = &(*at)->next) {
        const struct ms_outside *entry = *at;
        if (entry->key_hash == key_hash && view->tables[entry->slot].table == table && entry->key_size == key.size &&
            memcmp(entry->key, key.data, key.size) == 0)
            return at;
    }
    return NULL;
}

static size_t cost(const struct ms_outside *entry)
{
    return sizeof *entry + entry->key_size;
}

static void drop(struct ms_view *view, struct ms_outside **at)
{
    struct ms_outside *entry = *at;
    *at = entry->next;
    ms_list_remove(&entry->order);
    view->entries--;
    view->bytes -= cost(entry);
    view->tables[entry->slot].entries--;
    ms_release(entry);
}

static void drop_oldest(struct ms_view *view)
{
    struct ms_outside *entry = ms_list_entry(view->order.next, struct ms_outside, order);
    struct ms_outside **at = bucket_of(view, entry->key_hash);
    while (*at != entry) at = &(*at)->next;
    view->tables[entry->slot].forgot = true;
    drop(view, at);
}

void ms_view_close(struct ms_view *view)
{
    while (view->entries > 0) drop_oldest(view);
    for (uint32_t i = 0; view->pages && i <= view->mask / PAGE_BUCKETS; i++) ms_release(view->pages[i]);
    ms_release(view->pages);
    ms_release(view->tables);
    view->pages = NULL;
    view->tables = NULL;
}

bool ms_view_knows(const struct ms_view *view, const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash)
{
    struct ms_outside **at = find(view, table, key, key_hash);
    return at && (*at)->version == view->version;
}

static bool over(const struct ms_view *view)
{
    return view->entries > view->max || view->bytes > (uint64_t)view->max * MS_VIEW_BYTES_EACH;
}

bool ms_view_trim(struct ms_view *view, uint32_t most)
{
    while (most-- > 0 && view->entries > 0 && over(view)) drop_oldest(view);
    return view->entries > 0 && over(view);
}

static bool prepare(struct ms_view *view)
{
    uint32_t buckets = 1024;
    while (buckets < view->max && buckets < BUCKETS_MAX) buckets *= 2;
    if (!view->tables) view->tables = ms_alloc_zero(MS_VIEW_TABLES * sizeof *view->tables);
    if (!view->pages) {
        view->pages = ms_alloc_zero(buckets / PAGE_BUCKETS * sizeof *view->pages);
        if (view->pages) view->mask = buckets - 1;
    }
    return view->tables && view->pages;
}

/* NULL without memory. */
static struct ms_outside **make_bucket(struct ms_view *view, uint64_t key_hash)
{
    uint32_t index = (uint32_t)key_hash & view->mask;
    struct ms_outside ***page = &view->pages[index / PAGE_BUCKETS];
    if (!*page) *page = ms_alloc_zero(PAGE_BUCKETS * sizeof **page);
    return *page ? &(*page)[index % PAGE_BUCKETS] : NULL;
}

static uint32_t slot_of(struct ms_view *view, const struct ms_table_state *table)
{
    for (uint32_t slot = 0; slot < view->table_count; slot++)
        if (view->tables[slot].table == table) return slot;
    if (view->table_count == MS_VIEW_TABLES) return MS_VIEW_TABLES;
    view->tables[view->table_count].table = table;
    return view->table_count++;
}

void ms_view_add(struct ms_view *view, const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash)
{
    struct ms_outside **at = find(view, table, key, key_hash);
    if (at) {
        (*at)->version = view->version;
        return;
    }
    if (!prepare(view)) return;
    uint32_t slot = slot_of(view, table);
    if (slot == MS_VIEW_TABLES) return;
    struct ms_outside **bucket = view->max ? make_bucket(view, key_hash) : NULL;
    struct ms_outside *entry = bucket ? ms_alloc(sizeof *entry + key.size) : NULL;
    if (!entry) {
        view->tables[slot].forgot = true;
        return;
    }
    entry->key_hash = key_hash;
    entry->version = view->version;
    entry->slot = (uint16_t)slot;
    entry->key_size = (uint16_t)key.size;
    memcpy(entry->key, key.data, key.size);
    entry->next = *bucket;
    *bucket = entry;
    ms_list_add_tail(&view->order, &entry->order);
    view->entries++;
    view->bytes += cost(entry);
    view->tables[slot].entries++;
    (void)ms_view_trim(view, 4);
}

bool ms_view_remove(struct ms_view *view, const struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash)
{
    struct ms_outside **at = find(view, table, key, key_hash);
    if (at) drop(view, at);
    return at != NULL;
}

void ms_view_forgot_none(struct ms_view *view, const struct ms_table_state *table)
{
    for (uint32_t slot = 0; slot < view->table_count; slot++)
        if (view->tables[slot].table == table) view->tables[slot].forgot = false;
}

bool ms_view_walk(const struct ms_view *view, uint32_t *bucket, uint32_t most, bool only_old, ms_view_fn fn, void *context)
{
    uint32_t seen = 0, first = *bucket;
    if (view->entries == 0) return false;
    for (; *bucket <= view->mask && seen < most && *bucket - first < WALK_BUCKETS; ++*bucket) {
        struct ms_outside **at = bucket_at(view, *bucket);
        for (const struct ms_outside *entry = at ? *at : NULL; entry; entry = entry->next) {
            if (only_old && entry->version == view->version) continue;
            fn(context, view->tables[entry->slot].table, ms_bytes(entry->key, entry->key_size));
            seen++;
        }
    }
    return *bucket <= view->mask;
}

/* Not for ThreadSanitizer: pages come, and entries change, meanwhile. Pages stay; an entry is not looked at, only fetched. */
__attribute__((no_sanitize("thread"))) void ms_view_look_ahead(const struct ms_view *view, uint32_t bucket, uint32_t count)
{
    struct ms_outside ***pages = __atomic_load_n(&view->pages, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; pages && i < count; i++) {
        uint32_t index = (bucket + i) & view->mask;
        struct ms_outside **page = __atomic_load_n(&pages[index / PAGE_BUCKETS], __ATOMIC_RELAXED);
        if (page) __builtin_prefetch(__atomic_load_n(&page[index % PAGE_BUCKETS], __ATOMIC_RELAXED), 1);
    }
}
