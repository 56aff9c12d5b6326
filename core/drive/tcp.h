/* Links over TCP, on a libevent loop: connecting, accepting, the handshake of auth.h, frames in, frames out.
 *
 *      ms_tcp_connect ──> (name look-up) ──> connect ──┐
 *                                                      ├──> handshake ──> up ──> frame* ... ──> down
 *      ms_tcp_listen  ──> accept ──────────────────────┘
 *
 * A link is a number that is never used again. It begins for the owner with `up`, or with the number it got for
 * ms_tcp_connect, and ends with `down` or with its own ms_tcp_close, whichever is first; nothing is reported about it after
 * that. What is said to a link that has ended is ignored, because a message and the end may cross.
 *
 * Threads: all functions belong to the loop's thread (before the loop runs, and after it: to the owner's), except
 * ms_tcp_reserve and what a visitor may do. Events are reported on the loop's thread and never from inside a ms_tcp_* function
 * (but ms_tcp_flush); from inside an event every function but ms_tcp_free may be called, for that link too.
 *
 * Visitors: another thread that has something to send need not wait for the loop to wake up. Between ms_tcp_visit and
 * ms_tcp_end_visit it may call ms_tcp_send; what the sockets take at once is gone when the visit ends, the rest is the loop's. An
 * owner that lets others visit puts its own calls outside of events between ms_tcp_enter and ms_tcp_leave (in an event it is
 * inside already), and takes its own locks after that one, never before.
 *
 * Bounds: at most links_max accepted links; as many more may be in a handshake (the oldest makes room for a new one, so that
 * idle connections lock nobody out); a handshake has handshake_ms in all; a frame's length is checked before memory is
 * taken, and memory grows with what has arrived, not with what was announced. What waits to be sent is bounded by the owner,
 * who sees it in ms_tcp_unsent and in `drained`: a reader that stops costs as much as was sent to it, no more.
 *
 * Signals: none are raised or touched (MSG_NOSIGNAL). */
#ifndef MS_DRIVE_TCP_H
#define MS_DRIVE_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "../metasync.h"

struct event_base;
struct ms_block;
struct ms_tcp;

/* Texts and payloads are borrowed for the call. */
struct ms_tcp_events {
    /* The handshake is done: the owner may send. address: the other end, as numbers. */
    void (*up)(void *context, uint64_t link, bool outgoing, const char *address);
    /* The link is gone, or could not be made. err: MS_E_IO (refused, reset, closed by the peer), TIMEOUT, ADDRESS
     * (malformed, unknown name, not loopback without a secret), AUTH, CLUSTER, VERSION, FORMAT, LIMIT, MEMORY, or what the
     * peer's BYE said in a handshake. */
    void (*down)(void *context, uint64_t link, int err, const char *why);
    /* One whole frame; the hash of a control frame is checked, the groups in a bulk frame are not. */
    void (*frame)(void *context, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload);
    /* Something that was sent has gone to the system, and `unsent` bytes, at most low_water, are left. At most once per link
     * and turn of the loop. */
    void (*drained)(void *context, uint64_t link, size_t unsent);
    /* An accepted connection ended before it was a link: for the log. May be NULL. */
    void (*refused)(void *context, int err, const char *address, const char *why);
};

struct ms_tcp_config {
    struct event_base *base;            /* borrowed; must outlive the object */
    const char *cluster;                /* copied */
    const char *secret;                 /* copied; NULL = none: loopback only */
    size_t bulk_max;                    /* largest payload of a GROUP or SNAPSHOT_DATA frame that is accepted */
    size_t low_water;                   /* see drained */
    uint32_t handshake_ms;              /* look-up, connect and handshake together; 0 = 5000 */
    uint32_t linger_ms;                 /* what a closed link has to get rid of its bytes; 0 = 2000 */
    uint32_t links_max;                 /* accepted ones; 0 = 64 */
    const struct ms_tcp_events *events; /* borrowed */
    void *context;
};

int ms_tcp_new(const struct ms_tcp_config *config, struct ms_tcp **tcp); /* INVALID (secret, cluster), MEMORY */

/* Closes everything at once, without events, after one last attempt to send without waiting. To let the last frames (a BYE)
 * get through, call ms_tcp_close_all and run the loop until ms_tcp_idle, which takes linger_ms at most. NULL is allowed. */
void ms_tcp_free(struct ms_tcp *tcp);

/* Listens on "ADDRESS:PORT" (port 0 = any); *port is the one it got. A name is looked up by the system, which may wait. Once
 * per object. ADDRESS (malformed, not ours, not loopback without a secret), IO (in use ...), INVALID. */
int ms_tcp_listen(struct ms_tcp *tcp, const char *address, uint16_t *port);

uint64_t ms_tcp_reserve(struct ms_tcp *tcp); /* the number of a new link. Any thread */

/* Makes the reserved link by connecting to "HOST:PORT" (copied): `up` or `down` follows. Names are looked up without
 * blocking in /etc/hosts and at the name servers of /etc/resolv.conf; all addresses of a name are tried, one after the
 * other. */
void ms_tcp_connect(struct ms_tcp *tcp, uint64_t link, const char *address);

/* One frame: payload (copied), then the block's group, if there is one (its own reference is taken). It leaves at the end of
 * this turn of the loop, together with what else was sent to the link in it. */
void ms_tcp_send(struct ms_tcp *tcp, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload,
                 struct ms_block *block);

/* Does now what the end of the loop's turn would do: sends, reports. For an owner that works between two turns of the loop:
 * it saves a system call. Unlike all others it may report events; from inside an event it does nothing. */
void ms_tcp_flush(struct ms_tcp *tcp);

/* Loop thread: keeps visitors out; it waits for one that is inside, who never waits. Not in an event, not twice. */
void ms_tcp_enter(struct ms_tcp *tcp);
void ms_tcp_leave(struct ms_tcp *tcp);

/* Any other thread, with any lock: false if the loop or another visitor is inside, or the loop is about to be. */
bool ms_tcp_visit(struct ms_tcp *tcp);

/* Sends without waiting, and leaves. sent is called, on this thread and before it leaves, instead of `drained`, and may not call
 * ms_tcp_*. true: something is left (a full socket, an error) that the loop must come for: ms_tcp_enter, ms_tcp_leave. */
bool ms_tcp_end_visit(struct ms_tcp *tcp, void (*sent)(void *context, uint64_t link, size_t unsent), void *context);

void ms_tcp_close(struct ms_tcp *tcp, uint64_t link); /* sends what was given to ms_tcp_send within linger_ms, then closes */

/* While paused nothing is read from the link and no frame of it is reported, and so its end may go unnoticed. */
void ms_tcp_pause(struct ms_tcp *tcp, uint64_t link, bool paused);

size_t ms_tcp_unsent(const struct ms_tcp *tcp, uint64_t link); /* bytes that wait to be sent; 0 for a link that has ended */

void ms_tcp_close_all(struct ms_tcp *tcp);  /* the listener, and every link as by ms_tcp_close */
bool ms_tcp_idle(const struct ms_tcp *tcp); /* nothing is open or lingering any more */

/* Calls fn for each link that is up. fn may not call ms_tcp_*. */
void ms_tcp_each(const struct ms_tcp *tcp,
                 void (*fn)(void *context, uint64_t link, bool outgoing, const char *address, size_t unsent), void *context);

#endif
