#include "pool.h"

#include <string.h>
#include <sys/mman.h>

#include "mem.h"

#if defined(__SANITIZE_ADDRESS__)
#define PASS_THROUGH 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PASS_THROUGH 1
#endif
#endif
#ifndef PASS_THROUGH
#define PASS_THROUGH 0
#endif

enum { CHUNK_MIN = 8 << 10, CHUNK_MAX = 2 << 20, CHUNK_HEADER = 16 };

void ms_pool_init(struct ms_pool *pool)
{
    memset(pool, 0, sizeof *pool);
}

static void *next_of(void *block)
{
    void *next;
    memcpy(&next, block, sizeof next);
    return next;
}

static void link_before(void *block, void **list)
{
    memcpy(block, list, sizeof *list);
    *list = block;
}

/* Each chunk is twice as large as the one before, up to a huge page. What is left of the old one is lost. A full chunk is offered to
 * the kernel as a huge page, to be made one in the background; asked for before, the first touch would clear 2 MiB at once, in the
 * middle of somebody's short lock. */
static int add_chunk(struct ms_pool *pool)
{
    size_t size = pool->chunk_size ? pool->chunk_size * 2 : CHUNK_MIN;
    if (size > CHUNK_MAX) size = CHUNK_MAX;
    uint8_t *chunk = ms_alloc_aligned(size == CHUNK_MAX ? CHUNK_MAX : CHUNK_HEADER, size);
    if (!chunk) return -1;
    if (pool->chunk_size == CHUNK_MAX) (void)madvise(pool->chunks, CHUNK_MAX, MADV_HUGEPAGE); /* a wish; small pages do as well */
    link_before(chunk, &pool->chunks);
    pool->chunk_size = size;
    pool->at = chunk + CHUNK_HEADER;
    pool->end = chunk + size;
    return 0;
}

void *ms_pool_alloc(struct ms_pool *pool, size_t size, uint8_t *units)
{
    size_t rounded = (size + MS_POOL_UNIT - 1) & ~(size_t)(MS_POOL_UNIT - 1);
    if (PASS_THROUGH || rounded > MS_POOL_BLOCK_MAX) {
        *units = 0;
        return ms_alloc(size);
    }
    size_t index = rounded / MS_POOL_UNIT;
    *units = (uint8_t)index;
    if (!ms_mem_take(size)) return NULL;
    void *block = pool->free[index];
    if (block) {
        pool->free[index] = next_of(block);
        return block;
    }
    if ((size_t)(pool->end - pool->at) < rounded && add_chunk(pool)) {
        ms_mem_give();
        return NULL;
    }
    block = pool->at;
    pool->at += rounded;
    return block;
}

void ms_pool_free(struct ms_pool *pool, void *block, uint8_t units)
{
    if (!block) return;
    if (units == 0) {
        ms_release(block);
        return;
    }
    link_before(block, &pool->free[units]);
    ms_mem_give();
}

void ms_pool_close(struct ms_pool *pool)
{
    while (pool->chunks) {
        void *chunk = pool->chunks;
        pool->chunks = next_of(chunk);
        ms_release(chunk);
    }
    ms_pool_init(pool);
}
