/* Bootstraps on disk, and the archive: jobs of the bulk thread, in order.
 *
 * A bootstrap's snapshot is written to the next generation as it arrives, synced in pieces, and made the live generation by the
 * commit. A failure is kept until then: nobody listens before. The commit opens the new log too and hands it to the loop, which
 * owns logs. */
#include "disk_inside.h"

#include <inttypes.h>
#include <stdio.h>

#include "../sync/render.h"

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
    return rc ? rc : disk->fs->ops->open(disk->fs, path, MS_FS_CREATE, &disk->stage.file);
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

/* An empty log that continues after `end`, with its first segment filled, so that the stream can go on at once. */
static int open_log(struct ms_disk *disk, uint64_t end)
{
    struct ms_store *empty = ms_alloc(sizeof *empty);
    if (!empty) return MS_E_MEMORY;
    int rc = ms_store_init(empty);
    empty->applied = end;
    if (!rc) rc = ms_log_open(disk->fs, disk->dir.live, &disk->log_config, empty, &disk->stage.log, NULL);
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
    if (!rc) rc = ms_datadir_switch(&disk->dir);
    if (!rc) {
        disk->stage.switched = true;
        (void)atomic_fetch_add(&disk->generation, 1);
        ms_disk_close_link(disk, 0);
        rc = open_log(disk, end);
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

void ms_disk_stage_throttle(struct ms_disk *disk, size_t size)
{
    (void)pthread_mutex_lock(&disk->backlog_mutex);
    while (disk->stage.backlog > MS_DISK_BACKLOG) (void)ms_cond_wait(&disk->backlog_cond, &disk->backlog_mutex, MS_FOREVER);
    disk->stage.backlog += size;
    (void)pthread_mutex_unlock(&disk->backlog_mutex);
}

static void unthrottle(struct ms_disk *disk, size_t size)
{
    (void)pthread_mutex_lock(&disk->backlog_mutex);
    disk->stage.backlog -= size;
    (void)pthread_cond_signal(&disk->backlog_cond);
    (void)pthread_mutex_unlock(&disk->backlog_mutex);
}

/* ---- the archive --------------------------------------------------------------------------------------------------------- */

enum { ARCHIVE_BYTES = 64 << 20 }; /* more records go on in a second file: the text of one is in memory */

struct archive {
    struct ms_disk *disk;
    struct ms_buf text;
    struct ms_render_names names;
    char name[64];
};

static int write_archive(struct archive *archive)
{
    char taken[MS_PATH_MAX];
    int rc = ms_datadir_archive(&archive->disk->dir, archive->name, ms_buf_bytes(&archive->text), taken);
    ms_buf_clear(&archive->text);
    return rc;
}

static int archive_group(struct archive *archive, const struct ms_block *block, uint64_t from)
{
    struct ms_group_header header;
    struct ms_record record;
    struct ms_bytes group = ms_bytes(block->data, block->size);
    int rc = ms_group_open(group, &header);
    if (rc) return rc;
    struct ms_record_reader reader = ms_record_reader(group, &header);
    for (uint64_t lsn = header.first; (rc = ms_record_next(&reader, &record)) == 1; lsn++) {
        if (lsn < from) continue;
        rc = ms_render_record(&archive->text, &record, lsn, header.time_us, &archive->names);
        if (rc) return rc;
    }
    if (!rc && archive->text.size >= ARCHIVE_BYTES) rc = write_archive(archive);
    return rc;
}

static int archive_records(struct archive *archive, uint64_t from)
{
    struct ms_disk *disk = archive->disk;
    struct ms_log_reader *reader = NULL;
    struct ms_block *block = NULL;
    int rc = ms_log_reader_open(disk->fs, disk->dir.live, from, &reader);
    if (rc == MS_E_NOT_FOUND) rc = ms_log_reader_open(disk->fs, disk->dir.live, 0, &reader); /* trimmed: what is left */
    while (!rc && (rc = ms_log_reader_next(reader, atomic_load(&disk->written), &block)) == 1) {
        rc = archive_group(archive, block, from);
        ms_block_unref(block);
    }
    ms_log_reader_close(reader);
    return rc == MS_E_NOT_FOUND ? 0 : rc;
}

static int fill_archive(struct archive *archive, const struct ms_disk_op *op)
{
    struct ms_disk *disk = archive->disk;
    if (op->from) (void)snprintf(archive->name, sizeof archive->name, "records-%020" PRIu64 ".jsonl", op->from);
    else (void)snprintf(archive->name, sizeof archive->name, "buffers-%" PRIu64 ".jsonl", ms_clock_real());
    ms_buf_add(&archive->text, op->bytes, op->size);
    if (op->size && op->bytes[op->size - 1] != '\n') ms_buf_add8(&archive->text, '\n');
    if (!op->from) return 0;
    disk->door->enter(disk->door);
    ms_render_names_of(disk->door->engine->store, &archive->names); /* tables may have been defined before `from` */
    disk->door->leave(disk->door);
    return archive_records(archive, op->from);
}

static int archive_all(struct ms_disk *disk, const struct ms_disk_op *op)
{
    struct archive *archive = ms_alloc_zero(sizeof *archive);
    if (!archive) return MS_E_MEMORY;
    archive->disk = disk;
    ms_buf_init(&archive->text);
    int rc = fill_archive(archive, op);
    if (!rc && archive->text.failed) rc = MS_E_MEMORY;
    if (!rc && archive->text.size > 0) rc = write_archive(archive);
    ms_buf_close(&archive->text);
    ms_release(archive);
    return rc;
}

static void archive_op(struct ms_disk *disk, const struct ms_disk_op *op)
{
    int rc = archive_all(disk, op);
    disk->door->enter(disk->door);
    ms_engine_archived(disk->door->engine, rc);
    disk->door->leave(disk->door);
}

/* ---- the ordered kinds ------------------------------------------------------------------------------------------------------ */

static void keep_failure(struct ms_disk *disk, int rc)
{
    if (rc && !disk->stage.rc) disk->stage.rc = rc;
}

void ms_disk_stage_run(struct ms_disk *disk, const struct ms_disk_op *op)
{
    switch (op->kind) {
    case MS_DISK_ARCHIVE: archive_op(disk, op); break;
    case MS_DISK_STAGE_BEGIN:
        disk->stage.rc = 0;
        keep_failure(disk, begin(disk));
        break;
    case MS_DISK_STAGE_WRITE:
        if (!disk->stage.rc) keep_failure(disk, append(disk, op));
        unthrottle(disk, op->size);
        break;
    case MS_DISK_STAGE_COMMIT: commit(disk, op); break;
    case MS_DISK_STAGE_ABORT:
        close_file(disk);
        disk->stage.rc = MS_E_INVALID;
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
