/* Reading a log that may be written and trimmed meanwhile.
 *
 * The reader stands at an offset of one segment and knows the lsn that is due there. If there is no sound group with it, the next
 * segment is asked: its header is written with its first group, and names that group's lsn. What was read ahead may have been
 * written since, so nothing is called missing or bad before it was read a second time. A trimmed file stays readable as long as it is
 * open here; the next one may be gone. */
#include "log_segment.h"

#include "../base/error.h"
#include "../base/mem.h"

struct ms_log_reader {
    struct ms_fs *fs;
    char dir[MS_PATH_MAX];
    struct ms_window window; /* on segment `number`; closed while there is no segment to read */
    uint64_t number;
    uint64_t offset; /* where the next group is due */
    uint64_t next;   /* its lsn; 0 = any, while there is no segment */
    uint64_t given;  /* offset of the group given last */
    char path[MS_PATH_MAX]; /* of the segment that it is in */
};

static int wrap(const struct ms_log_reader *reader, int rc)
{
    return ms_fail_wrap(rc, "log segment %llu of %s at offset %llu", (unsigned long long)reader->number, reader->dir,
                        (unsigned long long)reader->offset);
}

/* Goes to the start of a segment whose window is open. */
static void move_to(struct ms_log_reader *reader, struct ms_window *window, uint64_t number, uint64_t first)
{
    ms_window_close(&reader->window);
    reader->window = *window;
    reader->number = number;
    reader->offset = MS_SEGMENT_HEADER;
    reader->next = first;
}

/* ---- from segment to segment ----------------------------------------------------------------------------------------- */

/* Whether any segment with a higher number exists. */
static int newer_exists(const struct ms_log_reader *reader, bool *exists)
{
    struct ms_segments segments = {0};
    int rc = ms_segments_list(reader->fs, reader->dir, &segments);
    *exists = !rc && segments.count > 0 && segments.list[segments.count - 1].number > reader->number;
    ms_segments_close(&segments);
    return rc;
}

/* 1 = moved to the next segment, which starts with the lsn that is due; 0 = there is none yet. */
static int enter_next(struct ms_log_reader *reader)
{
    struct ms_window window = {0};
    uint64_t first = 0;
    int state = ms_window_segment(&window, reader->fs, reader->dir, reader->number + 1, &first);
    if (state == MS_E_NOT_FOUND) {
        bool exists;
        int rc = newer_exists(reader, &exists);
        if (rc || !exists) return rc;
        return ms_fail(MS_E_NOT_FOUND, "lsn %llu was trimmed from the log in %s", (unsigned long long)reader->next, reader->dir);
    }
    if (state < 0) return wrap(reader, state);
    if (state == MS_SEGMENT_SOUND && first == reader->next) {
        move_to(reader, &window, reader->number + 1, first);
        return 1;
    }
    ms_window_close(&window);
    if (state == MS_SEGMENT_BLANK) return 0;
    int rc = state == MS_SEGMENT_BAD ? ms_fail(MS_E_DAMAGED, "the header of the next segment is damaged")
                                     : ms_fail(MS_E_DAMAGED, "the next segment starts with lsn %llu", (unsigned long long)first);
    return wrap(reader, ms_fail_wrap(rc, "no sound group of lsn %llu is there, and", (unsigned long long)reader->next));
}

/* Opens the newest of the segments whose header names an lsn <= from; from = 0: the oldest one with a header. Numbers and first lsns rise
 * together; blank segments are newer than all others, and those that are gone meanwhile are older. 1 = moved there, 0 = none. */
static int find_segment(struct ms_log_reader *reader, const struct ms_segments *segments, uint64_t from)
{
    uint32_t low = 0, high = segments->count;
    int found = 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct ms_window window = {0};
        uint64_t first = 0;
        int state = ms_window_segment(&window, reader->fs, reader->dir, segments->list[middle].number, &first);
        if (state < 0 && state != MS_E_NOT_FOUND) return state;
        bool sound = state == MS_SEGMENT_SOUND;
        bool older = state == MS_E_NOT_FOUND || (sound && from > 0 && first <= from);
        if (sound && (older || from == 0)) {
            move_to(reader, &window, segments->list[middle].number, first);
            found = 1;
        } else {
            ms_window_close(&window);
        }
        if (older) low = middle + 1;
        else high = middle;
    }
    return found;
}

static int enter_first(struct ms_log_reader *reader, uint64_t from)
{
    struct ms_segments segments = {0};
    int rc = ms_segments_list(reader->fs, reader->dir, &segments);
    if (!rc) rc = find_segment(reader, &segments, from);
    ms_segments_close(&segments);
    return rc;
}

/* ---- groups ---------------------------------------------------------------------------------------------------------- */

/* What is at the reader's place: 1 = a group with the lsn that is due, 0 = it ends or is bad there (*why), or an error. Moves to
 * the next segment where one goes on. */
static int look(struct ms_log_reader *reader, bool whole, struct ms_group_header *header, struct ms_bytes *group, int *why)
{
    bool fresh = false;
    for (;;) {
        int place = ms_window_group(&reader->window, reader->offset, whole, header, group);
        if (place < 0) return wrap(reader, place);
        if (place == MS_PLACE_GROUP && ms_group_continues(header, reader->next)) return 1;
        *why = place == MS_PLACE_EMPTY ? MS_PLACE_EMPTY : MS_PLACE_BAD;
        if (!fresh) {
            int rc = ms_window_refresh(&reader->window);
            if (rc) return wrap(reader, rc);
            fresh = true;
            continue;
        }
        int rc = enter_next(reader);
        if (rc <= 0) return rc;
        fresh = false;
    }
}

/* Goes on to the group that starts at `from`. */
static int seek(struct ms_log_reader *reader, uint64_t from)
{
    while (reader->next < from) {
        struct ms_group_header header;
        struct ms_bytes group;
        int why, rc = look(reader, false, &header, &group, &why);
        if (rc < 0) return rc;
        if (rc == 0)
            return ms_fail(MS_E_NOT_FOUND, "the log in %s ends before lsn %llu, lsn %llu was asked for", reader->dir,
                           (unsigned long long)reader->next, (unsigned long long)from);
        reader->offset += ms_group_size(header.body_size);
        reader->next = ms_group_last(&header) + 1;
    }
    if (reader->next == from) return 0;
    return ms_fail(MS_E_NOT_FOUND, "no group of the log in %s starts at lsn %llu", reader->dir, (unsigned long long)from);
}

int ms_log_reader_open(struct ms_fs *fs, const char *dir, uint64_t from, struct ms_log_reader **reader)
{
    *reader = NULL;
    struct ms_log_reader *fresh = ms_alloc_zero(sizeof *fresh);
    if (!fresh) return MS_E_MEMORY;
    fresh->fs = fs;
    int rc = strlen(dir) < MS_PATH_MAX ? 0 : ms_fail(MS_E_LIMIT, "path too long: %.200s", dir);
    if (!rc) {
        memcpy(fresh->dir, dir, strlen(dir) + 1);
        rc = enter_first(fresh, from);
    }
    if (rc == 0 && from > 0)
        rc = ms_fail(MS_E_NOT_FOUND, "the log in %s starts after lsn %llu", dir, (unsigned long long)from);
    if (rc > 0) rc = from > 0 ? seek(fresh, from) : 0;
    if (rc) {
        ms_log_reader_close(fresh);
        return rc;
    }
    *reader = fresh;
    return 0;
}

void ms_log_reader_close(struct ms_log_reader *reader)
{
    if (!reader) return;
    ms_window_close(&reader->window);
    ms_release(reader);
}

static int give(struct ms_log_reader *reader, struct ms_bytes group, const struct ms_group_header *header, struct ms_block **block)
{
    if (reader->path[0] == '\0' || reader->offset == MS_SEGMENT_HEADER) {
        int rc = ms_segment_path(reader->path, reader->dir, reader->number);
        if (rc) return rc;
    }
    struct ms_block *fresh = ms_block_of(group, header);
    if (!fresh) return MS_E_MEMORY;
    *block = fresh;
    reader->given = reader->offset;
    reader->offset += group.size;
    reader->next = ms_group_last(header) + 1;
    return 1;
}

int ms_log_reader_next(struct ms_log_reader *reader, uint64_t limit, struct ms_block **block)
{
    if (reader->next > limit) return 0;
    if (!reader->window.file) {
        int rc = enter_first(reader, 0);
        if (rc <= 0) return rc;
    }
    struct ms_group_header header;
    struct ms_bytes group;
    int why, rc = look(reader, true, &header, &group, &why);
    if (rc < 0) return rc;
    if (rc > 0) return ms_group_last(&header) <= limit ? give(reader, group, &header, block) : 0;
    if (why == MS_PLACE_EMPTY && limit == UINT64_MAX) return 0;
    return wrap(reader, ms_fail(MS_E_DAMAGED, "no sound group of lsn %llu is there", (unsigned long long)reader->next));
}

void ms_log_reader_place(const struct ms_log_reader *reader, const char **path, uint64_t *offset)
{
    *path = reader->path;
    *offset = reader->given;
}

int ms_log_reader_first(struct ms_fs *fs, const char *dir, uint64_t *first)
{
    struct ms_log_reader *reader;
    *first = 0;
    int rc = ms_log_reader_open(fs, dir, 0, &reader);
    if (rc) return rc;
    if (reader->window.file) {
        struct ms_group_header header;
        struct ms_bytes group;
        int why;
        rc = look(reader, false, &header, &group, &why);
        if (rc > 0) *first = header.first;
    }
    ms_log_reader_close(reader);
    return rc < 0 ? rc : 0;
}
