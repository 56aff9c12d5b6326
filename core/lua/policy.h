/* Policy files: a loaded one is a struct ms_rules whose functions run in a sandbox of its own.
 *
 *      sandbox.h   one Lua state: fuel, memory, what is allowed; knows nothing of policies
 *      policy.h    a file -> checked numbers, patterns, functions (lua/metasync/schema.lua says what there is)
 *      value.h     entries, values, conflicts: between bytes and Lua
 *
 * The Lua parts (lua/metasync/) are compiled into the library, so that nothing has to be found at run time. */
#ifndef MS_LUA_POLICY_H
#define MS_LUA_POLICY_H

#include "../sync/rules.h"

/* Where a policy's time comes from. The default (NULL) is the machine's; the simulator gives its own, and then calls are bounded by
 * instructions alone, so that equal runs are equal. */
struct ms_lua_clock {
    void *context;
    uint64_t (*real_time_us)(void *context); /* what os.time says */
};

/* Reads, runs and checks a policy file, on top of `base` (NULL = ms_policy_init's). *rules has one reference. On an error the message
 * says file, path of the field, value and what was expected, with the nearest right name: INVALID (a field), FORMAT (syntax, an error while
 * it runs, not a table), LIMIT (fuel, file size), IO, MEMORY (none left, or more than loading may take). Any thread. `clock` is copied. */
int ms_lua_load(const char *path, const struct ms_policy *base, const struct ms_lua_clock *clock, struct ms_rules **rules);

/* The same, and appends every problem of the file's fields to `problems`, one a line (the message names the first). NULL is allowed. */
int ms_lua_check(const char *path, const struct ms_policy *base, const struct ms_lua_clock *clock, struct ms_buf *problems,
                 struct ms_rules **rules);

/* Every field of a policy as a file would write it, as a JSON object: {"ack": "disk", "log.max": "1GiB", "tables.offset.buffer.interval":
 * "200ms", ...}, in the order of the reference. Needs no file: for the built-in policy, too. *json: ms_free. MS_E_MEMORY. */
int ms_lua_show(const struct ms_policy *policy, char **json);

/* Runs policy.selftest() if there is one: 0, or MS_E_REFUSED with its message. */
int ms_lua_selftest(struct ms_rules *rules);

/* ---- incidents: what went wrong in a function of this policy since it was loaded */

/* Every failed call, and every call that did not get its turn in time. Any thread. rules: of ms_lua_load. */
uint64_t ms_lua_incidents(struct ms_rules *rules);
/* Whether a function is no longer called because of its incidents. */
bool ms_lua_quarantined(const struct ms_rules *rules);

/* The Lua parts that the library carries, as `require` names them ("metasync.schema"): embed.c, made by the Makefile. */
struct ms_lua_text {
    const char *name;
    struct ms_bytes text;
};
extern const struct ms_lua_text ms_lua_texts[];
extern const size_t ms_lua_text_count;

#endif
