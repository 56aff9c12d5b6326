/* Roles: how a node comes to lead, follow, and stop (promise 6). */
#include "inside.h"

#include <stdarg.h>
#include <stdio.h>

#include "render.h"

/* To the operator as one line, to the policy as one event. */
static void tell_role(struct ms_engine *e)
{
    static const char word[] = "role ";
    int severity = e->result ? MS_LOG_WARN : MS_LOG_INFO;
    char line[sizeof e->reason + 40];
    (void)snprintf(line, sizeof line, "%s%s: %s", word, ms_role_name(e->role), e->reason);
    e->io->ops->log_line(e->io, severity, line);
    ms_engine_tell_policy(e, "role", severity, line + sizeof word - 1);
}

void ms_engine_set_role(struct ms_engine *e, int role, int result, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(e->reason, sizeof e->reason, format, args);
    va_end(args);
    bool moved = e->role != role;
    e->role = role;
    if (role == MS_ROLE_IDLE || role == MS_ROLE_FOLLOWER) e->comparing = false;
    e->result = result;
    if (moved) {
        ms_extras_disrupted(e);
        if (e->extras.pending) ms_engine_wake(e, ms_now(e));
        tell_role(e);
        e->io->ops->role(e->io, role, e->reason);
    }
    ms_engine_changed(e);
}

/* ---- stepping down --------------------------------------------------------------------------------------------------- */

struct lost {
    struct ms_buf text, extras, extra;
    struct ms_engine *engine;
    const struct ms_table_state *table;
    uint64_t entries;
};

static int write_lost(void *context, struct ms_bytes key, struct ms_bytes current, struct ms_bytes logged)
{
    struct lost *lost = context;
    lost->entries++; /* counted even if memory for its line is out */
    if (ms_render_loss(&lost->text, lost->table->name, lost->table->type, key, current, logged)) lost->text.failed = true;
    struct ms_extra extra = {
        .type = lost->table->type,
        .reason = MS_CONFLICT_BUFFERED,
        .key = key,
        .mine = current,
        .base = logged,
        .base_known = true,
        .lsn = lost->engine->tail.head,
        .epoch = ms_lineage_last(&lost->engine->store->lineage).id,
    };
    memcpy(extra.table, lost->table->name, sizeof extra.table);
    ms_buf_clear(&lost->extra);
    ms_extra_encode(&extra, &lost->extra);
    if (lost->extra.failed) { /* no half ones */
        ms_buf_close(&lost->extra);
        ms_buf_init(&lost->extra);
        lost->text.failed = true;
        return 0;
    }
    ms_buf_add32(&lost->extras, (uint32_t)lost->extra.size);
    ms_buf_add(&lost->extras, lost->extra.data, lost->extra.size);
    if (lost->extras.failed) lost->text.failed = true;
    return 0;
}

/* What the buffers hold was promised to nobody, but is not dropped in silence: it goes to the archive, for the next leader to decide
 * about (extras.h), and the tables back to what the log says. */
static void give_up_buffers(struct ms_engine *e, const char *why)
{
    struct lost lost = {.engine = e};
    ms_buf_init(&lost.text);
    ms_buf_init(&lost.extra);
    ms_buf_init(&lost.extras);
    ms_extras_put_epoch(&lost.extras, ms_lineage_last(&e->store->lineage));
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        lost.table = e->store->tables[id];
        if (!lost.table || ms_buffer_entries(lost.table) == 0) continue;
        (void)ms_buffer_visit(lost.table, write_lost, &lost);
        ms_buffer_discard(e->store->tables[id]);
    }
    ms_flush_reset(e);
    if (lost.entries) {
        e->counters.at_risk_lost += lost.entries;
        ms_engine_alarm(e, "%llu buffered changes were not logged before this node stopped leading (%s); see the archive%s",
                        (unsigned long long)lost.entries, why, lost.text.failed ? ", which lacks some: out of memory" : "");
        e->archives_asked++;
        e->io->ops->archive(e->io, 0, ms_buf_bytes(&lost.text), lost.extras.failed ? ms_bytes("", 0) : ms_buf_bytes(&lost.extras));
    }
    ms_buf_close(&lost.text);
    ms_buf_close(&lost.extra);
    ms_buf_close(&lost.extras);
}

void ms_engine_step_down(struct ms_engine *e, int code, const char *why)
{
    bool led = e->role == MS_ROLE_LEADER;
    if (led) e->counters.stepdowns++;
    if (led) e->host_applied = e->store->applied; /* its own writes: nobody else confirms them */
    give_up_buffers(e, why);
    ms_engine_drop_peers(e, code, why);
    e->opening_lsn = 0;
    e->mark_at = 0;
    ms_engine_set_role(e, MS_ROLE_IDLE, code, "%s", why);
}

void ms_engine_meet(struct ms_engine *e, struct ms_epoch epoch, const char *who)
{
    if (ms_epoch_compare(epoch, e->highest) > 0) e->highest = epoch;
    if (e->role != MS_ROLE_LEADER && e->role != MS_ROLE_OPENING) return;
    if (ms_epoch_compare(epoch, ms_lineage_last(&e->store->lineage)) <= 0) return;
    char why[128];
    (void)snprintf(why, sizeof why, "%s knows the higher epoch %llu.%llu", who, (unsigned long long)epoch.reign, (unsigned long long)epoch.run);
    ms_engine_step_down(e, MS_E_DEPOSED, why);
}

/* ---- opening an epoch -------------------------------------------------------------------------------------------------- */

static int append_epoch(struct ms_engine *e)
{
    struct ms_buf record;
    ms_buf_init(&record);
    ms_record_add_epoch(&record, e->opening.reign, e->opening.run, e->opening.id);
    int rc = record.failed ? MS_E_MEMORY : ms_engine_room_for(e, record.size, 0);
    if (!rc) rc = ms_tail_reserve(&e->tail, record.size);
    if (!rc) rc = ms_lineage_add(&e->store->lineage, e->opening, e->tail.head + 1);
    if (!rc) rc = ms_engine_append(e, ms_buf_bytes(&record)); /* can't fail: reserved */
    ms_buf_close(&record);
    return rc;
}

void ms_engine_try_open(struct ms_engine *e)
{
    if (e->role != MS_ROLE_OPENING || e->log_error) return;
    if (e->opening_lsn == 0) {
        /* A follower that is promoted first applies what it has received, and the host too. */
        bool applied = e->store->applied == e->tail.head && e->written == e->tail.head;
        if (!applied && e->damaged) { /* what is missing will never be applied */
            ms_engine_set_role(e, MS_ROLE_IDLE, MS_E_DAMAGED, "no new epoch: %s", e->alarm);
            return;
        }
        if (!applied) ms_engine_wake(e, ms_now(e) + 1000);
        if (!applied || (e->opening_host && e->host_applied < e->store->applied)) return;
        int rc = append_epoch(e);
        if (rc == MS_E_AGAIN) return;
        if (rc) {
            ms_engine_set_role(e, MS_ROLE_IDLE, rc, "no new epoch: %s", ms_fail_message(rc));
            return;
        }
        e->opening_lsn = e->tail.head;
        (void)ms_engine_append_mark(e); /* no room: a later one will do */
        e->host_applied = e->store->applied; /* nothing in these records is for the host */
        e->sync_wanted = true;
        ms_engine_pump(e);
        return;
    }
    if (e->synced < e->opening_lsn) return;
    e->opening_lsn = 0;
    e->led = e->opening.id;
    e->damaged = false;
    e->unfinished = false;
    e->host_applied = e->store->applied;
    e->replicated = 0;
    e->comparing_since = ms_now(e);
    ms_engine_set_role(e, MS_ROLE_LEADER, 0, "epoch %llu.%llu since lsn %llu", (unsigned long long)e->opening.reign,
                       (unsigned long long)e->opening.run, (unsigned long long)e->tail.head);
}

static void open_epoch(struct ms_engine *e, uint64_t reign, uint64_t run, bool wait_for_host, const char *why)
{
    e->opening_host = wait_for_host;
    e->opening = (struct ms_epoch){.reign = reign, .run = run};
    while (e->opening.id == 0) e->io->ops->random(e->io, &e->opening.id, sizeof e->opening.id);
    e->opening_lsn = 0;
    ms_engine_set_role(e, MS_ROLE_OPENING, 0, "%s", why);
    ms_engine_try_open(e);
}

/* ---- leading ------------------------------------------------------------------------------------------------------------- */

static const char switched_off[] = "the policy says replicate.enabled = false";

static int may_open(const struct ms_engine *e)
{
    if (!e->policy.enabled) return ms_fail(MS_E_INVALID, "%s", switched_off);
    if (e->log_error) return ms_fail(MS_E_LOG_FAILED, "%s", e->alarm);
    if (e->follow.switching) return ms_fail(MS_E_NOT_PROMOTABLE, "a bootstrap is just being completed");
    return 0;
}

int ms_engine_lead(struct ms_engine *e, const char *const *peers, size_t count, int flags)
{
    int rc = may_open(e);
    if (rc) return rc;
    if (e->role == MS_ROLE_LEADER) return 0;
    if (e->damaged) return ms_fail(MS_E_DAMAGED, "this node's data is damaged, it may only follow: %s", e->alarm);
    if (e->unfinished) return ms_fail(MS_E_NOT_PROMOTABLE, "this node has not finished its bootstrap");
    if (e->role == MS_ROLE_ASKING || e->role == MS_ROLE_OPENING) return ms_fail(MS_E_INVALID, "this node is about to lead already");
    if (count > MS_ASKS_MAX) return ms_fail(MS_E_LIMIT, "%zu peers, the limit is %d", count, MS_ASKS_MAX);
    for (size_t i = 0; i < count; i++)
        if (strlen(peers[i]) >= MS_ADDRESS_MAX) return ms_fail(MS_E_ADDRESS, "the address %s is too long", peers[i]);
    ms_follow_stop(e);
    e->ask_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) (void)snprintf(e->ask[i], sizeof e->ask[i], "%s", peers[i]);
    e->ask_until = ms_now(e) + (uint64_t)e->policy.ask_ms * 1000;
    e->asking = 0;
    e->comparing = flags & MS_PROMOTE_COMPARE;
    ms_engine_set_role(e, MS_ROLE_ASKING, 0, "asking %zu peers", count);
    for (size_t i = 0; i < count; i++) {
        struct ms_peer *peer = ms_alloc_zero(sizeof *peer);
        if (!peer) continue; /* one answer less, as if it were down */
        peer->outgoing = true;
        peer->state = MS_PEER_PROBE;
        peer->heard = ms_now(e);
        (void)snprintf(peer->address, sizeof peer->address, "%s", e->ask[i]);
        peer->link = e->io->ops->connect(e->io, peer->address);
        ms_list_add_tail(&e->peers, &peer->node);
        e->asking++;
    }
    ms_engine_wake(e, e->ask_until);
    if (e->asking == 0) ms_engine_asked(e);
    return 0;
}

static void drop_asked(struct ms_engine *e)
{
    for (struct ms_list *at = e->peers.next, *next; at != &e->peers; at = next) {
        next = at->next;
        struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        if (!peer->outgoing) continue;
        e->io->ops->close(e->io, peer->link);
        ms_engine_drop_peer(e, peer);
    }
    e->asking = 0;
}

void ms_engine_asked(struct ms_engine *e)
{
    if (e->role != MS_ROLE_ASKING) return;
    struct ms_epoch mine = ms_lineage_last(&e->store->lineage);
    bool higher = ms_epoch_compare(e->highest, mine) > 0;
    if (!higher && e->asking > 0 && ms_now(e) < e->ask_until) return;
    drop_asked(e);
    if (higher)
        ms_engine_set_role(e, MS_ROLE_IDLE, MS_E_DEPOSED, "a peer knows the higher epoch %llu.%llu", (unsigned long long)e->highest.reign,
                           (unsigned long long)e->highest.run);
    else
        open_epoch(e, mine.reign, mine.run + 1, false, "a new epoch is being synced");
}

void ms_engine_role_tick(struct ms_engine *e, uint64_t now)
{
    if (e->role == MS_ROLE_ASKING) {
        if (now >= e->ask_until)
            ms_engine_asked(e);
        else
            ms_engine_wake(e, e->ask_until);
    }
    ms_engine_try_open(e);
}

int ms_engine_compared(struct ms_engine *e)
{
    if (e->role != MS_ROLE_LEADER) return ms_fail(MS_E_NOT_LEADER, "this node is %s, not leader: %s", ms_role_name(e->role), e->reason);
    if (!e->comparing) return 0;
    int rc = ms_engine_flush(e, NULL, UINT32_MAX); /* what only a buffer has is not in a follower's tables */
    if (rc) return rc;
    e->comparing = false;
    ms_engine_event(e, MS_LOG_INFO, "the host has compared its copy with the log for %llu ms, followers may come",
                    (unsigned long long)(ms_now(e) - e->comparing_since) / 1000);
    ms_engine_admit(e);
    ms_engine_changed(e);
    return 0;
}

/* ---- promotion, following ---------------------------------------------------------------------------------------------------- */

bool ms_engine_promotable(const struct ms_engine *e, const char **why_not)
{
    const char *why = NULL;
    if (e->log_error)
        why = "the log has failed";
    else if (e->damaged)
        why = "its data is damaged";
    else if (e->unfinished)
        why = "its bootstrap is not finished";
    else if (e->follow.switching)
        why = "a bootstrap is just being completed";
    if (why_not) *why_not = why ? why : "";
    return why == NULL;
}

int ms_engine_promote(struct ms_engine *e, uint64_t least_reign, int flags)
{
    const char *why;
    if (least_reign > INT64_MAX) return ms_fail(MS_E_INVALID, "reigns are below 2^63");
    if (e->role == MS_ROLE_LEADER || e->role == MS_ROLE_OPENING) return 0;
    int rc = may_open(e);
    if (rc) return rc;
    if (!ms_engine_promotable(e, &why) && !(flags & MS_PROMOTE_FORCE && e->store->lineage.count))
        return ms_fail(MS_E_NOT_PROMOTABLE, "%s", why);
    if (e->role == MS_ROLE_ASKING) drop_asked(e);
    ms_follow_stop(e);
    bool followed = e->role == MS_ROLE_FOLLOWER;
    uint64_t reign = ms_lineage_last(&e->store->lineage).reign;
    if (e->highest.reign > reign) reign = e->highest.reign;
    e->comparing = flags & MS_PROMOTE_COMPARE;
    bool wait_for_host = e->has_host && (followed || !(flags & MS_PROMOTE_COMPARE));
    open_epoch(e, reign + 1 > least_reign ? reign + 1 : least_reign, 0, wait_for_host, "promoted, a new reign is being synced");
    return 0;
}

int ms_engine_follow(struct ms_engine *e, const char *address)
{
    if (strlen(address) == 0 || strlen(address) >= MS_ADDRESS_MAX) return ms_fail(MS_E_ADDRESS, "the address %s is empty or too long", address);
    if (!e->policy.enabled) return ms_fail(MS_E_INVALID, "%s", switched_off);
    if (e->log_error) return ms_fail(MS_E_LOG_FAILED, "%s", e->alarm);
    if (e->role == MS_ROLE_FOLLOWER && strcmp(e->follow.address, address) == 0) return 0;
    if (e->role == MS_ROLE_ASKING) drop_asked(e);
    if (e->role == MS_ROLE_LEADER || e->role == MS_ROLE_OPENING) ms_engine_step_down(e, 0, "told to follow");
    ms_follow_stop(e);
    ms_engine_drop_peers(e, MS_E_NOT_LEADER, "this node follows now");
    (void)snprintf(e->follow.address, sizeof e->follow.address, "%s", address);
    e->follow.state = MS_FOLLOW_WAIT;
    e->follow.first_head = UINT64_MAX;
    e->follow.met = false;
    e->follow.retry_at = ms_now(e);
    e->follow.backoff_us = 0;
    e->follow.attempts = 0;
    ms_engine_set_role(e, MS_ROLE_FOLLOWER, 0, "follows %s", address);
    ms_follow_tick(e, ms_now(e));
    return 0;
}

void ms_engine_switch_off(struct ms_engine *e)
{
    if (e->role == MS_ROLE_IDLE) return;
    if (e->role == MS_ROLE_LEADER) (void)ms_engine_flush(e, NULL, UINT32_MAX); /* what the log does not take goes to the archive */
    if (e->role == MS_ROLE_ASKING) drop_asked(e);
    ms_follow_stop(e);
    ms_engine_step_down(e, 0, switched_off);
}

int ms_engine_adopt(struct ms_engine *e)
{
    if (e->role != MS_ROLE_FOLLOWER || e->follow.state != MS_FOLLOW_REFUSED)
        return ms_fail(MS_E_INVALID, "this node refuses no leader's history, there is nothing to adopt");
    e->follow.adopt = true;
    e->follow.retry_at = ms_now(e);
    ms_engine_event(e, MS_LOG_WARN, "told to adopt the history of %s", e->follow.address);
    ms_engine_wake(e, e->follow.retry_at);
    return 0;
}
