/* A leader's (and listener's) view of one link, and its progress: four states instead of flags.
 *
 *      PROBE ──START(stream)──> STREAM <──START(stream)── SNAPSHOT <──START(snapshot)── PROBE <──compared── HELD <──hello── PROBE
 *
 *  PROBE     hello not finished, or a verdict is out and START has not come
 *  STREAM    gets blocks as they are written; `next` is the lsn it gets next
 *  SNAPSHOT  gets pieces of a snapshot file; the log behind `pin` is kept for it
 *  HELD      its hello came while this leader's host compares: its verdict comes when that ends */
#ifndef MS_SYNC_PEER_H
#define MS_SYNC_PEER_H

#include "../base/list.h"
#include "frame.h"

enum ms_peer_state { MS_PEER_PROBE = 1, MS_PEER_STREAM = 2, MS_PEER_SNAPSHOT = 3, MS_PEER_HELD = 4 };

struct ms_peer {
    struct ms_list node;
    uint64_t link;
    int state;
    bool outgoing;         /* we connected, to ask it before leading */
    bool greeted;          /* its hello came */
    uint64_t node_id;
    char name[64], address[64];
    struct ms_lineage lineage; /* HELD: owned; with first and position, the history that its hello told */
    uint64_t first, position;
    uint64_t next;         /* STREAM: next lsn to send */
    bool reading;          /* a log_read or snapshot_read is under way */
    uint64_t common;       /* of its verdict: no snapshot may take its readers back behind it */
    uint64_t snapshot, offset, pin; /* SNAPSHOT: id (0 = not chosen yet), file offset, see above */
    bool began, ended;     /* SNAPSHOT: its BEGIN, END was sent */
    uint64_t poll_at;      /* SNAPSHOT: ask for the next piece then, 0 = not waiting */
    uint64_t sent_bytes, unsent; /* unsent: bytes handed to io->send and not reported as gone */
    uint64_t durable, applied, host_applied; /* its acks */
    bool in_sync;
    uint64_t target, lagging_since; /* what we had synced at that monotonic time and it has not made durable yet */
    uint32_t extras;        /* it has offered and that are not decided */
    uint64_t extras_bytes;  /* of those, since there was none last */
    uint64_t heard, spoken; /* monotonic times of the last frame in, out */
};

const char *ms_peer_state_name(int state);

#endif
