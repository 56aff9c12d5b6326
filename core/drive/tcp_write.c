/* Bytes out. Frames wait in an evbuffer: small ones are copied into its chains, large groups stay where they are, in their
 * shared block, until they are sent. One sendmsg takes what the whole turn has brought. */
#include "tcp_link.h"

#include <errno.h>
#include <event2/buffer.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "../base/error.h"
#include "../state/block.h"

enum {
    PIECES = 64,
    TURN_BYTES = 4 << 20, /* then others have their turn */
    COPY_MAX = 2048,      /* a smaller group is cheaper to copy than to refer to */
};

static void unref(const void *data, size_t size, void *block)
{
    (void)data;
    (void)size;
    ms_block_unref(block);
}

static int add_block(struct evbuffer *out, struct ms_block *block)
{
    if (block->size <= COPY_MAX) return evbuffer_add(out, block->data, block->size);
    if (evbuffer_add_reference(out, block->data, block->size, unref, ms_block_ref(block)) == 0) return 0;
    ms_block_unref(block);
    return -1;
}

void ms_tcp_send(struct ms_tcp *tcp, uint64_t id, uint8_t type, uint8_t flags, struct ms_bytes payload,
                 struct ms_block *block)
{
    struct ms_tcp_link *link = ms_tcp_find(tcp, id);
    if (!link || link->state != MS_TCP_UP || link->err || link->write_failed) return;
    uint8_t header[MS_FRAME_HEADER];
    ms_frame_header(header, type, flags, payload, block ? block->size : 0);
    bool lost = evbuffer_add(link->out, header, sizeof header) ||
                (payload.size && evbuffer_add(link->out, payload.data, payload.size)) ||
                (block && add_block(link->out, block));
    if (lost) link->err = MS_E_MEMORY; /* the stream has a hole: nothing can follow */
    ms_tcp_schedule(link);
}

size_t ms_tcp_unsent(const struct ms_tcp *tcp, uint64_t id)
{
    struct ms_tcp_link *link = ms_tcp_find(tcp, id);
    return link ? evbuffer_get_length(link->out) : 0;
}

int ms_tcp_link_send(struct ms_tcp_link *link, size_t *sent)
{
    *sent = 0;
    while (evbuffer_get_length(link->out) && *sent < TURN_BYTES) {
        struct evbuffer_iovec pieces[PIECES];
        int count = evbuffer_peek(link->out, -1, NULL, pieces, PIECES);
        size_t offered = 0;
        for (int i = 0; i < count; i++) offered += pieces[i].iov_len;
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = (size_t)count};
        ssize_t took = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (took < 0 && errno == EINTR) continue;
        if (took < 0) return errno == EAGAIN ? 0 : errno;
        (void)evbuffer_drain(link->out, (size_t)took);
        *sent += (size_t)took;
        if ((size_t)took < offered) return 0;
    }
    return 0;
}

static void send_failed(struct ms_tcp_link *link, int err)
{
    if (link->state == MS_TCP_CLOSING) {
        ms_tcp_link_die(link);
        return;
    }
    (void)evbuffer_drain(link->out, evbuffer_get_length(link->out));
    link->write_failed = true;
    /* A peer that closed may have said why. The reading side gets to that, and then to the end. */
    if (!link->paused && (err == EPIPE || err == ECONNRESET)) return;
    ms_tcp_link_fail(link, ms_fail(MS_E_IO, "send to %s: %s", link->address, strerror(err)), false);
}

void ms_tcp_link_flush(struct ms_tcp_link *link)
{
    if (link->fd < 0 || link->state == MS_TCP_CONNECTING || link->write_failed) return;
    size_t sent;
    int err = ms_tcp_link_send(link, &sent);
    if (err) {
        send_failed(link, err);
        return;
    }
    size_t unsent = evbuffer_get_length(link->out);
    if (unsent) {
        link->blocked = event_add(&link->writable, NULL) == 0;
        if (!link->blocked)
            ms_tcp_link_fail(link, ms_fail(MS_E_MEMORY, "no memory to watch a socket"), false);
    } else if (link->state == MS_TCP_CLOSING && !link->shut) {
        link->shut = true;
        if (shutdown(link->fd, SHUT_WR)) ms_tcp_link_die(link);
    }
    if (sent == 0 || unsent > link->tcp->low_water || link->state != MS_TCP_UP) return;
    struct ms_tcp *tcp = link->tcp;
    tcp->reporting++;
    tcp->events->drained(tcp->context, link->id, unsent);
    tcp->reporting--;
}
