/* metasyncctl: what an operator or a script says to a node. Each command is one request to the node's control socket, or, for `status
 * HOST:PORT` and `log`, needs no node of this machine. With --json the node's reply is printed as it came. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/metasync.h"
#include "ctl_batch.h"
#include "ctl_call.h"
#include "ctl_help.h"
#include "ctl_log.h"
#include "ctl_policy.h"
#include "ctl_print.h"
#include "ctl_status.h"

static bool human(const struct ctl_options *options)
{
    return !ctl_given(options, CTL_JSON);
}

/* ---- look -------------------------------------------------------------------------------------------------------------- */

static void print_tables(const json_t *tables)
{
    struct grid grid;
    size_t i;
    const json_t *table;
    grid_init(&grid, 3, 1 << 2);
    grid_add(&grid, "TABLE");
    grid_add(&grid, "TYPE");
    grid_add(&grid, "ENTRIES");
    json_array_foreach(tables, i, table)
    {
        grid_add(&grid, field_text(table, "name"));
        grid_add(&grid, field_text(table, "type"));
        grid_addf(&grid, "%llu", (unsigned long long)field_number(table, "entries"));
    }
    grid_print(&grid, "");
    grid_close(&grid);
}

static void add_cell(struct grid *grid, char *text)
{
    grid_add(grid, text);
    free(text);
}

static void print_entries(const json_t *entries)
{
    struct grid grid;
    size_t i;
    const json_t *entry;
    grid_init(&grid, 3, 0);
    grid_add(&grid, "KEY");
    grid_add(&grid, "FIELD");
    grid_add(&grid, "VALUE");
    json_array_foreach(entries, i, entry)
    {
        const json_t *key = json_object_get(entry, "key");
        add_cell(&grid, print_key_part(key, 0, false));
        add_cell(&grid, print_key_part(key, 1, true));
        add_cell(&grid, print_value(json_object_get(entry, "value")));
    }
    grid_print(&grid, "");
    grid_close(&grid);
}

static int run_ls(const struct ctl_options *o)
{
    if (o->count == 0 && ctl_given(o, CTL_PREFIX | CTL_LIMIT)) return ctl_usage("ls: --prefix and --limit go with a TABLE");
    json_t *request = ctl_request("ls"), *reply = NULL;
    if (o->count) json_object_set_new(request, "table", json_string(o->args[0]));
    if (o->prefix) json_object_set_new(request, "prefix", ctl_key(o->prefix, NULL));
    if (ctl_given(o, CTL_LIMIT)) json_object_set_new(request, "limit", json_integer((json_int_t)o->limit));
    int rc = ctl_run(o, request, CTL_READ, &reply);
    if (!rc && human(o)) {
        if (o->count)
            print_entries(json_object_get(reply, "entries"));
        else
            print_tables(json_object_get(reply, "tables"));
        if (field_true(reply, "truncated")) printf("(there are more: --limit N)\n");
    }
    json_decref(reply);
    return rc;
}

static json_t *entry_request(const char *command, const struct ctl_options *o, const char *field)
{
    json_t *request = ctl_request(command);
    json_object_set_new(request, "table", json_string(o->args[0]));
    json_object_set_new(request, "key", ctl_key(o->args[1], field));
    return request;
}

static int run_get(const struct ctl_options *o)
{
    json_t *reply = NULL;
    int rc = ctl_run(o, entry_request("get", o, o->count > 2 ? o->args[2] : NULL), CTL_READ, &reply);
    if (!rc && human(o)) {
        const json_t *value = json_object_get(reply, "value");
        char *text = json_is_string(value) ? NULL : print_value(value);
        if (text)
            (void)fputs(text, stdout);
        else
            (void)fwrite(json_string_value(value), 1, json_string_length(value), stdout);
        (void)putchar('\n');
        free(text);
    }
    json_decref(reply);
    return rc;
}

static int run_applied(const struct ctl_options *o)
{
    uint64_t lsn;
    if (!ctl_number(o->args[0], INT64_MAX, &lsn))
        return ctl_usage("applied %s: expected a position, a whole number", o->args[0]);
    json_t *request = ctl_request("applied"), *reply = NULL;
    json_object_set_new(request, "lsn", json_integer((json_int_t)lsn));
    int rc = ctl_run(o, request, CTL_READ, &reply);
    uint64_t time_us = field_number(reply, "time_us");
    if (!rc && human(o)) printf("%s UTC (%llu us)\n", print_time(time_us), (unsigned long long)time_us);
    json_decref(reply);
    return rc;
}

/* ---- change ------------------------------------------------------------------------------------------------------------ */

static int run_write(const struct ctl_options *o, json_t *request)
{
    json_t *reply = NULL;
    int rc = ctl_run(o, request, CTL_WRITE, &reply);
    if (!rc && human(o) && field_true(reply, "local"))
        printf("not logged: the policy leaves it out of the view\n");
    else if (!rc && human(o))
        printf("position %llu\n", (unsigned long long)field_number(reply, "lsn"));
    json_decref(reply);
    return rc;
}

/* Whether the table holds int64: as it is, else as --type says. */
static int find_type(const struct ctl_options *o, const char *name, bool *int64)
{
    json_t *reply = NULL;
    const json_t *table;
    size_t i;
    int rc = ctl_call(o, ctl_request("ls"), CTL_READ, &reply);
    *int64 = o->type && strcmp(o->type, "int64") == 0;
    json_array_foreach(json_object_get(reply, "tables"), i, table)
    {
        if (strcmp(field_text(table, "name"), name) == 0) *int64 = strcmp(field_text(table, "type"), "int64") == 0;
    }
    json_decref(reply);
    return rc;
}

static int run_put(const struct ctl_options *o)
{
    if (o->batch) return o->count ? ctl_usage("put --batch FILE takes no more words") : ctl_batch(o);
    if (o->count < 3) return ctl_usage("put needs TABLE KEY [FIELD] VALUE, or --batch FILE; try put --help");
    bool int64;
    const char *text = o->args[o->count - 1];
    int rc = find_type(o, o->args[0], &int64);
    if (rc) return rc;
    json_t *value = int64 ? json_loads(text, JSON_DECODE_ANY, NULL) : ctl_key(text, NULL);
    if (int64 && !json_is_integer(value)) {
        json_decref(value);
        return ctl_usage("put: %s holds whole numbers of 64 bits, %s is none", o->args[0], text);
    }
    json_t *request = entry_request("put", o, o->count > 3 ? o->args[2] : NULL);
    json_object_set_new(request, "value", value);
    if (o->type) json_object_set_new(request, "type", json_string(o->type));
    return run_write(o, request);
}

static int run_delete(const struct ctl_options *o)
{
    return run_write(o, entry_request("delete", o, o->count > 2 ? o->args[2] : NULL));
}

static int run_flush(const struct ctl_options *o)
{
    json_t *request = ctl_request("flush");
    if (o->count) json_object_set_new(request, "table", json_string(o->args[0]));
    return run_write(o, request);
}

static int run_wait(const struct ctl_options *o)
{
    uint64_t lsn;
    static const char *const levels[] = {"memory", "os", "disk", "replica"};
    bool known = false;
    for (size_t i = 0; i < 4; i++) known = known || strcmp(levels[i], o->args[1]) == 0;
    if (!ctl_number(o->args[0], INT64_MAX, &lsn))
        return ctl_usage("wait %s: expected a position, a whole number", o->args[0]);
    if (!known) return ctl_usage("wait %s %s: expected memory, os, disk or replica", o->args[0], o->args[1]);
    json_t *request = ctl_request("wait");
    json_object_set_new(request, "lsn", json_integer((json_int_t)lsn));
    json_object_set_new(request, "level", json_string(o->args[1]));
    return ctl_run(o, request, CTL_RESULT, NULL);
}

/* ---- files ------------------------------------------------------------------------------------------------------------- */


static void print_files(const json_t *files, bool import)
{
    static const char *const imported[] = {"FILE", "SOURCE", "ROWS", "PUT", "DELETED", "UNCHANGED", "REMARK"};
    static const char *const exported[] = {"FILE", "WRITTEN", "ROWS", "BYTES", "OLD KEPT", "", "REMARK"};
    struct grid grid;
    const json_t *file;
    size_t i;
    grid_init(&grid, 7, 0x3C);
    for (i = 0; i < 7; i++) grid_add(&grid, import ? imported[i] : exported[i]);
    json_array_foreach(files, i, file)
    {
        grid_add(&grid, field_text(file, "file"));
        grid_add(&grid, import ? field_text(file, "source") : field_true(file, "written") ? "yes" : "no change");
        grid_addf(&grid, "%llu", (unsigned long long)field_number(file, "rows"));
        grid_addf(&grid, "%llu", (unsigned long long)field_number(file, import ? "put" : "bytes"));
        if (import)
            grid_addf(&grid, "%llu", (unsigned long long)field_number(file, "deleted"));
        else
            grid_add(&grid, field_true(file, "kept_as_bak") ? "as .bak" : "-");
        if (import)
            grid_addf(&grid, "%llu", (unsigned long long)field_number(file, "unchanged"));
        else
            grid_add(&grid, "");
        const char *reason = field_text(file, "reason");
        grid_addf(&grid, "%s%s%s%s", field_true(file, "skipped") ? "SKIPPED: " : "", reason,
                  reason[0] && field_text(file, "trouble")[0] ? "; " : "", field_text(file, "trouble"));
    }
    grid_print(&grid, "");
    grid_close(&grid);
}

/* Entries of skipped files that differ from what is here. */
static void print_skipped(const json_t *skipped)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(skipped, i, entry)
    {
        printf("skipped: %s %s %s%s%s\n", field_text(entry, "change"), field_text(entry, "table"), field_text(entry, "key"),
               json_object_get(entry, "field") ? " / " : "", field_text(entry, "field"));
    }
}

/* Of what moment the files are. */
static void print_span(const json_t *reply)
{
    uint64_t from = field_number(reply, "from"), to = field_number(reply, "to");
    if (from == to)
        printf("as of position %llu\n", (unsigned long long)to);
    else
        printf("all up to position %llu, and some of what came until %llu\n", (unsigned long long)from, (unsigned long long)to);
}

static int run_files(const struct ctl_options *o)
{
    bool import = strcmp(o->command, "import") == 0;
    json_t *request = ctl_request(o->command), *reply = NULL;
    json_object_set_new(request, "dir", ctl_path(o->args[0]));
    if (ctl_given(o, CTL_FORCE)) json_object_set_new(request, "force", json_true());
    int rc = ctl_run(o, request, CTL_LONG, &reply);
    if (!rc && human(o)) {
        print_files(json_object_get(reply, "files"), import);
        print_skipped(json_object_get(reply, "skipped"));
        if (!import) print_span(reply);
    }
    json_decref(reply);
    return rc;
}

/* ---- operate ----------------------------------------------------------------------------------------------------------- */

/* Says what became of it: the status has the new role and why. */
static int run_and_show(const struct ctl_options *o, json_t *request)
{
    json_t *reply = NULL;
    int rc = ctl_run(o, request, CTL_RESULT, NULL);
    if (rc || !human(o)) return rc;
    if (ctl_call(o, ctl_request("status"), CTL_READ, &reply) == CTL_OK)
        printf("%s: %s (%s)\n", field_text(reply, "name"), field_text(reply, "role"), field_text(reply, "reason"));
    json_decref(reply);
    return CTL_OK;
}

static int run_lead(const struct ctl_options *o)
{
    json_t *request = ctl_request("lead"), *peers = json_array();
    for (size_t i = 0; i < o->peer_count; i++) json_array_append_new(peers, json_string(o->peers[i]));
    json_object_set_new(request, "peers", peers);
    return run_and_show(o, request);
}

static int run_follow(const struct ctl_options *o)
{
    json_t *request = ctl_request("follow");
    json_object_set_new(request, "address", json_string(o->args[0]));
    return run_and_show(o, request);
}

static int run_promote(const struct ctl_options *o)
{
    json_t *request = ctl_request("promote");
    if (ctl_given(o, CTL_FORCE)) json_object_set_new(request, "force", json_true());
    return run_and_show(o, request);
}

static int run_adopt(const struct ctl_options *o)
{
    return run_and_show(o, ctl_request("adopt"));
}

static int run_snapshot(const struct ctl_options *o)
{
    return ctl_run(o, ctl_request("snapshot"), CTL_RESULT, NULL);
}

/* ---- dispatch ---------------------------------------------------------------------------------------------------------- */

static const struct command {
    const char *name;
    size_t least, most; /* words */
    unsigned takes;     /* options, besides CTL_EVERYWHERE */
    int (*run)(const struct ctl_options *options);
} commands[] = {
    {"status", 0, CTL_ARGS_MAX, CTL_CLUSTER | CTL_SECRET, ctl_status},
    {"ls", 0, 1, CTL_PREFIX | CTL_LIMIT, run_ls},
    {"get", 2, 3, 0, run_get},
    {"put", 0, 4, CTL_TYPE | CTL_BATCH, run_put},
    {"delete", 2, 3, 0, run_delete},
    {"flush", 0, 1, 0, run_flush},
    {"wait", 2, 2, 0, run_wait},
    {"applied", 1, 1, 0, run_applied},
    {"log", 1, 1, CTL_FROM, ctl_log},
    {"import", 1, 1, CTL_FORCE, run_files},
    {"export", 1, 1, 0, run_files},
    {"lead", 0, 0, CTL_PEER, run_lead},
    {"follow", 1, 1, 0, run_follow},
    {"promote", 0, 0, CTL_FORCE, run_promote},
    {"adopt", 0, 0, 0, run_adopt},
    {"snapshot", 0, 0, 0, run_snapshot},
    {"policy", 1, 2, CTL_FORCE | CTL_LOG_DIR | CTL_AGAINST, ctl_policy},
};

static int run_command(const struct command *command, const struct ctl_options *o)
{
    if (ctl_given(o, CTL_HELP)) {
        (void)fputs(ctl_help_of(command->name), stdout);
        return CTL_OK;
    }
    if (o->given & ~(command->takes | CTL_EVERYWHERE))
        return ctl_usage("%s does not take all of these options; try %s --help", command->name, command->name);
    if (o->count < command->least || o->count > command->most)
        return ctl_usage("%s: %s words; try %s --help", command->name, o->count < command->least ? "too few" : "too many",
                         command->name);
    return command->run(o);
}

int main(int argc, char **argv)
{
    struct ctl_options options;
    (void)signal(SIGPIPE, SIG_IGN);
    int rc = ctl_options_parse(argc, argv, &options);
    if (rc) return rc;
    if (ctl_given(&options, CTL_VERSION)) return puts("metasyncctl " MS_VERSION) < 0;
    for (size_t i = 0; options.command && i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, options.command) == 0) return run_command(&commands[i], &options);
    if (options.command && strcmp(options.command, "help"))
        return ctl_usage("there is no command %s; try --help", options.command);
    (void)fputs(ctl_help_general, options.command || ctl_given(&options, CTL_HELP) ? stdout : stderr);
    return options.command || ctl_given(&options, CTL_HELP) ? CTL_OK : CTL_USAGE;
}
