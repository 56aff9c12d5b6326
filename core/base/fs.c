#include "fs.h"

#include <stdio.h>

#include "error.h"

int ms_path(char path[MS_PATH_MAX], const char *dir, const char *name)
{
    int length = snprintf(path, MS_PATH_MAX, "%s/%s", dir, name);
    if (length < 0 || length >= MS_PATH_MAX) return ms_fail(MS_E_LIMIT, "path too long: %.200s/%.100s", dir, name);
    return 0;
}

int ms_fs_write_all(struct ms_fs *fs, struct ms_file *file, uint64_t offset, const void *data, size_t size)
{
    const uint8_t *at = data;
    while (size > 0) {
        struct ms_bytes part = ms_bytes(at, size);
        size_t put = 0;
        int rc = fs->ops->write(fs, file, offset, &part, 1, &put);
        if (rc) return rc;
        if (put == 0 || put > size) return ms_fail(MS_E_IO, "a write of %zu bytes wrote %zu", size, put);
        at += put;
        offset += put;
        size -= put;
    }
    return 0;
}

int ms_fs_read_all(struct ms_fs *fs, struct ms_file *file, uint64_t offset, void *data, size_t size)
{
    uint8_t *at = data;
    while (size > 0) {
        size_t got = 0;
        int rc = fs->ops->read(fs, file, offset, at, size, &got);
        if (rc) return rc;
        if (got == 0) return ms_fail(MS_E_DAMAGED, "the file ends at %llu, %zu bytes early", (unsigned long long)offset, size);
        at += got;
        offset += got;
        size -= got;
    }
    return 0;
}

static int write_synced(struct ms_fs *fs, const char *path, const void *data, size_t size)
{
    struct ms_file *file = NULL;
    int rc = fs->ops->open(fs, path, MS_FS_CREATE, &file);
    if (rc) return rc;
    rc = ms_fs_write_all(fs, file, 0, data, size);
    if (!rc) rc = fs->ops->sync(fs, file);
    fs->ops->close(fs, file);
    return rc;
}

int ms_fs_replace(struct ms_fs *fs, const char *dir, const char *name, const void *data, size_t size)
{
    char path[MS_PATH_MAX], temporary[MS_PATH_MAX], temporary_name[256];
    (void)snprintf(temporary_name, sizeof temporary_name, "%s.tmp", name);
    int rc = ms_path(path, dir, name);
    if (!rc) rc = ms_path(temporary, dir, temporary_name);
    if (rc) return rc;
    rc = write_synced(fs, temporary, data, size);
    if (!rc) rc = fs->ops->rename(fs, temporary, path);
    if (rc) { /* on a full disk the temporary file would only make things worse */
        char cause[MS_ERROR_SIZE];
        (void)snprintf(cause, sizeof cause, "%s", ms_fail_message(rc));
        (void)fs->ops->remove(fs, temporary);
        return ms_fail(rc, "%s", cause);
    }
    return fs->ops->sync_dir(fs, dir);
}

int ms_fs_read_file(struct ms_fs *fs, const char *path, size_t limit, struct ms_buf *buf)
{
    struct ms_file *file = NULL;
    uint64_t size = 0;
    int rc = fs->ops->open(fs, path, MS_FS_READ, &file);
    if (rc) return rc;
    rc = fs->ops->size(fs, file, &size);
    if (!rc && size > limit) rc = ms_fail(MS_E_LIMIT, "%s has %llu bytes, more than %zu", path, (unsigned long long)size, limit);
    if (!rc && size > 0) {
        uint8_t *room = ms_buf_extend(buf, (size_t)size);
        rc = room ? ms_fs_read_all(fs, file, 0, room, (size_t)size) : MS_E_MEMORY;
        if (rc && room) buf->size -= (size_t)size;
    }
    fs->ops->close(fs, file);
    return rc;
}

struct removal {
    struct ms_fs *fs;
    const char *dir;
};

static int remove_one(void *context, const char *name)
{
    struct removal *removal = context;
    char path[MS_PATH_MAX];
    int rc = ms_path(path, removal->dir, name);
    if (!rc) rc = removal->fs->ops->remove(removal->fs, path);
    return rc == MS_E_NOT_FOUND ? 0 : rc;
}

int ms_fs_remove_tree(struct ms_fs *fs, const char *path)
{
    struct removal removal = {fs, path};
    int rc = fs->ops->list(fs, path, remove_one, &removal);
    if (!rc) rc = fs->ops->remove(fs, path);
    return rc == MS_E_NOT_FOUND ? 0 : rc;
}
