/* Byte strings: borrowed slices (struct ms_bytes), a reader that never runs past the end, and a growing buffer.
 *
 * Integers are little endian. A varint is 7 bits a byte, low bits first, at most 10 bytes, and must be the shortest form,
 * so that equal records have equal bytes. */
#ifndef MS_BASE_BYTES_H
#define MS_BASE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../metasync.h"

static inline struct ms_bytes ms_bytes(const void *data, size_t size)
{
    return (struct ms_bytes){data, size};
}

static inline bool ms_bytes_equal(struct ms_bytes a, struct ms_bytes b)
{
    return a.size == b.size && (a.data == NULL) == (b.data == NULL) && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline void ms_store16(void *at, uint16_t v) { memcpy(at, &v, sizeof v); }
static inline void ms_store32(void *at, uint32_t v) { memcpy(at, &v, sizeof v); }
static inline void ms_store64(void *at, uint64_t v) { memcpy(at, &v, sizeof v); }
static inline uint16_t ms_load16(const void *at) { uint16_t v; memcpy(&v, at, sizeof v); return v; }
static inline uint32_t ms_load32(const void *at) { uint32_t v; memcpy(&v, at, sizeof v); return v; }
static inline uint64_t ms_load64(const void *at) { uint64_t v; memcpy(&v, at, sizeof v); return v; }

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "metasync's formats are little endian; a big-endian port needs byte swaps in ms_store/ms_load"
#endif

enum { MS_VARINT_MAX = 10 };

static inline size_t ms_varint_size(uint64_t v)
{
    size_t size = 1;
    while (v >= 0x80) {
        v >>= 7;
        size++;
    }
    return size;
}

/* Writes v at `at`, which has room for ms_varint_size(v); returns the end. */
static inline uint8_t *ms_varint_put(uint8_t *at, uint64_t v)
{
    while (v >= 0x80) {
        *at++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *at++ = (uint8_t)v;
    return at;
}

/* A reader over borrowed bytes. After a read past the end `bad` is set, reads give 0/empty, and it stays so: check once. */
struct ms_reader {
    const uint8_t *at, *end;
    bool bad;
};

static inline struct ms_reader ms_reader(struct ms_bytes bytes)
{
    const uint8_t *at = bytes.data;
    return (struct ms_reader){at, at ? at + bytes.size : at, false};
}

static inline size_t ms_reader_left(const struct ms_reader *r)
{
    return (size_t)(r->end - r->at);
}

static inline bool ms_reader_has(struct ms_reader *r, size_t size)
{
    r->bad |= ms_reader_left(r) < size;
    return !r->bad;
}

/* Zeros once there was too little. Inline, since a follower reads three or four of them for each record. */
static inline uint8_t ms_read8(struct ms_reader *r)
{
    return ms_reader_has(r, 1) ? *r->at++ : 0;
}

uint32_t ms_read32(struct ms_reader *r);
uint64_t ms_read64(struct ms_reader *r);
uint64_t ms_read_long_varint(struct ms_reader *r); /* of any length */

static inline uint64_t ms_read_varint(struct ms_reader *r)
{
    if (r->bad || ms_reader_left(r) < 2) return ms_read_long_varint(r);
    uint8_t low = r->at[0], high = r->at[1];
    if (low < 0x80) {
        r->at++;
        return low;
    }
    if (high == 0 || high >= 0x80) return ms_read_long_varint(r);
    r->at += 2;
    return (uint64_t)(low & 0x7f) | (uint64_t)high << 7;
}

/* Borrowed; data != NULL unless bad. */
static inline struct ms_bytes ms_read_bytes(struct ms_reader *r, size_t size)
{
    if (!ms_reader_has(r, size)) return ms_bytes(NULL, 0);
    r->at += size;
    return ms_bytes(r->at - size, size);
}

/* A growing buffer. A failed growth sets `failed`, later appends do nothing, and it stays so: check once at the end. */
struct ms_buf {
    uint8_t *data;
    size_t size, capacity;
    bool failed;
};

void ms_buf_init(struct ms_buf *buf);
void ms_buf_close(struct ms_buf *buf);
void ms_buf_clear(struct ms_buf *buf); /* keeps the memory */
uint8_t *ms_buf_extend(struct ms_buf *buf, size_t size); /* uninitialized room, NULL on failure */
void ms_buf_add(struct ms_buf *buf, const void *data, size_t size);
void ms_buf_add8(struct ms_buf *buf, uint8_t v);
void ms_buf_add32(struct ms_buf *buf, uint32_t v);
void ms_buf_add64(struct ms_buf *buf, uint64_t v);
void ms_buf_add_varint(struct ms_buf *buf, uint64_t v);

static inline struct ms_bytes ms_buf_bytes(const struct ms_buf *buf)
{
    return (struct ms_bytes){buf->data ? (const void *)buf->data : "", buf->size};
}

#endif
