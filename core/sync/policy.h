/* What the engine asks of the policy. Today the answers are data (struct ms_policy); a Lua policy fills the same struct. */
#ifndef MS_SYNC_POLICY_H
#define MS_SYNC_POLICY_H

#include "../metasync.h"

/* Checks every range; MS_E_INVALID names the field, the value and the range. */
int ms_policy_check(const struct ms_policy *policy);

/* The entry of a table, or a default one (level = policy->level, not buffered). */
struct ms_table_policy ms_policy_table(const struct ms_policy *policy, const char *name);

/* Fields that only a start can change, because buffers, links and files are made by them: those where `fresh` differs from `old` get old's
 * value (log_max_bytes may grow). Returns how many, and their names (static). */
enum { MS_POLICY_START_ONLY_MAX = 8 };
uint32_t ms_policy_start_only(const struct ms_policy *old, struct ms_policy *fresh, const char *names[MS_POLICY_START_ONLY_MAX]);

/* A stable hash of all fields, for hello and status. */
uint64_t ms_policy_hash(const struct ms_policy *policy);

/* The largest group that this policy can make: a full batch, one largest entry, or group_bytes. */
uint64_t ms_policy_largest_group(const struct ms_policy *policy);

const char *ms_level_name(int level); /* "memory" "os" "disk" "replica" */
int ms_level_parse(const char *name); /* 0 if unknown */
const char *ms_resolver_name(int resolver); /* "theirs" "mine" "newest" "max" "min" "function"; of DEFAULT: "theirs" */

#endif
