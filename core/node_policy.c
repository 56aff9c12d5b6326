/* The policy thread and its queues: whatever a policy's functions are asked outside of a host's call runs here, one thing at a time and
 * without the node's lock. The thread is made when it is first needed; a node without a policy has none. */
#include "node.h"

#include <stdio.h>

#include "lua/policy.h"

struct policy_job {
    struct ms_list node;
    void (*run)(struct ms_node *node, void *context);
    void *context;
};

struct policy_event {
    struct ms_list node;
    const char *kind; /* static */
    int severity;
    char text[];
};

/* ---- queues: with the lock ---------------------------------------------------------------------------------------------------- */

void ms_node_policy_wake(struct ms_node *node)
{
    if (node->rules.thread.started) (void)pthread_cond_signal(&node->rules.cond);
}

int ms_policy_job(struct ms_node *node, void (*run)(struct ms_node *node, void *context), void *context)
{
    if (node->closing || node->rules.stop) return ms_fail(MS_E_CLOSED, "the node is being closed");
    int rc = ms_node_policy_need_thread(node);
    if (rc) return rc;
    struct policy_job *job = ms_alloc(sizeof *job);
    if (!job) return MS_E_MEMORY;
    job->run = run;
    job->context = context;
    ms_list_add_tail(&node->rules.jobs, &job->node);
    ms_node_policy_wake(node);
    return 0;
}

void ms_policy_ask_flush(struct ms_node *node, uint32_t table, const struct ms_flush_stats *stats)
{
    struct ms_node_policy *p = &node->rules;
    p->stats[table] = *stats; /* the newest counts */
    p->asked[table / 64] |= UINT64_C(1) << table % 64;
    ms_node_policy_wake(node);
}

void ms_policy_event(struct ms_node *node, const struct ms_event *event)
{
    struct ms_node_policy *p = &node->rules;
    if (!p->now.rules || !(p->now.rules->functions & MS_RULES_EVENT) || p->stop) return;
    size_t size = strlen(event->text) + 1;
    struct policy_event *item = p->event_count < MS_POLICY_EVENTS_MAX ? ms_alloc(sizeof *item + size) : NULL;
    if (!item) {
        p->events_lost++;
        return;
    }
    item->kind = event->kind;
    item->severity = event->severity;
    memcpy(item->text, event->text, size);
    ms_list_add_tail(&p->events, &item->node);
    p->event_count++;
    ms_node_policy_wake(node);
}

void ms_node_tell(struct ms_node *node, const char *kind, int severity, const char *line)
{
    struct ms_event event = {kind, severity, line};
    ms_host_line(node, severity, line);
    ms_policy_event(node, &event);
}

void ms_node_alarm(struct ms_node *node, const char *line)
{
    node->engine.alarms++;
    (void)snprintf(node->engine.alarm, sizeof node->engine.alarm, "%s", line);
    ms_node_tell(node, "alarm", MS_LOG_ERROR, line);
}

/* ---- one thing of each kind: with the lock before and after, without it meanwhile. false: there was none --------------------------- */

static bool do_job(struct ms_node *node)
{
    struct ms_node_policy *p = &node->rules;
    if (ms_list_empty(&p->jobs)) return false;
    struct policy_job *job = ms_list_entry(p->jobs.next, struct policy_job, node);
    ms_list_remove(&job->node);
    ms_node_unlock(node);
    job->run(node, job->context);
    ms_release(job);
    ms_node_lock(node);
    return true;
}

static bool do_event(struct ms_node *node)
{
    struct ms_node_policy *p = &node->rules;
    if (ms_list_empty(&p->events)) return false;
    struct policy_event *item = ms_list_entry(p->events.next, struct policy_event, node);
    struct ms_rules *rules = ms_rules_ref(p->now.rules);
    ms_list_remove(&item->node);
    p->event_count--;
    ms_node_unlock(node);
    struct ms_event event = {item->kind, item->severity, item->text};
    if (rules && rules->functions & MS_RULES_EVENT) rules->ops->event(rules, &event);
    ms_rules_unref(rules);
    ms_release(item);
    ms_node_lock(node);
    return true;
}

static bool next_asked(struct ms_node_policy *p, uint32_t *table)
{
    for (uint32_t i = 0; i < sizeof p->asked / sizeof *p->asked; i++) {
        if (!p->asked[i]) continue;
        *table = i * 64 + (uint32_t)__builtin_ctzll(p->asked[i]);
        p->asked[i] &= p->asked[i] - 1;
        return true;
    }
    return false;
}

static bool do_flush(struct ms_node *node)
{
    struct ms_node_policy *p = &node->rules;
    uint32_t table;
    uint64_t next_us = 0;
    if (!next_asked(p, &table)) return false;
    struct ms_rules *rules = ms_rules_ref(p->now.rules);
    struct ms_flush_stats stats = p->stats[table];
    bool asks = rules && rules->functions & MS_RULES_FLUSH, planned = false;
    if (!asks) return true;
    ms_node_unlock(node);
    planned = rules->ops->flush(rules, &stats, &next_us);
    ms_node_lock(node);
    /* A plan of a policy that was replaced meanwhile is nobody's any more. */
    if (planned && p->now.rules == rules) ms_engine_flush_plan(&node->engine, table, next_us);
    ms_node_unlock(node);
    ms_rules_unref(rules);
    ms_node_lock(node);
    return true;
}

/* ---- the thread ------------------------------------------------------------------------------------------------------------------------ */

static void *policy_main(void *context)
{
    struct ms_node *node = context;
    struct ms_node_policy *p = &node->rules;
    ms_thread_be_prompt(); /* as the bulk thread */
    ms_node_lock(node);
    while (!p->stop) {
        bool busy = do_job(node);
        busy = (!p->stop && do_flush(node)) || busy;
        busy = (!p->stop && do_event(node)) || busy;
        uint64_t look = p->stop ? MS_FOREVER : ms_node_policy_look(node);
        busy = (!p->stop && ms_node_policy_review(node)) || busy;
        if (busy || p->stop) continue;
        ms_node_settle(node);
        (void)ms_node_sleep(node, &p->cond, look);
    }
    ms_node_policy_review_drop(node);
    ms_node_unlock(node);
    return NULL;
}

int ms_node_policy_need_thread(struct ms_node *node)
{
    struct ms_node_policy *p = &node->rules;
    return p->thread.started || p->stop ? 0 : ms_thread_start(&p->thread, "ms-policy", policy_main, node);
}

/* ---- life ---------------------------------------------------------------------------------------------------------------------------------- */

int ms_node_policy_init(struct ms_node *node, const struct ms_policy *base, const char *file, struct ms_policy *numbers)
{
    struct ms_node_policy *p = &node->rules;
    ms_list_init(&p->jobs);
    ms_list_init(&p->events);
    p->base = *numbers = *base;
    int rc = ms_cond_init(&p->cond);
    p->ready = rc == 0;
    if (rc || !file) return rc;
    if (strlen(file) >= sizeof p->now.file) return ms_fail(MS_E_LIMIT, "the path of the policy file is too long");
    rc = ms_lua_load(file, base, NULL, &p->now.rules);
    if (!rc) rc = ms_lua_selftest(p->now.rules);
    if (rc) return rc;
    (void)snprintf(p->now.file, sizeof p->now.file, "%s", file);
    p->now.loaded_us = ms_clock_real();
    *numbers = p->now.rules->policy;
    return 0;
}

int ms_node_policy_start(struct ms_node *node)
{
    struct ms_node_policy *p = &node->rules;
    if (!p->now.rules) return 0;
    ms_node_lock(node);
    int rc = ms_node_policy_need_thread(node);
    ms_node_unlock(node);
    return rc;
}

static void run_rest(struct ms_node *node)
{
    struct ms_node_policy *p = &node->rules;
    ms_node_lock(node);
    while (do_job(node)) continue;
    while (!ms_list_empty(&p->events)) {
        struct policy_event *item = ms_list_entry(p->events.next, struct policy_event, node);
        ms_list_remove(&item->node);
        ms_release(item);
    }
    ms_node_unlock(node);
}

void ms_node_policy_stop(struct ms_node *node)
{
    struct ms_node_policy *p = &node->rules;
    if (!p->ready) return;
    ms_node_lock(node);
    p->stop = true;
    ms_node_policy_wake(node);
    ms_node_unlock(node);
    ms_thread_join(&p->thread);
    run_rest(node);
}

void ms_node_policy_close(struct ms_node *node)
{
    struct ms_node_policy *p = &node->rules;
    if (!p->ready) return;
    ms_rules_unref(p->now.rules);
    ms_rules_unref(p->before.rules);
    (void)pthread_cond_destroy(&p->cond);
    p->ready = false;
}
