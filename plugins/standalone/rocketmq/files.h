/* The metadata files of a broker's store/config directory, read as one set: either all that are there are good and
 * their rows are in one list, or nothing is loaded.
 *
 * For each file: NAME.json is used if it is there and good. If it is damaged (json.h, parse.h; empty counts), or missing,
 * NAME.json.bak, the generation before, is used instead, and `trouble` says why. Damaged or missing with a .bak that is
 * damaged, and damaged without a .bak, fail the whole. Neither .json nor .bak: the file is missing, and says nothing
 * about its tables. A file that can't be read (permission, disk) is no damage: it fails the whole. Nothing is written
 * here. */
#ifndef MS_ROCKETMQ_FILES_H
#define MS_ROCKETMQ_FILES_H

#include "../../../core/base/error.h"
#include "../../../core/base/fs.h"
#include "parse.h"

enum ms_rocketmq_origin { MS_ROCKETMQ_MISSING = 0, MS_ROCKETMQ_JSON = 1, MS_ROCKETMQ_BAK = 2 };

/* "missing", "json" or "bak". */
extern const char *const ms_rocketmq_origin_names[3];

struct ms_rocketmq_source {
    int origin;            /* enum ms_rocketmq_origin */
    int64_t mtime_ms;      /* of the file that was used, real time; 0 = unknown (not the real file system) */
    size_t first, count;   /* its rows */
    struct ms_rocketmq_version version;
    char trouble[MS_ERROR_SIZE]; /* BAK: why the .json was not used, for the operator; otherwise "" */
};

struct ms_rocketmq_files {
    struct ms_rows rows;
    struct ms_rocketmq_source sources[MS_ROCKETMQ_FILES];
};

/* Memory: the rows, and while a file is checked its text twice and jansson's tree (about ten times the text). Close it
 * after a failure too. Errors: FORMAT, LIMIT (no good copy; the message names both), IO, MEMORY; NOT_FOUND if dir holds
 * none of the files. */
int ms_rocketmq_load(struct ms_fs *fs, const char *dir, struct ms_rocketmq_files *files);
void ms_rocketmq_files_close(struct ms_rocketmq_files *files);

#endif
