#include "files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/base/error.h"
#include "../../core/drive/fs.h"
#include "rocketmq/export.h"
#include "rocketmq/files.h"
#include "rocketmq/import.h"

/* The numbers of a policy file may change at any time: then nobody says here which tables are buffered. */
static const struct ms_policy *policy_of(const struct files *files)
{
    return files->options->policy_file ? NULL : &files->options->policy;
}

enum { IMPORT_WAIT_MS = 30000, IMPORT_LIST_MAX = 100 };

int files_import(struct files *files, const char *dir, bool force, char **report)
{
    struct ms_rocketmq_node tables;
    struct ms_rocketmq_report result = {0};
    struct ms_rocketmq_import_options options = {.force = force, .list_max = IMPORT_LIST_MAX, .timeout_ms = IMPORT_WAIT_MS};
    struct ms_position position;
    *report = NULL;
    int rc = ms_position(files->node, &position);
    if (rc) return rc;
    if (position.role != MS_ROLE_LEADER) return ms_fail(MS_E_NOT_LEADER, "only a leader imports; a follower gets what its leader has");
    pthread_mutex_lock(&files->mutex);
    ms_rocketmq_node_init(&tables, files->node, policy_of(files));
    rc = ms_rocketmq_import(&tables.tables, ms_fs_posix(), dir, &options, &result);
    pthread_mutex_unlock(&files->mutex);
    if (!rc) rc = ms_rocketmq_report_json(&result, report);
    ms_rocketmq_report_close(&result);
    return rc;
}

int files_check(struct files *files, const char *dir)
{
    struct ms_position position;
    struct ms_rocketmq_files loaded = {0};
    int rc = ms_position(files->node, &position);
    if (rc || position.applied > 0) return rc;
    rc = ms_rocketmq_load(ms_fs_posix(), dir, &loaded);
    ms_rocketmq_files_close(&loaded);
    return rc;
}

static json_t *export_report(const struct ms_rocketmq_export_report *report)
{
    json_t *files = json_array();
    for (int i = 0; i < MS_ROCKETMQ_FILES; i++) {
        const struct ms_rocketmq_export_file *file = &report->files[i];
        json_t *entry = json_pack("{s:s,s:I,s:I,s:b,s:b}", "file", ms_rocketmq_file_names[i], "rows", (json_int_t)file->rows, "bytes",
                                  (json_int_t)file->bytes, "written", (int)file->written, "kept_as_bak", (int)file->kept);
        if (entry && file->trouble[0]) json_object_set_new(entry, "trouble", json_string(file->trouble));
        json_array_append_new(files, entry);
    }
    return json_pack("{s:o}", "files", files);
}

int files_export(struct files *files, const char *dir, char **report)
{
    struct ms_rocketmq_node tables;
    struct ms_rocketmq_export_report result = {0};
    *report = NULL;
    pthread_mutex_lock(&files->mutex);
    ms_rocketmq_node_init(&tables, files->node, policy_of(files));
    int rc = ms_rocketmq_export(&tables.tables, ms_fs_posix_shared(), dir, &result); /* a broker of another user reads them */
    pthread_mutex_unlock(&files->mutex);
    if (rc) return rc;
    json_t *object = export_report(&result);
    *report = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return *report ? 0 : ms_fail(MS_E_MEMORY, "out of memory for the report");
}

int files_export_changes(struct files *files)
{
    struct ms_position position;
    int rc = ms_position(files->node, &position);
    if (rc || position.applied == 0 || position.applied == files->exported) return rc;
    char *report;
    rc = files_export(files, files->options->export, &report);
    ms_free(report);
    if (!rc) files->exported = position.applied;
    return rc;
}

/* {"ok":true,"files":[...],...}. */
static int reply_with(const char *report, char **reply)
{
    json_t *object = json_object(), *parsed = json_loads(report, 0, NULL);
    json_object_set_new(object, "ok", json_true());
    json_object_update(object, parsed);
    json_decref(parsed);
    *reply = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return *reply ? 0 : ms_fail(MS_E_MEMORY, "out of memory for a reply");
}

int files_control(void *context, const char *text, char **reply)
{
    struct files *files = context;
    json_t *request = json_loads(text, 0, NULL);
    const char *command = json_string_value(json_object_get(request, "command"));
    const char *dir = json_string_value(json_object_get(request, "dir"));
    char *report = NULL;
    int rc = 0;
    if (!command || (strcmp(command, "import") && strcmp(command, "export")))
        rc = ms_fail(MS_E_INVALID, "the command %s is not known", command ? command : "(none)");
    else if (!dir)
        rc = ms_fail(MS_E_INVALID, "%s needs a dir", command);
    else if (strcmp(command, "import") == 0)
        rc = files_import(files, dir, json_is_true(json_object_get(request, "force")), &report);
    else
        rc = files_export(files, dir, &report);
    if (!rc) rc = reply_with(report, reply);
    ms_free(report);
    json_decref(request);
    return rc;
}
