/* Frames: what links carry.
 *
 *      0          4      5      6      7      8            12
 *      +----------+------+------+------+------+------------+-- payload, size bytes --
 *      | size u32 | type | flags| ver  | 0    | hash u32   |
 *      +----------+------+------+------+------+------------+
 *
 * hash: low half of XXH3 over the 8 bytes before it, seeded with XXH3-64 of the payload for control frames and with 0 for GROUP
 * and SNAPSHOT_DATA, whose groups carry their own hashes. A type with MS_FRAME_OPTIONAL set that a node does not know is
 * ignored and counted; any other unknown type ends the link.
 *
 * The conversation (C connects, L listens; GREETING/PROOF are drive/auth.h's and never reach the engine):
 *
 *      C -> L  HELLO(purpose = follow | ask)          L -> C  HELLO
 *      follow, and L leads:                           L -> C  VERDICT(kind, common, extra, allowed)
 *         while L's host compares:                    L -> C  HELLO(comparing), and as soon as that ends: HELLO VERDICT
 *      C -> L  START(stream, from lsn)                L -> C  GROUP* HEARTBEAT*          C -> L  ACK*
 *      C -> L  START(snapshot, id, offset)            L -> C  SNAPSHOT_BEGIN DATA* SNAPSHOT_END, then C sends START(stream)
 *      streaming, and L has MS_FEATURE_EXTRAS:        C -> L  EXTRA*                     L -> C  EXTRA_DONE*   (extras.h)
 *      any time                                       BYE(code, text), then close
 *      C -> L  STATUS_REQUEST                         L -> C  STATUS_REPLY(JSON)         (needs no HELLO)
 *
 * Control payloads are fields:   tag u8 | size varint | bytes   in any order; numbers are varints in the bytes. A field that a node
 * does not know is ignored, a missing one is 0 or empty: so both sides can be of different age (promise 12). */
#ifndef MS_SYNC_FRAME_H
#define MS_SYNC_FRAME_H

#include "../state/lineage.h"

enum { MS_FRAME_HEADER = 12, MS_FRAME_VERSION = 1, MS_FRAME_CONTROL_MAX = 4 << 20 };

enum ms_frame_type {
    MS_FRAME_GREETING = 1,
    MS_FRAME_PROOF = 2,
    MS_FRAME_HELLO = 3,
    MS_FRAME_VERDICT = 4,
    MS_FRAME_START = 5,
    MS_FRAME_GROUP = 6,
    MS_FRAME_SNAPSHOT_BEGIN = 7,
    MS_FRAME_SNAPSHOT_DATA = 8, /* payload: file offset u64, then whole groups */
    MS_FRAME_SNAPSHOT_END = 9,
    MS_FRAME_ACK = 10,
    MS_FRAME_HEARTBEAT = 11,
    MS_FRAME_BYE = 12,
    MS_FRAME_STATUS_REQUEST = 13,
    MS_FRAME_STATUS_REPLY = 14,
    MS_FRAME_OPTIONAL = 0x80,
    MS_FRAME_EXTRA = 0x81,
    MS_FRAME_EXTRA_DONE = 0x82,
};

enum ms_feature { MS_FEATURE_EXTRAS = 1 /* takes EXTRA frames */ }; /* bits of a HELLO's features */

enum ms_frame_flags { MS_FRAME_WANT_SYNC = 1 /* GROUP: somebody waits for it to be durable */ };

struct ms_frame {
    uint32_t size;
    uint8_t type, flags;
    uint32_t hash;
};

/* Writes the header for a payload that `more` bytes of a group follow (control frames: more = 0). */
void ms_frame_header(uint8_t header[MS_FRAME_HEADER], uint8_t type, uint8_t flags, struct ms_bytes payload, size_t more);

/* Takes a header apart: MS_E_FORMAT (hash of a bulk frame, reserved byte), MS_E_VERSION, MS_E_LIMIT (size: control frames
 * MS_FRAME_CONTROL_MAX, bulk frames bulk_max, EXTRA and EXTRA_DONE the larger of both). Takes no memory, and none may be taken before
 * it has returned 0. */
int ms_frame_open(const uint8_t header[MS_FRAME_HEADER], size_t bulk_max, struct ms_frame *frame);

/* Checks a control payload against its header; bulk frames always pass. */
int ms_frame_check(const uint8_t header[MS_FRAME_HEADER], const struct ms_frame *frame, struct ms_bytes payload);

const char *ms_frame_name(uint8_t type);

/* ---- control messages: one struct for all, each type uses some fields ------------------------------------------------ */

enum ms_purpose { MS_PURPOSE_NONE = 0, MS_PURPOSE_FOLLOW = 1, MS_PURPOSE_ASK = 2 };
enum ms_start_mode { MS_START_STREAM = 1, MS_START_SNAPSHOT = 2 };

struct ms_message {
    /* HELLO */
    uint64_t node_id, boot_id, features, policy_hash;
    uint64_t purpose, role;
    uint64_t extra_max; /* bytes of the largest EXTRA that it takes */
    uint64_t comparing; /* it leads, and its host compares: no verdict before that ends */
    char cluster[64], name[64];
    uint64_t first, position;  /* of the log; see struct ms_history */
    struct ms_lineage lineage; /* owned: ms_message_close */
    /* VERDICT */
    uint64_t kind, common, extra, allowed;
    /* START: mode, from (stream: first lsn wanted; snapshot: file offset), snapshot (id, 0 = any). SNAPSHOT_BEGIN: snapshot, from. */
    uint64_t mode, from, snapshot;
    /* SNAPSHOT_END: size of the file, end lsn */
    uint64_t size, end;
    /* ACK */
    uint64_t durable, applied, host_applied;
    /* HEARTBEAT: head (and the time it was read, real-time us), in_sync */
    uint64_t head, time_us, in_sync;
    /* BYE: negated MS_E_*; text. STATUS_REPLY: text. */
    uint64_t code;
    struct ms_bytes text; /* borrowed from the payload or from the caller */
    /* EXTRA, and a record of an extras file; see struct ms_extra */
    uint64_t seq, type, base_known, reason, lsn, epoch, resent, extra_id;
    char table[64];
    struct ms_bytes key, mine, base; /* borrowed; data == NULL: not there, which is not the same as empty */
    /* EXTRA_DONE: seq, outcome, lsn, code, and what the leader had before and, if it is neither of the two, has now */
    uint64_t outcome;
    struct ms_bytes theirs, value;
    char by[64];
    uint64_t unknown;     /* fields that were ignored */
};

void ms_message_init(struct ms_message *message);
void ms_message_close(struct ms_message *message);
void ms_message_encode(uint8_t type, const struct ms_message *message, struct ms_buf *payload);
int ms_message_decode(uint8_t type, struct ms_bytes payload, struct ms_message *message); /* MS_E_FORMAT, MS_E_MEMORY */

#endif
