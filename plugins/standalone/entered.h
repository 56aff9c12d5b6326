/* What a reload of the policy has let into the view: entries that an import gave away, as the policy did not want them then. The import
 * remembers what it has imported (table import_base); that is forgotten for these entries, and then an import brings them. */
#ifndef METASYNCD_ENTERED_H
#define METASYNCD_ENTERED_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "../../core/base/bytes.h"

struct files;

enum { ENTERED_SIGNAL = SIGUSR1 }; /* what the main thread gets when there is something to do; to be blocked in every thread */

struct entered {
    pthread_mutex_t mutex;
    pthread_t waker;     /* the main thread */
    struct ms_buf keys;  /* size u32, then the key in import_base: table, NUL, key */
    bool pending, all;   /* all: of some table more than was said, or memory was out */
};

void entered_init(struct entered *entered); /* by the main thread */
void entered_close(struct entered *entered);

/* The node's callback. key.data == NULL: more of this table than is known. */
void entered_add(struct entered *entered, const char *table, struct ms_bytes key);

bool entered_pending(struct entered *entered);

/* Has files->options->import imported again for what was added. 0 or MS_E_*; what failed is tried again with the next one. */
int entered_import(struct entered *entered, struct files *files);

#endif
