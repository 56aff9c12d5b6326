/* A sandbox's life, and calls into it. Everything that may raise a Lua error runs inside of lua_cpcall or lua_pcall: an error with nobody
 * to catch it would end the process. */
#include "sandbox_inside.h"

#include <lauxlib.h>
#include <lua.h>
#include <luajit.h>
#include <lualib.h>
#include <stdio.h>

#include "../base/error.h"
#include "../base/mem.h"

/* ---- errors */

/* Runs where an error is raised, before the stack is unwound: remembers the place. Also called with the hook's own error, and then
 * nothing here is interrupted by the hook. */
static int on_error(lua_State *L)
{
    struct ms_sandbox *sandbox = ms_sandbox_of(L);
    if (sandbox->cause == MS_CAUSE_NONE) ms_sandbox_note_place(L);
    return 1;
}

/* Copies text with control characters blanked and cut between two UTF-8 characters; what is no UTF-8 is the caller's to escape. */
static void copy_printable(char *to, size_t room, const char *text, size_t size)
{
    size_t n = size < room - 1 ? size : room - 1;
    while (n < size && n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    for (size_t i = 0; i < n; i++) to[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? ' ' : text[i];
    to[n] = 0;
}

/* "file:12: text" -> file, 12; returns text. */
static const char *cut_place(const char *text, struct ms_sandbox_error *error)
{
    const char *colon = strchr(text, ':');
    while (colon) {
        const char *at = colon + 1;
        int line = 0;
        while (*at >= '0' && *at <= '9' && line < 100000000) line = line * 10 + (*at++ - '0');
        if (at > colon + 1 && *at == ':') {
            size_t size = (size_t)(colon - text);
            if (size >= sizeof error->file) return text;
            copy_printable(error->file, sizeof error->file, text, size);
            error->line = line;
            return at[1] == ' ' ? at + 2 : at + 1;
        }
        colon = strchr(colon + 1, ':');
    }
    return text;
}

static int cause_code(int cause)
{
    return cause == MS_CAUSE_MEMORY ? MS_E_MEMORY : MS_E_LIMIT;
}

static void describe_cause(const struct ms_sandbox *sandbox, struct ms_sandbox_error *error)
{
    const struct ms_sandbox_limits *limits = &sandbox->limits;
    size_t room = sizeof error->message;
    if (sandbox->cause == MS_CAUSE_INSTRUCTIONS)
        (void)snprintf(error->message, room, "took more than %u instructions", limits->instructions);
    else if (sandbox->cause == MS_CAUSE_TIME)
        (void)snprintf(error->message, room, "took more than %u us of processor time", limits->time_us);
    else
        (void)snprintf(error->message, room, "not enough memory: the cap is %u bytes, a quarter of it for one block", limits->memory);
}

/* The error object is on top of the stack, and is popped; lua_code is lua_pcall's. Needs no memory. */
static int take_error(struct ms_sandbox *sandbox, int lua_code, struct ms_sandbox_error *error)
{
    lua_State *L = sandbox->L;
    struct ms_sandbox_error ignored;
    if (!error) error = &ignored;
    *error = (struct ms_sandbox_error){0};
    if (lua_code == LUA_ERRMEM) {
        sandbox->spoiled = true;
        if (sandbox->cause == MS_CAUSE_NONE) sandbox->cause = MS_CAUSE_MEMORY;
    }
    memcpy(error->file, sandbox->place.file, sizeof error->file);
    error->line = sandbox->place.line;
    sandbox->place.line = 0;
    if (sandbox->cause != MS_CAUSE_NONE) {
        error->code = cause_code(sandbox->cause);
        describe_cause(sandbox, error);
    } else {
        error->code = lua_code == LUA_ERRSYNTAX ? MS_E_FORMAT : MS_E_REFUSED;
        if (lua_code == LUA_ERRERR) {
            copy_printable(error->message, sizeof error->message, "error in error handling", 23);
        } else if (lua_type(L, -1) == LUA_TSTRING) {
            const char *text = cut_place(lua_tostring(L, -1), error);
            copy_printable(error->message, sizeof error->message, text, strlen(text));
        } else {
            (void)snprintf(error->message, sizeof error->message, "(an error object of type %s)", lua_typename(L, lua_type(L, -1)));
        }
    }
    lua_pop(L, 1);
    if (error->line) return ms_fail(error->code, "%s:%d: %s", error->file, error->line, error->message);
    return ms_fail(error->code, "%s", error->message);
}

/* ---- calls */

static void begin(struct ms_sandbox *sandbox)
{
    if (sandbox->running++ == 0) ms_sandbox_refuel(sandbox);
}

static void end(struct ms_sandbox *sandbox)
{
    if (--sandbox->running == 0) ms_sandbox_stop_clock(sandbox);
}

int ms_sandbox_call(struct ms_sandbox *sandbox, int arguments, int results, struct ms_sandbox_error *error)
{
    lua_State *L = sandbox->L;
    begin(sandbox);
    int depth = sandbox->depth, function = lua_gettop(L) - arguments;
    lua_rawgeti(L, LUA_REGISTRYINDEX, sandbox->handler);
    lua_insert(L, function);
    int rc = lua_pcall(L, arguments, results, function);
    sandbox->depth = depth;
    /* A call that swallowed the end of its fuel in its very last instruction has not succeeded. */
    if (rc == 0 && sandbox->cause != MS_CAUSE_NONE) {
        lua_settop(L, function);
        lua_pushnil(L);
        rc = LUA_ERRRUN;
    }
    if (rc != 0) rc = take_error(sandbox, rc, error);
    lua_remove(L, function);
    end(sandbox);
    return rc;
}

struct job {
    struct ms_sandbox *sandbox;
    int (*fn)(lua_State *L);
    void *data;
    struct ms_sandbox_error *error;
    int rc;
};

static int run_job(lua_State *L)
{
    struct job *job = lua_touserdata(L, 1);
    lua_pushcfunction(L, job->fn);
    lua_pushlightuserdata(L, job->data);
    job->rc = ms_sandbox_call(job->sandbox, 1, 0, job->error);
    return 0;
}

int ms_sandbox_protect(struct ms_sandbox *sandbox, int (*fn)(lua_State *L), void *data, struct ms_sandbox_error *error)
{
    struct job job = {sandbox, fn, data, error, 0};
    begin(sandbox);
    int depth = sandbox->depth, rc = lua_cpcall(sandbox->L, run_job, &job);
    sandbox->depth = depth;
    if (rc != 0) job.rc = take_error(sandbox, rc, error); /* no memory for run_job itself */
    end(sandbox);
    return job.rc;
}

/* ---- compiling */

void ms_sandbox_load(lua_State *L, struct ms_bytes text, const char *chunk_name, bool trusted)
{
    ms_sandbox_charge(L, text.size / 16);
    int rc = luaL_loadbufferx(L, text.size ? text.data : "", text.size, chunk_name, "t");
    if (rc != 0) (void)lua_error(L);
    if (trusted) ms_sandbox_push_trusted(L);
    else ms_sandbox_push_environment(L);
    (void)lua_setfenv(L, -2);
}

struct compile {
    const char *chunk_name;
    struct ms_bytes text;
    int rc; /* luaL_loadbufferx's */
};

/* Leaves the function in the registry, from where it can be pushed without memory. */
static int compile(lua_State *L)
{
    struct compile *c = lua_touserdata(L, 1);
    struct ms_sandbox *sandbox = ms_sandbox_of(L);
    ms_sandbox_charge(L, c->text.size / 16);
    c->rc = luaL_loadbufferx(L, c->text.size ? c->text.data : "", c->text.size, c->chunk_name, "t");
    if (c->rc != 0) return lua_error(L);
    ms_sandbox_push_environment(L);
    (void)lua_setfenv(L, -2);
    lua_rawseti(L, LUA_REGISTRYINDEX, sandbox->compiled);
    return 0;
}

int ms_sandbox_compile(struct ms_sandbox *sandbox, const char *chunk_name, struct ms_bytes text, struct ms_sandbox_error *error)
{
    struct compile c = {chunk_name, text, 0};
    struct ms_sandbox_error ignored;
    if (!error) error = &ignored;
    int rc = ms_sandbox_protect(sandbox, compile, &c, error);
    if (rc == MS_E_REFUSED && c.rc == LUA_ERRSYNTAX) rc = error->code = MS_E_FORMAT;
    if (rc != 0) return rc;
    lua_State *L = sandbox->L;
    lua_rawgeti(L, LUA_REGISTRYINDEX, sandbox->compiled);
    lua_pushnil(L);
    lua_rawseti(L, LUA_REGISTRYINDEX, sandbox->compiled); /* the key exists: no memory needed */
    return 0;
}

/* ---- life */

static int keep(lua_State *L)
{
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

static int open_state(lua_State *L)
{
    struct ms_sandbox *sandbox = lua_touserdata(L, 1);
    luaL_openlibs(L);
    (void)luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
    lua_pushcfunction(L, luaopen_ffi); /* now, so that the first literal 1LL does not have to */
    lua_pushliteral(L, "ffi");
    lua_call(L, 1, 0);
    lua_pushcfunction(L, on_error);
    sandbox->handler = keep(L);
    lua_pushliteral(L, "out of fuel or memory");
    sandbox->fuel_text = keep(L);
    lua_pushboolean(L, 1);
    sandbox->compiled = keep(L);
    ms_sandbox_open_libraries(sandbox);
    lua_gc(L, LUA_GCSETPAUSE, 130); /* the cap counts garbage too: collect early */
    lua_gc(L, LUA_GCCOLLECT, 0);
    return 0;
}

/* With spare memory for what LuaJIT does not survive to be refused. It is given back afterwards. */
static int make_state(struct ms_sandbox *sandbox)
{
    sandbox->spare = ms_alloc(MS_SANDBOX_SPARE);
    if (!sandbox->spare) return MS_E_MEMORY;
    sandbox->L = lua_newstate(ms_sandbox_allocate, sandbox);
    int rc = sandbox->L ? lua_cpcall(sandbox->L, open_state, sandbox) : LUA_ERRMEM;
    if (sandbox->L && (rc != 0 || sandbox->spare_used > 0)) {
        lua_close(sandbox->L);
        sandbox->L = NULL;
    }
    ms_release(sandbox->spare);
    sandbox->spare = NULL;
    return sandbox->L ? 0 : MS_E_MEMORY;
}

int ms_sandbox_new(const struct ms_sandbox_limits *limits, uint64_t (*real_time_us)(void *context), void *context,
                   struct ms_sandbox **sandbox)
{
    struct ms_sandbox *new = ms_alloc_zero(sizeof *new);
    if (!new) return MS_E_MEMORY;
    new->limits = *limits;
    new->real_time_us = real_time_us;
    new->time_context = context;
    if (make_state(new) != 0) {
        ms_sandbox_free(new);
        return ms_fail(MS_E_MEMORY, "out of memory for a Lua state");
    }
    new->large = 0;
    new->ready = true;
    *sandbox = new;
    return 0;
}

void ms_sandbox_free(struct ms_sandbox *sandbox)
{
    if (!sandbox) return;
    sandbox->ready = false; /* no cap while it is taken down */
    if (sandbox->L) lua_close(sandbox->L);
    for (size_t i = 0; i < sandbox->text_count; i++) ms_release(sandbox->texts[i].name);
    ms_release(sandbox->texts);
    ms_release(sandbox);
}

lua_State *ms_sandbox_state(struct ms_sandbox *sandbox)
{
    return sandbox->L;
}

void ms_sandbox_set_limits(struct ms_sandbox *sandbox, const struct ms_sandbox_limits *limits)
{
    sandbox->limits = *limits;
}

size_t ms_sandbox_memory(const struct ms_sandbox *sandbox)
{
    return sandbox->memory;
}

bool ms_sandbox_spoiled(const struct ms_sandbox *sandbox)
{
    return sandbox->spoiled;
}
