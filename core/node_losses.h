/* Loss reports (and other files of the archive) read back, line by line, without a node. Internal to core/node_dump.c, core/node_replay.c. */
#ifndef MS_NODE_LOSSES_H
#define MS_NODE_LOSSES_H

#include "base/fs.h"

struct ms_loss_line {
    const char *path; /* of the report; borrowed, as all of this */
    uint64_t number;  /* from 1 */
    struct ms_bytes text;
};
typedef int (*ms_loss_fn)(void *context, const struct ms_loss_line *line); /* non-zero ends it and is returned */

bool ms_losses_named(const char *name); /* loss-*.jsonl */

/* Calls fn for each whole line of a file: half a line at its end is being written. Errors: as ms_fs_read_file. */
int ms_losses_read(struct ms_fs *fs, const char *path, ms_loss_fn fn, void *context);

/* The same for all loss reports of a folder, in the order of their names. Errors also: NOT_FOUND (there is no such folder). */
int ms_losses_read_all(struct ms_fs *fs, const char *folder, ms_loss_fn fn, void *context);

#endif
