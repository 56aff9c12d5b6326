/* Small jobs of the bulk thread, and the table of who does what. */
#include "disk_inside.h"

static void run_op(struct ms_disk *disk, struct ms_disk_op *op)
{
    switch (op->kind) {
    case MS_DISK_READ: ms_disk_read_log(disk, op); break;
    case MS_DISK_SNAPSHOT_READ: ms_disk_read_snapshot(disk, op); break;
    case MS_DISK_FORGET: ms_disk_close_link(disk, op->link); break;
    case MS_DISK_EXTRAS: ms_disk_extras_run(disk, op); break;
    case MS_DISK_REPORT: ms_disk_report_run(disk, op); break;
    case MS_DISK_DISCARD: break; /* freeing the operation is all there is to do */
    default: ms_disk_stage_run(disk, op); break;
    }
}

int ms_disk_job_run(struct ms_bulk_job *base)
{
    struct ms_disk_job *job = ms_list_entry(base, struct ms_disk_job, job);
    struct ms_disk *disk = job->disk;
    int kind = job->op.kind;
    run_op(disk, &job->op);
    ms_disk_drop_op(&job->op);
    ms_release(job);
    /* A commit is over when the loop has taken the new log: ms_disk_stage_finish. */
    if (ms_disk_is_ordered(kind) && kind != MS_DISK_STAGE_COMMIT && atomic_fetch_sub(&disk->ordered, 1) == 1) ms_loop_wake(disk->loop);
    return MS_BULK_DONE;
}

void ms_disk_job_drop(struct ms_bulk_job *base)
{
    struct ms_disk_job *job = ms_list_entry(base, struct ms_disk_job, job);
    ms_disk_drop_op(&job->op);
    ms_release(job);
}

void ms_disk_job_fail(struct ms_disk *disk, const struct ms_disk_op *op, int rc)
{
    struct ms_engine *engine = disk->door->engine;
    if (op->kind == MS_DISK_STAGE_BEGIN || op->kind == MS_DISK_STAGE_WRITE) atomic_store(&disk->stage.lost, op->link); /* shows at the commit */
    disk->door->enter(disk->door);
    switch (op->kind) {
    case MS_DISK_READ: ms_engine_read(engine, op->link, NULL, 0, rc); break;
    case MS_DISK_SNAPSHOT_READ:
        ms_engine_snapshot_data(engine, op->link, op->from, op->limit, NULL, false, 0, rc);
        break;
    case MS_DISK_ARCHIVE: ms_engine_archived(engine, 0, rc); break;
    case MS_DISK_EXTRAS: ms_engine_extras(engine, NULL, rc); break;
    case MS_DISK_REPORT: ms_engine_reported(engine, 0, "", rc); break;
    case MS_DISK_STAGE_COMMIT: ms_engine_staged(engine, op->from, rc); break;
    default: break; /* left-overs are removed the next time */
    }
    disk->door->leave(disk->door);
}
