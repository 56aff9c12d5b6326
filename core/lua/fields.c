/* Names, places and sizes of the policy's numbers. */
#include "fields.h"

#include <string.h>

#define FIELD(type, name) {#name, offsetof(struct type, name), sizeof ((struct type *)0)->name}
#define POLICY(name) FIELD(ms_policy, name)
#define TABLE(name) FIELD(ms_table_policy, name)

const struct ms_field ms_policy_fields[] = {
    POLICY(level), POLICY(on_log_failure), POLICY(on_no_replica), POLICY(replica_lag_ms), POLICY(sync_every_ms), POLICY(group_bytes),
    POLICY(mark_changes), POLICY(mark_every_ms), POLICY(snapshot_log_bytes), POLICY(snapshot_every_ms), POLICY(snapshot_keep),
    POLICY(log_segment_bytes), POLICY(log_keep_bytes), POLICY(log_max_bytes), POLICY(heartbeat_ms), POLICY(link_timeout_ms),
    POLICY(connect_min_ms), POLICY(connect_max_ms), POLICY(ask_ms), POLICY(window_bytes), POLICY(retain_bytes), POLICY(tail_bytes),
    POLICY(host_queue_bytes), POLICY(audit_every_ms), POLICY(key_max), POLICY(value_max), POLICY(batch_max), POLICY(resolver),
    POLICY(outside_max), POLICY(leave_max_percent), POLICY(probation_ms), POLICY(incidents_max), POLICY(call_instructions),
    POLICY(call_us), POLICY(call_wait_us), POLICY(lua_memory), POLICY(enabled), POLICY(on_beyond_end),
};
const size_t ms_policy_field_count = sizeof ms_policy_fields / sizeof *ms_policy_fields;

const struct ms_field ms_table_fields[] = {
    TABLE(level), TABLE(interval_ms), TABLE(entries), TABLE(bytes), TABLE(type), TABLE(resolver), TABLE(at_risk_ms), TABLE(at_risk_entries),
    TABLE(at_risk_bytes),
};
const size_t ms_table_field_count = sizeof ms_table_fields / sizeof *ms_table_fields;

uint64_t ms_field_get(const struct ms_field *field, const void *in)
{
    const char *at = (const char *)in + field->offset;
    if (field->size == sizeof(uint64_t)) {
        uint64_t value;
        memcpy(&value, at, sizeof value);
        return value;
    }
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

bool ms_field_set(const struct ms_field *field, void *in, uint64_t value)
{
    char *at = (char *)in + field->offset;
    if (field->size == sizeof value) {
        memcpy(at, &value, sizeof value);
        return true;
    }
    uint32_t small = (uint32_t)value;
    memcpy(at, &small, sizeof small);
    return value <= UINT32_MAX;
}
