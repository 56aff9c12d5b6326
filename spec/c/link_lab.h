/* A bench for links: sides (an ms_tcp each, on one shared loop) that record what they are told, and raw sockets that
 * misbehave. All in one thread: `until` turns the loop until a condition holds. */
#ifndef MS_SPEC_LINK_LAB_H
#define MS_SPEC_LINK_LAB_H

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../core/base/error.h"
#include "../../core/base/hash.h"
#include "../../core/base/mem.h"
#include "../../core/drive/auth.h"
#include "../../core/drive/tcp.h"
#include "../../core/drive/tcp_link.h"
#include "../../core/state/block.h"
#include "../../core/sync/frame.h"
#include "cases.h"

enum { BULK_MAX = 8 << 20, LOW_WATER = 64 << 10, LIMIT_MS = 20000 };

#define SECRET "sixteen bytes or more"

struct side {
    struct ms_tcp *tcp;
    uint16_t port;
    int ups, downs, frames, drains, refusals;
    uint64_t link; /* of the last up */
    int err;       /* of the last down or refused */
    char why[512];
    uint64_t bytes; /* payload bytes so far */
    uint64_t sum;   /* hash over types and payloads, in order */
    uint8_t last_type;
    char last_text[512]; /* payload of the last small frame */
    size_t drained;
    void (*on_up)(struct side *side, uint64_t link);
    void (*on_frame)(struct side *side, uint64_t link);
    void (*on_down)(struct side *side, uint64_t link);
};

static struct event_base *loop;
static int64_t live_before;

static inline void lab_up(void *context, uint64_t link, bool outgoing, const char *address)
{
    (void)outgoing;
    CHECK(strchr(address, ':'), "address %s", address);
    struct side *side = context;
    side->ups++;
    side->link = link;
    if (side->on_up) side->on_up(side, link);
}

static inline void lab_down(void *context, uint64_t link, int err, const char *why)
{
    struct side *side = context;
    CHECK(err < 0, "err %d", err);
    side->downs++;
    side->err = err;
    snprintf(side->why, sizeof side->why, "%s", why);
    if (side->on_down) side->on_down(side, link);
}

static inline uint64_t lab_sum(uint64_t sum, uint8_t type, struct ms_bytes payload)
{
    return ms_hash_seeded(payload.data, payload.size, sum * 31 + type);
}

static inline void lab_frame(void *context, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload)
{
    (void)flags;
    struct side *side = context;
    side->frames++;
    side->bytes += payload.size;
    side->sum = lab_sum(side->sum, type, payload);
    side->last_type = type;
    snprintf(side->last_text, sizeof side->last_text, "%.*s", payload.size < 500 ? (int)payload.size : 0,
             (const char *)payload.data);
    if (side->on_frame) side->on_frame(side, link);
}

static inline void lab_drained(void *context, uint64_t link, size_t unsent)
{
    struct side *side = context;
    CHECK(unsent <= LOW_WATER && ms_tcp_unsent(side->tcp, link) == unsent, "unsent %zu", unsent);
    side->drains++;
    side->drained = unsent;
}

static inline void lab_refused(void *context, int err, const char *address, const char *why)
{
    (void)address;
    struct side *side = context;
    side->refusals++;
    side->err = err;
    snprintf(side->why, sizeof side->why, "%s", why);
}

static const struct ms_tcp_events lab_events = {lab_up, lab_down, lab_frame, lab_drained, lab_refused};

struct lab_options {
    const char *cluster, *secret;
    uint32_t handshake_ms, linger_ms, links_max;
};

static inline void side_open(struct side *side, struct lab_options options)
{
    *side = (struct side){0};
    struct ms_tcp_config config = {
        .base = loop,
        .cluster = options.cluster ? options.cluster : "spec",
        .secret = options.secret,
        .bulk_max = BULK_MAX,
        .low_water = LOW_WATER,
        .handshake_ms = options.handshake_ms,
        .linger_ms = options.linger_ms,
        .links_max = options.links_max,
        .events = &lab_events,
        .context = side,
    };
    CHECK(ms_tcp_new(&config, &side->tcp) == 0, "%s", ms_error_message());
}

static inline void side_listen(struct side *side)
{
    CHECK(ms_tcp_listen(side->tcp, "127.0.0.1:0", &side->port) == 0, "%s", ms_error_message());
}

static inline uint64_t side_connect(struct side *side, uint16_t port)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    uint64_t link = ms_tcp_reserve(side->tcp);
    ms_tcp_connect(side->tcp, link, address);
    return link;
}

static inline void lab_open(void)
{
    live_before = ms_mem_live();
    loop = event_base_new();
    CHECK(loop, "no loop");
}

static inline void lab_tick(evutil_socket_t fd, short what, void *context)
{
    (void)fd;
    (void)what;
    (void)context;
}

/* One turn of the loop: it waits for an event for 2 ms at most. */
static inline void step(void)
{
    struct timeval tick = {0, 2000};
    struct event timer;
    evtimer_assign(&timer, loop, lab_tick, NULL);
    event_base_loop(loop, evtimer_add(&timer, &tick) ? EVLOOP_NONBLOCK : EVLOOP_ONCE);
    event_del(&timer);
}

/* Turns the loop for a time, or once round without waiting (0). */
static inline void turn(int ms)
{
    if (ms == 0) event_base_loop(loop, EVLOOP_NONBLOCK);
    for (uint64_t end = spec_now_ms() + (uint64_t)ms; spec_now_ms() < end;) step();
}

/* A loop that has nothing to do turns once per tick; one that spins turns thousands of times. */
static inline void check_idle(int ms)
{
    int turns = 0;
    for (uint64_t end = spec_now_ms() + (uint64_t)ms; spec_now_ms() < end; turns++) step();
    CHECK(turns <= ms / 2 + 50, "%d turns in %d ms", turns, ms);
}

#define UNTIL(condition) \
    do { \
        for (uint64_t limit_ = spec_now_ms() + LIMIT_MS; !(condition); step()) \
            CHECK(spec_now_ms() < limit_, "not within %d ms", LIMIT_MS); \
    } while (0)

static inline bool lab_idle(const struct side *a, const struct side *b)
{
    return ms_tcp_idle(a->tcp) && (!b || ms_tcp_idle(b->tcp));
}

/* Closes politely, then proves that nothing is left. */
static inline void lab_close(struct side *a, struct side *b)
{
    ms_tcp_close_all(a->tcp);
    if (b) ms_tcp_close_all(b->tcp);
    UNTIL(lab_idle(a, b));
    ms_tcp_free(a->tcp);
    if (b) ms_tcp_free(b->tcp);
    event_base_free(loop);
    CHECK(ms_mem_live() == live_before, "%lld blocks are left", (long long)(ms_mem_live() - live_before));
}

/* Two sides with a link between them. */
static inline void pair_open(struct side *listener, struct side *client, struct lab_options options)
{
    lab_open();
    side_open(listener, options);
    side_open(client, options);
    side_listen(listener);
    side_connect(client, listener->port);
    UNTIL(listener->ups && client->ups);
}

static inline void send_text(struct side *side, uint8_t type, const char *text)
{
    ms_tcp_send(side->tcp, side->link, type, 0, ms_str(text), NULL);
}

/* ---- raw sockets ------------------------------------------------------------------------------------------------------ */

static inline int raw_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "%s", strerror(errno));
    return fd;
}

static inline int raw_listen(uint16_t *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 64) == 0, "%s", strerror(errno));
    CHECK(getsockname(fd, (struct sockaddr *)&at, &size) == 0, "%s", strerror(errno));
    *port = ntohs(at.sin_port);
    return fd;
}

/* Turns the loop until somebody has connected. */
static inline int raw_accept(int listener)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    UNTIL(poll(&ready, 1, 0) == 1);
    return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

/* Sends; a peer that has gone is fine. */
static inline void raw_send(int fd, const void *data, size_t size)
{
    for (const char *at = data; size;) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            at += sent;
            size -= (size_t)sent;
        } else if (errno == EAGAIN) {
            step();
        } else {
            return;
        }
    }
}

/* What has come, at most `size` bytes; 0 = nothing yet, -1 = the end. */
static inline ssize_t raw_recv(int fd, void *data, size_t size)
{
    ssize_t got = recv(fd, data, size, MSG_DONTWAIT);
    if (got > 0) return got;
    return got < 0 && errno == EAGAIN ? 0 : -1;
}

static inline void raw_reset(int fd)
{
    struct linger hard = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
}

static inline void buf_frame(struct ms_buf *buf, uint8_t type, struct ms_bytes payload)
{
    uint8_t header[MS_FRAME_HEADER];
    ms_frame_header(header, type, 0, payload, 0);
    ms_buf_add(buf, header, sizeof header);
    ms_buf_add(buf, payload.data, payload.size);
}

static const uint8_t raw_nonce[MS_AUTH_NONCE] = "a nonce that is not random at al";

/* The greeting of a raw client (or listener), without secret. */
static inline void buf_greeting(struct ms_buf *buf, bool is_client)
{
    struct ms_auth auth;
    CHECK(ms_auth_init(&auth, NULL, "spec", is_client, raw_nonce) == 0, "%s", ms_error_message());
    ms_auth_greeting(&auth, buf);
}

/* Takes exactly that many bytes. */
static inline void raw_take(int fd, void *data, size_t size)
{
    for (size_t got = 0; got < size;) {
        ssize_t some = raw_recv(fd, (char *)data + got, size - got);
        CHECK(some >= 0, "closed after %zu bytes of %zu", got, size);
        if (some == 0) step();
        got += (size_t)some;
    }
}

/* A raw client that has shaken hands with the side, and has read its greeting. */
static inline int raw_link(struct side *side)
{
    int ups = side->ups, fd = raw_connect(side->port);
    struct ms_buf greeting;
    ms_buf_init(&greeting);
    buf_greeting(&greeting, true);
    raw_send(fd, greeting.data, greeting.size);
    ms_buf_close(&greeting);
    UNTIL(side->ups == ups + 1);
    uint8_t theirs[MS_FRAME_HEADER + MS_AUTH_GREETING_MAX];
    struct ms_frame frame;
    raw_take(fd, theirs, MS_FRAME_HEADER);
    CHECK(ms_frame_open(theirs, 0, &frame) == 0 && frame.type == MS_FRAME_GREETING, "%s", ms_error_message());
    raw_take(fd, theirs + MS_FRAME_HEADER, frame.size);
    return fd;
}

/* Reads to the end. 1: the last whole frame was a BYE, *code is its (negative) code. 0: there was none. */
static inline int raw_bye(int fd, int *code)
{
    struct ms_buf all;
    ms_buf_init(&all);
    for (uint64_t limit = spec_now_ms() + LIMIT_MS;;) {
        uint8_t bytes[4096];
        ssize_t got = raw_recv(fd, bytes, sizeof bytes);
        if (got < 0) break;
        ms_buf_add(&all, bytes, (size_t)got);
        if (got == 0) step();
        CHECK(spec_now_ms() < limit, "the link is not closed");
    }
    int found = 0;
    for (size_t at = 0; at + MS_FRAME_HEADER <= all.size;) {
        struct ms_frame frame;
        CHECK(ms_frame_open(all.data + at, BULK_MAX, &frame) == 0, "%s", ms_error_message());
        struct ms_message message;
        ms_message_init(&message);
        found = frame.type == MS_FRAME_BYE;
        if (found && ms_message_decode(frame.type, ms_bytes(all.data + at + MS_FRAME_HEADER, frame.size), &message) == 0)
            *code = -(int)message.code;
        ms_message_close(&message);
        at += MS_FRAME_HEADER + frame.size;
    }
    ms_buf_close(&all);
    return found;
}

#endif
