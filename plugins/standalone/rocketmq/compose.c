/* Rows -> the text of a file. */
#include <stdio.h>
#include <stdlib.h>

#include "../../../core/base/mem.h"
#include "export.h"
#include "group_topics.h"

/* The rows of one table, which are neighbours. */
struct range {
    size_t from, to;
};

/* One top-level field of a file. */
struct field {
    struct ms_bytes name;
    const struct ms_rocketmq_container *container;
    const struct ms_row *row; /* no container: whose value is the field's; NULL: it is derived */
};

struct compose {
    const struct ms_rows *rows;
    int file;
    struct ms_buf *out;
};

static struct range range_of(const struct ms_rows *rows, int table)
{
    size_t from = 0, to = rows->count;
    while (from < to) { /* the first row that is not below the table */
        size_t middle = from + (to - from) / 2;
        if (rows->list[middle].table < table) from = middle + 1;
        else to = middle;
    }
    to = from;
    while (to < rows->count && rows->list[to].table == table) to++;
    return (struct range){from, to};
}

static int refuse(const struct compose *c, const struct ms_row *row, const char *why)
{
    struct ms_bytes key = ms_row_key(c->rows, row);
    char text[120];
    size_t size = key.size < sizeof text - 1 ? key.size : sizeof text - 1;
    memcpy(text, key.data, size);
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\0') text[i] = ' ';
    }
    return ms_fail(MS_E_FORMAT, "table %s, key \"%.*s\" does not fit in a file: %s", ms_rocketmq_table_names[row->table],
                   (int)size, text, why);
}

static void put_text(struct compose *c, const char *text)
{
    ms_buf_add(c->out, text, strlen(text));
}

/* Cuts a key at its only NUL. */
static int split(const struct compose *c, const struct ms_row *row, const struct ms_rocketmq_container *container,
                 struct ms_bytes *outer, struct ms_bytes *inner)
{
    struct ms_bytes key = ms_row_key(c->rows, row);
    const char *nul = key.size ? memchr(key.data, 0, key.size) : NULL;
    *outer = ms_bytes(key.data, 0);
    *inner = key;
    if (container->nested) {
        if (!nul) return refuse(c, row, "it has one part, not two");
        *outer = ms_bytes(key.data, (size_t)(nul - (const char *)key.data));
        *inner = ms_bytes(nul + 1, key.size - outer->size - 1);
        nul = inner->size ? memchr(inner->data, 0, inner->size) : NULL;
    }
    if (nul) return refuse(c, row, "it has a NUL too many");
    if (inner->size == 0 || (container->nested && outer->size == 0)) return refuse(c, row, "a part of it is empty");
    if (container->numbered && !ms_json_int32(*inner, NULL)) return refuse(c, row, "its last part is no 32-bit integer");
    return 0;
}

static int put_json(struct compose *c, const struct ms_row *row, unsigned depth, int flags)
{
    struct ms_json json;
    int rc = ms_json_open(&json, "the value", ms_row_value(c->rows, row), flags);
    if (!rc) ms_json_pretty(ms_json_root(&json), depth, c->out);
    ms_json_close(&json);
    if (rc == MS_E_FORMAT || rc == MS_E_LIMIT) {
        char why[200];
        (void)snprintf(why, sizeof why, "%s", ms_fail_message(rc));
        return refuse(c, row, why);
    }
    return rc;
}

static int put_leaf(struct compose *c, const struct ms_row *row, const struct ms_rocketmq_container *container,
                    struct ms_bytes inner, unsigned depth)
{
    int rc = 0;
    if (container->numbered && container->bare) {
        ms_buf_add(c->out, inner.data, inner.size);
    } else {
        rc = ms_json_quote(inner, c->out);
        if (rc) return rc == MS_E_FORMAT ? refuse(c, row, "it is not UTF-8") : rc;
    }
    ms_buf_add8(c->out, ':');
    if (!container->integer) return put_json(c, row, depth, 0);
    int64_t number;
    char digits[32];
    rc = ms_int64_get(ms_row_value(c->rows, row), &number);
    if (rc) return ms_fail_wrap(rc, "table %s", ms_rocketmq_table_names[row->table]);
    (void)snprintf(digits, sizeof digits, "%lld", (long long)number);
    put_text(c, digits);
    return 0;
}

/* The member of the outer map starts, ends before `row`; flat containers have no such maps. */
static int turn_outer(struct compose *c, const struct ms_row *row, struct ms_bytes outer, bool first)
{
    if (!first) {
        ms_json_line(c->out, 2);
        put_text(c, "},");
    }
    ms_json_line(c->out, 2);
    int rc = ms_json_quote(outer, c->out);
    if (rc) return rc == MS_E_FORMAT ? refuse(c, row, "it is not UTF-8") : rc;
    put_text(c, ":{");
    return 0;
}

static int put_container(struct compose *c, const struct ms_rocketmq_container *container)
{
    struct range range = range_of(c->rows, container->table);
    unsigned depth = container->nested ? 3 : 2;
    struct ms_bytes last = ms_bytes(NULL, 0), outer, inner;
    put_text(c, "{");
    for (size_t i = range.from; i < range.to; i++) {
        const struct ms_row *row = &c->rows->list[i];
        int rc = split(c, row, container, &outer, &inner);
        bool turn = !rc && container->nested && !ms_bytes_equal(outer, last);
        if (turn) rc = turn_outer(c, row, outer, i == range.from);
        else if (!rc && i > range.from) put_text(c, ",");
        if (rc) return rc;
        last = outer;
        ms_json_line(c->out, depth);
        rc = put_leaf(c, row, container, inner, depth);
        if (rc) return rc;
    }
    if (range.from < range.to && container->nested) {
        ms_json_line(c->out, 2);
        put_text(c, "}");
    }
    if (range.from < range.to) ms_json_line(c->out, 1);
    put_text(c, "}");
    return 0;
}

/* ---- the fields of a file, by name ----------------------------------------------------------------------------- */

/* Whether a row of file_extra or data_version is of this file; for the former, *name is the field that it keeps. */
static bool is_ours(const struct compose *c, const struct ms_row *row, struct ms_bytes *name)
{
    struct ms_bytes key = ms_row_key(c->rows, row);
    if (ms_rocketmq_file_of(row->table, key) != c->file) return false;
    size_t front = row->table == MS_ROCKETMQ_FILE_EXTRA ? strlen(ms_rocketmq_file_names[c->file]) + 1 : 0;
    *name = ms_bytes((const char *)key.data + front, key.size - front);
    return true;
}

static bool is_marked(const struct compose *c, struct range extras, const char *field)
{
    struct ms_bytes name;
    for (size_t i = extras.from; i < extras.to; i++) {
        if (is_ours(c, &c->rows->list[i], &name) && ms_bytes_equal(name, ms_str(field))) return true;
    }
    return false;
}

/* A field that extras only mark, or may not bring. */
static bool is_known(int file, struct ms_bytes name)
{
    if (ms_bytes_equal(name, ms_str(MS_ROCKETMQ_VERSION_FIELD))) return true;
    for (int i = 0; i < MS_ROCKETMQ_CONTAINERS; i++) {
        const struct ms_rocketmq_container *container = &ms_rocketmq_containers[i];
        if (container->file == file && ms_bytes_equal(ms_str(container->field), name)) return true;
    }
    return false;
}

static size_t list_fields(const struct compose *c, struct range extras, struct range versions, struct field *fields)
{
    size_t count = 0;
    struct ms_bytes name;
    for (int i = 0; i < MS_ROCKETMQ_CONTAINERS; i++) {
        const struct ms_rocketmq_container *container = &ms_rocketmq_containers[i];
        struct range range = range_of(c->rows, container->table);
        if (container->file != c->file) continue;
        if (container->optional && range.from == range.to && !is_marked(c, extras, container->field)) continue;
        fields[count++] = (struct field){ms_str(container->field), container, NULL};
    }
    for (size_t i = extras.from; i < extras.to; i++) {
        const struct ms_row *row = &c->rows->list[i];
        if (!is_ours(c, row, &name) || is_known(c->file, name)) continue;
        bool derived = c->file == MS_ROCKETMQ_OFFSETS && ms_bytes_equal(name, ms_str(MS_ROCKETMQ_DERIVED_FIELD));
        fields[count++] = (struct field){name, NULL, derived ? NULL : row};
    }
    for (size_t i = versions.from; i < versions.to; i++) {
        const struct ms_row *row = &c->rows->list[i];
        if (is_ours(c, row, &name)) fields[count++] = (struct field){ms_str(MS_ROCKETMQ_VERSION_FIELD), NULL, row};
    }
    return count;
}

static int compare_fields(const void *left, const void *right)
{
    const struct field *a = left, *b = right;
    return ms_rows_compare(a->name, b->name);
}

static int put_field(struct compose *c, const struct field *field)
{
    int rc = ms_json_quote(field->name, c->out);
    if (rc) return rc;
    put_text(c, ":");
    if (field->container) return put_container(c, field->container);
    if (field->row) return put_json(c, field->row, 1, field->row->table == MS_ROCKETMQ_FILE_EXTRA ? MS_JSON_ANY : 0);
    struct range range = range_of(c->rows, MS_ROCKETMQ_OFFSET);
    return ms_rocketmq_group_topics(c->rows, range.from, range.to, c->out);
}

int ms_rocketmq_compose(const struct ms_rows *rows, int file, struct ms_buf *text)
{
    struct compose c = {rows, file, text};
    struct range extras = range_of(rows, MS_ROCKETMQ_FILE_EXTRA), versions = range_of(rows, MS_ROCKETMQ_DATA_VERSION);
    size_t most = MS_ROCKETMQ_CONTAINERS + (extras.to - extras.from) + (versions.to - versions.from), start = text->size;
    struct field *fields = ms_alloc(most * sizeof *fields);
    if (!fields) return MS_E_MEMORY;
    size_t count = list_fields(&c, extras, versions, fields);
    qsort(fields, count, sizeof *fields, compare_fields);
    int rc = 0;
    put_text(&c, "{");
    for (size_t i = 0; !rc && i < count; i++) {
        if (i > 0) put_text(&c, ",");
        ms_json_line(text, 1);
        rc = put_field(&c, &fields[i]);
    }
    ms_json_line(text, 0);
    put_text(&c, "}");
    ms_release(fields);
    if (!rc && text->failed) rc = MS_E_MEMORY;
    if (!rc && text->size - start > MS_JSON_SIZE_MAX) {
        rc = ms_fail(MS_E_LIMIT, "%s would be longer than 256 MiB", ms_rocketmq_file_names[file]);
    }
    return rc;
}
