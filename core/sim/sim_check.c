/* The promises, checked. After every input of an engine its node is compared with the book: cheaply (positions, one
 * digest for each table), and byte for byte at each mark, each start, each switch of tables and now and then. */
#include "../base/error.h"
#include "sim_world.h"

enum { FULL_COMPARE_STEPS = 300, ETERNAL_SAMPLES = 2 };

void ms_sim_check_forget(struct ms_sim_node *node)
{
    node->last = (struct ms_sim_point){-1, 0};
    node->last_content = node->last_written = node->last_synced = node->last_marks = node->checked_at = 0;
    node->last_lineage = 0;
    node->last_role = MS_ROLE_IDLE;
    memset(&node->last_counters, 0, sizeof node->last_counters);
    node->dirty = node->last_at_risk_lost = node->text_archives = node->last_text_archives = 0;
    node->spoiled = node->adopting = node->owes_bootstrap = false;
}

struct ms_sim_point ms_sim_node_place(const struct ms_sim_node *node)
{
    return ms_sim_book_place(node->sim, &node->store.lineage, node->store.applied);
}

/* ---- byte for byte --------------------------------------------------------------------------------------------- */

struct comparison {
    struct ms_sim_node *node;
    const struct ms_sim_fold *fold;
    uint32_t table;
    uint64_t entries;
};

static int compare_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct comparison *comparison = context;
    struct ms_sim_node *node = comparison->node;
    const struct ms_sim_book *book = &node->sim->book;
    uint32_t known = ms_sim_book_find_key(node->sim, comparison->table, key);
    uint32_t op = known == UINT32_MAX ? 0 : ms_sim_fold_get(comparison->fold, known);
    comparison->entries++;
    if (op && ms_bytes_equal(book->ops[op].value, value)) return 0;
    ms_sim_broken(node->sim, node->index, "table %s, key %.*s at lsn %llu: %s", ms_sim_table_name(node->sim, comparison->table),
                  (int)key.size, (const char *)key.data, (unsigned long long)node->last.lsn,
                  op ? "another value" : "there should be none");
    return 1;
}

static void compare_table(struct comparison *comparison, const struct ms_table_state *table)
{
    struct ms_sim_node *node = comparison->node;
    comparison->table = ms_sim_table_find(node->sim, ms_str(table->name));
    if (comparison->table == MS_SIM_TABLES_MAX) {
        ms_sim_broken(node->sim, node->index, "there is a table %s that nobody made", table->name);
        return;
    }
    comparison->entries = 0;
    for (uint32_t shard = 0; shard < MS_TABLE_SHARDS; shard++)
        if (table->content->shards[shard].entries && ms_table_visit(table, shard, true, compare_entry, comparison)) return;
    uint64_t expected = comparison->fold->sums.count[comparison->table];
    if (comparison->entries != expected)
        ms_sim_broken(node->sim, node->index, "table %s at lsn %llu has %llu entries instead of %llu", table->name,
                      (unsigned long long)node->last.lsn, (unsigned long long)comparison->entries,
                      (unsigned long long)expected);
    if (ms_table_verify(table)) ms_sim_broken(node->sim, node->index, "%s", ms_error_message());
}

void ms_sim_check_tables(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    if (node->spoiled || !ms_sim_fold_to(sim, &sim->book.scratch, node->last)) return;
    struct comparison comparison = {.node = node, .fold = &sim->book.scratch};
    sim->counts.full_compares++;
    for (uint32_t id = 1; id < MS_TABLES_MAX && !sim->failed; id++)
        if (node->store.tables[id]) compare_table(&comparison, node->store.tables[id]);
}

/* ---- after recovery -------------------------------------------------------------------------------------------- */

static void check_refused(struct ms_sim_node *node)
{
    if (!node->damaged_disk && !node->read_errors)
        ms_sim_broken(node->sim, node->index, "recovery refuses a disk that nobody has damaged: %s",
                      ms_fail_message(node->recovered));
    node->sim->counts.recoveries_refused++;
    node->switching.epoch = -2;
    node->last = node->handed = node->written = node->synced = (struct ms_sim_point){-1, 0};
}

void ms_sim_check_opened(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    if (node->recovery.truncated) sim->counts.torn_tails++;
    if (node->recovery.bad_snapshots && !node->recovered) sim->counts.snapshot_fallbacks++;
    if (node->recovered) {
        check_refused(node);
        return;
    }
    struct ms_sim_point place = ms_sim_node_place(node), floor = node->lost_power ? node->synced : node->written;
    unsigned long long lsn = place.lsn;
    if (place.lsn && !ms_sim_book_group(sim, place))
        ms_sim_broken(sim, node->index, "recovered up to lsn %llu, which no history ends a group with", lsn);
    else if (node->damaged_disk == MS_SIM_DAMAGE_ANY)
        node->damaged_disk = 0;
    else if (!ms_sim_book_includes(sim, place, floor) &&
             !(node->switching.epoch == place.epoch && node->switching.lsn == place.lsn))
        ms_sim_broken(sim, node->index, "recovered up to lsn %llu, but %llu was %s", lsn, (unsigned long long)floor.lsn,
                      node->lost_power ? "synced" : "written");
    node->last = node->handed = node->written = node->synced = place;
    sim->counts.extras_pending += node->engine.extras.pending > 0;
    node->lost_power = false;
    node->switching.epoch = -2;
    node->last_written = node->last_synced = place.lsn;
    node->last_lineage = node->store.lineage.count;
    node->last_marks = node->store.marks_checked;
    ms_sim_book_recovered(sim, place);
    if (!sim->failed) ms_sim_check_tables(node);
}

/* ---- positions ------------------------------------------------------------------------------------------------- */

static void check_positions(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    const struct ms_engine *e = &node->engine;
    bool leads = e->role == MS_ROLE_LEADER;
    if (leads && e->replicated > e->synced) ms_sim_broken(sim, node->index, "replicated > synced");
    if (e->synced > e->written) ms_sim_broken(sim, node->index, "synced > written");
    if (e->written > e->submitted || e->submitted > e->tail.head)
        ms_sim_broken(sim, node->index, "written > submitted or submitted > head");
    if (leads && node->store.applied != e->tail.head)
        ms_sim_broken(sim, node->index, "a leader's tables are not at its head");
    if (!leads && node->store.applied > e->tail.head) ms_sim_broken(sim, node->index, "the tables are ahead of the log");
    if (node->log && !e->log_error && e->written > ms_log_written(node->log))
        ms_sim_broken(sim, node->index, "claims to have written more than it has");
    if (node->log && e->synced > ms_log_synced(node->log))
        ms_sim_broken(sim, node->index, "claims to have synced more than it has");
    if (e->written < node->last_written || e->synced < node->last_synced)
        ms_sim_broken(sim, node->index, "written or synced went back");
    node->last_written = e->written;
    node->last_synced = e->synced;
    node->written = ms_sim_book_before(sim, node->handed, e->written);
    node->synced = ms_sim_book_before(sim, node->handed, e->synced);
}

/* ---- lineage and tables ---------------------------------------------------------------------------------------- */

static void check_lineage(struct ms_sim_node *node)
{
    const struct ms_sim *sim = node->sim;
    const struct ms_lineage *lineage = &node->store.lineage;
    int32_t parent = -1;
    for (uint32_t i = 0; i < lineage->count; i++) {
        int32_t epoch = ms_sim_book_epoch(sim, lineage->entries[i].epoch.id);
        if (epoch < 0 && i + 1 == lineage->count && node->engine.role == MS_ROLE_OPENING)
            return; /* not handed to the log yet */
        if (epoch < 0 || sim->book.epochs[epoch].parent != parent ||
            sim->book.epochs[epoch].first != lineage->entries[i].first ||
            ms_epoch_compare(sim->book.epochs[epoch].epoch, lineage->entries[i].epoch) != 0) {
            ms_sim_broken(node->sim, node->index, "its lineage is none that ever was, at entry %u of %u", i, lineage->count);
            return;
        }
        parent = epoch;
    }
}

static void check_sums(struct ms_sim_node *node, const struct ms_sim_group *group)
{
    struct ms_sim *sim = node->sim;
    for (uint32_t id = 1; id < MS_TABLES_MAX; id++) {
        const struct ms_table_state *table = node->store.tables[id];
        if (!table) {
            if (id > sim->table_count) break; /* ids are given out in order */
            continue;
        }
        uint32_t i = ms_sim_table_find(sim, ms_str(table->name));
        if (i == MS_SIM_TABLES_MAX) i = 0; /* compare_table says so */
        if (table->content->count != group->sums.count[i] || table->content->digest != group->sums.digest[i])
            ms_sim_broken(sim, node->index, "table %s at lsn %llu: %llu entries, digest %016llx; the book has %llu, %016llx",
                          table->name, (unsigned long long)node->last.lsn, (unsigned long long)table->content->count,
                          (unsigned long long)table->content->digest, (unsigned long long)group->sums.count[i],
                          (unsigned long long)group->sums.digest[i]);
    }
}

/* What its leader has, if that went through this place; else the place itself. */
static struct ms_sim_point whole_history(struct ms_sim_node *node, struct ms_sim_point place)
{
    MS_SIM_FOR_NODES(node->sim, other)
    {
        if (other->dir.node_id != node->engine.follow.leader_node) continue;
        if (ms_sim_book_includes(node->sim, other->handed, place)) return other->handed;
    }
    return place;
}

/* Whether the history that goes through this place comes to an epoch that is higher than the given one. */
static bool goes_higher(const struct ms_sim *sim, struct ms_sim_point place, struct ms_epoch epoch)
{
    for (uint32_t i = 0; i < sim->book.epoch_count; i++) {
        const struct ms_sim_epoch *other = &sim->book.epochs[i];
        struct ms_sim_point end = {(int32_t)i, other->last};
        if (ms_epoch_compare(other->epoch, epoch) > 0 && ms_sim_book_includes(sim, end, place)) return true;
    }
    return false;
}

/* The tables were replaced by a snapshot's: which history was given up for which, and was it allowed? */
static void check_replaced(struct ms_sim_node *node, struct ms_sim_point now)
{
    struct ms_sim *sim = node->sim;
    const struct ms_sim_epoch *epochs = sim->book.epochs;
    struct ms_sim_point before = node->handed;
    sim->counts.bootstraps++;
    if (now.epoch < 0) {
        ms_sim_broken(sim, node->index, "was given tables of a history that never was");
        return;
    }
    struct ms_sim_point theirs = whole_history(node, now);
    uint64_t common = ms_sim_book_common(sim, before, theirs);
    uint64_t read = ms_sim_book_common(sim, node->last, theirs);
    if (now.lsn < read)
        ms_sim_broken(sim, node->index, "was given older tables of its own history: lsn %llu, of %llu in common",
                      (unsigned long long)now.lsn, (unsigned long long)read);
    if (common < before.lsn) {
        if (!node->adopting && !(common > 0 && goes_higher(sim, theirs, epochs[before.epoch].epoch)))
            ms_sim_broken(sim, node->index, "gave up its own history for another one without being allowed to");
        if (node->jobs.archived_from > common + 1)
            ms_sim_broken(sim, node->index, "gave up the records from %llu on without archiving them",
                          (unsigned long long)common + 1);
        sim->counts.lost_leader_records += epochs[before.epoch].owner == node->index;
        ms_sim_extras_given_up(node, before, common);
    }
    node->jobs.archived_from = UINT64_MAX;
    node->handed = now;
    node->last_written = node->last_synced = 0;
    node->adopting = node->spoiled = node->owes_bootstrap = false;
    node->damaged_disk = 0;
    node->accepted_from = node->accepted_count;
}

static void check_place(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    const struct ms_engine *e = &node->engine;
    bool replaced = e->content_version != node->last_content;
    bool appended = e->tail.head > e->submitted; /* the book does not know the newest yet */
    if (!replaced && node->store.applied == node->last.lsn && node->store.lineage.count == node->last_lineage) return;
    if (!replaced && (e->damaged || e->halfway)) return; /* a group could not be folded as a whole: that is known and told */
    if (replaced || node->store.lineage.count != node->last_lineage) check_lineage(node);
    struct ms_sim_point place = ms_sim_node_place(node);
    if (appended && !replaced && !ms_sim_book_group(sim, place)) return;
    if (replaced)
        check_replaced(node, place);
    else if (!ms_sim_book_includes(sim, place, node->last))
        ms_sim_broken(sim, node->index, "its tables went from lsn %llu back to %llu", (unsigned long long)node->last.lsn,
                      (unsigned long long)place.lsn);
    const struct ms_sim_group *group = ms_sim_book_group(sim, place);
    node->last = place;
    node->last_content = e->content_version;
    node->last_lineage = node->store.lineage.count;
    if (!group)
        ms_sim_broken(sim, node->index, "its tables are at lsn %llu, which no history ends a group with",
                      (unsigned long long)place.lsn);
    else if (!node->spoiled)
        check_sums(node, group);
    if (replaced && !sim->failed) ms_sim_check_tables(node);
}

/* Readers never see an entry vanish that exists before and after. */
static void check_eternal(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    if (!sim->eternal_count || node->spoiled) return;
    for (uint32_t i = 0; i < ETERNAL_SAMPLES; i++) {
        const struct ms_sim_key *key = &sim->book.keys[sim->eternals[ms_sim_below(&sim->dice, sim->eternal_count)]];
        if (key->eternal_at.epoch < 0 || !ms_sim_book_includes(sim, node->last, key->eternal_at)) continue;
        const struct ms_table_state *table = ms_store_find(&node->store, ms_str(ms_sim_table_name(sim, key->table)));
        struct ms_bytes value = table ? ms_table_get(table, key->bytes, key->hash) : ms_bytes(NULL, 0);
        if (!ms_bytes_equal(value, sim->book.ops[key->eternal].value))
            ms_sim_broken(sim, node->index, "readers miss %.*s, which was there before", (int)key->bytes.size,
                          (const char *)key->bytes.data);
    }
}

/* ---- roles, buffers -------------------------------------------------------------------------------------------- */

/* What the policy says may be unlogged at most. A log that takes nothing is the one excuse, and it is counted; a reload has its time. */
static void check_at_risk(struct ms_sim_node *node)
{
    const struct ms_engine *e = &node->engine;
    bool within = true;
    for (uint32_t id = 1; id < MS_TABLES_MAX && node->store.tables[id]; id++) {
        const struct ms_table_state *table = node->store.tables[id];
        const struct ms_table_policy *policy = &e->table_policy[id];
        uint64_t entries = ms_buffer_entries(table), bytes = ms_buffer_bytes(table);
        bool over = (policy->at_risk_entries && entries > policy->at_risk_entries) || (policy->at_risk_bytes && bytes > policy->at_risk_bytes);
        if (!over || e->plans[id].leaving) continue; /* it is about to be unbuffered: these are the numbers of before */
        within = false;
        if (e->counters.at_risk_exceeded == node->last_counters.at_risk_exceeded && !node->exceeding && !node->reloaded)
            ms_sim_broken(node->sim, node->index, "table %s: %llu entries, %llu bytes are at risk", table->name, (unsigned long long)entries,
                          (unsigned long long)bytes);
    }
    node->exceeding = !within;
    if (within) node->reloaded = false;
}

static void check_role(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    const struct ms_engine *e = &node->engine;
    if (e->role != node->last_role && node->last_role == MS_ROLE_LEADER) {
        sim->counts.stepdowns++;
        if (node->dirty) {
            sim->counts.dirty_stepdowns++;
            uint64_t reported = e->counters.at_risk_lost - node->last_at_risk_lost;
            if (reported != node->dirty || (node->text_archives == node->last_text_archives && !sim->starving))
                ms_sim_broken(sim, node->index, "stepped down with %llu buffered changes, and reported %llu",
                              (unsigned long long)node->dirty, (unsigned long long)reported);
        }
    }
    if (e->role != node->last_role && e->role == MS_ROLE_LEADER) {
        sim->counts.leads++;
        node->has_led = true;
        MS_SIM_FOR_NODES(sim, other)
        if (other != node && other->has_engine && other->engine.role == MS_ROLE_LEADER) sim->counts.split_brains++;
    }
    if (e->role == MS_ROLE_FOLLOWER && e->follow.state == MS_FOLLOW_SNAPSHOT) node->owes_bootstrap = true;
    if (e->role == MS_ROLE_FOLLOWER && e->follow.state == MS_FOLLOW_STREAM) node->owes_bootstrap = false;
    if (e->role == MS_ROLE_LEADER && node->owes_bootstrap)
        ms_sim_broken(sim, node->index, "leads although its bootstrap was not finished");
    node->last_role = e->role;
    node->last_at_risk_lost = e->counters.at_risk_lost;
    node->last_text_archives = node->text_archives;
    node->dirty = 0;
    for (uint32_t id = 1; id < MS_TABLES_MAX && node->store.tables[id]; id++)
        node->dirty += ms_buffer_entries(node->store.tables[id]);
    if (e->role != MS_ROLE_LEADER && node->dirty) ms_sim_broken(sim, node->index, "does not lead, but buffers changes");
}

static void count_events(struct ms_sim_node *node)
{
    struct ms_sim_counts *counts = &node->sim->counts;
    const struct ms_counters *now = &node->engine.counters, *last = &node->last_counters;
    if (memcmp(now, last, sizeof *now) == 0) return;
    counts->resumes += now->resumes - last->resumes;
    counts->bootstraps_interrupted += now->bootstraps_failed - last->bootstraps_failed;
    counts->bootstraps_resumed += now->bootstraps_resumed - last->bootstraps_resumed;
    counts->log_failures += now->log_failures - last->log_failures;
    counts->link_timeouts += now->link_timeouts - last->link_timeouts;
    counts->held += now->held - last->held;
    counts->flushes += now->flushes - last->flushes;
    counts->coalesced += now->coalesced - last->coalesced;
    counts->extras_sent += now->extras_sent - last->extras_sent;
    counts->extras_resent += now->extras_resent - last->extras_resent;
    counts->extras_answered += now->extras_answered - last->extras_answered;
    counts->extras_unresolved += now->extras_unresolved - last->extras_unresolved;
    counts->conflicts_theirs += now->conflicts[MS_OUTCOME_THEIRS] - last->conflicts[MS_OUTCOME_THEIRS];
    counts->conflicts_mine += now->conflicts[MS_OUTCOME_MINE] - last->conflicts[MS_OUTCOME_MINE];
    counts->conflicts_equal += now->conflicts_equal - last->conflicts_equal;
    counts->verdict_continue += now->verdicts[MS_VERDICT_CONTINUE] - last->verdicts[MS_VERDICT_CONTINUE];
    counts->verdict_empty += now->verdicts[MS_VERDICT_EMPTY] - last->verdicts[MS_VERDICT_EMPTY];
    counts->verdict_trimmed += now->verdicts[MS_VERDICT_TRIMMED] - last->verdicts[MS_VERDICT_TRIMMED];
    counts->verdict_ahead += now->verdicts[MS_VERDICT_AHEAD] - last->verdicts[MS_VERDICT_AHEAD];
    counts->verdict_diverged += now->verdicts[MS_VERDICT_DIVERGED] - last->verdicts[MS_VERDICT_DIVERGED];
    counts->verdict_other += now->verdicts[MS_VERDICT_OTHER] - last->verdicts[MS_VERDICT_OTHER];
    if (now->marks_failed > last->marks_failed && !node->spoiled)
        ms_sim_broken(node->sim, node->index, "a mark did not fit, although nobody has touched its memory: %s",
                      node->engine.alarm);
    node->last_counters = *now;
}

void ms_sim_check_input(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    check_at_risk(node);
    count_events(node);
    check_place(node);
    check_positions(node);
    check_role(node);
    check_eternal(node);
    ms_sim_host_check(node);
    if (node->last_marks != node->store.marks_checked) {
        sim->counts.marks_compared += node->store.marks_checked - node->last_marks;
        node->last_marks = node->store.marks_checked;
        node->checked_at = 0;
    }
    if (sim->failed || sim->counts.steps < node->checked_at || node->last.lsn != node->store.applied) return;
    node->checked_at = sim->counts.steps + FULL_COMPARE_STEPS;
    ms_sim_check_tables(node);
}

/* ---- what leaves the node -------------------------------------------------------------------------------------- */

void ms_sim_check_send(struct ms_sim_node *node, uint64_t link, const struct ms_block *block)
{
    uint64_t written = node->log ? ms_log_written(node->log) : 0;
    if (block->last > written)
        ms_sim_broken(node->sim, node->index, "sends lsn %llu on link %llu, but only %llu is written",
                      (unsigned long long)block->last, (unsigned long long)link, (unsigned long long)written);
    if (node->engine.role != MS_ROLE_LEADER) ms_sim_broken(node->sim, node->index, "sends groups although it does not lead");
}

static void check_replicas(struct ms_sim_node *node, const struct ms_sim_wait *wait)
{
    struct ms_sim *sim = node->sim;
    const struct ms_list *peers = &node->engine.peers;
    for (struct ms_list *at = peers->next; at != peers; at = at->next) {
        const struct ms_peer *peer = ms_list_entry(at, struct ms_peer, node);
        MS_SIM_FOR_NODES(sim, other)
        {
            if (!peer->in_sync || other->dir.node_id != peer->node_id || other->recovered)
                continue; /* its disk was damaged since */
            /* One that went over to a higher epoch has deposed this leader, which can't know it yet. */
            bool deposed = other->handed.epoch >= 0 && node->handed.epoch >= 0 &&
                           ms_epoch_compare(sim->book.epochs[other->handed.epoch].epoch,
                                            sim->book.epochs[node->handed.epoch].epoch) > 0;
            if (!deposed && !ms_sim_book_includes(sim, other->synced, wait->place))
                ms_sim_broken(sim, node->index,
                              "lsn %llu counts as replicated, but in-sync follower n%u has synced only %llu",
                              (unsigned long long)wait->lsn, other->index, (unsigned long long)other->synced.lsn);
        }
    }
}

void ms_sim_check_promise(struct ms_sim_node *node, const struct ms_sim_wait *wait, int result)
{
    struct ms_sim *sim = node->sim;
    const struct ms_engine *e = &node->engine;
    uint64_t written = node->log ? ms_log_written(node->log) : 0, synced = node->log ? ms_log_synced(node->log) : 0;
    unsigned long long lsn = wait->lsn;
    if (result == 1 || result == MS_E_NOT_REPLICATED) {
        if (wait->level >= MS_LEVEL_OS && wait->lsn > written)
            ms_sim_broken(sim, node->index, "lsn %llu was acknowledged before it was written", lsn);
        if (wait->level >= MS_LEVEL_DISK && wait->lsn > synced)
            ms_sim_broken(sim, node->index, "lsn %llu was acknowledged before it was synced", lsn);
        if (wait->level >= MS_LEVEL_OS && !ms_sim_book_includes(sim, node->handed, wait->place))
            ms_sim_broken(sim, node->index, "lsn %llu was acknowledged, but is not in the log any more", lsn);
        if (wait->level == MS_LEVEL_REPLICA && result == 1) check_replicas(node, wait);
        uint64_t *counts[] = {NULL, &sim->counts.acked_memory, &sim->counts.acked_os, &sim->counts.acked_disk,
                              &sim->counts.acked_replica};
        (*(result == 1 ? counts[wait->level] : &sim->counts.not_replicated))++;
    } else if (result == MS_E_UNKNOWN) {
        bool replaced = !ms_sim_book_includes(sim, node->handed, wait->place);
        if (!e->log_error && e->role == MS_ROLE_LEADER && !replaced &&
            ms_lineage_last(&node->store.lineage).id == wait->epoch_id)
            ms_sim_broken(sim, node->index, "the outcome of lsn %llu is not unknown: %s", lsn, ms_error_message());
        sim->counts.unknown++;
    } else {
        ms_sim_broken(sim, node->index, "waiting for lsn %llu ended with %d: %s", lsn, result, ms_error_message());
    }
}
