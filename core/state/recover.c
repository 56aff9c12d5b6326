/* Recovery of a generation: the newest sound snapshot, then the log behind it.
 *
 * A snapshot that can't be used (damaged, unreadable, or not what its name says) is passed over in favour of an older one; the log
 * then has to reach back to that, or it is damage. Once that went well, what was passed over is renamed to NAME.bad: it would count as the
 * newest snapshot otherwise, and pruning would keep it and remove sound ones. On failure nothing was renamed. */
#include <stdio.h>

#include "../base/error.h"
#include "datadir.h"
#include "snapshot.h"

struct attempt {
    struct ms_datadir *dir;
    struct ms_store *store;
    struct ms_recovery *recovery;
    struct ms_snapshot_name names[MS_SNAPSHOTS_MAX]; /* newest first */
    uint32_t count, used; /* used: index of the one that was loaded, count = none */
};

static void empty(struct ms_store *store)
{
    ms_store_close(store);
    (void)ms_store_init(store); /* takes no memory */
}

static int load_one(const struct attempt *attempt, const struct ms_snapshot_name *name, struct ms_bytes cluster)
{
    char path[MS_PATH_MAX];
    int rc = ms_path(path, attempt->dir->live, name->name);
    if (!rc) rc = ms_snapshot_load(attempt->dir->fs, path, cluster, attempt->store);
    if (!rc && attempt->store->applied != name->end)
        rc = ms_fail(MS_E_DAMAGED, "snapshot %s ends at lsn %llu", path, (unsigned long long)attempt->store->applied);
    return rc;
}

/* Another cluster's, a newer version's and lack of memory say nothing against the file: no older one is tried. */
static bool refuses_file(int rc)
{
    return rc == MS_E_DAMAGED || rc == MS_E_FORMAT || rc == MS_E_IO || rc == MS_E_TYPE || rc == MS_E_LIMIT;
}

static int load_newest(struct attempt *attempt, struct ms_bytes cluster)
{
    struct ms_recovery *recovery = attempt->recovery;
    for (attempt->used = 0; attempt->used < attempt->count; attempt->used++) {
        const struct ms_snapshot_name *name = &attempt->names[attempt->used];
        int rc = load_one(attempt, name, cluster);
        if (!rc) {
            recovery->snapshot_end = name->end;
            return 0;
        }
        empty(attempt->store);
        if (!refuses_file(rc)) return rc;
        if (recovery->bad_snapshots++ == 0) (void)snprintf(recovery->note, sizeof recovery->note, "%s", ms_fail_message(rc));
    }
    return 0;
}

/* A finished snapshot was whole once: what it held up to its end was on this disk, so a log that ends earlier is no substitute. */
static int check_reached(const struct attempt *attempt)
{
    if (attempt->used == 0 || attempt->store->applied >= attempt->names[0].end) return 0;
    return ms_fail(MS_E_DAMAGED, "the log in %s goes up to lsn %llu only, snapshot %s is needed", attempt->dir->live,
                   (unsigned long long)attempt->store->applied, attempt->names[0].name);
}

static int set_bad_aside(const struct attempt *attempt)
{
    struct ms_fs *fs = attempt->dir->fs;
    for (uint32_t i = 0; i < attempt->used; i++) {
        char name[sizeof attempt->names[i].name + 8], from[MS_PATH_MAX], to[MS_PATH_MAX];
        (void)snprintf(name, sizeof name, "%s.bad", attempt->names[i].name);
        int rc = ms_path(from, attempt->dir->live, attempt->names[i].name);
        if (!rc) rc = ms_path(to, attempt->dir->live, name);
        if (!rc) rc = fs->ops->rename(fs, from, to);
        if (rc) return rc;
    }
    return attempt->used ? fs->ops->sync_dir(fs, attempt->dir->live) : 0;
}

int ms_recover(struct ms_datadir *dir, struct ms_bytes cluster, const struct ms_log_config *config, struct ms_store *store,
               struct ms_log **log, struct ms_recovery *recovery)
{
    struct attempt attempt = {.dir = dir, .store = store, .recovery = recovery};
    *recovery = (struct ms_recovery){0};
    *log = NULL;
    int rc = ms_snapshot_list(dir->fs, dir->live, attempt.names, &attempt.count);
    if (!rc) rc = load_newest(&attempt, cluster);
    if (!rc) {
        rc = ms_log_open(dir->fs, dir->live, config, store, log, &recovery->truncated);
        if (!rc) rc = check_reached(&attempt);
        if (rc && recovery->bad_snapshots)
            rc = ms_fail_wrap(rc, "%u snapshots of %s were refused (the newest: %.160s)", recovery->bad_snapshots, dir->live, recovery->note);
    }
    if (!rc) rc = set_bad_aside(&attempt);
    if (!rc) return 0;
    ms_log_close(*log);
    *log = NULL;
    empty(store);
    return rc;
}
