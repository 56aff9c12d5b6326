/* `require` of texts that the owner offers: each runs once, its result is kept. While it runs it is marked, so that a cycle is an error;
 * when it fails the mark goes away again, and nothing of it is left. */
#include "sandbox_inside.h"

#include <lauxlib.h>
#include <lua.h>

#include "../base/error.h"
#include "../base/mem.h"

static bool good_name(const char *name)
{
    size_t size = strlen(name);
    if (size == 0 || size > 100 || strstr(name, "..")) return false;
    for (size_t i = 0; i < size; i++) {
        char c = name[i];
        bool inner = c == '_' || c == '.' || c == '-';
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && (!inner || ((i == 0 || i == size - 1) && c != '_'))) return false;
    }
    return true;
}

static const struct ms_sandbox_text *find_text(const struct ms_sandbox *sandbox, const char *name)
{
    for (size_t i = 0; i < sandbox->text_count; i++) {
        if (strcmp(sandbox->texts[i].name, name) == 0) return &sandbox->texts[i];
    }
    return NULL;
}

int ms_sandbox_offer(struct ms_sandbox *sandbox, const char *name, struct ms_bytes text, int kind)
{
    if (!good_name(name)) return ms_fail(MS_E_INVALID, "a module can't be called '%s'", name);
    if (find_text(sandbox, name)) return ms_fail(MS_E_INVALID, "module '%s' is offered already", name);
    if (sandbox->text_count == sandbox->text_room) {
        size_t room = sandbox->text_room ? 2 * sandbox->text_room : 16;
        struct ms_sandbox_text *texts = ms_realloc(sandbox->texts, room * sizeof *texts);
        if (!texts) return MS_E_MEMORY;
        sandbox->texts = texts;
        sandbox->text_room = room;
    }
    char *copy = ms_strdup(name);
    if (!copy) return MS_E_MEMORY;
    sandbox->texts[sandbox->text_count++] = (struct ms_sandbox_text){copy, text, kind};
    return 0;
}

void ms_sandbox_on_require(struct ms_sandbox *sandbox, int (*find)(void *context, struct ms_sandbox *sandbox, const char *name), void *context)
{
    sandbox->find = find;
    sandbox->find_context = context;
}

/* What is offered by that name, asking the owner if need be; raises an error if there is none that the caller may have. The result is
 * copied: a nested require may move the list. */
static struct ms_sandbox_text look_up(lua_State *L, const char *name, bool trusted)
{
    struct ms_sandbox *sandbox = ms_sandbox_of(L);
    if (!good_name(name)) (void)luaL_error(L, "a module can't be called '%s'", name);
    const struct ms_sandbox_text *text = find_text(sandbox, name);
    if (!text && sandbox->find) {
        int rc = sandbox->find(sandbox->find_context, sandbox, name);
        if (rc != 0 && rc != MS_E_NOT_FOUND) (void)luaL_error(L, "module '%s': %s", name, ms_fail_message(rc));
        text = find_text(sandbox, name);
    }
    if (!text || (text->kind == MS_SANDBOX_TRUSTED && !trusted)) (void)luaL_error(L, "module '%s' not found", name);
    return *text;
}

/* Pushes what the text returns, running it if it has not run. The table at `loaded` has name -> result, or false while it runs. */
static void push_result(lua_State *L, const struct ms_sandbox_text *text)
{
    luaL_checkstack(L, 6, NULL);
    lua_rawgeti(L, LUA_REGISTRYINDEX, ms_sandbox_of(L)->loaded);
    int loaded = lua_gettop(L);
    lua_getfield(L, loaded, text->name);
    if (lua_isboolean(L, -1) && !lua_toboolean(L, -1)) (void)luaL_error(L, "module '%s' requires itself", text->name);
    if (!lua_isnil(L, -1)) {
        lua_remove(L, loaded);
        return;
    }
    lua_pop(L, 1);
    bool trusted = text->kind != MS_SANDBOX_PLAIN;
    lua_pushfstring(L, "%c%s", trusted ? '=' : '@', text->name);
    ms_sandbox_load(L, text->text, lua_tostring(L, -1), trusted);
    lua_remove(L, -2);
    lua_pushboolean(L, 0);
    lua_setfield(L, loaded, text->name);
    lua_pushstring(L, text->name);

    ms_sandbox_deeper(L);
    int depth = ms_sandbox_of(L)->depth - 1, rc = lua_pcall(L, 1, 1, 0);
    ms_sandbox_of(L)->depth = depth;
    if (rc != 0) { /* name and nil are in the table's keys already: this needs no memory */
        lua_pushnil(L);
        lua_setfield(L, loaded, text->name);
        (void)lua_error(L);
    }
    if (lua_isnil(L, -1) || (lua_isboolean(L, -1) && !lua_toboolean(L, -1))) {
        lua_pop(L, 1);
        lua_pushboolean(L, 1);
    }
    lua_pushvalue(L, -1);
    lua_setfield(L, loaded, text->name);
    lua_remove(L, loaded);
}

/* The read-only view of a public module's table, always the same one, kept as "name/" (which no module can be called). */
static void push_view(lua_State *L, const char *name)
{
    lua_rawgeti(L, LUA_REGISTRYINDEX, ms_sandbox_of(L)->loaded);
    lua_pushfstring(L, "%s/", name);
    lua_pushvalue(L, -1);
    lua_rawget(L, -3);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        ms_sandbox_push_readonly(L, -3);
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    lua_replace(L, -4);
    lua_pop(L, 2);
}

static int require_as(lua_State *L, const char *name, bool trusted)
{
    struct ms_sandbox_text text = look_up(L, name, trusted);
    push_result(L, &text);
    if (!trusted && text.kind == MS_SANDBOX_PUBLIC && lua_istable(L, -1)) push_view(L, name);
    return 1;
}

int ms_sandbox_require_plain(lua_State *L)
{
    return require_as(L, luaL_checkstring(L, 1), false);
}

/* Built-in libraries too: ffi, jit, debug, ... */
int ms_sandbox_require_trusted(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
    lua_getfield(L, -1, name);
    if (!lua_isnil(L, -1)) return 1;
    lua_settop(L, 1);
    return require_as(L, name, true);
}

void ms_sandbox_push_required(lua_State *L, const char *name)
{
    luaL_checkstack(L, 2, NULL);
    lua_pushcfunction(L, ms_sandbox_require_trusted);
    lua_pushstring(L, name);
    lua_call(L, 1, 1);
}
