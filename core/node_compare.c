/* Comparing the host's own copy with the log, see metasync.h. Each difference is decided like an extra (sync/extras.h), in a transaction on
 * its key, so that others may write meanwhile.
 *
 * Which entries the host has is remembered as a set of key hashes (64 bits). Two keys with one hash would hide an entry that only the log
 * has; with a million entries the chance of that is one in thirty million. */
#include <stdio.h>

#include "drive/loop.h"
#include "node_conflict.h"

enum { LINES_BYTES = 256 << 10, SLOTS_FIRST = 1024 };

struct ms_compare {
    struct ms_table *table;
    struct ms_conflict_policy policy;
    struct ms_compare_result result;
    uint64_t *hashes; /* open addressing, 0 = free */
    size_t slots, used;
    struct ms_buf lines, bytes, keys; /* report; what an answer points to; of a shard: key size u32, key */
    bool failed;                      /* an entry was not taken: what the log has alone is not known */
};

/* ---- the set of keys -------------------------------------------------------------------------------------------------------------- */

static uint64_t *slot_of(uint64_t *hashes, size_t slots, uint64_t hash)
{
    size_t at = (size_t)ms_mix(hash) & (slots - 1);
    while (hashes[at] && hashes[at] != hash) at = (at + 1) & (slots - 1);
    return &hashes[at];
}

static int grow(struct ms_compare *compare)
{
    size_t slots = compare->slots ? compare->slots * 2 : SLOTS_FIRST;
    if (compare->used * 4 < compare->slots * 3) return 0;
    uint64_t *hashes = ms_alloc_zero(slots * sizeof *hashes);
    if (!hashes) return MS_E_MEMORY;
    for (size_t i = 0; i < compare->slots; i++)
        if (compare->hashes[i]) *slot_of(hashes, slots, compare->hashes[i]) = compare->hashes[i];
    ms_release(compare->hashes);
    compare->hashes = hashes;
    compare->slots = slots;
    return 0;
}

static uint64_t hash_of(struct ms_bytes key)
{
    uint64_t hash = ms_key_hash(key);
    return hash ? hash : 1;
}

static bool is_named(const struct ms_compare *compare, struct ms_bytes key)
{
    return compare->slots && *slot_of(compare->hashes, compare->slots, hash_of(key));
}

static int name(struct ms_compare *compare, struct ms_bytes key)
{
    int rc = grow(compare);
    if (rc) return rc;
    uint64_t *slot = slot_of(compare->hashes, compare->slots, hash_of(key));
    compare->used += *slot == 0;
    *slot = hash_of(key);
    return 0;
}

/* ---- deciding ----------------------------------------------------------------------------------------------------------------------- */

static int write_lines(struct ms_compare *compare)
{
    struct ms_node *node = compare->table->node;
    char file[128], taken[MS_PATH_MAX];
    int rc = compare->lines.failed ? MS_E_MEMORY : 0;
    if (!rc && compare->lines.size == 0) return 0;
    (void)snprintf(file, sizeof file, "loss-host-%s-%llu.jsonl", compare->table->state->name, (unsigned long long)ms_clock_real());
    if (!rc) rc = ms_datadir_archive(&node->disk.dir, file, ms_buf_bytes(&compare->lines), taken);
    if (rc) return rc;
    ms_buf_clear(&compare->lines);
    ms_node_lock(node);
    (void)snprintf(node->engine.extras.report, sizeof node->engine.extras.report, "%s", taken);
    ms_node_unlock(node);
    return 0;
}

static void count(struct ms_compare *compare, int outcome)
{
    struct ms_node *node = compare->table->node;
    struct ms_compare_result *result = &compare->result;
    if (outcome == MS_EXTRA_EQUAL) { /* somebody wrote it meanwhile */
        result->equal++;
        return;
    }
    result->different++;
    if (outcome == MS_OUTCOME_MINE) result->kept_host++;
    else if (outcome == MS_OUTCOME_THEIRS) result->kept_log++;
    else result->other++;
    ms_node_lock(node);
    node->engine.counters.conflicts[outcome]++;
    ms_node_unlock(node);
}

/* An entry that differs. mine.data == NULL: the host has none. */
static int decide(struct ms_compare *compare, struct ms_bytes key, struct ms_bytes mine)
{
    struct ms_extra extra = {.type = compare->table->state->type, .reason = MS_CONFLICT_HOST, .key = key, .mine = mine};
    struct ms_extra_answer answer;
    memcpy(extra.table, compare->table->state->name, sizeof extra.table);
    extra.newer = compare->result.newer;
    ms_conflict_decide(compare->table, &extra, &compare->policy, true, &answer, &compare->bytes);
    if (answer.err) return answer.err;
    count(compare, answer.outcome);
    if (answer.outcome != MS_EXTRA_EQUAL) ms_extra_line(&compare->lines, ms_clock_real(), &extra, &answer);
    return compare->lines.size >= LINES_BYTES || compare->lines.failed ? write_lines(compare) : 0;
}

/* What the table has, as far as it matters: nothing (0), the same (1), something else (2). */
static int look(struct ms_compare *compare, struct ms_bytes key, struct ms_bytes value, int *found)
{
    struct ms_node *node = compare->table->node;
    ms_node_lock(node);
    int rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : 0;
    struct ms_bytes current = ms_table_get(compare->table->state, key, ms_key_hash(key));
    *found = !current.data ? 0 : ms_bytes_equal(current, value) ? 1 : 2;
    ms_node_unlock(node);
    return rc;
}

static int take_entry(struct ms_compare *compare, struct ms_bytes key, struct ms_bytes value)
{
    int found = 0, rc = name(compare, key);
    if (!rc) rc = look(compare, key, value, &found);
    if (rc) return rc;
    if (found == 1) {
        compare->result.equal++;
        return 0;
    }
    if (found == 0 && ms_rules_decide(compare->policy.rules, compare->table->state->name, key) == MS_VIEW_OUT) {
        compare->result.outside++;
        return 0;
    }
    return decide(compare, key, value);
}

/* The same that a put would be refused for. */
static int check(const struct ms_compare *compare, struct ms_bytes key, struct ms_bytes value)
{
    const struct ms_policy *policy = compare->policy.rules ? &compare->policy.rules->policy : compare->policy.numbers;
    const struct ms_table_state *state = compare->table->state;
    if (!key.data || !key.size || !value.data) return ms_fail(MS_E_INVALID, "table %s: an entry without key or value", state->name);
    if (key.size > policy->key_max || value.size > policy->value_max)
        return ms_fail(MS_E_LIMIT, "table %s: a key of %zu bytes, a value of %zu", state->name, key.size, value.size);
    if (state->type == MS_TYPE_INT64 && value.size != 8)
        return ms_fail(MS_E_TYPE, "table %s holds int64 values, these are %zu bytes", state->name, value.size);
    return 0;
}

int ms_compare_entry(struct ms_compare *compare, struct ms_bytes key, struct ms_bytes value)
{
    int rc = check(compare, key, value);
    if (!rc) rc = take_entry(compare, key, value);
    if (rc) compare->failed = true;
    return rc;
}

/* ---- what only the log has ----------------------------------------------------------------------------------------------------------- */

static int copy_key(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_compare *compare = context;
    (void)value;
    if (is_named(compare, key)) return 0;
    ms_buf_add32(&compare->keys, (uint32_t)key.size);
    ms_buf_add(&compare->keys, key.data, key.size);
    return compare->keys.failed ? MS_E_MEMORY : 0;
}

static int compare_shard(struct ms_compare *compare, uint32_t shard)
{
    struct ms_node *node = compare->table->node;
    ms_buf_clear(&compare->keys);
    ms_node_lock(node);
    int rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : 0;
    if (!rc) rc = ms_table_visit(compare->table->state, shard, false, copy_key, compare);
    ms_node_unlock(node);
    struct ms_reader reader = ms_reader(ms_buf_bytes(&compare->keys));
    while (!rc && ms_reader_left(&reader) > 0) {
        uint32_t size = ms_read32(&reader);
        rc = decide(compare, ms_read_bytes(&reader, size), ms_bytes(NULL, 0));
    }
    return rc;
}

/* ---- life -------------------------------------------------------------------------------------------------------------------------------- */

/* 1 = the host's copy is newer, -1 = the log is, 0 = nobody knows. With the lock. */
static int newer(const struct ms_node *node, const struct ms_host_copy *about)
{
    if (!about) return 0;
    if (about->version) return about->version > 0 ? 1 : -1;
    if (!about->written_us || !node->store.changed_us) return 0;
    return about->written_us > node->store.changed_us ? 1 : -1;
}

static int begin(struct ms_compare *compare, const struct ms_host_copy *about)
{
    struct ms_table *table = compare->table;
    struct ms_node *node = table->node;
    int rc = 0;
    ms_node_lock(node);
    if (node->closing) rc = ms_fail(MS_E_CLOSED, "the node is being closed");
    else if (node->engine.role != MS_ROLE_LEADER) rc = ms_fail(MS_E_NOT_LEADER, "only a leader compares its host's copy");
    else if (table->comparing) rc = ms_fail(MS_E_BUSY, "table %s is being compared already", table->state->name);
    compare->result.newer = newer(node, about);
    if (!rc) table->comparing = true;
    ms_node_unlock(node);
    return rc;
}

int ms_compare_begin(struct ms_table *table, const struct ms_host_copy *about, struct ms_compare **result)
{
    *result = NULL;
    int rc = ms_node_may_wait(table->node, "ms_compare_begin");
    if (rc) return rc;
    struct ms_compare *compare = ms_alloc_zero(sizeof *compare);
    if (!compare) return MS_E_MEMORY;
    compare->table = table;
    ms_buf_init(&compare->lines);
    ms_buf_init(&compare->bytes);
    ms_buf_init(&compare->keys);
    rc = ms_conflict_policy_take(table->node, &compare->policy);
    if (!rc) rc = begin(compare, about);
    if (rc) {
        ms_conflict_policy_drop(&compare->policy);
        ms_release(compare);
        return rc;
    }
    *result = compare;
    return 0;
}

/* One line for all of them: there may be as many as entries. With the lock. */
static void tell_differences(const struct ms_compare *compare)
{
    const struct ms_compare_result *result = &compare->result;
    struct ms_node *node = compare->table->node;
    char line[MS_PATH_MAX + 300];
    if (!result->different) return;
    (void)snprintf(line, sizeof line, "table %s: %llu entries of the host's copy differed from the log; it kept %llu of the host's, %llu of the "
                   "log's, %llu are something else; see the loss report %s", compare->table->state->name, (unsigned long long)result->different,
                   (unsigned long long)result->kept_host, (unsigned long long)result->kept_log, (unsigned long long)result->other,
                   node->engine.extras.report);
    ms_node_tell(node, "conflict", MS_LOG_WARN, line);
}

/* Ends it, with what is decided so far in the report. */
static int end(struct ms_compare *compare)
{
    struct ms_node *node = compare->table->node;
    int rc = write_lines(compare);
    ms_node_lock(node);
    compare->table->comparing = false;
    if (!rc) tell_differences(compare);
    ms_node_unlock(node);
    ms_conflict_policy_drop(&compare->policy);
    ms_buf_close(&compare->lines);
    ms_buf_close(&compare->bytes);
    ms_buf_close(&compare->keys);
    ms_release(compare->hashes);
    ms_release(compare);
    return rc;
}

int ms_compare_end(struct ms_compare *compare, struct ms_compare_result *result)
{
    int rc = compare->failed ? ms_fail(MS_E_INVALID, "an entry was not compared: what only the log has is not known") : 0;
    for (uint32_t shard = 0; shard < MS_TABLE_SHARDS && !rc; shard++) rc = compare_shard(compare, shard);
    if (result) *result = compare->result;
    int ended = end(compare);
    return rc ? rc : ended;
}

void ms_compare_abandon(struct ms_compare *compare)
{
    if (compare) (void)end(compare);
}
