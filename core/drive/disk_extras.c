/* Extras on disk: making their files next to the archive, reading them, reporting. Jobs of the bulk thread; see sync/extras_file.h. */
#include "../sync/extras_file.h"
#include "disk_inside.h"

/* The lineage as it is now, for a thread without the lock. */
static int copy_lineage(struct ms_disk *disk, struct ms_lineage *lineage, struct ms_render_names *names)
{
    struct ms_buf bytes;
    ms_buf_init(&bytes);
    disk->door->enter(disk->door);
    ms_lineage_encode(&disk->door->engine->store->lineage, &bytes);
    ms_render_names_of(disk->door->engine->store, names);
    disk->door->leave(disk->door);
    int rc = bytes.failed ? MS_E_MEMORY : ms_lineage_decode(ms_buf_bytes(&bytes), lineage);
    ms_buf_close(&bytes);
    return rc;
}

static int make(struct ms_disk *disk, uint64_t from, uint64_t id, uint64_t *count)
{
    struct ms_lineage lineage;
    struct ms_render_names *names = ms_alloc_zero(sizeof *names);
    ms_lineage_init(&lineage);
    int rc = names ? copy_lineage(disk, &lineage, names) : MS_E_MEMORY;
    struct ms_extras_source source = {
        .dir = &disk->dir, .from = from, .to = atomic_load(&disk->written), .lineage = &lineage, .names = names, .id = id};
    if (!rc) rc = ms_extras_make(&source, count);
    ms_lineage_close(&lineage);
    ms_release(names);
    return rc;
}

int ms_disk_extras_make(struct ms_disk *disk, uint64_t from, struct ms_bytes extras, uint64_t *count)
{
    uint64_t id = 0;
    *count = 0;
    ms_random(&id, sizeof id);
    if (from) return make(disk, from, id, count);
    return extras.size > 0 ? ms_extras_keep(&disk->dir, id, extras, count) : 0;
}

void ms_disk_extras_run(struct ms_disk *disk, const struct ms_disk_op *op)
{
    struct ms_extras_batch batch = {0};
    int rc = ms_extras_read(&disk->dir, op->from, &batch);
    disk->door->enter(disk->door);
    ms_engine_extras(disk->door->engine, &batch, rc);
    disk->door->leave(disk->door);
    ms_buf_close(&batch.bytes);
}

void ms_disk_report_run(struct ms_disk *disk, const struct ms_disk_op *op)
{
    char path[MS_PATH_MAX] = "";
    uint64_t pending = 0;
    int rc = ms_extras_report(&disk->dir, op->from, op->limit, ms_bytes(op->bytes, op->size), &pending, path);
    disk->door->enter(disk->door);
    ms_engine_reported(disk->door->engine, pending, path, rc);
    disk->door->leave(disk->door);
}
