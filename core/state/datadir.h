/* The data directory: lock, identity, and generations with one atomic switch.
 *
 *      DIR/lock              held by the one node that uses the directory
 *      DIR/node              "metasync 1\nid <hex>\ncluster <name>\n"
 *      DIR/current           "gen-000001\n": the live generation; replaced atomically (temporary file, rename, sync)
 *      DIR/gen-000001/       log segments and snapshots
 *      DIR/gen-000002/       next generation while a bootstrap is under way; without meaning until `current` names it
 *      DIR/archive/          diverged tails and lost buffers, as readable files; never removed by metasync
 *
 * Whatever the moment of a crash, `current` names a generation that is whole: B is staged, synced, then named; only then is A
 * removed. Left-overs are removed at the next open. */
#ifndef MS_STATE_DATADIR_H
#define MS_STATE_DATADIR_H

#include "../base/fs.h"
#include "log.h"

struct ms_datadir {
    struct ms_fs *fs;
    char path[MS_PATH_MAX];
    char live[MS_PATH_MAX]; /* path of the live generation */
    char next[MS_PATH_MAX]; /* path of the staged one, "" if none */
    uint64_t generation;
    uint64_t node_id;
    struct ms_file *lock;
};

/* Creates what is missing, locks, reads identity and `current`, removes left-overs. new_id is used if the directory is new.
 * MS_E_LOCKED, MS_E_CLUSTER (it belongs to another cluster), MS_E_VERSION, MS_E_FORMAT (with file and what was expected). */
int ms_datadir_open(struct ms_fs *fs, const char *path, struct ms_bytes cluster, uint64_t new_id, struct ms_datadir *dir);
void ms_datadir_close(struct ms_datadir *dir); /* legal after a failed open */

/* Makes an empty next generation (replacing an unfinished one) and sets dir->next. */
int ms_datadir_stage(struct ms_datadir *dir);

/* Makes the staged generation the live one (its files must be synced). On failure the old one stays live, and the staged one is kept
 * for another try or ms_datadir_clean; except MS_E_UNKNOWN: `current` was renamed but could be neither synced nor put back, and nothing
 * may be written to either generation any more. */
int ms_datadir_switch(struct ms_datadir *dir);

/* Gives up the staged generation, and removes generations that are not live. */
int ms_datadir_clean(struct ms_datadir *dir);

/* Writes DIR/archive/name durably, never over an existing file (a number is added). `taken` gets the path. */
int ms_datadir_archive(struct ms_datadir *dir, const char *name, struct ms_bytes text, char taken[MS_PATH_MAX]);

/* The path of the live generation of a data directory that is in use or not; nothing is locked or changed. A directory without `current` is
 * taken for a generation itself. */
int ms_datadir_live(struct ms_fs *fs, const char *path, char live[MS_PATH_MAX]);

/* ---- recovery ------------------------------------------------------------------------------------------------------- */

struct ms_recovery {
    uint64_t snapshot_end;  /* the snapshot that was used, 0 = none */
    uint32_t bad_snapshots; /* newer ones that were refused */
    uint64_t truncated;     /* bytes of torn tail dropped */
    char note[256];         /* the newest refusal, in words */
};

/* Loads the newest sound snapshot of the live generation into the empty store, falling back to older ones, then recovers the
 * log behind it. MS_E_DAMAGED: snapshots exist but none is sound and the log does not reach back to lsn 1; or the log's
 * own damage. On failure the store is empty again and *log NULL. */
int ms_recover(struct ms_datadir *dir, struct ms_bytes cluster, const struct ms_log_config *config, struct ms_store *store,
               struct ms_log **log, struct ms_recovery *recovery);

#endif
