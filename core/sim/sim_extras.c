/* Extras of simulated nodes (sync/extras.h): files by the real code over the simulated file system, conflicts decided a little later, as
 * the policy thread of a real node does.
 *
 * The checks keep an account of their own: which changes a node gave up when it took over another history (owed), and what came of an
 * extra that took effect. At the end of a run every change that is owed stands in a loss report of its node. */
#include <stdio.h>

#include "../base/error.h"
#include "../sync/extras_file.h"
#include "sim_world.h"

/* ---- files ---------------------------------------------------------------------------------------------------------------------- */

struct file_request {
    uint64_t id, done; /* report; read: boot, 0 */
    size_t size;
    uint8_t text[];
};

static void later(struct ms_sim_node *node, const char *name, ms_sim_event_fn fn, uint64_t most, void *data)
{
    uint64_t slow = node->jobs.slow ? node->jobs.slow : 1;
    if (!data) return;
    ms_sim_at(node->sim, ms_sim_between(node->sim, 20, most) * slow,
              (struct ms_sim_event){.name = name, .fn = fn, .node = node->index, .life = node->life, .data = data});
}

static void *allocate(struct ms_sim *sim, size_t size)
{
    int64_t countdown = ms_sim_hush();
    void *made = ms_alloc_zero(size);
    ms_sim_unhush(countdown);
    if (!made) ms_sim_out_of_memory(sim);
    return made;
}

static struct file_request *request(struct ms_sim_node *node, uint64_t id, uint64_t done, struct ms_bytes text)
{
    struct file_request *made = allocate(node->sim, sizeof *made + text.size);
    if (!made) return NULL;
    made->id = id;
    made->done = done;
    made->size = text.size;
    if (text.size) memcpy(made->text, text.data, text.size);
    return made;
}

static void count_failure(struct ms_sim_node *node, int rc)
{
    if (rc == MS_E_NO_SPACE) node->sim->counts.enospc++;
    else if (rc) node->sim->counts.eio_other++;
}

static void on_read(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    const struct file_request *read = event->data;
    struct ms_extras_batch batch = {0};
    int rc = ms_extras_read(&node->dir, read->id, &batch);
    if (!ms_sim_node_stopped(node)) {
        count_failure(node, rc);
        ms_sim_note(sim, node->index, "read %u extras, %llu are pending: %d", batch.count, (unsigned long long)batch.pending, rc);
        ms_engine_extras(&node->engine, &batch, rc);
        ms_sim_node_after(node);
    }
    ms_buf_close(&batch.bytes);
}

void ms_sim_extras_read(struct ms_sim_node *node, uint64_t boot)
{
    later(node, "extras", on_read, 800, request(node, boot, 0, ms_bytes(NULL, 0)));
}

static void on_report(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    const struct file_request *report = event->data;
    char path[MS_PATH_MAX] = "";
    uint64_t pending = 0;
    int rc = ms_extras_report(&node->dir, report->id, report->done, ms_bytes(report->text, report->size), &pending, path);
    if (ms_sim_node_stopped(node)) return;
    count_failure(node, rc);
    ms_sim_note(sim, node->index, "reported extras up to %llu, %llu are pending: %d", (unsigned long long)report->done,
                (unsigned long long)pending, rc);
    ms_engine_reported(&node->engine, pending, path, rc);
    ms_sim_node_after(node);
}

void ms_sim_extras_report(struct ms_sim_node *node, uint64_t id, uint64_t done, struct ms_bytes text)
{
    later(node, "report", on_report, 800, request(node, id, done, text));
}

int ms_sim_extras_archive(struct ms_sim_node *node, uint64_t from, struct ms_bytes extras, uint64_t *count)
{
    uint64_t id = ms_sim_between(node->sim, 1, UINT64_MAX - 1);
    *count = 0;
    if (!from) return extras.size ? ms_extras_keep(&node->dir, id, extras, count) : 0;
    if (!node->log) return 0;
    struct ms_render_names names;
    ms_render_names_of(&node->store, &names);
    struct ms_extras_source source = {.dir = &node->dir,
                                      .from = from,
                                      .to = ms_log_written(node->log),
                                      .lineage = &node->store.lineage,
                                      .names = &names,
                                      .id = id,
                                      .memory = ms_sim_one_in(node->sim, 2) ? 8000 : 0};
    return ms_extras_make(&source, count);
}

/* ---- conflicts ------------------------------------------------------------------------------------------------------------------- */

static void on_conflict(struct ms_sim *sim, struct ms_sim_event *event);

void ms_sim_extras_conflict(struct ms_sim_node *node, uint64_t link, const struct ms_extra *extra)
{
    int64_t countdown = ms_sim_hush();
    struct ms_extra_waiting *made = ms_extra_keep(link, extra);
    ms_sim_unhush(countdown);
    if (!made) ms_sim_out_of_memory(node->sim);
    later(node, "conflict", on_conflict, 500, made);
}

/* An extra takes effect once with one leader, unless the entry was what both had in common again. */
static void check_once(struct ms_sim_node *node, const struct ms_extra *extra, uint32_t table, struct ms_bytes theirs)
{
    struct ms_sim *sim = node->sim;
    struct ms_sim_point place = ms_sim_book_place(sim, &node->store.lineage, node->store.applied);
    uint32_t key = ms_sim_book_key(sim, table, extra->key);
    bool untouched = extra->base_known && ms_bytes_equal(theirs, extra->base);
    for (uint32_t i = 0; i < sim->effect_count; i++) {
        const struct ms_sim_effect *known = &sim->effects[i];
        if (known->key != key || known->epoch != extra->epoch || known->lsn != extra->lsn || known->reason != extra->reason) continue;
        if (!untouched && known->life == node->life && ms_sim_book_includes(sim, node->handed, known->place))
            ms_sim_broken(sim, node->index, "an extra of %.*s took effect twice", (int)extra->key.size, (const char *)extra->key.data);
    }
    if (!ms_sim_room(sim, (void **)&sim->effects, &sim->effect_capacity, sim->effect_count + 1, sizeof *sim->effects)) return;
    sim->effects[sim->effect_count++] =
        (struct ms_sim_effect){.key = key, .life = node->life, .epoch = extra->epoch, .lsn = extra->lsn, .reason = extra->reason, .place = place};
}

static void answer(struct ms_sim_node *node, const struct ms_extra_waiting *conflict, const struct ms_extra_answer *answered)
{
    struct ms_sim *sim = node->sim;
    ms_sim_note(sim, node->index, "%s extra of %s/%.*s: %s by %s, lsn %llu, %d", conflict->link ? "an" : "its own", conflict->extra.table,
                (int)conflict->extra.key.size, (const char *)conflict->extra.key.data, ms_extra_outcome_name(answered->outcome),
                answered->by, (unsigned long long)answered->lsn, answered->err);
    sim->counts.extras_own += conflict->link == 0;
    ms_engine_resolved(&node->engine, conflict->link, &conflict->extra, answered);
    ms_engine_pump(&node->engine);
    ms_sim_node_after(node);
}

/* What is in the table of an extra is on its way to followers. */
static int flush(struct ms_sim_node *node, const struct ms_extra *extra, struct ms_extra_answer *answered)
{
    struct ms_table_state *state = ms_store_find(&node->store, ms_str(extra->table));
    int rc = 0;
    while (state && ms_buffer_entries(state) > 0 && (rc = ms_engine_flush(&node->engine, state, UINT32_MAX)) == 1) continue;
    answered->lsn = node->engine.tail.head;
    return rc < 0 ? rc : 0;
}

static int put(struct ms_sim_node *node, struct ms_extra_waiting *conflict, uint32_t table, struct ms_bytes theirs, struct ms_bytes value,
               struct ms_extra_answer *answered)
{
    int rc = ms_sim_work_put(node, table, conflict->extra.key, value, &answered->lsn, NULL);
    if (rc == MS_LOCAL) { /* outside of the view: nobody's copy but the host's */
        answered->outcome = MS_OUTCOME_THEIRS;
        answered->by = "view";
        return 0;
    }
    if (rc) return rc;
    check_once(node, &conflict->extra, table, theirs);
    answered->stands = true;
    return flush(node, &conflict->extra, answered);
}

static void decide(struct ms_sim_node *node, struct ms_extra_waiting *conflict, uint32_t table, struct ms_extra_answer *answered)
{
    const struct ms_table_state *state = ms_store_find(&node->store, ms_str(conflict->extra.table));
    struct ms_bytes key = conflict->extra.key, current = {NULL, 0};
    struct ms_resolution resolution = {0};
    struct ms_buf theirs;
    ms_buf_init(&theirs);
    ms_buf_init(&resolution.value);
    if (state) current = ms_table_get(state, key, ms_key_hash(key));
    if (current.data) {
        ms_buf_add(&theirs, current.data, current.size);
        current = ms_buf_bytes(&theirs);
    }
    if (theirs.failed) {
        answered->err = MS_E_MEMORY;
    } else {
        if (ms_engine_was_decided(&node->engine, &conflict->extra)) conflict->extra.resent = true;
        ms_extra_decide(&conflict->extra, current, node->engine.rules, &node->engine.policy, &resolution);
        struct ms_bytes chosen = ms_extra_chosen(&conflict->extra, current, &resolution);
        answered->outcome = resolution.outcome;
        answered->by = resolution.by;
        answered->theirs = current;
        if (resolution.outcome == MS_OUTCOME_VALUE) answered->value = chosen;
        if (resolution.outcome == MS_EXTRA_EQUAL) answered->err = flush(node, &conflict->extra, answered);
        else if (resolution.outcome != MS_OUTCOME_THEIRS) answered->err = put(node, conflict, table, current, chosen, answered);
    }
    answer(node, conflict, answered);
    ms_buf_close(&theirs);
    ms_buf_close(&resolution.value);
}

static void on_conflict(struct ms_sim *sim, struct ms_sim_event *event)
{
    struct ms_sim_node *node = sim->nodes[event->node];
    struct ms_extra_waiting *conflict = event->data;
    struct ms_extra_answer answered = {.by = "leader"};
    uint32_t table = ms_sim_table_find(sim, ms_str(conflict->extra.table));
    if (table == MS_SIM_TABLES_MAX) {
        ms_sim_broken(sim, node->index, "was offered an extra of a table %s that nobody made", conflict->extra.table);
        return;
    }
    if (node->engine.role == MS_ROLE_LEADER) {
        decide(node, conflict, table, &answered);
        return;
    }
    answered.err = MS_E_NOT_LEADER;
    answer(node, conflict, &answered);
}

/* ---- what is owed ------------------------------------------------------------------------------------------------------------------ */

static void owe(struct ms_sim_node *node, const struct ms_sim_record *record)
{
    struct ms_sim *sim = node->sim;
    uint32_t i = 0;
    while (i < node->owed_count && node->owed[i] != record->key) i++;
    if (record->type == MS_RECORD_LEAVE) {
        if (i < node->owed_count) node->owed[i] = node->owed[--node->owed_count];
        return;
    }
    if (i < node->owed_count || !ms_sim_room(sim, (void **)&node->owed, &node->owed_capacity, node->owed_count + 1, sizeof *node->owed)) return;
    node->owed[node->owed_count++] = record->key;
}

void ms_sim_extras_given_up(struct ms_sim_node *node, struct ms_sim_point before, uint64_t common)
{
    struct ms_sim *sim = node->sim;
    uint64_t from = common + 1;
    if (from < node->jobs.archive_first) from = node->jobs.archive_first; /* the log had no more: the report says so */
    for (uint64_t lsn = from; lsn <= before.lsn; lsn++) {
        struct ms_sim_point place = ms_sim_book_before(sim, before, lsn);
        if (place.epoch < 0) continue;
        const struct ms_sim_epoch *epoch = &sim->book.epochs[place.epoch];
        const struct ms_sim_record *record = &epoch->records[lsn - epoch->first];
        if (record->type == MS_RECORD_PUT || record->type == MS_RECORD_DELETE || record->type == MS_RECORD_LEAVE) owe(node, record);
    }
}

struct reports {
    struct ms_sim_node *node;
    struct ms_buf text;
};

static int read_report(void *context, const char *name)
{
    struct reports *reports = context;
    char path[MS_PATH_MAX];
    if (strncmp(name, "loss-", 5) != 0) return 0;
    int rc = ms_path(path, "data/archive", name);
    return rc ? rc : ms_fs_read_file(ms_sim_fs(reports->node->fs), path, SIZE_MAX, &reports->text);
}

void ms_sim_extras_check(struct ms_sim_node *node)
{
    struct ms_sim *sim = node->sim;
    struct ms_fs *fs = ms_sim_fs(node->fs);
    struct reports reports = {.node = node};
    if (node->owed_count == 0) return;
    ms_buf_init(&reports.text);
    (void)fs->ops->list(fs, "data/archive", read_report, &reports);
    ms_buf_add8(&reports.text, 0);
    for (uint32_t i = 0; i < node->owed_count && !sim->failed; i++) {
        const struct ms_sim_key *key = &sim->book.keys[node->owed[i]];
        char line[200];
        (void)snprintf(line, sizeof line, "\"table\":\"%s\",\"key\":\"%.*s\"", ms_sim_table_name(sim, key->table), (int)key->bytes.size,
                       (const char *)key->bytes.data);
        if (reports.text.failed || !strstr((const char *)reports.text.data, line))
            ms_sim_broken(sim, node->index, "gave up a change of %s, and no loss report has it", line);
    }
    ms_buf_close(&reports.text);
}
