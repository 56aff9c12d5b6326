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

/* What a record says besides its table: what is left of the object. */
static void print_rest(json_t *record)
{
    static const char *const shown[] = {"lsn", "time_us", "op", "table", "key", "value"};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) json_object_del(record, shown[i]);
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

/* LSN, time, what happened; snapshots have entries without lsn. */
static int print_line(void *context, const char *line)
{
    (void)context;
    json_t *record = json_loads(line, JSON_ALLOW_NUL, NULL);
    uint64_t lsn = field_number(record, "lsn"), time_us = field_number(record, "time_us");
    if (!record) return print_raw_line(NULL, line);
    if (lsn)
        printf("%10llu  ", (unsigned long long)lsn);
    else
        printf("%10s  ", "-");
    printf("%s  %-6s", time_us ? print_time(time_us) : "-", field_text(record, "op"));
    if (json_object_get(record, "key") && json_object_get(record, "table"))
        print_change(record);
    else if (json_object_get(record, "name"))
        printf("  %s", field_text(record, "name"));
    print_rest(record);
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
