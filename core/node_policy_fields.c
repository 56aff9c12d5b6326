/* The numbers of a policy, named and written as a policy file would (core/lua knows how): all of them, and how two policies differ. */
#include "lua/policy.h"
#include "node_report.h"

json_t *ms_report_fields(const struct ms_policy *policy)
{
    char *text = NULL;
    json_t *fields = ms_lua_show(policy, &text) == 0 ? json_loads(text, 0, NULL) : NULL;
    ms_free(text);
    return fields;
}

/* JSON null for a field that one of them does not have: of a table that it says nothing of. */
static void add_change(json_t *list, const char *field, json_t *was, json_t *is)
{
    if (was && is && json_equal(was, is)) return;
    (void)json_array_append_new(list, json_pack("{s:s,s:O?,s:O?}", "field", field, "was", was, "is", is));
}

json_t *ms_report_changes(const struct ms_policy *was, const struct ms_policy *is)
{
    json_t *list = json_array(), *value;
    const char *name;
    if (memcmp(was, is, sizeof *was) == 0) return list; /* the usual case in a status */
    json_t *before = ms_report_fields(was), *after = ms_report_fields(is);
    json_object_foreach(after, name, value) add_change(list, name, json_object_get(before, name), value);
    json_object_foreach(before, name, value)
        if (!json_object_get(after, name)) add_change(list, name, value, NULL);
    json_decref(before);
    json_decref(after);
    return list;
}

json_t *ms_report_waiting(const struct ms_policy *file, const struct ms_policy *running)
{
    json_t *names = json_array(), *changes = ms_report_changes(running, file);
    for (size_t i = 0; i < json_array_size(changes); i++)
        (void)json_array_append(names, json_object_get(json_array_get(changes, i), "field"));
    json_decref(changes);
    return names;
}
