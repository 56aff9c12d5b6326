/* ms_remote_status: the status of another node, for tools that have no node of their own. A loop for one link, on the
 * caller's thread. */
#include <event2/event.h>
#include <jansson.h>
#include <stdio.h>

#include "../base/error.h"
#include "../sync/frame.h"
#include "address.h"
#include "tcp.h"

struct remote {
    struct event_base *base;
    struct ms_tcp *tcp;
    const char *address;
    bool done;
    int rc;
    char why[MS_ERROR_SIZE];
    char *json;
};

static void end(struct remote *remote, int rc, const char *why)
{
    if (remote->done) return;
    remote->done = true;
    remote->rc = rc;
    (void)snprintf(remote->why, sizeof remote->why, "%s", why);
    (void)event_base_loopbreak(remote->base);
}

static void up(void *context, uint64_t link, bool outgoing, const char *address)
{
    (void)outgoing;
    (void)address;
    struct remote *remote = context;
    ms_tcp_send(remote->tcp, link, MS_FRAME_STATUS_REQUEST, 0, ms_str(""), NULL);
}

static void down(void *context, uint64_t link, int err, const char *why)
{
    (void)link;
    end(context, err, why);
}

/* Parsed and printed anew: so the caller gets JSON or an error, in memory that ms_free knows. */
static void take_reply(struct remote *remote, struct ms_bytes text)
{
    json_error_t error;
    json_t *json = json_loadb(text.data ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &error);
    if (!json) {
        (void)ms_fail(MS_E_FORMAT, "the status is no JSON: %s", error.text);
        end(remote, MS_E_FORMAT, ms_fail_message(MS_E_FORMAT));
        return;
    }
    remote->json = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    end(remote, remote->json ? 0 : MS_E_MEMORY, remote->json ? "" : "out of memory");
}

static void frame(void *context, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload)
{
    (void)link;
    (void)flags;
    struct remote *remote = context;
    if (type != MS_FRAME_STATUS_REPLY && type != MS_FRAME_BYE) return;
    struct ms_message message;
    ms_message_init(&message);
    int rc = ms_message_decode(type, payload, &message);
    if (rc < 0) {
        end(remote, rc, ms_fail_message(rc));
    } else if (type == MS_FRAME_BYE) {
        (void)ms_fail(MS_E_IO, "refused by the peer: %.*s", (int)message.text.size,
                      message.text.data ? (const char *)message.text.data : "");
        end(remote, MS_E_IO, ms_fail_message(MS_E_IO));
    } else {
        take_reply(remote, message.text);
    }
    ms_message_close(&message);
}

static void drained(void *context, uint64_t link, size_t unsent)
{
    (void)context;
    (void)link;
    (void)unsent;
}

static const struct ms_tcp_events events = {.up = up, .down = down, .frame = frame, .drained = drained};

static int ask(struct remote *remote, const struct ms_tcp_config *config, int timeout_ms)
{
    int rc = ms_tcp_new(config, &remote->tcp);
    if (rc < 0) return rc;
    ms_tcp_connect(remote->tcp, ms_tcp_reserve(remote->tcp), remote->address);
    if (timeout_ms >= 0) {
        struct timeval limit = {timeout_ms / 1000, (suseconds_t)(timeout_ms % 1000) * 1000};
        (void)event_base_loopexit(remote->base, &limit);
    }
    (void)event_base_dispatch(remote->base);
    if (!remote->done) {
        (void)ms_fail(MS_E_TIMEOUT, "no status from %s within %d ms", remote->address, timeout_ms);
        end(remote, MS_E_TIMEOUT, ms_fail_message(MS_E_TIMEOUT));
    }
    ms_tcp_close_all(remote->tcp);
    for (int turn = 0; turn < 3; turn++) (void)event_base_loop(remote->base, EVLOOP_NONBLOCK); /* a look-up ends */
    ms_tcp_free(remote->tcp);
    return remote->rc < 0 ? ms_fail(remote->rc, "%s", remote->why) : 0;
}

int ms_remote_status(const char *address, const char *cluster, const char *secret, int timeout_ms, char **json)
{
    if (!address || !cluster || !json) return ms_fail(MS_E_INVALID, "address, cluster or json is NULL");
    struct remote remote = {.address = address};
    int rc = ms_address_check(address, secret != NULL);
    if (rc < 0) return rc;
    remote.base = event_base_new();
    if (!remote.base) return ms_fail(MS_E_MEMORY, "no event base");
    struct ms_tcp_config config = {
        .base = remote.base,
        .cluster = cluster,
        .secret = secret,
        .handshake_ms = timeout_ms < 0 ? 0 : (uint32_t)timeout_ms + 1, /* the loop's own limit comes first */
        .events = &events,
        .context = &remote,
    };
    rc = ask(&remote, &config, timeout_ms);
    event_base_free(remote.base);
    if (rc == 0) *json = remote.json;
    return rc;
}
