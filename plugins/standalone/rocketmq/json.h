/* A JSON text as RocketMQ writes it, checked as a whole and then read piece by piece, in the spelling of the file.
 *
 * jansson is the judge: behind the pre-pass (json_prepass.h) the text must be JSON to the letter, in UTF-8, without
 * duplicate keys (a key counts as what it means: 1, "1" and "\u0031" are one key), with integers within 64 bits and
 * reals within a double, and with nothing behind it. jansson's tree is thrown away then: values are kept as slices of
 * the clean text, so that 7.6 stays 7.6 and 1e16 stays 1e16 in every locale. The walkers below rely on that check and
 * look at nothing twice.
 *
 * Messages name file, line and column (from 1, in bytes) of the original text. Not thread-safe; two texts don't touch. */
#ifndef MS_ROCKETMQ_JSON_H
#define MS_ROCKETMQ_JSON_H

#include "json_prepass.h"

struct ms_json {
    const char *name;      /* for messages; borrowed */
    struct ms_bytes text;  /* the original; borrowed */
    struct ms_buf clean;
};

enum { MS_JSON_ANY = 1 }; /* flags: the text may be any value, otherwise it must be an object */

/* Checks text and makes the clean one. Close it after a failure too. Errors: FORMAT, LIMIT, MEMORY. */
int ms_json_open(struct ms_json *json, const char *name, struct ms_bytes text, int flags);
void ms_json_close(struct ms_json *json);

/* The whole value. Borrowed from json, as are all slices of it below. */
static inline struct ms_bytes ms_json_root(const struct ms_json *json)
{
    return ms_buf_bytes(&json->clean);
}

/* Returns MS_E_FORMAT with a message that names the place of `at`, which points into the clean text. */
int ms_json_refuse(const struct ms_json *json, const void *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What a value is: '{' '[' '"' 't' 'f' 'n', or '0' for a number. */
char ms_json_kind(struct ms_bytes value);

/* The value is an integer (no fraction, no exponent) and goes into number. */
bool ms_json_integer(struct ms_bytes value, int64_t *number);

/* The members of an object, in their order:
 *      for (struct ms_json_members m = ms_json_members(value); ms_json_next(&m);) ... */
struct ms_json_members {
    const char *at, *end;
    struct ms_bytes key;   /* between the quotes, escapes as they are */
    struct ms_bytes value;
};

struct ms_json_members ms_json_members(struct ms_bytes object);
bool ms_json_next(struct ms_json_members *members);

/* Appends the bytes that a key means, escapes resolved. MS_E_MEMORY. */
int ms_json_key(struct ms_bytes key, struct ms_buf *out);

/* Appends a JSON string with quotes that means these bytes. MS_E_FORMAT if they are no UTF-8. */
int ms_json_quote(struct ms_bytes bytes, struct ms_buf *out);

/* Appends a value of the clean text in the layout of RocketMQ's files: a member or element a line, one tab a level.
 * depth: of the value itself; its first line is not indented. */
void ms_json_pretty(struct ms_bytes value, unsigned depth, struct ms_buf *out);

/* A line break and depth tabs. */
void ms_json_line(struct ms_buf *out, unsigned depth);

#endif
