/* Extras files: their names, how far each is, reading and reporting. They are made in extras_make.c. */
#include "extras_write.h"

#include <inttypes.h>
#include <stdio.h>

static const char head_magic[8] = "MSEXTRA1", place_magic[8] = "MSEXTAT1";

enum { PLACE_SIZE = 64, RECORD_HEAD = 8, NAME_SIZE = 59 };

/* ---- names ------------------------------------------------------------------------------------------------------------------ */

void ms_extras_name(char name[MS_EXTRAS_NAME], struct ms_epoch epoch, int kind)
{
    (void)snprintf(name, MS_EXTRAS_NAME, "extras-%016" PRIx64 "-%016" PRIx64 "-%016" PRIx64 "-%d", epoch.reign, epoch.run, epoch.id, kind);
}

int ms_extras_folder(struct ms_datadir *dir, char folder[MS_PATH_MAX])
{
    return ms_path(folder, dir->path, "archive");
}

static int path_of(const char *folder, const char *name, const char *suffix, char path[MS_PATH_MAX])
{
    char whole[MS_EXTRAS_NAME + 16];
    (void)snprintf(whole, sizeof whole, "%s%s", name, suffix);
    return ms_path(path, folder, whole);
}

/* "loss-...": of the same epoch and kind. */
static int report_path(const char *folder, const char *name, char path[MS_PATH_MAX])
{
    char report[MS_EXTRAS_NAME + 16];
    (void)snprintf(report, sizeof report, "loss-%s.jsonl", name + strlen("extras-"));
    return ms_path(path, folder, report);
}

static int collect(void *context, const char *name)
{
    struct ms_buf *names = context;
    if (strlen(name) != NAME_SIZE || strncmp(name, "extras-", 7) != 0) return 0;
    char fixed[MS_EXTRAS_NAME] = {0};
    memcpy(fixed, name, NAME_SIZE);
    ms_buf_add(names, fixed, sizeof fixed);
    return names->failed ? MS_E_MEMORY : 0;
}

static int list(struct ms_datadir *dir, char folder[MS_PATH_MAX], struct ms_buf *names)
{
    int rc = ms_extras_folder(dir, folder);
    if (!rc) rc = dir->fs->ops->list(dir->fs, folder, collect, names);
    return rc == MS_E_NOT_FOUND ? 0 : rc;
}

static int oldest(struct ms_datadir *dir, char folder[MS_PATH_MAX], char name[MS_EXTRAS_NAME])
{
    struct ms_buf names;
    ms_buf_init(&names);
    name[0] = '\0';
    int rc = list(dir, folder, &names);
    for (size_t at = 0; !rc && at < names.size; at += MS_EXTRAS_NAME) {
        const char *other = (const char *)names.data + at;
        if (!name[0] || strcmp(other, name) < 0) memcpy(name, other, MS_EXTRAS_NAME);
    }
    ms_buf_close(&names);
    return rc;
}

/* ---- header, place ------------------------------------------------------------------------------------------------------------ */

void ms_extras_header(uint8_t header[MS_EXTRAS_HEADER], uint64_t id, uint64_t count)
{
    memcpy(header, head_magic, sizeof head_magic);
    ms_store64(header + 8, id);
    ms_store64(header + 16, count);
    ms_store64(header + 24, ms_hash(header, 24));
}

struct place { /* see extras_file.h */
    uint64_t id, count;
    uint64_t done, sent, boot, offset, report;
};

static int read_header(struct ms_fs *fs, const char *folder, const char *name, struct place *place)
{
    char path[MS_PATH_MAX];
    uint8_t header[MS_EXTRAS_HEADER];
    struct ms_file *file = NULL;
    int rc = path_of(folder, name, "", path);
    if (!rc) rc = fs->ops->open(fs, path, MS_FS_READ, &file);
    if (rc) return rc;
    rc = ms_fs_read_all(fs, file, 0, header, sizeof header);
    fs->ops->close(fs, file);
    if (!rc && (memcmp(header, head_magic, sizeof head_magic) != 0 || ms_load64(header + 24) != ms_hash(header, 24)))
        rc = ms_fail(MS_E_DAMAGED, "%s: no sound header of an extras file", path);
    *place = (struct place){.id = ms_load64(header + 8), .count = ms_load64(header + 16), .offset = MS_EXTRAS_HEADER};
    return rc;
}

static int file_size(struct ms_fs *fs, const char *path, uint64_t *size)
{
    struct ms_file *file = NULL;
    *size = 0;
    int rc = fs->ops->open(fs, path, MS_FS_READ, &file);
    if (rc) return rc == MS_E_NOT_FOUND ? 0 : rc;
    rc = fs->ops->size(fs, file, size);
    fs->ops->close(fs, file);
    return rc;
}

/* Without a sound place of this very file: at its beginning, and nothing that stands in the report is dropped. */
static int read_place(struct ms_fs *fs, const char *folder, const char *name, struct place *place)
{
    char path[MS_PATH_MAX];
    struct ms_buf bytes;
    ms_buf_init(&bytes);
    int rc = read_header(fs, folder, name, place);
    if (!rc) rc = path_of(folder, name, ".at", path);
    int missing = rc ? 0 : ms_fs_read_file(fs, path, PLACE_SIZE, &bytes);
    const uint8_t *at = bytes.data;
    bool sound = !rc && !missing && bytes.size == PLACE_SIZE && memcmp(at, place_magic, sizeof place_magic) == 0 &&
                 ms_load64(at + 56) == ms_hash(at, 56) && ms_load64(at + 8) == place->id;
    if (sound) {
        place->done = ms_load64(at + 16);
        place->sent = ms_load64(at + 24);
        place->boot = ms_load64(at + 32);
        place->offset = ms_load64(at + 40);
        place->report = ms_load64(at + 48);
    } else if (!rc) {
        if (missing && missing != MS_E_NOT_FOUND && missing != MS_E_LIMIT) rc = missing;
        if (!rc) rc = report_path(folder, name, path);
        if (!rc) rc = file_size(fs, path, &place->report);
    }
    ms_buf_close(&bytes);
    return rc;
}

static int write_place(struct ms_fs *fs, const char *folder, const char *name, const struct place *place)
{
    char at[MS_EXTRAS_NAME + 16];
    uint8_t bytes[PLACE_SIZE];
    memcpy(bytes, place_magic, sizeof place_magic);
    ms_store64(bytes + 8, place->id);
    ms_store64(bytes + 16, place->done);
    ms_store64(bytes + 24, place->sent);
    ms_store64(bytes + 32, place->boot);
    ms_store64(bytes + 40, place->offset);
    ms_store64(bytes + 48, place->report);
    ms_store64(bytes + 56, ms_hash(bytes, 56));
    (void)snprintf(at, sizeof at, "%s.at", name);
    return ms_fs_replace(fs, folder, at, bytes, sizeof bytes);
}

int ms_extras_pending(struct ms_datadir *dir, uint64_t *pending)
{
    char folder[MS_PATH_MAX];
    struct ms_buf names;
    ms_buf_init(&names);
    *pending = 0;
    int rc = list(dir, folder, &names);
    for (size_t at = 0; !rc && at < names.size; at += MS_EXTRAS_NAME) {
        struct place place;
        rc = read_place(dir->fs, folder, (const char *)names.data + at, &place);
        if (rc == MS_E_DAMAGED) rc = 0;
        else if (!rc && place.count > place.done) *pending += place.count - place.done;
    }
    ms_buf_close(&names);
    return rc;
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------------- */

/* Reads the record at *offset into bytes (NULL: steps over it), as a batch has it. */
static int read_record(struct ms_fs *fs, struct ms_file *file, uint64_t end, uint64_t *offset, struct ms_buf *bytes)
{
    uint8_t head[RECORD_HEAD];
    int rc = ms_fs_read_all(fs, file, *offset, head, sizeof head);
    if (rc) return rc;
    uint32_t size = ms_load32(head);
    if (*offset + RECORD_HEAD + size > end)
        return ms_fail(MS_E_DAMAGED, "a record at %" PRIu64 " runs past the end at %" PRIu64, *offset, end);
    if (bytes) {
        ms_buf_add32(bytes, size);
        uint8_t *room = ms_buf_extend(bytes, size);
        if (!room) return MS_E_MEMORY;
        rc = ms_fs_read_all(fs, file, *offset + RECORD_HEAD, room, size);
        if (!rc && (uint32_t)ms_hash(room, size) != ms_load32(head + 4))
            rc = ms_fail(MS_E_DAMAGED, "the record at %" PRIu64 " has a wrong hash", *offset);
    }
    *offset += RECORD_HEAD + (uint64_t)size;
    return rc;
}

/* Opens the file for records; end: its size. */
static int open_records(struct ms_fs *fs, const char *folder, const char *name, struct ms_file **file, uint64_t *end)
{
    char path[MS_PATH_MAX];
    int rc = path_of(folder, name, "", path);
    if (!rc) rc = fs->ops->open(fs, path, MS_FS_READ, file);
    if (rc) return rc;
    rc = fs->ops->size(fs, *file, end);
    if (rc) fs->ops->close(fs, *file);
    return rc;
}

static int read_window(struct ms_fs *fs, const char *folder, const char *name, const struct place *place, struct ms_extras_batch *batch)
{
    struct ms_file *file = NULL;
    uint64_t end = 0, offset = place->offset;
    int rc = open_records(fs, folder, name, &file, &end);
    if (rc) return rc;
    while (!rc && batch->count < MS_EXTRAS_WINDOW && place->done + batch->count < place->count && batch->bytes.size < MS_EXTRAS_BYTES) {
        rc = read_record(fs, file, end, &offset, &batch->bytes);
        if (!rc) batch->count++;
    }
    fs->ops->close(fs, file);
    return rc;
}

/* It can't be read, and so not be worked off: out of the way of the others. What it was made of is in the archive too. */
static int set_aside(struct ms_fs *fs, const char *folder, const char *name)
{
    char why[MS_ERROR_SIZE], from[MS_PATH_MAX], to[MS_PATH_MAX];
    (void)snprintf(why, sizeof why, "%s", ms_error_message());
    int rc = path_of(folder, name, "", from);
    if (!rc) rc = path_of(folder, name, ".bad", to);
    if (!rc) rc = fs->ops->rename(fs, from, to);
    if (!rc) rc = fs->ops->sync_dir(fs, folder);
    return rc ? rc : ms_fail(MS_E_DAMAGED, "%.200s is damaged and set aside, its extras are not resolved: %.300s", to, why);
}

static int note_sent(struct ms_fs *fs, const char *folder, const char *name, struct place place, uint64_t boot, uint32_t count)
{
    struct place next = place;
    if (place.sent > place.done && place.boot != boot) next.boot = 0;
    else next.boot = boot;
    if (next.sent < place.done + count) next.sent = place.done + count;
    return write_place(fs, folder, name, &next);
}

int ms_extras_read(struct ms_datadir *dir, uint64_t boot, struct ms_extras_batch *batch)
{
    struct ms_fs *fs = dir->fs;
    char folder[MS_PATH_MAX], name[MS_EXTRAS_NAME];
    struct place place = {0};
    int rc = oldest(dir, folder, name);
    if (rc || !name[0]) return rc;
    rc = read_place(fs, folder, name, &place);
    if (!rc) rc = read_window(fs, folder, name, &place, batch);
    if (!rc && batch->count == 0) rc = ms_fail(MS_E_DAMAGED, "nothing is left in it");
    if (rc == MS_E_DAMAGED) return set_aside(fs, folder, name);
    if (!rc) rc = note_sent(fs, folder, name, place, boot, batch->count);
    if (!rc) rc = ms_extras_pending(dir, &batch->pending);
    batch->id = place.id;
    batch->first = place.done;
    batch->sent = place.sent;
    batch->boot = place.boot;
    (void)snprintf(batch->name, sizeof batch->name, "%s", name);
    return rc;
}

/* ---- reporting ------------------------------------------------------------------------------------------------------------------------ */

/* Appends behind *size, which moves. */
static int append(struct ms_fs *fs, const char *folder, const char *path, struct ms_bytes text, uint64_t *size)
{
    struct ms_file *file = NULL;
    uint64_t now = 0;
    int rc = fs->ops->open(fs, path, MS_FS_WRITE, &file);
    bool fresh = rc == MS_E_NOT_FOUND;
    if (fresh) rc = fs->ops->open(fs, path, MS_FS_CREATE, &file);
    if (rc) return rc;
    rc = fs->ops->size(fs, file, &now);
    if (!rc && now > *size) rc = fs->ops->truncate(fs, file, *size);
    if (now < *size) *size = now; /* somebody has shortened it */
    if (!rc) rc = ms_fs_write_all(fs, file, *size, text.data, text.size);
    if (!rc) rc = fs->ops->sync(fs, file);
    fs->ops->close(fs, file);
    if (!rc && *size == 0) rc = fs->ops->sync_dir(fs, folder); /* it may be new, or have been new when a crash came */
    if (!rc) *size += text.size;
    return rc;
}

static int remove_file(struct ms_fs *fs, const char *folder, const char *name)
{
    char path[MS_PATH_MAX];
    int rc = path_of(folder, name, "", path);
    if (!rc) rc = fs->ops->remove(fs, path);
    if (!rc) rc = path_of(folder, name, ".at", path);
    if (!rc) rc = fs->ops->remove(fs, path);
    if (rc == MS_E_NOT_FOUND) rc = 0;
    return rc ? rc : fs->ops->sync_dir(fs, folder);
}

static int move_place(struct ms_fs *fs, const char *folder, const char *name, struct place *place, uint64_t done)
{
    struct ms_file *file = NULL;
    uint64_t end = 0;
    if (done >= place->count) return remove_file(fs, folder, name);
    int rc = open_records(fs, folder, name, &file, &end);
    if (rc) return rc;
    for (; !rc && place->done < done; place->done++) rc = read_record(fs, file, end, &place->offset, NULL);
    fs->ops->close(fs, file);
    return rc ? rc : write_place(fs, folder, name, place);
}

int ms_extras_report(struct ms_datadir *dir, uint64_t id, uint64_t done, struct ms_bytes text, uint64_t *pending, char path[MS_PATH_MAX])
{
    struct ms_fs *fs = dir->fs;
    char folder[MS_PATH_MAX], name[MS_EXTRAS_NAME];
    struct place place = {0};
    int rc = oldest(dir, folder, name);
    if (!rc && !name[0]) rc = ms_fail(MS_E_NOT_FOUND, "there is no extras file any more");
    if (!rc) rc = read_place(fs, folder, name, &place);
    if (!rc && place.id != id) rc = ms_fail(MS_E_NOT_FOUND, "the oldest extras file is another one: %s", name);
    if (!rc) rc = report_path(folder, name, path);
    if (!rc) rc = append(fs, folder, path, text, &place.report);
    if (!rc) rc = move_place(fs, folder, name, &place, done);
    return rc ? rc : ms_extras_pending(dir, pending);
}
