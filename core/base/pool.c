#include "pool.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "mem.h"
#include "stock.h"

/* Each chunk is twice as large as the one before, up to a huge page. */
enum { CHUNK_SIZES = 9, CHUNK_MIN = 8 << 10, CHUNK_MAX = CHUNK_MIN << (CHUNK_SIZES - 1), CHUNK_HEADER = 16, SCRAP_MIN = 512 };

#define CHUNKS(shift) {.mutex = PTHREAD_MUTEX_INITIALIZER, .size = CHUNK_MIN << (shift), .alignment = (shift) == CHUNK_SIZES - 1 ? CHUNK_MAX : 4096}
static struct ms_stock chunks[CHUNK_SIZES] = {CHUNKS(0), CHUNKS(1), CHUNKS(2), CHUNKS(3), CHUNKS(4), CHUNKS(5), CHUNKS(6), CHUNKS(7), CHUNKS(8)};

/* Large chunks that have their pages. None are made before a pool is about to want one. */
static _Atomic(void *) ready[MS_POOL_READY_MAX];
static atomic_bool wanted;

struct chunk { /* at its beginning */
    struct chunk *next;
    struct ms_stock *stock;
};

struct scrap {
    struct scrap *next;
    size_t size;
};

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

/* ready[0] is taken last: without it there is none. */
void ms_pool_stock_up(size_t count)
{
    struct ms_stock *stock = &chunks[CHUNK_SIZES - 1];
    if (!atomic_load_explicit(&wanted, memory_order_relaxed)) return;
    for (size_t i = 0; i < count; i++)
        if (!atomic_load_explicit(&ready[i], memory_order_relaxed)) ms_stock_keep(stock, atomic_exchange(&ready[i], ms_stock_prepare(stock)));
}

/* What is left of the old chunk is lost. A large chunk without its pages gets small ones: huge ones would be cleared at the first touch, 2 MiB
 * at once, in the middle of somebody's short lock. They are asked for when it is full, to be made in the background. */
static void *take_chunk(struct ms_stock *stock)
{
    bool large = stock == &chunks[CHUNK_SIZES - 1];
    if (stock == &chunks[CHUNK_SIZES - 2]) atomic_store_explicit(&wanted, true, memory_order_relaxed);
    void *chunk = NULL;
    for (size_t i = MS_POOL_READY_MAX; large && !chunk && i-- > 0;) chunk = atomic_exchange(&ready[i], NULL);
    if (!chunk) {
        chunk = ms_stock_take(stock, NULL);
        if (chunk && large) (void)madvise(chunk, stock->size, MADV_NOHUGEPAGE);
        return chunk;
    }
    if (ms_mem_take(stock->size)) return chunk;
    ms_stock_keep(stock, chunk);
    return NULL;
}

static int add_chunk(struct ms_pool *pool)
{
    struct ms_stock *stock = &chunks[pool->grown < CHUNK_SIZES ? pool->grown : CHUNK_SIZES - 1];
    struct chunk *chunk = take_chunk(stock), *full = pool->chunks;
    if (!chunk) return -1;
    if (full && full->stock == &chunks[CHUNK_SIZES - 1]) (void)madvise(full, CHUNK_MAX, MADV_HUGEPAGE);
    *chunk = (struct chunk){full, stock};
    pool->chunks = chunk;
    pool->grown++;
    pool->at = (uint8_t *)chunk + CHUNK_HEADER;
    pool->end = (uint8_t *)chunk + stock->size;
    return 0;
}

/* Makes at..end hold `size` bytes: the first scrap if it is large enough, else a new chunk. */
static int add_space(struct ms_pool *pool, size_t size)
{
    struct scrap *scrap = pool->scraps;
    if (!scrap || scrap->size < size) return add_chunk(pool);
    pool->scraps = scrap->next;
    pool->at = (uint8_t *)scrap;
    pool->end = pool->at + scrap->size;
    return 0;
}

void *ms_pool_alloc(struct ms_pool *pool, size_t size, uint8_t *units)
{
    size_t rounded = (size + MS_POOL_UNIT - 1) & ~(size_t)(MS_POOL_UNIT - 1);
    if (!MS_STOCK_KEEPS || rounded > MS_POOL_BLOCK_MAX) {
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
    if ((size_t)(pool->end - pool->at) < rounded && add_space(pool, rounded)) {
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

/* ---- arrays ------------------------------------------------------------------------------------------------------------ */

static size_t gap(const struct ms_pool *pool)
{
    return (MS_POOL_ARRAY_ALIGN - ((uintptr_t)pool->at & (MS_POOL_ARRAY_ALIGN - 1))) & (MS_POOL_ARRAY_ALIGN - 1);
}

/* Arrays are cut from whole chunks only: they are large, and scraps serve blocks better. */
static void *cut_array(struct ms_pool *pool, size_t size)
{
    while ((size_t)(pool->end - pool->at) < gap(pool) + size) {
        uint32_t index = pool->grown < CHUNK_SIZES ? pool->grown : CHUNK_SIZES - 1;
        if (size + MS_POOL_ARRAY_ALIGN > chunks[index].size && index < CHUNK_SIZES - 1) pool->grown++;
        else if (size + MS_POOL_ARRAY_ALIGN > chunks[index].size || add_chunk(pool)) return NULL;
    }
    void *array = pool->at + gap(pool);
    pool->at = (uint8_t *)array + size;
    return memset(array, 0, size);
}

void *ms_pool_array(struct ms_pool *pool, size_t size)
{
    if (!MS_STOCK_KEEPS) {
        void *array = ms_alloc_aligned(MS_POOL_ARRAY_ALIGN, size);
        return array ? memset(array, 0, size) : NULL;
    }
    if (!ms_mem_take(size)) return NULL;
    void *array = cut_array(pool, size);
    if (!array) ms_mem_give();
    return array;
}

void ms_pool_array_free(struct ms_pool *pool, void *array, size_t size)
{
    if (!array) return;
    if (!MS_STOCK_KEEPS) {
        ms_release(array);
        return;
    }
    ms_mem_give();
    if (size < SCRAP_MIN) return; /* not worth the look at each block */
    *(struct scrap *)array = (struct scrap){pool->scraps, size};
    pool->scraps = array;
}

void ms_pool_close(struct ms_pool *pool)
{
    for (struct chunk *chunk = pool->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        ms_stock_give(chunk->stock, chunk);
    }
    ms_pool_init(pool);
}
