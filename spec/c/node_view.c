/* The view at the API: what writes of entries outside of it answer, and policies that are swapped and reviewed under writers. The rules are
 * C: keys that begin with a prefix are out. */
#include "../../core/node.h"
#include "../../core/sync/review.h"
#include "node_lab.h"

enum { WRITERS = 4, KEYS = 400, SWAPS = 60 };

struct rules {
    struct ms_rules base; /* first */
    const char *out;
    atomic_int *entered; /* if not NULL: a thread that asks counts itself in and waits for `go` */
    atomic_int *go;
};

static atomic_int rules_alive;

static int filter(struct ms_rules *base, const char *table, struct ms_bytes key)
{
    struct rules *rules = (struct rules *)base;
    (void)table;
    if (rules->entered) {
        atomic_fetch_add(rules->entered, 1);
        while (!atomic_load(rules->go)) usleep(200);
    }
    size_t size = strlen(rules->out);
    return key.size >= size && memcmp(key.data, rules->out, size) == 0 ? MS_VIEW_OUT : MS_VIEW_IN;
}

static void close_rules(struct ms_rules *base)
{
    atomic_fetch_sub(&rules_alive, 1);
    ms_release(base);
}

static struct rules *new_rules(const char *out, const struct ms_policy *policy)
{
    static const struct ms_rules_ops ops = {.filter = filter, .close = close_rules};
    struct rules *rules = ms_alloc_zero(sizeof *rules);
    CHECK(rules != NULL, "no memory");
    rules->base.ops = &ops;
    rules->base.references = 1;
    rules->base.functions = MS_RULES_FILTER;
    rules->base.policy = *policy;
    rules->out = out;
    atomic_fetch_add(&rules_alive, 1);
    return rules;
}

static struct lab lab;
static struct ms_node *node;
static struct ms_table *topics, *offsets;
static struct ms_policy policy;

/* Ours is given away. */
static void swap(struct rules *rules)
{
    ms_node_lock(node);
    struct ms_rules *old = ms_engine_set_rules(&node->engine, rules ? &rules->base : NULL, &policy);
    ms_node_unlock(node);
    ms_rules_unref(old);
    if (rules) ms_rules_unref(&rules->base);
}

static void begin_case(const char *out)
{
    policy = lab_policy();
    policy.table_count = 1;
    (void)snprintf(policy.tables[0].name, sizeof policy.tables[0].name, "offset");
    policy.tables[0].interval_ms = 10;
    policy.level = MS_LEVEL_OS;
    lab_open(&lab);
    node = lab_leader(&lab, "a", &policy, NULL);
    topics = lab_table(node, "topic", MS_TYPE_BYTES);
    offsets = lab_table(node, "offset", MS_TYPE_BYTES);
    swap(new_rules(out, &policy));
}

static void end_case(void)
{
    ms_close(node);
    CHECK(atomic_load(&rules_alive) == 0, "%d rules are left", atomic_load(&rules_alive));
    lab_close(&lab);
}

static bool has(struct ms_table *table, const char *key)
{
    size_t size;
    int rc = ms_get(table, ms_str(key), NULL, 0, &size);
    CHECK(rc == MS_E_NOT_FOUND || rc == MS_E_LIMIT || rc == 0, "%d", rc);
    return rc != MS_E_NOT_FOUND;
}

/* ---- one thread -------------------------------------------------------------------------------------------------------------- */

static int set_x(void *context, struct ms_bytes current, struct ms_bytes *value)
{
    *(bool *)context = current.data == NULL;
    *value = ms_str("x");
    return 0;
}

static void answers(void)
{
    bool none = false;
    uint64_t lsn = 0;
    begin_case("tmp");
    struct ms_table *both[] = {topics, offsets};
    uint64_t head = lab_position(node).head;
    for (int i = 0; i < 2; i++) {
        struct ms_txn *txn;
        FAILS(ms_delete(both[i], ms_str("tmp1"), 0, NULL), 0);
        FAILS(ms_put(both[i], ms_str("tmp1"), ms_str("x"), 0, &lsn), MS_LOCAL);
        FAILS(ms_put(both[i], ms_str("tmp1"), ms_str("x"), MS_NOWAIT, &lsn), MS_LOCAL);
        FAILS(ms_compute(both[i], ms_str("tmp1"), set_x, &none, 0, NULL), MS_LOCAL);
        CHECK(none, "a compute sees no value of what is outside");
        FAILS(ms_compare_and_set(both[i], ms_str("tmp1"), ms_bytes(NULL, 0), ms_str("y"), 0, NULL), MS_LOCAL);
        FAILS(ms_compare_and_set(both[i], ms_str("tmp1"), ms_str("x"), ms_str("y"), 0, NULL), MS_E_CHANGED);
        FAILS(ms_delete(both[i], ms_str("tmp1"), 0, NULL), MS_LOCAL);
        OK(ms_begin(both[i], ms_str("tmp2"), 0, &txn));
        FAILS(ms_commit(txn, ms_str("x"), 0, NULL), MS_LOCAL);
        FAILS(ms_commit(txn, ms_str("x"), 0, NULL), MS_E_INVALID);
        ms_end(txn);
        CHECK(!has(both[i], "tmp1") && !has(both[i], "tmp2"), "it is in the table");
    }
    CHECK(lab_position(node).head == head, "something was logged");
    FAILS(ms_put(topics, ms_str("keep"), ms_str("x"), 0, NULL), 0);
    FAILS(ms_put(offsets, ms_str("keep"), ms_str("x"), 0, NULL), 0);
    struct ms_write writes[] = {{topics, ms_str("tmp3"), ms_str("x")}, {topics, ms_str("a"), ms_str("1")}, {offsets, ms_str("tmp3"), ms_str("x")},
                                {offsets, ms_str("b"), ms_str("2")}};
    FAILS(ms_put_batch(node, writes, 4, 0, &lsn), 0);
    CHECK(has(topics, "a") && has(offsets, "b") && !has(topics, "tmp3") && !has(offsets, "tmp3"), "the batch");
    FAILS(ms_put_batch(node, writes, 1, 0, &lsn), MS_LOCAL);
    end_case();
}

/* ---- a slow policy -------------------------------------------------------------------------------------------------------------- */

static atomic_int asking, go;

static void *put_one(void *result)
{
    *(int *)result = ms_put(topics, ms_str("slow"), ms_str("x"), 0, NULL);
    return NULL;
}

static void *close_node(void *context)
{
    (void)context;
    ms_close(node);
    return NULL;
}

static void begin_slow(void)
{
    begin_case("tmp");
    OK(ms_put(topics, ms_str("known"), ms_str("x"), 0, NULL));
    atomic_store(&asking, 0);
    atomic_store(&go, 0);
    struct rules *slow = new_rules("slow", &policy);
    slow->entered = &asking;
    slow->go = &go;
    swap(slow);
}

static void others_go_on(void)
{
    int result = -1;
    begin_slow();
    pthread_t thread = lab_thread(put_one, &result);
    EVENTUALLY(atomic_load(&asking) == 1, 10);
    OK(ms_put(topics, ms_str("known"), ms_str("y"), 0, NULL)); /* the lock is free */
    swap(new_rules("none", &policy));                          /* the decision under way counts no more */
    atomic_store(&go, 1);
    pthread_join(thread, NULL);
    CHECK(result == 0, "%d: the new rules want it", result);
    CHECK(has(topics, "slow"), "it is not there");
    end_case();
}

static void close_waits(void)
{
    int result = -1;
    begin_slow();
    pthread_t putter = lab_thread(put_one, &result);
    EVENTUALLY(atomic_load(&asking) == 1, 10);
    pthread_t closer = lab_thread(close_node, NULL);
    usleep(20000); /* a head start for the close; the case holds whoever is first */
    atomic_store(&go, 1);
    pthread_join(putter, NULL);
    pthread_join(closer, NULL);
    CHECK(result == MS_E_CLOSED || result == MS_LOCAL, "%d", result);
    CHECK(atomic_load(&rules_alive) == 0, "%d rules are left", atomic_load(&rules_alive));
    lab_close(&lab);
}

/* ---- swaps and reviews under writers --------------------------------------------------------------------------------------------- */

static atomic_bool stop;
static atomic_int taken, outside;

static void *write_on(void *context)
{
    uint64_t state = (uint64_t)(uintptr_t)context;
    while (!atomic_load(&stop)) {
        char key[32];
        static const char *const prefixes[] = {"a", "b", "keep"};
        struct ms_table *table = spec_random(&state) % 2 ? topics : offsets;
        (void)snprintf(key, sizeof key, "%s%u", prefixes[spec_random(&state) % 3], spec_random(&state) % KEYS);
        int rc;
        if (spec_random(&state) % 8 == 0) rc = ms_delete(table, ms_str(key), MS_NOWAIT, NULL);
        else rc = ms_put(table, ms_str(key), ms_bytes(&state, sizeof state), MS_NOWAIT, NULL);
        CHECK(rc == 0 || (rc == MS_LOCAL && key[0] != 'k'), "%s: %d %s", key, rc, ms_error_message());
        atomic_fetch_add(rc ? &outside : &taken, 1);
    }
    return NULL;
}

static void review(struct ms_rules *rules)
{
    struct ms_review *made;
    int rc;
    ms_node_lock(node);
    OK(ms_review_new(&node->engine, rules, MS_REVIEW_APPLY, &made));
    ms_node_unlock(node);
    do {
        ms_node_lock(node);
        rc = ms_review_take(made, &node->engine);
        ms_node_unlock(node);
        if (rc != 1) break;
        ms_review_decide(made);
        int applied;
        do {
            ms_node_lock(node);
            applied = ms_review_apply(made, &node->engine);
            node->pump = true;
            ms_node_unlock(node);
            if (applied == MS_E_AGAIN) usleep(200);
        } while (applied == 1 || applied == MS_E_AGAIN);
        CHECK(applied == 0, "%d %s", applied, ms_error_message());
    } while (rc == 1);
    CHECK(rc == 0, "%d %s", rc, ms_error_message());
    ms_review_free(made);
}

static int is_wanted(void *context, struct ms_bytes key, struct ms_bytes value)
{
    (void)value;
    return *(const char *)key.data == *(const char *)context;
}

static void swaps(void)
{
    pthread_t threads[WRITERS];
    begin_case("a");
    struct ms_node *follower = lab_node(&lab, "b", &policy, NULL);
    lab_follow(follower, node);
    atomic_store(&stop, false);
    for (uintptr_t i = 0; i < WRITERS; i++) threads[i] = lab_thread(write_on, (void *)(i + 1));
    uint64_t deadline = spec_now_ms() + 60000;
    for (int i = 0; i < SWAPS || ((atomic_load(&taken) < 5000 || atomic_load(&outside) < 500) && spec_now_ms() < deadline); i++) {
        static const char *const outs[] = {"a", "b", NULL};
        const char *out = outs[i % 3];
        struct rules *rules = out ? new_rules(out, &policy) : NULL;
        if (rules) (void)ms_rules_ref(&rules->base);
        policy.tables[0].interval_ms = i % 4 ? 5 : 0; /* the buffer comes and goes too */
        swap(rules);
        review(rules ? &rules->base : NULL);
        if (out) { /* writers only put what is in the view now: what is out has left for good */
            CHECK(ms_walk(topics, is_wanted, (void *)(uintptr_t)out) == 0, "topics: something of %s is left", out);
            CHECK(ms_walk(offsets, is_wanted, (void *)(uintptr_t)out) == 0, "offsets: something of %s is left", out);
        }
        if (rules) ms_rules_unref(&rules->base);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
    CHECK(atomic_load(&taken) >= 5000 && atomic_load(&outside) >= 500, "%d taken, %d outside", atomic_load(&taken), atomic_load(&outside));
    uint64_t end;
    OK(ms_flush(node, NULL, &end));
    EVENTUALLY(lab_position(follower).applied >= end, 30);
    for (uint32_t id = 1; id < 3; id++) {
        const struct ms_content *mine = node->store.tables[id]->content, *theirs = follower->store.tables[id]->content;
        CHECK(mine->count == theirs->count && mine->digest == theirs->digest, "table %u differs", id);
        OK(ms_table_verify(node->store.tables[id]));
    }
    ms_close(follower);
    end_case();
}

static const struct spec_case cases[] = {
    SPEC_CASE(answers, "writes of what is outside of the view are MS_LOCAL, whichever call makes them, and leave nothing behind"),
    SPEC_CASE(others_go_on, "a slow policy holds up nobody else, and its decision does not count after another one took over"),
    SPEC_CASE(close_waits, "ms_close waits for a thread that asks the policy"),
    SPEC_CASE(swaps, "policies are swapped and reviewed under writers: what is out has left, and the follower is equal"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
