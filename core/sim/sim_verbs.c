/* The verbs of directed scenarios, and looking inside. */
#include <stdio.h>

#include "../base/error.h"
#include "sim_world.h"

enum { SLICE_US = 1000 };

static struct ms_sim_node *running(struct ms_sim *sim, uint32_t node)
{
    return node < sim->options.nodes && sim->nodes[node]->has_engine ? sim->nodes[node] : NULL;
}

static int is_down(uint32_t node)
{
    return ms_fail(MS_E_CLOSED, "n%u is down", node);
}

/* An input was given: pump what it appended, check, and report a broken promise rather than its result. */
static int done(struct ms_sim_node *node, int rc)
{
    char why[200];
    (void)snprintf(why, sizeof why, "%s", rc < 0 ? ms_fail_message(rc) : "");
    ms_engine_pump(&node->engine);
    ms_sim_node_after(node);
    if (node->sim->failed) return ms_fail(node->sim->failed, "%s", node->sim->message);
    return rc < 0 ? ms_fail(rc, "%s", why) : rc;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

int ms_sim_start(struct ms_sim *sim, uint32_t node)
{
    if (node >= sim->options.nodes || sim->nodes[node]->up)
        return ms_fail(MS_E_INVALID, "n%u is up or does not exist", node);
    int rc = ms_sim_node_open(sim->nodes[node]);
    return sim->failed ? ms_fail(sim->failed, "%s", sim->message) : rc;
}

static int end(struct ms_sim *sim, uint32_t node, int kind)
{
    struct ms_sim_node *found = running(sim, node);
    if (!found) return is_down(node);
    ms_sim_node_end(found, kind);
    return sim->failed ? ms_fail(sim->failed, "%s", sim->message) : 0;
}

int ms_sim_stop(struct ms_sim *sim, uint32_t node)
{
    return end(sim, node, MS_SIM_STOP);
}

int ms_sim_kill(struct ms_sim *sim, uint32_t node)
{
    return end(sim, node, MS_SIM_KILL);
}

int ms_sim_power_loss(struct ms_sim *sim, uint32_t node)
{
    return end(sim, node, MS_SIM_POWER);
}

int ms_sim_wipe(struct ms_sim *sim, uint32_t index)
{
    if (index >= sim->options.nodes || sim->nodes[index]->up)
        return ms_fail(MS_E_INVALID, "n%u is up or does not exist", index);
    struct ms_sim_node *node = sim->nodes[index];
    int64_t countdown = ms_sim_hush();
    struct ms_sim_fs *fresh = ms_sim_fs_new(ms_sim_between(sim, 1, UINT64_MAX - 1));
    ms_sim_unhush(countdown);
    if (!fresh) return MS_E_MEMORY;
    ms_sim_fs_free(node->fs);
    node->fs = fresh;
    node->written = node->synced = (struct ms_sim_point){-1, 0};
    node->damaged_disk = 0;
    node->owed_count = 0;
    node->lost_power = node->has_led = false;
    node->dir.node_id = 0; /* it will be another node */
    node->switching.epoch = -2;
    sim->counts.wipes++;
    ms_sim_note(sim, index, "has an empty disk now");
    return 0;
}

/* ---- roles ----------------------------------------------------------------------------------------------------- */

static int lead(struct ms_sim *sim, uint32_t index, bool ask, int flags)
{
    struct ms_sim_node *node = running(sim, index);
    const char *peers[MS_SIM_NODES_MAX];
    size_t count = 0;
    if (!node) return is_down(index);
    MS_SIM_FOR_NODES(sim, other) if (other != node && ask) peers[count++] = other->address;
    bool leads = node->engine.role == MS_ROLE_LEADER;
    int rc = ms_engine_lead(&node->engine, peers, count, flags);
    if (!rc && !leads) ms_sim_host_compares(node, flags);
    return done(node, rc);
}

int ms_sim_lead(struct ms_sim *sim, uint32_t index, bool ask)
{
    struct ms_sim_node *node = running(sim, index);
    return lead(sim, index, ask, node ? ms_sim_host_flags(node) : 0);
}

int ms_sim_lead_comparing(struct ms_sim *sim, uint32_t index, bool ask)
{
    return lead(sim, index, ask, MS_PROMOTE_COMPARE);
}

int ms_sim_compared(struct ms_sim *sim, uint32_t index)
{
    struct ms_sim_node *node = running(sim, index);
    if (!node) return is_down(index);
    return done(node, ms_sim_host_compared(node));
}

int ms_sim_follow(struct ms_sim *sim, uint32_t index, uint32_t leader)
{
    struct ms_sim_node *node = running(sim, index);
    if (!node) return is_down(index);
    if (leader >= sim->options.nodes || leader == index) return ms_fail(MS_E_INVALID, "n%u can't follow n%u", index, leader);
    sim->counts.follows++;
    return done(node, ms_engine_follow(&node->engine, sim->nodes[leader]->address));
}

int ms_sim_promote_to(struct ms_sim *sim, uint32_t index, uint64_t least_reign)
{
    struct ms_sim_node *node = running(sim, index);
    if (!node) return is_down(index);
    int flags = ms_sim_host_flags(node);
    bool leads = node->engine.role == MS_ROLE_LEADER || node->engine.role == MS_ROLE_OPENING;
    int rc = ms_engine_promote(&node->engine, least_reign, flags);
    if (!rc && !leads) ms_sim_host_compares(node, flags);
    rc = done(node, rc);
    if (!rc) sim->counts.promotions++;
    return rc;
}

int ms_sim_promote(struct ms_sim *sim, uint32_t index)
{
    return ms_sim_promote_to(sim, index, 0);
}

int ms_sim_set_rules(struct ms_sim *sim, uint32_t index, struct ms_rules *rules)
{
    if (index >= sim->options.nodes) return ms_fail(MS_E_INVALID, "there is no n%u", index);
    struct ms_sim_node *node = sim->nodes[index];
    int rc = ms_sim_view_set(node, rules);
    return node->has_engine ? done(node, rc) : rc;
}

bool ms_sim_reviewing(const struct ms_sim *sim, uint32_t node)
{
    return node < sim->options.nodes && sim->nodes[node]->review != NULL;
}

int ms_sim_adopt(struct ms_sim *sim, uint32_t index)
{
    struct ms_sim_node *node = running(sim, index);
    if (!node) return is_down(index);
    int rc = ms_engine_adopt(&node->engine);
    if (!rc) {
        node->adopting = true;
        sim->counts.adopts++;
    }
    return done(node, rc);
}

/* ---- writing and reading --------------------------------------------------------------------------------------- */

int ms_sim_table(struct ms_sim *sim, const char *name, int type, uint32_t *table)
{
    *table = ms_sim_table_find(sim, ms_str(name));
    if (*table < MS_SIM_TABLES_MAX && sim->tables[*table].type == type) return 0;
    if (*table < MS_SIM_TABLES_MAX) return ms_fail(MS_E_TYPE, "table %s is known with the other value type", name);
    if (!sim->options.named) return ms_fail(MS_E_NOT_FOUND, "there is no table %s", name);
    if (sim->table_count == MS_SIM_TABLES_MAX) return ms_fail(MS_E_LIMIT, "table %s would be number %u", name, sim->table_count + 1);
    if (strlen(name) > MS_TABLE_NAME_MAX) return ms_fail(MS_E_INVALID, "a table's name has at most %d bytes", MS_TABLE_NAME_MAX);
    *table = sim->table_count++;
    (void)snprintf(sim->tables[*table].name, sizeof sim->tables[*table].name, "%s", name);
    sim->tables[*table].type = type;
    return 0;
}

int ms_sim_put(struct ms_sim *sim, uint32_t index, uint32_t table, struct ms_bytes key, struct ms_bytes value, uint64_t *lsn,
               int *level)
{
    struct ms_sim_node *node = running(sim, index);
    if (!node) return is_down(index);
    if (table >= sim->table_count) return ms_fail(MS_E_INVALID, "there is no table %u", table);
    return done(node, ms_sim_work_put(node, table, key, value, lsn, level));
}

int ms_sim_batch(struct ms_sim *sim, uint32_t index, const struct ms_sim_write *writes, size_t count, uint64_t *lsn,
                 int *level)
{
    struct ms_sim_node *node = running(sim, index);
    if (!node) return is_down(index);
    for (size_t i = 0; i < count; i++)
        if (writes[i].table >= sim->table_count) return ms_fail(MS_E_INVALID, "there is no table %u", writes[i].table);
    return done(node, ms_sim_work_batch(node, writes, count, lsn, level));
}

int ms_sim_flush(struct ms_sim *sim, uint32_t index)
{
    struct ms_sim_node *node = running(sim, index);
    if (!node) return is_down(index);
    return done(node, ms_engine_flush(&node->engine, NULL, UINT32_MAX));
}

struct ms_bytes ms_sim_get(struct ms_sim *sim, uint32_t index, uint32_t table, struct ms_bytes key)
{
    struct ms_sim_node *node = running(sim, index);
    const struct ms_table_state *state = node ? ms_store_find(&node->store, ms_str(ms_sim_table_name(sim, table))) : NULL;
    return state ? ms_table_get(state, key, ms_key_hash(key)) : ms_bytes(NULL, 0);
}

int ms_sim_spoil(struct ms_sim *sim, uint32_t index, uint32_t table, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_sim_node *node = running(sim, index);
    struct ms_table_state *state = node ? ms_store_find(&node->store, ms_str(ms_sim_table_name(sim, table))) : NULL;
    if (!state) return ms_fail(MS_E_NOT_FOUND, "n%u has no table %u", index, table);
    node->spoiled = true;
    return ms_table_fold(state, key, ms_key_hash(key), value);
}

int ms_sim_tampered(struct ms_sim *sim, uint32_t node)
{
    if (node >= sim->options.nodes || sim->nodes[node]->up)
        return ms_fail(MS_E_INVALID, "n%u is up or does not exist", node);
    sim->nodes[node]->damaged_disk = MS_SIM_DAMAGE_ANY;
    return 0;
}

/* ---- network --------------------------------------------------------------------------------------------------- */

struct ms_sim_wire *ms_sim_wire(struct ms_sim *sim, uint32_t a, uint32_t b)
{
    return a < b ? &sim->wires[a][b] : &sim->wires[b][a];
}

int ms_sim_cut(struct ms_sim *sim, uint32_t a, uint32_t b, int how)
{
    if (a == b || a >= sim->options.nodes || b >= sim->options.nodes)
        return ms_fail(MS_E_INVALID, "there is no wire from n%u to n%u", a, b);
    ms_sim_wire(sim, a, b)->cut = how;
    if (how == MS_SIM_WIRE_OK) return 0;
    sim->counts.partitions++;
    ms_sim_note(sim, a, "is cut off from n%u", b);
    ms_sim_net_cut(sim, a, b, how == MS_SIM_WIRE_SILENT);
    return 0;
}

int ms_sim_heal(struct ms_sim *sim, uint32_t a, uint32_t b)
{
    sim->counts.heals++;
    return ms_sim_cut(sim, a, b, MS_SIM_WIRE_OK);
}

/* ---- looking inside -------------------------------------------------------------------------------------------- */

bool ms_sim_up(const struct ms_sim *sim, uint32_t node)
{
    return node < sim->options.nodes && sim->nodes[node]->up;
}

const char *ms_sim_table_of(const struct ms_sim *sim, uint32_t table)
{
    return ms_sim_table_name(sim, table);
}

uint64_t ms_sim_real_time(void *sim)
{
    return MS_SIM_EPOCH_US + ((const struct ms_sim *)sim)->now;
}

int ms_sim_table_type(const struct ms_sim *sim, uint32_t table)
{
    return table < sim->table_count ? sim->tables[table].type : ms_fail(MS_E_NOT_FOUND, "there is no table %u", table);
}

uint64_t ms_sim_head(const struct ms_sim *sim, uint32_t node)
{
    return node < sim->options.nodes ? sim->nodes[node]->handed.lsn : 0;
}

int ms_sim_logged(const struct ms_sim *sim, uint32_t node, uint64_t lsn, struct ms_sim_logged *logged)
{
    if (lsn == 0 || lsn > ms_sim_head(sim, node)) return ms_fail(MS_E_NOT_FOUND, "n%u has no lsn %llu", node, (unsigned long long)lsn);
    const struct ms_sim_book *book = &sim->book;
    struct ms_sim_point place = ms_sim_book_before(sim, sim->nodes[node]->handed, lsn);
    const struct ms_sim_epoch *epoch = &book->epochs[place.epoch];
    const struct ms_sim_record *record = &epoch->records[lsn - epoch->first];
    if (record->type != MS_RECORD_PUT && record->type != MS_RECORD_DELETE && record->type != MS_RECORD_LEAVE) return 0;
    const struct ms_sim_group *group = ms_sim_book_around(sim, place);
    *logged = (struct ms_sim_logged){.at = group ? group->at : sim->now,
                                     .op = record->type == MS_RECORD_PUT      ? MS_OP_PUT
                                           : record->type == MS_RECORD_DELETE ? MS_OP_DELETE
                                                                              : MS_OP_LEAVE,
                                     .table = record->table,
                                     .key = book->keys[record->key].bytes,
                                     .value = record->type == MS_RECORD_PUT ? book->ops[record->value].value : ms_bytes(NULL, 0)};
    return 1;
}

struct ms_engine *ms_sim_engine(struct ms_sim *sim, uint32_t node)
{
    struct ms_sim_node *found = running(sim, node);
    return found ? &found->engine : NULL;
}

struct ms_sim_fs *ms_sim_fs_of(struct ms_sim *sim, uint32_t node)
{
    return node < sim->options.nodes ? sim->nodes[node]->fs : NULL;
}

int ms_sim_recovered(const struct ms_sim *sim, uint32_t node, struct ms_recovery *recovery)
{
    if (node >= sim->options.nodes) return ms_fail(MS_E_INVALID, "there is no n%u", node);
    if (recovery) *recovery = sim->nodes[node]->recovery;
    return sim->nodes[node]->recovered;
}

struct comparison {
    const struct ms_table_state *other;
    uint64_t entries;
};

static int same_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct comparison *comparison = context;
    comparison->entries++;
    return !ms_bytes_equal(ms_table_get(comparison->other, key, ms_key_hash(key)), value);
}

bool ms_sim_equal(struct ms_sim *sim, uint32_t a, uint32_t b)
{
    struct ms_sim_node *x = running(sim, a), *y = running(sim, b);
    if (!x || !y || x->store.applied != y->store.applied) return false;
    if (ms_lineage_last(&x->store.lineage).id != ms_lineage_last(&y->store.lineage).id) return false;
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        const struct ms_table_state *mine = x->store.tables[id], *theirs = y->store.tables[id];
        if (!mine != !theirs) return false;
        if (!mine) continue;
        struct comparison comparison = {.other = theirs};
        for (uint32_t shard = 0; shard < MS_TABLE_SHARDS; shard++)
            if (mine->content->shards[shard].entries && ms_table_visit(mine, shard, false, same_entry, &comparison))
                return false;
        if (comparison.entries != theirs->content->live) return false;
    }
    return true;
}

/* ---- until ----------------------------------------------------------------------------------------------------- */

/* Why this node is not yet like its leader; NULL = it is. */
static const char *unsettled(struct ms_sim_node *node, struct ms_sim_node *leader)
{
    const struct ms_engine *e = &node->engine, *l = &leader->engine;
    if (!node->has_engine) return "is down";
    if (node == leader && e->role != MS_ROLE_LEADER) return "does not lead";
    if (node->wait_count) return "has unanswered promises";
    if (node->dirty) return "has unflushed buffers";
    if (e->tail.head != e->synced) return "has unsynced records";
    if (e->extras.pending) return "has extras that are not decided";
    if (node == leader) return NULL;
    if (e->role != MS_ROLE_FOLLOWER || e->follow.state != MS_FOLLOW_STREAM) return "does not stream";
    if (node->store.applied != l->tail.head) return "is behind";
    if (ms_lineage_last(&node->store.lineage).id != ms_lineage_last(&leader->store.lineage).id) return "is of another epoch";
    return NULL;
}

/* Lines up all nodes' reasons in `why`; true if there are none. down_too: nodes that are down count. */
static bool settled(struct ms_sim *sim, uint32_t leader, bool down_too, char *why, size_t size)
{
    bool all = true;
    size_t at = 0;
    why[0] = '\0';
    MS_SIM_FOR_NODES(sim, node)
    {
        if (!node->up && !down_too) continue;
        const char *reason = unsettled(node, sim->nodes[leader]);
        if (!reason) continue;
        all = false;
        if (at < size) at += (size_t)snprintf(why + at, size - at, "%sn%u %s", at ? ", " : "", node->index, reason);
    }
    return all;
}

/* Into the trace: what everybody is at. */
static void note_states(struct ms_sim *sim)
{
    MS_SIM_FOR_NODES(sim, node)
    {
        const struct ms_engine *e = &node->engine;
        ms_sim_note(
            sim, node->index,
            "%s %s, follow %d of %s, result %d; head %llu submitted %llu written %llu synced %llu applied %llu host %llu",
            node->up ? "up" : "down", ms_role_name(e->role), e->follow.state, e->follow.address, e->result,
            (unsigned long long)e->tail.head, (unsigned long long)e->submitted, (unsigned long long)e->written,
            (unsigned long long)e->synced, (unsigned long long)node->store.applied, (unsigned long long)e->host_applied);
        ms_sim_note(sim, node->index,
                    "room_end %llu bytes %llu error %d; reserving %d syncing %d wanted %d; log_error %d; %s",
                    (unsigned long long)e->room_end, (unsigned long long)e->tail.bytes, e->room_error, e->reserving,
                    e->syncing, e->sync_wanted, e->log_error, e->reason);
    }
}

static int compare_all(struct ms_sim *sim, uint32_t leader)
{
    MS_SIM_FOR_NODES(sim, node)
    {
        if (!node->has_engine) continue;
        ms_sim_check_tables(node);
        ms_sim_extras_check(node);
        if (!sim->failed && !ms_sim_equal(sim, leader, node->index))
            ms_sim_broken(sim, node->index, "is at its leader's position, but not equal");
    }
    return sim->failed ? ms_fail(sim->failed, "%s", sim->message) : 0;
}

int ms_sim_settle(struct ms_sim *sim, uint32_t leader, uint64_t us)
{
    char why[200];
    uint64_t end_at = sim->now + us;
    while (!settled(sim, leader, false, why, sizeof why)) {
        if (sim->now >= end_at) {
            note_states(sim);
            return ms_fail(MS_E_TIMEOUT, "%s", why);
        }
        int rc = ms_sim_run(sim, SLICE_US);
        if (rc) return rc;
    }
    return compare_all(sim, leader);
}

int ms_sim_calm(struct ms_sim *sim, uint64_t us)
{
    char why[200] = "nobody leads";
    uint64_t end_at = sim->now + us;
    ms_sim_chaos_calm(sim);
    while (sim->leader < 0 || !settled(sim, (uint32_t)sim->leader, true, why, sizeof why)) {
        if (sim->now >= end_at) note_states(sim);
        if (sim->now >= end_at)
            ms_sim_broken(sim, MS_SIM_NODES_MAX, "does not settle within %llu ms: %s", (unsigned long long)us / 1000, why);
        int rc = ms_sim_run(sim, SLICE_US);
        if (rc) return rc;
    }
    return compare_all(sim, (uint32_t)sim->leader);
}
