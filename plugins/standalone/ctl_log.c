#include "ctl_log.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/metasync.h"
#include "ctl_call.h"
#include "ctl_print.h"

static int print_raw_line(void *context, const char *line)
{
    (void)context;
    return puts(line) < 0; /* a closed pipe ends it */
}

/* What a record says besides what is shown of it: what is left of the object. */
static void print_rest(json_t *record, const char *const *shown, size_t count)
{
    for (size_t i = 0; i < count; i++) json_object_del(record, shown[i]);
    char *text = json_object_size(record) ? json_dumps(record, JSON_COMPACT) : NULL;
    if (text) printf("  %s", text);
    free(text);
}

static void print_change(const json_t *record)
{
    char *key = print_key_part(json_object_get(record, "key"), 0, false);
    char *field = print_key_part(json_object_get(record, "key"), 1, true);
    char *value = print_value(json_object_get(record, "value"));
    printf("  %s  %s%s%s", field_text(record, "table"), key ? key : "?", field ? " / " : "", field ? field : "");
    if (json_object_get(record, "value")) printf("  %s", value ? value : "?");
    free(key);
    free(field);
    free(value);
}

static void print_part(const json_t *loss, const char *name)
{
    const json_t *part = json_object_get(loss, name);
    char *value = json_is_null(part) ? NULL : print_value(part);
    if (part) printf("  %s %s", name, json_is_null(part) ? "nothing" : value ? value : "?");
    free(value);
}

/* A line of a loss report: when it was decided, which entry, who won and by what, and what there was to decide between. */
static int print_loss(json_t *loss)
{
    static const char *const shown[] = {"time_us", "table", "key",          "field", "reason", "outcome",   "by", /* in the columns */
                                        "mine",    "theirs", "theirs_bytes", "base",  "newer",  "value", "up_to_lsn", "lsn", "why"};
    enum { COLUMNS = 7 };
    char *key = print_value(json_object_get(loss, "key")), *field = print_value(json_object_get(loss, "field"));
    uint64_t time_us = field_number(loss, "time_us");
    printf("%s  %-8s  ", time_us ? print_time(time_us) : "-", field_text(loss, "reason"));
    if (json_object_get(loss, "table"))
        printf("%s  %s%s%s  ", field_text(loss, "table"), key ? key : "?", json_object_get(loss, "field") ? " / " : "",
               json_object_get(loss, "field") ? field ? field : "?" : "");
    printf("%s by %s", field_text(loss, "outcome"), field_text(loss, "by"));
    for (size_t i = COLUMNS; i < sizeof shown / sizeof *shown; i++) print_part(loss, shown[i]);
    free(key);
    free(field);
    print_rest(loss, shown, sizeof shown / sizeof *shown);
    json_decref(loss);
    return putchar('\n') < 0;
}

/* LSN, time, what happened; snapshots have entries without lsn. */
static int print_line(void *context, const char *line)
{
    static const char *const shown[] = {"lsn", "time_us", "op", "table", "key", "value"};
    (void)context;
    json_t *record = json_loads(line, JSON_ALLOW_NUL, NULL);
    if (!record) return print_raw_line(NULL, line);
    if (json_object_get(record, "outcome")) return print_loss(record);
    uint64_t lsn = field_number(record, "lsn"), time_us = field_number(record, "time_us");
    if (lsn)
        printf("%10llu  ", (unsigned long long)lsn);
    else
        printf("%10s  ", "-");
    printf("%s  %-6s", time_us ? print_time(time_us) : "-", field_text(record, "op"));
    if (json_object_get(record, "key") && json_object_get(record, "table"))
        print_change(record);
    else if (json_object_get(record, "name"))
        printf("  %s", field_text(record, "name"));
    print_rest(record, shown, sizeof shown / sizeof *shown);
    json_decref(record);
    return putchar('\n') < 0;
}

int ctl_log(const struct ctl_options *options)
{
    int rc = ms_log_dump(options->args[0], options->from, ctl_given(options, CTL_JSON) ? print_raw_line : print_line, NULL);
    if (rc >= 0) return CTL_OK;
    (void)fflush(stdout);
    fprintf(stderr, "metasyncctl: %s\n", ms_error_message());
    return rc == MS_E_NOT_FOUND ? CTL_NOT_FOUND : CTL_FAILED;
}
