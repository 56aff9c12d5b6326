/* The built-in policy: defaults, ranges, look-ups. */
#include "policy.h"

#include <string.h>

#include "../base/error.h"
#include "../base/hash.h"

enum { KIB = 1 << 10, MIB = 1 << 20, GIB = 1 << 30 };

void ms_policy_init(struct ms_policy *policy)
{
    memset(policy, 0, sizeof *policy); /* padding too: the hash goes over all bytes */
    policy->level = MS_LEVEL_DISK;
    policy->on_log_failure = MS_ON_LOG_FAILURE_REFUSE;
    policy->on_no_replica = MS_ON_NO_REPLICA_REFUSE;
    policy->replica_lag_ms = 10000;
    policy->sync_every_ms = 1000;
    policy->group_bytes = 32 * KIB;
    policy->mark_changes = 8192;
    policy->mark_every_ms = 1000;
    policy->snapshot_log_bytes = 64 * MIB;
    policy->snapshot_every_ms = 30000;
    policy->snapshot_keep = 2;
    policy->log_segment_bytes = 16 * MIB;
    policy->log_keep_bytes = 256 * MIB;
    policy->log_max_bytes = GIB;
    policy->heartbeat_ms = 1000;
    policy->link_timeout_ms = 5000;
    policy->connect_min_ms = 50;
    policy->connect_max_ms = 5000;
    policy->ask_ms = 2000;
    policy->window_bytes = MIB;
    policy->retain_bytes = 8 * MIB;
    policy->tail_bytes = 8 * MIB;
    policy->host_queue_bytes = 16 * MIB;
    policy->audit_every_ms = 3600000;
    policy->key_max = 4096;
    policy->value_max = 4 * MIB;
    policy->batch_max = 256 * KIB;
    policy->resolver = MS_RESOLVE_THEIRS;
    policy->outside_max = 100000;
    policy->leave_max_percent = 10;
    policy->probation_ms = 60000;
    policy->incidents_max = 10;
    policy->call_instructions = 200000;
    policy->call_us = 5000;
    policy->call_wait_us = 5000;
    policy->lua_memory = 16 * MIB;
    policy->enabled = 1;
    policy->on_beyond_end = MS_ON_BEYOND_END_REPORT;
}

static int in_range(const char *field, uint64_t value, uint64_t low, uint64_t high)
{
    if (value >= low && value <= high) return 0;
    return ms_fail(MS_E_INVALID, "policy.%s is %llu, it has to be in %llu..%llu", field, (unsigned long long)value,
                   (unsigned long long)low, (unsigned long long)high);
}

static int check_table(const struct ms_policy *policy, uint32_t index)
{
    const struct ms_table_policy *table = &policy->tables[index];
    if (!memchr(table->name, '\0', sizeof table->name) || !table->name[0])
        return ms_fail(MS_E_INVALID, "policy.tables[%u] has no name", index);
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(policy->tables[i].name, table->name) == 0)
            return ms_fail(MS_E_INVALID, "policy.tables names %s twice", table->name);
    if (table->level < 0 || table->level > MS_LEVEL_REPLICA)
        return ms_fail(MS_E_INVALID, "policy of table %s: level %d is not known", table->name, table->level);
    if (table->interval_ms && table->level)
        return ms_fail(MS_E_INVALID, "policy of table %s: a buffered table has no level", table->name);
    if (!table->interval_ms && (table->entries || table->bytes || table->at_risk_ms || table->at_risk_entries || table->at_risk_bytes))
        return ms_fail(MS_E_INVALID, "policy of table %s: a buffer needs an interval", table->name);
    if (table->resolver < MS_RESOLVE_DEFAULT || table->resolver > MS_RESOLVE_FUNCTION)
        return ms_fail(MS_E_INVALID, "policy of table %s: resolver %d is not known", table->name, table->resolver);
    if (table->type != 0 && table->type != MS_TYPE_BYTES && table->type != MS_TYPE_INT64)
        return ms_fail(MS_E_INVALID, "policy of table %s: value type %d is not known", table->name, table->type);
    if (table->type == MS_TYPE_BYTES && (table->resolver == MS_RESOLVE_MAX || table->resolver == MS_RESOLVE_MIN))
        return ms_fail(MS_E_INVALID, "policy of table %s: max and min compare int64 values", table->name);
    return 0;
}

/* A segment is in use and the next one is prepared, each with room for the largest group; a third may be waiting to be trimmed. */
static uint64_t least_log(const struct ms_policy *policy)
{
    uint64_t segments = 3 * policy->log_segment_bytes, groups = 2 * (ms_policy_largest_group(policy) + 4096);
    return segments > groups ? segments : groups;
}

int ms_policy_check(const struct ms_policy *policy)
{
    const struct {
        const char *field;
        uint64_t value, low, high;
    } ranges[] = {
        {"level", (uint64_t)policy->level, MS_LEVEL_MEMORY, MS_LEVEL_REPLICA},
        {"on_log_failure", (uint64_t)policy->on_log_failure, 0, 1},
        {"on_no_replica", (uint64_t)policy->on_no_replica, 0, 1},
        {"replica_lag_ms", policy->replica_lag_ms, 1, UINT32_MAX},
        {"sync_every_ms", policy->sync_every_ms, 1, 3600000},
        {"group_bytes", policy->group_bytes, 64, 16 * MIB},
        {"mark_changes", policy->mark_changes, 1, UINT32_MAX},
        {"mark_every_ms", policy->mark_every_ms, 1, 3600000},
        {"snapshot_log_bytes", policy->snapshot_log_bytes, 4 * KIB, UINT64_MAX},
        {"snapshot_every_ms", policy->snapshot_every_ms, 10, UINT32_MAX},
        {"snapshot_keep", policy->snapshot_keep, 1, 16},
        {"log_segment_bytes", policy->log_segment_bytes, 64 * KIB, GIB},
        {"log_keep_bytes", policy->log_keep_bytes, 0, UINT64_MAX / 4},
        {"log_max_bytes", policy->log_max_bytes, least_log(policy), UINT64_MAX / 4},
        {"heartbeat_ms", policy->heartbeat_ms, 1, policy->link_timeout_ms / 2},
        {"link_timeout_ms", policy->link_timeout_ms, 2, 3600000},
        {"connect_min_ms", policy->connect_min_ms, 1, policy->connect_max_ms},
        {"connect_max_ms", policy->connect_max_ms, 1, 3600000},
        {"ask_ms", policy->ask_ms, 1, 600000},
        {"window_bytes", policy->window_bytes, 4 * KIB, GIB},
        {"retain_bytes", policy->retain_bytes, 0, GIB},
        {"tail_bytes", policy->tail_bytes, 4 * KIB, GIB},
        {"host_queue_bytes", policy->host_queue_bytes, 4 * KIB, GIB},
        {"key_max", policy->key_max, 1, 65535},
        {"value_max", policy->value_max, 8, 64 * MIB},
        {"batch_max", policy->batch_max, 64, 64 * MIB},
        {"resolver", (uint64_t)policy->resolver, MS_RESOLVE_DEFAULT, MS_RESOLVE_FUNCTION},
        {"outside_max", policy->outside_max, 0, 100000000},
        {"leave_max_percent", policy->leave_max_percent, 0, 100},
        {"probation_ms", policy->probation_ms, 0, 86400000},
        {"incidents_max", policy->incidents_max, 1, 1000000},
        {"call_instructions", policy->call_instructions, 1000, 100000000},
        {"call_us", policy->call_us, 100, 1000000},
        {"call_wait_us", policy->call_wait_us, 0, 1000000},
        {"lua_memory", policy->lua_memory, MIB, GIB},
        {"enabled", policy->enabled, 0, 1},
        {"on_beyond_end", (uint64_t)policy->on_beyond_end, 0, 1},
        {"table_count", policy->table_count, 0, MS_POLICY_TABLES_MAX},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && !rc; i++)
        rc = in_range(ranges[i].field, ranges[i].value, ranges[i].low, ranges[i].high);
    for (uint32_t i = 0; i < policy->table_count && !rc; i++) rc = check_table(policy, i);
    return rc;
}

struct ms_table_policy ms_policy_table(const struct ms_policy *policy, const char *name)
{
    struct ms_table_policy result = {.level = MS_LEVEL_DEFAULT};
    for (uint32_t i = 0; i < policy->table_count; i++)
        if (strcmp(policy->tables[i].name, name) == 0) result = policy->tables[i];
    if (!result.interval_ms && result.level == MS_LEVEL_DEFAULT) result.level = policy->level;
    return result;
}

uint32_t ms_policy_start_only(const struct ms_policy *old, struct ms_policy *fresh, const char *names[MS_POLICY_START_ONLY_MAX])
{
    uint32_t count = 0;
#define START_ONLY(field, changes) \
    if (changes) { \
        fresh->field = old->field; \
        names[count++] = #field; \
    }
    START_ONLY(group_bytes, fresh->group_bytes != old->group_bytes)
    START_ONLY(log_segment_bytes, fresh->log_segment_bytes != old->log_segment_bytes)
    START_ONLY(log_max_bytes, fresh->log_max_bytes < old->log_max_bytes)
    START_ONLY(window_bytes, fresh->window_bytes != old->window_bytes)
    START_ONLY(key_max, fresh->key_max != old->key_max)
    START_ONLY(value_max, fresh->value_max != old->value_max)
    START_ONLY(batch_max, fresh->batch_max != old->batch_max)
#undef START_ONLY
    return count;
}

uint64_t ms_policy_hash(const struct ms_policy *policy)
{
    return ms_hash(policy, sizeof *policy);
}

uint64_t ms_policy_largest_group(const struct ms_policy *policy)
{
    uint64_t entry = (uint64_t)policy->key_max + policy->value_max + 32;
    uint64_t batch = policy->batch_max;
    uint64_t largest = policy->group_bytes > batch ? policy->group_bytes : batch;
    return (largest > entry ? largest : entry) + 64;
}

static const char *const level_names[] = {"default", "memory", "os", "disk", "replica"};

const char *ms_level_name(int level)
{
    return level >= 0 && level <= MS_LEVEL_REPLICA ? level_names[level] : "unknown";
}

int ms_level_parse(const char *name)
{
    for (int level = MS_LEVEL_MEMORY; level <= MS_LEVEL_REPLICA; level++)
        if (strcmp(level_names[level], name) == 0) return level;
    return 0;
}

const char *ms_resolver_name(int resolver)
{
    static const char *const names[] = {"theirs", "theirs", "mine", "newest", "max", "min", "function"};
    return resolver >= MS_RESOLVE_DEFAULT && resolver <= MS_RESOLVE_FUNCTION ? names[resolver] : "unknown";
}
