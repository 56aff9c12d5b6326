#include "export.h"

#include <stdio.h>

/* ---- collecting ------------------------------------------------------------------------------------------------------- */

struct collect {
    struct ms_rows *rows;
    int table;
};

static int add_row(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct collect *collect = context;
    return ms_rows_add(collect->rows, collect->table, key, value);
}

static int collect_table(struct ms_rocketmq_tables *tables, int table, struct ms_rows *rows)
{
    struct collect collect = {rows, table};
    return tables->walk(tables, ms_rocketmq_table_names[table], add_row, &collect);
}

int ms_rocketmq_collect(struct ms_rocketmq_tables *tables, struct ms_rows *rows)
{
    ms_rows_init(rows);
    int rc = collect_table(tables, MS_ROCKETMQ_DATA_VERSION, rows);
    for (int table = 0; !rc && table < MS_ROCKETMQ_TABLES; table++) {
        if (table != MS_ROCKETMQ_DATA_VERSION) rc = collect_table(tables, table, rows);
    }
    if (!rc) ms_rows_sort(rows);
    return rc;
}

/* ---- writing ---------------------------------------------------------------------------------------------------------- */

/* Makes the old text the .bak, if it is one that could be loaded. */
static int keep_old(struct ms_fs *fs, const char *dir, int file, struct ms_bytes old, struct ms_rocketmq_export_file *report)
{
    char name[64];
    struct ms_rows rows = {0};
    struct ms_rocketmq_version version;
    (void)snprintf(name, sizeof name, "%s.bak", ms_rocketmq_file_names[file]);
    int rc = ms_rocketmq_parse(file, ms_rocketmq_file_names[file], old, &rows, &version);
    ms_rows_close(&rows);
    if (rc == MS_E_FORMAT || rc == MS_E_LIMIT) {
        (void)snprintf(report->trouble, sizeof report->trouble, "%s", ms_fail_message(rc));
        return 0;
    }
    if (!rc) rc = ms_fs_replace(fs, dir, name, old.data, old.size);
    report->kept = rc == 0;
    return rc;
}

/* 1. the old text becomes the .bak, 2. the new text becomes the file: each in one step. A file without rows that brokers need not have is
 * not made. */
static int write_file(struct ms_fs *fs, const char *dir, int file, struct ms_bytes text,
                      struct ms_rocketmq_export_file *report)
{
    char path[MS_PATH_MAX];
    struct ms_buf old = {0};
    int rc = ms_path(path, dir, ms_rocketmq_file_names[file]);
    if (rc) return rc;
    rc = ms_fs_read_file(fs, path, MS_JSON_SIZE_MAX, &old);
    bool same = rc == 0 && ms_bytes_equal(ms_buf_bytes(&old), text);
    bool unwanted = rc == MS_E_NOT_FOUND && file >= MS_ROCKETMQ_ALWAYS && report->rows == 0;
    if (rc == 0 && !same) rc = keep_old(fs, dir, file, ms_buf_bytes(&old), report);
    else if (rc == MS_E_LIMIT) (void)snprintf(report->trouble, sizeof report->trouble, "%s", ms_fail_message(rc));
    ms_buf_close(&old);
    if (rc == MS_E_NOT_FOUND || rc == MS_E_LIMIT) rc = 0;
    if (rc || same || unwanted) return rc;
    rc = ms_fs_replace(fs, dir, ms_rocketmq_file_names[file], text.data, text.size);
    report->written = rc == 0;
    return rc;
}

static uint64_t count_rows(const struct ms_rows *rows, int file)
{
    uint64_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        if (ms_rocketmq_file_of(rows->list[i].table, ms_row_key(rows, &rows->list[i])) == file) count++;
    }
    return count;
}

int ms_rocketmq_export(struct ms_rocketmq_tables *tables, struct ms_fs *fs, const char *dir,
                       struct ms_rocketmq_export_report *report)
{
    struct ms_rocketmq_export_report unused;
    struct ms_buf texts[MS_ROCKETMQ_FILES] = {0};
    struct ms_rows rows;
    if (!report) report = &unused;
    *report = (struct ms_rocketmq_export_report){0};
    int rc = ms_rocketmq_collect(tables, &rows);
    for (int file = 0; !rc && file < MS_ROCKETMQ_FILES; file++) {
        rc = ms_rocketmq_compose(&rows, file, &texts[file]);
        report->files[file].rows = count_rows(&rows, file);
        report->files[file].bytes = texts[file].size;
    }
    ms_rows_close(&rows);
    if (!rc) rc = fs->ops->mkdir(fs, dir);
    for (int file = 0; !rc && file < MS_ROCKETMQ_FILES; file++) {
        rc = write_file(fs, dir, file, ms_buf_bytes(&texts[file]), &report->files[file]);
        if (rc) rc = ms_fail_wrap(rc, "export of %s", ms_rocketmq_file_names[file]);
    }
    for (int file = 0; file < MS_ROCKETMQ_FILES; file++) ms_buf_close(&texts[file]);
    return rc;
}
