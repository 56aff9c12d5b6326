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

static const int bounds[BENCH_HOLD_BOUNDS] = {100, 200, 500, 1000, 2000, 5000, 10000};

void bench_holds(struct ms_node *node, struct bench_holds *holds)
{
    char *json, name[32];
    if (ms_status(node, &json)) bench_die("status: %s", ms_error_message());
    for (int i = 0; i < BENCH_HOLD_BOUNDS; i++) {
        snprintf(name, sizeof name, "over_%d_us", bounds[i]);
        holds->over[i] = bench_number_in(json, name);
        if (holds->over[i] < 0) bench_die("no %s in the status", name);
    }
    ms_free(json);
}

double bench_longest_hold(struct ms_node *node, const struct bench_holds *since)
{
    struct bench_holds now;
    bench_holds(node, &now);
    for (int i = 0; i < BENCH_HOLD_BOUNDS; i++)
        if (now.over[i] <= since->over[i]) return bounds[i];
    return bench_status_number(node, "max_lock_us");
}

double bench_status_number(struct ms_node *node, const char *field)
{
    char *json;
    if (ms_status(node, &json)) bench_die("status: %s", ms_error_message());
    double number = bench_number_in(json, field);
    ms_free(json);
    return number;
}
