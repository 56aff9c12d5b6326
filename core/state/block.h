/* A block is one group in memory: built by the log's tail, or received, then read-only and shared by reference between the
 * log writer and all followers' links. Reference counts are atomic, so the last holder may be on any thread. */
#ifndef MS_STATE_BLOCK_H
#define MS_STATE_BLOCK_H

#include "../base/list.h"
#include "group.h"

struct ms_block {
    struct ms_list node;  /* the holder's list */
    _Atomic int references;
    uint64_t first, last; /* lsns */
    uint64_t end_bytes;   /* log bytes up to and including this block, counted since the node started */
    size_t size;          /* of the whole group, padding included; while building: header + body so far */
    size_t capacity;
    uint32_t body_size, count; /* body_size: once sealed */
    bool finished;        /* header and hashes are in place */
    bool want_sync;       /* somebody waits for disk or replica */
    uint8_t data[];       /* the group */
};

struct ms_block *ms_block_new(size_t capacity); /* one reference, the caller's; NULL = MS_E_MEMORY */
struct ms_block *ms_block_ref(struct ms_block *block);
void ms_block_unref(struct ms_block *block); /* NULL is allowed */

/* Header and hashes of a sealed block. By the log writer, without the node's lock, before anybody else reads the bytes. */
void ms_block_finish(struct ms_block *block, uint64_t synced, uint64_t time_us);

/* A block without lsns: groups of a snapshot on their way to a link (copied). NULL = MS_E_MEMORY. */
struct ms_block *ms_block_copy(struct ms_bytes groups);

/* A finished block made of a checked group (copied). */
struct ms_block *ms_block_of(struct ms_bytes group, const struct ms_group_header *header);

#endif
