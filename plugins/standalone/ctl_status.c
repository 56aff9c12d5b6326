/* One node is shown in full, several as one line each: first what an operator decides by (role, position, alarm), then details. */
#include "ctl_status.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/metasync.h"
#include "ctl_call.h"
#include "ctl_print.h"
#include "secret.h"

enum { REMOTE_MS = 3000 };

static const char *yes_no(bool yes)
{
    return yes ? "yes" : "no";
}

/* ---- one node in full -------------------------------------------------------------------------------------------------- */

static bool is_role(const json_t *status, const char *role)
{
    return strcmp(field_text(status, "role"), role) == 0;
}

static void print_role(const json_t *status)
{
    const json_t *following = json_object_get(status, "following"), *epoch = json_object_get(status, "epoch");
    printf("%s: %s", field_text(status, "name"), field_text(status, "role"));
    if (json_is_object(following))
        printf(" of %s, %s%s", field_text(following, "leader"), field_text(following, "state"),
               field_true(following, "in_sync") ? ", in sync" : "");
    printf("   (%s)\n", field_text(status, "reason"));
    printf("  cluster    %s, node %s\n", field_text(status, "cluster"), field_text(status, "node"));
    printf("  epoch      reign %llu, run %llu, id %s\n", (unsigned long long)field_number(epoch, "reign"),
           (unsigned long long)field_number(epoch, "run"), field_text(epoch, "id"));
}

static void print_position(const json_t *status)
{
    const json_t *following = json_object_get(status, "following"), *log = json_object_get(status, "log");
    unsigned long long applied = field_number(status, "applied");
    if (json_is_object(following))
        printf("  position   applied %llu of %llu, lag %llu; host applied %llu\n", applied,
               (unsigned long long)field_number(following, "leader_head"),
               (unsigned long long)field_number(following, "lag"), (unsigned long long)field_number(status, "host_applied"));
    else
        printf("  position   applied %llu\n", applied);
    printf("  log        %llu..%llu, written %llu, synced %llu, replicated %llu; room for %s%s%s\n",
           (unsigned long long)field_number(log, "first"), (unsigned long long)field_number(log, "head"),
           (unsigned long long)field_number(log, "written"), (unsigned long long)field_number(log, "synced"),
           (unsigned long long)field_number(log, "replicated"), print_size(field_number(log, "room_bytes")),
           field_true(log, "no_space") ? ", NO SPACE FOR MORE" : "", field_true(log, "failed") ? ", FAILED" : "");
    printf("  snapshot   up to %llu, %s%s\n", (unsigned long long)field_number(log, "snapshot_end"),
           print_size(field_number(log, "snapshot_bytes")),
           field_true(log, "snapshotting") ? ", the next one is being made" : "");
}

/* What an operator has to know of it; the rest is in `policy show`. Nodes of before have none. */
static void print_policy(const json_t *policy)
{
    size_t i;
    unsigned long long incidents = 0, quarantined = 0;
    const json_t *function;
    if (!json_is_object(policy)) return;
    json_array_foreach(json_object_get(policy, "functions"), i, function)
    {
        incidents += field_number(function, "incidents") + field_number(function, "busy");
        quarantined += field_true(function, "quarantined");
    }
    printf("  policy     %s, hash %s%s%s", field_text(policy, "name"), field_text(policy, "hash"),
           field_number(policy, "probation_until_us") ? ", on probation" : "",
           field_true(json_object_get(policy, "review"), "running") ? ", its view is being looked at" : "");
    if (incidents) printf("; INCIDENTS in its functions: %llu", incidents);
    if (quarantined) printf("; QUARANTINED functions: %llu", quarantined);
    printf("\n");
}

static void print_health(const json_t *status)
{
    const char *why_not = field_text(status, "not_promotable_because");
    if (is_role(status, "follower"))
        printf("  failover   %s%s%s\n",
               field_true(status, "safe_to_failover") ? "safe now, nothing would be lost" : "not safe now",
               field_true(status, "promotable") ? "" : "; may not be promoted: ",
               field_true(status, "promotable") ? "" : why_not);
    else if (!field_true(status, "promotable"))
        printf("  failover   may not be promoted: %s\n", why_not);
    if (field_true(status, "damaged")) printf("  DAMAGED    this node's data; it may only follow, and bootstraps then\n");
    unsigned long long alarms = field_number(status, "alarms"), extras = field_number(status, "extras_pending");
    const char *report = json_string_value(json_object_get(status, "loss_report"));
    if (extras) printf("  EXTRAS     %llu changes of a former reign of this node are not decided\n", extras);
    if (report && *report) printf("  losses     see %s\n", report);
    if (alarms)
        printf("  ALARM      %s%s\n", field_text(status, "alarm"), alarms > 1 ? "   (the latest of several)" : "");
    else
        printf("  alarm      none\n");
}

static void add_table(struct grid *grid, const json_t *table)
{
    uint64_t buffer_ms = field_number(table, "buffer_ms");
    grid_add(grid, field_text(table, "name"));
    grid_add(grid, field_text(table, "type"));
    grid_addf(grid, "%llu", (unsigned long long)field_number(table, "entries"));
    grid_add(grid, print_size(field_number(table, "bytes")));
    if (buffer_ms)
        grid_addf(grid, "buffer %llu ms", (unsigned long long)buffer_ms);
    else
        grid_add(grid, field_text(table, "level"));
    if (buffer_ms)
        grid_addf(grid, "%llu", (unsigned long long)field_number(table, "at_risk_entries"));
    else
        grid_add(grid, "-");
    grid_add(grid, field_text(table, "digest"));
}

static void print_tables(const json_t *tables)
{
    static const char *const head[] = {"TABLE", "TYPE", "ENTRIES", "BYTES", "LEVEL", "AT RISK", "DIGEST"};
    struct grid grid;
    size_t i;
    const json_t *table;
    if (json_array_size(tables) == 0) return;
    grid_init(&grid, 7, 1 << 2 | 1 << 3 | 1 << 5);
    for (i = 0; i < 7; i++) grid_add(&grid, head[i]);
    json_array_foreach(tables, i, table) add_table(&grid, table);
    printf("\n");
    grid_print(&grid, "  ");
    grid_close(&grid);
}

static void print_peers(const json_t *peers)
{
    static const char *const head[] = {"PEER", "ADDRESS", "STATE", "IN SYNC", "DURABLE", "APPLIED", "HOST", "LAG"};
    struct grid grid;
    size_t i;
    const json_t *peer;
    if (json_array_size(peers) == 0) return;
    grid_init(&grid, 8, 0xF0);
    for (i = 0; i < 8; i++) grid_add(&grid, head[i]);
    json_array_foreach(peers, i, peer)
    {
        grid_add(&grid, field_text(peer, "name"));
        grid_add(&grid, field_text(peer, "address"));
        grid_add(&grid, field_text(peer, "state"));
        grid_add(&grid, yes_no(field_true(peer, "in_sync")));
        grid_addf(&grid, "%llu", (unsigned long long)field_number(peer, "durable"));
        grid_addf(&grid, "%llu", (unsigned long long)field_number(peer, "applied"));
        grid_addf(&grid, "%llu", (unsigned long long)field_number(peer, "host_applied"));
        grid_addf(&grid, "%llu", (unsigned long long)field_number(peer, "lag"));
    }
    printf("\n");
    grid_print(&grid, "  ");
    grid_close(&grid);
}

static void print_status(const json_t *status)
{
    print_role(status);
    print_position(status);
    print_health(status);
    print_policy(json_object_get(status, "policy"));
    print_tables(json_object_get(status, "tables"));
    print_peers(json_object_get(status, "peers"));
}

/* ---- several nodes ----------------------------------------------------------------------------------------------------- */

struct remotes {
    const struct ctl_options *options;
    const char *secret;
    json_t *found[CTL_ARGS_MAX]; /* NULL = not reached; then why */
    char why[CTL_ARGS_MAX][300];
    int codes[CTL_ARGS_MAX];
};

/* Both nodes say the same position of the same history: then their tables have to be equal. */
static bool same_place(const json_t *a, const json_t *b)
{
    const json_t *at_a = json_object_get(a, "epoch"), *at_b = json_object_get(b, "epoch");
    return field_number(a, "applied") == field_number(b, "applied") &&
           strcmp(field_text(at_a, "id"), field_text(at_b, "id")) == 0;
}

static bool same_tables(const json_t *a, const json_t *b, const char **which)
{
    const json_t *list = json_object_get(a, "tables"), *others = json_object_get(b, "tables");
    for (size_t i = 0; i < json_array_size(list) && i < json_array_size(others); i++) {
        const json_t *one = json_array_get(list, i), *other = json_array_get(others, i);
        *which = field_text(one, "name");
        if (strcmp(*which, field_text(other, "name")) || strcmp(field_text(one, "digest"), field_text(other, "digest")))
            return false;
    }
    *which = "their number";
    return json_array_size(list) == json_array_size(others);
}

static void print_comparison(const struct remotes *remotes)
{
    const char *which = "";
    for (size_t i = 0; i < remotes->options->count; i++)
        for (size_t k = i + 1; k < remotes->options->count; k++) {
            const json_t *a = remotes->found[i], *b = remotes->found[k];
            if (!a || !b || !same_place(a, b)) continue;
            bool same = same_tables(a, b, &which);
            printf("%s and %s at position %llu: %s%s%s\n", remotes->options->args[i], remotes->options->args[k],
                   (unsigned long long)field_number(a, "applied"), same ? "equal tables" : "TABLES DIFFER (",
                   same ? "" : which, same ? "" : ")");
        }
}

static void add_node(struct grid *grid, const char *address, const json_t *status)
{
    const json_t *epoch = json_object_get(status, "epoch"), *following = json_object_get(status, "following");
    grid_add(grid, address);
    grid_add(grid, field_text(status, "name"));
    grid_add(grid, field_text(status, "role"));
    grid_addf(grid, "%llu.%llu", (unsigned long long)field_number(epoch, "reign"),
              (unsigned long long)field_number(epoch, "run"));
    grid_addf(grid, "%llu", (unsigned long long)field_number(status, "applied"));
    if (json_is_object(following))
        grid_addf(grid, "%llu", (unsigned long long)field_number(following, "lag"));
    else
        grid_add(grid, "-");
    grid_add(grid, json_is_object(following) ? field_text(following, "state") : "-");
    grid_add(grid, is_role(status, "follower") ? yes_no(field_true(status, "safe_to_failover")) : "-");
    grid_add(grid, field_number(status, "alarms") ? field_text(status, "alarm") : "none");
}

static void print_remotes(const struct remotes *remotes)
{
    static const char *const head[] = {"ADDRESS", "NAME", "ROLE", "EPOCH", "APPLIED", "LAG", "STATE", "SAFE", "ALARM"};
    struct grid grid;
    grid_init(&grid, 9, 1 << 4 | 1 << 5);
    for (size_t i = 0; i < 9; i++) grid_add(&grid, head[i]);
    for (size_t i = 0; i < remotes->options->count; i++) {
        if (remotes->found[i]) {
            add_node(&grid, remotes->options->args[i], remotes->found[i]);
            continue;
        }
        grid_add(&grid, remotes->options->args[i]);
        grid_add(&grid, "-");
        grid_add(&grid, "DOWN");
        for (size_t k = 3; k < 8; k++) grid_add(&grid, "-");
        grid_add(&grid, remotes->why[i]);
    }
    grid_print(&grid, "");
    grid_close(&grid);
}

/* A line of JSON for each node, in the order of the words. */
static void print_raw(const char *address, json_t *status, int code, const char *why)
{
    json_t *object = json_pack("{s:s,s:b}", "address", address, "ok", status != NULL);
    if (status)
        json_object_update(object, status);
    else
        json_object_update_new(object, json_pack("{s:s,s:s}", "code", ctl_code_name(code), "error", why));
    char *text = json_dumps(object, JSON_COMPACT);
    puts(text ? text : "");
    free(text);
    json_decref(object);
}

static void ask_node(struct remotes *remotes, size_t i)
{
    const struct ctl_options *o = remotes->options;
    char *text = NULL;
    int rc = ms_remote_status(o->args[i], o->cluster ? o->cluster : "default", remotes->secret,
                              ctl_given(o, CTL_TIMEOUT) ? o->timeout_ms : REMOTE_MS, &text);
    if (rc) (void)snprintf(remotes->why[i], sizeof remotes->why[i], "%s", ms_error_message());
    remotes->codes[i] = rc;
    remotes->found[i] = rc ? NULL : json_loads(text, 0, NULL);
    ms_free(text);
}

static int show_remotes(struct remotes *remotes)
{
    const struct ctl_options *o = remotes->options;
    int status = CTL_OK;
    for (size_t i = 0; i < o->count; i++) {
        ask_node(remotes, i);
        if (!remotes->found[i]) status = CTL_UNREACHABLE;
        if (ctl_given(o, CTL_JSON)) print_raw(o->args[i], remotes->found[i], remotes->codes[i], remotes->why[i]);
    }
    if (!ctl_given(o, CTL_JSON)) {
        if (o->count == 1 && remotes->found[0])
            print_status(remotes->found[0]);
        else
            print_remotes(remotes);
        print_comparison(remotes);
    }
    for (size_t i = 0; i < o->count; i++) json_decref(remotes->found[i]);
    return status;
}

int ctl_status(const struct ctl_options *options)
{
    char secret[SECRET_MAX];
    if (options->count) {
        if (ctl_given(options, CTL_DATA | CTL_CONTROL))
            return ctl_usage("status asks either HOST:PORT or the node of --data or --control");
        if (options->secret_file && secret_read(options->secret_file, secret)) return CTL_FAILED;
        struct remotes *remotes = calloc(1, sizeof *remotes);
        if (!remotes) return CTL_FAILED;
        remotes->options = options;
        remotes->secret = options->secret_file ? secret : NULL;
        int rc = show_remotes(remotes);
        free(remotes);
        return rc;
    }
    json_t *reply = NULL;
    int rc = ctl_run(options, ctl_request("status"), CTL_READ, &reply);
    if (!rc && !ctl_given(options, CTL_JSON)) print_status(reply);
    json_decref(reply);
    return rc;
}
