/* One node: the engine, its lock, its threads and what waits. Internal to core/node*.c; hosts see metasync.h.
 *
 *      caller threads ──ms_put──> [lock: engine] ──wake-up──> loop thread: log, links, timers
 *                                       ▲                       sync thread: fsync
 *                                       │ door                  bulk thread: files
 *                                       └────────────────────── host thread: the host's callbacks
 *
 * The lock is `mutex`. Whoever lets it go with ms_node_unlock also wakes those whose wait is over, and the loop if it sleeps and there
 * is something for it to do: at most one system call, and none while the loop is awake. So a thread never touches the loop's
 * objects, it only leaves word; a worker may also send what little there is, as a visitor of the links (node_net.c).
 *
 * Waits, none of which holds the lock:
 *   for a level           struct ms_waiter, in the order of lsns, one list a level: a commit of the log wakes whom it concerns
 *   for a busy key        struct ms_txn, in the holder's list: ms_end hands the key on
 *   for all else          the condition `changed` (role, room, snapshots), few and rare */
#ifndef MS_NODE_H
#define MS_NODE_H

#include "base/error.h"
#include "base/mem.h"
#include "drive/control.h"
#include "drive/disk.h"
#include "drive/hold.h"
#include "drive/tcp.h"
#include "node_policy.h"

enum {
    MS_NODE_LEVELS = MS_LEVEL_REPLICA + 1,
    MS_NODE_KEYS = 256,   /* buckets of busy keys */
    MS_NODE_OWNERS = 64,  /* buckets of threads that are inside a transaction */
    MS_NODE_GATHER_BYTES = 256 << 10,
    MS_NODE_PATIENCE_MS = 10000, /* what a write waits for room or for a busy key */
};

#define MS_NODE_LINE __attribute__((aligned(64))) /* a processor's line of memory */

struct ms_table { /* the handle */
    struct ms_node *node;
    struct ms_table_state *state;
    bool comparing; /* [lock] an ms_compare is under way */
};

enum { MS_WAITING = 1 };

struct ms_waiter {
    struct ms_list node;
    uint64_t lsn, epoch_id;
    int result;              /* MS_WAITING until the wait is over; then 0 or MS_E_* */
    char why[MS_ERROR_SIZE]; /* only if result < 0: the message of the thread that ended the wait */
    struct ms_parker parker;
};

/* What links are told: queued under the lock, done by the loop, or by a worker if it is little (ms_net_visit). Entries of struct net_op
 * (node_net.c), each followed by its payload. */
struct ms_net_queue {
    struct ms_buf ops;
    size_t bytes;    /* to be sent: payloads and blocks */
    uint32_t sends;  /* entries that send something */
    uint32_t others; /* entries that do not */
    uint32_t closes; /* entries that close a link */
};

/* What the host's callbacks are to hear: node_host.c. */
struct ms_host_queue {
    struct ms_host host;
    bool active;               /* there is a host thread */
    bool led;                  /* the last role was leader */
    bool stop;
    pthread_cond_t cond;
    bool ready;
    struct ms_list items;      /* struct host_item */
    uint64_t bytes, bytes_max; /* of the blocks in items */
    uint32_t lines, lines_lost;
    uint32_t entered;          /* items of that kind: whoever adds them waits for some of them to be told */
    bool full_wanted;          /* FULL batches before anything else */
    bool held_back;            /* until this follower has caught up, or knows that it can't */
    uint64_t role_since;
    uint64_t version;          /* moves when what is queued must not be applied any more */
    uint64_t retry_at, pause_us;
    uint64_t audit_at;         /* when the next slow comparison of the host's copy is due */
    bool auditing;             /* the FULL that is wanted is one */
    struct ms_thread thread;
    /* of the host thread alone: */
    uint64_t *copied[MS_TABLES_MAX]; /* lsn at which each shard of the table was copied for a FULL, while it matters */
    uint64_t copied_last;      /* the highest of them */
    struct ms_buf copy;        /* entries of a FULL: key size u32, value size u32, key, value */
    struct ms_buf changes;     /* struct ms_change[] of a batch */
};

struct ms_node {
    struct ms_io io; /* first: the engine hands it back */
    struct ms_door door;

    /* What every commit writes stands in few lines of memory, since each of them has to come over from the processor of who committed last:
     * one of the node, one of the tail, one of the store. */
    pthread_mutex_t mutex MS_NODE_LINE;
    bool pump;            /* [lock] word for the loop: something was appended */
    bool asleep, told;    /* [lock] the loop sleeps (or is about to); it was woken since */
    bool gathering;       /* [lock] it sleeps for a moment only, so that a group becomes larger: see node_io.c */
    bool moved;           /* [lock] positions moved since waits were looked at */
    bool at_work;         /* [lock] a thread is the disk's worker; it lets go with the lock */
    bool work_wanted;     /* [lock] the loop came for it meanwhile */
    bool closing;         /* [lock] ms_close has begun */
    struct ms_hold hold;
    struct ms_engine engine MS_NODE_LINE;
    struct ms_store store MS_NODE_LINE;

    pthread_cond_t changed;
    bool mutex_ready, changed_ready;
    struct ms_policy policy;   /* as at the start; what a reload changed is in engine.policy */
    struct ms_node_policy rules;
    char dir[MS_PATH_MAX], listen[MS_ADDRESS_MAX];
    bool engine_ready, store_ready, loop_ready, has_secret;
    uint16_t port;

    /* [lock] word for the loop, and its sleep */
    uint64_t gather_until; /* when `gathering` ends */
    uint64_t batch;       /* records that its last round took from the tail */
    uint64_t wake_at, armed_at; /* the earliest tick wanted; what the timer is set to while it sleeps */
    struct ms_net_queue net;
    bool net_taken;       /* the loop has taken a part of it and not come back yet */
    bool net_visited;     /* a worker has; it looks again */
    bool net_left;        /* a worker has left something on the links for the loop */

    /* [lock] waits and calls */
    struct ms_list waiters[MS_NODE_LEVELS];
    uint32_t inside;      /* calls that wait: ms_close waits for them */
    uint32_t workers;     /* threads that let go of the lock as workers: ms_close waits for them too */
    uint32_t watchers;    /* on `changed` */
    uint32_t txns;        /* alive, waiting ones too */
    uint32_t batches;     /* waiting for keys */
    struct ms_list keys[MS_NODE_KEYS], owners[MS_NODE_OWNERS];
    struct ms_table *tables[MS_TABLES_MAX];
    uint32_t table_count;

    struct ms_loop loop;
    struct ms_disk disk;
    struct ms_tcp *tcp;
    struct ms_net_queue net_run;   /* loop */
    struct ms_net_queue net_visit; /* the worker that visits */
    bool net_lost, net_cut;      /* memory for the queue was out, [lock]; so links are to be cut, loop */
    bool hang_up, hung_up;       /* [lock] ms_close wants the links closed; they are */
    bool hanging;                /* loop */
    struct ms_host_queue host;
    struct ms_control *control;
    ms_control_fn extend;        /* [lock] */
    void *extend_context;
};

struct ms_txn {
    struct ms_list by_key;   /* in a bucket of keys: the holder. In the holder's waiters: who waits */
    struct ms_list by_owner;
    struct ms_list waiters;
    struct ms_table *table;
    const void *owner;       /* the thread */
    uint64_t key_hash;
    bool held, committed;
    int result;              /* of the wait for the key */
    struct ms_parker parker;
    struct ms_bytes value;   /* owned unless it stands in `room` */
    size_t key_size;
    uint8_t room[128];       /* small values need no allocation */
    uint8_t key[];
};

/* ---- node_wait.c: the lock, and waiting ------------------------------------------------------------------------------------ */

void ms_node_lock(struct ms_node *node);
void ms_node_unlock(struct ms_node *node);
void ms_node_unlock_working(struct ms_node *node); /* and does what is queued for the disk, if nobody is at it, and sends what
                                                      comes of it: the loop need not wake up for a lone change */
bool ms_node_sleep(struct ms_node *node, pthread_cond_t *cond, uint64_t deadline); /* ms_cond_wait; no hold goes on meanwhile */
void ms_node_settle(struct ms_node *node); /* what unlock does for others, without letting go: before waiting on a condition */
void ms_node_enter(struct ms_door *door); /* the same for the disk side */
void ms_node_leave(struct ms_door *door);
void ms_node_leave_working(struct ms_door *door);

/* With the lock, which is let go meanwhile: waits for `changed`. false at the deadline. */
bool ms_node_watch(struct ms_node *node, uint64_t deadline);

/* With the lock, which is let go for good: waits until lsn has reached the level, if it has not; see ms_wait for results. */
int ms_node_wait_unlock(struct ms_node *node, uint64_t lsn, int level, uint64_t deadline);

/* With the lock: ends every wait with MS_E_CLOSED. */
void ms_node_end_waits(struct ms_node *node);

/* MS_E_CALLBACK in a callback of this node, else 0. */
int ms_node_may_wait(const struct ms_node *node, const char *what);

/* With the lock. The loop has something to do; something other than to take what was appended. */
bool ms_node_has_work(const struct ms_node *node);
bool ms_node_urgent(const struct ms_node *node);
bool ms_node_someone_waits(const struct ms_node *node);

/* ---- node_io.c, node_net.c: the engine's effects ------------------------------------------------------------------------------ */

extern const struct ms_io_ops ms_node_io_ops;
extern const struct ms_tcp_events ms_node_tcp_events;
bool ms_node_turn(void *node);

uint64_t ms_net_connect(struct ms_node *node, const char *address);
void ms_net_send(struct ms_node *node, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload, struct ms_block *block);
void ms_net_close(struct ms_node *node, uint64_t link);
void ms_net_pause(struct ms_node *node, uint64_t link, bool paused);
bool ms_net_take(struct ms_node *node); /* loop, with the lock: true if something was queued */
void ms_net_perform(struct ms_node *node); /* loop, without it */
void ms_net_visit(struct ms_node *node); /* with the lock, which is let go meanwhile; a worker: sends what little there is */
void ms_net_drop(struct ms_net_queue *queue);

/* ---- node_read.c ---------------------------------------------------------------------------------------------------------------- */

/* With the lock: the handle of a table, made if need be; NULL = MS_E_MEMORY. */
struct ms_table *ms_node_table(struct ms_node *node, struct ms_table_state *state);

/* ---- node_key.c: [lock] ends what this thread has not ended itself, for ms_close */

void ms_key_drop_mine(struct ms_node *node);

/* ---- node_host.c ------------------------------------------------------------------------------------------------------------------- */

int ms_host_init(struct ms_node *node, const struct ms_host *host);
int ms_host_start(struct ms_node *node);
void ms_host_stop(struct ms_node *node);
void ms_host_close(struct ms_node *node);

/* [lock] */
void ms_host_applied(struct ms_node *node, struct ms_block *block);
void ms_host_replaced(struct ms_node *node);
void ms_host_look(struct ms_node *node); /* something has changed: perhaps that a follower has caught up */
void ms_host_role(struct ms_node *node, int role, const char *reason);
void ms_host_line(struct ms_node *node, int severity, const char *line);
bool ms_host_entered(struct ms_node *node, const char *table, struct ms_bytes key); /* false: memory; key.data may be NULL */
void ms_host_policy(struct ms_node *node, const struct ms_policy *policy); /* numbers that a reload changed */

enum { MS_HOST_ENTERED_MAX = 1000 }; /* more than that wait to be told: whoever adds them waits too */

/* ---- node_policy.c: [lock] word for the policy thread */

void ms_policy_ask_flush(struct ms_node *node, uint32_t table, const struct ms_flush_stats *stats); /* -> ms_engine_flush_plan */
void ms_policy_event(struct ms_node *node, const struct ms_event *event);
void ms_node_tell(struct ms_node *node, const char *kind, int severity, const char *line); /* the operator, and on_event; kind: static */
void ms_node_alarm(struct ms_node *node, const char *line);

/* ---- node_control.c ----------------------------------------------------------------------------------------------------------------- */

int ms_node_control(void *node, const char *request, char **reply);

#endif
