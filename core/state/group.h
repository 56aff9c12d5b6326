/* The group: the one format of change log, snapshot body and wire.
 *
 * A group is a header, a body of records, and zero bytes up to a multiple of 8. It is atomic: whoever reads it has all of
 * its records or none.
 *
 *      0      2    3    4        8            16           24           32       36        40           48
 *      +------+----+----+--------+------------+------------+------------+--------+---------+------------+--- body ---+-pad-+
 *      | "MS" |ver |flag| body   | first lsn  | synced lsn | time, us   | count  | header  | body hash  | records     | 0.. |
 *      | u16  | u8 | u8 | u32    | u64        | u64        | u64        | u32    | hash u32| u64        |             |     |
 *      +------+----+----+--------+------------+------------+------------+--------+---------+------------+-------------+-----+
 *
 *  - header hash: low half of XXH3 over bytes 0..35 and 40..47. body hash: XXH3-64 over the body.
 *  - synced lsn: what the node that wrote *this copy* had synced when it wrote it. It is a statement about that node's
 *    disk, so a follower puts its own there (ms_group_restamp); the body and its hash never change on the way.
 *  - time: the leader's real-time clock, for people and replay; nothing is decided by it.
 *  - record i has lsn first + i. In groups with MS_GROUP_ENTRIES (walked entries of a snapshot) "first" counts entries
 *    instead, from 1, so that a missing group is noticed.
 *
 * A record is   type u8 | payload size varint | payload   so that a reader can step over what it does not know:
 *
 *      PUT       table varint | key size varint | key | value
 *      DELETE    table varint | key size varint | key
 *      LEAVE     table varint | key size varint | key              out of the view; the host keeps its copy
 *      TABLE     table varint | value type u8 | name               defines an id (1..255) before its first use
 *      EPOCH     reign varint | run varint | id u64                a new leader's first record; starts at its own lsn
 *      MARK      n varint | n x (table varint | count varint | digest u64)     every table as of this lsn
 *      BEGIN     start lsn varint | snapshot id u64 | cluster      snapshot: first record of the file
 *      LINEAGE   n varint | n x (reign varint | run varint | id u64 | first lsn varint)    snapshot: after BEGIN, and before END
 *      END       end lsn varint | entries varint                   snapshot: last record of the file
 *
 * Types with MS_RECORD_OPTIONAL set may be stepped over (and are counted) by a reader that does not know them; any other
 * unknown type stops it with MS_E_VERSION. A record costs 4 to 8 bytes beside key and value for values up to 2 MiB. */
#ifndef MS_STATE_GROUP_H
#define MS_STATE_GROUP_H

#include "../base/bytes.h"

enum {
    MS_GROUP_MAGIC = 0x534d, /* "MS" */
    MS_GROUP_VERSION = 1,
    MS_GROUP_HEADER = 48,
    MS_GROUP_ALIGN = 8,
    MS_GROUP_BODY_MAX = 80 << 20, /* what a reader takes memory for at most */
    MS_KEY_MAX = 65535,
};

enum ms_group_flags {
    MS_GROUP_ENTRIES = 1, /* walked entries of a snapshot; "first" is an entry number */
    MS_GROUP_META = 2,    /* a snapshot's BEGIN or END group; "first" is 0 */
};

enum ms_record_type {
    MS_RECORD_PUT = 1,
    MS_RECORD_DELETE = 2,
    MS_RECORD_LEAVE = 3,
    MS_RECORD_TABLE = 4,
    MS_RECORD_EPOCH = 5,
    MS_RECORD_MARK = 6,
    MS_RECORD_BEGIN = 16,
    MS_RECORD_LINEAGE = 17,
    MS_RECORD_END = 18,
    MS_RECORD_OPTIONAL = 0x80, /* bit: may be stepped over */
};

struct ms_group_header {
    uint8_t version, flags;
    uint32_t body_size, count;
    uint64_t first, synced, time_us, body_hash;
};

/* Whole size of a group with such a body: header, body and padding. */
static inline size_t ms_group_size(uint32_t body_size)
{
    return (MS_GROUP_HEADER + (size_t)body_size + MS_GROUP_ALIGN - 1) & ~(size_t)(MS_GROUP_ALIGN - 1);
}

static inline uint64_t ms_group_last(const struct ms_group_header *header)
{
    return header->first + header->count - 1;
}

/* Fills in the header of the group whose body stands at group + MS_GROUP_HEADER, both hashes and the padding. */
void ms_group_seal(uint8_t *group, const struct ms_group_header *header);

/* Puts another synced lsn into a sealed group. */
void ms_group_restamp(uint8_t *group, uint64_t synced);

/* Checks the header at data (needs MS_GROUP_HEADER bytes) and takes it apart: MS_E_FORMAT (no magic, wrong header hash,
 * body larger than MS_GROUP_BODY_MAX, no records), MS_E_VERSION. Takes no memory. */
int ms_group_open(struct ms_bytes data, struct ms_group_header *header);

/* As ms_group_open for a whole group in memory, and checks body hash and padding: MS_E_FORMAT also when data is shorter
 * than the group. */
int ms_group_check(struct ms_bytes data, struct ms_group_header *header);

/* ---- records -------------------------------------------------------------------------------------------------- */

struct ms_record {
    uint8_t type;
    uint32_t table;       /* PUT DELETE LEAVE TABLE */
    struct ms_bytes key;  /* PUT DELETE LEAVE; TABLE: the name; BEGIN: the cluster. borrowed from the group */
    struct ms_bytes value; /* PUT, else data == NULL. borrowed */
    uint8_t value_type;   /* TABLE */
    uint64_t reign, run, id; /* EPOCH; BEGIN: id is the snapshot's */
    uint64_t lsn;         /* BEGIN: start; END: end */
    uint64_t entries;     /* END */
    struct ms_bytes list; /* MARK, LINEAGE: the payload, for ms_mark_next / lineage decoding; optional types: the payload */
};

/* Steps through the records of a checked group. */
struct ms_record_reader {
    struct ms_reader body;
    uint32_t left;
};

struct ms_record_reader ms_record_reader(struct ms_bytes group, const struct ms_group_header *header);

/* 1 and a record, 0 at the end, or MS_E_FORMAT (a record runs past the body, bytes are left over, fewer or more records
 * than the header counts, a table id of 0 or above 255, a field that is too short) / MS_E_VERSION (unknown critical type). */
int ms_record_next(struct ms_record_reader *reader, struct ms_record *record);

/* Size of a PUT (value.data != NULL) or DELETE record, and writing one at `at`; returns the end. */
size_t ms_record_change_size(uint32_t table, struct ms_bytes key, struct ms_bytes value);
uint8_t *ms_record_change_put(uint8_t *at, int type, uint32_t table, struct ms_bytes key, struct ms_bytes value);

/* Appends a record of another type. */
void ms_record_add_table(struct ms_buf *buf, uint32_t table, uint8_t value_type, struct ms_bytes name);
void ms_record_add_epoch(struct ms_buf *buf, uint64_t reign, uint64_t run, uint64_t id);
void ms_record_add(struct ms_buf *buf, uint8_t type, struct ms_bytes payload);

struct ms_mark {
    uint32_t table;
    uint64_t count, digest;
};

/* 1 and the next table's mark, 0 at the end, or MS_E_FORMAT. Start with a reader over record.list after ms_mark_begin. */
int ms_mark_begin(struct ms_bytes list, struct ms_reader *reader, uint64_t *count);
int ms_mark_next(struct ms_reader *reader, struct ms_mark *mark);

#endif
