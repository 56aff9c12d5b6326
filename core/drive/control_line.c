/* See control_line.h. Every wait is a poll on two descriptors, the socket and the one that says stop; the calls on the
 * socket themselves never block. */
#include "control_line.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "../base/error.h"
#include "control.h"
#include "threads.h"

enum { READ_SIZE = 16 << 10 };

void ms_lines_init(struct ms_lines *lines, int fd, int stop_fd)
{
    *lines = (struct ms_lines){.fd = fd, .stop_fd = stop_fd, .deadline = MS_FOREVER};
    ms_buf_init(&lines->in);
}

void ms_lines_close(struct ms_lines *lines)
{
    ms_buf_close(&lines->in);
}

static void progress(struct ms_lines *lines)
{
    if (lines->idle_us) lines->deadline = ms_clock_now() + lines->idle_us;
}

/* 0 when the socket is ready (or broken: the call on it says how). */
static int wait_for(struct ms_lines *lines, short what)
{
    for (;;) {
        int wait_ms = -1;
        if (lines->deadline != MS_FOREVER) {
            uint64_t now = ms_clock_now();
            if (now >= lines->deadline) return ms_fail(MS_E_TIMEOUT, "timed out");
            uint64_t left = (lines->deadline - now + 999) / 1000;
            wait_ms = left < 1000000 ? (int)left : 1000000;
        }
        struct pollfd fds[2] = {{.fd = lines->fd, .events = what}, {.fd = lines->stop_fd, .events = POLLIN}};
        int ready = poll(fds, 2, wait_ms);
        if (ready < 0 && errno != EINTR) return ms_fail(MS_E_IO, "poll: %s", strerror(errno));
        if (ready <= 0) continue;
        if (fds[1].revents) return ms_fail(MS_E_CLOSED, "the control socket is being closed");
        return 0;
    }
}

/* Some more bytes: their number, 0 at the end. */
static int read_some(struct ms_lines *lines)
{
    for (;;) {
        int rc = wait_for(lines, POLLIN);
        if (rc < 0) return rc;
        size_t before = lines->in.size;
        uint8_t *room = ms_buf_extend(&lines->in, READ_SIZE);
        if (!room) return MS_E_MEMORY;
        ssize_t got = recv(lines->fd, room, READ_SIZE, MSG_DONTWAIT);
        lines->in.size = before + (got > 0 ? (size_t)got : 0);
        if (got > 0) progress(lines);
        if (got >= 0) return (int)got;
        if (errno != EAGAIN && errno != EINTR) return ms_fail(MS_E_IO, "receive: %s", strerror(errno));
    }
}

static void drop_taken(struct ms_lines *lines)
{
    size_t left = lines->in.size - lines->taken;
    if (left) memmove(lines->in.data, lines->in.data + lines->taken, left);
    lines->in.size = left;
    lines->taken = lines->searched = 0;
}

int ms_lines_read(struct ms_lines *lines, struct ms_bytes *line)
{
    drop_taken(lines);
    progress(lines);
    for (;;) {
        size_t fresh = lines->in.size - lines->searched;
        uint8_t *end = fresh ? memchr(lines->in.data + lines->searched, '\n', fresh) : NULL;
        lines->searched = lines->in.size;
        size_t size = end ? (size_t)(end - lines->in.data) : lines->in.size;
        if (size >= MS_CONTROL_LINE_MAX) return ms_fail(MS_E_LIMIT, "a line of more than %d bytes", MS_CONTROL_LINE_MAX);
        if (end) {
            *end = '\0';
            *line = ms_bytes(lines->in.data, size);
            lines->taken = size + 1;
            return 1;
        }
        int rc = read_some(lines);
        if (rc == 0 || rc == MS_E_CLOSED) return 0;
        if (rc < 0) return rc;
    }
}

int ms_lines_write(struct ms_lines *lines, const char *data, size_t size)
{
    progress(lines);
    while (size) {
        ssize_t sent = send(lines->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            data += sent;
            size -= (size_t)sent;
            progress(lines);
            continue;
        }
        if (sent < 0 && errno != EAGAIN && errno != EINTR) return ms_fail(MS_E_IO, "send: %s", strerror(errno));
        int rc = wait_for(lines, POLLOUT);
        if (rc < 0) return rc;
    }
    return 0;
}
