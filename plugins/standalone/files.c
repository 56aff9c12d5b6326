#include "files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/base/error.h"
#include "../../core/drive/fs.h"
#include "rocketmq/control.h"
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

int files_export_changes(struct files *files)
{
    struct ms_position position;
    int rc = ms_position(files->node, &position);
    if (rc || position.applied == 0 || position.applied == files->exported) return rc;
    char *report;
    rc = ms_rocketmq_export_node(files->node, files->options->export, &report);
    ms_free(report);
    if (!rc) files->exported = position.applied;
    return rc;
}

int files_control(void *context, const char *text, char **reply)
{
    struct files *files = context;
    json_t *request = json_loads(text, 0, NULL);
    const char *command = json_string_value(json_object_get(request, "command"));
    const char *dir = json_string_value(json_object_get(request, "dir"));
    char *report = NULL;
    int rc = 0;
    if (!command || strcmp(command, "import"))
        rc = ms_rocketmq_export_command(files->node, text, reply);
    else if (!dir)
        rc = ms_fail(MS_E_INVALID, "import needs a dir");
    else
        rc = files_import(files, dir, json_is_true(json_object_get(request, "force")), &report);
    if (!rc && report) rc = ms_rocketmq_reply(report, reply);
    ms_free(report);
    json_decref(request);
    return rc;
}
