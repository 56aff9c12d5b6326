/* The simulator's inside: what its files share. Nothing outside core/sim includes this. See sim.h for the whole. */
#ifndef MS_SIM_SIM_WORLD_H
#define MS_SIM_SIM_WORLD_H

#include "../base/mem.h"
#include "../state/datadir.h"
#include "sim.h"
#include "sim_disk.h"

/* ---- clock, queue, chance (sim_world.c) ------------------------------------------------------------------------ */

struct ms_sim_event;
typedef void (*ms_sim_event_fn)(struct ms_sim *sim, struct ms_sim_event *event);

struct ms_sim_event {
    uint64_t at, seq; /* seq: equal times happen in the order they were asked for */
    const char *name; /* for the trace */
    ms_sim_event_fn fn;
    uint32_t node;
    uint64_t life;      /* of the node; the event is void when that is over. 0 = not bound to one */
    uint64_t id, value; /* fn's own */
    void *data;         /* fn's own; released after it */
};

/* `delay` from now. Takes event.data. */
void ms_sim_at(struct ms_sim *sim, uint64_t delay, struct ms_sim_event event);

/* Chance is sim->dice, with ms_sim_below and ms_sim_chance of sim_disk.h; and these. */
uint64_t ms_sim_between(struct ms_sim *sim, uint64_t low, uint64_t high); /* both included */
bool ms_sim_one_in(struct ms_sim *sim, uint32_t n);

/* A promise is broken. Only the first one is kept. node = MS_SIM_NODES_MAX: none in particular. */
void ms_sim_broken(struct ms_sim *sim, uint32_t node, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ms_sim_out_of_memory(struct ms_sim *sim);
void ms_sim_note(struct ms_sim *sim, uint32_t node, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* into the trace */

/* The simulator's own allocations don't take part in the countdown of ms_mem_fail_after: hush before, unhush after. */
int64_t ms_sim_hush(void);
void ms_sim_unhush(int64_t countdown);

/* Makes room for `count` elements of `size` in a growing array; false (and the run ends) when memory is out. */
bool ms_sim_room(struct ms_sim *sim, void **array, uint32_t *capacity, uint32_t count, size_t size);

/* ---- the book (sim_model.c): every record that any leader ever appended, by epoch ------------------------------ */

/* A point in the tree of histories: everything up to lsn on the way to this epoch. epoch = -1: nothing. */
struct ms_sim_point {
    int32_t epoch;
    uint64_t lsn;
};

struct ms_sim_key {
    uint32_t table;
    struct ms_bytes bytes; /* owned */
    uint64_t hash;
    uint32_t newest;                /* op, 0 = none */
    uint32_t eternal;               /* the op that put it once and for all, 0 = an ordinary key */
    struct ms_sim_point eternal_at; /* where that is in the log; epoch -2 = not there yet */
};

/* One write of the client. Values are all different unless the client repeats one on purpose. */
struct ms_sim_op {
    uint32_t key;
    uint32_t previous;     /* of the same key */
    struct ms_bytes value; /* owned; data == NULL: delete */
    uint64_t entry_hash;
    uint64_t epoch_id; /* of the leader that accepted it, 0 = refused or not answered */
    bool buffered;     /* its table was when it was accepted: it comes into the log some time, or not at all */
};

struct ms_sim_record {
    uint8_t type;
    uint8_t table;  /* enum ms_sim_table */
    uint32_t value; /* PUT, DELETE: op; TABLE: the id */
    uint32_t key;
};

struct ms_sim_sums {
    uint64_t count[MS_SIM_TABLES_MAX], digest[MS_SIM_TABLES_MAX];
};

struct ms_sim_group {
    uint64_t first, last;
    uint64_t body_hash, time_us; /* known when it is written */
    uint64_t at;                 /* when it was handed to the log */
    bool written;                /* by its maker */
    struct ms_sim_sums sums;     /* after it */
};

struct ms_sim_epoch {
    struct ms_epoch epoch;
    uint32_t owner;
    uint64_t owner_life;
    int32_t parent; /* index, -1 = none */
    uint64_t first, last;
    struct ms_sim_record *records; /* first .. last */
    uint32_t record_capacity;
    struct ms_sim_group *groups;
    uint32_t group_count, group_capacity;
};

/* The tables at a place, as the book says. */
struct ms_sim_fold {
    struct ms_sim_point place;
    uint32_t *ops; /* by key; 0 = no entry */
    uint32_t capacity;
    struct ms_sim_sums sums;
    uint8_t table_of[MS_TABLES_MAX]; /* enum ms_sim_table + 1 by table id; 0 = not defined */
};

struct ms_sim_book {
    struct ms_sim_key *keys;
    uint32_t key_count, key_capacity;
    uint32_t *key_slots; /* open addressing, index + 1 */
    uint32_t slot_count;
    struct ms_sim_op *ops; /* [0] unused */
    uint32_t op_count, op_capacity;
    struct ms_sim_epoch *epochs;
    uint32_t epoch_count, epoch_capacity;
    struct ms_sim_fold scratch; /* sim_check.c's */
};

void ms_sim_book_close(struct ms_sim_book *book);
uint32_t ms_sim_book_key(struct ms_sim *sim, uint32_t table, struct ms_bytes key); /* made if new; UINT32_MAX = no memory */
uint32_t ms_sim_book_find_key(const struct ms_sim *sim, uint32_t table, struct ms_bytes key); /* UINT32_MAX = unknown */
uint32_t ms_sim_book_op(struct ms_sim *sim, uint32_t key, struct ms_bytes value);             /* 0 = no memory */

int32_t ms_sim_book_epoch(const struct ms_sim *sim, uint64_t id); /* index, -1 = unknown */
struct ms_sim_point ms_sim_book_place(const struct ms_sim *sim, const struct ms_lineage *lineage,
                                      uint64_t lsn); /* epoch -2: unknown */
bool ms_sim_book_includes(const struct ms_sim *sim, struct ms_sim_point whole, struct ms_sim_point part);
struct ms_sim_point ms_sim_book_before(const struct ms_sim *sim, struct ms_sim_point place,
                                       uint64_t lsn); /* on the way to it */
uint64_t ms_sim_book_common(const struct ms_sim *sim, struct ms_sim_point a,
                            struct ms_sim_point b);                        /* last lsn that both have */
void ms_sim_book_recovered(struct ms_sim *sim, struct ms_sim_point place); /* these groups are in a file */
const char *ms_sim_table_name(const struct ms_sim *sim, uint32_t table);
uint32_t ms_sim_table_find(const struct ms_sim *sim, struct ms_bytes name); /* MS_SIM_TABLES_MAX = there is none */
const struct ms_sim_group *ms_sim_book_around(const struct ms_sim *sim, struct ms_sim_point place); /* that has it, or NULL */
const struct ms_sim_group *ms_sim_book_group(const struct ms_sim *sim,
                                             struct ms_sim_point place); /* that ends there, or NULL */

void ms_sim_fold_close(struct ms_sim_fold *fold);
bool ms_sim_fold_to(struct ms_sim *sim, struct ms_sim_fold *fold, struct ms_sim_point place); /* forward if it can */
uint32_t ms_sim_fold_get(const struct ms_sim_fold *fold, uint32_t key);

struct ms_sim_node;
/* io->log_write was given this block: a leader's own goes into the book, a received one must be in it. */
void ms_sim_book_handed(struct ms_sim_node *node, const struct ms_block *block);
void ms_sim_book_written(struct ms_sim_node *node, const struct ms_block *block); /* it is in the file */

/* ---- network (sim_net.c) --------------------------------------------------------------------------------------- */

struct ms_sim_pipe {   /* from one end to the other */
    struct ms_buf out; /* accepted from the engine, not on the wire yet */
    size_t out_from;
    struct ms_buf in; /* arrived, not parsed yet */
    size_t in_from;
    uint64_t in_flight;
    uint64_t last_arrival;
    bool sending; /* a send event is queued */
    bool fin;     /* close after `out` */
    bool ended;   /* no more arrives: fin or reset is on its way */
};

struct ms_sim_end {
    uint32_t node;
    uint64_t life;
    uint64_t id;
    bool up;     /* the engine knows it is connected */
    bool closed; /* no inputs any more */
    bool paused;
    struct ms_sim_pipe pipe;
};

struct ms_sim_link {
    struct ms_sim_end ends[2]; /* [0] connected */
    bool silent;               /* what is sent vanishes */
    bool accepted;
    bool flipped;
    uint64_t carried;
    struct ms_sim_link *next;
};

void ms_sim_net_init(struct ms_sim *sim);
void ms_sim_net_close(struct ms_sim *sim);
uint64_t ms_sim_net_connect(struct ms_sim_node *node, const char *address);
void ms_sim_net_send(struct ms_sim_node *node, uint64_t id, uint8_t type, uint8_t flags, struct ms_bytes payload,
                     const struct ms_block *block);
void ms_sim_net_close_link(struct ms_sim_node *node, uint64_t id);
void ms_sim_net_pause(struct ms_sim_node *node, uint64_t id, bool paused);
void ms_sim_net_node_down(struct ms_sim_node *node, bool silent);             /* all its links end */
void ms_sim_net_cut(struct ms_sim *sim, uint32_t a, uint32_t b, bool silent); /* links between the two, now */

/* ---- a node ---------------------------------------------------------------------------------------------------- */

enum ms_sim_job_kind {
    MS_SIM_JOB_WRITE,
    MS_SIM_JOB_SYNC,
    MS_SIM_JOB_TRIM,
    MS_SIM_JOB_ARCHIVE,
    MS_SIM_JOB_STAGE,
    MS_SIM_JOB_STAGE_WRITE,
    MS_SIM_JOB_COMMIT,
    MS_SIM_JOB_ABORT,
};

struct ms_sim_job {
    struct ms_list node;
    int kind;
    struct ms_block *block; /* WRITE */
    uint64_t lsn, keep;     /* TRIM; ARCHIVE: from, size of the text; COMMIT: end */
    size_t size;
    uint8_t data[]; /* ARCHIVE: text, then extras; STAGE_WRITE: groups */
};

struct ms_sim_jobs {
    struct ms_list queue;
    bool busy; /* an event for the next job is queued */
    bool syncing, preparing, sync_early;
    struct ms_sync_job sync;
    struct ms_prepare_job prepare;
    uint32_t slow; /* factor on durations */
    struct ms_file *stage;
    uint64_t stage_size;
    int stage_rc;
    uint64_t archived_from; /* the lowest lsn archived since the last switch, UINT64_MAX = none */
    uint64_t archive_first; /* the oldest lsn that the log had then */
};

enum ms_sim_damage {
    MS_SIM_DAMAGE_SNAPSHOT = 1, /* a snapshot: an older one and the log still give everything, or recovery says no */
    MS_SIM_DAMAGE_ANY = 2,      /* anything, by a spec: it knows what has to come of it */
};

enum { MS_SIM_READERS = 8 };

struct ms_sim_reader {
    uint64_t link, next; /* of log_read */
    struct ms_log_reader *reader;
};

struct ms_sim_source {      /* a snapshot file that a link reads */
    uint64_t link, id, end; /* end 0: it is still being made */
    struct ms_file *file;
};

struct ms_sim_maker { /* of snapshots */
    struct ms_snapshot_writer *writer;
    int step;
    char dir[MS_PATH_MAX];
    bool stale; /* the generation was switched under it */
};

struct ms_sim_wait { /* a promise that is not answered yet */
    uint64_t lsn, epoch_id;
    int level;
    struct ms_sim_point place;
};

struct ms_sim_effect { /* an extra that was put */
    uint32_t key;
    int reason;
    uint64_t life;       /* of the leader */
    uint64_t epoch, lsn; /* of the extra */
    struct ms_sim_point place;
};

struct ms_sim_accepted { /* what the log must bring next */
    uint64_t lsn;
    uint32_t op, batch;
};

struct ms_sim_node {
    struct ms_io io; /* first: the io functions find the node by it */
    struct ms_sim *sim;
    uint32_t index;
    char address[8];
    struct ms_sim_fs *fs;
    bool up;
    bool powerless;             /* down by power loss: peers hear nothing from its machine */
    uint64_t life;              /* unique in the run, 0 = down */
    uint64_t clock, real_clock; /* added to the virtual time */
    uint64_t wake;              /* the earliest tick that is queued, 0 = none */
    struct ms_datadir dir;
    struct ms_store store;
    struct ms_log *log;            /* NULL: recovery failed */
    char log_dirs[2][MS_PATH_MAX]; /* a log borrows its path: [log_dir] is the live one's */
    int log_dir;
    struct ms_log_config log_config;
    struct ms_recovery recovery;
    int recovered;
    bool read_errors; /* injected while it recovered */
    bool has_engine, has_host;
    struct ms_engine engine;
    struct ms_sim_jobs jobs;
    struct ms_sim_reader readers[MS_SIM_READERS];
    struct ms_sim_source sources[MS_SIM_READERS];
    struct ms_sim_maker maker;
    uint64_t host_lsn; /* the last block given to the host */
    uint32_t host_entries; /* what the host has in files of its own: sim_host.c. Outlives lives */
    uint64_t comparing; /* it was told to lead, or leads, and its host compares: the number of that comparison; 0 = no */
    bool host_writes;   /* a write of its host that compares, which nobody waits for */
    bool host_busy;

    /* the client's side */
    struct ms_table_state *tables[MS_SIM_TABLES_MAX];
    struct ms_sim_accepted *accepted;
    uint32_t accepted_from, accepted_count, accepted_capacity;
    struct ms_sim_wait *waits;
    uint32_t wait_count, wait_capacity;
    uint32_t *logged; /* by key: the newest op of a buffered table that is in the log */
    uint32_t logged_capacity;
    struct ms_rules *rules; /* NULL = the simulation's numbers */
    uint32_t rules_serial;  /* another one with each reload and each start */
    uint32_t *outside;      /* by key: the serial of the rules that left it out */
    uint32_t outside_capacity;
    struct ms_review *review; /* under way; NULL = none */
    const char *reviewed;     /* the table that is being checked */
    struct ms_sim_fold mint;    /* the tables at the end of what this leader handed to the log */
    struct ms_sim_point handed; /* the end of what was handed to the log */
    bool changed;               /* io->changed since the waits were looked at */
    bool no_space;              /* the last write was refused for space */

    /* what the checks remember */
    struct ms_sim_point written, synced; /* what must be there after a crash, after power loss */
    struct ms_sim_point switching;       /* where a bootstrap that may be half done leads to; epoch -2 = there is none */
    struct ms_sim_point last;            /* where the store was after the last input */
    uint64_t last_content, last_written, last_synced, last_marks, checked_at;
    uint32_t last_lineage;
    int last_role;
    struct ms_counters last_counters;
    uint64_t dirty; /* entries at risk after the last input */
    bool exceeding;         /* more than may be: the log took nothing */
    bool reloaded;           /* a reload may have made it more than may be */
    uint64_t last_at_risk_lost;
    uint64_t text_archives, last_text_archives; /* loss reports of buffers that were asked for */
    bool spoiled;                               /* its memory was changed behind its back */
    int damaged_disk;                           /* its files were: enum ms_sim_damage */
    bool owes_bootstrap;    /* it has begun one in this life that is not complete */
    bool adopting;                              /* the operator said adopt */
    bool lost_power;                            /* since it was last up */
    bool stop_power;                            /* what an armed stop of the file system stands for */

    /* extras */
    uint64_t extras;  /* that waited when it started */
    uint32_t *owed;   /* keys of changes that it gave up: in a loss report some time */
    uint32_t owed_count, owed_capacity;

    /* the operator's notes */
    uint64_t down_until, refused_since;
    bool has_led, returning;
};

static inline struct ms_sim_node *ms_sim_node_of(struct ms_io *io)
{
    return (struct ms_sim_node *)(void *)io;
}

/* sim_node.c */
void ms_sim_node_forget(struct ms_sim_node *node); /* what belongs to one life */
void ms_sim_node_close(struct ms_sim_node *node);  /* frees what outlives lives */
int ms_sim_node_open(struct ms_sim_node *node);
enum ms_sim_end_kind { MS_SIM_STOP, MS_SIM_KILL, MS_SIM_POWER };
void ms_sim_node_end(struct ms_sim_node *node, int kind);
void ms_sim_node_after(struct ms_sim_node *node); /* after every input of its engine: pump, checks, waits */

/* sim_log.c */
void ms_sim_jobs_init(struct ms_sim_node *node);
void ms_sim_jobs_close(struct ms_sim_node *node);
void ms_sim_jobs_add(struct ms_sim_node *node, int kind, struct ms_block *block, uint64_t lsn, uint64_t keep,
                     struct ms_bytes data);
void ms_sim_jobs_reserve(struct ms_sim_node *node);
void ms_sim_jobs_read(struct ms_sim_node *node, uint64_t link, uint64_t from, uint64_t limit);
bool ms_sim_node_stopped(struct ms_sim_node *node); /* the machine stopped in the middle: ends the node and says so */

/* sim_snap.c */
void ms_sim_snap_make(struct ms_sim_node *node);
void ms_sim_snap_read(struct ms_sim_node *node, uint64_t link, uint64_t snapshot, uint64_t offset);
void ms_sim_snap_close(struct ms_sim_node *node);
void ms_sim_snap_close_sources(struct ms_sim_node *node);
void ms_sim_stage_begin(struct ms_sim_node *node);
void ms_sim_stage_write(struct ms_sim_node *node, struct ms_bytes groups);
int ms_sim_stage_commit(struct ms_sim_node *node, uint64_t end); /* also opens the new generation's log */
void ms_sim_stage_abort(struct ms_sim_node *node);

/* sim_check.c */
void ms_sim_check_forget(struct ms_sim_node *node);
void ms_sim_check_opened(struct ms_sim_node *node);
void ms_sim_check_input(struct ms_sim_node *node);  /* cheap, after every input */
void ms_sim_check_tables(struct ms_sim_node *node); /* byte for byte against the book */
void ms_sim_check_send(struct ms_sim_node *node, uint64_t link, const struct ms_block *block);
void ms_sim_check_promise(struct ms_sim_node *node, const struct ms_sim_wait *wait, int result);
struct ms_sim_point ms_sim_node_place(const struct ms_sim_node *node); /* of its store */

/* sim_work.c */
void ms_sim_work_start(struct ms_sim *sim);
int ms_sim_work_put(struct ms_sim_node *node, uint32_t table, struct ms_bytes key, struct ms_bytes value, uint64_t *lsn,
                    int *level);
int ms_sim_work_batch(struct ms_sim_node *node, const struct ms_sim_write *writes, size_t count, uint64_t *lsn, int *level);
void ms_sim_work_waits(struct ms_sim_node *node);  /* asks after every promise */
void ms_sim_work_forget(struct ms_sim_node *node); /* the process is gone: promises end as unknown */

/* sim_host.c */
void ms_sim_host_init(struct ms_sim_node *node);
int ms_sim_host_flags(struct ms_sim_node *node); /* what a node that is to lead is told: MS_PROMOTE_COMPARE if its host has more */
void ms_sim_host_compares(struct ms_sim_node *node, int flags); /* it was told so */
int ms_sim_host_compared(struct ms_sim_node *node);
void ms_sim_host_check(struct ms_sim_node *node);               /* after every input */
void ms_sim_host_send(struct ms_sim_node *node, uint8_t type);  /* before a frame leaves */

/* sim_view.c */
int ms_sim_view_set(struct ms_sim_node *node, struct ms_rules *rules);
int ms_sim_view_set_random(struct ms_sim_node *node);
void ms_sim_view_forget(struct ms_sim_node *node); /* what belongs to one life */
void ms_sim_view_close(struct ms_sim_node *node);
const struct ms_policy *ms_sim_node_policy(const struct ms_sim_node *node);
int ms_sim_view_decide(struct ms_sim_node *node, uint32_t table, uint32_t key); /* the answer to MS_ASK */
/* After a write of an entry (a key of the book): was it decided rightly? puts: it has a value; asked: ms_sim_view_decide was. */
void ms_sim_view_check(struct ms_sim_node *node, uint32_t key, bool existed, bool puts, bool asked, bool out);
void ms_sim_view_left(struct ms_sim_node *node, uint32_t key); /* a leader handed a LEAVE to its log */
void ms_sim_view_ask_flush(struct ms_io *io, uint32_t table, const struct ms_flush_stats *stats);
void ms_sim_view_event(struct ms_io *io, const struct ms_event *event);

/* sim_rules.c */
bool ms_sim_rules_own(const struct ms_rules *rules);
bool ms_sim_rules_steady(const struct ms_rules *rules); /* own, and never failing */
int ms_sim_rules_would(const struct ms_rules *rules, const char *table, struct ms_bytes key); /* of own ones: enum ms_decision */

/* sim_extras.c */
void ms_sim_extras_read(struct ms_sim_node *node, uint64_t boot);
void ms_sim_extras_report(struct ms_sim_node *node, uint64_t id, uint64_t done, struct ms_bytes text);
void ms_sim_extras_conflict(struct ms_sim_node *node, uint64_t link, const struct ms_extra *extra);
int ms_sim_extras_archive(struct ms_sim_node *node, uint64_t from, struct ms_bytes extras, uint64_t *count);
void ms_sim_extras_given_up(struct ms_sim_node *node, struct ms_sim_point before, uint64_t common); /* another history came in its place */
void ms_sim_extras_check(struct ms_sim_node *node); /* nothing is pending: everything that is owed is in a report */

/* sim_chaos.c */
void ms_sim_chaos_start(struct ms_sim *sim);
void ms_sim_chaos_calm(struct ms_sim *sim);

/* sim_operator.c */
void ms_sim_operator_start(struct ms_sim *sim);
void ms_sim_operator_switch(struct ms_sim *sim);

/* ---- the world ------------------------------------------------------------------------------------------------- */

enum { MS_SIM_TRACE_LINES = 4096, MS_SIM_TRACE_WIDTH = 180 };
#define MS_SIM_EPOCH_US UINT64_C(1700000000000000) /* real time when virtual time began */

struct ms_sim {
    uint64_t seed;
    struct ms_sim_dice dice;
    struct ms_sim_options options;
    struct ms_policy policy;
    uint64_t now, next_seq, next_life, hash;
    struct ms_sim_event *queue; /* a heap */
    uint32_t queue_count, queue_capacity;
    int failed;
    char message[400];
    struct ms_sim_counts counts;
    char (*trace)[MS_SIM_TRACE_WIDTH];
    uint32_t trace_next;
    struct ms_buf trace_text;

    struct ms_sim_node *nodes[MS_SIM_NODES_MAX];
    struct ms_sim_wire wires[MS_SIM_NODES_MAX][MS_SIM_NODES_MAX]; /* [a][b], a < b */
    struct ms_sim_link *links;
    uint64_t next_link;
    struct ms_sim_book book;
    struct {
        char name[MS_TABLE_NAME_MAX + 1];
        int type;
    } tables[MS_SIM_TABLES_MAX];
    uint32_t table_count;

    /* operator, client */
    bool calm;
    int32_t leader; /* whom the operator has lead, -1 = nobody yet */
    uint32_t next_batch, next_serial;
    uint64_t next_comparison;
    uint32_t *eternals; /* keys */
    uint32_t eternal_count, eternal_capacity;
    struct ms_sim_effect *effects;
    uint32_t effect_count, effect_capacity;
    uint64_t next_value;
    uint32_t next_eternal;
    uint32_t classes;  /* of faults that this run has */
    uint64_t pause_us; /* longest pause between two of them */
    bool operated, starving;
};

#define MS_SIM_FOR_NODES(sim, name) \
    for (struct ms_sim_node * name, **at_##name = (sim)->nodes; \
         at_##name < (sim)->nodes + (sim)->options.nodes && (name = *at_##name); at_##name++)

#endif
