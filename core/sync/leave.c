/* The view on a leader: what happens to changes of entries that a policy leaves out, and how an entry leaves. */
#include "inside.h"

int ms_engine_view(struct ms_engine *e, struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value, int decision)
{
    bool known = ms_view_knows(&e->view, table, key, key_hash);
    if (!value.data && !known) return 0; /* a delete of what does not exist */
    if (decision == MS_VIEW_UNKNOWN && !known) return MS_ASK;
    if (decision == MS_VIEW_IN) {
        (void)ms_view_remove(&e->view, table, key, key_hash);
        return 0;
    }
    if (!known) ms_view_add(&e->view, table, key, key_hash);
    return MS_LOCAL;
}

int ms_engine_leave(struct ms_engine *e, struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash)
{
    int rc = ms_commit_check_logging(e);
    if (!rc && table->id == 0) rc = ms_fail(MS_E_NOT_FOUND, "table %s is not in the adopted history", table->name);
    if (rc) return rc;
    struct ms_spot spot = ms_table_find(table, key, key_hash);
    if (!ms_spot_live(&spot)) return 0; /* a delete that is not logged yet will be */
    size_t size = ms_record_change_size(table->id, key, ms_bytes(NULL, 0));
    rc = ms_commit_check_tail(e, size);
    if (!rc) rc = ms_tail_reserve(&e->tail, size);
    if (rc) return rc;
    struct ms_prepared nothing = {0};
    (void)ms_record_change_put(ms_tail_append(&e->tail, size), MS_RECORD_LEAVE, table->id, key, ms_bytes(NULL, 0));
    ms_table_apply(table, &spot, key, ms_bytes(NULL, 0), 0, &nothing);
    e->store->applied = e->tail.head;
    if (e->table_policy[table->id].level >= MS_LEVEL_DISK) e->sync_wanted = true;
    e->counters.left++;
    ms_commit_count(e, 1);
    ms_view_add(&e->view, table, key, key_hash);
    return 0;
}

/* ---- another policy ---------------------------------------------------------------------------------------------------- */

/* Timers that run are not longer than the new numbers say; others begin with them. */
static void rearm(struct ms_engine *e)
{
    uint64_t now = ms_now(e);
    if (e->mark_at) e->mark_at = ms_sooner(e->mark_at, now + (uint64_t)e->policy.mark_every_ms * 1000);
    if (e->snapshot_at) e->snapshot_at = ms_sooner(e->snapshot_at, now + (uint64_t)e->policy.snapshot_every_ms * 1000);
    if (e->sync_at) e->sync_at = ms_sooner(e->sync_at, now + (uint64_t)e->policy.sync_every_ms * 1000);
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++)
        if (e->store->tables[id]) ms_flush_rearm(e, id, now);
    ms_engine_wake(e, now); /* a tick looks at all others: links, heartbeats, room */
}

struct ms_rules *ms_engine_set_rules(struct ms_engine *e, struct ms_rules *rules, const struct ms_policy *numbers)
{
    struct ms_rules *old = e->rules;
    struct ms_policy fresh = numbers ? *numbers : rules->policy;
    const char *kept[MS_POLICY_START_ONLY_MAX];
    (void)ms_policy_start_only(&e->policy, &fresh, kept);
    e->policy = fresh;
    e->rules = ms_rules_ref(rules);
    e->policy_hash = rules ? rules->hash : ms_policy_hash(&fresh);
    e->viewing = ms_rules_view(rules);
    ms_view_renew(&e->view, fresh.outside_max);
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) e->plans[id].plan_us = 0;
    ms_engine_refresh_tables(e);
    rearm(e);
    if (!fresh.enabled) ms_engine_switch_off(e);
    return old;
}
