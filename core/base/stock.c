#include "stock.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "error.h"
#include "mem.h"

enum { PAGE = 4096, LARGE = 16 * PAGE };

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* From the system, all zeros. What is mapped too much for the sake of the alignment goes back at once. */
static void *map(size_t size, size_t alignment)
{
    size_t whole = alignment > PAGE ? size + alignment : size;
    uint8_t *at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    size_t before = (alignment - ((uintptr_t)at & (alignment - 1))) & (alignment - 1);
    if (before) (void)munmap(at, before);
    if (whole - before > size) (void)munmap(at + before + size, whole - before - size);
    return at + before;
}

static void **link_of(const struct ms_stock *stock, void *piece)
{
    return (void **)(void *)((uint8_t *)piece + stock->link);
}

static void *unkeep(struct ms_stock *stock)
{
    (void)pthread_mutex_lock(&stock->mutex);
    void *piece = stock->kept;
    if (piece) stock->kept = *link_of(stock, piece);
    (void)pthread_mutex_unlock(&stock->mutex);
    return piece;
}

void ms_stock_keep(struct ms_stock *stock, void *piece)
{
    if (!piece) return;
    if (stock->size >= LARGE) (void)madvise(piece, stock->size, MADV_DONTNEED);
    (void)pthread_mutex_lock(&stock->mutex);
    *link_of(stock, piece) = stock->kept;
    stock->kept = piece;
    (void)pthread_mutex_unlock(&stock->mutex);
}

void *ms_stock_take(struct ms_stock *stock, bool *zero)
{
    if (zero) *zero = true;
    if (!MS_STOCK_KEEPS) return ms_alloc_zero(stock->size);
    if (!ms_mem_take(stock->size)) return NULL;
    void *piece = unkeep(stock);
    if (zero) *zero = !piece || stock->size >= LARGE;
    if (!piece) piece = map(stock->size, stock->alignment);
    if (piece) return piece;
    ms_mem_give();
    (void)ms_fail(MS_E_MEMORY, "out of memory (%zu bytes)", stock->size);
    return NULL;
}

void ms_stock_give(struct ms_stock *stock, void *piece)
{
    if (!piece) return;
    if (!MS_STOCK_KEEPS) {
        ms_release(piece);
        return;
    }
    ms_mem_give();
    ms_stock_keep(stock, piece);
}

void *ms_stock_prepare(struct ms_stock *stock)
{
    uint8_t *piece = unkeep(stock);
    if (!piece) piece = map(stock->size, stock->alignment);
    if (!piece) return NULL;
    (void)madvise(piece, stock->size, MADV_NOHUGEPAGE); /* these take long to find, and to clear in one go */
    if (madvise(piece, stock->size, MADV_POPULATE_WRITE) == 0) return piece;
    for (size_t at = 0; at < stock->size; at += PAGE) ((volatile uint8_t *)piece)[at] = 0;
    return piece;
}
