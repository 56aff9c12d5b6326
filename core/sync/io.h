/* The seam under the engine: everything it wants from the world. drive/ does it for real, sim/ in virtual time.
 *
 * Rules:
 *  - The engine calls these with the node's lock held, from inside an input (ms_engine_*). They queue, return at once, never
 *    call the engine back from inside, and never fail: failures arrive as inputs.
 *  - Effects of one kind are done in the order they were asked for. log_write, log_sync, log_trim, archive and stage_* are one kind.
 *  - Completions are inputs named in the comment. A completion may be late: after a role change, for a link that is gone.
 *  - `block` arguments: the implementation takes its own reference (ms_block_ref) and drops it when done. Bytes are copied. */
#ifndef MS_SYNC_IO_H
#define MS_SYNC_IO_H

#include "../state/block.h"

struct ms_io;
struct ms_extra;       /* extras.h */
struct ms_event;       /* rules.h */
struct ms_flush_stats;

/* log_trim's keep_bytes when the log is full: older snapshots would hold the log behind them for ever, as no new one is due. */
#define MS_TRIM_URGENT UINT64_MAX

struct ms_io_ops {
    uint64_t (*now)(struct ms_io *io);                           /* monotonic, microseconds: the only clock for decisions */
    uint64_t (*real_time)(struct ms_io *io);                     /* microseconds since 1970: stamps for people */
    void (*random)(struct ms_io *io, void *data, size_t size);
    void (*wake_at)(struct ms_io *io, uint64_t now);             /* -> ms_engine_tick at or soon after; the earliest wish counts */

    void (*log_write)(struct ms_io *io, struct ms_block *block); /* -> ms_engine_written */
    void (*log_sync)(struct ms_io *io);                          /* all that log_write was given before -> ms_engine_synced */
    void (*log_reserve)(struct ms_io *io);                       /* prepare more room if possible -> ms_engine_room */
    void (*log_trim)(struct ms_io *io, uint64_t pin, uint64_t keep_bytes); /* prune snapshots to policy.snapshot_keep, none that ends
                                                                    at or after pin; then ms_log_trim, no further than the oldest kept
                                                                    snapshot's end and pin (no snapshot: not at all)
                                                                    -> ms_engine_trimmed. MS_TRIM_URGENT: the log is full, keep
                                                                    one snapshot and no bytes that it has */
    void (*log_read)(struct ms_io *io, uint64_t link, uint64_t from, uint64_t limit); /* ~window bytes -> ms_engine_read */

    void (*snapshot_make)(struct ms_io *io);                     /* see ms_engine_snapshot_* -> ms_engine_snapshot_made */
    void (*snapshot_read)(struct ms_io *io, uint64_t link, uint64_t snapshot, uint64_t offset); /* snapshot 0: the one being made,
                                                                    else the newest; a piece of <= 64 KiB -> ms_engine_snapshot_data */

    void (*stage_begin)(struct ms_io *io);                       /* an empty next generation; failures show at stage_commit */
    void (*stage_write)(struct ms_io *io, struct ms_bytes groups); /* appends to its snapshot file */
    void (*stage_commit)(struct ms_io *io, uint64_t end);        /* sync, switch generations, open its log after end -> ms_engine_staged */
    void (*stage_abort)(struct ms_io *io);
    void (*archive)(struct ms_io *io, uint64_t from, struct ms_bytes text, struct ms_bytes extras); /* text, then the log's records
                                                                   from `from` on, as one readable file; from = 0: only the text. And
                                                                   an extras file, of those records (extras is empty), or of what
                                                                   extras holds (ms_extras_keep) -> ms_engine_archived */
    void (*extras_read)(struct ms_io *io, uint64_t boot);        /* ms_extras_read -> ms_engine_extras */
    void (*report)(struct ms_io *io, uint64_t id, uint64_t done, struct ms_bytes text); /* ms_extras_report -> ms_engine_reported */
    void (*conflict)(struct ms_io *io, uint64_t link, const struct ms_extra *extra); /* copied. Begin the key, ms_engine_was_decided,
                                                                   ms_extra_decide, commit
                                                                   what is chosen (a buffered table: and flush it), give it to the host, end
                                                                   -> ms_engine_resolved. link 0: an extra of this node itself */

    uint64_t (*connect)(struct ms_io *io, const char *address);  /* a new link id -> ms_engine_link_up or _down */
    void (*send)(struct ms_io *io, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload, struct ms_block *block);
                                                                 /* one frame: payload, then the block's group (if not NULL) */
    void (*close)(struct ms_io *io, uint64_t link);              /* after what was sent; no input for this link any more */
    void (*pause)(struct ms_io *io, uint64_t link, bool paused); /* stop or resume reading from it */

    void (*changed)(struct ms_io *io);                           /* positions, role or room moved: wake who waits */
    void (*role)(struct ms_io *io, int role, const char *reason); /* reason is copied */
    void (*applied)(struct ms_io *io, struct ms_block *block);   /* a follower folded it: for the host's queue */
    void (*replaced)(struct ms_io *io, struct ms_store *old);    /* all tables were replaced: the host needs FULL batches. `old` (taken:
                                                                    close and ms_release it, without the lock) held the former content */
    void (*log_line)(struct ms_io *io, int severity, const char *line); /* copied */
    void (*event)(struct ms_io *io, const struct ms_event *event); /* for the policy's event function; asked only if it has one. copied */
    void (*ask_flush)(struct ms_io *io, uint32_t table, const struct ms_flush_stats *stats); /* for its flush function -> ms_engine_flush_plan.
                                                                    copied; a later one for the table replaces one that waits */
};

struct ms_io {
    const struct ms_io_ops *ops;
};

#endif
