/* Redis servers as child processes, and the little of its protocol (RESP) that the measurements need, over plain sockets. */
#ifndef BENCH_REDIS_CLIENT_H
#define BENCH_REDIS_CLIENT_H

#include "common.h"

struct redis_server {
    struct bench_child child;
    int port;
};

/* Starts redis-server with a configuration file, on a free loopback port, in its own directory (made; must be empty), and
 * waits until it answers. */
void redis_start(struct redis_server *server, const char *conf, const char *dir);
void redis_stop(struct redis_server *server);

struct redis_connection {
    int fd;
    size_t have; /* bytes in `in` */
    char in[65536];
};

void redis_connect(struct redis_connection *c, int port);
void redis_close(struct redis_connection *c);

/* Sends words, separated by single blanks, as one command. */
void redis_send(struct redis_connection *c, const char *words);

/* Reads one reply: its first line without type and line end, or the body of a bulk string. Returns the type ('+', ':', '$',
 * '-', '*'; of an array only the head is read). text is cut to size. */
char redis_reply(struct redis_connection *c, char *text, size_t size);

/* Both; dies on an error reply. */
void redis_command(struct redis_connection *c, const char *words, char *text, size_t size);
long long redis_number(struct redis_connection *c, const char *words); /* an integer reply */

/* A field of INFO replication, "" if it has none. */
void redis_info(struct redis_connection *c, const char *field, char *text, size_t size);
long long redis_info_number(struct redis_connection *c, const char *field);

/* SET commands, in flight over one or more connections. */
enum { REDIS_SET = 168, REDIS_CONNECTIONS_MAX = 64 }; /* bytes of one command */

struct redis_pipe {
    struct redis_connection connections[REDIS_CONNECTIONS_MAX];
    struct redis_stream {
        uint64_t sent, answered; /* commands */
        uint64_t last_byte;      /* where the answers stand: they are all "+OK\r\n" */
        char *out;               /* a window's worth of commands */
        size_t from, to;
    } streams[REDIS_CONNECTIONS_MAX];
    uint32_t count, window; /* window: of one connection */
};

void redis_pipe_open(struct redis_pipe *pipe, int port, uint32_t connections, uint32_t window);
void redis_pipe_close(struct redis_pipe *pipe);

/* Sends `updates` SETs and returns when all are answered. Keys: in order if sequential, else drawn from `keys`. */
void redis_pipe_run(struct redis_pipe *pipe, uint64_t updates, uint32_t keys, bool sequential, struct bench_random *random);

/* Writes one SET command at `at`. */
void redis_set(char at[REDIS_SET], uint32_t key, const char *value);

#endif
