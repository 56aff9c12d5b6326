/* The file with the shared secret, for the daemon and the control tool. */
#ifndef METASYNC_SECRET_H
#define METASYNC_SECRET_H

enum { SECRET_MAX = 1024 };

/* Its first line: 0, or 1 after printing why not. The file must not be readable by others. */
int secret_read(const char *path, char secret[SECRET_MAX]);

#endif
