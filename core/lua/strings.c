/* string: find, match, gmatch and gsub over our own matcher, whose steps are charged; rep, format, reverse, lower and upper are LuaJIT's,
 * called after their size has been charged; dump goes. Everything else (byte, char, len, sub) is cheap and stays.
 *
 * A gsub builds its result in a userdata that nobody else sees, so that an error in a callback leaks nothing. */
#include "sandbox_inside.h"

#include <lauxlib.h>
#include <lua.h>

#include "match.h"

enum { STEPS_PER_INSTRUCTION = 4, BYTES_PER_INSTRUCTION = 16, STRING_MAX = 0x7fffff00 };

static void tick(void *context, uint64_t steps)
{
    ms_sandbox_charge(context, steps / STEPS_PER_INSTRUCTION);
}

static void charge_bytes(lua_State *L, size_t bytes)
{
    ms_sandbox_charge(L, 1 + bytes / BYTES_PER_INSTRUCTION);
}

/* ---- matching */

static const char *match_at(lua_State *L, struct ms_match *m, const char *subject, const char *pattern)
{
    const char *end = ms_match_at(m, subject, pattern);
    if (m->error) (void)luaL_error(L, "%s", m->error);
    return end;
}

/* The steps of many short matches never reach a tick of their own. */
static void charge_rest(lua_State *L, struct ms_match *m)
{
    ms_sandbox_charge(L, 1 + m->steps / STEPS_PER_INSTRUCTION);
    m->steps = 0;
}

static void push_capture(lua_State *L, const struct ms_match *m, int i, const char *from, const char *to)
{
    if (i >= m->level) {
        if (i != 0) (void)luaL_error(L, "invalid capture index");
        lua_pushlstring(L, from, (size_t)(to - from));
        return;
    }
    ptrdiff_t size = m->capture[i].size;
    if (size == MS_MATCH_OPEN) (void)luaL_error(L, "unfinished capture");
    if (size == MS_MATCH_POSITION) lua_pushinteger(L, m->capture[i].at - m->begin + 1);
    else lua_pushlstring(L, m->capture[i].at, (size_t)size);
}

/* All captures; the whole match if there are none and `whole`. Returns their number. */
static int push_captures(lua_State *L, const struct ms_match *m, bool whole, const char *from, const char *to)
{
    int count = m->level == 0 && whole ? 1 : m->level;
    luaL_checkstack(L, count, "too many captures");
    for (int i = 0; i < count; i++) push_capture(L, m, i, from, to);
    return count;
}

/* Where to start: 1 is the first byte, -1 the last. */
static size_t start_of(lua_State *L, int index, size_t size)
{
    ptrdiff_t start = luaL_optinteger(L, index, 1);
    if (start < 0) start += (ptrdiff_t)size;
    else start--;
    if (start < 0) start = 0;
    return (size_t)start > size ? size : (size_t)start;
}

static int find_plain(lua_State *L, const char *s, size_t size, size_t start, const char *p, size_t pattern_size)
{
    charge_bytes(L, size - start);
    const char *at = pattern_size ? memmem(s + start, size - start, p, pattern_size) : s + start;
    if (!at) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushinteger(L, at - s + 1);
    lua_pushinteger(L, at - s + (ptrdiff_t)pattern_size);
    return 2;
}

static int find_or_match(lua_State *L, bool find)
{
    size_t size, pattern_size;
    const char *s = luaL_checklstring(L, 1, &size), *p = luaL_checklstring(L, 2, &pattern_size);
    size_t start = start_of(L, 3, size);
    if (find && (lua_toboolean(L, 4) || !ms_match_special(p, pattern_size))) return find_plain(L, s, size, start, p, pattern_size);
    struct ms_match m;
    ms_match_init(&m, s, size, tick, L);
    bool anchor = *p == '^';
    p += anchor;
    for (const char *at = s + start; at <= m.end; at++) {
        const char *end = match_at(L, &m, at, p);
        if (end) {
            charge_rest(L, &m);
            if (!find) return push_captures(L, &m, true, at, end);
            lua_pushinteger(L, at - s + 1);
            lua_pushinteger(L, end - s);
            return 2 + push_captures(L, &m, false, at, end);
        }
        if (anchor) break;
    }
    charge_rest(L, &m);
    lua_pushnil(L);
    return 1;
}

static int safe_find(lua_State *L)
{
    return find_or_match(L, true);
}

static int safe_match(lua_State *L)
{
    return find_or_match(L, false);
}

/* Upvalues: subject, pattern, where to go on. */
static int next_match(lua_State *L)
{
    size_t size;
    const char *s = lua_tolstring(L, lua_upvalueindex(1), &size), *p = lua_tostring(L, lua_upvalueindex(2));
    struct ms_match m;
    ms_match_init(&m, s, size, tick, L);
    for (const char *at = s + lua_tointeger(L, lua_upvalueindex(3)); at <= m.end; at++) {
        const char *end = match_at(L, &m, at, p);
        if (!end) continue;
        charge_rest(L, &m);
        lua_pushinteger(L, end - s + (end == at)); /* an empty match must not be found again */
        lua_replace(L, lua_upvalueindex(3));
        return push_captures(L, &m, true, at, end);
    }
    charge_rest(L, &m);
    return 0;
}

static int safe_gmatch(lua_State *L)
{
    (void)luaL_checkstring(L, 1);
    (void)luaL_checkstring(L, 2);
    lua_settop(L, 2);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, next_match, 3);
    return 1;
}

/* ---- gsub */

/* A growing text; its memory is the userdata at `slot` of the stack. */
struct text {
    lua_State *L;
    int slot;
    char *data;
    size_t size, room;
};

static void add(struct text *text, const char *data, size_t size)
{
    if (size > text->room - text->size) {
        size_t room = 2 * text->room + size;
        char *grown = lua_newuserdata(text->L, room);
        if (text->size) memcpy(grown, text->data, text->size);
        lua_replace(text->L, text->slot);
        text->data = grown;
        text->room = room;
    }
    if (size) memcpy(text->data + text->size, data, size);
    text->size += size;
}

/* Adds the string on top of the stack, and pops it. */
static void add_top(struct text *text)
{
    size_t size;
    const char *data = lua_tolstring(text->L, -1, &size);
    add(text, data, size);
    lua_pop(text->L, 1);
}

/* The replacement is a string, in which %0 is the match, %1 the first capture. */
static void add_template(lua_State *L, const struct ms_match *m, struct text *text, const char *from, const char *to)
{
    size_t size;
    const char *news = lua_tolstring(L, 3, &size);
    for (size_t i = 0; i < size; i++) {
        size_t plain = i;
        while (i < size && news[i] != '%') i++;
        add(text, news + plain, i - plain);
        if (i == size) break;
        char c = news[++i]; /* the string's own NUL, if it ends here */
        if (c < '0' || c > '9') {
            add(text, &c, 1);
        } else if (c == '0') {
            add(text, from, (size_t)(to - from));
        } else {
            push_capture(L, m, c - '1', from, to);
            add_top(text);
        }
    }
}

static void add_replacement(lua_State *L, const struct ms_match *m, struct text *text, const char *from, const char *to)
{
    int type = lua_type(L, 3);
    if (type == LUA_TNUMBER || type == LUA_TSTRING) {
        add_template(L, m, text, from, to);
        return;
    }
    if (type == LUA_TFUNCTION) {
        lua_pushvalue(L, 3);
        lua_call(L, push_captures(L, m, true, from, to), 1);
    } else {
        push_capture(L, m, 0, from, to);
        lua_gettable(L, 3);
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        add(text, from, (size_t)(to - from));
    } else if (lua_isstring(L, -1)) {
        add_top(text);
    } else {
        (void)luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    }
}

static int safe_gsub(lua_State *L)
{
    size_t size;
    const char *s = luaL_checklstring(L, 1, &size), *p = luaL_checkstring(L, 2);
    int type = lua_type(L, 3);
    luaL_argcheck(L, type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION || type == LUA_TTABLE, 3,
                  "string/function/table expected");
    ptrdiff_t max = luaL_optinteger(L, 4, (ptrdiff_t)size + 1), done = 0;
    lua_settop(L, 4);
    struct text text = {L, 5, lua_newuserdata(L, size + 64), 0, size + 64};
    struct ms_match m;
    ms_match_init(&m, s, size, tick, L);
    bool anchor = *p == '^';
    p += anchor;
    ms_sandbox_deeper(L);
    while (done < max) {
        const char *end = match_at(L, &m, s, p);
        if (end) {
            done++;
            charge_rest(L, &m);
            add_replacement(L, &m, &text, s, end);
        }
        if (end && end > s) s = end;
        else if (s < m.end) add(&text, s++, 1);
        else break;
        if (anchor) break;
    }
    ms_sandbox_back(L);
    charge_rest(L, &m);
    add(&text, s, (size_t)(m.end - s));
    lua_pushlstring(L, text.data, text.size);
    lua_pushinteger(L, done);
    return 2;
}

/* ---- LuaJIT's own, bounded; each is the upvalue of its guard */

static int call_original(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

static int guard_size(lua_State *L)
{
    size_t size;
    (void)luaL_checklstring(L, 1, &size);
    charge_bytes(L, size);
    return call_original(L);
}

static int guard_rep(lua_State *L)
{
    size_t size, gap = 0;
    (void)luaL_checklstring(L, 1, &size);
    lua_Number count = luaL_checknumber(L, 2);
    if (!lua_isnoneornil(L, 3)) (void)luaL_checklstring(L, 3, &gap);
    if (!(count >= 1) || size + gap == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    lua_Number total = (lua_Number)(size + gap) * count;
    if (total > STRING_MAX || count > STRING_MAX) return luaL_error(L, "resulting string too large");
    charge_bytes(L, (size_t)total);
    return call_original(L);
}

/* tostring for %s, whose __tostring LuaJIT would call without counting how deep it is. */
static void convert(lua_State *L, int index)
{
    if (!luaL_getmetafield(L, index, "__tostring")) return;
    ms_sandbox_deeper(L);
    lua_pushvalue(L, index);
    lua_call(L, 1, 1);
    ms_sandbox_back(L);
    if (!lua_isstring(L, -1)) (void)luaL_error(L, "'tostring' must return a string to 'format'");
    lua_replace(L, index);
}

static int guard_format(lua_State *L)
{
    size_t size;
    const char *at = luaL_checklstring(L, 1, &size), *end = at + size;
    int index = 1, top = lua_gettop(L);
    luaL_checkstack(L, 4, NULL);
    charge_bytes(L, size);
    while (at < end) {
        if (*at++ != '%') continue;
        if (at < end && *at == '%') {
            at++;
            continue;
        }
        while (at < end && strchr("-+ #0123456789.", *at) && *at) at++;
        if (++index > top) break; /* LuaJIT says what is missing */
        if (at < end && *at == 's' && lua_type(L, index) == LUA_TTABLE) convert(L, index);
        if (lua_type(L, index) == LUA_TSTRING) charge_bytes(L, lua_objlen(L, index));
        else ms_sandbox_charge(L, 4);
    }
    return call_original(L);
}

static void guard(lua_State *L, const char *name, lua_CFunction function)
{
    lua_getfield(L, -1, name);
    lua_pushcclosure(L, function, 1);
    lua_setfield(L, -2, name);
}

void ms_sandbox_open_strings(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"find", safe_find}, {"match", safe_match}, {"gmatch", safe_gmatch}, {"gsub", safe_gsub}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
    guard(L, "rep", guard_rep);
    guard(L, "format", guard_format);
    guard(L, "reverse", guard_size);
    guard(L, "lower", guard_size);
    guard(L, "upper", guard_size);
    lua_pushnil(L);
    lua_setfield(L, -2, "dump");
    lua_pushnil(L);
    lua_setfield(L, -2, "gfind");
}
