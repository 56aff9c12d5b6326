/* One token a step. The only state besides the place is a stack of one bit per open container (object or array) and
 * whether a member's key is due, which is what tells 0: from [0,. Finding the origin of a clean byte is the same walk
 * again without output: a table of places would cost more memory than the text, and is only wanted when something is
 * wrong. */
#include "json_prepass.h"

#include <stdio.h>

#include "../../../core/base/error.h"

struct scan {
    struct ms_bytes text;
    size_t at;             /* next unread byte of it */
    struct ms_buf *clean;  /* NULL: only count */
    size_t clean_size;
    uint32_t depth;
    uint8_t objects[MS_JSON_DEPTH_MAX / 8]; /* bit i: level i is an object */
    bool key;              /* the next token is the key of a member */
    bool word;             /* the last token was a word */
    size_t from;           /* the last token: its first byte in the original, ... */
    size_t clean_from;     /* ... in the clean text, quotes that were added included */
    char kind;             /* its first byte */
    bool quoted;           /* quotes were added */
    struct ms_json_fault *fault;
};

static int refuse(struct scan *s, size_t at, int code, const char *what)
{
    s->fault->at = at;
    (void)snprintf(s->fault->what, sizeof s->fault->what, "%s", what);
    return code;
}

static void put(struct scan *s, const void *data, size_t size)
{
    if (s->clean) ms_buf_add(s->clean, data, size);
    s->clean_size += size;
}

static uint8_t peek(const struct scan *s, size_t at)
{
    return ((const uint8_t *)s->text.data)[at];
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_structure(uint8_t c)
{
    return c == '{' || c == '}' || c == '[' || c == ']' || c == ',' || c == ':';
}

static bool in_object(const struct scan *s)
{
    uint32_t level = s->depth - 1;
    return s->depth > 0 && (s->objects[level / 8] >> (level % 8) & 1);
}

bool ms_json_int32(struct ms_bytes digits, int32_t *number)
{
    const uint8_t *at = digits.data, *end = at + digits.size;
    bool negative = digits.size > 0 && *at == '-';
    if (negative) at++;
    if (at == end || end - at > 10 || (*at == '0' && (negative || end - at > 1))) return false;
    int64_t v = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9') return false;
        v = v * 10 + (*at - '0');
    }
    if (negative) v = -v;
    if (v < INT32_MIN || v > INT32_MAX) return false;
    if (number) *number = (int32_t)v;
    return true;
}

/* To the end of the string: behind the first quote that no backslash hides, or the end of the text. */
static size_t string_end(const struct scan *s)
{
    size_t at = s->at + 1;
    while (at < s->text.size) {
        uint8_t c = peek(s, at);
        if (c == '"') return at + 1;
        at += c == '\\' ? 2 : 1;
    }
    return s->text.size;
}

static size_t word_end(const struct scan *s)
{
    size_t at = s->at;
    while (at < s->text.size && !is_blank(peek(s, at)) && !is_structure(peek(s, at)) && peek(s, at) != '"') at++;
    return at;
}

static int take_open(struct scan *s, uint8_t c)
{
    if (s->key) {
        return refuse(s, s->at, MS_E_FORMAT, c == '{' ? "expected a string or an integer as the key, found an object"
                                                      : "expected a string or an integer as the key, found an array");
    }
    if (s->depth == MS_JSON_DEPTH_MAX) return refuse(s, s->at, MS_E_LIMIT, "nested deeper than 512 levels");
    uint8_t bit = (uint8_t)(1u << (s->depth % 8));
    if (c == '{') s->objects[s->depth / 8] |= bit;
    else s->objects[s->depth / 8] &= (uint8_t)~bit;
    s->depth++;
    s->key = c == '{';
    return 0;
}

static int take_structure(struct scan *s, uint8_t c)
{
    int rc = 0;
    if (c == '{' || c == '[') {
        rc = take_open(s, c);
    } else if (c == '}' || c == ']') {
#ifdef MS_PLANT_JSON_BUG
        s->depth--; /* what the fuzzer must find: a bracket too many */
#else
        if (s->depth > 0) s->depth--;
#endif
        s->key = false;
    } else {
        s->key = c == ',' && in_object(s);
    }
    if (rc) return rc;
    s->word = false;
    put(s, &c, 1);
    s->at++;
    return 0;
}

static int refuse_key(struct scan *s, struct ms_bytes word)
{
    char what[160], found[33];
    size_t size = word.size < sizeof found - 1 ? word.size : sizeof found - 1;
    for (size_t i = 0; i < size; i++) {
        char c = ((const char *)word.data)[i];
        found[i] = c >= ' ' && c <= '~' ? c : '?';
    }
    found[size] = '\0';
    (void)snprintf(what, sizeof what, "expected a key in quotes or an integer of 32 bits in its shortest form, found %s",
                   found);
    return refuse(s, s->at, MS_E_FORMAT, what);
}

static int take_word(struct scan *s, bool gap)
{
    struct ms_bytes word = ms_bytes((const char *)s->text.data + s->at, word_end(s) - s->at);
    if (s->key && !ms_json_int32(word, NULL)) return refuse_key(s, word);
    if (gap && s->word) put(s, " ", 1);
    s->clean_from = s->clean_size;
    s->quoted = s->key;
    if (s->quoted) put(s, "\"", 1);
    put(s, word.data, word.size);
    if (s->quoted) put(s, "\"", 1);
    s->word = true;
    s->key = false;
    s->at += word.size;
    return 0;
}

/* Takes the next token. False at the end of the text, and when it is refused (*rc). */
static bool step(struct scan *s, int *rc)
{
    size_t before = s->at;
    while (s->at < s->text.size && is_blank(peek(s, s->at))) s->at++;
    if (s->at == s->text.size) return false;
    uint8_t c = peek(s, s->at);
    s->from = s->at;
    s->clean_from = s->clean_size;
    s->kind = (char)c;
    s->quoted = false;
    if (is_structure(c)) {
        *rc = take_structure(s, c);
    } else if (c == '"') {
        size_t end = string_end(s);
        put(s, (const char *)s->text.data + s->at, end - s->at);
        s->word = s->key = false;
        s->at = end;
    } else {
        *rc = take_word(s, s->at > before);
    }
    return *rc == 0;
}

static struct scan start(struct ms_bytes text, struct ms_buf *clean, struct ms_json_fault *fault)
{
    struct scan s = {.text = text, .clean = clean, .fault = fault};
    if (text.size >= 3 && memcmp(text.data, "\xEF\xBB\xBF", 3) == 0) s.at = 3;
    return s;
}

int ms_json_prepass(struct ms_bytes text, struct ms_buf *clean, struct ms_json_fault *fault)
{
    struct scan s = start(text, clean, fault);
    if (text.size > MS_JSON_SIZE_MAX) return refuse(&s, MS_JSON_SIZE_MAX, MS_E_LIMIT, "longer than 256 MiB");
    const char *nul = text.size ? memchr(text.data, 0, text.size) : NULL;
    if (nul) return refuse(&s, (size_t)(nul - (const char *)text.data), MS_E_FORMAT, "expected text, found a NUL byte");
    int rc = 0;
    while (step(&s, &rc)) {
    }
    return rc ? rc : clean->failed ? MS_E_MEMORY : 0;
}

/* Walks to the token that has byte `at` of the clean text; false if there is none. */
static bool find(struct scan *s, size_t at)
{
    int rc = 0;
    while (step(s, &rc)) {
        if (s->clean_size > at) return true;
    }
    return false;
}

size_t ms_json_original(struct ms_bytes text, size_t at)
{
    struct ms_json_fault fault;
    struct scan s = start(text, NULL, &fault);
    if (!find(&s, at)) return text.size;
    if (at <= s.clean_from) return s.from;
    size_t place = s.from + (at - s.clean_from) - (s.quoted ? 1 : 0);
    return place < s.at ? place : s.at - 1;
}

size_t ms_json_original_stop(struct ms_bytes text, size_t taken)
{
    struct ms_json_fault fault;
    struct scan s = start(text, NULL, &fault);
    if (!find(&s, taken > 0 ? taken - 1 : 0)) return text.size;
    return s.kind == '"' && taken < s.clean_size ? s.from + (taken - s.clean_from) : s.from;
}
