/* What an import did, as JSON. */
#include <jansson.h>

#include "import.h"

/* A message may quote a damaged file, or be cut in the middle of a character. */
static void set_text(json_t *json, const char *name, const char *text)
{
    json_t *string = json_string(text);
    (void)json_object_set_new(json, name, string ? string : json_string("(not UTF-8)"));
}

static json_t *file_json(const struct ms_rocketmq_import_file *file, const char *name)
{
    json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:b}",
                             "file", name,
                             "source", ms_rocketmq_origin_names[file->origin],
                             "mtime", (json_int_t)file->mtime_ms,
                             "rows", (json_int_t)file->rows,
                             "put", (json_int_t)file->put,
                             "deleted", (json_int_t)file->deleted,
                             "unchanged", (json_int_t)file->unchanged,
                             "skipped", file->skipped);
    if (file->skipped) (void)json_object_set_new(json, "differing", json_integer((json_int_t)file->differing));
    if (file->reason[0]) set_text(json, "reason", file->reason);
    if (file->trouble[0]) set_text(json, "trouble", file->trouble);
    return json;
}

/* {"table":"offset","key":"topic@group","field":"3","change":"put"} */
static json_t *entry_json(const struct ms_rows *rows, const struct ms_row *row)
{
    struct ms_bytes key = ms_row_key(rows, row);
    const char *nul = key.size ? memchr(key.data, 0, key.size) : NULL;
    size_t size = nul ? (size_t)(nul - (const char *)key.data) : key.size;
    json_t *json = json_pack("{s:s, s:s}", "table", ms_rocketmq_table_names[row->table], "change",
                             row->state == MS_OP_DELETE ? "delete" : "put");
    json_t *front = json_stringn(key.data, size);
    (void)json_object_set_new(json, "key", front ? front : json_string("(not UTF-8)"));
    if (nul) (void)json_object_set_new(json, "field", json_stringn(nul + 1, key.size - size - 1));
    return json;
}

int ms_rocketmq_report_json(const struct ms_rocketmq_report *report, char **json)
{
    json_t *files = json_array(), *skipped = json_array();
    for (int i = 0; i < MS_ROCKETMQ_FILES; i++) {
        (void)json_array_append_new(files, file_json(&report->files[i], ms_rocketmq_file_names[i]));
    }
    for (size_t i = 0; i < report->skipped.count; i++) {
        (void)json_array_append_new(skipped, entry_json(&report->skipped, &report->skipped.list[i]));
    }
    json_t *whole = json_pack("{s:o, s:o}", "files", files, "skipped", skipped);
    *json = json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    return *json ? 0 : ms_fail(MS_E_MEMORY, "out of memory");
}

void ms_rocketmq_report_close(struct ms_rocketmq_report *report)
{
    ms_rows_close(&report->skipped);
}
