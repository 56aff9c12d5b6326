/* The file system seam: what state/ may do to a disk. drive/fs_posix.c does it for real; sim/sim_fs.c keeps the bytes in
 * memory and loses, tears and re-orders those that were not synced.
 *
 * Rules for both sides:
 *  - int results are 0 or a negative MS_E_*: NOT_FOUND, NO_SPACE, LOCKED, MEMORY, else IO; the message names the path.
 *  - write may put less than asked (a short write): *put says how much; callers loop (ms_fs_write_all).
 *  - nothing is durable before sync of the file; a created, renamed or removed name not before sync_dir of its directory.
 *  - rename replaces the target atomically.
 *  - A file belongs to one thread at a time, except that sync may run while another thread writes.
 *  - Paths are "/"-separated, and relative to nothing: the caller gives whole ones. */
#ifndef MS_BASE_FS_H
#define MS_BASE_FS_H

#include <stdbool.h>

#include "bytes.h"

struct ms_file; /* each implementation's own */
struct ms_fs;

enum ms_fs_mode {
    MS_FS_READ = 1,   /* existing file, reading */
    MS_FS_WRITE = 2,  /* existing file, reading and writing */
    MS_FS_CREATE = 3, /* new or emptied file, reading and writing */
    MS_FS_STREAM = 4, /* the same, for much that is written from front to back and hardly read soon: what is synced need not stay in memory */
};

/* name is the last part of a path; returning non-zero ends the listing with that result. */
typedef int (*ms_fs_list_fn)(void *context, const char *name);

struct ms_fs_ops {
    int (*open)(struct ms_fs *fs, const char *path, int mode, struct ms_file **file);
    void (*close)(struct ms_fs *fs, struct ms_file *file);
    int (*size)(struct ms_fs *fs, struct ms_file *file, uint64_t *size);
    int (*read)(struct ms_fs *fs, struct ms_file *file, uint64_t offset, void *data, size_t size, size_t *got); /* 0 at the end */
    int (*write)(struct ms_fs *fs, struct ms_file *file, uint64_t offset, const struct ms_bytes *parts, size_t count, size_t *put);
    int (*truncate)(struct ms_fs *fs, struct ms_file *file, uint64_t size);
    int (*reserve)(struct ms_fs *fs, struct ms_file *file, uint64_t size); /* lengthens to size by zeros that have their place on the disk */
    int (*sync)(struct ms_fs *fs, struct ms_file *file); /* data and the size needed to read it back */
    int (*rename)(struct ms_fs *fs, const char *from, const char *to);
    int (*remove)(struct ms_fs *fs, const char *path);     /* a file, or an empty directory */
    int (*mkdir)(struct ms_fs *fs, const char *path);      /* 0 if it exists already */
    int (*sync_dir)(struct ms_fs *fs, const char *path);
    int (*list)(struct ms_fs *fs, const char *path, ms_fs_list_fn fn, void *context);
    int (*lock)(struct ms_fs *fs, const char *path, struct ms_file **lock); /* exclusive, until close or death; LOCKED */
};

struct ms_fs {
    const struct ms_fs_ops *ops;
};

/* Loops over the rest of a short write. */
int ms_fs_write_all(struct ms_fs *fs, struct ms_file *file, uint64_t offset, const void *data, size_t size);

/* Reads exactly size bytes; fewer are MS_E_DAMAGED ("ends at ..."). */
int ms_fs_read_all(struct ms_fs *fs, struct ms_file *file, uint64_t offset, void *data, size_t size);

/* Replaces dir/name by the data: temporary file, sync, rename, sync of the directory. On failure the old content stays. */
int ms_fs_replace(struct ms_fs *fs, const char *dir, const char *name, const void *data, size_t size);

/* The whole of a file that is at most `limit` bytes long, appended to buf. */
int ms_fs_read_file(struct ms_fs *fs, const char *path, size_t limit, struct ms_buf *buf);

/* Removes a directory and the files in it (one level); what is already gone is fine. */
int ms_fs_remove_tree(struct ms_fs *fs, const char *path);

enum { MS_PATH_MAX = 1024 };

/* "dir/name" into path; MS_E_LIMIT if it does not fit. */
int ms_path(char path[MS_PATH_MAX], const char *dir, const char *name);

#endif
