#include "block.h"

#include <stdatomic.h>

#include "../base/mem.h"

struct ms_block *ms_block_new(size_t capacity)
{
    struct ms_block *block = ms_alloc(sizeof *block + capacity);
    if (!block) return NULL;
    memset(block, 0, sizeof *block);
    ms_list_init(&block->node);
    atomic_init(&block->references, 1);
    block->capacity = capacity;
    return block;
}

struct ms_block *ms_block_ref(struct ms_block *block)
{
    atomic_fetch_add_explicit(&block->references, 1, memory_order_relaxed);
    return block;
}

void ms_block_unref(struct ms_block *block)
{
    if (block && atomic_fetch_sub_explicit(&block->references, 1, memory_order_acq_rel) == 1) ms_release(block);
}

void ms_block_finish(struct ms_block *block, uint64_t synced, uint64_t time_us)
{
    struct ms_group_header header = {
        .body_size = block->body_size,
        .count = block->count,
        .first = block->first,
        .synced = synced,
        .time_us = time_us,
    };
    ms_group_seal(block->data, &header);
    block->finished = true;
}

struct ms_block *ms_block_copy(struct ms_bytes groups)
{
    struct ms_block *block = ms_block_new(groups.size);
    if (!block) return NULL;
    memcpy(block->data, groups.data, groups.size);
    block->size = groups.size;
    block->finished = true;
    return block;
}

struct ms_block *ms_block_of(struct ms_bytes group, const struct ms_group_header *header)
{
    struct ms_block *block = ms_block_copy(ms_bytes(group.data, ms_group_size(header->body_size)));
    if (!block) return NULL;
    block->body_size = header->body_size;
    block->count = header->count;
    block->first = header->first;
    block->last = ms_group_last(header);
    return block;
}
