/* The log's tail in memory: where a change is appended, on its way to disk and followers.
 *
 *      open block ──seal──> sealed, unwritten ──written──> retained (newest retain_bytes, for followers) ──> forgotten
 *
 * The caller appends records under the node's lock; the writer takes sealed blocks. `head` is the lsn of the last record
 * appended. A group closes when its body reaches group_bytes or when the writer comes for it, so that under load groups are
 * large and when idle a change leaves at once. Caller's lock throughout. */
#ifndef MS_STATE_TAIL_H
#define MS_STATE_TAIL_H

#include "block.h"

enum { MS_TAIL_FOUND = 8 };

struct ms_tail {
    uint32_t group_bytes;
    uint32_t count;        /* records in the open block. While it is open, all that an append touches beside the record stands here */
    struct ms_block *open; /* NULL when nothing is appended since the last seal */
    uint8_t *at, *end;     /* where its next record goes, and must end */
    uint64_t head;         /* last lsn appended */
    uint64_t bytes;        /* log bytes appended since start, whole groups, the open one as if it were sealed now */
    uint64_t unwritten;    /* bytes of blocks that are open or sealed and not reported written */
    struct ms_list retained; /* sealed blocks, oldest first: unwritten ones and the newest written ones */
    uint64_t retained_bytes; /* of memory */
    struct ms_block *found[MS_TAIL_FOUND]; /* where ms_tail_find ended last, retained ones */
    uint32_t found_next;
    struct ms_block *spare;  /* one empty block, so that sealing does not cost the next append an allocation */
};

void ms_tail_init(struct ms_tail *tail, uint32_t group_bytes, uint64_t head);
void ms_tail_close(struct ms_tail *tail);

/* Room for records of `size` bytes in all, in one group: opens a block or seals and opens another as needed. Fails with
 * MS_E_MEMORY before anything changed; after 0 the next append of that size cannot fail. */
int ms_tail_reserve(struct ms_tail *tail, size_t size);

/* Where the next record goes, for exactly `size` reserved bytes; counts it and moves head. */
uint8_t *ms_tail_append(struct ms_tail *tail, size_t size);

/* How many log bytes an append of `size` adds. */
size_t ms_tail_cost(const struct ms_tail *tail, size_t size);

/* Closes the open block (hashes come later: ms_block_finish). Returns it, still held by the tail, or NULL. */
struct ms_block *ms_tail_seal(struct ms_tail *tail);

/* Adds a block received from the leader, which starts at head + 1. Takes the caller's reference. */
void ms_tail_add_take(struct ms_tail *tail, struct ms_block *block);

/* Blocks up to lsn are written: forget retained ones beyond `keep` bytes. */
void ms_tail_written(struct ms_tail *tail, uint64_t lsn, uint64_t keep);

/* The retained block that holds lsn, NULL if it is not (or no longer) here. Borrowed. */
struct ms_block *ms_tail_find(struct ms_tail *tail, uint64_t lsn);

/* Empties the tail and continues after head (a bootstrap switched the log). */
void ms_tail_reset(struct ms_tail *tail, uint64_t head);

#endif
