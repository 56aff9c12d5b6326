/* Snapshots of this node's own tables: when, and the locked steps of making one. */
#include "inside.h"

#include <inttypes.h>

int ms_engine_snapshot_now(struct ms_engine *e)
{
    if (e->snapshotting) return 0;
    if (e->damaged || e->follow.switching) return ms_fail(MS_E_DAMAGED, "no snapshot: this node's tables are not sound now");
    if (e->log_error) return ms_fail(MS_E_LOG_FAILED, "%s", e->alarm);
    e->snapshotting = true;
    e->io->ops->snapshot_make(e->io);
    return 0;
}

static int check_sound(const struct ms_engine *e)
{
    if (e->damaged) return ms_fail(MS_E_DAMAGED, "no snapshot: this node's tables are not sound now");
    return e->halfway ? ms_fail(MS_E_AGAIN, "no snapshot: memory ran out in the middle of a group") : 0;
}

static int still_same(const struct ms_engine *e)
{
    int rc = check_sound(e);
    if (rc) return rc;
    if (e->snapshot_started != e->content_version) return ms_fail(MS_E_AGAIN, "the tables were replaced while they were walked");
    return 0;
}

int ms_engine_snapshot_start(struct ms_engine *e, struct ms_snapshot_writer *writer)
{
    int rc = check_sound(e);
    if (rc) return rc;
    ms_engine_pump(e); /* closes the open group: the copy of the log begins with a group */
    e->snapshot_started = e->content_version;
    rc = ms_snapshot_start(writer, e->store);
    e->snapshot_begun = rc == 0;
    return rc;
}

/* A bootstrapping follower that has read all there is waits for more. */
static void wake_readers(struct ms_engine *e)
{
    for (struct ms_list *at = e->peers.next; at != &e->peers; at = at->next) {
        struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        if (!peer->poll_at) continue;
        peer->poll_at = ms_now(e);
        ms_engine_wake(e, peer->poll_at);
    }
}

int ms_engine_snapshot_walk(struct ms_engine *e, struct ms_snapshot_writer *writer, size_t bytes)
{
    int rc = still_same(e);
    if (rc) return rc;
    wake_readers(e);
    return ms_snapshot_walk(writer, e->store, bytes);
}

int ms_engine_snapshot_cut(struct ms_engine *e, struct ms_snapshot_writer *writer)
{
    int rc = still_same(e);
    if (!rc && e->log_error) rc = ms_fail(MS_E_LOG_FAILED, "%s", e->alarm);
    if (rc) return rc;
    ms_engine_pump(e); /* closes the open group: the end position has to be a group's end */
    return ms_snapshot_cut(writer, e->store);
}

void ms_engine_snapshot_made(struct ms_engine *e, uint64_t end, uint64_t size, int err)
{
    uint64_t now = ms_now(e);
    e->snapshotting = e->snapshot_begun = false;
    e->snapshot_at = now + (uint64_t)e->policy.snapshot_every_ms * 1000;
    if (err) {
        e->counters.snapshots_failed++;
        ms_engine_event(e, MS_LOG_WARN, "a snapshot was not made: %s", ms_fail_message(err));
        ms_engine_changed(e);
        return;
    }
    e->counters.snapshots_made++;
    e->snapshot_end = end;
    e->snapshot_bytes = size;
    if (e->written <= end) e->snapshot_at = 0;
    e->log_bytes_at_snapshot = e->tail.bytes;
    e->trimming = e->room_error != 0;
    ms_engine_trim(e);
    wake_readers(e);
    ms_engine_changed(e);
}
