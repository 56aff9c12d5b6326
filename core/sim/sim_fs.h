/* The simulator's file system: behind the seam of base/fs.h, in memory, without a clock, everything random from one seed.
 *
 * What is kept, and what each kind of end leaves of it:
 *
 *                                    process crash    power loss
 *      bytes synced                  kept             kept
 *      bytes written, not synced     kept             each write lost, kept or torn by chance; see below
 *      names synced (sync_dir)       kept             kept
 *      names not synced              kept             each change lost or kept by chance, in order for one name
 *      handles, locks                invalid          invalid
 *
 *  - Writes persist in any order: a later one may be there when an earlier one is not ("reordered"). Where two of them
 *    overlap the newer bytes win, as a page cache never writes an older page over a newer one. A kept write may be torn:
 *    512-byte sectors of it are missing, or it stops at some byte.
 *  - A file's size is journalled: after power loss it is one that the file had since its last sync. Bytes that the size
 *    covers and no write reached are zeros.
 *  - A name's changes persist in order; changes of different names of one directory in any order. A rename is there or not:
 *    its target is the old file or the new one, never missing. A synced file whose name was not synced may be gone.
 *  - What a failed sync of a file should have made durable may be lost at the next power loss, even if a later sync
 *    returns 0. After a failed sync_dir the names are as un-synced as before.
 *  - Space is counted as the sizes of all files. Overwriting takes none.
 *  - Renames stay in one directory and never replace a directory: anything else is MS_E_IO, as code that does it is to be
 *    noticed. Names of a listing come in no particular order.
 *
 * Each file and directory draws how it fares (all lost, all kept, a prefix kept, all but one kept, or at random), so that
 * the extremes come up too.
 *
 * One simulated machine has one of these; the simulator owns it and frees it after the node's last handle was closed. Not
 * thread-safe. All functions are cheap; power loss and crash take time in proportion to what is stored. */
#ifndef MS_SIM_FS_H
#define MS_SIM_FS_H

#include "../base/fs.h"

struct ms_sim_fs; /* sim_fs.c */

/* An empty file system: "/" only. Leading "/" and "." in paths mean nothing, so "/d/x" and "d/x" are the same file. NULL =
 * MS_E_MEMORY. free closes handles that are still open. */
struct ms_sim_fs *ms_sim_fs_new(uint64_t seed);
void ms_sim_fs_free(struct ms_sim_fs *fs);   /* NULL is allowed */
struct ms_fs *ms_sim_fs(struct ms_sim_fs *fs); /* the seam; lives as long as fs */

/* ---- the end of a process ------------------------------------------------------------------------------------------ */

/* What one power loss did. Writes are calls of ops.write, in the file they went to. */
struct ms_sim_fs_loss {
    uint64_t kept;      /* un-synced writes that are there as a whole */
    uint64_t lost;      /* ... of which nothing is there */
    uint64_t torn;      /* ... of which a part is there */
    uint64_t reordered; /* ... kept or torn behind one of the same file that is lost */
    uint64_t names_kept, names_lost; /* un-synced creations, renames and removals */
};

/* The machine loses power and is on again. Every handle and lock is invalid from now on: operations return MS_E_IO, close
 * is allowed and needed. Faults armed by ms_sim_fs_fail_after and a stop are disarmed; chances, capacity and counters stay.
 * loss may be NULL. */
void ms_sim_fs_power_loss(struct ms_sim_fs *fs, struct ms_sim_fs_loss *loss);

/* The process is killed: everything written is there (and still not synced). Handles, locks and faults as above. */
void ms_sim_fs_crash(struct ms_sim_fs *fs);

/* The machine stops after `changes` more operations that change something (a new or emptied file, write, truncate, reserve, sync,
 * rename, remove, mkdir of a new directory, sync_dir): every operation after them returns MS_E_IO, until power loss or
 * crash. For all k: stop after k, run, power loss, look. UINT64_MAX = never. */
void ms_sim_fs_stop_after(struct ms_sim_fs *fs, uint64_t changes);
bool ms_sim_fs_stopped(const struct ms_sim_fs *fs);

/* ---- faults -------------------------------------------------------------------------------------------------------- */

enum ms_sim_fs_op {
    MS_SIM_FS_OPEN = 0,
    MS_SIM_FS_READ = 1,
    MS_SIM_FS_WRITE = 2,
    MS_SIM_FS_TRUNCATE = 3,
    MS_SIM_FS_RESERVE = 4,
    MS_SIM_FS_SYNC = 5,
    MS_SIM_FS_RENAME = 6,
    MS_SIM_FS_REMOVE = 7,
    MS_SIM_FS_MKDIR = 8,
    MS_SIM_FS_SYNC_DIR = 9,
    MS_SIM_FS_LIST = 10,
    MS_SIM_FS_LOCK = 11,
    MS_SIM_FS_OPS = 12,
};

/* The nth next call of op, counted from 1, fails once with MS_E_IO; 0 disarms. Only calls whose path (a rename's first one)
 * contains match are counted (copied, at most 63 bytes; NULL or "" = every call). One such fault per op; a new one replaces
 * it. A failed write may have put a part; a failed sync may have made a part durable; the others change nothing. */
void ms_sim_fs_fail_after(struct ms_sim_fs *fs, int op, uint32_t nth, const char *match);

/* Every call of op fails so with a chance of per_million; 0 = none. */
void ms_sim_fs_fail_often(struct ms_sim_fs *fs, int op, uint32_t per_million);

/* A write of 2 bytes or more puts fewer of them (at least 1) with a chance of per_million. */
void ms_sim_fs_short_writes(struct ms_sim_fs *fs, uint32_t per_million);

/* The disk's size in bytes; UINT64_MAX (at first) = no bound. A write that needs more puts what fits; if that is nothing it
 * fails with MS_E_NO_SPACE. May be set below what is used. */
void ms_sim_fs_capacity(struct ms_sim_fs *fs, uint64_t bytes);
uint64_t ms_sim_fs_used(const struct ms_sim_fs *fs);

/* XORs the byte at offset with flip, as it is read now and as it is after a power loss. MS_E_NOT_FOUND; MS_E_INVALID beyond
 * the end. */
int ms_sim_fs_corrupt(struct ms_sim_fs *fs, const char *path, uint64_t offset, uint8_t flip);

/* ---- what happened --------------------------------------------------------------------------------------------------- */

struct ms_sim_fs_counters {
    uint64_t calls[MS_SIM_FS_OPS]; /* by enum ms_sim_fs_op, failed ones included */
    uint64_t changes;              /* operations that ms_sim_fs_stop_after counts */
    uint64_t bytes_written;
    uint64_t short_writes, enospc;  /* a full disk is no short write unless chance made it one */
    uint64_t eio;                   /* injected */
    uint64_t power_losses, crashes, corrupted;
    struct ms_sim_fs_loss loss; /* sums over all power losses and failed syncs */
};

const struct ms_sim_fs_counters *ms_sim_fs_counters(const struct ms_sim_fs *fs); /* lives as long as fs */

/* Handles and locks that were not closed yet, invalid ones included: 0 after a clean shut-down. */
uint32_t ms_sim_fs_handles(const struct ms_sim_fs *fs);

#endif
