/* The operations of the simulated file system: handles, locks, faults and space. What survives the end of a process is
 * decided in sim_disk.c.
 *
 * Each operation goes through enter(): it counts the call, refuses it on a stopped machine, and fails by order of
 * ms_sim_fs_fail_*. One that changes something then reports it to changed(), which stops the machine in time. An inode is
 * freed by sweep() when neither a handle nor any name, present or durable, refers to it. */
#include "sim_fs.h"

#include "../base/error.h"
#include "../base/mem.h"
#include "sim_disk.h"

enum { MATCH_MAX = 63, FILE_SIZE_MAX = 1 << 30 };

struct ms_file {
    struct ms_list node;
    struct ms_sim_inode *inode;
    uint64_t life; /* that of the file system when it was opened */
    bool writable;
    char path[]; /* for messages and fault matching */
};

struct fault {
    uint32_t nth, per_million;
    char match[MATCH_MAX + 1];
};

struct ms_sim_fs {
    struct ms_fs fs; /* first, so that the seam's pointer is ours */
    struct ms_sim_dice dice;
    struct ms_list inodes, handles;
    struct ms_sim_inode *root;
    uint64_t life; /* power losses and crashes so far */
    uint64_t left; /* changes before the machine stops */
    uint64_t capacity;
    uint32_t short_per_million;
    struct fault faults[MS_SIM_FS_OPS];
    struct ms_sim_fs_counters counters;
};

static struct ms_sim_fs *sim_of(struct ms_fs *fs)
{
    return (struct ms_sim_fs *)(void *)fs;
}

/* ---- gates ------------------------------------------------------------------------------------------------------- */

static bool must_fail(struct ms_sim_fs *sim, int op, const char *path)
{
    struct fault *fault = &sim->faults[op];
    bool now = false;
    if (fault->nth > 0 && (!fault->match[0] || strstr(path, fault->match))) now = --fault->nth == 0;
    if (ms_sim_chance(&sim->dice, fault->per_million)) now = true;
    if (now) sim->counters.eio++;
    return now;
}

static int fail_injected(const char *what, const char *path)
{
    return ms_fail(MS_E_IO, "%s %.400s: injected input/output error", what, path);
}

/* Counts a call and says whether the machine still runs. */
static int enter_alive(struct ms_sim_fs *sim, int op, const char *what, const char *path)
{
    sim->counters.calls[op]++;
    if (sim->left == 0) return ms_fail(MS_E_IO, "%s %.400s: the machine has stopped", what, path);
    return 0;
}

static int enter(struct ms_sim_fs *sim, int op, const char *what, const char *path)
{
    int rc = enter_alive(sim, op, what, path);
    if (rc) return rc;
    return must_fail(sim, op, path) ? fail_injected(what, path) : 0;
}

static int check_handle(const struct ms_sim_fs *sim, const struct ms_file *file, const char *what)
{
    if (file->life == sim->life) return 0;
    return ms_fail(MS_E_IO, "%s %.400s: the handle is from before a power loss or crash", what, file->path);
}

static int check_writable(const struct ms_file *file, const char *what)
{
    return file->writable ? 0 : ms_fail(MS_E_IO, "%s %.400s: opened for reading", what, file->path);
}

static void changed(struct ms_sim_fs *sim)
{
    sim->counters.changes++;
    if (sim->left != UINT64_MAX) sim->left--;
}

/* ---- inodes and paths --------------------------------------------------------------------------------------------- */

static struct ms_sim_inode *inode_new(struct ms_sim_fs *sim, bool is_dir)
{
    struct ms_sim_inode *inode = ms_alloc_zero(sizeof *inode);
    if (!inode) return NULL;
    inode->is_dir = is_dir;
    ms_sim_content_init(&inode->content);
    ms_sim_names_init(&inode->names);
    ms_list_add_tail(&sim->inodes, &inode->node);
    return inode;
}

static void inode_free(struct ms_sim_inode *inode)
{
    ms_list_remove(&inode->node);
    ms_sim_names_close(&inode->names);
    ms_sim_content_close(&inode->content);
    ms_release(inode);
}

static void sweep(struct ms_sim_fs *sim)
{
    for (struct ms_list *at = sim->inodes.next, *next; at != &sim->inodes; at = next) {
        next = at->next;
        struct ms_sim_inode *inode = ms_list_entry(at, struct ms_sim_inode, node);
        if (inode->references == 0) inode_free(inode); /* what a directory held comes later in the list */
    }
}

static int find_existing(const struct ms_sim_fs *sim, const char *what, const char *path, struct ms_sim_spot *place)
{
    int rc = ms_sim_find(sim->root, what, path, place);
    if (!rc && !place->inode) rc = ms_fail(MS_E_NOT_FOUND, "%s %.400s: no such file or directory", what, path);
    return rc;
}

/* Makes a new file or directory at the place that has none. */
static int make(struct ms_sim_fs *sim, struct ms_sim_spot *place, bool is_dir)
{
    struct ms_sim_inode *inode = inode_new(sim, is_dir);
    if (!inode) return MS_E_MEMORY;
    int rc = ms_sim_names_change(&place->dir->names, NULL, place->name, inode);
    if (rc) {
        inode_free(inode);
        return rc;
    }
    place->inode = inode;
    changed(sim);
    return 0;
}

/* ---- handles -------------------------------------------------------------------------------------------------------- */

static int handle_new(struct ms_sim_fs *sim, struct ms_sim_inode *inode, const char *path, bool writable,
                      struct ms_file **file)
{
    size_t size = strlen(path) + 1;
    struct ms_file *handle = ms_alloc(sizeof *handle + size);
    if (!handle) return MS_E_MEMORY;
    handle->inode = inode;
    handle->life = sim->life;
    handle->writable = writable;
    memcpy(handle->path, path, size);
    ms_list_add_tail(&sim->handles, &handle->node);
    inode->references++;
    inode->users++;
    *file = handle;
    return 0;
}

static void sim_close(struct ms_fs *fs, struct ms_file *file)
{
    struct ms_sim_fs *sim = sim_of(fs);
    if (!file) return;
    struct ms_sim_inode *inode = file->inode;
    ms_list_remove(&file->node);
    if (file->life == sim->life) inode->users--;
    if (inode->lock == file) inode->lock = NULL;
    inode->references--;
    ms_release(file);
    sweep(sim);
}

static int sim_open(struct ms_fs *fs, const char *path, int mode, struct ms_file **file)
{
    struct ms_sim_fs *sim = sim_of(fs);
    struct ms_sim_spot place;
    *file = NULL;
    int rc = enter(sim, MS_SIM_FS_OPEN, "open", path);
    bool create = mode == MS_FS_CREATE || mode == MS_FS_STREAM;
    if (!rc && create) rc = ms_sim_find(sim->root, "create", path, &place);
    else if (!rc) rc = find_existing(sim, "open", path, &place);
    if (rc) return rc;
    if (place.inode && place.inode->is_dir) return ms_fail(MS_E_IO, "open %.400s: is a directory", path);
    if (!place.inode) {
        rc = make(sim, &place, false);
    } else if (create) {
        rc = ms_sim_content_truncate(&place.inode->content, 0);
        if (!rc) changed(sim);
    }
    return rc ? rc : handle_new(sim, place.inode, path, mode != MS_FS_READ, file);
}

static int sim_lock(struct ms_fs *fs, const char *path, struct ms_file **lock)
{
    struct ms_sim_fs *sim = sim_of(fs);
    struct ms_sim_spot place;
    *lock = NULL;
    int rc = enter(sim, MS_SIM_FS_LOCK, "lock", path);
    if (!rc) rc = ms_sim_find(sim->root, "lock", path, &place);
    if (rc) return rc;
    if (place.inode && place.inode->is_dir) return ms_fail(MS_E_IO, "lock %.400s: is a directory", path);
    if (place.inode && place.inode->lock) return ms_fail(MS_E_LOCKED, "%.400s is locked by another process", path);
    if (!place.inode) rc = make(sim, &place, false);
    if (!rc) rc = handle_new(sim, place.inode, path, true, lock);
    if (!rc) place.inode->lock = *lock;
    return rc;
}

/* ---- a file's bytes ------------------------------------------------------------------------------------------------- */

static int sim_size(struct ms_fs *fs, struct ms_file *file, uint64_t *size)
{
    struct ms_sim_fs *sim = sim_of(fs);
    int rc = check_handle(sim, file, "size of");
    if (!rc && sim->left == 0) rc = ms_fail(MS_E_IO, "size of %.400s: the machine has stopped", file->path);
    if (!rc) *size = file->inode->content.now.size;
    return rc;
}

static int sim_read(struct ms_fs *fs, struct ms_file *file, uint64_t offset, void *data, size_t size, size_t *got)
{
    struct ms_sim_fs *sim = sim_of(fs);
    const struct ms_buf *now = &file->inode->content.now;
    *got = 0;
    int rc = check_handle(sim, file, "read");
    if (!rc) rc = enter(sim, MS_SIM_FS_READ, "read", file->path);
    if (rc || offset >= now->size) return rc;
    *got = size < now->size - offset ? size : now->size - (size_t)offset;
    if (*got > 0) memcpy(data, now->data + offset, *got);
    return 0;
}

/* How much of a write of `size` bytes fits on the disk. */
static size_t fitting(const struct ms_sim_fs *sim, const struct ms_sim_inode *inode, uint64_t offset, size_t size)
{
    uint64_t end = offset + size, old = inode->content.now.size;
    if (end <= old || sim->capacity == UINT64_MAX) return size;
    uint64_t used = ms_sim_fs_used(sim), room = sim->capacity > used ? sim->capacity - used : 0;
    if (end - old <= room) return size;
    return offset < old + room ? (size_t)(old + room - offset) : 0;
}

/* How much of it is put: all, or less by a full disk, or less by chance. */
static int plan_write(struct ms_sim_fs *sim, const struct ms_file *file, uint64_t offset, size_t size, size_t *planned)
{
    size_t fits = fitting(sim, file->inode, offset, size);
    *planned = fits;
    if (fits == 0) {
        sim->counters.enospc++;
        return ms_fail(MS_E_NO_SPACE, "write %.400s: no space left on the simulated disk", file->path);
    }
    if (fits > 1 && ms_sim_chance(&sim->dice, sim->short_per_million)) {
        sim->counters.short_writes++;
        *planned = 1 + (size_t)ms_sim_below(&sim->dice, fits - 1);
    }
    return 0;
}

static int sim_write(struct ms_fs *fs, struct ms_file *file, uint64_t offset, const struct ms_bytes *parts, size_t count,
                     size_t *put)
{
    struct ms_sim_fs *sim = sim_of(fs);
    size_t size = 0, planned = 0;
    *put = 0;
    for (size_t i = 0; i < count; i++) size += parts[i].size;
    int rc = check_handle(sim, file, "write");
    if (!rc) rc = check_writable(file, "write");
    if (!rc) rc = enter_alive(sim, MS_SIM_FS_WRITE, "write", file->path);
    if (rc || size == 0) return rc;
    if (offset > FILE_SIZE_MAX || size > FILE_SIZE_MAX - offset)
        return ms_fail(MS_E_IO, "write %.400s: file too large", file->path);
    rc = plan_write(sim, file, offset, size, &planned);
    if (rc) return rc;
    bool broken = must_fail(sim, MS_SIM_FS_WRITE, file->path);
    if (broken) planned = (size_t)ms_sim_below(&sim->dice, planned + 1);
    rc = ms_sim_content_write(&file->inode->content, offset, parts, planned);
    if (rc) return rc;
    sim->counters.bytes_written += planned;
    changed(sim);
    if (broken) return fail_injected("write", file->path);
    *put = planned;
    return 0;
}

static int sim_truncate(struct ms_fs *fs, struct ms_file *file, uint64_t size)
{
    struct ms_sim_fs *sim = sim_of(fs);
    int rc = check_handle(sim, file, "truncate");
    if (!rc) rc = check_writable(file, "truncate");
    if (!rc) rc = enter(sim, MS_SIM_FS_TRUNCATE, "truncate", file->path);
    if (!rc && size > FILE_SIZE_MAX) rc = ms_fail(MS_E_IO, "truncate %.400s: file too large", file->path);
    if (!rc) rc = ms_sim_content_truncate(&file->inode->content, size);
    if (!rc) changed(sim);
    return rc;
}

static int sim_reserve(struct ms_fs *fs, struct ms_file *file, uint64_t size)
{
    struct ms_sim_fs *sim = sim_of(fs);
    int rc = check_handle(sim, file, "reserve");
    if (!rc) rc = check_writable(file, "reserve");
    if (!rc) rc = enter(sim, MS_SIM_FS_RESERVE, "reserve", file->path);
    if (!rc && size > FILE_SIZE_MAX) rc = ms_fail(MS_E_IO, "reserve %.400s: file too large", file->path);
    uint64_t old = file->inode->content.now.size;
    if (rc || size <= old) return rc;
    if (fitting(sim, file->inode, old, (size_t)(size - old)) < size - old) {
        sim->counters.enospc++;
        return ms_fail(MS_E_NO_SPACE, "reserve %.400s: no space left on the simulated disk", file->path);
    }
    rc = ms_sim_content_truncate(&file->inode->content, size);
    if (!rc) changed(sim);
    return rc;
}

static int sim_sync(struct ms_fs *fs, struct ms_file *file)
{
    struct ms_sim_fs *sim = sim_of(fs);
    int rc = check_handle(sim, file, "sync");
    if (!rc) rc = enter_alive(sim, MS_SIM_FS_SYNC, "sync", file->path);
    if (rc) return rc;
    if (must_fail(sim, MS_SIM_FS_SYNC, file->path)) {
        /* The kernel forgets which pages failed: what is lost now stays readable, and no later sync writes it. */
        ms_sim_content_settle(&file->inode->content, &sim->dice, &sim->counters.loss);
        return fail_injected("sync", file->path);
    }
    ms_sim_content_sync(&file->inode->content);
    changed(sim);
    return 0;
}

/* ---- names ---------------------------------------------------------------------------------------------------------- */

static int sim_rename(struct ms_fs *fs, const char *from, const char *to)
{
    struct ms_sim_fs *sim = sim_of(fs);
    struct ms_sim_spot source, target;
    int rc = enter(sim, MS_SIM_FS_RENAME, "rename", from);
    if (!rc) rc = find_existing(sim, "rename", from, &source);
    if (!rc) rc = ms_sim_find(sim->root, "rename to", to, &target);
    if (rc) return rc;
    /* In two directories it would not be atomic in a power loss, so that code which does it is to be noticed. */
    if (!source.dir || source.dir != target.dir)
        return ms_fail(MS_E_IO, "rename %.200s to %.200s: not in one directory", from, to);
    if (target.inode && (target.inode->is_dir || source.inode->is_dir))
        return ms_fail(MS_E_IO, "rename %.200s to %.200s: would replace a directory or by one", from, to);
    rc = ms_sim_names_change(&source.dir->names, source.name, target.name, source.inode);
    if (rc) return rc;
    changed(sim);
    sweep(sim);
    return 0;
}

static int sim_remove(struct ms_fs *fs, const char *path)
{
    struct ms_sim_fs *sim = sim_of(fs);
    struct ms_sim_spot place;
    int rc = enter(sim, MS_SIM_FS_REMOVE, "remove", path);
    if (!rc) rc = find_existing(sim, "remove", path, &place);
    if (rc) return rc;
    if (!place.dir) return ms_fail(MS_E_IO, "remove %.400s: is the root", path);
    if (place.inode->is_dir && ms_sim_names_count(&place.inode->names) > 0)
        return ms_fail(MS_E_IO, "remove %.400s: directory not empty", path);
    rc = ms_sim_names_change(&place.dir->names, place.name, NULL, place.inode);
    if (rc) return rc;
    changed(sim);
    sweep(sim);
    return 0;
}

static int sim_mkdir(struct ms_fs *fs, const char *path)
{
    struct ms_sim_fs *sim = sim_of(fs);
    struct ms_sim_spot place;
    int rc = enter(sim, MS_SIM_FS_MKDIR, "make directory", path);
    if (!rc) rc = ms_sim_find(sim->root, "make directory", path, &place);
    if (rc) return rc;
    if (!place.inode) return make(sim, &place, true);
    return place.inode->is_dir ? 0 : ms_fail(MS_E_IO, "make directory %.400s: exists and is a file", path);
}

static int find_dir(const struct ms_sim_fs *sim, const char *what, const char *path, struct ms_sim_spot *place)
{
    int rc = find_existing(sim, what, path, place);
    if (!rc && !place->inode->is_dir) rc = ms_fail(MS_E_IO, "%s %.400s: not a directory", what, path);
    return rc;
}

static int sim_sync_dir(struct ms_fs *fs, const char *path)
{
    struct ms_sim_fs *sim = sim_of(fs);
    struct ms_sim_spot place;
    int rc = enter(sim, MS_SIM_FS_SYNC_DIR, "sync directory", path);
    if (!rc) rc = find_dir(sim, "sync directory", path, &place);
    if (rc) return rc;
    ms_sim_names_sync(&place.inode->names);
    changed(sim);
    sweep(sim);
    return 0;
}

/* Names come in no order that anyone could rely on. They are copied first, because fn may change the directory. */
static int sim_list(struct ms_fs *fs, const char *path, ms_fs_list_fn fn, void *context)
{
    struct ms_sim_fs *sim = sim_of(fs);
    struct ms_sim_spot place;
    int rc = enter(sim, MS_SIM_FS_LIST, "list", path);
    if (!rc) rc = find_dir(sim, "list", path, &place);
    if (rc) return rc;
    struct ms_buf copy;
    ms_buf_init(&copy);
    size_t count = ms_sim_names_count(&place.inode->names), start = count > 1 ? ms_sim_below(&sim->dice, count) : 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = ms_sim_names_at(&place.inode->names, (start + i) % count)->text;
        ms_buf_add(&copy, text, strlen(text) + 1);
    }
    rc = copy.failed ? MS_E_MEMORY : 0;
    for (size_t at = 0; !rc && at < copy.size;) {
        const char *name = (const char *)copy.data + at;
        at += strlen(name) + 1;
        rc = fn(context, name);
    }
    ms_buf_close(&copy);
    return rc;
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

static const struct ms_fs_ops ops = {
    .open = sim_open,
    .close = sim_close,
    .size = sim_size,
    .read = sim_read,
    .write = sim_write,
    .truncate = sim_truncate,
    .reserve = sim_reserve,
    .sync = sim_sync,
    .rename = sim_rename,
    .remove = sim_remove,
    .mkdir = sim_mkdir,
    .sync_dir = sim_sync_dir,
    .list = sim_list,
    .lock = sim_lock,
};

struct ms_sim_fs *ms_sim_fs_new(uint64_t seed)
{
    struct ms_sim_fs *sim = ms_alloc_zero(sizeof *sim);
    if (!sim) return NULL;
    sim->fs.ops = &ops;
    sim->dice.state = seed;
    sim->left = sim->capacity = UINT64_MAX;
    ms_list_init(&sim->inodes);
    ms_list_init(&sim->handles);
    sim->root = inode_new(sim, true);
    if (!sim->root) {
        ms_release(sim);
        return NULL;
    }
    sim->root->references = 1;
    return sim;
}

void ms_sim_fs_free(struct ms_sim_fs *fs)
{
    if (!fs) return;
    while (!ms_list_empty(&fs->handles)) sim_close(&fs->fs, ms_list_entry(fs->handles.next, struct ms_file, node));
    while (!ms_list_empty(&fs->inodes)) inode_free(ms_list_entry(fs->inodes.next, struct ms_sim_inode, node));
    ms_release(fs);
}

struct ms_fs *ms_sim_fs(struct ms_sim_fs *fs)
{
    return &fs->fs;
}

/* The process is gone: what only it held is free, what has a name stays. */
static void end_process(struct ms_sim_fs *sim)
{
    sim->life++;
    sim->left = UINT64_MAX;
    for (int op = 0; op < MS_SIM_FS_OPS; op++) sim->faults[op].nth = 0;
    for (struct ms_list *at = sim->inodes.next; at != &sim->inodes; at = at->next) {
        struct ms_sim_inode *inode = ms_list_entry(at, struct ms_sim_inode, node);
        inode->lock = NULL;
        inode->users = 0;
    }
    for (struct ms_list *at = sim->inodes.next; at != &sim->inodes; at = at->next) {
        const struct ms_sim_names *names = &ms_list_entry(at, struct ms_sim_inode, node)->names;
        for (size_t i = 0; i < ms_sim_names_count(names); i++) ms_sim_names_at(names, i)->inode->users++;
    }
    sweep(sim);
}

void ms_sim_fs_power_loss(struct ms_sim_fs *fs, struct ms_sim_fs_loss *loss)
{
    struct ms_sim_fs_loss now = {0};
    for (struct ms_list *at = fs->inodes.next; at != &fs->inodes; at = at->next) {
        struct ms_sim_inode *inode = ms_list_entry(at, struct ms_sim_inode, node);
        ms_sim_content_settle(&inode->content, &fs->dice, &now);
        ms_sim_content_revert(&inode->content);
        ms_sim_names_settle(&inode->names, &fs->dice, &now);
        ms_sim_names_revert(&inode->names);
    }
    end_process(fs);
    fs->counters.power_losses++;
    ms_sim_loss_add(&fs->counters.loss, &now);
    if (loss) *loss = now;
}

void ms_sim_fs_crash(struct ms_sim_fs *fs)
{
    end_process(fs);
    fs->counters.crashes++;
}

/* ---- control -------------------------------------------------------------------------------------------------------- */

void ms_sim_fs_stop_after(struct ms_sim_fs *fs, uint64_t changes)
{
    fs->left = changes;
}

bool ms_sim_fs_stopped(const struct ms_sim_fs *fs)
{
    return fs->left == 0;
}

void ms_sim_fs_fail_after(struct ms_sim_fs *fs, int op, uint32_t nth, const char *match)
{
    if (op < 0 || op >= MS_SIM_FS_OPS) return;
    struct fault *fault = &fs->faults[op];
    size_t length = match ? strnlen(match, MATCH_MAX) : 0;
    fault->nth = nth;
    if (length > 0) memcpy(fault->match, match, length);
    fault->match[length] = '\0';
}

void ms_sim_fs_fail_often(struct ms_sim_fs *fs, int op, uint32_t per_million)
{
    if (op >= 0 && op < MS_SIM_FS_OPS) fs->faults[op].per_million = per_million;
}

void ms_sim_fs_short_writes(struct ms_sim_fs *fs, uint32_t per_million)
{
    fs->short_per_million = per_million;
}

void ms_sim_fs_capacity(struct ms_sim_fs *fs, uint64_t bytes)
{
    fs->capacity = bytes;
}

uint64_t ms_sim_fs_used(const struct ms_sim_fs *fs)
{
    uint64_t used = 0;
    for (struct ms_list *at = fs->inodes.next; at != &fs->inodes; at = at->next) {
        const struct ms_sim_inode *inode = ms_list_entry(at, struct ms_sim_inode, node);
        if (inode->users > 0) used += inode->content.now.size;
    }
    return used;
}

int ms_sim_fs_corrupt(struct ms_sim_fs *fs, const char *path, uint64_t offset, uint8_t flip)
{
    struct ms_sim_spot place;
    int rc = find_existing(fs, "corrupt", path, &place);
    if (rc) return rc;
    uint64_t size = place.inode->content.now.size;
    if (offset >= size)
        return ms_fail(MS_E_INVALID, "corrupt %.400s: offset %llu is beyond its %llu bytes", path,
                       (unsigned long long)offset, (unsigned long long)size);
    ms_sim_content_flip(&place.inode->content, offset, flip);
    fs->counters.corrupted++;
    return 0;
}

const struct ms_sim_fs_counters *ms_sim_fs_counters(const struct ms_sim_fs *fs)
{
    return &fs->counters;
}

uint32_t ms_sim_fs_handles(const struct ms_sim_fs *fs)
{
    uint32_t count = 0;
    for (const struct ms_list *at = fs->handles.next; at != &fs->handles; at = at->next) count++;
    return count;
}
