/* Tables -> a broker's files, in the layout of its own writer (layout.h; keys sorted, one a line, tabs), loadable
 * by RocketMQ 4.9 to 5.5. Loading them again gives the same rows.
 *
 * Each file is replaced at once: at every moment NAME.json is the old one or the new one, whole. The old one is kept as
 * NAME.json.bak first, as RocketMQ does, unless it can't be loaded itself: a .bak is never overwritten by something that
 * nobody could read. A file that has the new content already is left alone.
 *
 * The tables may change meanwhile. The data versions are read first, so a file never claims a version above its rows. */
#ifndef MS_ROCKETMQ_EXPORT_H
#define MS_ROCKETMQ_EXPORT_H

#include "files.h"
#include "tables.h"

struct ms_rocketmq_export_file {
    uint64_t rows, bytes; /* of the file; rows include data version and extra fields */
    bool written;         /* false: it had this content already, or has none and is not there */
    bool kept;            /* the old one is the .bak now */
    char trouble[MS_ERROR_SIZE]; /* what is wrong with the old one, where it could not be kept; otherwise "" */
};

struct ms_rocketmq_export_report {
    struct ms_rocketmq_export_file files[MS_ROCKETMQ_FILES];
};

/* All entries of the tables that files have, sorted. Close rows after a failure too. Errors of the tables, MEMORY. */
int ms_rocketmq_collect(struct ms_rocketmq_tables *tables, struct ms_rows *rows);

/* Appends the text of one file. rows: sorted, of all files. Errors: FORMAT names the entry that fits in no file (a key
 * without its queue id, a value that is no JSON object, ...); TYPE, LIMIT, MEMORY. */
int ms_rocketmq_compose(const struct ms_rows *rows, int file, struct ms_buf *text);

/* Collects, composes all files, and only then writes to dir, which is made if needed (not its parents). Errors: the
 * above, IO, NO_SPACE; report (may be NULL) says how far it got. */
int ms_rocketmq_export(struct ms_rocketmq_tables *tables, struct ms_fs *fs, const char *dir,
                       struct ms_rocketmq_export_report *report);

#endif
