/* The data directory: who uses it, whose it is, and which generation in it is live.
 *
 * One rule decides the order of all steps: a name that a power loss may bring back must never name what is gone. So a
 * generation is made durable before `current` names it, and `current` is made durable before any other generation is
 * removed, also when a process that died left it renamed and not synced. Where files contradict each other (identity or
 * `current` is missing although a generation holds files) nothing is guessed: the operator gets MS_E_FORMAT and decides. */
#include "datadir.h"

#include <inttypes.h>
#include <stdio.h>

#include "../base/error.h"

enum { SMALL_FILE_MAX = 1024, GENERATION_NAME = 32, ARCHIVE_NAME_MAX = 200, ARCHIVE_TRIES = 10000, QUOTE_MAX = 72 };

static const char current_form[] = "expected one line like \"gen-000001\"";
static const char node_form[] = "expected three lines: \"metasync 1\", \"id\" and 16 hex digits, \"cluster\" and a name";

/* ---- the two small files ------------------------------------------------------------------------------------------- */

/* Bytes as they may stand in a message. */
static const char *quote(struct ms_bytes text, char quoted[QUOTE_MAX])
{
    const uint8_t *at = text.data;
    size_t used = 0;
    for (size_t i = 0; i < text.size && used < QUOTE_MAX - 4; i++)
        quoted[used++] = at[i] >= 0x20 && at[i] < 0x7f ? (char)at[i] : '?';
    (void)snprintf(quoted + used, QUOTE_MAX - used, "%s", used < text.size ? "..." : "");
    return quoted;
}

/* The line at the start of *rest, without its end, and *rest behind it; false if no line ends there. */
static bool take_line(struct ms_bytes *rest, struct ms_bytes *line)
{
    const char *start = rest->data, *end = rest->size > 0 ? memchr(start, '\n', rest->size) : NULL;
    *line = *rest;
    if (!end) return false;
    line->size = (size_t)(end - start);
    *rest = ms_bytes(end + 1, rest->size - line->size - 1);
    return true;
}

/* The rest of a line after a word, or false. */
static bool take_word(struct ms_bytes line, const char *word, struct ms_bytes *rest)
{
    size_t length = strlen(word);
    if (line.size < length || memcmp(line.data, word, length) != 0) return false;
    *rest = ms_bytes((const char *)line.data + length, line.size - length);
    return true;
}

/* A number whose only spelling is the given one, in base 10 or 16; false for anything else. */
static bool take_number(struct ms_bytes text, unsigned base, size_t digits_min, size_t digits_max, uint64_t *number)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = text.data;
    if (text.size < digits_min || text.size > digits_max) return false;
    if (text.size > digits_min && at[0] == '0') return false;
    uint64_t value = 0;
    for (size_t i = 0; i < text.size; i++) {
        const char *digit = memchr(digits, at[i], base);
        if (!digit) return false;
        value = value * base + (uint64_t)(digit - digits);
    }
    *number = value;
    return true;
}

static void generation_name(uint64_t generation, char name[GENERATION_NAME])
{
    (void)snprintf(name, GENERATION_NAME, "gen-%06" PRIu64, generation);
}

/* Only names that generation_name makes: "gen-000001.bak" is an operator's, and stays. */
static bool is_generation(struct ms_bytes name, uint64_t *generation)
{
    struct ms_bytes number;
    return take_word(name, "gen-", &number) && take_number(number, 10, 6, 18, generation) && *generation > 0;
}

static int read_small(const struct ms_datadir *dir, const char *name, const char *form, struct ms_buf *text)
{
    char path[MS_PATH_MAX];
    int rc = ms_path(path, dir->path, name);
    if (!rc) rc = ms_fs_read_file(dir->fs, path, SMALL_FILE_MAX, text);
    if (rc == MS_E_LIMIT) rc = ms_fail_wrap(MS_E_FORMAT, "%s", form);
    return rc;
}

static int parse_node(const struct ms_datadir *dir, struct ms_bytes text, struct ms_bytes *cluster, uint64_t *id)
{
    char quoted[QUOTE_MAX];
    struct ms_bytes line, word;
    uint64_t version = 0;
    if (take_line(&text, &line) && take_word(line, "metasync ", &word)) (void)take_number(word, 10, 1, 9, &version);
    if (version > 1)
        return ms_fail(MS_E_VERSION, "%.300s/node: made by version %" PRIu64 " of the format, this program knows version 1",
                       dir->path, version);
    bool sound = version == 1;
    sound = sound && take_line(&text, &line) && take_word(line, "id ", &word) && take_number(word, 16, 16, 16, id);
    sound = sound && take_line(&text, &line) && take_word(line, "cluster ", cluster) && cluster->size > 0;
    if (sound && text.size > 0) {
        line = text;
        sound = false;
    }
    if (sound) return 0;
    return ms_fail(MS_E_FORMAT, "%.200s/node: wrong at \"%s\"; %s", dir->path, quote(line, quoted), node_form);
}

/* MS_E_NOT_FOUND if there is none. */
static int read_node(struct ms_datadir *dir, struct ms_bytes cluster)
{
    char ours[QUOTE_MAX], theirs[QUOTE_MAX];
    struct ms_buf text;
    struct ms_bytes owner = ms_bytes("", 0);
    ms_buf_init(&text);
    int rc = read_small(dir, "node", node_form, &text);
    if (!rc) rc = parse_node(dir, ms_buf_bytes(&text), &owner, &dir->node_id);
    if (!rc && !ms_bytes_equal(owner, cluster))
        rc = ms_fail(MS_E_CLUSTER, "%.300s belongs to cluster \"%s\", not to \"%s\"", dir->path, quote(owner, theirs),
                     quote(cluster, ours));
    ms_buf_close(&text);
    return rc;
}

static int write_node(struct ms_datadir *dir, struct ms_bytes cluster, uint64_t id)
{
    char text[256];
    int length = snprintf(text, sizeof text, "metasync 1\nid %016" PRIx64 "\ncluster %.*s\n", id, (int)cluster.size,
                          (const char *)cluster.data);
    dir->node_id = id;
    return ms_fs_replace(dir->fs, dir->path, "node", text, (size_t)length);
}

/* MS_E_NOT_FOUND if there is none. */
static int read_current(const struct ms_datadir *dir, uint64_t *generation)
{
    char quoted[QUOTE_MAX];
    struct ms_buf text;
    ms_buf_init(&text);
    int rc = read_small(dir, "current", current_form, &text);
    if (!rc) {
        struct ms_bytes rest = ms_buf_bytes(&text), line;
        if (!take_line(&rest, &line) || rest.size > 0 || !is_generation(line, generation))
            rc = ms_fail(MS_E_FORMAT, "%.300s/current: it says \"%s\"; %s", dir->path, quote(ms_buf_bytes(&text), quoted),
                         current_form);
    }
    ms_buf_close(&text);
    return rc;
}

static int write_current(const struct ms_datadir *dir, uint64_t generation)
{
    char text[GENERATION_NAME + 1];
    generation_name(generation, text);
    size_t length = strlen(text);
    text[length++] = '\n';
    return ms_fs_replace(dir->fs, dir->path, "current", text, length);
}

/* ---- generations --------------------------------------------------------------------------------------------------- */

static int generation_path(const struct ms_datadir *dir, uint64_t generation, char path[MS_PATH_MAX])
{
    char name[GENERATION_NAME];
    generation_name(generation, name);
    return ms_path(path, dir->path, name);
}

int ms_datadir_live(struct ms_fs *fs, const char *path, char live[MS_PATH_MAX])
{
    struct ms_datadir dir = {.fs = fs};
    uint64_t generation = 0;
    int rc = ms_path(dir.path, path, "");
    if (rc) return rc;
    dir.path[strlen(dir.path) - 1] = '\0'; /* the slash */
    rc = read_current(&dir, &generation);
    if (rc == MS_E_NOT_FOUND) return ms_path(live, path, ".");
    return rc ? rc : generation_path(&dir, generation, live);
}

static int any_name(void *context, const char *name)
{
    (void)context;
    (void)name;
    return 1;
}

/* 1 and its path if the name is a generation that holds files. */
static int is_history(void *context, const char *name)
{
    const struct ms_datadir *dir = context;
    uint64_t generation;
    char path[MS_PATH_MAX];
    if (!is_generation(ms_str(name), &generation)) return 0;
    int rc = ms_path(path, dir->path, name);
    return rc ? rc : dir->fs->ops->list(dir->fs, path, any_name, NULL);
}

/* A file that says what the directory is may be missing only while there is nothing in it yet. */
static int check_no_history(struct ms_datadir *dir, const char *missing, const char *form)
{
    int rc = dir->fs->ops->list(dir->fs, dir->path, is_history, dir);
    if (rc <= 0) return rc;
    return ms_fail(MS_E_FORMAT, "%.200s/%s is missing although there are generations with files; %s", dir->path, missing,
                   form);
}

static int remove_stale(void *context, const char *name)
{
    const struct ms_datadir *dir = context;
    uint64_t generation;
    char path[MS_PATH_MAX];
    bool temporary = strcmp(name, "node.tmp") == 0 || strcmp(name, "current.tmp") == 0;
    bool stale = is_generation(ms_str(name), &generation) && generation != dir->generation;
    if (!temporary && !stale) return 0;
    int rc = ms_path(path, dir->path, name);
    if (!rc) rc = temporary ? dir->fs->ops->remove(dir->fs, path) : ms_fs_remove_tree(dir->fs, path);
    return rc;
}

int ms_datadir_clean(struct ms_datadir *dir)
{
    /* A switch that failed may have left another name in `current`; one that was cut short, a name that is not durable. */
    uint64_t named = 0;
    int rc = read_current(dir, &named);
    if (rc || named != dir->generation) rc = write_current(dir, dir->generation);
    else rc = dir->fs->ops->sync_dir(dir->fs, dir->path);
    if (rc) return rc;
    dir->next[0] = '\0';
    return dir->fs->ops->list(dir->fs, dir->path, remove_stale, dir);
}

int ms_datadir_stage(struct ms_datadir *dir)
{
    char next[MS_PATH_MAX];
    int rc = ms_datadir_clean(dir);
    if (!rc) rc = generation_path(dir, dir->generation + 1, next);
    if (!rc) rc = dir->fs->ops->mkdir(dir->fs, next);
    if (!rc) rc = dir->fs->ops->sync_dir(dir->fs, dir->path);
    if (!rc) memcpy(dir->next, next, sizeof next);
    return rc;
}

/* `current` could not be replaced. If it was renamed nevertheless (and not synced), the next start could take the staged
 * generation, without what we go on to write into the live one: so the old name is put back. */
static int undo_switch(const struct ms_datadir *dir, int rc)
{
    char why[MS_ERROR_SIZE];
    uint64_t named = 0;
    (void)snprintf(why, sizeof why, "%s", ms_fail_message(rc));
    if (read_current(dir, &named) == 0 && named == dir->generation) return ms_fail(rc, "%s", why);
    if (write_current(dir, dir->generation) == 0) return ms_fail(rc, "%s", why);
    return ms_fail_wrap(MS_E_UNKNOWN, "%.200s; nor could %.200s/current be put back", why, dir->path);
}

int ms_datadir_switch(struct ms_datadir *dir)
{
    char old[MS_PATH_MAX];
    if (!dir->next[0]) return ms_fail(MS_E_INVALID, "%.400s: no generation is staged", dir->path);
    int rc = dir->fs->ops->sync_dir(dir->fs, dir->next);
    if (rc) return rc;
    rc = write_current(dir, dir->generation + 1);
    if (rc) return undo_switch(dir, rc);
    memcpy(old, dir->live, sizeof old);
    memcpy(dir->live, dir->next, sizeof old);
    dir->next[0] = '\0';
    dir->generation++;
    (void)ms_fs_remove_tree(dir->fs, old); /* what can't be removed now is a left-over for the next open */
    return 0;
}

/* ---- opening ------------------------------------------------------------------------------------------------------- */

/* Makes the name of the data directory itself durable. */
static int sync_parent(const struct ms_datadir *dir)
{
    char parent[MS_PATH_MAX];
    memcpy(parent, dir->path, sizeof parent);
    char *slash = strrchr(parent, '/');
    if (!slash) return dir->fs->ops->sync_dir(dir->fs, ".");
    slash[slash == parent] = '\0';
    return dir->fs->ops->sync_dir(dir->fs, parent);
}

static int set_path(struct ms_datadir *dir, const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    if (length == 0) return ms_fail(MS_E_INVALID, "the path of the data directory is empty");
    if (length >= MS_PATH_MAX) return ms_fail(MS_E_LIMIT, "path too long: %.300s", path);
    memcpy(dir->path, path, length);
    dir->path[length] = '\0';
    return 0;
}

static int take_lock(struct ms_datadir *dir)
{
    char path[MS_PATH_MAX];
    int rc = dir->fs->ops->mkdir(dir->fs, dir->path);
    if (!rc) rc = ms_path(path, dir->path, "lock");
    if (!rc) rc = dir->fs->ops->lock(dir->fs, path, &dir->lock);
    return rc;
}

static int open_identity(struct ms_datadir *dir, struct ms_bytes cluster, uint64_t new_id)
{
    uint64_t named;
    int rc = read_node(dir, cluster);
    if (rc != MS_E_NOT_FOUND) return rc;
    rc = read_current(dir, &named);
    if (rc == 0) return ms_fail(MS_E_FORMAT, "%.200s/node is missing although there is a current; %s", dir->path, node_form);
    if (rc == MS_E_NOT_FOUND) rc = check_no_history(dir, "node", node_form);
    return rc ? rc : write_node(dir, cluster, new_id);
}

static int open_first_generation(struct ms_datadir *dir)
{
    int rc = check_no_history(dir, "current", current_form);
    if (!rc) rc = sync_parent(dir); /* before `current` is there, as the next open won't know that it is owed */
    dir->generation = 1;
    if (!rc) rc = generation_path(dir, dir->generation, dir->live);
    if (!rc) rc = dir->fs->ops->mkdir(dir->fs, dir->live);
    if (!rc) rc = dir->fs->ops->sync_dir(dir->fs, dir->path);
    return rc ? rc : write_current(dir, dir->generation);
}

static int open_current(struct ms_datadir *dir)
{
    int rc = read_current(dir, &dir->generation);
    if (rc == MS_E_NOT_FOUND) return open_first_generation(dir);
    if (!rc) rc = generation_path(dir, dir->generation, dir->live);
    if (rc) return rc;
    rc = dir->fs->ops->list(dir->fs, dir->live, any_name, NULL);
    if (rc == MS_E_NOT_FOUND)
        return ms_fail(MS_E_FORMAT, "%.200s/current: expected the name of a generation, but %.200s does not exist",
                       dir->path, dir->live);
    return rc < 0 ? rc : 0;
}

int ms_datadir_open(struct ms_fs *fs, const char *path, struct ms_bytes cluster, uint64_t new_id, struct ms_datadir *dir)
{
    *dir = (struct ms_datadir){.fs = fs};
    if (cluster.size == 0 || cluster.size > 63 || memchr(cluster.data, '\n', cluster.size))
        return ms_fail(MS_E_INVALID, "a cluster's name has 1 to 63 bytes and no line end");
    int rc = set_path(dir, path);
    if (!rc) rc = take_lock(dir);
    if (!rc) rc = open_identity(dir, cluster, new_id);
    if (!rc) rc = open_current(dir);
    if (!rc) rc = ms_datadir_clean(dir);
    if (rc) ms_datadir_close(dir);
    return rc;
}

void ms_datadir_close(struct ms_datadir *dir)
{
    if (!dir->fs || !dir->lock) return;
    dir->fs->ops->close(dir->fs, dir->lock);
    dir->lock = NULL;
}

/* ---- archive ------------------------------------------------------------------------------------------------------- */

/* The name itself, or with the first number that is free. */
static int free_name(struct ms_fs *fs, const char *archive, const char *name, char chosen[ARCHIVE_NAME_MAX + 8],
                     char path[MS_PATH_MAX])
{
    for (int n = 1; n < ARCHIVE_TRIES; n++) {
        struct ms_file *file = NULL;
        (void)snprintf(chosen, ARCHIVE_NAME_MAX + 8, n == 1 ? "%s" : "%s.%d", name, n);
        int rc = ms_path(path, archive, chosen);
        if (!rc) rc = fs->ops->open(fs, path, MS_FS_READ, &file);
        if (rc == MS_E_NOT_FOUND) return 0;
        if (rc) return rc;
        fs->ops->close(fs, file);
    }
    return ms_fail(MS_E_LIMIT, "%.200s/%.200s: there are %d of this name", archive, name, ARCHIVE_TRIES - 1);
}

static bool is_archive_name(const char *name)
{
    static const char temporary[] = ".tmp"; /* of a file that is being written */
    size_t length = strlen(name), end = sizeof temporary - 1;
    if (length == 0 || length > ARCHIVE_NAME_MAX || name[0] == '.' || strchr(name, '/')) return false;
    return length < end || strcmp(name + length - end, temporary) != 0;
}

/* Nobody cleans the archive later, so the part that was written goes now. */
static int give_up_archive(struct ms_fs *fs, const char *path, int rc)
{
    char why[MS_ERROR_SIZE], temporary[MS_PATH_MAX + 8];
    (void)snprintf(why, sizeof why, "%s", ms_fail_message(rc));
    (void)snprintf(temporary, sizeof temporary, "%s.tmp", path);
    (void)fs->ops->remove(fs, temporary);
    return ms_fail(rc, "archive %.200s: %s", path, why);
}

int ms_datadir_archive(struct ms_datadir *dir, const char *name, struct ms_bytes text, char taken[MS_PATH_MAX])
{
    char archive[MS_PATH_MAX], path[MS_PATH_MAX], chosen[ARCHIVE_NAME_MAX + 8];
    struct ms_fs *fs = dir->fs;
    if (!is_archive_name(name)) return ms_fail(MS_E_INVALID, "not a name for an archived file: \"%.200s\"", name);
    int rc = ms_path(archive, dir->path, "archive");
    if (!rc) rc = fs->ops->mkdir(fs, archive);
    if (!rc) rc = fs->ops->sync_dir(fs, dir->path);
    if (!rc) rc = free_name(fs, archive, name, chosen, path);
    if (rc) return rc;
    rc = ms_fs_replace(fs, archive, chosen, text.data, text.size);
    if (rc) return give_up_archive(fs, path, rc);
    memcpy(taken, path, sizeof path);
    return 0;
}
