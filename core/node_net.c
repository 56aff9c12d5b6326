/* Links between the engine and the loop: what the engine says to a link is queued, since it may speak on any thread, and done by
 * the loop; what links report goes into the engine at once.
 *
 * The loop wakes up late, by the measure of a change that is otherwise on its way. So a worker that has written the log also sends what
 * came of it, as a visitor of tcp.h, if it is little and nothing but sending. Order: whoever takes from the queue holds tcp's mutex from
 * then until it is done (a worker), or keeps workers out meanwhile (the loop, net_taken). */
#include "node.h"

#include <stdio.h>

enum net_kind { NET_CONNECT, NET_SEND, NET_CLOSE, NET_PAUSE };

struct net_op {
    uint64_t link;
    struct ms_block *block; /* owned */
    size_t size;            /* of the payload that follows */
    uint8_t kind, type, flags;
};

/* ---- queueing: with the lock -------------------------------------------------------------------------------------------------- */

static bool push(struct ms_node *node, struct net_op op, const void *payload)
{
    struct ms_buf *ops = &node->net.ops;
    size_t before = ops->size;
    ms_buf_add(ops, &op, sizeof op);
    ms_buf_add(ops, payload, op.size);
    if (!ops->failed) {
        node->net.bytes += op.size + (op.block ? op.block->size : 0);
        if (op.kind == NET_SEND) node->net.sends++;
        else node->net.others++;
        return true;
    }
    ops->failed = false;
    ops->size = before;
    node->net_lost = true;
    return false;
}

uint64_t ms_net_connect(struct ms_node *node, const char *address)
{
    uint64_t link = ms_tcp_reserve(node->tcp);
    (void)push(node, (struct net_op){.kind = NET_CONNECT, .link = link, .size = strlen(address) + 1}, address);
    return link;
}

void ms_net_send(struct ms_node *node, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload, struct ms_block *block)
{
    struct net_op op = {.kind = NET_SEND, .link = link, .type = type, .flags = flags, .size = payload.size, .block = block};
    if (push(node, op, payload.data) && block) (void)ms_block_ref(block);
}

void ms_net_close(struct ms_node *node, uint64_t link)
{
    if (push(node, (struct net_op){.kind = NET_CLOSE, .link = link}, "")) node->net.closes++;
    ms_disk_forget(&node->disk, link);
}

void ms_net_pause(struct ms_node *node, uint64_t link, bool paused)
{
    (void)push(node, (struct net_op){.kind = NET_PAUSE, .link = link, .flags = paused}, "");
}

/* The next entry of a queue and its payload; false at the end. */
static bool next_op(const struct ms_net_queue *queue, size_t *at, struct net_op *op, struct ms_bytes *payload)
{
    if (*at >= queue->ops.size) return false;
    memcpy(op, queue->ops.data + *at, sizeof *op);
    *payload = ms_bytes(queue->ops.data + *at + sizeof *op, op->size);
    *at += sizeof *op + op->size;
    return true;
}

/* The engine has closed it, though the loop has not got there yet: it must hear no more of it. */
static bool is_closing(const struct ms_node *node, uint64_t link)
{
    struct net_op op;
    struct ms_bytes payload;
    if (node->net.closes == 0) return false;
    for (size_t at = 0; next_op(&node->net, &at, &op, &payload);)
        if (op.kind == NET_CLOSE && op.link == link) return true;
    return false;
}

/* ---- doing: loop thread ----------------------------------------------------------------------------------------------------------- */

static void swap(struct ms_net_queue *a, struct ms_net_queue *b)
{
    struct ms_net_queue was = *a;
    *a = *b;
    *b = was;
}

bool ms_net_take(struct ms_node *node)
{
    bool any = node->net.ops.size > 0 || node->net_lost || node->net_left;
    if (node->net_lost) node->net_cut = true;
    node->net_lost = node->net_left = false;
    node->net_taken = any;
    swap(&node->net, &node->net_run);
    return any;
}

static void do_op(struct ms_node *node, const struct net_op *op, struct ms_bytes payload)
{
    switch (op->kind) {
    case NET_CONNECT: ms_tcp_connect(node->tcp, op->link, payload.data); break;
    case NET_SEND: ms_tcp_send(node->tcp, op->link, op->type, op->flags, payload, op->block); break;
    case NET_CLOSE: ms_tcp_close(node->tcp, op->link); break;
    default: ms_tcp_pause(node->tcp, op->link, op->flags != 0); break;
    }
    ms_block_unref(op->block);
}

/* Inside tcp. */
static void do_ops(struct ms_node *node, struct ms_net_queue *queue)
{
    struct net_op op;
    struct ms_bytes payload;
    for (size_t at = 0; next_op(queue, &at, &op, &payload);) do_op(node, &op, payload);
    ms_buf_clear(&queue->ops);
    queue->bytes = 0;
    queue->sends = queue->others = queue->closes = 0;
}

struct cut {
    uint64_t links[64];
    size_t count;
};

static void collect_link(void *context, uint64_t link, bool outgoing, const char *address, size_t unsent)
{
    (void)outgoing;
    (void)address;
    (void)unsent;
    struct cut *cut = context;
    if (cut->count < sizeof cut->links / sizeof *cut->links) cut->links[cut->count++] = link;
}

/* Something that was to be sent is lost: nothing that follows would make sense to the other ends. */
static void cut_links(struct ms_node *node)
{
    struct cut cut = {.count = 0};
    node->net_cut = false;
    ms_tcp_each(node->tcp, collect_link, &cut);
    ms_node_lock(node);
    if (cut.count == sizeof cut.links / sizeof *cut.links) node->net_lost = true; /* there may be more: once more */
    uint64_t dialing = node->engine.follow.link; /* perhaps its connect was lost */
    if (dialing && cut.count < sizeof cut.links / sizeof *cut.links) cut.links[cut.count++] = dialing;
    for (size_t i = 0; i < cut.count; i++) ms_engine_link_down(&node->engine, cut.links[i], MS_E_MEMORY, "out of memory for what is to be sent");
    ms_node_unlock(node);
    for (size_t i = 0; i < cut.count; i++) ms_tcp_close(node->tcp, cut.links[i]);
}

void ms_net_perform(struct ms_node *node)
{
    ms_tcp_enter(node->tcp);
    do_ops(node, &node->net_run);
    if (node->net_cut) cut_links(node);
    ms_tcp_leave(node->tcp);
}

/* ---- sending without the loop: a worker's thread ------------------------------------------------------------------------------------- */

/* More is worth a wake-up, and would hold up the caller. */
enum { VISITS = 3, VISIT_SENDS = 8, VISIT_BYTES = 16 << 10 };

static void visit_sent(void *context, uint64_t link, size_t unsent)
{
    struct ms_node *node = context;
    ms_node_lock(node);
    if (!is_closing(node, link)) ms_engine_drained(&node->engine, link, unsent);
    ms_node_unlock(node);
}

static bool may_visit(const struct ms_node *node)
{
    const struct ms_net_queue *net = &node->net;
    if (net->sends == 0 || net->sends > VISIT_SENDS || net->bytes > VISIT_BYTES || net->others > 0) return false;
    return !node->net_taken && !node->net_visited && !node->net_lost && ms_tcp_visit(node->tcp);
}

void ms_net_visit(struct ms_node *node)
{
    for (int i = 0; i < VISITS && may_visit(node); i++) {
        node->net_visited = true;
        swap(&node->net, &node->net_visit);
        ms_node_unlock(node);
        do_ops(node, &node->net_visit);
        bool left = ms_tcp_end_visit(node->tcp, visit_sent, node);
        ms_node_lock(node);
        node->net_visited = false;
        if (left) node->net_left = true;
    }
}

void ms_net_drop(struct ms_net_queue *queue)
{
    struct net_op op;
    struct ms_bytes payload;
    for (size_t at = 0; next_op(queue, &at, &op, &payload);) ms_block_unref(op.block);
    ms_buf_close(&queue->ops);
    queue->bytes = 0;
    queue->sends = queue->others = queue->closes = 0;
}

/* ---- what links report: loop thread -------------------------------------------------------------------------------------------------- */

/* A turn follows what the sockets had, so nobody need wake the loop for what comes of it. */
static struct ms_node *enter(void *context)
{
    struct ms_node *node = context;
    ms_node_enter(&node->door);
    node->asleep = false;
    return node;
}

static void link_up(void *context, uint64_t link, bool outgoing, const char *address)
{
    struct ms_node *node = enter(context);
    if (!is_closing(node, link)) ms_engine_link_up(&node->engine, link, outgoing, address);
    ms_node_leave(&node->door);
}

static void link_down(void *context, uint64_t link, int err, const char *why)
{
    struct ms_node *node = enter(context);
    if (!is_closing(node, link)) ms_engine_link_down(&node->engine, link, err, why);
    ms_disk_forget(&node->disk, link);
    ms_node_leave(&node->door);
}

static void link_frame(void *context, uint64_t link, uint8_t type, uint8_t flags, struct ms_bytes payload)
{
    struct ms_node *node = enter(context);
    if (!is_closing(node, link)) ms_engine_frame(&node->engine, link, type, flags, payload);
    ms_node_leave(&node->door);
}

static void link_drained(void *context, uint64_t link, size_t unsent)
{
    struct ms_node *node = enter(context);
    if (!is_closing(node, link)) ms_engine_drained(&node->engine, link, unsent);
    ms_node_leave(&node->door);
}

static void link_refused(void *context, int err, const char *address, const char *why)
{
    struct ms_node *node = context;
    char line[300];
    (void)snprintf(line, sizeof line, "a connection from %s was refused (%s): %s", address, ms_error_text(err), why);
    ms_node_lock(node);
    node->engine.counters.links_refused++;
    ms_node_tell(node, "log", MS_LOG_WARN, line);
    ms_node_unlock(node);
}

const struct ms_tcp_events ms_node_tcp_events = {
    .up = link_up,
    .down = link_down,
    .frame = link_frame,
    .drained = link_drained,
    .refused = link_refused,
};
