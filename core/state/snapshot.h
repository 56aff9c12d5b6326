/* Snapshots: the tables at a position, in one self-contained file of groups.
 *
 *      snap-00000000000012345  (its end lsn in the name, 20 digits)
 *
 *      META     BEGIN(start S, id) LINEAGE TABLE...
 *      ENTRIES  PUT ... PUT      the tables, walked shard by shard while changes went on: each entry as it was at some
 *      ENTRIES  PUT ... PUT      moment between S and E
 *      (log)    the groups S+1 .. E, as they stand in the log: folded over the entries they give exactly the tables at E
 *      META     LINEAGE MARK END(end E, entries)     the group's time is that of the last change, 0 = not known
 *
 * Puts and deletes are absolute values, so folding a record that an entry already contains is harmless. MARK records among the log groups
 * are not checked (the entries are ahead of them); the last META's MARK is, and without it the file is no snapshot. A file is
 * written as snap.tmp, synced in pieces of 4 MiB (one long sync would hold up the log's), and renamed when it is whole. */
#ifndef MS_STATE_SNAPSHOT_H
#define MS_STATE_SNAPSHOT_H

#include "../base/fs.h"
#include "store.h"

/* ---- writing: [lock] = with the node's lock, [io] = without it ----------------------------------------------------- */

struct ms_snapshot_writer;

/* [io] Creates dir/snap.tmp (replacing a left-over). */
int ms_snapshot_new(struct ms_fs *fs, const char *dir, struct ms_bytes cluster, uint64_t id, uint32_t group_bytes,
                    struct ms_snapshot_writer **writer);

/* [lock] Takes the start position (store->applied, which must be the end of a group), lineage and tables. Not while store->fuzzy. */
int ms_snapshot_start(struct ms_snapshot_writer *writer, const struct ms_store *store);

/* [lock] Encodes the logged entries of the next buckets (at least some) until about `bytes` are pending. 1 = more to walk, 0 = walked.
 * MS_E_AGAIN: a table is gone, all tables were replaced. After a failed step every later one fails. */
int ms_snapshot_walk(struct ms_snapshot_writer *writer, const struct ms_store *store, size_t bytes);

/* [io] Writes what is pending to the file, syncing every 4 MiB. */
int ms_snapshot_write(struct ms_snapshot_writer *writer);

/* [lock] The walk is over: takes the end position, lineage and mark. store->applied must be the end of a group. */
int ms_snapshot_cut(struct ms_snapshot_writer *writer, const struct ms_store *store);

/* [io] The log is written up to the end position: copies its groups start+1..end from log_dir, at most `bytes` of them a call.
 * 1 = more, 0 = all. */
int ms_snapshot_copy_log(struct ms_snapshot_writer *writer, const char *log_dir, size_t bytes);

/* [io] Writes the last group, syncs, renames to snap-<end>, syncs the directory. */
int ms_snapshot_finish(struct ms_snapshot_writer *writer);

uint64_t ms_snapshot_id(const struct ms_snapshot_writer *writer);
uint64_t ms_snapshot_end_lsn(const struct ms_snapshot_writer *writer); /* 0 before the cut */
uint64_t ms_snapshot_written(const struct ms_snapshot_writer *writer); /* bytes in the file, whole groups */

void ms_snapshot_free(struct ms_snapshot_writer *writer); /* removes snap.tmp unless finished. NULL is allowed */

/* ---- loading ------------------------------------------------------------------------------------------------------- */

/* Folds the groups of one snapshot, in order, into an empty store; from a file or as they arrive. */
struct ms_snapshot_loader {
    struct ms_store *store;
    int phase;
    uint64_t id, start, end, entries, next_entry;
    bool complete; /* END was there and its mark fits: the store is the tables at `end` */
};

void ms_snapshot_loader_init(struct ms_snapshot_loader *loader, struct ms_store *store);

/* One checked or unchecked whole group (it is checked here). cluster: what BEGIN must name, data == NULL = any. MS_E_FORMAT or
 * MS_E_DAMAGED (order, numbering, mark), MS_E_CLUSTER, MS_E_MEMORY: the store is to be thrown away. */
int ms_snapshot_loader_group(struct ms_snapshot_loader *loader, struct ms_bytes group, struct ms_bytes cluster);

/* Loads a file into an empty store; MS_E_DAMAGED with file and offset. */
int ms_snapshot_load(struct ms_fs *fs, const char *path, struct ms_bytes cluster, struct ms_store *store);

struct ms_snapshot_name {
    uint64_t end;
    char name[32];
};

enum { MS_SNAPSHOTS_MAX = 32 };

/* Finished snapshots of dir, newest first; more than MS_SNAPSHOTS_MAX are left out at the old end. */
int ms_snapshot_list(struct ms_fs *fs, const char *dir, struct ms_snapshot_name names[MS_SNAPSHOTS_MAX], uint32_t *count);

/* The id in a snapshot file's BEGIN record. */
int ms_snapshot_read_id(struct ms_fs *fs, const char *path, uint64_t *id);

/* Removes all but the newest `keep` (1..MS_SNAPSHOTS_MAX), and never one that ends at or after `pinned` (0 = none pinned). Files that
 * recovery set aside as NAME.bad go with the snapshots of their age. */
int ms_snapshot_prune(struct ms_fs *fs, const char *dir, uint32_t keep, uint64_t pinned);

/* Whole groups from a snapshot file (finished or growing) at offset, at most `size` bytes but at least one group; *data is grown
 * as needed. *got = 0: nothing more below `limit` (the file's written size). */
int ms_snapshot_read(struct ms_fs *fs, struct ms_file *file, uint64_t offset, uint64_t limit, size_t size, struct ms_buf *data, size_t *got);

/* Calls fn for each group of a finished snapshot file, in order; non-zero ends it and is returned. Bodies are not checked beforehand. */
typedef int (*ms_snapshot_group_fn)(void *context, struct ms_bytes group);
int ms_snapshot_groups(struct ms_fs *fs, const char *path, ms_snapshot_group_fn fn, void *context);

#endif
