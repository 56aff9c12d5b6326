#include "secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int secret_read(const char *path, char secret[SECRET_MAX])
{
    struct stat st;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &st)) {
        fprintf(stderr, "cannot read the secret file %s: %s\n", path, strerror(errno));
        if (file) (void)fclose(file);
        return 1;
    }
    size_t size = fread(secret, 1, SECRET_MAX - 1, file);
    (void)fclose(file);
    secret[size] = '\0';
    secret[strcspn(secret, "\r\n")] = '\0';
    if (st.st_mode & 077) {
        fprintf(stderr, "the secret file %s is readable by others (mode %o): chmod 600 it\n", path, st.st_mode & 0777);
        return 1;
    }
    if (!secret[0] || size == SECRET_MAX - 1) {
        fprintf(stderr, "the secret file %s is empty or longer than %d bytes\n", path, SECRET_MAX - 2);
        return 1;
    }
    return 0;
}
