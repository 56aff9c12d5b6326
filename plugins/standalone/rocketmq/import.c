#include "import.h"

#include <jansson.h>
#include <stdio.h>

#include "../../../core/base/hash.h"
#include "../../../core/base/mem.h"

enum { OPS_MAX = 2048, BATCH_BYTES = 128 * 1024, OP_OVERHEAD = 64, STATE_SIZE = 256 };

/* struct ms_row.state of a row of the files, after the base was read. */
enum { ROW_NEW = 0, ROW_CHANGED = 1, ROW_SAME = 2 };

/* One entry to be written, together with its hash. Borrows from the rows. */
struct op {
    int table;
    struct ms_bytes key, value; /* value.data == NULL deletes */
};

struct import {
    struct ms_rocketmq_tables *tables;
    struct ms_rocketmq_import_options options;
    struct ms_rocketmq_files files;
    struct ms_rows gone; /* what the base has and the files don't; where the whole file is missing it is not looked at */
    struct ms_rocketmq_report *report;
    struct op *ops; /* the batch being filled: entries of buffered tables only, or of others only */
    size_t op_count, op_bytes;
    bool buffered;
    int file; /* that is being written */
    struct ms_rocketmq_write *writes; /* room for the batch's entries and their hashes */
    struct ms_buf base_keys;
};

/* What import_state says of a file. */
struct last {
    struct ms_rocketmq_version version;
    int64_t mtime_ms; /* 0 = unknown */
};

static uint64_t value_hash(struct ms_bytes value)
{
    return ms_hash(value.data, value.size);
}

/* ---- step 1: read the base ---------------------------------------------------------------------------------------- */

static int meet_base(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct import *import = context;
    const char *nul = key.size ? memchr(key.data, 0, key.size) : NULL;
    if (!nul) return 0;
    size_t name_size = (size_t)(nul - (const char *)key.data);
    int table = ms_rocketmq_table_named(ms_bytes(key.data, name_size));
    if (table < 0) return 0; /* of another version of this import: not ours to judge */
    key = ms_bytes(nul + 1, key.size - name_size - 1);
    struct ms_row *row = ms_rows_find(&import->files.rows, table, key);
    if (row) {
        bool same = value.size == 8 && ms_load64(value.data) == value_hash(ms_row_value(&import->files.rows, row));
        row->state = same ? ROW_SAME : ROW_CHANGED;
        return 0;
    }
    return ms_rows_add(&import->gone, table, key, ms_bytes(NULL, 0));
}

static bool is_gone_from(const struct import *import, const struct ms_row *row, int file)
{
    return ms_rocketmq_file_of(row->table, ms_row_key(&import->gone, row)) == file;
}

static void count_differences(struct import *import, int file)
{
    const struct ms_rocketmq_source *source = &import->files.sources[file];
    struct ms_rocketmq_import_file *report = &import->report->files[file];
    report->rows = source->count;
    for (size_t i = 0; i < source->count; i++) {
        if (import->files.rows.list[source->first + i].state == ROW_SAME) report->unchanged++;
        else report->differing++;
    }
    for (size_t i = 0; i < import->gone.count; i++) {
        if (is_gone_from(import, &import->gone.list[i], file)) report->differing++;
    }
}

/* ---- step 2: is a file older than what is here? --------------------------------------------------------------------- */

static int64_t number_of(const json_t *object, const char *name)
{
    return (int64_t)json_integer_value(json_object_get(object, name));
}

static int read_last(struct import *import, int file, struct last *last)
{
    struct ms_buf text = {0};
    struct ms_bytes key = ms_str(ms_rocketmq_file_names[file]);
    *last = (struct last){0};
    int rc = import->tables->get(import->tables, MS_ROCKETMQ_STATE, &key, &text);
    if (!rc) {
        json_t *state = json_loadb((const char *)ms_buf_bytes(&text).data, text.size, 0, NULL);
        const json_t *version = json_object_get(state, "version");
        last->mtime_ms = number_of(state, "mtime");
        if (json_is_object(version)) {
            last->version = (struct ms_rocketmq_version){true, number_of(version, "state"), number_of(version, "counter"),
                                                         number_of(version, "timestamp")};
        }
        json_decref(state);
    }
    ms_buf_close(&text);
    return rc == MS_E_NOT_FOUND ? 0 : rc;
}

/* The version that data_version has for the file, if it is higher than *version. */
static int raise_to_table(struct import *import, int file, struct ms_rocketmq_version *version)
{
    struct ms_buf text = {0};
    struct ms_rocketmq_version here = {0};
    struct ms_bytes key = ms_str(ms_rocketmq_table_names[ms_rocketmq_file_table(file)]);
    int rc = import->tables->get(import->tables, ms_rocketmq_table_names[MS_ROCKETMQ_DATA_VERSION], &key, &text);
    if (!rc) rc = ms_rocketmq_version_parse(ms_buf_bytes(&text), &here);
    ms_buf_close(&text);
    if (here.known && (!version->known || ms_rocketmq_version_compare(&here, version) > 0)) *version = here;
    return rc == MS_E_NOT_FOUND ? 0 : rc;
}

static void describe(const struct ms_rocketmq_version *version, char text[100])
{
    (void)snprintf(text, 100, "%lld.%lld of %lld", (long long)version->state, (long long)version->counter,
                   (long long)version->timestamp);
}

/* Sets reason if so. here: the highest version known here. */
static bool is_older(const struct ms_rocketmq_source *source, const struct ms_rocketmq_version *here, int64_t last_mtime_ms,
                     char reason[MS_ERROR_SIZE])
{
    int order = source->version.known && here->known ? ms_rocketmq_version_compare(&source->version, here) : 0;
    if (order < 0) {
        char theirs[100], ours[100];
        describe(&source->version, theirs);
        describe(here, ours);
        (void)snprintf(reason, MS_ERROR_SIZE, "older than what is here: its data version is %s, here it is %s", theirs,
                       ours);
        return true;
    }
    if (order > 0 || !source->mtime_ms || !last_mtime_ms || source->mtime_ms >= last_mtime_ms) return false;
    (void)snprintf(reason, MS_ERROR_SIZE, "older than what is here: its time is %lld, the last import's %lld (ms)",
                   (long long)source->mtime_ms, (long long)last_mtime_ms);
    return true;
}

static int list_skipped(struct import *import, int file)
{
    const struct ms_rocketmq_source *source = &import->files.sources[file];
    struct ms_rows *list = &import->report->skipped;
    for (size_t i = 0; i < source->count && list->count < import->options.list_max; i++) {
        const struct ms_row *row = &import->files.rows.list[source->first + i];
        if (row->state == ROW_SAME) continue;
        int rc = ms_rows_add(list, row->table, ms_row_key(&import->files.rows, row), ms_bytes(NULL, 0));
        if (rc) return rc;
        list->list[list->count - 1].state = MS_OP_PUT;
    }
    for (size_t i = 0; i < import->gone.count && list->count < import->options.list_max; i++) {
        const struct ms_row *row = &import->gone.list[i];
        if (!is_gone_from(import, row, file)) continue;
        int rc = ms_rows_add(list, row->table, ms_row_key(&import->gone, row), ms_bytes(NULL, 0));
        if (rc) return rc;
        list->list[list->count - 1].state = MS_OP_DELETE;
    }
    return 0;
}

/* ---- step 3: write --------------------------------------------------------------------------------------------------- */

static struct ms_rocketmq_write value_write(const struct op *op)
{
    int type = ms_rocketmq_table_type(op->table);
    return (struct ms_rocketmq_write){ms_rocketmq_table_names[op->table], type, op->key, op->value};
}

/* The entry of import_base for op; its bytes go to `at`, which moves on. */
static struct ms_rocketmq_write base_write(const struct op *op, uint8_t **at)
{
    const char *name = ms_rocketmq_table_names[op->table];
    size_t name_size = strlen(name) + 1;
    struct ms_bytes key = ms_bytes(*at, name_size + op->key.size);
    struct ms_rocketmq_write write = {MS_ROCKETMQ_BASE, MS_TYPE_BYTES, key, ms_bytes(NULL, 0)};
    memcpy(*at, name, name_size);
    memcpy(*at + name_size, op->key.data, op->key.size);
    *at += key.size;
    if (op->value.data) {
        ms_store64(*at, value_hash(op->value));
        write.value = ms_bytes(*at, 8);
        *at += 8;
    }
    return write;
}

static int write_ops(struct import *import, size_t count, bool apart)
{
    struct ms_rocketmq_tables *tables = import->tables;
    if (!apart) return tables->write(tables, import->writes, 2 * count);
    int rc = tables->write(tables, import->writes, count);
    if (!rc && import->buffered) rc = tables->flush(tables);
    return rc ? rc : tables->write(tables, import->writes + count, count);
}

static int submit(struct import *import)
{
    size_t count = import->op_count, bytes = import->op_bytes;
    if (count == 0) return 0;
    ms_buf_clear(&import->base_keys);
    uint8_t *at = ms_buf_extend(&import->base_keys, bytes);
    if (!at) return MS_E_MEMORY;
    for (size_t i = 0; i < count; i++) {
        import->writes[i] = value_write(&import->ops[i]);
        import->writes[count + i] = base_write(&import->ops[i], &at);
    }
    /* One entry that fills a batch alone is written before its hash too: the order is what counts. */
    int rc = write_ops(import, count, import->buffered || (count == 1 && bytes > import->options.batch_bytes));
    for (size_t i = 0; !rc && i < count; i++) {
        struct ms_rocketmq_import_file *report = &import->report->files[import->file];
        if (import->ops[i].value.data) report->put++;
        else report->deleted++;
    }
    import->op_count = import->op_bytes = 0;
    return rc;
}

static int add_op(struct import *import, int table, struct ms_bytes key, struct ms_bytes value)
{
    size_t bytes = 2 * key.size + value.size + OP_OVERHEAD;
    bool buffered = import->tables->is_buffered(import->tables, ms_rocketmq_table_names[table]);
    bool full = import->op_count == OPS_MAX || import->op_bytes + bytes > import->options.batch_bytes;
    if (import->op_count > 0 && (full || buffered != import->buffered)) {
        int rc = submit(import);
        if (rc) return rc;
    }
    import->buffered = buffered;
    import->ops[import->op_count++] = (struct op){table, key, value};
    import->op_bytes += bytes;
    return 0;
}

static void state_text(const struct ms_rocketmq_source *source, char text[STATE_SIZE])
{
    char version[120] = "null";
    if (source->version.known) {
        (void)snprintf(version, sizeof version, "{\"state\":%lld,\"counter\":%lld,\"timestamp\":%lld}",
                       (long long)source->version.state, (long long)source->version.counter,
                       (long long)source->version.timestamp);
    }
    (void)snprintf(text, STATE_SIZE, "{\"mtime\":%lld,\"rows\":%zu,\"source\":\"%s\",\"version\":%s}",
                   (long long)source->mtime_ms, source->count, ms_rocketmq_origin_names[source->origin], version);
}

/* First of all, so that nothing older is accepted after a crash in the middle. Not if it says so already. */
static int write_state(struct import *import, int file)
{
    struct ms_bytes key = ms_str(ms_rocketmq_file_names[file]);
    struct ms_buf before = {0};
    char text[STATE_SIZE];
    state_text(&import->files.sources[file], text);
    int rc = import->tables->get(import->tables, MS_ROCKETMQ_STATE, &key, &before);
    if (rc == MS_E_NOT_FOUND || (rc == 0 && !ms_bytes_equal(ms_buf_bytes(&before), ms_str(text)))) {
        struct ms_rocketmq_write write = {MS_ROCKETMQ_STATE, MS_TYPE_BYTES, key, ms_str(text)};
        rc = import->tables->write(import->tables, &write, 1);
    }
    ms_buf_close(&before);
    return rc;
}

static int write_file(struct import *import, int file)
{
    const struct ms_rocketmq_source *source = &import->files.sources[file];
    import->file = file;
    int rc = write_state(import, file);
    for (size_t i = 0; !rc && i < source->count; i++) {
        const struct ms_row *row = &import->files.rows.list[source->first + i];
        if (row->state == ROW_SAME) continue;
        rc = add_op(import, row->table, ms_row_key(&import->files.rows, row), ms_row_value(&import->files.rows, row));
    }
    for (size_t i = 0; !rc && i < import->gone.count; i++) {
        const struct ms_row *row = &import->gone.list[i];
        if (!is_gone_from(import, row, file)) continue;
        rc = add_op(import, row->table, ms_row_key(&import->gone, row), ms_bytes(NULL, 0));
    }
    return rc ? rc : submit(import);
}

/* ---- the whole -------------------------------------------------------------------------------------------------------- */

static int import_file(struct import *import, int file)
{
    const struct ms_rocketmq_source *source = &import->files.sources[file];
    struct ms_rocketmq_import_file *report = &import->report->files[file];
    struct last last;
    report->origin = source->origin;
    report->mtime_ms = source->mtime_ms;
    memcpy(report->trouble, source->trouble, sizeof report->trouble);
    if (source->origin == MS_ROCKETMQ_MISSING) return 0;
    count_differences(import, file);
    int rc = read_last(import, file, &last);
    if (!rc) rc = raise_to_table(import, file, &last.version);
    if (rc) return rc;
    if (!import->options.force && is_older(source, &last.version, last.mtime_ms, report->reason)) {
        report->skipped = report->differing > 0;
        if (!report->skipped) report->reason[0] = '\0';
        return list_skipped(import, file);
    }
    return write_file(import, file);
}

static int import_files(struct import *import)
{
    int rc = ms_rows_index(&import->files.rows);
    if (!rc) rc = import->tables->walk(import->tables, MS_ROCKETMQ_BASE, meet_base, import);
    for (int file = 0; !rc && file < MS_ROCKETMQ_FILES; file++) {
        rc = import_file(import, file);
        if (rc) return ms_fail_wrap(rc, "import of %s", ms_rocketmq_file_names[file]);
    }
    return rc ? rc : import->tables->wait(import->tables, import->options.timeout_ms);
}

int ms_rocketmq_import(struct ms_rocketmq_tables *tables, struct ms_fs *fs, const char *dir,
                       const struct ms_rocketmq_import_options *options, struct ms_rocketmq_report *report)
{
    static const struct ms_rocketmq_import_options defaults = {.list_max = 100, .timeout_ms = 60000};
    struct import import = {.tables = tables, .options = options ? *options : defaults, .report = report};
    if (import.options.batch_bytes == 0) import.options.batch_bytes = BATCH_BYTES;
    *report = (struct ms_rocketmq_report){0};
    import.ops = ms_alloc(OPS_MAX * sizeof *import.ops);
    import.writes = ms_alloc(2 * OPS_MAX * sizeof *import.writes);
    int rc = import.ops && import.writes ? ms_rocketmq_load(fs, dir, &import.files) : MS_E_MEMORY;
    if (!rc) rc = import_files(&import);
    ms_buf_close(&import.base_keys);
    ms_release(import.writes);
    ms_release(import.ops);
    ms_rows_close(&import.gone);
    ms_rocketmq_files_close(&import.files);
    return rc;
}
