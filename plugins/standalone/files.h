/* The daemon's work with RocketMQ files: import at start and on demand, export after changes and on demand. */
#ifndef METASYNCD_FILES_H
#define METASYNCD_FILES_H

#include <pthread.h>

#include "options.h"

struct entered;

struct files {
    struct ms_node *node;
    const struct options *options;
    pthread_mutex_t mutex; /* one import at a time: control threads and the main thread */
    uint64_t exported;     /* position of the last export of options->export */
    struct entered *entered; /* what a reload of the policy wants imported again */
};

/* Before a node that has no history yet leads for an import: whether the files can be read. Otherwise it would open an epoch, be left
 * with nothing in it, and be refused by followers for that. 0 without a look where there is history. */
int files_check(struct files *files, const char *dir);

/* 0 or MS_E_*, and a report as JSON text (free with ms_free; may be NULL on failure). */
int files_import(struct files *files, const char *dir, bool force, char **report);

/* Exports to options->export if anything was applied since the last time. */
int files_export_changes(struct files *files);

/* The commands "import" and "export" of the control socket: an ms_control_fn. */
int files_control(void *context, const char *request, char **reply);

#endif
