/* Tables, reading, positions and status: any role, any thread, nothing here waits for more than the lock. */
#include "node_report.h"

#include <stdlib.h>
#include <unistd.h>

void ms_free(void *memory)
{
    free(memory); /* such texts are jansson's, so they are not from base/mem.h */
}

/* ---- tables -------------------------------------------------------------------------------------------------------------------- */

struct ms_table *ms_node_table(struct ms_node *node, struct ms_table_state *state)
{
    for (uint32_t i = 0; i < node->table_count; i++)
        if (node->tables[i]->state == state) return node->tables[i];
    if (node->table_count == MS_TABLES_MAX) {
        (void)ms_fail(MS_E_LIMIT, "too many tables");
        return NULL;
    }
    struct ms_table *table = ms_alloc(sizeof *table);
    if (!table) return NULL;
    *table = (struct ms_table){.node = node, .state = state};
    node->tables[node->table_count++] = table;
    return table;
}

int ms_table_open(struct ms_node *node, const char *name, int type, struct ms_table **table)
{
    struct ms_table_state *state = NULL;
    int rc;
    uint64_t deadline = ms_clock_deadline(MS_NODE_PATIENCE_MS);
    *table = NULL;
    ms_node_lock(node);
    for (;;) {
        rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : ms_engine_table(&node->engine, name, type, &state);
        if (rc != MS_E_AGAIN) break;
        rc = ms_node_may_wait(node, "a new table without room in the log");
        if (rc || !ms_node_watch(node, deadline)) break;
    }
    node->pump = true;
    if (rc == MS_E_AGAIN) rc = ms_fail(MS_E_NO_SPACE, "no space for the log");
    if (!rc) *table = ms_node_table(node, state);
    if (!rc && !*table) rc = MS_E_MEMORY;
    ms_node_unlock(node);
    return rc;
}

const char *ms_table_name(const struct ms_table *table)
{
    return table->state->name;
}

int ms_table_type(const struct ms_table *table)
{
    return table->state->type;
}

uint64_t ms_table_count(struct ms_table *table)
{
    ms_node_lock(table->node);
    uint64_t count = table->state->content->live;
    ms_node_unlock(table->node);
    return count;
}

int ms_table_each(struct ms_node *node, int (*fn)(void *context, struct ms_table *table), void *context)
{
    int rc = 0;
    for (uint32_t id = 1; id < MS_TABLES_MAX && !rc; id++) {
        ms_node_lock(node);
        struct ms_table_state *state = node->store.tables[id];
        struct ms_table *table = state ? ms_node_table(node, state) : NULL;
        ms_node_unlock(node);
        if (table) rc = fn(context, table);
        else if (state) rc = MS_E_MEMORY;
    }
    return rc;
}

/* ---- entries ------------------------------------------------------------------------------------------------------------------- */

int ms_get(struct ms_table *table, struct ms_bytes key, void *buffer, size_t capacity, size_t *size)
{
    uint64_t key_hash = ms_key_hash(key);
    ms_node_lock(table->node);
    struct ms_bytes value = ms_table_get(table->state, key, key_hash);
    bool found = value.data != NULL;
    bool fits = value.size <= capacity;
    if (found) *size = value.size;
    if (found && fits && value.size > 0) memcpy(buffer, value.data, value.size);
    ms_node_unlock(table->node);
    if (!found) return ms_fail(MS_E_NOT_FOUND, "no such entry");
    return fits ? 0 : ms_fail(MS_E_LIMIT, "the value has %zu bytes, the buffer %zu", *size, capacity);
}

enum { WALK_BYTES = 32 << 10 }; /* copied per hold of the lock */

static int copy_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_buf *copy = context;
    ms_buf_add32(copy, (uint32_t)key.size);
    ms_buf_add32(copy, (uint32_t)value.size);
    ms_buf_add(copy, key.data, key.size);
    ms_buf_add(copy, value.data, value.size);
    return copy->failed ? MS_E_MEMORY : 0;
}

static int copy_some(struct ms_table *table, struct ms_table_place *place, struct ms_buf *copy)
{
    struct ms_node *node = table->node;
    int rc = 0;
    ms_buf_clear(copy);
    ms_node_lock(node);
    while (!rc && place->shard < MS_TABLE_SHARDS && copy->size < WALK_BYTES) rc = ms_table_walk(table->state, place, false, copy_entry, copy);
    ms_node_unlock(node);
    return rc;
}

int ms_walk(struct ms_table *table, ms_walk_fn fn, void *context)
{
    struct ms_buf copy;
    int rc = 0;
    ms_buf_init(&copy);
    for (struct ms_table_place place = {0}; !rc && place.shard < MS_TABLE_SHARDS;) {
        rc = copy_some(table, &place, &copy);
        struct ms_reader reader = ms_reader(ms_buf_bytes(&copy));
        while (!rc && ms_reader_left(&reader) > 0) {
            uint32_t key_size = ms_read32(&reader), value_size = ms_read32(&reader);
            struct ms_bytes key = ms_read_bytes(&reader, key_size);
            rc = fn(context, key, ms_read_bytes(&reader, value_size));
        }
    }
    ms_buf_close(&copy);
    return rc;
}

/* ---- operating ------------------------------------------------------------------------------------------------------------------- */

int ms_position(struct ms_node *node, struct ms_position *position)
{
    ms_node_lock(node);
    ms_engine_position(&node->engine, position);
    ms_node_unlock(node);
    return 0;
}

int ms_applied_at(struct ms_node *node, uint64_t lsn, uint64_t *real_time_us)
{
    ms_node_lock(node);
    int rc = ms_engine_applied_at(&node->engine, lsn, real_time_us);
    ms_node_unlock(node);
    return rc;
}

struct own_fields {
    struct ms_hold hold;
    uint32_t transactions, waiting;
};

/* Paths may be any bytes. */
static json_t *text(const char *bytes)
{
    json_t *string = json_string(bytes);
    return string ? string : json_string("(not UTF-8)");
}

static json_t *long_locks(const struct ms_hold *hold)
{
#define NAME(bound) "over_" #bound "_us",
    static const char *const names[MS_HOLD_BOUND_COUNT] = {MS_HOLD_BOUNDS(NAME)};
    json_t *object = json_object();
    for (int i = 0; i < MS_HOLD_BOUND_COUNT; i++) (void)json_object_set_new(object, names[i], json_integer((json_int_t)hold->over[i]));
    return object;
}

static json_t *own_status(const struct ms_node *node, const struct own_fields *own)
{
    const struct ms_recovery *recovery = &node->disk.recovery; /* does not change after ms_open */
    json_t *recovered = json_pack("{s:I,s:I,s:I,s:o}", "snapshot_end", (json_int_t)recovery->snapshot_end, "bad_snapshots",
                                  (json_int_t)recovery->bad_snapshots, "truncated_bytes", (json_int_t)recovery->truncated, "note",
                                  text(recovery->note));
    return json_pack("{s:s,s:o,s:s,s:i,s:I,s:I,s:I,s:o,s:I,s:I,s:o}", "version", MS_VERSION, "data_dir", text(node->dir), "listen", node->listen,
                     "port", (int)node->port, "pid", (json_int_t)getpid(), "max_lock_us", (json_int_t)own->hold.max_us,
                     "max_lock_cut_us", (json_int_t)own->hold.cut_us, "long_locks", long_locks(&own->hold),
                     "transactions", (json_int_t)own->transactions,
                     "waiting_calls", (json_int_t)own->waiting, "recovered", recovered);
}

int ms_status(struct ms_node *node, char **json)
{
    char *engine = NULL;
    ms_node_lock(node);
    struct own_fields own = {node->hold, node->txns, node->inside};
    int rc = ms_engine_status(&node->engine, &engine);
    ms_node_unlock(node);
    *json = NULL;
    if (rc) return rc;
    json_t *status = json_loads(engine, 0, NULL), *mine = own_status(node, &own), *policy = ms_policy_status(node);
    bool whole = json_object_set_new(status, "policy", policy) == 0; /* NULL fails, and what is given is taken in any case */
    if (whole && mine && json_object_update(status, mine) == 0) *json = json_dumps(status, JSON_COMPACT);
    json_decref(status);
    json_decref(mine);
    ms_free(engine);
    return *json ? 0 : ms_fail(MS_E_MEMORY, "out of memory for the status");
}
