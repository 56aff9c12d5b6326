#include "tables.h"

#include "../../../core/base/error.h"
#include "../../../core/base/mem.h"

static struct ms_rocketmq_node *self(struct ms_rocketmq_tables *tables)
{
    return (struct ms_rocketmq_node *)(void *)tables;
}

static struct ms_table *known(const struct ms_rocketmq_node *node, const char *name)
{
    for (size_t i = 0; i < node->handle_count; i++) {
        if (strcmp(ms_table_name(node->handles[i]), name) == 0) return node->handles[i];
    }
    return NULL;
}

static void remember(struct ms_rocketmq_node *node, struct ms_table *table)
{
    if (node->handle_count < MS_ROCKETMQ_HANDLES) node->handles[node->handle_count++] = table;
}

struct search {
    const char *name;
    struct ms_table *found;
};

static int match(void *context, struct ms_table *table)
{
    struct search *search = context;
    if (strcmp(ms_table_name(table), search->name) != 0) return 0;
    search->found = table;
    return 1;
}

/* For reading: must not make the table, as opening it on a leader would. */
static int find(struct ms_rocketmq_node *node, const char *name, struct ms_table **table)
{
    *table = known(node, name);
    if (*table) return 0;
    struct search search = {name, NULL};
    int rc = ms_table_each(node->node, match, &search);
    if (rc < 0) return rc;
    if (search.found) remember(node, search.found);
    *table = search.found;
    return 0;
}

static int open_table(struct ms_rocketmq_node *node, const char *name, int type, struct ms_table **table)
{
    *table = known(node, name);
    if (*table && ms_table_type(*table) != type) return ms_fail(MS_E_TYPE, "table %s has the other value type", name);
    if (*table) return 0;
    int rc = ms_table_open(node->node, name, type, table);
    if (rc) return ms_fail_wrap(rc, "table %s", name);
    remember(node, *table);
    return 0;
}

static int node_walk(struct ms_rocketmq_tables *tables, const char *name, ms_walk_fn fn, void *context)
{
    struct ms_table *table;
    int rc = find(self(tables), name, &table);
    return rc || !table ? rc : ms_walk(table, fn, context);
}

static int node_get(struct ms_rocketmq_tables *tables, const char *name, const struct ms_bytes *key, struct ms_buf *value)
{
    struct ms_table *table;
    int rc = find(self(tables), name, &table);
    if (rc) return rc;
    if (!table) return ms_fail(MS_E_NOT_FOUND, "there is no table %s", name);
    size_t before = value->size, size = 64;
    for (;;) { /* until the value fits, as it may grow meanwhile */
        size_t room = size;
        value->size = before;
        void *at = ms_buf_extend(value, room);
        if (!at) return MS_E_MEMORY;
        rc = ms_get(table, *key, at, room, &size);
        value->size = rc == 0 ? before + size : before;
        if (rc != MS_E_LIMIT) return rc;
    }
}

static bool node_is_buffered(struct ms_rocketmq_tables *tables, const char *name)
{
    const struct ms_policy *policy = self(tables)->policy;
    if (!policy) {
        int table = ms_rocketmq_table_named(ms_str(name));
        return table >= 0 && ms_rocketmq_table_type(table) == MS_TYPE_INT64;
    }
    for (uint32_t i = 0; i < policy->table_count; i++) {
        if (strcmp(policy->tables[i].name, name) == 0) return policy->tables[i].interval_ms > 0;
    }
    return false;
}

static int node_write(struct ms_rocketmq_tables *tables, const struct ms_rocketmq_write *writes, size_t count)
{
    struct ms_rocketmq_node *node = self(tables);
    struct ms_write *batch = ms_alloc(count * sizeof *batch);
    if (!batch) return MS_E_MEMORY;
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        batch[i].key = writes[i].key;
        batch[i].value = writes[i].value;
        rc = open_table(node, writes[i].table, writes[i].type, &batch[i].table);
    }
    if (!rc && count == 1 && batch->value.data) rc = ms_put(batch->table, batch->key, batch->value, MS_NOWAIT, &node->lsn);
    else if (!rc) rc = ms_put_batch(node->node, batch, count, MS_NOWAIT, &node->lsn);
    ms_release(batch);
    /* Both mean that this node is done with it: outside the view, or durable here while nobody follows. */
    return rc == MS_LOCAL || rc == MS_E_NOT_REPLICATED ? 0 : rc;
}

static int node_flush(struct ms_rocketmq_tables *tables)
{
    return ms_flush(self(tables)->node, NULL, &self(tables)->lsn);
}

static int node_wait(struct ms_rocketmq_tables *tables, int timeout_ms)
{
    struct ms_rocketmq_node *node = self(tables);
    return node->lsn ? ms_wait(node->node, node->lsn, MS_LEVEL_DISK, timeout_ms) : 0;
}

void ms_rocketmq_node_init(struct ms_rocketmq_node *node_tables, struct ms_node *node, const struct ms_policy *policy)
{
    *node_tables = (struct ms_rocketmq_node){
        .tables = {.walk = node_walk, .get = node_get, .is_buffered = node_is_buffered, .write = node_write,
                   .flush = node_flush, .wait = node_wait},
        .node = node,
        .policy = policy,
    };
}
