/* io.h for a real node: effects become word for the threads. And the loop's turn, which runs the engine. */
#include "node_conflict.h"

static struct ms_node *node_of(struct ms_io *io)
{
    return (struct ms_node *)(void *)io;
}

/* ---- time, chance ----------------------------------------------------------------------------------------------------------- */

static uint64_t io_now(struct ms_io *io)
{
    (void)io;
    return ms_clock_now();
}

static uint64_t io_real_time(struct ms_io *io)
{
    (void)io;
    return ms_clock_real();
}

static void io_random(struct ms_io *io, void *data, size_t size)
{
    (void)io;
    ms_random(data, size);
}

static void io_wake_at(struct ms_io *io, uint64_t now)
{
    struct ms_node *node = node_of(io);
    if (now < node->wake_at) node->wake_at = now;
}

/* ---- disk ---------------------------------------------------------------------------------------------------------------------- */

static void io_log_write(struct ms_io *io, struct ms_block *block)
{
    ms_disk_log_write(&node_of(io)->disk, block);
}

static void io_log_sync(struct ms_io *io)
{
    ms_disk_log_sync(&node_of(io)->disk);
}

static void io_log_reserve(struct ms_io *io)
{
    ms_disk_log_reserve(&node_of(io)->disk);
}

static void io_log_trim(struct ms_io *io, uint64_t pin, uint64_t keep_bytes)
{
    ms_disk_log_trim(&node_of(io)->disk, pin, keep_bytes);
}

static void io_log_read(struct ms_io *io, uint64_t link, uint64_t from, uint64_t limit)
{
    ms_disk_log_read(&node_of(io)->disk, link, from, limit);
}

static void io_snapshot_make(struct ms_io *io)
{
    ms_disk_snapshot_make(&node_of(io)->disk);
}

static void io_snapshot_read(struct ms_io *io, uint64_t link, uint64_t snapshot, uint64_t offset)
{
    ms_disk_snapshot_read(&node_of(io)->disk, link, snapshot, offset);
}

static void io_stage_begin(struct ms_io *io)
{
    ms_disk_stage_begin(&node_of(io)->disk);
}

static void io_stage_write(struct ms_io *io, struct ms_bytes groups)
{
    ms_disk_stage_write(&node_of(io)->disk, groups);
}

static void io_stage_commit(struct ms_io *io, uint64_t end)
{
    ms_disk_stage_commit(&node_of(io)->disk, end);
}

static void io_stage_abort(struct ms_io *io)
{
    ms_disk_stage_abort(&node_of(io)->disk);
}

static void io_archive(struct ms_io *io, uint64_t from, struct ms_bytes text, struct ms_bytes extras)
{
    ms_disk_archive(&node_of(io)->disk, from, text, extras);
}

static void io_extras_read(struct ms_io *io, uint64_t boot)
{
    ms_disk_extras_read(&node_of(io)->disk, boot);
}

static void io_report(struct ms_io *io, uint64_t id, uint64_t done, struct ms_bytes text)
{
    ms_disk_report(&node_of(io)->disk, id, done, text);
}

static void io_conflict(struct ms_io *io, uint64_t link, const struct ms_extra *extra)
{
    ms_conflict_queue(node_of(io), link, extra);
}

/* ---- links ----------------------------------------------------------------------------------------------------------------------- */

static uint64_t io_connect(struct ms_io *io, const char *address)
{
    return ms_net_connect(node_of(io), address);
}

static void io_send(struct ms_io *io, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload, struct ms_block *block)
{
    ms_net_send(node_of(io), link, type, flags, payload, block);
}

static void io_close(struct ms_io *io, uint64_t link)
{
    ms_net_close(node_of(io), link);
}

static void io_pause(struct ms_io *io, uint64_t link, bool paused)
{
    ms_net_pause(node_of(io), link, paused);
}

/* ---- the host, and who waits ------------------------------------------------------------------------------------------------------ */

static void io_changed(struct ms_io *io)
{
    node_of(io)->moved = true;
    ms_host_look(node_of(io));
}

static void io_role(struct ms_io *io, int role, const char *reason)
{
    ms_host_role(node_of(io), role, reason);
}

static void io_applied(struct ms_io *io, struct ms_block *block)
{
    ms_host_applied(node_of(io), block);
}

static void io_replaced(struct ms_io *io, struct ms_store *old)
{
    ms_host_replaced(node_of(io));
    ms_disk_discard(&node_of(io)->disk, old);
}

static void io_log_line(struct ms_io *io, int severity, const char *line)
{
    ms_host_line(node_of(io), severity, line);
}

static void io_event(struct ms_io *io, const struct ms_event *event)
{
    ms_policy_event(node_of(io), event);
}

static void io_ask_flush(struct ms_io *io, uint32_t table, const struct ms_flush_stats *stats)
{
    ms_policy_ask_flush(node_of(io), table, stats);
}

const struct ms_io_ops ms_node_io_ops = {
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
    .event = io_event,
    .ask_flush = io_ask_flush,
};

/* ---- the loop's turn --------------------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 4 }; /* of engine and disk in one turn, before the sockets are looked at again */

static void hang_up(struct ms_node *node)
{
    ms_tcp_enter(node->tcp);
    if (!node->hanging) ms_tcp_close_all(node->tcp);
    node->hanging = true;
    bool idle = ms_tcp_idle(node->tcp);
    ms_tcp_leave(node->tcp);
    ms_node_lock(node);
    if (idle && !node->hung_up) {
        node->hung_up = true;
        (void)pthread_cond_broadcast(&node->changed);
    }
    ms_node_unlock(node);
}

/* Under load the loop is faster than those who append, and would make a group of every few records, each with a write, a send and
 * the same again at every follower. So after a round that took several records it sleeps for a moment, unless somebody waits, there is
 * other work, or enough has come together already. A lone change is never held up: its round takes one record. */
enum { GATHER_RECORDS = 16, GATHER_US = 1000 };

static bool gathers(struct ms_node *node, uint64_t now)
{
    if (node->batch >= GATHER_RECORDS) node->gather_until = now + GATHER_US;
    node->batch = 0;
    if (node->hang_up || node->engine.tail.unwritten >= MS_NODE_GATHER_BYTES || ms_node_someone_waits(node)) node->gather_until = 0;
    return now < node->gather_until;
}

/* One round: the engine's timers and what was appended, under the lock; then the effects, without it. false when there was nothing
 * to do: then the node counts as asleep, and who brings work wakes the loop. */
static bool round_done(struct ms_node *node, bool first, bool *leaving)
{
    uint64_t now = ms_clock_now();
    ms_node_enter(&node->door);
    node->asleep = node->told = node->gathering = false;
    if (node->wake_at != MS_FOREVER && now >= node->wake_at) {
        node->wake_at = MS_FOREVER;
        ms_engine_tick(&node->engine);
    }
    bool hold = gathers(node, now);
    if (node->pump && !hold) {
        uint64_t before = node->engine.submitted;
        node->pump = false;
        ms_engine_pump(&node->engine);
        node->batch = node->engine.submitted - before;
    }
    if (first) node->work_wanted = true; /* jobs may have ended. A caller that is at work wakes the loop when it lets go */
    bool mine = !node->at_work && (node->work_wanted || ms_disk_pending(&node->disk));
    if (mine) {
        node->at_work = true;
        node->work_wanted = false;
        ms_disk_take(&node->disk);
    }
    bool net = ms_net_take(node), work = mine || net;
    *leaving = node->hang_up;
    if (!work) {
        node->asleep = true;
        node->gathering = hold;
        node->armed_at = hold && node->gather_until < node->wake_at ? node->gather_until : node->wake_at;
    }
    ms_node_leave(&node->door);
    if (mine) {
        ms_disk_perform(&node->disk, true);
        ms_node_lock(node);
        node->at_work = false;
        ms_node_unlock(node);
    }
    if (net) ms_net_perform(node);
    return work;
}

bool ms_node_turn(void *context)
{
    struct ms_node *node = context;
    bool leaving = false;
    for (int i = 0; i < ROUNDS; i++) {
        if (round_done(node, i == 0, &leaving)) continue;
        ms_loop_arm(&node->loop, node->armed_at); /* only this thread writes it */
        if (leaving) hang_up(node);
        return false;
    }
    if (leaving) hang_up(node);
    return true;
}
