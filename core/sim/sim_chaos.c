/* What goes wrong, by chance. A run has some classes of faults, drawn from its seed, so that some runs meet one kind
 * again and again and others all of them. Everything that breaks is repaired after a while; nodes that died are started
 * by the operator (sim_operator.c). */
#include <stdio.h>

#include "sim_world.h"

/* ---- what can be undone ---------------------------------------------------------------------------------------- */

enum undo { UNDO_WIRE, UNDO_DISK, UNDO_SPACE };

static struct ms_sim_node *any_node(struct ms_sim *sim)
{
    return sim->nodes[ms_sim_below(&sim->dice, sim->options.nodes)];
}

/* Two different nodes, the leader mostly among them. */
static void any_pair(struct ms_sim *sim, uint32_t *a, uint32_t *b)
{
    *a = sim->leader >= 0 && !ms_sim_one_in(sim, 4) ? (uint32_t)sim->leader : any_node(sim)->index;
    *b = (*a + 1 + (uint32_t)ms_sim_below(&sim->dice, sim->options.nodes - 1)) % sim->options.nodes;
}

static void repair_wire(struct ms_sim *sim, uint32_t a, uint32_t b)
{
    struct ms_sim_wire *wire = ms_sim_wire(sim, a, b);
    if (wire->cut) (void)ms_sim_heal(sim, a, b);
    *wire = (struct ms_sim_wire){.delay_us = 200, .jitter_us = 100, .chunk = 65536, .buffer = 262144};
}

static void repair_disk(struct ms_sim_node *node)
{
    for (int op = 0; op < MS_SIM_FS_OPS; op++) {
        ms_sim_fs_fail_after(node->fs, op, 0, NULL);
        ms_sim_fs_fail_often(node->fs, op, 0);
    }
    ms_sim_fs_short_writes(node->fs, 0);
    node->jobs.slow = 1;
}

static void on_undo(struct ms_sim *sim, struct ms_sim_event *event)
{
    if (event->value == UNDO_WIRE)
        repair_wire(sim, (uint32_t)event->id / MS_SIM_NODES_MAX, (uint32_t)event->id % MS_SIM_NODES_MAX);
    if (event->value == UNDO_DISK) repair_disk(sim->nodes[event->id]);
    if (event->value == UNDO_SPACE) ms_sim_fs_capacity(sim->nodes[event->id]->fs, UINT64_MAX);
}

static void undo_later(struct ms_sim *sim, uint64_t low_ms, uint64_t high_ms, int what, uint64_t id)
{
    ms_sim_at(
        sim, ms_sim_between(sim, low_ms * 1000, high_ms * 1000),
        (struct ms_sim_event){.name = "undo", .fn = on_undo, .node = MS_SIM_NODES_MAX, .id = id, .value = (uint64_t)what});
}

/* ---- network --------------------------------------------------------------------------------------------------- */

static void fault_cut(struct ms_sim *sim)
{
    uint32_t a, b;
    any_pair(sim, &a, &b);
    (void)ms_sim_cut(sim, a, b, ms_sim_one_in(sim, 2) ? MS_SIM_WIRE_REFUSED : MS_SIM_WIRE_SILENT);
    undo_later(sim, 2, 120, UNDO_WIRE, a * MS_SIM_NODES_MAX + b);
}

static void fault_half_open(struct ms_sim *sim)
{
    uint32_t a, b;
    any_pair(sim, &a, &b);
    ms_sim_net_cut(sim, a, b, true);
}

static void fault_reset(struct ms_sim *sim)
{
    uint32_t a, b;
    any_pair(sim, &a, &b);
    ms_sim_net_cut(sim, a, b, false);
}

static void fault_cut_bytes(struct ms_sim *sim)
{
    static const uint64_t sizes[] = {30, 150, 700, 4000, 20000, 65536};
    uint32_t a, b;
    any_pair(sim, &a, &b);
    ms_sim_wire(sim, a, b)->cut_bytes = sizes[ms_sim_below(&sim->dice, sizeof sizes / sizeof *sizes)];
    undo_later(sim, 5, 100, UNDO_WIRE, a * MS_SIM_NODES_MAX + b);
}

static void fault_slow_reader(struct ms_sim *sim)
{
    uint32_t a, b;
    any_pair(sim, &a, &b);
    struct ms_sim_wire *wire = ms_sim_wire(sim, a, b);
    wire->rest_us = ms_sim_between(sim, 200, 5000);
    wire->buffer = (uint32_t)ms_sim_between(sim, 200, 8000);
    wire->chunk = (uint32_t)ms_sim_between(sim, 100, 4000);
    sim->counts.slow_readers++;
    undo_later(sim, 10, 100, UNDO_WIRE, a * MS_SIM_NODES_MAX + b);
}

static void fault_bad_wire(struct ms_sim *sim)
{
    uint32_t a, b;
    any_pair(sim, &a, &b);
    struct ms_sim_wire *wire = ms_sim_wire(sim, a, b);
    if (ms_sim_one_in(sim, 2)) wire->flip = 60000;
    wire->fragment = 500000;
    wire->jitter_us = ms_sim_between(sim, 0, 3000);
    undo_later(sim, 5, 60, UNDO_WIRE, a * MS_SIM_NODES_MAX + b);
}

/* ---- disk ------------------------------------------------------------------------------------------------------ */

static void fault_space(struct ms_sim *sim)
{
    struct ms_sim_node *node = any_node(sim);
    ms_sim_fs_capacity(node->fs, ms_sim_fs_used(node->fs) + ms_sim_below(&sim->dice, 40000));
    undo_later(sim, 10, 250, UNDO_SPACE, node->index);
}

static void fault_eio(struct ms_sim *sim)
{
    static const char *const matches[] = {"log-", "snap", "archive", "current", ""};
    struct ms_sim_node *node = any_node(sim);
    int op = (int)ms_sim_below(&sim->dice, MS_SIM_FS_LOCK);
    if (ms_sim_one_in(sim, 3)) ms_sim_fs_fail_often(node->fs, op, (uint32_t)ms_sim_between(sim, 10000, 500000));
    ms_sim_fs_fail_after(node->fs, op, (uint32_t)ms_sim_between(sim, 1, 4), matches[ms_sim_below(&sim->dice, 5)]);
    undo_later(sim, 10, 100, UNDO_DISK, node->index);
}

static void fault_slow_disk(struct ms_sim *sim)
{
    struct ms_sim_node *node = any_node(sim);
    node->jobs.slow = (uint32_t)ms_sim_between(sim, 5, 60);
    ms_sim_fs_short_writes(node->fs, 200000);
    sim->counts.slow_disks++;
    undo_later(sim, 5, 80, UNDO_DISK, node->index);
}

struct newest {
    char name[64];
};

static int newest_snapshot(void *context, const char *name)
{
    struct newest *newest = context;
    if (strncmp(name, "snap-", 5) == 0 && strcmp(name, newest->name) > 0)
        (void)snprintf(newest->name, sizeof newest->name, "%s", name);
    return 0;
}

/* One byte of the newest snapshot rots while the node is down. */
static void fault_rot(struct ms_sim *sim)
{
    struct ms_sim_node *node = any_node(sim);
    struct newest newest = {""};
    char path[MS_PATH_MAX];
    struct ms_fs *fs = ms_sim_fs(node->fs);
    if (node->up || !node->dir.live[0] || fs->ops->list(fs, node->dir.live, newest_snapshot, &newest) || !newest.name[0])
        return;
    if (ms_path(path, node->dir.live, newest.name)) return;
    if (ms_sim_fs_corrupt(node->fs, path, ms_sim_between(sim, 0, 600), (uint8_t)(1u << ms_sim_below(&sim->dice, 8)))) return;
    node->damaged_disk = MS_SIM_DAMAGE_SNAPSHOT;
    sim->counts.snapshots_bad++;
    ms_sim_note(sim, node->index, "%s rots", newest.name);
}

/* ---- processes ------------------------------------------------------------------------------------------------- */

static void down_for(struct ms_sim_node *node, uint64_t low_ms, uint64_t high_ms)
{
    node->down_until = node->sim->now + ms_sim_between(node->sim, low_ms * 1000, high_ms * 1000);
}

static void fault_end(struct ms_sim *sim)
{
    struct ms_sim_node *node = any_node(sim);
    if (!node->up) return;
    down_for(node, 0, ms_sim_one_in(sim, 4) ? 300 : 40);
    ms_sim_node_end(node, (int)ms_sim_below(&sim->dice, 3));
}

/* The machine stops in the middle of some later disk operation. */
static void fault_stop(struct ms_sim *sim)
{
    struct ms_sim_node *node = any_node(sim);
    if (!node->up) return;
    down_for(node, 5, 60);
    node->stop_power = ms_sim_one_in(sim, 2);
    ms_sim_fs_stop_after(node->fs, ms_sim_between(sim, 0, 30));
}

static void fault_wipe(struct ms_sim *sim)
{
    struct ms_sim_node *node = any_node(sim);
    if (ms_sim_one_in(sim, 2) && sim->leader >= 0) node = sim->nodes[sim->leader];
    if (node->up) ms_sim_node_end(node, MS_SIM_KILL);
    if (sim->leader == (int32_t)node->index) sim->counts.wiped_leaders++;
    down_for(node, 0, 30);
    (void)ms_sim_wipe(sim, node->index);
}

static void fault_clock(struct ms_sim *sim)
{
    struct ms_sim_node *node = any_node(sim);
    node->real_clock = ms_sim_below(&sim->dice, 7200000000u);
    sim->counts.clock_jumps++;
}

static void fault_memory(struct ms_sim *sim)
{
    (void)ms_mem_fail_after((int64_t)ms_sim_between(sim, 1, 40));
}

/* Somebody edits a policy: of the leader, mostly. */
static void fault_reload(struct ms_sim *sim)
{
    struct ms_sim_node *node = any_node(sim);
    if (sim->leader >= 0 && !ms_sim_one_in(sim, 3)) node = sim->nodes[sim->leader];
    (void)ms_sim_view_set_random(node);
    if (node->has_engine) {
        ms_engine_pump(&node->engine);
        ms_sim_node_after(node);
    }
}

static void fault_switch(struct ms_sim *sim)
{
    ms_sim_operator_switch(sim);
}

/* ---- the schedule ---------------------------------------------------------------------------------------------- */

static const struct {
    void (*run)(struct ms_sim *sim);
    uint32_t weight, class;
} faults[] = {
    {fault_cut, 4, 0},         {fault_half_open, 3, 0}, {fault_reset, 3, 1},  {fault_cut_bytes, 3, 1},
    {fault_slow_reader, 3, 2}, {fault_bad_wire, 4, 2},  {fault_space, 4, 3},  {fault_eio, 3, 4},
    {fault_slow_disk, 3, 3},   {fault_rot, 8, 4},       {fault_end, 8, 5},    {fault_stop, 5, 6},
    {fault_wipe, 1, 7},        {fault_clock, 1, 2},     {fault_memory, 2, 8}, {fault_switch, 4, 9},
    {fault_reload, 6, 10},
};

enum { FAULTS = sizeof faults / sizeof *faults, CLASSES = 11 };

static void on_fault(struct ms_sim *sim, struct ms_sim_event *event)
{
    if (sim->calm) return;
    if (ms_mem_fail_after(0) <= 0 && sim->starving) sim->counts.allocations_failed++;
    sim->starving = false;
    uint64_t total = 0;
    for (size_t i = 0; i < FAULTS; i++) total += sim->classes >> faults[i].class & 1 ? faults[i].weight : 0;
    uint64_t pick = total ? ms_sim_below(&sim->dice, total) : 0;
    for (size_t i = 0; i < FAULTS && total; i++) {
        uint64_t weight = sim->classes >> faults[i].class & 1 ? faults[i].weight : 0;
        if (pick >= weight) {
            pick -= weight;
            continue;
        }
        faults[i].run(sim);
        sim->starving = faults[i].run == fault_memory;
        break;
    }
    ms_sim_at(sim, ms_sim_between(sim, 500, sim->pause_us), *event);
}

void ms_sim_chaos_start(struct ms_sim *sim)
{
    for (uint32_t class = 0; class < CLASSES; class ++)
        if (!ms_sim_one_in(sim, 3)) sim->classes |= 1u << class;
    sim->pause_us = ms_sim_between(sim, 4000, 60000);
    ms_sim_operator_start(sim);
    ms_sim_at(sim, 5000, (struct ms_sim_event){.name = "fault", .fn = on_fault, .node = MS_SIM_NODES_MAX});
}

void ms_sim_chaos_calm(struct ms_sim *sim)
{
    bool operated = sim->operated;
    (void)ms_mem_fail_after(0);
    sim->calm = true;
    for (uint32_t a = 0; a < sim->options.nodes; a++)
        for (uint32_t b = a + 1; b < sim->options.nodes; b++) repair_wire(sim, a, b);
    MS_SIM_FOR_NODES(sim, node)
    {
        repair_disk(node);
        ms_sim_fs_capacity(node->fs, UINT64_MAX);
        ms_sim_fs_stop_after(node->fs, UINT64_MAX);
        node->down_until = 0;
    }
    if (!operated) ms_sim_operator_start(sim);
}
