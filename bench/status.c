#include "status.h"

#include <stdlib.h>
#include <string.h>

#include "../core/metasync.h"
#include "common.h"

double bench_number_in(const char *json, const char *field)
{
    char name[64];
    snprintf(name, sizeof name, "\"%s\":", field);
    const char *at = strstr(json, name);
    return at ? strtod(at + strlen(name), NULL) : -1;
}

double bench_status_number(struct ms_node *node, const char *field)
{
    char *json;
    if (ms_status(node, &json)) bench_die("status: %s", ms_error_message());
    double number = bench_number_in(json, field);
    ms_free(json);
    return number;
}
