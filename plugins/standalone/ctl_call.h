/* Requests to a node and what its replies mean for a script. */
#ifndef METASYNCCTL_CALL_H
#define METASYNCCTL_CALL_H

#include <jansson.h>

#include "ctl_options.h"

enum { CTL_READ_MS = 10000, CTL_WRITE_MS = 60000, CTL_LONG_MS = -1 };

/* A request {"command": command}; free with json_decref. Memory is not checked by the callers: without it, ctl_call says so. */
json_t *ctl_request(const char *command);

/* Sends the request and drops the reference. timeout_ms is the command's own; --timeout overrides it. Returns CTL_OK and the reply
 * (owned by the caller), or says on standard error what went wrong (with --json: prints the reply) and returns the exit status. */
int ctl_call(const struct ctl_options *options, json_t *request, int timeout_ms, json_t **reply);

/* The same, where an answer "ok" says all: with --json the reply is printed, otherwise nothing. The caller owns *reply
 * unless reply is NULL. */
int ctl_run(const struct ctl_options *options, json_t *request, int timeout_ms, json_t **reply);

/* The exit status for a code's name ("MS_E_NOT_FOUND"). */
int ctl_exit_of(const char *code);

/* The name of a code; "MS_E_UNKNOWN" style. */
const char *ctl_code_name(int code);

#endif
