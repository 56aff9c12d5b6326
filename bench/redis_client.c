/* See redis_client.h. */
#include "redis_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- servers ------------------------------------------------------------------------------------------------------- */

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int free_port(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || getsockname(fd, (struct sockaddr *)&address, &size)) {
        bench_die("no free port: %s", strerror(errno));
    }
    close(fd);
    return ntohs(address.sin_port);
}

static bool try_connect(struct redis_connection *c, int port)
{
    struct sockaddr_in address = loopback(port);
    int one = 1;
    c->have = 0;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0) bench_die("socket: %s", strerror(errno));
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address)) {
        close(c->fd);
        return false;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return true;
}

void redis_start(struct redis_server *server, const char *conf, const char *dir)
{
    char port[16], path[PATH_MAX], log[PATH_MAX + 16], full[PATH_MAX];
    char server_path[] = "/usr/bin/redis-server";
    server->port = free_port();
    bench_mkdir(dir);
    snprintf(port, sizeof port, "%d", server->port);
    if (!realpath(conf, path) || !realpath(dir, full)) bench_die("%s, %s: %s", conf, dir, strerror(errno));
    snprintf(log, sizeof log, "%s/redis.log", full);
    char *argv[] = {server_path, path, (char[]){"--port"}, port, (char[]){"--dir"}, full, (char[]){"--logfile"}, log, NULL};
    bench_spawn(&server->child, argv, false);
    uint64_t deadline = bench_now_ns() + 20000000000u;
    struct redis_connection c;
    while (!try_connect(&c, server->port)) {
        if (waitpid(server->child.pid, NULL, WNOHANG) != 0) bench_die("redis-server ended at once; see %s", log);
        if (bench_now_ns() > deadline) bench_die("redis-server does not listen; see %s", log);
        bench_sleep_until(bench_now_ns() + 5000000);
    }
    char text[64];
    redis_command(&c, "PING", text, sizeof text);
    redis_close(&c);
}

void redis_stop(struct redis_server *server)
{
    bench_stop(&server->child);
}

/* ---- commands ------------------------------------------------------------------------------------------------------ */

void redis_connect(struct redis_connection *c, int port)
{
    if (!try_connect(c, port)) bench_die("connect to redis on port %d: %s", port, strerror(errno));
}

void redis_close(struct redis_connection *c)
{
    close(c->fd);
    c->fd = -1;
}

static void write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t put = write(fd, data, size);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) bench_die("write to redis: %s", strerror(errno));
        data += put;
        size -= (size_t)put;
    }
}

void redis_send(struct redis_connection *c, const char *words)
{
    char body[2048], head[16], command[2100];
    size_t size = 0;
    int count = 0;
    for (const char *at = words; *at; count++) {
        size_t length = strcspn(at, " ");
        size += (size_t)snprintf(body + size, sizeof body - size, "$%zu\r\n%.*s\r\n", length, (int)length, at);
        at += length;
        if (*at == ' ') at++;
    }
    snprintf(head, sizeof head, "*%d\r\n", count);
    snprintf(command, sizeof command, "%s%s", head, body);
    write_all(c->fd, command, strlen(command));
}

static void read_more(struct redis_connection *c)
{
    if (c->have == sizeof c->in) bench_die("a reply of redis is too long");
    ssize_t got;
    do got = read(c->fd, c->in + c->have, sizeof c->in - c->have);
    while (got < 0 && errno == EINTR);
    if (got <= 0) bench_die("read from redis: %s", got ? strerror(errno) : "closed");
    c->have += (size_t)got;
}

static void drop(struct redis_connection *c, size_t size)
{
    memmove(c->in, c->in + size, c->have - size);
    c->have -= size;
}

static void copy_text(char *text, size_t size, const char *from, size_t length)
{
    if (length >= size) length = size - 1;
    memcpy(text, from, length);
    text[length] = 0;
}

char redis_reply(struct redis_connection *c, char *text, size_t size)
{
    char *end;
    while (!(end = memmem(c->in, c->have, "\r\n", 2))) read_more(c);
    char type = c->in[0];
    size_t line = (size_t)(end - c->in) + 2;
    if (type != '$') {
        copy_text(text, size, c->in + 1, line - 3);
        drop(c, line);
        return type;
    }
    long long length = strtoll(c->in + 1, NULL, 10);
    drop(c, line);
    text[0] = 0;
    if (length < 0) return type;
    while (c->have < (size_t)length + 2) read_more(c);
    copy_text(text, size, c->in, (size_t)length);
    drop(c, (size_t)length + 2);
    return type;
}

void redis_command(struct redis_connection *c, const char *words, char *text, size_t size)
{
    redis_send(c, words);
    if (redis_reply(c, text, size) == '-') bench_die("redis: %s: %s", words, text);
}

long long redis_number(struct redis_connection *c, const char *words)
{
    char text[64];
    redis_command(c, words, text, sizeof text);
    return strtoll(text, NULL, 10);
}

void redis_info(struct redis_connection *c, const char *field, char *text, size_t size)
{
    char info[8192];
    redis_command(c, "INFO replication", info, sizeof info);
    text[0] = 0;
    size_t length = strlen(field);
    for (char *at = info; at; at = strchr(at, '\n')) {
        if (*at == '\n') at++;
        if (strncmp(at, field, length) != 0 || at[length] != ':') continue;
        copy_text(text, size, at + length + 1, strcspn(at + length + 1, "\r\n"));
        return;
    }
}

long long redis_info_number(struct redis_connection *c, const char *field)
{
    char text[64];
    redis_info(c, field, text, sizeof text);
    return strtoll(text, NULL, 10);
}

/* ---- pipelined SETs -------------------------------------------------------------------------------------------------- */

void redis_set(char at[REDIS_SET], uint32_t key, const char *value)
{
    static const char head[] = "*3\r\n$3\r\nSET\r\n$40\r\n";
    memcpy(at, head, 18);
    bench_key(at + 18, key);
    memcpy(at + 58, "\r\n$100\r\n", 8);
    memcpy(at + 66, value, BENCH_VALUE);
    memcpy(at + 166, "\r\n", 2);
}

void redis_pipe_open(struct redis_pipe *pipe, int port, uint32_t connections, uint32_t window)
{
    if (connections < 1 || connections > REDIS_CONNECTIONS_MAX || window < connections)
        bench_die("1 to %d connections", REDIS_CONNECTIONS_MAX);
    pipe->count = connections;
    pipe->window = window / connections;
    for (uint32_t i = 0; i < connections; i++) {
        redis_connect(&pipe->connections[i], port);
        fcntl(pipe->connections[i].fd, F_SETFL, O_NONBLOCK);
        memset(&pipe->streams[i], 0, sizeof pipe->streams[i]);
        pipe->streams[i].out = bench_alloc((size_t)pipe->window * REDIS_SET);
    }
}

void redis_pipe_close(struct redis_pipe *pipe)
{
    for (uint32_t i = 0; i < pipe->count; i++) {
        redis_close(&pipe->connections[i]);
        free(pipe->streams[i].out);
    }
}

static void stream_write(struct redis_stream *s, int fd)
{
    while (s->from < s->to) {
        ssize_t put = write(fd, s->out + s->from, s->to - s->from);
        if (put < 0 && errno == EAGAIN) return;
        if (put <= 0) bench_die("write to redis: %s", strerror(errno));
        s->from += (size_t)put;
    }
    s->from = s->to = 0;
}

static void stream_read(struct redis_stream *s, struct redis_connection *c)
{
    ssize_t got = read(c->fd, c->in, sizeof c->in);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) bench_die("read from redis: %s", got ? strerror(errno) : "closed");
    static const char ok[] = "+OK\r\n";
    if (c->in[0] != ok[s->last_byte % 5]) bench_die("redis refuses: %.*s", (int)got, c->in);
    s->last_byte += (uint64_t)got;
    s->answered = s->last_byte / 5;
}

void redis_pipe_run(struct redis_pipe *pipe, uint64_t updates, uint32_t keys, bool sequential, struct bench_random *random)
{
    struct pollfd polls[REDIS_CONNECTIONS_MAX];
    uint64_t made = 0, answered = 0;
    for (uint32_t i = 0; i < pipe->count; i++) {
        pipe->streams[i].sent = pipe->streams[i].answered = pipe->streams[i].last_byte = 0;
    }
    while (answered < updates) {
        answered = 0;
        for (uint32_t i = 0; i < pipe->count; i++) {
            struct redis_stream *s = &pipe->streams[i];
            if (s->from == s->to &&
                s->sent - s->answered <= pipe->window / 2) { /* refill in large pieces, as Redis likes it */
                while (made < updates && s->sent - s->answered < pipe->window) {
                    uint32_t key = sequential ? (uint32_t)made % keys : bench_random_below(random, keys);
                    redis_set(s->out + s->to, key, bench_value(random));
                    s->to += REDIS_SET;
                    s->sent++;
                    made++;
                }
            }
            stream_write(s, pipe->connections[i].fd);
            answered += s->answered;
            short wants = s->from < s->to ? POLLIN | POLLOUT : POLLIN;
            polls[i] = (struct pollfd){.fd = pipe->connections[i].fd, .events = wants};
        }
        if (answered == updates) break;
        if (poll(polls, pipe->count, 20000) <= 0) bench_die("redis does not answer");
        for (uint32_t i = 0; i < pipe->count; i++) {
            if (polls[i].revents & (POLLIN | POLLHUP | POLLERR)) stream_read(&pipe->streams[i], &pipe->connections[i]);
        }
    }
}
