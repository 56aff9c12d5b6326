/* The world of a simulation: virtual clock, event queue, chance, trace, and what to do when a promise is broken.
 *
 * The queue is a binary heap by (time, order of asking). A step takes the first event that still means something, moves the
 * clock to it and runs it. Everything else in the simulator happens inside such an event, or inside a verb between two
 * steps. */
#include "sim_world.h"

#include <stdarg.h>
#include <stdio.h>

#include "../base/error.h"

/* ---- chance ---------------------------------------------------------------------------------------------------- */

uint64_t ms_sim_between(struct ms_sim *sim, uint64_t low, uint64_t high)
{
    return low + ms_sim_below(&sim->dice, high - low + 1);
}

bool ms_sim_one_in(struct ms_sim *sim, uint32_t n)
{
    return ms_sim_below(&sim->dice, n) == 0;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

int64_t ms_sim_hush(void)
{
    return ms_mem_fail_after(0);
}

void ms_sim_unhush(int64_t countdown)
{
    (void)ms_mem_fail_after(countdown);
}

bool ms_sim_room(struct ms_sim *sim, void **array, uint32_t *capacity, uint32_t count, size_t size)
{
    if (count <= *capacity) return true;
    uint32_t wanted = *capacity ? *capacity : 16;
    while (wanted < count) wanted *= 2;
    int64_t countdown = ms_sim_hush();
    uint8_t *grown = ms_realloc(*array, wanted * size);
    ms_sim_unhush(countdown);
    if (!grown) {
        ms_sim_out_of_memory(sim);
        return false;
    }
    memset(grown + *capacity * size, 0, (wanted - *capacity) * size);
    *array = grown;
    *capacity = wanted;
    return true;
}

/* ---- trace and failure ----------------------------------------------------------------------------------------- */

static void trace_line(struct ms_sim *sim, uint32_t node, const char *format, va_list arguments)
{
    char *line = sim->trace[sim->trace_next++ % MS_SIM_TRACE_LINES];
    int at = snprintf(line, MS_SIM_TRACE_WIDTH, "%7llu %10.3f ", (unsigned long long)sim->counts.steps,
                      (double)sim->now / 1000.0);
    if (node < MS_SIM_NODES_MAX)
        at += snprintf(line + at, (size_t)(MS_SIM_TRACE_WIDTH - at), "n%u ", node);
    else
        at += snprintf(line + at, (size_t)(MS_SIM_TRACE_WIDTH - at), "-- ");
    (void)vsnprintf(line + at, (size_t)(MS_SIM_TRACE_WIDTH - at), format, arguments);
}

void ms_sim_note(struct ms_sim *sim, uint32_t node, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    trace_line(sim, node, format, arguments);
    va_end(arguments);
}

void ms_sim_broken(struct ms_sim *sim, uint32_t node, const char *format, ...)
{
    if (sim->failed) return;
    va_list arguments;
    va_start(arguments, format);
    char text[300];
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char who[16] = "the cluster";
    if (node < MS_SIM_NODES_MAX) (void)snprintf(who, sizeof who, "n%u", node);
    (void)snprintf(sim->message, sizeof sim->message, "%s: %s (step %llu, %.3f ms, seed %llu)", who, text,
                   (unsigned long long)sim->counts.steps, (double)sim->now / 1000.0, (unsigned long long)sim->seed);
    sim->failed = MS_E_DAMAGED;
    ms_sim_note(sim, node, "BROKEN %s", text);
}

void ms_sim_out_of_memory(struct ms_sim *sim)
{
    if (sim->failed) return;
    (void)snprintf(sim->message, sizeof sim->message, "the simulator is out of memory");
    sim->failed = MS_E_MEMORY;
}

const char *ms_sim_trace(struct ms_sim *sim)
{
    ms_buf_clear(&sim->trace_text);
    uint32_t from = sim->trace_next > MS_SIM_TRACE_LINES ? sim->trace_next - MS_SIM_TRACE_LINES : 0;
    for (uint32_t i = from; i < sim->trace_next; i++) {
        const char *line = sim->trace[i % MS_SIM_TRACE_LINES];
        ms_buf_add(&sim->trace_text, line, strlen(line));
        ms_buf_add8(&sim->trace_text, '\n');
    }
    ms_buf_add8(&sim->trace_text, 0);
    return sim->trace_text.failed ? "" : (const char *)sim->trace_text.data;
}

/* ---- the queue ------------------------------------------------------------------------------------------------- */

static bool earlier(const struct ms_sim_event *a, const struct ms_sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

void ms_sim_at(struct ms_sim *sim, uint64_t delay, struct ms_sim_event event)
{
    if (!ms_sim_room(sim, (void **)&sim->queue, &sim->queue_capacity, sim->queue_count + 1, sizeof *sim->queue)) {
        ms_release(event.data);
        return;
    }
    event.at = sim->now + delay;
    event.seq = ++sim->next_seq;
    uint32_t at = sim->queue_count++;
    for (; at > 0 && earlier(&event, &sim->queue[(at - 1) / 2]); at = (at - 1) / 2)
        sim->queue[at] = sim->queue[(at - 1) / 2];
    sim->queue[at] = event;
}

static struct ms_sim_event take_first(struct ms_sim *sim)
{
    struct ms_sim_event first = sim->queue[0], last = sim->queue[--sim->queue_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= sim->queue_count) break;
        if (child + 1 < sim->queue_count && earlier(&sim->queue[child + 1], &sim->queue[child])) child++;
        if (!earlier(&sim->queue[child], &last)) break;
        sim->queue[at] = sim->queue[child];
        at = child;
    }
    if (sim->queue_count) sim->queue[at] = last;
    return first;
}

static bool is_void(const struct ms_sim *sim, const struct ms_sim_event *event)
{
    return event->life && sim->nodes[event->node]->life != event->life;
}

/* The next event that means something is first in the queue afterwards; false = there is none. */
static bool clean_first(struct ms_sim *sim)
{
    while (sim->queue_count && is_void(sim, &sim->queue[0])) {
        struct ms_sim_event event = take_first(sim);
        ms_release(event.data);
    }
    return sim->queue_count > 0;
}

static void run_first(struct ms_sim *sim)
{
    struct ms_sim_event event = take_first(sim);
    sim->now = event.at;
    sim->counts.steps++;
    sim->hash = ms_mix(sim->hash ^ event.at ^ (event.node << 8) ^ (uint64_t)(uint8_t)event.name[0]);
    if (event.node < MS_SIM_NODES_MAX && event.life) ms_sim_note(sim, event.node, "%s", event.name);
    event.fn(sim, &event);
    ms_release(event.data);
}

static int outcome(const struct ms_sim *sim)
{
    return sim->failed ? ms_fail(sim->failed, "%s", sim->message) : 0;
}

int ms_sim_step(struct ms_sim *sim, uint32_t steps)
{
    for (uint32_t i = 0; i < steps && !sim->failed && clean_first(sim); i++) run_first(sim);
    return outcome(sim);
}

int ms_sim_run(struct ms_sim *sim, uint64_t us)
{
    uint64_t end = sim->now + us;
    while (!sim->failed && clean_first(sim) && sim->queue[0].at <= end) run_first(sim);
    if (!sim->failed) sim->now = end;
    return outcome(sim);
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static const char *const count_names[] = {
#define COUNT_NAME(name) #name,
    MS_SIM_COUNTS(COUNT_NAME)
#undef COUNT_NAME
};

const char *ms_sim_count_name(uint32_t i)
{
    return i < sizeof count_names / sizeof *count_names ? count_names[i] : NULL;
}

const struct ms_sim_counts *ms_sim_counts(const struct ms_sim *sim)
{
    return &sim->counts;
}

uint64_t ms_sim_now(const struct ms_sim *sim)
{
    return sim->now;
}

uint64_t ms_sim_hash(const struct ms_sim *sim)
{
    return sim->hash;
}

static void table_policy(struct ms_policy *policy, const char *name, int level, uint32_t interval_ms)
{
    struct ms_table_policy *table = &policy->tables[policy->table_count++];
    (void)snprintf(table->name, sizeof table->name, "%s", name);
    table->level = level;
    table->interval_ms = interval_ms;
}

void ms_sim_policy(struct ms_policy *policy)
{
    ms_policy_init(policy);
    policy->replica_lag_ms = 150;
    policy->sync_every_ms = 40;
    policy->group_bytes = 2048;
    policy->mark_changes = 50;
    policy->mark_every_ms = 100;
    policy->snapshot_log_bytes = 48 << 10;
    policy->snapshot_every_ms = 400;
    policy->log_segment_bytes = 64 << 10;
    policy->log_keep_bytes = 32 << 10;
    policy->log_max_bytes = 512 << 10;
    policy->heartbeat_ms = 40;
    policy->link_timeout_ms = 160;
    policy->connect_min_ms = 4;
    policy->connect_max_ms = 100;
    policy->ask_ms = 80;
    policy->window_bytes = 16 << 10;
    policy->retain_bytes = 8 << 10;
    policy->tail_bytes = 32 << 10;
    policy->host_queue_bytes = 64 << 10;
    policy->key_max = 64;
    policy->value_max = 4096;
    policy->batch_max = 8192;
    table_policy(policy, "memory", MS_LEVEL_MEMORY, 0);
    table_policy(policy, "os", MS_LEVEL_OS, 0);
    table_policy(policy, "disk", MS_LEVEL_DISK, 0);
    table_policy(policy, "replica", MS_LEVEL_REPLICA, 0);
    table_policy(policy, "offset", MS_LEVEL_DEFAULT, 30);
    table_policy(policy, "count", MS_LEVEL_DEFAULT, 100);
    policy->tables[policy->table_count - 1].entries = 8;
    policy->tables[policy->table_count - 1].bytes = 2048;
}

/* Random runs vary what changes the shape of a run. */
static void vary_policy(struct ms_sim *sim)
{
    struct ms_policy *policy = &sim->policy;
    policy->group_bytes = 512u << ms_sim_below(&sim->dice, 4);
    policy->log_keep_bytes = ms_sim_below(&sim->dice, 3) * (48u << 10);
    policy->snapshot_keep = (uint32_t)ms_sim_between(sim, 1, 3);
    policy->retain_bytes = (uint32_t)ms_sim_below(&sim->dice, 3) * (8u << 10);
    policy->window_bytes = 8u << ms_sim_between(sim, 10, 12);
    policy->on_no_replica = (int)ms_sim_below(&sim->dice, 2);
    policy->on_log_failure = (int)ms_sim_below(&sim->dice, 2);
    static const int resolvers[] = {MS_RESOLVE_THEIRS, MS_RESOLVE_MINE, MS_RESOLVE_NEWEST};
    policy->resolver = resolvers[ms_sim_below(&sim->dice, 3)];
    for (uint32_t i = 0; i < policy->table_count; i++)
        if (strcmp(policy->tables[i].name, "offset") == 0) policy->tables[i].resolver = MS_RESOLVE_MAX;
}

/* The tables of enum ms_sim_table. */
static void fixed_tables(struct ms_sim *sim)
{
    static const char *const names[MS_SIM_TABLES] = {"memory", "os", "disk", "replica", "offset", "count"};
    for (uint32_t i = 0; i < MS_SIM_TABLES; i++) {
        (void)snprintf(sim->tables[i].name, sizeof sim->tables[i].name, "%s", names[i]);
        sim->tables[i].type = i == MS_SIM_OFFSET ? MS_TYPE_INT64 : MS_TYPE_BYTES;
    }
    sim->table_count = MS_SIM_TABLES;
}

static bool new_nodes(struct ms_sim *sim)
{
    for (uint32_t i = 0; i < sim->options.nodes; i++) {
        struct ms_sim_node *node = ms_alloc_zero(sizeof *node);
        if (!node) return false;
        sim->nodes[i] = node;
        node->sim = sim;
        node->index = i;
        (void)snprintf(node->address, sizeof node->address, "n%u", i);
        node->fs = ms_sim_fs_new(ms_mix(sim->seed * MS_SIM_NODES_MAX + i + 1));
        if (!node->fs) return false;
        node->switching.epoch = -2;
        ms_sim_node_forget(node);
        ms_sim_host_init(node);
    }
    return true;
}

struct ms_sim *ms_sim_new(uint64_t seed, const struct ms_sim_options *options)
{
    if (options->nodes > MS_SIM_NODES_MAX || options->nodes == 1) {
        (void)ms_fail(MS_E_INVALID, "a simulation has 2 to %d nodes", MS_SIM_NODES_MAX);
        return NULL;
    }
    struct ms_sim *sim = ms_alloc_zero(sizeof *sim);
    if (!sim) return NULL;
    sim->seed = seed;
    sim->dice.state = ms_mix(seed + 0x5eed);
    sim->options = *options;
    sim->now = 1000000;
    sim->leader = -1;
    sim->trace = ms_alloc(sizeof *sim->trace * MS_SIM_TRACE_LINES);
    if (sim->options.nodes == 0) sim->options.nodes = (uint32_t)ms_sim_between(sim, 2, MS_SIM_NODES_MAX);
    if (options->policy)
        sim->policy = *options->policy;
    else
        ms_sim_policy(&sim->policy);
    if (!options->policy && options->random) vary_policy(sim);
    if (!sim->options.named) fixed_tables(sim);
    ms_sim_net_init(sim);
    if (!sim->trace || !new_nodes(sim)) {
        ms_sim_free(sim);
        return NULL;
    }
    if (options->random) {
        ms_sim_chaos_start(sim);
        ms_sim_work_start(sim);
    }
    return sim;
}

void ms_sim_free(struct ms_sim *sim)
{
    if (!sim) return;
    int64_t countdown = ms_sim_hush();
    ms_sim_unhush(countdown);
    for (uint32_t i = 0; i < sim->options.nodes; i++) {
        struct ms_sim_node *node = sim->nodes[i];
        if (!node) continue;
        if (node->up) ms_sim_node_end(node, MS_SIM_KILL);
        ms_sim_node_close(node);
        ms_sim_fs_free(node->fs);
        ms_release(node);
    }
    ms_sim_net_close(sim);
    while (sim->queue_count) {
        struct ms_sim_event event = take_first(sim);
        ms_release(event.data);
    }
    ms_release(sim->queue);
    ms_release(sim->eternals);
    ms_release(sim->effects);
    ms_sim_book_close(&sim->book);
    ms_buf_close(&sim->trace_text);
    ms_release(sim->trace);
    ms_release(sim);
}
