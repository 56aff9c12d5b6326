/* Values and entries between bytes and Lua.
 *
 *      table's type        a function sees                     it may return
 *      int64               int64 (LuaJIT's, boxed): exact      the same, or a whole Lua number within +-2^53
 *      json (policy file)  a JSON value (json.h)               one, JSON text, or what can be written as JSON
 *      bytes               text with any bytes                 text, or a JSON value, which is written
 *
 * What the glue (lua/metasync/glue.lua) gave to C is kept in the state's registry. All functions here run inside of a protected call; what
 * raises says what is wrong with the value. */
#ifndef MS_LUA_VALUE_H
#define MS_LUA_VALUE_H

#include "json.h"

enum ms_lua_type { MS_LUA_BYTES = 1, MS_LUA_INT64 = 2, MS_LUA_JSON = 3 };

/* Registers marks (null, delete) and JSON values, and pushes the table `native` that the glue gets. `scope` and `log` live as long as
 * the state. [-0, +1, m] */
void ms_value_open(lua_State *L, struct ms_json_scope *scope, void (*log)(void *context, const char *text, size_t size), void *context);
/* After the glue ran: int64's type and the function that tells kinds of cdata apart, from the glue's table at index. [-0, +0, m] */
void ms_value_bind(lua_State *L, int glue);

void ms_value_push_null(lua_State *L);                    /* [-0, +1, m] */
void ms_value_push_int64(lua_State *L, int64_t number);   /* [-0, +1, e] boxed */
void ms_value_push_integer(lua_State *L, int64_t number); /* [-0, +1, e] a Lua number where that is exact */
bool ms_value_is_null(lua_State *L, int index);
bool ms_value_is_delete(lua_State *L, int index);
bool ms_value_to_integer(lua_State *L, int index, int64_t *number); /* int64, uint64 or a whole Lua number. [-0, +0, e] */

/* entry.table, key, field, into the table on top: the key up to its first NUL byte, the field behind it. [-0, +0, m] */
void ms_value_set_entry(lua_State *L, const char *table, struct ms_bytes key);

/* bytes.data == NULL pushes nil; an int64 that is not 8 bytes is raised. [-0, +1, e] */
void ms_value_push(lua_State *L, struct ms_json_scope *scope, enum ms_lua_type type, struct ms_bytes bytes);

/* Appends the bytes of the value at index. Raises what can't be a value of this type. [-0, +0, e] */
void ms_value_write(lua_State *L, struct ms_json_scope *scope, enum ms_lua_type type, int index, struct ms_buf *out);

#endif
