/* What the files of the disk side share. Not for callers: they include disk.h. */
#ifndef MS_DRIVE_DISK_INSIDE_H
#define MS_DRIVE_DISK_INSIDE_H

#include "../base/error.h"
#include "../base/mem.h"
#include "disk.h"

enum ms_disk_kind {
    /* done by the loop, and so never while an ordered job of the bulk thread is under way */
    MS_DISK_WRITE,
    MS_DISK_SYNC,
    MS_DISK_RESERVE,
    MS_DISK_TRIM,
    MS_DISK_MAKE,
    /* bulk thread, in any order */
    MS_DISK_READ,
    MS_DISK_SNAPSHOT_READ,
    MS_DISK_FORGET,
    MS_DISK_DISCARD,
    MS_DISK_EXTRAS,
    MS_DISK_REPORT,
    /* bulk thread, in order */
    MS_DISK_ARCHIVE,
    MS_DISK_STAGE_BEGIN,
    MS_DISK_STAGE_WRITE,
    MS_DISK_STAGE_COMMIT,
    MS_DISK_STAGE_ABORT,
    MS_DISK_CLEAN, /* removes generations that are not live */
};

/* Operations of the log wait for these. (To remove old files nothing has to wait, though it keeps its place among them.) */
static inline bool ms_disk_is_ordered(int kind)
{
    return kind >= MS_DISK_ARCHIVE && kind != MS_DISK_CLEAN;
}

struct ms_disk_job {
    struct ms_bulk_job job;
    struct ms_disk *disk;
    struct ms_disk_op op;
};

void ms_disk_drop_op(struct ms_disk_op *op); /* frees what it owns */
void ms_disk_push(struct ms_disk *disk, struct ms_disk_op op); /* with the node's lock: queues it, and takes what it owns */
void *ms_disk_sync_main(void *disk);         /* disk_log.c */
extern const struct ms_bulk_job ms_disk_prepare_job, ms_disk_trim_job; /* disk_log.c */

/* ---- disk.c */
int ms_disk_fill(struct ms_disk *disk, struct ms_log *log); /* prepares segments here and now; the log's owner */

/* ---- disk_log.c: loop thread */
void ms_disk_to_bulk(struct ms_disk *disk, struct ms_disk_op *op); /* takes what op owns */

/* ---- disk_jobs.c: which function does a job */
int ms_disk_job_run(struct ms_bulk_job *job);
void ms_disk_job_drop(struct ms_bulk_job *job);
void ms_disk_job_fail(struct ms_disk *disk, const struct ms_disk_op *op, int rc); /* any thread: reports that it could not be done */

/* ---- disk_read.c: bulk thread */
void ms_disk_read_log(struct ms_disk *disk, const struct ms_disk_op *op);
void ms_disk_read_snapshot(struct ms_disk *disk, const struct ms_disk_op *op);
void ms_disk_close_link(struct ms_disk *disk, uint64_t link); /* 0 = all */
void ms_disk_source_made(struct ms_disk *disk, uint64_t id, uint64_t end, uint64_t size, int rc); /* the growing one is finished */

/* ---- disk_make.c */
void ms_disk_make(struct ms_disk *disk);   /* loop thread */
void ms_disk_unpark(struct ms_disk *disk); /* loop thread: more of the log is written, or it failed */
void ms_disk_make_close(struct ms_disk *disk);

/* ---- disk_stage.c */
void ms_disk_stage_run(struct ms_disk *disk, struct ms_disk_op *op); /* bulk thread: any of the ordered kinds */

/* ---- disk_archive.c */
void ms_disk_archive_run(struct ms_disk *disk, const struct ms_disk_op *op); /* bulk thread */

/* ---- disk_extras.c: bulk thread */
int ms_disk_extras_make(struct ms_disk *disk, uint64_t from, struct ms_bytes extras, uint64_t *count);
void ms_disk_extras_run(struct ms_disk *disk, const struct ms_disk_op *op);
void ms_disk_report_run(struct ms_disk *disk, const struct ms_disk_op *op);

/* ---- disk_piece.c */
void ms_disk_stage_throttle(struct ms_disk *disk, size_t size);         /* loop thread: waits while too much is queued */
void ms_disk_piece_done(struct ms_disk *disk, struct ms_disk_op *op);   /* bulk thread: op's bytes are written */
void ms_disk_pieces_free(struct ms_disk *disk);                         /* bulk thread: nothing more is to come */
void ms_disk_pieces_close(struct ms_disk *disk);

void ms_disk_stage_finish(struct ms_disk *disk);                          /* loop thread: after a commit */
void ms_disk_stage_close(struct ms_disk *disk);

#endif
