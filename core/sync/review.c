/* The review of a reload; see review.h. First all tables, then what is remembered as outside, then the tables of which more was
 * left out than is remembered. */
#include "review.h"

#include <stdio.h>

#include "inside.h"

/* What is done in one hold of the lock. Steps: of a walk, most of which see no entry if a table is nearly empty. */
enum { SLICE_KEYS = 128, SLICE_STEPS = 512, LEAVES_A_HOLD = 32 };
enum { PHASE_TABLES, PHASE_OUTSIDE, PHASE_MORE, PHASE_DONE };

struct item {
    const struct ms_table_state *table;
    uint32_t id; /* of the table, when it was taken; 0 = parked */
    int decision;
    size_t offset, size; /* of the key in `keys`; size 0: more than were remembered */
};

struct ms_review {
    struct ms_rules *rules;
    int mode, phase;
    uint64_t content; /* engine->content_version */
    uint32_t table, bucket;
    struct ms_table_place place;
    struct ms_buf items, keys;
    size_t applied; /* items */
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
    ms_buf_init(&review->keys);
    *result = review;
    return 0;
}

void ms_review_free(struct ms_review *review)
{
    if (!review) return;
    ms_rules_unref(review->rules);
    ms_buf_close(&review->items);
    ms_buf_close(&review->keys);
    ms_release(review);
}

static size_t item_count(const struct ms_review *review)
{
    return review->items.size / sizeof(struct item);
}

static struct item *item_at(const struct ms_review *review, size_t index)
{
    return (struct item *)(void *)review->items.data + index;
}

static struct ms_bytes key_of(const struct ms_review *review, const struct item *item)
{
    return item->size ? ms_bytes(review->keys.data + item->offset, item->size) : ms_bytes(NULL, 0);
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

static void take_item(struct ms_review *review, const struct ms_table_state *table, struct ms_bytes key)
{
    struct item item = {table, table->id, MS_VIEW_IN, review->keys.size, key.size};
    ms_buf_add(&review->keys, key.data, key.size);
    ms_buf_add(&review->items, &item, sizeof item);
}

struct taking {
    struct ms_review *review;
    const struct ms_table_state *table;
};

static int take_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct taking *taking = context;
    (void)value;
    take_item(taking->review, taking->table, key);
    return 0;
}

static void take_outside(void *context, const struct ms_table_state *table, struct ms_bytes key)
{
    take_item(context, table, key);
}

/* Some entries of one table. */
static void take_entries(struct ms_review *review, const struct ms_engine *e)
{
    uint32_t steps = 0;
    while (review->table < MS_TABLES_MAX && item_count(review) == 0 && steps < SLICE_STEPS) {
        const struct ms_table_state *table = e->store->tables[review->table];
        struct taking taking = {review, table};
        if (table && table->content->live > 0) {
            (void)report_of(review, table->id, table->name);
            for (; review->place.shard < MS_TABLE_SHARDS && item_count(review) < SLICE_KEYS && steps < SLICE_STEPS; steps++)
                (void)ms_table_walk(table, &review->place, false, take_entry, &taking);
            if (review->place.shard < MS_TABLE_SHARDS) return;
        }
        review->place = (struct ms_table_place){0};
        review->table++;
    }
    if (review->table == MS_TABLES_MAX && item_count(review) == 0) review->phase = PHASE_OUTSIDE;
}

static void take_forgotten(struct ms_review *review, struct ms_engine *e)
{
    for (uint32_t slot = 0; slot < e->view.table_count; slot++)
        if (e->view.tables[slot].forgot) take_item(review, e->view.tables[slot].table, ms_bytes("", 0));
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
    struct ms_table_place place = review->place;
    uint32_t table = review->table, bucket = review->bucket;
    int phase = review->phase;
    ms_buf_clear(&review->items);
    ms_buf_clear(&review->keys);
    review->items.failed = review->keys.failed = false;
    review->applied = 0;
    if (review->phase == PHASE_TABLES) {
        take_entries(review, e);
    } else if (review->phase == PHASE_OUTSIDE) {
        if (!ms_view_walk(&e->view, &review->bucket, SLICE_KEYS, review->mode == MS_REVIEW_APPLY, take_outside, review)) review->phase = PHASE_MORE;
    } else if (review->phase == PHASE_MORE) {
        take_forgotten(review, e);
    } else {
        return 0;
    }
    if (!review->items.failed && !review->keys.failed) return 1;
    ms_buf_clear(&review->items);
    review->table = table;
    review->place = place;
    review->bucket = bucket;
    review->phase = phase;
    return MS_E_MEMORY;
}

void ms_review_decide(struct ms_review *review)
{
    for (size_t i = 0; i < item_count(review); i++) {
        struct item *item = item_at(review, i);
        if (item->size) item->decision = ms_rules_decide(review->rules, item->table->name, key_of(review, item));
    }
}

/* ---- applying ------------------------------------------------------------------------------------------------------------ */

/* An entry of a table. */
static int apply_entry(struct ms_review *review, struct ms_engine *e, const struct item *item)
{
    struct ms_table_state *table = ms_store_table(e->store, item->id);
    struct ms_bytes key = key_of(review, item);
    if (item->decision == MS_VIEW_OUT && review->mode == MS_REVIEW_APPLY && table) {
        int rc = ms_engine_leave(e, table, key, ms_key_hash(key));
        if (rc) return rc;
    }
    struct ms_review_table *report = report_of(review, item->id, item->table->name);
    report->entries++;
    report->leaving += item->decision == MS_VIEW_OUT;
    return 0;
}

/* What was remembered as outside. */
static void apply_outside(struct ms_review *review, struct ms_engine *e, const struct item *item)
{
    struct ms_bytes key = key_of(review, item);
    bool enters = item->size && item->decision == MS_VIEW_IN;
    if (review->mode == MS_REVIEW_APPLY && enters) (void)ms_view_remove(&e->view, item->table, key, ms_key_hash(key));
    if (review->mode == MS_REVIEW_APPLY && item->size && !enters) ms_view_add(&e->view, item->table, key, ms_key_hash(key));
    if (review->mode == MS_REVIEW_APPLY && !item->size) ms_view_forgot_none(&e->view, item->table);
    if (item->id == 0) return;
    struct ms_review_table *report = report_of(review, item->id, item->table->name);
    report->entering += enters;
    report->more |= !item->size;
}

int ms_review_apply(struct ms_review *review, struct ms_engine *e)
{
    int rc = check(review, e);
    if (rc) return rc;
    size_t count = item_count(review);
    for (uint32_t done = 0; review->applied < count && done < LEAVES_A_HOLD; review->applied++) {
        const struct item *item = item_at(review, review->applied);
        if (review->phase == PHASE_TABLES) rc = apply_entry(review, e, item);
        else apply_outside(review, e, item);
        if (rc) break;
        done += review->mode == MS_REVIEW_APPLY && item->decision == MS_VIEW_OUT;
    }
    ms_engine_pump(e);
    if (rc) return rc;
    return review->applied < count;
}

void ms_review_entered(const struct ms_review *review, ms_review_fn fn, void *context)
{
    if (review->mode != MS_REVIEW_APPLY || review->phase == PHASE_TABLES) return;
    for (size_t i = 0; i < item_count(review); i++) {
        const struct item *item = item_at(review, i);
        if (item->decision == MS_VIEW_IN) fn(context, item->table->name, key_of(review, item));
    }
}

uint32_t ms_review_tables(const struct ms_review *review, const struct ms_review_table **tables)
{
    *tables = review->tables;
    return review->table_count;
}
