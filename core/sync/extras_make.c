/* Making an extras file: the last change of each key in a range of the log, with what the key had before it.
 *
 * Memory is bounded by keeping only a part of the keys at a time, chosen by their hash: if the keys of one of N parts are too much, it
 * begins anew with 2 N. For each part:
 *
 *      1. the range is folded into tables of this file's own (`mine`), deletes being values too;
 *      2. snapshot and log up to the common position are folded for the keys that are in `mine` (`base`);
 *      3. what is in `mine` is written. */
#include "../state/snapshot.h"
#include "extras_write.h"

enum { WRITE_BYTES = 256 << 10, PARTS_MAX = 1 << 16 };

/* ---- writing a file --------------------------------------------------------------------------------------------------------- */

struct writer {
    struct ms_fs *fs;
    char folder[MS_PATH_MAX], path[MS_PATH_MAX];
    struct ms_file *file;
    struct ms_buf pending;
    uint64_t offset, count;
};

static int writer_open(struct writer *writer, struct ms_datadir *dir)
{
    struct ms_fs *fs = writer->fs = dir->fs;
    ms_buf_init(&writer->pending);
    writer->file = NULL;
    writer->offset = MS_EXTRAS_HEADER;
    writer->count = 0;
    int rc = ms_extras_folder(dir, writer->folder);
    if (!rc) rc = fs->ops->mkdir(fs, writer->folder);
    if (!rc) rc = fs->ops->sync_dir(fs, dir->path);
    if (!rc) rc = ms_path(writer->path, writer->folder, "extras.tmp");
    return rc ? rc : fs->ops->open(fs, writer->path, MS_FS_CREATE, &writer->file);
}

static int writer_flush(struct writer *writer)
{
    if (writer->pending.failed) return MS_E_MEMORY;
    int rc = ms_fs_write_all(writer->fs, writer->file, writer->offset, writer->pending.data, writer->pending.size);
    writer->offset += writer->pending.size;
    ms_buf_clear(&writer->pending);
    return rc;
}

static int writer_add(struct writer *writer, struct ms_bytes record)
{
    ms_buf_add32(&writer->pending, (uint32_t)record.size);
    ms_buf_add32(&writer->pending, (uint32_t)ms_hash(record.data, record.size));
    ms_buf_add(&writer->pending, record.data, record.size);
    writer->count++;
    return writer->pending.size >= WRITE_BYTES ? writer_flush(writer) : writer->pending.failed ? MS_E_MEMORY : 0;
}

static int writer_finish(struct writer *writer, uint64_t id, const char *name)
{
    uint8_t header[MS_EXTRAS_HEADER];
    char path[MS_PATH_MAX];
    struct ms_fs *fs = writer->fs;
    int rc = writer_flush(writer);
    if (writer->count == 0) return rc;
    ms_extras_header(header, id, writer->count);
    if (!rc) rc = ms_fs_write_all(fs, writer->file, 0, header, sizeof header);
    if (!rc) rc = fs->ops->sync(fs, writer->file);
    if (!rc) rc = ms_path(path, writer->folder, name);
    if (rc) return rc;
    fs->ops->close(fs, writer->file);
    writer->file = NULL;
    rc = fs->ops->rename(fs, writer->path, path);
    return rc ? rc : fs->ops->sync_dir(fs, writer->folder);
}

static void writer_close(struct writer *writer)
{
    if (writer->file) {
        writer->fs->ops->close(writer->fs, writer->file);
        (void)writer->fs->ops->remove(writer->fs, writer->path); /* a left-over is replaced the next time */
    }
    ms_buf_close(&writer->pending);
}

/* ---- one part of the keys ------------------------------------------------------------------------------------------------------ */

enum { TOMBSTONE = 0, VALUE = 1, MINE_HEAD = 9 }; /* what stands before a value in `mine` (then an lsn) and in `base` */

struct part {
    const struct ms_extras_source *source;
    uint32_t index, parts;
    uint64_t first;            /* oldest lsn of the log, or behind `to` */
    bool base_complete;        /* base knows every key of the common position */
    struct ms_table_state *mine[MS_TABLES_MAX], *base[MS_TABLES_MAX]; /* made when needed */
    uint32_t last_table;       /* highest id of mine */
    struct ms_buf value;
    uint64_t lsn;              /* of the record that is folded */
};

static void free_tables(struct ms_table_state *tables[MS_TABLES_MAX])
{
    for (uint32_t id = 0; id < MS_TABLES_MAX; id++) {
        if (!tables[id]) continue;
        ms_table_close(tables[id]);
        ms_release(tables[id]);
        tables[id] = NULL;
    }
}

static int put(struct ms_table_state *tables[MS_TABLES_MAX], uint32_t id, struct ms_bytes key, struct ms_bytes value)
{
    if (!tables[id]) {
        struct ms_table_state *table = ms_alloc_zero(sizeof *table);
        if (!table) return MS_E_MEMORY;
        int rc = ms_table_init(table, id, MS_TYPE_BYTES, ms_str("extras"));
        if (rc) {
            ms_release(table);
            return rc;
        }
        tables[id] = table;
    }
    return ms_table_fold(tables[id], key, ms_key_hash(key), value);
}

/* More than may be held, and a smaller part would hold less. */
static bool is_too_large(const struct part *part)
{
    uint64_t bytes = 0, entries = 0;
    for (uint32_t id = 1; id <= part->last_table; id++) {
        if (!part->mine[id]) continue;
        bytes += part->mine[id]->content->bytes;
        entries += part->mine[id]->content->live;
    }
    return bytes > part->source->memory && entries > 1 && part->parts < PARTS_MAX;
}

static struct ms_bytes get(struct ms_table_state *const tables[MS_TABLES_MAX], uint32_t id, struct ms_bytes key)
{
    return tables[id] ? ms_table_get(tables[id], key, ms_key_hash(key)) : ms_bytes(NULL, 0);
}

static void learn(struct part *part, const struct ms_record *record)
{
    struct ms_render_names *names = part->source->names;
    size_t size = record->key.size < MS_TABLE_NAME_MAX ? record->key.size : MS_TABLE_NAME_MAX;
    memset(names->name[record->table], 0, sizeof names->name[0]);
    memcpy(names->name[record->table], record->key.data, size);
    names->type[record->table] = record->value_type;
}

/* A record of the range. */
static int fold_mine(struct part *part, const struct ms_record *record)
{
    if (record->type == MS_RECORD_TABLE) learn(part, record);
    bool put_or_delete = record->type == MS_RECORD_PUT || record->type == MS_RECORD_DELETE;
    if (!put_or_delete && record->type != MS_RECORD_LEAVE) return 0;
    if (ms_key_hash(record->key) % part->parts != part->index) return 0;
    if (record->table > part->last_table) part->last_table = record->table;
    if (!put_or_delete) return put(part->mine, record->table, record->key, ms_bytes(NULL, 0)); /* left the view: a copy of the host's alone */
    ms_buf_clear(&part->value);
    ms_buf_add8(&part->value, record->type == MS_RECORD_PUT ? VALUE : TOMBSTONE);
    ms_buf_add64(&part->value, part->lsn);
    if (record->type == MS_RECORD_PUT) ms_buf_add(&part->value, record->value.data, record->value.size);
    return part->value.failed ? MS_E_MEMORY : put(part->mine, record->table, record->key, ms_buf_bytes(&part->value));
}

/* A record of the common history. */
static int fold_base(struct part *part, const struct ms_record *record)
{
    if (record->type != MS_RECORD_PUT && record->type != MS_RECORD_DELETE && record->type != MS_RECORD_LEAVE) return 0;
    if (!get(part->mine, record->table, record->key).data) return 0;
    ms_buf_clear(&part->value);
    ms_buf_add8(&part->value, record->type == MS_RECORD_PUT ? VALUE : TOMBSTONE);
    if (record->type == MS_RECORD_PUT) ms_buf_add(&part->value, record->value.data, record->value.size);
    return part->value.failed ? MS_E_MEMORY : put(part->base, record->table, record->key, ms_buf_bytes(&part->value));
}

/* ---- reading log and snapshot ----------------------------------------------------------------------------------------------------- */

typedef int (*fold_fn)(struct part *part, const struct ms_record *record);

static int fold_group(struct part *part, struct ms_bytes group, uint64_t from, uint64_t to, fold_fn fold)
{
    struct ms_group_header header;
    struct ms_record record;
    int rc = ms_group_open(group, &header);
    if (rc) return rc;
    bool of_log = header.flags == 0;
    struct ms_record_reader reader = ms_record_reader(group, &header);
    uint64_t lsn = header.first;
    while ((rc = ms_record_next(&reader, &record)) == 1) {
        part->lsn = lsn++;
        if (of_log && (part->lsn < from || part->lsn > to)) continue;
        rc = fold(part, &record);
        if (rc) return rc;
    }
    return rc;
}

/* Records from..to, as far as the log has them. */
static int fold_log(struct part *part, uint64_t from, uint64_t to, fold_fn fold)
{
    const struct ms_extras_source *source = part->source;
    struct ms_log_reader *reader = NULL;
    struct ms_block *block = NULL;
    if (from < part->first) from = part->first;
    if (from > to) return 0;
    int rc = ms_log_reader_open(source->dir->fs, source->dir->live, from, &reader);
    if (rc == MS_E_NOT_FOUND) rc = ms_log_reader_open(source->dir->fs, source->dir->live, 0, &reader); /* no group starts there */
    while (!rc && (rc = ms_log_reader_next(reader, source->to, &block)) == 1) {
        bool over = block->first > to;
        rc = over ? 0 : fold_group(part, ms_bytes(block->data, block->size), from, to, fold);
        ms_block_unref(block);
        if (over) break;
        if (!rc && fold == fold_mine && is_too_large(part)) rc = MS_E_LIMIT;
    }
    ms_log_reader_close(reader);
    return rc;
}

static int fold_snapshot_group(void *context, struct ms_bytes group)
{
    return fold_group(context, group, 0, UINT64_MAX, fold_base);
}

/* The newest snapshot that holds nothing beyond the common position, if there is one. */
static int fold_snapshot(struct part *part, uint64_t common, uint64_t *end)
{
    struct ms_datadir *dir = part->source->dir;
    struct ms_snapshot_name names[MS_SNAPSHOTS_MAX];
    char path[MS_PATH_MAX];
    uint32_t count = 0, i = 0;
    *end = 0;
    int rc = ms_snapshot_list(dir->fs, dir->live, names, &count);
    while (!rc && i < count && names[i].end > common) i++;
    if (rc || i == count) return rc;
    rc = ms_path(path, dir->live, names[i].name);
    if (!rc) rc = ms_snapshot_groups(dir->fs, path, fold_snapshot_group, part);
    if (!rc) *end = names[i].end;
    return rc == MS_E_NOT_FOUND ? 0 : rc;
}

static int find_bases(struct part *part)
{
    uint64_t common = part->source->from - 1, end = 0;
    part->base_complete = false;
    if (common == 0) return 0; /* no history in common */
    int rc = fold_snapshot(part, common, &end);
    if (!rc) rc = fold_log(part, end + 1, common, fold_base);
    if (rc == MS_E_DAMAGED || rc == MS_E_FORMAT || rc == MS_E_VERSION) { /* then base is not known: no reason to give up the rest */
        free_tables(part->base);
        return 0;
    }
    part->base_complete = part->first <= end + 1;
    return rc;
}

/* ---- writing a part ------------------------------------------------------------------------------------------------------------------ */

struct emit {
    struct part *part;
    struct writer *writer;
    struct ms_buf record;
    uint32_t table;
};

static uint64_t epoch_at(const struct ms_lineage *lineage, uint64_t lsn)
{
    uint64_t id = 0;
    for (uint32_t i = 0; i < lineage->count && lineage->entries[i].first <= lsn; i++) id = lineage->entries[i].epoch.id;
    return id;
}

static int write_extra(struct emit *emit, const struct ms_extra *extra)
{
    ms_buf_clear(&emit->record);
    ms_extra_encode(extra, &emit->record);
    return emit->record.failed ? MS_E_MEMORY : writer_add(emit->writer, ms_buf_bytes(&emit->record));
}

static int emit_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct emit *emit = context;
    const struct part *part = emit->part;
    const struct ms_render_names *names = part->source->names;
    const uint8_t *mine = value.data;
    struct ms_bytes base = get(part->base, emit->table, key);
    struct ms_extra extra = {.reason = MS_CONFLICT_DEPOSED, .type = names->type[emit->table], .key = key};
    memcpy(extra.table, names->name[emit->table], sizeof extra.table);
    extra.lsn = ms_load64(mine + 1);
    extra.epoch = epoch_at(part->source->lineage, extra.lsn);
    if (mine[0] == VALUE) extra.mine = ms_bytes(mine + MINE_HEAD, value.size - MINE_HEAD);
    extra.base_known = base.data || part->base_complete;
    if (base.data && *(const uint8_t *)base.data == VALUE) extra.base = ms_bytes((const uint8_t *)base.data + 1, base.size - 1);
    return write_extra(emit, &extra);
}

static int write_part(struct part *part, struct writer *writer)
{
    struct emit emit = {.part = part, .writer = writer};
    int rc = 0;
    ms_buf_init(&emit.record);
    for (emit.table = 1; emit.table < MS_TABLES_MAX && !rc; emit.table++) {
        const struct ms_table_state *table = part->mine[emit.table];
        for (uint32_t shard = 0; table && shard < MS_TABLE_SHARDS && !rc; shard++)
            if (table->content->shards[shard].entries) rc = ms_table_visit(table, shard, false, emit_entry, &emit);
    }
    ms_buf_close(&emit.record);
    return rc;
}

/* Records that nobody can take apart into keys any more: one entry says so. */
static int write_trimmed(struct part *part, struct writer *writer)
{
    const struct ms_extras_source *source = part->source;
    struct emit emit = {.part = part, .writer = writer};
    struct ms_extra extra = {.reason = MS_CONFLICT_DEPOSED, .type = MS_TYPE_BYTES};
    if (part->first <= source->from) return 0;
    extra.lsn = part->first - 1 < source->to ? part->first - 1 : source->to;
    extra.epoch = epoch_at(source->lineage, extra.lsn);
    ms_buf_init(&emit.record);
    int rc = write_extra(&emit, &extra);
    ms_buf_close(&emit.record);
    return rc;
}

static int make_part(struct part *part, struct writer *writer)
{
    int rc = part->index == 0 ? write_trimmed(part, writer) : 0;
    if (!rc) rc = fold_log(part, part->source->from, part->source->to, fold_mine);
    if (!rc) rc = find_bases(part);
    if (!rc) rc = write_part(part, writer);
    free_tables(part->mine);
    free_tables(part->base);
    return rc;
}

/* MS_E_LIMIT: a part was too large. */
static int make_parts(struct part *part, uint32_t parts, struct writer *writer)
{
    int rc = writer_open(writer, part->source->dir);
    part->parts = parts;
    for (part->index = 0; !rc && part->index < parts; part->index++) rc = make_part(part, writer);
    return rc;
}

int ms_extras_make(const struct ms_extras_source *given, uint64_t *count)
{
    struct ms_extras_source source = *given;
    struct writer writer;
    char name[MS_EXTRAS_NAME];
    *count = 0;
    if (source.memory == 0) source.memory = MS_EXTRAS_MEMORY;
    struct part *part = ms_alloc_zero(sizeof *part);
    if (!part) return MS_E_MEMORY;
    part->source = &source;
    ms_buf_init(&part->value);
    ms_extras_name(name, ms_lineage_last(source.lineage), MS_EXTRAS_LOGGED);
    int rc = ms_log_reader_first(source.dir->fs, source.dir->live, &part->first);
    if (part->first == 0) part->first = source.to + 1; /* the log is empty */
    for (uint32_t parts = 1; !rc; parts *= 2) {
        rc = make_parts(part, parts, &writer);
        if (rc != MS_E_LIMIT) {
            if (!rc) rc = writer_finish(&writer, source.id, name);
            if (!rc) *count = writer.count;
            writer_close(&writer);
            break;
        }
        writer_close(&writer);
        rc = 0;
    }
    ms_buf_close(&part->value);
    ms_release(part);
    return rc;
}

/* ---- buffered values -------------------------------------------------------------------------------------------------------------------- */

/* The first name of its kind that nobody has. */
static int free_name(struct writer *writer, struct ms_epoch epoch, char name[MS_EXTRAS_NAME])
{
    for (int kind = MS_EXTRAS_BUFFERED; kind <= 9; kind++) {
        char path[MS_PATH_MAX];
        struct ms_file *file = NULL;
        ms_extras_name(name, epoch, kind);
        int rc = ms_path(path, writer->folder, name);
        if (!rc) rc = writer->fs->ops->open(writer->fs, path, MS_FS_READ, &file);
        if (rc == MS_E_NOT_FOUND) return 0;
        if (rc) return rc;
        writer->fs->ops->close(writer->fs, file);
    }
    return ms_fail(MS_E_LIMIT, "there are too many extras files of one epoch");
}

int ms_extras_keep(struct ms_datadir *dir, uint64_t id, struct ms_bytes extras, uint64_t *count)
{
    struct writer writer;
    char name[MS_EXTRAS_NAME];
    struct ms_reader reader = ms_reader(extras);
    struct ms_epoch epoch = {ms_read64(&reader), 0, 0};
    epoch.run = ms_read64(&reader);
    epoch.id = ms_read64(&reader);
    *count = 0;
    int rc = writer_open(&writer, dir);
    while (!rc && ms_reader_left(&reader) > 0) {
        uint32_t size = ms_read32(&reader);
        struct ms_bytes record = ms_read_bytes(&reader, size);
        rc = reader.bad ? ms_fail(MS_E_FORMAT, "extras that end in the middle of one") : writer_add(&writer, record);
    }
    if (!rc) rc = free_name(&writer, epoch, name);
    if (!rc) rc = writer_finish(&writer, id, name);
    if (!rc) *count = writer.count;
    writer_close(&writer);
    return rc;
}
