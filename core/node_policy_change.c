/* Changing the policy of a running node: a new file is loaded and looked at beside the one in use, and only when nothing speaks against
 * it any more, two pointers are swapped under the lock. Whatever fails before that leaves everything as it was.
 *
 *      1. one change at a time                             BUSY
 *      2. load, validate, selftest                         INVALID, FORMAT, REFUSED, IO, ... with the place in the file
 *      3. count what leaves and enters the view            LIMIT, unless forced
 *      4. swap: the engine's numbers and rules, ours; the one before is kept for a roll-back
 *      5. probation: while it lasts, incidents bring the one before back
 *
 * Links, buffers and positions are not touched: the engine goes on with other numbers. */
#include "node.h"

#include <jansson.h>
#include <stdio.h>

#include "lua/policy.h"
#include "node_report.h"

enum {
    PROBATION_INCIDENTS = 3,
    LOOK_US = 10000000,         /* how often incidents are looked for ... */
    LOOK_PROBATION_US = 50000,  /* ... and on probation */
    LOOK_AGAIN_US = 10000,      /* when a change is under way */
    DROPPED = 3,                /* references that a swap lets go */
};

/* ---- one change at a time ------------------------------------------------------------------------------------------------------- */

static int begin_change(struct ms_node *node, const char *what)
{
    int rc = ms_node_may_wait(node, what);
    if (rc) return rc;
    ms_node_lock(node);
    if (node->closing) rc = ms_fail(MS_E_CLOSED, "the node is being closed");
    else if (node->rules.changing) rc = ms_fail(MS_E_BUSY, "another change of the policy is under way");
    if (!rc) {
        node->rules.changing = true;
        node->inside++; /* ms_close waits for us */
    }
    ms_node_unlock(node);
    return rc;
}

static void end_change(struct ms_node *node, int rc)
{
    ms_node_lock(node);
    node->rules.changing = false;
    if (rc) node->rules.refused++;
    node->inside--;
    if (node->closing && node->inside == 0) (void)pthread_cond_broadcast(&node->changed);
    ms_node_policy_wake(node);
    ms_node_unlock(node);
}

/* ---- the swap: with the lock ------------------------------------------------------------------------------------------------------ */

static void tell(struct ms_node *node, int severity, const char *text)
{
    ms_node_tell(node, "policy", severity, text);
}

/* What goes by the numbers and is not the engine's. */
static void take_numbers(struct ms_node *node)
{
    const struct ms_policy *policy = &node->engine.policy;
    ms_host_policy(node, policy);
    ms_disk_policy(&node->disk, policy);
}

/* Puts *fresh (taken) in place. can_return: the one in use is kept for a roll-back. *dropped is to be let go without the lock. No thread:
 * MS_E_LIMIT, and nothing has changed. */
static int swap(struct ms_node *node, const struct ms_policy_slot *fresh, bool can_return, struct ms_rules *dropped[DROPPED])
{
    struct ms_node_policy *p = &node->rules;
    const struct ms_policy *numbers = fresh->rules ? &fresh->rules->policy : &p->base;
    int rc = ms_node_policy_need_thread(node);
    if (rc) return rc;
    dropped[0] = ms_engine_set_rules(&node->engine, fresh->rules, numbers);
    dropped[1] = p->before.rules;
    dropped[2] = can_return ? NULL : p->now.rules;
    p->before = can_return ? p->now : (struct ms_policy_slot){.rules = NULL};
    p->now = *fresh;
    p->can_return = can_return;
    p->now.loaded_us = ms_clock_real();
    p->looked_at = ms_clock_now();
    p->incidents = p->probation_until = 0;
    if (can_return && numbers->probation_ms) {
        p->probation_until = p->looked_at + (uint64_t)numbers->probation_ms * 1000;
        p->probation_real_us = p->now.loaded_us + (uint64_t)numbers->probation_ms * 1000;
    }
    p->review.wanted = true;
    take_numbers(node);
    ms_node_policy_wake(node);
    return 0;
}

/* The policy before comes back; the one in use is let go. */
static int swap_back(struct ms_node *node, struct ms_rules *dropped[DROPPED])
{
    struct ms_node_policy *p = &node->rules;
    struct ms_policy_slot back = p->before;
    struct ms_rules *kept = p->before.rules;
    p->before.rules = NULL; /* its reference moves */
    int rc = swap(node, &back, false, dropped);
    if (rc) p->before.rules = kept;
    else p->rollbacks++;
    return rc;
}

static void drop(struct ms_rules *dropped[DROPPED])
{
    for (int i = 0; i < DROPPED; i++) ms_rules_unref(dropped[i]);
}

/* ---- reload ---------------------------------------------------------------------------------------------------------------------------- */

static int find_path(struct ms_node *node, const char *path, char file[MS_PATH_MAX])
{
    ms_node_lock(node);
    (void)snprintf(file, MS_PATH_MAX, "%s", path ? path : node->rules.now.file);
    ms_node_unlock(node);
    if (!file[0]) return ms_fail(MS_E_INVALID, "the node has no policy file; name one");
    return path && strlen(path) >= MS_PATH_MAX ? ms_fail(MS_E_LIMIT, "the path of the policy file is too long") : 0;
}

/* Who wrote the new file might have raised the bound in it as well: the one in force counts. */
static int check_counts(struct ms_node *node, const struct ms_policy_counts *counts, int flags)
{
    if (flags & MS_POLICY_FORCE) return 0;
    ms_node_lock(node);
    uint32_t percent = node->engine.policy.leave_max_percent;
    ms_node_unlock(node);
    for (uint32_t i = 0; i < counts->count; i++) {
        const struct ms_review_table *table = &counts->tables[i];
        if (table->leaving == 0 || table->leaving * 100 <= table->entries * percent) continue;
        return ms_fail(MS_E_LIMIT, "%llu of %llu entries of table %s would leave the view, more than the %u percent that are allowed without "
                       "force", (unsigned long long)table->leaving, (unsigned long long)table->entries, table->name, percent);
    }
    return 0;
}

static int load(struct ms_node *node, const char *file, struct ms_rules **rules)
{
    int rc = ms_lua_load(file, &node->rules.base, NULL, rules);
    return rc ? rc : ms_lua_selftest(*rules);
}

static int put_in_place(struct ms_node *node, struct ms_policy_slot *fresh, struct ms_report *report)
{
    struct ms_rules *dropped[DROPPED] = {NULL};
    char line[400];
    ms_node_lock(node);
    ms_report_was(report, node);
    int rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : swap(node, fresh, true, dropped);
    if (!rc) {
        struct ms_node_policy *p = &node->rules;
        fresh->rules = NULL; /* taken */
        p->reloads++;
        ms_report_is(report, node);
        (void)snprintf(line, sizeof line, "policy %s was loaded from %.200s, hash %016llx", p->now.rules->name, p->now.file,
                       (unsigned long long)p->now.rules->hash);
        tell(node, MS_LOG_INFO, line);
    }
    ms_node_unlock(node);
    drop(dropped);
    return rc;
}

static int reload(struct ms_node *node, const char *path, int flags, struct ms_report *report)
{
    struct ms_policy_slot fresh = {.rules = NULL};
    int rc = find_path(node, path, fresh.file);
    if (!rc) rc = load(node, fresh.file, &fresh.rules);
    if (!rc) rc = ms_node_policy_count(node, fresh.rules, &report->counts);
    if (!rc) rc = check_counts(node, &report->counts, flags);
    report->forced = flags & MS_POLICY_FORCE;
    if (!rc) rc = put_in_place(node, &fresh, report);
    ms_rules_unref(fresh.rules);
    return rc;
}

static void tell_refusal(struct ms_node *node, int rc)
{
    char line[MS_ERROR_SIZE + 100];
    (void)snprintf(line, sizeof line, "the new policy was refused, the old one stays: %s", ms_fail_message(rc));
    ms_node_lock(node);
    tell(node, MS_LOG_WARN, line);
    ms_node_unlock(node);
}

int ms_policy_reload(struct ms_node *node, const char *path, int flags, char **text)
{
    struct ms_report *report;
    if (text) *text = NULL;
    int rc = begin_change(node, "ms_policy_reload");
    if (rc) return rc;
    rc = ms_report_new(&report);
    if (!rc) {
        rc = reload(node, path, flags, report);
        if (rc) tell_refusal(node, rc);
        rc = ms_report_end(report, rc, text);
    }
    end_change(node, rc);
    return rc;
}

/* ---- roll-back ---------------------------------------------------------------------------------------------------------------------------- */

static int rollback(struct ms_node *node, struct ms_report *report)
{
    struct ms_rules *dropped[DROPPED] = {NULL};
    ms_node_lock(node);
    bool possible = node->rules.can_return; /* nobody else changes it meanwhile: see `changing` */
    struct ms_rules *back = ms_rules_ref(node->rules.before.rules);
    ms_node_unlock(node);
    int rc = possible ? ms_node_policy_count(node, back, &report->counts) : ms_fail(MS_E_INVALID, "there is no policy to go back to");
    ms_rules_unref(back);
    if (rc) return rc;
    ms_node_lock(node);
    ms_report_was(report, node);
    rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : swap_back(node, dropped);
    if (!rc) {
        ms_report_is(report, node);
        tell(node, MS_LOG_INFO, "the policy before the last reload is in place again");
    }
    ms_node_unlock(node);
    drop(dropped);
    return rc;
}

int ms_policy_rollback(struct ms_node *node, char **text)
{
    struct ms_report *report;
    if (text) *text = NULL;
    int rc = begin_change(node, "ms_policy_rollback");
    if (rc) return rc;
    rc = ms_report_new(&report);
    if (!rc) rc = ms_report_end(report, rollback(node, report), text);
    end_change(node, rc);
    return rc;
}

/* ---- probation: policy thread, with the lock -------------------------------------------------------------------------------------------- */

static void return_by_itself(struct ms_node *node, const struct ms_trouble *trouble)
{
    struct ms_node_policy *p = &node->rules;
    struct ms_rules *dropped[DROPPED] = {NULL};
    char line[700];
    (void)snprintf(line, sizeof line, "policy %s had %llu incidents%s on probation, the one before is in place again; the last: %s",
                   p->now.rules->name, (unsigned long long)trouble->count, trouble->quarantined ? " and a quarantine" : "", trouble->last);
    if (swap_back(node, dropped)) return; /* memory: the next look tries again */
    (void)snprintf(p->note, sizeof p->note, "%s", line);
    ms_node_alarm(node, line);
    ms_node_unlock(node);
    drop(dropped);
    ms_node_lock(node);
}

static void tell_incidents(struct ms_node *node, const struct ms_trouble *trouble)
{
    char line[700];
    (void)snprintf(line, sizeof line, "policy %s: %llu incidents in its functions since it was loaded; the last: %s", node->rules.now.rules->name,
                   (unsigned long long)trouble->count, trouble->last);
    ms_host_line(node, MS_LOG_WARN, line);
}

/* The policy's own lock may be taken by one that runs: not while we hold the node's. */
static void look(struct ms_node *node)
{
    struct ms_node_policy *p = &node->rules;
    struct ms_rules *rules = ms_rules_ref(p->now.rules);
    struct ms_trouble trouble;
    uint64_t before = p->incidents;
    ms_node_unlock(node);
    ms_policy_trouble(rules, before, &trouble);
    ms_node_lock(node);
    if (p->now.rules == rules && trouble.count != before) {
        p->incidents = trouble.count;
        tell_incidents(node, &trouble);
    }
    bool failing = trouble.count >= PROBATION_INCIDENTS || trouble.quarantined;
    if (p->now.rules == rules && p->probation_until && p->can_return && failing) {
        if (p->changing) p->looked_at = ms_clock_now() + LOOK_AGAIN_US - LOOK_PROBATION_US;
        else return_by_itself(node, &trouble);
    }
    ms_node_unlock(node);
    ms_rules_unref(rules);
    ms_node_lock(node);
}

uint64_t ms_node_policy_look(struct ms_node *node)
{
    struct ms_node_policy *p = &node->rules;
    uint64_t now = ms_clock_now();
    if (p->probation_until && now >= p->probation_until) {
        p->probation_until = 0;
        tell(node, MS_LOG_INFO, "the policy's probation is over");
    }
    if (!p->now.rules || !p->now.rules->functions) return p->probation_until ? p->probation_until : MS_FOREVER;
    uint64_t every = p->probation_until ? LOOK_PROBATION_US : LOOK_US;
    if (now >= p->looked_at + every) {
        p->looked_at = now;
        look(node);
    }
    return p->looked_at + every;
}
