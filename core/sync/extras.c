/* Extras in the engine: those that this node has, and those that followers offer to it as their leader. See extras.h. */
#include "extras.h"

#include <stdio.h>

#include "../base/hash.h"
#include "inside.h"

enum { ITEM_UNSENT = 0, ITEM_SENT, ITEM_ANSWERED, ITEM_SETTLED };
enum { RETRY_US = 200000, FILE_RETRY_US = 1000000 };

bool ms_extra_temporary(int err)
{
    return err == MS_E_NOT_LEADER || err == MS_E_BUSY || err == MS_E_NO_SPACE || err == MS_E_NO_REPLICA || err == MS_E_AGAIN ||
           err == MS_E_MEMORY || err == MS_E_TIMEOUT || err == MS_E_LOG_FAILED || err == MS_E_CLOSED || err == MS_E_UNKNOWN;
}

/* ---- the window ---------------------------------------------------------------------------------------------------------------------- */

static struct ms_bytes item_bytes(const struct ms_extras *x, const struct ms_extras_item *item)
{
    return ms_bytes(x->bytes.data + item->offset, item->size);
}

static int item_extra(struct ms_extras *x, uint32_t i, struct ms_extra *extra)
{
    int rc = ms_extra_decode(item_bytes(x, &x->items[i]), extra);
    extra->seq = x->first + i;
    extra->resent = x->items[i].resent;
    return rc;
}

static void drop_window(struct ms_extras *x)
{
    for (uint32_t i = 0; i < x->count; i++) ms_buf_close(&x->items[i].line);
    ms_buf_close(&x->bytes);
    x->count = 0;
}

void ms_extras_close(struct ms_engine *e)
{
    drop_window(&e->extras);
}

static void retry_at(struct ms_engine *e, uint64_t delay)
{
    e->extras.retry_at = ms_now(e) + delay;
    ms_engine_wake(e, e->extras.retry_at);
}

static int take_batch(struct ms_extras *x, const struct ms_extras_batch *batch)
{
    struct ms_reader reader = ms_reader(ms_buf_bytes(&batch->bytes));
    if (batch->count > MS_EXTRAS_WINDOW || batch->bytes.size > UINT32_MAX) return MS_E_LIMIT;
    ms_buf_init(&x->bytes);
    ms_buf_add(&x->bytes, batch->bytes.data, batch->bytes.size);
    if (x->bytes.failed) {
        ms_buf_close(&x->bytes);
        return MS_E_MEMORY;
    }
    x->id = batch->id;
    x->first = batch->first;
    for (x->count = 0; x->count < batch->count; x->count++) {
        struct ms_extras_item *item = &x->items[x->count];
        *item = (struct ms_extras_item){.size = ms_read32(&reader), .resent = x->first + x->count < batch->sent};
        item->offset = (uint32_t)(batch->bytes.size - ms_reader_left(&reader));
        (void)ms_read_bytes(&reader, item->size);
        ms_buf_init(&item->line);
    }
    if (!reader.bad) return 0;
    drop_window(x);
    return ms_fail(MS_E_FORMAT, "extras that end in the middle of one");
}

void ms_engine_extras(struct ms_engine *e, const struct ms_extras_batch *batch, int err)
{
    struct ms_extras *x = &e->extras;
    x->reading = false;
    if (!err && x->count == 0) err = take_batch(x, batch);
    if (err) {
        ms_engine_alarm(e, "extras that wait for a decision can't be read: %s", ms_fail_message(err));
        retry_at(e, FILE_RETRY_US);
        return;
    }
    x->pending = batch->pending;
    x->boot = batch->boot;
    ms_extras_advance(e);
}

/* ---- answers ------------------------------------------------------------------------------------------------------------------------------- */

static void settle(struct ms_engine *e)
{
    struct ms_extras *x = &e->extras;
    for (uint32_t i = 0; i < x->count; i++)
        if (x->items[i].state == ITEM_ANSWERED && x->items[i].lsn <= e->synced) x->items[i].state = ITEM_SETTLED;
}

/* The first `count` items are settled: into the report with them. The window ends. */
static void report(struct ms_engine *e, uint32_t count)
{
    struct ms_extras *x = &e->extras;
    struct ms_buf text;
    ms_buf_init(&text);
    for (uint32_t i = 0; i < count; i++) ms_buf_add(&text, x->items[i].line.data, x->items[i].line.size);
    uint64_t done = x->first + count;
    drop_window(x);
    if (text.failed) {
        retry_at(e, RETRY_US);
    } else {
        x->reporting = true;
        e->io->ops->report(e->io, x->id, done, ms_buf_bytes(&text));
    }
    ms_buf_close(&text);
}

static void tell_decided(struct ms_engine *e, const char *path)
{
    char line[MS_PATH_MAX + 100];
    (void)snprintf(line, sizeof line, "what only this node had is decided; see the loss report %s", path);
    e->io->ops->log_line(e->io, MS_LOG_WARN, line);
    ms_engine_tell_policy(e, "conflict", MS_LOG_WARN, line);
}

void ms_engine_reported(struct ms_engine *e, uint64_t pending, const char *path, int err)
{
    struct ms_extras *x = &e->extras;
    x->reporting = false;
    if (err) {
        ms_engine_alarm(e, "the loss report can't be written: %s", ms_fail_message(err));
        retry_at(e, FILE_RETRY_US);
        return;
    }
    x->pending = pending;
    (void)snprintf(x->report, sizeof x->report, "%s", path);
    if (pending == 0) tell_decided(e, path);
    ms_engine_changed(e);
    ms_extras_advance(e);
}

static void answered(struct ms_engine *e, uint32_t i, const struct ms_extra_answer *answer)
{
    struct ms_extras *x = &e->extras;
    struct ms_extras_item *item = &x->items[i];
    struct ms_extra extra;
    if (ms_extra_temporary(answer->err)) { /* not begun, so this one is not sent twice */
        item->state = ITEM_UNSENT;
        item->resent = false;
        retry_at(e, RETRY_US);
        return;
    }
    int rc = item_extra(x, i, &extra);
    if (rc == MS_E_MEMORY) {
        item->state = ITEM_UNSENT;
        retry_at(e, RETRY_US);
        return;
    }
    if (rc) extra = (struct ms_extra){.seq = x->first + i}; /* nobody can read it: the line says that much */
    ms_extra_line(&item->line, e->io->ops->real_time(e->io), &extra, answer);
    if (item->line.failed) {
        ms_buf_close(&item->line);
        ms_buf_init(&item->line);
        item->state = ITEM_UNSENT;
        item->resent = true; /* its decision stands */
        retry_at(e, RETRY_US);
        return;
    }
    item->state = ITEM_ANSWERED;
    item->lsn = answer->lsn;
    e->counters.extras_answered++;
    if (answer->outcome == MS_EXTRA_UNRESOLVED) e->counters.extras_unresolved++;
}

/* The answer to a seq of the window; false: there is no such item that waits. */
static bool on_answer(struct ms_engine *e, uint64_t seq, const struct ms_extra_answer *answer)
{
    struct ms_extras *x = &e->extras;
    if (seq < x->first || seq - x->first >= x->count || x->items[seq - x->first].state != ITEM_SENT) return false;
    struct ms_extra_answer known = *answer;
    if (known.err && !ms_extra_temporary(known.err)) known.outcome = MS_EXTRA_UNRESOLVED;
    answered(e, (uint32_t)(seq - x->first), &known);
    return true;
}

void ms_extras_done(struct ms_engine *e, const struct ms_message *message)
{
    struct ms_extra_answer answer = {
        .outcome = (int)message->outcome,
        .err = -(int)message->code,
        .by = message->by,
        .lsn = message->lsn,
        .theirs = message->theirs,
        .theirs_size = message->size,
        .value = message->value,
    };
    if (message->outcome > MS_EXTRA_EQUAL || message->code > 1000) {
        ms_follow_drop(e, MS_E_FORMAT, "an answer of an unknown kind to an extra");
        return;
    }
    (void)on_answer(e, message->seq, &answer);
    ms_extras_advance(e);
}

/* ---- sending --------------------------------------------------------------------------------------------------------------------------------- */

static bool still_ours(const struct ms_engine *e, uint64_t epoch, uint64_t lsn)
{
    const struct ms_lineage *lineage = &e->store->lineage;
    if (epoch == 0 || lsn > e->store->applied) return false;
    for (uint32_t i = lineage->count; i-- > 0;)
        if (lineage->entries[i].epoch.id == epoch)
            return lsn >= lineage->entries[i].first && (i + 1 == lineage->count || lsn < lineage->entries[i + 1].first);
    return false;
}

static void send_extra(struct ms_engine *e, struct ms_extra *extra)
{
    struct ms_message message;
    struct ms_buf size;
    ms_extra_message(extra, &message);
    message.seq = extra->seq;
    message.extra_id = e->extras.id;
    message.resent = extra->resent;
    message.boot_id = extra->resent ? e->extras.boot : 0;
    ms_buf_init(&size);
    ms_message_encode(MS_FRAME_EXTRA, &message, &size);
    bool fits = size.size <= e->follow.leader_extra_max;
    if (!fits) { /* better without base than not at all */
        message.base = ms_bytes(NULL, 0);
        message.base_known = 0;
        ms_buf_clear(&size);
        ms_message_encode(MS_FRAME_EXTRA, &message, &size);
        fits = size.size <= e->follow.leader_extra_max;
    }
    bool failed = size.failed;
    ms_buf_close(&size);
    if (failed || fits) {
        ms_engine_send(e, e->follow.link, MS_FRAME_EXTRA, &message); /* says it if memory is out */
        e->counters.extras_sent++;
        e->counters.extras_resent += extra->resent;
        return;
    }
    (void)on_answer(e, extra->seq, &(struct ms_extra_answer){.err = MS_E_LIMIT, .by = "size"});
}

/* ---- deciding ourselves ------------------------------------------------------------------------------------------------------------------- */

static uint64_t print_of(const struct ms_extra *extra)
{
    uint64_t hash = ms_hash_seeded(extra->key.data, extra->key.size, ms_mix(extra->epoch) + extra->lsn);
    hash = ms_hash_seeded(extra->table, strlen(extra->table), hash + (uint64_t)extra->reason);
    return hash ? hash : 1;
}

bool ms_engine_was_decided(const struct ms_engine *e, const struct ms_extra *extra)
{
    uint64_t print = print_of(extra);
    const uint64_t *near = e->decided.prints[print % (MS_EXTRAS_DECIDED / 8)];
    for (int i = 0; i < 8; i++)
        if (near[i] == print) return true;
    return false;
}

static void remember(struct ms_engine *e, const struct ms_extra *extra)
{
    uint64_t print = print_of(extra), *near = e->decided.prints[print % (MS_EXTRAS_DECIDED / 8)];
    int i = 0;
    if (ms_engine_was_decided(e, extra)) return;
    while (i < 8 && near[i]) i++;
    if (i == 8) {
        i = (int)(e->decided.next++ % 8);
        e->decided.forgot = true;
    }
    near[i] = print;
}

/* Asks our own policy: this node leads. */
static void ask_ourselves(struct ms_engine *e, struct ms_extra *extra)
{
    if (e->extras.boot == e->boot_id && !e->decided.forgot) extra->resent = false;
    extra->older = extra->reason == MS_CONFLICT_BUFFERED && still_ours(e, extra->epoch, extra->lsn);
    e->counters.extras_sent++;
    e->counters.extras_resent += extra->resent;
    e->io->ops->conflict(e->io, 0, extra);
}

static void offer(struct ms_engine *e, uint32_t i)
{
    struct ms_extras *x = &e->extras;
    struct ms_extra extra;
    int rc = item_extra(x, i, &extra);
    if (rc == MS_E_MEMORY) {
        retry_at(e, RETRY_US);
        return;
    }
    x->items[i].state = ITEM_SENT;
    if (rc)
        (void)on_answer(e, x->first + i, &(struct ms_extra_answer){.err = rc, .by = "format"});
    else if (!extra.table[0])
        (void)on_answer(e, extra.seq, &(struct ms_extra_answer){.err = MS_E_NOT_FOUND, .by = "trimmed"});
    else if (extra.reason == MS_CONFLICT_DEPOSED && still_ours(e, extra.epoch, extra.lsn))
        (void)on_answer(e, extra.seq, &(struct ms_extra_answer){.outcome = MS_EXTRA_KEPT, .by = "history"});
    else if (e->role == MS_ROLE_LEADER)
        ask_ourselves(e, &extra);
    else
        send_extra(e, &extra);
}

/* The boot id of the node that decides now. */
static uint64_t decider(const struct ms_engine *e)
{
    return e->role == MS_ROLE_LEADER ? e->boot_id : e->follow.leader_boot;
}

static bool ready(const struct ms_engine *e)
{
    if (e->closing || e->log_error) return false;
    if (e->role == MS_ROLE_LEADER) return true;
    return e->role == MS_ROLE_FOLLOWER && e->follow.state == MS_FOLLOW_STREAM && e->follow.link && e->follow.in_sync &&
           (e->follow.leader_features & MS_FEATURE_EXTRAS);
}

void ms_extras_advance(struct ms_engine *e)
{
    struct ms_extras *x = &e->extras;
    if (!x->pending || x->reading || x->reporting || !ready(e)) return;
    if (x->count == 0) {
        if (ms_now(e) < x->retry_at) return;
        x->reading = true;
        x->epoch = ms_lineage_last(&e->store->lineage).id;
        x->to = decider(e);
        e->io->ops->extras_read(e->io, x->to);
        return;
    }
    if (x->to != decider(e) || x->epoch != ms_lineage_last(&e->store->lineage).id) { /* another one: noted before it is asked */
        ms_extras_disrupted(e);
        if (!x->reporting) ms_extras_advance(e);
        return;
    }
    for (uint32_t i = 0; i < x->count && ms_now(e) >= x->retry_at && ready(e); i++)
        if (x->items[i].state == ITEM_UNSENT) offer(e, i);
    settle(e);
    for (uint32_t i = 0; i < x->count; i++) {
        if (x->items[i].state == ITEM_SETTLED) continue;
        if (x->items[i].state == ITEM_ANSWERED) e->sync_wanted = true;
        return;
    }
    report(e, x->count);
}

void ms_extras_disrupted(struct ms_engine *e)
{
    struct ms_extras *x = &e->extras;
    uint32_t count = 0;
    if (x->count == 0) return;
    settle(e);
    while (count < x->count && x->items[count].state == ITEM_SETTLED) count++;
    if (count > 0 && !x->reporting) report(e, count);
    else drop_window(x);
}

void ms_extras_added(struct ms_engine *e, uint64_t count)
{
    e->extras.pending += count;
    if (count) ms_engine_wake(e, ms_now(e));
}

void ms_extras_tick(struct ms_engine *e, uint64_t now)
{
    struct ms_extras *x = &e->extras;
    if (!x->pending) return;
    if (now < x->retry_at) {
        ms_engine_wake(e, x->retry_at);
        return;
    }
    x->retry_at = 0;
    ms_extras_advance(e);
}

/* ---- the leader's side ------------------------------------------------------------------------------------------------------------- */

static void send_answer(struct ms_engine *e, struct ms_peer *peer, uint64_t seq, const struct ms_extra_answer *answer)
{
    struct ms_message message;
    ms_message_init(&message);
    message.seq = seq;
    message.outcome = (uint64_t)answer->outcome;
    message.code = (uint64_t)-answer->err;
    message.lsn = answer->lsn;
    (void)snprintf(message.by, sizeof message.by, "%s", answer->by ? answer->by : "");
    message.size = answer->theirs.size > MS_EXTRAS_ANSWER ? answer->theirs.size : 0;
    if (!message.size) message.theirs = answer->theirs;
    if (answer->value.size <= MS_EXTRAS_ANSWER) message.value = answer->value;
    peer->spoken = ms_now(e);
    ms_engine_send(e, peer->link, MS_FRAME_EXTRA_DONE, &message);
}

void ms_extras_asked(struct ms_engine *e, struct ms_peer *peer, const struct ms_message *message)
{
    struct ms_extra extra;
    size_t size = message->key.size + message->mine.size + message->base.size;
    int rc = ms_extra_of(message, &extra);
    if (!rc && !extra.table[0]) rc = ms_fail(MS_E_FORMAT, "an extra without a table");
    if (!rc && (e->role != MS_ROLE_LEADER || peer->state != MS_PEER_STREAM)) rc = MS_E_NOT_LEADER;
    if (rc) {
        send_answer(e, peer, message->seq, &(struct ms_extra_answer){.err = rc, .by = "leader"});
        return;
    }
    if (peer->extras >= MS_EXTRAS_WINDOW || (peer->extras && peer->extras_bytes > 2 * MS_EXTRAS_BYTES)) {
        uint64_t link = peer->link;
        ms_engine_bye(e, link, MS_E_LIMIT, "more extras at a time than are allowed");
        ms_engine_link_down(e, link, MS_E_LIMIT, "more extras at a time than are allowed");
        return;
    }
    if (message->boot_id == e->boot_id && !e->decided.forgot) extra.resent = false;
    peer->extras++;
    peer->extras_bytes += size;
    e->io->ops->conflict(e->io, peer->link, &extra);
}

static void count_outcome(struct ms_engine *e, const struct ms_extra_answer *answer)
{
    struct ms_counters *counters = &e->counters;
    if (answer->err) counters->conflicts_unresolved += !ms_extra_temporary(answer->err);
    else if (answer->outcome == MS_EXTRA_EQUAL) counters->conflicts_equal++;
    else if (answer->outcome <= MS_OUTCOME_DELETE) counters->conflicts[answer->outcome]++;
}

/* One by one to the policy only: the operator has the report. */
static void tell_outcome(struct ms_engine *e, const struct ms_extra *extra, const struct ms_extra_answer *answer)
{
    char line[400];
    if (answer->err || !e->rules || !(e->rules->functions & MS_RULES_EVENT)) return;
    (void)snprintf(line, sizeof line, "table %s, key %.*s: %s by %s, reason %s", extra->table, extra->key.size < 200 ? (int)extra->key.size : 200,
                   (const char *)extra->key.data, ms_extra_outcome_name(answer->outcome), answer->by, ms_conflict_reason_name(extra->reason));
    ms_engine_tell_policy(e, "conflict", MS_LOG_INFO, line);
}

void ms_engine_resolved(struct ms_engine *e, uint64_t link, const struct ms_extra *extra, const struct ms_extra_answer *answer)
{
    count_outcome(e, answer);
    tell_outcome(e, extra, answer);
    if (!answer->err || answer->stands) remember(e, extra);
    if (link == 0) {
        bool same = e->role == MS_ROLE_LEADER && e->extras.epoch == ms_lineage_last(&e->store->lineage).id;
        if (same && on_answer(e, extra->seq, answer)) ms_extras_advance(e);
        return;
    }
    struct ms_peer *peer = ms_engine_peer(e, link);
    if (!peer || peer->extras == 0) return;
    if (--peer->extras == 0) peer->extras_bytes = 0;
    send_answer(e, peer, extra->seq, answer);
}
