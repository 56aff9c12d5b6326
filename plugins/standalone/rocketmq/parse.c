#include "parse.h"

struct parse {
    const struct ms_json *json;
    int file;
    struct ms_rows *rows;
    struct ms_rocketmq_version *version;
    struct ms_buf key; /* of the row being made */
};

/* Appends one key of a path to p->key. */
static int take_key(struct parse *p, struct ms_bytes key, bool numbered)
{
    const char *quote = (const char *)key.data - 1;
    size_t from = p->key.size;
    int rc = ms_json_key(key, &p->key);
    if (rc) return rc;
    if (p->key.size == from) return ms_json_refuse(p->json, quote, "expected a key, found an empty string");
    if (numbered && !ms_json_int32(ms_bytes(p->key.data + from, p->key.size - from), NULL)) {
        return ms_json_refuse(p->json, quote, "expected an integer of 32 bits in its shortest form as the key");
    }
    return 0;
}

static int want_object(const struct parse *p, const char *field, struct ms_bytes value)
{
    return ms_json_kind(value) == '{' ? 0 : ms_json_refuse(p->json, value.data, "%s: expected an object", field);
}

static int take_leaf(struct parse *p, const struct ms_rocketmq_container *container, struct ms_bytes value)
{
    struct ms_bytes key = ms_buf_bytes(&p->key);
    int64_t number;
    uint8_t bytes[8];
    if (!container->integer) {
        int rc = want_object(p, container->field, value);
        return rc ? rc : ms_rows_add(p->rows, container->table, key, value);
    }
    if (!ms_json_integer(value, &number)) {
        return ms_json_refuse(p->json, value.data, "%s: expected an integer", container->field);
    }
    return ms_rows_add(p->rows, container->table, key, ms_int64_put(number, bytes));
}

static int take_inner(struct parse *p, const struct ms_rocketmq_container *container, struct ms_bytes object)
{
    int rc = want_object(p, container->field, object);
    ms_buf_add8(&p->key, 0);
    size_t outer = p->key.size;
    if (rc) return rc;
    for (struct ms_json_members m = ms_json_members(object); !rc && ms_json_next(&m);) {
        p->key.size = outer;
        rc = take_key(p, m.key, container->numbered);
        if (!rc) rc = take_leaf(p, container, m.value);
    }
    return rc;
}

static int take_container(struct parse *p, const struct ms_rocketmq_container *container, struct ms_bytes value)
{
    int rc = want_object(p, container->field, value);
    if (rc) return rc;
    for (struct ms_json_members m = ms_json_members(value); !rc && ms_json_next(&m);) {
        ms_buf_clear(&p->key);
        rc = take_key(p, m.key, container->numbered && !container->nested);
        if (!rc) rc = container->nested ? take_inner(p, container, m.value) : take_leaf(p, container, m.value);
    }
    return rc;
}

static int take_version(struct parse *p, struct ms_bytes value)
{
    int rc = want_object(p, MS_ROCKETMQ_VERSION_FIELD, value);
    if (!rc) rc = ms_rocketmq_version_read(p->json, value, p->version);
    const char *name = ms_rocketmq_table_names[ms_rocketmq_file_table(p->file)];
    return rc ? rc : ms_rows_add(p->rows, MS_ROCKETMQ_DATA_VERSION, ms_str(name), value);
}

/* A row of file_extra; field is what the key means, not its spelling. */
static int take_extra(struct parse *p, const char *quote, struct ms_bytes field, struct ms_bytes value)
{
    struct ms_buf key = {0};
    const char *name = ms_rocketmq_file_names[p->file];
    if (field.size == 0) return ms_json_refuse(p->json, quote, "expected a key, found an empty string");
    ms_buf_add(&key, name, strlen(name) + 1);
    ms_buf_add(&key, field.data, field.size);
    int rc = key.failed ? MS_E_MEMORY : ms_rows_add(p->rows, MS_ROCKETMQ_FILE_EXTRA, ms_buf_bytes(&key), value);
    ms_buf_close(&key);
    return rc;
}

static const struct ms_rocketmq_container *container_named(int file, struct ms_bytes field)
{
    for (int i = 0; i < MS_ROCKETMQ_CONTAINERS; i++) {
        const struct ms_rocketmq_container *container = &ms_rocketmq_containers[i];
        if (container->file == file && ms_bytes_equal(ms_str(container->field), field)) return container;
    }
    return NULL;
}

static int take_field(struct parse *p, const char *quote, struct ms_bytes field, struct ms_bytes value)
{
    const struct ms_rocketmq_container *container = container_named(p->file, field);
    bool is_version = ms_bytes_equal(field, ms_str(MS_ROCKETMQ_VERSION_FIELD));
    bool is_derived = p->file == MS_ROCKETMQ_OFFSETS && ms_bytes_equal(field, ms_str(MS_ROCKETMQ_DERIVED_FIELD));
    if ((container || is_version || is_derived) && ms_json_kind(value) == 'n') return 0;
    if (is_version) return take_version(p, value);
    if (!container) return take_extra(p, quote, field, is_derived ? ms_str("{}") : value);
    int rc = container->optional ? take_extra(p, quote, field, ms_str("{}")) : 0;
    return rc ? rc : take_container(p, container, value);
}

static int take_fields(struct parse *p)
{
    struct ms_buf field = {0};
    int rc = 0;
    for (struct ms_json_members m = ms_json_members(ms_json_root(p->json)); !rc && ms_json_next(&m);) {
        ms_buf_clear(&field);
        rc = ms_json_key(m.key, &field);
        if (!rc) rc = take_field(p, (const char *)m.key.data - 1, ms_buf_bytes(&field), m.value);
    }
    ms_buf_close(&field);
    return rc;
}

int ms_rocketmq_parse(int file, const char *name, struct ms_bytes text, struct ms_rows *rows,
                      struct ms_rocketmq_version *version)
{
    struct ms_json json;
    struct parse p = {.json = &json, .file = file, .rows = rows, .version = version};
    size_t before = rows->count;
    *version = (struct ms_rocketmq_version){0};
    int rc = ms_json_open(&json, name, text, 0);
    if (!rc) rc = take_fields(&p);
    if (rc) {
        ms_rows_cut(rows, before);
        *version = (struct ms_rocketmq_version){0};
    }
    ms_buf_close(&p.key);
    ms_json_close(&json);
    return rc;
}
