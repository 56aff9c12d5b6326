/* Extras on disk, in the archive folder of a data directory; see extras.h. For drive/ and sim/, over the file system seam.
 *
 *      extras-REIGN-RUN-EPOCH-1     what the log had and the new leader's has not: the last change of each key
 *      extras-REIGN-RUN-EPOCH-2     what the buffers held: newer than the log's
 *      extras-....at                how far it is: made anew for each window
 *      loss-REIGN-RUN-EPOCH-1.jsonl the loss report: one line for each extra
 *
 * REIGN, RUN and EPOCH (16 hexadecimal digits each) are of the epoch in which the node stopped, so that names sort in the order in which
 * things happened, and a file that is made twice (a crash came before the bootstrap was complete) replaces itself. Integers are little
 * endian.
 *
 *      0          8       16      24      32
 *      +----------+-------+-------+-------+-- count x { size u32 | hash u32 | record, size bytes } --
 *      |"MSEXTRA1"| id    | count | hash  |
 *      +----------+-------+-------+-------+
 *
 *  - hash of the header: XXH3-64 of the 24 bytes before it; of a record: low half of XXH3 of its bytes (ms_extra_encode).
 *  - ".at": "MSEXTAT1" | id | done | sent | boot | offset | report | hash of the 56 bytes before it, u64 each: records below `done` are in
 *    the report, those below `sent` may have been sent, to the leader with that boot id (0: several); record `done` stands at `offset`;
 *    `report` is the size of the loss report when `done` was written, and what stands behind it is dropped before it is appended to,
 *    so that a crash leaves one line for each extra.
 *
 * A file is removed when its last line is in the report and that is synced. The oldest file is worked off first. */
#ifndef MS_SYNC_EXTRAS_FILE_H
#define MS_SYNC_EXTRAS_FILE_H

#include "../state/datadir.h"
#include "extras.h"
#include "render.h"

enum { MS_EXTRAS_MEMORY = 32 << 20 }; /* what ms_extras_make holds at a time; it reads log and snapshot again for each such part */

/* Where the records are from. */
struct ms_extras_source {
    struct ms_datadir *dir;
    uint64_t from, to;               /* lsns; from - 1 is the last one in common */
    const struct ms_lineage *lineage; /* of the log */
    struct ms_render_names *names;   /* tables that were defined before; learns more */
    uint64_t id;                     /* for the file: random */
    size_t memory;                   /* 0 = MS_EXTRAS_MEMORY */
};

/* Makes the file for the records from..to of the live generation. *count: extras in it, 0 = no file was needed. Base is looked up in the
 * newest snapshot that ends at or before from - 1 and the log behind it; without such a snapshot, in what the log has. Records that the
 * log has no more become one entry without a table, whose lsn is the last of them. Durable when it returns 0. */
int ms_extras_make(const struct ms_extras_source *source, uint64_t *count);

/* The same of what was buffered when an epoch ended. extras: that epoch (ms_extras_put_epoch), then records as in a batch. */
int ms_extras_keep(struct ms_datadir *dir, uint64_t id, struct ms_bytes extras, uint64_t *count);

/* The extras of all files that are not in a report. Errors as of the file system; a damaged file counts as none. */
int ms_extras_pending(struct ms_datadir *dir, uint64_t *pending);

/* The next ones of the oldest file: at most MS_EXTRAS_WINDOW and about MS_EXTRAS_BYTES, at least one. Notes durably that they may be sent to
 * the leader with this boot id. batch is zeroed memory; its bytes are the caller's also after an error. MS_E_DAMAGED: the file named in the
 * message is set aside (.bad); ask again for the next one. */
int ms_extras_read(struct ms_datadir *dir, uint64_t boot, struct ms_extras_batch *batch);

/* Appends lines to the report of the file `id`, which is the oldest, then notes that everything below `done` is reported. *pending and the
 * report's path as afterwards. MS_E_NOT_FOUND: there is no such file. */
int ms_extras_report(struct ms_datadir *dir, uint64_t id, uint64_t done, struct ms_bytes text, uint64_t *pending, char path[MS_PATH_MAX]);

#endif
