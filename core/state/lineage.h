/* Epochs and the list of epochs that a log went through. Pure data, no policy. */
#ifndef MS_STATE_LINEAGE_H
#define MS_STATE_LINEAGE_H

#include "../base/bytes.h"

struct ms_epoch {
    uint64_t reign, run, id; /* compared in this order; all 0 = none */
};

int ms_epoch_compare(struct ms_epoch a, struct ms_epoch b); /* -1, 0, 1; never by subtraction */

struct ms_lineage_entry {
    struct ms_epoch epoch;
    uint64_t first; /* lsn of its EPOCH record */
};

/* Oldest first; epochs and first lsns rise strictly. Kept whole: 40 bytes an epoch. */
struct ms_lineage {
    struct ms_lineage_entry *entries;
    uint32_t count, capacity;
};

enum { MS_LINEAGE_MAX = 65536 }; /* what a reader takes memory for at most */

void ms_lineage_init(struct ms_lineage *lineage);
void ms_lineage_close(struct ms_lineage *lineage);
int ms_lineage_add(struct ms_lineage *lineage, struct ms_epoch epoch, uint64_t first); /* MS_E_FORMAT if not rising */
int ms_lineage_copy(struct ms_lineage *copy, const struct ms_lineage *lineage); /* replaces the content; MS_E_MEMORY: it is empty */
struct ms_epoch ms_lineage_last(const struct ms_lineage *lineage); /* all 0 if empty */

/* The payload of a LINEAGE record. */
void ms_lineage_encode(const struct ms_lineage *lineage, struct ms_buf *buf);
int ms_lineage_decode(struct ms_bytes payload, struct ms_lineage *lineage); /* replaces the content; MS_E_FORMAT, MS_E_MEMORY */

#endif
