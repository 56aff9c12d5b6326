/* Loading snapshots, and the files of them: list, prune, read.
 *
 * The loader takes a snapshot's groups one after the other and is strict: every group must be the one that is due, entries and lsns are
 * counted, and nothing counts as loaded before the closing group's mark, lineage and numbers fit what was folded. So a cut, mixed
 * or re-ordered snapshot is noticed however it came here. */
#include "snapshot.h"

#include <stdio.h>
#include <stdlib.h>

#include "../base/error.h"
#include "log_segment.h"

enum phase { WANT_BEGIN = 0, WANT_ENTRIES, WANT_LOG, COMPLETE, BROKEN };

#define PREFIX "snap-"
#define BAD ".bad"

enum { DIGITS = 20 };

static const uint64_t lsn_max = UINT64_MAX / 2; /* so that sums of lsns can't overflow, whatever a file says */

/* ---- the loader ------------------------------------------------------------------------------------------------------ */

void ms_snapshot_loader_init(struct ms_snapshot_loader *loader, struct ms_store *store)
{
    *loader = (struct ms_snapshot_loader){.store = store, .next_entry = 1};
}

static int unexpected(const struct ms_record *record)
{
    return ms_fail(MS_E_FORMAT, "a snapshot's record of type %d is not where it belongs", record->type);
}

static int load_start(struct ms_snapshot_loader *loader, const struct ms_record *record, struct ms_bytes cluster)
{
    struct ms_store *store = loader->store;
    if (record->type != MS_RECORD_BEGIN) return unexpected(record);
    if (cluster.data && !ms_bytes_equal(cluster, record->key))
        return ms_fail(MS_E_CLUSTER, "a snapshot of cluster %.*s, not %.*s", (int)record->key.size, (const char *)record->key.data,
                       (int)cluster.size, (const char *)cluster.data);
    if (record->lsn > lsn_max) return ms_fail(MS_E_FORMAT, "a snapshot that starts at lsn %llu", (unsigned long long)record->lsn);
    loader->id = record->id;
    loader->start = store->applied = record->lsn;
    store->fuzzy = true;
    return 0;
}

/* BEGIN, LINEAGE, TABLE... */
static int load_begin(struct ms_snapshot_loader *loader, struct ms_record_reader *reader, struct ms_bytes cluster)
{
    struct ms_store *store = loader->store;
    struct ms_record record;
    int more, rc = 0, known = 0;
    if (store->applied || store->table_count) return ms_fail(MS_E_INVALID, "a snapshot is loaded into an empty store only");
    while (!rc && (more = ms_record_next(reader, &record)) != 0) {
        if (more < 0) return more;
        if (record.type & MS_RECORD_OPTIONAL) {
            store->skipped++;
            continue;
        }
        if (known == 0) rc = load_start(loader, &record, cluster);
        else if (known == 1) rc = record.type == MS_RECORD_LINEAGE ? ms_lineage_decode(record.list, &store->lineage) : unexpected(&record);
        else if (record.type == MS_RECORD_TABLE) rc = ms_store_define(store, record.table, record.value_type, record.key);
        else rc = unexpected(&record);
        known++;
    }
    if (!rc && known < 2) rc = ms_fail(MS_E_FORMAT, "a snapshot's first group is not whole");
    if (!rc) loader->phase = WANT_ENTRIES;
    return rc;
}

static int load_entry(struct ms_store *store, const struct ms_record *record)
{
    if (record->type & MS_RECORD_OPTIONAL) {
        store->skipped++;
        return 0;
    }
    if (record->type != MS_RECORD_PUT) return unexpected(record);
    struct ms_table_state *table = ms_store_table(store, record->table);
    if (!table) return ms_fail(MS_E_FORMAT, "a snapshot's entry is of table %u, which is not defined", record->table);
    if (table->type == MS_TYPE_INT64 && record->value.size != 8)
        return ms_fail(MS_E_FORMAT, "a snapshot has a value of %zu bytes for the int64 table %s", record->value.size, table->name);
    return ms_table_fold(table, record->key, ms_key_hash(record->key), record->value);
}

static int load_entries(struct ms_snapshot_loader *loader, const struct ms_group_header *header, struct ms_record_reader *reader)
{
    struct ms_record record;
    int more;
    if (header->first != loader->next_entry)
        return ms_fail(MS_E_FORMAT, "entry %llu of a snapshot is due, not %llu", (unsigned long long)loader->next_entry,
                       (unsigned long long)header->first);
    while ((more = ms_record_next(reader, &record)) != 0) {
        int rc = more < 0 ? more : load_entry(loader->store, &record);
        if (rc) return rc;
    }
    loader->next_entry += header->count;
    loader->entries = loader->next_entry - 1;
    return 0;
}

static int load_log(struct ms_snapshot_loader *loader, struct ms_bytes group, const struct ms_group_header *header)
{
    loader->phase = WANT_LOG;
    return ms_store_fold(loader->store, group, header, NULL, NULL);
}

/* The lineage at the end is the one at the start and the epochs of the log between. */
static int check_lineage(const struct ms_store *store, struct ms_bytes payload)
{
    struct ms_buf mine;
    ms_buf_init(&mine);
    ms_lineage_encode(&store->lineage, &mine);
    int rc = mine.failed ? ms_fail(MS_E_MEMORY, "out of memory for a lineage") : 0;
    if (!rc && !ms_bytes_equal(ms_buf_bytes(&mine), payload)) rc = ms_fail(MS_E_DAMAGED, "a snapshot's lineage is not that of its log");
    ms_buf_close(&mine);
    return rc;
}

static int check_end(struct ms_snapshot_loader *loader, const struct ms_record *lineage, const struct ms_record *mark, const struct ms_record *end)
{
    struct ms_store *store = loader->store;
    if (end->lsn != store->applied)
        return ms_fail(MS_E_DAMAGED, "a snapshot that ends at lsn %llu has the log up to %llu", (unsigned long long)end->lsn,
                       (unsigned long long)store->applied);
    if (end->entries != loader->entries)
        return ms_fail(MS_E_DAMAGED, "a snapshot of %llu entries has %llu", (unsigned long long)end->entries,
                       (unsigned long long)loader->entries);
    int rc = check_lineage(store, lineage->list);
    if (!rc) rc = ms_store_check_mark(store, mark->list, end->lsn);
    return rc;
}

/* LINEAGE, MARK, END */
static int load_end(struct ms_snapshot_loader *loader, struct ms_record_reader *reader)
{
    static const uint8_t types[3] = {MS_RECORD_LINEAGE, MS_RECORD_MARK, MS_RECORD_END};
    struct ms_record records[3], record;
    int known = 0, more;
    while ((more = ms_record_next(reader, &record)) != 0) {
        if (more < 0) return more;
        if (record.type & MS_RECORD_OPTIONAL) {
            loader->store->skipped++;
            continue;
        }
        if (known == 3 || record.type != types[known]) return unexpected(&record);
        records[known++] = record;
    }
    if (known < 3) return ms_fail(MS_E_FORMAT, "a snapshot's last group is not whole");
    int rc = check_end(loader, &records[0], &records[1], &records[2]);
    if (rc) return rc;
    loader->store->fuzzy = false;
    loader->store->changes_since_mark = 0;
    loader->end = records[2].lsn;
    loader->phase = COMPLETE;
    loader->complete = true;
    return 0;
}

static int load_group(struct ms_snapshot_loader *loader, struct ms_bytes group, const struct ms_group_header *header, struct ms_bytes cluster)
{
    struct ms_record_reader reader = ms_record_reader(group, header);
    bool begun = loader->phase == WANT_ENTRIES || loader->phase == WANT_LOG;
    switch (header->flags) {
    case 0:
        if (begun) return load_log(loader, group, header);
        break;
    case MS_GROUP_ENTRIES:
        if (loader->phase == WANT_ENTRIES) return load_entries(loader, header, &reader);
        break;
    case MS_GROUP_META:
        if (header->first != 0) break;
        if (loader->phase == WANT_BEGIN) return load_begin(loader, &reader, cluster);
        if (begun && header->time_us > loader->store->changed_us) loader->store->changed_us = header->time_us;
        if (begun) return load_end(loader, &reader);
    }
    return ms_fail(MS_E_FORMAT, "a group with flags %d, first %llu is not due in a snapshot", header->flags, (unsigned long long)header->first);
}

static int load_checked(struct ms_snapshot_loader *loader, struct ms_bytes group, const struct ms_group_header *header, struct ms_bytes cluster)
{
    if (loader->phase == BROKEN) return ms_fail(MS_E_INVALID, "this snapshot was refused before");
    int rc = load_group(loader, group, header, cluster);
    if (rc) loader->phase = BROKEN;
    return rc;
}

int ms_snapshot_loader_group(struct ms_snapshot_loader *loader, struct ms_bytes group, struct ms_bytes cluster)
{
    struct ms_group_header header;
    int rc = ms_group_check(group, &header);
    if (!rc && group.size != ms_group_size(header.body_size)) rc = ms_fail(MS_E_FORMAT, "%zu bytes are not one group", group.size);
    if (rc) {
        loader->phase = BROKEN;
        return rc;
    }
    return load_checked(loader, group, &header, cluster);
}

/* ---- files ----------------------------------------------------------------------------------------------------------- */

static int load_file(struct ms_window *window, struct ms_snapshot_loader *loader, struct ms_bytes cluster, uint64_t *offset)
{
    while (*offset < window->size) {
        struct ms_group_header header;
        struct ms_bytes group;
        int place = ms_window_group(window, *offset, true, &header, &group);
        if (place < 0) return place;
        if (place != MS_PLACE_GROUP) return ms_fail(MS_E_DAMAGED, "no sound group is there");
        int rc = load_checked(loader, group, &header, cluster);
        if (rc) return rc == MS_E_FORMAT ? MS_E_DAMAGED : rc;
        *offset += group.size;
    }
    return loader->complete ? 0 : ms_fail(MS_E_DAMAGED, "the closing group is missing");
}

int ms_snapshot_load(struct ms_fs *fs, const char *path, struct ms_bytes cluster, struct ms_store *store)
{
    struct ms_window window;
    struct ms_snapshot_loader loader;
    uint64_t offset = 0;
    ms_snapshot_loader_init(&loader, store);
    int rc = ms_window_open(&window, fs, path);
    if (rc) return rc;
    rc = load_file(&window, &loader, cluster, &offset);
    ms_window_close(&window);
    return rc ? ms_fail_wrap(rc, "snapshot %s at offset %llu", path, (unsigned long long)offset) : 0;
}

int ms_snapshot_read_id(struct ms_fs *fs, const char *path, uint64_t *id)
{
    struct ms_window window;
    struct ms_group_header header;
    struct ms_bytes group;
    struct ms_record record = {0};
    int rc = ms_window_open(&window, fs, path);
    if (rc) return rc;
    int place = ms_window_group(&window, 0, true, &header, &group);
    if (place == MS_PLACE_GROUP) {
        struct ms_record_reader reader = ms_record_reader(group, &header);
        place = ms_record_next(&reader, &record);
    }
    if (place < 0) rc = place;
    else if (record.type != MS_RECORD_BEGIN) rc = ms_fail(MS_E_DAMAGED, "it does not begin like one");
    else *id = record.id;
    ms_window_close(&window);
    return rc ? ms_fail_wrap(rc, "snapshot %s", path) : 0;
}

/* ---- directories ----------------------------------------------------------------------------------------------------- */

/* The end lsn in a snapshot's name, and what follows it ("" or ".bad"); false if it is the name of something else. */
static bool parse_name(const char *name, uint64_t *end, const char **suffix)
{
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) return false;
    const char *digits = name + strlen(PREFIX);
    if (strspn(digits, "0123456789") != DIGITS) return false;
    *end = strtoull(digits, NULL, 10);
    *suffix = digits + DIGITS;
    return **suffix == '\0' || strcmp(*suffix, BAD) == 0;
}

struct listing {
    struct ms_snapshot_name *names; /* newest first */
    uint32_t count;
};

static int list_one(void *context, const char *name)
{
    struct listing *listing = context;
    const char *suffix;
    uint64_t end;
    if (!parse_name(name, &end, &suffix) || *suffix) return 0;
    uint32_t at = listing->count;
    while (at > 0 && listing->names[at - 1].end < end) at--;
    if (at == MS_SNAPSHOTS_MAX) return 0;
    if (listing->count < MS_SNAPSHOTS_MAX) listing->count++;
    memmove(listing->names + at + 1, listing->names + at, (listing->count - at - 1) * sizeof *listing->names);
    listing->names[at].end = end;
    memcpy(listing->names[at].name, name, strlen(name) + 1);
    return 0;
}

int ms_snapshot_list(struct ms_fs *fs, const char *dir, struct ms_snapshot_name names[MS_SNAPSHOTS_MAX], uint32_t *count)
{
    struct listing listing = {names, 0};
    int rc = fs->ops->list(fs, dir, list_one, &listing);
    *count = rc ? 0 : listing.count;
    return rc;
}

struct pruning {
    struct ms_fs *fs;
    const char *dir;
    uint64_t oldest, pinned; /* what ends before both goes */
};

static int prune_one(void *context, const char *name)
{
    const struct pruning *pruning = context;
    const char *suffix;
    uint64_t end;
    char path[MS_PATH_MAX];
    if (!parse_name(name, &end, &suffix) || end >= pruning->oldest || (pruning->pinned && end >= pruning->pinned)) return 0;
    int rc = ms_path(path, pruning->dir, name);
    if (!rc) rc = pruning->fs->ops->remove(pruning->fs, path);
    return rc == MS_E_NOT_FOUND ? 0 : rc;
}

int ms_snapshot_prune(struct ms_fs *fs, const char *dir, uint32_t keep, uint64_t pinned)
{
    struct ms_snapshot_name names[MS_SNAPSHOTS_MAX];
    uint32_t count;
    if (keep == 0 || keep > MS_SNAPSHOTS_MAX) return ms_fail(MS_E_INVALID, "keep 1 to %d snapshots, not %u", MS_SNAPSHOTS_MAX, keep);
    int rc = ms_snapshot_list(fs, dir, names, &count);
    if (rc || count < keep) return rc;
    struct pruning pruning = {fs, dir, names[keep - 1].end, pinned};
    return fs->ops->list(fs, dir, prune_one, &pruning);
}

/* ---- serving --------------------------------------------------------------------------------------------------------- */

/* How many of the `size` bytes in data are whole groups; *need = size of the first one. */
static int whole_groups(const uint8_t *data, size_t size, size_t *whole, size_t *need)
{
    *whole = *need = 0;
    while (size - *whole >= MS_GROUP_HEADER) {
        struct ms_group_header header;
        int rc = ms_group_open(ms_bytes(data + *whole, size - *whole), &header);
        if (rc) return rc == MS_E_FORMAT ? MS_E_DAMAGED : rc;
        size_t group = ms_group_size(header.body_size);
        if (*need == 0) *need = group;
        if (group > size - *whole) break;
        *whole += group;
    }
    return 0;
}

/* Makes data hold `size` bytes from offset on. */
static int fetch(struct ms_fs *fs, struct ms_file *file, uint64_t offset, size_t size, struct ms_buf *data)
{
    size_t had = data->size;
    if (size <= had) return 0;
    uint8_t *room = ms_buf_extend(data, size - had);
    return room ? ms_fs_read_all(fs, file, offset + had, room, size - had) : ms_fail(MS_E_MEMORY, "out of memory for a snapshot");
}

int ms_snapshot_read(struct ms_fs *fs, struct ms_file *file, uint64_t offset, uint64_t limit, size_t size, struct ms_buf *data, size_t *got)
{
    size_t whole, need;
    ms_buf_clear(data);
    *got = 0;
    if (offset >= limit) return 0;
    uint64_t left = limit - offset;
    if (size < MS_GROUP_HEADER) size = MS_GROUP_HEADER;
    int rc = fetch(fs, file, offset, left < size ? (size_t)left : size, data);
    if (!rc) rc = whole_groups(data->data, data->size, &whole, &need);
    if (!rc && whole == 0) { /* the first group is larger than what was asked for */
        if (need == 0 || need > left) rc = ms_fail(MS_E_DAMAGED, "a group runs past the end of the file");
        else rc = fetch(fs, file, offset, need, data);
        whole = need;
    }
    if (rc) return ms_fail_wrap(rc, "snapshot at offset %llu", (unsigned long long)offset);
    *got = data->size = whole;
    return 0;
}

enum { WALK_BYTES = 256 << 10 };

static int walk_groups(struct ms_bytes groups, ms_snapshot_group_fn fn, void *context)
{
    int rc = 0;
    for (size_t at = 0; !rc && at < groups.size;) {
        struct ms_group_header header;
        struct ms_bytes rest = ms_bytes((const uint8_t *)groups.data + at, groups.size - at);
        rc = ms_group_open(rest, &header);
        if (!rc) rc = fn(context, ms_bytes(rest.data, ms_group_size(header.body_size)));
        if (!rc) at += ms_group_size(header.body_size);
    }
    return rc;
}

int ms_snapshot_groups(struct ms_fs *fs, const char *path, ms_snapshot_group_fn fn, void *context)
{
    struct ms_file *file = NULL;
    struct ms_buf piece;
    uint64_t size = 0, offset = 0;
    size_t got = 1;
    int rc = fs->ops->open(fs, path, MS_FS_READ, &file);
    if (rc) return rc;
    ms_buf_init(&piece);
    rc = fs->ops->size(fs, file, &size);
    while (!rc && got > 0) {
        rc = ms_snapshot_read(fs, file, offset, size, WALK_BYTES, &piece, &got);
        if (!rc) rc = walk_groups(ms_bytes(piece.data, got), fn, context);
        offset += got;
    }
    ms_buf_close(&piece);
    fs->ops->close(fs, file);
    return rc;
}
