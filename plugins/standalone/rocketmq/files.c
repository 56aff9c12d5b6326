#include "files.h"

#include <stdio.h>
#include <sys/stat.h>

const char *const ms_rocketmq_origin_names[3] = {
    [MS_ROCKETMQ_MISSING] = "missing",
    [MS_ROCKETMQ_JSON] = "json",
    [MS_ROCKETMQ_BAK] = "bak",
};

/* Taken before the text is read: if the broker replaces the file in between, the newer text counts as of the older time, and
 * the next import sees a newer file. */
static int64_t mtime_ms(const char *path)
{
    struct stat st;
    if (stat(path, &st)) return 0;
    return (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
}

static bool is_damage(int rc)
{
    return rc == MS_E_FORMAT || rc == MS_E_LIMIT || rc == MS_E_DAMAGED;
}

/* One copy of one file. NOT_FOUND; damage; or what ends everything. */
static int load_copy(struct ms_fs *fs, const char *path, int file, struct ms_rows *rows, struct ms_rocketmq_source *source)
{
    struct ms_buf text = {0};
    size_t first = rows->count;
    source->mtime_ms = mtime_ms(path);
    int rc = ms_fs_read_file(fs, path, MS_JSON_SIZE_MAX, &text);
    if (!rc) rc = ms_rocketmq_parse(file, path, ms_buf_bytes(&text), rows, &source->version);
    ms_buf_close(&text);
    source->first = first;
    source->count = rows->count - first;
    return rc;
}

static int load_file(struct ms_fs *fs, const char *dir, int file, struct ms_rows *rows, struct ms_rocketmq_source *source)
{
    char path[MS_PATH_MAX], backup[MS_PATH_MAX], name[64];
    (void)snprintf(name, sizeof name, "%s.bak", ms_rocketmq_file_names[file]);
    int rc = ms_path(path, dir, ms_rocketmq_file_names[file]);
    if (!rc) rc = ms_path(backup, dir, name);
    if (rc) return rc;

    int first = load_copy(fs, path, file, rows, source);
    if (first == 0) source->origin = MS_ROCKETMQ_JSON;
    if (first != MS_E_NOT_FOUND && !is_damage(first)) return first;
    if (is_damage(first)) (void)snprintf(source->trouble, sizeof source->trouble, "%s", ms_fail_message(first));
    else (void)snprintf(source->trouble, sizeof source->trouble, "%s is missing", path);

    int second = load_copy(fs, backup, file, rows, source);
    if (second == 0) {
        source->origin = MS_ROCKETMQ_BAK;
        return 0;
    }
    source->mtime_ms = 0;
    if (first == MS_E_NOT_FOUND && second == MS_E_NOT_FOUND) {
        source->trouble[0] = '\0';
        return 0;
    }
    if (second == MS_E_NOT_FOUND) return ms_fail(first, "%s; and there is no %s", source->trouble, backup);
    return is_damage(second) ? ms_fail_wrap(second, "%.250s; and its backup", source->trouble) : second;
}

int ms_rocketmq_load(struct ms_fs *fs, const char *dir, struct ms_rocketmq_files *files)
{
    bool any = false;
    int rc = 0;
    *files = (struct ms_rocketmq_files){0};
    for (int file = 0; !rc && file < MS_ROCKETMQ_FILES; file++) {
        rc = load_file(fs, dir, file, &files->rows, &files->sources[file]);
        any = any || files->sources[file].origin != MS_ROCKETMQ_MISSING;
    }
    if (!rc && !any) {
        rc = ms_fail(MS_E_NOT_FOUND, "%s holds none of a broker's files (topics.json, ...)", dir);
    }
    if (rc) ms_rows_close(&files->rows); /* nothing is half loaded */
    return rc;
}

void ms_rocketmq_files_close(struct ms_rocketmq_files *files)
{
    ms_rows_close(&files->rows);
}
