/* ms_log_dump: logs, snapshots and loss reports as lines of JSON, offline. */
#include <jansson.h>

#include "base/error.h"
#include "base/mem.h"
#include "drive/fs.h"
#include "node_losses.h"
#include "state/datadir.h"
#include "state/snapshot.h"
#include "sync/render.h"

struct dump {
    struct ms_fs *fs;
    uint64_t from;
    int (*fn)(void *context, const char *line);
    void *context;
    struct ms_render_names names;
    struct ms_buf line, group;
    bool silent; /* only learns the names of tables */
};

static int give(struct dump *dump, const struct ms_record *record, uint64_t lsn, uint64_t time_us)
{
    ms_buf_clear(&dump->line);
    int rc = ms_render_record(&dump->line, record, lsn, time_us, &dump->names);
    if (rc || dump->silent) return rc;
    dump->line.data[dump->line.size - 1] = '\0'; /* it ends with a newline */
    return dump->fn(dump->context, (const char *)dump->line.data);
}

/* A checked group. Entries of a snapshot have no lsn and are always given. */
static int dump_group(struct dump *dump, struct ms_bytes group, const struct ms_group_header *header)
{
    bool entries = header->flags & (MS_GROUP_ENTRIES | MS_GROUP_META);
    struct ms_record_reader reader = ms_record_reader(group, header);
    struct ms_record record;
    int rc;
    for (uint64_t lsn = header->first; (rc = ms_record_next(&reader, &record)) == 1; lsn++) {
        if (!entries && lsn < dump->from && record.type != MS_RECORD_TABLE) continue;
        bool silent = dump->silent;
        if (!entries && lsn < dump->from) dump->silent = true;
        rc = give(dump, &record, entries ? 0 : lsn, header->time_us);
        dump->silent = silent;
        if (rc) break;
    }
    return rc;
}

/* The group at offset of a file; *end is where it ends. 0 = the file (or its used part) ends here, 1 = a group. */
static int read_group(struct dump *dump, struct ms_file *file, const char *path, uint64_t offset, uint64_t *end, struct ms_group_header *header)
{
    uint8_t head[MS_GROUP_HEADER];
    static const uint8_t zeros[MS_GROUP_HEADER];
    size_t got = 0;
    int rc = dump->fs->ops->read(dump->fs, file, offset, head, sizeof head, &got);
    if (rc || got == 0) return rc;
    if (got == sizeof head && memcmp(head, zeros, sizeof head) == 0) return 0;
    rc = got < sizeof head ? ms_fail(MS_E_DAMAGED, "the file ends inside a group") : ms_group_open(ms_bytes(head, sizeof head), header);
    ms_buf_clear(&dump->group);
    uint8_t *room = NULL;
    size_t size = rc ? 0 : ms_group_size(header->body_size);
    if (!rc && !(room = ms_buf_extend(&dump->group, size))) return MS_E_MEMORY;
    if (!rc) rc = ms_fs_read_all(dump->fs, file, offset, room, size);
    if (!rc) rc = ms_group_check(ms_bytes(room, size), header);
    *end = offset + size;
    return rc ? ms_fail_wrap(rc, "%s at offset %llu", path, (unsigned long long)offset) : 1;
}

static int dump_file(struct dump *dump, const char *path, uint64_t offset, bool first_only)
{
    struct ms_file *file = NULL;
    struct ms_group_header header;
    int rc = dump->fs->ops->open(dump->fs, path, MS_FS_READ, &file);
    if (rc) return rc;
    while ((rc = read_group(dump, file, path, offset, &offset, &header)) == 1) {
        rc = dump_group(dump, ms_buf_bytes(&dump->group), &header);
        if (rc || first_only) break;
    }
    dump->fs->ops->close(dump->fs, file);
    return rc;
}

/* Tables may have been defined before the oldest record of the log: snapshots begin with their names. */
static int learn_names(struct dump *dump, const char *dir)
{
    struct ms_snapshot_name names[MS_SNAPSHOTS_MAX];
    char path[MS_PATH_MAX];
    uint32_t count = 0;
    int rc = ms_snapshot_list(dump->fs, dir, names, &count);
    if (!rc && count > 0) rc = ms_path(path, dir, names[0].name);
    if (rc || count == 0) return rc;
    dump->silent = true;
    rc = dump_file(dump, path, 0, true);
    dump->silent = false;
    return rc;
}

static int dump_log(struct dump *dump, const char *dir)
{
    struct ms_log_reader *reader = NULL;
    struct ms_block *block = NULL;
    struct ms_group_header header;
    int rc = learn_names(dump, dir);
    if (!rc) rc = ms_log_reader_open(dump->fs, dir, 0, &reader);
    while (!rc && (rc = ms_log_reader_next(reader, UINT64_MAX, &block)) == 1) {
        struct ms_bytes group = ms_bytes(block->data, block->size);
        rc = ms_group_open(group, &header);
        if (!rc) rc = dump_group(dump, group, &header);
        ms_block_unref(block);
    }
    ms_log_reader_close(reader);
    return rc;
}

/* A line of the archive is JSON already. */
static int dump_line(void *context, const struct ms_loss_line *line)
{
    struct dump *dump = context;
    json_error_t error;
    json_t *object = json_loadb((const char *)line->text.data, line->text.size, JSON_ALLOW_NUL, &error);
    bool sound = json_is_object(object);
    json_decref(object);
    if (!sound) return ms_fail(MS_E_DAMAGED, "%s, line %llu: no JSON object", line->path, (unsigned long long)line->number);
    ms_buf_clear(&dump->line);
    ms_buf_add(&dump->line, line->text.data, line->text.size);
    ms_buf_add8(&dump->line, 0);
    return dump->line.failed ? MS_E_MEMORY : dump->fn(dump->context, (const char *)ms_buf_bytes(&dump->line).data);
}

static int is_report(void *context, const char *name)
{
    bool *found = context;
    *found = ms_losses_named(name);
    return *found;
}

static int dump_directory(struct dump *dump, const char *path, bool archive)
{
    char live[MS_PATH_MAX];
    if (archive) return ms_losses_read_all(dump->fs, path, dump_line, dump);
    int rc = ms_datadir_live(dump->fs, path, live);
    return rc ? rc : dump_log(dump, live);
}

static int dump_path(struct dump *dump, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t size = strlen(name);
    bool directory, archive = false, lines = size > 6 && strcmp(name + size - 6, ".jsonl") == 0;
    directory = dump->fs->ops->list(dump->fs, path, is_report, &archive) >= 0;
    if (dump->from && (archive || (lines && !directory)))
        return ms_fail(MS_E_INVALID, "%s: its lines have no positions to begin from", path);
    if (directory) return dump_directory(dump, path, archive);
    if (lines) return ms_losses_read(dump->fs, path, dump_line, dump);
    return dump_file(dump, path, strncmp(name, "log-", 4) == 0 ? MS_SEGMENT_HEADER : 0, false);
}

int ms_log_dump(const char *path, uint64_t from, int (*fn)(void *context, const char *line), void *context)
{
    struct dump *dump = ms_alloc_zero(sizeof *dump);
    if (!dump) return MS_E_MEMORY;
    dump->fs = ms_fs_posix();
    dump->from = from;
    dump->fn = fn;
    dump->context = context;
    int rc = dump_path(dump, path);
    ms_buf_close(&dump->line);
    ms_buf_close(&dump->group);
    ms_release(dump);
    return rc;
}
