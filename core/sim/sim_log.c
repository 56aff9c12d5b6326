/* The disk effects of io.h in virtual time: a queue of jobs for each node, done strictly in the order they were asked for.
 *
 * A job takes effect when its event comes, by the real functions of state/ over the simulated file system; between asking
 * and effect the process may die. Consecutive writes are taken together, as a real writer does. A sync starts at its
 * turn and ends later, while the queue goes on; whether the file system is made durable at its beginning or at its end
 * is decided by chance, as both happen. Preparing a segment and reading run beside the queue. */
#include <stdio.h>

#include "../sync/render.h"
#include "sim_world.h"

enum { WRITES_MAX = 64, READ_BLOCKS_MAX = 64 };

static void next_job(struct ms_sim_node *node);

static uint64_t largest_group(const struct ms_sim_node *node)
{
    return ms_policy_largest_group(&node->engine.policy);
}

static uint64_t duration(struct ms_sim_node *node, uint64_t low, uint64_t high)
{
    return ms_sim_between(node->sim, low, high) * (node->jobs.slow ? node->jobs.slow : 1);
}

static void at(struct ms_sim_node *node, uint64_t delay, const char *name, ms_sim_event_fn fn, uint64_t id, uint64_t value)
{
    ms_sim_at(
        node->sim, delay,
        (struct ms_sim_event){.name = name, .fn = fn, .node = node->index, .life = node->life, .id = id, .value = value});
}

/* ---- the queue ------------------------------------------------------------------------------------------------- */

void ms_sim_jobs_init(struct ms_sim_node *node)
{
    uint32_t slow = node->jobs.slow;
    memset(&node->jobs, 0, sizeof node->jobs);
    ms_list_init(&node->jobs.queue);
    node->jobs.slow = slow;
    node->jobs.archived_from = UINT64_MAX;
}

static void free_job(struct ms_sim_job *job)
{
    ms_list_remove(&job->node);
    ms_block_unref(job->block);
    ms_release(job);
}

static void close_reader(struct ms_sim_reader *reader)
{
    ms_log_reader_close(reader->reader);
    *reader = (struct ms_sim_reader){0};
}

/* The file system has stopped already or the node has closed its log: nothing here reaches the disk any more. */
void ms_sim_jobs_close(struct ms_sim_node *node)
{
    struct ms_sim_jobs *jobs = &node->jobs;
    if (!jobs->queue.next) return;
    while (!ms_list_empty(&jobs->queue)) free_job(ms_list_entry(jobs->queue.next, struct ms_sim_job, node));
    if (jobs->preparing) {
        jobs->prepare.rc = MS_E_CLOSED;
        if (jobs->prepare.file) node->dir.fs->ops->close(node->dir.fs, jobs->prepare.file);
    }
    jobs->preparing = jobs->syncing = false;
    for (uint32_t i = 0; i < MS_SIM_READERS; i++) close_reader(&node->readers[i]);
    if (jobs->stage) node->dir.fs->ops->close(node->dir.fs, jobs->stage);
    jobs->stage = NULL;
}

void ms_sim_jobs_add(struct ms_sim_node *node, int kind, struct ms_block *block, uint64_t lsn, uint64_t keep,
                     struct ms_bytes data)
{
    int64_t countdown = ms_sim_hush();
    struct ms_sim_job *job = ms_alloc(sizeof *job + data.size);
    ms_sim_unhush(countdown);
    if (!job) {
        ms_sim_out_of_memory(node->sim);
        return;
    }
    *job = (struct ms_sim_job){.kind = kind, .lsn = lsn, .keep = keep, .size = data.size};
    if (data.size) memcpy(job->data, data.data, data.size);
    if (block) job->block = ms_block_ref(block);
    ms_list_add_tail(&node->jobs.queue, &job->node);
    next_job(node);
}

/* ---- single jobs: they return false if the process has ended --------------------------------------------------- */

static void count_failure(struct ms_sim_node *node, int rc, uint64_t *other)
{
    if (rc == MS_E_NO_SPACE)
        node->sim->counts.enospc++;
    else if (rc)
        (*other)++;
}

static void write_failed(struct ms_sim_node *node, int rc)
{
    if (rc == MS_E_NO_SPACE)
        ms_sim_broken(node->sim, node->index, "the log had no room for what was handed to it: %s", ms_error_message());
    node->sim->counts.eio_writes++;
}

/* Takes the write at the head and those right behind it. */
static void run_writes(struct ms_sim_node *node)
{
    struct ms_block *blocks[WRITES_MAX];
    uint32_t count = 0, limit = (uint32_t)ms_sim_between(node->sim, 1, WRITES_MAX);
    struct ms_list *queue = &node->jobs.queue;
    while (count < limit && !ms_list_empty(queue)) {
        struct ms_sim_job *job = ms_list_entry(queue->next, struct ms_sim_job, node);
        if (job->kind != MS_SIM_JOB_WRITE) break;
        blocks[count++] = ms_block_ref(job->block);
        free_job(job);
    }
    uint64_t last = blocks[count - 1]->last;
    int rc = node->log ? ms_log_write(node->log, blocks, count, node->io.ops->real_time(&node->io)) : MS_E_LOG_FAILED;
    bool ended = ms_sim_node_stopped(node);
    if (!ended) {
        if (rc) write_failed(node, rc);
        for (uint32_t i = 0; i < count && !rc; i++) ms_sim_book_written(node, blocks[i]);
        ms_sim_note(node->sim, node->index, "wrote %u blocks up to %llu: %d", count, (unsigned long long)last, rc);
        ms_engine_written(&node->engine, last, rc);
        ms_sim_node_after(node);
    }
    for (uint32_t i = 0; i < count; i++) ms_block_unref(blocks[i]);
}

static void on_synced(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    struct ms_sim_jobs *jobs = &node->jobs;
    if (!jobs->sync_early) ms_sync_run(&jobs->sync);
    if (ms_sim_node_stopped(node)) return;
    jobs->syncing = false;
    int rc = ms_log_sync_end(node->log, &jobs->sync);
    if (rc) sim->counts.eio_syncs++;
    ms_sim_note(sim, node->index, "synced up to %llu: %d", (unsigned long long)jobs->sync.lsn, rc);
    ms_engine_synced(&node->engine, rc ? jobs->sync.lsn : ms_log_synced(node->log), rc);
    ms_sim_node_after(node);
    if (node->life == event->life) next_job(node);
}

static void start_sync(struct ms_sim_node *node)
{
    struct ms_sim_jobs *jobs = &node->jobs;
    if (!node->log || !ms_log_sync_begin(node->log, &jobs->sync)) {
        ms_engine_synced(&node->engine, node->log ? ms_log_synced(node->log) : 0, node->log ? 0 : MS_E_LOG_FAILED);
        ms_sim_node_after(node);
        return;
    }
    jobs->syncing = true;
    jobs->sync_early = ms_sim_one_in(node->sim, 2);
    if (jobs->sync_early) ms_sync_run(&jobs->sync);
    if (ms_sim_node_stopped(node)) return;
    at(node, duration(node, 200, 2500), "sync", on_synced, 0, 0);
}

static void run_trim(struct ms_sim_node *node, uint64_t pin, uint64_t keep)
{
    struct ms_fs *fs = node->dir.fs;
    struct ms_snapshot_name names[MS_SNAPSHOTS_MAX];
    uint32_t count = 0;
    bool urgent = keep == MS_TRIM_URGENT;
    int rc = pin ? ms_snapshot_prune(fs, node->dir.live, urgent ? 1 : node->engine.policy.snapshot_keep, pin) : 0;
    if (!rc) rc = ms_snapshot_list(fs, node->dir.live, names, &count);
    uint64_t before = node->log ? ms_log_first(node->log) : 0;
    if (!rc && node->log && count > 0) {
        uint64_t lsn = names[count - 1].end < pin ? names[count - 1].end : pin;
        rc = ms_log_trim(node->log, lsn, urgent ? 0 : keep);
    }
    if (ms_sim_node_stopped(node)) return;
    count_failure(node, rc, &node->sim->counts.eio_other);
    if (!node->log) return;
    if (ms_log_first(node->log) > before) node->sim->counts.trims++;
    ms_engine_trimmed(&node->engine, ms_log_first(node->log));
    ms_sim_node_after(node);
}

/* The log's records from `from` on, one a line. */
static int append_records(struct ms_sim_node *node, uint64_t from, struct ms_buf *text)
{
    struct ms_log_reader *reader = NULL;
    struct ms_render_names names;
    ms_render_names_of(&node->store, &names);
    int rc = ms_log_reader_open(node->dir.fs, node->dir.live, 0, &reader);
    struct ms_block *block = NULL;
    int more = 0;
    while (!rc && (more = ms_log_reader_next(reader, ms_log_written(node->log), &block)) > 0) {
        struct ms_group_header header = {.first = block->first, .count = block->count, .body_size = block->body_size};
        struct ms_record_reader records = ms_record_reader(ms_bytes(block->data, block->size), &header);
        struct ms_record record;
        for (uint64_t lsn = block->first; ms_record_next(&records, &record) > 0; lsn++) {
            if (lsn < from) continue;
            if (ms_render_record(text, &record, lsn, 0, &names)) text->failed = true;
        }
        ms_block_unref(block);
    }
    ms_log_reader_close(reader);
    if (rc == MS_E_NOT_FOUND) rc = 0; /* nothing in the log: its records are in the snapshot */
    return rc ? rc : more;
}

static void run_archive(struct ms_sim_node *node, const struct ms_sim_job *job)
{
    struct ms_buf text;
    ms_buf_init(&text);
    ms_buf_add(&text, job->data, job->keep);
    uint64_t extras = 0;
    int rc = job->lsn && node->log ? append_records(node, job->lsn, &text) : 0;
    char name[64], taken[MS_PATH_MAX];
    (void)snprintf(name, sizeof name, "%s-%llu.txt", job->lsn ? "diverged" : "buffer", (unsigned long long)job->lsn);
    if (!rc) rc = text.failed ? MS_E_MEMORY : ms_datadir_archive(&node->dir, name, ms_buf_bytes(&text), taken);
    ms_buf_close(&text);
    if (!rc) rc = ms_sim_extras_archive(node, job->lsn, ms_bytes(job->data + job->keep, job->size - job->keep), &extras);
    if (ms_sim_node_stopped(node)) return;
    count_failure(node, rc, &node->sim->counts.eio_other);
    if (!rc) node->sim->counts.archived++;
    if (!rc && job->lsn && job->lsn < node->jobs.archived_from) node->jobs.archived_from = job->lsn;
    if (!rc && job->lsn) node->jobs.archive_first = node->log ? ms_log_first(node->log) : UINT64_MAX;
    ms_sim_note(node->sim, node->index, "archived from %llu: %d", (unsigned long long)job->lsn, rc);
    ms_engine_archived(&node->engine, extras, rc);
    ms_sim_node_after(node);
}

static void run_commit(struct ms_sim_node *node, uint64_t end)
{
    const struct ms_store *stage = node->engine.follow.stage;
    if (stage) node->switching = ms_sim_book_place(node->sim, &stage->lineage, end);
    int rc = ms_sim_stage_commit(node, end);
    if (ms_sim_node_stopped(node)) return; /* the next start finds the old generation or the new one */
    if (rc != MS_E_UNKNOWN) node->switching.epoch = -2;
    count_failure(node, rc, &node->sim->counts.eio_other);
    ms_sim_note(node->sim, node->index, "switched to %llu: %d", (unsigned long long)end, rc);
    uint64_t life = node->life;
    ms_engine_staged(&node->engine, end, rc);
    ms_sim_node_after(node);
    if (node->life != life || !node->log) return;
    ms_engine_room(&node->engine, ms_log_room(node->log, largest_group(node)), 0);
    ms_sim_node_after(node);
}

/* ---- the queue's turn ------------------------------------------------------------------------------------------ */

/* A sync waits for the one that is running; switching generations also for a segment that is being prepared. */
static bool must_wait(const struct ms_sim_jobs *jobs, int kind)
{
    if (kind == MS_SIM_JOB_SYNC) return jobs->syncing;
    return kind == MS_SIM_JOB_COMMIT && (jobs->syncing || jobs->preparing);
}

static void on_job(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    node->jobs.busy = false;
    if (ms_list_empty(&node->jobs.queue)) return;
    struct ms_sim_job *job = ms_list_entry(node->jobs.queue.next, struct ms_sim_job, node);
    if (must_wait(&node->jobs, job->kind)) return; /* goes on when that ends */
    if (job->kind == MS_SIM_JOB_WRITE) {
        run_writes(node);
    } else {
        ms_list_remove(&job->node);
        switch (job->kind) {
        case MS_SIM_JOB_SYNC: start_sync(node); break;
        case MS_SIM_JOB_TRIM: run_trim(node, job->lsn, job->keep); break;
        case MS_SIM_JOB_ARCHIVE: run_archive(node, job); break;
        case MS_SIM_JOB_STAGE: ms_sim_stage_begin(node); break;
        case MS_SIM_JOB_STAGE_WRITE: ms_sim_stage_write(node, ms_bytes(job->data, job->size)); break;
        case MS_SIM_JOB_COMMIT: run_commit(node, job->lsn); break;
        default: ms_sim_stage_abort(node); break;
        }
        ms_release(job);
        if (node->life == event->life) (void)ms_sim_node_stopped(node);
    }
    if (node->life == event->life) next_job(node);
}

static void next_job(struct ms_sim_node *node)
{
    struct ms_sim_jobs *jobs = &node->jobs;
    if (jobs->busy || ms_list_empty(&jobs->queue)) return;
    int kind = ms_list_entry(jobs->queue.next, struct ms_sim_job, node)->kind;
    if (must_wait(jobs, kind)) return;
    jobs->busy = true;
    at(node, kind == MS_SIM_JOB_WRITE ? duration(node, 10, 150) : duration(node, 50, 600), "disk", on_job, 0, 0);
}

/* ---- room ------------------------------------------------------------------------------------------------------ */

static void report_room(struct ms_sim_node *node, int rc)
{
    ms_engine_room(&node->engine, node->log ? ms_log_room(node->log, largest_group(node)) : 0, rc);
    ms_sim_node_after(node);
}

static void on_prepared(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    ms_prepare_run(&node->jobs.prepare);
    if (ms_sim_node_stopped(node)) return;
    node->jobs.preparing = false;
    int rc = ms_log_prepare_end(node->log, &node->jobs.prepare);
    count_failure(node, rc, &sim->counts.eio_other);
    ms_sim_note(sim, node->index, "prepared a segment: %d", rc);
    report_room(node, rc);
    if (node->life == event->life) next_job(node);
}

static void on_reserve(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    bool full = false;
    if (!node->log) {
        report_room(node, MS_E_LOG_FAILED);
    } else if (node->jobs.preparing) {
        at(node, duration(node, 100, 1000), "reserve", on_reserve, 0, 0);
    } else if (ms_log_prepare_begin(node->log, largest_group(node), &node->jobs.prepare, &full)) {
        node->jobs.preparing = true;
        at(node, duration(node, 200, 3000), "prepare", on_prepared, 0, 0);
    } else {
        report_room(node, full ? MS_E_LIMIT : 0);
    }
}

void ms_sim_jobs_reserve(struct ms_sim_node *node)
{
    at(node, duration(node, 5, 50), "reserve", on_reserve, 0, 0);
}

/* ---- reading for followers ------------------------------------------------------------------------------------- */

struct read_request {
    uint64_t from, limit;
};

/* The reader of this link if it stands at `from`, else a new one in its place. */
static int reader_for(struct ms_sim_node *node, uint64_t link, uint64_t from, struct ms_sim_reader **found)
{
    struct ms_sim_reader *slot = &node->readers[ms_sim_below(&node->sim->dice, MS_SIM_READERS)];
    for (uint32_t i = 0; i < MS_SIM_READERS; i++)
        if (node->readers[i].link == link) slot = &node->readers[i];
    *found = slot;
    if (slot->reader && slot->link == link && slot->next == from) return 0;
    close_reader(slot);
    slot->link = link;
    slot->next = from;
    return ms_log_reader_open(node->dir.fs, node->dir.live, from, &slot->reader);
}

static void on_read(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    const struct read_request *request = event->data;
    struct ms_block *blocks[READ_BLOCKS_MAX];
    struct ms_sim_reader *slot;
    size_t count = 0, bytes = 0;
    int more = 1;
    int rc = reader_for(node, event->id, request->from, &slot);
    while (!rc && count < READ_BLOCKS_MAX && bytes < node->engine.policy.window_bytes) {
        more = ms_log_reader_next(slot->reader, request->limit, &blocks[count]);
        if (more <= 0) break;
        bytes += blocks[count]->size;
        slot->next = blocks[count++]->last + 1;
    }
    if (more < 0 && count == 0) rc = more;
    if (rc || more < 0) close_reader(slot);
    if (!ms_sim_node_stopped(node)) {
        sim->counts.log_reads++;
        if (rc && rc != MS_E_NOT_FOUND) count_failure(node, rc, &sim->counts.eio_other);
        ms_sim_note(sim, node->index, "read %zu blocks from %llu: %d", count, (unsigned long long)request->from, rc);
        ms_engine_read(&node->engine, event->id, blocks, count, rc);
        ms_sim_node_after(node);
    }
    for (size_t i = 0; i < count; i++) ms_block_unref(blocks[i]);
}

void ms_sim_jobs_read(struct ms_sim_node *node, uint64_t link, uint64_t from, uint64_t limit)
{
    int64_t countdown = ms_sim_hush();
    struct read_request *request = ms_alloc(sizeof *request);
    ms_sim_unhush(countdown);
    if (!request) {
        ms_sim_out_of_memory(node->sim);
        return;
    }
    *request = (struct read_request){from, limit};
    ms_sim_at(node->sim, duration(node, 50, 800),
              (struct ms_sim_event){
                  .name = "read", .fn = on_read, .node = node->index, .life = node->life, .id = link, .data = request});
}
