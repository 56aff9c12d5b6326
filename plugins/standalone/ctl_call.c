#include "ctl_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/base/mem.h"
#include "../../core/drive/control.h"

enum { MARGIN_MS = 5000 }; /* the node gives up first, and says why */

json_t *ctl_request(const char *command)
{
    return json_pack("{s:s}", "command", command);
}

json_t *ctl_path(const char *path)
{
    char *whole = realpath(path, NULL), joined[2 * CTL_PATH_MAX] = "", *here = NULL;
    if (!whole && path[0] != '/') here = realpath(".", NULL);
    if (here) (void)snprintf(joined, sizeof joined, "%s/%s", here, path);
    json_t *text = json_string(whole ? whole : joined[0] ? joined : path);
    free(whole);
    free(here);
    return text;
}

const char *ctl_code_name(int code)
{
    switch (code) {
#define CTL_NAME(name, value, text) \
    case value: return #name;
        MS_ERRORS(CTL_NAME)
#undef CTL_NAME
    default: return "MS_E_UNKNOWN";
    }
}

int ctl_exit_of(const char *code)
{
    if (strcmp(code, "MS_E_NOT_FOUND") == 0) return CTL_NOT_FOUND;
    if (strcmp(code, "MS_E_NOT_REPLICATED") == 0 || strcmp(code, "MS_E_UNKNOWN") == 0 || strcmp(code, "MS_E_TIMEOUT") == 0)
        return CTL_UNCONFIRMED;
    return CTL_FAILED;
}

static int fail_without_reply(int rc, bool writes)
{
    fprintf(stderr, "metasyncctl: %s\n", ms_error_message());
    if (rc == MS_E_INVALID || rc == MS_E_LIMIT || rc == MS_E_MEMORY) return CTL_FAILED;
    bool sent = rc == MS_E_TIMEOUT || (rc == MS_E_IO && strstr(ms_error_message(), "without an answer"));
    if (!writes || !sent) return CTL_UNREACHABLE;
    fprintf(stderr, "metasyncctl: the change may or may not have been made\n");
    return CTL_UNCONFIRMED;
}

static int read_reply(const struct ctl_options *options, const char *text, json_t **reply)
{
    *reply = json_loads(text, JSON_ALLOW_NUL, NULL);
    if (json_is_true(json_object_get(*reply, "ok"))) return CTL_OK;
    const char *code = json_string_value(json_object_get(*reply, "code")),
               *error = json_string_value(json_object_get(*reply, "error"));
    if (ctl_given(options, CTL_JSON))
        puts(text);
    else
        fprintf(stderr, "metasyncctl: %s\n", error ? error : "the node's reply is no JSON object");
    int status = ctl_exit_of(code ? code : "");
    json_decref(*reply);
    *reply = NULL;
    return status;
}

static int wait_ms(const struct ctl_options *options, json_t *request, enum ctl_kind kind)
{
    static const int defaults[] = {[CTL_READ] = 10000, [CTL_WRITE] = 60000, [CTL_RESULT] = 30000, [CTL_LONG] = -1};
    int wait = ctl_given(options, CTL_TIMEOUT) ? options->timeout_ms : defaults[kind];
    if (kind != CTL_RESULT) return wait;
    json_object_set_new(request, "timeout_ms", json_integer(wait));
    return wait + MARGIN_MS;
}

int ctl_call(const struct ctl_options *options, json_t *request, enum ctl_kind kind, json_t **reply)
{
    char *text = NULL;
    int wait = wait_ms(options, request, kind);
    char *line = json_dumps(request, JSON_COMPACT);
    *reply = NULL;
    json_decref(request);
    if (!options->control[0]) {
        free(line);
        return ctl_usage("which node? --data DIR or --control PATH says it; try --help");
    }
    if (!line) {
        fprintf(stderr, "metasyncctl: out of memory, or a word is not UTF-8\n");
        return CTL_FAILED;
    }
    int rc = ms_control_call(options->control, line, wait, &text);
    free(line);
    if (rc) return fail_without_reply(rc, kind != CTL_READ);
    int status = read_reply(options, text, reply);
    ms_release(text);
    return status;
}

int ctl_run(const struct ctl_options *options, json_t *request, enum ctl_kind kind, json_t **reply)
{
    json_t *got = NULL;
    int status = ctl_call(options, request, kind, &got);
    if (!status && ctl_given(options, CTL_JSON)) {
        char *text = json_dumps(got, JSON_COMPACT);
        puts(text ? text : "");
        free(text);
    }
    if (reply)
        *reply = got;
    else
        json_decref(got);
    return status;
}
