/* What a replay counts: entries it has met, how stale they were when they were logged, and what was at risk meanwhile. */
#include "../base/error.h"
#include "../base/mem.h"
#include "replay_inside.h"

/* ---- times, roughly ------------------------------------------------------------------------------------------------------ */

static uint32_t bucket_of(uint64_t time)
{
    if (time < 8) return (uint32_t)time;
    uint32_t power = 63 - (uint32_t)__builtin_clzll(time);
    return (power - 2) * 8 + (uint32_t)(time >> (power - 3) & 7);
}

/* The middle of a bucket. */
static uint64_t time_of(uint32_t bucket)
{
    if (bucket < 8) return bucket;
    uint32_t power = bucket / 8 + 2;
    uint64_t low = (uint64_t)(8 + bucket % 8) << (power - 3);
    return low + ((uint64_t)1 << (power - 3)) / 2;
}

static void add_time(struct ms_replay_times *times, uint64_t time)
{
    times->counts[bucket_of(time)]++;
    times->total++;
    if (time > times->max) times->max = time;
}

static uint64_t percentile(const struct ms_replay_times *times, double part)
{
    uint64_t rank = (uint64_t)((double)times->total * part), seen = 0;
    for (uint32_t i = 0; i < MS_REPLAY_BUCKETS; i++) {
        seen += times->counts[i];
        if (seen > rank) return time_of(i) < times->max ? time_of(i) : times->max;
    }
    return times->max;
}

/* ---- entries ------------------------------------------------------------------------------------------------------------- */

static uint32_t *slot_of(const struct ms_replay *replay, uint32_t table, struct ms_bytes key, uint64_t hash)
{
    uint32_t mask = replay->slot_count - 1;
    for (uint32_t at = (uint32_t)ms_mix(hash + table) & mask;; at = (at + 1) & mask) {
        uint32_t *slot = &replay->slots[at];
        if (!*slot) return slot;
        const struct ms_replay_entry *entry = &replay->entries[*slot - 1];
        if (entry->hash == hash && entry->table == table && ms_bytes_equal(entry->key, key)) return slot;
    }
}

struct ms_replay_entry *ms_replay_entry_find(const struct ms_replay *replay, uint32_t table, struct ms_bytes key, uint64_t hash)
{
    uint32_t found = replay->slot_count ? *slot_of(replay, table, key, hash) : 0;
    return found ? &replay->entries[found - 1] : NULL;
}

static int grow(struct ms_replay *replay)
{
    uint32_t count = replay->entry_capacity ? replay->entry_capacity * 2 : 1024;
    struct ms_replay_entry *entries = ms_realloc(replay->entries, count * sizeof *entries);
    if (!entries) return MS_E_MEMORY;
    replay->entries = entries;
    uint32_t *slots = ms_alloc_zero((size_t)count * 2 * sizeof *slots);
    if (!slots) return MS_E_MEMORY;
    ms_release(replay->slots);
    replay->slots = slots;
    replay->slot_count = count * 2;
    replay->entry_capacity = count;
    for (uint32_t i = 0; i < replay->entry_count; i++)
        *slot_of(replay, entries[i].table, entries[i].key, entries[i].hash) = i + 1;
    return 0;
}

int ms_replay_entry_of(struct ms_replay *replay, uint32_t table, struct ms_bytes key, uint64_t hash, struct ms_replay_entry **entry)
{
    *entry = ms_replay_entry_find(replay, table, key, hash);
    if (*entry) return 0;
    int rc = replay->entry_count < replay->entry_capacity ? 0 : grow(replay);
    if (rc) return rc;
    uint8_t *copy = ms_alloc(key.size);
    if (!copy) return MS_E_MEMORY;
    memcpy(copy, key.data, key.size);
    *slot_of(replay, table, key, hash) = replay->entry_count + 1;
    *entry = &replay->entries[replay->entry_count++];
    **entry = (struct ms_replay_entry){.key = ms_bytes(copy, key.size), .hash = hash, .table = table};
    return 0;
}

void ms_replay_count_close(struct ms_replay *replay)
{
    for (uint32_t i = 0; i < replay->entry_count; i++) ms_release((void *)(uintptr_t)replay->entries[i].key.data);
    ms_release(replay->entries);
    ms_release(replay->slots);
}

/* ---- what happens -------------------------------------------------------------------------------------------------------- */

void ms_replay_logged(struct ms_replay *replay, struct ms_replay_state *table, const struct ms_record *record)
{
    table->counts.logged++;
    table->counts.bytes_logged += record->key.size + record->value.size;
    if (table->counts.buffered && table->flushed != replay->now + 1) table->counts.flushes++;
    table->flushed = replay->now + 1;
    if (!table->counts.buffered && !replay->remember) return;
    struct ms_replay_entry *entry =
        ms_replay_entry_find(replay, (uint32_t)(table - replay->tables), record->key, ms_key_hash(record->key));
    if (!entry) return;
    entry->logged = true;
    if (entry->pending) add_time(&table->stale, replay->now - (entry->pending - 1));
    entry->pending = 0;
}

void ms_replay_risk_of(struct ms_replay_state *table)
{
    uint64_t entries = ms_buffer_entries(table->state), bytes = ms_buffer_bytes(table->state);
    if (entries > table->counts.risk_max) table->counts.risk_max = entries;
    if (bytes > table->counts.risk_bytes_max) table->counts.risk_bytes_max = bytes;
}

void ms_replay_risk(struct ms_replay *replay, uint64_t now)
{
    uint64_t passed = now - replay->risk_at;
    replay->risk_at = now;
    for (uint32_t i = 0; i < replay->table_count; i++) {
        struct ms_replay_state *table = &replay->tables[i];
        if (!table->counts.buffered) continue;
        table->risk_sum += (double)ms_buffer_entries(table->state) * (double)passed;
    }
}

const struct ms_replay_table *ms_replay_table(struct ms_replay *replay, uint32_t i)
{
    if (i >= replay->table_count) return NULL;
    struct ms_replay_state *table = &replay->tables[i];
    struct ms_replay_table *counts = &table->counts;
    uint64_t rest = counts->in - counts->logged - counts->filtered - counts->refused;
    *(counts->buffered ? &counts->coalesced : &counts->unchanged) = rest;
    counts->name = table->name;
    counts->stale_p50 = percentile(&table->stale, 0.5);
    counts->stale_p99 = percentile(&table->stale, 0.99);
    counts->stale_max = table->stale.max;
    counts->risk_average = replay->now ? table->risk_sum / (double)replay->now : 0;
    return counts;
}

/* ---- two policies -------------------------------------------------------------------------------------------------------- */

struct comparing {
    struct ms_replay *sides[2];
    int (*fn)(void *context, const struct ms_replay_difference *difference);
    void *context;
    struct ms_replay_comparison *result;
    bool told; /* fn has had enough */
};

/* The table of the other side with this name; tables appear in the order of the log on both. */
static uint32_t same_table(const struct ms_replay *replay, const char *name)
{
    for (uint32_t i = 0; i < replay->table_count; i++)
        if (strcmp(replay->tables[i].name, name) == 0) return i;
    return UINT32_MAX;
}

static void compare_entry(struct comparing *comparing, int side, const struct ms_replay_entry *entry)
{
    const struct ms_replay_state *table = &comparing->sides[side]->tables[entry->table];
    const struct ms_replay *other = comparing->sides[!side];
    uint32_t index = same_table(other, table->name);
    const struct ms_replay_entry *met = index == UINT32_MAX ? NULL : ms_replay_entry_find(other, index, entry->key, entry->hash);
    if (side == 1 && met) return; /* the first side's turn has had it */
    struct ms_replay_difference difference = {.table = table->name, .type = table->counts.type, .key = entry->key};
    difference.logged[side] = entry->logged;
    difference.logged[!side] = met && met->logged;
    difference.value[side] = ms_table_get(table->state, entry->key, entry->hash);
    if (index != UINT32_MAX) difference.value[!side] = ms_table_get(other->tables[index].state, entry->key, entry->hash);
    bool values = !ms_bytes_equal(difference.value[0], difference.value[1]);
    comparing->result->entries++;
    for (int i = 0; i < 2; i++) comparing->result->only[i] += difference.logged[i] && !difference.logged[!i];
    comparing->result->values += values;
    if ((values || difference.logged[0] != difference.logged[1]) && !comparing->told)
        comparing->told = comparing->fn && comparing->fn(comparing->context, &difference) != 0;
}

int ms_replay_compare(struct ms_replay *a, struct ms_replay *b, int (*fn)(void *context, const struct ms_replay_difference *difference),
                      void *context, struct ms_replay_comparison *comparison)
{
    if (!a->remember || !b->remember) return ms_fail(MS_E_INVALID, "a replay that is to be compared has to remember its entries");
    struct comparing comparing = {.sides = {a, b}, .fn = fn, .context = context, .result = comparison};
    *comparison = (struct ms_replay_comparison){0};
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < comparing.sides[side]->entry_count; i++) compare_entry(&comparing, side, &comparing.sides[side]->entries[i]);
    return 0;
}
