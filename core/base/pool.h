/* A pool of small blocks that live and die with their owner (a table's entries), and of its arrays.
 *
 * Blocks are cut one after the other from chunks, the larger ones of which are 2 MiB of huge pages: what is looked up at random in a
 * table of some size misses the processor's address cache otherwise, which costs more than the look-up. There is no header
 * before a block; a freed one serves the next block of its size, and memory goes back to the system when the pool is closed.
 * Addresses stay readable even then (stock.h).
 *
 * Sizes are rounded up to 8 bytes. A block of more than MS_POOL_BLOCK_MAX bytes is an allocation of its own. Every block counts in
 * ms_mem_live and may fail by ms_mem_fail_after, as if it came from ms_alloc; under AddressSanitizer it does, so that it
 * sees what happens around it. Not thread-safe. */
#ifndef MS_BASE_POOL_H
#define MS_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MS_POOL_UNIT = 8, MS_POOL_BLOCK_MAX = 255 * MS_POOL_UNIT, MS_POOL_ARRAY_ALIGN = 64 };

struct ms_pool {
    void *chunks;      /* all of them, linked by their first word */
    uint8_t *at, *end; /* what is left of the newest, or of an array that was freed */
    void *scraps;      /* freed arrays, to be cut up in their turn */
    uint32_t grown;    /* chunks taken so far, up to the largest size */
    void *free[MS_POOL_BLOCK_MAX / MS_POOL_UNIT + 1]; /* by size in units, linked by their first word */
};

void ms_pool_init(struct ms_pool *pool);

/* NULL = MS_E_MEMORY. *units is what ms_pool_free wants back: the size in units, 0 for a block of its own. */
void *ms_pool_alloc(struct ms_pool *pool, size_t size, uint8_t *units);
void ms_pool_free(struct ms_pool *pool, void *block, uint8_t units);

/* size: a multiple of MS_POOL_ARRAY_ALIGN, which its address is too; zeros. NULL = MS_E_MEMORY, or more than a chunk holds. */
void *ms_pool_array(struct ms_pool *pool, size_t size);
void ms_pool_array_free(struct ms_pool *pool, void *array, size_t size); /* NULL is allowed */

/* Every block and array must have been freed. */
void ms_pool_close(struct ms_pool *pool);

enum { MS_POOL_READY_MAX = 4 };

/* Has large chunks ready, pages and all, for the next pools that want one: as many as are asked for, 1 ... MS_POOL_READY_MAX. Cheap if they are.
 * Any thread, without a lock that others wait for: each chunk takes 0.2 to 1 ms. */
void ms_pool_stock_up(size_t count);

#endif
