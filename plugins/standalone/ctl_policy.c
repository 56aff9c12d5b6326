/* Policies: what the node has, another one for it, and what a file would be worth without any node. */
#include "ctl_policy.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/metasync.h"
#include "ctl_call.h"
#include "ctl_print.h"
#include "ctl_replay.h"

static bool human(const struct ctl_options *options)
{
    return !ctl_given(options, CTL_JSON);
}

static unsigned long long count(const json_t *object, const char *name)
{
    return (unsigned long long)field_number(object, name);
}

/* ---- parts of what is shown --------------------------------------------------------------------------------------------- */

static void print_functions(const json_t *functions)
{
    static const char *const head[] = {"FUNCTION", "CALLS", "INCIDENTS", "BUSY", "STATE", "LAST INCIDENT"};
    struct grid grid;
    size_t i;
    const json_t *function;
    if (json_array_size(functions) == 0) return;
    grid_init(&grid, 6, 0xE);
    for (i = 0; i < 6; i++) grid_add(&grid, head[i]);
    json_array_foreach(functions, i, function)
    {
        const char *table = field_text(function, "table");
        grid_addf(&grid, "%s%s%s", field_text(function, "name"), table[0] ? " of " : "", table);
        grid_addf(&grid, "%llu", count(function, "calls"));
        grid_addf(&grid, "%llu", count(function, "incidents"));
        grid_addf(&grid, "%llu", count(function, "busy"));
        grid_add(&grid, field_true(function, "quarantined") ? "QUARANTINED until the next reload" : "called");
        const json_t *last = json_object_get(function, "last");
        if (last)
            grid_addf(&grid, "%s (%s:%llu)", field_text(last, "message"), field_text(last, "file"), count(last, "line"));
        else
            grid_add(&grid, "none");
    }
    printf("\n");
    grid_print(&grid, "  ");
    grid_close(&grid);
}

static void print_fields(json_t *fields)
{
    const char *name;
    json_t *value;
    struct grid grid;
    grid_init(&grid, 2, 0);
    grid_add(&grid, "FIELD");
    grid_add(&grid, "VALUE");
    json_object_foreach(fields, name, value)
    {
        grid_add(&grid, name);
        grid_add(&grid, json_string_value(value));
    }
    printf("\n");
    grid_print(&grid, "  ");
    grid_close(&grid);
}

static const char *or_dash(const char *text)
{
    return text[0] ? text : "-";
}

static void print_changes(const json_t *changed, const char *was, const char *is)
{
    struct grid grid;
    size_t i;
    const json_t *change;
    if (json_array_size(changed) == 0) return;
    grid_init(&grid, 3, 0);
    grid_add(&grid, "FIELD");
    grid_add(&grid, was);
    grid_add(&grid, is);
    json_array_foreach(changed, i, change)
    {
        grid_add(&grid, field_text(change, "field"));
        grid_add(&grid, or_dash(field_text(change, "was")));
        grid_add(&grid, or_dash(field_text(change, "is")));
    }
    grid_print(&grid, "  ");
    grid_close(&grid);
}

static void print_start_only(const json_t *names)
{
    size_t i;
    const json_t *name;
    if (json_array_size(names) == 0) return;
    printf("  at the next start:");
    json_array_foreach(names, i, name) printf("%s %s", i ? "," : "", json_string_value(name));
    printf(" (this node goes on with the old value)\n");
}

static void print_view(const json_t *tables)
{
    struct grid grid;
    size_t i;
    const json_t *table;
    if (json_array_size(tables) == 0) return;
    grid_init(&grid, 4, 0xE);
    grid_add(&grid, "TABLE");
    grid_add(&grid, "ENTRIES");
    grid_add(&grid, "LEAVE");
    grid_add(&grid, "ENTER");
    json_array_foreach(tables, i, table)
    {
        grid_add(&grid, field_text(table, "table"));
        grid_addf(&grid, "%llu", count(table, "entries"));
        grid_addf(&grid, "%llu", count(table, "leaving"));
        grid_addf(&grid, "%llu", count(table, "entering"));
    }
    grid_print(&grid, "  ");
    grid_close(&grid);
}

static void print_name(const json_t *policy)
{
    const char *file = field_text(policy, "file");
    printf("%s: %s, hash %s\n", field_text(policy, "name"), file[0] ? file : "no file", field_text(policy, "hash"));
}

/* ---- show --------------------------------------------------------------------------------------------------------------- */

static void print_state(const json_t *policy)
{
    const json_t *previous = json_object_get(policy, "previous"), *review = json_object_get(policy, "review");
    const char *because = field_text(policy, "rolled_back_because");
    print_name(policy);
    if (count(policy, "loaded_us")) printf("  loaded     %s UTC\n", print_time(field_number(policy, "loaded_us")));
    printf("  reloads    %llu, %llu refused, %llu rolled back\n", count(policy, "reloads"), count(policy, "refused"), count(policy, "rollbacks"));
    if (because[0]) printf("  ROLLED BACK  %s\n", because);
    if (count(policy, "probation_until_us"))
        printf("  probation  until %s UTC: incidents bring the one before back\n", print_time(field_number(policy, "probation_until_us")));
    if (json_is_object(previous))
        printf("  before it  %s, hash %s: policy rollback\n", field_text(previous, "name"), field_text(previous, "hash"));
    if (field_true(review, "running"))
        printf("  view       is being looked at: %llu of %llu entries, %llu have left, %llu have entered\n", count(review, "checked"),
               count(review, "total"), count(review, "left"), count(review, "entered"));
    print_start_only(json_object_get(policy, "start_only"));
}

static int run_show(const struct ctl_options *o)
{
    json_t *reply = NULL;
    int rc = ctl_run(o, ctl_request("policy_show"), CTL_READ, &reply);
    if (!rc && human(o)) {
        print_state(reply);
        print_functions(json_object_get(reply, "functions"));
        print_fields(json_object_get(reply, "fields"));
    }
    json_decref(reply);
    return rc;
}

/* ---- reload, rollback ----------------------------------------------------------------------------------------------------- */

static void print_report(const json_t *report)
{
    print_name(report);
    printf("  instead of %s, hash %s\n", field_text(json_object_get(report, "was"), "name"),
           field_text(json_object_get(report, "was"), "hash"));
    if (count(report, "probation_ms")) printf("  probation  %llu ms: incidents bring the one before back\n", count(report, "probation_ms"));
    print_start_only(json_object_get(report, "start_only"));
    print_changes(json_object_get(report, "changed"), "WAS", "IS");
    print_view(json_object_get(report, "tables"));
}

static int run_change(const struct ctl_options *o, json_t *request)
{
    json_t *reply = NULL;
    int rc = ctl_run(o, request, CTL_WRITE, &reply);
    if (!rc && human(o)) print_report(reply);
    json_decref(reply);
    return rc;
}

static int run_reload(const struct ctl_options *o)
{
    json_t *request = ctl_request("policy_reload");
    if (o->count > 1) json_object_set_new(request, "path", ctl_path(o->args[1]));
    if (ctl_given(o, CTL_FORCE)) json_object_set_new(request, "force", json_true());
    return run_change(o, request);
}

static int run_rollback(const struct ctl_options *o)
{
    return run_change(o, ctl_request("policy_rollback"));
}

/* ---- check ---------------------------------------------------------------------------------------------------------------- */

static void print_problems(const json_t *report)
{
    size_t i;
    const json_t *problem, *problems = json_object_get(report, "problems");
    json_array_foreach(problems, i, problem)
        fprintf(stderr, "metasyncctl: %s: %s\n", field_text(report, "file"), json_string_value(problem));
    if (json_array_size(problems) == 0)
        fprintf(stderr, "metasyncctl: %s\n", field_text(report, "error")[0] ? field_text(report, "error") : ms_error_message());
}

static int run_check(const struct ctl_options *o)
{
    char *text = NULL;
    int rc = ms_policy_test(o->args[1], &text);
    json_t *report = text ? json_loads(text, 0, NULL) : NULL;
    if (!human(o)) {
        puts(text ? text : "{}");
    } else if (rc) {
        print_problems(report);
    } else {
        print_name(report);
        print_changes(json_object_get(report, "changed"), "DEFAULT", "HERE");
    }
    json_decref(report);
    ms_free(text);
    return rc ? CTL_FAILED : CTL_OK;
}

/* ---- dispatch --------------------------------------------------------------------------------------------------------------- */

static const struct verb {
    const char *name;
    size_t least, most; /* words, its own included */
    unsigned takes;
    int (*run)(const struct ctl_options *options);
} verbs[] = {
    {"show", 1, 1, 0, run_show},
    {"check", 2, 2, 0, run_check},
    {"reload", 1, 2, CTL_FORCE, run_reload},
    {"rollback", 1, 1, 0, run_rollback},
    {"replay", 2, 2, CTL_LOG_DIR | CTL_AGAINST, ctl_replay},
};

int ctl_policy(const struct ctl_options *o)
{
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        const struct verb *verb = &verbs[i];
        if (strcmp(verb->name, o->args[0])) continue;
        if (o->given & ~(verb->takes | CTL_EVERYWHERE))
            return ctl_usage("policy %s does not take all of these options; try policy --help", verb->name);
        if (o->count < verb->least || o->count > verb->most)
            return ctl_usage("policy %s: %s words; try policy --help", verb->name, o->count < verb->least ? "too few" : "too many");
        return verb->run(o);
    }
    return ctl_usage("policy %s: expected show, check, reload, rollback or replay; try policy --help", o->args[0]);
}
