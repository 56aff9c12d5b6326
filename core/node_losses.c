#include "node_losses.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"

#define REPORT_BYTES_MAX (UINT64_C(1) << 30)

struct reports {
    const char *folder;
    char (*paths)[MS_PATH_MAX];
    size_t count, capacity;
};

bool ms_losses_named(const char *name)
{
    size_t size = strlen(name);
    return strncmp(name, "loss-", 5) == 0 && size > 6 && strcmp(name + size - 6, ".jsonl") == 0;
}

static int take_name(void *context, const char *name)
{
    struct reports *reports = context;
    if (!ms_losses_named(name)) return 0;
    if (reports->count == reports->capacity) {
        size_t capacity = reports->capacity ? reports->capacity * 2 : 16;
        void *grown = ms_realloc(reports->paths, capacity * sizeof *reports->paths);
        if (!grown) return MS_E_MEMORY;
        reports->paths = grown;
        reports->capacity = capacity;
    }
    return ms_path(reports->paths[reports->count++], reports->folder, name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

int ms_losses_read(struct ms_fs *fs, const char *path, ms_loss_fn fn, void *context)
{
    struct ms_buf text;
    struct ms_loss_line line = {.path = path};
    ms_buf_init(&text);
    int rc = ms_fs_read_file(fs, path, REPORT_BYTES_MAX, &text);
    const char *at = (const char *)ms_buf_bytes(&text).data, *end = at + text.size, *stop;
    for (; !rc && at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
        line.number++;
        line.text = ms_bytes(at, (size_t)(stop - at));
        rc = fn(context, &line);
    }
    ms_buf_close(&text);
    return rc;
}

int ms_losses_read_all(struct ms_fs *fs, const char *folder, ms_loss_fn fn, void *context)
{
    struct reports reports = {.folder = folder};
    int rc = fs->ops->list(fs, folder, take_name, &reports);
    if (reports.count) qsort(reports.paths, reports.count, sizeof *reports.paths, by_name);
    for (size_t i = 0; i < reports.count && !rc; i++) rc = ms_losses_read(fs, reports.paths[i], fn, context);
    ms_release(reports.paths);
    return rc;
}
