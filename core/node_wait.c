/* The node's lock, and how calls wait without it. */
#include "node.h"

#include <stdio.h>

/* ---- the lock ------------------------------------------------------------------------------------------------------------ */

/* The mutex's own patience is a few hundred nanoseconds, and who has slept once sleeps again: whoever woke it has the lock back before it
 * runs, and pays a system call for each further try. Holds are short, so that trying for some microseconds is cheaper for both. */
enum { LOCK_TRIES = 500 };

static void take(struct ms_node *node)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (pthread_mutex_trylock(&node->mutex) == 0) return;
        ms_pause();
    }
    (void)pthread_mutex_lock(&node->mutex);
}

void ms_node_lock(struct ms_node *node)
{
    take(node);
    ms_hold_begin(&node->hold);
}

bool ms_node_sleep(struct ms_node *node, pthread_cond_t *cond, uint64_t deadline)
{
    ms_hold_end(&node->hold);
    bool in_time = ms_cond_wait(cond, &node->mutex, deadline);
    ms_hold_begin(&node->hold);
    return in_time;
}

bool ms_node_urgent(const struct ms_node *node)
{
    if (node->net_lost || node->net_left || node->wake_at < node->armed_at) return true;
    if (node->at_work) return false; /* a worker looks again when it lets go */
    return (node->net.ops.size > 0 && !node->net_visited) || node->work_wanted || ms_disk_pending(&node->disk);
}

bool ms_node_has_work(const struct ms_node *node)
{
    return (node->pump && !node->at_work) || ms_node_urgent(node);
}

/* Takes the waiters whose wait is over out of the lists. In a list lsns rise, so that the first one that is not there yet ends it. */
static void collect(struct ms_node *node, struct ms_list *done)
{
    node->moved = false;
    for (int level = MS_LEVEL_OS; level < MS_NODE_LEVELS; level++) {
        struct ms_list *list = &node->waiters[level];
        while (!ms_list_empty(list)) {
            struct ms_waiter *waiter = ms_list_entry(list->next, struct ms_waiter, node);
            int rc = ms_engine_reached(&node->engine, waiter->lsn, level, waiter->epoch_id);
            if (rc == 0) break;
            waiter->result = rc < 0 ? rc : 0;
            if (rc < 0) (void)snprintf(waiter->why, sizeof waiter->why, "%s", ms_fail_message(rc));
            ms_list_remove(&waiter->node);
            ms_list_add_tail(done, &waiter->node);
            node->inside--;
        }
    }
    if (node->watchers) (void)pthread_cond_broadcast(&node->changed);
}

/* A waiter is gone as soon as it is woken: the next one is looked up before. */
static void wake_all(struct ms_list *done)
{
    for (struct ms_list *at = done->next, *next; at != done; at = next) {
        next = at->next;
        ms_parker_wake(&ms_list_entry(at, struct ms_waiter, node)->parker);
    }
}

bool ms_node_someone_waits(const struct ms_node *node)
{
    for (int level = MS_LEVEL_OS; level < MS_NODE_LEVELS; level++)
        if (!ms_list_empty(&node->waiters[level]) &&
            ms_list_entry(node->waiters[level].prev, struct ms_waiter, node)->lsn > node->engine.submitted)
            return true;
    return node->watchers > 0;
}

/* A loop that gathers is left alone as long as all there is are some more records that nobody waits for. */
static bool may_gather_on(const struct ms_node *node)
{
    return node->gathering && !ms_node_urgent(node) && node->engine.tail.unwritten < MS_NODE_GATHER_BYTES && !ms_node_someone_waits(node);
}

static bool must_tell(struct ms_node *node)
{
    if (!node->asleep || node->told || !ms_node_has_work(node) || may_gather_on(node)) return false;
    node->told = true;
    return true;
}

void ms_node_unlock(struct ms_node *node)
{
    struct ms_list done;
    ms_list_init(&done);
    if (node->moved) collect(node, &done);
    bool tell = must_tell(node), closing = node->closing;
    ms_hold_end(&node->hold);
    if (tell && closing) ms_loop_wake(&node->loop); /* not later: without the lock, ms_close may end the node */
    (void)pthread_mutex_unlock(&node->mutex);
    if (tell && !closing) ms_loop_wake(&node->loop);
    wake_all(&done);
}

enum { WORK_ROUNDS = 3 }; /* that a caller does for others too; then it is the loop's turn */

/* One round of the disk's worker. With the lock before and after. */
static void work(struct ms_node *node)
{
    struct ms_list done;
    ms_list_init(&done);
    node->at_work = true;
    ms_disk_take(&node->disk);
    if (node->moved) collect(node, &done);
    bool tell = must_tell(node);
    ms_hold_end(&node->hold);
    (void)pthread_mutex_unlock(&node->mutex);
    if (tell) ms_loop_wake(&node->loop);
    ms_disk_perform(&node->disk, false);
    wake_all(&done);
    ms_node_lock(node);
    node->at_work = false;
    ms_net_visit(node);
}

void ms_node_unlock_working(struct ms_node *node)
{
    node->workers++;
    for (int i = 0; i < WORK_ROUNDS && !node->at_work && ms_disk_fresh(&node->disk); i++) {
        if (node->pump) ms_engine_pump(&node->engine);
        node->pump = false;
        if (!ms_disk_pending(&node->disk)) break;
        work(node);
    }
    ms_net_visit(node);
    node->workers--;
    if (node->closing) (void)pthread_cond_broadcast(&node->changed); /* ms_close waits for that */
    ms_node_unlock(node);
}

void ms_node_settle(struct ms_node *node)
{
    struct ms_list done;
    ms_list_init(&done);
    if (node->moved) collect(node, &done);
    wake_all(&done);
    if (must_tell(node)) ms_loop_wake(&node->loop);
}

void ms_node_enter(struct ms_door *door)
{
    ms_node_lock(ms_list_entry(door, struct ms_node, door));
}

void ms_node_leave(struct ms_door *door)
{
    struct ms_node *node = ms_list_entry(door, struct ms_node, door);
    bool staging = node->engine.follow.state == MS_FOLLOW_SNAPSHOT;
    ms_node_unlock(node);
    ms_pool_stock_up(staging ? 1 : 2); /* the bulk thread has more time for it while the loop is busy with a snapshot's pieces */
}

void ms_node_leave_working(struct ms_door *door)
{
    struct ms_node *node = ms_list_entry(door, struct ms_node, door);
    ms_node_unlock_working(node);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------------------- */

bool ms_node_watch(struct ms_node *node, uint64_t deadline)
{
    ms_node_settle(node);
    node->watchers++;
    node->inside++;
    bool in_time = ms_node_sleep(node, &node->changed, deadline);
    node->inside--;
    node->watchers--;
    if (node->closing && node->inside == 0) (void)pthread_cond_broadcast(&node->changed); /* ms_close waits for that */
    return in_time;
}

static void add_waiter(struct ms_node *node, struct ms_waiter *waiter, int level)
{
    struct ms_list *before = node->waiters[level].prev;
    while (before != &node->waiters[level] && ms_list_entry(before, struct ms_waiter, node)->lsn > waiter->lsn) before = before->prev;
    ms_list_add_tail(before->next, &waiter->node); /* in front of the next one, that is after `before` */
    node->inside++;
}

/* The deadline has come: still in its list, or just being woken? */
static int give_up(struct ms_node *node, struct ms_waiter *waiter)
{
    ms_node_lock(node);
    bool waits = waiter->result == MS_WAITING;
    if (waits) {
        ms_list_remove(&waiter->node);
        node->inside--;
    }
    ms_node_unlock(node);
    if (waits) return ms_fail(MS_E_TIMEOUT, "lsn %llu has not got so far in time", (unsigned long long)waiter->lsn);
    (void)ms_parker_wait(&waiter->parker, MS_FOREVER);
    return waiter->result;
}

int ms_node_wait_unlock(struct ms_node *node, uint64_t lsn, int level, uint64_t deadline)
{
    uint64_t epoch_id = ms_lineage_last(&node->store.lineage).id;
    int rc = ms_engine_reached(&node->engine, lsn, level, epoch_id);
    if (!rc && node->closing) rc = ms_fail(MS_E_CLOSED, "the node is being closed");
    if (rc) {
        ms_node_unlock(node);
        return rc < 0 ? rc : 0;
    }
    struct ms_waiter waiter; /* not zeroed: `why` is large and seldom needed */
    waiter.lsn = lsn;
    waiter.epoch_id = epoch_id;
    waiter.result = MS_WAITING;
    ms_parker_init(&waiter.parker);
    add_waiter(node, &waiter, level);
    ms_node_unlock_working(node); /* often that is all it takes */
    if (!ms_parker_wait(&waiter.parker, deadline)) return give_up(node, &waiter);
    return waiter.result < 0 ? ms_fail(waiter.result, "%s", waiter.why) : 0;
}

void ms_node_end_waits(struct ms_node *node)
{
    struct ms_list done;
    ms_list_init(&done);
    for (int level = 0; level < MS_NODE_LEVELS; level++) {
        while (!ms_list_empty(&node->waiters[level])) {
            struct ms_waiter *waiter = ms_list_entry(node->waiters[level].next, struct ms_waiter, node);
            waiter->result = MS_E_CLOSED;
            (void)snprintf(waiter->why, sizeof waiter->why, "the node is being closed");
            ms_list_remove(&waiter->node);
            ms_list_add_tail(&done, &waiter->node);
            node->inside--;
        }
    }
    for (int i = 0; i < MS_NODE_OWNERS; i++) {
        for (struct ms_list *at = node->owners[i].next; at != &node->owners[i]; at = at->next) {
            struct ms_txn *txn = ms_list_entry(at, struct ms_txn, by_owner);
            if (txn->held || txn->result) continue;
            txn->result = MS_E_CLOSED;
            ms_list_remove(&txn->by_key);
            ms_parker_wake(&txn->parker);
        }
    }
    (void)pthread_cond_broadcast(&node->changed);
    wake_all(&done);
}
