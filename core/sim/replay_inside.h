/* What the files of a replay share: replay.c (the log and its start), replay_engine.c (the engine and its world),
 * replay_count.c (entries, staleness, what is at risk). See replay.h. */
#ifndef MS_SIM_REPLAY_INSIDE_H
#define MS_SIM_REPLAY_INSIDE_H

#include "../sync/engine.h"
#include "replay.h"

enum { MS_REPLAY_BUCKETS = 64 * 8 };

/* Times, counted by size: 8 buckets for each power of two. */
struct ms_replay_times {
    uint64_t counts[MS_REPLAY_BUCKETS], total, max;
};

struct ms_replay_entry {
    struct ms_bytes key;    /* owned */
    uint64_t hash;
    uint64_t pending;       /* when its oldest unlogged change came, + 1; 0 = all are logged */
    uint32_t table;         /* index */
    bool logged;
};

struct ms_replay_state { /* of one table */
    struct ms_replay_table counts;
    struct ms_replay_times stale;
    struct ms_table_state *state;
    double risk_sum;        /* entries x microseconds */
    uint64_t flushed;       /* when its buffer was logged last, + 1 */
    char name[MS_TABLE_NAME_MAX + 1];
};

struct ms_replay {
    struct ms_io io;        /* first: the io functions find the replay by it */
    struct ms_fs *fs;
    char dir[MS_PATH_MAX];
    struct ms_rules *rules;
    struct ms_replay_clock *clock, own_clock;
    bool remember, has_engine;
    struct ms_policy policy;
    struct ms_store store;
    struct ms_engine engine;
    struct ms_replay_totals totals;

    /* the world: everything happens at `now` */
    uint64_t now, began_us; /* virtual; real time at now 0 */
    uint64_t wake;          /* 0 = no wish */
    uint64_t written;       /* asked for, not answered yet; 0 = nothing */
    bool sync, reserve;
    uint32_t asks[MS_TABLES_MAX], ask_count; /* buffers whose next flush is to be planned */
    struct ms_flush_stats stats[MS_TABLES_MAX];
    int failed;

    /* tables by the recorded id, and by our engine's */
    struct ms_replay_state *tables;
    uint32_t table_count;
    uint16_t by_record[MS_TABLES_MAX], by_id[MS_TABLES_MAX]; /* index + 1 */

    /* entries; only those of buffered tables unless `remember` */
    struct ms_replay_entry *entries;
    uint32_t entry_count, entry_capacity;
    uint32_t *slots; /* open addressing, index + 1 */
    uint32_t slot_count;
    uint64_t risk_at; /* until when risk_sum counts */
};

/* replay_engine.c */
int ms_replay_engine_open(struct ms_replay *replay); /* leads afterwards */
int ms_replay_table_open(struct ms_replay *replay, struct ms_bytes name, int type, uint32_t *index);
int ms_replay_until(struct ms_replay *replay, uint64_t now); /* everything that is due */
int ms_replay_change(struct ms_replay *replay, struct ms_replay_state *table, struct ms_bytes key, struct ms_bytes value);
int ms_replay_settle(struct ms_replay *replay); /* what the engine asked for is done */
int ms_replay_finish(struct ms_replay *replay); /* buffers run empty */

/* replay_count.c */
void ms_replay_count_close(struct ms_replay *replay);
int ms_replay_entry_of(struct ms_replay *replay, uint32_t table, struct ms_bytes key, uint64_t hash, struct ms_replay_entry **entry);
struct ms_replay_entry *ms_replay_entry_find(const struct ms_replay *replay, uint32_t table, struct ms_bytes key, uint64_t hash);
void ms_replay_logged(struct ms_replay *replay, struct ms_replay_state *table, const struct ms_record *record);
void ms_replay_risk_of(struct ms_replay_state *table);       /* its largest values */
void ms_replay_risk(struct ms_replay *replay, uint64_t now); /* the time up to `now` passed with the buffers as they are */

#endif
