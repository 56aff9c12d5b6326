/* Segment files and the window through which groups are read. */
#include "log_segment.h"

#include <stdio.h>
#include <stdlib.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/mem.h"

#define MAGIC "MSLOG01\n"
#define PREFIX "log-"

enum { DIGITS = 16, ZEROS = 64 << 10, ZERO_PARTS = 16 };

/* ---- names and headers ---------------------------------------------------------------------------------------------- */

int ms_segment_path(char path[MS_PATH_MAX], const char *dir, uint64_t number)
{
    char name[40];
    (void)snprintf(name, sizeof name, PREFIX "%0*llu", DIGITS, (unsigned long long)number);
    return ms_path(path, dir, name);
}

/* The number in a segment's name; false if it is the name of something else. */
static bool parse_name(const char *name, uint64_t *number)
{
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return false;
    const char *digits = name + strlen(PREFIX);
    if (strlen(digits) != DIGITS || strspn(digits, "0123456789") != DIGITS) return false;
    *number = strtoull(digits, NULL, 10);
    return true;
}

void ms_segment_encode(uint8_t header[MS_SEGMENT_HEADER], uint64_t number, uint64_t first)
{
    memcpy(header, MAGIC, 8);
    ms_store64(header + 8, number);
    ms_store64(header + 16, first);
    ms_store64(header + 24, ms_hash(header, 24));
}

static bool all_zero(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (data[i]) return false;
    return true;
}

int ms_segment_decode(const uint8_t *header, size_t size, uint64_t number, uint64_t *first)
{
    if (all_zero(header, size)) return MS_SEGMENT_BLANK;
    if (size < MS_SEGMENT_HEADER || memcmp(header, MAGIC, 8) != 0) return MS_SEGMENT_BAD;
    if (ms_load64(header + 24) != ms_hash(header, 24) || ms_load64(header + 8) != number) return MS_SEGMENT_BAD;
    *first = ms_load64(header + 16);
    return *first > 0 ? MS_SEGMENT_SOUND : MS_SEGMENT_BAD;
}

/* ---- lists of segments ---------------------------------------------------------------------------------------------- */

void ms_segments_close(struct ms_segments *segments)
{
    ms_release(segments->list);
    *segments = (struct ms_segments){0};
}

int ms_segments_add(struct ms_segments *segments, uint64_t number, uint64_t size)
{
    if (segments->count == segments->capacity) {
        uint32_t capacity = segments->capacity ? 2 * segments->capacity : 16;
        struct ms_segment *list = ms_realloc(segments->list, capacity * sizeof *list);
        if (!list) return MS_E_MEMORY;
        segments->list = list;
        segments->capacity = capacity;
    }
    segments->list[segments->count++] = (struct ms_segment){.number = number, .size = size};
    return 0;
}

void ms_segments_drop(struct ms_segments *segments, uint32_t index)
{
    segments->count--;
    memmove(segments->list + index, segments->list + index + 1, (segments->count - index) * sizeof *segments->list);
}

static int add_named(void *context, const char *name)
{
    uint64_t number;
    return parse_name(name, &number) ? ms_segments_add(context, number, 0) : 0;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = ((const struct ms_segment *)a)->number, y = ((const struct ms_segment *)b)->number;
    return (x > y) - (x < y);
}

int ms_segments_list(struct ms_fs *fs, const char *dir, struct ms_segments *segments)
{
    segments->count = 0;
    int rc = fs->ops->list(fs, dir, add_named, segments);
    if (!rc && segments->count > 1) qsort(segments->list, segments->count, sizeof *segments->list, compare_numbers);
    return rc;
}

int ms_fs_zero(struct ms_fs *fs, struct ms_file *file, uint64_t from, uint64_t to)
{
    static const uint8_t zeros[ZEROS];
    while (from < to) {
        struct ms_bytes parts[ZERO_PARTS];
        size_t count = 0, put = 0;
        for (uint64_t at = from; at < to && count < ZERO_PARTS; count++) {
            parts[count] = ms_bytes(zeros, to - at < ZEROS ? (size_t)(to - at) : ZEROS);
            at += parts[count].size;
        }
        int rc = fs->ops->write(fs, file, from, parts, count, &put);
        if (rc) return rc;
        if (put == 0 || put > to - from) return ms_fail(MS_E_IO, "a write of zeros wrote %zu bytes", put);
        from += put;
    }
    return 0;
}

/* ---- the window ------------------------------------------------------------------------------------------------------ */

int ms_window_open(struct ms_window *window, struct ms_fs *fs, const char *path)
{
    *window = (struct ms_window){.fs = fs};
    int rc = fs->ops->open(fs, path, MS_FS_READ, &window->file);
    if (rc) {
        window->file = NULL;
        return rc;
    }
    rc = ms_window_refresh(window);
    if (rc) ms_window_close(window);
    return rc;
}

void ms_window_close(struct ms_window *window)
{
    if (window->file) window->fs->ops->close(window->fs, window->file);
    ms_release(window->data);
    *window = (struct ms_window){0};
}

int ms_window_refresh(struct ms_window *window)
{
    window->filled = 0;
    return window->fs->ops->size(window->fs, window->file, &window->size);
}

/* Makes the buffer `capacity` bytes large and moves what is known from offset on to its front. */
static int reframe(struct ms_window *window, uint64_t offset, size_t capacity)
{
    size_t kept = 0;
    if (offset >= window->start && offset < window->start + window->filled)
        kept = window->filled - (size_t)(offset - window->start);
    const uint8_t *from = window->data + (window->filled - kept);
    if (capacity == window->capacity) {
        if (kept) memmove(window->data, from, kept);
    } else {
        uint8_t *data = ms_alloc(capacity);
        if (!data) return MS_E_MEMORY;
        if (kept) memcpy(data, from, kept);
        ms_release(window->data);
        window->data = data;
        window->capacity = capacity;
    }
    window->start = offset;
    window->filled = kept;
    return 0;
}

int ms_window_get(struct ms_window *window, uint64_t offset, size_t size, const uint8_t **data, size_t *got)
{
    bool known = offset >= window->start && offset + size <= window->start + window->filled;
    if (!known) {
        int rc = reframe(window, offset, size > MS_WINDOW ? size : MS_WINDOW);
        if (rc) return rc;
        while (window->filled < size) {
            size_t more = 0;
            rc = window->fs->ops->read(window->fs, window->file, offset + window->filled, window->data + window->filled,
                                       window->capacity - window->filled, &more);
            if (rc) return rc;
            if (more == 0) break;
            window->filled += more;
        }
    }
    size_t there = window->filled - (size_t)(offset - window->start);
    *data = window->data + (offset - window->start);
    *got = there < size ? there : size;
    return 0;
}

int ms_window_group(struct ms_window *window, uint64_t offset, bool whole, struct ms_group_header *header, struct ms_bytes *group)
{
    const uint8_t *data;
    size_t got;
    *header = (struct ms_group_header){0};
    int rc = ms_window_get(window, offset, MS_GROUP_HEADER, &data, &got);
    if (rc) return rc;
    if (all_zero(data, got)) return MS_PLACE_EMPTY;
    struct ms_group_header found;
    rc = ms_group_open(ms_bytes(data, got), &found);
    if (rc) return rc == MS_E_FORMAT ? MS_PLACE_BAD : rc;
    *header = found;
    size_t size = ms_group_size(found.body_size);
    if (size > window->size || offset > window->size - size) return MS_PLACE_BAD; /* before memory is taken for it */
    if (!whole) return MS_PLACE_GROUP;
    rc = ms_window_get(window, offset, size, &data, &got);
    if (rc) return rc;
    *group = ms_bytes(data, got);
    rc = ms_group_check(*group, &found);
    if (rc) return rc == MS_E_FORMAT ? MS_PLACE_BAD : rc;
    return MS_PLACE_GROUP;
}

/* The header is read past the window, so that looking for a segment does not read ahead in each of them. */
static int read_header(struct ms_window *window, uint8_t header[MS_SEGMENT_HEADER], size_t *size)
{
    *size = 0;
    while (*size < MS_SEGMENT_HEADER) {
        size_t got = 0;
        int rc = window->fs->ops->read(window->fs, window->file, *size, header + *size, MS_SEGMENT_HEADER - *size, &got);
        if (rc) return rc;
        if (got == 0) break;
        *size += got;
    }
    return 0;
}

int ms_window_segment(struct ms_window *window, struct ms_fs *fs, const char *dir, uint64_t number, uint64_t *first)
{
    char path[MS_PATH_MAX];
    uint8_t header[MS_SEGMENT_HEADER];
    size_t size;
    int rc = ms_segment_path(path, dir, number);
    if (!rc) rc = ms_window_open(window, fs, path);
    if (rc) return rc;
    rc = read_header(window, header, &size);
    if (!rc) return ms_segment_decode(header, size, number, first);
    ms_window_close(window);
    return rc;
}
