/* The leader's side of links: hello and verdict, streaming from memory or from the log, snapshots, acks and the in-sync set. The same code
 * answers hellos on nodes that don't lead. */
#include "inside.h"

#include <stdio.h>

struct ms_peer *ms_engine_peer(struct ms_engine *e, uint64_t link)
{
    for (struct ms_list *at = e->peers.next; at != &e->peers; at = at->next) {
        struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        if (peer->link == link) return peer;
    }
    return NULL;
}

void ms_engine_free_peer(struct ms_peer *peer)
{
    ms_lineage_close(&peer->lineage);
    ms_release(peer);
}

void ms_engine_drop_peer(struct ms_engine *e, struct ms_peer *peer)
{
    bool was = peer->in_sync;
    ms_list_remove(&peer->node);
    if (was && !e->closing)
        ms_engine_event(e, MS_LOG_WARN, "follower %s (%s) is out of sync: its link is down", peer->name, peer->address);
    ms_engine_free_peer(peer);
    if (was) ms_engine_update_replicated(e);
}

static void bye(struct ms_engine *e, struct ms_peer *peer, int code, const char *text)
{
    ms_engine_bye(e, peer->link, code, text);
    ms_engine_drop_peer(e, peer);
}

void ms_engine_drop_peers(struct ms_engine *e, int code, const char *text)
{
    while (!ms_list_empty(&e->peers)) bye(e, ms_list_entry(e->peers.next, struct ms_peer, node), code, text);
    e->asking = 0;
}

/* ---- the in-sync set -------------------------------------------------------------------------------------------------- */

bool ms_engine_any_in_sync(const struct ms_engine *e)
{
    for (struct ms_list *at = e->peers.next; at != &e->peers; at = at->next)
        if (ms_list_entry(at, struct ms_peer, node)->in_sync) return true;
    return false;
}

void ms_engine_update_replicated(struct ms_engine *e)
{
    if (e->role != MS_ROLE_LEADER) return;
    uint64_t least = e->synced;
    bool any = false;
    for (struct ms_list *at = e->peers.next; at != &e->peers; at = at->next) {
        const struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        if (!peer->in_sync) continue;
        any = true;
        if (peer->durable < least) least = peer->durable;
    }
    if (any && least > e->replicated) e->replicated = least;
    ms_engine_changed(e);
}

static void heartbeat(struct ms_engine *e, struct ms_peer *peer, uint64_t now)
{
    struct ms_message message;
    ms_message_init(&message);
    message.head = e->written;
    message.time_us = e->io->ops->real_time(e->io);
    message.in_sync = peer->in_sync;
    ms_engine_send(e, peer->link, MS_FRAME_HEARTBEAT, &message);
    peer->spoken = now;
}

static void set_in_sync(struct ms_engine *e, struct ms_peer *peer, bool in_sync, uint64_t now)
{
    if (peer->in_sync == in_sync) return;
    peer->in_sync = in_sync;
    ms_engine_event(e, in_sync ? MS_LOG_INFO : MS_LOG_WARN, "follower %s (%s) is %s", peer->name, peer->address,
                    in_sync ? "in sync" : "out of sync: its disk lags too long");
    heartbeat(e, peer, now); /* it is told at once */
    ms_engine_update_replicated(e);
}

/* A follower is in sync while it makes durable, within replica_lag_ms, what we had synced at some moment. `target` is that
 * moment's lsn and lagging_since its time; reaching it picks the next moment. */
static void judge_lag(struct ms_engine *e, struct ms_peer *peer, uint64_t now)
{
    if (peer->state != MS_PEER_STREAM) return;
    if (peer->durable >= peer->target) {
        peer->target = e->synced;
        peer->lagging_since = now;
        if (peer->durable >= e->replicated) set_in_sync(e, peer, true, now);
    } else if (now - peer->lagging_since > (uint64_t)e->policy.replica_lag_ms * 1000) {
        set_in_sync(e, peer, false, now);
    }
}

/* ---- hello, verdict, start --------------------------------------------------------------------------------------------- */

void ms_engine_link_up(struct ms_engine *e, uint64_t link, bool outgoing, const char *address)
{
    if (outgoing && link == e->follow.link) {
        ms_follow_link_up(e);
        return;
    }
    struct ms_peer *peer = ms_engine_peer(e, link);
    if (outgoing && peer) { /* one that we ask before leading */
        peer->heard = peer->spoken = ms_now(e);
        ms_engine_send_hello(e, link, MS_PURPOSE_ASK);
        return;
    }
    if (outgoing || peer || e->closing) {
        if (!peer) e->io->ops->close(e->io, link);
        return;
    }
    peer = ms_alloc_zero(sizeof *peer);
    if (!peer) {
        e->io->ops->close(e->io, link);
        return;
    }
    peer->link = link;
    peer->state = MS_PEER_PROBE;
    peer->heard = peer->spoken = ms_now(e);
    (void)snprintf(peer->address, sizeof peer->address, "%s", address);
    ms_list_add_tail(&e->peers, &peer->node);
    ms_engine_wake(e, peer->heard + (uint64_t)e->policy.heartbeat_ms * 1000);
}

void ms_engine_link_down(struct ms_engine *e, uint64_t link, int err, const char *why)
{
    if (link == e->follow.link) {
        ms_follow_link_down(e, err, why);
        return;
    }
    struct ms_peer *peer = ms_engine_peer(e, link);
    if (!peer) return;
    bool asked = peer->outgoing;
    ms_engine_drop_peer(e, peer);
    if (asked && e->asking > 0) e->asking--;
    if (asked) ms_engine_asked(e);
}

/* An older link of the same node is half-open: the node has come back, so the old link is dead whatever TCP thinks. */
static void drop_older_link(struct ms_engine *e, const struct ms_peer *fresh)
{
    for (struct ms_list *at = e->peers.next, *next; at != &e->peers; at = next) {
        next = at->next;
        struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        if (peer == fresh || peer->outgoing || !peer->greeted || peer->node_id != fresh->node_id) continue;
        e->io->ops->close(e->io, peer->link);
        ms_engine_drop_peer(e, peer);
    }
}

static void send_verdict(struct ms_engine *e, struct ms_peer *peer, struct ms_history theirs)
{
    struct ms_verdict verdict = ms_verdict(ms_engine_history(e), theirs);
    e->counters.verdicts[verdict.kind]++;
    struct ms_message message;
    ms_message_init(&message);
    message.kind = (uint64_t)verdict.kind;
    message.common = peer->common = verdict.common;
    message.extra = verdict.extra;
    message.allowed = verdict.allowed;
    ms_engine_send(e, peer->link, MS_FRAME_VERDICT, &message);
}

/* Every follower waits while the host compares, also one that would only go on: a table that the comparison fills is not whole before its
 * end, and a host that is given all tables (after a start, say) would drop what is only not there yet. */
static void hold(struct ms_engine *e, struct ms_peer *peer, const struct ms_message *hello)
{
    if (ms_lineage_copy(&peer->lineage, &hello->lineage)) {
        bye(e, peer, MS_E_MEMORY, "out of memory");
        return;
    }
    peer->state = MS_PEER_HELD;
    peer->first = hello->first;
    peer->position = hello->position;
    e->counters.held++;
    ms_engine_event(e, MS_LOG_INFO, "follower %s (%s) waits: this node's host compares its copy with the log", peer->name, peer->address);
}

/* The first hello told where the head was before the comparison: a follower that has got there would take that for all there is. */
void ms_engine_admit(struct ms_engine *e)
{
    for (struct ms_list *at = e->peers.next; at != &e->peers; at = at->next) {
        struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        if (peer->state != MS_PEER_HELD) continue;
        peer->state = MS_PEER_PROBE;
        ms_engine_send_hello(e, peer->link, MS_PURPOSE_NONE);
        send_verdict(e, peer, (struct ms_history){&peer->lineage, peer->first, peer->position});
        ms_lineage_close(&peer->lineage);
    }
}

/* Refuses the link; a peer that was asked counts as one that can't answer. */
static void refuse(struct ms_engine *e, struct ms_peer *peer, int code, const char *text)
{
    bool asked = peer->outgoing;
    e->counters.links_refused++;
    ms_engine_event(e, MS_LOG_WARN, "link %s refused: %s", peer->address, text);
    bye(e, peer, code, text);
    if (asked && e->asking > 0) e->asking--;
    if (asked) ms_engine_asked(e);
}

static void on_hello(struct ms_engine *e, struct ms_peer *peer, const struct ms_message *hello)
{
    if (strcmp(hello->cluster, e->cluster) != 0) {
        char text[192];
        (void)snprintf(text, sizeof text, "this node belongs to cluster %s, not %s", e->cluster, hello->cluster);
        refuse(e, peer, MS_E_CLUSTER, text);
        return;
    }
    if (hello->node_id == e->node_id) {
        refuse(e, peer, MS_E_INVALID, "this is the same node (or a copy of its data directory)");
        return;
    }
    peer->greeted = true;
    peer->node_id = hello->node_id;
    (void)snprintf(peer->name, sizeof peer->name, "%s", hello->name);
    uint64_t link = peer->link;
    bool outgoing = peer->outgoing;
    if (outgoing) { /* its answer to our question */
        ms_engine_bye(e, link, 0, "thank you");
        ms_engine_drop_peer(e, peer);
        if (e->asking > 0) e->asking--;
    }
    ms_engine_meet(e, ms_lineage_last(&hello->lineage), hello->name); /* may drop every peer: look this one up anew */
    if (outgoing) {
        ms_engine_asked(e);
        return;
    }
    peer = ms_engine_peer(e, link);
    if (!peer) return;
    drop_older_link(e, peer);
    ms_engine_send_hello(e, link, MS_PURPOSE_NONE);
    if (hello->purpose != MS_PURPOSE_FOLLOW) return;
    if (e->role == MS_ROLE_LEADER && e->comparing)
        hold(e, peer, hello);
    else if (e->role == MS_ROLE_LEADER)
        send_verdict(e, peer, (struct ms_history){&hello->lineage, hello->first, hello->position});
    else
        bye(e, peer, MS_E_NOT_LEADER, "this node does not lead");
}

static void on_start(struct ms_engine *e, struct ms_peer *peer, const struct ms_message *start)
{
    if (e->role != MS_ROLE_LEADER || !peer->greeted) {
        bye(e, peer, MS_E_NOT_LEADER, "this node does not lead");
        return;
    }
    if (e->comparing) {
        bye(e, peer, MS_E_AGAIN, "this node's host compares its copy with the log");
        return;
    }
    peer->reading = false;
    if (start->mode == MS_START_STREAM) {
        if (start->from == 0 || start->from > e->tail.head + 1) {
            bye(e, peer, MS_E_INVALID, "a start beyond the leader's head");
            return;
        }
        peer->state = MS_PEER_STREAM;
        peer->next = start->from;
        peer->durable = 0; /* its records before `from` are written there, but only its acks say what is synced */
        peer->applied = start->from - 1;
        peer->target = e->synced;
        peer->lagging_since = ms_now(e);
        peer->pin = 0;
        heartbeat(e, peer, peer->lagging_since);
        judge_lag(e, peer, peer->lagging_since);
    } else {
        peer->state = MS_PEER_SNAPSHOT;
        peer->snapshot = start->snapshot;
        peer->offset = start->from;
        peer->began = peer->ended = false;
        peer->pin = e->log_first - 1;
        set_in_sync(e, peer, false, ms_now(e));
        /* A fresh snapshot unless the newest is recent and the log goes on from it: the tail behind it must be short, and
         * its readers must not see values that are older than what they have. */
        bool recent = e->snapshot_end && e->snapshot_end + 1 >= e->log_first && e->snapshot_end >= peer->common &&
                      e->tail.bytes - e->log_bytes_at_snapshot <= e->policy.snapshot_log_bytes / 4;
        if (!peer->snapshot && !recent) (void)ms_engine_snapshot_now(e);
    }
    ms_engine_stream(e);
}

/* ---- sending --------------------------------------------------------------------------------------------------------------- */

static struct ms_block *block_after(struct ms_engine *e, const struct ms_block *block)
{
    return block->node.next == &e->tail.retained ? NULL : ms_list_entry(block->node.next, struct ms_block, node);
}

static void send_group(struct ms_engine *e, struct ms_peer *peer, struct ms_block *block, uint64_t now)
{
    e->io->ops->send(e->io, peer->link, MS_FRAME_GROUP, block->want_sync ? MS_FRAME_WANT_SYNC : 0, ms_bytes("", 0), block);
    peer->next = block->last + 1;
    peer->unsent += block->size;
    peer->sent_bytes += block->size + MS_FRAME_HEADER;
    peer->spoken = now;
    e->counters.groups_sent++;
    e->counters.bytes_sent += block->size + MS_FRAME_HEADER;
}

static void stream_log(struct ms_engine *e, struct ms_peer *peer)
{
    if (peer->reading || peer->next > e->written || peer->unsent >= e->policy.window_bytes) return;
    struct ms_block *block = ms_tail_find(&e->tail, peer->next);
    if (!block || block->first != peer->next) { /* too old for memory (or no group starts there: the log says so) */
        peer->reading = true;
        e->io->ops->log_read(e->io, peer->link, peer->next, e->written);
        return;
    }
    uint64_t now = ms_now(e);
    for (; block && block->last <= e->written && peer->unsent < e->policy.window_bytes; block = block_after(e, block))
        send_group(e, peer, block, now);
}

static void stream_snapshot(struct ms_engine *e, struct ms_peer *peer)
{
    if (peer->reading || peer->ended || peer->unsent >= e->policy.window_bytes) return;
    if (!peer->snapshot && e->snapshotting && !e->snapshot_begun) { /* it must not get the one before */
        peer->poll_at = ms_now(e) + 2000;
        ms_engine_wake(e, peer->poll_at);
        return;
    }
    peer->reading = true;
    e->io->ops->snapshot_read(e->io, peer->link, peer->snapshot, peer->offset);
}

static void stream_peer(struct ms_engine *e, struct ms_peer *peer)
{
    if (peer->state == MS_PEER_STREAM) stream_log(e, peer);
    if (peer->state == MS_PEER_SNAPSHOT) stream_snapshot(e, peer);
}

void ms_engine_stream(struct ms_engine *e)
{
    if (e->role != MS_ROLE_LEADER) return;
    for (struct ms_list *at = e->peers.next; at != &e->peers; at = at->next)
        stream_peer(e, ms_list_entry(at, struct ms_peer, node));
}

void ms_engine_read(struct ms_engine *e, uint64_t link, struct ms_block *const *blocks, size_t count, int err)
{
    struct ms_peer *peer = ms_engine_peer(e, link);
    if (!peer || peer->state != MS_PEER_STREAM) return;
    peer->reading = false;
    if (err) { /* trimmed meanwhile, or damaged: the verdict of its next hello says what to do */
        ms_engine_event(e, MS_LOG_WARN, "follower %s can't be served from the log: %s", peer->name, ms_fail_message(err));
        bye(e, peer, err, "the log can't be read from there any more");
        return;
    }
    uint64_t now = ms_now(e);
    for (size_t i = 0; i < count; i++)
        if (blocks[i]->first == peer->next) send_group(e, peer, blocks[i], now);
    if (count > 0) stream_log(e, peer);
}

static void send_snapshot_begin(struct ms_engine *e, struct ms_peer *peer, uint64_t snapshot)
{
    struct ms_message message;
    ms_message_init(&message);
    message.snapshot = peer->snapshot = snapshot;
    message.from = peer->offset;
    ms_engine_send(e, peer->link, MS_FRAME_SNAPSHOT_BEGIN, &message);
    peer->began = true;
}

static void send_snapshot_end(struct ms_engine *e, struct ms_peer *peer, uint64_t end)
{
    struct ms_message message;
    ms_message_init(&message);
    message.size = peer->offset;
    message.end = peer->pin = end;
    ms_engine_send(e, peer->link, MS_FRAME_SNAPSHOT_END, &message);
    peer->ended = true;
    e->counters.snapshots_sent++;
}

void ms_engine_snapshot_data(struct ms_engine *e, uint64_t link, uint64_t snapshot, uint64_t offset, struct ms_block *groups, bool eof,
                             uint64_t end, int err)
{
    struct ms_peer *peer = ms_engine_peer(e, link);
    if (!peer || peer->state != MS_PEER_SNAPSHOT || !peer->reading) return;
    peer->reading = false;
    if (!err && end && end < peer->common) err = MS_E_NOT_FOUND; /* a finished one that is too old for this follower */
    if (err && (peer->snapshot || peer->began)) { /* the one that it had begun is gone: from the beginning of another */
        peer->snapshot = peer->offset = 0;
        peer->began = false;
        (void)ms_engine_snapshot_now(e);
        stream_snapshot(e, peer);
        return;
    }
    if (err) {
        peer->poll_at = ms_now(e) + 20000; /* none yet, or it failed: the maker says so, and a later one will do */
        if (!e->snapshotting && ms_engine_snapshot_now(e)) bye(e, peer, MS_E_IO, "no snapshot can be made here now");
        ms_engine_wake(e, peer->poll_at);
        return;
    }
    if (offset != peer->offset) return;
    if (!peer->began) send_snapshot_begin(e, peer, snapshot);
    if (groups) {
        uint8_t at[8];
        size_t size = sizeof at + groups->size;
        ms_store64(at, offset);
        e->io->ops->send(e->io, link, MS_FRAME_SNAPSHOT_DATA, 0, ms_bytes(at, sizeof at), groups);
        peer->offset += groups->size;
        peer->unsent += size;
        peer->sent_bytes += size + MS_FRAME_HEADER;
        e->counters.bytes_sent += size + MS_FRAME_HEADER;
        peer->spoken = ms_now(e);
    } else if (!eof) {
        peer->poll_at = ms_now(e) + 2000; /* the maker has not got further; it wakes us too */
        ms_engine_wake(e, peer->poll_at);
        return;
    }
    if (eof)
        send_snapshot_end(e, peer, end);
    else
        stream_snapshot(e, peer);
}

void ms_engine_drained(struct ms_engine *e, uint64_t link, uint64_t unsent)
{
    struct ms_peer *peer = ms_engine_peer(e, link);
    if (!peer) return;
    peer->unsent = unsent;
    stream_peer(e, peer);
}

/* ---- snapshots that are needed by a peer ------------------------------------------------------------------------------------- */

uint64_t ms_engine_pin(const struct ms_engine *e)
{
    uint64_t pin = UINT64_MAX;
    for (struct ms_list *at = e->peers.next; at != &e->peers; at = at->next) {
        const struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        if (peer->state == MS_PEER_SNAPSHOT && peer->pin < pin) pin = peer->pin;
    }
    return pin;
}

/* ---- frames and timers ---------------------------------------------------------------------------------------------------------- */

static void on_ack(struct ms_engine *e, struct ms_peer *peer, const struct ms_message *ack)
{
    if (ack->durable > e->tail.head || ack->applied > e->tail.head) {
        bye(e, peer, MS_E_FORMAT, "an ack beyond the leader's head");
        return;
    }
    if (peer->state != MS_PEER_STREAM) return; /* a heartbeat while it bootstraps */
    if (ack->durable > peer->durable) peer->durable = ack->durable;
    if (ack->applied > peer->applied) peer->applied = ack->applied;
    if (ack->host_applied > peer->host_applied) peer->host_applied = ack->host_applied;
    judge_lag(e, peer, ms_now(e));
    ms_engine_update_replicated(e);
}

void ms_peer_frame(struct ms_engine *e, struct ms_peer *peer, uint8_t type, const struct ms_message *message)
{
    peer->heard = ms_now(e);
    switch (type) {
    case MS_FRAME_HELLO: on_hello(e, peer, message); break;
    case MS_FRAME_START: on_start(e, peer, message); break;
    case MS_FRAME_ACK: on_ack(e, peer, message); break;
    case MS_FRAME_HEARTBEAT: break;
    case MS_FRAME_EXTRA: ms_extras_asked(e, peer, message); break;
    case MS_FRAME_BYE:
        e->io->ops->close(e->io, peer->link);
        ms_engine_link_down(e, peer->link, -(int)message->code, "the peer said good-bye");
        break;
    default: bye(e, peer, MS_E_FORMAT, "a frame that only a leader sends");
    }
}

void ms_engine_peers_tick(struct ms_engine *e, uint64_t now)
{
    uint64_t beat = (uint64_t)e->policy.heartbeat_ms * 1000, dead = (uint64_t)e->policy.link_timeout_ms * 1000;
    for (struct ms_list *at = e->peers.next, *next; at != &e->peers; at = next) {
        next = at->next;
        struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        if (peer->outgoing) continue; /* ask_ms bounds these */
        if (now - peer->heard >= dead) {
            e->counters.link_timeouts++;
            ms_engine_event(e, MS_LOG_WARN, "follower %s (%s) has been silent too long", peer->name, peer->address);
            e->io->ops->close(e->io, peer->link);
            ms_engine_drop_peer(e, peer);
            continue;
        }
        if (peer->greeted && now - peer->spoken >= beat) heartbeat(e, peer, now);
        if (peer->poll_at && now >= peer->poll_at) {
            peer->poll_at = 0;
            stream_peer(e, peer);
        }
        judge_lag(e, peer, now);
        ms_engine_wake(e, ms_sooner(ms_sooner(peer->heard + dead, peer->spoken + beat), peer->poll_at));
    }
}
