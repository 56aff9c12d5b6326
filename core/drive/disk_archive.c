/* The archive: what a node has to give up, as files of JSON lines that people can read. A job of the bulk thread, in order with the
 * log's writes and the bootstrap that will drop the records. */
#include "disk_inside.h"

#include <inttypes.h>
#include <stdio.h>

#include "../sync/render.h"

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

static int archive_group(struct archive *archive, struct ms_bytes group, uint64_t from)
{
    struct ms_group_header header;
    struct ms_record record;
    int rc = ms_group_open(group, &header);
    if (rc) return rc;
    bool of_log = header.flags == 0; /* otherwise "first" is no lsn */
    struct ms_record_reader reader = ms_record_reader(group, &header);
    for (uint64_t lsn = header.first; (rc = ms_record_next(&reader, &record)) == 1; lsn++) {
        if (of_log && lsn < from) continue;
        rc = ms_render_record(&archive->text, &record, of_log ? lsn : 0, header.time_us, &archive->names);
        if (rc) return rc;
    }
    if (!rc && archive->text.size >= ARCHIVE_BYTES) rc = write_archive(archive);
    return rc;
}

static int archive_snapshot_group(void *context, struct ms_bytes group)
{
    return archive_group(context, group, 0);
}

/* Records from `from` on that the log has no more are in the oldest snapshot: as what they made of the tables. */
static int archive_trimmed(struct archive *archive, uint64_t from, uint64_t first)
{
    struct ms_disk *disk = archive->disk;
    struct ms_snapshot_name names[MS_SNAPSHOTS_MAX];
    uint32_t count = 0;
    char path[MS_PATH_MAX];
    int rc = ms_snapshot_list(disk->fs, disk->dir.live, names, &count);
    if (rc || count == 0) return rc;
    rc = ms_render_line(&archive->text, json_pack("{s:s,s:I,s:I,s:I}", "lost", "trimmed", "from", (json_int_t)from, "to",
                                                  (json_int_t)first - 1, "tables_at", (json_int_t)names[count - 1].end));
    if (!rc) rc = ms_path(path, disk->dir.live, names[count - 1].name);
    return rc ? rc : ms_snapshot_groups(disk->fs, path, archive_snapshot_group, archive);
}

static int archive_records(struct archive *archive, uint64_t from)
{
    struct ms_disk *disk = archive->disk;
    struct ms_log_reader *reader = NULL;
    struct ms_block *block = NULL;
    uint64_t first = 0;
    int rc = ms_log_reader_first(disk->fs, disk->dir.live, &first);
    if (!rc && first == 0) first = atomic_load(&disk->written) + 1; /* the log is empty */
    if (!rc && first > from) rc = archive_trimmed(archive, from, first);
    if (!rc) rc = ms_log_reader_open(disk->fs, disk->dir.live, first > from ? first : from, &reader);
    while (!rc && (rc = ms_log_reader_next(reader, atomic_load(&disk->written), &block)) == 1) {
        rc = archive_group(archive, ms_bytes(block->data, block->size), from);
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
    ms_buf_add(&archive->text, op->bytes, op->limit);
    if (op->limit && op->bytes[op->limit - 1] != '\n') ms_buf_add8(&archive->text, '\n');
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

void ms_disk_archive_run(struct ms_disk *disk, const struct ms_disk_op *op)
{
    uint64_t extras = 0;
    int rc = archive_all(disk, op);
    if (!rc) rc = ms_disk_extras_make(disk, op->from, ms_bytes(op->bytes + op->limit, op->size - op->limit), &extras);
    disk->door->enter(disk->door);
    ms_engine_archived(disk->door->engine, extras, rc);
    disk->door->leave(disk->door);
}
