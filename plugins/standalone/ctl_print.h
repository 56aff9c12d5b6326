/* Text for people: columns, sizes, keys. */
#ifndef METASYNCCTL_PRINT_H
#define METASYNCCTL_PRINT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Cells of text in columns. The first row is the head. Lack of memory shows as a missing table, and is said. */
struct grid {
    size_t columns, count, capacity; /* cells, not rows */
    char **cells;
    unsigned right; /* bit i: column i is flush right */
    bool failed;
};

void grid_init(struct grid *grid, size_t columns, unsigned right);
void grid_close(struct grid *grid);
void grid_add(struct grid *grid, const char *text); /* copies */
void grid_addf(struct grid *grid, const char *format, ...) __attribute__((format(printf, 2, 3)));
void grid_print(const struct grid *grid, const char *indent);

/* A JSON value of a key or of an entry (sync/render.h) as text on one line: control characters as \n, \x1b, ...; what is not
 * UTF-8 as base64:...; integers as they are. Owned by the caller; NULL = out of memory. */
char *print_value(const json_t *value);

/* The same of a key's parts, that NULs join: part 0, 1, ... NULL also if there is no such part. The last part that is asked for with
 * rest = true takes what follows, with \0 between. */
char *print_key_part(const json_t *key, size_t part, bool rest);

/* "16.0 MiB" in a buffer that the next eight calls leave alone. */
const char *print_size(uint64_t bytes);

/* "2030-01-31 12:00:00.123456", UTC, of microseconds since 1970; the same kind of buffer. */
const char *print_time(uint64_t time_us);

/* Fields of status objects, with a default where a node of another version has none. */
uint64_t field_number(const json_t *object, const char *name);
const char *field_text(const json_t *object, const char *name);
bool field_true(const json_t *object, const char *name);

#endif
