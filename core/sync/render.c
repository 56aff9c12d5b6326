#include "render.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "../base/error.h"
#include "../base/mem.h"

static json_t *base64(struct ms_bytes bytes)
{
    struct ms_buf text;
    ms_buf_init(&text);
    uint8_t *room = ms_buf_extend(&text, (bytes.size + 2) / 3 * 4 + 1);
    json_t *result = NULL;
    if (room) {
        int size = EVP_EncodeBlock(room, bytes.data, (int)bytes.size);
        result = json_pack("{s:s%}", "base64", (const char *)room, (size_t)size);
    }
    ms_buf_close(&text);
    return result;
}

json_t *ms_render_bytes(struct ms_bytes bytes)
{
    if (!bytes.data) return json_null();
    json_t *text = json_stringn(bytes.data, bytes.size); /* NULL also when it is not UTF-8 */
    return text ? text : base64(bytes);
}

static int read_base64(struct ms_buf *out, const char *text, size_t size)
{
    size_t padding = size >= 2 ? (size_t)(text[size - 1] == '=') + (size_t)(text[size - 2] == '=') : 0;
    size_t before = out->size;
    if (size == 0) return 0;
    uint8_t *room = size % 4 == 0 ? ms_buf_extend(out, size / 4 * 3) : NULL;
    if (!room && out->failed) return MS_E_MEMORY;
    if (!room || EVP_DecodeBlock(room, (const uint8_t *)text, (int)size) < 0) {
        out->size = before;
        return ms_fail(MS_E_FORMAT, "the base64 text of %zu characters is none", size);
    }
    out->size -= padding; /* it decodes padding as zeros */
    return 0;
}

int ms_render_read_bytes(const json_t *json, struct ms_buf *out)
{
    const json_t *base64_text = json_object_get(json, "base64");
    if (json_is_string(base64_text)) return read_base64(out, json_string_value(base64_text), json_string_length(base64_text));
    if (!json_is_string(json)) return ms_fail(MS_E_INVALID, "neither a string nor {\"base64\":\"...\"}");
    ms_buf_add(out, json_string_value(json), json_string_length(json));
    return out->failed ? MS_E_MEMORY : 0;
}

json_t *ms_render_value(uint8_t type, struct ms_bytes value)
{
    if (type == MS_TYPE_INT64 && value.data && value.size == 8) return json_integer((json_int_t)ms_load64(value.data));
    return ms_render_bytes(value);
}

void ms_render_set_key(json_t *object, struct ms_bytes key)
{
    const uint8_t *text = key.data, *nul = key.size ? memchr(text, 0, key.size) : NULL;
    size_t size = nul ? (size_t)(nul - text) : key.size;
    (void)json_object_set_new(object, "key", ms_render_bytes(ms_bytes(text, size)));
    if (nul) (void)json_object_set_new(object, "field", ms_render_bytes(ms_bytes(nul + 1, key.size - size - 1)));
}

int ms_render_line(struct ms_buf *text, json_t *object)
{
    char *line = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!line) return ms_fail(MS_E_MEMORY, "out of memory for a line of JSON");
    ms_buf_add(text, line, strlen(line));
    ms_buf_add8(text, '\n');
    ms_free(line);
    return text->failed ? MS_E_MEMORY : 0;
}

int ms_render_loss(struct ms_buf *text, const char *table, uint8_t type, struct ms_bytes key, struct ms_bytes current, struct ms_bytes logged)
{
    return ms_render_line(text, json_pack("{s:s,s:s,s:o,s:o,s:o}", "lost", "buffered", "table", table, "key", ms_render_bytes(key), "value",
                                          ms_render_value(type, current), "logged", ms_render_value(type, logged)));
}

void ms_render_names_of(const struct ms_store *store, struct ms_render_names *names)
{
    memset(names, 0, sizeof *names);
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        if (!store->tables[id]) continue;
        memcpy(names->name[id], store->tables[id]->name, sizeof names->name[id]);
        names->type[id] = store->tables[id]->type;
    }
}

static json_t *hex(uint64_t number)
{
    char text[20];
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)number);
    return json_string(text);
}

static void learn(const struct ms_record *record, struct ms_render_names *names)
{
    size_t size = record->key.size < MS_TABLE_NAME_MAX ? record->key.size : MS_TABLE_NAME_MAX;
    memset(names->name[record->table], 0, sizeof names->name[0]);
    memcpy(names->name[record->table], record->key.data, size);
    names->type[record->table] = record->value_type;
}

static json_t *render_mark(struct ms_bytes list, const struct ms_render_names *names)
{
    json_t *tables = json_object();
    struct ms_reader reader;
    struct ms_mark mark;
    uint64_t count;
    if (ms_mark_begin(list, &reader, &count)) return tables;
    while (ms_mark_next(&reader, &mark) > 0) {
        char id[16];
        (void)snprintf(id, sizeof id, "%u", mark.table);
        const char *name = names->name[mark.table][0] ? names->name[mark.table] : id;
        json_object_set_new(tables, name, json_pack("{s:I,s:o}", "count", (json_int_t)mark.count, "digest", hex(mark.digest)));
    }
    return tables;
}

static json_t *render_lineage(struct ms_bytes list)
{
    json_t *epochs = json_array();
    struct ms_lineage lineage;
    ms_lineage_init(&lineage);
    if (ms_lineage_decode(list, &lineage) == 0)
        for (uint32_t i = 0; i < lineage.count; i++) {
            const struct ms_lineage_entry *entry = &lineage.entries[i];
            json_array_append_new(epochs, json_pack("{s:I,s:I,s:o,s:I}", "reign", (json_int_t)entry->epoch.reign, "run",
                                                    (json_int_t)entry->epoch.run, "id", hex(entry->epoch.id), "first", (json_int_t)entry->first));
        }
    ms_lineage_close(&lineage);
    return epochs;
}

static json_t *render_change(const struct ms_record *record, const struct ms_render_names *names)
{
    static const char *const ops[] = {"", "put", "delete", "leave"};
    char id[16];
    (void)snprintf(id, sizeof id, "%u", record->table);
    const char *name = names->name[record->table][0] ? names->name[record->table] : id;
    json_t *object = json_pack("{s:s,s:s,s:o}", "op", ops[record->type], "table", name, "key", ms_render_bytes(record->key));
    if (object && record->type == MS_RECORD_PUT)
        json_object_set_new(object, "value", ms_render_value(names->type[record->table], record->value));
    return object;
}

static json_t *render_payload(const struct ms_record *record, struct ms_render_names *names)
{
    switch (record->type) {
    case MS_RECORD_PUT:
    case MS_RECORD_DELETE:
    case MS_RECORD_LEAVE: return render_change(record, names);
    case MS_RECORD_TABLE:
        learn(record, names);
        return json_pack("{s:s,s:i,s:s,s:s}", "op", "table", "id", (int)record->table, "name", names->name[record->table], "type",
                         record->value_type == MS_TYPE_INT64 ? "int64" : "bytes");
    case MS_RECORD_EPOCH:
        return json_pack("{s:s,s:I,s:I,s:o}", "op", "epoch", "reign", (json_int_t)record->reign, "run", (json_int_t)record->run, "id",
                         hex(record->id));
    case MS_RECORD_MARK: return json_pack("{s:s,s:o}", "op", "mark", "tables", render_mark(record->list, names));
    case MS_RECORD_BEGIN:
        return json_pack("{s:s,s:I,s:o,s:o}", "op", "snapshot_begin", "start", (json_int_t)record->lsn, "id", hex(record->id), "cluster",
                         ms_render_bytes(record->key));
    case MS_RECORD_LINEAGE: return json_pack("{s:s,s:o}", "op", "lineage", "epochs", render_lineage(record->list));
    case MS_RECORD_END:
        return json_pack("{s:s,s:I,s:I}", "op", "snapshot_end", "end", (json_int_t)record->lsn, "entries", (json_int_t)record->entries);
    default: return json_pack("{s:s,s:i,s:i}", "op", "unknown", "type", (int)record->type, "size", (int)record->list.size);
    }
}

int ms_render_record(struct ms_buf *text, const struct ms_record *record, uint64_t lsn, uint64_t time_us, struct ms_render_names *names)
{
    json_t *object = render_payload(record, names);
    if (object && lsn) json_object_set_new(object, "lsn", json_integer((json_int_t)lsn));
    if (object && time_us) json_object_set_new(object, "time_us", json_integer((json_int_t)time_us));
    return ms_render_line(text, object);
}
