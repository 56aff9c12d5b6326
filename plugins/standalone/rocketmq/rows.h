/* A list of table entries in memory: what a directory of files holds, or what tables hold for an export. A million rows cost
 * their bytes plus some 48 each. Keys and values lie in one buffer, in the order they were added. Not thread-safe. */
#ifndef MS_ROCKETMQ_ROWS_H
#define MS_ROCKETMQ_ROWS_H

#include "../../../core/base/bytes.h"

struct ms_row {
    uint64_t at;       /* of the key in `bytes`; the value follows */
    uint64_t mark;     /* the user's */
    uint32_t key_size, value_size;
    uint8_t table;     /* enum ms_rocketmq_table */
    uint8_t state;     /* the user's, 0 at first */
};

struct ms_rows {
    struct ms_row *list;
    size_t count, capacity;
    struct ms_buf bytes;
    uint32_t *slots; /* index by table and key: row + 1, open addressing; NULL before ms_rows_index */
    size_t slot_mask;
};

void ms_rows_init(struct ms_rows *rows);
void ms_rows_close(struct ms_rows *rows);

/* Copies key and value; data == NULL is kept as an empty value. MEMORY; LIMIT beyond 2^32 - 2 rows or bytes of one. */
int ms_rows_add(struct ms_rows *rows, int table, struct ms_bytes key, struct ms_bytes value);

/* Forgets all rows from `count` on. Not after ms_rows_index. */
void ms_rows_cut(struct ms_rows *rows, size_t count);

struct ms_bytes ms_row_key(const struct ms_rows *rows, const struct ms_row *row);   /* borrowed until the next add */
struct ms_bytes ms_row_value(const struct ms_rows *rows, const struct ms_row *row); /* the same */

/* Makes ms_rows_find possible; no adding afterwards. MEMORY. */
int ms_rows_index(struct ms_rows *rows);
struct ms_row *ms_rows_find(const struct ms_rows *rows, int table, struct ms_bytes key); /* NULL: none */

/* By table, then by the bytes of the key; what stands behind its NUL (or the whole key) goes by number where it is one,
 * numbers first. Not after ms_rows_index. */
void ms_rows_sort(struct ms_rows *rows);

/* < 0, 0, > 0 by bytes, a prefix first. */
int ms_rows_compare(struct ms_bytes a, struct ms_bytes b);

#endif
