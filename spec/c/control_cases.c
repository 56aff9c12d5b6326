/* The control socket: both ends, many clients, clients that misbehave, stopping at any time. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../../core/base/error.h"
#include "../../core/base/mem.h"
#include "../../core/drive/control.h"
#include "cases.h"

enum { LIMIT_MS = 10000 };

static char directory[] = "/tmp/metasync-control-XXXXXX", path[64];
static atomic_int handled;
static atomic_bool hold;

static void pause_ms(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

#define UNTIL(condition) \
    do { \
        for (uint64_t limit_ = spec_now_ms() + LIMIT_MS; !(condition); pause_ms(1)) \
            CHECK(spec_now_ms() < limit_, "not within %d ms", LIMIT_MS); \
    } while (0)

/* Echoes; "fail" is refused, "ugly" is refused with a text that is no UTF-8, "pretty" has a reply of several lines, "big N"
 * one of N bytes, "hold" waits until it may go on, "nothing" is an answer without a text. */
static int handle(void *context, const char *request, char **reply)
{
    CHECK(context == directory, "another context");
    atomic_fetch_add(&handled, 1);
    if (strcmp(request, "fail") == 0) return ms_fail(MS_E_NOT_LEADER, "this node follows \"a\\b\"");
    if (strcmp(request, "ugly") == 0) return ms_fail(MS_E_BUSY, "key \xff\xfe");
    if (strcmp(request, "nothing") == 0) return 0;
    while (strcmp(request, "hold") == 0 && atomic_load(&hold)) pause_ms(1);
    if (strcmp(request, "pretty") == 0) {
        *reply = strdup("{\n  \"ok\": true\n}");
    } else if (strncmp(request, "big ", 4) == 0) {
        size_t size = (size_t)atol(request + 4);
        *reply = malloc(size + 1);
        memset(*reply, 'b', size);
        (*reply)[size] = '\0';
    } else {
        *reply = strdup(request);
    }
    return *reply ? 0 : MS_E_MEMORY;
}

static struct ms_control *open_control(void)
{
    struct ms_control *control = NULL;
    CHECK(ms_control_start(path, handle, directory, &control) == 0, "%s", ms_error_message());
    return control;
}

static void expect(const char *request, const char *expected)
{
    char *reply = NULL;
    CHECK(ms_control_call(path, request, LIMIT_MS, &reply) == 0, "%s", ms_error_message());
    CHECK(strcmp(reply, expected) == 0, "%s", reply);
    ms_release(reply);
}

static int raw_connect(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "%s", strerror(errno));
    return fd;
}

static void raw_send(int fd, const char *text, size_t size)
{
    while (size) {
        ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
        if (sent <= 0) return;
        text += sent;
        size -= (size_t)sent;
    }
}

/* Reads one line; false at the end of the stream. */
static bool raw_line(int fd, char *line, size_t size)
{
    size_t got = 0;
    while (got + 1 < size && recv(fd, line + got, 1, 0) == 1 && line[got] != '\n') got++;
    line[got] = '\0';
    return got > 0;
}

/* ---- cases ------------------------------------------------------------------------------------------------------------ */

static void replies(void)
{
    struct ms_control *control = open_control();
    expect("{\"command\":\"status\"}", "{\"command\":\"status\"}");
    expect("fail", "{\"ok\":false,\"code\":\"MS_E_NOT_LEADER\",\"error\":\"this node follows \\\"a\\\\b\\\"\"}");
    expect("ugly", "{\"ok\":false,\"code\":\"MS_E_BUSY\",\"error\":\"the key is busy\"}");
    expect("pretty", "{   \"ok\": true }");
    expect("nothing", "{\"ok\":false,\"code\":\"MS_E_MEMORY\",\"error\":\"out of memory\"}");
    struct stat status;
    CHECK(stat(path, &status) == 0 && (status.st_mode & 07777) == 0600, "mode %o", status.st_mode);
    ms_control_stop(control);
    CHECK(stat(path, &status) != 0, "the socket file is left");
}

static void many_lines(void)
{
    struct ms_control *control = open_control();
    int fd = raw_connect();
    char line[100];
    raw_send(fd, "one\ntwo\nthr", 11);
    CHECK(raw_line(fd, line, sizeof line) && strcmp(line, "one") == 0, "%s", line);
    CHECK(raw_line(fd, line, sizeof line) && strcmp(line, "two") == 0, "%s", line);
    raw_send(fd, "ee\n", 3);
    CHECK(raw_line(fd, line, sizeof line) && strcmp(line, "three") == 0, "%s", line);
    raw_send(fd, "a\0b\n", 4);
    CHECK(raw_line(fd, line, sizeof line) && strstr(line, "MS_E_FORMAT"), "%s", line);
    raw_send(fd, "no newline", 10);
    shutdown(fd, SHUT_WR);
    CHECK(!raw_line(fd, line, sizeof line), "%s", line);
    close(fd);
    ms_control_stop(control);
}

static void line_limits(void)
{
    struct ms_control *control = open_control();
    char *reply = NULL, *large = malloc(MS_CONTROL_LINE_MAX + 2);
    memset(large, 'x', MS_CONTROL_LINE_MAX + 1);
    large[MS_CONTROL_LINE_MAX - 1] = '\0'; /* with its newline exactly the limit */
    CHECK(ms_control_call(path, large, LIMIT_MS, &reply) == 0 && strlen(reply) == MS_CONTROL_LINE_MAX - 1, "%s",
          ms_error_message());
    ms_release(reply);
    large[MS_CONTROL_LINE_MAX - 1] = 'x';
    large[MS_CONTROL_LINE_MAX] = '\0';
    int before = atomic_load(&handled);
    CHECK(ms_control_call(path, large, LIMIT_MS, &reply) == 0 && strstr(reply, "MS_E_LIMIT"), "%s", ms_error_message());
    CHECK(atomic_load(&handled) == before, "it was handled");
    ms_release(reply);
    CHECK(ms_control_call(path, "big 16777216", LIMIT_MS, &reply) == MS_E_LIMIT, "%s", ms_error_message());
    CHECK(ms_control_call(path, "two\nlines", LIMIT_MS, &reply) == MS_E_INVALID, "%s", ms_error_message());
    free(large);
    ms_control_stop(control);
}

struct caller {
    pthread_t thread;
    int calls;
};

static void *call_often(void *context)
{
    struct caller *caller = context;
    for (int i = 0; i < caller->calls; i++) {
        char text[40], *reply = NULL;
        snprintf(text, sizeof text, "call %d of %p", i, context);
        CHECK(ms_control_call(path, text, LIMIT_MS, &reply) == 0, "%s", ms_error_message());
        CHECK(strcmp(reply, text) == 0, "%s", reply);
        ms_release(reply);
    }
    return NULL;
}

/* A connection more than there are places is told so, and its place is free again afterwards. */
static void many_clients(void)
{
    struct ms_control *control = open_control();
    struct caller callers[4];
    for (int i = 0; i < 4; i++) {
        callers[i].calls = 200;
        CHECK(pthread_create(&callers[i].thread, NULL, call_often, &callers[i]) == 0, "no thread");
    }
    for (int i = 0; i < 4; i++) pthread_join(callers[i].thread, NULL);
    int fds[MS_CONTROL_CONNECTIONS];
    char line[100];
    for (int i = 0; i < MS_CONTROL_CONNECTIONS; i++) {
        fds[i] = raw_connect();
        raw_send(fds[i], "here\n", 5);
        CHECK(raw_line(fds[i], line, sizeof line) && strcmp(line, "here") == 0, "%d: %s", i, line);
    }
    char *reply = NULL;
    CHECK(ms_control_call(path, "one more", LIMIT_MS, &reply) == 0 && strstr(reply, "MS_E_LIMIT"), "%s", ms_error_message());
    ms_release(reply);
    close(fds[3]);
    UNTIL(({
        bool in = ms_control_call(path, "one more", LIMIT_MS, &reply) == 0 && strcmp(reply, "one more") == 0;
        ms_release(reply);
        in;
    }));
    ms_control_stop(control); /* with all of them connected */
    for (int i = 0; i < MS_CONTROL_CONNECTIONS; i++)
        if (i != 3) CHECK(!raw_line(fds[i], line, sizeof line), "%s", line);
    for (int i = 0; i < MS_CONTROL_CONNECTIONS; i++)
        if (i != 3) close(fds[i]);
}

/* Clients in every state: idle, within a line, not taking a large reply. */
static void stop_unblocks(void)
{
    struct ms_control *control = open_control();
    int idle = raw_connect(), within = raw_connect(), deaf = raw_connect();
    raw_send(within, "half a li", 9);
    int before = atomic_load(&handled);
    raw_send(deaf, "big 8000000\n", 12);
    UNTIL(atomic_load(&handled) == before + 1);
    pause_ms(20);
    uint64_t from = spec_now_ms();
    ms_control_stop(control);
    CHECK(spec_now_ms() - from < 5000, "%llu ms", (unsigned long long)(spec_now_ms() - from));
    close(idle);
    close(within);
    close(deaf);
}

static void *stop_it(void *control)
{
    ms_control_stop(control);
    return NULL;
}

static void stop_waits_for_handlers(void)
{
    struct ms_control *control = open_control();
    atomic_store(&hold, true);
    int before = atomic_load(&handled), fd = raw_connect();
    raw_send(fd, "hold\n", 5);
    UNTIL(atomic_load(&handled) == before + 1);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stop_it, control) == 0, "no thread");
    pause_ms(50);
    CHECK(pthread_tryjoin_np(thread, NULL) == EBUSY, "it did not wait");
    atomic_store(&hold, false);
    pthread_join(thread, NULL);
    close(fd);
}

static void *stop_later(void *control)
{
    pause_ms(30);
    ms_control_stop(control);
    return NULL;
}

/* Callers meanwhile get a reply or an error, never a hang. */
static void stop_under_load(void)
{
    for (int round = 0; round < 10; round++) {
        struct ms_control *control = open_control();
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, stop_later, control) == 0, "no thread");
        for (;;) {
            char *reply = NULL;
            int rc = ms_control_call(path, "call", LIMIT_MS, &reply);
            ms_release(reply);
            if (rc < 0) {
                CHECK(rc == MS_E_IO || rc == MS_E_NOT_FOUND, "%d %s", rc, ms_error_message());
                break;
            }
        }
        pthread_join(thread, NULL);
    }
}

static void socket_file(void)
{
    struct ms_control *control = open_control(), *second = NULL;
    CHECK(ms_control_start(path, handle, directory, &second) == MS_E_LOCKED && !second, "%s", ms_error_message());
    expect("still here", "still here");
    ms_control_stop(control);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0); /* what a killed node leaves */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0, "%s", strerror(errno));
    close(fd);
    char *reply;
    CHECK(ms_control_call(path, "x", 100, &reply) == MS_E_IO && strstr(ms_error_message(), "nobody listens"), "%s",
          ms_error_message());
    control = open_control();
    expect("replaced", "replaced");
    unlink(path); /* somebody else's from now on */
    FILE *file = fopen(path, "w");
    fclose(file);
    ms_control_stop(control);
    CHECK(access(path, F_OK) == 0, "removed what was not ours");
    CHECK(ms_control_start(path, handle, directory, &control) == MS_E_INVALID, "%s", ms_error_message());
    CHECK(strstr(ms_error_message(), "something else than a socket"), "%s", ms_error_message());
    unlink(path);
    CHECK(ms_control_start("/nonexistent/dir/control", handle, directory, &control) == MS_E_NOT_FOUND, "%s",
          ms_error_message());
    CHECK(strstr(ms_error_message(), "/nonexistent/dir/control"), "%s", ms_error_message());
    char longer[200];
    memset(longer, 'p', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    CHECK(ms_control_start(longer, handle, directory, &control) == MS_E_INVALID, "%s", ms_error_message());
    CHECK(ms_control_start("", handle, directory, &control) == MS_E_INVALID, "%s", ms_error_message());
}

static void client_errors(void)
{
    char *reply;
    CHECK(ms_control_call(path, "x", 100, &reply) == MS_E_NOT_FOUND, "%s", ms_error_message());
    struct ms_control *control = open_control();
    atomic_store(&hold, true);
    uint64_t from = spec_now_ms();
    CHECK(ms_control_call(path, "hold", 100, &reply) == MS_E_TIMEOUT, "%s", ms_error_message());
    CHECK(spec_now_ms() - from >= 100 && spec_now_ms() - from < 4000, "%llu ms", (unsigned long long)(spec_now_ms() - from));
    atomic_store(&hold, false);
    ms_control_stop(control);
}

static void failing_allocations(void)
{
    for (int64_t n = 1;; n++) {
        int64_t live = ms_mem_live();
        (void)ms_mem_fail_after(n);
        struct ms_control *control = NULL;
        int rc = ms_control_start(path, handle, directory, &control);
        char *reply = NULL;
        if (rc == 0) rc = ms_control_call(path, "call", LIMIT_MS, &reply);
        ms_release(reply);
        ms_control_stop(control);
        bool failed = ms_mem_fail_after(0) <= 0;
        CHECK(rc == 0 || rc == MS_E_MEMORY || rc == MS_E_IO, "allocation %d: %d", (int)n, rc);
        CHECK(ms_mem_live() == live, "allocation %d: blocks are left", (int)n);
        if (!failed) break;
    }
}

static const struct spec_case cases[] = {
    SPEC_CASE(replies, "a request gets the handler's reply as one line, or its error as JSON"),
    SPEC_CASE(many_lines, "a connection may carry many requests, in any pieces"),
    SPEC_CASE(line_limits, "a line of exactly 16 MiB passes, a longer one is refused on both sides"),
    SPEC_CASE(many_clients, "clients are served at the same time, and one too many is told so"),
    SPEC_CASE(stop_unblocks, "stopping unblocks connections in every state"),
    SPEC_CASE(stop_waits_for_handlers, "stopping waits for handlers that are running"),
    SPEC_CASE(stop_under_load, "callers get a reply or an error while the socket is stopped"),
    SPEC_CASE(socket_file, "a stale socket file is replaced, anything else is left alone"),
    SPEC_CASE(client_errors, "a caller is told that there is no socket, or that time is up"),
    SPEC_CASE(failing_allocations, "any allocation may fail"),
};

int main(int argc, char **argv)
{
    CHECK(mkdtemp(directory), "%s", strerror(errno));
    snprintf(path, sizeof path, "%s/control", directory);
    int64_t live = ms_mem_live();
    int rc = spec_main(cases, sizeof cases / sizeof cases[0], argc, argv);
    CHECK(ms_mem_live() == live, "%lld blocks are left", (long long)(ms_mem_live() - live));
    rmdir(directory);
    return rc;
}
