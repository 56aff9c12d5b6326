/* The change log on disk: segments of one generation directory.
 *
 *      log-0000000000000001  log-0000000000000002  log-0000000000000003 (made ahead)
 *
 * A segment's number (decimal in its name) rises by one; it reads as segment_bytes zeros that have their place on the disk before it is
 * used, so that a full disk is noticed before anything is appended (and the zeros are written if syncs are frequent, so that these don't
 * have to allocate). It holds a header, then whole groups:
 *
 *      0        8        12       16                24              32
 *      +--------+--------+--------+-----------------+----------------+-- groups, 8-aligned ... --+-- zeros --+
 *      |"MSLOG01\n"      | number u64               | first lsn u64  | hash u64 of the 24 before  |
 *      +-----------------+--------------------------+----------------+----------------------------+
 *
 *  The header (32 bytes) is written with the segment's first group; until then it is zeros, and the segment is empty. A
 *  segment with a header but no group is legal, wherever it stands: a crash between the two, or a large group that did not fit.
 *
 * Recovery rule (promise 8). Reading forward, the first place that is not a sound group with the next lsn is the end of the
 * log, n being the lsn expected there, unless that would drop something that was synced: then it is damage. It is damage if a
 * sound group header further on, in this segment (searched in steps of 8 bytes) or in a later one, has first > n and says
 * synced >= n. Damage is MS_E_DAMAGED with file and offset. Otherwise what follows the end is zeroed and later segments are
 * removed, and that is synced before the log is appended to, so that no stale group can ever follow a new one.
 *
 *  - The log goes on in segment k + 1 exactly if that one's header names the lsn that is due; then what stands behind the last
 *    group of segment k does not matter.
 *  - Segments are missing only where trimming was undone in part by a power loss, or where somebody removed files. Those before a gap
 *    are left-overs, and removed, if the snapshot has all their records and the segment behind the gap goes on from it.
 *  - A log that ends before the snapshot does is of no use: all its segments are removed, and the next one starts behind the snapshot.
 *  - What is kept is synced before the log counts it as synced.
 *
 * This module knows no thread: the writer functions belong to one caller (the loop thread). The two slow jobs, preparing and
 * syncing, are split in begin (caller), run (any one thread, touches only the job) and end (caller). Readers are separate
 * objects with file handles of their own. */
#ifndef MS_STATE_LOG_H
#define MS_STATE_LOG_H

#include "../base/fs.h"
#include "block.h"
#include "store.h"

enum { MS_SEGMENT_HEADER = 32 };

struct ms_log_config {
    uint64_t segment_bytes; /* 64 KiB..1 GiB; a group larger than a segment gets a segment of its own size */
    uint64_t max_bytes;     /* of all segments, prepared ones included */
};

struct ms_log; /* log.c */

/* Recovers the log in dir: folds every group after store->applied into store (checking marks), finds the end, cleans what
 * follows. fs must outlive the log; dir is copied. An empty dir gives an empty log that continues after store->applied.
 * MS_E_DAMAGED: the recovery rule; a log that starts after store->applied + 1 (a gap, both numbers named); a failed mark. A file
 * that can't be read (MS_E_IO), lack of memory and a group of a newer version (MS_E_VERSION) are never taken for the end of the log.
 * On failure records may have been folded into the store already. truncated (may be NULL) gets the number of bytes that were
 * dropped as a torn tail. */
int ms_log_open(struct ms_fs *fs, const char *dir, const struct ms_log_config *config, struct ms_store *store,
                struct ms_log **log, uint64_t *truncated);
void ms_log_close(struct ms_log *log); /* does not sync. NULL is allowed */

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* Writes blocks, consecutive and next in lsn order, with as few writes as segments allow. A block that is not finished yet
 * (the leader's own) gets header and hashes now, with time_us; a finished one (received) only gets our own synced lsn. 0
 * means that all of them are written. Any failure is final for this log object: later calls return MS_E_LOG_FAILED.
 * MS_E_NO_SPACE (and not final) if prepared segments don't suffice, before anything is written. */
int ms_log_write(struct ms_log *log, struct ms_block *const *blocks, size_t count, uint64_t time_us);

/* Bytes of groups that ms_log_write will surely take now, each group being at most `largest` bytes. */
uint64_t ms_log_room(const struct ms_log *log, uint64_t largest);

uint64_t ms_log_first(const struct ms_log *log);   /* first lsn that can be read; written + 1 if none */
uint64_t ms_log_written(const struct ms_log *log); /* last lsn */
uint64_t ms_log_synced(const struct ms_log *log);  /* last lsn known synced, by ms_log_sync_end or because recovery synced it */
uint64_t ms_log_bytes(const struct ms_log *log);   /* of groups in all segments */

/* ---- preparing a segment -------------------------------------------------------------------------------------------- */

enum { MS_LOG_WHY = 256 };

struct ms_prepare_job {
    struct ms_fs *fs;
    char path[MS_PATH_MAX], dir[MS_PATH_MAX];
    uint64_t number, size;
    bool zeros; /* to be written, not only reserved */
    struct ms_file *file;
    int rc;
    char why[MS_LOG_WHY]; /* the message of rc: run and end are on different threads */
};

void ms_log_limit(struct ms_log *log, uint64_t max_bytes); /* max_bytes from now on */

/* true and a job if a spare segment is wanted: none is prepared, or room for `largest` bytes is missing. false also when
 * max_bytes forbids it (*full says so) and while a job is under way. */
bool ms_log_prepare_begin(struct ms_log *log, uint64_t largest, struct ms_prepare_job *job, bool *full);
void ms_prepare_run(struct ms_prepare_job *job); /* creates, reserves or zero-fills (in 1 MiB pieces), syncs file and directory; sets rc */
int ms_log_prepare_end(struct ms_log *log, struct ms_prepare_job *job); /* takes the file; a failed job leaves no file */

/* ---- syncing ------------------------------------------------------------------------------------------------------ */

enum { MS_SYNC_FILES = 8 };

struct ms_sync_job {
    struct ms_fs *fs;
    struct ms_file *files[MS_SYNC_FILES];
    uint32_t count;
    uint64_t lsn; /* everything up to it is synced if rc is 0 */
    int rc;
    char why[MS_LOG_WHY];
};

/* true and a job if something is written that is not synced and no job is under way. */
bool ms_log_sync_begin(struct ms_log *log, struct ms_sync_job *job);
void ms_sync_run(struct ms_sync_job *job);
int ms_log_sync_end(struct ms_log *log, struct ms_sync_job *job); /* a failure is final for the log */

/* ---- trimming ----------------------------------------------------------------------------------------------------- */

/* Removes the oldest segments whose records are all <= lsn, as long as at least keep_bytes of groups stay. A segment that is
 * being written or synced stays. */
int ms_log_trim(struct ms_log *log, uint64_t lsn, uint64_t keep_bytes);

/* ---- reading ------------------------------------------------------------------------------------------------------ */

struct ms_log_reader; /* log_reader.c */

/* A reader that gives the groups of dir from the one that starts at lsn `from`. MS_E_NOT_FOUND if the log starts later or no
 * group starts there; the lsn behind the last group is fine, it may be written later. from = 0: the oldest group, of an empty log the
 * first one that will be written. May be used while a writer appends to and trims the same directory. dir is copied. */
int ms_log_reader_open(struct ms_fs *fs, const char *dir, uint64_t from, struct ms_log_reader **reader);

/* 1 and the next group as a block (one reference, the caller's) if it ends at or before `limit`; 0 if there is none yet.
 * limit is an lsn up to which the caller knows that the log is written: MS_E_DAMAGED with file and offset if a group at or before it is
 * bad or missing, MS_E_NOT_FOUND if it was trimmed away. UINT64_MAX = not known: then 0 where the log ends. */
int ms_log_reader_next(struct ms_log_reader *reader, uint64_t limit, struct ms_block **block);

/* File and offset of the group given last, for messages and `metasyncctl log`. */
void ms_log_reader_place(const struct ms_log_reader *reader, const char **path, uint64_t *offset); /* path is the reader's */
void ms_log_reader_close(struct ms_log_reader *reader); /* NULL is allowed */

/* The oldest lsn in dir, 0 if there is none. */
int ms_log_reader_first(struct ms_fs *fs, const char *dir, uint64_t *first);

#endif
