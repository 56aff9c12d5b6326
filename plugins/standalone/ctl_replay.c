#include "ctl_replay.h"

#include <jansson.h>
#include <stdlib.h>

#include "../../core/metasync.h"
#include "ctl_call.h"
#include "ctl_print.h"

enum { SHOWN_MAX = 20 }; /* differences; --json has more */

static unsigned long long count(const json_t *object, const char *name)
{
    return (unsigned long long)field_number(object, name);
}

/* "230 us", "1.5 s": times here are from microseconds to hours. */
static const char *span(uint64_t us)
{
    static char texts[8][32];
    static unsigned turn;
    char *text = texts[turn++ % 8];
    if (us < 1000)
        (void)snprintf(text, sizeof texts[0], "%llu us", (unsigned long long)us);
    else if (us < 1000000)
        (void)snprintf(text, sizeof texts[0], "%.1f ms", (double)us / 1e3);
    else
        (void)snprintf(text, sizeof texts[0], "%.1f s", (double)us / 1e6);
    return text;
}

static void add_table(struct grid *grid, const json_t *table)
{
    static const char *const counts[] = {"in", "logged", "coalesced", "filtered", "unchanged", "refused", "resolved"};
    grid_add(grid, field_text(table, "table")[0] ? field_text(table, "table") : field_text(table, "name"));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) grid_addf(grid, "%llu", count(table, counts[i]));
    grid_add(grid, print_size(field_number(table, "bytes_logged")));
    grid_addf(grid, "%s / %s / %s", span(field_number(table, "stale_p50_us")), span(field_number(table, "stale_p99_us")),
              span(field_number(table, "stale_max_us")));
    grid_addf(grid, "%llu", count(table, "at_risk_max"));
}

static void print_side(const json_t *side)
{
    static const char *const head[] = {"TABLE", "IN", "LOGGED", "COALESCED", "FILTERED", "UNCHANGED", "REFUSED", "RESOLVED", "LOGGED BYTES",
                                       "STALE p50 / p99 / max", "AT RISK"};
    enum { COLUMNS = sizeof head / sizeof *head };
    struct grid grid;
    size_t i;
    const json_t *table;
    printf("\n%s: %s, hash %s; %llu incidents\n", field_text(side, "name"), field_text(side, "file"), field_text(side, "hash"),
           count(side, "incidents"));
    grid_init(&grid, COLUMNS, 0x5FE);
    for (i = 0; i < COLUMNS; i++) grid_add(&grid, head[i]);
    json_array_foreach(json_object_get(side, "tables"), i, table) add_table(&grid, table);
    grid_print(&grid, "  ");
    grid_close(&grid);
}

static void add_value(struct grid *grid, const json_t *difference, const char *name)
{
    char *text = print_value(json_object_get(difference, name));
    grid_add(grid, text && text[0] ? text : "-");
    free(text);
}

static void print_list(const json_t *list)
{
    static const char *const head[] = {"TABLE", "KEY", "FIELD", "NEW", "AGAINST"};
    struct grid grid;
    size_t i;
    const json_t *difference;
    if (json_array_size(list) == 0) return;
    grid_init(&grid, 5, 0);
    for (i = 0; i < 5; i++) grid_add(&grid, head[i]);
    json_array_foreach(list, i, difference)
    {
        if (i == SHOWN_MAX) break;
        grid_add(&grid, field_text(difference, "table"));
        add_value(&grid, difference, "key");
        add_value(&grid, difference, "field");
        add_value(&grid, difference, "new");
        add_value(&grid, difference, "against");
    }
    grid_print(&grid, "  ");
    grid_close(&grid);
    if (json_array_size(list) > SHOWN_MAX) printf("  (there are more: --json)\n");
}

static void print_differences(const json_t *differences)
{
    if (!differences) return;
    printf("\ndifferences: of %llu entries %llu are logged by the new policy only, %llu by the other only; %llu end with another value\n",
           count(differences, "entries"), count(differences, "logged_by_new_only"), count(differences, "logged_by_against_only"),
           count(differences, "values"));
    print_list(json_object_get(differences, "list"));
    if (count(differences, "conflicts")) printf("conflicts that they resolve otherwise: %llu\n", count(differences, "conflicts"));
    print_list(json_object_get(differences, "conflict_list"));
}

static void print_report(const json_t *report)
{
    printf("%s: %llu changes in %llu groups, lsn %llu to %llu, %s to %s UTC", field_text(report, "log"), count(report, "changes"),
           count(report, "groups"), count(report, "first"), count(report, "last"), print_time(field_number(report, "from_us")),
           print_time(field_number(report, "to_us")));
    if (count(report, "conflicts")) printf("; %llu conflicts", count(report, "conflicts"));
    printf("\n");
    print_side(json_object_get(report, "new"));
    if (json_object_get(report, "against")) print_side(json_object_get(report, "against"));
    print_differences(json_object_get(report, "differences"));
}

int ctl_replay(const struct ctl_options *o)
{
    char *text = NULL;
    if (!o->log_dir) return ctl_usage("policy replay needs --log DIR, the data directory whose log it is");
    int rc = ms_policy_replay(o->args[1], o->against, o->log_dir, &text);
    if (rc) {
        fprintf(stderr, "metasyncctl: %s\n", ms_error_message());
    } else if (ctl_given(o, CTL_JSON)) {
        puts(text);
    } else {
        json_t *report = json_loads(text, 0, NULL);
        print_report(report);
        json_decref(report);
    }
    ms_free(text);
    return rc == 0 ? CTL_OK : rc == MS_E_NOT_FOUND ? CTL_NOT_FOUND : CTL_FAILED;
}
