/* What a node says of its policy: in the status, for `policy show`, and of a file that no node has loaded yet. What the functions did is
 * told by the policy itself (ops->describe); it is asked without the node's lock, since one of them may be running. */
#include <stdio.h>

#include "lua/policy.h"
#include "node_report.h"

static void set(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value); /* a lack of memory shows when the text is made */
}

static json_t *number(uint64_t n)
{
    return json_integer((json_int_t)n);
}

static json_t *hash_text(uint64_t hash)
{
    char text[20];
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    return json_string(text);
}

/* Paths may be any bytes. */
static json_t *path_text(const char *path)
{
    if (!path[0]) return json_null();
    json_t *string = json_string(path);
    return string ? string : json_string("(not UTF-8)");
}

/* An empty object if it says nothing. */
static json_t *describe(struct ms_rules *rules)
{
    char *text = NULL;
    json_t *object = rules && rules->ops->describe(rules, &text) == 0 ? json_loads(text, 0, NULL) : NULL;
    ms_free(text);
    return object ? object : json_object();
}

/* ---- trouble ------------------------------------------------------------------------------------------------------------------ */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

void ms_policy_trouble(struct ms_rules *rules, uint64_t known, struct ms_trouble *trouble)
{
    size_t i;
    json_t *function;
    *trouble = (struct ms_trouble){.count = rules ? ms_lua_incidents(rules) : 0};
    trouble->quarantined = rules && ms_lua_quarantined(rules);
    if (trouble->count == known) return;
    json_t *object = describe(rules);
    json_int_t most = 0;
    json_array_foreach(json_object_get(object, "functions"), i, function)
    {
        const json_t *last = json_object_get(function, "last");
        json_int_t count = json_integer_value(json_object_get(function, "incidents")) + json_integer_value(json_object_get(function, "busy"));
        if (count <= most) continue;
        most = count;
        (void)snprintf(trouble->last, sizeof trouble->last, "%s: %s (%s:%lld)", text_of(function, "name"),
                       last ? text_of(last, "message") : "it was busy with another call", text_of(last, "file"),
                       (long long)json_integer_value(json_object_get(last, "line")));
    }
    json_decref(object);
}

/* ---- the status ------------------------------------------------------------------------------------------------------------------ */

/* Copied under the lock. */
struct state {
    struct ms_rules *rules; /* a reference */
    uint64_t hash, loaded_us, reloads, rollbacks, refused, events_lost, probation_until_us, before_hash;
    struct ms_policy_review review;
    char file[MS_PATH_MAX], before_file[MS_PATH_MAX], before_name[MS_POLICY_NAME_MAX], note[256];
    bool can_return, changing;
    struct ms_policy wanted, policy; /* what the file says; what the node goes by */
};

static void copy_before(const struct ms_node_policy *p, struct state *state)
{
    const struct ms_rules *before = p->before.rules;
    state->can_return = p->can_return;
    state->before_hash = before ? before->hash : ms_policy_hash(&p->base);
    (void)snprintf(state->before_name, sizeof state->before_name, "%s", before ? before->name : "built-in");
    (void)snprintf(state->before_file, sizeof state->before_file, "%s", p->before.file);
}

static void copy_state(struct ms_node *node, struct state *state)
{
    ms_node_lock(node);
    const struct ms_node_policy *p = &node->rules;
    state->rules = ms_rules_ref(p->now.rules);
    state->hash = node->engine.policy_hash;
    state->loaded_us = p->now.loaded_us;
    state->reloads = p->reloads;
    state->rollbacks = p->rollbacks;
    state->refused = p->refused;
    state->events_lost = p->events_lost;
    state->probation_until_us = p->probation_until ? p->probation_real_us : 0;
    state->review = p->review;
    state->changing = p->changing;
    (void)snprintf(state->file, sizeof state->file, "%s", p->now.file);
    (void)snprintf(state->note, sizeof state->note, "%s", p->note);
    copy_before(p, state);
    state->wanted = p->now.rules ? p->now.rules->policy : p->base;
    state->policy = node->engine.policy;
    ms_node_unlock(node);
}

static json_t *before_of(const struct state *state)
{
    if (!state->can_return) return json_null();
    return json_pack("{s:s,s:o,s:o}", "name", state->before_name, "file", path_text(state->before_file), "hash", hash_text(state->before_hash));
}

static json_t *review_of(const struct ms_policy_review *review)
{
    return json_pack("{s:b,s:I,s:I,s:I,s:I}", "running", (int)(review->active || review->wanted), "checked", (json_int_t)review->checked, "total",
                     (json_int_t)review->total, "left", (json_int_t)review->left, "entered", (json_int_t)review->entered);
}

/* Takes the reference in state. */
static json_t *render(struct state *state)
{
    json_t *object = json_object(), *said = describe(state->rules);
    set(object, "name", json_string(state->rules ? state->rules->name : "built-in"));
    set(object, "file", path_text(state->file));
    set(object, "hash", hash_text(state->hash));
    set(object, "loaded_us", number(state->loaded_us));
    set(object, "reloads", number(state->reloads));
    set(object, "refused", number(state->refused));
    set(object, "rollbacks", number(state->rollbacks));
    set(object, "rolled_back_because", json_string(state->note));
    set(object, "previous", before_of(state));
    set(object, "changing", json_boolean(state->changing));
    set(object, "probation_until_us", number(state->probation_until_us));
    set(object, "start_only", ms_report_waiting(&state->wanted, &state->policy));
    set(object, "events_lost", number(state->events_lost));
    set(object, "review", review_of(&state->review));
    set(object, "functions", json_array());
    set(object, "log", json_array());
    set(object, "rebuilt", number(0));
    (void)json_object_update_existing(object, said);
    ms_rules_unref(state->rules);
    json_decref(said);
    return object;
}

json_t *ms_policy_status(struct ms_node *node)
{
    struct state *state = ms_alloc_zero(sizeof *state);
    if (!state) return NULL;
    copy_state(node, state);
    json_t *object = render(state);
    ms_release(state);
    return object;
}

int ms_policy_show(struct ms_node *node, char **json)
{
    *json = NULL;
    struct state *state = ms_alloc_zero(sizeof *state);
    if (!state) return MS_E_MEMORY;
    copy_state(node, state);
    json_t *object = render(state);
    set(object, "fields", ms_report_fields(&state->policy));
    *json = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    ms_release(state);
    return *json ? 0 : ms_fail(MS_E_MEMORY, "out of memory for the policy");
}

/* ---- a file, without a node --------------------------------------------------------------------------------------------------------- */

static json_t *describe_file(const char *path, const struct ms_rules *rules, json_t *said)
{
    struct ms_policy standard;
    ms_policy_init(&standard);
    json_t *object = json_pack("{s:s,s:o,s:o}", "name", rules->name, "file", path_text(path), "hash", hash_text(rules->hash));
    set(object, "patterns", json_boolean(rules->patterns != NULL));
    set(object, "functions", json_array());
    (void)json_object_update_existing(object, said);
    set(object, "changed", ms_report_changes(&standard, &rules->policy));
    set(object, "fields", ms_report_fields(&rules->policy));
    return object;
}

/* One a line. */
static json_t *problem_list(const struct ms_buf *problems)
{
    json_t *list = json_array();
    const char *at = (const char *)ms_buf_bytes(problems).data, *end = at + problems->size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        if (stop > at) (void)json_array_append_new(list, json_stringn(at, (size_t)(stop - at)));
        at = stop + 1;
    }
    return list;
}

static json_t *describe_refusal(const char *path, int rc, const char *message, const struct ms_buf *problems)
{
    return json_pack("{s:o,s:s,s:s,s:o}", "file", path_text(path), "refused", ms_error_text(rc), "error", message, "problems",
                     problem_list(problems));
}

int ms_policy_test(const char *path, char **report)
{
    struct ms_rules *rules = NULL;
    char message[MS_ERROR_SIZE] = "";
    struct ms_buf problems;
    ms_buf_init(&problems);
    if (report) *report = NULL;
    int rc = ms_lua_check(path, NULL, NULL, &problems, &rules);
    if (!rc) rc = ms_lua_selftest(rules);
    if (rc) (void)snprintf(message, sizeof message, "%s", ms_fail_message(rc));
    json_t *said = describe(rules);
    json_t *object = rc ? describe_refusal(path, rc, message, &problems) : describe_file(path, rules, said);
    if (report) *report = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    json_decref(said);
    ms_buf_close(&problems);
    ms_rules_unref(rules);
    return rc ? ms_fail(rc, "%s", message) : 0;
}
