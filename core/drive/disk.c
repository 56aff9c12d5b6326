/* Life of the disk side, and its queue. The worker's part is in disk_log.c, jobs of the bulk thread in disk_read.c (log and snapshots
 * for followers), disk_make.c (snapshots) and disk_piece.c and disk_stage.c (bootstraps, archive). */
#include "../sync/extras_file.h"
#include "disk_inside.h"

#include <stdio.h>

enum { OPS_FIRST = 256 };

/* ---- the queue: with the node's lock ------------------------------------------------------------------------------- */

static bool has_room(struct ms_disk_ops *ops)
{
    if (ops->count < ops->capacity) return true;
    size_t capacity = ops->capacity ? ops->capacity * 2 : OPS_FIRST;
    struct ms_disk_op *at = ms_realloc(ops->at, capacity * sizeof *at);
    if (!at) return false;
    ops->at = at;
    ops->capacity = capacity;
    return true;
}

void ms_disk_drop_op(struct ms_disk_op *op)
{
    ms_block_unref(op->block);
    ms_release(op->bytes);
    if (op->store) ms_store_close(op->store);
    ms_release(op->store);
}

void ms_disk_push(struct ms_disk *disk, struct ms_disk_op op)
{
    if (has_room(&disk->queue)) {
        disk->queue.at[disk->queue.count++] = op;
        return;
    }
    disk->lost = true;
    ms_disk_drop_op(&op);
}

static struct ms_disk_op op_with_bytes(int kind, struct ms_bytes bytes)
{
    struct ms_disk_op op = {.kind = kind, .size = bytes.size};
    op.bytes = ms_alloc(bytes.size);
    op.lost = op.bytes == NULL;
    if (op.bytes && bytes.size) memcpy(op.bytes, bytes.data, bytes.size);
    return op;
}

void ms_disk_log_write(struct ms_disk *disk, struct ms_block *block)
{
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_WRITE, .block = ms_block_ref(block)});
}

void ms_disk_log_sync(struct ms_disk *disk)
{
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_SYNC});
}

void ms_disk_log_reserve(struct ms_disk *disk)
{
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_RESERVE});
}

void ms_disk_log_trim(struct ms_disk *disk, uint64_t lsn, uint64_t keep_bytes)
{
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_TRIM, .from = lsn, .limit = keep_bytes});
}

void ms_disk_log_read(struct ms_disk *disk, uint64_t link, uint64_t from, uint64_t limit)
{
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_READ, .link = link, .from = from, .limit = limit});
}

void ms_disk_snapshot_make(struct ms_disk *disk)
{
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_MAKE});
}

void ms_disk_snapshot_read(struct ms_disk *disk, uint64_t link, uint64_t snapshot, uint64_t offset)
{
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_SNAPSHOT_READ, .link = link, .from = snapshot, .limit = offset});
}

void ms_disk_archive(struct ms_disk *disk, uint64_t from, struct ms_bytes text, struct ms_bytes extras)
{
    struct ms_disk_op op = {.kind = MS_DISK_ARCHIVE, .from = from, .limit = text.size, .size = text.size + extras.size};
    op.bytes = ms_alloc(op.size);
    op.lost = op.bytes == NULL;
    if (op.bytes && text.size) memcpy(op.bytes, text.data, text.size);
    if (op.bytes && extras.size) memcpy(op.bytes + text.size, extras.data, extras.size);
    ms_disk_push(disk, op);
}

void ms_disk_extras_read(struct ms_disk *disk, uint64_t boot)
{
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_EXTRAS, .from = boot});
}

void ms_disk_report(struct ms_disk *disk, uint64_t id, uint64_t done, struct ms_bytes text)
{
    struct ms_disk_op op = op_with_bytes(MS_DISK_REPORT, text);
    op.from = id;
    op.limit = done;
    ms_disk_push(disk, op);
}

void ms_disk_forget(struct ms_disk *disk, uint64_t link)
{
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_FORGET, .link = link});
}

void ms_disk_discard(struct ms_disk *disk, struct ms_store *old)
{
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_DISCARD, .store = old});
}

void ms_disk_take(struct ms_disk *disk)
{
    if (disk->lost) disk->lost_seen = true;
    disk->lost = false;
    if (disk->run.next < disk->run.count) return;
    struct ms_disk_ops empty = disk->run;
    empty.next = empty.count = 0;
    disk->run = disk->queue;
    disk->queue = empty;
}

bool ms_disk_pending(const struct ms_disk *disk)
{
    if (disk->lost) return true;
    return disk->run.next < disk->run.count ? !disk->blocked : disk->queue.count > 0;
}

bool ms_disk_fresh(const struct ms_disk *disk)
{
    return disk->run.next == disk->run.count;
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

static void take_policy(struct ms_disk *disk, const struct ms_disk_config *config)
{
    const struct ms_policy *policy = config->policy;
    (void)snprintf(disk->cluster, sizeof disk->cluster, "%s", config->cluster);
    disk->log_config = (struct ms_log_config){policy->log_segment_bytes, policy->log_max_bytes};
    disk->largest = ms_policy_largest_group(policy);
    atomic_store(&disk->keep, policy->snapshot_keep);
    atomic_store(&disk->log_max, policy->log_max_bytes);
    disk->group_bytes = policy->group_bytes;
    disk->window_bytes = policy->window_bytes;
}

void ms_disk_policy(struct ms_disk *disk, const struct ms_policy *policy)
{
    atomic_store(&disk->keep, policy->snapshot_keep);
    atomic_store(&disk->log_max, policy->log_max_bytes); /* the worker takes it up when more room is wanted */
}

int ms_disk_fill(struct ms_disk *disk, struct ms_log *log)
{
    struct ms_prepare_job *job = &disk->room.prepare;
    bool full;
    while (ms_log_prepare_begin(log, disk->largest, job, &full)) {
        ms_prepare_run(job);
        int rc = job->rc, end = ms_log_prepare_end(log, job);
        if (rc || end) return rc ? rc : end;
    }
    return 0;
}

static int recover(struct ms_disk *disk, struct ms_store *store)
{
    int rc = ms_recover(&disk->dir, ms_str(disk->cluster), &disk->log_config, store, &disk->log, &disk->recovery);
    if (rc == MS_E_DAMAGED) {
        disk->recovered = rc;
        atomic_store(&disk->log_failed, true);
        return 0;
    }
    if (rc) return rc;
    atomic_store(&disk->written, ms_log_written(disk->log));
    /* A node without room may still be read, be asked, and make room by trimming; a new one is of no use. */
    rc = ms_disk_fill(disk, disk->log);
    return rc == MS_E_NO_SPACE && store->applied > 0 ? 0 : rc;
}

static int init_threads(struct ms_disk *disk)
{
    int rc = ms_bulk_init(&disk->bulk);
    if (!rc) rc = ms_mutex_init(&disk->sync_mutex);
    if (rc) return rc;
    rc = ms_cond_init(&disk->sync_cond);
    if (rc) (void)pthread_mutex_destroy(&disk->sync_mutex);
    disk->sync_ready = rc == 0;
    if (!rc) rc = ms_mutex_init(&disk->backlog_mutex);
    if (rc) return rc;
    rc = ms_cond_init(&disk->backlog_cond);
    if (rc) (void)pthread_mutex_destroy(&disk->backlog_mutex);
    disk->backlog_ready = rc == 0;
    return rc;
}

int ms_disk_open(struct ms_disk *disk, struct ms_fs *fs, const struct ms_disk_config *config, struct ms_store *store)
{
    disk->fs = fs;
    disk->room.job = ms_disk_prepare_job;
    disk->trim.job = ms_disk_trim_job;
    take_policy(disk, config);
    int rc = init_threads(disk);
    if (!rc && (!has_room(&disk->queue) || !has_room(&disk->run))) rc = MS_E_MEMORY;
    if (rc) return rc;
    disk->open = true;
    rc = ms_datadir_open(fs, config->path, ms_str(disk->cluster), config->new_id, &disk->dir);
    if (!rc) rc = ms_extras_pending(&disk->dir, &disk->extras); /* first: the message of what recovery finds is needed later */
    return rc ? rc : recover(disk, store);
}

int ms_disk_start(struct ms_disk *disk, struct ms_door *door, struct ms_loop *loop)
{
    disk->door = door;
    disk->loop = loop;
    int rc = ms_thread_start(&disk->sync_thread, "ms-sync", ms_disk_sync_main, disk);
    return rc ? rc : ms_bulk_start(&disk->bulk);
}

void ms_disk_stop(struct ms_disk *disk)
{
    if (disk->sync_ready) {
        (void)pthread_mutex_lock(&disk->sync_mutex);
        disk->sync_stop = true;
        (void)pthread_cond_signal(&disk->sync_cond);
        (void)pthread_mutex_unlock(&disk->sync_mutex);
    }
    ms_thread_join(&disk->sync_thread);
    ms_bulk_stop(&disk->bulk);
}

static void close_ops(struct ms_disk_ops *ops)
{
    while (ops->next < ops->count) ms_disk_drop_op(&ops->at[ops->next++]);
    ms_release(ops->at);
    *ops = (struct ms_disk_ops){0};
}

void ms_disk_close(struct ms_disk *disk)
{
    close_ops(&disk->queue);
    close_ops(&disk->run);
    if (disk->open) {
        /* Jobs that ran and were not looked at any more own files. */
        if (disk->syncing) (void)ms_log_sync_end(disk->log, &disk->sync_job);
        if (disk->room.active && atomic_load(&disk->room.done)) (void)ms_log_prepare_end(disk->log, &disk->room.prepare);
        ms_disk_make_close(disk);
        ms_disk_close_link(disk, 0);
        ms_disk_stage_close(disk);
        ms_disk_pieces_close(disk);
        ms_log_close(disk->log);
        ms_datadir_close(&disk->dir);
        disk->log = NULL;
    }
    ms_buf_close(&disk->piece);
    ms_bulk_close(&disk->bulk);
    if (disk->sync_ready) {
        (void)pthread_mutex_destroy(&disk->sync_mutex);
        (void)pthread_cond_destroy(&disk->sync_cond);
    }
    if (disk->backlog_ready) {
        (void)pthread_mutex_destroy(&disk->backlog_mutex);
        (void)pthread_cond_destroy(&disk->backlog_cond);
    }
    disk->open = disk->sync_ready = disk->backlog_ready = false;
}

uint64_t ms_disk_first(const struct ms_disk *disk)
{
    return disk->log ? ms_log_first(disk->log) : 0;
}

uint64_t ms_disk_room(const struct ms_disk *disk)
{
    return disk->log ? ms_log_room(disk->log, disk->largest) : 0;
}
