/* Roles and snapshots: calls that start something in the engine and wait for how it goes. */
#include "node.h"

#include "drive/address.h"

/* With the lock: until this node leads, or gives up. */
static int wait_to_lead(struct ms_node *node, int timeout_ms)
{
    struct ms_engine *engine = &node->engine;
    uint64_t deadline = ms_clock_deadline(timeout_ms);
    for (;;) {
        if (engine->role == MS_ROLE_LEADER) return 0;
        if (engine->result) return ms_fail(engine->result, "%s", engine->reason);
        if (engine->role != MS_ROLE_ASKING && engine->role != MS_ROLE_OPENING)
            return ms_fail(MS_E_NOT_LEADER, "the node was given another role meanwhile: %s", engine->reason);
        if (node->closing) return ms_fail(MS_E_CLOSED, "the node is being closed");
        if (ms_node_watch(node, deadline)) continue;
        if (engine->role == MS_ROLE_LEADER) return 0;
        if (engine->room_error) return ms_fail(MS_E_NO_SPACE, "no space for the record of the new epoch");
        return ms_fail(MS_E_TIMEOUT, "not leader yet: %s", engine->reason);
    }
}

static int lead(struct ms_node *node, const char *const *peers, size_t count, int flags, int timeout_ms)
{
    int rc = ms_node_may_wait(node, "ms_lead");
    for (size_t i = 0; !rc && i < count; i++) rc = ms_address_check(peers[i], node->has_secret);
    if (rc) return rc;
    ms_node_lock(node);
    rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : ms_engine_lead(&node->engine, peers, count, flags);
    node->pump = true;
    if (!rc) rc = wait_to_lead(node, timeout_ms);
    ms_node_unlock(node);
    return rc;
}

int ms_lead(struct ms_node *node, const char *const *peers, size_t count, int timeout_ms)
{
    return lead(node, peers, count, 0, timeout_ms);
}

int ms_lead_comparing(struct ms_node *node, const char *const *peers, size_t count, int timeout_ms)
{
    return lead(node, peers, count, MS_PROMOTE_COMPARE, timeout_ms);
}

/* What is buffered is flushed in slices first, so that little is left to do in one hold of the lock; and it is on disk before anybody else
 * has it: a host that remembers that it has compared may not find half of that in the log when it starts again. */
int ms_compared(struct ms_node *node)
{
    uint64_t lsn = 0;
    int rc = ms_node_may_wait(node, "ms_compared");
    while (!rc) {
        rc = ms_flush(node, NULL, &lsn);
        if (!rc) rc = ms_wait(node, lsn, MS_LEVEL_DISK, -1);
        if (rc) break;
        ms_node_lock(node);
        rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : ms_engine_compared(&node->engine);
        node->pump = true;
        ms_node_unlock(node);
        if (rc == 0) break;
        if (rc == MS_E_AGAIN) rc = 0;
    }
    return rc;
}

int ms_promote_to(struct ms_node *node, uint64_t least_reign, int flags, int timeout_ms)
{
    int rc = ms_node_may_wait(node, "ms_promote");
    if (rc) return rc;
    ms_node_lock(node);
    rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : ms_engine_promote(&node->engine, least_reign, flags);
    node->pump = true;
    if (!rc) rc = wait_to_lead(node, timeout_ms);
    ms_node_unlock(node);
    return rc;
}

int ms_promote(struct ms_node *node, int flags, int timeout_ms)
{
    return ms_promote_to(node, 0, flags, timeout_ms);
}

int ms_follow(struct ms_node *node, const char *address)
{
    int rc = ms_address_check(address, node->has_secret);
    if (rc) return rc;
    ms_node_lock(node);
    rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : ms_engine_follow(&node->engine, address);
    ms_node_unlock(node);
    return rc;
}

int ms_adopt(struct ms_node *node)
{
    ms_node_lock(node);
    int rc = node->closing ? ms_fail(MS_E_CLOSED, "the node is being closed") : ms_engine_adopt(&node->engine);
    ms_node_unlock(node);
    return rc;
}

/* With the lock: until a snapshot holds what is in the tables now. One that is under way will do if its end comes late enough. */
static int wait_for_snapshot(struct ms_node *node, int timeout_ms)
{
    struct ms_engine *engine = &node->engine;
    uint64_t deadline = ms_clock_deadline(timeout_ms), wanted = node->store.applied, failed = engine->counters.snapshots_failed;
    for (;;) {
        if (engine->snapshot_end >= wanted) return 0;
        if (node->closing) return ms_fail(MS_E_CLOSED, "the node is being closed");
        if (engine->counters.snapshots_failed != failed) return ms_fail(MS_E_IO, "the snapshot was not made, see the log of the node");
        int rc = ms_engine_snapshot_now(engine);
        if (rc) return rc;
        if (!ms_node_watch(node, deadline)) return ms_fail(MS_E_TIMEOUT, "the snapshot is not on disk yet");
    }
}

int ms_snapshot(struct ms_node *node, int timeout_ms)
{
    int rc = ms_node_may_wait(node, "ms_snapshot");
    if (rc) return rc;
    ms_node_lock(node);
    rc = wait_for_snapshot(node, timeout_ms);
    ms_node_unlock(node);
    return rc;
}
