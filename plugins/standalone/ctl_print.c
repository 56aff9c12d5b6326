#include "ctl_print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- columns ----------------------------------------------------------------------------------------------------------- */

void grid_init(struct grid *grid, size_t columns, unsigned right)
{
    memset(grid, 0, sizeof *grid);
    grid->columns = columns;
    grid->right = right;
}

void grid_close(struct grid *grid)
{
    for (size_t i = 0; i < grid->count; i++) free(grid->cells[i]);
    free(grid->cells);
    memset(grid, 0, sizeof *grid);
}

void grid_add(struct grid *grid, const char *text)
{
    if (grid->count == grid->capacity && !grid->failed) {
        size_t capacity = grid->capacity ? 2 * grid->capacity : 64;
        char **cells = realloc(grid->cells, capacity * sizeof *cells);
        grid->failed = !cells;
        if (cells) {
            grid->cells = cells;
            grid->capacity = capacity;
        }
    }
    if (grid->failed) return;
    grid->cells[grid->count] = strdup(text ? text : "");
    grid->failed = !grid->cells[grid->count];
    if (!grid->failed) grid->count++;
}

void grid_addf(struct grid *grid, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    grid_add(grid, text);
}

/* Characters, not bytes. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static void print_cell(const struct grid *grid, size_t column, int width, const char *text)
{
    int blanks = width - width_of(text);
    bool last = column + 1 == grid->columns;
    bool right = grid->right >> column & 1;
    printf("%*s%s%*s%s", right ? blanks : 0, "", text, right || last ? 0 : blanks, "", last ? "\n" : "  ");
}

void grid_print(const struct grid *grid, const char *indent)
{
    int widths[32] = {0};
    if (grid->failed) {
        fprintf(stderr, "metasyncctl: out of memory for a table\n");
        return;
    }
    for (size_t i = 0; i < grid->count; i++) {
        int width = width_of(grid->cells[i]);
        int *most = &widths[i % grid->columns];
        if (width > *most) *most = width;
    }
    for (size_t i = 0; i < grid->count; i++) {
        if (i % grid->columns == 0) (void)fputs(indent, stdout);
        print_cell(grid, i % grid->columns, widths[i % grid->columns], grid->cells[i]);
    }
}

/* ---- values ------------------------------------------------------------------------------------------------------------ */

/* At most four bytes for each byte. */
static char *escape(const char *text, size_t size)
{
    char *out = malloc(4 * size + 1), *at = out;
    if (!out) return NULL;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n' || c == '\t' || c == '\r')
            at += sprintf(at, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        else if (c == 0)
            at += sprintf(at, "\\0");
        else if (c < 0x20 || c == 0x7f)
            at += sprintf(at, "\\x%02x", c);
        else
            *at++ = (char)c;
    }
    *at = '\0';
    return out;
}

static char *join(const char *prefix, const char *text)
{
    size_t size = strlen(prefix) + strlen(text) + 1;
    char *out = malloc(size);
    if (out) (void)snprintf(out, size, "%s%s", prefix, text);
    return out;
}

char *print_value(const json_t *value)
{
    const char *base64 = json_string_value(json_object_get(value, "base64"));
    if (json_is_string(value)) return escape(json_string_value(value), json_string_length(value));
    if (base64) return join("base64:", base64);
    if (json_is_null(value) || !value) return strdup("");
    return json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
}

char *print_key_part(const json_t *key, size_t part, bool rest)
{
    if (!json_is_string(key)) return part == 0 ? print_value(key) : NULL;
    const char *at = json_string_value(key), *end = at + json_string_length(key);
    for (; part > 0; part--) {
        at = memchr(at, 0, (size_t)(end - at));
        if (!at) return NULL;
        at++;
    }
    const char *stop = rest ? NULL : memchr(at, 0, (size_t)(end - at));
    return escape(at, (size_t)((stop ? stop : end) - at));
}

/* ---- numbers ----------------------------------------------------------------------------------------------------------- */

static char *next_buffer(size_t *size)
{
    static char buffers[8][40];
    static unsigned turn;
    *size = sizeof buffers[0];
    return buffers[turn++ % 8];
}

const char *print_size(uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    size_t size;
    char *text = next_buffer(&size);
    if (bytes < 1024) {
        (void)snprintf(text, size, "%llu B", (unsigned long long)bytes);
        return text;
    }
    double amount = (double)bytes / 1024;
    int unit = 0;
    for (; amount >= 1024 && unit < 3; unit++) amount /= 1024;
    (void)snprintf(text, size, "%.1f %s", amount, units[unit]);
    return text;
}

const char *print_time(uint64_t time_us)
{
    time_t seconds = (time_t)(time_us / 1000000);
    struct tm tm;
    size_t size;
    char *text = next_buffer(&size);
    if (!gmtime_r(&seconds, &tm)) return "?";
    size_t used = strftime(text, size, "%Y-%m-%d %H:%M:%S", &tm);
    (void)snprintf(text + used, size - used, ".%06u", (unsigned)(time_us % 1000000));
    return text;
}

/* ---- fields ------------------------------------------------------------------------------------------------------------ */

uint64_t field_number(const json_t *object, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(object, name));
}

const char *field_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

bool field_true(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}
