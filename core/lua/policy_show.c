/* A policy as JSON text, for status and `metasyncctl policy show`. */
#include "policy_inside.h"

#include <lauxlib.h>
#include <stdatomic.h>
#include <stdio.h>

#include "../base/error.h"

/* The object's text; drops the reference. The text is malloc's: ms_free gives it back. */
static int finish(json_t *object, int failed, char **json)
{
    *json = failed ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return *json ? 0 : ms_fail(MS_E_MEMORY, "out of memory for the text of a policy");
}

/* Text of any bytes: what is no UTF-8 is shown as '?'. */
static json_t *text_of(const char *text)
{
    json_t *json = json_string(text);
    if (json) return json;
    char plain[512];
    (void)snprintf(plain, sizeof plain, "%s", text);
    for (char *at = plain; *at; at++)
        if (*at < ' ' || *at > '~') *at = '?';
    return json_string(plain);
}

/* ---- what happened so far ------------------------------------------------------------------------------------------------------- */

static json_t *describe_function(const struct ms_lua_function *function)
{
    json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:b}", "name", function->name, "calls", (json_int_t)function->calls, "incidents",
                               (json_int_t)function->incidents, "busy", (json_int_t)function->busy, "quarantined",
                               (int)atomic_load(&function->quarantined));
    int failed = !object;
    if (function->table[0]) failed |= json_object_set_new(object, "table", json_string(function->table));
    if (function->last.code) {
        json_t *last = json_pack("{s:i}", "line", function->last.line);
        failed |= json_object_set_new(last, "file", text_of(function->last.file));
        failed |= json_object_set_new(last, "message", text_of(function->last.message));
        failed |= json_object_set_new(object, "last", last);
    }
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *describe_functions(const struct ms_lua_rules *lua)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < lua->function_count; i++) {
        if (json_array_append_new(list, describe_function(&lua->functions[i])) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *describe_log(const struct ms_lua_rules *lua)
{
    json_t *list = json_array();
    uint64_t from = lua->log_count > MS_LUA_LOG_LINES ? lua->log_count - MS_LUA_LOG_LINES : 0;
    for (uint64_t i = from; i < lua->log_count; i++) (void)json_array_append_new(list, json_string(lua->log[i % MS_LUA_LOG_LINES]));
    return list;
}

int ms_lua_describe(struct ms_rules *rules, char **json)
{
    struct ms_lua_rules *lua = ms_lua_of(rules);
    char hash[20];
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)rules->hash);
    json_t *object = json_object();
    int failed = json_object_set_new(object, "name", text_of(rules->name));
    failed |= json_object_set_new(object, "file", text_of(lua->path));
    failed |= json_object_set_new(object, "hash", json_string(hash));
    (void)pthread_mutex_lock(&lua->gate.mutex);
    failed |= json_object_set_new(object, "functions", describe_functions(lua));
    failed |= json_object_set_new(object, "log", describe_log(lua));
    failed |= json_object_set_new(object, "rebuilt", json_integer((json_int_t)lua->rebuilt));
    (void)pthread_mutex_unlock(&lua->gate.mutex);
    return finish(object, failed, json);
}

/* ---- every field ---------------------------------------------------------------------------------------------------------------- */

struct show {
    const struct ms_policy *policy;
    json_t *object;
    int failed;
};

static int show_job(lua_State *L)
{
    struct show *show = lua_touserdata(L, 1);
    ms_sandbox_push_required(L, "metasync.schema");
    lua_getfield(L, -1, "show");
    ms_lua_push_policy(L, show->policy, false);
    lua_call(L, 2, 1);
    int count = (int)lua_objlen(L, -1);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(L, -1, i);
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, 2);
        show->failed |= json_object_set_new(show->object, lua_tostring(L, -2), json_string(lua_tostring(L, -1)));
        lua_pop(L, 3);
    }
    return 0;
}

int ms_lua_show(const struct ms_policy *policy, char **json)
{
    static const struct ms_sandbox_limits limits = {.instructions = 100000000, .memory = 64 << 20};
    struct ms_sandbox *sandbox = NULL;
    int rc = ms_sandbox_new(&limits, NULL, NULL, &sandbox);
    if (rc) return rc;
    struct show show = {policy, json_object(), 0};
    for (size_t i = 0; i < ms_lua_text_count && !rc; i++)
        rc = ms_sandbox_offer(sandbox, ms_lua_texts[i].name, ms_lua_texts[i].text, MS_SANDBOX_TRUSTED);
    if (!rc) rc = ms_sandbox_protect(sandbox, show_job, &show, NULL);
    ms_sandbox_free(sandbox);
    if (!rc) return finish(show.object, show.failed, json);
    json_decref(show.object);
    return rc;
}
