/* The life of one link: made, attached to a socket, greeting, closing in three grades (close, fail, die). */
#include "tcp_link.h"

#include <event2/buffer.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "threads.h"

static void out_of_time(struct ms_tcp_link *link)
{
    if (link->state == MS_TCP_CONNECTING) {
        ms_tcp_attempt_timeout(link);
    } else if (link->state == MS_TCP_SHAKING) {
        int rc = ms_fail(MS_E_TIMEOUT, "no handshake with %s within %u ms", link->address, link->tcp->handshake_ms);
        ms_tcp_link_bye(link, rc);
        ms_tcp_link_fail(link, rc, true);
    } else {
        ms_tcp_link_die(link);
    }
}

/* libevent's callbacks. A link that dies in one keeps its memory until the work event, so that its tcp can be had before. */
static void timer_fired(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct ms_tcp_link *link = context;
    struct ms_tcp *tcp = link->tcp;
    ms_tcp_enter(tcp);
    out_of_time(link);
    ms_tcp_leave(tcp);
}

struct ms_tcp_link *ms_tcp_link_new(struct ms_tcp *tcp, bool outgoing)
{
    struct ms_tcp_link *link = ms_alloc_zero(sizeof *link);
    if (!link) return NULL;
    link->tcp = tcp;
    link->fd = -1;
    link->outgoing = outgoing;
    link->state = MS_TCP_CONNECTING;
    link->deadline = ms_clock_deadline((int)tcp->handshake_ms);
    ms_list_init(&link->todo);
    link->out = evbuffer_new();
    if (!link->out || evtimer_assign(&link->timer, tcp->base, timer_fired, link)) {
        if (link->out) evbuffer_free(link->out);
        ms_release(link);
        (void)ms_fail(MS_E_MEMORY, "no buffer for a link");
        return NULL;
    }
    ms_list_add_tail(&tcp->links, &link->node);
    return link;
}

void ms_tcp_link_free(struct ms_tcp_link *link)
{
    ms_tcp_attempt_free(link);
    ms_tcp_link_detach(link);
    (void)event_del(&link->timer);
    ms_list_remove(&link->node);
    ms_list_remove(&link->todo);
    evbuffer_free(link->out);
    ms_release(link->in.data);
    ms_release(link->auth);
    ms_release(link);
}

static void readable(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct ms_tcp_link *link = context;
    struct ms_tcp *tcp = link->tcp;
    ms_tcp_enter(tcp);
    ms_tcp_link_readable(link);
    ms_tcp_leave(tcp);
}

static void writable(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    struct ms_tcp_link *link = context;
    struct ms_tcp *tcp = link->tcp;
    ms_tcp_enter(tcp);
    link->blocked = false;
    if (link->state == MS_TCP_CONNECTING)
        ms_tcp_attempt_writable(link);
    else
        ms_tcp_link_flush(link);
    ms_tcp_leave(tcp);
}

void ms_tcp_link_attach(struct ms_tcp_link *link, int fd)
{
    link->fd = fd;
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* whole turns are sent at once: nothing to wait for */
    (void)event_assign(&link->readable, link->tcp->base, fd, EV_READ | EV_PERSIST, readable, link);
    (void)event_assign(&link->writable, link->tcp->base, fd, EV_WRITE, writable, link);
}

void ms_tcp_link_detach(struct ms_tcp_link *link)
{
    if (link->fd < 0) return;
    (void)event_del(&link->readable);
    (void)event_del(&link->writable);
    (void)close(link->fd);
    link->fd = -1;
}

int ms_tcp_link_timer(struct ms_tcp_link *link, uint64_t us)
{
    struct timeval tv = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};
    (void)event_del(&link->timer);
    return evtimer_add(&link->timer, &tv) ? ms_fail(MS_E_MEMORY, "no memory for a timer") : 0;
}

static int start_auth(struct ms_tcp_link *link)
{
    uint8_t nonce[MS_AUTH_NONCE];
    int rc = ms_auth_nonce(nonce);
    if (rc < 0) return rc;
    link->auth = ms_alloc(sizeof *link->auth);
    if (!link->auth) return MS_E_MEMORY;
    rc = ms_auth_init(link->auth, link->tcp->secret, link->tcp->cluster, link->outgoing, nonce);
    if (rc < 0) return rc;
    struct ms_buf frames;
    ms_buf_init(&frames);
    ms_auth_greeting(link->auth, &frames);
    if (frames.failed || evbuffer_add(link->out, frames.data, frames.size)) rc = ms_fail(MS_E_MEMORY, "no memory to greet");
    ms_buf_close(&frames);
    return rc;
}

void ms_tcp_link_greet(struct ms_tcp_link *link)
{
    link->state = MS_TCP_SHAKING;
    uint64_t now = ms_clock_now();
    int rc = ms_tcp_link_timer(link, link->deadline > now ? link->deadline - now : 0);
    if (rc == 0) rc = start_auth(link);
    if (rc == 0 && event_add(&link->readable, NULL)) rc = ms_fail(MS_E_MEMORY, "no memory to watch a socket");
    if (rc < 0)
        ms_tcp_link_fail(link, rc, false);
    else
        ms_tcp_schedule(link);
}

void ms_tcp_link_die(struct ms_tcp_link *link)
{
    if (link->state == MS_TCP_DEAD) return;
    link->state = MS_TCP_DEAD;
    ms_tcp_attempt_free(link);
    ms_tcp_link_detach(link);
    (void)event_del(&link->timer);
    ms_list_remove(&link->node);
    ms_list_add_tail(&link->tcp->dead, &link->node);
    ms_tcp_schedule(link);
}

void ms_tcp_link_close(struct ms_tcp_link *link)
{
    if (link->state >= MS_TCP_CLOSING) return;
    if (link->fd < 0 || link->state == MS_TCP_CONNECTING || link->write_failed) {
        ms_tcp_link_die(link);
        return;
    }
    link->state = MS_TCP_CLOSING;
    /* Reading goes on, for the peer's end: closing with unread bytes would reset the link and lose our last frames. */
    bool watched =
        ms_tcp_link_timer(link, (uint64_t)link->tcp->linger_ms * 1000) == 0 && event_add(&link->readable, NULL) == 0;
    if (watched)
        ms_tcp_schedule(link);
    else
        ms_tcp_link_die(link);
}

void ms_tcp_link_bye(struct ms_tcp_link *link, int err)
{
    struct ms_buf frames;
    ms_buf_init(&frames);
    ms_auth_bye(err, ms_fail_message(err), &frames);
    if (!frames.failed) (void)evbuffer_add(link->out, frames.data, frames.size); /* a BYE is a courtesy */
    ms_buf_close(&frames);
}

void ms_tcp_link_fail(struct ms_tcp_link *link, int err, bool polite)
{
    if (link->state >= MS_TCP_CLOSING) {
        ms_tcp_link_die(link);
        return;
    }
    char why[MS_ERROR_SIZE];
    (void)snprintf(why, sizeof why, "%s", ms_fail_message(err));
    bool known = link->outgoing || link->state == MS_TCP_UP;
    if (polite)
        ms_tcp_link_close(link);
    else
        ms_tcp_link_die(link);
    struct ms_tcp *tcp = link->tcp;
    tcp->reporting++;
    if (known)
        tcp->events->down(tcp->context, link->id, err, why);
    else if (tcp->events->refused)
        tcp->events->refused(tcp->context, err, link->address, why);
    tcp->reporting--;
}
