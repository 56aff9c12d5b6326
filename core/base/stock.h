/* Memory whose address stays readable for as long as the process lives: what is given back is kept for the next who wants a piece of its
 * kind, and never unmapped. So a thread may follow a pointer that others change meanwhile, if all it wants is to have something fetched into
 * its cache: it finds what was there, something else of the kind, or zeros, but never a fault.
 *
 * Any thread. A piece that is kept does not count in ms_mem_live, and a large one has no pages meanwhile. Under AddressSanitizer nothing is
 * kept (MS_STOCK_KEEPS is 0), so that it sees every use of what was given back. */
#ifndef MS_BASE_STOCK_H
#define MS_BASE_STOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define MS_STOCK_KEEPS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MS_STOCK_KEEPS 0
#endif
#endif
#ifndef MS_STOCK_KEEPS
#define MS_STOCK_KEEPS 1
#endif

/* Pieces of one kind, a static variable of its user: all of one size (a multiple of 4096) and alignment (a power of two). */
struct ms_stock {
    pthread_mutex_t mutex; /* PTHREAD_MUTEX_INITIALIZER */
    size_t size, alignment;
    size_t link; /* where in a kept piece the address of the next one stands */
    void *kept;
};

/* NULL = MS_E_MEMORY. *zero (may be NULL): it is all zeros, but for the link. */
void *ms_stock_take(struct ms_stock *stock, bool *zero);
void ms_stock_give(struct ms_stock *stock, void *piece); /* NULL is allowed */

/* Beforehand, off any lock: a piece that does not count as alive yet, and has its (small) pages, which takes some 0.2 ms for 2 MiB. Else each
 * page comes at its first touch, and whoever touches it waits. NULL: there is none. */
void *ms_stock_prepare(struct ms_stock *stock);
void ms_stock_keep(struct ms_stock *stock, void *piece); /* gives it back unused. NULL is allowed */

#endif
