/* The worker's part of the disk side: writing the log, what is handed to the sync and the bulk thread, and what comes back. */
#include "disk_inside.h"

#include <stdio.h>

enum { WRITE_BLOCKS = 64 };

/* ---- writing --------------------------------------------------------------------------------------------- */

static void report_written(struct ms_disk *disk, uint64_t lsn, int rc)
{
    if (rc) atomic_store(&disk->log_failed, true);
    else atomic_store(&disk->written, lsn);
    disk->door->enter(disk->door);
    ms_engine_written(disk->door->engine, lsn, rc);
    disk->door->leave(disk->door);
    ms_disk_unpark(disk);
}

/* As many writes as stand together at the head of the run. */
static void write_blocks(struct ms_disk *disk)
{
    struct ms_disk_ops *run = &disk->run;
    struct ms_block *blocks[WRITE_BLOCKS];
    size_t count = 0;
    while (count < WRITE_BLOCKS && run->next < run->count && run->at[run->next].kind == MS_DISK_WRITE)
        blocks[count++] = run->at[run->next++].block;
    int rc = MS_E_LOG_FAILED;
    if (disk->log) rc = ms_log_write(disk->log, blocks, count, ms_clock_real());
    else (void)ms_fail(rc, "there is no log");
    report_written(disk, blocks[count - 1]->last, rc);
    for (size_t i = 0; i < count; i++) ms_block_unref(blocks[i]);
}

static void report_room(struct ms_disk *disk, int rc)
{
    uint64_t room = ms_disk_room(disk);
    disk->door->enter(disk->door);
    ms_engine_room(disk->door->engine, room, rc);
    disk->door->leave(disk->door);
}

/* Starts filling a segment if one is wanted; says how much room there is when there is nothing to wait for. */
static void reserve(struct ms_disk *disk)
{
    bool full = false;
    if (disk->room.active) {
        disk->room.wanted = true;
        return;
    }
    if (!disk->log) {
        report_room(disk, ms_fail(MS_E_LOG_FAILED, "there is no log"));
        return;
    }
    ms_log_limit(disk->log, atomic_load(&disk->log_max));
    if (ms_log_prepare_begin(disk->log, disk->largest, &disk->room.prepare, &full)) {
        disk->room.active = true;
        ms_bulk_queue(&disk->bulk, &disk->room.job);
        return;
    }
    report_room(disk, full ? ms_fail(MS_E_LIMIT, "the log is at its bound of %llu bytes",
                                     (unsigned long long)atomic_load(&disk->log_max)) : 0);
}

static int prepare_run(struct ms_bulk_job *job)
{
    struct ms_disk *disk = ms_list_entry(job, struct ms_disk, room.job);
    ms_prepare_run(&disk->room.prepare);
    if (disk->room.prepare.rc) (void)snprintf(disk->room.why, sizeof disk->room.why, "%s", ms_fail_message(disk->room.prepare.rc));
    atomic_store(&disk->room.done, true);
    ms_loop_wake(disk->loop);
    return MS_BULK_DONE;
}

static void keep(struct ms_bulk_job *job)
{
    (void)job; /* it is part of the disk */
}

const struct ms_bulk_job ms_disk_prepare_job = {.kind = MS_BULK_PREPARE, .run = prepare_run, .drop = keep};

static void finish_prepare(struct ms_disk *disk)
{
    if (!disk->room.active || !atomic_exchange(&disk->room.done, false)) return;
    int rc = disk->room.prepare.rc;
    int end = ms_log_prepare_end(disk->log, &disk->room.prepare);
    if (rc) (void)ms_fail(rc, "%s", disk->room.why);
    disk->room.active = false;
    report_room(disk, rc ? rc : end);
    if (!disk->room.wanted || rc || end) return;
    disk->room.wanted = false;
    reserve(disk);
}

/* ---- syncing -------------------------------------------------------------------------------------------------------- */

void *ms_disk_sync_main(void *context)
{
    struct ms_disk *disk = context;
    (void)pthread_mutex_lock(&disk->sync_mutex);
    for (;;) {
        while (!disk->sync_posted && !disk->sync_stop) (void)ms_cond_wait(&disk->sync_cond, &disk->sync_mutex, MS_FOREVER);
        if (!disk->sync_posted) break;
        disk->sync_posted = false;
        (void)pthread_mutex_unlock(&disk->sync_mutex);
        ms_sync_run(&disk->sync_job);
        uint64_t lsn = disk->sync_job.lsn;
        int rc = disk->sync_job.rc;
        /* From here on the job is the worker's, which this thread may become: then the next sync begins without a switch. */
        atomic_store(&disk->sync_done, true);
        disk->door->enter(disk->door);
        ms_engine_synced(disk->door->engine, lsn, rc);
        disk->door->leave_working(disk->door);
        if (atomic_exchange(&disk->sync_awaited, false)) ms_loop_wake(disk->loop);
        (void)pthread_mutex_lock(&disk->sync_mutex);
    }
    (void)pthread_mutex_unlock(&disk->sync_mutex);
    return NULL;
}

static void finish_sync(struct ms_disk *disk)
{
    if (!disk->syncing || !atomic_exchange(&disk->sync_done, false)) return;
    disk->syncing = false;
    atomic_store(&disk->sync_awaited, false);
    if (ms_log_sync_end(disk->log, &disk->sync_job) == 0) return;
    atomic_store(&disk->log_failed, true);
    ms_disk_unpark(disk);
}

/* True if a sync is under way; if so, its end will wake the loop. */
static bool await_sync(struct ms_disk *disk)
{
    if (!disk->syncing) return false;
    atomic_store(&disk->sync_awaited, true);
    finish_sync(disk);
    return disk->syncing;
}

static void start_sync(struct ms_disk *disk)
{
    if (!disk->sync_wanted || await_sync(disk)) return;
    disk->sync_wanted = false;
    if (disk->log && ms_log_sync_begin(disk->log, &disk->sync_job)) {
        disk->syncing = true;
        (void)pthread_mutex_lock(&disk->sync_mutex);
        disk->sync_posted = true;
        (void)pthread_cond_signal(&disk->sync_cond);
        (void)pthread_mutex_unlock(&disk->sync_mutex);
        return;
    }
    bool failed = !disk->log || atomic_load(&disk->log_failed);
    uint64_t lsn = disk->log ? ms_log_synced(disk->log) : 0;
    disk->door->enter(disk->door);
    ms_engine_synced(disk->door->engine, lsn, failed ? ms_fail(MS_E_LOG_FAILED, "there is no sound log") : 0);
    disk->door->leave(disk->door);
}

/* ---- the worker's turn -------------------------------------------------------------------------------------------------- */

static void report_lost(struct ms_disk *disk)
{
    disk->lost_seen = false;
    report_written(disk, 0, ms_fail(MS_E_MEMORY, "out of memory for the disk's queue"));
}

/* Hands one operation to the bulk thread. */
void ms_disk_to_bulk(struct ms_disk *disk, struct ms_disk_op *op)
{
    struct ms_disk_job *job = ms_alloc_zero(sizeof *job);
    if (op->kind == MS_DISK_STAGE_BEGIN) disk->stage.number++;
    if (op->kind > MS_DISK_ARCHIVE) op->link = disk->stage.number;
    if (!job || op->lost) {
        ms_release(job);
        ms_disk_job_fail(disk, op, ms_fail(MS_E_MEMORY, "out of memory for a disk job"));
        ms_disk_drop_op(op);
        return;
    }
    job->disk = disk;
    job->op = *op;
    job->job = (struct ms_bulk_job){.kind = op->kind >= MS_DISK_ARCHIVE ? MS_BULK_ORDERED : MS_BULK_READ,
                                     .run = ms_disk_job_run, .drop = ms_disk_job_drop};
    if (ms_disk_is_ordered(op->kind)) (void)atomic_fetch_add(&disk->ordered, 1);
    if (op->kind == MS_DISK_STAGE_WRITE) ms_disk_stage_throttle(disk, op->size);
    ms_bulk_queue(&disk->bulk, &job->job);
}

/* ---- trimming: first snapshots, on the bulk thread, then the log behind the oldest one that is left ------------------------ */

static int trim_run(struct ms_bulk_job *job)
{
    struct ms_disk *disk = ms_list_entry(job, struct ms_disk, trim.job);
    struct ms_snapshot_name names[MS_SNAPSHOTS_MAX];
    uint32_t count = 0;
    uint32_t keep_snapshots = disk->trim.keep == MS_TRIM_URGENT ? 1 : atomic_load(&disk->keep);
    int rc = disk->trim.pin ? ms_snapshot_prune(disk->fs, disk->dir.live, keep_snapshots, disk->trim.pin) : 0;
    if (!rc) rc = ms_snapshot_list(disk->fs, disk->dir.live, names, &count);
    uint64_t oldest = count ? names[count - 1].end : 0;
    disk->trim.end = oldest < disk->trim.pin ? oldest : disk->trim.pin;
    disk->trim.generation = atomic_load(&disk->generation);
    disk->trim.rc = rc;
    atomic_store(&disk->trim.done, true);
    ms_loop_wake(disk->loop);
    return MS_BULK_DONE;
}

const struct ms_bulk_job ms_disk_trim_job = {.kind = MS_BULK_ORDERED, .run = trim_run, .drop = keep};

static void start_trim(struct ms_disk *disk)
{
    if (!disk->trim.wanted || disk->trim.active) return;
    disk->trim.wanted = false;
    disk->trim.active = true;
    disk->trim.pin = disk->trim.next_pin;
    disk->trim.keep = disk->trim.next_keep;
    ms_bulk_queue(&disk->bulk, &disk->trim.job);
}

static void finish_trim(struct ms_disk *disk)
{
    if (!disk->trim.active || !atomic_exchange(&disk->trim.done, false)) return;
    disk->trim.active = false;
    bool same = disk->trim.generation == atomic_load(&disk->generation);
    uint64_t keep_bytes = disk->trim.keep == MS_TRIM_URGENT ? 0 : disk->trim.keep;
    if (disk->log && same && !disk->trim.rc && disk->trim.end) (void)ms_log_trim(disk->log, disk->trim.end, keep_bytes);
    uint64_t first = ms_disk_first(disk);
    disk->door->enter(disk->door);
    if (same) ms_engine_trimmed(disk->door->engine, first);
    disk->door->leave(disk->door);
}

static void trim(struct ms_disk *disk, const struct ms_disk_op *op)
{
    disk->trim.wanted = true; /* the newest wish counts */
    disk->trim.next_pin = op->from;
    disk->trim.next_keep = op->limit;
}

/* Does the operation at the head of the run; false if it has to wait. */
static bool run_one(struct ms_disk *disk)
{
    struct ms_disk_op *op = &disk->run.at[disk->run.next];
    bool bulk = op->kind >= MS_DISK_READ;
    if (!bulk && atomic_load(&disk->ordered) > 0) return false;
    if (op->kind == MS_DISK_STAGE_COMMIT && (await_sync(disk) || disk->room.active)) return false;
    if (op->kind == MS_DISK_WRITE) {
        write_blocks(disk);
        return true;
    }
    disk->run.next++;
    switch (op->kind) {
    case MS_DISK_SYNC: disk->sync_wanted = true; break;
    case MS_DISK_RESERVE: reserve(disk); break;
    case MS_DISK_TRIM: trim(disk, op); break;
    case MS_DISK_MAKE: ms_disk_make(disk); break;
    default: ms_disk_to_bulk(disk, op); break;
    }
    return true;
}

void ms_disk_perform(struct ms_disk *disk, bool all)
{
    finish_sync(disk);
    if (all) {
        finish_prepare(disk);
        ms_disk_stage_finish(disk);
        finish_trim(disk);
    }
    disk->blocked = false;
    while (disk->run.next < disk->run.count && !disk->blocked) {
        if (!all && disk->run.at[disk->run.next].kind > MS_DISK_SYNC) break;
        disk->blocked = !run_one(disk);
    }
    if (disk->run.next == disk->run.count && atomic_load(&disk->ordered) == 0) start_sync(disk);
    if (all) start_trim(disk);
    if (disk->lost_seen) report_lost(disk);
}
