/* Hosts of random runs: what a broker has in files of its own, and what becomes of it.
 *
 * The hosts of all machines have the same few entries from the beginning, as brokers that had them before they had nodes. A node that is to
 * lead and whose tables lack some of its host's entries is told that its host compares; the host then brings them into the log, one by one,
 * and says when it is done. The host of a follower has what its node's tables have, from the moment on that it may be given those.
 *
 *      a leader whose host compares sends nothing of its history to anybody
 *      the host of a follower never loses an entry that the leader's host has */
#include <stdio.h>

#include "../base/error.h"
#include "sim_world.h"

enum { ENTRIES = 6, AT_ONCE = 2 };

/* Keys that begin with "e" are in every view (sim_rules.c). */
static struct ms_bytes entry_key(uint32_t i, char text[8])
{
    (void)snprintf(text, 8, "eh%u", i);
    return ms_str(text);
}

static uint32_t entry_table(uint32_t i)
{
    static const uint32_t tables[] = {MS_SIM_DISK, MS_SIM_REPLICA, MS_SIM_COUNT};
    return tables[i % 3];
}

static uint32_t in_tables(struct ms_sim_node *node)
{
    uint32_t found = 0;
    char text[8];
    for (uint32_t i = 0; i < ENTRIES; i++) {
        struct ms_bytes key = entry_key(i, text);
        const struct ms_table_state *table = ms_store_find(&node->store, ms_str(ms_sim_table_name(node->sim, entry_table(i))));
        if (table && ms_table_get(table, key, ms_key_hash(key)).data) found |= 1u << i;
    }
    return found;
}

void ms_sim_host_init(struct ms_sim_node *node)
{
    node->host_entries = node->sim->options.random ? (1u << ENTRIES) - 1 : 0;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

int ms_sim_host_flags(struct ms_sim_node *node)
{
    if (!node->has_host || !node->sim->options.random) return 0;
    bool lacks = node->host_entries & ~in_tables(node);
    return lacks || ms_sim_one_in(node->sim, 4) ? MS_PROMOTE_COMPARE : 0;
}

int ms_sim_host_compared(struct ms_sim_node *node)
{
    uint64_t comparing = node->comparing;
    node->comparing = 0; /* followers are let in within the call */
    int rc = ms_engine_compared(&node->engine);
    if (rc) node->comparing = comparing;
    else node->sim->counts.comparisons += comparing != 0;
    return rc;
}

static int put_entry(struct ms_sim_node *node, uint32_t i)
{
    char text[8];
    uint64_t number = ++node->sim->next_value;
    uint8_t value[8];
    memcpy(value, &number, sizeof value);
    node->host_writes = true;
    int rc = ms_sim_work_put(node, entry_table(i), entry_key(i, text), ms_bytes(value, sizeof value), NULL, NULL);
    node->host_writes = false;
    if (rc == MS_E_NO_REPLICA) ms_sim_broken(node->sim, node->index, "a host that compares waits for followers, and they for it");
    return rc;
}

static void on_compare(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    if (node->comparing != event->id) return;
    if (node->engine.role == MS_ROLE_LEADER) {
        uint32_t lacking = node->host_entries & ~in_tables(node);
        int rc = 0, put = 0;
        for (uint32_t i = 0; i < ENTRIES && !rc && put < AT_ONCE; i++) {
            if (!(lacking >> i & 1)) continue;
            rc = put_entry(node, i);
            put++;
        }
        if (!lacking) (void)ms_sim_host_compared(node);
        ms_engine_pump(&node->engine);
        ms_sim_node_after(node);
    }
    if (node->comparing == event->id) ms_sim_at(sim, ms_sim_between(sim, 100, ms_sim_one_in(sim, 20) ? 300000 : 6000), *event);
}

void ms_sim_host_compares(struct ms_sim_node *node, int flags)
{
    struct ms_sim *sim = node->sim;
    node->comparing = flags & MS_PROMOTE_COMPARE ? ++sim->next_comparison : 0;
    if (!node->comparing || !sim->options.random) return;
    ms_sim_at(sim, ms_sim_between(sim, 50, 5000),
              (struct ms_sim_event){.name = "compare", .fn = on_compare, .node = node->index, .life = node->life, .id = node->comparing});
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

void ms_sim_host_send(struct ms_sim_node *node, uint8_t type)
{
    bool history = type == MS_FRAME_GROUP || type == MS_FRAME_VERDICT || type == MS_FRAME_SNAPSHOT_BEGIN ||
                   type == MS_FRAME_SNAPSHOT_DATA || type == MS_FRAME_SNAPSHOT_END;
    if (history && node->comparing)
        ms_sim_broken(node->sim, node->index, "sends a %s frame although its host compares", ms_frame_name(type));
}

/* The process that this follower hears, NULL if that is gone or leads no more. */
static const struct ms_sim_node *leader_of(const struct ms_sim_node *node)
{
    MS_SIM_FOR_NODES(node->sim, other)
    {
        bool heard = other->has_engine && other->engine.boot_id == node->engine.follow.leader_boot;
        if (heard && other->engine.role == MS_ROLE_LEADER) return other;
    }
    return NULL;
}

void ms_sim_host_check(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    const struct ms_engine *e = &node->engine;
    bool leads = e->role == MS_ROLE_LEADER || e->role == MS_ROLE_OPENING || e->role == MS_ROLE_ASKING;
    if (node->comparing && !leads) {
        node->comparing = 0;
        sim->counts.comparisons_cut++;
    }
    if (!node->has_host || !sim->options.random) return;
    bool given = (e->role == MS_ROLE_FOLLOWER && ms_engine_caught_up(e) == MS_CAUGHT_UP) || (e->role == MS_ROLE_OPENING && e->opening_host);
    if (!given) return;
    uint32_t has = in_tables(node), lost = node->host_entries & ~has;
    const struct ms_sim_node *leader = lost && e->role == MS_ROLE_FOLLOWER ? leader_of(node) : NULL;
    if (leader && leader->has_host && lost & leader->host_entries)
        ms_sim_broken(sim, node->index, "its host loses entries that the host of n%u, which it follows, has", leader->index);
    node->host_entries = has;
}
