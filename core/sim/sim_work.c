/* The client: writes, and remembers what it was promised. Everything that is accepted goes into the book's list of what
 * the log has to bring next; everything that has a level is asked after until it is answered. */
#include <stdio.h>

#include "../base/error.h"
#include "sim_world.h"

enum { KEYS = 24, ETERNALS_MAX = 60, BATCH_MAX = 6, BURST_MAX = 10, VALUE_LARGE = 3000, VALUE_USUAL = 160 };

/* ---- promises -------------------------------------------------------------------------------------------------- */

static void settle_wait(struct ms_sim_node *node, uint32_t i, int result)
{
    struct ms_sim_wait wait = node->waits[i];
    node->waits[i] = node->waits[--node->wait_count];
    ms_sim_check_promise(node, &wait, result);
}

void ms_sim_work_waits(struct ms_sim_node *node)
{
    for (uint32_t i = node->wait_count; i-- > 0;) {
        const struct ms_sim_wait *wait = &node->waits[i];
        int result = ms_engine_reached(&node->engine, wait->lsn, wait->level, wait->epoch_id);
        if (result == 0) continue;
        if (!node->changed)
            ms_sim_broken(node->sim, node->index, "nobody was woken although the wait for lsn %llu has ended with %d",
                          (unsigned long long)wait->lsn, result);
        settle_wait(node, i, result);
    }
    node->changed = false;
}

void ms_sim_work_forget(struct ms_sim_node *node)
{
    node->sim->counts.unknown += node->wait_count;
    node->wait_count = 0;
}

static void promise(struct ms_sim_node *node, uint64_t lsn, int level)
{
    if (level == 0 ||
        !ms_sim_room(node->sim, (void **)&node->waits, &node->wait_capacity, node->wait_count + 1, sizeof *node->waits))
        return;
    uint64_t epoch_id = ms_lineage_last(&node->store.lineage).id;
    node->waits[node->wait_count++] = (struct ms_sim_wait){.lsn = lsn,
                                                           .level = level,
                                                           .epoch_id = epoch_id,
                                                           .place = ms_sim_book_place(node->sim, &node->store.lineage, lsn)};
    int result = ms_engine_reached(&node->engine, lsn, level, epoch_id);
    if (result) settle_wait(node, node->wait_count - 1, result);
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

static int table_of(struct ms_sim_node *node, uint32_t table, struct ms_table_state **found)
{
    struct ms_table_state *known = node->tables[table];
    if (known && known->id) {
        *found = known;
        return 0;
    }
    const struct ms_sim *sim = node->sim;
    int rc = ms_engine_table(&node->engine, ms_sim_table_name(sim, table), sim->tables[table].type, found);
    if (!rc) node->tables[table] = *found;
    return rc;
}

/* Whether what is written to this table now waits in a buffer. */
static bool is_buffered(const struct ms_sim_node *node, const struct ms_table_state *table)
{
    return node->engine.table_policy[table->id].interval_ms > 0;
}

static int refused(struct ms_sim_node *node, int rc, uint64_t head)
{
    struct ms_sim *sim = node->sim;
    if (node->engine.tail.head != head) ms_sim_broken(sim, node->index, "a refused write (%d) moved the log", rc);
    if (rc == MS_E_AGAIN)
        sim->counts.again++;
    else
        sim->counts.refused++;
    if (rc == MS_E_NO_REPLICA) sim->counts.no_replica++;
    if (rc == MS_E_NO_SPACE) {
        sim->counts.no_space_refusals++;
        node->no_space = true;
    }
    return rc;
}

/* What is true whenever a leader accepts something. */
static void check_accepting(struct ms_sim_node *node)
{
    const struct ms_engine *e = &node->engine;
    const struct ms_lineage *lineage = &node->store.lineage;
    if (e->role != MS_ROLE_LEADER || !lineage->count)
        ms_sim_broken(node->sim, node->index, "accepts a write although it does not lead");
    else if (!node->log || ms_log_synced(node->log) < lineage->entries[lineage->count - 1].first)
        ms_sim_broken(node->sim, node->index, "accepts a write although its epoch is not synced");
    if (node->no_space) node->sim->counts.no_space_puts_again++;
    node->no_space = false;
}

/* The op is what its key is now. Buffered ones come into the log some time, the others at this lsn. */
static void accept(struct ms_sim_node *node, uint32_t op, bool buffered, uint64_t lsn, uint32_t batch)
{
    struct ms_sim *sim = node->sim;
    struct ms_sim_op *accepted = &sim->book.ops[op];
    struct ms_sim_key *key = &sim->book.keys[accepted->key];
    accepted->epoch_id = ms_lineage_last(&node->store.lineage).id;
    accepted->previous = key->newest;
    key->newest = op;
    accepted->buffered = buffered;
    if (buffered) {
        sim->counts.buffered_puts++;
        return;
    }
    if (!ms_sim_room(sim, (void **)&node->accepted, &node->accepted_capacity, node->accepted_count + 1,
                     sizeof *node->accepted))
        return;
    if (node->accepted_from == node->accepted_count) node->accepted_from = node->accepted_count = 0;
    node->accepted[node->accepted_count++] = (struct ms_sim_accepted){.lsn = lsn, .op = op, .batch = batch};
}

static void check_readable(struct ms_sim_node *node, const struct ms_table_state *table, struct ms_bytes key,
                           struct ms_bytes value)
{
    if (!ms_bytes_equal(ms_table_get(table, key, ms_key_hash(key)), value))
        ms_sim_broken(node->sim, node->index, "table %s: a write was accepted, but readers don't see it", table->name);
}

/* A commit, and what the node's rules say when they are asked. */
static int commit(struct ms_sim_node *node, uint32_t known, struct ms_table_state *state, struct ms_bytes key, struct ms_bytes value,
                  uint64_t *at, int *wanted)
{
    uint64_t hash = ms_key_hash(key);
    bool existed = ms_table_get(state, key, hash).data != NULL, asked = false, leads = node->engine.role == MS_ROLE_LEADER;
    struct ms_engine_write write = ms_engine_write(state, key, hash, value);
    write.nowait = node->host_writes;
    int rc = ms_engine_commit(&node->engine, &write, at, wanted);
    if (rc == MS_ASK) {
        write.decision = ms_sim_view_decide(node, node->sim->book.keys[known].table, known);
        asked = true;
        rc = ms_engine_commit(&node->engine, &write, at, wanted);
    }
    if (leads && (rc == 0 || rc == MS_LOCAL)) ms_sim_view_check(node, known, existed, value.data != NULL, asked, rc == MS_LOCAL);
    return rc;
}

/* Nothing was logged or stored, by policy. */
static int kept_local(struct ms_sim_node *node, uint64_t head)
{
    if (node->engine.tail.head != head) ms_sim_broken(node->sim, node->index, "a write that stays local moved the log");
    node->sim->counts.local++;
    return MS_LOCAL;
}

int ms_sim_work_put(struct ms_sim_node *node, uint32_t table, struct ms_bytes key, struct ms_bytes value, uint64_t *lsn,
                    int *level)
{
    struct ms_sim *sim = node->sim;
    struct ms_table_state *state;
    int rc = table_of(node, table, &state);
    uint64_t head = node->engine.tail.head, at = 0;
    if (rc) return refused(node, rc, head);
    uint32_t known = ms_sim_book_key(sim, table, key);
    uint32_t op = known == UINT32_MAX ? 0 : ms_sim_book_op(sim, known, value);
    if (!op) return MS_E_MEMORY;
    bool equal = ms_bytes_equal(ms_table_get(state, key, ms_key_hash(key)), value);
    int wanted = 0;
    bool buffered = is_buffered(node, state), logged = !equal && !buffered;
    rc = commit(node, known, state, key, value, &at, &wanted);
    if (rc == MS_LOCAL) return kept_local(node, head);
    if (rc) return refused(node, rc, head);
    check_accepting(node);
    check_readable(node, state, key, value);
    if (buffered ? at < head : at != head + logged) /* a full buffer may be logged at once */
        ms_sim_broken(sim, node->index, "a write has lsn %llu after %llu", (unsigned long long)at, (unsigned long long)head);
    if (logged || buffered) accept(node, op, buffered, at, 0);
    if (equal)
        sim->counts.equal_puts++;
    else if (value.data)
        sim->counts.puts++;
    else
        sim->counts.deletes++;
    if (lsn) *lsn = at;
    if (level) *level = wanted;
    promise(node, at, wanted);
    return 0;
}

/* One batch on its way. */
struct batch {
    struct ms_engine_write made[MS_SIM_BATCH_MAX];
    uint32_t ops[MS_SIM_BATCH_MAX];
    bool existed[MS_SIM_BATCH_MAX], equal[MS_SIM_BATCH_MAX], buffered[MS_SIM_BATCH_MAX], asked[MS_SIM_BATCH_MAX];
    bool logs[MS_SIM_BATCH_MAX];
};

/* What its writes meet. */
static void note_batch(struct ms_sim_node *node, struct batch *batch, const struct ms_sim_write *writes, size_t count)
{
    struct ms_sim *sim = node->sim;
    for (size_t i = 0; i < count; i++) {
        const struct ms_engine_write *made = &batch->made[i];
        uint32_t key = ms_sim_book_key(sim, writes[i].table, writes[i].key);
        struct ms_bytes current = ms_table_get(made->table, made->key, ms_key_hash(made->key));
        batch->ops[i] = key == UINT32_MAX ? 0 : ms_sim_book_op(sim, key, writes[i].value);
        batch->existed[i] = current.data != NULL;
        batch->equal[i] = ms_bytes_equal(current, made->value);
        batch->buffered[i] = is_buffered(node, made->table);
    }
}

/* The writes that have to be logged, in order: those in the view that change something; the last one of a key wins. */
static uint32_t plan_batch(struct batch *batch, const struct ms_sim_write *writes, size_t count)
{
    uint32_t logged = 0;
    for (size_t i = 0; i < count; i++) {
        bool wins = !batch->made[i].out;
        for (size_t j = i + 1; j < count; j++)
            wins &= batch->made[j].out || writes[j].table != writes[i].table || !ms_bytes_equal(writes[j].key, writes[i].key);
        batch->logs[i] = wins && !batch->equal[i] && !batch->buffered[i];
        logged += batch->logs[i];
    }
    return logged;
}

static int commit_batch(struct ms_sim_node *node, struct batch *batch, size_t count, uint64_t *at, int *wanted)
{
    struct ms_sim *sim = node->sim;
    bool leads = node->engine.role == MS_ROLE_LEADER;
    int rc = ms_engine_commit_batch(&node->engine, batch->made, count, at, wanted);
    if (rc == MS_ASK) {
        for (size_t i = 0; i < count; i++) {
            if (!batch->made[i].ask || !batch->ops[i]) continue;
            uint32_t key = sim->book.ops[batch->ops[i]].key;
            for (size_t j = 0; j < i && !batch->asked[i]; j++) { /* once for each key: a function that fails would say other things */
                if (!batch->asked[j] || sim->book.ops[batch->ops[j]].key != key) continue;
                batch->made[i].decision = batch->made[j].decision;
                batch->asked[i] = true;
            }
            if (!batch->asked[i]) batch->made[i].decision = ms_sim_view_decide(node, sim->book.keys[key].table, key);
            batch->asked[i] = true;
        }
        rc = ms_engine_commit_batch(&node->engine, batch->made, count, at, wanted);
    }
    for (size_t i = 0; i < count && leads && (rc == 0 || rc == MS_LOCAL); i++)
        if (batch->ops[i])
            ms_sim_view_check(node, sim->book.ops[batch->ops[i]].key, batch->existed[i], batch->made[i].value.data != NULL, batch->asked[i],
                              batch->made[i].out);
    return rc;
}

int ms_sim_work_batch(struct ms_sim_node *node, const struct ms_sim_write *writes, size_t count, uint64_t *lsn, int *level)
{
    struct ms_sim *sim = node->sim;
    struct batch batch = {0};
    if (count > MS_SIM_BATCH_MAX) return ms_fail(MS_E_LIMIT, "at most %d writes", MS_SIM_BATCH_MAX);
    int rc = 0, wanted = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        struct ms_table_state *table = NULL;
        rc = table_of(node, writes[i].table, &table);
        batch.made[i] = ms_engine_write(table, writes[i].key, ms_key_hash(writes[i].key), writes[i].value);
    }
    uint64_t head = node->engine.tail.head, at = 0;
    if (rc) return refused(node, rc, head);
    note_batch(node, &batch, writes, count);
    rc = commit_batch(node, &batch, count, &at, &wanted);
    for (size_t i = 0; i < count && rc == MS_E_MEMORY; i++) /* its buffered writes may have been taken before memory ran out */
        if (batch.ops[i] && batch.buffered[i] && !batch.made[i].out) accept(node, batch.ops[i], true, 0, 0);
    if (rc == MS_LOCAL) return kept_local(node, head);
    if (rc) return refused(node, rc, head);
    check_accepting(node);
    sim->counts.batches++;
    sim->next_batch++;
    uint32_t logged = plan_batch(&batch, writes, count);
    for (size_t i = 0; i < count; i++)
        if (batch.ops[i] && !batch.made[i].out && (batch.logs[i] || batch.buffered[i]))
            accept(node, batch.ops[i], batch.buffered[i], batch.logs[i] ? ++head : 0, sim->next_batch);
    if (at < head || node->engine.tail.head < head)
        ms_sim_broken(sim, node->index, "a batch of %u changes ends at lsn %llu instead of %llu", logged,
                      (unsigned long long)at, (unsigned long long)head);
    for (size_t i = 0; i < count; i++)
        if (batch.logs[i]) check_readable(node, batch.made[i].table, batch.made[i].key, batch.made[i].value);
    if (lsn) *lsn = at;
    if (level) *level = wanted;
    promise(node, at, wanted);
    return 0;
}

/* ---- the random client ----------------------------------------------------------------------------------------- */

struct value {
    uint8_t bytes[VALUE_LARGE];
};

/* A value that was never used before. */
static struct ms_bytes new_value(struct ms_sim *sim, uint32_t table, struct value *value)
{
    uint64_t number = ++sim->next_value;
    memcpy(value->bytes, &number, sizeof number);
    if (table == MS_SIM_OFFSET) return ms_bytes(value->bytes, sizeof number);
    size_t size = (size_t)ms_sim_between(sim, sizeof number, ms_sim_one_in(sim, 8) ? VALUE_LARGE : VALUE_USUAL);
    memset(value->bytes + sizeof number, (int)(number & 0xff), size - sizeof number);
    return ms_bytes(value->bytes, size);
}

struct key {
    char text[16];
};

static struct ms_bytes some_key(struct ms_sim *sim, struct key *key)
{
    (void)snprintf(key->text, sizeof key->text, "k%u", (unsigned)ms_sim_below(&sim->dice, KEYS));
    return ms_str(key->text);
}

/* A key that is put once and never again: it must be seen by every node that has got as far. */
static int put_eternal(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    struct value value;
    char text[16];
    uint32_t table = (uint32_t)ms_sim_between(sim, MS_SIM_OS, MS_SIM_REPLICA);
    if (!ms_sim_room(sim, (void **)&sim->eternals, &sim->eternal_capacity, sim->eternal_count + 1, sizeof *sim->eternals))
        return MS_E_MEMORY;
    (void)snprintf(text, sizeof text, "e%u", ++sim->next_eternal);
    int rc = ms_sim_work_put(node, table, ms_str(text), new_value(sim, table, &value), NULL, NULL);
    if (rc) return rc;
    uint32_t key = ms_sim_book_find_key(sim, table, ms_str(text));
    sim->book.keys[key].eternal = sim->book.keys[key].newest;
    sim->eternals[sim->eternal_count++] = key;
    return 0;
}

static int put_one(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    struct value value;
    struct key key;
    uint32_t table = (uint32_t)ms_sim_below(&sim->dice, MS_SIM_TABLES);
    struct ms_bytes name = some_key(sim, &key);
    if (ms_sim_one_in(sim, 20) && sim->eternal_count < ETERNALS_MAX) return put_eternal(node);
    if (ms_sim_one_in(sim, 8)) return ms_sim_work_put(node, table, name, ms_bytes(NULL, 0), NULL, NULL);
    struct ms_bytes old =
        node->tables[table] ? ms_table_get(node->tables[table], name, ms_key_hash(name)) : ms_bytes(NULL, 0);
    if (ms_sim_one_in(sim, 16) && old.data && old.size <= sizeof value) {
        memcpy(value.bytes, old.data, old.size); /* the same again */
        return ms_sim_work_put(node, table, name, ms_bytes(value.bytes, old.size), NULL, NULL);
    }
    return ms_sim_work_put(node, table, name, new_value(sim, table, &value), NULL, NULL);
}

static int put_batch(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    struct value values[BATCH_MAX];
    struct key keys[BATCH_MAX];
    struct ms_sim_write writes[BATCH_MAX];
    size_t count = (size_t)ms_sim_between(sim, 1, BATCH_MAX);
    for (size_t i = 0; i < count; i++) {
        uint32_t table = (uint32_t)ms_sim_below(&sim->dice, MS_SIM_TABLES);
        struct ms_bytes value = ms_sim_one_in(sim, 6) ? ms_bytes(NULL, 0) : new_value(sim, table, &values[i]);
        writes[i] = (struct ms_sim_write){.table = table, .key = some_key(sim, &keys[i]), .value = value};
    }
    return ms_sim_work_batch(node, writes, count, NULL, NULL);
}

static void on_gathered(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    ms_engine_pump(&node->engine);
    ms_sim_node_after(node);
}

static void burst(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    uint64_t count = ms_sim_between(sim, 1, BURST_MAX);
    int rc = 0;
    for (uint64_t i = 0; i < count && !rc && !sim->failed; i++) {
        if (ms_sim_one_in(sim, 6))
            rc = put_batch(node);
        else if (ms_sim_one_in(sim, 25))
            rc = ms_engine_flush(&node->engine, NULL, (uint32_t)ms_sim_between(sim, 1, 10)) < 0;
        else
            rc = put_one(node);
    }
    /* A driver that gathers comes for an open group later, and anything may happen before. */
    struct ms_sim_event gathered = {.name = "gathered", .fn = on_gathered, .node = node->index, .life = node->life};
    if (ms_sim_one_in(sim, 3)) ms_sim_at(sim, ms_sim_between(sim, 20, 3000), gathered);
    else ms_engine_pump(&node->engine);
    ms_sim_node_after(node);
}

static void on_client(struct ms_sim *sim, struct ms_sim_event *event)
{
    if (sim->calm) return;
    /* Mostly whoever leads; now and then anybody, as a client with an old address book. */
    struct ms_sim_node *node = sim->nodes[ms_sim_below(&sim->dice, sim->options.nodes)];
    if (sim->leader >= 0 && !ms_sim_one_in(sim, 6)) node = sim->nodes[sim->leader];
    if (node->has_engine) burst(node);
    ms_sim_at(sim, ms_sim_between(sim, 100, 4000), *event);
}

void ms_sim_work_start(struct ms_sim *sim)
{
    ms_sim_at(sim, 1000, (struct ms_sim_event){.name = "client", .fn = on_client, .node = MS_SIM_NODES_MAX});
}
