/* A loaded policy: who holds it, and what is decided without anybody's function. */
#include "rules.h"

#include "../base/error.h"
#include "../base/mem.h"
#include "patterns.h"
#include "policy.h"

const char *ms_conflict_reason_name(int reason)
{
    static const char *const names[] = {"unknown", "deposed", "buffered", "host"};
    return names[reason >= MS_CONFLICT_DEPOSED && reason <= MS_CONFLICT_HOST ? reason : 0];
}

const char *ms_outcome_name(int outcome)
{
    static const char *const names[] = {"theirs", "mine", "value", "delete"};
    return outcome >= MS_OUTCOME_THEIRS && outcome <= MS_OUTCOME_DELETE ? names[outcome] : "unknown";
}

struct ms_rules *ms_rules_ref(struct ms_rules *rules)
{
    if (rules) (void)__atomic_add_fetch(&rules->references, 1, __ATOMIC_RELAXED);
    return rules;
}

void ms_rules_unref(struct ms_rules *rules)
{
    if (rules && __atomic_sub_fetch(&rules->references, 1, __ATOMIC_ACQ_REL) == 0) rules->ops->close(rules);
}

bool ms_rules_view(const struct ms_rules *rules)
{
    return rules && (rules->patterns || rules->functions & MS_RULES_FILTER);
}

int ms_rules_decide(struct ms_rules *rules, const char *table, struct ms_bytes key)
{
    if (!rules) return MS_VIEW_IN;
    int decision = rules->patterns ? ms_patterns_decide(rules->patterns, table, key) : MS_VIEW_UNKNOWN;
    bool decided = decision != MS_VIEW_UNKNOWN;
    if (!decided && rules->functions & MS_RULES_FILTER) decision = rules->ops->filter(rules, table, key);
    if (decision != MS_VIEW_OUT) return MS_VIEW_IN;
    (void)__atomic_add_fetch(decided ? &rules->out_by_pattern : &rules->out_by_filter, 1, __ATOMIC_RELAXED);
    return MS_VIEW_OUT;
}

/* ---- named resolvers -------------------------------------------------------------------------------------------------------- */

/* Whether mine is chosen by number. What is no number leaves theirs in place, and says so. */
static int choose_number(const struct ms_conflict *conflict, bool larger, struct ms_resolution *resolution)
{
    int64_t mine = 0, theirs = 0;
    if (!conflict->mine.data || !conflict->theirs.data) return conflict->mine.data ? MS_OUTCOME_MINE : MS_OUTCOME_THEIRS;
    if (ms_int64_get(conflict->mine, &mine) || ms_int64_get(conflict->theirs, &theirs)) {
        resolution->by = "incident";
        return MS_OUTCOME_THEIRS;
    }
    return (larger ? mine > theirs : mine < theirs) ? MS_OUTCOME_MINE : MS_OUTCOME_THEIRS;
}

static int choose(int resolver, const struct ms_conflict *conflict, struct ms_resolution *resolution)
{
    static const char *const names[] = {"theirs", "theirs", "mine", "newest", "max", "min", "incident"};
    resolution->by = names[resolver];
    switch (resolver) {
    case MS_RESOLVE_MINE: return MS_OUTCOME_MINE;
    case MS_RESOLVE_NEWEST: return conflict->newer > 0 ? MS_OUTCOME_MINE : MS_OUTCOME_THEIRS;
    case MS_RESOLVE_MAX: return choose_number(conflict, true, resolution);
    case MS_RESOLVE_MIN: return choose_number(conflict, false, resolution);
    default: return MS_OUTCOME_THEIRS;
    }
}

static bool nobody_chose(const struct ms_policy *policy, const char *table)
{
    return ms_policy_table(policy, table).resolver == MS_RESOLVE_DEFAULT && policy->resolver <= MS_RESOLVE_THEIRS;
}

/* A host's copy is compared with the log as a whole: without a resolver that somebody chose, the newer one of the two counts. */
void ms_rules_resolve(struct ms_rules *rules, const struct ms_policy *policy, const struct ms_conflict *conflict,
                      struct ms_resolution *resolution)
{
    if (rules) policy = &rules->policy;
    int resolver = ms_policy_table(policy, conflict->table).resolver;
    if (resolver == MS_RESOLVE_DEFAULT) resolver = policy->resolver;
    if (conflict->reason == MS_CONFLICT_HOST && nobody_chose(policy, conflict->table)) resolver = MS_RESOLVE_NEWEST;
    if (resolver == MS_RESOLVE_FUNCTION && rules && rules->functions & MS_RULES_RESOLVE) {
        resolution->by = "function";
        if (rules->ops->resolve(rules, conflict, resolution)) return;
        ms_buf_clear(&resolution->value);
    }
    resolution->outcome = choose(resolver, conflict, resolution);
}
