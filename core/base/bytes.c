#include "bytes.h"

#include "error.h"
#include "mem.h"

struct ms_bytes ms_str(const char *text)
{
    return ms_bytes(text, strlen(text));
}

struct ms_bytes ms_int64_put(int64_t number, uint8_t bytes[8])
{
    ms_store64(bytes, (uint64_t)number);
    return ms_bytes(bytes, 8);
}

int ms_int64_get(struct ms_bytes value, int64_t *number)
{
    if (!value.data || value.size != 8) return ms_fail(MS_E_TYPE, "an int64 value has 8 bytes, not %zu", value.size);
    *number = (int64_t)ms_load64(value.data);
    return 0;
}

uint32_t ms_read32(struct ms_reader *r)
{
    if (!ms_reader_has(r, 4)) return 0;
    r->at += 4;
    return ms_load32(r->at - 4);
}

uint64_t ms_read64(struct ms_reader *r)
{
    if (!ms_reader_has(r, 8)) return 0;
    r->at += 8;
    return ms_load64(r->at - 8);
}

uint64_t ms_read_long_varint(struct ms_reader *r)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = ms_read8(r);
        if (r->bad) return 0;
        if (shift == 63 && byte > 1) break; /* more than 64 bits */
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            if (byte == 0 && shift > 0) break; /* not the shortest form */
            return v;
        }
    }
    r->bad = true;
    return 0;
}

void ms_buf_init(struct ms_buf *buf)
{
    *buf = (struct ms_buf){0};
}

void ms_buf_close(struct ms_buf *buf)
{
    ms_release(buf->data);
    ms_buf_init(buf);
}

void ms_buf_clear(struct ms_buf *buf)
{
    buf->size = 0;
    buf->failed = false;
}

uint8_t *ms_buf_extend(struct ms_buf *buf, size_t size)
{
    if (buf->failed) return NULL;
    if (buf->capacity - buf->size < size) {
        size_t capacity = buf->capacity ? buf->capacity : 64;
        while (capacity - buf->size < size) {
            if (capacity > SIZE_MAX / 2) {
                buf->failed = true;
                return NULL;
            }
            capacity *= 2;
        }
        uint8_t *data = ms_realloc(buf->data, capacity);
        if (!data) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->capacity = capacity;
    }
    uint8_t *at = buf->data + buf->size;
    buf->size += size;
    return at;
}

void ms_buf_add(struct ms_buf *buf, const void *data, size_t size)
{
    uint8_t *at = ms_buf_extend(buf, size);
    if (at && size) memcpy(at, data, size);
}

void ms_buf_add8(struct ms_buf *buf, uint8_t v)
{
    ms_buf_add(buf, &v, sizeof v);
}

void ms_buf_add32(struct ms_buf *buf, uint32_t v)
{
    ms_buf_add(buf, &v, sizeof v);
}

void ms_buf_add64(struct ms_buf *buf, uint64_t v)
{
    ms_buf_add(buf, &v, sizeof v);
}

void ms_buf_add_varint(struct ms_buf *buf, uint64_t v)
{
    uint8_t bytes[MS_VARINT_MAX];
    ms_buf_add(buf, bytes, (size_t)(ms_varint_put(bytes, v) - bytes));
}
