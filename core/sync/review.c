/* The review of a reload; see review.h. First all tables, then what is remembered as outside, then the tables of which more was
 * left out than is remembered. */
#include "review.h"

#include <stdio.h>

#include "inside.h"

/* A slice is some hundred entries: the rules may take milliseconds for each, and whoever ends a review waits for a slice. Steps are those of a
 * walk: most see no entry if a table is nearly empty. */
enum { SLICE_BYTES = 8 << 10, SLICE_STEPS = 512 };
enum { OUTSIDE_A_HOLD = 128, APPLIED_A_HOLD = 32 }; /* entries: what is done in one hold of the lock */
enum { PHASE_TABLES, PHASE_OUTSIDE, PHASE_MORE, PHASE_DONE };

/* What was taken; one behind the other, each as long as its key makes it. */
struct item {
    const struct ms_table_state *table;
    uint64_t key_hash; /* of those that are to be applied */
    uint32_t id;       /* of the table, when it was taken; 0 = parked */
    int decision;
    uint32_t size;     /* of the key; 0: more than were remembered */
    uint8_t key[];
};

struct ms_review {
    struct ms_rules *rules;
    int mode, phase;
    uint64_t content; /* engine->content_version */
    uint32_t table, bucket;
    struct ms_table_place place;
    struct ms_content *reading; /* of the table that a slice is to be read from, between take and decide; else NULL */
    const struct ms_table_state *from; /* this table, and ... */
    uint32_t from_id;                  /* ... its id then */
    struct ms_buf items; /* struct item; after ms_review_decide only those that are to be applied */
    size_t applied;      /* bytes of items */
    struct ms_review_table tables[MS_TABLES_MAX];
    uint32_t by_id[MS_TABLES_MAX], table_count; /* index + 1 in tables */
};

int ms_review_new(struct ms_engine *e, struct ms_rules *rules, int mode, struct ms_review **result)
{
    struct ms_review *review = ms_alloc_zero(sizeof *review);
    *result = NULL;
    if (!review) return MS_E_MEMORY;
    review->rules = ms_rules_ref(rules);
    review->mode = mode;
    review->content = e->content_version;
    review->table = 1;
    ms_buf_init(&review->items);
    *result = review;
    return 0;
}

void ms_review_free(struct ms_review *review)
{
    if (!review) return;
    if (review->reading) ms_table_read_end(review->reading);
    ms_rules_unref(review->rules);
    ms_buf_close(&review->items);
    ms_release(review);
}

static struct item *item_at(const struct ms_review *review, size_t offset)
{
    return (struct item *)(void *)(review->items.data + offset);
}

static size_t span_of(size_t key_size)
{
    const size_t align = _Alignof(struct item);
    return (offsetof(struct item, key) + key_size + align - 1) & ~(align - 1);
}

static struct ms_bytes key_of(const struct item *item)
{
    return item->size ? ms_bytes(item->key, item->size) : ms_bytes(NULL, 0);
}

static struct ms_review_table *report_of(struct ms_review *review, uint32_t id, const char *name)
{
    if (!review->by_id[id]) {
        review->by_id[id] = ++review->table_count;
        (void)snprintf(review->tables[review->table_count - 1].name, sizeof review->tables->name, "%s", name);
    }
    return &review->tables[review->by_id[id] - 1];
}

/* ---- taking ------------------------------------------------------------------------------------------------------------ */

static void take_item(struct ms_review *review, const struct ms_table_state *table, uint32_t id, struct ms_bytes key)
{
    struct item *item = (struct item *)(void *)ms_buf_extend(&review->items, span_of(key.size));
    if (!item) return; /* the buffer remembers it */
    item->table = table;
    item->id = id;
    item->decision = MS_VIEW_IN;
    item->size = (uint32_t)key.size;
    memcpy(item->key, key.data, key.size);
}

static void take_outside(void *context, const struct ms_table_state *table, struct ms_bytes key)
{
    take_item(context, table, table->id, key);
}

/* Chooses the table that the next slice is from. */
static void take_table(struct ms_review *review, const struct ms_engine *e)
{
    for (; review->table < MS_TABLES_MAX; review->table++, review->place = (struct ms_table_place){0}) {
        struct ms_table_state *table = e->store->tables[review->table];
        if (!table || table->content->live == 0 || review->place.shard == MS_TABLE_SHARDS) continue;
        review->from = table;
        review->from_id = table->id;
        review->reading = ms_table_read_begin(table);
        return;
    }
    review->phase = PHASE_OUTSIDE;
}

static void take_forgotten(struct ms_review *review, struct ms_engine *e)
{
    for (uint32_t slot = 0; slot < e->view.table_count; slot++)
        if (e->view.tables[slot].forgot) take_outside(review, e->view.tables[slot].table, ms_bytes("", 0));
    review->phase = PHASE_DONE;
}

static int check(const struct ms_review *review, const struct ms_engine *e)
{
    if (e->role != MS_ROLE_LEADER || review->content != e->content_version)
        return ms_fail(MS_E_NOT_LEADER, "this node is %s, only a leader's entries are reviewed", ms_role_name(e->role));
    if (review->mode == MS_REVIEW_APPLY && e->rules != review->rules) return ms_fail(MS_E_CHANGED, "the policy was replaced by another one");
    return 0;
}

int ms_review_take(struct ms_review *review, struct ms_engine *e)
{
    int rc = check(review, e);
    if (rc) return rc;
    uint32_t bucket = review->bucket;
    int phase = review->phase;
    bool failed = review->items.failed; /* the last slice could not be read: it is taken again */
    ms_buf_clear(&review->items);
    review->applied = 0;
    if (failed) return MS_E_MEMORY;
    if (review->phase == PHASE_TABLES) {
        take_table(review, e);
    } else if (review->phase == PHASE_OUTSIDE) {
        bool only_old = review->mode == MS_REVIEW_APPLY;
        if (!ms_view_walk(&e->view, &review->bucket, OUTSIDE_A_HOLD, only_old, take_outside, review)) review->phase = PHASE_MORE;
    } else if (review->phase == PHASE_MORE) {
        take_forgotten(review, e);
    } else {
        return 0;
    }
    if (!review->items.failed) return 1;
    ms_buf_clear(&review->items);
    review->bucket = bucket;
    review->phase = phase;
    return MS_E_MEMORY;
}

void ms_review_look_ahead(const struct ms_review *review, const struct ms_engine *e)
{
    uint32_t count = 0;
    for (size_t at = review->applied; at < review->items.size && count < APPLIED_A_HOLD; count++) {
        const struct item *item = item_at(review, at);
        if (review->phase == PHASE_TABLES) ms_table_look_ahead(item->table, item->key_hash);
        ms_view_look_ahead(&e->view, (uint32_t)item->key_hash, 1);
        at += span_of(item->size);
    }
    if (count == 0 && review->phase == PHASE_OUTSIDE) ms_view_look_ahead(&e->view, review->bucket, OUTSIDE_A_HOLD);
}

/* ---- reading: some entries of one table --------------------------------------------------------------------------------- */

static int read_entry(void *context, struct ms_bytes key)
{
    struct ms_review *review = context;
    take_item(review, review->from, review->from_id, key);
    return review->items.failed;
}

static void read_entries(struct ms_review *review)
{
    struct ms_table_place place = review->place;
    (void)report_of(review, review->from_id, review->from->name);
    for (uint32_t steps = 0; place.shard < MS_TABLE_SHARDS && review->items.size < SLICE_BYTES && steps < SLICE_STEPS; steps++)
        if (ms_content_read(review->reading, &place, read_entry, review)) break;
    ms_table_read_end(review->reading);
    review->reading = NULL;
    if (review->items.failed) review->items.size = 0;
    else review->place = place;
}

/* ---- deciding ------------------------------------------------------------------------------------------------------------ */

/* What becomes of an item: in mode COUNT what would, which is all that is done about it. */
static void report(struct ms_review *review, const struct item *item)
{
    if (item->id == 0) return;
    struct ms_review_table *table = report_of(review, item->id, item->table->name);
    if (review->phase == PHASE_TABLES) {
        table->leaving += item->decision == MS_VIEW_OUT;
    } else {
        table->entering += item->size && item->decision == MS_VIEW_IN;
        table->more |= !item->size;
    }
}

/* Whether the item is to be applied. */
static bool decide(struct ms_review *review, struct item *item)
{
    if (item->size) item->decision = ms_rules_decide(review->rules, item->table->name, key_of(item));
    if (review->phase == PHASE_TABLES) report_of(review, item->id, item->table->name)->entries++;
    if (review->mode == MS_REVIEW_COUNT) report(review, item);
    return review->mode == MS_REVIEW_APPLY && (review->phase != PHASE_TABLES || item->decision == MS_VIEW_OUT);
}

bool ms_review_decide(struct ms_review *review)
{
    size_t kept = 0;
    if (review->reading) read_entries(review);
    for (size_t at = 0, span; at < review->items.size; at += span) {
        struct item *item = item_at(review, at);
        span = span_of(item->size);
        if (!decide(review, item)) continue;
        item->key_hash = ms_key_hash(ms_bytes(item->key, item->size));
        if (kept < at) memmove(review->items.data + kept, item, span);
        kept += span;
    }
    review->items.size = kept;
    return kept > 0;
}

/* ---- applying ------------------------------------------------------------------------------------------------------------ */

/* An entry of a table that the rules leave out. */
static int leave(struct ms_engine *e, const struct item *item)
{
    struct ms_table_state *table = ms_store_table(e->store, item->id);
    return table ? ms_engine_leave(e, table, key_of(item), item->key_hash) : 0;
}

/* What was remembered as outside. */
static void apply_outside(struct ms_engine *e, const struct item *item)
{
    struct ms_bytes key = key_of(item);
    if (!item->size) ms_view_forgot_none(&e->view, item->table);
    else if (item->decision == MS_VIEW_IN) (void)ms_view_remove(&e->view, item->table, key, item->key_hash);
    else ms_view_add(&e->view, item->table, key, item->key_hash);
}

int ms_review_apply(struct ms_review *review, struct ms_engine *e)
{
    int rc = check(review, e);
    for (uint32_t done = 0; !rc && review->applied < review->items.size && done < APPLIED_A_HOLD; done++) {
        const struct item *item = item_at(review, review->applied);
        if (review->phase == PHASE_TABLES) rc = leave(e, item);
        else apply_outside(e, item);
        if (rc) return rc;
        report(review, item);
        review->applied += span_of(item->size);
    }
    return rc ? rc : review->applied < review->items.size;
}

void ms_review_entered(const struct ms_review *review, ms_review_fn fn, void *context)
{
    if (review->mode != MS_REVIEW_APPLY || review->phase == PHASE_TABLES) return;
    for (size_t at = 0; at < review->items.size;) {
        const struct item *item = item_at(review, at);
        if (item->decision == MS_VIEW_IN) fn(context, item->table->name, key_of(item));
        at += span_of(item->size);
    }
}

uint32_t ms_review_tables(const struct ms_review *review, const struct ms_review_table **tables)
{
    *tables = review->tables;
    return review->table_count;
}
