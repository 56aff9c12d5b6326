/* What import and export need of a store of tables: a seam, so that specs can stop an import after any step, and a node
 * behind it for real.
 *
 * Functions return 0 or a negative MS_E_*. Tables are named; type is MS_TYPE_*. Not thread-safe. */
#ifndef MS_ROCKETMQ_TABLES_H
#define MS_ROCKETMQ_TABLES_H

#include "layout.h"

struct ms_rocketmq_write {
    const char *table;
    int type;
    struct ms_bytes key;
    struct ms_bytes value; /* data == NULL deletes */
};

struct ms_rocketmq_tables {
    /* Calls fn for every entry; its non-zero result ends the walk and is returned. A table that does not exist has no
     * entries. */
    int (*walk)(struct ms_rocketmq_tables *tables, const char *table, ms_walk_fn fn, void *context);

    /* Appends the value. NOT_FOUND. */
    int (*get)(struct ms_rocketmq_tables *tables, const char *table, const struct ms_bytes *key, struct ms_buf *value);

    /* Whether a write to the table only joins its buffer, and is at risk until the next flush. */
    bool (*is_buffered)(struct ms_rocketmq_tables *tables, const char *table);

    /* All writes or none; tables are made as needed. Need not wait for a level. A single write is bounded by the limits
     * of an entry only, more of them by the limit of a batch too. */
    int (*write)(struct ms_rocketmq_tables *tables, const struct ms_rocketmq_write *writes, size_t count);

    /* Logs what is buffered: what is written later is logged later. */
    int (*flush)(struct ms_rocketmq_tables *tables);

    /* Until everything written is on disk. */
    int (*wait)(struct ms_rocketmq_tables *tables, int timeout_ms);
};

enum { MS_ROCKETMQ_HANDLES = 16 };

/* The tables of a node, through the public API. */
struct ms_rocketmq_node {
    struct ms_rocketmq_tables tables; /* first: the seam is this object */
    struct ms_node *node;
    const struct ms_policy *policy;
    struct ms_table *handles[MS_ROCKETMQ_HANDLES]; /* opened so far */
    size_t handle_count;
    uint64_t lsn; /* of the last write */
};

/* policy: the node's, borrowed; it says which tables are buffered. NULL = unknown: then the integer ones count as
 * buffered, which is safe in either case. No close needed. Writing needs the leader; walk and get work in any role. */
void ms_rocketmq_node_init(struct ms_rocketmq_node *node_tables, struct ms_node *node, const struct ms_policy *policy);

#endif
