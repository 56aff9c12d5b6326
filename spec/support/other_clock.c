/* Another wall clock, for specs: preloaded into a daemon, it adds the seconds that stand in the file CLOCK_FILE (an int64, read
 * again at every call) to the real-time clock. The monotonic clocks stay as they are. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *memory = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) offset = memory;
    (void)close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long rc = syscall(SYS_clock_gettime, clock, now);
    if (rc == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset;
    return (int)rc;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec t;
    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    now->tv_sec = t.tv_sec;
    now->tv_usec = t.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    if (at) *at = t.tv_sec;
    return t.tv_sec;
}
