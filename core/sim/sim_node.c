/* One simulated node: its birth (data directory, recovery, engine), its ends (clean, killed, power loss), and the io
 * table through which its engine reaches clock, disk, network and host.
 *
 * An end frees everything that the process had, with the file system already stopped, so that freeing can't tidy up
 * what a real process would have left behind. */
#include <stdio.h>

#include "../base/error.h"
#include "../sync/extras_file.h"
#include "sim_world.h"

static const char cluster_name[] = "sim";

/* ---- io.h ------------------------------------------------------------------------------------------------------ */

static uint64_t io_now(struct ms_io *io)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    return node->sim->now + node->clock;
}

static uint64_t io_real_time(struct ms_io *io)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    return ms_sim_real_time(node->sim) + node->real_clock;
}

static void io_random(struct ms_io *io, void *data, size_t size)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)ms_sim_below(&node->sim->dice, 256);
}

static void on_tick(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    if (node->wake != event->value) return; /* an earlier wish came in between */
    node->wake = 0;
    ms_engine_tick(&node->engine);
    ms_sim_node_after(node);
}

static void io_wake_at(struct ms_io *io, uint64_t now)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    struct ms_sim *sim = node->sim;
    uint64_t wish = now > node->clock ? now - node->clock : 0;
    if (wish < sim->now) wish = sim->now;
    if (node->wake && node->wake <= wish) return;
    node->wake = wish;
    ms_sim_at(sim, wish - sim->now + ms_sim_below(&sim->dice, 100),
              (struct ms_sim_event){.name = "tick", .fn = on_tick, .node = node->index, .life = node->life, .value = wish});
}

static void io_log_write(struct ms_io *io, struct ms_block *block)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    ms_sim_book_handed(node, block);
    ms_sim_jobs_add(node, MS_SIM_JOB_WRITE, block, 0, 0, ms_bytes(NULL, 0));
}

static void io_log_sync(struct ms_io *io)
{
    ms_sim_jobs_add(ms_sim_node_of(io), MS_SIM_JOB_SYNC, NULL, 0, 0, ms_bytes(NULL, 0));
}

static void io_log_reserve(struct ms_io *io)
{
    ms_sim_jobs_reserve(ms_sim_node_of(io));
}

static void io_log_trim(struct ms_io *io, uint64_t pin, uint64_t keep_bytes)
{
    ms_sim_jobs_add(ms_sim_node_of(io), MS_SIM_JOB_TRIM, NULL, pin, keep_bytes, ms_bytes(NULL, 0));
}

static void io_log_read(struct ms_io *io, uint64_t link, uint64_t from, uint64_t limit)
{
    ms_sim_jobs_read(ms_sim_node_of(io), link, from, limit);
}

static void io_snapshot_make(struct ms_io *io)
{
    ms_sim_snap_make(ms_sim_node_of(io));
}

static void io_snapshot_read(struct ms_io *io, uint64_t link, uint64_t snapshot, uint64_t offset)
{
    ms_sim_snap_read(ms_sim_node_of(io), link, snapshot, offset);
}

static void io_stage_begin(struct ms_io *io)
{
    ms_sim_jobs_add(ms_sim_node_of(io), MS_SIM_JOB_STAGE, NULL, 0, 0, ms_bytes(NULL, 0));
}

static void io_stage_write(struct ms_io *io, struct ms_bytes groups)
{
    ms_sim_jobs_add(ms_sim_node_of(io), MS_SIM_JOB_STAGE_WRITE, NULL, 0, 0, groups);
}

static void io_stage_commit(struct ms_io *io, uint64_t end)
{
    ms_sim_jobs_add(ms_sim_node_of(io), MS_SIM_JOB_COMMIT, NULL, end, 0, ms_bytes(NULL, 0));
}

static void io_stage_abort(struct ms_io *io)
{
    ms_sim_jobs_add(ms_sim_node_of(io), MS_SIM_JOB_ABORT, NULL, 0, 0, ms_bytes(NULL, 0));
}

static void io_archive(struct ms_io *io, uint64_t from, struct ms_bytes text, struct ms_bytes extras)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    struct ms_buf both;
    if (from == 0 && text.size) node->text_archives++;
    int64_t countdown = ms_sim_hush();
    ms_buf_init(&both);
    ms_buf_add(&both, text.data, text.size);
    ms_buf_add(&both, extras.data, extras.size);
    ms_sim_unhush(countdown);
    if (both.failed) ms_sim_out_of_memory(node->sim);
    ms_sim_jobs_add(node, MS_SIM_JOB_ARCHIVE, NULL, from, text.size, ms_buf_bytes(&both));
    ms_buf_close(&both);
}

static void io_extras_read(struct ms_io *io, uint64_t boot)
{
    ms_sim_extras_read(ms_sim_node_of(io), boot);
}

static void io_report(struct ms_io *io, uint64_t id, uint64_t done, struct ms_bytes text)
{
    ms_sim_extras_report(ms_sim_node_of(io), id, done, text);
}

static void io_conflict(struct ms_io *io, uint64_t link, const struct ms_extra *extra)
{
    ms_sim_extras_conflict(ms_sim_node_of(io), link, extra);
}

static uint64_t io_connect(struct ms_io *io, const char *address)
{
    return ms_sim_net_connect(ms_sim_node_of(io), address);
}

static void io_send(struct ms_io *io, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload,
                    struct ms_block *block)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    if (block) ms_sim_check_send(node, link, block);
    ms_sim_host_send(node, type);
    ms_sim_net_send(node, link, type, flags, payload, block);
}

static void io_close(struct ms_io *io, uint64_t link)
{
    ms_sim_net_close_link(ms_sim_node_of(io), link);
}

static void io_pause(struct ms_io *io, uint64_t link, bool paused)
{
    ms_sim_net_pause(ms_sim_node_of(io), link, paused);
}

static void io_changed(struct ms_io *io)
{
    ms_sim_node_of(io)->changed = true;
}

/* The host confirms a while after it was given something; one confirmation for all that came in meanwhile. */
static void on_host(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    node->host_busy = false;
    sim->counts.host_confirms++;
    ms_engine_host_applied(&node->engine, node->host_lsn);
    ms_sim_node_after(node);
}

static void give_host(struct ms_sim_node *node, uint64_t lsn)
{
    if (!node->has_host) return;
    node->host_lsn = lsn;
    if (node->host_busy) return;
    node->host_busy = true;
    ms_sim_at(node->sim, ms_sim_between(node->sim, 50, 5000),
              (struct ms_sim_event){.name = "host", .fn = on_host, .node = node->index, .life = node->life});
}

static void io_applied(struct ms_io *io, struct ms_block *block)
{
    give_host(ms_sim_node_of(io), block->last);
}

static void io_role(struct ms_io *io, int role, const char *reason)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    ms_sim_note(node->sim, node->index, "is %s: %s", ms_role_name(role), reason);
    if (role == MS_ROLE_OPENING) give_host(node, node->store.applied); /* it may have been given nothing since the start */
}

static void io_replaced(struct ms_io *io, struct ms_store *old)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    ms_store_close(old);
    ms_release(old);
    give_host(node, node->store.applied);
}

static void io_log_line(struct ms_io *io, int severity, const char *line)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    (void)severity;
    ms_sim_note(node->sim, node->index, "! %s", line);
}

static const struct ms_io_ops io_ops = {
    .now = io_now,
    .real_time = io_real_time,
    .random = io_random,
    .wake_at = io_wake_at,
    .log_write = io_log_write,
    .log_sync = io_log_sync,
    .log_reserve = io_log_reserve,
    .log_trim = io_log_trim,
    .log_read = io_log_read,
    .snapshot_make = io_snapshot_make,
    .snapshot_read = io_snapshot_read,
    .stage_begin = io_stage_begin,
    .stage_write = io_stage_write,
    .stage_commit = io_stage_commit,
    .stage_abort = io_stage_abort,
    .archive = io_archive,
    .extras_read = io_extras_read,
    .report = io_report,
    .conflict = io_conflict,
    .connect = io_connect,
    .send = io_send,
    .close = io_close,
    .pause = io_pause,
    .changed = io_changed,
    .role = io_role,
    .applied = io_applied,
    .replaced = io_replaced,
    .log_line = io_log_line,
    .event = ms_sim_view_event,
    .ask_flush = ms_sim_view_ask_flush,
};

/* ---- birth ----------------------------------------------------------------------------------------------------- */

void ms_sim_node_forget(struct ms_sim_node *node)
{
    node->io.ops = &io_ops;
    node->life = node->wake = node->host_lsn = node->comparing = 0;
    node->has_engine = node->has_host = node->host_busy = node->changed = false;
    memset(node->tables, 0, sizeof node->tables);
    node->accepted_from = node->accepted_count = node->wait_count = 0;
    if (node->logged) memset(node->logged, 0, node->logged_capacity * sizeof *node->logged);
    node->log = NULL;
    node->log_dir = 0;
    node->text_archives = 0;
    ms_sim_jobs_init(node);
    ms_sim_check_forget(node);
}

static int open_state(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    uint64_t id = ms_sim_between(sim, 1, UINT64_MAX - 1);
    const struct ms_policy *policy = ms_sim_node_policy(node);
    node->log_config = (struct ms_log_config){policy->log_segment_bytes, policy->log_max_bytes};
    int rc = ms_datadir_open(ms_sim_fs(node->fs), "data", ms_str(cluster_name), id, &node->dir);
    if (!rc) rc = ms_extras_pending(&node->dir, &node->extras);
    if (!rc) rc = ms_store_init(&node->store);
    if (rc) return rc;
    /* recovery opens the log with the path of the live generation: a buffer that stays what it is when generations are
     * switched */
    memcpy(node->log_dirs[0], node->dir.live, MS_PATH_MAX);
    uint64_t errors = ms_sim_fs_counters(node->fs)->eio;
    node->recovered =
        ms_recover(&node->dir, ms_str(cluster_name), &node->log_config, &node->store, &node->log, &node->recovery);
    node->read_errors = ms_sim_fs_counters(node->fs)->eio > errors;
    return node->recovered == MS_E_DAMAGED ? 0 : node->recovered;
}

static int open_engine(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    const struct ms_policy *policy = ms_sim_node_policy(node);
    uint64_t largest = ms_policy_largest_group(policy);
    struct ms_engine_config config = {
        .cluster = cluster_name,
        .name = node->address,
        .node_id = node->dir.node_id,
        .boot_id = ms_sim_between(sim, 1, UINT64_MAX - 1),
        .policy = policy,
        .rules = node->rules,
        .has_host = node->has_host,
        .recovered = node->recovered,
        .log_first = node->log ? ms_log_first(node->log) : 0,
        .log_room = node->log ? ms_log_room(node->log, largest) : 0,
        .snapshot_end = node->recovery.snapshot_end,
        .extras = node->extras,
    };
    return ms_engine_init(&node->engine, &node->io, &node->store, &config);
}

static void free_all(struct ms_sim_node *node)
{
    ms_sim_view_forget(node);
    ms_sim_snap_close(node);
    ms_sim_jobs_close(node);
    if (node->has_engine) ms_engine_close(&node->engine);
    ms_store_close(&node->store);
    ms_log_close(node->log);
    ms_datadir_close(&node->dir);
    node->log = NULL;
}

int ms_sim_node_open(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    ms_sim_node_forget(node);
    node->life = ++sim->next_life;
    node->rules_serial = ++sim->next_serial;
    node->has_host = sim->options.random ? ms_sim_one_in(sim, 2) : sim->options.has_host;
    node->clock = ms_sim_between(sim, 1000000, 1000000000);
    sim->counts.starts++;
    int rc = open_state(node);
    if (!rc) rc = open_engine(node);
    char why[200];
    (void)snprintf(why, sizeof why, "%s",
                   rc                ? ms_fail_message(rc)
                   : node->recovered ? ms_fail_message(node->recovered)
                                     : "ok");
    ms_sim_note(sim, node->index, "starts: %d %s, at %llu", rc, why, (unsigned long long)node->store.applied);
    if (rc) {
        free_all(node);
        node->life = 0;
        return rc;
    }
    node->up = node->has_engine = true;
    node->powerless = false;
    ms_sim_check_opened(node);
    give_host(node, node->store.applied);
    ms_sim_node_after(node);
    return 0;
}

/* ---- ends ------------------------------------------------------------------------------------------------------ */

/* What a process that ends in order does: what was handed to the log is written and synced. */
static void finish_log(struct ms_sim_node *node)
{
    if (!node->log || node->jobs.syncing || node->engine.log_error) return;
    struct ms_list *queue = &node->jobs.queue;
    for (struct ms_list *at = queue->next; at != queue; at = at->next) {
        struct ms_sim_job *job = ms_list_entry(at, struct ms_sim_job, node);
        if (job->kind != MS_SIM_JOB_WRITE) return;
        if (ms_log_write(node->log, &job->block, 1, io_real_time(&node->io))) return;
        ms_sim_book_written(node, job->block);
    }
    struct ms_sync_job sync;
    if (!ms_log_sync_begin(node->log, &sync)) return;
    ms_sync_run(&sync);
    (void)ms_log_sync_end(node->log, &sync);
}

void ms_sim_node_end(struct ms_sim_node *node, int kind)
{
    static const char *const kinds[] = {"stops", "is killed", "loses power"};
    struct ms_sim *sim = node->sim;
    ms_sim_note(sim, node->index, "%s", kinds[kind]);
    if (node->has_engine && node->engine.follow.stage) sim->counts.bootstraps_interrupted_by_crash += kind != MS_SIM_STOP;
    sim->counts.comparisons_cut += node->comparing != 0;
    node->comparing = 0;
    ms_sim_work_forget(node);
    ms_sim_net_node_down(node, kind == MS_SIM_POWER);
    if (kind == MS_SIM_STOP)
        finish_log(node);
    else
        ms_sim_fs_stop_after(node->fs, 0);
    free_all(node);
    if (kind == MS_SIM_KILL) ms_sim_fs_crash(node->fs);
    if (kind == MS_SIM_POWER) {
        struct ms_sim_fs_loss loss;
        ms_sim_fs_power_loss(node->fs, &loss);
        sim->counts.torn_writes += loss.torn;
        sim->counts.reordered_writes += loss.reordered;
    }
    if (kind == MS_SIM_STOP) sim->counts.clean_stops++;
    if (kind == MS_SIM_KILL) sim->counts.kills++;
    if (kind == MS_SIM_POWER) sim->counts.power_losses++;
    if (ms_sim_fs_handles(node->fs))
        ms_sim_broken(sim, node->index, "%u files are open after the end", ms_sim_fs_handles(node->fs));
    node->up = node->has_engine = false;
    node->powerless = kind == MS_SIM_POWER;
    node->lost_power |= kind == MS_SIM_POWER;
    node->life = 0;
}

bool ms_sim_node_stopped(struct ms_sim_node *node)
{
    if (!ms_sim_fs_stopped(node->fs)) return false;
    node->sim->counts.mid_operation_stops++;
    ms_sim_node_end(node, node->stop_power ? MS_SIM_POWER : MS_SIM_KILL);
    return true;
}

void ms_sim_node_close(struct ms_sim_node *node)
{
    ms_release(node->accepted);
    ms_release(node->waits);
    ms_release(node->logged);
    ms_release(node->owed);
    ms_sim_view_close(node);
    ms_sim_fold_close(&node->mint);
}

void ms_sim_node_after(struct ms_sim_node *node)
{
    if (!node->has_engine || node->sim->failed) return;
    ms_sim_check_input(node);
    ms_sim_work_waits(node);
}
