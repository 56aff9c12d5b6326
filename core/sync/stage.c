/* The bootstrap: a snapshot is received into the next generation, on disk and as tables in memory, and takes the place of the live one in
 * one step when it is complete (promise 5). It survives the loss of its link: it goes on at the offset where it stopped. */
#include "inside.h"

#include <inttypes.h>
#include <stdio.h>

void ms_stage_drop(struct ms_engine *e)
{
    if (!e->follow.stage || e->follow.switching) return;
    ms_store_close(e->follow.stage);
    ms_release(e->follow.stage);
    e->follow.stage = NULL;
    e->follow.stage_id = e->follow.stage_offset = 0;
    e->io->ops->stage_abort(e->io);
}

static int new_stage(struct ms_engine *e)
{
    ms_stage_drop(e);
    struct ms_store *stage = ms_alloc_zero(sizeof *stage);
    if (!stage) return MS_E_MEMORY;
    (void)ms_store_init(stage);
    e->follow.stage = stage;
    e->follow.stage_id = e->follow.stage_offset = 0;
    ms_snapshot_loader_init(&e->follow.loader, stage);
    e->io->ops->stage_begin(e->io);
    return 0;
}

static void stage_failed(struct ms_engine *e, int code)
{
    char text[200];
    (void)snprintf(text, sizeof text, "bootstrap failed: %s", ms_fail_message(code));
    e->counters.bootstraps_failed++;
    ms_stage_drop(e);
    ms_follow_drop(e, code, text);
}

void ms_stage_begin(struct ms_engine *e)
{
    if (e->follow.switching) { /* of an earlier link; it is about to be complete */
        ms_follow_drop(e, MS_E_AGAIN, "a bootstrap is just being completed");
        return;
    }
    e->unfinished = true;
    if (!e->follow.stage) {
        int rc = new_stage(e);
        if (rc) {
            stage_failed(e, rc);
            return;
        }
        e->follow.attempts++;
        ms_engine_event(e, MS_LOG_INFO, "bootstrapping from %s (%s)", e->follow.address, ms_verdict_name(e->follow.verdict.kind));
    }
    e->follow.state = MS_FOLLOW_SNAPSHOT;
    struct ms_message start;
    ms_message_init(&start);
    start.mode = MS_START_SNAPSHOT;
    start.snapshot = e->follow.stage_id;
    start.from = e->follow.stage_offset;
    ms_engine_send(e, e->follow.link, MS_FRAME_START, &start);
    ms_engine_changed(e);
}

static void on_begin(struct ms_engine *e, const struct ms_message *begin)
{
    bool goes_on = begin->snapshot == e->follow.stage_id && begin->from == e->follow.stage_offset;
    if (goes_on && begin->from > 0) {
        e->counters.bootstraps_resumed++;
        return;
    }
    if (begin->from != 0) {
        ms_follow_drop(e, MS_E_FORMAT, "a snapshot begins in its middle");
        return;
    }
    if (e->follow.stage_offset > 0) { /* the leader has lost the one that we had begun */
        int rc = new_stage(e);
        if (rc) {
            stage_failed(e, rc);
            return;
        }
        e->follow.attempts++;
    }
    e->follow.stage_id = begin->snapshot;
}

static int fold_groups(struct ms_engine *e, struct ms_bytes groups)
{
    const uint8_t *at = groups.data;
    size_t left = groups.size;
    while (left > 0) {
        struct ms_group_header header;
        int rc = ms_group_open(ms_bytes(at, left), &header);
        if (rc) return rc;
        size_t size = ms_group_size(header.body_size);
        if (size > left) return ms_fail(MS_E_FORMAT, "a snapshot piece ends within a group");
        rc = ms_snapshot_loader_group(&e->follow.loader, ms_bytes(at, size), ms_str(e->cluster));
        if (rc) return rc;
        at += size;
        left -= size;
    }
    return 0;
}

void ms_stage_data(struct ms_engine *e, struct ms_bytes payload)
{
    struct ms_reader reader = ms_reader(payload);
    uint64_t offset = ms_read64(&reader);
    struct ms_bytes groups = ms_read_bytes(&reader, ms_reader_left(&reader));
    int rc = reader.bad || !e->follow.stage_id || offset != e->follow.stage_offset
                 ? ms_fail(MS_E_FORMAT, "snapshot piece at %" PRIu64 ", expected one at %" PRIu64, offset, e->follow.stage_offset)
                 : fold_groups(e, groups);
    if (rc) {
        stage_failed(e, rc);
        return;
    }
    e->follow.stage_offset += groups.size;
    e->io->ops->stage_write(e->io, groups);
}

static void on_end(struct ms_engine *e, const struct ms_message *end)
{
    const struct ms_snapshot_loader *loader = &e->follow.loader;
    if (!loader->complete || loader->end != end->end || end->size != e->follow.stage_offset) {
        stage_failed(e, ms_fail(MS_E_FORMAT, "the snapshot is not complete where the leader ends it"));
        return;
    }
    e->follow.state = MS_FOLLOW_SWITCH;
    e->follow.switching = true;
    e->follow.stage_end = loader->end;
    e->io->ops->stage_commit(e->io, loader->end);
}

void ms_stage_message(struct ms_engine *e, uint8_t type, const struct ms_message *message)
{
    if (type == MS_FRAME_SNAPSHOT_BEGIN)
        on_begin(e, message);
    else
        on_end(e, message);
}

/* The disk has switched; now the tables do. */
static int take_stage(struct ms_engine *e, uint64_t end)
{
    struct ms_store *old = e->follow.stage;
    int rc = ms_store_take(e->store, old);
    if (rc) return rc;
    e->follow.stage = NULL;
    e->follow.stage_id = e->follow.stage_offset = 0;
    ms_tail_reset(&e->tail, end);
    e->submitted = e->written = e->synced = end;
    e->replicated = 0;
    e->sync_at = 0;
    e->sync_wanted = false;
    e->log_first = end + 1;
    e->room_end = e->tail.bytes; /* until the new log's room is reported */
    e->snapshot_end = end;
    e->snapshot_at = 0;
    e->log_bytes_at_snapshot = e->tail.bytes;
    e->follow.archived_from = 0;
    e->host_applied = 0;
    ms_extras_disrupted(e);
    e->damaged = e->unfinished = false;
    e->content_version++;
    e->counters.bootstraps++;
    ms_flush_reset(e);
    ms_engine_note_applied(e, end);
    e->io->ops->replaced(e->io, old);
    return 0;
}

void ms_engine_staged(struct ms_engine *e, uint64_t end, int err)
{
    if (!e->follow.switching) return;
    e->follow.switching = false;
    int rc = err ? err : take_stage(e, end);
    if (rc) {
        if (!err) e->damaged = true; /* the disk has the new generation, memory could not follow */
        e->counters.bootstraps_failed++;
        ms_engine_alarm(e, "the bootstrap could not be completed: %s", ms_fail_message(rc));
        ms_stage_drop(e);
        if (e->follow.link) ms_follow_drop(e, rc, "the bootstrap could not be completed");
        /* Which generation the next start takes is not known: nothing may be promised for the one that we would go on with. */
        if (err == MS_E_UNKNOWN) ms_engine_log_failed(e, err, "switch of generations");
        ms_engine_wake(e, ms_now(e));
        return;
    }
    e->follow.adopt = false;
    e->follow.attempts = 0;
    ms_engine_event(e, MS_LOG_INFO, "bootstrapped, at lsn %" PRIu64, end);
    if (e->follow.state == MS_FOLLOW_SWITCH && e->follow.link)
        ms_follow_stream(e);
    else
        ms_follow_tick(e, ms_now(e));
    ms_engine_changed(e);
}
