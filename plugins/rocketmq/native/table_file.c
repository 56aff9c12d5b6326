/* A table whose values are JSON as the members of an object in a file. In C, and through a small buffer, since it is done after each change
 * of a follower's topics: ten thousand of them are two megabytes. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"

enum { ROOM = 65536 };

struct file {
    int fd;
    jint count;
    size_t size;
    char data[ROOM];
};

/* Whether a string of JSON is just these bytes in quotes. */
static bool is_plain(struct ms_bytes key)
{
    const unsigned char *at = key.data;
    for (size_t i = 0; i < key.size; i++) {
        if (at[i] < ' ' || at[i] == '"' || at[i] == '\\') return false;
    }
    return true;
}

static bool write_out(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, data, size);
        if (written <= 0) return false;
        data += written;
        size -= (size_t)written;
    }
    return true;
}

static bool flush(struct file *file)
{
    size_t size = file->size;
    file->size = 0;
    return write_out(file->fd, file->data, size);
}

static bool put(struct file *file, struct ms_bytes bytes)
{
    if (bytes.size > ROOM - file->size && !flush(file)) return false;
    if (bytes.size > ROOM) return write_out(file->fd, bytes.data, bytes.size);
    if (bytes.size > 0) memcpy(file->data + file->size, bytes.data, bytes.size);
    file->size += bytes.size;
    return true;
}

static int add_member(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct file *file = context;
    if (!is_plain(key)) return MS_E_FORMAT;
    bool done = put(file, ms_str(file->count ? ",\"" : "\"")) && put(file, key) && put(file, ms_str("\":")) && put(file, value);
    file->count++;
    return done ? 0 : MS_E_IO;
}

static int write_all(struct file *file, struct ms_table *table, struct ms_bytes head, struct ms_bytes tail)
{
    if (!put(file, head)) return MS_E_IO;
    int rc = ms_walk(table, add_member, file);
    if (!rc && !(put(file, tail) && flush(file))) rc = MS_E_IO;
    return rc;
}

static jint write_file(const char *path, struct ms_table *table, struct ms_bytes head, struct ms_bytes tail)
{
    struct file *file = malloc(sizeof *file);
    if (!file) return MS_E_MEMORY;
    file->count = 0;
    file->size = 0;
    file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    jint rc = MS_E_IO;
    if (file->fd >= 0) {
        rc = write_all(file, table, head, tail);
        if (close(file->fd) != 0 && !rc) rc = MS_E_IO;
    }
    if (!rc) rc = file->count;
    free(file);
    return rc;
}

/* head, the entries, tail. How many entries; MS_E_FORMAT if a key can't be written as it is; MS_E_IO: the file could not be written. */
NATIVE(jint, writeMembers)(JNIEnv *env, jclass class, jlong table, jbyteArray path, jbyteArray head, jbyteArray tail)
{
    (void)class;
    struct bytes p, h = {0}, t = {0};
    if (!bytes_get(env, path, &p)) return MS_E_MEMORY;
    jint rc = MS_E_MEMORY;
    if (bytes_get(env, head, &h) && bytes_get(env, tail, &t))
        rc = write_file(p.bytes.data, (struct ms_table *)(uintptr_t)table, h.bytes, t.bytes);
    bytes_done(&t);
    bytes_done(&h);
    bytes_done(&p);
    return rc;
}
