/* The real file system: each operation of base/fs.h is one or two system calls, its errno turned into an MS_E_* and a
 * message with the path.
 *
 * Three choices. sync is fdatasync: it covers the data and the size, the only things that we read back. The lock is an open
 * file description lock (F_OFD_SETLK): unlike flock it works over NFS, unlike F_SETLK it is not lost when some other part of
 * the host opens and closes the same file. Nothing is retried except an interrupted call; above all a failed sync is never
 * tried again, because the kernel may have dropped the pages and the second sync would report a success that is none. */
#include "fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../base/error.h"
#include "../base/mem.h"

enum { PARTS_MAX = 128 };

/* Which of the two instances: see fs.h. */
static bool is_shared(const struct ms_fs *fs)
{
    return fs == ms_fs_posix_shared();
}

struct ms_file {
    int fd;
    bool stream;
    char path[]; /* for messages */
};

static int code_of(int error)
{
    switch (error) {
    case ENOENT: return MS_E_NOT_FOUND;
    case ENOSPC:
    case EDQUOT: return MS_E_NO_SPACE;
    case ENOMEM: return MS_E_MEMORY;
    default: return MS_E_IO;
    }
}

/* The cause goes after the path, so a path that fills the message is cut at its front: its end says more. */
static int fail_with(int error, const char *what, const char *path)
{
    char buffer[128];
    size_t length = strlen(path), shown = MS_ERROR_SIZE - 192;
    const char *cut = length > shown ? "..." : "";
    return ms_fail(code_of(error), "%s %s%s: %s", what, cut, length > shown ? path + length - shown : path,
                   strerror_r(error, buffer, sizeof buffer));
}

static int fail(const char *what, const char *path)
{
    return fail_with(errno, what, path);
}

static int open_fd(struct ms_fs *fs, const char *path, int flags)
{
    int fd;
    do fd = open(path, flags | O_CLOEXEC, is_shared(fs) ? 0666 : 0600);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static int file_new(int fd, const char *path, struct ms_file **file)
{
    size_t size = strlen(path) + 1;
    *file = ms_alloc(sizeof **file + size);
    if (!*file) {
        (void)close(fd);
        return MS_E_MEMORY;
    }
    (*file)->fd = fd;
    (*file)->stream = false;
    memcpy((*file)->path, path, size);
    return 0;
}

static int posix_open(struct ms_fs *fs, const char *path, int mode, struct ms_file **file)
{
    bool create = mode == MS_FS_CREATE || mode == MS_FS_STREAM;
    int flags = create ? O_RDWR | O_CREAT | O_TRUNC : mode == MS_FS_WRITE ? O_RDWR : O_RDONLY;
    *file = NULL;
    int fd = open_fd(fs, path, flags);
    if (fd < 0) return fail(create ? "create" : "open", path);
    int rc = file_new(fd, path, file);
    if (!rc) (*file)->stream = mode == MS_FS_STREAM;
    return rc;
}

static void posix_close(struct ms_fs *fs, struct ms_file *file)
{
    (void)fs;
    if (!file) return;
    (void)close(file->fd); /* nothing that matters is told here: what must be durable was synced */
    ms_release(file);
}

static int posix_size(struct ms_fs *fs, struct ms_file *file, uint64_t *size)
{
    (void)fs;
    struct stat st;
    if (fstat(file->fd, &st)) return fail("size of", file->path);
    *size = (uint64_t)st.st_size;
    return 0;
}

static int posix_read(struct ms_fs *fs, struct ms_file *file, uint64_t offset, void *data, size_t size, size_t *got)
{
    (void)fs;
    ssize_t n;
    do n = pread(file->fd, data, size, (off_t)offset);
    while (n < 0 && errno == EINTR);
    *got = n < 0 ? 0 : (size_t)n;
    return n < 0 ? fail("read", file->path) : 0;
}

static int posix_write(struct ms_fs *fs, struct ms_file *file, uint64_t offset, const struct ms_bytes *parts, size_t count,
                       size_t *put)
{
    (void)fs;
    struct iovec vectors[PARTS_MAX];
    size_t used = count < PARTS_MAX ? count : PARTS_MAX; /* more are a short write */
    for (size_t i = 0; i < used; i++) vectors[i] = (struct iovec){(void *)(uintptr_t)parts[i].data, parts[i].size};
    ssize_t n;
    do n = pwritev(file->fd, vectors, (int)used, (off_t)offset);
    while (n < 0 && errno == EINTR);
    *put = n < 0 ? 0 : (size_t)n;
    return n < 0 ? fail("write", file->path) : 0;
}

static int posix_truncate(struct ms_fs *fs, struct ms_file *file, uint64_t size)
{
    (void)fs;
    int rc;
    do rc = ftruncate(file->fd, (off_t)size);
    while (rc && errno == EINTR);
    return rc ? fail("truncate", file->path) : 0;
}

static int posix_reserve(struct ms_fs *fs, struct ms_file *file, uint64_t size)
{
    (void)fs;
    int err;
    do err = posix_fallocate(file->fd, 0, (off_t)size);
    while (err == EINTR);
    errno = err;
    return err ? fail("reserve", file->path) : 0;
}

static int posix_sync(struct ms_fs *fs, struct ms_file *file)
{
    (void)fs;
    int rc;
    do rc = fdatasync(file->fd);
    while (rc && errno == EINTR);
    if (rc) return fail("sync", file->path);
    /* These pages are the next ones to be taken: fresh ones are dearer to the machine than the write itself. */
    if (file->stream) (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    return 0;
}

static int posix_rename(struct ms_fs *fs, const char *from, const char *to)
{
    (void)fs;
    if (!renameat(AT_FDCWD, from, AT_FDCWD, to)) return 0;
    int error = errno;
    int rc = fail_with(error, "rename to", to);
    return ms_fail_wrap(rc, "%.200s", from);
}

static int posix_remove(struct ms_fs *fs, const char *path)
{
    (void)fs;
    if (!unlink(path)) return 0;
    if (errno == EISDIR && !rmdir(path)) return 0;
    return fail("remove", path);
}

static int posix_mkdir(struct ms_fs *fs, const char *path)
{
    struct stat st;
    if (!mkdir(path, is_shared(fs) ? 0777 : 0700)) return 0;
    int error = errno;
    if (error == EEXIST && !stat(path, &st) && S_ISDIR(st.st_mode)) return 0;
    return fail_with(error, "make directory", path);
}

static int posix_sync_dir(struct ms_fs *fs, const char *path)
{
    int fd = open_fd(fs, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return fail("sync directory", path);
    int rc;
    do rc = fsync(fd);
    while (rc && errno == EINTR);
    int error = rc ? errno : 0;
    (void)close(fd);
    if (error == EINVAL) return 0; /* a file system that can't sync directories has nothing better to offer */
    return error ? fail_with(error, "sync directory", path) : 0;
}

/* All names, one after the other with their NULs. */
static int read_names(const char *path, struct ms_buf *names)
{
    DIR *dir = opendir(path);
    if (!dir) return fail("list", path);
    int error = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        error = errno;
        if (!entry) break;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            ms_buf_add(names, entry->d_name, strlen(entry->d_name) + 1);
    }
    (void)closedir(dir);
    if (error) return fail_with(error, "list", path);
    return names->failed ? MS_E_MEMORY : 0;
}

/* The names are read before the first is given, so that fn may remove and create files: some file systems leave names out
 * when a directory changes while it is read. */
static int posix_list(struct ms_fs *fs, const char *path, ms_fs_list_fn fn, void *context)
{
    (void)fs;
    struct ms_buf names;
    ms_buf_init(&names);
    int rc = read_names(path, &names);
    for (size_t at = 0; !rc && at < names.size;) {
        const char *name = (const char *)names.data + at;
        at += strlen(name) + 1;
        rc = fn(context, name);
    }
    ms_buf_close(&names);
    return rc;
}

static int fail_locked(int fd, const char *path)
{
    char holder[24];
    ssize_t n = pread(fd, holder, sizeof holder - 1, 0);
    holder[n > 0 ? n : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    return ms_fail(MS_E_LOCKED, "%.400s is locked by process %s", path, holder[0] ? holder : "(unknown)");
}

/* Takes the lock and writes our pid, for the message of whoever comes second. */
static int take_lock(int fd, const char *path)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int rc;
    do rc = fcntl(fd, F_OFD_SETLK, &whole);
    while (rc && errno == EINTR);
    if (rc && (errno == EAGAIN || errno == EACCES)) return fail_locked(fd, path);
    if (rc) return fail("lock", path);
    int length = dprintf(fd, "%ld\n", (long)getpid());
    if (length < 0 || ftruncate(fd, length)) return fail("write process id into", path);
    return 0;
}

static int posix_lock(struct ms_fs *fs, const char *path, struct ms_file **lock)
{
    *lock = NULL;
    int fd = open_fd(fs, path, O_RDWR | O_CREAT);
    if (fd < 0) return fail("lock", path);
    int rc = take_lock(fd, path);
    if (rc) {
        (void)close(fd);
        return rc;
    }
    return file_new(fd, path, lock);
}

static const struct ms_fs_ops ops = {
    .open = posix_open,
    .close = posix_close,
    .size = posix_size,
    .read = posix_read,
    .write = posix_write,
    .truncate = posix_truncate,
    .reserve = posix_reserve,
    .sync = posix_sync,
    .rename = posix_rename,
    .remove = posix_remove,
    .mkdir = posix_mkdir,
    .sync_dir = posix_sync_dir,
    .list = posix_list,
    .lock = posix_lock,
};

struct ms_fs *ms_fs_posix(void)
{
    static struct ms_fs posix = {&ops};
    return &posix;
}

struct ms_fs *ms_fs_posix_shared(void)
{
    static struct ms_fs shared = {&ops};
    return &shared;
}
