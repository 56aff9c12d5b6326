/* From a policy file to struct ms_rules.
 *
 *      1. read the file                                   policy_text.c
 *      2. a new sandbox: glue, `metasync`                 open_language below
 *      3. run the text; modules are read as it asks
 *      4. check and take over what it returned            policy_read.c, lua/metasync/check.lua
 *      5. from now on, the limits that it asked for
 *
 * Steps 2 and 3 are done again, with the texts of step 1, when a call has used up all memory: such a state is good for nothing. */
#include "policy_inside.h"

#include <lauxlib.h>
#include <signal.h>
#include <stdio.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "../sync/patterns.h"
#include "../sync/policy.h"

/* Loading is done by an operator's thread, so that it may take longer than a call. */
static const struct ms_sandbox_limits load_limits = {.instructions = 100000000, .time_us = 2000000, .memory = 64 << 20};

/* ---- the language ------------------------------------------------------------------------------------------------------------- */

static int offer_texts(struct ms_sandbox *sandbox)
{
    for (size_t i = 0; i < ms_lua_text_count; i++) {
        int rc = ms_sandbox_offer(sandbox, ms_lua_texts[i].name, ms_lua_texts[i].text, MS_SANDBOX_TRUSTED);
        if (rc) return rc;
    }
    return ms_sandbox_offer(sandbox, "metasync", ms_str("return metasync"), MS_SANDBOX_PLAIN);
}

static void write_log(void *context, const char *text, size_t size)
{
    struct ms_lua_rules *lua = context;
    (void)pthread_mutex_lock(&lua->gate.mutex);
    char *line = lua->log[lua->log_count++ % MS_LUA_LOG_LINES];
    size_t length = size < MS_LUA_LOG_BYTES ? size : MS_LUA_LOG_BYTES - 1;
    for (size_t i = 0; i < length; i++) line[i] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : '?';
    line[length] = '\0';
    (void)pthread_mutex_unlock(&lua->gate.mutex);
}

/* Pushes the glue's table, and gives `metasync` to the policy's environment. [-0, +1, e] */
static void open_language(lua_State *L, struct ms_lua_rules *lua)
{
    ms_sandbox_push_required(L, "metasync.glue");
    ms_value_open(L, &lua->scope, write_log, lua);
    lua_pushliteral(L, MS_VERSION);
    lua_call(L, 2, 1);
    int glue = lua_gettop(L);
    ms_value_bind(L, glue);
    lua_getfield(L, glue, "flush_time");
    lua_setfield(L, LUA_REGISTRYINDEX, "metasync.flush_time");
    ms_sandbox_push_environment(L);
    lua_getfield(L, glue, "public");
    ms_sandbox_push_readonly(L, -1);
    lua_setfield(L, -3, "metasync");
    lua_pop(L, 2);
}

/* ---- running the file ------------------------------------------------------------------------------------------------------------ */

/* Leaves what the file returned on the stack; false: rc and the message say why there is nothing. [-0, +(0|1), e] */
static bool run_file(lua_State *L, struct ms_lua_job *job)
{
    struct ms_lua_rules *lua = job->lua;
    char chunk[sizeof lua->file + 1];
    (void)snprintf(chunk, sizeof chunk, "@%s", lua->file);
    struct ms_bytes text = ms_bytes(lua->sources[0].text ? lua->sources[0].text : "", lua->sources[0].size);
    job->rc = ms_sandbox_compile(lua->sandbox, chunk, text, NULL);
    if (job->rc) return false;
    job->rc = ms_sandbox_call(lua->sandbox, 0, 1, NULL);
    if (job->rc) return false;
    if (lua_type(L, -1) == LUA_TTABLE) return true;
    job->rc = ms_fail(MS_E_FORMAT, "%s returns a %s, expected a table: it ends with `return policy`", lua->file, luaL_typename(L, -1));
    return false;
}

static int run_job(lua_State *L, void (*read)(lua_State *L, struct ms_lua_job *job, int glue, int policy))
{
    struct ms_lua_job *job = lua_touserdata(L, 1);
    open_language(L, job->lua);
    int glue = lua_gettop(L);
    if (run_file(L, job)) read(L, job, glue, glue + 1);
    /* A call that is out of fuel fails once more on its way out, and would say less. */
    if (job->rc) (void)snprintf(job->why, sizeof job->why, "%s", ms_error_message());
    return 0;
}

static int load_job(lua_State *L)
{
    int rc = run_job(L, ms_lua_read);
    lua_gc(L, LUA_GCCOLLECT, 0); /* what is left counts against limits.lua.memory */
    return rc;
}

static int rebuild_job(lua_State *L)
{
    return run_job(L, ms_lua_read_functions);
}

/* A policy that raises an error while it runs is as malformed as one with a syntax error. */
static int load_code(int rc)
{
    return rc == MS_E_REFUSED ? MS_E_FORMAT : rc;
}

/* Makes lua->sandbox and runs the job in it. On an error there is none. */
static int make_sandbox(struct ms_lua_rules *lua, struct ms_sandbox_limits limits, int (*fn)(lua_State *L), struct ms_buf *problems)
{
    if (lua->has_clock) limits.time_us = 0;
    int rc = ms_sandbox_new(&limits, lua->has_clock ? lua->clock.real_time_us : NULL, lua->clock.context, &lua->sandbox);
    if (rc) return rc;
    ms_sandbox_on_require(lua->sandbox, ms_lua_find_module, lua);
    lua->scope = (struct ms_json_scope){.limit = limits.memory};
    struct ms_lua_job job = {.lua = lua, .problems = problems};
    rc = offer_texts(lua->sandbox);
    if (!rc) rc = ms_sandbox_protect(lua->sandbox, fn, &job, NULL);
    if (rc == MS_E_LIMIT) rc = ms_fail_wrap(rc, "%s", lua->file); /* fuel does not say where it ended */
    if (job.rc) rc = ms_fail(job.rc, "%s", job.why);
    ms_json_end(&lua->scope);
    if (!rc) return 0;
    ms_sandbox_free(lua->sandbox);
    lua->sandbox = NULL;
    return load_code(rc);
}

/* What the policy asked for holds from here on. */
static int apply_limits(struct ms_lua_rules *lua)
{
    const struct ms_policy *policy = &lua->rules.policy;
    size_t used = ms_sandbox_memory(lua->sandbox);
    if (used > policy->lua_memory)
        return ms_fail(MS_E_LIMIT, "%s: limits.lua.memory is %u bytes, and the policy holds %zu already", lua->file, policy->lua_memory, used);
    struct ms_sandbox_limits limits = {policy->call_instructions, lua->has_clock ? 0 : policy->call_us, policy->lua_memory};
    ms_sandbox_set_limits(lua->sandbox, &limits);
    lua->scope.limit = policy->lua_memory;
    return 0;
}

/* ---- anew --------------------------------------------------------------------------------------------------------------------------- */

static void *reap(void *context)
{
    struct ms_lua_rules *lua = context;
    ms_sandbox_free(lua->condemned);
    atomic_store(&lua->reaped, true);
    return NULL;
}

static void join_reaper(struct ms_lua_rules *lua)
{
    if (lua->reaping) (void)pthread_join(lua->reaper, NULL);
    lua->reaping = false;
}

/* To free a state that is full takes longer than a host's thread may wait: a thread does it. Signals are the host's. MS_E_BUSY: the
 * thread still has the one before, and a host's thread does not wait for it. */
static int discard_sandbox(struct ms_lua_rules *lua, bool host)
{
    if (!lua->sandbox) return 0;
    if (host && lua->reaping && !atomic_load(&lua->reaped)) return ms_fail(MS_E_BUSY, "its last state is still being freed");
    join_reaper(lua);
    lua->condemned = lua->sandbox;
    lua->sandbox = NULL;
    atomic_store(&lua->reaped, false);
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    lua->reaping = pthread_create(&lua->reaper, NULL, reap, lua) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!lua->reaping) ms_sandbox_free(lua->condemned);
    return 0;
}

int ms_lua_rebuild(struct ms_lua_rules *lua, bool host)
{
    int busy = discard_sandbox(lua, host);
    if (busy) return busy;
    lua->rebuilt++;
    struct ms_sandbox_limits limits = load_limits; /* a host's thread may wait for this */
    limits.time_us = lua->rules.policy.call_us;
    int rc = make_sandbox(lua, limits, rebuild_job, NULL);
    if (!rc) rc = apply_limits(lua);
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------------------------------------------- */

void ms_lua_close(struct ms_rules *rules)
{
    struct ms_lua_rules *lua = ms_lua_of(rules);
    join_reaper(lua);
    ms_sandbox_free(lua->sandbox);
    ms_lua_free_sources(lua);
    ms_patterns_free(rules->patterns);
    ms_release(lua->functions);
    ms_release(lua->path);
    ms_gate_close(&lua->gate);
    ms_release(lua);
}

/* "/etc/metasync/production.lua": what errors call it, where its modules are, what it is called if it has no name. */
static int take_path(struct ms_lua_rules *lua, const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    if ((size_t)(file - path) >= sizeof lua->folder) return ms_fail(MS_E_LIMIT, "the path of the policy is too long");
    (void)snprintf(lua->folder, sizeof lua->folder, "%.*s", (int)(file - path), path);
    (void)snprintf(lua->file, sizeof lua->file, "%s", file);
    lua->path = ms_strdup(path);
    return lua->path ? 0 : MS_E_MEMORY;
}

static void take_name(struct ms_lua_rules *lua)
{
    if (lua->rules.name[0]) return;
    (void)snprintf(lua->rules.name, sizeof lua->rules.name, "%s", lua->file);
    char *dot = strrchr(lua->rules.name, '.');
    if (dot && dot > lua->rules.name) *dot = '\0';
}

static int load(struct ms_lua_rules *lua, const char *path, struct ms_buf *problems)
{
    int rc = take_path(lua, path);
    if (!rc) rc = ms_lua_read_policy(lua);
    if (rc) return rc;
    lua->loading = true;
    rc = make_sandbox(lua, load_limits, load_job, problems);
    lua->loading = false;
    if (!rc) rc = apply_limits(lua);
    if (rc) return rc;
    take_name(lua);
    lua->rules.hash = ms_lua_hash(lua);
    return 0;
}

int ms_lua_check(const char *path, const struct ms_policy *base, const struct ms_lua_clock *clock, struct ms_buf *problems,
                 struct ms_rules **rules)
{
    struct ms_lua_rules *lua = ms_alloc_zero(sizeof *lua);
    if (!lua) return MS_E_MEMORY;
    int rc = ms_gate_init(&lua->gate);
    if (rc) {
        ms_release(lua);
        return rc;
    }
    lua->rules.ops = &ms_lua_ops;
    lua->rules.references = 1;
    if (base) lua->base = *base;
    else ms_policy_init(&lua->base);
    lua->rules.policy = lua->base;
    if (clock) lua->clock = *clock;
    lua->has_clock = clock != NULL;
    rc = load(lua, path, problems);
    if (rc) ms_lua_close(&lua->rules);
    else *rules = &lua->rules;
    return rc;
}

int ms_lua_load(const char *path, const struct ms_policy *base, const struct ms_lua_clock *clock, struct ms_rules **rules)
{
    return ms_lua_check(path, base, clock, NULL, rules);
}
