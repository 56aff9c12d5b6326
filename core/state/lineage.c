#include "lineage.h"

#include "../base/error.h"
#include "../base/mem.h"

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

int ms_epoch_compare(struct ms_epoch a, struct ms_epoch b)
{
    int order = compare(a.reign, b.reign);
    if (!order) order = compare(a.run, b.run);
    return order ? order : compare(a.id, b.id);
}

void ms_lineage_init(struct ms_lineage *lineage)
{
    *lineage = (struct ms_lineage){0};
}

void ms_lineage_close(struct ms_lineage *lineage)
{
    ms_release(lineage->entries);
    ms_lineage_init(lineage);
}

static int grow(struct ms_lineage *lineage, uint32_t count)
{
    if (count <= lineage->capacity) return 0;
    if (count > MS_LINEAGE_MAX) return ms_fail(MS_E_LIMIT, "more than %d epochs", MS_LINEAGE_MAX);
    uint32_t capacity = lineage->capacity ? lineage->capacity * 2 : 4;
    if (capacity < count) capacity = count;
    struct ms_lineage_entry *entries = ms_realloc(lineage->entries, capacity * sizeof *entries);
    if (!entries) return MS_E_MEMORY;
    lineage->entries = entries;
    lineage->capacity = capacity;
    return 0;
}

int ms_lineage_add(struct ms_lineage *lineage, struct ms_epoch epoch, uint64_t first)
{
    if (lineage->count) {
        struct ms_lineage_entry last = lineage->entries[lineage->count - 1];
        if (ms_epoch_compare(epoch, last.epoch) <= 0 || first <= last.first)
            return ms_fail(MS_E_FORMAT, "epoch %llu.%llu at lsn %llu does not come after %llu.%llu at %llu",
                           (unsigned long long)epoch.reign, (unsigned long long)epoch.run, (unsigned long long)first,
                           (unsigned long long)last.epoch.reign, (unsigned long long)last.epoch.run, (unsigned long long)last.first);
    }
    int rc = grow(lineage, lineage->count + 1);
    if (rc) return rc;
    lineage->entries[lineage->count++] = (struct ms_lineage_entry){epoch, first};
    return 0;
}

int ms_lineage_copy(struct ms_lineage *copy, const struct ms_lineage *lineage)
{
    ms_lineage_close(copy);
    int rc = grow(copy, lineage->count);
    if (rc) return rc;
    if (lineage->count) memcpy(copy->entries, lineage->entries, lineage->count * sizeof *copy->entries);
    copy->count = lineage->count;
    return 0;
}

struct ms_epoch ms_lineage_last(const struct ms_lineage *lineage)
{
    return lineage->count ? lineage->entries[lineage->count - 1].epoch : (struct ms_epoch){0};
}

void ms_lineage_encode(const struct ms_lineage *lineage, struct ms_buf *buf)
{
    ms_buf_add_varint(buf, lineage->count);
    for (uint32_t i = 0; i < lineage->count; i++) {
        const struct ms_lineage_entry *entry = &lineage->entries[i];
        ms_buf_add_varint(buf, entry->epoch.reign);
        ms_buf_add_varint(buf, entry->epoch.run);
        ms_buf_add64(buf, entry->epoch.id);
        ms_buf_add_varint(buf, entry->first);
    }
}

int ms_lineage_decode(struct ms_bytes payload, struct ms_lineage *lineage)
{
    struct ms_reader r = ms_reader(payload);
    uint64_t count = ms_read_varint(&r);
    lineage->count = 0;
    /* 11 bytes is the least that an entry takes: a count that can't be true takes no memory. */
    if (r.bad || count > MS_LINEAGE_MAX || count > ms_reader_left(&r) / 11) return ms_fail(MS_E_FORMAT, "a lineage is malformed");
    for (uint64_t i = 0; i < count; i++) {
        struct ms_epoch epoch;
        epoch.reign = ms_read_varint(&r);
        epoch.run = ms_read_varint(&r);
        epoch.id = ms_read64(&r);
        uint64_t first = ms_read_varint(&r);
        if (r.bad) return ms_fail(MS_E_FORMAT, "a lineage is malformed");
        int rc = ms_lineage_add(lineage, epoch, first);
        if (rc) return rc;
    }
    if (ms_reader_left(&r)) return ms_fail(MS_E_FORMAT, "a lineage is malformed");
    return 0;
}
