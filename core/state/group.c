/* Encoding and decoding of groups and records; the format is drawn in group.h. Pure: bytes in, bytes out. */
#include "group.h"

#include "../base/error.h"
#include "../base/hash.h"

enum { /* offsets in the header */
    AT_MAGIC = 0,
    AT_VERSION = 2,
    AT_FLAGS = 3,
    AT_BODY_SIZE = 4,
    AT_FIRST = 8,
    AT_SYNCED = 16,
    AT_TIME = 24,
    AT_COUNT = 32,
    AT_HEADER_HASH = 36,
    AT_BODY_HASH = 40,
};

static uint32_t header_hash(const uint8_t *group)
{
    uint8_t covered[MS_GROUP_HEADER - 4];
    memcpy(covered, group, AT_HEADER_HASH);
    memcpy(covered + AT_HEADER_HASH, group + AT_BODY_HASH, 8);
    return (uint32_t)ms_hash(covered, sizeof covered);
}

void ms_group_seal(uint8_t *group, const struct ms_group_header *header)
{
    ms_store16(group + AT_MAGIC, MS_GROUP_MAGIC);
    group[AT_VERSION] = MS_GROUP_VERSION;
    group[AT_FLAGS] = header->flags;
    ms_store32(group + AT_BODY_SIZE, header->body_size);
    ms_store64(group + AT_FIRST, header->first);
    ms_store64(group + AT_SYNCED, header->synced);
    ms_store64(group + AT_TIME, header->time_us);
    ms_store32(group + AT_COUNT, header->count);
    ms_store64(group + AT_BODY_HASH, ms_hash(group + MS_GROUP_HEADER, header->body_size));
    size_t used = MS_GROUP_HEADER + (size_t)header->body_size;
    memset(group + used, 0, ms_group_size(header->body_size) - used);
    ms_store32(group + AT_HEADER_HASH, header_hash(group));
}

void ms_group_restamp(uint8_t *group, uint64_t synced)
{
    ms_store64(group + AT_SYNCED, synced);
    ms_store32(group + AT_HEADER_HASH, header_hash(group));
}

int ms_group_open(struct ms_bytes data, struct ms_group_header *header)
{
    const uint8_t *group = data.data;
    if (data.size < MS_GROUP_HEADER) return ms_fail(MS_E_FORMAT, "a group header has %d bytes, not %zu", MS_GROUP_HEADER, data.size);
    if (ms_load16(group + AT_MAGIC) != MS_GROUP_MAGIC) return ms_fail(MS_E_FORMAT, "no group here");
    if (ms_load32(group + AT_HEADER_HASH) != header_hash(group)) return ms_fail(MS_E_FORMAT, "the hash of the group header is wrong");
    if (group[AT_VERSION] != MS_GROUP_VERSION)
        return ms_fail(MS_E_VERSION, "group version %d, this program knows %d", group[AT_VERSION], MS_GROUP_VERSION);
    *header = (struct ms_group_header){
        .version = group[AT_VERSION],
        .flags = group[AT_FLAGS],
        .body_size = ms_load32(group + AT_BODY_SIZE),
        .count = ms_load32(group + AT_COUNT),
        .first = ms_load64(group + AT_FIRST),
        .synced = ms_load64(group + AT_SYNCED),
        .time_us = ms_load64(group + AT_TIME),
        .body_hash = ms_load64(group + AT_BODY_HASH),
    };
    if (header->body_size > MS_GROUP_BODY_MAX)
        return ms_fail(MS_E_FORMAT, "a group of %u bytes, more than %d", header->body_size, MS_GROUP_BODY_MAX);
    /* A record has at least two bytes, so the count can't be larger than half the body. */
    if (header->count == 0 || header->count > header->body_size / 2)
        return ms_fail(MS_E_FORMAT, "a group of %u bytes says it has %u records", header->body_size, header->count);
    if (header->first > UINT64_MAX - header->count) return ms_fail(MS_E_FORMAT, "the group's lsns run past 64 bits");
    return 0;
}

int ms_group_check(struct ms_bytes data, struct ms_group_header *header)
{
    int rc = ms_group_open(data, header);
    if (rc) return rc;
    const uint8_t *group = data.data;
    size_t size = ms_group_size(header->body_size);
    if (data.size < size) return ms_fail(MS_E_FORMAT, "a group of %zu bytes ends after %zu", size, data.size);
    if (ms_hash(group + MS_GROUP_HEADER, header->body_size) != header->body_hash)
        return ms_fail(MS_E_FORMAT, "the hash of the group's body is wrong (lsn %llu)", (unsigned long long)header->first);
    for (size_t at = MS_GROUP_HEADER + (size_t)header->body_size; at < size; at++)
        if (group[at]) return ms_fail(MS_E_FORMAT, "the group's padding is not zero (lsn %llu)", (unsigned long long)header->first);
    return 0;
}

/* ---- reading records ------------------------------------------------------------------------------------------- */

struct ms_record_reader ms_record_reader(struct ms_bytes group, const struct ms_group_header *header)
{
    const uint8_t *body = (const uint8_t *)group.data + MS_GROUP_HEADER;
    return (struct ms_record_reader){ms_reader(ms_bytes(body, header->body_size)), header->count};
}

static struct ms_bytes rest(struct ms_reader *r)
{
    return ms_read_bytes(r, ms_reader_left(r));
}

static void read_table(struct ms_reader *r, struct ms_record *record)
{
    uint64_t table = ms_read_varint(r);
    if (table == 0 || table > 255) r->bad = true;
    record->table = (uint32_t)table;
}

static void read_change(struct ms_reader *r, struct ms_record *record)
{
    read_table(r, record);
    uint64_t key_size = ms_read_varint(r);
#ifdef MS_PLANT_GROUP_BUG /* what the fuzzer has to find: see spec/fuzz/group.mk */
    record->key = ms_bytes(r->at, (size_t)key_size);
    r->at += key_size;
    volatile uint8_t touched = r->at[-1];
    (void)touched;
#else
    record->key = ms_read_bytes(r, key_size > SIZE_MAX ? SIZE_MAX : (size_t)key_size);
#endif
    if (key_size == 0 || key_size > MS_KEY_MAX) r->bad = true;
    if (record->type == MS_RECORD_PUT) record->value = rest(r);
}

/* The fields of one record; r covers exactly its payload. */
static int read_payload(struct ms_reader *r, struct ms_record *record)
{
    switch (record->type) {
    case MS_RECORD_PUT:
    case MS_RECORD_DELETE:
    case MS_RECORD_LEAVE: read_change(r, record); break;
    case MS_RECORD_TABLE:
        read_table(r, record);
        record->value_type = ms_read8(r);
        record->key = rest(r);
        break;
    case MS_RECORD_EPOCH:
        record->reign = ms_read_varint(r);
        record->run = ms_read_varint(r);
        record->id = ms_read64(r);
        break;
    case MS_RECORD_BEGIN:
        record->lsn = ms_read_varint(r);
        record->id = ms_read64(r);
        record->key = rest(r);
        break;
    case MS_RECORD_END:
        record->lsn = ms_read_varint(r);
        record->entries = ms_read_varint(r);
        break;
    case MS_RECORD_MARK:
    case MS_RECORD_LINEAGE: record->list = rest(r); break;
    default:
        if (!(record->type & MS_RECORD_OPTIONAL))
            return ms_fail(MS_E_VERSION, "record type %d is not known here and may not be stepped over", record->type);
        record->list = rest(r);
    }
    if (r->bad || ms_reader_left(r) > 0) return ms_fail(MS_E_FORMAT, "a record of type %d is malformed", record->type);
    return 0;
}

int ms_record_next(struct ms_record_reader *reader, struct ms_record *record)
{
    struct ms_reader *body = &reader->body;
    if (reader->left == 0) {
        if (ms_reader_left(body) > 0) return ms_fail(MS_E_FORMAT, "%zu bytes are left after the group's last record", ms_reader_left(body));
        return 0;
    }
    *record = (struct ms_record){.type = ms_read8(body)};
    uint64_t size = ms_read_varint(body);
    struct ms_bytes payload = ms_read_bytes(body, size > SIZE_MAX ? SIZE_MAX : (size_t)size);
    if (body->bad) return ms_fail(MS_E_FORMAT, "a record runs past the end of its group");
    reader->left--;
    struct ms_reader r = ms_reader(payload);
    int rc = read_payload(&r, record);
    return rc ? rc : 1;
}

/* ---- writing records ------------------------------------------------------------------------------------------- */

static size_t change_payload_size(uint32_t table, struct ms_bytes key, struct ms_bytes value)
{
    return ms_varint_size(table) + ms_varint_size(key.size) + key.size + (value.data ? value.size : 0);
}

size_t ms_record_change_size(uint32_t table, struct ms_bytes key, struct ms_bytes value)
{
    size_t payload = change_payload_size(table, key, value);
    return 1 + ms_varint_size(payload) + payload;
}

uint8_t *ms_record_change_put(uint8_t *at, int type, uint32_t table, struct ms_bytes key, struct ms_bytes value)
{
    *at++ = (uint8_t)type;
    at = ms_varint_put(at, change_payload_size(table, key, value));
    at = ms_varint_put(at, table);
    at = ms_varint_put(at, key.size);
    memcpy(at, key.data, key.size);
    at += key.size;
    if (value.data && value.size) {
        memcpy(at, value.data, value.size);
        at += value.size;
    }
    return at;
}

void ms_record_add(struct ms_buf *buf, uint8_t type, struct ms_bytes payload)
{
    ms_buf_add8(buf, type);
    ms_buf_add_varint(buf, payload.size);
    ms_buf_add(buf, payload.data, payload.size);
}

void ms_record_add_table(struct ms_buf *buf, uint32_t table, uint8_t value_type, struct ms_bytes name)
{
    ms_buf_add8(buf, MS_RECORD_TABLE);
    ms_buf_add_varint(buf, ms_varint_size(table) + 1 + name.size);
    ms_buf_add_varint(buf, table);
    ms_buf_add8(buf, value_type);
    ms_buf_add(buf, name.data, name.size);
}

void ms_record_add_epoch(struct ms_buf *buf, uint64_t reign, uint64_t run, uint64_t id)
{
    ms_buf_add8(buf, MS_RECORD_EPOCH);
    ms_buf_add_varint(buf, ms_varint_size(reign) + ms_varint_size(run) + 8);
    ms_buf_add_varint(buf, reign);
    ms_buf_add_varint(buf, run);
    ms_buf_add64(buf, id);
}

/* ---- marks ------------------------------------------------------------------------------------------------------ */

int ms_mark_begin(struct ms_bytes list, struct ms_reader *reader, uint64_t *count)
{
    *reader = ms_reader(list);
    *count = ms_read_varint(reader);
    if (reader->bad) return ms_fail(MS_E_FORMAT, "a mark is malformed");
    return 0;
}

int ms_mark_next(struct ms_reader *reader, struct ms_mark *mark)
{
    if (ms_reader_left(reader) == 0) return 0;
    uint64_t table = ms_read_varint(reader);
    *mark = (struct ms_mark){.table = (uint32_t)table, .count = ms_read_varint(reader), .digest = ms_read64(reader)};
    if (reader->bad || table == 0 || table > 255) return ms_fail(MS_E_FORMAT, "a mark is malformed");
    return 1;
}
