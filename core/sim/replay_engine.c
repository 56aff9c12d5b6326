/* The engine under a replay, and the world that it lives in: nobody follows, the disk answers at once, the clock stands where the log
 * says. What the engine asks for is noted and answered right after the input, as io.h wants it. */
#include <stdio.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "replay_inside.h"

enum { BEGIN_US = 1000000, TRIES = 100, ROUNDS = 1000 };

static struct ms_replay *replay_of(struct ms_io *io)
{
    return (struct ms_replay *)(void *)io;
}

uint64_t ms_replay_time(void *clock)
{
    return ((const struct ms_replay_clock *)clock)->real_us;
}

/* ---- io.h ---------------------------------------------------------------------------------------------------------------- */

static uint64_t io_now(struct ms_io *io)
{
    return replay_of(io)->now + BEGIN_US;
}

static uint64_t io_real_time(struct ms_io *io)
{
    return replay_of(io)->clock->real_us;
}

static void io_random(struct ms_io *io, void *data, size_t size)
{
    (void)io;
    memset(data, 0x5a, size); /* only an epoch's id asks for it */
}

static void io_wake_at(struct ms_io *io, uint64_t now)
{
    struct ms_replay *replay = replay_of(io);
    uint64_t wish = now > BEGIN_US ? now - BEGIN_US : 0;
    if (wish < replay->now) wish = replay->now;
    if (!replay->wake || wish + 1 < replay->wake) replay->wake = wish + 1;
}

static void count_record(struct ms_replay *replay, const struct ms_record *record)
{
    if (record->type != MS_RECORD_PUT && record->type != MS_RECORD_DELETE) return;
    uint16_t index = replay->by_id[record->table];
    if (index) ms_replay_logged(replay, &replay->tables[index - 1], record);
}

static void io_log_write(struct ms_io *io, struct ms_block *block)
{
    struct ms_replay *replay = replay_of(io);
    struct ms_group_header header = {.first = block->first, .count = block->count, .body_size = block->body_size};
    struct ms_record_reader reader = ms_record_reader(ms_bytes(block->data, block->size), &header);
    struct ms_record record;
    while (ms_record_next(&reader, &record) > 0) count_record(replay, &record);
    replay->written = block->last;
}

static void io_log_sync(struct ms_io *io)
{
    replay_of(io)->sync = true;
}

static void io_log_reserve(struct ms_io *io)
{
    replay_of(io)->reserve = true;
}

static void io_ask_flush(struct ms_io *io, uint32_t table, const struct ms_flush_stats *stats)
{
    struct ms_replay *replay = replay_of(io);
    uint32_t i = 0;
    while (i < replay->ask_count && replay->asks[i] != table) i++;
    if (i == replay->ask_count) replay->asks[replay->ask_count++] = table;
    replay->stats[i] = *stats;
}

static void io_event(struct ms_io *io, const struct ms_event *event)
{
    struct ms_rules *rules = replay_of(io)->rules;
    if (rules && rules->functions & MS_RULES_EVENT) rules->ops->event(rules, event);
}

static void io_changed(struct ms_io *io)
{
    (void)io;
}

static void io_role(struct ms_io *io, int role, const char *reason)
{
    (void)io, (void)role, (void)reason;
}

static void io_log_line(struct ms_io *io, int severity, const char *line)
{
    (void)io, (void)severity, (void)line;
}

/* Snapshots, links and stages are for other inputs than a replay gives; they are never asked for. */
static const struct ms_io_ops io_ops = {
    .now = io_now,
    .real_time = io_real_time,
    .random = io_random,
    .wake_at = io_wake_at,
    .log_write = io_log_write,
    .log_sync = io_log_sync,
    .log_reserve = io_log_reserve,
    .ask_flush = io_ask_flush,
    .event = io_event,
    .changed = io_changed,
    .role = io_role,
    .log_line = io_log_line,
};

/* ---- answers ------------------------------------------------------------------------------------------------------------- */

static void plan_flushes(struct ms_replay *replay)
{
    for (uint32_t i = 0; i < replay->ask_count; i++) {
        uint64_t next_us = 0;
        if (replay->rules->ops->flush(replay->rules, &replay->stats[i], &next_us))
            ms_engine_flush_plan(&replay->engine, replay->asks[i], next_us);
    }
    replay->ask_count = 0;
}

int ms_replay_settle(struct ms_replay *replay)
{
    struct ms_engine *e = &replay->engine;
    ms_engine_pump(e);
    for (int round = 0; replay->written || replay->sync || replay->reserve || replay->ask_count; round++) {
        if (round == ROUNDS) return ms_fail(MS_E_INVALID, "the engine asks its disk for ever");
        uint64_t written = replay->written;
        bool sync = replay->sync, reserve = replay->reserve;
        replay->written = 0;
        replay->sync = replay->reserve = false;
        if (reserve) ms_engine_room(e, UINT64_MAX / 8, 0);
        if (written) ms_engine_written(e, written, 0);
        if (sync) ms_engine_synced(e, e->written, 0);
        plan_flushes(replay);
    }
    return 0;
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

/* What only bounds resources or needs other nodes would hide what the policy does with changes. */
static void free_of_bounds(struct ms_policy *policy)
{
    policy->on_no_replica = MS_ON_NO_REPLICA_DEGRADE;
    policy->snapshot_log_bytes = UINT64_MAX;
    policy->snapshot_every_ms = UINT32_MAX;
    policy->log_keep_bytes = policy->log_max_bytes = UINT64_MAX / 4;
    policy->mark_changes = UINT32_MAX;
    policy->mark_every_ms = 3600000;
    policy->retain_bytes = 0;
    policy->tail_bytes = 1u << 30;
}

int ms_replay_engine_open(struct ms_replay *replay)
{
    struct ms_engine *e = &replay->engine;
    struct ms_policy policy = replay->policy;
    free_of_bounds(&policy);
    replay->io.ops = &io_ops;
    struct ms_engine_config config = {
        .cluster = "replay",
        .name = "replay",
        .node_id = 1,
        .boot_id = 1,
        .policy = &policy,
        .rules = replay->rules,
        .log_first = replay->store.applied + 1,
        .log_room = UINT64_MAX / 8,
        .snapshot_end = replay->store.applied,
    };
    int rc = ms_engine_init(e, &replay->io, &replay->store, &config);
    if (rc) return rc;
    replay->has_engine = true;
    rc = ms_engine_lead(e, NULL, 0, 0);
    if (!rc) rc = ms_replay_settle(replay);
    if (!rc && e->role != MS_ROLE_LEADER) rc = ms_fail(e->result ? e->result : MS_E_INVALID, "the engine does not lead: %s", e->reason);
    return rc;
}

int ms_replay_table_open(struct ms_replay *replay, struct ms_bytes name, int type, uint32_t *index)
{
    char text[MS_TABLE_NAME_MAX + 1];
    (void)snprintf(text, sizeof text, "%.*s", (int)name.size, (const char *)name.data);
    struct ms_table_policy policy = ms_policy_table(&replay->policy, text);
    if (policy.type && policy.type != type) return ms_fail(MS_E_TYPE, "table %s of the log has another value type than the policy says", text);
    struct ms_table_state *state;
    int rc = MS_E_AGAIN;
    for (int i = 0; i < TRIES && rc == MS_E_AGAIN; i++) {
        rc = ms_engine_table(&replay->engine, text, type, &state);
        if (rc == MS_E_AGAIN && ms_replay_settle(replay)) return MS_E_INVALID;
    }
    if (rc) return rc;
    if (replay->by_id[state->id]) {
        *index = replay->by_id[state->id] - 1u;
        return 0;
    }
    *index = replay->table_count++;
    struct ms_replay_state *table = &replay->tables[*index];
    memcpy(table->name, text, sizeof table->name);
    table->state = state;
    table->counts.type = type;
    table->counts.buffered = policy.interval_ms > 0;
    replay->by_id[state->id] = (uint16_t)(*index + 1);
    return 0;
}

/* ---- time ---------------------------------------------------------------------------------------------------------------- */

static void move_clock(struct ms_replay *replay, uint64_t now)
{
    if (now <= replay->now) return;
    ms_replay_risk(replay, now);
    replay->now = now;
    replay->clock->real_us = replay->began_us + now;
}

int ms_replay_until(struct ms_replay *replay, uint64_t now)
{
    int rc = 0;
    while (!rc && replay->wake && replay->wake - 1 <= now) {
        uint64_t at = replay->wake - 1;
        replay->wake = 0;
        move_clock(replay, at);
        ms_engine_tick(&replay->engine);
        rc = ms_replay_settle(replay);
    }
    move_clock(replay, now);
    return rc;
}

int ms_replay_finish(struct ms_replay *replay)
{
    int rc = 0;
    for (uint32_t i = 0; i < replay->table_count; i++)
        while (!rc && ms_buffer_entries(replay->tables[i].state) && replay->wake) rc = ms_replay_until(replay, replay->wake - 1);
    return rc;
}

/* ---- changes ------------------------------------------------------------------------------------------------------------- */

static int commit(struct ms_replay *replay, struct ms_table_state *table, struct ms_bytes key, uint64_t hash, struct ms_bytes value)
{
    struct ms_engine *e = &replay->engine;
    uint64_t lsn = 0;
    struct ms_engine_write write = ms_engine_write(table, key, hash, value);
    int level = 0, rc = MS_E_AGAIN;
    for (int i = 0; i < TRIES && (rc == MS_E_AGAIN || rc == MS_ASK); i++) {
        rc = ms_engine_commit(e, &write, &lsn, &level);
        if (rc == MS_ASK) write.decision = ms_rules_decide(replay->rules, table->name, key);
        if (rc == MS_E_AGAIN && ms_replay_settle(replay)) return MS_E_INVALID;
    }
    return rc;
}

int ms_replay_change(struct ms_replay *replay, struct ms_replay_state *table, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_replay_table *counts = &table->counts;
    struct ms_replay_entry *entry = NULL;
    uint64_t hash = ms_key_hash(key);
    counts->in++;
    counts->bytes_in += key.size + value.size;
    if (counts->buffered || replay->remember) {
        int rc = ms_replay_entry_of(replay, (uint32_t)(table - replay->tables), key, hash, &entry);
        if (rc) return rc;
    }
    bool pending = entry && counts->buffered && !entry->pending;
    if (pending) entry->pending = replay->now + 1; /* before: the put itself may log it */
    int rc = commit(replay, table->state, key, hash, value);
    if (rc && pending) entry->pending = 0;
    if (counts->buffered) ms_replay_risk_of(table);
    if (rc == MS_LOCAL) counts->filtered++;
    if (rc == MS_E_LIMIT || rc == MS_E_TYPE) counts->refused++;
    return rc == MS_LOCAL || rc == MS_E_LIMIT || rc == MS_E_TYPE ? 0 : rc;
}
