/* The server side of the control socket. The accepting thread is the only one that starts and joins the connections'
 * threads, so that no lock is needed: a connection's thread says `finished` as its last act, and its place is taken again at
 * a later accept. */
#include "control.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../base/error.h"
#include "../base/mem.h"
#include "control_line.h"
#include "threads.h"

enum {
    ACCEPT_PAUSE_MS = 100, /* when the system is out of descriptors */
    PLACE_MS = 1000,       /* how long a connection waits for a place: those that have just ended may not be noticed yet */
};

struct connection {
    struct ms_control *control;
    struct ms_thread thread;
    int fd;
    atomic_bool finished;
};

struct ms_control {
    struct sockaddr_un address;
    dev_t device; /* of the socket file that we made */
    ino_t inode;
    int listen_fd;
    int stop_fd;  /* readable: everybody ends */
    int place_fd; /* readable: a connection has ended */
    ms_control_handler handle;
    void *context;
    struct ms_thread acceptor;
    struct connection connections[MS_CONTROL_CONNECTIONS];
};

static int make_signal(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void raise_signal(int fd)
{
    uint64_t one = 1;
    while (fd >= 0 && write(fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

/* ---- replies ---------------------------------------------------------------------------------------------------------- */

static const char *error_name(int code)
{
    switch (code) {
#define NAME_CASE(name, value, text) \
    case name: return #name;
        MS_ERRORS(NAME_CASE)
#undef NAME_CASE
    default: return "MS_E_IO";
    }
}

/* {"ok":false,...} for a failure; NULL if memory is out. A message that is no UTF-8 is left out: JSON can't hold it. */
static char *error_reply(int code, const char *message)
{
    json_t *json = json_pack("{s:b,s:s,s:s}", "ok", 0, "code", error_name(code), "error", message);
    if (!json) json = json_pack("{s:b,s:s,s:s}", "ok", 0, "code", error_name(code), "error", ms_error_text(code));
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

static int send_reply(struct ms_lines *lines, char *reply)
{
    static const char no_memory[] = "{\"ok\":false,\"code\":\"MS_E_MEMORY\",\"error\":\"out of memory\"}\n";
    if (!reply) return ms_lines_write(lines, no_memory, sizeof no_memory - 1);
    size_t size = strlen(reply);
    for (char *at = reply; (at = memchr(at, '\n', size - (size_t)(at - reply))) != NULL; at++) *at = ' ';
    int rc = ms_lines_write(lines, reply, size);
    if (rc == 0) rc = ms_lines_write(lines, "\n", 1);
    ms_free(reply);
    return rc;
}

static int answer(struct ms_control *control, struct ms_lines *lines, struct ms_bytes request)
{
    char *reply = NULL;
    int rc;
    if (strlen(request.data) != request.size)
        rc = ms_fail(MS_E_FORMAT, "the request has a NUL byte");
    else
        rc = control->handle(control->context, request.data, &reply);
    if (rc < 0) {
        ms_free(reply);
        reply = error_reply(rc, ms_fail_message(rc));
    }
    return send_reply(lines, reply);
}

/* ---- connections ------------------------------------------------------------------------------------------------------ */

static void *serve(void *context)
{
    struct connection *connection = context;
    struct ms_lines lines;
    ms_lines_init(&lines, connection->fd, connection->control->stop_fd);
    lines.idle_us = (uint64_t)MS_CONTROL_IDLE_MS * 1000;
    struct ms_bytes request;
    int rc;
    while ((rc = ms_lines_read(&lines, &request)) == 1)
        if (answer(connection->control, &lines, request) < 0) break;
    if (rc == MS_E_LIMIT || rc == MS_E_MEMORY) (void)send_reply(&lines, error_reply(rc, ms_fail_message(rc)));
    ms_lines_close(&lines);
    (void)close(connection->fd);
    atomic_store(&connection->finished, true);
    raise_signal(connection->control->place_fd);
    return NULL;
}

/* A free place, or NULL; joins the thread that had it. */
static struct connection *find_place(struct ms_control *control)
{
    for (size_t i = 0; i < MS_CONTROL_CONNECTIONS; i++) {
        struct connection *connection = &control->connections[i];
        if (connection->thread.started && !atomic_load(&connection->finished)) continue;
        ms_thread_join(&connection->thread);
        return connection;
    }
    return NULL;
}

static struct connection *wait_for_place(struct ms_control *control)
{
    struct connection *place;
    uint64_t deadline = ms_clock_deadline(PLACE_MS), now;
    while (!(place = find_place(control)) && (now = ms_clock_now()) < deadline) {
        struct pollfd fds[2] = {{.fd = control->stop_fd, .events = POLLIN}, {.fd = control->place_fd, .events = POLLIN}};
        (void)poll(fds, 2, (int)((deadline - now + 999) / 1000));
        if (fds[0].revents) break;
        uint64_t ended;
        (void)!read(control->place_fd, &ended, sizeof ended);
    }
    return place;
}

static void refuse(int fd, int code)
{
    struct ms_lines lines;
    ms_lines_init(&lines, fd, -1);
    lines.deadline = ms_clock_now(); /* what can't be sent at once is not sent */
    (void)send_reply(&lines, error_reply(code, ms_fail_message(code)));
    ms_lines_close(&lines);
    (void)close(fd);
}

static void take(struct ms_control *control, int fd)
{
    struct connection *connection = wait_for_place(control);
    if (!connection) {
        refuse(fd, ms_fail(MS_E_LIMIT, "all %d control connections are in use", MS_CONTROL_CONNECTIONS));
        return;
    }
    connection->control = control;
    connection->fd = fd;
    atomic_store(&connection->finished, false);
    int rc = ms_thread_start(&connection->thread, "ms-control", serve, connection);
    if (rc < 0) refuse(fd, rc);
}

static void *accept_all(void *context)
{
    struct ms_control *control = context;
    int wait_ms = -1;
    for (;;) {
        struct pollfd fds[2] = {{.fd = control->stop_fd, .events = POLLIN}, {.fd = control->listen_fd, .events = POLLIN}};
        (void)poll(fds, wait_ms < 0 ? 2 : 1, wait_ms);
        wait_ms = -1;
        if (fds[0].revents) return NULL;
        int fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            take(control, fd);
        else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
            wait_ms = ACCEPT_PAUSE_MS; /* out of descriptors */
    }
}

/* ---- the socket file -------------------------------------------------------------------------------------------------- */

/* Removes a socket file that nobody listens on. */
static int remove_stale(const struct sockaddr_un *address)
{
    struct stat status;
    if (lstat(address->sun_path, &status))
        return errno == ENOENT ? 0 : ms_fail(MS_E_IO, "%s: %s", address->sun_path, strerror(errno));
    if (!S_ISSOCK(status.st_mode))
        return ms_fail(MS_E_INVALID, "%s: something else than a socket is there", address->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return ms_fail(MS_E_IO, "socket: %s", strerror(errno));
    int err = connect(fd, (const struct sockaddr *)address, sizeof *address) ? errno : 0;
    (void)close(fd);
    if (err == 0 || err == EAGAIN) return ms_fail(MS_E_LOCKED, "%s: somebody listens there", address->sun_path);
    if (err != ECONNREFUSED) return ms_fail(MS_E_IO, "%s: %s", address->sun_path, strerror(err));
    if (unlink(address->sun_path) && errno != ENOENT)
        return ms_fail(MS_E_IO, "remove %s: %s", address->sun_path, strerror(errno));
    return 0;
}

static int bind_path(struct ms_control *control)
{
    const struct sockaddr *address = (const struct sockaddr *)&control->address;
    const char *path = control->address.sun_path;
    int err = bind(control->listen_fd, address, sizeof control->address) ? errno : 0;
    if (err == EADDRINUSE) {
        int rc = remove_stale(&control->address);
        if (rc < 0) return rc;
        err = bind(control->listen_fd, address, sizeof control->address) ? errno : 0;
    }
    if (err == ENOENT || err == ENOTDIR) return ms_fail(MS_E_NOT_FOUND, "%s: its directory does not exist", path);
    if (err) return ms_fail(MS_E_IO, "bind %s: %s", path, strerror(err));
    /* Nobody can connect before listen: there is no moment with a wider mode. A umask would be the whole process's. */
    struct stat status;
    if (chmod(path, S_IRUSR | S_IWUSR) || lstat(path, &status) || listen(control->listen_fd, MS_CONTROL_CONNECTIONS))
        return ms_fail(MS_E_IO, "%s: %s", path, strerror(errno));
    control->device = status.st_dev;
    control->inode = status.st_ino;
    return 0;
}

static void remove_own(const struct ms_control *control)
{
    struct stat status;
    if (control->inode == 0 || lstat(control->address.sun_path, &status)) return;
    if (status.st_dev == control->device && status.st_ino == control->inode) (void)unlink(control->address.sun_path);
}

/* ---- life ------------------------------------------------------------------------------------------------------------- */

static int start(struct ms_control *control)
{
    control->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    control->stop_fd = make_signal();
    control->place_fd = make_signal();
    if (control->listen_fd < 0 || control->stop_fd < 0 || control->place_fd < 0)
        return ms_fail(MS_E_IO, "control socket: %s", strerror(errno));
    int rc = bind_path(control);
    return rc < 0 ? rc : ms_thread_start(&control->acceptor, "ms-control", accept_all, control);
}

int ms_control_start(const char *path, ms_control_handler handle, void *context, struct ms_control **control)
{
    struct ms_control *made = ms_alloc_zero(sizeof *made);
    if (!made) return MS_E_MEMORY;
    made->handle = handle;
    made->context = context;
    made->listen_fd = made->stop_fd = made->place_fd = -1;
    made->address.sun_family = AF_UNIX;
    size_t size = strlen(path);
    int rc = 0;
    if (size == 0 || size >= sizeof made->address.sun_path)
        rc = ms_fail(MS_E_INVALID, "the control socket's path has %zu bytes, 1 to %zu are allowed: %s", size,
                     sizeof made->address.sun_path - 1, path);
    else
        memcpy(made->address.sun_path, path, size);
    if (rc == 0) rc = start(made);
    if (rc < 0)
        ms_control_stop(made);
    else
        *control = made;
    return rc;
}

void ms_control_stop(struct ms_control *control)
{
    if (!control) return;
    raise_signal(control->stop_fd);
    ms_thread_join(&control->acceptor);
    for (size_t i = 0; i < MS_CONTROL_CONNECTIONS; i++) ms_thread_join(&control->connections[i].thread);
    remove_own(control);
    if (control->listen_fd >= 0) (void)close(control->listen_fd);
    if (control->stop_fd >= 0) (void)close(control->stop_fd);
    if (control->place_fd >= 0) (void)close(control->place_fd);
    ms_release(control);
}
