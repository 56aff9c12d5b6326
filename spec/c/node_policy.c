/* Policies of a running node: reloads under the load of many threads, closing in the middle of one, what is called when. */
#include "node_lab.h"

#include "../../core/node.h"

enum { WRITERS = 6, KEYS = 400 };

static struct lab lab;
static char path[128];

/* In one step, so that a reload never sees half a file. */
static void write_policy(const char *text)
{
    char other[140];
    (void)snprintf(path, sizeof path, "%s/policy.lua", lab.dir);
    (void)snprintf(other, sizeof other, "%s.new", path);
    FILE *file = fopen(other, "w");
    CHECK(file != NULL, "cannot write %s", other);
    (void)fputs(text, file);
    CHECK(fclose(file) == 0 && rename(other, path) == 0, "cannot write %s", path);
}

static struct ms_node *policy_node(const char *name, const struct ms_host *host)
{
    char dir[100];
    struct ms_policy numbers = lab_policy();
    (void)snprintf(dir, sizeof dir, "%s/%s", lab.dir, name);
    struct ms_config config = {
        .dir = dir, .cluster = "lab", .name = name, .listen = "127.0.0.1:0", .policy = &numbers, .policy_file = path, .host = host};
    struct ms_node *node = NULL;
    OK(ms_open(&config, &node));
    return node;
}

#define FUNCTIONS \
    "local seen = 0\n" \
    "function policy.flush(stats) return 0.002 end\n" \
    "function policy.on_event(event) seen = seen + 1 end\n"

static const char wide[] =
    "local policy = { name = 'wide', reload = { leave = '100%' }, tables = { offset = { buffer = { interval = '5ms' } } } }\n"
    "function policy.filter(entry) return true end\n" FUNCTIONS "return policy\n";
static const char narrow[] =
    "local policy = { name = 'narrow', reload = { leave = '100%' }, tables = { offset = { buffer = { interval = '5ms' } } } }\n"
    "function policy.filter(entry) return entry.table ~= 'topic' or #entry.key % 2 == 0 end\n" FUNCTIONS "return policy\n";

/* ---- load --------------------------------------------------------------------------------------------------------------------- */

struct load {
    struct ms_node *node;
    struct ms_table *topic, *offset;
    atomic_bool stop;
    atomic_int ready, closed;
    atomic_ullong puts;
};

static bool expected(int rc)
{
    return rc == 0 || rc == MS_LOCAL || rc == MS_E_CLOSED || rc == MS_E_NO_SPACE || rc == MS_E_UNKNOWN;
}

static void *write_many(void *context)
{
    struct load *load = context;
    uint64_t random = (uint64_t)atomic_fetch_add(&load->ready, 1) + 1;
    while (!atomic_load(&load->stop)) {
        char key[32];
        uint32_t r = spec_random(&random);
        (void)snprintf(key, sizeof key, "%u", r % KEYS);
        int rc = r & 1024 ? ms_put(load->topic, ms_str(key), ms_str("value"), r & 2048 ? MS_NOWAIT : 0, NULL)
                          : lab_put(load->offset, key, r, 0, NULL);
        CHECK(expected(rc), "%d %s", rc, ms_error_message());
        if (rc == MS_E_CLOSED) {
            atomic_fetch_add(&load->closed, 1);
            break;
        }
        atomic_fetch_add(&load->puts, 1);
    }
    return NULL;
}

static void start_load(struct load *load, struct ms_node *node, pthread_t threads[WRITERS])
{
    load->node = node;
    load->topic = lab_table(node, "topic", MS_TYPE_BYTES);
    load->offset = lab_table(node, "offset", MS_TYPE_INT64);
    for (int i = 0; i < WRITERS; i++) threads[i] = lab_thread(write_many, load);
    EVENTUALLY(atomic_load(&load->puts) > 100, 30);
}

static void end_load(struct load *load, pthread_t threads[WRITERS])
{
    atomic_store(&load->stop, true);
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
}

struct same {
    struct ms_table *other;
    uint64_t count;
};

static int compare_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct same *same = context;
    char there[64];
    size_t size = 0;
    OK(ms_get(same->other, key, there, sizeof there, &size));
    CHECK(size == value.size && memcmp(there, value.data, size) == 0, "%.*s differs", (int)key.size, (const char *)key.data);
    same->count++;
    return 0;
}

static void compare_tables(struct ms_node *a, struct ms_node *b, const char *name, int type)
{
    struct same same = {.other = lab_table(b, name, type)};
    struct ms_table *here = lab_table(a, name, type);
    OK(ms_walk(here, compare_entry, &same));
    CHECK(same.count == ms_table_count(same.other), "%s: %llu and %llu entries", name, (unsigned long long)same.count,
          (unsigned long long)ms_table_count(same.other));
}

static void reloads_under_load(void)
{
    pthread_t threads[WRITERS];
    struct load load = {.stop = false};
    lab_open(&lab);
    write_policy(wide);
    struct ms_node *node = policy_node("a", NULL), *follower = policy_node("b", NULL);
    OK(ms_lead(node, NULL, 0, 20000));
    lab_follow(follower, node);
    start_load(&load, node, threads);
    for (int i = 0; i < 30; i++) {
        write_policy(i % 2 ? wide : narrow);
        OK(ms_policy_reload(i % 3 ? node : follower, NULL, i % 5 ? 0 : MS_POLICY_FORCE, NULL));
        uint64_t before = atomic_load(&load.puts);
        EVENTUALLY(atomic_load(&load.puts) > before + 20, 20);
    }
    write_policy(narrow);
    OK(ms_policy_reload(node, NULL, 0, NULL));
    end_load(&load, threads);
    EVENTUALLY(lab_status_has(node, "\"running\":false"), 20);
    OK(ms_flush(node, NULL, NULL));
    EVENTUALLY(lab_position(follower).applied == lab_position(node).head, 20);
    compare_tables(node, follower, "topic", MS_TYPE_BYTES);
    compare_tables(node, follower, "offset", MS_TYPE_INT64);
    CHECK(lab_status_has(follower, "\"connects\":1,"), "the follower has reconnected");
    uint64_t topics = ms_table_count(load.topic);
    CHECK(topics > 0 && topics < KEYS, "%llu topics: only those of even length", (unsigned long long)topics);
    ms_close(follower);
    ms_close(node);
    lab_close(&lab);
}

/* ---- closing in the middle ---------------------------------------------------------------------------------------------------------- */

static void *reload_many(void *context)
{
    struct load *load = context;
    int rc = 0;
    for (int i = 0; rc != MS_E_CLOSED; i++) {
        rc = ms_policy_reload(load->node, NULL, 0, NULL);
        CHECK(rc == 0 || rc == MS_E_CLOSED || rc == MS_E_BUSY, "%d %s", rc, ms_error_message());
        if (i % 7 == 0 && rc == 0) (void)ms_policy_rollback(load->node, NULL);
        if (i == 2) atomic_fetch_add(&load->ready, 1);
    }
    return NULL;
}

static void close_in_the_middle(void)
{
    for (int round = 0; round < 8; round++) {
        pthread_t threads[WRITERS], reloaders[2];
        struct load load = {.stop = false};
        lab_open(&lab);
        write_policy(round % 2 ? wide : narrow);
        struct ms_node *node = policy_node("a", NULL);
        OK(ms_lead(node, NULL, 0, 20000));
        start_load(&load, node, threads);
        for (int i = 0; i < 2; i++) reloaders[i] = lab_thread(reload_many, &load);
        EVENTUALLY(atomic_load(&load.ready) == WRITERS + 2, 30);
        /* No call may start once ms_close has begun, so the writers end first; the reloads that are inside are ended by it. */
        end_load(&load, threads);
        ms_node_lock(node);
        node->closing = true;
        ms_node_unlock(node);
        for (int i = 0; i < 2; i++) pthread_join(reloaders[i], NULL);
        ms_close(node);
        lab_close(&lab);
    }
}

static void *reload_once(void *context)
{
    struct load *load = context;
    atomic_fetch_add(&load->ready, 1);
    load->closed = ms_policy_reload(load->node, NULL, 0, NULL);
    return NULL;
}

/* The call is inside when ms_close begins: its filter keeps it busy with 20,000 entries. */
static void close_waits_for_a_reload(void)
{
    struct load load = {.stop = false};
    char key[32];
    lab_open(&lab);
    write_policy("return { name = 'all' }\n");
    struct ms_node *node = policy_node("a", NULL);
    OK(ms_lead(node, NULL, 0, 20000));
    load.node = node;
    load.topic = lab_table(node, "topic", MS_TYPE_BYTES);
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        OK(ms_put(load.topic, ms_str(key), ms_str("v"), MS_NOWAIT, NULL));
    }
    write_policy("return { name = 'slow', filter = function(entry) for i = 1, 2000 do local x = i * i end return true end }\n");
    pthread_t thread = lab_thread(reload_once, &load);
    EVENTUALLY(lab_status_has(node, "\"changing\":true"), 10);
    ms_close(node);
    pthread_join(thread, NULL);
    CHECK(load.closed == MS_E_CLOSED || load.closed == 0, "%d", load.closed);
    lab_close(&lab);
}

/* ---- jobs --------------------------------------------------------------------------------------------------------------------------------- */

struct job {
    atomic_int ran, after_close;
    pthread_t thread;
};

static void run_job(struct ms_node *node, void *context)
{
    struct job *job = context;
    job->thread = pthread_self();
    ms_node_lock(node);
    if (node->closing) atomic_fetch_add(&job->after_close, 1);
    ms_node_unlock(node);
    atomic_fetch_add(&job->ran, 1);
}

static void every_job_runs_once(void)
{
    struct job job = {.ran = 0};
    lab_open(&lab);
    struct ms_node *node = lab_leader(&lab, "a", NULL, NULL); /* without a policy: the thread is made for it */
    ms_node_lock(node);
    OK(ms_policy_job(node, run_job, &job));
    ms_node_unlock(node);
    EVENTUALLY(atomic_load(&job.ran) == 1, 10);
    CHECK(!pthread_equal(job.thread, pthread_self()), "ran on the caller's thread");
    ms_node_lock(node);
    for (int i = 0; i < 100; i++) OK(ms_policy_job(node, run_job, &job));
    ms_node_unlock(node);
    ms_close(node);
    CHECK(atomic_load(&job.ran) == 101, "%d of 101 ran", atomic_load(&job.ran));
    lab_close(&lab);
}

/* ---- what the host hears --------------------------------------------------------------------------------------------------------------------- */

struct heard {
    atomic_int entered, others;
    atomic_bool in_callback;
    struct ms_node *node;
};

static void on_entered(void *context, const char *table, struct ms_bytes key)
{
    struct heard *heard = context;
    bool right = strcmp(table, "topic") == 0 && key.size > 2 && memcmp(key.data, "o\0", 2) == 0;
    atomic_fetch_add(right ? &heard->entered : &heard->others, 1);
    if (ms_policy_reload(heard->node, NULL, 0, NULL) == MS_E_CALLBACK) atomic_store(&heard->in_callback, true);
}

static void entered_is_told(void)
{
    struct heard heard = {.entered = 0};
    struct ms_host host = {.context = &heard, .entered = on_entered};
    char key[32];
    lab_open(&lab);
    write_policy("return { name = 'in', filter = function(entry) return entry.key ~= 'o' end }\n");
    struct ms_node *node = policy_node("a", &host);
    heard.node = node;
    OK(ms_lead(node, NULL, 0, 20000));
    struct ms_table *topic = lab_table(node, "topic", MS_TYPE_BYTES);
    for (int i = 0; i < 3000; i++) { /* key and field: o NUL number */
        int size = snprintf(key, sizeof key, "o%c%d", 0, i);
        int rc = ms_put(topic, (struct ms_bytes){key, (size_t)size}, ms_str("v"), 0, NULL);
        CHECK(rc == MS_LOCAL, "%d", rc);
    }
    CHECK(ms_table_count(topic) == 0, "out of the view");
    write_policy("return { name = 'all' }\n");
    OK(ms_policy_reload(node, NULL, 0, NULL));
    EVENTUALLY(atomic_load(&heard.entered) == 3000, 20);
    CHECK(atomic_load(&heard.others) == 0 && atomic_load(&heard.in_callback), "%d others", atomic_load(&heard.others));
    OK(ms_policy_rollback(node, NULL));
    OK(ms_policy_reload(node, NULL, 0, NULL));
    EVENTUALLY(lab_status_has(node, "\"running\":false"), 20);
    CHECK(atomic_load(&heard.entered) == 3000, "told twice: %d", atomic_load(&heard.entered));
    ms_close(node);
    lab_close(&lab);
}

static void another_reload_meanwhile_is_busy(void)
{
    lab_open(&lab);
    write_policy(wide);
    struct ms_node *node = policy_node("a", NULL);
    ms_node_lock(node);
    node->rules.changing = true;
    ms_node_unlock(node);
    FAILS(ms_policy_reload(node, NULL, 0, NULL), MS_E_BUSY);
    FAILS(ms_policy_rollback(node, NULL), MS_E_BUSY);
    ms_node_lock(node);
    node->rules.changing = false;
    ms_node_unlock(node);
    OK(ms_policy_reload(node, NULL, 0, NULL));
    ms_close(node);
    lab_close(&lab);
}

static const struct spec_case cases[] = {
    SPEC_CASE(reloads_under_load, "many threads put while policies come and go; the follower stays connected and equal"),
    SPEC_CASE(close_in_the_middle, "a node closes while policies are reloaded and rolled back"),
    SPEC_CASE(close_waits_for_a_reload, "ms_close waits for a reload that is inside, and cuts it short"),
    SPEC_CASE(every_job_runs_once, "what is handed to the policy thread runs once, also when the node closes"),
    SPEC_CASE(entered_is_told, "the host hears of every entry that a reload wants, once, and may not reload from there"),
    SPEC_CASE(another_reload_meanwhile_is_busy, "two changes of the policy do not overlap"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
