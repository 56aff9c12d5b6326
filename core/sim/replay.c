/* A replay's life, where it begins, and the log that it goes through. */
#include "replay.h"

#include "../base/error.h"
#include "../base/mem.h"
#include "../state/log.h"
#include "../state/snapshot.h"
#include "replay_inside.h"

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

int ms_replay_new(const struct ms_replay_options *options, struct ms_replay **result)
{
    *result = NULL;
    if (strlen(options->dir) >= MS_PATH_MAX) return ms_fail(MS_E_LIMIT, "the path %.100s... is too long", options->dir);
    struct ms_replay *replay = ms_alloc_zero(sizeof *replay);
    if (!replay) return MS_E_MEMORY;
    replay->fs = options->fs;
    memcpy(replay->dir, options->dir, strlen(options->dir));
    replay->rules = ms_rules_ref(options->rules);
    replay->policy = options->rules ? options->rules->policy : *options->policy;
    replay->clock = options->clock ? options->clock : &replay->own_clock;
    replay->remember = options->remember;
    int rc = ms_store_init(&replay->store);
    if (!rc && !(replay->tables = ms_alloc_zero(MS_TABLES_MAX * sizeof *replay->tables))) rc = MS_E_MEMORY;
    if (rc) {
        ms_replay_free(replay);
        return rc;
    }
    *result = replay;
    return 0;
}

void ms_replay_free(struct ms_replay *replay)
{
    if (!replay) return;
    if (replay->has_engine) ms_engine_close(&replay->engine);
    ms_store_close(&replay->store);
    ms_replay_count_close(replay);
    ms_rules_unref(replay->rules);
    ms_release(replay->tables);
    ms_release(replay);
}

const struct ms_replay_totals *ms_replay_totals(const struct ms_replay *replay)
{
    return &replay->totals;
}

/* ---- the beginning --------------------------------------------------------------------------------------------------------- */

static void empty(struct ms_replay *replay)
{
    ms_store_close(&replay->store);
    (void)ms_store_init(&replay->store); /* takes no memory */
}

/* The oldest sound snapshot that the log goes on from. */
static int load_start(struct ms_replay *replay, uint64_t first)
{
    struct ms_snapshot_name names[MS_SNAPSHOTS_MAX];
    uint32_t count = 0;
    int rc = ms_snapshot_list(replay->fs, replay->dir, names, &count), last = 0;
    if (rc) return rc;
    while (count-- > 0) {
        char path[MS_PATH_MAX];
        if (names[count].end + 1 < first) continue;
        rc = ms_path(path, replay->dir, names[count].name);
        if (!rc) rc = ms_snapshot_load(replay->fs, path, ms_bytes(NULL, 0), &replay->store);
        if (!rc || rc == MS_E_MEMORY) return rc;
        last = rc;
        empty(replay);
    }
    if (last) return last;
    return ms_fail(MS_E_NOT_FOUND, "the log in %s begins with lsn %llu, and there is no snapshot before it", replay->dir,
                   (unsigned long long)first);
}

struct leaving {
    struct ms_replay *replay;
    struct ms_replay_table *counts;
    const struct ms_table_state *table;
    struct ms_buf keys;
};

static int find_leaving(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct leaving *leaving = context;
    (void)value;
    leaving->counts->start++;
    if (ms_rules_decide(leaving->replay->rules, leaving->table->name, key) != MS_VIEW_OUT) return 0;
    leaving->counts->outside_at_start++;
    ms_buf_add_varint(&leaving->keys, key.size);
    ms_buf_add(&leaving->keys, key.data, key.size);
    return 0;
}

/* A policy whose view is smaller than the recorded one begins without the entries that it leaves out. */
static int leave_out(struct ms_replay *replay, struct ms_table_state *table, struct ms_replay_table *counts)
{
    struct leaving leaving = {.replay = replay, .counts = counts, .table = table};
    int rc = 0;
    ms_buf_init(&leaving.keys);
    for (uint32_t shard = 0; shard < MS_TABLE_SHARDS; shard++)
        if (table->content->shards[shard].entries) (void)ms_table_visit(table, shard, false, find_leaving, &leaving);
    if (leaving.keys.failed) rc = MS_E_MEMORY;
    struct ms_reader reader = ms_reader(ms_buf_bytes(&leaving.keys));
    while (!rc && ms_reader_left(&reader) > 0) {
        struct ms_bytes key = ms_read_bytes(&reader, ms_read_varint(&reader));
        rc = ms_table_fold(table, key, ms_key_hash(key), ms_bytes(NULL, 0));
    }
    ms_buf_close(&leaving.keys);
    return rc;
}

static int begin(struct ms_replay *replay, uint64_t first)
{
    int rc = first > 1 ? load_start(replay, first) : 0;
    if (rc) return rc;
    replay->totals.snapshot = replay->store.applied;
    struct ms_replay_table counts[MS_TABLES_MAX] = {0};
    for (uint32_t id = 1; id < MS_TABLES_MAX && !rc; id++)
        if (replay->store.tables[id]) rc = leave_out(replay, replay->store.tables[id], &counts[id]);
    if (!rc) rc = ms_replay_engine_open(replay);
    for (uint32_t id = 1; id < MS_TABLES_MAX && !rc; id++) {
        const struct ms_table_state *table = replay->store.tables[id];
        uint32_t index = 0;
        if (!table) continue;
        rc = ms_replay_table_open(replay, ms_str(table->name), table->type, &index);
        if (rc) continue;
        replay->tables[index].counts.start = counts[id].start;
        replay->tables[index].counts.outside_at_start = counts[id].outside_at_start;
        replay->by_record[id] = (uint16_t)(index + 1);
    }
    return rc;
}

/* ---- the log ------------------------------------------------------------------------------------------------------------------ */

static int replay_record(struct ms_replay *replay, const struct ms_record *record)
{
    uint32_t index = 0;
    int rc = 0;
    switch (record->type) {
    case MS_RECORD_TABLE:
        rc = ms_replay_table_open(replay, record->key, record->value_type, &index);
        if (!rc) replay->by_record[record->table] = (uint16_t)(index + 1);
        return rc;
    case MS_RECORD_EPOCH: replay->totals.epochs++; return 0;
    case MS_RECORD_LEAVE: replay->totals.leaves++; return 0; /* the old policy's doing, not the host's */
    case MS_RECORD_PUT:
    case MS_RECORD_DELETE:
        if (!replay->by_record[record->table]) return ms_fail(MS_E_FORMAT, "table %u is not defined", record->table);
        replay->totals.changes++;
        return ms_replay_change(replay, &replay->tables[replay->by_record[record->table] - 1], record->key, record->value);
    default: return 0;
    }
}

static int replay_group(struct ms_replay *replay, const struct ms_block *block)
{
    struct ms_bytes group = ms_bytes(block->data, block->size);
    struct ms_group_header header;
    struct ms_record record;
    int rc = ms_group_open(group, &header);
    if (rc) return rc;
    struct ms_replay_totals *totals = &replay->totals;
    if (totals->groups++ == 0) {
        totals->first = header.first;
        totals->from_us = totals->to_us = replay->began_us = replay->clock->real_us = header.time_us;
    }
    if (header.time_us > totals->to_us) totals->to_us = header.time_us;
    totals->last = ms_group_last(&header);
    rc = ms_replay_until(replay, totals->to_us - replay->began_us);
    struct ms_record_reader reader = ms_record_reader(group, &header);
    int more = 0;
    while (!rc && (more = ms_record_next(&reader, &record)) == 1) rc = replay_record(replay, &record);
    if (!rc && more < 0) rc = more;
    if (!rc) rc = ms_replay_settle(replay);
    return rc ? ms_fail_wrap(rc, "replay of the group at lsn %llu", (unsigned long long)header.first) : 0;
}

int ms_replay_first_time(struct ms_fs *fs, const char *dir, struct ms_replay_clock *clock)
{
    struct ms_log_reader *reader = NULL;
    struct ms_block *block = NULL;
    struct ms_group_header header;
    uint64_t first = 0;
    int rc = ms_log_reader_first(fs, dir, &first);
    if (!rc && first == 0) rc = ms_fail(MS_E_NOT_FOUND, "there is no change log in %s", dir);
    if (!rc) rc = ms_log_reader_open(fs, dir, first, &reader);
    if (!rc && (rc = ms_log_reader_next(reader, UINT64_MAX, &block)) == 1) {
        rc = ms_group_open(ms_bytes(block->data, block->size), &header);
        if (!rc) clock->real_us = header.time_us;
        ms_block_unref(block);
    }
    ms_log_reader_close(reader);
    return rc;
}

int ms_replay_run(struct ms_replay *replay)
{
    struct ms_log_reader *reader = NULL;
    struct ms_block *block = NULL;
    uint64_t first = 0;
    if (replay->has_engine) return ms_fail(MS_E_INVALID, "this replay has run");
    int rc = ms_replay_first_time(replay->fs, replay->dir, replay->clock); /* where the clock stands while it is decided what there is */
    if (!rc) rc = ms_log_reader_first(replay->fs, replay->dir, &first);
    if (!rc) rc = begin(replay, first);
    if (!rc) rc = ms_log_reader_open(replay->fs, replay->dir, replay->totals.snapshot + 1, &reader);
    while (!rc && (rc = ms_log_reader_next(reader, UINT64_MAX, &block)) == 1) {
        rc = replay_group(replay, block);
        ms_block_unref(block);
    }
    ms_log_reader_close(reader);
    return rc ? rc : ms_replay_finish(replay);
}

/* ---- conflicts ------------------------------------------------------------------------------------------------------------------ */

int ms_replay_conflict(struct ms_replay *replay, const struct ms_conflict *conflict, struct ms_resolution *resolution)
{
    uint32_t index;
    int rc = ms_replay_table_open(replay, ms_str(conflict->table), conflict->type, &index);
    if (rc) return rc;
    struct ms_replay_table *counts = &replay->tables[index].counts;
    ms_rules_resolve(replay->rules, &replay->policy, conflict, resolution);
    counts->resolved++;
    counts->resolved_mine += resolution->outcome == MS_OUTCOME_MINE;
    counts->resolved_theirs += resolution->outcome == MS_OUTCOME_THEIRS;
    counts->resolved_other += resolution->outcome == MS_OUTCOME_VALUE || resolution->outcome == MS_OUTCOME_DELETE;
    counts->resolve_incidents += strcmp(resolution->by, "incident") == 0;
    return 0;
}
