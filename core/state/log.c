/* The log's writer: blocks into segments, preparing, syncing and trimming. Recovery is in log_recover.c, reading in log_reader.c.
 *
 *      segments.list:   [ full ][ full ][ active: header, groups, zeros ][ blank ][ blank ]
 *                         trim →          written here                     prepared ahead
 *
 * A group that does not fit the active segment goes to the next; what is left of the active one stays zero. A blank segment that is too
 * small for a large group is passed over, but gets its header, so that readers always find the next segment by its number. File
 * handles stay open as long as something in them may have to be synced. */
#include "log_segment.h"

#include <stdio.h>

#include "../base/error.h"
#include "../base/mem.h"

enum { PARTS = 256, PREPARE_PIECE = 1 << 20 };

/* Zeros are written into a segment if the log was synced about once per MiB of the one before: a sync into them is a quarter cheaper,
 * but a log that is hardly synced would be written twice. */
enum { SYNC_WORTH = 1 << 20, SYNCS_MAX = 1 << 20 };

/* ---- life ------------------------------------------------------------------------------------------------------------ */

int ms_log_open(struct ms_fs *fs, const char *dir, const struct ms_log_config *config, struct ms_store *store,
                struct ms_log **log, uint64_t *truncated)
{
    uint64_t dropped = 0;
    *log = NULL;
    struct ms_log *fresh = ms_alloc_zero(sizeof *fresh);
    if (!fresh) return MS_E_MEMORY;
    fresh->fs = fs;
    fresh->config = *config;
    fresh->syncs = SYNCS_MAX;
    char path[MS_PATH_MAX];
    int rc = ms_segment_path(path, dir, 1); /* MS_E_LIMIT now, and not when a segment is needed */
    if (!rc) {
        memcpy(fresh->dir, dir, strlen(dir) + 1);
        rc = ms_log_recover(fresh, store, &dropped);
    }
    if (rc) {
        ms_log_close(fresh);
        return rc;
    }
    *log = fresh;
    if (truncated) *truncated = dropped;
    return 0;
}

static void close_file(struct ms_log *log, struct ms_segment *segment)
{
    if (segment->file) log->fs->ops->close(log->fs, segment->file);
    segment->file = NULL;
}

void ms_log_close(struct ms_log *log)
{
    if (!log) return;
    for (uint32_t i = 0; i < log->segments.count; i++) close_file(log, &log->segments.list[i]);
    ms_segments_close(&log->segments);
    ms_release(log);
}

static int fail_final(struct ms_log *log, int rc, const char *what, uint64_t number)
{
    log->error = MS_E_LOG_FAILED;
    /* NO_SPACE would tell the caller to try again. */
    return ms_fail_wrap(rc == MS_E_NO_SPACE ? MS_E_IO : rc, "%s segment %llu of %s", what, (unsigned long long)number, log->dir);
}

static int check_alive(const struct ms_log *log)
{
    return log->error ? ms_fail(log->error, "the log in %s has failed earlier", log->dir) : 0;
}

/* ---- positions ------------------------------------------------------------------------------------------------------- */

uint64_t ms_log_first(const struct ms_log *log)
{
    for (uint32_t i = 0; i < log->segments.count; i++) {
        const struct ms_segment *segment = &log->segments.list[i];
        if (segment->used > MS_SEGMENT_HEADER) return segment->first;
    }
    return log->written + 1;
}

uint64_t ms_log_written(const struct ms_log *log)
{
    return log->written;
}

uint64_t ms_log_synced(const struct ms_log *log)
{
    return log->synced;
}

uint64_t ms_log_bytes(const struct ms_log *log)
{
    return log->bytes;
}

/* Bytes of groups that still fit. Sizes are whole groups, so that an odd end of a file is no room. */
static uint64_t segment_room(const struct ms_segment *segment)
{
    uint64_t used = segment->used ? segment->used : MS_SEGMENT_HEADER;
    return segment->size > used ? (segment->size - used) & ~(uint64_t)(MS_GROUP_ALIGN - 1) : 0;
}

/* A group goes to the next segment only if it is larger than what the active one has left. So a segment that is moved on from wastes
 * less than the largest group, and only the last one that is used is sure to take all of its room. */
uint64_t ms_log_room(const struct ms_log *log, uint64_t largest)
{
    uint64_t before = 0, best = 0;
    if (log->error) return 0;
    uint64_t waste = largest > 0 ? (largest - 1) & ~(uint64_t)(MS_GROUP_ALIGN - 1) : 0;
    for (uint32_t i = log->active; i < log->segments.count; i++) {
        uint64_t room = segment_room(&log->segments.list[i]);
        if (before + room > best) best = before + room;
        if (room > waste) before += room - waste;
    }
    return best;
}

/* ---- writing --------------------------------------------------------------------------------------------------------- */

/* Says before anything is written whether all blocks are in order and fit. */
static int check_blocks(const struct ms_log *log, struct ms_block *const *blocks, size_t count)
{
    uint64_t next = log->written + 1;
    uint32_t at = log->active;
    uint64_t room = at < log->segments.count ? segment_room(&log->segments.list[at]) : 0;
    for (size_t i = 0; i < count; i++) {
        if (blocks[i]->first != next || blocks[i]->last < next)
            return ms_fail(MS_E_INVALID, "a block with lsn %llu to %llu where %llu is due", (unsigned long long)blocks[i]->first,
                           (unsigned long long)blocks[i]->last, (unsigned long long)next);
        next = blocks[i]->last + 1;
        uint64_t size = blocks[i]->size;
        while (room < size) {
            if (++at >= log->segments.count)
                return ms_fail(MS_E_NO_SPACE, "no prepared segment of the log in %s has room for a group of %llu bytes", log->dir,
                               (unsigned long long)size);
            room = segment_room(&log->segments.list[at]);
        }
        room -= size;
    }
    return 0;
}

struct batch { /* what one write takes */
    struct ms_bytes parts[PARTS];
    size_t count, size;
};

static void batch_add(struct batch *batch, const void *data, size_t size)
{
    batch->parts[batch->count++] = ms_bytes(data, size);
    batch->size += size;
}

/* Takes what was written off the front of the batch. */
static void batch_skip(struct batch *batch, size_t put)
{
    size_t done = 0;
    batch->size -= put;
    while (done < batch->count && put >= batch->parts[done].size) put -= batch->parts[done++].size;
    batch->count -= done;
    memmove(batch->parts, batch->parts + done, batch->count * sizeof batch->parts[0]);
    if (put) batch->parts[0] = ms_bytes((const uint8_t *)batch->parts[0].data + put, batch->parts[0].size - put);
}

static int batch_write(struct ms_log *log, struct ms_segment *segment, struct batch *batch)
{
    segment->dirty = true;
    while (batch->size > 0) {
        size_t put = 0;
        int rc = log->fs->ops->write(log->fs, segment->file, segment->used, batch->parts, batch->count, &put);
        if (rc) return rc;
        if (put == 0 || put > batch->size) return ms_fail(MS_E_IO, "a write of %zu bytes wrote %zu", batch->size, put);
        segment->used += put;
        batch_skip(batch, put);
    }
    return 0;
}

/* Puts as many of the blocks as fit into the active segment, in one write. */
static int write_some(struct ms_log *log, struct ms_block *const *blocks, size_t count, uint64_t time_us, size_t *taken)
{
    struct ms_segment *segment = &log->segments.list[log->active];
    uint64_t room = segment_room(segment);
    uint8_t header[MS_SEGMENT_HEADER];
    struct batch batch;
    batch.count = batch.size = 0;
    if (!segment->used) {
        ms_segment_encode(header, segment->number, blocks[0]->first);
        segment->first = blocks[0]->first;
        segment->last = segment->first - 1;
        batch_add(&batch, header, sizeof header);
    }
    size_t n = 0;
    for (; n < count && batch.count < PARTS; n++) {
        struct ms_block *block = blocks[n];
        if (block->size > room) break;
        if (block->finished) ms_group_restamp(block->data, log->synced);
        else ms_block_finish(block, log->synced, time_us);
        room -= block->size;
        log->bytes += block->size;
        batch_add(&batch, block->data, block->size);
    }
    int rc = batch.count ? batch_write(log, segment, &batch) : 0;
    if (rc) return fail_final(log, rc, "write", segment->number);
    if (n) segment->last = log->written = blocks[n - 1]->last;
    *taken = n;
    return 0;
}

int ms_log_write(struct ms_log *log, struct ms_block *const *blocks, size_t count, uint64_t time_us)
{
    int rc = check_alive(log);
    if (!rc) rc = check_blocks(log, blocks, count);
    while (!rc && count > 0) {
        size_t taken = 0;
        if (log->active < log->segments.count) rc = write_some(log, blocks, count, time_us, &taken);
        if (!rc && taken == 0) log->active++; /* check_blocks found a later segment that fits */
        blocks += taken;
        count -= taken;
    }
    return rc;
}

/* ---- preparing ------------------------------------------------------------------------------------------------------- */

static uint64_t total_size(const struct ms_log *log)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < log->segments.count; i++) size += log->segments.list[i].size;
    return size;
}

static bool has_spare(const struct ms_log *log)
{
    return log->active < log->segments.count && log->segments.list[log->segments.count - 1].used == 0;
}

void ms_log_limit(struct ms_log *log, uint64_t max_bytes)
{
    log->config.max_bytes = max_bytes;
}

bool ms_log_prepare_begin(struct ms_log *log, uint64_t largest, struct ms_prepare_job *job, bool *full)
{
    *full = false;
    bool lacking = ms_log_room(log, largest) < largest;
    if (log->error || log->preparing || (has_spare(log) && !lacking)) return false;
    uint64_t size = log->config.segment_bytes;
    if (lacking && largest > size - MS_SEGMENT_HEADER) size = largest + MS_SEGMENT_HEADER;
    size = (size + MS_GROUP_ALIGN - 1) & ~(uint64_t)(MS_GROUP_ALIGN - 1);
    uint64_t total = total_size(log);
    if (size > log->config.max_bytes || total > log->config.max_bytes - size) {
        *full = true;
        return false;
    }
    *job = (struct ms_prepare_job){.fs = log->fs, .number = log->next_number, .size = size};
    job->zeros = (uint64_t)log->syncs * SYNC_WORTH >= size;
    if (ms_segment_path(job->path, log->dir, job->number)) return false; /* can't be, see ms_log_open */
    memcpy(job->dir, log->dir, sizeof job->dir);
    log->preparing = true;
    log->syncs = 0;
    return true;
}

static int fill(struct ms_prepare_job *job)
{
    int rc = job->zeros ? 0 : job->fs->ops->reserve(job->fs, job->file, job->size);
    for (uint64_t at = 0; job->zeros && at < job->size && !rc; at += PREPARE_PIECE) {
        uint64_t end = job->size - at < PREPARE_PIECE ? job->size : at + PREPARE_PIECE;
        rc = ms_fs_zero(job->fs, job->file, at, end);
    }
    if (!rc) rc = job->fs->ops->sync(job->fs, job->file);
    if (!rc) rc = job->fs->ops->sync_dir(job->fs, job->dir);
    return rc;
}

/* Messages are per thread, and the caller of end is another one. */
static void keep_message(char why[MS_LOG_WHY], int rc)
{
    (void)snprintf(why, MS_LOG_WHY, "%s", rc ? ms_fail_message(rc) : "");
}

void ms_prepare_run(struct ms_prepare_job *job)
{
    job->rc = job->fs->ops->open(job->fs, job->path, MS_FS_CREATE, &job->file);
    if (job->rc) job->file = NULL;
    else job->rc = fill(job);
    keep_message(job->why, job->rc);
    if (!job->rc || !job->file) return;
    job->fs->ops->close(job->fs, job->file);
    job->file = NULL;
    (void)job->fs->ops->remove(job->fs, job->path); /* if it stays, the next attempt empties it */
}

int ms_log_prepare_end(struct ms_log *log, struct ms_prepare_job *job)
{
    log->preparing = false;
    if (job->rc) return ms_fail(job->rc, "prepare a segment of the log: %s", job->why);
    int rc = ms_segments_add(&log->segments, job->number, job->size);
    if (rc) {
        job->fs->ops->close(job->fs, job->file);
        (void)job->fs->ops->remove(job->fs, job->path);
        return rc;
    }
    log->segments.list[log->segments.count - 1].file = job->file;
    log->next_number = job->number + 1;
    return 0;
}

/* ---- syncing --------------------------------------------------------------------------------------------------------- */

/* What is dirty are the segments from some one on up to the active one: they get dirty in this order, and a job takes the oldest. */
bool ms_log_sync_begin(struct ms_log *log, struct ms_sync_job *job)
{
    if (log->error || log->syncing || log->synced >= log->written) return false;
    *job = (struct ms_sync_job){.fs = log->fs, .lsn = log->written};
    struct ms_segment *list = log->segments.list;
    uint32_t at = log->active;
    while (at > 0 && list[at - 1].dirty) at--;
    for (; at <= log->active; at++) {
        if (!list[at].dirty) continue;
        if (job->count == MS_SYNC_FILES) {
            job->lsn = list[at].first - 1; /* the rest is for the next job */
            break;
        }
        job->files[job->count++] = list[at].file;
        list[at].dirty = false;
        list[at].syncing = true;
    }
    log->syncing = true;
    if (log->syncs < SYNCS_MAX) log->syncs++;
    return true;
}

void ms_sync_run(struct ms_sync_job *job)
{
    job->rc = 0;
    for (uint32_t i = 0; i < job->count && !job->rc; i++) job->rc = job->fs->ops->sync(job->fs, job->files[i]);
    keep_message(job->why, job->rc);
}

int ms_log_sync_end(struct ms_log *log, struct ms_sync_job *job)
{
    log->syncing = false;
    for (uint32_t i = log->active + 1; i-- > 0 && log->segments.list[i].file;) {
        struct ms_segment *segment = &log->segments.list[i];
        segment->syncing = false;
        if (i < log->active && !segment->dirty) close_file(log, segment); /* nothing is written to it any more */
    }
    if (job->rc) {
        log->error = MS_E_LOG_FAILED;
        return ms_fail(job->rc, "sync the log in %s: %s", log->dir, job->why);
    }
    if (job->lsn > log->synced) log->synced = job->lsn;
    return 0;
}

/* ---- trimming -------------------------------------------------------------------------------------------------------- */

int ms_log_trim(struct ms_log *log, uint64_t lsn, uint64_t keep_bytes)
{
    while (log->active > 0 && log->segments.count > 0) {
        struct ms_segment *oldest = &log->segments.list[0];
        uint64_t bytes = oldest->used - MS_SEGMENT_HEADER;
        if (oldest->last > lsn || oldest->dirty || oldest->syncing || log->bytes - bytes < keep_bytes) break;
        char path[MS_PATH_MAX];
        int rc = ms_segment_path(path, log->dir, oldest->number);
        if (!rc) rc = log->fs->ops->remove(log->fs, path);
        if (rc && rc != MS_E_NOT_FOUND) return ms_fail_wrap(rc, "trim the log in %s", log->dir);
        close_file(log, oldest);
        log->bytes -= bytes;
        log->active--;
        ms_segments_drop(&log->segments, 0);
    }
    return 0;
}
