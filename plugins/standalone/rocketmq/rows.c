#include "rows.h"

#include <stdlib.h>

#include "../../../core/base/error.h"
#include "../../../core/base/hash.h"
#include "../../../core/base/mem.h"

void ms_rows_init(struct ms_rows *rows)
{
    *rows = (struct ms_rows){0};
}

void ms_rows_close(struct ms_rows *rows)
{
    ms_release(rows->list);
    ms_release(rows->slots);
    ms_buf_close(&rows->bytes);
    ms_rows_init(rows);
}

static int grow(struct ms_rows *rows)
{
    size_t capacity = rows->capacity ? rows->capacity * 2 : 256;
    struct ms_row *list = ms_realloc(rows->list, capacity * sizeof *list);
    if (!list) return MS_E_MEMORY;
    rows->list = list;
    rows->capacity = capacity;
    return 0;
}

int ms_rows_add(struct ms_rows *rows, int table, struct ms_bytes key, struct ms_bytes value)
{
    if (rows->count >= UINT32_MAX - 1 || key.size > UINT32_MAX || value.size > UINT32_MAX) {
        return ms_fail(MS_E_LIMIT, "too many rows, or one of 4 GiB");
    }
    if (rows->count == rows->capacity && grow(rows)) return MS_E_MEMORY;
    size_t at = rows->bytes.size;
    uint8_t *room = key.size + value.size ? ms_buf_extend(&rows->bytes, key.size + value.size) : NULL;
    if (!room && key.size + value.size) return MS_E_MEMORY;
    if (key.size) memcpy(room, key.data, key.size);
    if (value.size) memcpy(room + key.size, value.data, value.size);
    rows->list[rows->count++] = (struct ms_row){.at = at, .key_size = (uint32_t)key.size, .value_size = (uint32_t)value.size,
                                                .table = (uint8_t)table};
    return 0;
}

void ms_rows_cut(struct ms_rows *rows, size_t count)
{
    if (count >= rows->count) return;
    rows->bytes.size = (size_t)rows->list[count].at;
    rows->count = count;
}

struct ms_bytes ms_row_key(const struct ms_rows *rows, const struct ms_row *row)
{
    return ms_bytes(rows->bytes.data + row->at, row->key_size);
}

struct ms_bytes ms_row_value(const struct ms_rows *rows, const struct ms_row *row)
{
    return ms_bytes(rows->bytes.data + row->at + row->key_size, row->value_size);
}

static size_t slot_of(const struct ms_rows *rows, int table, struct ms_bytes key)
{
    return (size_t)ms_hash_seeded(key.data, key.size, (uint64_t)table) & rows->slot_mask;
}

int ms_rows_index(struct ms_rows *rows)
{
    size_t slots = 16;
    while (slots < rows->count * 2) slots *= 2;
    rows->slots = ms_alloc_zero(slots * sizeof *rows->slots);
    if (!rows->slots) return MS_E_MEMORY;
    rows->slot_mask = slots - 1;
    for (size_t i = 0; i < rows->count; i++) {
        size_t at = slot_of(rows, rows->list[i].table, ms_row_key(rows, &rows->list[i]));
        while (rows->slots[at]) at = (at + 1) & rows->slot_mask;
        rows->slots[at] = (uint32_t)i + 1;
    }
    return 0;
}

struct ms_row *ms_rows_find(const struct ms_rows *rows, int table, struct ms_bytes key)
{
    for (size_t at = slot_of(rows, table, key); rows->slots[at]; at = (at + 1) & rows->slot_mask) {
        struct ms_row *row = &rows->list[rows->slots[at] - 1];
        if (row->table == table && ms_bytes_equal(ms_row_key(rows, row), key)) return row;
    }
    return NULL;
}

/* ---- order ---------------------------------------------------------------------------------------------------------- */

int ms_rows_compare(struct ms_bytes a, struct ms_bytes b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size ? memcmp(a.data, b.data, size) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* Digits in the shortest form: the longer number is the larger one. Of two negative ones it is the other way round. */
static int compare_numbers(struct ms_bytes a, struct ms_bytes b)
{
    bool a_negative = *(const char *)a.data == '-', b_negative = *(const char *)b.data == '-';
    if (a_negative != b_negative) return a_negative ? -1 : 1;
    int order = a.size != b.size ? (a.size > b.size ? 1 : -1) : ms_rows_compare(a, b);
    return a_negative ? -order : order;
}

static bool is_number(struct ms_bytes text)
{
    const char *at = text.data, *end = at + text.size;
    if (at < end && *at == '-') at++;
    if (at == end) return false;
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at == end;
}

/* Cuts key at its first NUL; a key without one is all field. */
static struct ms_bytes field_of(struct ms_bytes key, struct ms_bytes *front)
{
    const char *nul = key.size ? memchr(key.data, 0, key.size) : NULL;
    size_t front_size = nul ? (size_t)(nul - (const char *)key.data) + 1 : 0;
    *front = ms_bytes(key.data, front_size);
    return ms_bytes((const char *)key.data + front_size, key.size - front_size);
}

static int compare_rows(const void *left, const void *right, void *context)
{
    const struct ms_row *a = left, *b = right;
    const struct ms_rows *rows = context;
    if (a->table != b->table) return a->table < b->table ? -1 : 1;
    struct ms_bytes a_front, b_front;
    struct ms_bytes a_field = field_of(ms_row_key(rows, a), &a_front), b_field = field_of(ms_row_key(rows, b), &b_front);
    int order = ms_rows_compare(a_front, b_front);
    if (order) return order;
    bool a_number = is_number(a_field), b_number = is_number(b_field);
    if (a_number != b_number) return a_number ? -1 : 1; /* mixing the two orders below would make circles */
    return a_number ? compare_numbers(a_field, b_field) : ms_rows_compare(a_field, b_field);
}

void ms_rows_sort(struct ms_rows *rows)
{
    if (rows->count > 1) qsort_r(rows->list, rows->count, sizeof *rows->list, compare_rows, rows);
}
