/* Snapshots in virtual time: the maker, reading pieces for a link, and the staging of a received one.
 *
 * The maker is a chain of events, one for each step that engine.h lists (new, start, walk + write, cut, copy_log,
 * finish), so that changes, crashes, role changes and switches of the generation fall between any two of them. */
#include <stdio.h>

#include "../base/error.h"
#include "sim_world.h"

enum maker_step { STEP_OFF, STEP_NEW, STEP_START, STEP_WALK, STEP_CUT, STEP_COPY, STEP_FINISH };

enum { WALK_BYTES = 4096, COPY_BYTES = 8192, PIECE_MAX = 64 << 10 };

/* ---- making ---------------------------------------------------------------------------------------------------- */

static void on_step(struct ms_sim *sim, struct ms_sim_event *event);

static void next_step(struct ms_sim_node *node, int step)
{
    node->maker.step = step;
    uint64_t slow = node->jobs.slow ? node->jobs.slow : 1;
    ms_sim_at(node->sim, ms_sim_between(node->sim, 50, 900) * slow,
              (struct ms_sim_event){.name = "maker", .fn = on_step, .node = node->index, .life = node->life});
}

void ms_sim_snap_make(struct ms_sim_node *node)
{
    if (node->maker.step != STEP_OFF) {
        ms_sim_broken(node->sim, node->index, "a snapshot was asked for while one is being made");
        return;
    }
    next_step(node, STEP_NEW);
}

static void settle_sources(struct ms_sim_node *node, uint64_t end, int rc);

static void made(struct ms_sim_node *node, int rc)
{
    struct ms_sim_maker *maker = &node->maker;
    char why[200];
    (void)snprintf(why, sizeof why, "%s", rc ? ms_fail_message(rc) : "ok");
    uint64_t end = maker->writer && !rc ? ms_snapshot_end_lsn(maker->writer) : 0;
    uint64_t size = maker->writer && !rc ? ms_snapshot_written(maker->writer) : 0;
    if (rc == MS_E_NOT_FOUND || rc == MS_E_INVALID) /* no fault of the disk says that */
        ms_sim_broken(node->sim, node->index, "a snapshot was not made: %s", why);
    settle_sources(node, end, rc);
    ms_snapshot_free(maker->writer);
    maker->writer = NULL;
    maker->step = STEP_OFF;
    maker->stale = false;
    if (ms_sim_node_stopped(node)) return;
    if (rc)
        node->sim->counts.snapshots_failed++;
    else
        node->sim->counts.snapshots_made++;
    ms_sim_note(node->sim, node->index, "snapshot made, end %llu: %d %s", (unsigned long long)end, rc, why);
    ms_engine_snapshot_made(&node->engine, end, size, rc);
    ms_sim_node_after(node);
}

static int make_new(struct ms_sim_node *node)
{
    struct ms_sim_maker *maker = &node->maker;
    memcpy(maker->dir, node->dir.live, sizeof maker->dir);
    maker->stale = false;
    return ms_snapshot_new(node->dir.fs, maker->dir, ms_str(node->engine.cluster),
                           ms_sim_between(node->sim, 1, UINT64_MAX - 1), node->sim->policy.group_bytes, &maker->writer);
}

/* Does one step; 0 = go on with *next, which is STEP_OFF after the last one. */
static int run_step(struct ms_sim_node *node, int *next)
{
    struct ms_sim_maker *maker = &node->maker;
    struct ms_engine *engine = &node->engine;
    int rc;
    if (maker->stale) return ms_fail(MS_E_AGAIN, "another generation is live now");
    switch (maker->step) {
    case STEP_NEW: *next = STEP_START; return make_new(node);
    case STEP_START: *next = STEP_WALK; return ms_engine_snapshot_start(engine, maker->writer);
    case STEP_WALK:
        rc = ms_engine_snapshot_walk(engine, maker->writer, WALK_BYTES);
        *next = rc > 0 ? STEP_WALK : STEP_CUT;
        return rc < 0 ? rc : ms_snapshot_write(maker->writer);
    case STEP_CUT: *next = STEP_COPY; return ms_engine_snapshot_cut(engine, maker->writer);
    case STEP_COPY:
        *next = STEP_COPY;
        if (engine->log_error) return ms_fail(MS_E_LOG_FAILED, "the log has failed");
        if (engine->written < ms_snapshot_end_lsn(maker->writer)) return 0;
        rc = ms_snapshot_copy_log(maker->writer, maker->dir, COPY_BYTES);
        *next = rc > 0 ? STEP_COPY : STEP_FINISH;
        return rc < 0 ? rc : 0;
    default: *next = STEP_OFF; return ms_snapshot_finish(maker->writer);
    }
}

static void on_step(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    int next = STEP_OFF, rc = run_step(node, &next);
    if (ms_sim_node_stopped(node)) return;
    if (rc || next == STEP_OFF) {
        made(node, rc);
        return;
    }
    ms_sim_node_after(node);
    if (node->life == event->life) next_step(node, next);
}

void ms_sim_snap_close(struct ms_sim_node *node)
{
    ms_sim_snap_close_sources(node);
    ms_snapshot_free(node->maker.writer);
    memset(&node->maker, 0, sizeof node->maker);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

struct piece_request {
    uint64_t snapshot, offset;
};

static void close_source(struct ms_sim_node *node, struct ms_sim_source *source)
{
    if (source->file) node->dir.fs->ops->close(node->dir.fs, source->file);
    *source = (struct ms_sim_source){0};
}

void ms_sim_snap_close_sources(struct ms_sim_node *node)
{
    for (uint32_t i = 0; i < MS_SIM_READERS; i++) close_source(node, &node->sources[i]);
}

/* The snapshot that is being made is whole now, or will never be. */
static void settle_sources(struct ms_sim_node *node, uint64_t end, int rc)
{
    for (uint32_t i = 0; i < MS_SIM_READERS; i++) {
        struct ms_sim_source *source = &node->sources[i];
        if (!source->file || source->end) continue;
        if (rc)
            close_source(node, source);
        else
            source->end = end;
    }
}

static int open_growing(struct ms_sim_node *node, struct ms_sim_source *source)
{
    char path[MS_PATH_MAX];
    source->id = ms_snapshot_id(node->maker.writer);
    int rc = ms_path(path, node->maker.dir, "snap.tmp");
    return rc ? rc : node->dir.fs->ops->open(node->dir.fs, path, MS_FS_READ, &source->file);
}

/* The finished one with this id; 0: the newest. */
static int open_finished(struct ms_sim_node *node, uint64_t id, struct ms_sim_source *source)
{
    struct ms_fs *fs = node->dir.fs;
    struct ms_snapshot_name names[MS_SNAPSHOTS_MAX];
    char path[MS_PATH_MAX];
    uint32_t count = 0;
    int rc = ms_snapshot_list(fs, node->dir.live, names, &count);
    for (uint32_t i = 0; i < count && !rc; i++) {
        rc = ms_path(path, node->dir.live, names[i].name);
        if (!rc) rc = ms_snapshot_read_id(fs, path, &source->id);
        source->end = names[i].end;
        if (!rc && (id == 0 || id == source->id)) return fs->ops->open(fs, path, MS_FS_READ, &source->file);
    }
    return rc ? rc : ms_fail(MS_E_NOT_FOUND, "there is no such snapshot");
}

/* The file that this link reads: it stays open, so that pruning takes it away from nobody who reads it. */
static int source_of(struct ms_sim_node *node, uint64_t link, uint64_t id, struct ms_sim_source **found)
{
    struct ms_sim_source *source = &node->sources[ms_sim_below(&node->sim->dice, MS_SIM_READERS)];
    for (uint32_t i = 0; i < MS_SIM_READERS; i++)
        if (node->sources[i].link == link) source = &node->sources[i];
    *found = source;
    if (source->file && source->link == link && source->id == id) return 0;
    close_source(node, source);
    const struct ms_sim_maker *maker = &node->maker;
    bool growing =
        maker->writer && !maker->stale && maker->step > STEP_START && (id == 0 || id == ms_snapshot_id(maker->writer));
    int rc = growing ? open_growing(node, source) : open_finished(node, id, source);
    if (rc)
        close_source(node, source);
    else
        source->link = link;
    return rc;
}

static int read_piece(struct ms_sim_node *node, const struct ms_sim_source *source, uint64_t offset, struct ms_buf *data,
                      bool *eof)
{
    struct ms_fs *fs = node->dir.fs;
    uint64_t size = 0;
    size_t got = 0;
    int rc = source->end ? fs->ops->size(fs, source->file, &size) : 0;
    if (!source->end) size = ms_snapshot_written(node->maker.writer);
    if (!rc && offset < size) {
        uint64_t wanted =
            ms_sim_between(node->sim, 1,
                           PIECE_MAX < node->sim->policy.window_bytes ? PIECE_MAX : node->sim->policy.window_bytes);
        rc = ms_snapshot_read(fs, source->file, offset, size, (size_t)wanted, data, &got);
    }
    *eof = source->end && offset + got >= size;
    return rc;
}

static void on_piece(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    const struct piece_request *request = event->data;
    struct ms_sim_source *source = NULL;
    struct ms_buf data;
    bool eof = false;
    ms_buf_init(&data);
    int rc = source_of(node, event->id, request->snapshot, &source);
    if (!rc) rc = read_piece(node, source, request->offset, &data, &eof);
    struct ms_block *groups = !rc && data.size ? ms_block_copy(ms_buf_bytes(&data)) : NULL;
    if (!rc && data.size && !groups) rc = MS_E_MEMORY;
    if (!ms_sim_node_stopped(node)) {
        if (rc && rc != MS_E_NOT_FOUND) sim->counts.eio_other++;
        ms_sim_note(sim, node->index, "snapshot piece at %llu, %zu bytes%s: %d", (unsigned long long)request->offset,
                    data.size, eof ? ", the last" : "", rc);
        ms_engine_snapshot_data(&node->engine, event->id, source->id, request->offset, groups, eof, source->end, rc);
        ms_sim_node_after(node);
    }
    ms_block_unref(groups);
    ms_buf_close(&data);
}

void ms_sim_snap_read(struct ms_sim_node *node, uint64_t link, uint64_t snapshot, uint64_t offset)
{
    int64_t countdown = ms_sim_hush();
    struct piece_request *request = ms_alloc(sizeof *request);
    ms_sim_unhush(countdown);
    if (!request) {
        ms_sim_out_of_memory(node->sim);
        return;
    }
    *request = (struct piece_request){snapshot, offset};
    uint64_t slow = node->jobs.slow ? node->jobs.slow : 1;
    ms_sim_at(node->sim, ms_sim_between(node->sim, 50, 800) * slow,
              (struct ms_sim_event){
                  .name = "piece", .fn = on_piece, .node = node->index, .life = node->life, .id = link, .data = request});
}

/* ---- staging --------------------------------------------------------------------------------------------------- */

static void close_stage(struct ms_sim_node *node)
{
    if (node->jobs.stage) node->dir.fs->ops->close(node->dir.fs, node->jobs.stage);
    node->jobs.stage = NULL;
}

void ms_sim_stage_begin(struct ms_sim_node *node)
{
    struct ms_sim_jobs *jobs = &node->jobs;
    char path[MS_PATH_MAX];
    close_stage(node);
    jobs->stage_size = 0;
    jobs->stage_rc = ms_datadir_stage(&node->dir);
    if (!jobs->stage_rc) jobs->stage_rc = ms_path(path, node->dir.next, "snap.tmp");
    if (!jobs->stage_rc) jobs->stage_rc = node->dir.fs->ops->open(node->dir.fs, path, MS_FS_STREAM, &jobs->stage);
}

void ms_sim_stage_write(struct ms_sim_node *node, struct ms_bytes groups)
{
    struct ms_sim_jobs *jobs = &node->jobs;
    if (!jobs->stage_rc && !jobs->stage) jobs->stage_rc = ms_fail(MS_E_INVALID, "nothing is staged");
    if (!jobs->stage_rc)
        jobs->stage_rc = ms_fs_write_all(node->dir.fs, jobs->stage, jobs->stage_size, groups.data, groups.size);
    jobs->stage_size += groups.size;
}

void ms_sim_stage_abort(struct ms_sim_node *node)
{
    close_stage(node);
    node->jobs.stage_rc = MS_E_INVALID;
    (void)ms_datadir_clean(&node->dir);
}

/* Makes the received file a snapshot of the staged generation. */
static int finish_file(struct ms_sim_node *node, uint64_t end)
{
    struct ms_fs *fs = node->dir.fs;
    char from[MS_PATH_MAX], to[MS_PATH_MAX], name[32];
    int rc = node->jobs.stage_rc;
    if (!rc && !node->jobs.stage) rc = ms_fail(MS_E_INVALID, "nothing is staged");
    if (!rc) rc = fs->ops->sync(fs, node->jobs.stage);
    close_stage(node);
    (void)snprintf(name, sizeof name, "snap-%020llu", (unsigned long long)end);
    if (!rc) rc = ms_path(from, node->dir.next, "snap.tmp");
    if (!rc) rc = ms_path(to, node->dir.next, name);
    if (!rc) rc = fs->ops->rename(fs, from, to);
    return rc ? rc : fs->ops->sync_dir(fs, node->dir.next);
}

/* An empty log in the staged generation that goes on after `end`. */
static int open_next_log(struct ms_sim_node *node, uint64_t end, struct ms_log **log)
{
    struct ms_store position;
    int rc = ms_store_init(&position);
    if (rc) return rc;
    position.applied = end;
    char *dir = node->log_dirs[1 - node->log_dir];
    memcpy(dir, node->dir.next, MS_PATH_MAX);
    rc = ms_log_open(node->dir.fs, dir, &node->log_config, &position, log, NULL);
    ms_store_close(&position);
    return rc;
}

int ms_sim_stage_commit(struct ms_sim_node *node, uint64_t end)
{
    struct ms_log *log = NULL;
    int rc = finish_file(node, end);
    if (!rc) rc = open_next_log(node, end, &log);
    if (!rc) rc = ms_datadir_switch(&node->dir);
    if (rc) {
        ms_log_close(log);
        return rc;
    }
    ms_log_close(node->log);
    node->log = log;
    node->log_dir = 1 - node->log_dir;
    node->maker.stale = node->maker.step != STEP_OFF;
    for (uint32_t i = 0; i < MS_SIM_READERS; i++) {
        ms_log_reader_close(node->readers[i].reader);
        node->readers[i] = (struct ms_sim_reader){0};
    }
    ms_sim_snap_close_sources(node);
    return 0;
}
