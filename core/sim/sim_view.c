/* Policies of simulated nodes: what a node's policy thread does, as events. Rules are given to a node from outside (sim.h) or made by chance
 * (sim_rules.c); they decide about writes at once, since a host's thread waits for that, and everything else a little later.
 *
 * The checks keep their own account of the view: which entries the present rules of a node have left out. An entry that exists is never
 * refused, a new one never gets in without being decided about, and one that was left out stays out until other rules come. */
#include <stdio.h>

#include "../base/error.h"
#include "../sync/review.h"
#include "sim_world.h"

/* ---- the account ------------------------------------------------------------------------------------------------------------- */

static bool has_view(const struct ms_rules *rules)
{
    return rules && (rules->patterns || rules->functions & MS_RULES_FILTER);
}

static uint32_t *outside(struct ms_sim_node *node, uint32_t key)
{
    static uint32_t nowhere;
    if (!ms_sim_room(node->sim, (void **)&node->outside, &node->outside_capacity, key + 1, sizeof *node->outside)) return &nowhere;
    return &node->outside[key];
}

int ms_sim_view_decide(struct ms_sim_node *node, uint32_t table, uint32_t key)
{
    struct ms_sim *sim = node->sim;
    struct ms_rules *rules = node->engine.rules;
    struct ms_bytes bytes = sim->book.keys[key].bytes;
    if (!has_view(rules)) ms_sim_broken(sim, node->index, "asks for a decision that nobody can make");
    uint64_t before = ms_sim_rules_incidents(rules);
    int decision = ms_rules_decide(rules, ms_sim_table_name(sim, table), bytes);
    sim->counts.decisions++;
    sim->counts.policy_incidents += ms_sim_rules_incidents(rules) - before;
    *outside(node, key) = decision == MS_VIEW_OUT ? node->rules_serial : 0;
    if (decision == MS_VIEW_OUT && ms_sim_rules_own(rules) &&
        ms_sim_rules_would(rules, ms_sim_table_name(sim, table), bytes) != MS_VIEW_OUT)
        ms_sim_broken(sim, node->index, "%.*s was left out, but by nobody", (int)bytes.size, (const char *)bytes.data);
    return decision;
}

void ms_sim_view_check(struct ms_sim_node *node, uint32_t key, bool existed, bool puts, bool asked, bool out)
{
    struct ms_sim *sim = node->sim;
    const struct ms_sim_key *entry = &sim->book.keys[key];
    const struct ms_rules *rules = node->engine.rules;
    bool known = *outside(node, key) == node->rules_serial;
    /* A review decides anew about what earlier rules left out: of rules that are not our own only that can be said. */
    bool said = ms_sim_rules_own(rules) ? ms_sim_rules_would(rules, ms_sim_table_name(sim, entry->table), entry->bytes) == MS_VIEW_OUT
                                        : *outside(node, key) != 0;
    const char *what = NULL;
    if (out) sim->counts.outside++;
    if (existed && out) what = "exists, and a change of it was left out";
    if (!existed && out && !said) what = "was left out by rules that did not say so";
    if (!existed && !out && puts && known) what = "was let in although it is outside";
    if (!existed && !out && puts && !asked && has_view(rules)) what = "was let in, and nobody was asked";
    if (what)
        ms_sim_broken(sim, node->index, "table %s: %.*s %s", ms_sim_table_name(sim, entry->table), (int)entry->bytes.size,
                      (const char *)entry->bytes.data, what);
}

void ms_sim_view_left(struct ms_sim_node *node, uint32_t key)
{
    struct ms_sim *sim = node->sim;
    const struct ms_sim_key *entry = &sim->book.keys[key];
    const struct ms_rules *rules = node->engine.rules;
    sim->counts.leaves++;
    *outside(node, key) = node->rules_serial;
    if (ms_sim_rules_own(rules) && ms_sim_rules_would(rules, ms_sim_table_name(sim, entry->table), entry->bytes) != MS_VIEW_OUT)
        ms_sim_broken(sim, node->index, "table %s: %.*s left, but the policy wants it", ms_sim_table_name(sim, entry->table),
                      (int)entry->bytes.size, (const char *)entry->bytes.data);
}

/* ---- what the engine asks of its policy ---------------------------------------------------------------------------------------- */

static void *copy(struct ms_sim *sim, const void *data, size_t size)
{
    int64_t countdown = ms_sim_hush();
    void *made = ms_alloc(size);
    ms_sim_unhush(countdown);
    if (made)
        memcpy(made, data, size);
    else
        ms_sim_out_of_memory(sim);
    return made;
}

static void on_flush_asked(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    struct ms_rules *rules = node->engine.rules;
    uint64_t next_us = 0;
    if (!rules || !(rules->functions & MS_RULES_FLUSH)) return;
    if (!rules->ops->flush(rules, event->data, &next_us)) {
        sim->counts.policy_incidents++;
        return;
    }
    sim->counts.flush_plans++;
    ms_engine_flush_plan(&node->engine, (uint32_t)event->id, next_us);
    ms_sim_node_after(node);
}

void ms_sim_view_ask_flush(struct ms_io *io, uint32_t table, const struct ms_flush_stats *stats)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    void *data = copy(node->sim, stats, sizeof *stats);
    if (!data) return;
    ms_sim_at(node->sim, ms_sim_between(node->sim, 20, 1500),
              (struct ms_sim_event){.name = "flush?", .fn = on_flush_asked, .node = node->index, .life = node->life, .id = table, .data = data});
}

struct told { /* an event for the policy */
    int severity;
    char kind[16];
    char text[256];
};

static void on_told(struct ms_sim *sim, struct ms_sim_event *event)
{
    const struct told *told = event->data;
    struct ms_rules *rules = sim->nodes[event->node]->engine.rules;
    if (!rules || !(rules->functions & MS_RULES_EVENT)) return;
    sim->counts.policy_events++;
    rules->ops->event(rules, &(struct ms_event){.kind = told->kind, .severity = told->severity, .text = told->text});
}

void ms_sim_view_event(struct ms_io *io, const struct ms_event *event)
{
    struct ms_sim_node *node = ms_sim_node_of(io);
    struct told told = {.severity = event->severity};
    (void)snprintf(told.kind, sizeof told.kind, "%s", event->kind);
    (void)snprintf(told.text, sizeof told.text, "%s", event->text);
    void *data = copy(node->sim, &told, sizeof told);
    if (!data) return;
    ms_sim_at(node->sim, ms_sim_between(node->sim, 20, 1500),
              (struct ms_sim_event){.name = "event", .fn = on_told, .node = node->index, .life = node->life, .data = data});
}

/* ---- reviews: what leaves and enters after a reload ------------------------------------------------------------------------------ */

enum { TAKE, APPLY };

static int check_wanted(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_sim_node *node = context;
    (void)value;
    if (ms_sim_rules_would(node->engine.rules, node->reviewed, key) == MS_VIEW_OUT)
        ms_sim_broken(node->sim, node->index, "table %s: %.*s is still there after the review", node->reviewed, (int)key.size,
                      (const char *)key.data);
    return node->sim->failed;
}

/* Tables go by the numbers of the policy, unless one is to be unbuffered and its buffer is not empty yet. */
static void check_numbers(struct ms_sim_node *node)
{
    const struct ms_engine *e = &node->engine;
    for (uint32_t id = 1; id < MS_TABLES_MAX && node->store.tables[id]; id++) {
        struct ms_table_policy wanted = ms_policy_table(ms_sim_node_policy(node), node->store.tables[id]->name);
        const struct ms_table_policy *found = &e->table_policy[id];
        if (e->plans[id].leaving || (found->interval_ms == wanted.interval_ms && found->level == wanted.level &&
                                     found->at_risk_entries == wanted.at_risk_entries && found->at_risk_ms == wanted.at_risk_ms))
            continue;
        ms_sim_broken(node->sim, node->index, "table %s does not go by the policy that was loaded", wanted.name);
    }
}

/* Everything was looked at: what rules that never fail leave out is gone. */
static void check_reviewed(struct ms_sim_node *node)
{
    check_numbers(node);
    if (!ms_sim_rules_steady(node->engine.rules)) return;
    for (uint32_t id = 1; id < MS_TABLES_MAX && node->store.tables[id]; id++) {
        const struct ms_table_state *table = node->store.tables[id];
        node->reviewed = table->name;
        for (uint32_t shard = 0; shard < MS_TABLE_SHARDS; shard++)
            if (table->content->shards[shard].entries && ms_table_visit(table, shard, false, check_wanted, node)) return;
    }
}

static void count_entered(void *context, const char *table, struct ms_bytes key)
{
    struct ms_sim_node *node = context;
    struct ms_sim *sim = node->sim;
    if (!key.data) return;
    sim->counts.enters++;
    ms_sim_note(sim, node->index, "wants %.*s of table %s now", (int)key.size, (const char *)key.data, table);
    if (ms_sim_rules_steady(node->engine.rules) && ms_sim_rules_would(node->engine.rules, table, key) == MS_VIEW_OUT)
        ms_sim_broken(sim, node->index, "wants %.*s of table %s, which its policy leaves out", (int)key.size, (const char *)key.data, table);
    uint32_t known = ms_sim_book_find_key(sim, ms_sim_table_find(sim, ms_str(table)), key);
    if (known != UINT32_MAX && *outside(node, known) == node->rules_serial)
        ms_sim_broken(sim, node->index, "wants %.*s of table %s, which the same policy has left out", (int)key.size,
                      (const char *)key.data, table);
}

static void end_review(struct ms_sim_node *node)
{
    ms_review_free(node->review);
    node->review = NULL;
}

static void on_review(struct ms_sim *sim, struct ms_sim_event *event);

static void review_later(struct ms_sim_node *node, uint64_t id, uint64_t step, uint64_t low_us, uint64_t high_us)
{
    ms_sim_at(node->sim, ms_sim_between(node->sim, low_us, high_us),
              (struct ms_sim_event){.name = "review", .fn = on_review, .node = node->index, .life = node->life, .id = id, .value = step});
}

static void on_review(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    struct ms_review *review = node->review;
    if (!review || event->id != node->rules_serial) return; /* other rules came, with a review of their own */
    bool takes = event->value == TAKE;
    int rc = takes ? ms_review_take(review, &node->engine) : ms_review_apply(review, &node->engine);
    if (takes && rc == 1) ms_review_decide(review);
    if (!takes && rc == 0) ms_review_entered(review, count_entered, node);
    ms_engine_pump(&node->engine);
    ms_sim_node_after(node);
    if (rc == MS_E_AGAIN || rc == MS_E_MEMORY || rc == MS_E_NO_SPACE) {
        review_later(node, event->id, event->value, 2000, 10000);
    } else if (rc < 0) { /* it leads no more */
        end_review(node);
    } else if (takes && rc == 0) {
        sim->counts.reviews++;
        check_reviewed(node);
        end_review(node);
    } else { /* a slice is decided; or applied, or not as a whole yet */
        review_later(node, event->id, takes || rc == 1 ? APPLY : TAKE, 50, 1000);
    }
}

static void begin_review(struct ms_sim_node *node)
{
    end_review(node);
    int64_t countdown = ms_sim_hush();
    int rc = ms_review_new(&node->engine, node->rules, MS_REVIEW_APPLY, &node->review);
    ms_sim_unhush(countdown);
    if (rc == MS_E_MEMORY) ms_sim_out_of_memory(node->sim);
    if (rc) node->review = NULL; /* it does not lead: there is nothing to review */
    else review_later(node, node->rules_serial, TAKE, 50, 1000);
}

/* ---- another policy ------------------------------------------------------------------------------------------------------------ */

const struct ms_policy *ms_sim_node_policy(const struct ms_sim_node *node)
{
    return node->rules ? &node->rules->policy : &node->sim->policy;
}

struct ms_rules *ms_sim_rules_of(const struct ms_sim *sim, uint32_t node)
{
    return node < sim->options.nodes ? sim->nodes[node]->rules : NULL;
}

int ms_sim_view_set(struct ms_sim_node *node, struct ms_rules *rules)
{
    struct ms_sim *sim = node->sim;
    ms_rules_unref(node->rules);
    node->rules = ms_rules_ref(rules);
    node->rules_serial = ++sim->next_serial;
    if (!node->has_engine) return 0;
    sim->counts.reloads++;
    ms_sim_note(sim, node->index, "has another policy: %s", rules ? rules->name : "the built-in one");
    ms_rules_unref(ms_engine_set_rules(&node->engine, rules, ms_sim_node_policy(node)));
    begin_review(node);
    node->reloaded = true;
    return 0;
}

int ms_sim_view_set_random(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    uint64_t seed = ms_sim_between(sim, 1, UINT64_MAX - 1);
    bool none = ms_sim_one_in(sim, 6);
    int64_t countdown = ms_sim_hush();
    struct ms_rules *rules = none ? NULL : ms_sim_rules_new(seed, &sim->policy);
    ms_sim_unhush(countdown);
    if (!none && !rules) {
        ms_sim_out_of_memory(sim);
        return MS_E_MEMORY;
    }
    int rc = ms_sim_view_set(node, rules);
    ms_rules_unref(rules);
    return rc;
}

void ms_sim_view_forget(struct ms_sim_node *node)
{
    end_review(node);
}

void ms_sim_view_close(struct ms_sim_node *node)
{
    ms_rules_unref(node->rules);
    ms_release(node->outside);
}
