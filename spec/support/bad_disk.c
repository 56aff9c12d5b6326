/* A disk that is full or broken, for specs that may not mount one: preloaded into a process, it fails what the process writes below the
 * directory BAD_DISK_DIR while the file BAD_DISK_STATE says so, as a real disk would:
 *
 *      full    what would make a file longer fails with ENOSPC; what is reserved already can be written
 *      broken  every write, and every sync, fails with EIO
 *
 * Anything else, or no file: all is well. It is looked at with each write, so that a change counts at once. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WELL, FULL, BROKEN };

/* The real function of this name. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int state(void)
{
    const char *path = getenv("BAD_DISK_STATE");
    char word[16] = "";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return WELL;
    ssize_t got = read(fd, word, sizeof word - 1);
    (void)close(fd);
    if (got >= 4 && !strncmp(word, "full", 4)) return FULL;
    return got >= 6 && !strncmp(word, "broken", 6) ? BROKEN : WELL;
}

static int is_there(int fd)
{
    const char *dir = getenv("BAD_DISK_DIR");
    char link[64], path[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = dir ? readlink(link, path, sizeof path - 1) : -1;
    return size > 0 && (size_t)size > strlen(dir) && !strncmp(path, dir, strlen(dir));
}

/* The errno that a write up to `end` gets; 0: let it pass. end < 0: at the end of the file. */
static int verdict(int fd, off_t end)
{
    int saved = errno, now = state(), result = 0;
    struct stat st;
    if (now != WELL && is_there(fd) && !fstat(fd, &st) && S_ISREG(st.st_mode)) {
        if (now == BROKEN) result = EIO;
        if (now == FULL && (end < 0 || end > st.st_size)) result = ENOSPC;
    }
    errno = saved;
    return result;
}

static int refused(int fd, off_t end)
{
    int error = verdict(fd, end);
    if (error) errno = error;
    return error;
}

static off_t total(const struct iovec *parts, int count)
{
    off_t size = 0;
    for (int i = 0; i < count; i++) size += (off_t)parts[i].iov_len;
    return size;
}

/* Where a write at the file's own position ends; -1 if it appends, or has none. */
static off_t end_of(int fd, off_t size)
{
    int saved = errno, flags = fcntl(fd, F_GETFL);
    off_t at = flags >= 0 && !(flags & O_APPEND) ? lseek(fd, 0, SEEK_CUR) : -1;
    errno = saved;
    return at < 0 ? -1 : at + size;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return refused(fd, offset + total(parts, count)) ? -1 : REAL(pwritev)(fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset)
{
    return refused(fd, offset + total(parts, count)) ? -1 : REAL(pwritev64)(fd, parts, count, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return refused(fd, offset + (off_t)size) ? -1 : REAL(pwrite)(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    return refused(fd, offset + (off_t)size) ? -1 : REAL(pwrite64)(fd, data, size, offset);
}

ssize_t write(int fd, const void *data, size_t size)
{
    return refused(fd, end_of(fd, (off_t)size)) ? -1 : REAL(write)(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return refused(fd, end_of(fd, total(parts, count))) ? -1 : REAL(writev)(fd, parts, count);
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    return refused(fd, offset + size) ? -1 : REAL(fallocate)(fd, mode, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
    int error = verdict(fd, offset + size);
    return error ? error : REAL(posix_fallocate)(fd, offset, size);
}

int ftruncate(int fd, off_t size)
{
    return refused(fd, size) ? -1 : REAL(ftruncate)(fd, size);
}

int fdatasync(int fd)
{
    return verdict(fd, 0) == EIO ? (errno = EIO, -1) : REAL(fdatasync)(fd);
}

int fsync(int fd)
{
    return verdict(fd, 0) == EIO ? (errno = EIO, -1) : REAL(fsync)(fd);
}
