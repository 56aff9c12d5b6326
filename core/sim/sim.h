/* The simulator: a few whole nodes in one thread, over one virtual clock and one event queue, from one seed.
 *
 * Every node is the real thing from the engine down to the bytes of the log: struct ms_engine, struct ms_store, the
 * recovery, log and snapshot code of state/, over a file system in memory that loses, tears and re-orders what was not
 * synced (sim_fs.h). io.h is implemented by
 *
 *      sim_world.c   clock, queue, chance, trace         sim_model.c   what must be true: the book of all records ever made
 *      sim_net.c     links as byte streams               sim_check.c   compares nodes with it after every input
 *      sim_log.c     disk jobs with a duration           sim_work.c    a client, and what it was promised
 *      sim_snap.c    making, reading, staging snapshots  sim_chaos.c   faults
 *      sim_node.c    life of a node, the io table        sim_operator.c  who leads, who follows
 *      sim_verbs.c   the functions below                 sim_view.c    policies of nodes (sim_rules.c: made by chance)
 *      sim_host.c    what hosts have of their own, and leaders that compare it
 *
 * Equal seed and options give the same run, event for event. A violated promise ends the run: MS_E_DAMAGED, and
 * ms_error_message() names the promise, the node, the step and the seed. What stays is inspectable until ms_sim_free.
 *
 * Directed scenarios leave `random` off and use the verbs. Random runs leave everything to the seed:
 *
 *      struct ms_sim *sim = ms_sim_new(7, &(struct ms_sim_options){.random = true});
 *      if (ms_sim_step(sim, 2000) == 0) ms_sim_calm(sim, 120000000);
 *      ms_sim_free(sim);
 *
 * Not thread-safe. All times are microseconds of virtual time. Nodes are numbered from 0; node i has the address "n<i>". */
#ifndef MS_SIM_SIM_H
#define MS_SIM_SIM_H

#include "../state/datadir.h"
#include "../sync/engine.h"
#include "sim_fs.h"

enum { MS_SIM_NODES_MAX = 4, MS_SIM_TABLES = 6, MS_SIM_TABLES_MAX = 64, MS_SIM_BATCH_MAX = 16 };

/* Every node has these tables (made by the leader on its first write to them), unless options.named. */
enum ms_sim_table {
    MS_SIM_MEMORY = 0,  /* bytes, level memory */
    MS_SIM_OS = 1,      /* bytes, level os */
    MS_SIM_DISK = 2,    /* bytes, level disk */
    MS_SIM_REPLICA = 3, /* bytes, level replica */
    MS_SIM_OFFSET = 4,  /* int64, buffered by time */
    MS_SIM_COUNT = 5,   /* bytes, buffered by entries and bytes */
};

struct ms_sim_options {
    uint32_t nodes; /* 2..4; 0 = by chance */
    bool random;    /* client, faults and operator run by chance; otherwise only what the verbs say happens */
    bool has_host;  /* directed runs: nodes have a host that confirms batches a little later (random ones: by chance) */
    bool named;     /* directed runs: no fixed tables, those of ms_sim_table instead */
    const struct ms_policy *policy; /* copied; NULL = small sizes and short times, see ms_sim_policy */
};

/* ---- what happened; the spec wants none of them to stay zero over many seeds ----------------------------------- */

/* clang-format off */
#define MS_SIM_COUNTS(X) \
    X(steps) \
    /* client: what it asked for, how it was refused, how waits ended */ \
    X(puts) X(deletes) X(batches) X(buffered_puts) X(equal_puts) \
    X(refused) X(again) X(local) X(no_replica) X(no_space_refusals) X(no_space_puts_again) \
    X(acked_memory) X(acked_os) X(acked_disk) X(acked_replica) X(not_replicated) X(unknown) \
    /* processes and machines */ \
    X(starts) X(kills) X(power_losses) X(clean_stops) X(wipes) X(mid_operation_stops) X(clock_jumps) X(allocations_failed) \
    X(torn_writes) X(torn_tails) X(reordered_writes) \
    /* roles */ \
    X(leads) X(follows) X(promotions) X(adopts) X(leader_deposed) X(deposed_returns) X(stepdowns) X(dirty_stepdowns) \
    X(comparisons) X(comparisons_cut) X(held) X(split_brains) X(wiped_leaders) X(less_history) X(lost_leader_records) \
    /* resuming and bootstrapping; a verdict counts on both sides */ \
    X(resumes) X(verdict_continue) X(verdict_empty) X(verdict_trimmed) X(verdict_ahead) X(verdict_diverged) X(verdict_other) \
    X(bootstraps) X(bootstraps_interrupted) X(bootstraps_resumed) X(bootstraps_interrupted_by_crash) X(archived) \
    X(marks_compared) X(full_compares) X(flushes) X(coalesced) X(host_confirms) \
    /* extras: what only a deposed leader had (extras_own: decided by itself, leading again; extras_pending: starts that found some) */ \
    X(extras_sent) X(extras_resent) X(extras_answered) X(extras_unresolved) X(extras_own) X(extras_pending) \
    X(conflicts_theirs) X(conflicts_mine) X(conflicts_equal) \
    /* policies */ \
    X(decisions) X(outside) X(leaves) X(enters) X(reloads) X(reviews) X(flush_plans) X(policy_events) X(policy_incidents) \
    /* log and snapshots */ \
    X(snapshots_made) X(snapshots_failed) X(snapshots_bad) X(snapshot_fallbacks) X(recoveries_refused) X(trims) X(log_reads) \
    X(enospc) X(eio_writes) X(eio_syncs) X(eio_other) X(log_failures) X(slow_disks) \
    /* network */ \
    X(links) X(links_refused) X(links_reset) X(links_cut_bytes) X(half_open) X(link_timeouts) X(partitions) X(heals) \
    X(bits_flipped) X(flips_refused) X(slow_readers) X(pauses) X(backlogs)
/* clang-format on */

struct ms_sim_counts {
#define MS_SIM_COUNT_FIELD(name) uint64_t name;
    MS_SIM_COUNTS(MS_SIM_COUNT_FIELD)
#undef MS_SIM_COUNT_FIELD
};

/* The name of the i-th field of struct ms_sim_counts, NULL after the last. */
const char *ms_sim_count_name(uint32_t i);

/* ---- life ------------------------------------------------------------------------------------------------------ */

struct ms_sim; /* sim_world.h */

/* All nodes are down with empty disks (a random run starts them itself). NULL = MS_E_MEMORY or bad options. */
struct ms_sim *ms_sim_new(uint64_t seed, const struct ms_sim_options *options);
void ms_sim_free(struct ms_sim *sim); /* NULL is allowed */

/* Runs the next `steps` events. 0, MS_E_DAMAGED (a promise is broken; it stays so), MS_E_MEMORY. */
int ms_sim_step(struct ms_sim *sim, uint32_t steps);

/* Runs what happens within the next `us`. Same results. */
int ms_sim_run(struct ms_sim *sim, uint64_t us);

/* No more faults or client from here on: heals links and disks, starts dead nodes, has one lead and the others follow,
 * adopt where it is needed; then runs until all nodes are equal and synced and every promise is answered. MS_E_DAMAGED
 * also if that takes longer than `us`. */
int ms_sim_calm(struct ms_sim *sim, uint64_t us);

/* Runs until all running nodes are at the head of `leader` with equal tables; MS_E_TIMEOUT after `us`. For directed runs. */
int ms_sim_settle(struct ms_sim *sim, uint32_t leader, uint64_t us);

const struct ms_sim_counts *ms_sim_counts(const struct ms_sim *sim);
uint64_t ms_sim_now(const struct ms_sim *sim);
uint64_t ms_sim_hash(const struct ms_sim *sim); /* of everything that happened: equal runs have equal ones */
const char *ms_sim_trace(struct ms_sim *sim);   /* the last few thousand events as text, owned by the simulator */
void ms_sim_policy(struct ms_policy *policy);   /* what is used when options name none */

/* ---- verbs: 0 or MS_E_*; MS_E_CLOSED when the node is down (start, wipe: MS_E_INVALID when it is up) ----------- */

int ms_sim_start(struct ms_sim *sim, uint32_t node);      /* opens the data directory and recovers; the role is idle */
int ms_sim_stop(struct ms_sim *sim, uint32_t node);       /* a clean end: links closed, log synced */
int ms_sim_kill(struct ms_sim *sim, uint32_t node);       /* the process ends at once; peers see a reset */
int ms_sim_power_loss(struct ms_sim *sim, uint32_t node); /* the machine ends at once; peers see nothing */
int ms_sim_wipe(struct ms_sim *sim, uint32_t node);       /* an empty disk */

int ms_sim_lead(struct ms_sim *sim, uint32_t node, bool ask); /* ask: all other nodes, else nobody */
int ms_sim_lead_comparing(struct ms_sim *sim, uint32_t node, bool ask); /* its host compares until ms_sim_compared */
int ms_sim_compared(struct ms_sim *sim, uint32_t node);
int ms_sim_follow(struct ms_sim *sim, uint32_t node, uint32_t leader);
int ms_sim_promote(struct ms_sim *sim, uint32_t node);
int ms_sim_promote_to(struct ms_sim *sim, uint32_t node, uint64_t least_reign); /* as ms_promote_to */
int ms_sim_adopt(struct ms_sim *sim, uint32_t node);

/* The number of the table with this name, made known if it is new (options.named; the leader logs it with its first write): its place
 * in enum ms_sim_table's stead. MS_E_TYPE: it is known with another type; MS_E_LIMIT: more than MS_SIM_TABLES_MAX. */
int ms_sim_table(struct ms_sim *sim, const char *name, int type, uint32_t *table);

/* The node's policy from now on (a reference is taken; NULL = the options'). While it is down: what it starts with. While it is up: a
 * reload, as the node's policy thread does it: the engine has it at once, entries that it leaves out leave in slices. */
int ms_sim_set_rules(struct ms_sim *sim, uint32_t node, struct ms_rules *rules);
struct ms_rules *ms_sim_rules_of(const struct ms_sim *sim, uint32_t node); /* borrowed; NULL = the options' numbers */
bool ms_sim_reviewing(const struct ms_sim *sim, uint32_t node); /* entries are still about to leave */

/* A policy made by chance; what it decides depends on the seed alone, but for calls that fail. One reference; NULL = MS_E_MEMORY. */
struct ms_rules *ms_sim_rules_new(uint64_t seed, const struct ms_policy *policy);
uint64_t ms_sim_rules_incidents(const struct ms_rules *rules); /* calls that have failed; 0 of other rules */

/* The clock of policies in a simulation: real time without any node's jumps. For struct ms_lua_clock. */
uint64_t ms_sim_real_time(void *sim);

/* One write as a client does it; value.data == NULL deletes. table: enum ms_sim_table. lsn and level (may be NULL):
 * what to wait for. The promise is watched from then on. Results as ms_engine_commit; a table that is not there yet is
 * made. */
int ms_sim_put(struct ms_sim *sim, uint32_t node, uint32_t table, struct ms_bytes key, struct ms_bytes value, uint64_t *lsn,
               int *level);

struct ms_sim_write {
    uint32_t table;
    struct ms_bytes key, value;
};
int ms_sim_batch(struct ms_sim *sim, uint32_t node, const struct ms_sim_write *writes, size_t count, uint64_t *lsn,
                 int *level);
int ms_sim_flush(struct ms_sim *sim, uint32_t node); /* everything that is buffered */

/* The value that readers of the node see, borrowed; data == NULL if there is none, or the node is down. */
struct ms_bytes ms_sim_get(struct ms_sim *sim, uint32_t node, uint32_t table, struct ms_bytes key);

/* Replaces one value in a table's memory behind the engine's back, as a flipped bit would. */
int ms_sim_spoil(struct ms_sim *sim, uint32_t node, uint32_t table, struct ms_bytes key, struct ms_bytes value);

/* The files of this node, which is down, were changed behind its back: what it had may be gone. */
int ms_sim_tampered(struct ms_sim *sim, uint32_t node);

/* ---- the network: one wire for each pair of nodes, may be changed at any time ---------------------------------- */

enum ms_sim_cut {
    MS_SIM_WIRE_OK = 0,
    MS_SIM_WIRE_REFUSED = 1 /* resets, refusals */,
    MS_SIM_WIRE_SILENT = 2 /* everything vanishes */
};

struct ms_sim_wire {
    int cut;            /* enum ms_sim_cut; use ms_sim_cut to hit links that exist */
    uint64_t delay_us;  /* one way [200] */
    uint64_t jitter_us; /* added by chance [100] */
    uint64_t cut_bytes; /* a link is reset after so many bytes, 0 = never */
    uint32_t chunk;     /* most bytes of one arrival [65536] */
    uint32_t buffer;    /* bytes between the two nodes before the sender has to wait [262144] */
    uint64_t rest_us;   /* between two arrivals: a slow reader [0] */
    uint32_t flip;      /* chance, per million arrivals, of one flipped bit */
    uint32_t fragment;  /* chance, per million arrivals, of a short one */
};

struct ms_sim_wire *ms_sim_wire(struct ms_sim *sim, uint32_t a, uint32_t b);
int ms_sim_cut(struct ms_sim *sim, uint32_t a, uint32_t b, int how);
int ms_sim_heal(struct ms_sim *sim, uint32_t a, uint32_t b);

/* ---- looking inside -------------------------------------------------------------------------------------------- */

bool ms_sim_up(const struct ms_sim *sim, uint32_t node);
const char *ms_sim_table_of(const struct ms_sim *sim, uint32_t table); /* its name, "?" = there is none */
int ms_sim_table_type(const struct ms_sim *sim, uint32_t table);       /* enum ms_type; NOT_FOUND */

/* What stands in a node's log (up or down), from the book: the last lsn, and the record at one. Borrowed until ms_sim_free. */
struct ms_sim_logged {
    uint64_t at; /* when its leader handed it to the log */
    int op;      /* enum ms_op */
    uint32_t table;
    struct ms_bytes key, value;
};
uint64_t ms_sim_head(const struct ms_sim *sim, uint32_t node);
int ms_sim_logged(const struct ms_sim *sim, uint32_t node, uint64_t lsn, struct ms_sim_logged *logged); /* 1, 0: it is no change, NOT_FOUND */

struct ms_engine *ms_sim_engine(struct ms_sim *sim, uint32_t node); /* NULL when it is down */
struct ms_sim_fs *ms_sim_fs_of(struct ms_sim *sim, uint32_t node);
int ms_sim_recovered(const struct ms_sim *sim, uint32_t node,
                     struct ms_recovery *recovery);            /* of the last start: 0 or why it failed */
bool ms_sim_equal(struct ms_sim *sim, uint32_t a, uint32_t b); /* same position, same tables byte for byte */

#endif
