/* The follower's side: one link to the leader, kept up with back-off; groups are written to our log, then folded into the tables; what we
 * have is acknowledged. Bootstrapping is in stage.c. */
#include "inside.h"

#include <inttypes.h>
#include <stdio.h>

#include "render.h"

/* ---- connecting ----------------------------------------------------------------------------------------------------- */

/* What moves when a connection was good for something. */
static uint64_t progress(const struct ms_engine *e)
{
    return e->store->applied + e->follow.stage_offset;
}

static void retry_later(struct ms_engine *e, uint64_t least_us)
{
    uint64_t now = ms_now(e), shortest = (uint64_t)e->policy.connect_min_ms * 1000, longest = (uint64_t)e->policy.connect_max_ms * 1000;
    bool moved = progress(e) != e->follow.progress;
    e->follow.backoff_us = moved || !e->follow.backoff_us ? shortest : e->follow.backoff_us * 2;
    if (e->follow.backoff_us > longest) e->follow.backoff_us = longest;
    uint64_t wait = e->follow.backoff_us > least_us ? e->follow.backoff_us : least_us;
    uint64_t jitter = 0;
    e->io->ops->random(e->io, &jitter, sizeof jitter);
    e->follow.retry_at = now + wait / 2 + jitter % (wait / 2 + 1); /* half fixed, half random */
    ms_engine_wake(e, e->follow.retry_at);
}

static void forget_link(struct ms_engine *e)
{
    ms_extras_disrupted(e);
    e->follow.link = 0;
    e->follow.paused = e->follow.held = false;
    e->follow.in_sync = false;
}

void ms_follow_drop(struct ms_engine *e, int code, const char *text)
{
    if (e->follow.link) {
        ms_engine_bye(e, e->follow.link, code, text);
        forget_link(e);
    }
    if (e->follow.state == MS_FOLLOW_OFF) return;
    ms_engine_event(e, MS_LOG_WARN, "link to leader %s dropped: %s", e->follow.address, text);
    if (e->follow.state != MS_FOLLOW_REFUSED) e->follow.state = MS_FOLLOW_WAIT;
    retry_later(e, 0);
}

void ms_follow_stop(struct ms_engine *e)
{
    if (e->follow.link) {
        ms_engine_bye(e, e->follow.link, 0, "this node follows no more");
        forget_link(e);
    }
    if (!e->follow.switching) ms_stage_drop(e);
    e->follow.state = MS_FOLLOW_OFF;
    e->follow.adopt = false;
    e->follow.archived_from = 0;
    e->follow.address[0] = '\0';
    e->follow.refused_logged = false;
}

static void connect_now(struct ms_engine *e)
{
    e->follow.progress = progress(e);
    e->follow.heard = e->follow.spoken = ms_now(e);
    if (e->follow.state != MS_FOLLOW_REFUSED) e->follow.state = MS_FOLLOW_CONNECT;
    e->follow.link = e->io->ops->connect(e->io, e->follow.address);
    e->counters.reconnects++;
    ms_engine_wake(e, e->follow.heard + (uint64_t)e->policy.link_timeout_ms * 1000); /* nothing may ever come of it */
}

void ms_follow_link_up(struct ms_engine *e)
{
    e->follow.heard = e->follow.spoken = ms_now(e);
    ms_engine_send_hello(e, e->follow.link, MS_PURPOSE_FOLLOW);
}

void ms_follow_link_down(struct ms_engine *e, int err, const char *why)
{
    forget_link(e);
    if (e->follow.state == MS_FOLLOW_OFF) return;
    ms_engine_event(e, err == 0 ? MS_LOG_INFO : MS_LOG_WARN, "link to leader %s is down: %s", e->follow.address, why);
    if (e->follow.state != MS_FOLLOW_REFUSED) e->follow.state = MS_FOLLOW_WAIT;
    retry_later(e, 0);
    ms_engine_changed(e);
}

int ms_engine_caught_up(const struct ms_engine *e)
{
    if (e->follow.state == MS_FOLLOW_REFUSED) return MS_CAUGHT_UNKNOWN;
    if (e->follow.held || e->unfinished || e->follow.state == MS_FOLLOW_ARCHIVE) return MS_CAUGHT_NOT;
    if (e->follow.first_head == UINT64_MAX) return e->follow.met ? MS_CAUGHT_NOT : MS_CAUGHT_UNKNOWN;
    return e->store->applied >= e->follow.first_head ? MS_CAUGHT_UP : MS_CAUGHT_NOT;
}

/* ---- hello and verdict ------------------------------------------------------------------------------------------------ */

void ms_follow_stream(struct ms_engine *e)
{
    struct ms_message start;
    ms_message_init(&start);
    start.mode = MS_START_STREAM;
    start.from = e->tail.head + 1; /* what was received but is not written yet stays on its way to the log */
    e->follow.state = MS_FOLLOW_STREAM;
    e->follow.archived_from = 0;
    e->follow.first_head = e->follow.leader_head;
    e->follow.acked_durable = e->follow.acked_applied = e->follow.acked_host = 0;
    e->follow.refused_logged = false;
    ms_engine_send(e, e->follow.link, MS_FRAME_START, &start);
    ms_follow_ack(e);
    ms_engine_event(e, MS_LOG_INFO, "following %s from lsn %" PRIu64, e->follow.address, start.from);
    ms_engine_changed(e);
}

static void on_hello(struct ms_engine *e, const struct ms_message *hello)
{
    if (strcmp(hello->cluster, e->cluster) != 0) {
        char text[192];
        (void)snprintf(text, sizeof text, "the leader belongs to cluster %s, not %s", hello->cluster, e->cluster);
        e->counters.links_refused++;
        ms_follow_drop(e, MS_E_CLUSTER, text);
        return;
    }
    e->follow.leader_node = hello->node_id;
    e->follow.leader_boot = hello->boot_id;
    e->follow.leader_features = hello->features;
    e->follow.leader_extra_max = hello->extra_max;
    e->follow.leader_head = hello->position;
    bool held = hello->comparing && (e->follow.state == MS_FOLLOW_CONNECT || e->follow.state == MS_FOLLOW_REFUSED);
    if (held && !e->follow.held) ms_engine_event(e, MS_LOG_INFO, "waiting: the host of %s compares its copy with the log", e->follow.address);
    e->follow.held = held;
    e->follow.met |= hello->role == MS_ROLE_LEADER;
    ms_engine_changed(e);
    ms_engine_meet(e, ms_lineage_last(&hello->lineage), hello->name);
}

static void refuse(struct ms_engine *e, const struct ms_verdict *verdict)
{
    e->follow.state = MS_FOLLOW_REFUSED;
    if (!e->follow.refused_logged)
        ms_engine_alarm(e, "leader_has_less_history: %s is %s (common up to lsn %" PRIu64 ", %" PRIu64 " records here after it); keeping the tables, "
                        "waiting for adopt", e->follow.address, ms_verdict_name(verdict->kind), verdict->common, verdict->extra);
    e->follow.refused_logged = true;
    ms_engine_bye(e, e->follow.link, MS_E_LESS_HISTORY, "this follower has more history; it waits for adopt");
    forget_link(e);
    retry_later(e, 500000);
    ms_engine_changed(e);
}

/* Extra records are archived before the bootstrap drops them: never silently (promise 6). */
static void archive_extra(struct ms_engine *e, const struct ms_verdict *verdict)
{
    struct ms_buf text;
    ms_buf_init(&text);
    (void)ms_render_line(&text, json_pack("{s:s,s:s,s:s,s:I,s:I}", "lost", "diverged", "verdict", ms_verdict_name(verdict->kind), "leader",
                                          e->follow.address, "common", (json_int_t)verdict->common, "records", (json_int_t)verdict->extra));
    e->follow.state = MS_FOLLOW_ARCHIVE;
    e->follow.archive = ++e->archives_asked;
    e->io->ops->archive(e->io, verdict->common + 1, ms_buf_bytes(&text), ms_bytes("", 0));
    ms_buf_close(&text);
}

static void on_verdict(struct ms_engine *e, const struct ms_message *message)
{
    struct ms_verdict verdict = {.kind = (int)message->kind, .common = message->common, .extra = message->extra, .allowed = message->allowed != 0};
    if (message->kind < MS_VERDICT_CONTINUE || message->kind > MS_VERDICT_OTHER) {
        ms_follow_drop(e, MS_E_FORMAT, "a verdict of an unknown kind");
        return;
    }
    e->follow.held = false;
    verdict.snapshot = verdict.kind != MS_VERDICT_CONTINUE || e->damaged;
    if (e->damaged && e->tail.head > e->store->applied) verdict.extra += e->tail.head - e->store->applied; /* in the log, in no table */
    e->follow.verdict = verdict;
    e->counters.verdicts[verdict.kind]++;
    if (!verdict.allowed && !e->follow.adopt) {
        refuse(e, &verdict);
    } else if (!verdict.snapshot) {
        if (e->store->applied) e->counters.resumes++;
        ms_stage_drop(e); /* begun for a leader that is no more */
        e->unfinished = false;
        ms_follow_stream(e);
    } else if (verdict.extra > 0 && (!e->follow.archived_from || e->follow.archived_from > verdict.common + 1)) {
        archive_extra(e, &verdict);
    } else {
        ms_stage_begin(e);
    }
}

void ms_engine_archived(struct ms_engine *e, uint64_t extras, int err)
{
    if (!err) e->counters.archived++;
    ms_extras_added(e, extras);
    if (err) ms_engine_alarm(e, "records that are to be dropped could not be archived: %s", ms_fail_message(err));
    if (++e->archives_done != e->follow.archive || e->follow.state != MS_FOLLOW_ARCHIVE) return;
    if (err || !e->follow.link) {
        if (err) ms_follow_drop(e, err, "the archive can't be written; trying again later");
        return;
    }
    e->follow.archived_from = e->follow.verdict.common + 1;
    ms_stage_begin(e);
}

/* ---- groups ------------------------------------------------------------------------------------------------------------- */

static void on_group(struct ms_engine *e, uint8_t flags, struct ms_bytes payload)
{
    struct ms_group_header header;
    int rc = ms_group_check(payload, &header);
    if (!rc && ms_group_size(header.body_size) != payload.size) rc = ms_fail(MS_E_FORMAT, "a group frame holds more than a group");
    if (!rc && (header.flags || header.first != e->tail.head + 1))
        rc = ms_fail(MS_E_FORMAT, "group %" PRIu64 " came where %" PRIu64 " was expected", header.first, e->tail.head + 1);
    struct ms_block *block = rc ? NULL : ms_block_of(payload, &header);
    if (!block) {
        ms_follow_drop(e, rc ? rc : MS_E_MEMORY, ms_fail_message(rc ? rc : MS_E_MEMORY));
        return;
    }
    block->want_sync = flags & MS_FRAME_WANT_SYNC;
    ms_tail_add_take(&e->tail, block);
    if (e->follow.leader_head < block->last) e->follow.leader_head = block->last;
    ms_engine_pump(e);
    ms_follow_flow(e);
}

void ms_follow_flow(struct ms_engine *e)
{
    if (!e->follow.link) return;
    bool full = e->tail.unwritten > e->policy.tail_bytes || e->tail.bytes > e->room_end ||
                e->tail.head - e->store->applied > 65536; /* applying is slower than receiving */
    if (full == e->follow.paused) return;
    e->follow.paused = full;
    e->io->ops->pause(e->io, e->follow.link, full);
    if (full && e->tail.bytes > e->room_end) ms_engine_ask_room(e);
}

/* A group that can't be folded makes the tables worthless as a copy: alarm, and bootstrap of everything. They stay readable
 * until the new ones are complete; nothing is made a snapshot of (snapshot_due) or led (promotable). */
static void apply_failed(struct ms_engine *e, int rc)
{
    e->damaged = true;
    e->unfinished = true;
    if (rc == MS_E_DAMAGED) e->counters.marks_failed++;
    ms_engine_alarm(e, "a group of the log can't be applied, bootstrapping anew: %s", ms_fail_message(rc));
    ms_follow_drop(e, rc, "a group of the log can't be applied here");
}

/* Bytes folded per call: the node's lock is held, so it has to be short. */
enum { APPLY_SLICE = 64 << 10 };

void ms_follow_apply(struct ms_engine *e)
{
    if (e->damaged || (e->role != MS_ROLE_FOLLOWER && e->role != MS_ROLE_OPENING)) return;
    if (e->store->applied >= e->written || e->opening_lsn) return;
    struct ms_block *block = ms_tail_find(&e->tail, e->store->applied + 1);
    size_t folded = 0;
    while (block && block->last <= e->written && folded < APPLY_SLICE) {
        struct ms_group_header header;
        struct ms_bytes group = ms_bytes(block->data, block->size);
        uint32_t tables = e->store->table_count;
        int rc = ms_group_open(group, &header);
        if (!rc) rc = ms_store_fold(e->store, group, &header, NULL, NULL);
        if (e->store->table_count != tables) ms_engine_refresh_tables(e);
        e->halfway = rc == MS_E_MEMORY;
        if (e->halfway) break;
        if (rc) {
            apply_failed(e, rc);
            return;
        }
        folded += block->size;
        e->counters.groups_applied++;
        ms_engine_note_applied(e, block->last);
        e->io->ops->applied(e->io, block);
        block = block->node.next == &e->tail.retained ? NULL : ms_list_entry(block->node.next, struct ms_block, node);
    }
    if (e->halfway) /* memory is out: the rest of the group follows when there is some */
        ms_engine_wake(e, ms_now(e) + 50000);
    else if (block && block->last <= e->written)
        ms_engine_wake(e, ms_now(e));
    ms_follow_ack(e);
    ms_engine_changed(e);
}

static struct ms_message ack_now(const struct ms_engine *e)
{
    struct ms_message ack;
    ms_message_init(&ack);
    ack.durable = e->synced < e->store->applied ? e->synced : e->store->applied;
    ack.applied = e->store->applied;
    ack.host_applied = e->has_host ? e->host_applied : e->store->applied;
    return ack;
}

void ms_follow_ack(struct ms_engine *e)
{
    if (e->follow.state != MS_FOLLOW_STREAM || !e->follow.link) return;
    struct ms_message ack = ack_now(e);
    if (ack.durable == e->follow.acked_durable && ack.applied == e->follow.acked_applied && ack.host_applied == e->follow.acked_host) return;
    e->follow.acked_durable = ack.durable;
    e->follow.acked_applied = ack.applied;
    e->follow.acked_host = ack.host_applied;
    e->follow.spoken = ms_now(e);
    ms_engine_send(e, e->follow.link, MS_FRAME_ACK, &ack);
}

/* ---- frames and timers ----------------------------------------------------------------------------------------------------- */

static void on_heartbeat(struct ms_engine *e, const struct ms_message *message)
{
    if (message->head > e->follow.leader_head) e->follow.leader_head = message->head;
    e->follow.leader_time_us = message->time_us;
    e->follow.in_sync = message->in_sync != 0;
    ms_extras_advance(e);
}

static void on_bye(struct ms_engine *e, const struct ms_message *message)
{
    int code = -(int)message->code;
    char text[200];
    (void)snprintf(text, sizeof text, "the leader says: %.*s", (int)message->text.size, (const char *)message->text.data);
    e->io->ops->close(e->io, e->follow.link);
    ms_follow_link_down(e, code, text);
}

void ms_follow_frame(struct ms_engine *e, uint8_t type, uint8_t flags, struct ms_bytes payload, const struct ms_message *message)
{
    e->follow.heard = ms_now(e);
    int state = e->follow.state;
    if (type == MS_FRAME_BYE)
        on_bye(e, message);
    else if (type == MS_FRAME_HEARTBEAT)
        on_heartbeat(e, message);
    else if (type == MS_FRAME_HELLO)
        on_hello(e, message);
    else if (type == MS_FRAME_VERDICT && (state == MS_FOLLOW_CONNECT || state == MS_FOLLOW_REFUSED))
        on_verdict(e, message);
    else if (type == MS_FRAME_EXTRA_DONE && state == MS_FOLLOW_STREAM)
        ms_extras_done(e, message);
    else if (type == MS_FRAME_GROUP && state == MS_FOLLOW_STREAM)
        on_group(e, flags, payload);
    else if (type == MS_FRAME_SNAPSHOT_DATA && state == MS_FOLLOW_SNAPSHOT)
        ms_stage_data(e, payload);
    else if ((type == MS_FRAME_SNAPSHOT_BEGIN || type == MS_FRAME_SNAPSHOT_END) && state == MS_FOLLOW_SNAPSHOT)
        ms_stage_message(e, type, message);
    else
        ms_follow_drop(e, MS_E_FORMAT, "a frame that does not belong here");
}

static void keep_alive(struct ms_engine *e, uint64_t now)
{
    uint64_t beat = (uint64_t)e->policy.heartbeat_ms * 1000, dead = (uint64_t)e->policy.link_timeout_ms * 1000;
    if (now - e->follow.heard >= dead) {
        if (e->follow.paused) {
            e->follow.heard = now; /* we don't read: its silence says nothing */
        } else {
            e->counters.link_timeouts++;
            ms_follow_drop(e, MS_E_TIMEOUT, "the leader has been silent too long");
            return;
        }
    }
    if (now - e->follow.spoken >= beat && (e->follow.state != MS_FOLLOW_CONNECT || e->follow.held)) {
        struct ms_message ack = ack_now(e);
        ms_engine_send(e, e->follow.link, e->follow.state == MS_FOLLOW_STREAM ? MS_FRAME_ACK : MS_FRAME_HEARTBEAT, &ack);
        e->follow.spoken = now;
    }
    ms_engine_wake(e, ms_sooner(e->follow.heard + dead, e->follow.spoken + beat));
}

void ms_follow_tick(struct ms_engine *e, uint64_t now)
{
    if (e->follow.state == MS_FOLLOW_OFF) return;
    if (e->follow.link) {
        keep_alive(e, now);
        return;
    }
    if (e->follow.switching) return; /* connects when the generation is switched */
    if (!e->damaged && e->store->applied < e->tail.head) { /* our hello names one position: first apply what was received */
        ms_engine_wake(e, now + 1000);
        return;
    }
    if (now >= e->follow.retry_at)
        connect_now(e);
    else
        ms_engine_wake(e, e->follow.retry_at);
}
