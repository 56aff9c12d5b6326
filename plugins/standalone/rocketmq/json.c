#include "json.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

#include "../../../core/base/error.h"

/* ---- checking -------------------------------------------------------------------------------------------------- */

struct place {
    size_t line, column;
};

static struct place place_of(struct ms_bytes text, size_t at)
{
    struct place place = {1, 1};
    const char *data = text.data;
    for (size_t i = 0; i < at && i < text.size; i++) {
        place.column++;
        if (data[i] == '\n') place = (struct place){place.line + 1, 1};
    }
    return place;
}

static int fail_at(const struct ms_json *json, int code, size_t at, const char *what)
{
    struct place place = place_of(json->text, at);
    return ms_fail(code, "%s: line %zu, column %zu: %s", json->name, place.line, place.column, what);
}

int ms_json_refuse(const struct ms_json *json, const void *at, const char *format, ...)
{
    char what[300];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    size_t clean_at = (size_t)((const uint8_t *)at - json->clean.data);
    return fail_at(json, MS_E_FORMAT, ms_json_original(json->text, clean_at), what);
}

/* jansson's verdict on the clean text. *ended: it wanted more text, and found nothing else wrong. */
static int judge(const struct ms_json *json, int flags, bool *ended)
{
    json_error_t error;
    size_t how = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | (flags & MS_JSON_ANY ? JSON_DECODE_ANY : 0u);
    json_t *tree = json_loadb((const char *)ms_json_root(json).data, json->clean.size, how, &error);
    if (tree) {
        json_decref(tree);
        return 0;
    }
    *ended = json_error_code(&error) == json_error_premature_end_of_input;
    if (json_error_code(&error) == json_error_out_of_memory) return ms_fail(MS_E_MEMORY, "%s: out of memory", json->name);
    size_t taken = error.position > 0 ? (size_t)error.position : 0;
    size_t at = *ended ? json->text.size : ms_json_original_stop(json->text, taken);
    return fail_at(json, MS_E_FORMAT, at, error.text);
}

int ms_json_open(struct ms_json *json, const char *name, struct ms_bytes text, int flags)
{
    *json = (struct ms_json){.name = name, .text = text};
    struct ms_json_fault fault;
    bool ended = false;
    int rc = ms_json_prepass(text, &json->clean, &fault);
    if (rc == MS_E_FORMAT && json->clean.size > 0) {
        /* A fault of syntax before the place where the pre-pass stopped is the cause of it, so it is the one to name. */
        int before = judge(json, flags, &ended);
        if (before && !ended) return before;
    }
    if (rc) return rc == MS_E_MEMORY ? rc : fail_at(json, rc, fault.at, fault.what);
    if (json->clean.size == 0) return fail_at(json, MS_E_FORMAT, text.size, "expected a JSON object, found nothing");
    rc = judge(json, flags, &ended);
    if (rc) return rc;
    if (!(flags & MS_JSON_ANY) && ms_json_kind(ms_json_root(json)) != '{') {
        return ms_json_refuse(json, json->clean.data, "expected an object");
    }
    return 0;
}

void ms_json_close(struct ms_json *json)
{
    ms_buf_close(&json->clean);
}

/* ---- reading what was checked ------------------------------------------------------------------------------------ */

char ms_json_kind(struct ms_bytes value)
{
    char c = *(const char *)value.data;
    return c == '-' || (c >= '0' && c <= '9') ? '0' : c;
}

bool ms_json_integer(struct ms_bytes value, int64_t *number)
{
    const char *at = value.data, *end = at + value.size;
    bool negative = at < end && *at == '-';
    if (negative) at++;
    if (at == end) return false;
    uint64_t v = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9') return false;
        uint64_t digit = (uint64_t)(*at - '0');
        if (v > (UINT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    if (v > (uint64_t)INT64_MAX + (negative ? 1 : 0)) return false;
    *number = (int64_t)(negative ? 0 - v : v);
    return true;
}

static const char *string_end(const char *at)
{
    for (at++; *at != '"'; at++) {
        if (*at == '\\') at++;
    }
    return at + 1;
}

static const char *value_end(const char *at, const char *end)
{
    if (*at == '"') return string_end(at);
    size_t depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = string_end(at);
            continue;
        }
        if (*at == '{' || *at == '[') depth++;
        if (depth == 0 && (*at == ',' || *at == '}' || *at == ']')) return at;
        if ((*at == '}' || *at == ']') && --depth == 0) return at + 1;
        at++;
    }
    return at;
}

struct ms_json_members ms_json_members(struct ms_bytes object)
{
    const char *at = object.data;
    return (struct ms_json_members){.at = at + 1, .end = at + object.size};
}

bool ms_json_next(struct ms_json_members *members)
{
    const char *at = members->at;
    if (*at == ',') at++;
    if (*at != '"') return false;
    const char *key_end = string_end(at);
    members->key = ms_bytes(at + 1, (size_t)(key_end - at) - 2);
    members->at = value_end(key_end + 1, members->end);
    members->value = ms_bytes(key_end + 1, (size_t)(members->at - key_end) - 1);
    return true;
}

int ms_json_key(struct ms_bytes key, struct ms_buf *out)
{
    if (key.size == 0) return 0;
    if (!memchr(key.data, '\\', key.size)) {
        ms_buf_add(out, key.data, key.size);
        return out->failed ? MS_E_MEMORY : 0;
    }
    json_t *string = json_loadb((const char *)key.data - 1, key.size + 2, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!string) return ms_fail(MS_E_MEMORY, "out of memory");
    ms_buf_add(out, json_string_value(string), json_string_length(string));
    json_decref(string);
    return out->failed ? MS_E_MEMORY : 0;
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

int ms_json_quote(struct ms_bytes bytes, struct ms_buf *out)
{
    json_t *string = json_stringn(bytes.data, bytes.size);
    if (!string) {
        int shown = bytes.size < 200 ? (int)bytes.size : 200;
        return ms_fail(MS_E_FORMAT, "not UTF-8: \"%.*s\"", shown, (const char *)bytes.data);
    }
    size_t size = json_dumpb(string, NULL, 0, JSON_ENCODE_ANY);
    char *room = (char *)ms_buf_extend(out, size);
    if (room) (void)json_dumpb(string, room, size, JSON_ENCODE_ANY);
    json_decref(string);
    return out->failed ? MS_E_MEMORY : 0;
}

void ms_json_line(struct ms_buf *out, unsigned depth)
{
    ms_buf_add8(out, '\n');
    while (depth-- > 0) ms_buf_add8(out, '\t');
}

void ms_json_pretty(struct ms_bytes value, unsigned depth, struct ms_buf *out)
{
    const char *at = value.data, *end = at + value.size;
    while (at < end) {
        const char *from = at++;
        char c = *from;
        if (c == '"') {
            at = string_end(from);
            ms_buf_add(out, from, (size_t)(at - from));
        } else if ((c == '{' || c == '[') && (*at == '}' || *at == ']')) {
            ms_buf_add(out, from, 2);
            at++;
        } else if (c == '{' || c == '[') {
            ms_buf_add8(out, (uint8_t)c);
            ms_json_line(out, ++depth);
        } else if (c == '}' || c == ']') {
            ms_json_line(out, --depth);
            ms_buf_add8(out, (uint8_t)c);
        } else {
            ms_buf_add8(out, (uint8_t)c);
            if (c == ',') ms_json_line(out, depth);
        }
    }
}
