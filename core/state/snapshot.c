/* Writing a snapshot while the tables change.
 *
 * The steps under the node's lock only append records to a buffer in memory; hashing and I/O are done by the steps without it. A group
 * that waits in the buffer has its struct ms_group_header where its header will be, until ms_snapshot_write seals it. */
#include "snapshot.h"

#include <stdio.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "log.h"

enum phase { NEW = 0, WALKING, WALKED, CUT, COPIED, FINISHED };
enum { SYNC_PIECE = 4 << 20, PENDING_AT_FIRST = 256 << 10 };

static const char temporary[] = "snap.tmp";

struct ms_snapshot_writer {
    struct ms_fs *fs;
    char dir[MS_PATH_MAX], path[MS_PATH_MAX];
    struct ms_file *file;
    struct ms_buf cluster;
    uint64_t id;
    uint32_t group_bytes;
    int phase, error;        /* error: of an earlier step; final */
    struct ms_buf pending;   /* whole groups, but for the last one while it is being filled */
    size_t group;            /* where that one starts */
    uint32_t count;          /* records in it, 0 = none is being filled */
    struct ms_buf last;      /* the closing group */
    uint32_t last_count;
    uint64_t changed_us;     /* the closing group's time: of the last change */
    uint64_t entries, start, end;
    uint64_t offset, written, synced; /* of the file; written: whole groups */
    uint8_t tables[MS_TABLES_MAX];    /* ids of the tables that are walked */
    uint32_t table_count, table_at;
    struct ms_table_place place;
    struct ms_log_reader *reader;
    uint64_t copied; /* lsn of the next group to copy */
};

/* ---- life ------------------------------------------------------------------------------------------------------------ */

int ms_snapshot_new(struct ms_fs *fs, const char *dir, struct ms_bytes cluster, uint64_t id, uint32_t group_bytes,
                    struct ms_snapshot_writer **writer)
{
    *writer = NULL;
    struct ms_snapshot_writer *fresh = ms_alloc_zero(sizeof *fresh);
    if (!fresh) return MS_E_MEMORY;
    fresh->fs = fs;
    fresh->id = id;
    fresh->group_bytes = group_bytes;
    ms_buf_add(&fresh->cluster, cluster.data, cluster.size);
    int rc = ms_path(fresh->path, dir, temporary);
    /* Memory for the usual walk is taken now, not under the lock. */
    if (!rc && (fresh->cluster.failed || !ms_buf_extend(&fresh->pending, PENDING_AT_FIRST))) rc = MS_E_MEMORY;
    if (!rc) {
        memcpy(fresh->dir, dir, strlen(dir) + 1);
        ms_buf_clear(&fresh->pending);
        rc = fs->ops->open(fs, fresh->path, MS_FS_CREATE, &fresh->file);
        if (rc) fresh->file = NULL;
    }
    if (rc) {
        ms_snapshot_free(fresh);
        return rc;
    }
    *writer = fresh;
    return 0;
}

void ms_snapshot_free(struct ms_snapshot_writer *writer)
{
    if (!writer) return;
    if (writer->file) {
        writer->fs->ops->close(writer->fs, writer->file);
        if (writer->phase != FINISHED) (void)writer->fs->ops->remove(writer->fs, writer->path);
    }
    ms_log_reader_close(writer->reader);
    ms_buf_close(&writer->cluster);
    ms_buf_close(&writer->pending);
    ms_buf_close(&writer->last);
    ms_release(writer);
}

uint64_t ms_snapshot_id(const struct ms_snapshot_writer *writer)
{
    return writer->id;
}

uint64_t ms_snapshot_end_lsn(const struct ms_snapshot_writer *writer)
{
    return writer->end;
}

uint64_t ms_snapshot_written(const struct ms_snapshot_writer *writer)
{
    return writer->written;
}

/* The steps come in order, and none after one that failed. */
static int check_phase(const struct ms_snapshot_writer *writer, int phase, const char *step)
{
    if (writer->error) return ms_fail(writer->error, "the snapshot %s has failed earlier", writer->path);
    return writer->phase == phase ? 0 : ms_fail(MS_E_INVALID, "a snapshot's step out of order: %s", step);
}

static int failed(struct ms_snapshot_writer *writer, int rc)
{
    writer->error = rc;
    return rc;
}

/* ---- under the lock -------------------------------------------------------------------------------------------------- */

static void begin_group(struct ms_snapshot_writer *writer)
{
    writer->group = writer->pending.size;
    writer->count = 0;
    (void)ms_buf_extend(&writer->pending, MS_GROUP_HEADER);
}

static void end_group(struct ms_snapshot_writer *writer, uint8_t flags, uint64_t first)
{
    _Static_assert(sizeof(struct ms_group_header) <= MS_GROUP_HEADER, "a group's description fits where its header will be");
    struct ms_buf *pending = &writer->pending;
    if (pending->failed) return;
    struct ms_group_header header = {
        .flags = flags,
        .body_size = (uint32_t)(pending->size - writer->group - MS_GROUP_HEADER),
        .count = writer->count,
        .first = first,
    };
    memcpy(pending->data + writer->group, &header, sizeof header);
    (void)ms_buf_extend(pending, writer->group + ms_group_size(header.body_size) - pending->size);
    writer->count = 0;
}

static void add_lineage(struct ms_buf *buf, const struct ms_lineage *lineage)
{
    struct ms_buf payload;
    ms_buf_init(&payload);
    ms_lineage_encode(lineage, &payload);
    if (payload.failed) buf->failed = true;
    else ms_record_add(buf, MS_RECORD_LINEAGE, ms_buf_bytes(&payload));
    ms_buf_close(&payload);
}

static void add_begin(struct ms_snapshot_writer *writer)
{
    struct ms_buf payload;
    ms_buf_init(&payload);
    ms_buf_add_varint(&payload, writer->start);
    ms_buf_add64(&payload, writer->id);
    ms_buf_add(&payload, writer->cluster.data, writer->cluster.size);
    if (payload.failed) writer->pending.failed = true;
    else ms_record_add(&writer->pending, MS_RECORD_BEGIN, ms_buf_bytes(&payload));
    ms_buf_close(&payload);
}

int ms_snapshot_start(struct ms_snapshot_writer *writer, const struct ms_store *store)
{
    int rc = check_phase(writer, NEW, "start");
    if (!rc && store->fuzzy) rc = ms_fail(MS_E_INVALID, "the tables are being loaded");
    if (rc) return rc;
    writer->start = store->applied;
    begin_group(writer);
    add_begin(writer);
    add_lineage(&writer->pending, &store->lineage);
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        const struct ms_table_state *table = ms_store_table(store, id);
        if (!table) continue;
        ms_record_add_table(&writer->pending, id, table->type, ms_str(table->name));
        writer->tables[writer->table_count++] = (uint8_t)id;
    }
    writer->count = 2 + writer->table_count;
    end_group(writer, MS_GROUP_META, 0);
    if (writer->pending.failed) return failed(writer, ms_fail(MS_E_MEMORY, "out of memory for a snapshot"));
    writer->phase = WALKING;
    return 0;
}

static int add_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_snapshot_writer *writer = context;
    struct ms_buf *pending = &writer->pending;
    uint32_t table = writer->tables[writer->table_at];
    size_t size = ms_record_change_size(table, key, value);
    if (writer->count && pending->size - writer->group - MS_GROUP_HEADER + size > writer->group_bytes)
        end_group(writer, MS_GROUP_ENTRIES, writer->entries - writer->count + 1);
    if (!writer->count) begin_group(writer);
    uint8_t *at = ms_buf_extend(pending, size);
    if (!at) return ms_fail(MS_E_MEMORY, "out of memory for a snapshot");
    (void)ms_record_change_put(at, MS_RECORD_PUT, table, key, value);
    writer->count++;
    writer->entries++;
    return 0;
}

/* Walks some entries at least. 1 = there are more. */
static int walk_tables(struct ms_snapshot_writer *writer, const struct ms_store *store, size_t bytes)
{
    while (writer->table_at < writer->table_count) {
        const struct ms_table_state *table = ms_store_table(store, writer->tables[writer->table_at]);
        if (!table) return ms_fail(MS_E_AGAIN, "the tables were replaced during the snapshot");
        while (writer->place.shard < MS_TABLE_SHARDS) {
            int rc = ms_table_walk(table, &writer->place, true, add_entry, writer);
            if (rc) return rc;
            if (writer->pending.size >= bytes) return 1;
        }
        writer->table_at++;
        writer->place = (struct ms_table_place){0};
    }
    return 0;
}

int ms_snapshot_walk(struct ms_snapshot_writer *writer, const struct ms_store *store, size_t bytes)
{
    if (writer->phase == WALKED && !writer->error) return 0;
    int rc = check_phase(writer, WALKING, "walk");
    if (rc) return rc;
    int more = walk_tables(writer, store, bytes);
    if (more < 0) return failed(writer, more);
    if (writer->count) end_group(writer, MS_GROUP_ENTRIES, writer->entries - writer->count + 1);
    if (writer->pending.failed) return failed(writer, ms_fail(MS_E_MEMORY, "out of memory for a snapshot"));
    if (!more) writer->phase = WALKED;
    return more;
}

int ms_snapshot_cut(struct ms_snapshot_writer *writer, const struct ms_store *store)
{
    int rc = check_phase(writer, WALKED, "cut");
    if (rc) return rc;
    struct ms_buf *last = &writer->last, mark, end;
    ms_buf_init(&mark);
    ms_buf_init(&end);
    ms_store_mark(store, &mark);
    writer->changed_us = store->changed_us;
    ms_buf_add_varint(&end, store->applied);
    ms_buf_add_varint(&end, writer->entries);
    (void)ms_buf_extend(last, MS_GROUP_HEADER);
    add_lineage(last, &store->lineage);
    ms_record_add(last, MS_RECORD_MARK, ms_buf_bytes(&mark));
    ms_record_add(last, MS_RECORD_END, ms_buf_bytes(&end));
    writer->last_count = 3;
    if (mark.failed || end.failed || last->failed) rc = failed(writer, ms_fail(MS_E_MEMORY, "out of memory for a snapshot"));
    ms_buf_close(&mark);
    ms_buf_close(&end);
    if (rc) return rc;
    writer->end = store->applied;
    writer->phase = CUT;
    return 0;
}

/* ---- without it ------------------------------------------------------------------------------------------------------ */

/* Appends to the file; syncs whenever a piece of 4 MiB is full. */
static int put(struct ms_snapshot_writer *writer, const uint8_t *data, size_t size)
{
    while (size > 0) {
        uint64_t room = writer->synced + SYNC_PIECE - writer->offset;
        size_t piece = size < room ? size : (size_t)room;
        int rc = ms_fs_write_all(writer->fs, writer->file, writer->offset, data, piece);
        if (rc) return rc;
        writer->offset += piece;
        data += piece;
        size -= piece;
        if (piece < room) continue;
        rc = writer->fs->ops->sync(writer->fs, writer->file);
        if (rc) return rc;
        writer->synced = writer->offset;
    }
    return 0;
}

static int put_pending(struct ms_snapshot_writer *writer)
{
    int rc = put(writer, writer->pending.data, writer->pending.size);
    if (rc) return failed(writer, ms_fail_wrap(rc, "write %s", writer->path));
    ms_buf_clear(&writer->pending);
    writer->written = writer->offset;
    return 0;
}

int ms_snapshot_write(struct ms_snapshot_writer *writer)
{
    if (writer->error) return check_phase(writer, writer->phase, "write");
    for (size_t at = 0; at < writer->pending.size;) {
        struct ms_group_header header;
        memcpy(&header, writer->pending.data + at, sizeof header);
        ms_group_seal(writer->pending.data + at, &header);
        at += ms_group_size(header.body_size);
    }
    return put_pending(writer);
}

/* Copies one group of the log into the buffer. 1 = done so, 0 = the end is reached. */
static int copy_group(struct ms_snapshot_writer *writer)
{
    struct ms_block *block = NULL;
    if (writer->copied > writer->end) return 0;
    int rc = ms_log_reader_next(writer->reader, writer->end, &block);
    if (rc < 0) return rc;
    if (rc == 0) return ms_fail(MS_E_INVALID, "no group of the log ends with the snapshot, at lsn %llu", (unsigned long long)writer->end);
    ms_buf_add(&writer->pending, block->data, block->size);
    writer->copied = block->last + 1;
    ms_block_unref(block);
    return writer->pending.failed ? ms_fail(MS_E_MEMORY, "out of memory for a snapshot") : 1;
}

int ms_snapshot_copy_log(struct ms_snapshot_writer *writer, const char *log_dir, size_t bytes)
{
    int rc = check_phase(writer, CUT, "copy the log");
    if (!rc && writer->pending.size > 0) rc = ms_snapshot_write(writer);
    if (rc) return rc;
    if (!writer->reader && writer->end > writer->start) {
        rc = ms_log_reader_open(writer->fs, log_dir, writer->start + 1, &writer->reader);
        if (rc) return failed(writer, rc);
        writer->copied = writer->start + 1;
    }
    int more = 0;
    if (writer->reader) {
        do more = copy_group(writer);
        while (more > 0 && writer->pending.size < bytes);
    }
    if (more < 0) return failed(writer, more);
    rc = put_pending(writer);
    if (rc) return rc;
    if (!more) writer->phase = COPIED;
    return more;
}

int ms_snapshot_finish(struct ms_snapshot_writer *writer)
{
    int rc = check_phase(writer, COPIED, "finish");
    if (rc) return rc;
    struct ms_group_header header = {
        .flags = MS_GROUP_META,
        .time_us = writer->changed_us,
        .body_size = (uint32_t)(writer->last.size - MS_GROUP_HEADER),
        .count = writer->last_count,
    };
    size_t size = ms_group_size(header.body_size);
    if (!ms_buf_extend(&writer->last, size - writer->last.size)) return failed(writer, MS_E_MEMORY);
    ms_group_seal(writer->last.data, &header);
    char name[40], path[MS_PATH_MAX];
    (void)snprintf(name, sizeof name, "snap-%020llu", (unsigned long long)writer->end);
    rc = ms_path(path, writer->dir, name);
    if (!rc) rc = put(writer, writer->last.data, size);
    if (!rc) rc = writer->fs->ops->sync(writer->fs, writer->file);
    if (!rc) rc = writer->fs->ops->rename(writer->fs, writer->path, path);
    if (!rc) rc = writer->fs->ops->sync_dir(writer->fs, writer->dir);
    if (rc) return failed(writer, ms_fail_wrap(rc, "finish the snapshot %s", path));
    writer->written = writer->offset;
    writer->phase = FINISHED;
    return 0;
}
