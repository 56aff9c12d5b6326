/* The node's state as JSON; docs/status.md explains each field to operators. */
#include <jansson.h>
#include <stdio.h>

#include "inside.h"

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *hex(uint64_t n)
{
    char text[20];
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)n);
    return json_string(text);
}

static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value); /* NULL (no memory) leaves the field out; the text is checked at the end */
}

static json_t *epoch(struct ms_epoch epoch)
{
    return json_pack("{s:o,s:o,s:o}", "reign", number(epoch.reign), "run", number(epoch.run), "id", hex(epoch.id));
}

static const char *follow_state_name(const struct ms_engine *e)
{
    static const char *const names[] = {"off", "waiting", "connecting", "archiving", "snapshot", "switching", "stream", "leader_has_less_history"};
    int state = e->follow.state;
    if (state == MS_FOLLOW_CONNECT && e->follow.held) return "leader_compares";
    return state >= 0 && state <= MS_FOLLOW_REFUSED ? names[state] : "unknown";
}

/* What is left out of the view, since these rules decide. */
static json_t *view(const struct ms_engine *e)
{
    json_t *object = json_object();
    set(object, "outside", number(e->view.entries));
    set(object, "outside_bytes", number(e->view.bytes));
    set(object, "out_by_pattern", number(e->rules ? __atomic_load_n(&e->rules->out_by_pattern, __ATOMIC_RELAXED) : 0));
    set(object, "out_by_filter", number(e->rules ? __atomic_load_n(&e->rules->out_by_filter, __ATOMIC_RELAXED) : 0));
    return object;
}

static void buffer_state(json_t *object, const struct ms_engine *e, const struct ms_table_state *table)
{
    uint64_t oldest = ms_flush_oldest(e, table), now = e->io->ops->now(e->io);
    set(object, "buffer_ms", number(e->table_policy[table->id].interval_ms));
    set(object, "planned_us", number(e->plans[table->id].plan_us));
    set(object, "at_risk_entries", number(ms_buffer_entries(table)));
    set(object, "at_risk_bytes", number(ms_buffer_bytes(table)));
    set(object, "at_risk_us", number(oldest && now > oldest ? now - oldest : 0));
    set(object, "flush_us", number(e->plans[table->id].took_us));
}

static json_t *tables(const struct ms_engine *e)
{
    json_t *list = json_array();
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        const struct ms_table_state *table = e->store->tables[id];
        if (!table) continue;
        const struct ms_table_policy *policy = &e->table_policy[id];
        json_t *object = json_object();
        set(object, "name", json_string(table->name));
        set(object, "type", json_string(table->type == MS_TYPE_INT64 ? "int64" : "bytes"));
        set(object, "entries", number(table->content->live));
        set(object, "bytes", number(table->content->bytes));
        set(object, "logged_entries", number(table->content->count));
        set(object, "digest", hex(table->content->digest));
        set(object, "resolver", json_string(ms_resolver_name(policy->resolver ? policy->resolver : e->policy.resolver)));
        if (policy->interval_ms) buffer_state(object, e, table);
        else set(object, "level", json_string(ms_level_name(policy->level)));
        (void)json_array_append_new(list, object);
    }
    return list;
}

static json_t *peers(const struct ms_engine *e)
{
    json_t *list = json_array();
    for (struct ms_list *at = e->peers.next; at != &e->peers; at = at->next) {
        const struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        if (!peer->greeted) continue;
        json_t *object = json_object();
        set(object, "name", json_string(peer->name));
        set(object, "node", hex(peer->node_id));
        set(object, "address", json_string(peer->address));
        set(object, "state", json_string(ms_peer_state_name(peer->state)));
        set(object, "in_sync", json_boolean(peer->in_sync));
        set(object, "next", number(peer->next));
        set(object, "durable", number(peer->durable));
        set(object, "applied", number(peer->applied));
        set(object, "host_applied", number(peer->host_applied));
        set(object, "lag", number(peer->state == MS_PEER_STREAM && e->tail.head > peer->applied ? e->tail.head - peer->applied : 0));
        set(object, "snapshot_offset", number(peer->state == MS_PEER_SNAPSHOT ? peer->offset : 0));
        set(object, "unsent", number(peer->unsent));
        set(object, "sent_bytes", number(peer->sent_bytes));
        (void)json_array_append_new(list, object);
    }
    return list;
}

/* Of this node as leader: extras of its followers and of its own, and what its host had at the start. */
static json_t *conflicts(const struct ms_counters *c)
{
    json_t *object = json_object();
    for (int i = MS_OUTCOME_THEIRS; i <= MS_OUTCOME_DELETE; i++) set(object, ms_outcome_name(i), number(c->conflicts[i]));
    set(object, "equal", number(c->conflicts_equal));
    set(object, "unresolved", number(c->conflicts_unresolved));
    return object;
}

static json_t *counters(const struct ms_counters *c)
{
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {
        {"groups_sent", c->groups_sent},
        {"bytes_sent", c->bytes_sent},
        {"groups_applied", c->groups_applied},
        {"snapshots_made", c->snapshots_made},
        {"snapshots_failed", c->snapshots_failed},
        {"snapshots_sent", c->snapshots_sent},
        {"bootstraps", c->bootstraps},
        {"bootstraps_failed", c->bootstraps_failed},
        {"bootstraps_resumed", c->bootstraps_resumed},
        {"resumes", c->resumes},
        {"marks_failed", c->marks_failed},
        {"stepdowns", c->stepdowns},
        {"log_failures", c->log_failures},
        {"no_space", c->no_space},
        {"connects", c->reconnects},
        {"unknown_frames", c->unknown_frames},
        {"unknown_fields", c->unknown_fields},
        {"archived", c->archived},
        {"host_failures", c->host_failures},
        {"flushes", c->flushes},
        {"coalesced", c->coalesced},
        {"links_refused", c->links_refused},
        {"held", c->held},
        {"link_timeouts", c->link_timeouts},
        {"at_risk_lost", c->at_risk_lost},
        {"extras_sent", c->extras_sent},
        {"extras_resent", c->extras_resent},
        {"extras_answered", c->extras_answered},
        {"extras_unresolved", c->extras_unresolved},
        {"at_risk_exceeded", c->at_risk_exceeded},
        {"outside", c->outside},
        {"left", c->left},
    };
    json_t *object = json_object();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) set(object, all[i].name, number(all[i].value));
    json_t *verdicts = json_object();
    for (int kind = MS_VERDICT_CONTINUE; kind <= MS_VERDICT_OTHER; kind++) set(verdicts, ms_verdict_name(kind), number(c->verdicts[kind]));
    set(object, "verdicts", verdicts);
    set(object, "conflicts", conflicts(c));
    return object;
}

static json_t *following(const struct ms_engine *e)
{
    if (e->role != MS_ROLE_FOLLOWER) return json_null();
    uint64_t applied = e->store->applied, head = e->follow.leader_head;
    json_t *object = json_object();
    set(object, "leader", json_string(e->follow.address));
    set(object, "state", json_string(follow_state_name(e)));
    set(object, "leader_head", number(head));
    set(object, "lag", number(head > applied ? head - applied : 0));
    set(object, "in_sync", json_boolean(e->follow.in_sync));
    set(object, "paused", json_boolean(e->follow.paused));
    set(object, "bootstrap_attempts", number(e->follow.attempts));
    set(object, "snapshot_offset", number(e->follow.stage_offset));
    set(object, "verdict", json_string(ms_verdict_name(e->follow.verdict.kind)));
    return object;
}

/* A follower may take over without loss when it streams, is counted in sync, has applied all it knows of, and its host too. */
static bool safe_to_failover(const struct ms_engine *e)
{
    bool host = !e->has_host || e->host_applied >= e->store->applied;
    return e->role == MS_ROLE_FOLLOWER && ms_engine_promotable(e, NULL) && e->follow.state == MS_FOLLOW_STREAM && e->follow.in_sync &&
           e->store->applied >= e->follow.leader_head && host;
}

static json_t *log_state(const struct ms_engine *e)
{
    json_t *object = json_object();
    set(object, "first", number(e->log_first));
    set(object, "head", number(e->tail.head));
    set(object, "written", number(e->written));
    set(object, "synced", number(e->synced));
    set(object, "replicated", number(e->replicated));
    set(object, "room_bytes", number(e->room_end > e->tail.bytes ? e->room_end - e->tail.bytes : 0));
    set(object, "no_space", json_boolean(e->room_error != 0));
    set(object, "failed", json_boolean(e->log_error != 0));
    set(object, "on_failure", json_string(e->policy.on_log_failure == MS_ON_LOG_FAILURE_PASS ? "pass" : "refuse"));
    set(object, "appended_bytes", number(e->tail.bytes));
    set(object, "snapshot_end", number(e->snapshot_end));
    set(object, "snapshot_bytes", number(e->snapshot_bytes));
    set(object, "snapshotting", json_boolean(e->snapshotting));
    return object;
}

int ms_engine_status(const struct ms_engine *e, char **text)
{
    const char *why_not;
    json_t *status = json_object();
    set(status, "cluster", json_string(e->cluster));
    set(status, "name", json_string(e->name));
    set(status, "node", hex(e->node_id));
    set(status, "role", json_string(ms_role_name(e->role)));
    set(status, "reason", json_string(e->reason));
    set(status, "comparing", json_boolean(e->role == MS_ROLE_LEADER && e->comparing));
    set(status, "epoch", epoch(ms_lineage_last(&e->store->lineage)));
    set(status, "epochs", number(e->store->lineage.count));
    set(status, "applied", number(e->store->applied));
    set(status, "host_applied", number(e->has_host && e->role == MS_ROLE_FOLLOWER ? e->host_applied : e->store->applied));
    set(status, "log", log_state(e));
    set(status, "promotable", json_boolean(ms_engine_promotable(e, &why_not)));
    set(status, "not_promotable_because", json_string(why_not));
    set(status, "safe_to_failover", json_boolean(safe_to_failover(e)));
    set(status, "damaged", json_boolean(e->damaged));
    set(status, "marks_checked", number(e->store->marks_checked));
    set(status, "skipped_records", number(e->store->skipped));
    set(status, "alarms", number(e->alarms));
    set(status, "alarm", json_string(e->alarm));
    set(status, "extras_pending", number(e->extras.pending));
    set(status, "loss_report", json_string(e->extras.report));
    set(status, "following", following(e));
    set(status, "peers", peers(e));
    set(status, "tables", tables(e));
    set(status, "policy_hash", hex(e->policy_hash));
    set(status, "policy_name", json_string(e->rules ? e->rules->name : "built-in"));
    set(status, "view", view(e));
    set(status, "counters", counters(&e->counters));
    *text = status ? json_dumps(status, JSON_COMPACT) : NULL;
    json_decref(status);
    return *text ? 0 : ms_fail(MS_E_MEMORY, "out of memory for the status");
}
