/* The allocation seam: every byte of the library is taken here, so that a spec can make the n-th allocation fail and a
 * tear-down can prove that nothing is left. Any thread. */
#ifndef MS_BASE_MEM_H
#define MS_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NULL when memory is out (or a spec says so); never aborts. The message is set to "out of memory (N bytes)". */
void *ms_alloc(size_t size);
void *ms_alloc_zero(size_t size);
void *ms_alloc_aligned(size_t alignment, size_t size); /* alignment: a power of two, size: a multiple of it */
void *ms_realloc(void *memory, size_t size); /* on failure the old block stays */
char *ms_strdup(const char *text);
void ms_release(void *memory); /* NULL is allowed */

/* For allocators above this one, which cut blocks from larger ones: counts a block as alive; false (with the message) if it is the one
 * that has to fail. ms_mem_give undoes it. */
bool ms_mem_take(size_t size);
void ms_mem_give(void);

/* Blocks that are alive now. */
int64_t ms_mem_live(void);

/* The countdown-th allocation from now fails, once (0 = none). Returns what was left of an earlier countdown. */
int64_t ms_mem_fail_after(int64_t countdown);

#endif
