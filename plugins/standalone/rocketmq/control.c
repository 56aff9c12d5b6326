#include "control.h"

#include <jansson.h>
#include <pthread.h>
#include <string.h>

#include "../../../core/base/error.h"
#include "../../../core/drive/fs.h"
#include "export.h"

/* Two exports to one directory would take each other's new file for the old one. */
static pthread_mutex_t exporting = PTHREAD_MUTEX_INITIALIZER;

static json_t *describe_file(int file, const struct ms_rocketmq_export_file *written)
{
    json_t *entry = json_pack("{s:s,s:I,s:I,s:b,s:b}", "file", ms_rocketmq_file_names[file], "rows", (json_int_t)written->rows, "bytes",
                              (json_int_t)written->bytes, "written", (int)written->written, "kept_as_bak", (int)written->kept);
    if (entry && written->trouble[0]) (void)json_object_set_new(entry, "trouble", json_string(written->trouble));
    return entry;
}

static int describe(const struct ms_rocketmq_export_report *result, uint64_t from, uint64_t to, char **report)
{
    json_t *files = json_array();
    for (int i = 0; i < MS_ROCKETMQ_FILES; i++) (void)json_array_append_new(files, describe_file(i, &result->files[i]));
    json_t *object = json_pack("{s:I,s:I,s:o}", "from", (json_int_t)from, "to", (json_int_t)to, "files", files);
    *report = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return *report ? 0 : ms_fail(MS_E_MEMORY, "out of memory for the report");
}

int ms_rocketmq_export_node(struct ms_node *node, const char *dir, char **report)
{
    struct ms_rocketmq_node tables;
    struct ms_rocketmq_export_report result = {0};
    struct ms_position before, after;
    *report = NULL;
    (void)pthread_mutex_lock(&exporting);
    ms_rocketmq_node_init(&tables, node, NULL);
    int rc = ms_position(node, &before);
    if (!rc) rc = ms_rocketmq_export(&tables.tables, ms_fs_posix_shared(), dir, &result); /* a broker of another user reads them */
    if (!rc) rc = ms_position(node, &after);
    (void)pthread_mutex_unlock(&exporting);
    return rc ? rc : describe(&result, before.applied, after.applied, report);
}

int ms_rocketmq_reply(const char *report, char **reply)
{
    json_t *object = json_object(), *parsed = json_loads(report, 0, NULL);
    bool whole = json_object_set_new(object, "ok", json_true()) == 0 && json_object_update(object, parsed) == 0;
    *reply = whole ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(parsed);
    json_decref(object);
    return *reply ? 0 : ms_fail(MS_E_MEMORY, "out of memory for a reply");
}

int ms_rocketmq_export_command(struct ms_node *node, const char *text, char **reply)
{
    json_t *request = json_loads(text, 0, NULL);
    const char *command = json_string_value(json_object_get(request, "command"));
    const char *dir = json_string_value(json_object_get(request, "dir"));
    char *report = NULL;
    int rc = 0;
    if (!command || strcmp(command, "export"))
        rc = ms_fail(MS_E_INVALID, "the command %s is not known", command ? command : "(none)");
    else if (!dir)
        rc = ms_fail(MS_E_INVALID, "export needs a dir");
    else
        rc = ms_rocketmq_export_node(node, dir, &report);
    if (!rc) rc = ms_rocketmq_reply(report, reply);
    ms_free(report);
    json_decref(request);
    return rc;
}
