/* The calls of a policy's functions, and what becomes of those that fail.
 *
 * Every call goes through run(): it waits a bounded time for its turn, runs under fuel, and has its result checked. Whatever goes wrong is
 * an incident: it is counted and remembered with its place, the caller does what the built-in policy does, and a function with too many
 * of them is not called any more. */
#include "policy_inside.h"

#include <lauxlib.h>
#include <stdatomic.h>
#include <stdio.h>

#include "../base/error.h"
#include "../base/mem.h"

/* The policy's own thread may wait for longer than a host's. */
enum { PATIENCE_US = 1000000 };

/* ---- incidents ----------------------------------------------------------------------------------------------------------------- */

static void note_incident(struct ms_lua_rules *lua, struct ms_lua_function *function, struct ms_sandbox_error *error)
{
    if (!error->line) {
        memcpy(error->file, function->file, sizeof error->file);
        error->line = function->line;
    }
    (void)pthread_mutex_lock(&lua->gate.mutex);
    function->incidents++;
    function->last = *error;
    if (function->incidents >= lua->rules.policy.incidents_max) atomic_store(&function->quarantined, true);
    (void)pthread_mutex_unlock(&lua->gate.mutex);
}

static void note_busy(struct ms_lua_rules *lua, struct ms_lua_function *function)
{
    (void)pthread_mutex_lock(&lua->gate.mutex);
    function->busy++;
    (void)pthread_mutex_unlock(&lua->gate.mutex);
}

uint64_t ms_lua_incidents(struct ms_rules *rules)
{
    struct ms_lua_rules *lua = ms_lua_of(rules);
    uint64_t count = 0;
    (void)pthread_mutex_lock(&lua->gate.mutex);
    for (uint32_t i = 0; i < lua->function_count; i++) count += lua->functions[i].incidents + lua->functions[i].busy;
    (void)pthread_mutex_unlock(&lua->gate.mutex);
    return count;
}

bool ms_lua_quarantined(const struct ms_rules *rules)
{
    const struct ms_lua_rules *lua = (const struct ms_lua_rules *)rules;
    for (uint32_t i = 0; i < lua->function_count; i++)
        if (atomic_load(&lua->functions[i].quarantined)) return true;
    return false;
}

/* ---- a call --------------------------------------------------------------------------------------------------------------------- */

/* What every call's argument starts with. */
struct call {
    struct ms_lua_rules *lua;
    struct ms_lua_function *function;
};

/* The function of this table, else the one of all tables, else NULL. */
static struct ms_lua_function *find_function(struct ms_lua_rules *lua, const char *name, const char *table)
{
    struct ms_lua_function *found = NULL;
    for (uint32_t i = 0; i < lua->function_count; i++) {
        struct ms_lua_function *function = &lua->functions[i];
        if (strcmp(function->name, name) != 0) continue;
        if (table && strcmp(function->table, table) == 0) return function;
        if (!function->table[0]) found = function;
    }
    return found;
}

/* A state that ran out of memory is only good for being replaced. In a host's thread that is all that this call does, so that it takes no
 * longer than one that runs. One that can't be replaced is an incident: the next call tries again, until there were too many. */
static bool sandbox_ready(struct ms_lua_rules *lua, struct ms_lua_function *function, bool host)
{
    if (lua->sandbox && !ms_sandbox_spoiled(lua->sandbox)) return true;
    int rc = ms_lua_rebuild(lua, host);
    if (!rc) return !host;
    struct ms_sandbox_error error = {.code = rc};
    (void)snprintf(error.message, sizeof error.message, "the policy could not be started afresh: %s", ms_fail_message(rc));
    note_incident(lua, function, &error);
    return false;
}

/* host: on a thread of the host. false: fn did not do its work. */
static bool run(struct call *call, int (*fn)(lua_State *L), bool host)
{
    struct ms_lua_rules *lua = call->lua;
    if (!call->function || atomic_load_explicit(&call->function->quarantined, memory_order_relaxed)) return false;
    if (!ms_gate_enter(&lua->gate, host ? lua->rules.policy.call_wait_us : PATIENCE_US)) {
        note_busy(lua, call->function);
        return false;
    }
    bool done = false;
    struct ms_sandbox_error error;
    if (sandbox_ready(lua, call->function, host)) {
        (void)atomic_fetch_add_explicit(&call->function->calls, 1, memory_order_relaxed);
        done = ms_sandbox_protect(lua->sandbox, fn, call, &error) == 0;
        ms_json_end(&lua->scope);
        if (!done) note_incident(lua, call->function, &error);
    }
    ms_gate_leave(&lua->gate);
    return done;
}

/* The function that is called is pushed, with a new table for its argument: a policy may keep it, nobody else does. [-0, +2, m] */
static void push_function(lua_State *L, const struct call *call, int fields)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->function->ref);
    lua_createtable(L, 0, fields);
}

/* Raises that the result on top is of no use. */
static void refuse_result(lua_State *L, const struct call *call, const char *expected)
{
    char shown[40];
    if (lua_type(L, -1) == LUA_TNUMBER) (void)snprintf(shown, sizeof shown, "%.17g", lua_tonumber(L, -1));
    else (void)snprintf(shown, sizeof shown, "%s", lua_isnil(L, -1) ? "nil" : ms_value_is_delete(L, -1) ? "delete" : luaL_typename(L, -1));
    const struct ms_lua_function *function = call->function;
    luaL_error(L, "%s:%d: %s returned %s, expected %s", function->file, function->line, function->name, shown, expected);
}

/* ---- filter --------------------------------------------------------------------------------------------------------------------- */

struct filter_call {
    struct call call;
    const char *table;
    struct ms_bytes key;
    bool wanted;
};

static int filter_job(lua_State *L)
{
    struct filter_call *filter = lua_touserdata(L, 1);
    push_function(L, &filter->call, 3);
    ms_value_set_entry(L, filter->table, filter->key);
    lua_call(L, 1, 1);
    if (lua_type(L, -1) != LUA_TBOOLEAN) refuse_result(L, &filter->call, "true or false");
    filter->wanted = lua_toboolean(L, -1);
    return 0;
}

static int lua_filter(struct ms_rules *rules, const char *table, struct ms_bytes key)
{
    struct ms_lua_rules *lua = ms_lua_of(rules);
    struct filter_call filter = {{lua, lua->filter}, table, key, true};
    if (!run(&filter.call, filter_job, true)) return MS_VIEW_IN;
    return filter.wanted ? MS_VIEW_IN : MS_VIEW_OUT;
}

/* ---- resolve -------------------------------------------------------------------------------------------------------------------- */

struct resolve_call {
    struct call call;
    const struct ms_conflict *conflict;
    struct ms_resolution *resolution;
};

static enum ms_lua_type type_of(const struct ms_lua_rules *lua, const struct ms_conflict *conflict)
{
    if (conflict->type == MS_TYPE_INT64) return MS_LUA_INT64;
    for (uint32_t i = 0; i < lua->rules.policy.table_count; i++)
        if (lua->json[i] && strcmp(lua->rules.policy.tables[i].name, conflict->table) == 0) return MS_LUA_JSON;
    return MS_LUA_BYTES;
}

/* Into the table on top. [-0, +0, e] */
static void set_conflict(lua_State *L, struct ms_json_scope *scope, enum ms_lua_type type, const struct ms_conflict *conflict)
{
    ms_value_set_entry(L, conflict->table, conflict->key);
    ms_value_push(L, scope, type, conflict->mine);
    lua_setfield(L, -2, "mine");
    ms_value_push(L, scope, type, conflict->theirs);
    lua_setfield(L, -2, "theirs");
    ms_value_push(L, scope, type, conflict->base);
    lua_setfield(L, -2, "base");
    lua_pushboolean(L, conflict->base_known);
    lua_setfield(L, -2, "base_known");
    lua_pushstring(L, ms_conflict_reason_name(conflict->reason));
    lua_setfield(L, -2, "reason");
    if (!conflict->newer) return;
    lua_pushstring(L, conflict->newer > 0 ? "mine" : "theirs");
    lua_setfield(L, -2, "newer");
}

static int resolve_job(lua_State *L)
{
    struct resolve_call *resolve = lua_touserdata(L, 1);
    struct ms_lua_rules *lua = resolve->call.lua;
    struct ms_resolution *resolution = resolve->resolution;
    enum ms_lua_type type = type_of(lua, resolve->conflict);
    push_function(L, &resolve->call, 9);
    set_conflict(L, &lua->scope, type, resolve->conflict);
    lua_call(L, 1, 1);
    resolution->outcome = MS_OUTCOME_THEIRS;
    if (lua_isnil(L, -1)) return 0;
    if (ms_value_is_delete(L, -1)) {
        resolution->outcome = MS_OUTCOME_DELETE;
        return 0;
    }
    ms_value_write(L, &lua->scope, type, lua_gettop(L), &resolution->value);
    struct ms_bytes value = ms_buf_bytes(&resolution->value);
    if (value.size > lua->rules.policy.value_max) luaL_error(L, "resolve returned %d bytes, more than limits.value", (int)value.size);
    if (ms_bytes_equal(value, resolve->conflict->theirs)) return 0;
    resolution->outcome = ms_bytes_equal(value, resolve->conflict->mine) ? MS_OUTCOME_MINE : MS_OUTCOME_VALUE;
    return 0;
}

static bool lua_resolve(struct ms_rules *rules, const struct ms_conflict *conflict, struct ms_resolution *resolution)
{
    struct ms_lua_rules *lua = ms_lua_of(rules);
    struct resolve_call resolve = {{lua, find_function(lua, "resolve", conflict->table)}, conflict, resolution};
    ms_buf_clear(&resolution->value);
    bool done = run(&resolve.call, resolve_job, false);
    /* What is half written, or not needed, goes; and so does the mark of a failed allocation. */
    if (!done || resolution->outcome != MS_OUTCOME_VALUE) ms_buf_close(&resolution->value);
    return done;
}

/* ---- flush ---------------------------------------------------------------------------------------------------------------------- */

struct flush_call {
    struct call call;
    const struct ms_flush_stats *stats;
    uint64_t next_us;
    bool planned;
};

static void set_number(lua_State *L, const char *name, double number)
{
    lua_pushnumber(L, number);
    lua_setfield(L, -2, name);
}

static int flush_job(lua_State *L)
{
    struct flush_call *flush = lua_touserdata(L, 1);
    const struct ms_flush_stats *stats = flush->stats;
    push_function(L, &flush->call, 8);
    lua_pushstring(L, stats->table);
    lua_setfield(L, -2, "table");
    set_number(L, "entries", (double)stats->entries);
    set_number(L, "bytes", (double)stats->bytes);
    set_number(L, "rate", stats->rate);
    set_number(L, "lag", (double)stats->lag);
    set_number(L, "oldest", (double)stats->oldest_us / 1e6);
    set_number(L, "interval", (double)stats->interval_us / 1e6);
    set_number(L, "took", (double)stats->flush_us / 1e6);
    lua_call(L, 1, 1);
    if (lua_isnil(L, -1)) return 0;
    lua_getfield(L, LUA_REGISTRYINDEX, "metasync.flush_time");
    lua_pushvalue(L, -2);
    lua_call(L, 1, 1);
    if (lua_type(L, -1) == LUA_TNUMBER) {
        flush->next_us = (uint64_t)lua_tonumber(L, -1);
        flush->planned = true;
        return 0;
    }
    lua_pop(L, 1);
    refuse_result(L, &flush->call, "seconds in 0 to 3600, a duration such as \"50ms\", or nil");
    return 0;
}

static bool lua_flush(struct ms_rules *rules, const struct ms_flush_stats *stats, uint64_t *next_us)
{
    struct ms_lua_rules *lua = ms_lua_of(rules);
    struct flush_call flush = {{lua, find_function(lua, "flush", stats->table)}, stats, 0, false};
    if (!run(&flush.call, flush_job, false) || !flush.planned) return false;
    *next_us = flush.next_us;
    return true;
}

/* ---- events --------------------------------------------------------------------------------------------------------------------- */

struct event_call {
    struct call call;
    const struct ms_event *event;
};

static int event_job(lua_State *L)
{
    static const char *const severities[] = {"debug", "info", "warn", "error"};
    const struct event_call *call = lua_touserdata(L, 1);
    int severity = call->event->severity;
    push_function(L, &call->call, 3);
    lua_pushstring(L, call->event->kind);
    lua_setfield(L, -2, "kind");
    lua_pushstring(L, severities[severity >= MS_LOG_DEBUG && severity <= MS_LOG_ERROR ? severity : MS_LOG_ERROR]);
    lua_setfield(L, -2, "severity");
    lua_pushstring(L, call->event->text);
    lua_setfield(L, -2, "text");
    lua_call(L, 1, 0);
    return 0;
}

static void lua_event(struct ms_rules *rules, const struct ms_event *event)
{
    struct ms_lua_rules *lua = ms_lua_of(rules);
    struct event_call call = {{lua, find_function(lua, "on_event", NULL)}, event};
    (void)run(&call.call, event_job, false);
}

/* ---- selftest ------------------------------------------------------------------------------------------------------------------- */

static int selftest_job(lua_State *L)
{
    const struct call *call = lua_touserdata(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->function->ref);
    lua_call(L, 0, 1);
    if (lua_type(L, -1) == LUA_TBOOLEAN && !lua_toboolean(L, -1)) refuse_result(L, call, "nothing, or true");
    return 0;
}

int ms_lua_selftest(struct ms_rules *rules)
{
    struct ms_lua_rules *lua = ms_lua_of(rules);
    const struct ms_policy *policy = &rules->policy;
    struct call call = {lua, find_function(lua, "selftest", NULL)};
    if (!call.function) return 0;
    if (!ms_gate_enter(&lua->gate, PATIENCE_US)) return ms_fail(MS_E_REFUSED, "%s: selftest: the policy is busy", lua->file);
    struct ms_sandbox_error error = {.message = "there is no sandbox"};
    int rc = MS_E_REFUSED;
    if (sandbox_ready(lua, call.function, false)) {
        /* It may try much more than one call would do. */
        struct ms_sandbox_limits limits = {100000000, lua->has_clock ? 0 : 2000000, policy->lua_memory};
        ms_sandbox_set_limits(lua->sandbox, &limits);
        rc = ms_sandbox_protect(lua->sandbox, selftest_job, &call, &error);
        ms_json_end(&lua->scope);
        limits.instructions = policy->call_instructions;
        limits.time_us = lua->has_clock ? 0 : policy->call_us;
        ms_sandbox_set_limits(lua->sandbox, &limits);
    }
    ms_gate_leave(&lua->gate);
    if (!rc) return 0;
    if (!error.line) return ms_fail(MS_E_REFUSED, "%s: selftest: %s", lua->file, error.message);
    return ms_fail(MS_E_REFUSED, "%s:%d: selftest: %s", error.file, error.line, error.message);
}

const struct ms_rules_ops ms_lua_ops = {
    .filter = lua_filter,
    .resolve = lua_resolve,
    .flush = lua_flush,
    .event = lua_event,
    .describe = ms_lua_describe,
    .close = ms_lua_close,
};
