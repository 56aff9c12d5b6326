/* The real file system behind the seam of base/fs.h. */
#ifndef MS_DRIVE_FS_H
#define MS_DRIVE_FS_H

#include "../base/fs.h"

/* The instance for a node's own files. It has no state, so any thread may use it and nobody frees it. New files get mode 0600, new directories
 * 0700; descriptors are closed on exec. A lock is held by the open file, not by the process: a second lock is refused in the
 * same process too, and a forked child that keeps running keeps it. */
struct ms_fs *ms_fs_posix(void);

/* The same for files that other users' programs are to read: new files get mode 0666, new directories 0777, less the umask. */
struct ms_fs *ms_fs_posix_shared(void);

#endif
