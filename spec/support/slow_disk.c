/* A disk with a long way to it, for specs: preloaded into a daemon, it makes every write to a file wait for SLOW_DISK_US before it
 * begins. An answer that is given before its write has returned is then far ahead of it, so that a kill -9 tells. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

typedef ssize_t (*write_fn)(int fd, const struct iovec *parts, int count, off_t offset);

static ssize_t write_late(const char *name, int fd, const struct iovec *parts, int count, off_t offset)
{
    const char *text = getenv("SLOW_DISK_US");
    struct timespec wait = {0, text ? atol(text) * 1000 : 0};
    (void)nanosleep(&wait, NULL);
    write_fn write_now = (write_fn)dlsym(RTLD_NEXT, name);
    return write_now(fd, parts, count, offset);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return write_late("pwritev", fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset)
{
    return write_late("pwritev64", fd, parts, count, offset);
}
