/* Opening and closing a node. Each step of opening has its place in tear_down, which is legal after any of them. */
#include "node.h"

#include <stdio.h>
#include <unistd.h>

#include "drive/address.h"
#include "drive/fs.h"

enum { FLUSH_MS = 10000, HANG_UP_MS = 1000, LINGER_MS = 500 };

/* ---- opening ------------------------------------------------------------------------------------------------------------------ */

static int check_config(const struct ms_config *config, const struct ms_policy *policy)
{
    if (!config->dir || !*config->dir) return ms_fail(MS_E_INVALID, "no data directory is given");
    size_t size = config->cluster ? strlen(config->cluster) : 0;
    if (size < 1 || size > 63) return ms_fail(MS_E_INVALID, "a cluster name has 1..63 bytes, not %zu", size);
    if (config->listen && strlen(config->listen) >= MS_ADDRESS_MAX) return ms_fail(MS_E_ADDRESS, "the listen address is too long");
    int rc = config->listen ? ms_address_check(config->listen, config->secret != NULL) : 0;
    return rc ? rc : ms_policy_check(policy);
}

static int init_node(struct ms_node *node, const struct ms_config *config, const struct ms_policy *policy)
{
    node->io.ops = &ms_node_io_ops;
    node->door = (struct ms_door){&node->engine, ms_node_enter, ms_node_leave, ms_node_leave_working};
    node->wake_at = node->armed_at = MS_FOREVER;
    node->has_secret = config->secret != NULL;
    (void)snprintf(node->dir, sizeof node->dir, "%s", config->dir);
    (void)snprintf(node->listen, sizeof node->listen, "%s", config->listen ? config->listen : "");
    for (int i = 0; i < MS_NODE_LEVELS; i++) ms_list_init(&node->waiters[i]);
    for (int i = 0; i < MS_NODE_KEYS; i++) ms_list_init(&node->keys[i]);
    for (int i = 0; i < MS_NODE_OWNERS; i++) ms_list_init(&node->owners[i]);
    ms_hold_init(&node->hold);
    int rc = ms_mutex_init(&node->mutex);
    node->mutex_ready = rc == 0;
    if (!rc) rc = ms_cond_init(&node->changed);
    node->changed_ready = node->mutex_ready && rc == 0;
    if (!rc) rc = ms_node_policy_init(node, policy, config->policy_file, &node->policy);
    if (!rc) rc = ms_host_init(node, config->host);
    return rc;
}

static int init_engine(struct ms_node *node, const struct ms_config *config)
{
    char name[64] = "";
    if (config->name) (void)snprintf(name, sizeof name, "%s", config->name);
    else (void)gethostname(name, sizeof name - 1);
    struct ms_engine_config engine = {
        .cluster = config->cluster,
        .name = name,
        .node_id = node->disk.dir.node_id,
        .policy = &node->policy,
        .rules = node->rules.now.rules,
        .has_host = node->host.host.apply != NULL,
        .recovered = node->disk.recovered,
        .log_first = ms_disk_first(&node->disk),
        .log_room = ms_disk_room(&node->disk),
        .snapshot_end = node->disk.recovery.snapshot_end,
        .extras = node->disk.extras,
    };
    ms_random(&engine.boot_id, sizeof engine.boot_id);
    node->engine_ready = true;
    return ms_engine_init(&node->engine, &node->io, &node->store, &engine);
}

/* What recovery dropped was promised to nobody, as far as the disk can tell; the operator hears of it all the same. */
static void tell_recovery(struct ms_node *node)
{
    const struct ms_recovery *recovery = &node->disk.recovery;
    char line[400];
    if (recovery->truncated) {
        (void)snprintf(line, sizeof line, "the log ends at lsn %llu; %llu bytes behind it were torn and not said to be synced, they are dropped",
                       (unsigned long long)node->store.applied, (unsigned long long)recovery->truncated);
        ms_node_tell(node, "log", MS_LOG_WARN, line);
    }
    if (recovery->bad_snapshots) {
        (void)snprintf(line, sizeof line, "%u damaged snapshots were passed over: %s", recovery->bad_snapshots, recovery->note);
        ms_node_tell(node, "log", MS_LOG_WARN, line);
    }
}

static int open_store(struct ms_node *node, const struct ms_config *config)
{
    struct ms_disk_config disk = {.path = config->dir, .cluster = config->cluster, .policy = &node->policy};
    while (!disk.new_id) ms_random(&disk.new_id, sizeof disk.new_id);
    int rc = ms_store_init(&node->store);
    node->store_ready = rc == 0;
    if (!rc) rc = ms_disk_open(&node->disk, ms_fs_posix(), &disk, &node->store);
    return rc ? rc : init_engine(node, config);
}

static int open_links(struct ms_node *node, const struct ms_config *config)
{
    node->loop_ready = true;
    int rc = ms_loop_init(&node->loop, ms_node_turn, node);
    if (rc) return rc;
    struct ms_tcp_config tcp = {
        .base = node->loop.base,
        .cluster = config->cluster,
        .secret = config->secret,
        .bulk_max = (size_t)ms_policy_largest_group(&node->policy) + MS_DISK_PIECE + 64,
        .low_water = node->policy.window_bytes / 2,
        .linger_ms = LINGER_MS,
        .events = &ms_node_tcp_events,
        .context = node,
    };
    rc = ms_tcp_new(&tcp, &node->tcp);
    return rc || !config->listen ? rc : ms_tcp_listen(node->tcp, config->listen, &node->port);
}

static int start_threads(struct ms_node *node, const struct ms_config *config)
{
    int rc = ms_node_policy_start(node);
    if (!rc) rc = ms_disk_start(&node->disk, &node->door, &node->loop);
    if (!rc) rc = ms_host_start(node);
    if (!rc) rc = ms_loop_start(&node->loop);
    if (!rc && config->control) rc = ms_control_start(config->control, ms_node_control, node, &node->control);
    return rc;
}

static void tear_down(struct ms_node *node)
{
    ms_control_stop(node->control);
    ms_node_policy_stop(node);
    if (node->loop_ready) ms_loop_stop(&node->loop);
    ms_host_stop(node);
    ms_disk_stop(&node->disk);
    ms_tcp_free(node->tcp);
    ms_net_drop(&node->net);
    ms_net_drop(&node->net_run);
    ms_net_drop(&node->net_visit);
    if (node->engine_ready) ms_engine_close(&node->engine);
    ms_node_policy_close(node);
    if (node->loop_ready) ms_loop_close(&node->loop);
    ms_host_close(node);
    ms_disk_close(&node->disk);
    if (node->store_ready) ms_store_close(&node->store);
    for (uint32_t i = 0; i < node->table_count; i++) ms_release(node->tables[i]);
    if (node->changed_ready) (void)pthread_cond_destroy(&node->changed);
    if (node->mutex_ready) (void)pthread_mutex_destroy(&node->mutex);
    ms_release(node);
}

int ms_open(const struct ms_config *config, struct ms_node **result)
{
    struct ms_policy policy;
    *result = NULL;
    if (config->policy) policy = *config->policy;
    else ms_policy_init(&policy);
    int rc = check_config(config, &policy);
    if (rc) return rc;
    struct ms_node *node = ms_alloc_aligned(_Alignof(struct ms_node), sizeof *node);
    if (!node) return MS_E_MEMORY;
    memset(node, 0, sizeof *node);
    rc = init_node(node, config, &policy);
    if (!rc) rc = open_store(node, config);
    if (!rc) rc = open_links(node, config);
    if (!rc) rc = start_threads(node, config);
    if (rc) {
        tear_down(node);
        return rc;
    }
    ms_node_lock(node);
    tell_recovery(node);
    ms_node_unlock(node);
    *result = node;
    return 0;
}

int ms_port(const struct ms_node *node)
{
    return node->port;
}

/* ---- closing ------------------------------------------------------------------------------------------------------------------- */

/* With the lock: the calls that wait are told, and leave. */
static void end_calls(struct ms_node *node)
{
    node->closing = true;
    ms_key_drop_mine(node);
    ms_node_end_waits(node);
    while (node->inside > 0 || node->txns > 0 || node->workers > 0) (void)ms_node_sleep(node, &node->changed, MS_FOREVER);
}

/* With the lock: what is in buffers and in the log's tail gets on disk, if the log still works and is quick enough. */
static void flush_all(struct ms_node *node)
{
    struct ms_engine *engine = &node->engine;
    uint64_t deadline = ms_clock_deadline(FLUSH_MS);
    int rc = 1;
    while (engine->role == MS_ROLE_LEADER && (rc == 1 || rc == MS_E_AGAIN)) {
        rc = ms_engine_flush(engine, NULL, 512);
        node->pump = true;
        if (rc == MS_E_AGAIN && !ms_node_watch(node, deadline)) break;
    }
    uint64_t end = engine->tail.head;
    while (!engine->log_error && !atomic_load(&node->disk.log_failed) && engine->synced < end) {
        engine->sync_wanted = true;
        node->pump = true;
        if (!ms_node_watch(node, deadline)) break;
    }
}

/* With the lock: what is queued for the links is given a moment to leave. */
static void hang_up(struct ms_node *node)
{
    uint64_t deadline = ms_clock_deadline(HANG_UP_MS);
    node->engine.closing = true;
    node->hang_up = true;
    ms_loop_wake(&node->loop);
    while (!node->hung_up && ms_node_watch(node, deadline)) continue;
}

void ms_end_calls(struct ms_node *node)
{
    ms_node_lock(node);
    node->closing = true;
    ms_node_end_waits(node);
    ms_node_unlock(node);
}

void ms_close(struct ms_node *node)
{
    if (!node || ms_node_may_wait(node, "ms_close")) return;
    ms_end_calls(node);
    ms_control_stop(node->control); /* its handlers wait for calls that have been ended */
    node->control = NULL;
    ms_node_policy_stop(node);
    ms_node_lock(node);
    end_calls(node);
    flush_all(node);
    hang_up(node);
    ms_node_unlock(node);
    tear_down(node);
}
