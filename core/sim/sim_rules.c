/* Policies made by chance, for random runs: patterns, a filter, a flush function and a resolver that are all functions of the seed, and that
 * fail now and then as a policy's own code does. They are no Lua: the simulator may not know that language, and the same decisions are
 * needed twice, once by the engine and once by the checks.
 *
 * Keys that begin with "e" are always in the view: those are the ones that readers must never miss (sim_work.c). */
#include <stdio.h>

#include "../base/error.h"
#include "../sync/patterns.h"
#include "sim_world.h"

struct sim_rules {
    struct ms_rules rules; /* first */
    uint64_t seed;
    uint64_t calls;     /* of all functions: which of them fails is a matter of order */
    uint32_t fails;     /* one call of so many; 0 = none */
    uint32_t incidents;
    bool filters;
};

static const struct ms_rules_ops rules_ops;

static struct sim_rules *rules_of(struct ms_rules *rules)
{
    return (struct sim_rules *)(void *)rules;
}

bool ms_sim_rules_own(const struct ms_rules *rules)
{
    return rules && rules->ops == &rules_ops;
}

static bool fails(struct sim_rules *rules)
{
    rules->calls++;
    if (!rules->fails || ms_mix(rules->seed + rules->calls) % rules->fails) return false;
    rules->incidents++;
    return true;
}

static uint64_t hash_of(const struct sim_rules *rules, const char *table, struct ms_bytes key)
{
    return ms_mix(ms_hash_seeded(key.data, key.size, rules->seed) + ms_hash(table, strlen(table)));
}

static int would(const struct sim_rules *rules, const char *table, struct ms_bytes key)
{
    if (key.size > 0 && *(const char *)key.data == 'e') return MS_VIEW_IN;
    return hash_of(rules, table, key) % 4 == 0 ? MS_VIEW_OUT : MS_VIEW_IN;
}

bool ms_sim_rules_steady(const struct ms_rules *rules)
{
    return ms_sim_rules_own(rules) && ((const struct sim_rules *)(const void *)rules)->fails == 0;
}

int ms_sim_rules_would(const struct ms_rules *rules, const char *table, struct ms_bytes key)
{
    const struct sim_rules *own = (const struct sim_rules *)(const void *)rules;
    int decision = rules->patterns ? ms_patterns_decide(rules->patterns, table, key) : MS_VIEW_UNKNOWN;
    if (decision != MS_VIEW_UNKNOWN) return decision;
    return own->filters ? would(own, table, key) : MS_VIEW_IN;
}

/* ---- functions ----------------------------------------------------------------------------------------------------------- */

static int filter(struct ms_rules *rules, const char *table, struct ms_bytes key)
{
    return fails(rules_of(rules)) ? MS_VIEW_IN : would(rules_of(rules), table, key);
}

static bool resolve(struct ms_rules *rules, const struct ms_conflict *conflict, struct ms_resolution *resolution)
{
    if (fails(rules_of(rules))) return false;
    resolution->outcome = hash_of(rules_of(rules), conflict->table, conflict->key) % 2 ? MS_OUTCOME_MINE : MS_OUTCOME_THEIRS;
    return true;
}

static bool flush(struct ms_rules *rules, const struct ms_flush_stats *stats, uint64_t *next_us)
{
    if (fails(rules_of(rules))) return false;
    *next_us = stats->entries > 4 ? 1000 : 1000 + ms_mix(rules_of(rules)->seed ^ rules_of(rules)->calls) % 90000;
    return true;
}

static void event(struct ms_rules *rules, const struct ms_event *happened)
{
    (void)happened;
    (void)fails(rules_of(rules));
}

static int describe(struct ms_rules *rules, char **json)
{
    char text[128];
    (void)snprintf(text, sizeof text, "{\"name\":\"%s\",\"incidents\":%u}", rules->name, rules_of(rules)->incidents);
    *json = ms_strdup(text);
    return *json ? 0 : MS_E_MEMORY;
}

static void close_rules(struct ms_rules *rules)
{
    ms_patterns_free(rules->patterns);
    ms_release(rules);
}

static const struct ms_rules_ops rules_ops = {
    .filter = filter,
    .resolve = resolve,
    .flush = flush,
    .event = event,
    .describe = describe,
    .close = close_rules,
};

/* ---- made by chance -------------------------------------------------------------------------------------------------------- */

static int add(struct ms_patterns *patterns, const char *table, const char *pattern, bool include)
{
    return ms_patterns_add(patterns, table, ms_str(pattern), include);
}

static int make_patterns(struct ms_sim_dice *dice, struct ms_patterns **patterns)
{
    int rc = ms_patterns_new(patterns);
    if (!rc && ms_sim_below(dice, 2)) rc = add(*patterns, "os", "k1*", false);
    if (!rc && ms_sim_below(dice, 2)) rc = add(*patterns, "*", "k?5", false);
    if (!rc && ms_sim_below(dice, 3) == 0) {
        rc = add(*patterns, "offset", "e*", true);
        if (!rc) rc = add(*patterns, "offset", "k*2", true);
    }
    if (!rc && ms_sim_below(dice, 3) == 0) rc = add(*patterns, "count", "*", true);
    return rc;
}

/* What a reload may change of the numbers: levels, what is buffered and how long, what may be at risk. */
static void make_numbers(struct ms_sim_dice *dice, struct ms_policy *policy)
{
    for (uint32_t i = 0; i < policy->table_count; i++) {
        struct ms_table_policy *table = &policy->tables[i];
        if (ms_sim_below(dice, 4) == 0) { /* the other kind */
            table->interval_ms = table->interval_ms ? 0 : (uint32_t)(5 + ms_sim_below(dice, 60));
            table->level = table->interval_ms ? MS_LEVEL_DEFAULT : (int)(MS_LEVEL_MEMORY + ms_sim_below(dice, 3));
            table->entries = table->bytes = 0;
        }
        bool risk = table->interval_ms && ms_sim_below(dice, 2);
        table->at_risk_ms = risk ? (uint32_t)(4 + ms_sim_below(dice, 40)) : 0;
        table->at_risk_entries = risk ? (uint32_t)(1 + ms_sim_below(dice, 12)) : 0;
        table->at_risk_bytes = risk ? (uint32_t)(64 + ms_sim_below(dice, 4000)) : 0;
    }
    policy->outside_max = ms_sim_below(dice, 4) ? 100000 : (uint32_t)ms_sim_below(dice, 6);
    policy->resolver = ms_sim_below(dice, 2) ? MS_RESOLVE_FUNCTION : (int)(MS_RESOLVE_THEIRS + ms_sim_below(dice, 3));
}

struct ms_rules *ms_sim_rules_new(uint64_t seed, const struct ms_policy *policy)
{
    struct ms_sim_dice dice = {.state = ms_mix(seed)};
    struct sim_rules *own = ms_alloc_zero(sizeof *own);
    if (!own) return NULL;
    own->seed = seed;
    own->fails = ms_sim_below(&dice, 3) ? 0 : (uint32_t)(1 + ms_sim_below(&dice, 12));
    own->filters = ms_sim_below(&dice, 2);
    own->rules = (struct ms_rules){.ops = &rules_ops, .references = 1, .hash = ms_mix(seed + 1), .policy = *policy};
    (void)snprintf(own->rules.name, sizeof own->rules.name, "by chance %llx", (unsigned long long)seed);
    if (own->filters) own->rules.functions |= MS_RULES_FILTER;
    if (ms_sim_below(&dice, 2)) own->rules.functions |= MS_RULES_FLUSH;
    if (ms_sim_below(&dice, 2)) own->rules.functions |= MS_RULES_RESOLVE;
    if (ms_sim_below(&dice, 2)) own->rules.functions |= MS_RULES_EVENT;
    make_numbers(&dice, &own->rules.policy);
    if (ms_sim_below(&dice, 3) && make_patterns(&dice, &own->rules.patterns)) {
        close_rules(&own->rules);
        return NULL;
    }
    return &own->rules;
}

uint64_t ms_sim_rules_incidents(const struct ms_rules *rules)
{
    return ms_sim_rules_own(rules) ? ((const struct sim_rules *)(const void *)rules)->incidents : 0;
}
