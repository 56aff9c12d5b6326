/* JSON values as userdata: parsed when touched, written back as they were unless changed. */
#include "json.h"

#include <lauxlib.h>
#include <math.h>
#include <stdio.h>

#include "../base/mem.h"
#include "sandbox.h"
#include "value.h"

/* What one value of a tree costs, more or less: memory for jansson's node, its place in the parent, a key; and work, in the sandbox's
 * unit. A byte of text is one unit. */
enum { NODE_COST = 96, NODE_WORK = 20 };

static const char NAME[] = "metasync.json";

/* One tree. text: what it was made of, as long as nobody changed it. */
struct ms_json_doc {
    struct ms_json_doc *next;
    struct ms_bytes text;
    json_t *root; /* NULL = not parsed yet */
    bool changed;
};

/* One handle of a policy on a place in a tree. scope == NULL: its call is over. */
struct ms_json_value {
    struct ms_json_value *next, **link;
    struct ms_json_scope *scope;
    struct ms_json_doc *doc;
    json_t *json;   /* a reference; NULL: the root of a doc that is not parsed yet */
    uint32_t depth; /* of the root: 1 */
};

/* ---- scope ------------------------------------------------------------------------------------------------------------------ */

static void value_end(struct ms_json_value *value)
{
    if (!value->scope) return;
    json_decref(value->json);
    *value->link = value->next;
    if (value->next) value->next->link = value->link;
    *value = (struct ms_json_value){0};
}

void ms_json_end(struct ms_json_scope *scope)
{
    while (scope->values) value_end(scope->values);
    while (scope->docs) {
        struct ms_json_doc *doc = scope->docs;
        scope->docs = doc->next;
        json_decref(doc->root);
        ms_release(doc);
    }
    scope->used = 0;
}

/* Takes memory from what the call may have, and charges the work, before it is done. */
static void take(lua_State *L, struct ms_json_scope *scope, size_t nodes, size_t bytes)
{
    ms_sandbox_charge(L, nodes * NODE_WORK + bytes);
    size_t cost = nodes * NODE_COST + bytes;
    if (cost > scope->limit - scope->used) luaL_error(L, "not enough memory for JSON values");
    scope->used += cost;
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------- */

/* Counts values and depth of a JSON text before jansson sees it; more than there are in a malformed one does not matter. */
static size_t measure_text(struct ms_bytes text, uint32_t *depth)
{
    const char *at = text.data, *end = at + text.size;
    size_t nodes = 1;
    uint32_t level = 0;
    *depth = 1;
    bool quoted = false;
    for (; at < end; at++) {
        if (quoted) {
            if (*at == '\\') at++;
            else if (*at == '"') quoted = false;
        } else if (*at == '"') {
            quoted = true;
        } else if (*at == '{' || *at == '[') {
            nodes++;
            if (++level > *depth) *depth = level;
        } else if (*at == '}' || *at == ']') {
            if (level) level--;
        } else if (*at == ',') {
            nodes++;
        }
    }
    return nodes;
}

static json_t *parse(struct ms_bytes text, char *why, size_t size)
{
    json_error_t error;
    json_t *json = json_loadb(text.data, text.size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!json) (void)snprintf(why, size, "%s at byte %d", error.text, error.position);
    return json;
}

static void parse_doc(lua_State *L, struct ms_json_scope *scope, struct ms_json_doc *doc)
{
    if (doc->root) return;
    uint32_t depth;
    ms_sandbox_charge(L, doc->text.size / 4);
    size_t nodes = measure_text(doc->text, &depth);
    if (depth > MS_JSON_DEPTH) luaL_error(L, "the JSON value is nested deeper than %d", MS_JSON_DEPTH);
    take(L, scope, nodes, doc->text.size);
    char why[JSON_ERROR_TEXT_LENGTH + 40];
    doc->root = parse(doc->text, why, sizeof why);
    if (!doc->root) luaL_error(L, "the value is no JSON: %s", why);
}

static struct ms_json_value *to_value(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index)) return NULL;
    luaL_getmetatable(L, NAME);
    bool ours = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return ours ? lua_touserdata(L, index) : NULL;
}

bool ms_json_is(lua_State *L, int index)
{
    return to_value(L, index) != NULL;
}

/* The value at index, parsed. */
static struct ms_json_value *touch(lua_State *L, int index)
{
    struct ms_json_value *value = to_value(L, index);
    if (!value) luaL_error(L, "a JSON value is expected");
    if (!value->scope) luaL_error(L, "a JSON value is good for one call only; keep its text (metasync.text)");
    if (!value->json) {
        parse_doc(L, value->scope, value->doc);
        value->json = json_incref(value->doc->root);
    }
    return value;
}

const char *ms_json_kind_of(lua_State *L, int index)
{
    if (!ms_json_is(L, index)) return NULL;
    const json_t *json = touch(L, index)->json;
    if (json_is_object(json)) return "object";
    if (json_is_array(json)) return "array";
    return json_is_null(json) ? "null" : json_is_string(json) ? "string" : json_is_boolean(json) ? "boolean" : "number";
}

/* ---- pushing ---------------------------------------------------------------------------------------------------------------- */

static struct ms_json_value *push_handle(lua_State *L, struct ms_json_scope *scope, struct ms_json_doc *doc, json_t *json, uint32_t depth)
{
    struct ms_json_value *value = lua_newuserdata(L, sizeof *value);
    *value = (struct ms_json_value){0};
    luaL_getmetatable(L, NAME);
    lua_setmetatable(L, -2);
    *value = (struct ms_json_value){.next = scope->values, .link = &scope->values, .scope = scope, .doc = doc, .depth = depth};
    value->json = json_incref(json);
    if (value->next) value->next->link = &value->next;
    scope->values = value;
    return value;
}

static struct ms_json_doc *new_doc(lua_State *L, struct ms_json_scope *scope, struct ms_bytes text)
{
    struct ms_json_doc *doc = ms_alloc_zero(sizeof *doc);
    if (!doc) luaL_error(L, "not enough memory");
    else {
        doc->text = text;
        doc->next = scope->docs;
        scope->docs = doc;
    }
    return doc;
}

void ms_json_push_text(lua_State *L, struct ms_json_scope *scope, struct ms_bytes text)
{
    take(L, scope, 1, 0);
    push_handle(L, scope, new_doc(L, scope, text), NULL, 1);
}

/* [-0, +1, e] */
static void push_json(lua_State *L, struct ms_json_scope *scope, struct ms_json_doc *doc, json_t *json, uint32_t depth)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
    case JSON_ARRAY: push_handle(L, scope, doc, json, depth); break;
    case JSON_STRING: lua_pushlstring(L, json_string_value(json), json_string_length(json)); break;
    case JSON_INTEGER: ms_value_push_integer(L, json_integer_value(json)); break;
    case JSON_REAL: lua_pushnumber(L, json_real_value(json)); break;
    case JSON_TRUE: lua_pushboolean(L, 1); break;
    case JSON_FALSE: lua_pushboolean(L, 0); break;
    default: ms_value_push_null(L); break;
    }
}

void ms_json_push_parsed(lua_State *L, struct ms_json_scope *scope, struct ms_bytes text)
{
    struct ms_json_doc *doc = new_doc(L, scope, text);
    parse_doc(L, scope, doc);
    doc->changed = true; /* the text goes */
    push_json(L, scope, doc, doc->root, 1);
}

void ms_json_check(lua_State *L, struct ms_json_scope *scope, struct ms_bytes text)
{
    parse_doc(L, scope, new_doc(L, scope, text));
}

/* ---- fields ------------------------------------------------------------------------------------------------------------------ */

/* 1..length -> 0..length-1; false: no such place. */
static bool array_place(lua_State *L, int index, size_t length, size_t *place)
{
    if (lua_type(L, index) != LUA_TNUMBER) return false;
    lua_Number number = lua_tonumber(L, index);
    if (!(number >= 1 && number <= (lua_Number)length) || floor(number) != number) return false;
    *place = (size_t)number - 1;
    return true;
}

/* A field's name: text without NUL, which jansson's keys can't have. NULL: there can be no such field. */
static const char *field_name(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TSTRING) return NULL;
    size_t size;
    const char *name = lua_tolstring(L, index, &size);
    return strlen(name) == size ? name : NULL;
}

/* value[key]: [-0, +1, e] */
static int json_index(lua_State *L)
{
    struct ms_json_value *value = touch(L, 1);
    json_t *found = NULL;
    size_t place;
    const char *name = field_name(L, 2);
    if (json_is_object(value->json) && name) found = json_object_get(value->json, name);
    else if (json_is_array(value->json) && array_place(L, 2, json_array_size(value->json), &place))
        found = json_array_get(value->json, place);
    if (found) push_json(L, value->scope, value->doc, found, value->depth + 1);
    else lua_pushnil(L);
    return 1;
}

static json_t *to_json(lua_State *L, struct ms_json_scope *scope, int index, uint32_t depth);

/* Takes json, which may be NULL. */
static void set_array(lua_State *L, json_t *array, json_t *json)
{
    size_t place, length = json_array_size(array);
    if (!array_place(L, 2, length + 1, &place)) {
        json_decref(json);
        luaL_error(L, "a list has places 1 to %d; one more can be added", (int)length);
    } else if (!json) {
        if (place + 1 != length) luaL_error(L, "only the last element of a list can be removed");
        else (void)json_array_remove(array, place);
    } else if (place == length ? json_array_append_new(array, json) : json_array_set_new(array, place, json)) {
        luaL_error(L, "not enough memory");
    }
}

static void set_object(lua_State *L, json_t *object, json_t *json)
{
    const char *name = field_name(L, 2);
    if (!name) {
        json_decref(json);
        luaL_error(L, "a field's name is text without NUL bytes");
    } else if (!json) {
        (void)json_object_del(object, name);
    } else if (json_object_set_new(object, name, json)) {
        luaL_error(L, "the field could not be set: its name is no UTF-8, or there is not enough memory");
    }
}

/* value[key] = x; nil removes. What is assigned is copied, so that no tree ever contains itself. [-0, +0, e] */
static int json_newindex(lua_State *L)
{
    struct ms_json_value *value = touch(L, 1);
    if (!json_is_object(value->json) && !json_is_array(value->json)) return luaL_error(L, "the value has no fields");
    json_t *json = NULL;
    if (!lua_isnil(L, 3)) json = to_json(L, value->scope, 3, value->depth + 1);
    value->doc->changed = true;
    if (json_is_array(value->json)) set_array(L, value->json, json);
    else set_object(L, value->json, json);
    return 0;
}

static int json_len(lua_State *L)
{
    const json_t *json = touch(L, 1)->json;
    size_t size = json_is_object(json) ? json_object_size(json) : json_is_array(json) ? json_array_size(json) : 0;
    lua_pushinteger(L, (lua_Integer)size);
    return 1;
}

static int json_eq(lua_State *L)
{
    struct ms_json_value *a = to_value(L, 1), *b = to_value(L, 2);
    lua_pushboolean(L, a && b && a->scope && a->scope == b->scope && touch(L, 1)->json == touch(L, 2)->json);
    return 1;
}

static int json_gc(lua_State *L)
{
    value_end(lua_touserdata(L, 1));
    return 0;
}

int ms_json_keys(lua_State *L, int index)
{
    struct ms_json_value *value = touch(L, index);
    if (!json_is_object(value->json)) {
        lua_pushnil(L);
        lua_pushinteger(L, (lua_Integer)json_array_size(value->json));
        return 2;
    }
    int count = 0;
    size_t size = json_object_size(value->json);
    ms_sandbox_charge(L, size * NODE_WORK);
    lua_createtable(L, (int)size, 0);
    for (void *at = json_object_iter(value->json); at; at = json_object_iter_next(value->json, at)) {
        lua_pushstring(L, json_object_iter_key(at));
        lua_rawseti(L, -2, ++count);
    }
    lua_pushinteger(L, count);
    return 2;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------------ */

/* Values, bytes of text and depth of a tree. Trees are never deeper than MS_JSON_DEPTH, so that this ends. */
static uint32_t measure_tree(const json_t *json, size_t *nodes, size_t *bytes)
{
    uint32_t deepest = 0;
    (*nodes)++;
    *bytes += json_string_length(json);
    const char *key;
    json_t *inner;
    size_t index;
    if (json_is_object(json)) {
        json_object_foreach((json_t *)json, key, inner)
        {
            uint32_t depth = measure_tree(inner, nodes, bytes);
            deepest = depth > deepest ? depth : deepest;
        }
    } else if (json_is_array(json)) {
        json_array_foreach(json, index, inner)
        {
            uint32_t depth = measure_tree(inner, nodes, bytes);
            deepest = depth > deepest ? depth : deepest;
        }
    }
    return deepest + (json_is_object(json) || json_is_array(json));
}

/* A table that will be a list: it has elements, and nothing else. */
static bool is_list(lua_State *L, int index, size_t *length)
{
    size_t count = 0;
    *length = lua_objlen(L, index);
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) count++;
    return count > 0 && count == *length;
}

/* A tree under construction hangs in a handle, which the scope ends if something raises. The handle comes first: making it may raise, too.
 * [-0, +1, e] */
static struct ms_json_value *hold(lua_State *L, struct ms_json_scope *scope)
{
    return push_handle(L, scope, NULL, NULL, 0);
}

static void add_elements(lua_State *L, struct ms_json_scope *scope, int index, size_t length, json_t *list, uint32_t depth)
{
    for (size_t i = 1; i <= length; i++) {
        lua_rawgeti(L, index, (int)i);
        if (json_array_append_new(list, to_json(L, scope, lua_gettop(L), depth))) luaL_error(L, "not enough memory");
        lua_pop(L, 1);
    }
}

static void add_fields(lua_State *L, struct ms_json_scope *scope, int index, json_t *object, uint32_t depth)
{
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        const char *name = field_name(L, -2);
        if (!name) luaL_error(L, "a table is written as a list (1..n), or as an object whose keys are text without NUL bytes");
        else take(L, scope, 1, strlen(name));
        if (json_object_set_new(object, name, to_json(L, scope, lua_gettop(L), depth)))
            luaL_error(L, "not enough memory, or a name that is no UTF-8");
    }
}

static json_t *table_to_json(lua_State *L, struct ms_json_scope *scope, int index, uint32_t depth)
{
    size_t length;
    if (depth > MS_JSON_DEPTH) luaL_error(L, "nested deeper than %d", MS_JSON_DEPTH);
    luaL_checkstack(L, 8, "nested too deep");
    bool list = is_list(L, index, &length);
    take(L, scope, length + 1, 0);
    struct ms_json_value *held = hold(L, scope);
    json_t *made = held->json = list ? json_array() : json_object();
    if (!made) luaL_error(L, "not enough memory");
    if (list) add_elements(L, scope, index, length, made, depth + 1);
    else add_fields(L, scope, index, made, depth + 1);
    json_incref(made);
    lua_pop(L, 1); /* the handle */
    return made;
}

static json_t *number_to_json(lua_State *L, int index)
{
    lua_Number number = lua_tonumber(L, index);
    if (!isfinite(number)) luaL_error(L, "JSON has no such number");
    if (floor(number) == number && fabs(number) <= 9007199254740992.0) return json_integer((json_int_t)number);
    return json_real(number);
}

/* A new reference to a copy of the value at index, which is absolute, as it will stand `depth` deep. Never NULL. */
static json_t *to_json(lua_State *L, struct ms_json_scope *scope, int index, uint32_t depth)
{
    json_t *json = NULL;
    int64_t number;
    size_t size = 0, nodes = 0, bytes = 0;
    if (ms_value_is_null(L, index)) {
        json = json_null();
    } else if (ms_json_is(L, index)) {
        struct ms_json_value *value = touch(L, index);
        uint32_t deeper = measure_tree(value->json, &nodes, &bytes);
        if (depth + deeper > MS_JSON_DEPTH + 1) luaL_error(L, "nested deeper than %d", MS_JSON_DEPTH);
        take(L, scope, nodes, bytes);
        json = json_deep_copy(value->json);
    } else if (lua_type(L, index) == LUA_TTABLE) {
        return table_to_json(L, scope, index, depth);
    } else if (lua_type(L, index) == LUA_TSTRING) {
        const char *text = lua_tolstring(L, index, &size);
        take(L, scope, 1, size);
        json = json_stringn(text, size);
    } else if (lua_type(L, index) == LUA_TBOOLEAN) {
        json = json_boolean(lua_toboolean(L, index));
    } else if (lua_type(L, index) == LUA_TNUMBER) {
        json = number_to_json(L, index);
    } else if (ms_value_to_integer(L, index, &number)) {
        json = json_integer(number);
    } else {
        luaL_error(L, "a %s can't be written as JSON", luaL_typename(L, index));
    }
    if (!json) luaL_error(L, "not enough memory, or text that is no UTF-8");
    return json;
}

static int dump(const char *text, size_t size, void *data)
{
    struct ms_buf *out = data;
    ms_buf_add(out, text, size);
    return out->failed ? -1 : 0;
}

/* The tree to write is in the handle at index, or made in one that is pushed. [-0, +(0|1), e] */
static json_t *tree_of(lua_State *L, struct ms_json_scope *scope, int index)
{
    if (to_value(L, index)) return touch(L, index)->json;
    struct ms_json_value *held = hold(L, scope);
    held->json = to_json(L, scope, index, 1);
    return held->json;
}

void ms_json_write(lua_State *L, struct ms_json_scope *scope, int index, struct ms_buf *out)
{
    int top = lua_gettop(L);
    struct ms_json_value *value = to_value(L, index);
    if (value && !value->scope) (void)touch(L, index); /* raises */
    if (value && !value->doc->changed && value->depth == 1) {
        ms_buf_add(out, value->doc->text.data, value->doc->text.size);
    } else {
        json_t *json = tree_of(L, scope, index);
        size_t nodes = 0, bytes = 0;
        (void)measure_tree(json, &nodes, &bytes);
        ms_sandbox_charge(L, nodes * NODE_WORK + bytes);
        if (json_dump_callback(json, dump, out, JSON_COMPACT | JSON_ENCODE_ANY)) out->failed = true;
        lua_settop(L, top);
    }
    if (out->failed) luaL_error(L, "not enough memory");
}

void ms_json_register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"__index", json_index}, {"__newindex", json_newindex}, {"__len", json_len}, {"__eq", json_eq}, {"__gc", json_gc}, {NULL, NULL},
    };
    luaL_newmetatable(L, NAME);
    for (const luaL_Reg *method = methods; method->name; method++) {
        lua_pushcfunction(L, method->func);
        lua_setfield(L, -2, method->name);
    }
    lua_pushliteral(L, "JSON value"); /* what getmetatable gives */
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
}
