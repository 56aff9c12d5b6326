/* The control socket: how metasyncctl and other tools of the same machine talk to a node.
 *
 * A Unix stream socket with mode 0600. The client sends one JSON object per line and gets one JSON object per line back, in
 * order:
 *
 *      {"command":"status"}                  {"ok":true, ...}
 *      {"command":"lead"}                    {"ok":false,"code":"MS_E_DEPOSED","error":"a peer has a higher epoch: ..."}
 *
 * Plain blocking threads, far away from the loop: one accepts, one serves each connection (at most MS_CONTROL_CONNECTIONS;
 * the next one waits a second for a place, then it is told so and closed). They block all signals. What the commands are is
 * the handler's business. */
#ifndef MS_DRIVE_CONTROL_H
#define MS_DRIVE_CONTROL_H

#include "../metasync.h"

enum {
    MS_CONTROL_CONNECTIONS = 8,
    MS_CONTROL_LINE_MAX = 16 << 20, /* bytes of a request or reply, its newline included */
    MS_CONTROL_IDLE_MS = 60000,     /* a connection that sends or takes nothing for so long is closed */
};

/* Answers one request (text without newline, not yet parsed). Returns 0 and a reply, or a negative MS_E_* whose
 * ms_error_message() is sent as an error. *reply is made with malloc and is taken; newlines in it (JSON's white space)
 * become spaces. Runs on a connection's thread, several at a time. */
typedef int (*ms_control_handler)(void *context, const char *request, char **reply);

struct ms_control;

/* Listens on path (at most 107 bytes) and starts the accepting thread. A socket file that nobody listens on is replaced.
 * Errors: INVALID (path too long, or something else than a socket is there), NOT_FOUND (no such directory), LOCKED (somebody
 * listens there), IO, MEMORY. */
int ms_control_start(const char *path, ms_control_handler handle, void *context, struct ms_control **control);

/* Unblocks and joins all threads, closes all connections, removes the socket file if it is still ours. Waits for handlers
 * that are running: close what they wait for first. Not from a handler. NULL is allowed. */
void ms_control_stop(struct ms_control *control);

/* The client: sends one request and waits for its reply, timeout_ms in all (< 0 = for ever). *reply is owned by the caller:
 * ms_release. A refusal by the node is a reply ("ok":false), not an error of this function. Errors: NOT_FOUND (no socket
 * there), IO (nobody listens, closed without a reply), TIMEOUT, LIMIT (line too long), INVALID (a newline in the request),
 * MEMORY. */
int ms_control_call(const char *path, const char *request, int timeout_ms, char **reply);

#endif
