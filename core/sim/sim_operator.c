/* The operator of a random run: starts dead nodes, says who leads, promotes when the leader is gone, lets the others
 * follow, and says adopt where a node refuses. Like a real one it knows only what status shows, and it is not always
 * wise: it may start a deposed leader as leader, or promote somebody while the old leader is merely cut off. It never
 * does what metasync.h forbids. */
#include "sim_world.h"

static bool is_leading(const struct ms_sim_node *node)
{
    return node->has_engine && (node->engine.role == MS_ROLE_LEADER || node->engine.role == MS_ROLE_OPENING ||
                                node->engine.role == MS_ROLE_ASKING);
}

/* The node with the most history: highest epoch, then position. NULL if nobody is up. */
static struct ms_sim_node *best(struct ms_sim *sim, const struct ms_sim_node *except, bool leading)
{
    struct ms_sim_node *found = NULL;
    MS_SIM_FOR_NODES(sim, node)
    {
        if (!node->has_engine || node == except || (leading && node->engine.role != MS_ROLE_LEADER)) continue;
        if (!leading && !ms_engine_promotable(&node->engine, NULL)) continue;
        int order =
            found ? ms_epoch_compare(ms_lineage_last(&node->store.lineage), ms_lineage_last(&found->store.lineage)) : 1;
        if (order > 0 || (order == 0 && node->store.applied > found->store.applied)) found = node;
    }
    return found;
}

static void elect(struct ms_sim *sim, struct ms_sim_node *node)
{
    if (!node) return;
    sim->leader = (int32_t)node->index;
    ms_sim_note(sim, node->index, "is the operator's choice");
}

/* ---- starting -------------------------------------------------------------------------------------------------- */

static void start_node(struct ms_sim *sim, struct ms_sim_node *node)
{
    if (node->up || sim->now < node->down_until) return;
    if (ms_sim_node_open(node))
        node->down_until = sim->now + ms_sim_between(sim, 2000, 30000);
    else
        node->returning = node->has_led && ms_sim_one_in(sim, 3); /* it may think that it still leads */
}

/* ---- leading --------------------------------------------------------------------------------------------------- */

/* The chosen one does not lead and does not try: what now? */
static void urge_leader(struct ms_sim *sim, struct ms_sim_node *node)
{
    const struct ms_engine *e = &node->engine;
    if (is_leading(node)) return;
    if (e->log_error) { /* a new process has a new chance */
        node->down_until = sim->now + 2000;
        ms_sim_node_end(node, MS_SIM_KILL);
        return;
    }
    if (e->role == MS_ROLE_IDLE && e->result == MS_E_DEPOSED) {
        sim->counts.leader_deposed++;
        struct ms_sim_node *leader = best(sim, NULL, true);
        elect(sim, leader ? leader : best(sim, NULL, false));
        node = sim->nodes[sim->leader];
        if (!leader && node->has_engine) (void)ms_sim_promote(sim, node->index);
        return;
    }
    if (ms_sim_lead(sim, node->index, true) == 0) return;
    struct ms_sim_node *other = best(sim, node, false); /* damaged, or an unfinished bootstrap */
    if (other) {
        elect(sim, other);
        (void)ms_sim_promote(sim, other->index);
    } else if (sim->calm) { /* nobody may lead: the last resort is to begin anew */
        ms_sim_node_end(node, MS_SIM_KILL);
        (void)ms_sim_wipe(sim, node->index);
    }
}

/* ---- following ------------------------------------------------------------------------------------------------- */

static void answer_refusal(struct ms_sim *sim, struct ms_sim_node *node)
{
    if (!node->refused_since) {
        node->refused_since = sim->now;
        sim->counts.less_history++;
    }
    if (sim->now - node->refused_since < ms_sim_between(sim, 5000, 60000)) return;
    node->refused_since = 0;
    if (!ms_sim_one_in(sim, 4) || sim->calm) {
        (void)ms_sim_adopt(sim, node->index);
    } else { /* the refusing node has the history that counts */
        elect(sim, node);
        (void)ms_sim_promote(sim, node->index);
    }
}

static void urge_follower(struct ms_sim *sim, struct ms_sim_node *node)
{
    const struct ms_engine *e = &node->engine;
    const char *leader = sim->nodes[sim->leader]->address;
    if (e->log_error) {
        node->down_until = sim->now + ms_sim_between(sim, 1000, 20000);
        ms_sim_node_end(node, MS_SIM_KILL);
    } else if (node->returning && e->role == MS_ROLE_IDLE && e->result == 0 && !sim->calm) {
        node->returning = false;
        sim->counts.deposed_returns++;
        (void)ms_sim_lead(sim, node->index, !ms_sim_one_in(sim, 8));
    } else if (e->role != MS_ROLE_FOLLOWER || strcmp(e->follow.address, leader) != 0) {
        /* a rival that leads by mistake is told after a while only */
        if (!is_leading(node) || sim->calm || ms_sim_one_in(sim, 8))
            (void)ms_sim_follow(sim, node->index, (uint32_t)sim->leader);
    } else if (e->follow.state == MS_FOLLOW_REFUSED) {
        answer_refusal(sim, node);
    } else {
        node->refused_since = 0;
    }
}

static void on_operator(struct ms_sim *sim, struct ms_sim_event *event)
{
    if (sim->leader < 0) sim->leader = (int32_t)ms_sim_below(&sim->dice, sim->options.nodes);
    MS_SIM_FOR_NODES(sim, node) start_node(sim, node);
    struct ms_sim_node *leader = sim->nodes[sim->leader];
    /* A dead leader is mostly replaced, if somebody can take over. */
    if (!leader->up && !sim->calm && ms_sim_one_in(sim, 6)) {
        struct ms_sim_node *other = best(sim, leader, false);
        if (other && other->store.applied) {
            elect(sim, other);
            (void)ms_sim_promote(sim, other->index);
        }
    }
    leader = sim->nodes[sim->leader];
    if (leader->has_engine) urge_leader(sim, leader);
    MS_SIM_FOR_NODES(sim, node) if (node->has_engine && node->index != (uint32_t)sim->leader) urge_follower(sim, node);
    ms_sim_at(sim, ms_sim_between(sim, 1000, 9000), *event);
}

void ms_sim_operator_start(struct ms_sim *sim)
{
    sim->operated = true;
    ms_sim_at(sim, 0, (struct ms_sim_event){.name = "operator", .fn = on_operator, .node = MS_SIM_NODES_MAX});
}

/* A planned switch, or one that goes wrong: the old leader is told before, after, or (cut off) not at all. */
void ms_sim_operator_switch(struct ms_sim *sim)
{
    if (sim->leader < 0) return;
    struct ms_sim_node *old = sim->nodes[sim->leader], *next = best(sim, old, false);
    if (!next || !next->store.applied) return;
    bool first = ms_sim_one_in(sim, 3), cut = !first && ms_sim_one_in(sim, 2);
    if (cut) ms_sim_net_cut(sim, old->index, next->index, true);
    if (first && old->has_engine) (void)ms_sim_follow(sim, old->index, next->index);
    elect(sim, next);
    (void)ms_sim_promote(sim, next->index);
}
