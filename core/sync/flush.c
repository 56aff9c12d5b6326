/* Buffered tables: what joins the buffer, and when it is logged (promise 3).
 *
 * A flush of a table is due at the earliest of these:
 *      an interval after the first value that is not logged: the table policy's, or what the policy's flush function said last
 *      half of at_risk_ms after it
 *      at once, with `entries` or `bytes` of the policy, or half of at_risk_entries or at_risk_bytes, in the buffer
 * A due flush logs a slice a turn, so that the lock is not held long. Beyond at_risk_entries or at_risk_bytes a put logs what is too much
 * before it returns; only a log that takes nothing can make it more, and that is counted.
 *
 * A table that a new policy makes unbuffered stays as it is until its buffer is empty: each put then logs more than it brings. */
#include "inside.h"

enum { FLUSH_SLICE = 512 /* keys a turn */, INLINE_SLICE = 64, PLAN_MIN_US = 1000, PLAN_MAX_US = 60000000 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t half(uint64_t bound)
{
    return bound ? (bound + 1) / 2 : UINT64_MAX;
}

/* ---- bounds and times ------------------------------------------------------------------------------------------------- */

static void set_bounds(struct ms_engine *e, uint32_t id)
{
    const struct ms_table_policy *policy = &e->table_policy[id];
    struct ms_buffer_plan *plan = &e->plans[id];
    plan->soft_entries = least(policy->entries ? policy->entries : UINT64_MAX, half(policy->at_risk_entries));
    plan->soft_bytes = least(policy->bytes ? policy->bytes : UINT64_MAX, half(policy->at_risk_bytes));
    plan->hard_entries = policy->at_risk_entries ? policy->at_risk_entries : UINT64_MAX;
    plan->hard_bytes = policy->at_risk_bytes ? policy->at_risk_bytes : UINT64_MAX;
    if (plan->leaving) plan->soft_entries = plan->hard_entries = 0;
}

void ms_flush_table_policy(struct ms_engine *e, uint32_t id)
{
    const struct ms_table_state *table = e->store->tables[id];
    struct ms_table_policy fresh = ms_policy_table(&e->policy, table->name);
    struct ms_buffer_plan *plan = &e->plans[id];
    plan->leaving = !fresh.interval_ms && ms_buffer_entries(table) > 0;
    if (!plan->leaving) e->table_policy[id] = fresh;
    if (!plan->leaving && !fresh.interval_ms) e->flush_at[id] = 0;
    set_bounds(e, id);
}

uint64_t ms_flush_oldest(const struct ms_engine *e, const struct ms_table_state *table)
{
    if (ms_buffer_entries(table) == 0) return 0;
    const struct ms_buffer_plan *plan = &e->plans[table->id];
    uint32_t flushing = !table->working;
    return table->sets[flushing].entries ? plan->since[flushing] : plan->since[table->working];
}

static uint64_t interval(const struct ms_engine *e, uint32_t id)
{
    return e->plans[id].plan_us ? e->plans[id].plan_us : (uint64_t)e->table_policy[id].interval_ms * 1000;
}

/* The time that is left by at_risk_ms, given a wish. */
static uint64_t within_risk(const struct ms_engine *e, const struct ms_table_state *table, uint64_t at)
{
    uint64_t bound = (uint64_t)e->table_policy[table->id].at_risk_ms * 1000;
    return bound ? least(at, ms_flush_oldest(e, table) + bound / 2) : at;
}

void ms_flush_reset(struct ms_engine *e)
{
    memset(e->plans, 0, sizeof e->plans);
    memset(e->flush_at, 0, sizeof e->flush_at);
    e->flushes_unwritten = 0;
    ms_engine_refresh_tables(e);
}

void ms_flush_rearm(struct ms_engine *e, uint32_t id, uint64_t now)
{
    const struct ms_table_state *table = e->store->tables[id];
    if (ms_buffer_entries(table) == 0) {
        if (e->flush_at[id] > now + interval(e, id)) e->flush_at[id] = 0;
        return;
    }
    const struct ms_buffer_plan *plan = &e->plans[id];
    uint64_t at = within_risk(e, table, ms_flush_oldest(e, table) + interval(e, id));
    if (plan->leaving || ms_buffer_entries(table) >= plan->soft_entries || ms_buffer_bytes(table) >= plan->soft_bytes) at = now;
    e->flush_at[id] = at > now ? at : now;
    ms_engine_wake(e, e->flush_at[id]);
}

void ms_engine_flush_plan(struct ms_engine *e, uint32_t id, uint64_t next_us)
{
    if (id == 0 || id >= MS_TABLES_MAX || !e->store->tables[id] || !e->table_policy[id].interval_ms || e->role != MS_ROLE_LEADER) return;
    if (next_us) next_us = next_us < PLAN_MIN_US ? PLAN_MIN_US : least(next_us, PLAN_MAX_US);
    e->plans[id].plan_us = next_us;
    if (!e->plans[id].leaving) ms_flush_rearm(e, id, ms_now(e));
}

/* ---- asking the policy ------------------------------------------------------------------------------------------------------ */

static uint64_t slowest_lag(const struct ms_engine *e)
{
    uint64_t lag = 0;
    for (struct ms_list *at = e->peers.next; at != &e->peers; at = at->next) {
        const struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        if (peer->in_sync && e->tail.head > peer->durable && e->tail.head - peer->durable > lag) lag = e->tail.head - peer->durable;
    }
    return lag;
}

static void ask(struct ms_engine *e, uint32_t id, uint64_t now)
{
    const struct ms_table_state *table = e->store->tables[id];
    if (!e->rules || !(e->rules->functions & MS_RULES_FLUSH) || e->plans[id].leaving) return;
    uint64_t oldest = ms_flush_oldest(e, table);
    struct ms_flush_stats stats = {
        .entries = ms_buffer_entries(table),
        .bytes = ms_buffer_bytes(table),
        .rate = e->plans[id].rate,
        .oldest_us = oldest ? now - oldest : 0,
        .interval_us = (uint64_t)e->table_policy[id].interval_ms * 1000,
        .lag = slowest_lag(e),
        .flush_us = e->plans[id].took_us,
    };
    memcpy(stats.table, table->name, sizeof table->name);
    e->io->ops->ask_flush(e->io, id, &stats);
}

void ms_flush_written(struct ms_engine *e)
{
    uint64_t now = ms_now(e);
    for (uint32_t id = 1; id < MS_TABLES_MAX && e->flushes_unwritten > 0; id++) {
        struct ms_buffer_plan *plan = &e->plans[id];
        if (!plan->lsn || plan->lsn > e->written) continue;
        plan->lsn = 0;
        plan->took_us = now - plan->began;
        e->flushes_unwritten--;
        if (e->role == MS_ROLE_LEADER && e->store->tables[id] && e->table_policy[id].interval_ms) ask(e, id, now);
    }
}

/* ---- flushing ---------------------------------------------------------------------------------------------------------------- */

/* Logs one key of the flushing set. */
static int flush_one(struct ms_engine *e, struct ms_table_state *table, struct ms_bytes key, struct ms_bytes value)
{
    size_t size = ms_record_change_size(table->id, key, value);
    int rc = ms_commit_check_tail(e, size);
    if (!rc) rc = ms_tail_reserve(&e->tail, size);
    if (rc) return rc;
    uint8_t *at = ms_tail_append(&e->tail, size);
    (void)ms_record_change_put(at, value.data ? MS_RECORD_PUT : MS_RECORD_DELETE, table->id, key, value);
    ms_buffer_done(table);
    e->store->applied = e->tail.head;
    ms_commit_count(e, 1);
    return 0;
}

/* The flushing set is empty: how it went. */
static void flush_ended(struct ms_engine *e, struct ms_buffer_plan *plan, uint64_t now)
{
    if (!plan->flushing) return;
    plan->flushing = false;
    if (now > plan->ended) {
        double rate = (double)plan->puts * 1e6 / (double)(now - plan->ended);
        plan->rate = plan->rate > 0 ? (plan->rate + rate) / 2 : rate;
        plan->puts = 0;
        plan->ended = now;
    }
    if (!plan->lsn) e->flushes_unwritten++;
    plan->lsn = e->tail.head;
    if (plan->lsn <= e->written) ms_flush_written(e); /* all of it was changed there and back: nothing to wait for */
}

static int flush_table(struct ms_engine *e, struct ms_table_state *table, uint32_t *budget)
{
    struct ms_buffer_plan *plan = &e->plans[table->id];
    struct ms_bytes key, value;
    uint64_t key_hash;
    ms_buffer_swap(table);
    e->counters.flushes++;
    if (!plan->flushing) plan->began = ms_now(e);
    plan->flushing = true;
    while (*budget > 0 && ms_buffer_next(table, &key, &key_hash, &value)) {
        int rc = flush_one(e, table, key, value);
        if (rc) return rc;
        --*budget;
    }
    if (table->sets[!table->working].entries == 0) flush_ended(e, plan, ms_now(e));
    return *budget == 0 && ms_buffer_entries(table) > 0;
}

int ms_engine_flush(struct ms_engine *e, struct ms_table_state *only, uint32_t max_entries)
{
    int rc = ms_commit_check_logging(e);
    if (rc) return rc;
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        struct ms_table_state *table = e->store->tables[id];
        if (!table || (only && table != only) || ms_buffer_entries(table) == 0) continue;
        do { /* an earlier flush may have left keys: those go first, and what came since is in the other set */
            rc = flush_table(e, table, &max_entries);
        } while (rc == 0 && ms_buffer_entries(table) > 0);
        if (rc) return rc;
    }
    return 0;
}

/* When the next flush is due after one that took all it found. What came in meanwhile waits a full interval, counted from the planned
 * time: no drift, no catching up. */
static uint64_t next_due(const struct ms_engine *e, const struct ms_table_state *table, uint64_t now)
{
    uint64_t wait = interval(e, table->id), next = e->flush_at[table->id] + wait;
    if (ms_buffer_entries(table) == 0) return 0;
    if (e->plans[table->id].plan_us) next = ms_flush_oldest(e, table) + wait;
    if (next <= now) next = now + wait;
    return within_risk(e, table, next);
}

static void flush_due_table(struct ms_engine *e, struct ms_table_state *table, uint64_t now)
{
    uint32_t budget = FLUSH_SLICE, id = table->id;
    int rc = flush_table(e, table, &budget);
    while (e->plans[id].leaving && rc == 0 && ms_buffer_entries(table) > 0) rc = flush_table(e, table, &budget);
    if (rc == 0 && e->plans[id].leaving) ms_flush_table_policy(e, id); /* its buffer is empty: now it is unbuffered */
    else if (rc == 0) e->flush_at[id] = next_due(e, table, now);
    else e->flush_at[id] = rc > 0 ? now : now + 5000;
    ms_engine_wake(e, e->flush_at[id]);
}

void ms_engine_flush_due(struct ms_engine *e, uint64_t now)
{
    if (e->role != MS_ROLE_LEADER) return;
    bool flushed = false;
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        if (!e->flush_at[id] || !e->store->tables[id]) continue;
        if (now < e->flush_at[id]) {
            ms_engine_wake(e, e->flush_at[id]);
            continue;
        }
        flush_due_table(e, e->store->tables[id], now);
        flushed = true;
    }
    if (flushed) ms_engine_pump(e);
}

/* ---- putting ------------------------------------------------------------------------------------------------------------------ */

static bool over(const struct ms_table_state *table, const struct ms_buffer_plan *plan)
{
    return ms_buffer_entries(table) > plan->hard_entries || ms_buffer_bytes(table) > plan->hard_bytes;
}

/* What came is stored, so what is logged here is about as much as came, and a slice; a slice of a buffer that is to be emptied. */
void ms_flush_keep_bounds(struct ms_engine *e, struct ms_table_state *table)
{
    const struct ms_buffer_plan *plan = &e->plans[table->id];
    int rc = 0;
    for (bool again = over(table, plan); again; again = rc >= 0 && !plan->leaving && over(table, plan)) {
        uint32_t budget = INLINE_SLICE;
        rc = flush_table(e, table, &budget);
    }
    if (rc < 0 && !plan->leaving) e->counters.at_risk_exceeded++;
}

void ms_flush_keep_bounds_soon(struct ms_engine *e, struct ms_table_state *table)
{
    if (!over(table, &e->plans[table->id])) return;
    e->counters.at_risk_exceeded++;
    e->flush_at[table->id] = ms_now(e);
    ms_engine_wake(e, e->flush_at[table->id]);
}

int ms_flush_put(struct ms_engine *e, const struct ms_engine_write *write, const struct ms_spot *spot)
{
    struct ms_table_state *table = write->table;
    struct ms_buffer_plan *plan = &e->plans[table->id];
    uint32_t working = table->working;
    uint64_t dirty = ms_buffer_entries(table), waiting = table->sets[working].entries;
    int rc = ms_buffer_put(table, spot, write->key, write->value);
    if (rc) return rc;
    uint64_t *due = &e->flush_at[table->id], entries = ms_buffer_entries(table);
    bool first = waiting == 0 && table->sets[working].entries > 0;
    bool full = entries >= plan->soft_entries || ms_buffer_bytes(table) >= plan->soft_bytes;
    plan->puts++;
    if (entries == dirty) e->counters.coalesced++;
    if (*due && !full && !first) return 0;
    uint64_t now = ms_now(e);
    if (first) plan->since[working] = now;
    if (!plan->ended) plan->ended = now;
    if (!*due) *due = now + interval(e, table->id);
    if (full && *due > now) *due = now;
    if (entries > 0) *due = within_risk(e, table, *due);
    ms_engine_wake(e, *due);
    return 0;
}
