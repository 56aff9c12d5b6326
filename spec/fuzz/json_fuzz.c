/* libFuzzer target: any bytes as the text of a RocketMQ file. What has to hold beside "no crash":
 *
 *  1. JSON to the letter is accepted by the pre-pass and jansson behind it, and means the same as to jansson alone, unless one of
 *     the stated limits (NUL bytes, 512 levels) is crossed.
 *  2. A refusal names a line and column that exist in the text.
 *  3. What is accepted as one of the four files is written by export, and loads to the same rows again. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../core/base/error.h"
#include "../../core/base/mem.h"
#include "../../plugins/standalone/rocketmq/export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "does not hold: %s (%s)\n", what, ms_error_message());
    abort();
}

static size_t depth_of(const uint8_t *data, size_t size)
{
    size_t depth = 0, deepest = 0;
    for (size_t i = 0; i < size; i++) {
        if (data[i] == '{' || data[i] == '[') depth++;
        if (depth > deepest) deepest = depth;
    }
    return deepest; /* an upper bound is enough */
}

static void check_place(struct ms_bytes text)
{
    unsigned long line = 0, column = 0, lines = 1, last = 0;
    check(sscanf(ms_error_message(), "fuzz: line %lu, column %lu: ", &line, &column) == 2, "a refusal has a place");
    const char *at = text.data;
    for (size_t i = 0; i < text.size && lines < line; i++) {
        if (at[i] == '\n') {
            lines++;
            last = i + 1;
        }
    }
    check(lines == line && column >= 1 && last + column <= text.size + 1, "the place of a refusal is in the text");
}

/* jansson's own view of the original text. */
static void check_against_jansson(const struct ms_json *json, int rc, struct ms_bytes text)
{
    json_t *plain = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (!plain) return;
    bool within = !memchr(text.data, 0, text.size) && depth_of(text.data, text.size) <= MS_JSON_DEPTH_MAX;
    if (json_is_object(plain) && within) check(rc == 0, "JSON is accepted");
    if (rc == 0) {
        json_t *clean = json_loadb((const char *)ms_json_root(json).data, json->clean.size, JSON_ALLOW_NUL, NULL);
        check(clean && json_equal(plain, clean), "the clean text means the same");
        json_decref(clean);
    }
    json_decref(plain);
}

static void check_equal(struct ms_rows *a, struct ms_rows *b)
{
    ms_rows_sort(a);
    ms_rows_sort(b);
    check(a->count == b->count, "as many rows come back");
    for (size_t i = 0; i < a->count; i++) {
        check(a->list[i].table == b->list[i].table, "tables come back");
        check(ms_bytes_equal(ms_row_key(a, &a->list[i]), ms_row_key(b, &b->list[i])), "keys come back");
        check(ms_bytes_equal(ms_row_value(a, &a->list[i]), ms_row_value(b, &b->list[i])), "values come back");
    }
}

static void check_file(int file, struct ms_bytes text)
{
    struct ms_rows rows = {0}, again = {0};
    struct ms_rocketmq_version version;
    struct ms_buf written = {0};
    int rc = ms_rocketmq_parse(file, "fuzz", text, &rows, &version);
    if (rc) {
        check(rows.count == 0, "a refused file leaves no rows");
        check_place(text);
    } else {
        ms_rows_sort(&rows);
        rc = ms_rocketmq_compose(&rows, file, &written);
        check(rc == 0, "what was loaded can be written");
        check(ms_rocketmq_parse(file, "fuzz", ms_buf_bytes(&written), &again, &version) == 0, "what was written can be loaded");
        check_equal(&rows, &again);
    }
    ms_buf_close(&written);
    ms_rows_close(&again);
    ms_rows_close(&rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ms_json json;
    struct ms_bytes text = ms_bytes(data ? (const void *)data : "", size);
    int rc = ms_json_open(&json, "fuzz", text, 0);
    if (rc) check_place(text);
    check_against_jansson(&json, rc, text);
    ms_json_close(&json);
    for (int file = 0; !rc && file < MS_ROCKETMQ_FILES; file++) check_file(file, text);
    check(ms_mem_live() == 0, "all memory is given back");
    return 0;
}
