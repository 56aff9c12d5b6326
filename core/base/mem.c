#include "mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* One counter per thread would need registration to be summed; instead the hot path has one relaxed add on a line of its
 * own. The countdown is read only when armed. */
static _Alignas(64) _Atomic int64_t live;
static _Alignas(64) _Atomic int64_t countdown;

int64_t ms_mem_live(void)
{
    return atomic_load_explicit(&live, memory_order_relaxed);
}

int64_t ms_mem_fail_after(int64_t count)
{
    return atomic_exchange(&countdown, count);
}

static int must_fail(void)
{
    if (atomic_load_explicit(&countdown, memory_order_relaxed) <= 0) return 0;
    return atomic_fetch_sub(&countdown, 1) == 1;
}

static void *taken(void *memory, size_t size, int fresh)
{
    if (!memory) {
        (void)ms_fail(MS_E_MEMORY, "out of memory (%zu bytes)", size);
        return NULL;
    }
    if (fresh) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return memory;
}

void *ms_alloc(size_t size)
{
    return taken(must_fail() ? NULL : malloc(size ? size : 1), size, 1);
}

void *ms_alloc_zero(size_t size)
{
    return taken(must_fail() ? NULL : calloc(1, size ? size : 1), size, 1);
}

void *ms_alloc_aligned(size_t alignment, size_t size)
{
    return taken(must_fail() ? NULL : aligned_alloc(alignment, size), size, 1);
}

bool ms_mem_take(size_t size)
{
    static char somewhere;
    return taken(must_fail() ? NULL : &somewhere, size, 1) != NULL;
}

void ms_mem_give(void)
{
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
}

void *ms_realloc(void *memory, size_t size)
{
    return taken(must_fail() ? NULL : realloc(memory, size ? size : 1), size, memory == NULL);
}

char *ms_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = ms_alloc(size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

void ms_release(void *memory)
{
    if (!memory) return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(memory);
}
