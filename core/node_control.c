/* The commands of the control socket (drive/control.h): one JSON object in, one out.
 *
 *      {"command":"put","table":"topic","key":"orders","value":"{\"perm\":6}"}     {"ok":true,"lsn":17,"at_us":1700000000000000}
 *
 * Keys and values as in sync/render.h: strings for UTF-8, {"base64":"..."} for other bytes, integers for int64 tables. A key of parts
 * that are joined by NUL may also be given as an array of strings. at_us is the real-time clock when the change was asked for. */
#include "node.h"

#include <jansson.h>
#include <stdlib.h>

#include "sync/render.h"

enum { LIST_LIMIT = 1000, TIMEOUT_MS = 30000 };

/* ---- JSON to bytes --------------------------------------------------------------------------------------------------------------- */

/* Appends the bytes that a JSON value stands for. */
static int add_bytes(struct ms_buf *out, const json_t *value, const char *what)
{
    int rc = ms_render_read_bytes(value, out);
    return rc == MS_E_INVALID ? ms_fail(MS_E_INVALID, "the %s is neither a string nor {\"base64\":\"...\"}", what) : rc;
}

static int add_key(struct ms_buf *out, const json_t *key)
{
    if (!key) return ms_fail(MS_E_INVALID, "no key is given");
    if (!json_is_array(key)) return add_bytes(out, key, "key");
    int rc = 0;
    for (size_t i = 0; !rc && i < json_array_size(key); i++) {
        if (i > 0) ms_buf_add8(out, 0);
        rc = add_bytes(out, json_array_get(key, i), "part of the key");
    }
    return rc;
}

static int add_value(struct ms_buf *out, const json_t *value, int type)
{
    uint8_t number[8];
    if (type != MS_TYPE_INT64) return add_bytes(out, value, "value");
    if (!json_is_integer(value)) return ms_fail(MS_E_TYPE, "the table holds int64 values, this is no integer");
    (void)ms_int64_put(json_integer_value(value), number);
    ms_buf_add(out, number, sizeof number);
    return 0;
}

/* ---- parameters -------------------------------------------------------------------------------------------------------------------- */

static int get_text(const json_t *request, const char *name, const char **text)
{
    *text = json_string_value(json_object_get(request, name));
    return *text ? 0 : ms_fail(MS_E_INVALID, "\"%s\" is missing or no string", name);
}

static int64_t get_number(const json_t *request, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(request, name);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static int get_timeout(const json_t *request)
{
    int64_t ms = get_number(request, "timeout_ms", TIMEOUT_MS);
    return ms < 0 ? -1 : ms > INT32_MAX ? INT32_MAX : (int)ms;
}

static int find_table(struct ms_node *node, const json_t *request, struct ms_table **table)
{
    const char *name;
    int rc = get_text(request, "table", &name);
    if (rc) return rc;
    ms_node_lock(node);
    struct ms_table_state *state = ms_store_find(&node->store, ms_str(name));
    *table = state ? ms_node_table(node, state) : NULL;
    ms_node_unlock(node);
    if (*table) return 0;
    return state ? MS_E_MEMORY : ms_fail(MS_E_NOT_FOUND, "there is no table %s", name);
}

/* The table of a write: a new one gets the type that is named, or that the value has. */
static int open_table(struct ms_node *node, const json_t *write, struct ms_table **table)
{
    const char *name, *type = json_string_value(json_object_get(write, "type"));
    int rc = find_table(node, write, table);
    if (rc != MS_E_NOT_FOUND) return rc;
    (void)get_text(write, "table", &name);
    bool number = type ? strcmp(type, "int64") == 0 : json_is_integer(json_object_get(write, "value"));
    return ms_table_open(node, name, number ? MS_TYPE_INT64 : MS_TYPE_BYTES, table);
}

static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value); /* a lack of memory shows when the reply is made */
}

/* ---- entries ------------------------------------------------------------------------------------------------------------------------- */

static json_t *render_entry(const struct ms_table *table, struct ms_bytes key, struct ms_bytes value)
{
    return json_pack("{s:o,s:o}", "key", ms_render_bytes(key), "value", ms_render_value(table->state->type, value));
}

struct listing {
    const struct ms_table *table;
    struct ms_bytes prefix;
    json_t *entries;
    size_t limit;
    bool truncated;
};

static int list_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct listing *listing = context;
    if (key.size < listing->prefix.size || memcmp(key.data, listing->prefix.data, listing->prefix.size) != 0) return 0;
    if (json_array_size(listing->entries) >= listing->limit) {
        listing->truncated = true;
        return 1;
    }
    return json_array_append_new(listing->entries, render_entry(listing->table, key, value)) ? MS_E_MEMORY : 0;
}

static int list_table(void *context, struct ms_table *table)
{
    json_t *tables = context;
    json_t *object = json_pack("{s:s,s:s,s:I}", "name", ms_table_name(table), "type", ms_table_type(table) == MS_TYPE_INT64 ? "int64" : "bytes",
                               "entries", (json_int_t)ms_table_count(table));
    return json_array_append_new(tables, object) ? MS_E_MEMORY : 0;
}

/* {"table":..., "prefix":..., "limit":1000}: entries of a table; without table: all tables. */
static int run_ls(struct ms_node *node, const json_t *request, json_t *reply)
{
    json_t *list = json_array();
    if (!json_object_get(request, "table")) {
        set(reply, "tables", list);
        return ms_table_each(node, list_table, list);
    }
    struct ms_table *table;
    struct ms_buf prefix;
    const json_t *given = json_object_get(request, "prefix");
    int64_t limit = get_number(request, "limit", LIST_LIMIT);
    ms_buf_init(&prefix);
    set(reply, "entries", list);
    int rc = find_table(node, request, &table);
    if (!rc && given) rc = add_key(&prefix, given);
    if (!rc) {
        struct listing listing = {table, ms_buf_bytes(&prefix), list, limit > 0 ? (size_t)limit : 0, false};
        rc = ms_walk(table, list_entry, &listing);
        if (rc > 0) rc = 0;
        set(reply, "truncated", json_boolean(listing.truncated));
    }
    ms_buf_close(&prefix);
    return rc;
}

static int read_entry(struct ms_table *table, struct ms_bytes key, json_t *reply)
{
    struct ms_buf value;
    size_t size = 0;
    ms_buf_init(&value);
    int rc = ms_get(table, key, NULL, 0, &size);
    while (rc == MS_E_LIMIT) { /* it may have grown since */
        ms_buf_clear(&value);
        uint8_t *room = ms_buf_extend(&value, size);
        rc = room ? ms_get(table, key, room, value.size, &size) : MS_E_MEMORY;
    }
    value.size = size;
    if (!rc) set(reply, "value", ms_render_value(table->state->type, ms_buf_bytes(&value)));
    ms_buf_close(&value);
    return rc;
}

static int run_get(struct ms_node *node, const json_t *request, json_t *reply)
{
    struct ms_table *table;
    struct ms_buf key;
    ms_buf_init(&key);
    int rc = find_table(node, request, &table);
    if (!rc) rc = add_key(&key, json_object_get(request, "key"));
    if (!rc) rc = key.failed ? MS_E_MEMORY : read_entry(table, ms_buf_bytes(&key), reply);
    ms_buf_close(&key);
    return rc;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------------------- */

static int report_write(int rc, uint64_t lsn, uint64_t at_us, json_t *reply)
{
    if (rc < 0) return rc;
    set(reply, "lsn", json_integer((json_int_t)lsn));
    set(reply, "at_us", json_integer((json_int_t)at_us));
    if (rc == MS_LOCAL) set(reply, "local", json_true());
    return 0;
}

static int write_flags(const json_t *request)
{
    return json_is_true(json_object_get(request, "nowait")) ? MS_NOWAIT : 0;
}

/* Key and value of one write into buf, the key first. */
static int encode_write(struct ms_node *node, const json_t *write, bool deletes, struct ms_buf *buf, struct ms_table **table, size_t *key_size)
{
    size_t before = buf->size;
    int rc = deletes ? find_table(node, write, table) : open_table(node, write, table);
    if (!rc) rc = add_key(buf, json_object_get(write, "key"));
    *key_size = buf->size - before;
    if (!rc && !deletes) rc = add_value(buf, json_object_get(write, "value"), ms_table_type(*table));
    return rc ? rc : buf->failed ? MS_E_MEMORY : 0;
}

static int run_write(struct ms_node *node, const json_t *request, bool deletes, json_t *reply)
{
    struct ms_table *table;
    struct ms_buf buf;
    size_t key_size = 0;
    uint64_t lsn = 0, at_us = ms_clock_real();
    ms_buf_init(&buf);
    int rc = encode_write(node, request, deletes, &buf, &table, &key_size);
    if (!rc) {
        struct ms_bytes all = ms_buf_bytes(&buf), key = ms_bytes(all.data, key_size);
        struct ms_bytes value = ms_bytes((const uint8_t *)all.data + key_size, all.size - key_size);
        rc = deletes ? ms_delete(table, key, write_flags(request), &lsn) : ms_put(table, key, value, write_flags(request), &lsn);
        rc = report_write(rc, lsn, at_us, reply);
    }
    ms_buf_close(&buf);
    return rc;
}

static int run_put(struct ms_node *node, const json_t *request, json_t *reply)
{
    return run_write(node, request, false, reply);
}

static int run_delete(struct ms_node *node, const json_t *request, json_t *reply)
{
    return run_write(node, request, true, reply);
}

struct place { /* of a write in the buffer, which moves while it grows */
    size_t key, key_size, end;
    bool deletes;
};

static int encode_batch(struct ms_node *node, const json_t *list, struct ms_buf *buf, struct ms_write *writes, struct place *places)
{
    size_t count = json_array_size(list);
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        const json_t *write = json_array_get(list, i);
        places[i].key = buf->size;
        places[i].deletes = !json_object_get(write, "value") || json_is_null(json_object_get(write, "value"));
        rc = encode_write(node, write, places[i].deletes, buf, &writes[i].table, &places[i].key_size);
        places[i].end = buf->size;
    }
    for (size_t i = 0; !rc && i < count; i++) {
        size_t value = places[i].key + places[i].key_size;
        writes[i].key = ms_bytes(buf->data + places[i].key, places[i].key_size);
        writes[i].value = places[i].deletes ? ms_bytes(NULL, 0) : ms_bytes(buf->data + value, places[i].end - value);
    }
    return rc;
}

/* {"writes":[{"table":...,"key":...,"value":...}, ...]}: all or none; no value, or null, deletes. */
static int run_batch(struct ms_node *node, const json_t *request, json_t *reply)
{
    const json_t *list = json_object_get(request, "writes");
    size_t count = json_array_size(list);
    if (!json_is_array(list)) return ms_fail(MS_E_INVALID, "\"writes\" is missing or no array");
    struct ms_write *writes = ms_alloc_zero(count * sizeof *writes);
    struct place *places = ms_alloc_zero(count * sizeof *places);
    struct ms_buf buf;
    uint64_t lsn = 0, at_us = ms_clock_real();
    ms_buf_init(&buf);
    int rc = writes && places ? encode_batch(node, list, &buf, writes, places) : MS_E_MEMORY;
    if (!rc) {
        rc = ms_put_batch(node, writes, count, write_flags(request), &lsn);
        rc = report_write(rc, lsn, at_us, reply);
    }
    ms_buf_close(&buf);
    ms_release(writes);
    ms_release(places);
    return rc;
}

static int run_flush(struct ms_node *node, const json_t *request, json_t *reply)
{
    struct ms_table *table = NULL;
    uint64_t lsn = 0, at_us = ms_clock_real();
    int rc = json_object_get(request, "table") ? find_table(node, request, &table) : 0;
    if (rc) return rc;
    rc = ms_flush(node, table, &lsn);
    return report_write(rc, lsn, at_us, reply);
}

/* ---- roles, positions --------------------------------------------------------------------------------------------------------------------- */

static int run_lead(struct ms_node *node, const json_t *request, json_t *reply)
{
    const char *peers[MS_ASKS_MAX];
    const json_t *list = json_object_get(request, "peers");
    size_t count = json_array_size(list);
    (void)reply;
    if (count > MS_ASKS_MAX) return ms_fail(MS_E_LIMIT, "%zu peers, the limit is %d", count, MS_ASKS_MAX);
    for (size_t i = 0; i < count; i++) {
        peers[i] = json_string_value(json_array_get(list, i));
        if (!peers[i]) return ms_fail(MS_E_INVALID, "peer %zu is no string", i);
    }
    return ms_lead(node, peers, count, get_timeout(request));
}

static int run_follow(struct ms_node *node, const json_t *request, json_t *reply)
{
    const char *address;
    (void)reply;
    int rc = get_text(request, "address", &address);
    return rc ? rc : ms_follow(node, address);
}

static int run_promote(struct ms_node *node, const json_t *request, json_t *reply)
{
    (void)reply;
    return ms_promote(node, json_is_true(json_object_get(request, "force")) ? MS_PROMOTE_FORCE : 0, get_timeout(request));
}

static int run_adopt(struct ms_node *node, const json_t *request, json_t *reply)
{
    (void)request;
    (void)reply;
    return ms_adopt(node);
}

static int run_snapshot(struct ms_node *node, const json_t *request, json_t *reply)
{
    (void)reply;
    return ms_snapshot(node, get_timeout(request));
}

static int run_wait(struct ms_node *node, const json_t *request, json_t *reply)
{
    const char *level = json_string_value(json_object_get(request, "level"));
    (void)reply;
    return ms_wait(node, (uint64_t)get_number(request, "lsn", 0), level ? ms_level_parse(level) : MS_LEVEL_DISK, get_timeout(request));
}

static int run_applied(struct ms_node *node, const json_t *request, json_t *reply)
{
    uint64_t time_us = 0;
    int rc = ms_applied_at(node, (uint64_t)get_number(request, "lsn", 0), &time_us);
    if (!rc) set(reply, "time_us", json_integer((json_int_t)time_us));
    return rc;
}

static int run_position(struct ms_node *node, const json_t *request, json_t *reply)
{
    struct ms_position p;
    (void)request;
    int rc = ms_position(node, &p);
    json_t *fields = json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:b}", "role", ms_role_name(p.role), "reign", (json_int_t)p.reign, "run",
                               (json_int_t)p.run, "head", (json_int_t)p.head, "written", (json_int_t)p.written, "synced", (json_int_t)p.synced,
                               "replicated", (json_int_t)p.replicated, "applied", (json_int_t)p.applied, "host_applied",
                               (json_int_t)p.host_applied, "leader_head", (json_int_t)p.leader_head, "enabled", p.enabled);
    if (!fields || json_object_update(reply, fields)) rc = MS_E_MEMORY;
    json_decref(fields);
    return rc;
}

/* Takes a text of the library: its fields become the reply's. */
static int merge_text(char *text, json_t *reply)
{
    json_t *fields = text ? json_loads(text, 0, NULL) : NULL;
    int rc = fields && json_object_update(reply, fields) == 0 ? 0 : ms_fail(MS_E_MEMORY, "out of memory for the reply");
    json_decref(fields);
    ms_free(text);
    return rc;
}

static int run_status(struct ms_node *node, const json_t *request, json_t *reply)
{
    char *text = NULL;
    (void)request;
    int rc = ms_status(node, &text);
    return rc ? rc : merge_text(text, reply);
}

/* ---- the policy: reports as in node_policy_report.c, whose text is merged into the reply ------------------------------------------------------ */

static int run_policy_show(struct ms_node *node, const json_t *request, json_t *reply)
{
    char *text = NULL;
    (void)request;
    int rc = ms_policy_show(node, &text);
    return rc ? rc : merge_text(text, reply);
}

/* The node reads the file: "path" is as it sees it. */
static int run_policy_reload(struct ms_node *node, const json_t *request, json_t *reply)
{
    char *text = NULL;
    const char *path = json_string_value(json_object_get(request, "path"));
    int rc = ms_policy_reload(node, path, json_is_true(json_object_get(request, "force")) ? MS_POLICY_FORCE : 0, &text);
    if (!rc) return merge_text(text, reply);
    ms_free(text);
    return rc;
}

static int run_policy_rollback(struct ms_node *node, const json_t *request, json_t *reply)
{
    char *text = NULL;
    (void)request;
    int rc = ms_policy_rollback(node, &text);
    return rc ? rc : merge_text(text, reply);
}

/* ---- dispatch -------------------------------------------------------------------------------------------------------------------------------- */

static const struct command {
    const char *name;
    int (*run)(struct ms_node *node, const json_t *request, json_t *reply);
} commands[] = {
    {"status", run_status}, {"position", run_position}, {"ls", run_ls}, {"get", run_get}, {"put", run_put}, {"delete", run_delete},
    {"put-batch", run_batch}, {"flush", run_flush}, {"snapshot", run_snapshot}, {"lead", run_lead}, {"follow", run_follow},
    {"promote", run_promote}, {"adopt", run_adopt}, {"wait", run_wait}, {"applied", run_applied},
    {"policy_show", run_policy_show}, {"policy_reload", run_policy_reload}, {"policy_rollback", run_policy_rollback},
};

void ms_control_extend(struct ms_node *node, ms_control_fn fn, void *context)
{
    ms_node_lock(node);
    node->extend = fn;
    node->extend_context = context;
    ms_node_unlock(node);
}

static int run_extension(struct ms_node *node, const char *name, const char *request, char **reply)
{
    ms_node_lock(node);
    ms_control_fn fn = node->extend;
    void *context = node->extend_context;
    ms_node_unlock(node);
    return fn ? fn(context, request, reply) : ms_fail(MS_E_INVALID, "there is no command \"%s\"", name);
}

static int run_command(const struct command *command, struct ms_node *node, const json_t *request, char **reply)
{
    json_t *object = json_pack("{s:b}", "ok", 1);
    int rc = object ? command->run(node, request, object) : MS_E_MEMORY;
    if (!rc) *reply = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return rc || *reply ? rc : ms_fail(MS_E_MEMORY, "out of memory for the reply");
}

int ms_node_control(void *context, const char *text, char **reply)
{
    struct ms_node *node = context;
    json_error_t error;
    const char *name;
    *reply = NULL;
    json_t *request = json_loads(text, JSON_ALLOW_NUL, &error);
    if (!request) return ms_fail(MS_E_FORMAT, "the request is no JSON object: %s at byte %d", error.text, error.position);
    int rc = get_text(request, "command", &name);
    const struct command *found = NULL;
    for (size_t i = 0; !rc && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, name) == 0) found = &commands[i];
    if (!rc) rc = found ? run_command(found, node, request, reply) : run_extension(node, name, text, reply);
    json_decref(request);
    return rc;
}
