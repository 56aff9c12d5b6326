#include "dump.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "../base/error.h"
#include "../state/lineage.h"

/* ---- bytes as JSON ----------------------------------------------------------------------------------------------------- */

void ms_json_format(struct ms_buf *out, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length > 0) ms_buf_add(out, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

/* Length of the UTF-8 sequence at `at`, 0 if there is none: no overlong forms, no surrogates, nothing above U+10FFFF, no NUL. */
static size_t utf8_length(const uint8_t *at, size_t left)
{
    uint8_t a = at[0];
    if (a > 0 && a < 0x80) return 1;
    size_t length = a >= 0xc2 && a <= 0xdf ? 2 : a >= 0xe0 && a <= 0xef ? 3 : a >= 0xf0 && a <= 0xf4 ? 4 : 0;
    if (length == 0 || left < length) return 0;
    uint8_t low = a == 0xe0 ? 0xa0 : a == 0xf0 ? 0x90 : 0x80, high = a == 0xed ? 0x9f : a == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < low || at[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    return length;
}

static bool is_text(struct ms_bytes bytes)
{
    const uint8_t *at = bytes.data;
    for (size_t i = 0, length; i < bytes.size; i += length) {
        length = utf8_length(at + i, bytes.size - i);
        if (length == 0) return false;
    }
    return true;
}

static void add_base64(struct ms_buf *out, struct ms_bytes bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *at = bytes.data;
    ms_json_format(out, "{\"base64\":\"");
    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t v = (uint32_t)at[i] << 16 | (left > 1 ? (uint32_t)at[i + 1] << 8 : 0) | (left > 2 ? at[i + 2] : 0);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], left > 1 ? digits[v >> 6 & 63] : '=', left > 2 ? digits[v & 63] : '='};
        ms_buf_add(out, four, sizeof four);
    }
    ms_json_format(out, "\"}");
}

void ms_json_text(struct ms_buf *out, struct ms_bytes text)
{
    if (!is_text(text)) {
        add_base64(out, text);
        return;
    }
    const uint8_t *at = text.data;
    ms_buf_add8(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        if (at[i] == '"' || at[i] == '\\') ms_json_format(out, "\\%c", at[i]);
        else if (at[i] < 0x20) ms_json_format(out, "\\u%04x", at[i]);
        else ms_buf_add8(out, at[i]);
    }
    ms_buf_add8(out, '"');
}

static bool parts_are_text(struct ms_bytes key)
{
    const uint8_t *at = key.data;
    for (size_t i = 0, length; i < key.size; i += length) {
        length = at[i] == 0 ? 1 : utf8_length(at + i, key.size - i);
        if (length == 0) return false;
    }
    return true;
}

void ms_json_key(struct ms_buf *out, struct ms_bytes key)
{
    if (is_text(key) || !parts_are_text(key)) {
        ms_json_text(out, key);
        return;
    }
    const char *at = key.data, *end = at + key.size;
    ms_buf_add8(out, '[');
    for (;;) {
        const char *stop = memchr(at, 0, (size_t)(end - at));
        ms_json_text(out, ms_bytes(at, (size_t)((stop ? stop : end) - at)));
        if (!stop) break;
        ms_buf_add8(out, ',');
        at = stop + 1;
    }
    ms_buf_add8(out, ']');
}

void ms_json_value(struct ms_buf *out, struct ms_bytes value, uint8_t type)
{
    int64_t number;
    if (!value.data) ms_json_format(out, "null");
    else if (type == MS_TYPE_INT64 && ms_int64_get(value, &number) == 0) ms_json_format(out, "%" PRId64, number);
    else ms_json_text(out, value);
}

/* ---- records ------------------------------------------------------------------------------------------------------------ */

void ms_dump_init(struct ms_dump *dump, uint64_t from, int (*fn)(void *context, const char *line), void *context)
{
    memset(dump, 0, sizeof *dump);
    dump->from = from;
    dump->fn = fn;
    dump->context = context;
}

void ms_dump_close(struct ms_dump *dump)
{
    ms_buf_close(&dump->line);
}

void ms_dump_table(struct ms_dump *dump, uint32_t id, uint8_t type, struct ms_bytes name)
{
    if (id > 255 || name.size > MS_TABLE_NAME_MAX) return;
    memcpy(dump->names[id], name.data, name.size);
    dump->names[id][name.size] = '\0';
    dump->types[id] = type;
}

static void add_table(struct ms_dump *dump, uint32_t id)
{
    ms_json_format(&dump->line, "\"table\":");
    if (id <= 255 && dump->names[id][0]) ms_json_text(&dump->line, ms_str(dump->names[id]));
    else ms_json_format(&dump->line, "%u", id);
}

static void add_change(struct ms_dump *dump, const struct ms_record *record)
{
    const char *op = record->type == MS_RECORD_PUT ? "put" : record->type == MS_RECORD_DELETE ? "delete" : "leave";
    ms_json_format(&dump->line, "\"op\":\"%s\",", op);
    add_table(dump, record->table);
    ms_json_format(&dump->line, ",\"key\":");
    ms_json_key(&dump->line, record->key);
    if (record->type != MS_RECORD_PUT) return;
    ms_json_format(&dump->line, ",\"value\":");
    ms_json_value(&dump->line, record->value, record->table <= 255 ? dump->types[record->table] : 0);
}

static int add_mark(struct ms_dump *dump, struct ms_bytes list)
{
    struct ms_reader reader;
    struct ms_mark mark;
    uint64_t count;
    int rc = ms_mark_begin(list, &reader, &count), more = 0;
    ms_json_format(&dump->line, "\"op\":\"mark\",\"tables\":[");
    for (const char *comma = ""; rc == 0 && (more = ms_mark_next(&reader, &mark)) == 1; comma = ",") {
        ms_json_format(&dump->line, "%s{", comma);
        add_table(dump, mark.table);
        ms_json_format(&dump->line, ",\"count\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "\"}", mark.count, mark.digest);
    }
    ms_json_format(&dump->line, "]");
    return rc ? rc : more;
}

static int add_lineage(struct ms_dump *dump, struct ms_bytes list)
{
    struct ms_lineage lineage;
    ms_lineage_init(&lineage);
    int rc = ms_lineage_decode(list, &lineage);
    ms_json_format(&dump->line, "\"op\":\"lineage\",\"epochs\":[");
    for (uint32_t i = 0; rc == 0 && i < lineage.count; i++) {
        const struct ms_lineage_entry *entry = &lineage.entries[i];
        ms_json_format(&dump->line, "%s{\"reign\":%" PRIu64 ",\"run\":%" PRIu64 ",\"id\":\"%016" PRIx64 "\",\"first\":%" PRIu64 "}",
                       i ? "," : "", entry->epoch.reign, entry->epoch.run, entry->epoch.id, entry->first);
    }
    ms_json_format(&dump->line, "]");
    ms_lineage_close(&lineage);
    return rc;
}

static int add_record(struct ms_dump *dump, const struct ms_record *record)
{
    struct ms_buf *line = &dump->line;
    switch (record->type) {
    case MS_RECORD_PUT:
    case MS_RECORD_DELETE:
    case MS_RECORD_LEAVE: add_change(dump, record); return 0;
    case MS_RECORD_TABLE:
        ms_dump_table(dump, record->table, record->value_type, record->key);
        ms_json_format(line, "\"op\":\"table\",\"id\":%u,\"type\":\"%s\",", record->table,
                       record->value_type == MS_TYPE_INT64 ? "int64" : "bytes");
        add_table(dump, record->table);
        return 0;
    case MS_RECORD_EPOCH:
        ms_json_format(line, "\"op\":\"epoch\",\"reign\":%" PRIu64 ",\"run\":%" PRIu64 ",\"id\":\"%016" PRIx64 "\"", record->reign,
                       record->run, record->id);
        return 0;
    case MS_RECORD_MARK: return add_mark(dump, record->list);
    case MS_RECORD_LINEAGE: return add_lineage(dump, record->list);
    case MS_RECORD_BEGIN:
        ms_json_format(line, "\"op\":\"begin\",\"start\":%" PRIu64 ",\"id\":\"%016" PRIx64 "\",\"cluster\":", record->lsn, record->id);
        ms_json_text(line, record->key);
        return 0;
    case MS_RECORD_END:
        ms_json_format(line, "\"op\":\"end\",\"end\":%" PRIu64 ",\"entries\":%" PRIu64, record->lsn, record->entries);
        return 0;
    default:
        ms_json_format(line, "\"op\":\"unknown\",\"type\":%u,\"size\":%zu", record->type, record->list.size);
        return 0;
    }
}

int ms_dump_group(struct ms_dump *dump, struct ms_bytes group, const struct ms_group_header *header)
{
    struct ms_record_reader reader = ms_record_reader(group, header);
    struct ms_record record;
    bool entries = header->flags & MS_GROUP_ENTRIES, meta = header->flags & MS_GROUP_META;
    int rc;
    for (uint64_t at = header->first; (rc = ms_record_next(&reader, &record)) == 1; at++) {
        ms_buf_clear(&dump->line);
        ms_buf_add8(&dump->line, '{');
        if (!meta) ms_json_format(&dump->line, "\"%s\":%" PRIu64 ",", entries ? "entry" : "lsn", at);
        if (!meta && !entries) ms_json_format(&dump->line, "\"time_us\":%" PRIu64 ",", header->time_us);
        rc = add_record(dump, &record);
        ms_buf_add(&dump->line, "}", 2);
        if (!rc && dump->line.failed) rc = MS_E_MEMORY;
        bool wanted = meta || entries || at >= dump->from;
        if (!rc && wanted) rc = dump->fn(dump->context, (const char *)dump->line.data);
        if (rc) return rc;
    }
    return rc;
}
