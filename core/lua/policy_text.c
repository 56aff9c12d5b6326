/* The files of a policy: it and the modules beside it, each read once. A sandbox that is made anew gets the same texts. */
#include "policy_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/error.h"
#include "../base/hash.h"
#include "../base/mem.h"

/* All of an open file that is at most MS_LUA_TEXT_MAX bytes long. */
static int read_open(int fd, const char *path, struct ms_buf *text)
{
    struct stat about;
    if (fstat(fd, &about)) return ms_fail(MS_E_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode)) return ms_fail(MS_E_IO, "%s is no regular file", path);
    for (;;) {
        uint8_t *room = ms_buf_extend(text, 4096);
        if (!room) return MS_E_MEMORY;
        ssize_t got = read(fd, room, 4096);
        text->size -= got < 0 ? 4096 : 4096 - (size_t)got;
        if (got < 0 && errno != EINTR) return ms_fail(MS_E_IO, "%s: %s", path, strerror(errno));
        if (got == 0) return 0;
        if (text->size > MS_LUA_TEXT_MAX) return ms_fail(MS_E_LIMIT, "%s is larger than %d bytes", path, MS_LUA_TEXT_MAX);
    }
}

/* Reads path as the next source. NOT_FOUND if there is no such file. */
static int add_source(struct ms_lua_rules *lua, const char *name, const char *path)
{
    if (lua->source_count == MS_LUA_TEXTS_MAX) return ms_fail(MS_E_LIMIT, "a policy has at most %d files", MS_LUA_TEXTS_MAX);
    struct ms_lua_source *source = &lua->sources[lua->source_count];
    if (strlen(name) >= sizeof source->name) return ms_fail(MS_E_LIMIT, "the module's name is too long");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return ms_fail(errno == ENOENT ? MS_E_NOT_FOUND : MS_E_IO, "%s: %s", path, strerror(errno));
    struct ms_buf text;
    ms_buf_init(&text);
    int rc = read_open(fd, path, &text);
    (void)close(fd);
    if (rc) {
        ms_buf_close(&text);
        return rc;
    }
    (void)snprintf(source->name, sizeof source->name, "%s", name);
    source->text = (char *)text.data; /* taken */
    source->size = text.size;
    lua->source_count++;
    return 0;
}

int ms_lua_read_policy(struct ms_lua_rules *lua)
{
    int rc = add_source(lua, "", lua->path);
    return rc == MS_E_NOT_FOUND ? MS_E_IO : rc;
}

static struct ms_lua_source *known_source(struct ms_lua_rules *lua, const char *name)
{
    for (uint32_t i = 1; i < lua->source_count; i++)
        if (strcmp(lua->sources[i].name, name) == 0) return &lua->sources[i];
    return NULL;
}

static int real_path(const char *path, char real[PATH_MAX])
{
    if (realpath(path, real)) return 0;
    return ms_fail(errno == ENOENT ? MS_E_NOT_FOUND : MS_E_IO, "%s: %s", path, strerror(errno));
}

/* A module is a file in the policy's folder or below it, also where symbolic links lead: a policy reads nothing else of the machine. */
static int inside_folder(const struct ms_lua_rules *lua, const char *path)
{
    char real[PATH_MAX], folder[PATH_MAX];
    int rc = real_path(lua->folder[0] ? lua->folder : ".", folder);
    if (!rc) rc = real_path(path, real);
    if (rc) return rc;
    size_t size = strlen(folder);
    bool inside = strncmp(real, folder, size) == 0 && (size == 1 || real[size] == '/');
    return inside ? 0 : ms_fail(MS_E_INVALID, "%s leads to %s, outside of the policy's folder", path, real);
}

int ms_lua_find_module(void *context, struct ms_sandbox *sandbox, const char *name)
{
    struct ms_lua_rules *lua = context;
    struct ms_lua_source *source = known_source(lua, name);
    if (!source) {
        /* Later on nothing is read any more: what a policy does must not depend on when a file changes. */
        if (!lua->loading || strcmp(name, "metasync") == 0 || strncmp(name, "metasync.", 9) == 0) return MS_E_NOT_FOUND;
        char part[sizeof source->name], path[sizeof lua->folder + sizeof part + 8];
        (void)snprintf(part, sizeof part, "%s", name);
        for (char *dot = strchr(part, '.'); dot; dot = strchr(dot, '.')) *dot = '/';
        (void)snprintf(path, sizeof path, "%s%s.lua", lua->folder, part);
        int rc = inside_folder(lua, path);
        if (!rc) rc = add_source(lua, name, path);
        if (rc) return rc;
        source = &lua->sources[lua->source_count - 1];
    }
    return ms_sandbox_offer(sandbox, name, ms_bytes(source->text ? source->text : "", source->size), MS_SANDBOX_PLAIN);
}

void ms_lua_free_sources(struct ms_lua_rules *lua)
{
    for (uint32_t i = 0; i < lua->source_count; i++) ms_release(lua->sources[i].text);
    lua->source_count = 0;
}

uint64_t ms_lua_hash(const struct ms_lua_rules *lua)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < lua->source_count; i++) {
        const struct ms_lua_source *source = &lua->sources[i];
        hash = ms_hash_seeded(source->name, strlen(source->name), hash);
        hash = ms_hash_seeded(source->text ? source->text : "", source->size, hash);
    }
    return hash;
}
