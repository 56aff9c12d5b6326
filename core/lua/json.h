/* JSON values as policies see them: userdata over jansson's trees.
 *
 * A value is handed over as text and parsed when it is first touched; one that nobody touched, or that nobody changed, comes back byte for
 * byte. A changed one is written compactly, with the order of its keys and the fields that nobody knows kept. Integers are exact: within
 * +-2^53 they are Lua numbers, beyond it int64 (value.h). null is metasync.null, absent is nil.
 *
 * All values that were made during one call of a policy's function belong to its scope and end with the call: a policy that keeps one
 * gets an error when it touches it later, never a value that has changed meanwhile. That bounds what jansson's trees, which Lua's memory
 * cap does not see, may take: `limit` for each call. Depth: MS_JSON_DEPTH. One thread at a time: the policy's lock. */
#ifndef MS_LUA_JSON_H
#define MS_LUA_JSON_H

#include <jansson.h>
#include <lua.h>

#include "../base/bytes.h"

enum { MS_JSON_DEPTH = 100 };

struct ms_json_value; /* a userdata */
struct ms_json_doc;

struct ms_json_scope {
    struct ms_json_value *values;
    struct ms_json_doc *docs;
    size_t used, limit; /* estimated bytes of trees */
};

/* Registers the metatable of JSON values. [-0, +0, m] */
void ms_json_register(lua_State *L);

/* Text that is parsed when it is touched; borrowed until ms_json_end. [-0, +1, e] */
void ms_json_push_text(lua_State *L, struct ms_json_scope *scope, struct ms_bytes text);
/* Parsed now: objects and lists as values, null and the like as themselves. Raises what is wrong with it. [-0, +1, e] */
void ms_json_push_parsed(lua_State *L, struct ms_json_scope *scope, struct ms_bytes text);

/* Whether the value at index is one of ours. [-0, +0, -] */
bool ms_json_is(lua_State *L, int index);
/* "object" or "array" (which parses it), NULL if it is none of ours. [-0, +0, e] */
const char *ms_json_kind_of(lua_State *L, int index);

/* Appends the JSON text of any Lua value that has one: ours, tables, text (which is quoted), numbers, booleans, null. [-0, +0, e] */
void ms_json_write(lua_State *L, struct ms_json_scope *scope, int index, struct ms_buf *out);

/* The names of an object's fields as a Lua table and their number, or nil and the length of a list. [-0, +2, e] */
int ms_json_keys(lua_State *L, int index);

/* Raises if text is not one JSON value. text is borrowed until ms_json_end. [-0, +0, e] */
void ms_json_check(lua_State *L, struct ms_json_scope *scope, struct ms_bytes text);

/* Ends all values of the scope. No Lua needed. */
void ms_json_end(struct ms_json_scope *scope);

#endif
