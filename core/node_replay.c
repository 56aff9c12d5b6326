/* ms_policy_replay: a recorded log through one policy or two (sim/replay.h), as a JSON report. */
#include <jansson.h>
#include <stdio.h>
#include <time.h>

#include "base/error.h"
#include "base/mem.h"
#include "drive/fs.h"
#include "lua/policy.h"
#include "node_losses.h"
#include "sim/replay.h"
#include "state/datadir.h"
#include "sync/render.h"

enum { DIFFERENCES_MAX = 1000 };

struct side { /* one of the two policies */
    const char *path;
    struct ms_replay_clock clock;
    struct ms_rules *rules;
    struct ms_replay *replay;
    double seconds;
};

struct job {
    struct ms_fs *fs;
    const char *log;
    char live[MS_PATH_MAX];
    struct side sides[2];
    int count;
    uint64_t resolved_alike, resolved_otherwise; /* conflicts of which the two made the same, something else */
    json_t *conflicts;                           /* the latter, the first ones */
    uint64_t conflicts_seen, conflicts_unusable;
};

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int run_side(struct job *job, struct side *side)
{
    struct ms_lua_clock clock = {.context = &side->clock, .real_time_us = ms_replay_time};
    int rc = ms_replay_first_time(job->fs, job->live, &side->clock);
    if (!rc) rc = ms_lua_load(side->path, NULL, &clock, &side->rules);
    struct ms_replay_options options = {
        .fs = job->fs, .dir = job->live, .rules = side->rules, .clock = &side->clock, .remember = job->count > 1};
    if (!rc) rc = ms_replay_new(&options, &side->replay);
    double begin = seconds_now();
    if (!rc) rc = ms_replay_run(side->replay);
    side->seconds = seconds_now() - begin;
    return rc;
}

/* ---- conflicts: the loss reports in the archive --------------------------------------------------------------------------------- */

/* A value of a report's line: absent and null are "no value". */
static int read_value(const json_t *json, int *type, struct ms_buf *buf, struct ms_bytes *value)
{
    uint8_t number[8];
    *value = ms_bytes(NULL, 0);
    if (!json || json_is_null(json)) return 0;
    int rc = 0;
    if (json_is_integer(json)) {
        *type = MS_TYPE_INT64;
        struct ms_bytes bytes = ms_int64_put(json_integer_value(json), number);
        ms_buf_add(buf, bytes.data, bytes.size);
    } else {
        rc = ms_render_read_bytes(json, buf);
    }
    *value = ms_buf_bytes(buf);
    return rc ? rc : buf->failed ? MS_E_MEMORY : 0;
}

static int read_key(const json_t *line, struct ms_buf *buf, struct ms_bytes *key)
{
    const json_t *field = json_object_get(line, "field");
    int rc = ms_render_read_bytes(json_object_get(line, "key"), buf);
    if (!rc && field) ms_buf_add8(buf, 0);
    if (!rc && field) rc = ms_render_read_bytes(field, buf);
    *key = ms_buf_bytes(buf);
    return rc;
}

static int reason_of(const char *name)
{
    for (int reason = MS_CONFLICT_DEPOSED; name && reason <= MS_CONFLICT_HOST; reason++)
        if (strcmp(ms_conflict_reason_name(reason), name) == 0) return reason;
    return 0;
}

/* Whether somebody had to decide: not what was certain without asking. */
static bool was_decided(const json_t *line)
{
    const char *by = json_string_value(json_object_get(line, "by"));
    bool certain = by && (strcmp(by, "equal") == 0 || strcmp(by, "resent") == 0 || strcmp(by, "view") == 0);
    return json_object_get(line, "theirs") && json_object_get(line, "mine") && !certain;
}

struct conflict {
    struct ms_conflict conflict;
    struct ms_buf key, mine, theirs, base;
};

static int read_conflict(const json_t *line, struct conflict *read)
{
    struct ms_conflict *conflict = &read->conflict;
    const json_t *base = json_object_get(line, "base");
    conflict->table = json_string_value(json_object_get(line, "table"));
    conflict->reason = reason_of(json_string_value(json_object_get(line, "reason")));
    conflict->type = MS_TYPE_BYTES;
    conflict->base_known = base != NULL;
    if (!conflict->table || !conflict->reason) return MS_E_FORMAT;
    int rc = read_key(line, &read->key, &conflict->key);
    if (!rc) rc = read_value(json_object_get(line, "mine"), &conflict->type, &read->mine, &conflict->mine);
    if (!rc) rc = read_value(json_object_get(line, "theirs"), &conflict->type, &read->theirs, &conflict->theirs);
    if (!rc) rc = read_value(base, &conflict->type, &read->base, &conflict->base);
    const char *newer = json_string_value(json_object_get(line, "newer"));
    if (newer) conflict->newer = strcmp(newer, "mine") == 0 ? 1 : -1;
    if (conflict->base_known && ms_bytes_equal(conflict->theirs, conflict->base)) conflict->newer = 1;
    else if (conflict->base_known && ms_bytes_equal(conflict->mine, conflict->base)) conflict->newer = -1;
    return rc;
}

static struct ms_bytes chosen(const struct ms_conflict *conflict, const struct ms_resolution *resolution)
{
    switch (resolution->outcome) {
    case MS_OUTCOME_MINE: return conflict->mine;
    case MS_OUTCOME_VALUE: return ms_buf_bytes(&resolution->value);
    case MS_OUTCOME_DELETE: return ms_bytes(NULL, 0);
    default: return conflict->theirs;
    }
}

/* Two policies and one conflict. */
static void compare_resolutions(struct job *job, const struct ms_conflict *conflict, const struct ms_resolution *resolutions)
{
    struct ms_bytes values[2] = {chosen(conflict, &resolutions[0]), chosen(conflict, &resolutions[1])};
    bool alike = ms_bytes_equal(values[0], values[1]);
    (*(alike ? &job->resolved_alike : &job->resolved_otherwise))++;
    if (alike || json_array_size(job->conflicts) >= DIFFERENCES_MAX) return;
    json_t *object = json_pack("{s:s}", "table", conflict->table);
    ms_render_set_key(object, conflict->key);
    (void)json_object_set_new(object, "new", ms_render_value((uint8_t)conflict->type, values[0]));
    (void)json_object_set_new(object, "against", ms_render_value((uint8_t)conflict->type, values[1]));
    (void)json_object_set_new(object, "new_by", json_string(resolutions[0].by));
    (void)json_object_set_new(object, "against_by", json_string(resolutions[1].by));
    (void)json_array_append_new(job->conflicts, object);
}

static int offer(struct job *job, const struct ms_conflict *conflict)
{
    struct ms_resolution resolutions[2] = {{.outcome = MS_OUTCOME_THEIRS}, {.outcome = MS_OUTCOME_THEIRS}};
    int rc = 0;
    for (int i = 0; i < job->count && !rc; i++) {
        ms_buf_init(&resolutions[i].value);
        rc = ms_replay_conflict(job->sides[i].replay, conflict, &resolutions[i]);
    }
    if (!rc && job->count > 1) compare_resolutions(job, conflict, resolutions);
    for (int i = 0; i < job->count; i++) ms_buf_close(&resolutions[i].value);
    return rc;
}

static int replay_line(void *context, const struct ms_loss_line *text)
{
    struct job *job = context;
    json_error_t error;
    json_t *line = json_loadb((const char *)text->text.data, text->text.size, JSON_ALLOW_NUL, &error);
    struct conflict read = {0};
    int rc = 0;
    if (line && json_object_get(line, "table") && was_decided(line)) {
        rc = read_conflict(line, &read);
        if (!rc) {
            job->conflicts_seen++;
            rc = offer(job, &read.conflict);
        }
    }
    if (!line || rc == MS_E_FORMAT || rc == MS_E_INVALID || rc == MS_E_TYPE) {
        job->conflicts_unusable++;
        rc = 0;
    }
    ms_buf_close(&read.key);
    ms_buf_close(&read.mine);
    ms_buf_close(&read.theirs);
    ms_buf_close(&read.base);
    json_decref(line);
    return rc;
}

static int replay_conflicts(struct job *job)
{
    char folder[MS_PATH_MAX];
    int rc = ms_path(folder, job->log, "archive");
    if (!rc) rc = ms_losses_read_all(job->fs, folder, replay_line, job);
    return rc == MS_E_NOT_FOUND ? 0 : rc; /* nothing was ever archived */
}

/* ---- the report ------------------------------------------------------------------------------------------------------------------- */

static void number(json_t *object, const char *name, uint64_t value)
{
    (void)json_object_set_new(object, name, json_integer((json_int_t)value));
}

static json_t *report_table(const struct ms_replay_table *table)
{
    json_t *object = json_pack("{s:s, s:s, s:b}", "table", table->name, "type", table->type == MS_TYPE_INT64 ? "int64" : "bytes",
                               "buffered", (int)table->buffered);
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"in", table->in}, {"logged", table->logged}, {"coalesced", table->coalesced}, {"filtered", table->filtered},
        {"unchanged", table->unchanged}, {"refused", table->refused}, {"bytes_in", table->bytes_in}, {"bytes_logged", table->bytes_logged},
        {"entries_at_start", table->start}, {"outside_at_start", table->outside_at_start}, {"flushes", table->flushes},
        {"resolved", table->resolved}, {"resolved_mine", table->resolved_mine}, {"resolved_theirs", table->resolved_theirs},
        {"resolved_other", table->resolved_other}, {"resolve_incidents", table->resolve_incidents}, {"stale_p50_us", table->stale_p50},
        {"stale_p99_us", table->stale_p99}, {"stale_max_us", table->stale_max}, {"at_risk_max", table->risk_max},
        {"at_risk_bytes_max", table->risk_bytes_max},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) number(object, numbers[i].name, numbers[i].value);
    (void)json_object_set_new(object, "at_risk_average", json_real(table->risk_average));
    return object;
}

static json_t *report_side(struct side *side)
{
    char hash[20], *text = NULL;
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)side->rules->hash);
    json_t *object = json_pack("{s:s, s:s, s:s}", "file", side->path, "name", side->rules->name, "hash", hash);
    const struct ms_replay_totals *totals = ms_replay_totals(side->replay);
    number(object, "incidents", ms_lua_incidents(side->rules));
    (void)json_object_set_new(object, "seconds", json_real(side->seconds));
    number(object, "changes_per_second", side->seconds > 0 ? (uint64_t)((double)totals->changes / side->seconds) : 0);
    json_t *tables = json_array();
    const struct ms_replay_table *table;
    for (uint32_t i = 0; (table = ms_replay_table(side->replay, i)); i++) (void)json_array_append_new(tables, report_table(table));
    (void)json_object_set_new(object, "tables", tables);
    if (side->rules->ops->describe(side->rules, &text) == 0) {
        json_t *described = json_loads(text, 0, NULL);
        (void)json_object_set(object, "functions", json_object_get(described, "functions"));
        json_decref(described);
        ms_free(text);
    }
    return object;
}

static int add_difference(void *context, const struct ms_replay_difference *difference)
{
    json_t *list = context, *object = json_pack("{s:s}", "table", difference->table);
    uint8_t type = (uint8_t)difference->type;
    ms_render_set_key(object, difference->key);
    (void)json_object_set_new(object, "new_logged", json_boolean(difference->logged[0]));
    (void)json_object_set_new(object, "against_logged", json_boolean(difference->logged[1]));
    (void)json_object_set_new(object, "new", ms_render_value(type, difference->value[0]));
    (void)json_object_set_new(object, "against", ms_render_value(type, difference->value[1]));
    (void)json_array_append_new(list, object);
    return json_array_size(list) >= DIFFERENCES_MAX;
}

static int report_differences(struct job *job, json_t *report)
{
    json_t *list = json_array();
    struct ms_replay_comparison comparison;
    int rc = ms_replay_compare(job->sides[0].replay, job->sides[1].replay, add_difference, list, &comparison);
    json_t *object = json_object();
    number(object, "entries", comparison.entries);
    number(object, "logged_by_new_only", comparison.only[0]);
    number(object, "logged_by_against_only", comparison.only[1]);
    number(object, "values", comparison.values);
    number(object, "conflicts", job->resolved_otherwise);
    (void)json_object_set_new(object, "list", list);
    (void)json_object_set(object, "conflict_list", job->conflicts);
    (void)json_object_set_new(report, "differences", object);
    return rc;
}

static int make_report(struct job *job, char **text)
{
    const struct ms_replay_totals *totals = ms_replay_totals(job->sides[0].replay);
    json_t *report = json_pack("{s:s}", "log", job->log);
    number(report, "first", totals->first);
    number(report, "last", totals->last);
    number(report, "from_us", totals->from_us);
    number(report, "to_us", totals->to_us);
    number(report, "snapshot", totals->snapshot);
    number(report, "groups", totals->groups);
    number(report, "changes", totals->changes);
    number(report, "epochs", totals->epochs);
    number(report, "left", totals->leaves);
    number(report, "conflicts", job->conflicts_seen);
    number(report, "conflicts_unusable", job->conflicts_unusable);
    (void)json_object_set_new(report, "new", report_side(&job->sides[0]));
    if (job->count > 1) (void)json_object_set_new(report, "against", report_side(&job->sides[1]));
    int rc = job->count > 1 ? report_differences(job, report) : 0;
    *text = rc ? NULL : json_dumps(report, JSON_COMPACT);
    json_decref(report);
    if (!rc && !*text) rc = ms_fail(MS_E_MEMORY, "out of memory for the report");
    return rc;
}

int ms_policy_replay(const char *path, const char *against, const char *log, char **report)
{
    *report = NULL;
    struct job *job = ms_alloc_zero(sizeof *job);
    if (!job) return MS_E_MEMORY;
    *job = (struct job){.fs = ms_fs_posix(), .log = log, .sides = {{.path = path}, {.path = against}}, .count = against ? 2 : 1};
    job->conflicts = json_array();
    int rc = ms_datadir_live(job->fs, log, job->live);
    for (int i = 0; i < job->count && !rc; i++) rc = run_side(job, &job->sides[i]);
    if (!rc) rc = replay_conflicts(job);
    if (!rc) rc = make_report(job, report);
    for (int i = 0; i < job->count; i++) {
        ms_replay_free(job->sides[i].replay);
        ms_rules_unref(job->sides[i].rules);
    }
    json_decref(job->conflicts);
    ms_release(job);
    return rc;
}
