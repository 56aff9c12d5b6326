/* Bootstraps on disk: jobs of the bulk thread, in order.
 *
 * A bootstrap's snapshot is written to the next generation as it arrives, synced in pieces, and made the live generation by the
 * commit. A failure is kept until then: nobody listens before. The commit opens the new log too and hands it to the loop, which
 * owns logs. */
#include "disk_inside.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- staging ----------------------------------------------------------------------------------------------------------- */

static void close_file(struct ms_disk *disk)
{
    if (disk->stage.file) disk->fs->ops->close(disk->fs, disk->stage.file);
    disk->stage.file = NULL;
    disk->stage.offset = disk->stage.synced = 0;
}

static int begin(struct ms_disk *disk)
{
    char path[MS_PATH_MAX];
    close_file(disk);
    int rc = ms_datadir_stage(&disk->dir);
    if (!rc) rc = ms_path(path, disk->dir.next, "snap.tmp");
    return rc ? rc : disk->fs->ops->open(disk->fs, path, MS_FS_STREAM, &disk->stage.file);
}

static int sync_file(struct ms_disk *disk)
{
    int rc = disk->fs->ops->sync(disk->fs, disk->stage.file);
    disk->stage.synced = disk->stage.offset;
    return rc;
}

static int append(struct ms_disk *disk, const struct ms_disk_op *op)
{
    if (!disk->stage.file) return ms_fail(MS_E_INVALID, "no generation is being staged");
    int rc = ms_fs_write_all(disk->fs, disk->stage.file, disk->stage.offset, op->bytes, op->size);
    disk->stage.offset += op->size;
    if (!rc && disk->stage.offset - disk->stage.synced >= MS_DISK_SYNC_BYTES) rc = sync_file(disk);
    return rc;
}

/* The file gets the name of a finished snapshot; then all of the next generation is on disk. */
static int finish_file(struct ms_disk *disk, uint64_t end)
{
    char from[MS_PATH_MAX], to[MS_PATH_MAX], name[32];
    if (!disk->stage.file) return ms_fail(MS_E_INVALID, "no generation is being staged");
    int rc = sync_file(disk);
    close_file(disk);
    (void)snprintf(name, sizeof name, "snap-%020" PRIu64, end);
    if (!rc) rc = ms_path(from, disk->dir.next, "snap.tmp");
    if (!rc) rc = ms_path(to, disk->dir.next, name);
    if (!rc) rc = disk->fs->ops->rename(disk->fs, from, to);
    return rc ? rc : disk->fs->ops->sync_dir(disk->fs, disk->dir.next);
}

/* In the next generation: an empty log that continues after `end`, with its first segment filled, so that the stream can go on at
 * once. Before the switch, so that whatever fails leaves the old generation live. */
static int open_log(struct ms_disk *disk, uint64_t end)
{
    struct ms_store *empty = ms_alloc(sizeof *empty);
    if (!empty) return MS_E_MEMORY;
    int rc = ms_store_init(empty);
    empty->applied = end;
    if (!rc) rc = ms_log_open(disk->fs, disk->dir.next, &disk->log_config, empty, &disk->stage.log, NULL);
    ms_store_close(empty);
    ms_release(empty);
    return rc ? rc : ms_disk_fill(disk, disk->stage.log);
}

static void commit(struct ms_disk *disk, const struct ms_disk_op *op)
{
    uint64_t end = op->from;
    int rc = disk->stage.rc;
    if (!rc && atomic_load(&disk->stage.lost) == op->link) rc = ms_fail(MS_E_MEMORY, "out of memory for a piece of the snapshot");
    disk->stage.switched = false;
    disk->stage.end = end;
    if (!rc) rc = finish_file(disk, end);
    if (!rc) rc = open_log(disk, end);
    if (!rc) rc = ms_datadir_switch(&disk->dir);
    if (!rc) {
        disk->stage.switched = true;
        (void)atomic_fetch_add(&disk->generation, 1);
        ms_disk_close_link(disk, 0);
    } else {
        ms_log_close(disk->stage.log);
        disk->stage.log = NULL;
    }
    if (rc) (void)snprintf(disk->stage.why, sizeof disk->stage.why, "%s", ms_fail_message(rc));
    disk->stage.result = rc;
    atomic_store(&disk->stage.done, true);
    ms_loop_wake(disk->loop);
}

void ms_disk_stage_finish(struct ms_disk *disk)
{
    if (!atomic_exchange(&disk->stage.done, false)) return;
    int rc = disk->stage.result;
    if (disk->stage.switched) {
        ms_log_close(disk->log);
        disk->log = disk->stage.log;
        disk->stage.log = NULL;
        atomic_store(&disk->log_failed, disk->log == NULL);
        atomic_store(&disk->written, disk->stage.end);
    }
    struct ms_disk_op clean = {.kind = MS_DISK_CLEAN};
    ms_disk_to_bulk(disk, &clean);
    (void)atomic_fetch_sub(&disk->ordered, 1);
    if (rc) (void)ms_fail(rc, "%s", disk->stage.why);
    uint64_t room = ms_disk_room(disk);
    disk->door->enter(disk->door);
    ms_engine_staged(disk->door->engine, disk->stage.end, rc);
    if (!rc) ms_engine_room(disk->door->engine, room, 0);
    disk->door->leave(disk->door);
}

/* ---- the ordered kinds ------------------------------------------------------------------------------------------------------ */

static void keep_failure(struct ms_disk *disk, int rc)
{
    if (rc && !disk->stage.rc) disk->stage.rc = rc;
}

void ms_disk_stage_run(struct ms_disk *disk, struct ms_disk_op *op)
{
    switch (op->kind) {
    case MS_DISK_ARCHIVE: ms_disk_archive_run(disk, op); break;
    case MS_DISK_STAGE_BEGIN:
        disk->stage.rc = 0;
        keep_failure(disk, begin(disk));
        break;
    case MS_DISK_STAGE_WRITE:
        ms_pool_stock_up(MS_POOL_READY_MAX); /* for the tables that the loop fills from these pieces */
        if (!disk->stage.rc) keep_failure(disk, append(disk, op));
        ms_disk_piece_done(disk, op);
        ms_pool_stock_up(MS_POOL_READY_MAX); /* the write may have taken a while */
        break;
    case MS_DISK_STAGE_COMMIT:
        ms_disk_pieces_free(disk);
        commit(disk, op);
        break;
    case MS_DISK_STAGE_ABORT:
        close_file(disk);
        disk->stage.rc = MS_E_INVALID;
        ms_disk_pieces_free(disk);
        (void)ms_datadir_clean(&disk->dir);
        break;
    default: (void)ms_datadir_clean(&disk->dir); break;
    }
}

void ms_disk_stage_close(struct ms_disk *disk)
{
    close_file(disk);
    ms_log_close(disk->stage.log);
    disk->stage.log = NULL;
}
