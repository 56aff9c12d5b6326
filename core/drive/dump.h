/* Records as text: one JSON object a line, for `metasyncctl log`, for archives, and for the control socket's entries.
 *
 *      {"lsn":17,"time_us":1700000000000000,"op":"put","table":"offset","key":["orders@g","0"],"value":42}
 *
 * How bytes become JSON (and come back, see ms_json_get_bytes in control files):
 *   keys     a string; with NUL bytes in it, the array of the parts between them
 *   values   an int64 table's: an integer; else a string
 *   both     bytes that are no UTF-8, or a value that holds a NUL: {"base64":"..."}
 * Hashes and random ids are strings of 16 hex digits, so that no reader rounds them. */
#ifndef MS_DRIVE_DUMP_H
#define MS_DRIVE_DUMP_H

#include "../state/group.h"

void ms_json_text(struct ms_buf *out, struct ms_bytes text); /* "..." with escapes, for UTF-8 without NUL; anything else as base64 */
void ms_json_key(struct ms_buf *out, struct ms_bytes key);
void ms_json_value(struct ms_buf *out, struct ms_bytes value, uint8_t type); /* data == NULL: null */
void ms_json_format(struct ms_buf *out, const char *format, ...) __attribute__((format(printf, 2, 3))); /* at most 200 bytes */

/* Reads groups in order and calls fn with a line (no newline) for each record from lsn `from` on; entries of a snapshot always. */
struct ms_dump {
    uint64_t from;
    int (*fn)(void *context, const char *line);
    void *context;
    char names[256][MS_TABLE_NAME_MAX + 1]; /* "" = not known: the table's id is printed */
    uint8_t types[256];
    struct ms_buf line;
};

void ms_dump_init(struct ms_dump *dump, uint64_t from, int (*fn)(void *context, const char *line), void *context);
void ms_dump_close(struct ms_dump *dump);
void ms_dump_table(struct ms_dump *dump, uint32_t id, uint8_t type, struct ms_bytes name); /* known from elsewhere */

/* A checked group. fn's non-zero result, FORMAT, VERSION or MEMORY ends it. */
int ms_dump_group(struct ms_dump *dump, struct ms_bytes group, const struct ms_group_header *header);

#endif
