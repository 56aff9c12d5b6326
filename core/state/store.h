/* All tables of a node and the position that they are at: the fold of its log. Caller's lock. */
#ifndef MS_STATE_STORE_H
#define MS_STATE_STORE_H

#include "group.h"
#include "lineage.h"
#include "table.h"

enum { MS_TABLES_MAX = 256 }; /* ids 1..255 */

struct ms_store {
    uint64_t applied;            /* lsn of the last record folded, 0 = empty */
    uint64_t changes_since_mark; /* changes folded or committed since the last mark */
    struct ms_table_state *tables[MS_TABLES_MAX]; /* by id; [0] unused */
    uint32_t table_count;
    struct ms_table_state *parked[MS_TABLES_MAX]; /* empty, without an id: handles to tables that the adopted history lacks */
    uint32_t parked_count;
    struct ms_lineage lineage;
    bool fuzzy;              /* a snapshot is being loaded: entries may be newer than `applied`, so marks say nothing yet */
    uint64_t marks_checked;
    uint64_t skipped;        /* unknown optional records stepped over */
    uint64_t changed_us;     /* time of the last group with a change (group.h), 0 = not known */
};

int ms_store_init(struct ms_store *store);
void ms_store_close(struct ms_store *store);
struct ms_table_state *ms_store_find(const struct ms_store *store, struct ms_bytes name);
struct ms_table_state *ms_store_table(const struct ms_store *store, uint32_t id); /* NULL if not defined */

/* Defines a table. MS_E_DAMAGED if the id or the name stands for something else already, MS_E_LIMIT, MS_E_MEMORY. */
int ms_store_define(struct ms_store *store, uint32_t id, uint8_t type, struct ms_bytes name);

/* Folds one checked group of the log, which must hold lsn applied + 1 (else MS_E_FORMAT). Records are applied in order; a MARK
 * must fit (else MS_E_DAMAGED, naming table, lsn, both counts and digests). On an error the records before the bad one
 * stand and applied says how far it got. After MS_E_MEMORY the same group may be folded again, and goes on from there; after
 * another error the store must not go on or be made a snapshot of.
 * fn (may be NULL) hears of each PUT, DELETE and LEAVE after it is in the table. */
typedef void (*ms_fold_fn)(void *context, struct ms_table_state *table, int op, struct ms_bytes key, struct ms_bytes value, uint64_t lsn);
int ms_store_fold(struct ms_store *store, struct ms_bytes group, const struct ms_group_header *header, ms_fold_fn fn, void *context);

/* Appends a MARK payload of all tables as they are logged now. */
void ms_store_mark(const struct ms_store *store, struct ms_buf *payload);

/* 0, or MS_E_DAMAGED with what differs. */
int ms_store_check_mark(struct ms_store *store, struct ms_bytes payload, uint64_t lsn);

/* Makes `store` hold what `from` holds, and `from` what `store` held (for the caller to close, which takes a while). Tables that
 * both have, by name, keep their address (handles stay good) and swap contents, so that a reader sees the old or the new
 * content, never none. Tables that only `store` has become empty and are parked until the log defines their name again.
 * No table may be dirty. MS_E_MEMORY, MS_E_TYPE change nothing. */
int ms_store_take(struct ms_store *store, struct ms_store *from);

#endif
