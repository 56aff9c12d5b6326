/* Bytes in. Each link has one flat buffer, so that a frame is always in one piece without being moved: a read fills it,
 * whole frames are reported where they stand, and the piece of a frame that is left is moved to the front once per read. The
 * buffer starts small, doubles while reads fill it, up to READ_MAX, and beyond that only for a frame that is larger, as it
 * arrives. */
#include "tcp_link.h"

#include <errno.h>
#include <event2/buffer.h>

#include "../base/error.h"
#include "../base/mem.h"

enum {
    READ_MIN = 2048,      /* more than any frame of a handshake */
    READ_MAX = 256 << 10, /* room for reads, unless one frame needs more */
    DISCARD = 16 << 10,
};

_Static_assert(READ_MIN >= MS_FRAME_HEADER + MS_AUTH_FRAME_MAX, "a handshake needs no growth");

static size_t waiting(const struct ms_tcp_link *link)
{
    return link->in.end - link->in.start;
}

/* Room for at least one byte at the end of the buffer. */
static int make_room(struct ms_tcp_link *link)
{
    if (link->in.start > 0) {
        memmove(link->in.data, link->in.data + link->in.start, waiting(link));
        link->in.end -= link->in.start;
        link->in.start = 0;
    }
    if (link->in.end == 0 && link->in.capacity > READ_MAX) { /* a large frame is gone: so is its memory */
        ms_release(link->in.data);
        link->in.data = NULL;
        link->in.capacity = 0;
    }
    bool grow = link->in.filled && link->in.capacity < READ_MAX;
    link->in.filled = false;
    if (link->in.end < link->in.capacity && !grow) return 0;
    size_t limit = link->in.want > READ_MAX ? link->in.want : READ_MAX;
    size_t capacity = link->in.capacity ? link->in.capacity * 2 : READ_MIN;
    if (capacity > limit) capacity = limit;
    uint8_t *data = ms_realloc(link->in.data, capacity);
    if (!data) return link->in.end < link->in.capacity ? 0 : MS_E_MEMORY;
    link->in.data = data;
    link->in.capacity = capacity;
    return 0;
}

/* ---- frames ----------------------------------------------------------------------------------------------------------- */

static void become_up(struct ms_tcp_link *link)
{
    struct ms_tcp *tcp = link->tcp;
    if (!link->outgoing) link->id = ms_tcp_reserve(tcp);
    link->state = MS_TCP_UP;
    (void)event_del(&link->timer);
    ms_release(link->auth);
    link->auth = NULL;
    tcp->reporting++;
    tcp->events->up(tcp->context, link->id, link->outgoing, link->address);
    tcp->reporting--;
}

static void handshake_frame(struct ms_tcp_link *link, const struct ms_frame *frame, struct ms_bytes payload)
{
    struct ms_tcp *tcp = link->tcp;
    struct ms_buf frames;
    ms_buf_init(&frames);
    int rc = ms_auth_frame(link->auth, frame->type, payload, &frames);
    bool full = rc == MS_AUTH_DONE && !link->outgoing && ms_tcp_count(tcp, MS_TCP_UP, false) >= tcp->links_max;
    if (full) { /* several may have been let in to shake hands when there was one place */
        ms_buf_clear(&frames);
        rc = ms_fail(MS_E_LIMIT, "all %u links are taken", tcp->links_max);
        ms_auth_bye(rc, ms_fail_message(rc), &frames);
    }
    bool lost = frames.failed || (frames.size && evbuffer_add(link->out, frames.data, frames.size));
    ms_buf_close(&frames);
    ms_tcp_schedule(link);
    if (rc < 0)
        ms_tcp_link_fail(link, rc, true);
    else if (lost)
        ms_tcp_link_fail(link, ms_fail(MS_E_MEMORY, "no memory for the handshake"), false);
    else if (rc == MS_AUTH_DONE)
        become_up(link);
}

/* 1: a frame was there and is dealt with. 0: more bytes are needed. Negative: these are no frames. */
static int next_frame(struct ms_tcp_link *link)
{
    const uint8_t *at = link->in.data + link->in.start;
    link->in.want = MS_FRAME_HEADER;
    if (waiting(link) < MS_FRAME_HEADER) return 0;
    struct ms_frame frame;
    int rc = ms_frame_open(at, link->tcp->bulk_max, &frame);
    if (rc < 0) return rc;
    if (link->state == MS_TCP_SHAKING && frame.size > MS_AUTH_FRAME_MAX)
        return ms_fail(MS_E_LIMIT, "%s frame of %u bytes in the handshake", ms_frame_name(frame.type), frame.size);
    link->in.want = MS_FRAME_HEADER + (size_t)frame.size;
    if (waiting(link) < link->in.want) return 0;
    struct ms_bytes payload = ms_bytes(at + MS_FRAME_HEADER, frame.size);
    rc = ms_frame_check(at, &frame, payload);
    if (rc < 0) return rc;
    link->in.start += link->in.want;
    link->in.want = 0;
    if (link->state == MS_TCP_SHAKING) {
        handshake_frame(link, &frame, payload);
    } else {
        struct ms_tcp *tcp = link->tcp;
        tcp->reporting++;
        tcp->events->frame(tcp->context, link->id, frame.type, frame.flags, payload);
        tcp->reporting--;
    }
    return 1;
}

static bool reading(const struct ms_tcp_link *link)
{
    return !link->paused && (link->state == MS_TCP_SHAKING || link->state == MS_TCP_UP);
}

void ms_tcp_link_frames(struct ms_tcp_link *link)
{
    int rc = 1;
    while (rc == 1 && reading(link)) rc = next_frame(link);
    if (rc >= 0) return;
    rc = ms_fail_wrap(rc, "from %s", link->address);
    ms_tcp_link_bye(link, rc);
    ms_tcp_link_fail(link, rc, true);
}

/* ---- reading ---------------------------------------------------------------------------------------------------------- */

/* What comes after our own end is of no interest, but has to be taken: see ms_tcp_link_close. */
static void discard(struct ms_tcp_link *link)
{
    uint8_t bytes[DISCARD];
    ssize_t got = recv(link->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    bool again = got < 0 && (errno == EAGAIN || errno == EINTR);
    if (got > 0 || again) return;
    ms_tcp_link_die(link);
}

void ms_tcp_link_readable(struct ms_tcp_link *link)
{
    if (link->state == MS_TCP_CLOSING) {
        discard(link);
        return;
    }
    int rc = make_room(link);
    if (rc < 0) {
        ms_tcp_link_fail(link, rc, false);
        return;
    }
    size_t room = link->in.capacity - link->in.end;
    ssize_t got = recv(link->fd, link->in.data + link->in.end, room, MSG_DONTWAIT);
    if (got > 0) {
        link->in.end += (size_t)got;
        link->in.filled = (size_t)got == room;
        ms_tcp_link_frames(link);
    } else if (got == 0) {
        ms_tcp_link_fail(link,
                         ms_fail(MS_E_IO, "%s closed the link%s", link->address, waiting(link) ? " within a frame" : ""),
                         false);
    } else if (errno != EAGAIN && errno != EINTR) {
        ms_tcp_link_fail(link, ms_fail(MS_E_IO, "receive from %s: %s", link->address, strerror(errno)), false);
    }
}
