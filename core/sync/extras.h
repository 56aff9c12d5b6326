/* Extras: changes that only this node had when it stopped leading (promise 6: never silently kept, never silently dropped).
 *
 * What its log had beyond the common history, and what its buffers held, is written to files before it is dropped (extras_file.h): the
 * last value of each key. Later, when the node follows a leader and is in sync with it, it offers them one after the other, and the
 * leader's policy decides (ms_extra_decide); what is chosen is a change like any other in the leader's log, which also comes back here.
 * Each extra ends as one line of a loss report. A node that leads itself by then decides about its own extras in the same way.
 *
 *      files ──extras_read──> window ──EXTRA──> leader: begin key, decide, commit, end
 *                               │ <───EXTRA_DONE──┘
 *                               └──(its lsn is synced here)──> line ──report──> loss report, then the place in the file moves
 *
 * At most once. The place in the file is durable, and so is how far it was sent; so after a crash or a lost link what may have been
 * decided before is sent again and marked `resent`. A leader remembers what it has decided in this life: it takes the mark off what it
 * was sent and has not decided, and puts it on what it has (several nodes may have had the same record, and offer it). With the
 * mark, an extra is applied only to an entry that still is what both had in common (base); else what the leader has stays, by
 * "resent". So an extra takes effect twice only if the entry came back to its base in between, which can't be told from one that was
 * never touched; or if two nodes offer it to two leaders, and somebody changed the entry between.
 *
 * Not lost after all. An extra whose record is part of the history that this node has now (it led again before anybody else did, or
 * another node had taken it) is nothing to decide: outcome "kept". A buffered value of this node is older than everything that
 * this node itself wrote to the entry when it led again: that stays, by "newest". */
#ifndef MS_SYNC_EXTRAS_H
#define MS_SYNC_EXTRAS_H

#include "../state/lineage.h"
#include "rules.h"

struct ms_engine;
struct ms_message;
struct ms_peer;

enum {
    MS_EXTRAS_WINDOW = 64,           /* extras sent and not decided, for one follower */
    MS_EXTRAS_BYTES = 256 << 10,     /* of them, unless a single one is larger */
    MS_EXTRAS_ANSWER = 512 << 10,    /* a larger value is left out of an answer; the report then gives its size */
    MS_EXTRAS_DECIDED = 4096,        /* decisions that a leader remembers */
};

enum ms_extra_outcome { /* what comes in addition to enum ms_outcome */
    MS_EXTRA_EQUAL = 8,       /* the leader had the same: nothing to decide */
    MS_EXTRA_KEPT = 9,        /* not lost: part of this node's history again */
    MS_EXTRA_UNRESOLVED = 10, /* nobody could decide; the report says why */
};
const char *ms_extra_outcome_name(int outcome); /* also of enum ms_outcome */

struct ms_extra {
    char table[MS_TABLE_NAME_MAX + 1]; /* "": not a change; records up to lsn that the log had no more, see extras_file.h */
    int type, reason;                  /* enum ms_type; enum ms_conflict_reason */
    struct ms_bytes key;               /* borrowed, as the others; empty if table is "" */
    struct ms_bytes mine;              /* data == NULL: deleted */
    struct ms_bytes base;              /* see struct ms_conflict */
    bool base_known;
    bool resent;                       /* may have been decided before */
    bool older;                        /* what this leader has is newer, unless it is base */
    int newer;                         /* as in struct ms_conflict, where base does not tell: of a host's copy */
    uint64_t lsn, epoch;               /* position and epoch id of the record; buffered: of the log when it was dropped */
    uint64_t seq;                      /* within its file, from 0 */
};

/* One extra as bytes and back: the payload of EXTRA (without what is about sending) and the record of an extras file. */
void ms_extra_encode(const struct ms_extra *extra, struct ms_buf *bytes);
int ms_extra_decode(struct ms_bytes bytes, struct ms_extra *extra); /* MS_E_FORMAT, MS_E_TYPE, MS_E_LIMIT; borrows from bytes */
int ms_extra_of(const struct ms_message *message, struct ms_extra *extra);
void ms_extra_message(const struct ms_extra *extra, struct ms_message *message); /* borrows */

void ms_extras_put_epoch(struct ms_buf *bytes, struct ms_epoch epoch); /* what io->archive's extras begin with */

/* What becomes of an extra, or of a host's entry, given what the leader has (theirs). Calls the policy: no lock held. outcome is one of
 * enum ms_outcome or MS_EXTRA_EQUAL. An outcome that leaves the entry as it is is given as THEIRS. A host's copy that no resolver of its
 * table says anything of: the newer side. */
void ms_extra_decide(const struct ms_extra *extra, struct ms_bytes theirs, struct ms_rules *rules, const struct ms_policy *policy,
                     struct ms_resolution *resolution);

/* The value that an outcome puts (data == NULL: it deletes). Of THEIRS and EQUAL: theirs. */
struct ms_bytes ms_extra_chosen(const struct ms_extra *extra, struct ms_bytes theirs, const struct ms_resolution *resolution);

/* An extra that waits to be decided: a copy with its bytes behind it. One block of ms_alloc; NULL = no memory. */
struct ms_extra_waiting {
    uint64_t link; /* who asked, 0 = this node itself */
    struct ms_extra extra;
    uint8_t bytes[];
};
struct ms_extra_waiting *ms_extra_keep(uint64_t link, const struct ms_extra *extra);

/* ---- the driver's answers to io.h ------------------------------------------------------------------------------------------- */

struct ms_extras_batch { /* extras_file.h fills it in */
    uint64_t id, first;       /* of the file; seq of the first one here */
    uint32_t count;           /* 0: none are pending */
    uint64_t sent, boot;      /* those with seq < sent may have been sent before, to the leader with this boot id (0: to several) */
    uint64_t pending;         /* in all files, these included */
    struct ms_buf bytes;      /* for each: size u32, ms_extra_encode's bytes */
    char name[96];            /* of the file */
};

struct ms_extra_answer {
    int outcome;            /* enum ms_outcome, or MS_EXTRA_EQUAL */
    int err;                /* MS_E_*: not decided. Those that may go away (ms_extra_temporary) are tried again */
    bool stands;            /* the change was made although err says that not all is done: the next try finds it */
    const char *by;         /* copied */
    uint64_t lsn;           /* where the change is, 0 = nothing was logged */
    struct ms_bytes theirs; /* what the leader had; copied */
    uint64_t theirs_size;   /* not 0: theirs is left out, and has so many bytes */
    struct ms_bytes value;  /* VALUE: what was put; copied */
};

bool ms_extra_temporary(int err);

/* extras_read is done. Copies. */
void ms_engine_extras(struct ms_engine *engine, const struct ms_extras_batch *batch, int err);

/* To be asked right before an extra is decided: this leader has decided it already (it was sent twice, and the first one waited in
 * the driver's queue when the second came): then resent has to be set. */
bool ms_engine_was_decided(const struct ms_engine *engine, const struct ms_extra *extra);

/* conflict is done. Before the next extra is decided. */
void ms_engine_resolved(struct ms_engine *engine, uint64_t link, const struct ms_extra *extra, const struct ms_extra_answer *answer);

/* report is done; pending: in all files now; path: of the report. */
void ms_engine_reported(struct ms_engine *engine, uint64_t pending, const char *path, int err);

/* ---- inside the engine ------------------------------------------------------------------------------------------------------- */

struct ms_extras_item {
    int state;
    bool resent;
    uint64_t lsn;            /* answered: what has to be synced here */
    uint32_t offset, size;   /* in bytes */
    struct ms_buf line;      /* answered: for the report */
};

struct ms_extras { /* the side of the node that has them */
    uint64_t pending;
    bool reading, reporting;
    uint64_t retry_at;       /* 0 = at once */
    uint64_t boot;           /* to whom the resent ones may have been sent, see batch.boot */
    uint64_t to;             /* boot id of the leader that the window is for */
    uint64_t id, first;
    uint32_t count;          /* 0 = no window */
    uint64_t epoch;          /* id of the log's last epoch when it was asked for */
    struct ms_buf bytes;
    struct ms_extras_item items[MS_EXTRAS_WINDOW];
    char report[1024];       /* path of the newest loss report */
};

struct ms_extras_decided { /* a leader's, in this life */
    uint64_t prints[MS_EXTRAS_DECIDED / 8][8]; /* hashes of table, key, epoch, lsn and reason; the hash says in which eight. 0 = free */
    uint32_t next;                             /* counts on: which of eight goes for another */
    bool forgot;                               /* one had to */
};

/* One line of a loss report. */
void ms_extra_line(struct ms_buf *text, uint64_t time_us, const struct ms_extra *extra, const struct ms_extra_answer *answer);

void ms_extras_close(struct ms_engine *engine);
void ms_extras_advance(struct ms_engine *engine);   /* does what can be done now */
void ms_extras_disrupted(struct ms_engine *engine); /* the link to the leader is gone, the role or the history is another one */
void ms_extras_added(struct ms_engine *engine, uint64_t count);
void ms_extras_tick(struct ms_engine *engine, uint64_t now);
void ms_extras_done(struct ms_engine *engine, const struct ms_message *message); /* an EXTRA_DONE came */
void ms_extras_asked(struct ms_engine *engine, struct ms_peer *peer, const struct ms_message *message); /* an EXTRA came */

#endif
