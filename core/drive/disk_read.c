/* Log and snapshots for followers that are too far behind for the blocks in memory. A follower reads on and on, so that its file
 * handle and place are kept from one piece to the next. All of it is the bulk thread's. */
#include "disk_inside.h"

/* ---- the log --------------------------------------------------------------------------------------------------------- */

static void close_reader(struct ms_disk_reader *reader)
{
    ms_log_reader_close(reader->reader);
    *reader = (struct ms_disk_reader){0};
}

/* The reader that stands at `from`, opened if need be in the place of the least recently used one. */
static int reader_at(struct ms_disk *disk, uint64_t link, uint64_t from, struct ms_disk_reader **found)
{
    struct ms_disk_reader *oldest = &disk->readers[0];
    for (int i = 0; i < MS_DISK_READERS; i++) {
        struct ms_disk_reader *reader = &disk->readers[i];
        if (reader->reader && reader->link == link) {
            *found = reader;
            if (reader->next == from) return 0;
            oldest = reader;
            break;
        }
        if (reader->used < oldest->used) oldest = reader;
    }
    close_reader(oldest);
    int rc = ms_log_reader_open(disk->fs, disk->dir.live, from, &oldest->reader);
    if (rc) return rc;
    oldest->link = link;
    oldest->next = from;
    *found = oldest;
    return 0;
}

void ms_disk_read_log(struct ms_disk *disk, const struct ms_disk_op *op)
{
    struct ms_disk_reader *reader = NULL;
    size_t count = 0, bytes = 0;
    int rc = reader_at(disk, op->link, op->from, &reader), got = 1;
    while (!rc && count < MS_DISK_BLOCKS && bytes < disk->window_bytes) {
        got = ms_log_reader_next(reader->reader, op->limit, &disk->blocks[count]);
        if (got <= 0) break;
        reader->next = disk->blocks[count]->last + 1;
        bytes += disk->blocks[count++]->size;
    }
    if (!rc && got < 0) {
        if (count == 0) rc = got; /* else what came before it is delivered, and the next read meets it again */
        close_reader(reader);
    } else if (!rc) {
        reader->used = ++disk->reads;
    }
    disk->door->enter(disk->door);
    ms_engine_read(disk->door->engine, op->link, disk->blocks, count, rc);
    disk->door->leave(disk->door);
    for (size_t i = 0; i < count; i++) ms_block_unref(disk->blocks[i]);
}

/* ---- snapshots --------------------------------------------------------------------------------------------------------- */

static void close_source(struct ms_disk *disk, struct ms_disk_source *source)
{
    if (source->file) disk->fs->ops->close(disk->fs, source->file);
    *source = (struct ms_disk_source){0};
}

/* Opens the snapshot that is being made. */
static int open_growing(struct ms_disk *disk, struct ms_disk_source *source)
{
    char path[MS_PATH_MAX];
    source->id = ms_snapshot_id(disk->maker.writer);
    source->growing = true;
    int rc = ms_path(path, disk->dir.live, "snap.tmp");
    return rc ? rc : disk->fs->ops->open(disk->fs, path, MS_FS_READ, &source->file);
}

/* Opens the newest finished snapshot (id = 0), or the one with that id. */
static int open_finished(struct ms_disk *disk, uint64_t id, struct ms_disk_source *source)
{
    struct ms_snapshot_name names[MS_SNAPSHOTS_MAX];
    char path[MS_PATH_MAX];
    uint32_t count = 0;
    int rc = ms_snapshot_list(disk->fs, disk->dir.live, names, &count);
    for (uint32_t i = 0; !rc && i < count; i++) {
        rc = ms_path(path, disk->dir.live, names[i].name);
        if (rc || ms_snapshot_read_id(disk->fs, path, &source->id) || (id && source->id != id)) continue;
        source->end = names[i].end;
        rc = disk->fs->ops->open(disk->fs, path, MS_FS_READ, &source->file);
        if (!rc) rc = disk->fs->ops->size(disk->fs, source->file, &source->size);
        return rc;
    }
    return rc ? rc : ms_fail(MS_E_NOT_FOUND, "there is no snapshot %016llx any more", (unsigned long long)id);
}

/* The file that a link reads. Asked for any snapshot, a link gets the one that is being made, else the newest. */
static int source_of(struct ms_disk *disk, uint64_t link, uint64_t id, struct ms_disk_source **found)
{
    struct ms_disk_source *oldest = &disk->sources[0];
    for (int i = 0; i < MS_DISK_READERS; i++) {
        struct ms_disk_source *source = &disk->sources[i];
        if (source->file && source->link == link && (source->id == id)) {
            *found = source;
            return 0;
        }
        if (source->used < oldest->used) oldest = source;
    }
    close_source(disk, oldest);
    bool growing = disk->maker.writer && (!id || ms_snapshot_id(disk->maker.writer) == id);
    int rc = growing ? open_growing(disk, oldest) : open_finished(disk, id, oldest);
    if (rc) {
        close_source(disk, oldest);
        return rc;
    }
    oldest->link = link;
    *found = oldest;
    return 0;
}

void ms_disk_read_snapshot(struct ms_disk *disk, const struct ms_disk_op *op)
{
    struct ms_disk_source *source = NULL;
    size_t got = 0;
    uint64_t id = op->from, offset = op->limit, end = 0;
    bool eof = false;
    ms_buf_clear(&disk->piece);
    int rc = source_of(disk, op->link, id, &source);
    if (!rc) {
        uint64_t size = source->growing ? ms_snapshot_written(disk->maker.writer) : source->size;
        id = source->id;
        end = source->end;
        source->used = ++disk->reads;
        if (offset < size) rc = ms_snapshot_read(disk->fs, source->file, offset, size, MS_DISK_PIECE, &disk->piece, &got);
        if (offset > size) rc = ms_fail(MS_E_NOT_FOUND, "the snapshot has %llu bytes", (unsigned long long)size);
        eof = !source->growing && offset + got >= size;
        if (rc || eof) close_source(disk, source);
    }
    struct ms_block *groups = got ? ms_block_copy(ms_bytes(disk->piece.data, got)) : NULL;
    if (got && !groups) rc = MS_E_MEMORY;
    disk->door->enter(disk->door);
    ms_engine_snapshot_data(disk->door->engine, op->link, id, offset, groups, eof, end, rc);
    disk->door->leave(disk->door);
    ms_block_unref(groups);
}

void ms_disk_source_made(struct ms_disk *disk, uint64_t id, uint64_t end, uint64_t size, int rc)
{
    for (int i = 0; i < MS_DISK_READERS; i++) {
        struct ms_disk_source *source = &disk->sources[i];
        if (!source->growing || source->id != id) continue;
        source->growing = false;
        source->end = end;
        source->size = size;
        if (rc) close_source(disk, source); /* who reads it hears that it is not there any more */
    }
}

void ms_disk_close_link(struct ms_disk *disk, uint64_t link)
{
    for (int i = 0; i < MS_DISK_READERS; i++) {
        if (!link || disk->readers[i].link == link) close_reader(&disk->readers[i]);
        if (!link || disk->sources[i].link == link) close_source(disk, &disk->sources[i]);
    }
}
