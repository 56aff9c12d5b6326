/* What a policy file returned -> numbers, patterns, functions. lua/metasync/check.lua has looked at every field; here its lists are only
 * taken over. Runs inside of a protected call: what raises is an error of the file. */
#include "policy_inside.h"

#include <lauxlib.h>
#include <stdio.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "../sync/patterns.h"
#include "../sync/policy.h"
#include "fields.h"

/* ---- numbers to Lua ------------------------------------------------------------------------------------------------------------- */

/* [-0, +1, m] */
static void push_numbers(lua_State *L, const struct ms_field *fields, size_t count, const void *in)
{
    lua_createtable(L, 0, (int)count);
    for (size_t i = 0; i < count; i++) {
        lua_pushnumber(L, (lua_Number)ms_field_get(&fields[i], in));
        lua_setfield(L, -2, fields[i].name);
    }
}

void ms_lua_push_policy(lua_State *L, const struct ms_policy *policy, bool by_name)
{
    push_numbers(L, ms_policy_fields, ms_policy_field_count, policy);
    lua_createtable(L, 0, 0);
    for (uint32_t i = 0; i < policy->table_count; i++) {
        const struct ms_table_policy *table = &policy->tables[i];
        push_numbers(L, ms_table_fields, ms_table_field_count, table);
        if (by_name) {
            lua_setfield(L, -2, table->name);
            continue;
        }
        lua_createtable(L, 0, 2);
        lua_insert(L, -2);
        lua_setfield(L, -2, "numbers");
        lua_pushstring(L, table->name);
        lua_setfield(L, -2, "name");
        lua_rawseti(L, -2, (int)i + 1);
    }
}

/* ---- numbers from Lua ------------------------------------------------------------------------------------------------------------ */

/* The table with the numbers is on top. What the file left alone stays bit for bit: the host may have said more than 2^53. [-0, +0, e] */
static void take_numbers(lua_State *L, const struct ms_field *fields, size_t count, void *in)
{
    for (size_t i = 0; i < count; i++) {
        lua_getfield(L, -1, fields[i].name);
        lua_Number number = lua_tonumber(L, -1);
        bool same = number == (lua_Number)ms_field_get(&fields[i], in);
        if (lua_type(L, -1) != LUA_TNUMBER || number < 0) luaL_error(L, "%s is no number", fields[i].name);
        if (!same && !ms_field_set(&fields[i], in, (uint64_t)number))
            luaL_error(L, "%s is out of range", fields[i].name);
        lua_pop(L, 1);
    }
}

/* A text field of the table on top; "" if it is none. [-0, +0, e] */
static void take_text(lua_State *L, const char *name, char *to, size_t size)
{
    lua_getfield(L, -1, name);
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    (void)snprintf(to, size, "%s", text);
    lua_pop(L, 1);
}

static void take_tables(lua_State *L, struct ms_lua_rules *lua)
{
    struct ms_policy *policy = &lua->rules.policy;
    lua_getfield(L, -1, "tables");
    size_t count = lua_objlen(L, -1);
    if (count > MS_POLICY_TABLES_MAX) luaL_error(L, "too many tables");
    memset(policy->tables, 0, sizeof policy->tables);
    policy->table_count = (uint32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        lua_rawgeti(L, -1, (int)i + 1);
        struct ms_table_policy *table = &policy->tables[i];
        take_text(L, "name", table->name, sizeof table->name);
        lua_getfield(L, -1, "json");
        lua->json[i] = lua_toboolean(L, -1);
        lua_pop(L, 1);
        lua_getfield(L, -1, "numbers");
        take_numbers(L, ms_table_fields, ms_table_field_count, table);
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

static int take_patterns(lua_State *L, struct ms_lua_rules *lua)
{
    lua_getfield(L, -1, "patterns");
    int count = (int)lua_objlen(L, -1), rc = 0;
    if (count > 0) rc = ms_patterns_new(&lua->rules.patterns);
    for (int i = 1; i <= count && !rc; i++) {
        char table[MS_TABLE_NAME_MAX + 1];
        lua_rawgeti(L, -1, i);
        take_text(L, "table", table, sizeof table);
        lua_getfield(L, -1, "include");
        bool include = lua_toboolean(L, -1);
        lua_getfield(L, -2, "glob");
        size_t size;
        const char *glob = lua_tolstring(L, -1, &size);
        rc = ms_patterns_add(lua->rules.patterns, table, ms_bytes(glob, size), include);
        if (rc) rc = ms_fail_wrap(rc, "replicate.%s.%s", include ? "include" : "exclude", table);
        lua_pop(L, 3);
    }
    lua_pop(L, 1);
    return rc;
}

/* ---- functions ------------------------------------------------------------------------------------------------------------------- */

static uint32_t bit_of(const char *name)
{
    static const struct {
        const char *name;
        uint32_t bit;
    } bits[] = {{"filter", MS_RULES_FILTER}, {"resolve", MS_RULES_RESOLVE}, {"flush", MS_RULES_FLUSH}, {"on_event", MS_RULES_EVENT}};
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++)
        if (strcmp(bits[i].name, name) == 0) return bits[i].bit;
    return 0;
}

/* The list of {name, table, fn} is on top. [-0, +0, e] */
static int take_functions(lua_State *L, struct ms_lua_rules *lua)
{
    size_t count = lua_objlen(L, -1);
    if (count == 0) return 0;
    lua->functions = ms_alloc_zero(count * sizeof *lua->functions);
    if (!lua->functions) return MS_E_MEMORY;
    lua->function_count = (uint32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        struct ms_lua_function *function = &lua->functions[i];
        lua_rawgeti(L, -1, (int)i + 1);
        take_text(L, "name", function->name, sizeof function->name);
        take_text(L, "table", function->table, sizeof function->table);
        lua_getfield(L, -1, "fn");
        lua_pushvalue(L, -1);
        lua_Debug about = {0};
        (void)lua_getinfo(L, ">S", &about);
        (void)snprintf(function->file, sizeof function->file, "%s", about.short_src);
        function->line = about.linedefined;
        function->ref = luaL_ref(L, LUA_REGISTRYINDEX);
        lua->rules.functions |= bit_of(function->name);
        if (strcmp(function->name, "filter") == 0) lua->filter = function;
        lua_pop(L, 1);
    }
    return 0;
}

void ms_lua_read_functions(lua_State *L, struct ms_lua_job *job, int glue, int policy)
{
    struct ms_lua_rules *lua = job->lua;
    for (uint32_t i = 0; i < lua->function_count; i++) lua->functions[i].ref = LUA_NOREF;
    lua_getfield(L, glue, "functions");
    lua_pushvalue(L, policy);
    lua_call(L, 1, 1);
    size_t count = lua_objlen(L, -1);
    for (size_t i = 1; i <= count; i++) {
        char name[sizeof lua->functions->name], table[sizeof lua->functions->table];
        lua_rawgeti(L, -1, (int)i);
        take_text(L, "name", name, sizeof name);
        take_text(L, "table", table, sizeof table);
        lua_getfield(L, -1, "fn");
        int ref = luaL_ref(L, LUA_REGISTRYINDEX);
        for (uint32_t f = 0; f < lua->function_count; f++) {
            struct ms_lua_function *function = &lua->functions[f];
            if (strcmp(function->name, name) == 0 && strcmp(function->table, table) == 0) function->ref = ref;
        }
        lua_pop(L, 1);
    }
    for (uint32_t i = 0; i < lua->function_count; i++)
        if (lua->functions[i].ref == LUA_NOREF) luaL_error(L, "%s is no longer a function", lua->functions[i].name);
}

/* ---- problems -------------------------------------------------------------------------------------------------------------------- */

/* The list of {path, text} is on top. [-0, +0, e] */
static int report_problems(lua_State *L, struct ms_lua_job *job, size_t count)
{
    char first[MS_ERROR_SIZE / 2];
    for (size_t i = 1; i <= count; i++) {
        char text[MS_ERROR_SIZE];
        lua_rawgeti(L, -1, (int)i);
        take_text(L, "text", text, sizeof text);
        lua_pop(L, 1);
        if (i == 1) (void)snprintf(first, sizeof first, "%s", text);
        if (!job->problems) continue;
        ms_buf_add(job->problems, text, strlen(text));
        ms_buf_add(job->problems, "\n", 1);
    }
    if (count == 1) return ms_fail(MS_E_INVALID, "%s: %s", job->lua->file, first);
    return ms_fail(MS_E_INVALID, "%s: %s (and %zu more)", job->lua->file, first, count - 1);
}

/* Where ms_policy_check names a field of C, the message gets the field's path in the file, too. [-0, +0, e] */
static int check_numbers(lua_State *L, struct ms_lua_job *job, int glue)
{
    int rc = ms_policy_check(&job->lua->rules.policy);
    if (!rc) return 0;
    char cause[MS_ERROR_SIZE / 2], field[64] = "";
    (void)snprintf(cause, sizeof cause, "%s", ms_fail_message(rc));
    (void)sscanf(cause, "policy.%63[a-z0-9_] is", field);
    lua_getfield(L, glue, "path_of");
    lua_pushstring(L, field);
    lua_call(L, 1, 1);
    const char *path = lua_tostring(L, -1);
    if (job->problems) {
        if (path) ms_buf_add(job->problems, path, strlen(path));
        ms_buf_add(job->problems, ": ", path ? 2 : 0);
        ms_buf_add(job->problems, cause, strlen(cause));
        ms_buf_add(job->problems, "\n", 1);
    }
    rc = ms_fail(rc, "%s: %s%s%s", job->lua->file, path ? path : "", path ? ": " : "", cause);
    lua_pop(L, 1);
    return rc;
}

void ms_lua_read(lua_State *L, struct ms_lua_job *job, int glue, int policy)
{
    struct ms_lua_rules *lua = job->lua;
    lua_getfield(L, glue, "read");
    lua_pushvalue(L, policy);
    lua_createtable(L, 0, 2);
    ms_lua_push_policy(L, &lua->base, true);
    lua_setfield(L, -3, "tables");
    lua_setfield(L, -2, "numbers");
    lua_call(L, 2, 2); /* what was read, problems */
    size_t problems = lua_objlen(L, -1);
    if (problems) {
        job->rc = report_problems(L, job, problems);
    } else {
        lua_pop(L, 1);
        take_text(L, "name", lua->rules.name, sizeof lua->rules.name);
        take_tables(L, lua);
        lua_getfield(L, -1, "numbers");
        take_numbers(L, ms_policy_fields, ms_policy_field_count, &lua->rules.policy);
        lua_pop(L, 1);
        job->rc = check_numbers(L, job, glue);
        if (!job->rc) job->rc = take_patterns(L, lua);
        lua_getfield(L, -1, "functions");
        if (!job->rc) job->rc = take_functions(L, lua);
    }
    lua_settop(L, policy);
}
