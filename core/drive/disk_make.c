/* Making a snapshot: the bulk thread's steps around those that the engine does under the lock (engine.h). The walk takes little
 * at a time, so that the lock is never held long. */
#include "disk_inside.h"

enum { WALK_BYTES = 8 << 10, COPY_BYTES = 1 << 20 };

static void release(struct ms_disk *disk)
{
    ms_snapshot_free(disk->maker.writer);
    disk->maker.writer = NULL;
    disk->maker.state = MS_MAKER_OFF;
}

/* The end, good or bad. */
static int made(struct ms_disk *disk, int rc)
{
    struct ms_snapshot_writer *writer = disk->maker.writer;
    uint64_t end = rc ? 0 : ms_snapshot_end_lsn(writer), size = rc ? 0 : ms_snapshot_written(writer);
    if (writer) ms_disk_source_made(disk, ms_snapshot_id(writer), end, size, rc);
    release(disk);
    disk->door->enter(disk->door);
    ms_engine_snapshot_made(disk->door->engine, end, size, rc);
    disk->door->leave(disk->door);
    return MS_BULK_DONE;
}

static int start(struct ms_disk *disk)
{
    uint64_t id = 0;
    while (!id) ms_random(&id, sizeof id);
    disk->maker.generation = atomic_load(&disk->generation);
    int rc = ms_snapshot_new(disk->fs, disk->dir.live, ms_str(disk->cluster), id, disk->group_bytes, &disk->maker.writer);
    if (rc) return rc;
    disk->door->enter(disk->door);
    rc = ms_engine_snapshot_start(disk->door->engine, disk->maker.writer);
    disk->door->leave(disk->door);
    return rc;
}

/* 1 = more to walk, 0 = walked and cut. */
static int walk(struct ms_disk *disk)
{
    struct ms_engine *engine = disk->door->engine;
    disk->door->enter(disk->door);
    int more = ms_engine_snapshot_walk(engine, disk->maker.writer, WALK_BYTES);
    disk->door->leave(disk->door);
    if (more < 0) return more;
    int rc = ms_snapshot_write(disk->maker.writer);
    if (rc || more) return rc ? rc : more;
    disk->door->enter(disk->door);
    rc = ms_engine_snapshot_cut(engine, disk->maker.writer);
    disk->door->leave(disk->door);
    return rc;
}

/* 1 = parked. */
static int park(struct ms_disk *disk)
{
    uint64_t end = ms_snapshot_end_lsn(disk->maker.writer);
    if (atomic_load(&disk->written) >= end) return 0;
    atomic_store(&disk->maker.parked, true);
    bool ready = atomic_load(&disk->written) >= end || atomic_load(&disk->log_failed);
    /* If the loop saw the mark before, it has queued the job again already. */
    if (!ready || !atomic_exchange(&disk->maker.parked, false)) return 1;
    return atomic_load(&disk->log_failed) ? ms_fail(MS_E_LOG_FAILED, "the log failed before the snapshot's end was written") : 0;
}

void ms_disk_unpark(struct ms_disk *disk)
{
    if (!atomic_load(&disk->maker.parked)) return;
    if (atomic_exchange(&disk->maker.parked, false)) ms_bulk_queue(&disk->bulk, &disk->maker.job);
}

static int copy_log(struct ms_disk *disk)
{
    int more = ms_snapshot_copy_log(disk->maker.writer, disk->dir.live, COPY_BYTES);
    if (more < 0) return made(disk, more);
    if (more > 0) return MS_BULK_AGAIN;
    return made(disk, ms_snapshot_finish(disk->maker.writer));
}

static int make_run(struct ms_bulk_job *job)
{
    struct ms_disk *disk = ms_list_entry(job, struct ms_disk, maker.job);
    int rc = 0;
    if (disk->maker.state != MS_MAKER_NEW && disk->maker.generation != atomic_load(&disk->generation))
        return made(disk, ms_fail(MS_E_AGAIN, "the generation was switched while a snapshot was made"));
    switch (disk->maker.state) {
    case MS_MAKER_NEW:
        rc = start(disk);
        disk->maker.state = MS_MAKER_WALK;
        break;
    case MS_MAKER_WALK:
        rc = walk(disk);
        if (rc == 0) disk->maker.state = MS_MAKER_LOG;
        break;
    default:
        rc = park(disk);
        if (rc > 0) return MS_BULK_PARK;
        if (rc == 0) return copy_log(disk);
        break;
    }
    return rc < 0 ? made(disk, rc) : MS_BULK_AGAIN;
}

static void make_drop(struct ms_bulk_job *job)
{
    (void)job; /* part of the disk; ms_disk_make_close frees the writer */
}

void ms_disk_make(struct ms_disk *disk)
{
    disk->maker.state = MS_MAKER_NEW;
    disk->maker.job = (struct ms_bulk_job){.kind = MS_BULK_SNAPSHOT, .run = make_run, .drop = make_drop};
    ms_bulk_queue(&disk->bulk, &disk->maker.job);
}

void ms_disk_make_close(struct ms_disk *disk)
{
    release(disk);
}
