/* The disk side of io.h: what the engine wants done to files, done for real.
 *
 *      engine --ms_disk_log_write, ...--> queue --take--> worker --> pwrite of the log
 *             [node's lock]                                  │ ├───> sync thread: fsync
 *                                                            │ └───> bulk thread: zero-filling, reading, archive, staging, snapshots
 *             <--ms_engine_written, _synced, ... [node's lock, through the door]--
 *
 * The worker is whoever took the queue: one thread at a time, which the node sees to (struct ms_node, at_work). It is the loop, a
 * caller that would otherwise wait for the loop to write what it has just appended, or the sync thread between two syncs: a change
 * is then written without a switch of threads. All but the loop only write and sync, and leave the rest to it.
 *
 * Order. The queue is worked off in order. Jobs of the ordered kind that run on the bulk thread (archive, stage_*)
 * keep their order there, and no later log operation starts before they are done; syncs may run while the log is written on, as
 * log.h allows. The log object is the worker's, except for the time of a stage_commit, which nothing else overlaps.
 *
 * Memory that runs out for the queue itself is reported as a failure of the log: there is nobody else to tell. */
#ifndef MS_DRIVE_DISK_H
#define MS_DRIVE_DISK_H

#include "../base/error.h"
#include "../state/datadir.h"
#include "../sync/engine.h"
#include "bulk.h"
#include "loop.h"

/* How threads of drive/ get at the engine: enter takes the node's lock, leave lets it go and wakes whoever has reason to. */
struct ms_door {
    struct ms_engine *engine;
    void (*enter)(struct ms_door *door);
    void (*leave)(struct ms_door *door);
    void (*leave_working)(struct ms_door *door); /* and does what is queued for the disk, if nobody else is at it */
};

struct ms_disk_op { /* disk.c */
    int kind;
    uint64_t link, from, limit; /* the numbers of the call, in its order; link of stage_*: the stage's number */
    struct ms_block *block;     /* owned */
    uint8_t *bytes;             /* owned */
    struct ms_store *store;     /* owned */
    size_t size;
    bool lost;                  /* memory for the bytes was out */
};

struct ms_disk_ops {
    struct ms_disk_op *at;
    size_t next, count, capacity;
};

enum { MS_DISK_READERS = 8, MS_DISK_BLOCKS = 512, MS_DISK_PIECE = 32 << 10 };

/* Of a bootstrap's file. */
enum {
    MS_DISK_STAGE_PIECE = 512 << 10, /* a write */
    MS_DISK_SYNC_BYTES = 4 << 20,
    MS_DISK_BACKLOG = 8 << 20,       /* queued for the bulk thread, at most one piece more */
    MS_DISK_SPARES = MS_DISK_BACKLOG / MS_DISK_STAGE_PIECE + 2,
};

struct ms_disk_piece {
    uint8_t *bytes; /* owned */
    size_t size, capacity;
};

struct ms_disk_reader { /* bulk thread: a follower that reads the log, at `next` */
    uint64_t link, next, used;
    struct ms_log_reader *reader;
};

struct ms_disk_source { /* bulk thread: a snapshot file that a follower reads */
    uint64_t link, id, end, size, used;
    bool growing; /* it is still being made */
    struct ms_file *file;
};

enum ms_maker_state { MS_MAKER_OFF, MS_MAKER_NEW, MS_MAKER_WALK, MS_MAKER_LOG };

struct ms_disk {
    struct ms_door *door;
    struct ms_loop *loop;
    struct ms_fs *fs;
    struct ms_datadir dir;
    struct ms_log *log; /* NULL: recovery failed; until the next bootstrap there is none */
    struct ms_log_config log_config;
    struct ms_recovery recovery;
    int recovered;      /* 0, or why there is no log */
    uint64_t extras;    /* that waited for a decision when it was opened */
    char cluster[64];
    uint64_t largest;   /* group that the policy allows */
    uint32_t group_bytes, window_bytes;
    _Atomic uint32_t keep;      /* snapshots */
    _Atomic uint64_t log_max;   /* bound of the log from now on; log_config has that of the start */
    bool open;

    struct ms_disk_ops queue; /* [lock] */
    bool lost;                /* [lock] an operation was dropped for want of memory */
    struct ms_disk_ops run;   /* worker */
    bool lost_seen;           /* worker */
    bool blocked;             /* worker: what is next in run waits for a job */

    /* sync thread */
    pthread_mutex_t sync_mutex;
    pthread_cond_t sync_cond;
    bool sync_ready, sync_posted, sync_stop; /* under sync_mutex */
    struct ms_sync_job sync_job;
    bool syncing, sync_wanted;               /* worker */
    atomic_bool sync_done, sync_awaited;
    struct ms_thread sync_thread;

    /* bulk thread */
    struct ms_bulk bulk;
    atomic_int ordered;    /* ordered jobs under way */
    _Atomic uint64_t written; /* last lsn in the files of the log */
    atomic_bool log_failed;
    struct {
        struct ms_bulk_job job;
        struct ms_prepare_job prepare;
        bool active, wanted; /* worker */
        atomic_bool done;
        char why[MS_ERROR_SIZE]; /* the failure in words: messages are per thread */
    } room;
    struct {
        struct ms_bulk_job job;
        bool active, wanted;       /* worker */
        uint64_t next_pin, next_keep; /* worker: of the one that is wanted */
        uint64_t pin, keep, generation; /* of the job */
        uint64_t end;              /* the log may be trimmed up to here */
        int rc;
        atomic_bool done;
    } trim;
    struct {
        struct ms_file *file;
        uint64_t offset, synced;
        int rc;
        uint64_t number;         /* worker: counts stage_begin */
        _Atomic uint64_t lost;   /* number of a stage that misses something for want of memory */
        struct ms_disk_piece filling;       /* [lock] */
        uint8_t *spare[MS_DISK_SPARES];     /* backlog_mutex: buffers of MS_DISK_STAGE_PIECE bytes */
        size_t spares;                      /* backlog_mutex */
        size_t backlog;          /* backlog_mutex: bytes queued for the bulk thread */
        struct ms_log *log;      /* of the new generation, for the loop */
        uint64_t end;
        int result;              /* of the commit */
        bool switched;           /* the new generation is the live one */
        char why[MS_ERROR_SIZE];
        atomic_bool done;
    } stage;
    _Atomic uint64_t generation; /* counts switches */
    struct {
        struct ms_bulk_job job;
        int state;
        struct ms_snapshot_writer *writer;
        uint64_t generation;     /* of its directory */
        atomic_bool parked;      /* waits for the log to be written */
    } maker;
    struct ms_disk_reader readers[MS_DISK_READERS];
    struct ms_disk_source sources[MS_DISK_READERS];
    uint64_t reads;              /* bulk: counts, to find the least recently used */
    struct ms_block *blocks[MS_DISK_BLOCKS]; /* bulk: of one read */
    struct ms_buf piece;         /* bulk */
    pthread_mutex_t backlog_mutex;
    pthread_cond_t backlog_cond;
    bool backlog_ready;
};

struct ms_disk_config {
    const char *path, *cluster;
    const struct ms_policy *policy;
    uint64_t new_id; /* for a new directory */
};

/* Opens the data directory, recovers into the empty store, prepares room for the first group. Damage is no failure: recovered
 * says so. The disk must be zeroed memory; ms_disk_close is legal whatever this returns. */
int ms_disk_open(struct ms_disk *disk, struct ms_fs *fs, const struct ms_disk_config *config, struct ms_store *store);

/* Starts the two threads. door and loop are borrowed. */
int ms_disk_start(struct ms_disk *disk, struct ms_door *door, struct ms_loop *loop);
void ms_disk_stop(struct ms_disk *disk);  /* ends and joins them; the loop must have ended before */
void ms_disk_close(struct ms_disk *disk); /* frees everything, lets the directory go */

uint64_t ms_disk_first(const struct ms_disk *disk); /* before ms_disk_start, or the worker */
uint64_t ms_disk_room(const struct ms_disk *disk);

/* ---- effects: with the node's lock; see io.h ---------------------------------------------------------------------------- */

void ms_disk_log_write(struct ms_disk *disk, struct ms_block *block);
void ms_disk_log_sync(struct ms_disk *disk);
void ms_disk_log_reserve(struct ms_disk *disk);
void ms_disk_log_trim(struct ms_disk *disk, uint64_t lsn, uint64_t keep_bytes);
void ms_disk_log_read(struct ms_disk *disk, uint64_t link, uint64_t from, uint64_t limit);
void ms_disk_snapshot_make(struct ms_disk *disk);
void ms_disk_snapshot_read(struct ms_disk *disk, uint64_t link, uint64_t snapshot, uint64_t offset);
void ms_disk_stage_begin(struct ms_disk *disk);
void ms_disk_stage_write(struct ms_disk *disk, struct ms_bytes groups);
void ms_disk_stage_commit(struct ms_disk *disk, uint64_t end);
void ms_disk_stage_abort(struct ms_disk *disk);
void ms_disk_archive(struct ms_disk *disk, uint64_t from, struct ms_bytes text, struct ms_bytes extras);
void ms_disk_extras_read(struct ms_disk *disk, uint64_t boot);
void ms_disk_report(struct ms_disk *disk, uint64_t id, uint64_t done, struct ms_bytes text);
void ms_disk_forget(struct ms_disk *disk, uint64_t link); /* the link is gone: close what is open for it */
void ms_disk_discard(struct ms_disk *disk, struct ms_store *old); /* takes it: freeing a million entries is a slow job too */

/* A policy that was reloaded: how many snapshots are kept, and how large the log may become (never less than before). */
void ms_disk_policy(struct ms_disk *disk, const struct ms_policy *policy);

/* ---- the worker ----------------------------------------------------------------------------------------------------------- */

/* With the node's lock: takes what is queued if everything before it is done. */
void ms_disk_take(struct ms_disk *disk);

/* With the node's lock, no worker being at it: there is something to do that waits for nothing. */
bool ms_disk_pending(const struct ms_disk *disk);

/* The same, and all that was taken before is done. */
bool ms_disk_fresh(const struct ms_disk *disk);

/* Without the lock: does what was taken, as far as it may go on now; the rest is done when a thread has woken the loop. all = false:
 * no more than writes and syncs of the log. */
void ms_disk_perform(struct ms_disk *disk, bool all);

#endif
