/* Records as lines of JSON, for people: the archive, `metasyncctl log`, ms_log_dump. Keys and values that are UTF-8 are JSON strings
 * (a NUL between key and field as \u0000), others are {"base64": "..."}; values of int64 tables are integers. */
#ifndef MS_SYNC_RENDER_H
#define MS_SYNC_RENDER_H

#include <jansson.h>

#include "../state/store.h"

/* New references; NULL = out of memory. data == NULL gives JSON null. */
json_t *ms_render_bytes(struct ms_bytes bytes);
json_t *ms_render_value(uint8_t type, struct ms_bytes value);
void ms_render_set_key(json_t *object, struct ms_bytes key); /* "key", and "field" where a NUL parts the two. object NULL: nothing */

/* The way back: appends the bytes that a JSON string or {"base64": "..."} stands for. MS_E_INVALID (neither of them), FORMAT, MEMORY. */
int ms_render_read_bytes(const json_t *json, struct ms_buf *out);

/* Appends the object's text and a newline, and drops the reference (also of NULL, which is MS_E_MEMORY). */
int ms_render_line(struct ms_buf *text, json_t *object);

/* A buffered change that was never logged. */
int ms_render_loss(struct ms_buf *text, const char *table, uint8_t type, struct ms_bytes key, struct ms_bytes current, struct ms_bytes logged);

/* Names and types of tables by id, learned from the records that were rendered: what an offline reader knows. */
struct ms_render_names {
    char name[256][MS_TABLE_NAME_MAX + 1];
    uint8_t type[256];
};
void ms_render_names_of(const struct ms_store *store, struct ms_render_names *names);

/* One record of a group at lsn (0 in snapshots). Learns from TABLE records. */
int ms_render_record(struct ms_buf *text, const struct ms_record *record, uint64_t lsn, uint64_t time_us, struct ms_render_names *names);

#endif
