/* Lines over a stream socket, with a bound on their length and on the wait: what both ends of the control socket are made
 * of. One thread at a time. */
#ifndef MS_DRIVE_CONTROL_LINE_H
#define MS_DRIVE_CONTROL_LINE_H

#include "../base/bytes.h"

struct ms_lines {
    int fd;
    int stop_fd;       /* readable = give up; -1 = none */
    uint64_t deadline; /* monotonic us, MS_FOREVER = none */
    uint64_t idle_us;  /* not 0: the deadline moves so far ahead whenever bytes come or go */
    struct ms_buf in;
    size_t searched; /* bytes of `in` without a newline */
    size_t taken;    /* bytes of `in` that the last line used */
};

void ms_lines_init(struct ms_lines *lines, int fd, int stop_fd);
void ms_lines_close(struct ms_lines *lines); /* not the socket */

/* The next line without its newline, NUL terminated, borrowed until the next call. 1, or 0 at the end of the stream (what
 * stands after the last newline is dropped) and on a stop; LIMIT (longer than MS_CONTROL_LINE_MAX), TIMEOUT, IO, MEMORY. */
int ms_lines_read(struct ms_lines *lines, struct ms_bytes *line);

/* Sends all of it. 0; TIMEOUT, IO, CLOSED on a stop. */
int ms_lines_write(struct ms_lines *lines, const char *data, size_t size);

#endif
