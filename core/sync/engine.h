/* The engine: one node's state machine, passive.
 *
 * Inputs are the functions below; effects go out through io.h. It never blocks, never calls its caller back except through io,
 * and has one caller at a time (the node's lock, or the simulator). It knows no clock, socket, thread or file.
 *
 * Positions, rising:     replicated <= synced <= written <= submitted <= head        (leader; lsns)
 *                        applied <= written                                          (follower: a group is written, then folded)
 * On a leader the tables are at `head` (promise 1), on a follower at `applied`.
 *
 * Roles:
 *      IDLE ──lead──> ASKING ──answers or ask_ms──> OPENING ──epoch synced──> LEADER
 *        │               └── a peer has a higher epoch ──> IDLE (deposed)        │
 *        └──follow──> FOLLOWER ──promote──> OPENING                              └── higher epoch met, log failed, follow ──> IDLE/FOLLOWER
 */
#ifndef MS_SYNC_ENGINE_H
#define MS_SYNC_ENGINE_H

#include "../state/buffer.h"
#include "../state/snapshot.h"
#include "../state/store.h"
#include "../state/tail.h"
#include "extras.h"
#include "io.h"
#include "peer.h"
#include "policy.h"
#include "rules.h"
#include "verdict.h"
#include "view.h"

enum { MS_ASKS_MAX = 16, MS_ADDRESS_MAX = 64, MS_APPLIED_RING = 4096 };

enum ms_follow_state {
    MS_FOLLOW_OFF = 0,
    MS_FOLLOW_WAIT = 1,     /* next attempt at retry_at */
    MS_FOLLOW_CONNECT = 2,  /* connecting, or hello is out */
    MS_FOLLOW_ARCHIVE = 3,  /* diverged records are being archived before the bootstrap */
    MS_FOLLOW_SNAPSHOT = 4, /* receiving a snapshot into the next generation */
    MS_FOLLOW_SWITCH = 5,   /* it is complete; the generation is being switched */
    MS_FOLLOW_STREAM = 6,
    MS_FOLLOW_REFUSED = 7,  /* leader_has_less_history: waits for adopt (keeps asking) */
};

struct ms_counters { /* all since start; status and the simulator read them */
    uint64_t groups_sent, bytes_sent, groups_applied, snapshots_made, snapshots_failed, snapshots_sent, bootstraps,
        bootstraps_failed, bootstraps_resumed, resumes, verdicts[8], marks_failed, stepdowns, log_failures, no_space, reconnects,
        unknown_frames, unknown_fields, archived, host_failures, flushes, coalesced, links_refused, link_timeouts, at_risk_lost,
        at_risk_exceeded, held, outside, left, extras_sent, extras_resent, extras_answered, extras_unresolved, conflicts[4],
        conflicts_equal, conflicts_unresolved;
};

/* Flushing of one buffered table: flush.c */
struct ms_buffer_plan {
    uint64_t plan_us;                   /* what the policy's flush function said last, 0 = the policy's interval */
    uint64_t soft_entries, soft_bytes;  /* with so much in the buffer a flush is due at once */
    uint64_t hard_entries, hard_bytes;  /* what may be in it at most */
    uint64_t since[2];                  /* when the first value joined the table's sets[i] */
    uint64_t puts, ended;               /* puts since the flush that ended then */
    double rate;                        /* puts a second, smoothed */
    uint64_t began, lsn, took_us;       /* of the last flush: lsn is its last, 0 once that is written */
    bool flushing;
    bool leaving;                       /* unbuffered as soon as its buffer is empty */
};

struct ms_engine {
    struct ms_tail tail; /* first: a line of memory holds what each commit touches of it, if the engine begins with one */
    struct ms_io *io;
    struct ms_policy policy;
    struct ms_rules *rules;  /* owned reference, NULL = the built-in policy */
    uint64_t policy_hash;    /* of the rules, else of the numbers */
    bool viewing;            /* the rules may leave something out */
    struct ms_view view;     /* what they left out */
    struct ms_store *store;
    char cluster[64], name[64];
    uint64_t node_id, boot_id;
    struct ms_counters counters;

    /* role */
    int role;
    int result;              /* of the last lead/promote/follow: 0 under way or done, else MS_E_* */
    char reason[128];        /* why the role is what it is */
    struct ms_epoch opening; /* the epoch whose record is being synced */
    uint64_t opening_lsn;    /* 0 = its record is not appended yet */
    bool opening_host;       /* promoted: the host has to apply everything first */
    bool comparing;          /* about to lead, or leading: followers wait for ms_engine_compared */
    uint64_t comparing_since; /* leads since then */
    uint64_t led;            /* id of the last epoch that this node opened itself */
    struct ms_epoch highest; /* the highest epoch that any peer has shown */
    bool damaged;            /* recovery or a failed mark: may not lead, bootstraps when it follows */
    bool unfinished;         /* its last verdict asked for a bootstrap that is not complete: not promotable */
    bool halfway;            /* memory ran out in the middle of applying a group */
    bool closing;
    uint64_t archives_asked, archives_done; /* they are done in order */
    uint64_t content_version; /* moves when all tables are replaced */

    /* log */
    int log_error;           /* final: MS_E_LOG_FAILED */
    uint64_t submitted, written, synced, replicated;
    uint64_t log_first;      /* oldest lsn on disk */
    uint64_t room_end;       /* tail.bytes may grow to this */
    int room_error;          /* why there is no more: 0 = being prepared, MS_E_NO_SPACE, MS_E_LIMIT = log_max_bytes */
    bool trimming;           /* at that bound: the log is being trimmed behind a new snapshot */
    bool reserving, sync_wanted, syncing;
    uint64_t sync_at;        /* background sync due, 0 = nothing unsynced */
    uint64_t room_retry_at, room_asked; /* room_asked: tail.bytes when more was asked for last */
    uint64_t log_bytes_at_snapshot; /* tail.bytes at the last snapshot */

    /* marks, snapshots, buffers: due times, 0 = not due */
    uint64_t mark_at, snapshot_at, flush_at[MS_TABLES_MAX];
    bool snapshotting, snapshot_begun; /* asked for; its file can be read from */
    uint64_t snapshot_started;             /* content_version when the one under way was started */
    uint64_t snapshot_end, snapshot_bytes; /* of the newest finished one */
    struct ms_table_policy table_policy[MS_TABLES_MAX]; /* by table id */
    struct ms_buffer_plan plans[MS_TABLES_MAX];
    uint32_t flushes_unwritten; /* plans whose lsn is not 0 */

    /* links and peers */
    struct ms_list peers;
    bool frame_lost; /* for want of memory; see ms_engine_drop_lost */
    char ask[MS_ASKS_MAX][MS_ADDRESS_MAX];
    uint32_t ask_count, asking;
    uint64_t ask_until;

    /* following */
    struct {
        int state;
        char address[MS_ADDRESS_MAX];
        uint64_t link;       /* 0 = none */
        bool paused, adopt, refused_logged;
        bool held;           /* the leader's host compares: no verdict before that ends */
        bool met;            /* a leader has said hello since this node follows */
        bool switching;      /* stage_commit is under way, whatever the state is */
        uint64_t retry_at, backoff_us, heard, spoken;
        uint64_t progress;   /* position or offset at the last connect: back-off is reset when it moved */
        uint64_t first_head; /* the leader's head when the stream began; UINT64_MAX: none has since this node follows */
        uint64_t leader_head, leader_time_us, leader_node, leader_boot, leader_features, leader_extra_max;
        bool in_sync;        /* the leader counts us in */
        struct ms_verdict verdict;
        uint64_t acked_durable, acked_applied, acked_host;
        uint64_t archive;    /* which of the archives is the one of its ARCHIVE state */
        uint64_t archived_from; /* our records from here on are archived, and none came since; 0 = none are */
        uint32_t attempts;   /* bootstraps begun since the last complete one */
        struct ms_store *stage; /* owned; NULL = none */
        struct ms_snapshot_loader loader;
        uint64_t stage_id, stage_offset, stage_end;
    } follow;
    struct ms_extras extras;
    struct ms_extras_decided decided;
    uint64_t host_applied;
    bool has_host;           /* an apply callback exists: host_applied is its own position */

    struct { uint64_t lsn, time_us; } applied_ring[MS_APPLIED_RING];
    uint64_t applied_ring_next;
    char alarm[200];         /* the newest alarm, in words */
    uint64_t alarms;
};

/* ---- life ------------------------------------------------------------------------------------------------------- */

struct ms_engine_config {
    const char *cluster, *name;
    uint64_t node_id, boot_id;
    const struct ms_policy *policy; /* of the rules, if there are any */
    struct ms_rules *rules; /* the engine takes a reference of its own; may be NULL */
    bool has_host;
    int recovered;         /* 0, or why recovery failed (the store is empty then) */
    uint64_t log_first, log_room;
    uint64_t snapshot_end; /* of the snapshot that recovery used */
    uint64_t extras;       /* that wait on disk for a decision */
};

/* The store is borrowed and holds what recovery folded; the log is written and synced up to store->applied. */
int ms_engine_init(struct ms_engine *engine, struct ms_io *io, struct ms_store *store, const struct ms_engine_config *config);
void ms_engine_close(struct ms_engine *engine); /* frees; no effects. legal after a failed init */

/* ---- role: see metasync.h. They start something; role and result say how it went (io->changed) ---------------------- */

int ms_engine_lead(struct ms_engine *engine, const char *const *peers, size_t count, int flags);
int ms_engine_follow(struct ms_engine *engine, const char *address);
int ms_engine_promote(struct ms_engine *engine, uint64_t least_reign, int flags);
int ms_engine_adopt(struct ms_engine *engine);
int ms_engine_compared(struct ms_engine *engine); /* logs what is buffered first: what a flush gives, MS_E_AGAIN too; then all goes on as it was */

/* ---- writing (commit.c). Refusals change nothing. MS_E_AGAIN: wait for io->changed, then try again ------------------- */

/* A commit's answer beside MS_LOCAL: nothing has changed; call ms_rules_decide of engine->rules (a reference of it, without the lock), and
 * commit again with the decision, if engine->rules is the same by then. Never seen by hosts. */
enum { MS_ASK = 2 };

/* A change, with the hashes that can be worked out before the lock is taken (ms_engine_write). decision (enum ms_decision)
 * matters only for an entry that does not exist, under rules that leave something out. UNKNOWN: MS_LOCAL if the entry is remembered as outside,
 * else MS_ASK. OUT: remembered, MS_LOCAL, with nothing logged or buffered. A delete of an entry that is remembered as outside is MS_LOCAL. */
struct ms_engine_write {
    struct ms_table_state *table;
    struct ms_bytes key, value;    /* value.data == NULL deletes */
    uint64_t key_hash, value_hash; /* ms_key_hash; ms_entry_hash, 0 for a delete */
    int decision;
    bool nowait; /* nobody waits for its level: while this leader's host compares it needs no follower in sync */
    bool ask; /* of a batch, filled in with MS_ASK: a decision about this one is wanted */
    bool out; /* of a batch, filled in: left out of it */
};

static inline struct ms_engine_write ms_engine_write(struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash, struct ms_bytes value)
{
    return (struct ms_engine_write){
        .table = table, .key = key, .value = value, .key_hash = key_hash, .value_hash = value.data ? ms_entry_hash(key_hash, value) : 0};
}

/* *level is what the caller has to wait for (0 = nothing), *lsn what to wait for. */
int ms_engine_commit(struct ms_engine *engine, const struct ms_engine_write *write, uint64_t *lsn, int *level);

/* Writes that are out of the view are left out; MS_LOCAL: all are. */
int ms_engine_commit_batch(struct ms_engine *engine, struct ms_engine_write *writes, size_t count, uint64_t *lsn, int *level);

/* Opens or defines a table (leader). */
int ms_engine_table(struct ms_engine *engine, const char *name, int type, struct ms_table_state **table);

/* Logs what the table's buffer holds (NULL: every table), at most max_entries keys; 1 = there is more. */
int ms_engine_flush(struct ms_engine *engine, struct ms_table_state *table, uint32_t max_entries);

/* How long the table's next flushes wait after the first value that is not logged; 0 = as its policy says. The answer to io->ask_flush. */
void ms_engine_flush_plan(struct ms_engine *engine, uint32_t table, uint64_t next_us);

/* The entry leaves the view: logged as LEAVE, gone from the table, remembered as outside; followers' hosts keep their copies. What its buffer
 * held is dropped. 0 also if there is no such entry. Errors as for a commit; MS_E_AGAIN. */
int ms_engine_leave(struct ms_engine *engine, struct ms_table_state *table, struct ms_bytes key, uint64_t key_hash);

/* Another policy from now on: rules (a reference is taken; NULL = the built-in policy with these numbers) and numbers (NULL = those of the
 * rules), except fields that only a start can change (ms_policy_start_only): they stay. Nothing else changes at once: what is in the tables
 * stays (review.h), buffered tables that are unbuffered now flush first; but a node that is not enabled any more gives its role up. Returns
 * the old rules: drop the reference without the lock. */
struct ms_rules *ms_engine_set_rules(struct ms_engine *engine, struct ms_rules *rules, const struct ms_policy *numbers);

/* 1 = lsn has reached level, 0 = not yet, else how the wait ends: UNKNOWN, NOT_REPLICATED, CLOSED, INVALID. `reign` is the
 * epoch id that was last when the lsn was given out. */
int ms_engine_reached(const struct ms_engine *engine, uint64_t lsn, int level, uint64_t epoch_id);

/* ---- inputs: time and log ------------------------------------------------------------------------------------------- */

void ms_engine_pump(struct ms_engine *engine); /* something was appended: seal, write, send */
void ms_engine_tick(struct ms_engine *engine);
void ms_engine_written(struct ms_engine *engine, uint64_t lsn, int err);
void ms_engine_synced(struct ms_engine *engine, uint64_t lsn, int err);
void ms_engine_room(struct ms_engine *engine, uint64_t room_after_written, int err); /* ms_log_room(log, ms_policy_largest_group()) now;
                                                      err: NO_SPACE if no more can be prepared, LIMIT at log_max_bytes */
void ms_engine_trimmed(struct ms_engine *engine, uint64_t first);
void ms_engine_read(struct ms_engine *engine, uint64_t link, struct ms_block *const *blocks, size_t count, int err);
void ms_engine_archived(struct ms_engine *engine, uint64_t extras, int err); /* extras: how many more wait on disk now */

/* ---- inputs: snapshots. The maker (drive/bulk, simulator) does, after io->snapshot_make:
 *      new [io]; ms_engine_snapshot_start [lock]; { ms_engine_snapshot_walk [lock]; write [io] }*; ms_engine_snapshot_cut [lock];
 *      { copy_log [io], once the engine's `written` has reached the end }*; finish [io]; ms_engine_snapshot_made [lock]
 * and breaks off (made with an error) when a step fails; the tables may have been replaced in between: MS_E_AGAIN. -------- */

int ms_engine_snapshot_now(struct ms_engine *engine); /* 0 = one is being made (also if it was already) */
int ms_engine_snapshot_start(struct ms_engine *engine, struct ms_snapshot_writer *writer);
int ms_engine_snapshot_walk(struct ms_engine *engine, struct ms_snapshot_writer *writer, size_t bytes);
int ms_engine_snapshot_cut(struct ms_engine *engine, struct ms_snapshot_writer *writer);
void ms_engine_snapshot_made(struct ms_engine *engine, uint64_t end, uint64_t size, int err);

/* Pieces of a snapshot for a link: whole groups, in a block so that nobody copies them under the lock (the engine takes references of its
 * own). id, offset: what they are of. eof: the file is finished and this was its last piece (or groups is NULL). NULL and no eof: ask
 * again after progress (the engine does, on its next tick). */
void ms_engine_snapshot_data(struct ms_engine *engine, uint64_t link, uint64_t snapshot, uint64_t offset, struct ms_block *groups,
                             bool eof, uint64_t end, int err);

/* stage_commit is done: the live generation is the staged one, its log is empty and continues after `end`. The implementation
 * reports the new log's room with ms_engine_room right after. */
void ms_engine_staged(struct ms_engine *engine, uint64_t end, int err);

/* ---- inputs: links -------------------------------------------------------------------------------------------------- */

/* address: who is at the other end, for people. outgoing: the answer to io->connect. */
void ms_engine_link_up(struct ms_engine *engine, uint64_t link, bool outgoing, const char *address);
void ms_engine_link_down(struct ms_engine *engine, uint64_t link, int err, const char *why);
void ms_engine_frame(struct ms_engine *engine, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload);
void ms_engine_drained(struct ms_engine *engine, uint64_t link, uint64_t unsent); /* so many bytes still wait in the link's buffer */

/* ---- inputs: the host ------------------------------------------------------------------------------------------------ */

void ms_engine_host_applied(struct ms_engine *engine, uint64_t lsn);

enum ms_caught { MS_CAUGHT_UNKNOWN, MS_CAUGHT_NOT, MS_CAUGHT_UP };

/* Whether a follower has all that its leader had when its stream began. Before, its tables may be years older than what its host has (a node
 * whose data was lost begins at nothing), so that a host which got them would drop what it is to have again in a moment. enum ms_caught;
 * UNKNOWN: no leader gives it anything, or it is refused. */
int ms_engine_caught_up(const struct ms_engine *engine);

/* ---- status ---------------------------------------------------------------------------------------------------------- */

void ms_engine_position(const struct ms_engine *engine, struct ms_position *position);
int ms_engine_applied_at(const struct ms_engine *engine, uint64_t lsn, uint64_t *time_us);
bool ms_engine_promotable(const struct ms_engine *engine, const char **why_not);
int ms_engine_status(const struct ms_engine *engine, char **json); /* jansson's text; free with ms_free */
const char *ms_role_name(int role);

#endif
