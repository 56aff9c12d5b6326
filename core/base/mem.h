/* The allocation seam: every byte of the library is taken here, so that a spec can make the n-th allocation fail and a
 * tear-down can prove that nothing is left. Any thread. */
#ifndef MS_BASE_MEM_H
#define MS_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* NULL when memory is out (or a spec says so); never aborts. The message is set to "out of memory (N bytes)". */
void *ms_alloc(size_t size);
void *ms_alloc_zero(size_t size);
void *ms_realloc(void *memory, size_t size); /* on failure the old block stays */
char *ms_strdup(const char *text);
void ms_release(void *memory); /* NULL is allowed */

/* Blocks that are alive now. */
int64_t ms_mem_live(void);

/* The countdown-th allocation from now fails, once (0 = none). Returns what was left of an earlier countdown. */
int64_t ms_mem_fail_after(int64_t countdown);

#endif
