/* The report of a reload or roll-back: what was, what is, what it does to the view, or why it was refused.
 *
 *      {"name":"production","file":"/etc/metasync/policy.lua","hash":"...","was":{"name":"default","hash":"..."},
 *       "changed":[{"field":"log.keep","was":"256MiB","is":"1GiB"}],"start_only":["log.segment"],
 *       "tables":[{"table":"topic","entries":100,"leaving":2,"entering":0,"more":false}],"forced":false,"probation_ms":60000} */
#include <stdio.h>

#include "node_report.h"

int ms_report_new(struct ms_report **report)
{
    *report = ms_alloc_zero(sizeof **report);
    return *report ? 0 : MS_E_MEMORY;
}

static void take_side(struct ms_report_side *side, const struct ms_node *node)
{
    const struct ms_rules *rules = node->rules.now.rules;
    side->known = true;
    (void)snprintf(side->name, sizeof side->name, "%s", rules ? rules->name : "built-in");
    side->policy = node->engine.policy;
    side->hash = rules ? rules->hash : ms_policy_hash(&side->policy);
}

void ms_report_was(struct ms_report *report, const struct ms_node *node)
{
    take_side(&report->was, node);
}

void ms_report_is(struct ms_report *report, const struct ms_node *node)
{
    const struct ms_node_policy *p = &node->rules;
    take_side(&report->is, node);
    report->wanted = p->now.rules ? p->now.rules->policy : p->base;
    (void)snprintf(report->file, sizeof report->file, "%s", p->now.file);
    report->probation_ms = p->probation_until ? node->engine.policy.probation_ms : 0;
}

/* ---- the text ----------------------------------------------------------------------------------------------------------------- */

static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value);
}

static json_t *hash_text(uint64_t hash)
{
    char text[20];
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    return json_string(text);
}

/* Tables that nothing happens to are left out. */
static json_t *count_list(const struct ms_policy_counts *counts)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < counts->count; i++) {
        const struct ms_review_table *table = &counts->tables[i];
        if (!table->leaving && !table->entering && !table->more) continue;
        (void)json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:I,s:b}", "table", table->name, "entries", (json_int_t)table->entries, "leaving",
                                                    (json_int_t)table->leaving, "entering", (json_int_t)table->entering, "more", (int)table->more));
    }
    return list;
}

static json_t *render(const struct ms_report *report, int rc, const char *message)
{
    json_t *object = json_object();
    if (report->is.known) {
        set(object, "name", json_string(report->is.name));
        set(object, "file", report->file[0] ? json_string(report->file) : json_null());
        set(object, "hash", hash_text(report->is.hash));
        set(object, "was", json_pack("{s:s,s:o}", "name", report->was.name, "hash", hash_text(report->was.hash)));
        set(object, "changed", ms_report_changes(&report->was.policy, &report->is.policy));
        set(object, "start_only", ms_report_waiting(&report->wanted, &report->is.policy));
        set(object, "probation_ms", json_integer((json_int_t)report->probation_ms));
    } else if (rc) {
        set(object, "refused", json_string(ms_error_text(rc)));
        set(object, "error", json_string(message));
    }
    if (report->counts.looked) set(object, "tables", count_list(&report->counts));
    set(object, "forced", json_boolean(report->forced));
    return object;
}

int ms_report_end(struct ms_report *report, int rc, char **text)
{
    char message[MS_ERROR_SIZE];
    (void)snprintf(message, sizeof message, "%s", rc ? ms_fail_message(rc) : "");
    if (text) {
        json_t *object = render(report, rc, message);
        *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
        json_decref(object);
    }
    ms_release(report);
    return rc ? ms_fail(rc, "%s", message) : 0;
}
