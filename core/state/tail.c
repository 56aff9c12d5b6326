#include "tail.h"

#include <stdatomic.h>

#include "../base/error.h"
#include "../base/mem.h"

void ms_tail_init(struct ms_tail *tail, uint32_t group_bytes, uint64_t head)
{
    *tail = (struct ms_tail){.group_bytes = group_bytes, .head = head};
    ms_list_init(&tail->retained);
}

static void forget_all(struct ms_tail *tail)
{
    while (!ms_list_empty(&tail->retained)) {
        struct ms_block *block = ms_list_entry(tail->retained.next, struct ms_block, node);
        ms_list_remove(&block->node);
        ms_block_unref(block);
    }
    ms_block_unref(tail->open);
    tail->open = NULL;
    memset(tail->found, 0, sizeof tail->found);
    tail->retained_bytes = tail->unwritten = 0;
}

void ms_tail_close(struct ms_tail *tail)
{
    if (!tail->retained.next) return; /* never opened */
    forget_all(tail);
    ms_block_unref(tail->spare);
    tail->spare = NULL;
}

void ms_tail_reset(struct ms_tail *tail, uint64_t head)
{
    forget_all(tail);
    tail->head = head;
}

/* Of the open block, so far. */
static size_t body_size(const struct ms_tail *tail)
{
    return (size_t)(tail->at - tail->open->data) - MS_GROUP_HEADER;
}

static bool fits(const struct ms_tail *tail, size_t size)
{
    if (!tail->open) return false;
    size_t body = body_size(tail);
    return size <= (size_t)(tail->end - tail->at) && (body == 0 || body + size <= tail->group_bytes);
}

static size_t usual_capacity(const struct ms_tail *tail)
{
    return MS_GROUP_HEADER + (size_t)tail->group_bytes + MS_GROUP_ALIGN;
}

/* Log bytes that the open block takes as it is: none before its first record. */
static size_t open_bytes(const struct ms_tail *tail)
{
    return tail->open && tail->count ? ms_group_size((uint32_t)body_size(tail)) : 0;
}

size_t ms_tail_cost(const struct ms_tail *tail, size_t size)
{
    if (!fits(tail, size)) return ms_group_size((uint32_t)size);
    return ms_group_size((uint32_t)(body_size(tail) + size)) - open_bytes(tail);
}

int ms_tail_reserve(struct ms_tail *tail, size_t size)
{
    if (fits(tail, size)) return 0;
    struct ms_block *block = NULL;
    if (size > tail->group_bytes) {
        block = ms_block_new(MS_GROUP_HEADER + size + MS_GROUP_ALIGN);
    } else {
        block = tail->spare ? tail->spare : ms_block_new(usual_capacity(tail));
        tail->spare = NULL;
    }
    if (!block) return MS_E_MEMORY;
    if (!ms_tail_seal(tail)) ms_block_unref(tail->open); /* opened for something smaller that never came */
    block->finished = block->want_sync = false;
    tail->open = block;
    tail->count = 0;
    tail->at = block->data + MS_GROUP_HEADER;
    tail->end = block->data + block->capacity - MS_GROUP_ALIGN;
    return 0;
}

uint8_t *ms_tail_append(struct ms_tail *tail, size_t size)
{
    size_t before = open_bytes(tail);
    uint8_t *at = tail->at;
    tail->at += size;
    tail->count++;
    tail->head++;
    size_t grown = open_bytes(tail) - before;
    tail->bytes += grown;
    tail->unwritten += grown;
    return at;
}

static void retain(struct ms_tail *tail, struct ms_block *block)
{
    block->end_bytes = tail->bytes;
    ms_list_add_tail(&tail->retained, &block->node);
    tail->retained_bytes += block->capacity;
}

/* A small group must not hold the memory of a large one for as long as it is retained: it moves, and the next one is built in the same block.
 * Nobody else knows the block yet. */
static struct ms_block *shrunk(struct ms_tail *tail, struct ms_block *block)
{
    if (block->size > block->capacity / 2) return block;
    struct ms_block *small = ms_block_new(block->size);
    if (!small) return block;
    small->first = block->first;
    small->last = block->last;
    small->size = block->size;
    small->body_size = block->body_size;
    small->count = block->count;
    small->want_sync = block->want_sync;
    memcpy(small->data, block->data, block->size);
    if (block->capacity != usual_capacity(tail)) {
        ms_block_unref(block);
    } else { /* the newest one: it is in the cache */
        ms_block_unref(tail->spare);
        tail->spare = block;
    }
    return small;
}

struct ms_block *ms_tail_seal(struct ms_tail *tail)
{
    struct ms_block *block = tail->open;
    if (!block || tail->count == 0) return NULL;
    block->count = tail->count;
    block->first = tail->head + 1 - tail->count;
    block->last = tail->head;
    block->body_size = (uint32_t)body_size(tail);
    block->size = ms_group_size(block->body_size);
    tail->open = NULL;
    block = shrunk(tail, block);
    retain(tail, block);
    return block;
}

void ms_tail_add_take(struct ms_tail *tail, struct ms_block *block)
{
    tail->bytes += block->size;
    tail->unwritten += block->size;
    tail->head = block->last;
    retain(tail, block);
}

/* ---- finding ---------------------------------------------------------------------------------------------------------- */

/* Thousands of small groups may be retained, and going over them one by one takes a millisecond. Readers go on from where they were,
 * so the search begins at the nearest of the two ends and of the blocks that were found last. */
static struct ms_block *nearest(const struct ms_tail *tail, uint64_t lsn, uint32_t *place)
{
    struct ms_block *oldest = ms_list_entry(tail->retained.next, struct ms_block, node);
    struct ms_block *best = ms_list_entry(tail->retained.prev, struct ms_block, node);
    uint64_t distance = best->last - lsn;
    if (lsn - oldest->first < distance) {
        best = oldest;
        distance = lsn - oldest->first;
    }
    for (uint32_t i = 0; i < MS_TAIL_FOUND; i++) {
        struct ms_block *block = tail->found[i];
        if (!block) continue;
        uint64_t away = block->first > lsn ? block->first - lsn : lsn - block->first;
        if (away >= distance) continue;
        best = block;
        distance = away;
        *place = i;
    }
    return best;
}

struct ms_block *ms_tail_find(struct ms_tail *tail, uint64_t lsn)
{
    if (ms_list_empty(&tail->retained) || lsn < ms_list_entry(tail->retained.next, struct ms_block, node)->first ||
        lsn > ms_list_entry(tail->retained.prev, struct ms_block, node)->last)
        return NULL;
    uint32_t place = MS_TAIL_FOUND;
    struct ms_block *block = nearest(tail, lsn, &place);
    while (block->first > lsn) block = ms_list_entry(block->node.prev, struct ms_block, node);
    while (block->last < lsn) block = ms_list_entry(block->node.next, struct ms_block, node);
    if (place == MS_TAIL_FOUND) place = tail->found_next++ % MS_TAIL_FOUND;
    tail->found[place] = block;
    return block;
}

static void forget(struct ms_tail *tail, struct ms_block *block)
{
    for (uint32_t i = 0; i < MS_TAIL_FOUND; i++)
        if (tail->found[i] == block) tail->found[i] = NULL;
    ms_list_remove(&block->node);
    tail->retained_bytes -= block->capacity;
    if (!tail->spare && block->capacity == usual_capacity(tail) && atomic_load(&block->references) == 1)
        tail->spare = block; /* the next group is built in it */
    else
        ms_block_unref(block);
}

void ms_tail_written(struct ms_tail *tail, uint64_t lsn, uint64_t keep)
{
    tail->unwritten = open_bytes(tail);
    if (ms_list_empty(&tail->retained)) return;
    struct ms_block *block = ms_list_entry(tail->retained.next, struct ms_block, node), *written = ms_tail_find(tail, lsn);
    if (!written && lsn < block->first) written = block; /* the oldest one: not even that is written */
    if (written) tail->unwritten = tail->bytes - written->end_bytes + (written->last > lsn ? written->size : 0);
    while (!ms_list_empty(&tail->retained) && tail->retained_bytes > keep) {
        block = ms_list_entry(tail->retained.next, struct ms_block, node);
        if (block->last > lsn) break;
        forget(tail, block);
    }
}
