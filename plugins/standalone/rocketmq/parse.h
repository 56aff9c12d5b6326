/* The text of one file -> rows (layout.h says which). Pure: no disk. All of a text or nothing: what deviates from JSON
 * and from the layout is refused with line and column, and no row of it stays.
 *
 * Refused beside what json.h refuses: a table that is no object; an empty key; a queue id or level that is no int32 in its
 * shortest form, quoted or not; a count or offset that is a real, a string or beyond 64 bits; a topic or group that is no
 * object. Accepted: any order of fields and keys, unknown fields, tables that are null or missing. */
#ifndef MS_ROCKETMQ_PARSE_H
#define MS_ROCKETMQ_PARSE_H

#include "layout.h"
#include "rows.h"
#include "version.h"

/* Appends the rows. file: enum ms_rocketmq_file; name: for messages. Errors: FORMAT, LIMIT, MEMORY. */
int ms_rocketmq_parse(int file, const char *name, struct ms_bytes text, struct ms_rows *rows,
                      struct ms_rocketmq_version *version);

#endif
