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
 * it runs, not a table), LIMIT (fuel, memory), IO, MEMORY. Any thread. `clock` is copied. */
int ms_lua_load(const char *path, const struct ms_policy *base, const struct ms_lua_clock *clock, struct ms_rules **rules);

/* Runs policy.selftest() if there is one: 0, or MS_E_REFUSED with its message. */
int ms_lua_selftest(struct ms_rules *rules);

/* ---- incidents: what went wrong in a function of this policy since it was loaded */

uint64_t ms_lua_incidents(const struct ms_rules *rules);

/* How many blocks of text the library carries, and each: name ("metasync/schema.lua") and text. embed.c, made by the Makefile. */
struct ms_lua_text {
    const char *name;
    struct ms_bytes text;
};
extern const struct ms_lua_text ms_lua_texts[];
extern const size_t ms_lua_text_count;

#endif
