/* The frame codec: pure functions from bytes to structs and back. Control payloads are lists of tagged fields; one table
 * below says which member of struct ms_message a tag stands for. Tags are part of the wire format: add new ones, never reuse
 * one.
 *
 * A field may stand in any message; the ones that a type uses are named in struct ms_message. What comes from a peer and is
 * shown to people (names, the text of a BYE) is printable UTF-8 on both sides: encoding replaces other bytes by '?',
 * decoding refuses them, so that no peer can forge log lines or break the JSON of a status. */
#include "frame.h"

#include "../base/error.h"
#include "../base/hash.h"

enum field_kind { NUMBER, NAME, TEXT, LINEAGE, VALUE };

struct field {
    uint8_t tag, kind;
    uint16_t offset;
};

/* clang-format off */
#define FIELD(tag, kind, member) {tag, kind, (uint16_t)offsetof(struct ms_message, member)}
/* clang-format on */

static const struct field fields[] = {
    FIELD(1, NUMBER, node_id), FIELD(2, NUMBER, boot_id),   FIELD(3, NUMBER, features),  FIELD(4, NUMBER, policy_hash),
    FIELD(5, NUMBER, purpose), FIELD(6, NUMBER, role),      FIELD(7, NAME, cluster),     FIELD(8, NAME, name),
    FIELD(9, NUMBER, first),   FIELD(10, NUMBER, position), FIELD(11, LINEAGE, lineage), FIELD(12, NUMBER, extra_max),
    FIELD(13, NUMBER, comparing),

    FIELD(16, NUMBER, kind),   FIELD(17, NUMBER, common),   FIELD(18, NUMBER, extra),    FIELD(19, NUMBER, allowed),
    FIELD(24, NUMBER, mode),   FIELD(25, NUMBER, from),     FIELD(26, NUMBER, snapshot), FIELD(28, NUMBER, size),
    FIELD(29, NUMBER, end),    FIELD(32, NUMBER, durable),  FIELD(33, NUMBER, applied),  FIELD(34, NUMBER, host_applied),
    FIELD(40, NUMBER, head),   FIELD(41, NUMBER, time_us),  FIELD(42, NUMBER, in_sync),  FIELD(48, NUMBER, code),
    FIELD(49, TEXT, text),

    FIELD(43, NUMBER, epoch),  FIELD(44, NUMBER, resent),   FIELD(45, NUMBER, extra_id), FIELD(50, NUMBER, seq),
    FIELD(51, NAME, table),    FIELD(52, NUMBER, type),     FIELD(53, VALUE, key),       FIELD(54, VALUE, mine),
    FIELD(55, VALUE, base),    FIELD(56, NUMBER, base_known), FIELD(57, NUMBER, reason), FIELD(58, NUMBER, outcome),
    FIELD(59, NUMBER, lsn),    FIELD(61, VALUE, theirs),    FIELD(62, VALUE, value),     FIELD(63, NAME, by),
};

enum { FIELD_COUNT = sizeof fields / sizeof fields[0], NAME_SIZE = sizeof((struct ms_message *)0)->name };

_Static_assert(sizeof((struct ms_message *)0)->cluster == NAME_SIZE && sizeof((struct ms_message *)0)->table == NAME_SIZE &&
                   sizeof((struct ms_message *)0)->by == NAME_SIZE,
               "all names have one size");

/* ---- headers ---------------------------------------------------------------------------------------------------------- */

static bool is_bulk(uint8_t type)
{
    return type == MS_FRAME_GROUP || type == MS_FRAME_SNAPSHOT_DATA;
}

static uint32_t header_hash(const uint8_t *header, uint64_t seed)
{
    return (uint32_t)ms_hash_seeded(header, 8, seed);
}

void ms_frame_header(uint8_t header[MS_FRAME_HEADER], uint8_t type, uint8_t flags, struct ms_bytes payload, size_t more)
{
    ms_store32(header, (uint32_t)(payload.size + more));
    header[4] = type;
    header[5] = flags;
    header[6] = MS_FRAME_VERSION;
    header[7] = 0;
    ms_store32(header + 8, header_hash(header, is_bulk(type) ? 0 : ms_hash(payload.data, payload.size)));
}

int ms_frame_open(const uint8_t header[MS_FRAME_HEADER], size_t bulk_max, struct ms_frame *frame)
{
    frame->size = ms_load32(header);
    frame->type = header[4];
    frame->flags = header[5];
    frame->hash = ms_load32(header + 8);
    if (header[7] != 0) return ms_fail(MS_E_FORMAT, "not a frame: byte 7 is %u, not 0", header[7]);
    if (header[6] != MS_FRAME_VERSION)
        return ms_fail(MS_E_VERSION, "frame version %u, this node speaks %d", header[6], MS_FRAME_VERSION);
    bool bulk = is_bulk(frame->type);
    if (bulk && frame->hash != header_hash(header, 0))
        return ms_fail(MS_E_FORMAT, "%s frame: wrong header hash", ms_frame_name(frame->type));
    bool extra = frame->type == MS_FRAME_EXTRA || frame->type == MS_FRAME_EXTRA_DONE;
    size_t limit = bulk || (extra && bulk_max > MS_FRAME_CONTROL_MAX) ? bulk_max : MS_FRAME_CONTROL_MAX;
    if (frame->size > limit)
        return ms_fail(MS_E_LIMIT, "%s frame of %u bytes, at most %zu are allowed", ms_frame_name(frame->type), frame->size,
                       limit);
    return 0;
}

int ms_frame_check(const uint8_t header[MS_FRAME_HEADER], const struct ms_frame *frame, struct ms_bytes payload)
{
    if (is_bulk(frame->type)) return 0;
    if (frame->hash == header_hash(header, ms_hash(payload.data, payload.size))) return 0;
    return ms_fail(MS_E_FORMAT, "%s frame of %u bytes: wrong hash", ms_frame_name(frame->type), frame->size);
}

const char *ms_frame_name(uint8_t type)
{
    static const char *const names[] = {
        [MS_FRAME_GREETING] = "greeting",
        [MS_FRAME_PROOF] = "proof",
        [MS_FRAME_HELLO] = "hello",
        [MS_FRAME_VERDICT] = "verdict",
        [MS_FRAME_START] = "start",
        [MS_FRAME_GROUP] = "group",
        [MS_FRAME_ACK] = "ack",
        [MS_FRAME_SNAPSHOT_BEGIN] = "snapshot_begin",
        [MS_FRAME_BYE] = "bye",
        [MS_FRAME_SNAPSHOT_DATA] = "snapshot_data",
        [MS_FRAME_HEARTBEAT] = "heartbeat",
        [MS_FRAME_SNAPSHOT_END] = "snapshot_end",
        [MS_FRAME_STATUS_REQUEST] = "status_request",
        [MS_FRAME_STATUS_REPLY] = "status_reply",
    };
    if (type < sizeof names / sizeof names[0] && names[type]) return names[type];
    if (type == MS_FRAME_EXTRA) return "extra";
    if (type == MS_FRAME_EXTRA_DONE) return "extra_done";
    return "unknown";
}

/* ---- text ------------------------------------------------------------------------------------------------------------- */

/* Size of the printable UTF-8 character at `at`, 0 if there is none: control bytes, overlong forms, surrogates. */
static size_t character(const uint8_t *at, size_t left)
{
    if (at[0] < 0x80) return at[0] >= 0x20 && at[0] != 0x7f;
    size_t size = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || left < size) return 0;
    uint32_t code = at[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    static const uint32_t lowest[] = {0, 0, 0xa0, 0x800, 0x10000}; /* 0x80..0x9f are control characters too */
    return code >= lowest[size] && code <= 0x10ffff && (code & 0xfffff800) != 0xd800 ? size : 0;
}

static bool printable(struct ms_bytes text)
{
    const uint8_t *at = text.data;
    for (size_t i = 0, size; i < text.size; i += size) {
        size = character(at + i, text.size - i);
        if (size == 0) return false;
    }
    return true;
}

static void add_printable(struct ms_buf *payload, struct ms_bytes text)
{
    uint8_t *to = ms_buf_extend(payload, text.size);
    if (!to || text.size == 0) return;
    memcpy(to, text.data, text.size);
    for (size_t i = 0, size; i < text.size; i += size ? size : 1) {
        size = character(to + i, text.size - i);
        if (size == 0) to[i] = '?';
    }
}

/* ---- encoding --------------------------------------------------------------------------------------------------------- */

static void put_field(struct ms_buf *payload, uint8_t tag, struct ms_bytes bytes, bool clean)
{
    ms_buf_add8(payload, tag);
    ms_buf_add_varint(payload, bytes.size);
    if (clean)
        add_printable(payload, bytes);
    else
        ms_buf_add(payload, bytes.data, bytes.size);
}

static void add_field(struct ms_buf *payload, uint8_t tag, struct ms_bytes bytes, bool clean)
{
    if (bytes.size > 0) put_field(payload, tag, bytes, clean);
}

static void add_number(struct ms_buf *payload, uint8_t tag, uint64_t number)
{
    if (number == 0) return;
    uint8_t bytes[MS_VARINT_MAX];
    add_field(payload, tag, ms_bytes(bytes, (size_t)(ms_varint_put(bytes, number) - bytes)), false);
}

static void add_lineage(struct ms_buf *payload, uint8_t tag, const struct ms_lineage *lineage)
{
    if (lineage->count == 0) return;
    struct ms_buf bytes;
    ms_buf_init(&bytes);
    ms_lineage_encode(lineage, &bytes);
    if (bytes.failed)
        payload->failed = true;
    else
        add_field(payload, tag, ms_buf_bytes(&bytes), false);
    ms_buf_close(&bytes);
}

void ms_message_init(struct ms_message *message)
{
    *message = (struct ms_message){0};
    ms_lineage_init(&message->lineage);
}

void ms_message_close(struct ms_message *message)
{
    ms_lineage_close(&message->lineage);
}

void ms_message_encode(uint8_t type, const struct ms_message *message, struct ms_buf *payload)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct field *field = &fields[i];
        const void *member = (const char *)message + field->offset;
        if (field->kind == NUMBER) {
            uint64_t number;
            memcpy(&number, member, sizeof number);
            add_number(payload, field->tag, number);
        } else if (field->kind == NAME) {
            add_field(payload, field->tag, ms_bytes(member, strnlen(member, NAME_SIZE - 1)), true);
        } else if (field->kind == TEXT) {
            add_field(payload, field->tag, message->text, type == MS_FRAME_BYE);
        } else if (field->kind == VALUE) {
            struct ms_bytes value;
            memcpy(&value, member, sizeof value);
            if (value.data) put_field(payload, field->tag, value, false);
        } else {
            add_lineage(payload, field->tag, &message->lineage);
        }
    }
}

/* ---- decoding --------------------------------------------------------------------------------------------------------- */

static const struct field *find_field(uint8_t tag)
{
    for (size_t i = 0; i < FIELD_COUNT; i++)
        if (fields[i].tag == tag) return &fields[i];
    return NULL;
}

static int decode_number(const struct field *field, struct ms_bytes bytes, void *member)
{
    struct ms_reader reader = ms_reader(bytes);
    uint64_t number = ms_read_varint(&reader);
    if (reader.bad || ms_reader_left(&reader)) return ms_fail(MS_E_FORMAT, "field %u is not a number", field->tag);
    memcpy(member, &number, sizeof number);
    return 0;
}

static int decode_name(const struct field *field, struct ms_bytes bytes, char *member)
{
    if (bytes.size >= NAME_SIZE)
        return ms_fail(MS_E_FORMAT, "field %u has %zu bytes, at most %d are allowed", field->tag, bytes.size, NAME_SIZE - 1);
    if (!printable(bytes)) return ms_fail(MS_E_FORMAT, "field %u is not printable UTF-8", field->tag);
    memset(member, 0, NAME_SIZE);
    memcpy(member, bytes.data, bytes.size);
    return 0;
}

static int decode_field(uint8_t type, const struct field *field, struct ms_bytes bytes, struct ms_message *message)
{
    void *member = (char *)message + field->offset;
    switch (field->kind) {
    case NUMBER: return decode_number(field, bytes, member);
    case NAME: return decode_name(field, bytes, member);
    case LINEAGE: return ms_lineage_decode(bytes, &message->lineage);
    case VALUE: memcpy(member, &bytes, sizeof bytes); return 0;
    default:
        if (type == MS_FRAME_BYE && !printable(bytes))
            return ms_fail(MS_E_FORMAT, "field %u is not printable UTF-8", field->tag);
        message->text = bytes;
        return 0;
    }
}

static int decode_fields(uint8_t type, struct ms_bytes payload, struct ms_message *message)
{
    struct ms_reader reader = ms_reader(payload);
    uint64_t seen = 0; /* known tags are below 64 */
    while (ms_reader_left(&reader)) {
        size_t place = payload.size - ms_reader_left(&reader);
        uint8_t tag = ms_read8(&reader);
        uint64_t size = ms_read_varint(&reader);
        struct ms_bytes bytes = ms_read_bytes(&reader, size);
        if (reader.bad) return ms_fail(MS_E_FORMAT, "the field at byte %zu runs past the end", place);
        const struct field *field = find_field(tag);
        if (!field) {
            message->unknown++;
            continue;
        }
        if (seen >> tag & 1) return ms_fail(MS_E_FORMAT, "field %u stands there twice", tag);
        seen |= (uint64_t)1 << tag;
        int rc = decode_field(type, field, bytes, message);
        if (rc < 0) return rc;
    }
    return 0;
}

int ms_message_decode(uint8_t type, struct ms_bytes payload, struct ms_message *message)
{
    ms_message_close(message);
    ms_message_init(message);
    int rc = decode_fields(type, payload, message);
    return rc < 0 ? ms_fail_wrap(rc, "%s frame", ms_frame_name(type)) : 0;
}
