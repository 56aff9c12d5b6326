/* The engine's middle: life, the way of a block to disk, timers. Roles are in role.c, writing in commit.c, the leader's side of links in
 * leader.c, the follower's in follower.c and stage.c. */
#include "inside.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- telling ---------------------------------------------------------------------------------------------------- */

void ms_engine_event(struct ms_engine *e, int severity, const char *format, ...)
{
    char line[MS_ERROR_SIZE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    e->io->ops->log_line(e->io, severity, line);
    if (severity > MS_LOG_DEBUG) ms_engine_tell_policy(e, "log", severity, line);
}

void ms_engine_tell_policy(struct ms_engine *e, const char *kind, int severity, const char *text)
{
    struct ms_event event = {kind, severity, text};
    if (e->rules && e->rules->functions & MS_RULES_EVENT) e->io->ops->event(e->io, &event);
}

void ms_engine_alarm(struct ms_engine *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(e->alarm, sizeof e->alarm, format, args);
    va_end(args);
    e->alarms++;
    e->io->ops->log_line(e->io, MS_LOG_ERROR, e->alarm);
    ms_engine_tell_policy(e, "alarm", MS_LOG_ERROR, e->alarm);
}

void ms_engine_changed(struct ms_engine *e)
{
    e->io->ops->changed(e->io);
}

void ms_engine_wake(struct ms_engine *e, uint64_t at)
{
    if (at) e->io->ops->wake_at(e->io, at);
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

int ms_engine_init(struct ms_engine *e, struct ms_io *io, struct ms_store *store, const struct ms_engine_config *config)
{
    memset(e, 0, sizeof *e);
    e->io = io;
    e->store = store;
    e->policy = *config->policy;
    e->rules = ms_rules_ref(config->rules);
    e->policy_hash = e->rules ? e->rules->hash : ms_policy_hash(&e->policy);
    e->viewing = ms_rules_view(e->rules);
    ms_view_init(&e->view, e->policy.outside_max);
    e->node_id = config->node_id;
    e->boot_id = config->boot_id;
    e->has_host = config->has_host;
    (void)snprintf(e->cluster, sizeof e->cluster, "%s", config->cluster);
    (void)snprintf(e->name, sizeof e->name, "%s", config->name);
    ms_list_init(&e->peers);
    ms_tail_init(&e->tail, e->policy.group_bytes, store->applied);
    e->submitted = e->written = e->synced = store->applied;
    e->log_first = config->log_first ? config->log_first : store->applied + 1;
    e->room_end = config->log_room;
    e->snapshot_end = config->snapshot_end;
    e->highest = ms_lineage_last(&store->lineage);
    e->extras.pending = config->extras;
    if (config->recovered) {
        e->damaged = true;
        ms_engine_alarm(e, "%s", ms_fail_message(config->recovered));
    }
    ms_engine_refresh_tables(e);
    return 0;
}

void ms_engine_close(struct ms_engine *e)
{
    if (!e->io) return;
    while (!ms_list_empty(&e->peers)) {
        struct ms_peer *peer = ms_list_entry(e->peers.next, struct ms_peer, node);
        ms_list_remove(&peer->node);
        ms_engine_free_peer(peer);
    }
    if (e->follow.stage) {
        ms_store_close(e->follow.stage);
        ms_release(e->follow.stage);
        e->follow.stage = NULL;
    }
    ms_extras_close(e);
    ms_tail_close(&e->tail);
    ms_view_close(&e->view);
    ms_rules_unref(e->rules);
    e->rules = NULL;
    e->io = NULL;
}

void ms_engine_refresh_tables(struct ms_engine *e)
{
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++)
        if (e->store->tables[id]) ms_flush_table_policy(e, id);
}

struct ms_history ms_engine_history(const struct ms_engine *e)
{
    return (struct ms_history){&e->store->lineage, e->log_first, e->store->applied};
}

/* ---- the way to disk ---------------------------------------------------------------------------------------------- */

/* The first sealed block that was not handed to the log yet, or NULL. */
static struct ms_block *first_unsubmitted(struct ms_engine *e)
{
    struct ms_block *found = NULL;
    for (struct ms_list *at = e->tail.retained.prev; at != &e->tail.retained; at = at->prev) {
        struct ms_block *block = ms_list_entry(at, struct ms_block, node);
        if (block->first <= e->submitted) break;
        found = block;
    }
    return found;
}

static void submit(struct ms_engine *e)
{
    struct ms_block *block = first_unsubmitted(e);
    while (block && block->end_bytes <= e->room_end) {
        e->io->ops->log_write(e->io, block);
        e->submitted = block->last;
        if (block->want_sync) e->sync_wanted = true;
        if (!e->sync_at) e->sync_at = ms_now(e) + (uint64_t)e->policy.sync_every_ms * 1000;
        block = block->node.next == &e->tail.retained ? NULL : ms_list_entry(block->node.next, struct ms_block, node);
    }
}

void ms_engine_ask_room(struct ms_engine *e)
{
    if (e->reserving || e->log_error) return;
    e->reserving = true;
    e->room_asked = e->tail.bytes;
    e->io->ops->log_reserve(e->io);
}

/* Asks for a segment ahead of need: less than one is left, and an eighth has gone since the last answer. */
static void keep_room(struct ms_engine *e)
{
    uint64_t left = e->room_end > e->tail.bytes ? e->room_end - e->tail.bytes : 0;
    uint64_t low = e->policy.log_segment_bytes;
    if (left >= low || e->room_retry_at) return;
    if (e->tail.bytes - e->room_asked >= low / 8 || left < MS_ROOM_MARGIN) ms_engine_ask_room(e);
}

void ms_engine_pump(struct ms_engine *e)
{
    if (e->log_error || e->closing) return;
    struct ms_block *sealed = ms_tail_seal(&e->tail);
    if (sealed && e->role == MS_ROLE_LEADER) ms_engine_note_applied(e, sealed->last);
    if (sealed && e->role == MS_ROLE_LEADER && e->store->changes_since_mark) e->store->changed_us = e->io->ops->real_time(e->io);
    submit(e);
    if (e->sync_wanted && !e->syncing && e->submitted > e->synced) {
        e->sync_wanted = false;
        e->syncing = true;
        e->io->ops->log_sync(e->io);
    }
    keep_room(e);
    ms_engine_wake(e, e->sync_at);
}

void ms_engine_written(struct ms_engine *e, uint64_t lsn, int err)
{
    if (err) {
        ms_engine_log_failed(e, err, "write");
        return;
    }
    if (lsn <= e->written || lsn > e->submitted) return; /* beyond submitted: of a log that a bootstrap has replaced */
    e->written = lsn;
    if (e->flushes_unwritten) ms_flush_written(e);
    if (e->role == MS_ROLE_LEADER) ms_engine_stream(e);
    ms_follow_apply(e);
    uint64_t keep = e->policy.retain_bytes;
    uint64_t done = e->store->applied < lsn ? e->store->applied : lsn; /* a follower still needs what it has not applied */
    ms_tail_written(&e->tail, done, keep);
    ms_follow_flow(e);
    if (e->role != MS_ROLE_LEADER) ms_engine_pump(e); /* a leader's open group may grow until its driver comes for it */
    ms_engine_try_open(e);
    ms_engine_changed(e);
}

void ms_engine_synced(struct ms_engine *e, uint64_t lsn, int err)
{
    e->syncing = false;
    if (err) {
        ms_engine_log_failed(e, err, "sync");
        return;
    }
    if (lsn > e->written) lsn = e->written; /* a late answer about a log that a bootstrap has replaced */
    if (lsn > e->synced) e->synced = lsn;
    if (e->synced >= e->submitted) e->sync_at = 0;
    ms_engine_update_replicated(e);
    ms_follow_ack(e);
    ms_engine_try_open(e);
    ms_extras_advance(e);
    ms_engine_pump(e);
    ms_engine_changed(e);
}

void ms_engine_room(struct ms_engine *e, uint64_t room, int err)
{
    uint64_t end = e->tail.bytes - e->tail.unwritten + room;
    e->reserving = false;
    if (end > e->room_end) e->room_end = end;
    if (err && !e->room_error) {
        e->counters.no_space++;
        ms_engine_event(e, MS_LOG_WARN, "no space for the log: %s", ms_fail_message(err));
    }
    if (!err && e->room_error) ms_engine_event(e, MS_LOG_INFO, "space for the log again");
    e->room_error = err;
    e->room_retry_at = 0;
    if (err) {
        e->room_retry_at = ms_now(e) + 200000;
        if (err != MS_E_LIMIT || !e->snapshotting) ms_engine_trim(e); /* the end of a snapshot trims anyway */
        if (e->written > e->snapshot_end) (void)ms_engine_snapshot_now(e);
    }
    ms_engine_wake(e, e->room_retry_at);
    ms_follow_flow(e);
    if (e->role != MS_ROLE_LEADER) ms_engine_pump(e); /* a leader's open group may grow until its driver comes for it */
    ms_engine_try_open(e);
    ms_engine_changed(e);
}

void ms_engine_trim(struct ms_engine *e)
{
    if (e->room_error) e->io->ops->log_trim(e->io, UINT64_MAX, MS_TRIM_URGENT); /* a full log outranks late followers */
    else e->io->ops->log_trim(e->io, ms_engine_pin(e), e->policy.log_keep_bytes);
}

void ms_engine_trimmed(struct ms_engine *e, uint64_t first)
{
    if (!e->snapshotting) e->trimming = false;
    if (first <= e->log_first) { /* no room came of it: room_retry_at asks again, not this */
        ms_engine_changed(e);
        return;
    }
    e->log_first = first;
    if (e->room_error) ms_engine_ask_room(e);
}

void ms_engine_log_failed(struct ms_engine *e, int err, const char *what)
{
    if (e->log_error) return;
    e->log_error = MS_E_LOG_FAILED;
    e->counters.log_failures++;
    ms_engine_alarm(e, "the log has failed, this node replicates no more (%s: %s)", what, ms_fail_message(err));
    if (e->role == MS_ROLE_FOLLOWER) {
        ms_follow_stop(e);
        ms_engine_set_role(e, MS_ROLE_IDLE, MS_E_LOG_FAILED, "the log has failed");
    } else if (e->role != MS_ROLE_IDLE) {
        ms_engine_step_down(e, MS_E_LOG_FAILED, "the leader's log has failed");
    }
    ms_engine_changed(e);
}

/* ---- timers ------------------------------------------------------------------------------------------------------- */

static void mark_due(struct ms_engine *e, uint64_t now)
{
    if (e->role != MS_ROLE_LEADER || e->store->changes_since_mark == 0) {
        e->mark_at = 0;
        return;
    }
    if (!e->mark_at) e->mark_at = now + (uint64_t)e->policy.mark_every_ms * 1000;
    if (now >= e->mark_at) {
        int rc = ms_engine_append_mark(e);
        e->mark_at = rc ? now + 100000 : 0; /* no room: soon again */
        if (!rc) ms_engine_pump(e);
    }
    ms_engine_wake(e, e->mark_at);
}

static void snapshot_due(struct ms_engine *e, uint64_t now)
{
    if (e->snapshotting || e->damaged || e->log_error || e->written <= e->snapshot_end) return;
    if (e->role != MS_ROLE_LEADER && e->role != MS_ROLE_FOLLOWER) return;
    if (!e->snapshot_at) e->snapshot_at = now + (uint64_t)e->policy.snapshot_every_ms * 1000;
    if (now >= e->snapshot_at || e->tail.bytes - e->log_bytes_at_snapshot >= e->policy.snapshot_log_bytes) (void)ms_engine_snapshot_now(e);
    ms_engine_wake(e, e->snapshot_at);
}

static void sync_due(struct ms_engine *e, uint64_t now)
{
    if (!e->sync_at) return;
    if (now >= e->sync_at && e->submitted > e->synced) {
        e->sync_wanted = true;
        e->sync_at = now + (uint64_t)e->policy.sync_every_ms * 1000;
        ms_engine_pump(e);
    }
    ms_engine_wake(e, e->sync_at);
}

static void room_due(struct ms_engine *e, uint64_t now)
{
    if (!e->room_retry_at) return;
    if (now < e->room_retry_at) {
        ms_engine_wake(e, e->room_retry_at);
        return;
    }
    e->room_retry_at = 0;
    ms_engine_ask_room(e);
}

enum { VIEW_SLICE = 1000 }; /* entries forgotten a turn when a policy lets fewer be remembered */

void ms_engine_tick(struct ms_engine *e)
{
    uint64_t now = ms_now(e);
    if (e->closing) return;
    ms_engine_drop_lost(e);
    if (ms_view_trim(&e->view, VIEW_SLICE)) ms_engine_wake(e, now);
    room_due(e, now);
    ms_follow_apply(e);
    ms_engine_flush_due(e, now);
    mark_due(e, now);
    snapshot_due(e, now);
    sync_due(e, now);
    ms_engine_role_tick(e, now);
    ms_engine_peers_tick(e, now);
    ms_follow_tick(e, now);
    ms_extras_tick(e, now);
}

/* ---- positions ------------------------------------------------------------------------------------------------------ */

void ms_engine_note_applied(struct ms_engine *e, uint64_t lsn)
{
    uint64_t slot = e->applied_ring_next++ % MS_APPLIED_RING;
    e->applied_ring[slot].lsn = lsn;
    e->applied_ring[slot].time_us = e->io->ops->real_time(e->io);
}

int ms_engine_applied_at(const struct ms_engine *e, uint64_t lsn, uint64_t *time_us)
{
    uint64_t end = e->applied_ring_next, begin = end > MS_APPLIED_RING ? end - MS_APPLIED_RING : 0;
    if (begin == end || e->applied_ring[(end - 1) % MS_APPLIED_RING].lsn < lsn)
        return ms_fail(lsn <= e->store->applied ? MS_E_NOT_FOUND : MS_E_AGAIN, "lsn %llu: no time of applying is known", (unsigned long long)lsn);
    if (begin > 0 && e->applied_ring[begin % MS_APPLIED_RING].lsn >= lsn)
        return ms_fail(MS_E_NOT_FOUND, "lsn %llu was applied too long ago", (unsigned long long)lsn);
    while (end - begin > 1) { /* invariant: the entry before end has lsn or more; the first such is sought */
        uint64_t middle = begin + (end - begin - 1) / 2;
        if (e->applied_ring[middle % MS_APPLIED_RING].lsn >= lsn)
            end = middle + 1;
        else
            begin = middle + 1;
    }
    *time_us = e->applied_ring[begin % MS_APPLIED_RING].time_us;
    return 0;
}

void ms_engine_position(const struct ms_engine *e, struct ms_position *position)
{
    struct ms_epoch epoch = ms_lineage_last(&e->store->lineage);
    *position = (struct ms_position){
        .role = e->role,
        .reign = epoch.reign,
        .run = epoch.run,
        .id = epoch.id,
        .head = e->tail.head,
        .written = e->written,
        .synced = e->synced,
        .replicated = e->replicated,
        .applied = e->store->applied,
        .host_applied = e->has_host && e->role == MS_ROLE_FOLLOWER ? e->host_applied : e->store->applied,
        .leader_head = e->role == MS_ROLE_FOLLOWER ? e->follow.leader_head : e->tail.head,
        .known_reign = e->highest.reign > epoch.reign ? e->highest.reign : epoch.reign,
        .enabled = (int)e->policy.enabled,
        .on_beyond_end = e->policy.on_beyond_end,
    };
}

void ms_engine_host_applied(struct ms_engine *e, uint64_t lsn)
{
    if (lsn <= e->host_applied) return;
    e->host_applied = lsn;
    ms_follow_ack(e);
    ms_engine_try_open(e);
    ms_engine_changed(e);
}

const char *ms_role_name(int role)
{
    static const char *const names[] = {"idle", "asking", "opening", "leader", "follower"};
    return role >= 0 && role <= MS_ROLE_FOLLOWER ? names[role] : "unknown";
}
