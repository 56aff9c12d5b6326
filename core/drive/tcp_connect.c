/* How an outgoing link comes by its socket: the name is looked up, then its addresses are tried one after the other, each
 * with its share of the time that is left. Addresses that the loopback rule forbids are passed over. */
#include "tcp_link.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "lookup.h"
#include "threads.h"

struct ms_tcp_attempt {
    struct ms_lookup *lookup; /* under way, or NULL */
    struct ms_address_list list;
    size_t next;                  /* address to try next */
    char text[MS_HOST_SIZE + 16]; /* as it was given */
};

int ms_tcp_attempt_new(struct ms_tcp_link *link, const char *address)
{
    link->attempt = ms_alloc_zero(sizeof *link->attempt);
    if (!link->attempt) return MS_E_MEMORY;
    (void)snprintf(link->attempt->text, sizeof link->attempt->text, "%s", address);
    (void)snprintf(link->address, sizeof link->address, "%s", address);
    return 0;
}

void ms_tcp_attempt_free(struct ms_tcp_link *link)
{
    if (!link->attempt) return;
    ms_lookup_cancel(link->attempt->lookup);
    ms_release(link->attempt);
    link->attempt = NULL;
}

static uint64_t time_left(const struct ms_tcp_link *link)
{
    uint64_t now = ms_clock_now();
    return link->deadline > now ? link->deadline - now : 0;
}

/* A port that nobody listens on may, once in some ten thousand tries, be chosen as our own; TCP then connects the socket to
 * itself, and the port is taken from the peer that wants to listen there. */
static bool is_self(int fd)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    return getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 && own_size == peer_size &&
           memcmp(&own, &peer, own_size) == 0;
}

/* 0: under way or connected; `writable` will say. */
static int try_address(struct ms_tcp_link *link, const struct ms_address *address)
{
    ms_address_text(address, link->address);
    int rc = ms_address_allow(address, link->tcp->secret != NULL);
    if (rc < 0) return rc;
    int fd = socket(address->sockaddr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return ms_fail(MS_E_IO, "socket for %s: %s", link->address, strerror(errno));
    if (connect(fd, (const struct sockaddr *)&address->sockaddr, address->size) && errno != EINPROGRESS) {
        rc = ms_fail(MS_E_IO, "connect to %s: %s", link->address, strerror(errno));
        (void)close(fd);
        return rc;
    }
    ms_tcp_link_attach(link, fd);
    if (event_add(&link->writable, NULL) == 0) return 0;
    ms_tcp_link_detach(link);
    return ms_fail(MS_E_MEMORY, "no memory to watch a socket");
}

/* Tries the addresses that are left; rc and its message are the last failure, if none is left. */
static void try_next(struct ms_tcp_link *link, int rc)
{
    struct ms_tcp_attempt *attempt = link->attempt;
    while (attempt->next < attempt->list.count) {
        size_t left = attempt->list.count - attempt->next;
        rc = try_address(link, &attempt->list.at[attempt->next++]);
        if (rc == 0) rc = ms_tcp_link_timer(link, time_left(link) / left);
        if (rc == 0) return;
        ms_tcp_link_detach(link);
    }
    ms_tcp_link_fail(link, rc, false);
}

static void looked_up(void *context, int rc, const struct ms_address_list *list)
{
    struct ms_tcp_link *link = context;
    struct ms_tcp *tcp = link->tcp;
    ms_tcp_enter(tcp);
    link->attempt->lookup = NULL;
    link->attempt->list = *list;
    if (rc < 0)
        ms_tcp_link_fail(link, rc, false);
    else
        try_next(link, 0);
    ms_tcp_leave(tcp);
}

void ms_tcp_attempt_start(struct ms_tcp_link *link)
{
    struct ms_tcp_attempt *attempt = link->attempt;
    char host[MS_HOST_SIZE];
    uint16_t port = 0;
    int rc = ms_address_split(attempt->text, host, &port);
    if (rc == 0 && port == 0) rc = ms_fail(MS_E_ADDRESS, "address \"%s\": port 0 can't be connected to", attempt->text);
    if (rc == 0) ms_address_numeric(host, port, &attempt->list);
    if (rc == 0 && attempt->list.count == 0) {
        struct ms_lookup_question question = {.base = link->tcp->base,
                                              .host = host,
                                              .port = port,
                                              .pending = &link->tcp->lookups,
                                              .done = looked_up,
                                              .context = link};
        rc = ms_lookup_start(&question, &attempt->lookup);
        if (rc == 0) rc = ms_tcp_link_timer(link, time_left(link));
        if (rc == 0) return;
    }
    if (rc < 0)
        ms_tcp_link_fail(link, rc, false);
    else
        try_next(link, 0);
}

void ms_tcp_attempt_writable(struct ms_tcp_link *link)
{
    int err = 0;
    socklen_t size = sizeof err;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &err, &size)) err = errno;
    if (!err && is_self(link->fd)) err = ECONNREFUSED;
    if (!err) {
        ms_tcp_attempt_free(link);
        ms_tcp_link_greet(link);
        return;
    }
    ms_tcp_link_detach(link);
    try_next(link, ms_fail(MS_E_IO, "connect to %s: %s", link->address, strerror(err)));
}

void ms_tcp_attempt_timeout(struct ms_tcp_link *link)
{
    bool resolving = link->fd < 0;
    ms_tcp_link_detach(link);
    int rc = ms_fail(MS_E_TIMEOUT, "%s %s: no answer within %u ms", resolving ? "look up" : "connect to", link->address,
                     link->tcp->handshake_ms);
    try_next(link, rc);
}
