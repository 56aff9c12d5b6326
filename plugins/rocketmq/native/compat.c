/* What the library and libevent take from glibc 2.35 and 2.36, for systems with an older one. Hidden: nobody else gets to see these. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

/* Declared here since an older stdlib.h lacks them. */
uint32_t arc4random(void);
void arc4random_buf(void *data, size_t size);

/* Where a container forbids the system call. */
static ssize_t read_device(void *data, size_t size)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, data, size);
    int error = errno;
    if (fd >= 0) (void)close(fd);
    errno = error;
    return got;
}

/* There is no way to say that it failed, and no number that is not random will do. */
void arc4random_buf(void *data, size_t size)
{
    char *at = data;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0); /* interrupted, or cut at 256 bytes by a signal: goes on */
        if (got < 0 && errno != EINTR) got = read_device(at, size);
        if (got == 0 || (got < 0 && errno != EINTR)) abort();
        if (got < 0) continue;
        at += got;
        size -= (size_t)got;
    }
}

uint32_t arc4random(void)
{
    uint32_t number;
    arc4random_buf(&number, sizeof number);
    return number;
}

/*
 * glibc 2.35's word for "this thread has an rseq area", by which the library tells apart locks that were held by a thread that had lost its
 * core. Here it says "none", on every system: that only makes one number of the status coarser.
 */
extern const unsigned int __rseq_size;
extern const ptrdiff_t __rseq_offset;
const unsigned int __rseq_size = 0;
const ptrdiff_t __rseq_offset = 0;
