/* metasync: keeps a broker's metadata equal on a leader and its followers, change by change.
 *
 * This is the only header a host includes. The words (node, table, entry, epoch, lsn, level, mark, ...) are those of
 * docs/architecture.md. Every function says what it does, the units and ranges of its arguments, who owns what, which
 * thread may call it, what it costs and how it fails.
 *
 * A host in eight lines (docs and core/example/example.c have the whole of it):
 *
 *     struct ms_policy policy;
 *     ms_policy_init(&policy);
 *     struct ms_config config = { .dir = "/var/lib/broker/metasync", .cluster = "prod", .policy = &policy };
 *     struct ms_node *node;
 *     if (ms_open(&config, &node) == 0 && ms_lead(node, NULL, 0, 5000) == 0) {
 *         struct ms_table *topics;
 *         ms_table_open(node, "topic", MS_TYPE_BYTES, &topics);
 *         ms_put(topics, ms_str("orders"), ms_str("{\"perm\":6}"), 0, NULL);
 *     }
 *     ms_close(node);
 *
 * Errors. Functions return 0, a positive outcome (MS_LOCAL) or a negative MS_E_*. The reason in words, with file,
 * offset, key or peer, is in ms_error_message() of the same thread until its next metasync call.
 *
 * Threads. Any thread may call any function unless it says otherwise. One short lock per node is held for a look-up
 * and a copy, never across I/O, a callback or another wait.
 *
 * CAVEATS: what a host may not do
 *  1. Nest. A thread that is between ms_begin and ms_end (or inside a compute function) may read, but may not begin,
 *     put or delete: MS_E_REENTRANT. Other threads are not held up, except on the same key.
 *  2. Wait inside a callback. From a host callback every call that could wait is refused at once with MS_E_CALLBACK;
 *     ms_get, ms_walk, ms_status, ms_position and no-wait writes are allowed.
 *  3. Trust iteration to be a point in time. ms_walk visits every entry that exists during the whole walk exactly once;
 *     an entry that is put or deleted meanwhile is seen once or not at all. It never shows a torn value. The lock is
 *     released after every few entries, and never held while the walk function runs.
 *  4. Keep a pointer. Bytes handed to a callback or returned by ms_txn_value are valid only until the callback returns
 *     or the transaction is committed or ended.
 *  5. Update its own copy after a refusal or MS_E_UNKNOWN. After 0 and after MS_E_NOT_REPLICATED it must, before
 *     ms_end; see ms_commit.
 *  6. fork. A child may not use the node and must not run its exit handlers on it.
 *  7. Share a data directory. One node has it at a time (lock file); a copy of it is a second node with the same id.
 *  8. Keep a buffered value on disk by waiting: a put to a buffered table is at risk until the next flush. ms_flush
 *     and then ms_wait say when it no longer is.
 *  9. Forget ms_compared: a leader that was told to compare has no followers until then, and none is in sync for the level `replica`.
 */
#ifndef METASYNC_H
#define METASYNC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MS_VERSION "0.1.0"
#define MS_API __attribute__((visibility("default")))

/* ---- errors -------------------------------------------------------------------------------------------------- */

/* name, value, text. The numbers are part of the ABI: add at the end, never renumber. */
#define MS_ERRORS(X) \
    X(MS_E_MEMORY, -1, "out of memory") \
    X(MS_E_INVALID, -2, "invalid argument") \
    X(MS_E_NOT_LEADER, -3, "this node does not lead") \
    X(MS_E_REENTRANT, -4, "this thread is inside a compute already") \
    X(MS_E_BUSY, -5, "the key is busy") \
    X(MS_E_LIMIT, -6, "over a limit") \
    X(MS_E_NO_SPACE, -7, "no space reserved for the log") \
    X(MS_E_NO_REPLICA, -8, "no follower is in sync") \
    X(MS_E_NOT_REPLICATED, -9, "durable here, not confirmed by a follower") \
    X(MS_E_UNKNOWN, -10, "outcome unknown: the log failed or the role was lost") \
    X(MS_E_TIMEOUT, -11, "timed out") \
    X(MS_E_LOG_FAILED, -12, "the log has failed") \
    X(MS_E_IO, -13, "input/output error") \
    X(MS_E_DAMAGED, -14, "stored data is damaged") \
    X(MS_E_FORMAT, -15, "malformed input") \
    X(MS_E_VERSION, -16, "made by a newer version") \
    X(MS_E_LOCKED, -17, "the data directory is in use") \
    X(MS_E_DEPOSED, -18, "a peer has a higher epoch") \
    X(MS_E_REFUSED, -19, "refused by the compute function") \
    X(MS_E_NOT_FOUND, -20, "not found") \
    X(MS_E_CHANGED, -21, "the value is not the expected one") \
    X(MS_E_CALLBACK, -22, "would wait inside a callback") \
    X(MS_E_CLOSED, -23, "the node is closed") \
    X(MS_E_AUTH, -24, "authentication failed") \
    X(MS_E_CLUSTER, -25, "another cluster") \
    X(MS_E_TYPE, -26, "wrong value type") \
    X(MS_E_ADDRESS, -27, "bad address") \
    X(MS_E_NOT_PROMOTABLE, -28, "this node may not be promoted") \
    X(MS_E_LESS_HISTORY, -29, "leader_has_less_history") \
    X(MS_E_AGAIN, -30, "try again after progress")

enum ms_error_code {
#define MS_ERROR_ENUM(name, value, text) name = value,
    MS_ERRORS(MS_ERROR_ENUM)
#undef MS_ERROR_ENUM
};

#define MS_LOCAL 1 /* a write's positive outcome: not logged, by policy; the host may go on with its own copy */

/* The text of a code; "ok" for 0. Static. Any thread. */
MS_API const char *ms_error_text(int code);

/* The message of this thread's last failed call, "" before any. Valid until this thread's next metasync call. */
MS_API const char *ms_error_message(void);

/* ---- values -------------------------------------------------------------------------------------------------- */

/* Borrowed bytes. data == NULL means "no value"; a value of size 0 has data != NULL. */
struct ms_bytes {
    const void *data;
    size_t size;
};

MS_API struct ms_bytes ms_str(const char *text); /* borrows text */

enum ms_type {
    MS_TYPE_BYTES = 1, /* any bytes */
    MS_TYPE_INT64 = 2, /* 8 bytes, little endian, two's complement; see ms_int64 */
};

/* int64 <-> the 8 bytes of an MS_TYPE_INT64 value. ms_int64_get wants exactly 8 bytes, else MS_E_TYPE. */
MS_API struct ms_bytes ms_int64_put(int64_t number, uint8_t bytes[8]);
MS_API int ms_int64_get(struct ms_bytes value, int64_t *number);

/* ---- policy -------------------------------------------------------------------------------------------------- */

/* How far a change got. Each level includes the ones before it; buffered stands apart. */
enum ms_level {
    MS_LEVEL_DEFAULT = 0, /* what the table's policy says */
    MS_LEVEL_MEMORY = 1,  /* in the log's tail in memory */
    MS_LEVEL_OS = 2,      /* written: survives kill -9 of this process */
    MS_LEVEL_DISK = 3,    /* synced: survives power loss here */
    MS_LEVEL_REPLICA = 4, /* synced here and on every in-sync follower */
};

enum { MS_TABLE_NAME_MAX = 63, MS_POLICY_TABLES_MAX = 64 };

/* Who wins when two values of one entry meet (docs/policy.md). FUNCTION: the policy file's. */
enum ms_resolver {
    MS_RESOLVE_DEFAULT = 0, /* a table's: what policy.resolver says; the policy's: theirs */
    MS_RESOLVE_THEIRS = 1,
    MS_RESOLVE_MINE = 2,
    MS_RESOLVE_NEWEST = 3, /* the newer one where that is known, else theirs */
    MS_RESOLVE_MAX = 4,    /* int64 tables: the larger number; an entry beats none */
    MS_RESOLVE_MIN = 5,    /* int64 tables: the smaller number; an entry beats none */
    MS_RESOLVE_FUNCTION = 6,
};

/* What the policy says of one table. A buffered table (interval > 0) has no level: its puts change the value at once
 * and are logged by the next flush: after interval_ms, or at `entries` dirty entries, or at `bytes` of dirty values.
 * at_risk_* bound what may be unlogged at any time; they are kept by flushing early. */
struct ms_table_policy {
    char name[MS_TABLE_NAME_MAX + 1];
    int level;            /* enum ms_level; MS_LEVEL_DEFAULT = policy.level */
    uint32_t interval_ms; /* 0 = not buffered */
    uint32_t entries;     /* 0 = no such bound */
    uint32_t bytes;       /* 0 = no such bound */
    int type;             /* enum ms_type that a policy file says it has, 0 = not said; opening it otherwise is MS_E_TYPE */
    int resolver;         /* enum ms_resolver */
    uint32_t at_risk_ms, at_risk_entries, at_risk_bytes; /* buffered tables: age, number, bytes of unlogged values; 0 = no such bound */
};

enum ms_on_log_failure { MS_ON_LOG_FAILURE_REFUSE = 0, MS_ON_LOG_FAILURE_PASS = 1 };
enum ms_on_beyond_end { MS_ON_BEYOND_END_REPORT = 0, MS_ON_BEYOND_END_CLAMP = 1 };
enum ms_on_no_replica { MS_ON_NO_REPLICA_REFUSE = 0, MS_ON_NO_REPLICA_DEGRADE = 1 };

/* All that is tunable, as data. ms_policy_init fills in the defaults given in brackets; ms_open checks ranges. */
struct ms_policy {
    int level;                /* of tables that name none [MS_LEVEL_DISK] */
    int on_log_failure;       /* after the log failed: refuse writes, or let the host pass unreplicated [refuse] */
    int on_no_replica;        /* a replica-level write with nobody in sync: refuse, or degrade to disk [refuse] */
    uint32_t replica_lag_ms;  /* a follower whose durable position lags longer leaves the in-sync set [10000] */
    uint32_t sync_every_ms;   /* background sync of what no one waits for [1000] */
    uint32_t group_bytes;     /* body size at which a group is closed [32768] */
    uint32_t mark_changes;    /* a mark after so many changes [8192] ... */
    uint32_t mark_every_ms;   /* ... or so long after the first unmarked one [1000] */
    uint64_t snapshot_log_bytes; /* a snapshot after so many log bytes [64 MiB] ... */
    uint32_t snapshot_every_ms;  /* ... or so long after the first change that is in none [30000] */
    uint32_t snapshot_keep;      /* snapshots kept, 1..16 [2] */
    uint64_t log_segment_bytes;  /* size of one segment, 64 KiB..1 GiB [16 MiB] */
    uint64_t log_keep_bytes;     /* log kept for followers that come back [256 MiB] */
    uint64_t log_max_bytes;      /* hard bound: writes wait for a snapshot, or are refused [1 GiB] */
    uint32_t heartbeat_ms;       /* silence after which a heartbeat is sent [1000] */
    uint32_t link_timeout_ms;    /* silence after which a link is dead [5000] */
    uint32_t connect_min_ms;     /* back-off of reconnects: first ... [50] */
    uint32_t connect_max_ms;     /* ... and longest, with jitter [5000] */
    uint32_t ask_ms;             /* how long a starting leader asks its peers at most [2000] */
    uint32_t window_bytes;       /* unsent bytes per follower in memory; beyond, it is served from the log [1 MiB] */
    uint32_t retain_bytes;       /* newest log bytes kept in memory for all followers [8 MiB] */
    uint32_t tail_bytes;         /* unwritten log bytes in memory at which writers wait [8 MiB] */
    uint32_t host_queue_bytes;   /* changes queued for the host's callback; beyond, it gets a FULL batch anew [16 MiB] */
    uint32_t audit_every_ms;     /* a follower's host gets audit batches so often; 0 = never [3600000] */
    uint32_t key_max;            /* bytes, <= 65535 [4096] */
    uint32_t value_max;          /* bytes, <= 64 MiB [4 MiB] */
    uint32_t batch_max;          /* bytes of one atomic batch (the lock is held for it), <= 64 MiB [256 KiB] */
    int resolver;                /* enum ms_resolver of tables that name none [theirs] */
    uint32_t outside_max;        /* entries known to be outside of the view that are remembered [100000] */
    uint32_t leave_max_percent;  /* of a table's entries that a reload may make leave without MS_POLICY_FORCE, 0..100 [10] */
    uint32_t probation_ms;       /* a reloaded policy with incidents within this time is rolled back; 0 = never [60000] */
    uint32_t incidents_max;      /* incidents of one function after which it is quarantined until the next reload, >= 1 [10] */
    uint32_t call_instructions;  /* virtual machine instructions that one call of a policy's function may take [200000] */
    uint32_t call_us;            /* processor time that one call may take [5000] */
    uint32_t call_wait_us;       /* what a host's thread waits at most for another call to end [5000] */
    uint32_t lua_memory;         /* bytes that a policy may hold, 1 MiB..1 GiB [16 MiB] */
    uint32_t enabled;            /* 0: this node leads and follows nobody, what its host changes is the host's own affair [1] */
    int on_beyond_end;           /* the host's to read (ms_position): offsets beyond the ends of their queues are reported, or clamped [report] */
    uint32_t table_count;        /* used entries of tables [0] */
    struct ms_table_policy tables[MS_POLICY_TABLES_MAX];
};

MS_API void ms_policy_init(struct ms_policy *policy);

/* ---- the host's callbacks: always on the node's host thread, one at a time, in log order ------------------------ */

enum ms_op { MS_OP_PUT = 1, MS_OP_DELETE = 2, MS_OP_LEAVE = 3 };

struct ms_change {
    int op;                /* enum ms_op; LEAVE: out of the view, the host keeps its copy */
    struct ms_bytes key;   /* borrowed for the call */
    struct ms_bytes value; /* borrowed for the call; data == NULL unless PUT */
};

enum ms_batch_flags {
    MS_BATCH_FULL = 1,  /* all entries of the table: diff, never clear. Otherwise a DELTA */
    MS_BATCH_FIRST = 2, /* of the parts of one FULL */
    MS_BATCH_LAST = 4,  /* of the parts of one FULL: what the host has and no part named is to be removed now */
    MS_BATCH_AUDIT = 8, /* of a FULL that nothing made necessary: what differs is a fault of the host's copy. Mend it, and say so */
};

struct ms_batch {
    struct ms_table *table;
    const char *table_name;
    int flags;    /* enum ms_batch_flags */
    uint64_t lsn; /* the position that this batch brings the table to */
    const struct ms_change *changes;
    size_t count;
};

enum ms_role {
    MS_ROLE_IDLE = 0,
    MS_ROLE_ASKING = 1,  /* about to lead: asks its peers */
    MS_ROLE_OPENING = 2, /* about to lead: its new epoch is being synced */
    MS_ROLE_LEADER = 3,
    MS_ROLE_FOLLOWER = 4,
};

enum ms_severity { MS_LOG_DEBUG = 0, MS_LOG_INFO = 1, MS_LOG_WARN = 2, MS_LOG_ERROR = 3 };

struct ms_host {
    void *context; /* given to each callback */
    /* Followers: apply one batch to the host's own copy. 0 confirms it (it counts as host-applied); anything else is
     * an alarm: the host gets a FULL batch of every table after a pause. May be NULL. */
    int (*apply)(void *context, const struct ms_batch *batch);
    /* The role is now `role`; reason is a short text. May be NULL. */
    void (*role)(void *context, int role, const char *reason);
    /* One event for the operator, without newline. May be NULL. */
    void (*log)(void *context, int severity, const char *line);
    /* A leader's policy was reloaded and wants entries that it did not want before: put them again, metasync has no values of
     * them. key.data == NULL: more of this table than were remembered. May be NULL. */
    void (*entered)(void *context, const char *table, struct ms_bytes key);
    /* A leader's entry has got another value by the policy's resolve (a conflict; see ms_compare_begin): apply it to the host's own
     * copy (data == NULL: remove it). The key is held meanwhile, as in ms_begin .. ms_end. 0, or an alarm as for apply. May be NULL. */
    int (*resolved)(void *context, struct ms_table *table, struct ms_bytes key, struct ms_bytes value);
};

/* ---- node ---------------------------------------------------------------------------------------------------- */

struct ms_node;
struct ms_table;
struct ms_txn;

struct ms_config {
    const char *dir;                /* data directory; created if missing. copied */
    const char *cluster;            /* only nodes of the same cluster talk. 1..63 bytes. copied */
    const char *name;               /* for people; NULL = host name. copied */
    const char *listen;             /* "ADDRESS:PORT", port 0 = any; NULL = no listener (can't be followed). copied */
    const char *secret;             /* shared secret; NULL = none, then only loopback addresses are allowed. copied */
    const char *control;            /* path of the control socket; NULL = none. copied */
    const struct ms_policy *policy; /* NULL = defaults; what a policy file says comes before it. copied */
    const char *policy_file;        /* a policy in Lua (docs/policy.md); NULL = none. copied. A bad one fails ms_open: INVALID, FORMAT */
    const struct ms_host *host;     /* NULL = no callbacks. copied */
};

/* Opens the node: takes the lock file, recovers the newest sound snapshot and the log behind it, checks every mark on
 * the way, starts the threads and the listener. The role is IDLE. Cost: time to read snapshot and log. Owner: the caller,
 * until ms_close. Errors: INVALID, ADDRESS (an address that is not loopback and no secret), LOCKED, IO, NO_SPACE, VERSION,
 * MEMORY. Damaged data does not fail the open: such a node refuses to lead (DAMAGED) and bootstraps when it follows. */
MS_API int ms_open(const struct ms_config *config, struct ms_node **node);

/* Stops the threads, syncs the log, closes everything and frees the node. Calls that still wait in other threads return
 * MS_E_CLOSED first; no other call may start. Not from a callback. NULL is allowed. */
MS_API void ms_close(struct ms_node *node);

/* From now on calls that would begin or wait fail with MS_E_CLOSED, and those that wait do so at once; what was begun can be ended. For a host
 * that has to know that none of its threads is inside before it may call ms_close. Does not wait. Any thread, callbacks too. */
MS_API void ms_end_calls(struct ms_node *node);

/* The port that the listener has, 0 without one. */
MS_API int ms_port(const struct ms_node *node);

/* Become leader: ask the `count` peers (addresses "HOST:PORT"; copied) whether one knows a higher epoch, at most
 * policy.ask_ms, then open a new epoch (run + 1) and sync it. Returns when this node leads. timeout_ms < 0 = for ever.
 * Errors: DEPOSED (a peer knows a higher epoch: follow it, or promote), DAMAGED, LOG_FAILED, NO_SPACE, TIMEOUT, CALLBACK,
 * INVALID (policy.enabled is 0). */
MS_API int ms_lead(struct ms_node *node, const char *const *peers, size_t count, int timeout_ms);

/* The same for a host that then compares its own copy with the log, or fills the log from it (ms_compare_begin, below). Until it says
 * ms_compared, followers wait, all of them: they are connected, and in as soon as it does. A log that is still being filled is not all that the
 * host has, and a follower's host that was given it would drop the rest. */
MS_API int ms_lead_comparing(struct ms_node *node, const char *const *peers, size_t count, int timeout_ms);

/* Become (or stay) a follower of the node at `address`; returns at once, links are kept up by the node. A leader that is
 * told to follow steps down first: what its buffers held goes to the archive. Errors: ADDRESS, INVALID, DAMAGED never. */
MS_API int ms_follow(struct ms_node *node, const char *address);

enum ms_promote_flags {
    MS_PROMOTE_FORCE = 1,   /* also a node that is marked not promotable */
    MS_PROMOTE_COMPARE = 2, /* as ms_lead_comparing; and an idle node's host is not given the log's tables first */
};

/* Become leader of a new reign (reign + 1, run 0), from follower or idle. Returns when the host has applied everything
 * that is in the log and the new epoch is synced. Errors: NOT_PROMOTABLE (an unfinished or failed bootstrap, damage),
 * LOG_FAILED, NO_SPACE, TIMEOUT, CALLBACK. */
MS_API int ms_promote(struct ms_node *node, int flags, int timeout_ms);

/* The same for a host whose own election counts terms: the new reign is at least `least_reign` (and still higher than every one that this
 * node knows): who was promoted by a later term wins over who was by an earlier one, also if it has never heard of that one. A node that
 * leads already goes on in its reign. least_reign: below 2^63, else INVALID. Other errors: as ms_promote. */
MS_API int ms_promote_to(struct ms_node *node, uint64_t least_reign, int flags, int timeout_ms);

/* The host of a leader that was told to compare has done so, and all that it has is in the log: what is buffered is flushed, then
 * followers come in. Who does not say this has no followers: also after a comparison that failed in part, say it when what was not taken
 * can be missed. Ends with the role by itself. Returns when all of that is on disk, 0 also if there was nothing to end. Errors: NOT_LEADER,
 * CLOSED, CALLBACK, and those of ms_flush and ms_wait, after which followers still wait: call it again. */
MS_API int ms_compared(struct ms_node *node);

/* A follower that refuses its leader's history (status: leader_has_less_history) takes it after this call: its own
 * records are archived, its tables replaced. Returns at once. Errors: INVALID if it is not refusing. */
MS_API int ms_adopt(struct ms_node *node);

/* ---- tables -------------------------------------------------------------------------------------------------- */

/* Opens a table by name (1..63 bytes of [A-Za-z0-9_.-]) and value type. On a leader a new name is logged, elsewhere it
 * waits for the log to bring it (MS_E_NOT_FOUND until then). The handle lives as long as the node; it stays good across
 * bootstraps. Errors: TYPE (it exists with the other type), NOT_LEADER/NOT_FOUND, LIMIT (255 tables), NO_SPACE. */
MS_API int ms_table_open(struct ms_node *node, const char *name, int type, struct ms_table **table);
MS_API const char *ms_table_name(const struct ms_table *table);
MS_API int ms_table_type(const struct ms_table *table);
MS_API uint64_t ms_table_count(struct ms_table *table); /* live entries now */

/* Calls fn for each table in the order of their ids, until it returns non-zero, which is returned. */
MS_API int ms_table_each(struct ms_node *node, int (*fn)(void *context, struct ms_table *table), void *context);

/* ---- writing (leader only) ------------------------------------------------------------------------------------- */

enum ms_write_flags {
    MS_NOWAIT = 1, /* return when the change stands, at any level; wait later with ms_wait(lsn). Before ms_compared also without a follower */
};

/* Makes `key` this thread's: others that begin the same key wait (at most wait_ms; < 0 = for ever; then BUSY). Other keys
 * are free. The key is copied. On success *txn is owned by the caller until ms_end, which every begin needs.
 * Errors: NOT_LEADER, REENTRANT, BUSY, LIMIT (key size), INVALID (empty key), CALLBACK, MEMORY. */
MS_API int ms_begin(struct ms_table *table, struct ms_bytes key, int wait_ms, struct ms_txn **txn);

/* The value as of ms_begin, data == NULL if there is none. Valid until ms_commit or ms_end of the transaction. */
MS_API struct ms_bytes ms_txn_value(const struct ms_txn *txn);

/* Table and log take the value (data == NULL deletes) in one step, then the call waits for the table's level unless
 * MS_NOWAIT. *lsn (may be NULL) is the change's position; for an equal value, and for a buffered table, the head's.
 *   0                    it stands and reached its level; update your own copy, then ms_end
 *   MS_E_NOT_REPLICATED  it stands, durable here only; update your own copy, tell the caller "not confirmed"
 *   MS_LOCAL             not logged, by policy (out of the view, or the log failed); the host goes on with its own copy
 *   MS_E_UNKNOWN         the log failed or the role was lost; leave your copy, the next FULL batch reconciles
 *   anything else        refused before anything changed: NOT_LEADER, LIMIT, TYPE, NO_SPACE, NO_REPLICA, LOG_FAILED, MEMORY
 * One commit per transaction. */
MS_API int ms_commit(struct ms_txn *txn, struct ms_bytes value, int flags, uint64_t *lsn);

/* Releases the key and frees the transaction; without a commit nothing has happened. NULL is allowed. */
MS_API void ms_end(struct ms_txn *txn);

/* fn gets the current value (data == NULL: none), and sets *value to bytes that stay valid until it is next called or
 * ms_compute returns; data == NULL deletes. Returning non-zero refuses: ms_compute returns MS_E_REFUSED. fn runs without
 * the node's lock, with the key held. Otherwise as begin + commit + end. */
typedef int (*ms_compute_fn)(void *context, struct ms_bytes current, struct ms_bytes *value);
MS_API int ms_compute(struct ms_table *table, struct ms_bytes key, ms_compute_fn fn, void *context, int flags, uint64_t *lsn);

/* Put or delete one entry; begin + commit + end in one lock hold when the key is free (the fast path). Deleting what
 * does not exist logs nothing and returns 0. Errors as ms_commit, BUSY after 10 s on a busy key. */
MS_API int ms_put(struct ms_table *table, struct ms_bytes key, struct ms_bytes value, int flags, uint64_t *lsn);
MS_API int ms_delete(struct ms_table *table, struct ms_bytes key, int flags, uint64_t *lsn);

/* Put `value` if the current value is `expected` (data == NULL: if there is none), else MS_E_CHANGED. What is out of the view has no value
 * here, whatever the host's copy says: the same for ms_compute and ms_txn_value. */
MS_API int ms_compare_and_set(struct ms_table *table, struct ms_bytes key, struct ms_bytes expected, struct ms_bytes value,
                              int flags, uint64_t *lsn);

struct ms_write {
    struct ms_table *table;
    struct ms_bytes key;
    struct ms_bytes value; /* data == NULL deletes */
};

/* All writes or none, on disk and on every follower (they are one group of the log). Writes that are out of the view are left out, also
 * of the size; MS_LOCAL if all are. At most policy.batch_max bytes, else
 * LIMIT. Writes to buffered tables join their buffers, one by one and first: MEMORY may come after some of them have. Waits for
 * the highest level among the tables. Later writes of one key win. */
MS_API int ms_put_batch(struct ms_node *node, const struct ms_write *writes, size_t count, int flags, uint64_t *lsn);

/* Waits until lsn has reached the level. timeout_ms < 0 = for ever. 0, or NOT_REPLICATED (REPLICA, nobody in sync left),
 * UNKNOWN (log failed, role lost), TIMEOUT, CLOSED, CALLBACK, INVALID (an lsn beyond the head). */
MS_API int ms_wait(struct ms_node *node, uint64_t lsn, int level, int timeout_ms);

/* Logs what is in the table's buffer now (NULL: all tables), without waiting for a level; *lsn = the head then. */
MS_API int ms_flush(struct ms_node *node, struct ms_table *table, uint64_t *lsn);

/* ---- reading (any role) ---------------------------------------------------------------------------------------- */

/* Copies the value into buffer (may be NULL if capacity is 0) and sets *size to its full size; a buffer that is too small
 * gets MS_E_LIMIT and nothing. MS_E_NOT_FOUND if there is no entry. Never waits for anything but the lock. */
MS_API int ms_get(struct ms_table *table, struct ms_bytes key, void *buffer, size_t capacity, size_t *size);

/* Calls fn for each entry (see caveat 3); key and value are copies, valid for the call. Stops when fn returns non-zero and
 * returns that. Cost: a copy of one shard (1/2048 of the table) per lock hold. */
typedef int (*ms_walk_fn)(void *context, struct ms_bytes key, struct ms_bytes value);
MS_API int ms_walk(struct ms_table *table, ms_walk_fn fn, void *context);

/* ---- comparing the host's own copy with the log (leader, at start) --------------------------------------------------------- */

/* A host that starts as leader has loaded its own copy from its own files; the log may have more, or less. For each table:
 *
 *      ms_compare_begin; ms_compare_entry for every entry that the host has, in any order; ms_compare_end
 *
 * and at the end of all ms_compared, if the node was told to lead with ms_lead_comparing or MS_PROMOTE_COMPARE.
 * Equal entries are nothing. Every other one (also those that only one side has, outside of the view excepted) goes through the
 * policy's resolver with reason "host", mine = the host's, theirs = the log's: what is chosen is logged if the log lacks it, given
 * to host->resolved if the host lacks it, and listed in the loss report (archive/loss-host-*.jsonl). Without a resolver for the table (and
 * the policy's being theirs) the side counts that `about` says is newer, the log's if it can't tell. */
struct ms_compare;

struct ms_host_copy {
    int version;          /* data versions: 1 = the host's is higher, -1 = the log's is, 0 = they can't tell */
    uint64_t written_us;  /* when the host's copy was written, real time; compared with the log's last change if version is 0. 0 = unknown */
};

struct ms_compare_result {
    uint64_t equal, different;              /* entries */
    uint64_t kept_host, kept_log, other;    /* of those that differ: who won; other: a third value, or removed on both sides */
    uint64_t outside;                       /* not compared: out of the view */
    int newer;                              /* 1 = the host's copy, -1 = the log, as decided from `about` */
};

/* Not from a callback; one at a time per table; the calling thread owns *compare until ms_compare_end (or _abandon). Errors: NOT_LEADER,
 * CALLBACK, BUSY, MEMORY; _entry and _end also what a write gives, and IO (the loss report): what was decided so far stands. Other threads
 * may write meanwhile. Cost: 8 to 16 bytes for every entry named; a shard's keys at a time; a line for each difference, 256 KiB at a time. */
MS_API int ms_compare_begin(struct ms_table *table, const struct ms_host_copy *about, struct ms_compare **compare);
MS_API int ms_compare_entry(struct ms_compare *compare, struct ms_bytes key, struct ms_bytes value);
MS_API int ms_compare_end(struct ms_compare *compare, struct ms_compare_result *result); /* ends it in any case. result may be NULL */
MS_API void ms_compare_abandon(struct ms_compare *compare); /* what was decided so far stands. NULL is allowed */

/* ---- policy files ------------------------------------------------------------------------------------------------------------ */

enum ms_policy_flags { MS_POLICY_FORCE = 1 }; /* reload: even if more entries leave the view than leave_max_percent */

/* Reads a policy file anew, or another one (path; NULL = the present one), beside the one in use; validates it, runs its selftest,
 * counts what would leave or enter the view, then swaps. Nothing reconnects, no buffer is lost; entries leave in slices afterwards. For
 * probation_ms incidents bring the old one back. *report (may be NULL; ms_free) is JSON text: what changed, what waits for a restart,
 * what leaves and enters; of a refusal: why. Any thread, not from a callback. Errors: INVALID, FORMAT (the file: with place), LIMIT (too
 * much would leave), IO, MEMORY, BUSY (another reload is under way); then the old policy stays as it was. */
MS_API int ms_policy_reload(struct ms_node *node, const char *path, int flags, char **report);

/* Back to the policy before the last reload (once). INVALID: there is none. */
MS_API int ms_policy_rollback(struct ms_node *node, char **report);

/* The policy in use as JSON text (ms_free): every field with its value, file, hash, functions and their incidents, view, probation. */
MS_API int ms_policy_show(struct ms_node *node, char **json);

/* Loads and validates a policy file and runs its selftest, without a node. *report (ms_free) as for reload. */
MS_API int ms_policy_test(const char *path, char **report);

/* Runs a recorded change log (a data directory) through a policy file with its recorded times, and through `against` if it is not NULL.
 * *report (ms_free) is JSON text: per table what came in, was logged, coalesced, filtered, resolved, bytes, staleness, entries at risk; and
 * how the two differ. Reads only. Errors as ms_policy_test and ms_log_dump. */
MS_API int ms_policy_replay(const char *path, const char *against, const char *log, char **report);

/* ---- operating ------------------------------------------------------------------------------------------------- */

struct ms_position {
    int role;              /* enum ms_role */
    uint64_t reign, run, id; /* the epoch of the last record */
    uint64_t head;         /* last lsn in the log's tail (leader) or received (follower) */
    uint64_t written, synced, replicated; /* last lsn at os, disk, replica */
    uint64_t applied;      /* last lsn in the tables */
    uint64_t host_applied; /* last lsn that the host confirmed; = applied where there is no apply callback */
    uint64_t leader_head;  /* a follower's last knowledge of its leader's head */
    uint64_t known_reign;  /* the highest reign that this node has had or heard of */
    int enabled;           /* 0: the policy says that this node takes no role; a host that had one asks for it again when this is 1 */
    int on_beyond_end;     /* enum ms_on_beyond_end: what the policy says of now, for the host that leads */
};

MS_API int ms_position(struct ms_node *node, struct ms_position *position);

/* When this node applied lsn, in microseconds of the system's real-time clock. Only the last few thousand groups are
 * remembered: MS_E_NOT_FOUND before them, MS_E_AGAIN if lsn has not been applied yet. */
MS_API int ms_applied_at(struct ms_node *node, uint64_t lsn, uint64_t *real_time_us);

/* Makes a snapshot now and returns when it is on disk. Errors: IO, NO_SPACE, TIMEOUT, CALLBACK. */
MS_API int ms_snapshot(struct ms_node *node, int timeout_ms);

/* The node's state as JSON text, owned by the caller: free with ms_free. docs/status.md lists the fields. */
MS_API int ms_status(struct ms_node *node, char **json);

/* The same of another node over the network; secret may be NULL. */
MS_API int ms_remote_status(const char *address, const char *cluster, const char *secret, int timeout_ms, char **json);

/* Reads change logs, snapshots or loss reports offline and calls fn with one JSON object (a line of text) per record. path: a data
 * directory (its live generation), a segment, a snapshot, a data directory's archive/ (all of its loss reports), or one .jsonl file of
 * that. from: first lsn; INVALID with files of the archive. Errors also: IO, FORMAT, DAMAGED with the place. */
MS_API int ms_log_dump(const char *path, uint64_t from, int (*fn)(void *context, const char *line), void *context);

MS_API void ms_free(void *memory);

/* Where a host adds commands of its own to the control socket: called on a control thread for a request whose "command"
 * metasync does not know; request and *reply are JSON texts, *reply is owned by metasync and made with malloc. */
typedef int (*ms_control_fn)(void *context, const char *request, char **reply);
MS_API void ms_control_extend(struct ms_node *node, ms_control_fn fn, void *context);

#ifdef __cplusplus
}
#endif
#endif
