/* What sandboxed code sees. The state's built-in libraries stay with the trusted environment; the sandbox's own environment gets those
 * functions of them that are harmless, and for the others our own:
 *
 *      pcall, xpcall, coroutine.resume, coroutine.wrap   hand the end of a call on, and count how deep they are
 *      rawset                                            not on read-only views
 *      string, table                                     strings.c, tables.c
 *      os.time, os.clock                                 the owner's clock
 *
 * A read-only view is an empty table whose metatable looks everything up in the real one and refuses assignments. */
#include "sandbox_inside.h"

#include <lauxlib.h>
#include <lua.h>
#include <time.h>

/* The view's __metatable: what getmetatable returns, and what makes setmetatable refuse. */
static const char *const PROTECTED = "protected";

/* ---- read-only views */

static int refuse_change(lua_State *L)
{
    return luaL_error(L, "attempt to change a read-only table");
}

void ms_sandbox_push_readonly(lua_State *L, int index)
{
    if (index < 0 && index > LUA_REGISTRYINDEX) index += lua_gettop(L) + 1;
    luaL_checkstack(L, 4, NULL);
    lua_newtable(L);
    lua_createtable(L, 0, 3);
    lua_pushvalue(L, index);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse_change);
    lua_setfield(L, -2, "__newindex");
    lua_pushstring(L, PROTECTED);
    lua_setfield(L, -2, "__metatable");
    (void)lua_setmetatable(L, -2);
}

void ms_sandbox_writable(lua_State *L, int index)
{
    if (!luaL_getmetafield(L, index, "__metatable")) return;
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (strcmp(text, PROTECTED) == 0) (void)refuse_change(L);
    lua_pop(L, 1);
}

static int readonly(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    ms_sandbox_push_readonly(L, 1);
    return 1;
}

static int safe_rawset(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checkany(L, 2);
    luaL_checkany(L, 3);
    lua_settop(L, 3);
    ms_sandbox_writable(L, 1);
    lua_rawset(L, 1);
    return 1;
}

/* ---- protected calls */

enum { UNWINDING = 500 }; /* what an error costs, in instructions */

/* After lua_pcall or lua_resume failed, with the error on top: goes on unwinding if the whole call is over. */
static void after_error(lua_State *L, int rc, int depth)
{
    struct ms_sandbox *sandbox = ms_sandbox_of(L);
    sandbox->depth = depth;
    if (rc == LUA_ERRMEM && sandbox->cause == MS_CAUSE_NONE) { /* a size that no allocator was asked for */
        sandbox->cause = MS_CAUSE_MEMORY;
        sandbox->spoiled = true;
    }
    ms_sandbox_charge(L, UNWINDING); /* raises if it is over */
    if (rc == LUA_ERRERR) { /* LuaJIT leaves anything as its message */
        lua_pop(L, 1);
        lua_pushliteral(L, "error in error handling");
    }
}

static int safe_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    ms_sandbox_deeper(L);
    int depth = ms_sandbox_of(L)->depth - 1;
    int rc = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    if (rc != 0) after_error(L, rc, depth);
    else ms_sandbox_back(L);
    luaL_checkstack(L, 1, NULL);
    lua_pushboolean(L, rc == 0);
    lua_insert(L, 1);
    return lua_gettop(L);
}

/* The handler that LuaJIT calls: the user's must not run with the error of the hook, since nothing would interrupt it. */
static int call_handler(lua_State *L)
{
    struct ms_sandbox *sandbox = ms_sandbox_of(L);
    if (sandbox->cause != MS_CAUSE_NONE || sandbox->depth >= MS_SANDBOX_DEPTH) return 1;
    sandbox->depth++;
    lua_settop(L, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    sandbox->depth--;
    return 1;
}

static int safe_xpcall(lua_State *L)
{
    luaL_checkany(L, 2);
    ms_sandbox_deeper(L);
    int depth = ms_sandbox_of(L)->depth - 1;
    lua_pushvalue(L, 1);
    lua_insert(L, 3); /* f, handler, f, arguments */
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, call_handler, 1);
    lua_replace(L, 2);
    int rc = lua_pcall(L, lua_gettop(L) - 3, LUA_MULTRET, 2);
    if (rc != 0) after_error(L, rc, depth);
    else ms_sandbox_back(L);
    luaL_checkstack(L, 1, NULL);
    lua_pushboolean(L, rc == 0);
    lua_replace(L, 2);
    return lua_gettop(L) - 1;
}

/* ---- coroutines */

static bool can_resume(lua_State *L, lua_State *co)
{
    lua_Debug at;
    if (L == co) return false;
    if (lua_status(co) == LUA_YIELD) return true;
    return lua_status(co) == 0 && lua_getstack(co, 0, &at) == 0 && lua_gettop(co) > 0;
}

/* Resumes co with the values above the index `below`; leaves its results there, or the error. Returns their number, or -1. */
static int resume(lua_State *L, lua_State *co, int below)
{
    int count = lua_gettop(L) - below;
    if (!can_resume(L, co)) {
        lua_pushfstring(L, "cannot resume %s coroutine", lua_status(co) == 0 && lua_gettop(co) > 0 ? "running" : "dead");
        return -1;
    }
    /* A stack that can't grow would raise the error in co, where nothing runs that could take it. */
    if (count > 200) return luaL_error(L, "too many arguments to resume");
    (void)lua_checkstack(co, count);
    ms_sandbox_deeper(L);
    int depth = ms_sandbox_of(L)->depth - 1;
    lua_xmove(L, co, count);
    int rc = lua_resume(co, count);
    ms_sandbox_of(L)->depth = depth;
    if (rc != 0 && rc != LUA_YIELD) {
        lua_xmove(co, L, 1);
        after_error(L, rc, depth);
        return -1;
    }
    count = lua_gettop(co);
    luaL_checkstack(L, count + 1, "too many results to resume");
    lua_xmove(co, L, count);
    return count;
}

static lua_State *check_coroutine(lua_State *L, int index)
{
    lua_State *co = lua_tothread(L, index);
    luaL_argcheck(L, co, index, "coroutine expected");
    return co;
}

static int safe_resume(lua_State *L)
{
    bool ok = resume(L, check_coroutine(L, 1), 1) >= 0;
    lua_pushboolean(L, ok);
    if (!ok) {
        lua_insert(L, -2);
        return 2;
    }
    lua_replace(L, 1);
    return lua_gettop(L);
}

static int call_wrapped(lua_State *L)
{
    int count = resume(L, check_coroutine(L, lua_upvalueindex(1)), 0);
    if (count >= 0) return lua_gettop(L);
    if (lua_type(L, -1) == LUA_TSTRING) { /* add the place of the call, as the built-in one does */
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int safe_wrap(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_State *co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    lua_pushcclosure(L, call_wrapped, 1);
    return 1;
}

/* ---- os */

static int safe_time(lua_State *L)
{
    if (!lua_isnoneornil(L, 1)) return luaL_error(L, "os.time takes no arguments here");
    struct ms_sandbox *sandbox = ms_sandbox_of(L);
    if (sandbox->real_time_us) lua_pushnumber(L, (lua_Number)(sandbox->real_time_us(sandbox->time_context) / 1000000));
    else lua_pushnumber(L, (lua_Number)time(NULL));
    return 1;
}

static int safe_clock(lua_State *L)
{
    lua_pushnumber(L, ms_sandbox_clock(ms_sandbox_of(L)));
    return 1;
}

/* ---- putting it together */

/* Copies the named fields of the table on top of the stack into the table below it. */
static void copy_fields(lua_State *L, const char *const *names)
{
    for (; *names; names++) {
        lua_getfield(L, -1, *names);
        lua_setfield(L, -3, *names);
    }
}

static const luaL_Reg base_functions[] = {{"pcall", safe_pcall}, {"xpcall", safe_xpcall}, {"rawset", safe_rawset}, {NULL, NULL}};
static const char *const base_names[] = {"assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "select",
                                         "setmetatable", "tonumber", "tostring", "type", "unpack", "_VERSION", NULL};
static const luaL_Reg coroutine_functions[] = {{"resume", safe_resume}, {"wrap", safe_wrap}, {NULL, NULL}};
static const char *const coroutine_names[] = {"create", "isyieldable", "running", "status", "yield", NULL};
static const luaL_Reg os_functions[] = {{"time", safe_time}, {"clock", safe_clock}, {NULL, NULL}};

/* The library on top of the stack is popped; its view goes into the environment at index. */
static void publish(lua_State *L, int environment, const char *name)
{
    ms_sandbox_push_readonly(L, -1);
    lua_setfield(L, environment, name);
    lua_pop(L, 1);
}

static void open_environment(lua_State *L, int trusted, int environment)
{
    lua_pushvalue(L, environment);
    lua_pushvalue(L, trusted);
    copy_fields(L, base_names);
    lua_pop(L, 1);
    luaL_setfuncs(L, base_functions, 0);
    lua_pushvalue(L, environment);
    lua_setfield(L, environment, "_G");
    lua_pushcfunction(L, ms_sandbox_require_plain);
    lua_setfield(L, environment, "require");
    lua_pop(L, 1);

    lua_newtable(L);
    lua_getfield(L, trusted, "coroutine");
    copy_fields(L, coroutine_names);
    lua_pop(L, 1);
    luaL_setfuncs(L, coroutine_functions, 0);
    publish(L, environment, "coroutine");

    lua_newtable(L);
    luaL_setfuncs(L, os_functions, 0);
    publish(L, environment, "os");

    static const char *const whole[] = {"math", "bit", "string", "table", NULL};
    for (const char *const *name = whole; *name; name++) {
        lua_getfield(L, trusted, *name);
        publish(L, environment, *name);
    }
}

/* The string and table of trusted code become the safe ones too: what it works on comes from others. */
static void open_trusted(lua_State *L, int trusted)
{
    lua_getfield(L, trusted, "string");
    ms_sandbox_open_strings(L);
    lua_pop(L, 1);
    lua_getfield(L, trusted, "table");
    ms_sandbox_open_tables(L);
    lua_pop(L, 1);
    lua_pushcfunction(L, ms_sandbox_require_trusted);
    lua_setfield(L, trusted, "require");
    lua_pushcfunction(L, readonly);
    lua_setfield(L, trusted, "readonly");

    /* getmetatable("") */
    lua_pushliteral(L, "");
    if (lua_getmetatable(L, -1)) {
        lua_pushstring(L, PROTECTED);
        lua_setfield(L, -2, "__metatable");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

void ms_sandbox_open_libraries(struct ms_sandbox *sandbox)
{
    lua_State *L = sandbox->L;
    lua_pushvalue(L, LUA_GLOBALSINDEX);
    int trusted = lua_gettop(L);
    open_trusted(L, trusted);
    lua_newtable(L);
    int environment = lua_gettop(L);
    open_environment(L, trusted, environment);
    /* Whatever has no environment of its own gets the harmless one. */
    lua_pushvalue(L, environment);
    lua_replace(L, LUA_GLOBALSINDEX);
    sandbox->environment = luaL_ref(L, LUA_REGISTRYINDEX);
    sandbox->trusted = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_newtable(L);
    sandbox->loaded = luaL_ref(L, LUA_REGISTRYINDEX);
}

void ms_sandbox_push_trusted(lua_State *L)
{
    luaL_checkstack(L, 1, NULL);
    lua_rawgeti(L, LUA_REGISTRYINDEX, ms_sandbox_of(L)->trusted);
}

void ms_sandbox_push_environment(lua_State *L)
{
    luaL_checkstack(L, 1, NULL);
    lua_rawgeti(L, LUA_REGISTRYINDEX, ms_sandbox_of(L)->environment);
}
