/* Requests to a node and what its replies mean for a script. */
#ifndef METASYNCCTL_CALL_H
#define METASYNCCTL_CALL_H

#include <jansson.h>

#include "ctl_options.h"

/* What a command does, which says how long it may take and what it means when no answer comes. */
enum ctl_kind {
    CTL_READ = 0,   /* answered at once; no answer: the node can't be reached */
    CTL_WRITE = 1,  /* changes something; no answer: the outcome is unknown */
    CTL_RESULT = 2, /* the same, and the node itself gives up after --timeout (30 s) and says why */
    CTL_LONG = 3,   /* a change that may take any time */
};

/* A request {"command": command}; free with json_decref. Memory is not checked by the callers: without it, ctl_call says so. */
json_t *ctl_request(const char *command);

/* Sends the request and drops the reference. Returns CTL_OK and the reply
 * (owned by the caller), or says on standard error what went wrong (with --json: prints the reply) and returns the exit status. */
int ctl_call(const struct ctl_options *options, json_t *request, enum ctl_kind kind, json_t **reply);

/* The same, where an answer "ok" says all: with --json the reply is printed, otherwise nothing. The caller owns *reply
 * unless reply is NULL. */
int ctl_run(const struct ctl_options *options, json_t *request, enum ctl_kind kind, json_t **reply);

/* A path as the node, which has its own working directory, has to see it. */
json_t *ctl_path(const char *path);

/* The exit status for a code's name ("MS_E_NOT_FOUND"). */
int ctl_exit_of(const char *code);

/* The name of a code; "MS_E_UNKNOWN" style. */
const char *ctl_code_name(int code);

#endif
