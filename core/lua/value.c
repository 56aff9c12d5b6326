/* Values and entries between bytes and Lua. */
#include "value.h"

#include <lauxlib.h>
#include <math.h>

#include "sandbox.h"

/* LuaJIT's type of boxed C values, which lua.h does not name. */
enum { LUA_TCDATA = 10 };

static const char SCOPE_KEY[] = "metasync.scope", INT64_KEY[] = "metasync.int64", KIND_KEY[] = "metasync.kind";
static const char NULL_KEY[] = "metasync.null", DELETE_KEY[] = "metasync.delete";

static const double EXACT = 9007199254740992.0; /* 2^53 */

/* ---- marks -------------------------------------------------------------------------------------------------------------------- */

static int mark_text(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    return 1;
}

/* A userdata that is only equal to itself. [-0, +0, m] */
static void make_mark(lua_State *L, const char *key)
{
    (void)lua_newuserdata(L, 1);
    lua_createtable(L, 0, 2);
    lua_pushstring(L, key);
    lua_pushcclosure(L, mark_text, 1);
    lua_setfield(L, -2, "__tostring");
    lua_pushliteral(L, "mark");
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
    lua_setfield(L, LUA_REGISTRYINDEX, key);
}

static bool is_mark(lua_State *L, int index, const char *key)
{
    if (lua_type(L, index) != LUA_TUSERDATA) return false;
    lua_pushvalue(L, index);
    lua_getfield(L, LUA_REGISTRYINDEX, key);
    bool equal = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return equal;
}

void ms_value_push_null(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, NULL_KEY);
}

bool ms_value_is_null(lua_State *L, int index)
{
    return is_mark(L, index, NULL_KEY);
}

bool ms_value_is_delete(lua_State *L, int index)
{
    return is_mark(L, index, DELETE_KEY);
}

/* ---- integers ----------------------------------------------------------------------------------------------------------------- */

void ms_value_push_int64(lua_State *L, int64_t number)
{
    /* lua.h can't make a boxed C value: its type makes an empty one, which is filled in. */
    lua_getfield(L, LUA_REGISTRYINDEX, INT64_KEY);
    lua_call(L, 0, 1);
    memcpy((void *)(uintptr_t)lua_topointer(L, -1), &number, sizeof number);
}

void ms_value_push_integer(lua_State *L, int64_t number)
{
    if (number >= -(INT64_C(1) << 53) && number <= INT64_C(1) << 53) lua_pushnumber(L, (lua_Number)number);
    else ms_value_push_int64(L, number);
}

bool ms_value_to_integer(lua_State *L, int index, int64_t *number)
{
    if (lua_type(L, index) == LUA_TNUMBER) {
        lua_Number n = lua_tonumber(L, index);
        if (!(n >= -EXACT && n <= EXACT) || floor(n) != n) return false;
        *number = (int64_t)n;
        return true;
    }
    if (lua_type(L, index) != LUA_TCDATA) return false;
    lua_pushvalue(L, index);
    lua_getfield(L, LUA_REGISTRYINDEX, KIND_KEY);
    lua_insert(L, -2);
    lua_call(L, 1, 1);
    lua_Integer kind = lua_tointeger(L, -1);
    lua_pop(L, 1);
    if (kind != 1 && kind != 2) return false;
    memcpy(number, lua_topointer(L, index), sizeof *number);
    return kind == 1 || *number >= 0; /* an uint64 beyond 2^63-1 looks negative */
}

/* ---- what the glue gets -------------------------------------------------------------------------------------------------------- */

static struct ms_json_scope *scope_of(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, SCOPE_KEY);
    struct ms_json_scope *scope = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return scope;
}

/* json(text): [-0, +1, e] */
static int native_json(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    if (lua_type(L, 1) != LUA_TSTRING) return luaL_error(L, "metasync.json: text is expected");
    ms_json_push_parsed(L, scope_of(L), ms_bytes(text, size));
    return 1;
}

/* A buffer is C's memory, and raising would lose it: it hangs in a userdata meanwhile. */
static int close_buffer(lua_State *L)
{
    ms_buf_close(lua_touserdata(L, 1));
    return 0;
}

/* text(value): its JSON; text itself. [-0, +1, e] */
static int native_text(lua_State *L)
{
    luaL_checkany(L, 1);
    if (lua_type(L, 1) == LUA_TSTRING) {
        lua_settop(L, 1);
        return 1;
    }
    struct ms_buf *text = lua_newuserdata(L, sizeof *text);
    ms_buf_init(text);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, close_buffer);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    ms_json_write(L, scope_of(L), 1, text);
    lua_pushlstring(L, (const char *)text->data, text->size);
    ms_buf_close(text);
    return 1;
}

/* kind(value): "object", "array" or nil. [-0, +1, e] */
static int native_kind(lua_State *L)
{
    const char *kind = ms_json_kind_of(L, 1);
    if (kind) lua_pushstring(L, kind);
    else lua_pushnil(L);
    return 1;
}

static int native_keys(lua_State *L)
{
    return ms_json_keys(L, 1);
}

struct log {
    void (*write)(void *context, const char *text, size_t size);
    void *context;
};

static int native_log(lua_State *L)
{
    const struct log *log = lua_touserdata(L, lua_upvalueindex(1));
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    ms_sandbox_charge(L, 100);
    log->write(log->context, text, size);
    return 0;
}

void ms_value_open(lua_State *L, struct ms_json_scope *scope, void (*log)(void *context, const char *text, size_t size), void *context)
{
    static const luaL_Reg functions[] = {
        {"json", native_json}, {"text", native_text}, {"kind", native_kind}, {"keys", native_keys}, {NULL, NULL},
    };
    lua_pushlightuserdata(L, scope);
    lua_setfield(L, LUA_REGISTRYINDEX, SCOPE_KEY);
    make_mark(L, NULL_KEY);
    make_mark(L, DELETE_KEY);
    ms_json_register(L);
    lua_createtable(L, 0, 8);
    for (const luaL_Reg *function = functions; function->name; function++) {
        lua_pushcfunction(L, function->func);
        lua_setfield(L, -2, function->name);
    }
    *(struct log *)lua_newuserdata(L, sizeof(struct log)) = (struct log){log, context};
    lua_pushcclosure(L, native_log, 1);
    lua_setfield(L, -2, "log");
    ms_value_push_null(L);
    lua_setfield(L, -2, "null");
    lua_getfield(L, LUA_REGISTRYINDEX, DELETE_KEY);
    lua_setfield(L, -2, "delete");
}

void ms_value_bind(lua_State *L, int glue)
{
    lua_getfield(L, glue, "int64");
    lua_setfield(L, LUA_REGISTRYINDEX, INT64_KEY);
    lua_getfield(L, glue, "kind");
    lua_setfield(L, LUA_REGISTRYINDEX, KIND_KEY);
}

/* ---- entries and values ----------------------------------------------------------------------------------------------------------- */

void ms_value_set_entry(lua_State *L, const char *table, struct ms_bytes key)
{
    const char *start = key.data, *nul = key.size ? memchr(start, '\0', key.size) : NULL;
    lua_pushstring(L, table);
    lua_setfield(L, -2, "table");
    lua_pushlstring(L, start ? start : "", nul ? (size_t)(nul - start) : key.size);
    lua_setfield(L, -2, "key");
    if (!nul) return;
    lua_pushlstring(L, nul + 1, key.size - (size_t)(nul + 1 - start));
    lua_setfield(L, -2, "field");
}

void ms_value_push(lua_State *L, struct ms_json_scope *scope, enum ms_lua_type type, struct ms_bytes bytes)
{
    if (!bytes.data) {
        lua_pushnil(L);
    } else if (type == MS_LUA_INT64) {
        int64_t number = 0;
        if (ms_int64_get(bytes, &number)) luaL_error(L, "a value of %d bytes is no int64", (int)bytes.size);
        ms_value_push_int64(L, number);
    } else if (type == MS_LUA_JSON) {
        ms_json_push_text(L, scope, bytes);
    } else {
        lua_pushlstring(L, bytes.data, bytes.size);
    }
}

static void write_int64(lua_State *L, int index, struct ms_buf *out)
{
    int64_t number = 0;
    uint8_t bytes[8];
    if (!ms_value_to_integer(L, index, &number)) {
        if (lua_type(L, index) == LUA_TNUMBER) luaL_error(L, "%f is no whole number within 2^53; use metasync.int64", lua_tonumber(L, index));
        luaL_error(L, "a %s is no int64", luaL_typename(L, index));
    }
    (void)ms_int64_put(number, bytes);
    ms_buf_add(out, bytes, sizeof bytes);
}

void ms_value_write(lua_State *L, struct ms_json_scope *scope, enum ms_lua_type type, int index, struct ms_buf *out)
{
    bool text = lua_type(L, index) == LUA_TSTRING;
    if (type == MS_LUA_INT64) {
        write_int64(L, index, out);
    } else if (text) {
        size_t size;
        const char *bytes = lua_tolstring(L, index, &size);
        if (type == MS_LUA_JSON) ms_json_check(L, scope, ms_bytes(bytes, size));
        ms_buf_add(out, bytes, size);
    } else if (type == MS_LUA_JSON || ms_json_is(L, index)) {
        ms_json_write(L, scope, index, out);
    } else {
        luaL_error(L, "a %s can't be the value of a table of bytes", luaL_typename(L, index));
    }
    if (out->failed) luaL_error(L, "not enough memory");
}
