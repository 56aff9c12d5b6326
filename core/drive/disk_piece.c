/* What a bootstrap receives, on its way to the bulk thread: collected until it is worth a write, in buffers that are used again. The disk is
 * often slower than the link, so that much is under way, and fresh memory for each frame costs more than what is done with it. */
#include "disk_inside.h"

/* ---- with the node's lock -------------------------------------------------------------------------------------------------- */

static uint8_t *take_spare(struct ms_disk *disk)
{
    (void)pthread_mutex_lock(&disk->backlog_mutex);
    uint8_t *bytes = disk->stage.spares ? disk->stage.spare[--disk->stage.spares] : NULL;
    (void)pthread_mutex_unlock(&disk->backlog_mutex);
    return bytes;
}

static int new_piece(struct ms_disk *disk, size_t size)
{
    struct ms_disk_piece *piece = &disk->stage.filling;
    piece->capacity = size > MS_DISK_STAGE_PIECE ? size : MS_DISK_STAGE_PIECE;
    piece->bytes = size > MS_DISK_STAGE_PIECE ? NULL : take_spare(disk);
    if (!piece->bytes) piece->bytes = ms_alloc(piece->capacity);
    return piece->bytes ? 0 : MS_E_MEMORY;
}

static void push_piece(struct ms_disk *disk)
{
    struct ms_disk_piece *piece = &disk->stage.filling;
    if (piece->size) ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_STAGE_WRITE, .bytes = piece->bytes, .size = piece->size});
    else ms_release(piece->bytes);
    *piece = (struct ms_disk_piece){0};
}

static void drop_piece(struct ms_disk *disk)
{
    ms_release(disk->stage.filling.bytes);
    disk->stage.filling = (struct ms_disk_piece){0};
}

void ms_disk_stage_begin(struct ms_disk *disk)
{
    drop_piece(disk);
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_STAGE_BEGIN});
}

void ms_disk_stage_write(struct ms_disk *disk, struct ms_bytes groups)
{
    struct ms_disk_piece *piece = &disk->stage.filling;
    if (piece->capacity - piece->size < groups.size) push_piece(disk);
    if (!piece->bytes && new_piece(disk, groups.size)) {
        ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_STAGE_WRITE, .lost = true});
        *piece = (struct ms_disk_piece){0};
        return;
    }
    memcpy(piece->bytes + piece->size, groups.data, groups.size);
    piece->size += groups.size;
}

void ms_disk_stage_commit(struct ms_disk *disk, uint64_t end)
{
    push_piece(disk);
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_STAGE_COMMIT, .from = end});
}

void ms_disk_stage_abort(struct ms_disk *disk)
{
    drop_piece(disk);
    ms_disk_push(disk, (struct ms_disk_op){.kind = MS_DISK_STAGE_ABORT});
}

/* ---- loop thread --------------------------------------------------------------------------------------------------------------- */

void ms_disk_stage_throttle(struct ms_disk *disk, size_t size)
{
    (void)pthread_mutex_lock(&disk->backlog_mutex);
    while (disk->stage.backlog > MS_DISK_BACKLOG) (void)ms_cond_wait(&disk->backlog_cond, &disk->backlog_mutex, MS_FOREVER);
    disk->stage.backlog += size;
    (void)pthread_mutex_unlock(&disk->backlog_mutex);
}

/* ---- bulk thread --------------------------------------------------------------------------------------------------------------- */

void ms_disk_piece_done(struct ms_disk *disk, struct ms_disk_op *op)
{
    (void)pthread_mutex_lock(&disk->backlog_mutex);
    disk->stage.backlog -= op->size;
    if (op->size <= MS_DISK_STAGE_PIECE && disk->stage.spares < MS_DISK_SPARES) {
        disk->stage.spare[disk->stage.spares++] = op->bytes;
        op->bytes = NULL;
    }
    (void)pthread_cond_signal(&disk->backlog_cond);
    (void)pthread_mutex_unlock(&disk->backlog_mutex);
}

void ms_disk_pieces_free(struct ms_disk *disk)
{
    for (uint8_t *bytes; (bytes = take_spare(disk));) ms_release(bytes);
}

void ms_disk_pieces_close(struct ms_disk *disk)
{
    drop_piece(disk);
    ms_disk_pieces_free(disk);
}
