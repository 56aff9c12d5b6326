/* The client side of the control socket. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "control.h"
#include "control_line.h"
#include "threads.h"

enum { BUSY_MS = 10 };

static int connect_to(const char *path, uint64_t deadline, int *fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) == 0 || strlen(path) >= sizeof address.sun_path)
        return ms_fail(MS_E_INVALID, "a socket's path has 1 to %zu bytes: %s", sizeof address.sun_path - 1, path);
    memcpy(address.sun_path, path, strlen(path));
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0) return ms_fail(MS_E_IO, "socket: %s", strerror(errno));
    int err;
    while ((err = connect(*fd, (const struct sockaddr *)&address, sizeof address) ? errno : 0) == EAGAIN) {
        /* The queue of connections is full, which a Unix socket does not let one wait for. */
        if (ms_clock_now() >= deadline) return ms_fail(MS_E_TIMEOUT, "%s: the node does not accept", path);
        (void)poll(NULL, 0, BUSY_MS);
    }
    if (err == 0) return 0;
    if (err == ENOENT || err == ENOTDIR) return ms_fail(MS_E_NOT_FOUND, "%s: there is no control socket", path);
    return ms_fail(MS_E_IO, "%s: %s", path, err == ECONNREFUSED ? "nobody listens there" : strerror(err));
}

static int exchange(struct ms_lines *lines, const char *request, char **reply)
{
    struct ms_bytes line;
    int rc = ms_lines_write(lines, request, strlen(request));
    if (rc == 0) rc = ms_lines_write(lines, "\n", 1);
    /* A node that refuses a request before it has read all of it has answered, and closed: the answer is worth more. */
    int read = rc == 0 || rc == MS_E_IO ? ms_lines_read(lines, &line) : rc;
    if (read == 0) return ms_fail(MS_E_IO, "the node closed the connection without an answer");
    if (read < 0) return read;
    *reply = ms_strdup(line.data);
    return *reply ? 0 : MS_E_MEMORY;
}

int ms_control_call(const char *path, const char *request, int timeout_ms, char **reply)
{
    if (strchr(request, '\n')) return ms_fail(MS_E_INVALID, "a request is one line");
    uint64_t deadline = ms_clock_deadline(timeout_ms);
    int fd = -1;
    int rc = connect_to(path, deadline, &fd);
    if (rc == 0) {
        struct ms_lines lines;
        ms_lines_init(&lines, fd, -1);
        lines.deadline = deadline;
        rc = exchange(&lines, request, reply);
        ms_lines_close(&lines);
        if (rc < 0) rc = ms_fail_wrap(rc, "%s", path);
    }
    if (fd >= 0) (void)close(fd);
    return rc;
}
