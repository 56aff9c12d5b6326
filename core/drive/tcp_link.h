/* Inside of tcp: what its files share. tcp.c has the owner's functions, the listener and the turn; tcp_link.c the life of a
 * link; tcp_read.c bytes in, handshake, frames; tcp_write.c frames out; tcp_visit.c other threads; tcp_connect.c how an outgoing
 * link comes by its socket.
 *
 *      CONNECTING ──> SHAKING ──> UP ──> CLOSING ──> DEAD
 *           └────────────┴─────────┴──────────────────^
 *
 * All of it is under the mutex: every callback of libevent takes it, and the owner and visitors do with ms_tcp_enter and
 * ms_tcp_visit. Only the loop's thread touches libevent's events, which know of no mutex.
 *
 * Two rules make re-entrance harmless (the owner may call anything from an event):
 *  - ms_tcp_* functions only note what is to be done and put the link on the `todo` list; the work event does it, at the end
 *    of this turn of the loop. So owner's functions never call the owner.
 *  - A dead link has no events and no socket any more, but its memory stays until the work event has nobody on its stack. So
 *    whoever called the owner may look at the link's state afterwards, and has to. */
#ifndef MS_DRIVE_TCP_LINK_H
#define MS_DRIVE_TCP_LINK_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdatomic.h>

#include "../base/list.h"
#include "../sync/frame.h"
#include "address.h"
#include "auth.h"
#include "tcp.h"
#include "threads.h"

struct evbuffer;

enum { MS_TCP_STILLBORN_MAX = 32 };

struct ms_tcp {
    pthread_mutex_t mutex;
    atomic_bool wanted; /* the loop waits for the mutex: no more visitors */
    bool visited;       /* a visitor has it */
    struct event_base *base;
    const struct ms_tcp_events *events;
    void *context;
    char *secret; /* owned, NULL = none */
    char cluster[64];
    size_t bulk_max, low_water;
    uint32_t handshake_ms, linger_ms, links_max;
    _Atomic uint64_t next_link;
    struct ms_list links; /* oldest first */
    struct ms_list todo;
    struct ms_list dead;
    struct ms_list lookups; /* pending ones, canceled ones included */
    struct event work;
    int reporting; /* the owner is on the stack */
    int listen_fd; /* -1 = none */
    struct event listener, relief;
    uint64_t stillborn[MS_TCP_STILLBORN_MAX]; /* links for which there was no memory: `down` is due */
    size_t stillborn_count;
};

enum ms_tcp_state { MS_TCP_CONNECTING = 1, MS_TCP_SHAKING = 2, MS_TCP_UP = 3, MS_TCP_CLOSING = 4, MS_TCP_DEAD = 5 };

struct ms_tcp_attempt;

struct ms_tcp_link {
    struct ms_list node; /* tcp->links or tcp->dead */
    struct ms_list todo; /* tcp->todo, or a ring of its own */
    struct ms_tcp *tcp;
    uint64_t id; /* 0: accepted and not up yet */
    int state;
    int fd; /* -1 = none */
    bool outgoing, paused;
    bool resumed;      /* frames may wait in the buffer */
    bool blocked;      /* the loop sends on when the socket takes more */
    bool write_failed; /* what the peer still said is read, then the link fails */
    bool shut;         /* CLOSING: our last byte is out */
    int err;           /* a failure met inside ms_tcp_*, to be reported: MEMORY or IO */
    uint64_t deadline; /* of look-up, connect and handshake; monotonic us */
    struct event readable, writable, timer;
    struct evbuffer *out;
    struct {
        uint8_t *data; /* frames and pieces of one stand in start..end */
        size_t start, end, capacity;
        size_t want; /* whole size of the frame that is there in part */
        bool filled; /* the last read took all the room there was */
    } in;
    struct ms_auth *auth;           /* SHAKING */
    struct ms_tcp_attempt *attempt; /* CONNECTING */
    char address[MS_ADDRESS_TEXT];
};

/* ---- tcp.c ------------------------------------------------------------------------------------------------------------ */

void ms_tcp_schedule(struct ms_tcp_link *link); /* have its turn at the end of this turn of the loop */
struct ms_tcp_link *ms_tcp_find(const struct ms_tcp *tcp, uint64_t id); /* one that has not ended for the owner; NULL */
size_t ms_tcp_count(const struct ms_tcp *tcp, int state, bool outgoing);

/* ---- tcp_link.c ------------------------------------------------------------------------------------------------------- */

struct ms_tcp_link *ms_tcp_link_new(struct ms_tcp *tcp, bool outgoing); /* NULL = MS_E_MEMORY */
void ms_tcp_link_free(struct ms_tcp_link *link);
void ms_tcp_link_attach(struct ms_tcp_link *link, int fd);    /* takes the socket */
void ms_tcp_link_detach(struct ms_tcp_link *link);            /* closes it */
void ms_tcp_link_greet(struct ms_tcp_link *link);             /* the socket is connected: SHAKING */
int ms_tcp_link_timer(struct ms_tcp_link *link, uint64_t us); /* MS_E_MEMORY: there is none, so the link may not stay */
void ms_tcp_link_close(struct ms_tcp_link *link);             /* sends what waits, then dies; no more events */
void ms_tcp_link_die(struct ms_tcp_link *link);
void ms_tcp_link_bye(struct ms_tcp_link *link, int err); /* appends a BYE with the message of this thread's last failure */

/* The end of a link that the owner has to hear of, with the message of this thread's last failure. polite: what waits to be
 * sent (a BYE) goes out first. */
void ms_tcp_link_fail(struct ms_tcp_link *link, int err, bool polite);

/* ---- tcp_read.c ------------------------------------------------------------------------------------------------------- */

void ms_tcp_link_readable(struct ms_tcp_link *link);
void ms_tcp_link_frames(struct ms_tcp_link *link); /* reports the whole frames that are in the buffer */

/* ---- tcp_write.c ------------------------------------------------------------------------------------------------------ */

void ms_tcp_link_flush(struct ms_tcp_link *link); /* sends what the socket takes; reports `drained` */

/* Hands bytes to the system until there are none, it takes no more, or it is others' turn. *sent: how many it took. 0 or errno. */
int ms_tcp_link_send(struct ms_tcp_link *link, size_t *sent);

/* ---- tcp_connect.c ---------------------------------------------------------------------------------------------------- */

int ms_tcp_attempt_new(struct ms_tcp_link *link, const char *address); /* MS_E_MEMORY */
void ms_tcp_attempt_free(struct ms_tcp_link *link);
void ms_tcp_attempt_start(struct ms_tcp_link *link);
void ms_tcp_attempt_writable(struct ms_tcp_link *link); /* the socket's connect has ended */
void ms_tcp_attempt_timeout(struct ms_tcp_link *link);

#endif
