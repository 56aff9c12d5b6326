/* The simulated network: links are pairs of byte streams, as TCP gives them.
 *
 *      io->send ─> out ──send event──> in flight ──arrive event──> in ──whole frames──> ms_engine_frame of the other end
 *                   │                                              │
 *             ms_engine_drained                            waits while the reader is paused
 *
 * Bytes are the real ones: frames are encoded with ms_frame_header, cut anywhere, put together again with ms_frame_open and
 * ms_frame_check. What is between `out` and the reader is bounded by wire.buffer, so a slow reader makes the sender wait.
 * A link ends by a close (what was sent arrives first), by a reset (at once), or silently: both ends stay up and
 * nothing arrives.
 *
 * Inside a frame's handling the engine may close any link, so links are freed only at the beginning of an event. */
#include <stdio.h>

#include "sim_world.h"

enum { SILENT_CONNECT_US = 3000000 };

static struct ms_sim_link *find(const struct ms_sim *sim, uint64_t id, uint32_t *end)
{
    for (struct ms_sim_link *link = sim->links; link; link = link->next) {
        for (uint32_t i = 0; i < 2; i++) {
            if (link->ends[i].id != id) continue;
            *end = i;
            return link;
        }
    }
    return NULL;
}

static struct ms_sim_wire *wire_of(struct ms_sim *sim, const struct ms_sim_link *link)
{
    return ms_sim_wire(sim, link->ends[0].node, link->ends[1].node);
}

static void free_link(struct ms_sim_link *link)
{
    for (uint32_t i = 0; i < 2; i++) {
        ms_buf_close(&link->ends[i].pipe.out);
        ms_buf_close(&link->ends[i].pipe.in);
    }
    ms_release(link);
}

/* Frees links that both ends have done with. */
static void sweep(struct ms_sim *sim)
{
    for (struct ms_sim_link **at = &sim->links; *at;) {
        struct ms_sim_link *link = *at;
        bool draining = false;
        for (uint32_t i = 0; i < 2; i++) draining |= !link->ends[i].closed;
        if (draining) {
            at = &link->next;
        } else {
            *at = link->next;
            free_link(link);
        }
    }
}

void ms_sim_net_close(struct ms_sim *sim)
{
    while (sim->links) {
        struct ms_sim_link *link = sim->links;
        sim->links = link->next;
        free_link(link);
    }
}

void ms_sim_net_init(struct ms_sim *sim)
{
    for (uint32_t a = 0; a < MS_SIM_NODES_MAX; a++)
        for (uint32_t b = 0; b < MS_SIM_NODES_MAX; b++)
            sim->wires[a][b] = (struct ms_sim_wire){.delay_us = 200, .jitter_us = 100, .chunk = 65536, .buffer = 262144};
}

/* An event for the end `id`, on whichever node it is. Links outlive nodes, so it is not bound to a life. */
static void post(struct ms_sim *sim, uint64_t delay, const char *name, ms_sim_event_fn fn, uint64_t id, uint64_t value,
                 void *data)
{
    ms_sim_at(
        sim, delay,
        (struct ms_sim_event){.name = name, .fn = fn, .id = id, .value = value, .data = data, .node = MS_SIM_NODES_MAX});
}

/* ---- ending ---------------------------------------------------------------------------------------------------- */

static struct ms_sim_node *living(struct ms_sim *sim, const struct ms_sim_end *end)
{
    struct ms_sim_node *node = sim->nodes[end->node];
    return node->life == end->life && node->has_engine ? node : NULL;
}

/* The engine of this end hears that the link is gone. In events only. */
static void end_down(struct ms_sim *sim, struct ms_sim_link *link, uint32_t i, int code, const char *why)
{
    struct ms_sim_end *end = &link->ends[i];
    if (end->closed) return;
    end->closed = true;
    struct ms_sim_node *node = living(sim, end);
    ms_sim_note(sim, end->node, "link %llu down: %s", (unsigned long long)end->id, why);
    if (!node) return;
    ms_engine_link_down(&node->engine, end->id, code, why);
    ms_sim_node_after(node);
}

static void on_reset(struct ms_sim *sim, struct ms_sim_event *event)
{
    sweep(sim);
    uint32_t i;
    struct ms_sim_link *link = find(sim, event->id, &i);
    if (link && !link->silent) end_down(sim, link, i, MS_E_IO, "connection reset");
}

static void reset_end(struct ms_sim *sim, struct ms_sim_link *link, uint32_t i, uint64_t delay)
{
    if (!link->ends[i].closed) post(sim, delay, "reset", on_reset, link->ends[i].id, 0, NULL);
}

void ms_sim_net_cut(struct ms_sim *sim, uint32_t a, uint32_t b, bool silent)
{
    for (struct ms_sim_link *link = sim->links; link; link = link->next) {
        uint32_t x = link->ends[0].node, y = link->ends[1].node;
        if (!((x == a && y == b) || (x == b && y == a)) || link->silent) continue;
        if (silent) {
            link->silent = true;
            sim->counts.half_open++;
            continue;
        }
        sim->counts.links_reset++;
        reset_end(sim, link, 0, 0);
        reset_end(sim, link, 1, ms_sim_below(&sim->dice, 1000));
    }
}

void ms_sim_net_node_down(struct ms_sim_node *node, bool silent)
{
    struct ms_sim *sim = node->sim;
    for (struct ms_sim_link *link = sim->links; link; link = link->next) {
        for (uint32_t i = 0; i < 2; i++) {
            struct ms_sim_end *end = &link->ends[i];
            if (end->node != node->index || end->life != node->life) continue;
            end->closed = true;
            if (silent && !link->ends[1 - i].closed && !link->silent) {
                link->silent = true;
                sim->counts.half_open++;
            }
            reset_end(sim, link, 1 - i, wire_of(sim, link)->delay_us);
        }
    }
}

/* ---- receiving ------------------------------------------------------------------------------------------------- */

static void kick(struct ms_sim *sim, struct ms_sim_link *link, uint32_t i, uint64_t delay);

/* What a node takes for bulk frames: a group may be larger than the window. */
static size_t bulk_max(const struct ms_sim *sim)
{
    return (size_t)ms_policy_largest_group(&sim->policy) + sim->policy.window_bytes + 4096;
}

/* The next whole frame of what has arrived: 1, 0 = not yet, or why the stream is bad. */
static int next_frame(struct ms_sim *sim, const struct ms_sim_pipe *pipe, struct ms_frame *frame, struct ms_bytes *payload)
{
    const uint8_t *at = pipe->in.data ? pipe->in.data + pipe->in_from : NULL;
    size_t left = pipe->in.size - pipe->in_from;
    if (left < MS_FRAME_HEADER) return 0;
    int rc = ms_frame_open(at, bulk_max(sim), frame);
    if (rc) return rc;
    if (left - MS_FRAME_HEADER < frame->size) return 0;
    *payload = ms_bytes(at + MS_FRAME_HEADER, frame->size);
    rc = ms_frame_check(at, frame, *payload);
    return rc ? rc : 1;
}

static void consumed(struct ms_sim_pipe *pipe, size_t size)
{
    pipe->in_from += size;
    if (pipe->in_from == pipe->in.size) {
        ms_buf_clear(&pipe->in);
        pipe->in_from = 0;
    }
}

/* Hands on all whole frames. The engine may close this link in any of them, or end the node's part in it. */
static void deliver(struct ms_sim *sim, struct ms_sim_link *link, uint32_t i)
{
    struct ms_sim_end *end = &link->ends[i];
    struct ms_sim_pipe *pipe = &link->ends[1 - i].pipe;
    size_t before = pipe->in.size - pipe->in_from;
    while (end->up && !end->closed && !end->paused && !sim->failed) {
        struct ms_sim_node *node = living(sim, end);
        if (!node) return;
        struct ms_frame frame;
        struct ms_bytes payload;
        int rc = next_frame(sim, pipe, &frame, &payload);
        if (rc < 0) {
            if (link->flipped)
                sim->counts.flips_refused++;
            else
                ms_sim_broken(sim, end->node, "refused a frame that nobody had touched: %s", ms_error_message());
            end_down(sim, link, i, rc, ms_error_message());
            reset_end(sim, link, 1 - i, wire_of(sim, link)->delay_us);
            return;
        }
        if (rc == 0) break;
        ms_sim_note(sim, end->node, "< %s %u bytes (link %llu)", ms_frame_name(frame.type), frame.size,
                    (unsigned long long)end->id);
        ms_engine_frame(&node->engine, end->id, frame.type, frame.flags, payload);
        consumed(pipe, MS_FRAME_HEADER + frame.size);
        ms_sim_node_after(node);
    }
    if (pipe->in.size - pipe->in_from < before) kick(sim, link, 1 - i, 1);
    if (end->up && !end->paused && pipe->ended) end_down(sim, link, i, MS_E_CLOSED, "closed by peer");
}

static void on_resume(struct ms_sim *sim, struct ms_sim_event *event)
{
    uint32_t i;
    struct ms_sim_link *link = find(sim, event->id, &i);
    if (link) deliver(sim, link, i);
}

void ms_sim_net_pause(struct ms_sim_node *node, uint64_t id, bool paused)
{
    struct ms_sim *sim = node->sim;
    uint32_t i;
    struct ms_sim_link *link = find(sim, id, &i);
    if (!link || link->ends[i].closed) return;
    if (paused && !link->ends[i].paused) sim->counts.pauses++;
    link->ends[i].paused = paused;
    if (!paused) post(sim, 0, "resume", on_resume, id, 0, NULL);
}

/* data: the bytes, value: their number; 0 = the sender has closed. */
static void on_arrive(struct ms_sim *sim, struct ms_sim_event *event)
{
    sweep(sim);
    uint32_t i;
    struct ms_sim_link *link = find(sim, event->id, &i);
    if (!link) return;
    struct ms_sim_pipe *pipe = &link->ends[1 - i].pipe;
    pipe->in_flight -= event->value;
    if (link->silent || link->ends[i].closed) return;
    int64_t countdown = ms_sim_hush();
    ms_buf_add(&pipe->in, event->data, (size_t)event->value);
    ms_sim_unhush(countdown);
    if (pipe->in.failed) ms_sim_out_of_memory(sim);
    if (event->value == 0) pipe->ended = true;
    deliver(sim, link, i);
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

static size_t unsent(const struct ms_sim_pipe *pipe)
{
    return pipe->out.size - pipe->out_from;
}

/* How much goes on the wire now. */
static size_t portion(struct ms_sim *sim, struct ms_sim_link *link, uint32_t i)
{
    const struct ms_sim_wire *wire = wire_of(sim, link);
    const struct ms_sim_pipe *pipe = &link->ends[i].pipe;
    size_t waiting = (size_t)pipe->in_flight;
    if (link->ends[1 - i].paused) waiting += pipe->in.size - pipe->in_from; /* otherwise it is read, frame or no frame */
    size_t size = waiting < wire->buffer ? wire->buffer - waiting : 0;
    if (size > unsent(pipe)) size = unsent(pipe);
    if (size > wire->chunk) size = wire->chunk;
    if (size > 1 && ms_sim_chance(&sim->dice, wire->fragment)) size = (size_t)ms_sim_between(sim, 1, size < 64 ? size : 64);
    if (wire->cut_bytes && link->carried + size > wire->cut_bytes)
        size = link->carried < wire->cut_bytes ? (size_t)(wire->cut_bytes - link->carried) : 0;
    return size;
}

static void launch(struct ms_sim *sim, struct ms_sim_link *link, uint32_t i, size_t size)
{
    const struct ms_sim_wire *wire = wire_of(sim, link);
    struct ms_sim_pipe *pipe = &link->ends[i].pipe;
    int64_t countdown = ms_sim_hush();
    uint8_t *data = size ? ms_alloc(size) : NULL;
    ms_sim_unhush(countdown);
    if (size && !data) {
        ms_sim_out_of_memory(sim);
        return;
    }
    if (size) memcpy(data, pipe->out.data + pipe->out_from, size);
    if (size && ms_sim_chance(&sim->dice, wire->flip)) {
        data[ms_sim_below(&sim->dice, size)] ^= (uint8_t)(1u << ms_sim_below(&sim->dice, 8));
        link->flipped = true;
        sim->counts.bits_flipped++;
        ms_sim_note(sim, link->ends[i].node, "a bit flips on link %llu", (unsigned long long)link->ends[i].id);
    }
    pipe->out_from += size;
    pipe->in_flight += size;
    link->carried += size;
    uint64_t arrival = sim->now + wire->delay_us + ms_sim_below(&sim->dice, wire->jitter_us + 1);
    if (arrival < pipe->last_arrival + wire->rest_us) arrival = pipe->last_arrival + wire->rest_us;
    pipe->last_arrival = arrival;
    post(sim, arrival - sim->now, size ? "arrive" : "fin", on_arrive, link->ends[1 - i].id, size, data);
}

static void on_send(struct ms_sim *sim, struct ms_sim_event *event)
{
    sweep(sim);
    uint32_t i;
    struct ms_sim_link *link = find(sim, event->id, &i);
    if (!link) return;
    struct ms_sim_end *end = &link->ends[i];
    struct ms_sim_pipe *pipe = &end->pipe;
    pipe->sending = false;
    if (link->ends[1 - i].closed && end->closed) return;
    size_t size = portion(sim, link, i);
    if (size) launch(sim, link, i, size);
    const struct ms_sim_wire *wire = wire_of(sim, link);
    if (wire->cut_bytes && link->carried >= wire->cut_bytes) {
        sim->counts.links_cut_bytes++;
        uint64_t delay = pipe->last_arrival > sim->now ? pipe->last_arrival - sim->now : 0;
        reset_end(sim, link, 0, delay);
        reset_end(sim, link, 1, delay);
        return;
    }
    if (unsent(pipe) == 0) {
        ms_buf_clear(&pipe->out);
        pipe->out_from = 0;
        if (pipe->fin) {
            pipe->fin = false;
            launch(sim, link, i, 0);
        }
    } else if (size) {
        kick(sim, link, i, 1 + size / 256);
    }
    struct ms_sim_node *node = living(sim, end);
    if (!size || end->closed || !node) return;
    ms_engine_drained(&node->engine, end->id, unsent(pipe));
    ms_sim_node_after(node);
}

static void kick(struct ms_sim *sim, struct ms_sim_link *link, uint32_t i, uint64_t delay)
{
    struct ms_sim_pipe *pipe = &link->ends[i].pipe;
    if (pipe->sending || !link->accepted || (unsent(pipe) == 0 && !pipe->fin)) return;
    pipe->sending = true;
    post(sim, delay, "send", on_send, link->ends[i].id, 0, NULL);
}

void ms_sim_net_send(struct ms_sim_node *node, uint64_t id, uint8_t type, uint8_t flags, struct ms_bytes payload,
                     const struct ms_block *block)
{
    struct ms_sim *sim = node->sim;
    uint32_t i;
    struct ms_sim_link *link = find(sim, id, &i);
    if (!link || link->ends[i].closed) return;
    struct ms_buf *out = &link->ends[i].pipe.out;
    uint8_t header[MS_FRAME_HEADER];
    ms_frame_header(header, type, flags, payload, block ? block->size : 0);
    int64_t countdown = ms_sim_hush();
    ms_buf_add(out, header, sizeof header);
    ms_buf_add(out, payload.data, payload.size);
    if (block) ms_buf_add(out, block->data, block->size);
    ms_sim_unhush(countdown);
    if (out->failed) ms_sim_out_of_memory(sim);
    /* Promise 9: what waits for a slow follower is bounded by the window, give or take one frame. */
    size_t bound = sim->policy.window_bytes + 2 * bulk_max(sim);
    if (unsent(&link->ends[i].pipe) > bound)
        ms_sim_broken(sim, node->index, "%zu bytes wait for link %llu, more than %zu", unsent(&link->ends[i].pipe),
                      (unsigned long long)id, bound);
    if (unsent(&link->ends[i].pipe) > sim->policy.window_bytes) sim->counts.backlogs++;
    ms_sim_note(sim, node->index, "> %s (link %llu)", ms_frame_name(type), (unsigned long long)id);
    kick(sim, link, i, 5);
}

void ms_sim_net_close_link(struct ms_sim_node *node, uint64_t id)
{
    uint32_t i;
    struct ms_sim_link *link = find(node->sim, id, &i);
    if (!link || link->ends[i].closed) return;
    link->ends[i].closed = true;
    link->ends[i].pipe.fin = true;
    ms_sim_note(node->sim, node->index, "closes link %llu", (unsigned long long)id);
    kick(node->sim, link, i, 5);
}

/* ---- connecting ------------------------------------------------------------------------------------------------ */

static void come_up(struct ms_sim *sim, struct ms_sim_link *link, uint32_t i)
{
    struct ms_sim_end *end = &link->ends[i];
    struct ms_sim_node *node = living(sim, end);
    if (end->closed || !node) return;
    end->up = true;
    char address[16];
    (void)snprintf(address, sizeof address, "n%u", link->ends[1 - i].node);
    ms_sim_note(sim, end->node, "link %llu up, with %s", (unsigned long long)end->id, address);
    ms_engine_link_up(&node->engine, end->id, i == 0, address);
    ms_sim_node_after(node);
    deliver(sim, link, i);
}

static void on_connected(struct ms_sim *sim, struct ms_sim_event *event)
{
    sweep(sim);
    uint32_t i;
    struct ms_sim_link *link = find(sim, event->id, &i);
    if (link) come_up(sim, link, i);
}

static void on_refused(struct ms_sim *sim, struct ms_sim_event *event)
{
    sweep(sim);
    uint32_t i;
    struct ms_sim_link *link = find(sim, event->id, &i);
    if (!link) return;
    link->ends[1 - i].closed = true;
    sim->counts.links_refused++;
    end_down(sim, link, i, MS_E_IO, "connection refused");
}

static void on_connect(struct ms_sim *sim, struct ms_sim_event *event)
{
    sweep(sim);
    uint32_t i;
    struct ms_sim_link *link = find(sim, event->id, &i);
    if (!link) return;
    struct ms_sim_node *target = sim->nodes[link->ends[1].node];
    const struct ms_sim_wire *wire = wire_of(sim, link);
    if (link->ends[0].closed) {
        link->ends[1].closed = true; /* given up before it was made */
        return;
    }
    bool silent = wire->cut == MS_SIM_WIRE_SILENT || (!target->up && target->powerless);
    if (silent || wire->cut == MS_SIM_WIRE_REFUSED || !target->has_engine) {
        post(sim, silent ? SILENT_CONNECT_US : wire->delay_us, "refused", on_refused, event->id, 0, NULL);
        return;
    }
    sim->counts.links++;
    link->accepted = true;
    link->ends[1].life = target->life;
    post(sim, wire->delay_us, "connected", on_connected, link->ends[0].id, 0, NULL);
    come_up(sim, link, 1);
}

uint64_t ms_sim_net_connect(struct ms_sim_node *node, const char *address)
{
    struct ms_sim *sim = node->sim;
    uint64_t id = sim->next_link += 2;
    uint32_t target = address[0] == 'n' && address[1] >= '0' ? (uint32_t)(address[1] - '0') : MS_SIM_NODES_MAX;
    if (target >= sim->options.nodes || target == node->index) {
        ms_sim_broken(sim, node->index, "connects to '%s', an address that nobody gave it", address);
        return id;
    }
    int64_t countdown = ms_sim_hush();
    struct ms_sim_link *link = ms_alloc_zero(sizeof *link);
    ms_sim_unhush(countdown);
    if (!link) {
        ms_sim_out_of_memory(sim);
        return id;
    }
    link->ends[0] = (struct ms_sim_end){.node = node->index, .life = node->life, .id = id};
    link->ends[1] = (struct ms_sim_end){.node = target, .id = id + 1};
    link->next = sim->links;
    sim->links = link;
    post(sim, wire_of(sim, link)->delay_us, "connect", on_connect, id, 0, NULL);
    return id;
}
