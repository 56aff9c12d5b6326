/* table: what changes a table refuses read-only views, since it would not ask their metatables. What moves elements is charged by their
 * number, and then LuaJIT's (remove and move are Lua inside, and so charged anyway). sort is a heap sort of our own, since no comparison
 * function, however odd, can make it take more than n log n steps; maxn counts. Old names (getn, foreach, foreachi) go. */
#include "sandbox_inside.h"

#include <lauxlib.h>
#include <lua.h>

static int call_original(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int guard_concat(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Number last = lua_isnoneornil(L, 4) ? (lua_Number)lua_objlen(L, 1) : luaL_checknumber(L, 4);
    lua_Number count = last - luaL_optnumber(L, 3, 1) + 1;
    /* Counted only as far as there can be elements: the first that is missing ends it with an error. */
    if (count >= 1) ms_sandbox_charge(L, 4 + (uint64_t)(count < 1e9 ? count : 1e9));
    return call_original(L);
}

static int guard_insert(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    ms_sandbox_writable(L, 1);
    lua_Number size = (lua_Number)lua_objlen(L, 1);
    if (lua_gettop(L) == 3) {
        lua_Number at = luaL_checknumber(L, 2);
        /* LuaJIT takes anything else for the smallest int, and starts moving. */
        luaL_argcheck(L, at > -2147483648.0 && at < 2147483647.0, 2, "position out of bounds");
        if (at <= size) ms_sandbox_charge(L, (uint64_t)(size - at) + 1);
    }
    ms_sandbox_charge(L, 1);
    return call_original(L);
}

static int guard_remove(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    ms_sandbox_writable(L, 1);
    return call_original(L);
}

/* table.move(from, first, last, to, [into]) */
static int guard_move(lua_State *L)
{
    ms_sandbox_writable(L, lua_isnoneornil(L, 5) ? 1 : 5);
    return call_original(L);
}

static int count_maxn(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_Number max = 0;
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        ms_sandbox_charge(L, 1);
        lua_pop(L, 1);
        if (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) > max) max = lua_tonumber(L, -1);
    }
    lua_pushnumber(L, max);
    return 1;
}

/* ---- sort: the table at 1, the comparison at 2 (or nil) */

/* Are the two values on top of the stack in this order, a < b? Leaves them there. */
static bool less(lua_State *L)
{
    ms_sandbox_charge(L, 8);
    if (lua_isnil(L, 2)) return lua_lessthan(L, -2, -1);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -3);
    lua_pushvalue(L, -3);
    lua_call(L, 2, 1);
    bool result = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return result;
}

/* Is t[a] < t[b]? Leaves both on the stack. */
static bool less_at(lua_State *L, int a, int b)
{
    lua_rawgeti(L, 1, a);
    lua_rawgeti(L, 1, b);
    return less(L);
}

/* Lets t[root] sink below its larger children, in the heap t[1..last]. */
static void sink(lua_State *L, int root, int last)
{
    while (root <= last / 2) {
        int child = 2 * root;
        if (child < last) {
            if (less_at(L, child, child + 1)) child++;
            lua_pop(L, 2);
        }
        if (!less_at(L, root, child)) {
            lua_pop(L, 2);
            return;
        }
        lua_rawseti(L, 1, root); /* both are on the stack: swap */
        lua_rawseti(L, 1, child);
        root = child;
    }
}

static int safe_sort(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    ms_sandbox_writable(L, 1);
    if (!lua_isnoneornil(L, 2)) luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    luaL_checkstack(L, 8, NULL);
    ms_sandbox_deeper(L);
    int size = (int)lua_objlen(L, 1);
    for (int root = size / 2; root >= 1; root--) sink(L, root, size);
    for (int last = size; last > 1; last--) {
        lua_rawgeti(L, 1, 1);
        lua_rawgeti(L, 1, last);
        lua_rawseti(L, 1, 1);
        lua_rawseti(L, 1, last);
        sink(L, 1, last - 1);
    }
    ms_sandbox_back(L);
    return 0;
}

static void guard(lua_State *L, const char *name, lua_CFunction function)
{
    lua_getfield(L, -1, name);
    lua_pushcclosure(L, function, 1);
    lua_setfield(L, -2, name);
}

void ms_sandbox_open_tables(lua_State *L)
{
    static const luaL_Reg functions[] = {{"maxn", count_maxn}, {"sort", safe_sort}, {NULL, NULL}};
    static const char *const gone[] = {"getn", "foreach", "foreachi", "new", "clear", NULL};
    luaL_setfuncs(L, functions, 0);
    guard(L, "concat", guard_concat);
    guard(L, "insert", guard_insert);
    guard(L, "remove", guard_remove);
    guard(L, "move", guard_move);
    for (const char *const *name = gone; *name; name++) {
        lua_pushnil(L);
        lua_setfield(L, -2, *name);
    }
}
