/* A broker's files -> the tables of a leader, as a difference against what the last import said.
 *
 * Two tables of the library's own keep what the last import said; they replicate, so a promoted follower goes on rightly:
 *
 *      import_base   key: table, NUL, key     value: 8 bytes, hash of the value that the file had
 *      import_state  key: name of the file    value: {"mtime":ms,"rows":n,"source":"json","version":{...}}
 *
 * For each entry of a file:
 *      its hash is the one in import_base   the file did not change it: our value stays, whoever changed it since
 *      another, or none in import_base      put, and the new hash
 *      in import_base, no longer in file    deleted, and from import_base
 * So importing a directory twice writes nothing.
 *
 * Never back: a file is skipped, and its differences are only counted and listed, if it differs and is older than what
 * is here. It is older if its data version is lower than the last imported one or the one in data_version; where
 * versions can't tell (one is missing, or they are equal), if its time is before that of the last one. `force` imports
 * it all the same. A file that is missing says nothing and changes nothing.
 *
 * A crash or error in between leaves a state that the next import continues from:
 *  - import_state goes first, so that nothing older gets in afterwards;
 *  - an entry and its hash are in one atomic batch. Entries of buffered tables only join a buffer there, so they are
 *    written and flushed before their hashes: the log has the value whenever it has the hash. */
#ifndef MS_ROCKETMQ_IMPORT_H
#define MS_ROCKETMQ_IMPORT_H

#include "files.h"
#include "tables.h"

#define MS_ROCKETMQ_BASE "import_base"
#define MS_ROCKETMQ_STATE "import_state"

struct ms_rocketmq_import_options {
    bool force;           /* also what is older */
    uint32_t list_max;    /* entries listed of skipped files */
    uint32_t batch_bytes; /* of one atomic batch, <= half of policy.batch_max; 0 = 128 KiB */
    int timeout_ms;       /* of the last wait, for the disk; < 0 = for ever */
};

struct ms_rocketmq_import_file {
    int origin;       /* enum ms_rocketmq_origin */
    int64_t mtime_ms; /* 0 = unknown */
    uint64_t rows, put, deleted, unchanged;
    uint64_t differing; /* rows and deletes that the file would bring; = put + deleted unless skipped */
    bool skipped;
    char reason[MS_ERROR_SIZE];  /* why it was skipped; otherwise "" */
    char trouble[MS_ERROR_SIZE]; /* what is wrong with the .json, where the .bak was used: a warning; otherwise "" */
};

struct ms_rocketmq_report {
    struct ms_rocketmq_import_file files[MS_ROCKETMQ_FILES];
    struct ms_rows skipped; /* differing entries of skipped files, at most list_max; state: MS_OP_PUT or MS_OP_DELETE */
};

/* Loads dir (files.h) and imports it. options may be NULL. The report says what was done, also when this fails half way;
 * close it in either case. Errors: those of ms_rocketmq_load (nothing was written) and of the tables. */
int ms_rocketmq_import(struct ms_rocketmq_tables *tables, struct ms_fs *fs, const char *dir,
                       const struct ms_rocketmq_import_options *options, struct ms_rocketmq_report *report);

/* The report as JSON text, made by jansson and owned by the caller: free with ms_free. MEMORY. */
int ms_rocketmq_report_json(const struct ms_rocketmq_report *report, char **json);
void ms_rocketmq_report_close(struct ms_rocketmq_report *report);

#endif
