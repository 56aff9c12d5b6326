/* The owner's functions, the listener, and the work event: what is done at the end of a turn of the loop. */
#include "tcp.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <unistd.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "tcp_link.h"

enum {
    HANDSHAKE_MS = 5000,
    LINGER_MS = 2000,
    LINKS_MAX = 64,
    ACCEPTS = 16, /* connections taken in one turn */
    BACKLOG = 128,
    RELIEF_US = 100000, /* pause of the listener when the system is out of descriptors or memory */
};

/* ---- the turn --------------------------------------------------------------------------------------------------------- */

void ms_tcp_schedule(struct ms_tcp_link *link)
{
    struct ms_tcp *tcp = link->tcp;
    if (ms_list_empty(&link->todo)) ms_list_add_tail(&tcp->todo, &link->todo);
    if (!tcp->visited) event_active(&tcp->work, EV_TIMEOUT, 0);
}

static void link_turn(struct ms_tcp_link *link)
{
    if (link->state == MS_TCP_DEAD) return;
    if (link->err) {
        const char *format = link->err == MS_E_MEMORY ? "no memory to send to %s" : "%s closed the link";
        ms_tcp_link_fail(link, ms_fail(link->err, format, link->address), false);
        return;
    }
    if (link->state == MS_TCP_CONNECTING) {
        if (link->fd < 0) ms_tcp_attempt_start(link);
        return;
    }
    if (link->resumed) {
        link->resumed = false;
        ms_tcp_link_frames(link);
        bool lost = link->state == MS_TCP_UP && !link->paused && event_add(&link->readable, NULL);
        if (lost) ms_tcp_link_fail(link, ms_fail(MS_E_MEMORY, "no memory to watch a socket"), false);
    }
    ms_tcp_link_flush(link);
}

static void report_stillborn(struct ms_tcp *tcp)
{
    while (tcp->stillborn_count) {
        uint64_t link = tcp->stillborn[--tcp->stillborn_count];
        tcp->reporting++;
        tcp->events->down(tcp->context, link, MS_E_MEMORY, "no memory for a link");
        tcp->reporting--;
    }
}

void ms_tcp_flush(struct ms_tcp *tcp)
{
    if (tcp->reporting) return;
    (void)event_del(&tcp->work);
    struct ms_list now;
    ms_list_init(&now);
    ms_list_splice(&now, &tcp->todo);
    while (!ms_list_empty(&now)) {
        struct ms_tcp_link *link = ms_list_entry(now.next, struct ms_tcp_link, todo);
        ms_list_remove(&link->todo);
        link_turn(link);
    }
    report_stillborn(tcp);
    while (!ms_list_empty(&tcp->dead)) ms_tcp_link_free(ms_list_entry(tcp->dead.next, struct ms_tcp_link, node));
}

static void work(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct ms_tcp *tcp = context;
    ms_tcp_enter(tcp);
    ms_tcp_flush(tcp);
    ms_tcp_leave(tcp);
}

/* ---- life ------------------------------------------------------------------------------------------------------------- */

int ms_tcp_new(const struct ms_tcp_config *config, struct ms_tcp **tcp)
{
    int rc = ms_auth_check_secret(config->secret);
    if (rc < 0) return rc;
    struct ms_tcp *made = ms_alloc_zero(sizeof *made);
    if (!made) return MS_E_MEMORY;
    if (strlen(config->cluster) >= sizeof made->cluster) {
        ms_release(made);
        return ms_fail(MS_E_INVALID, "the cluster's name has %zu bytes, at most 63 are allowed", strlen(config->cluster));
    }
    if (config->secret && !(made->secret = ms_strdup(config->secret))) {
        ms_release(made);
        return MS_E_MEMORY;
    }
    rc = ms_mutex_init(&made->mutex);
    if (rc < 0) {
        ms_release(made->secret);
        ms_release(made);
        return rc;
    }
    (void)snprintf(made->cluster, sizeof made->cluster, "%s", config->cluster);
    made->base = config->base;
    made->events = config->events;
    made->context = config->context;
    made->bulk_max = config->bulk_max;
    made->low_water = config->low_water;
    made->handshake_ms = config->handshake_ms ? config->handshake_ms : HANDSHAKE_MS;
    made->linger_ms = config->linger_ms ? config->linger_ms : LINGER_MS;
    made->links_max = config->links_max ? config->links_max : LINKS_MAX;
    made->listen_fd = -1;
    atomic_init(&made->next_link, 1);
    ms_list_init(&made->links);
    ms_list_init(&made->todo);
    ms_list_init(&made->dead);
    ms_list_init(&made->lookups);
    (void)event_assign(&made->work, made->base, -1, 0, work, made);
    *tcp = made;
    return 0;
}

static void stop_listening(struct ms_tcp *tcp)
{
    if (tcp->listen_fd < 0) return;
    (void)event_del(&tcp->listener);
    (void)event_del(&tcp->relief);
    (void)close(tcp->listen_fd);
    tcp->listen_fd = -1;
}

void ms_tcp_free(struct ms_tcp *tcp)
{
    if (!tcp) return;
    stop_listening(tcp);
    while (!ms_list_empty(&tcp->links)) {
        struct ms_tcp_link *link = ms_list_entry(tcp->links.next, struct ms_tcp_link, node);
        if (link->state == MS_TCP_UP) link->state = MS_TCP_CLOSING; /* so that nothing is reported */
        if (link->state == MS_TCP_CLOSING) ms_tcp_link_flush(link);
        ms_tcp_link_free(link);
    }
    while (!ms_list_empty(&tcp->dead)) ms_tcp_link_free(ms_list_entry(tcp->dead.next, struct ms_tcp_link, node));
    while (!ms_list_empty(&tcp->lookups)) ms_list_remove(tcp->lookups.next);
    (void)event_del(&tcp->work);
    (void)pthread_mutex_destroy(&tcp->mutex);
    ms_release(tcp->secret);
    ms_release(tcp);
}

void ms_tcp_close_all(struct ms_tcp *tcp)
{
    stop_listening(tcp);
    for (struct ms_list *node = tcp->links.next, *next; node != &tcp->links; node = next) {
        next = node->next;
        ms_tcp_link_close(ms_list_entry(node, struct ms_tcp_link, node));
    }
}

bool ms_tcp_idle(const struct ms_tcp *tcp)
{
    return tcp->listen_fd < 0 && ms_list_empty(&tcp->links) && ms_list_empty(&tcp->dead) && ms_list_empty(&tcp->lookups);
}

size_t ms_tcp_count(const struct ms_tcp *tcp, int state, bool outgoing)
{
    size_t count = 0;
    for (const struct ms_list *node = tcp->links.next; node != &tcp->links; node = node->next) {
        const struct ms_tcp_link *link = ms_list_entry(node, struct ms_tcp_link, node);
        count += link->state == state && link->outgoing == outgoing;
    }
    return count;
}

void ms_tcp_each(const struct ms_tcp *tcp,
                 void (*fn)(void *context, uint64_t link, bool outgoing, const char *address, size_t unsent), void *context)
{
    for (const struct ms_list *node = tcp->links.next; node != &tcp->links; node = node->next) {
        const struct ms_tcp_link *link = ms_list_entry(node, struct ms_tcp_link, node);
        if (link->state == MS_TCP_UP) fn(context, link->id, link->outgoing, link->address, evbuffer_get_length(link->out));
    }
}

/* ---- links ------------------------------------------------------------------------------------------------------------ */

/* Links are few; a search is cheaper than an index. */
struct ms_tcp_link *ms_tcp_find(const struct ms_tcp *tcp, uint64_t id)
{
    for (struct ms_list *node = tcp->links.next; id && node != &tcp->links; node = node->next) {
        struct ms_tcp_link *link = ms_list_entry(node, struct ms_tcp_link, node);
        if (link->id == id) return link->state < MS_TCP_CLOSING ? link : NULL;
    }
    return NULL;
}

uint64_t ms_tcp_reserve(struct ms_tcp *tcp)
{
    return atomic_fetch_add(&tcp->next_link, 1);
}

void ms_tcp_connect(struct ms_tcp *tcp, uint64_t id, const char *address)
{
    struct ms_tcp_link *link = ms_tcp_link_new(tcp, true);
    if (link && ms_tcp_attempt_new(link, address) == 0) {
        link->id = id;
        ms_tcp_schedule(link);
        return;
    }
    if (link) ms_tcp_link_free(link);
    if (tcp->stillborn_count < MS_TCP_STILLBORN_MAX) tcp->stillborn[tcp->stillborn_count++] = id;
    event_active(&tcp->work, EV_TIMEOUT, 0);
}

void ms_tcp_close(struct ms_tcp *tcp, uint64_t id)
{
    struct ms_tcp_link *link = ms_tcp_find(tcp, id);
    if (link) ms_tcp_link_close(link);
}

void ms_tcp_pause(struct ms_tcp *tcp, uint64_t id, bool paused)
{
    struct ms_tcp_link *link = ms_tcp_find(tcp, id);
    if (!link || link->state != MS_TCP_UP || link->paused == paused) return;
    link->paused = paused;
    if (paused) {
        (void)event_del(&link->readable);
        if (link->write_failed) { /* the reading side was to find the end */
            link->err = MS_E_IO;
            ms_tcp_schedule(link);
        }
    } else {
        link->resumed = true;
        ms_tcp_schedule(link);
    }
}

/* ---- the listener ----------------------------------------------------------------------------------------------------- */

/* Idle connections may not lock others out: the one that has been shaking hands for longest makes room. */
static void evict_oldest(struct ms_tcp *tcp)
{
    for (struct ms_list *node = tcp->links.next; node != &tcp->links; node = node->next) {
        struct ms_tcp_link *link = ms_list_entry(node, struct ms_tcp_link, node);
        if (link->state != MS_TCP_SHAKING || link->outgoing) continue;
        int rc = ms_fail(MS_E_LIMIT, "made room for others: %u connections were shaking hands", tcp->links_max);
        ms_tcp_link_fail(link, rc, false);
        return;
    }
}

static void take(struct ms_tcp *tcp, int fd, const struct ms_address *address)
{
    bool full = ms_tcp_count(tcp, MS_TCP_UP, false) >= tcp->links_max;
    bool crowded = ms_tcp_count(tcp, MS_TCP_CLOSING, false) >= tcp->links_max;
    struct ms_tcp_link *link = full && crowded ? NULL : ms_tcp_link_new(tcp, false);
    if (!link) {
        (void)close(fd);
        return;
    }
    ms_address_text(address, link->address);
    ms_tcp_link_attach(link, fd);
    if (full) {
        link->state = MS_TCP_SHAKING;
        int rc = ms_fail(MS_E_LIMIT, "all %u links are taken", tcp->links_max);
        ms_tcp_link_bye(link, rc);
        ms_tcp_link_fail(link, rc, true);
        return;
    }
    if (ms_tcp_count(tcp, MS_TCP_SHAKING, false) >= tcp->links_max) evict_oldest(tcp);
    ms_tcp_link_greet(link);
}

static void relieve(struct ms_tcp *tcp)
{
    static const struct timeval pause = {0, RELIEF_US};
    (void)event_del(&tcp->listener);
    (void)evtimer_add(&tcp->relief, &pause);
}

static void relieved(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct ms_tcp *tcp = context;
    ms_tcp_enter(tcp);
    if (event_add(&tcp->listener, NULL)) relieve(tcp);
    ms_tcp_leave(tcp);
}

static void accept_some(struct ms_tcp *tcp, int fd)
{
    for (int i = 0; i < ACCEPTS && tcp->listen_fd >= 0; i++) { /* the owner may close all from an event */
        struct ms_address address = {.size = sizeof address.sockaddr};
        int got = accept4(fd, (struct sockaddr *)&address.sockaddr, &address.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (got >= 0) {
            take(tcp, got, &address);
            continue;
        }
        if (errno == EAGAIN) return;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The connection stays in the queue, and the socket readable: without a pause the loop would spin. */
            relieve(tcp);
            return;
        }
    }
}

static void acceptable(evutil_socket_t fd, short what, void *context)
{
    (void)what;
    struct ms_tcp *tcp = context;
    ms_tcp_enter(tcp);
    accept_some(tcp, fd);
    ms_tcp_leave(tcp);
}

static int listen_on(const struct ms_address *address, bool has_secret, int *fd)
{
    char text[MS_ADDRESS_TEXT];
    ms_address_text(address, text);
    int rc = ms_address_allow(address, has_secret);
    if (rc < 0) return rc;
    *fd = socket(address->sockaddr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0) return ms_fail(MS_E_IO, "socket for %s: %s", text, strerror(errno));
    int on = 1;
    (void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* a restart need not wait for old links to time out */
    if (bind(*fd, (const struct sockaddr *)&address->sockaddr, address->size) || listen(*fd, BACKLOG)) {
        rc = ms_fail(errno == EADDRNOTAVAIL ? MS_E_ADDRESS : MS_E_IO, "listen on %s: %s", text, strerror(errno));
        (void)close(*fd);
        *fd = -1;
    }
    return rc;
}

static uint16_t port_of(int fd)
{
    struct ms_address address = {.size = sizeof address.sockaddr};
    char text[MS_ADDRESS_TEXT], host[MS_HOST_SIZE];
    uint16_t port = 0;
    if (getsockname(fd, (struct sockaddr *)&address.sockaddr, &address.size)) return 0;
    ms_address_text(&address, text);
    return ms_address_split(text, host, &port) == 0 ? port : 0;
}

int ms_tcp_listen(struct ms_tcp *tcp, const char *address, uint16_t *port)
{
    if (tcp->listen_fd >= 0) return ms_fail(MS_E_INVALID, "listening already");
    struct ms_address_list list;
    int rc = ms_address_resolve(address, &list);
    int fd = -1;
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        rc = listen_on(&list.at[i], tcp->secret != NULL, &fd);
        if (rc == 0) break;
        if (i + 1 < list.count) rc = 0;
    }
    if (rc < 0) return rc;
    (void)event_assign(&tcp->listener, tcp->base, fd, EV_READ | EV_PERSIST, acceptable, tcp);
    (void)evtimer_assign(&tcp->relief, tcp->base, relieved, tcp);
    if (event_add(&tcp->listener, NULL)) {
        (void)close(fd);
        return ms_fail(MS_E_MEMORY, "no memory to watch a socket");
    }
    tcp->listen_fd = fd;
    *port = port_of(fd);
    return 0;
}
