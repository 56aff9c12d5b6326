/* Recovery: finds the end of the log by the rule in log.h, folds what is before it, and cleans what is behind it.
 *
 *   1. Look   at every segment's header.
 *   2. Read   from the oldest segment on, group by group, to the first place where no sound group with the next lsn stands. The
 *             log goes on in the next segment if that one's header names this lsn.
 *   3. Search behind that place for a group which says that the lsn due there had been synced: damage, nothing is touched.
 *   4. Clean  what is behind: later segments are removed, newest first and each one durably, so that after a crash in between the
 *             rest is still a run of numbers; then the end segment's tail is zeroed.
 *   5. Sync   everything that is kept. What was written but not synced before (a crash of the process only) could be lost in a
 *             later power loss, while this log says that it is synced. A sync that failed earlier may have left pages that are readable but
 *             never get to the disk; so what no group says to be synced is written anew first.
 *
 * Each step can be cut short and done again: none of them moves the end.
 *
 * Numbers of segments rise by one, with one exception: trimming removes the oldest segments, and power loss may undo some of these
 * removals and not others. So segments before a gap are left-overs if the snapshot has all that they hold, and the log starts behind the
 * gap. If the log ends before the snapshot does (it was not synced, or its last file is lost), nothing of it is of use: all segments
 * are removed and a fresh one will start behind the snapshot. */
#include "log_segment.h"

#include "../base/error.h"

struct recovery {
    struct ms_log *log;
    struct ms_store *store;
    uint64_t base;    /* the snapshot's end: up to here no log is needed */
    uint64_t next;    /* lsn due at the end found so far; 0 = no segment could be read */
    uint32_t begin;   /* first segment of the log; those before are left-overs */
    uint32_t end;     /* segment with the log's end; NONE if next is 0 */
    bool gap;         /* segments are missing behind the end */
    uint64_t claimed; /* highest lsn that a group before the end says to be synced */
    uint32_t keep;    /* segments from here on are removed */
    uint64_t junk;    /* end of what is to be zeroed in the end segment */
    uint64_t dropped; /* bytes */
};

enum { NONE = UINT32_MAX };

static struct ms_segment *segment_at(const struct recovery *r, uint32_t index)
{
    return &r->log->segments.list[index];
}

static int wrap(const struct recovery *r, const struct ms_segment *segment, uint64_t offset, int rc)
{
    return ms_fail_wrap(rc, "log segment %llu of %s at offset %llu", (unsigned long long)segment->number, r->log->dir,
                        (unsigned long long)offset);
}

static int open_window(const struct recovery *r, const struct ms_segment *segment, struct ms_window *window)
{
    char path[MS_PATH_MAX];
    int rc = ms_segment_path(path, r->log->dir, segment->number);
    return rc ? rc : ms_window_open(window, r->log->fs, path);
}

/* ---- 1. look --------------------------------------------------------------------------------------------------------- */

static int look(struct recovery *r)
{
    struct ms_log *log = r->log;
    int rc = ms_segments_list(log->fs, log->dir, &log->segments);
    for (uint32_t i = 0; i < log->segments.count && !rc; i++) {
        struct ms_segment *segment = segment_at(r, i);
        struct ms_window window = {0};
        int state = ms_window_segment(&window, log->fs, log->dir, segment->number, &segment->first);
        segment->size = window.size;
        segment->state = state;
        ms_window_close(&window);
        if (state < 0) rc = wrap(r, segment, 0, state);
        log->next_number = segment->number + 1;
    }
    return rc;
}

/* ---- 2. read --------------------------------------------------------------------------------------------------------- */

static int fold(struct recovery *r, const struct ms_group_header *header, struct ms_bytes group)
{
    if (ms_group_last(header) <= r->base) return 0; /* the snapshot has it */
    if (header->first <= r->base)
        return ms_fail(MS_E_DAMAGED, "the group of lsn %llu to %llu does not end where the snapshot does, at %llu",
                       (unsigned long long)header->first, (unsigned long long)ms_group_last(header), (unsigned long long)r->base);
    int rc = ms_store_fold(r->store, group, header, NULL, NULL);
    return rc == MS_E_FORMAT ? MS_E_DAMAGED : rc;
}

static int read_groups(struct recovery *r, struct ms_segment *segment)
{
    struct ms_window window = {0};
    int rc = open_window(r, segment, &window);
    segment->last = r->next - 1;
    segment->used = MS_SEGMENT_HEADER;
    while (!rc) {
        struct ms_group_header header;
        struct ms_bytes group;
        int place = ms_window_group(&window, segment->used, true, &header, &group);
        if (place < 0) rc = place;
        if (place != MS_PLACE_GROUP || !ms_group_continues(&header, r->next)) break;
        rc = fold(r, &header, group);
        if (rc) break;
        if (header.synced < header.first && header.synced > r->claimed) r->claimed = header.synced;
        segment->last = ms_group_last(&header);
        segment->used += group.size;
        r->next = segment->last + 1;
    }
    ms_window_close(&window);
    return rc ? wrap(r, segment, segment->used, rc) : 0;
}

/* 1 = the log goes on (or starts) in this segment, 0 = it ends before it. */
static int enter_segment(struct recovery *r, uint32_t index)
{
    const struct ms_segment *segment = segment_at(r, index);
    r->gap = index == 0 || segment_at(r, index - 1)->number + 1 != segment->number;
    if (segment->state != MS_SEGMENT_SOUND) return 0;
    if (segment->first == r->next) return 1;
    if (!r->gap || r->next > r->base + 1) return 0;
    if (segment->first > r->base + 1)
        return ms_fail(MS_E_DAMAGED, "the log in %s starts with lsn %llu in segment %llu, but the tables end at lsn %llu: what is between is lost",
                       r->log->dir, (unsigned long long)segment->first, (unsigned long long)segment->number, (unsigned long long)r->base);
    if (segment->first <= r->next) return 0;
    r->begin = index;
    r->next = segment->first;
    return 1;
}

static int read_log(struct recovery *r)
{
    r->end = NONE;
    for (uint32_t i = 0; i < r->log->segments.count; i++) {
        int rc = enter_segment(r, i);
        if (rc <= 0) return rc;
        r->end = i;
        rc = read_groups(r, segment_at(r, i));
        if (rc) return rc;
    }
    r->gap = false;
    return 0;
}

/* ---- 3. search ------------------------------------------------------------------------------------------------------- */

struct search {
    uint64_t due;    /* a group behind lsn `due` that says `due` is synced makes this damage */
    uint64_t from;   /* claims are looked for from here on */
    uint64_t junk;   /* end of the last byte that is not zero */
};

static int check_claim(const struct recovery *r, const struct search *search, const struct ms_segment *segment, uint64_t offset,
                       struct ms_bytes data)
{
    struct ms_group_header header;
    int rc = ms_group_open(data, &header);
    if (rc) return rc == MS_E_VERSION ? wrap(r, segment, offset, rc) : 0;
    if (header.first <= search->due || header.synced < search->due) return 0;
    const struct ms_segment *end = segment_at(r, r->end == NONE ? 0 : r->end);
    return ms_fail(MS_E_DAMAGED, "log segment %llu of %s at offset %llu: lsn %llu is due there and not readable, but the group of lsn %llu "
                   "(segment %llu, offset %llu) says that it was synced", (unsigned long long)end->number, r->log->dir,
                   (unsigned long long)end->used, (unsigned long long)search->due, (unsigned long long)header.first,
                   (unsigned long long)segment->number, (unsigned long long)offset);
}

/* One piece of the file, which starts at offset. Only the last one is looked at to its end, of the others `used` bytes. */
static int search_piece(const struct recovery *r, struct search *search, const struct ms_segment *segment, uint64_t offset,
                        const uint8_t *data, size_t size, bool last, size_t *used)
{
    size_t at = 0;
    for (; at + 8 <= size && (last || at + MS_GROUP_HEADER <= size); at += 8) {
        if (ms_load64(data + at) == 0) continue;
        search->junk = offset + at + 8;
        if (ms_load16(data + at) != MS_GROUP_MAGIC || at + MS_GROUP_HEADER > size || offset + at < search->from) continue;
        int rc = check_claim(r, search, segment, offset + at, ms_bytes(data + at, MS_GROUP_HEADER));
        if (rc) return rc;
    }
    for (size_t i = at; last && i < size; i++)
        if (data[i]) search->junk = offset + i + 1;
    *used = at;
    return 0;
}

static int search_segment(const struct recovery *r, struct search *search, const struct ms_segment *segment, uint64_t offset)
{
    struct ms_window window = {0};
    bool last = false;
    int rc = open_window(r, segment, &window);
    search->from = search->junk = offset;
    if (!rc && segment->used) {
        /* A torn group whose header is sound tells where it ends. What is inside of it is a host's value, not a group. */
        struct ms_group_header header;
        struct ms_bytes group;
        int place = ms_window_group(&window, offset, false, &header, &group);
        if (place < 0) rc = place;
        else if (header.count && header.first == r->next) search->from = offset + ms_group_size(header.body_size);
    }
    while (!rc && !last) {
        const uint8_t *data;
        size_t got, used = 0;
        rc = ms_window_get(&window, offset, MS_WINDOW, &data, &got);
        if (rc) break;
        last = got < MS_WINDOW;
        rc = search_piece(r, search, segment, offset, data, got, last, &used);
        offset += used;
    }
    ms_window_close(&window);
    return rc && rc != MS_E_DAMAGED && rc != MS_E_VERSION ? wrap(r, segment, offset, rc) : rc;
}

/* Also decides which of the segments behind the end stay: those that follow by number and are nothing but zeros, prepared. */
static int search_rest(struct recovery *r)
{
    struct search search = {.due = r->next};
    if ((r->gap || r->next == 0) && search.due <= r->base) search.due = r->base + 1;
    uint32_t first = 0;
    r->keep = 0;
    if (r->end != NONE) {
        struct ms_segment *end = segment_at(r, r->end);
        int rc = search_segment(r, &search, end, end->used);
        if (rc) return rc;
        r->junk = search.junk;
        r->dropped += search.junk - end->used;
        first = r->keep = r->end + 1;
    }
    for (uint32_t i = first; i < r->log->segments.count; i++) {
        const struct ms_segment *segment = segment_at(r, i);
        int rc = search_segment(r, &search, segment, 0);
        if (rc) return rc;
        r->dropped += search.junk;
        bool follows = i == 0 || segment_at(r, i - 1)->number + 1 == segment->number;
        bool prepared = search.junk == 0 && segment->size >= r->log->config.segment_bytes;
        if (prepared && follows && r->keep == i) r->keep = i + 1;
    }
    return 0;
}

/* ---- 4. clean -------------------------------------------------------------------------------------------------------- */

static int remove_segment(struct recovery *r, uint32_t index)
{
    char path[MS_PATH_MAX];
    int rc = ms_segment_path(path, r->log->dir, segment_at(r, index)->number);
    if (!rc) rc = r->log->fs->ops->remove(r->log->fs, path);
    if (!rc) ms_segments_drop(&r->log->segments, index);
    return rc;
}

static int clean(struct recovery *r)
{
    struct ms_log *log = r->log;
    if (r->next > 0 && r->next <= r->base) { /* the snapshot is ahead of the log */
        r->begin = r->keep = 0;
        r->end = NONE;
    }
    while (log->segments.count > r->keep) {
        int rc = remove_segment(r, log->segments.count - 1);
        if (!rc) rc = log->fs->ops->sync_dir(log->fs, log->dir);
        if (rc) return rc;
    }
    for (; r->begin > 0; r->begin--) {
        int rc = remove_segment(r, 0);
        if (rc) return rc;
        r->end--;
    }
    if (log->segments.count > 0) log->next_number = segment_at(r, log->segments.count - 1)->number + 1;
    return 0;
}

/* ---- 5. sync --------------------------------------------------------------------------------------------------------- */

/* Offset of the first group that is not known to be synced; the header's if there is none before. */
static int find_unsure(const struct recovery *r, const struct ms_segment *segment, struct ms_window *window, uint64_t *offset)
{
    *offset = MS_SEGMENT_HEADER;
    while (*offset < segment->used) {
        struct ms_group_header header;
        struct ms_bytes group;
        int place = ms_window_group(window, *offset, false, &header, &group);
        if (place < 0) return place;
        if (place != MS_PLACE_GROUP || ms_group_last(&header) > r->claimed) break;
        *offset += ms_group_size(header.body_size);
    }
    if (*offset == MS_SEGMENT_HEADER) *offset = 0;
    return 0;
}

static int write_anew(const struct recovery *r, const struct ms_segment *segment)
{
    struct ms_window window = {0};
    uint64_t offset = 0;
    int rc = open_window(r, segment, &window);
    if (!rc) rc = find_unsure(r, segment, &window, &offset);
    while (!rc && offset < segment->used) {
        const uint8_t *data;
        size_t got, size = segment->used - offset < MS_WINDOW ? (size_t)(segment->used - offset) : MS_WINDOW;
        rc = ms_window_get(&window, offset, size, &data, &got);
        if (!rc && got < size) rc = ms_fail(MS_E_IO, "the file became shorter");
        if (!rc) rc = ms_fs_write_all(r->log->fs, segment->file, offset, data, got);
        offset += got;
    }
    ms_window_close(&window);
    return rc;
}

static int sync_segment(struct recovery *r, uint32_t index)
{
    struct ms_log *log = r->log;
    struct ms_segment *segment = segment_at(r, index);
    char path[MS_PATH_MAX];
    int rc = ms_segment_path(path, log->dir, segment->number);
    if (!rc) rc = log->fs->ops->open(log->fs, path, MS_FS_WRITE, &segment->file);
    if (rc) {
        segment->file = NULL;
        return rc;
    }
    if (segment->used && (segment->last > r->claimed || segment->used == MS_SEGMENT_HEADER)) rc = write_anew(r, segment);
    if (!rc && index == r->end) rc = ms_fs_zero(log->fs, segment->file, segment->used, r->junk);
    if (!rc) rc = log->fs->ops->sync(log->fs, segment->file);
    if (segment->used && index != r->end) {
        log->fs->ops->close(log->fs, segment->file);
        segment->file = NULL;
    }
    return rc ? wrap(r, segment, segment->used, rc) : 0;
}

static int sync_log(struct recovery *r)
{
    struct ms_log *log = r->log;
    int rc = 0;
    for (uint32_t i = 0; i < log->segments.count && !rc; i++) {
        rc = sync_segment(r, i);
        if (segment_at(r, i)->used) log->bytes += segment_at(r, i)->used - MS_SEGMENT_HEADER;
    }
    if (!rc) rc = log->fs->ops->sync_dir(log->fs, log->dir);
    return rc;
}

int ms_log_recover(struct ms_log *log, struct ms_store *store, uint64_t *truncated)
{
    struct recovery r = {.log = log, .store = store, .base = store->applied};
    log->next_number = 1;
    int rc = look(&r);
    if (!rc) rc = read_log(&r);
    if (!rc) rc = search_rest(&r);
    if (!rc) rc = clean(&r);
    if (!rc) rc = sync_log(&r);
    if (rc) return rc;
    log->active = r.end == NONE ? 0 : r.end;
    log->written = log->synced = r.end == NONE ? r.base : r.next - 1;
    *truncated = r.dropped;
    return 0;
}
