/* What writer, recovery, readers and snapshot loading share: segment files (names, headers, a list of them), reading groups of
 * a file through a window, and the inside of struct ms_log. Private to state/. */
#ifndef MS_STATE_LOG_SEGMENT_H
#define MS_STATE_LOG_SEGMENT_H

#include "log.h"

/* ---- names and headers; the format is drawn in log.h ---------------------------------------------------------------- */

enum ms_segment_state {
    MS_SEGMENT_BLANK = 0, /* the header is zeros, or the file is too short for one */
    MS_SEGMENT_SOUND = 1,
    MS_SEGMENT_BAD = 2, /* anything else: torn, damaged, or of another number */
};

struct ms_segment {
    uint64_t number;
    uint64_t size;  /* of the file; groups end at or before it */
    uint64_t first; /* lsn that the header names */
    uint64_t last;  /* of the last group; first - 1 if there is none */
    uint64_t used;  /* end of header and groups; 0 = blank */
    struct ms_file *file; /* open for writing, or NULL */
    int state;            /* what recovery found: enum ms_segment_state */
    bool dirty;           /* written since its last sync began */
    bool syncing;         /* in the sync job that is under way */
};

int ms_segment_path(char path[MS_PATH_MAX], const char *dir, uint64_t number);
void ms_segment_encode(uint8_t header[MS_SEGMENT_HEADER], uint64_t number, uint64_t first);
int ms_segment_decode(const uint8_t *header, size_t size, uint64_t number, uint64_t *first); /* enum ms_segment_state */

struct ms_segments { /* oldest first */
    struct ms_segment *list;
    uint32_t count, capacity;
};

void ms_segments_close(struct ms_segments *segments); /* frees the list; files are the caller's */

/* A blank segment at the end of the list. MS_E_MEMORY. */
int ms_segments_add(struct ms_segments *segments, uint64_t number, uint64_t size);
void ms_segments_drop(struct ms_segments *segments, uint32_t index);

/* Numbers of the segment files in dir, nothing else of them is filled in. A dir that does not exist is MS_E_NOT_FOUND. */
int ms_segments_list(struct ms_fs *fs, const char *dir, struct ms_segments *segments);

/* Writes zeros over [from, to). */
int ms_fs_zero(struct ms_fs *fs, struct ms_file *file, uint64_t from, uint64_t to);

/* ---- a window on a file: reads ahead in pieces of 256 KiB, and takes more memory only while a group is larger --------- */

enum { MS_WINDOW = 256 << 10 };

struct ms_window {
    struct ms_fs *fs;
    struct ms_file *file; /* owned; NULL = closed */
    uint64_t size;        /* of the file when it was opened or refreshed */
    uint8_t *data;
    size_t capacity, filled;
    uint64_t start; /* offset of data[0] in the file */
};

int ms_window_open(struct ms_window *window, struct ms_fs *fs, const char *path);
void ms_window_close(struct ms_window *window); /* legal when closed, or all zero */
int ms_window_refresh(struct ms_window *window); /* forgets what was read: a writer may have changed it */

/* Up to `size` bytes at offset; *got is less only at the end of the file. Borrowed until the next call. */
int ms_window_get(struct ms_window *window, uint64_t offset, size_t size, const uint8_t **data, size_t *got);

enum ms_place { /* what stands at an offset where a group may begin */
    MS_PLACE_EMPTY = 0, /* the end of the file, or zeros where the header would be */
    MS_PLACE_GROUP = 1, /* a sound group */
    MS_PLACE_BAD = 2,   /* something else; header->count is 0 unless the header is sound */
};

/* Says what is at offset; the group is borrowed until the next call. whole = false looks at the header only. Errors: IO, MEMORY,
 * VERSION (a sound group of a newer version). */
int ms_window_group(struct ms_window *window, uint64_t offset, bool whole, struct ms_group_header *header, struct ms_bytes *group);

/* A sound group that may stand in a log with first == lsn. */
static inline bool ms_group_continues(const struct ms_group_header *header, uint64_t lsn)
{
    return header->first == lsn && !(header->flags & (MS_GROUP_ENTRIES | MS_GROUP_META));
}

/* Reads the header of segment `number` through the window, which it opens. enum ms_segment_state or an error. */
int ms_window_segment(struct ms_window *window, struct ms_fs *fs, const char *dir, uint64_t number, uint64_t *first);

/* ---- the inside of a log -------------------------------------------------------------------------------------------- */

struct ms_log {
    struct ms_fs *fs;
    char dir[MS_PATH_MAX];
    struct ms_log_config config;
    struct ms_segments segments;
    uint32_t active;      /* index of the segment that the next group goes to if it fits; segments behind it are blank. May be
                             segments.count: none is prepared */
    uint64_t next_number; /* of the segment to prepare next */
    uint64_t written, synced;
    uint64_t bytes;       /* of groups in all segments */
    int error;            /* final: MS_E_LOG_FAILED */
    uint32_t syncs;       /* since a segment was prepared; at first as if there had been many */
    bool preparing, syncing;
};

/* log_recover.c. The log is empty but for fs, dir and config. On failure the caller closes it. */
int ms_log_recover(struct ms_log *log, struct ms_store *store, uint64_t *truncated);

#endif
