/* Transactions on keys, from many threads. */
#include "node_lab.h"

enum { THREADS = 6, ROUNDS = 300 };

static struct lab lab;
static struct ms_node *node;
static struct ms_table *numbers;

static void begin_case(int level)
{
    struct ms_policy policy = lab_policy();
    policy.level = level;
    lab_open(&lab);
    node = lab_leader(&lab, "a", &policy, NULL);
    numbers = lab_table(node, "numbers", MS_TYPE_INT64);
}

static void end_case(void)
{
    ms_close(node);
    lab_close(&lab);
}

/* ---- one key ---------------------------------------------------------------------------------------------------------- */

static int add_one(void *context, struct ms_bytes current, struct ms_bytes *value)
{
    int64_t number = 0;
    if (current.data && ms_int64_get(current, &number)) return 1;
    *value = ms_int64_put(number + 1, context);
    return 0;
}

static void add_by_transaction(const char *key, int flags)
{
    struct ms_txn *txn;
    int64_t number = 0;
    uint8_t bytes[8];
    OK(ms_begin(numbers, ms_str(key), -1, &txn));
    if (ms_txn_value(txn).data) OK(ms_int64_get(ms_txn_value(txn), &number));
    OK(ms_commit(txn, ms_int64_put(number + 1, bytes), flags, NULL));
    ms_end(txn);
}

static void add_by_comparing(const char *key, int flags)
{
    uint8_t old[8], new[8];
    for (;;) {
        size_t size = 0;
        int64_t number = 0;
        struct ms_bytes expected = {NULL, 0};
        if (ms_get(numbers, ms_str(key), old, sizeof old, &size) == 0) {
            expected = (struct ms_bytes){old, size};
            OK(ms_int64_get(expected, &number));
        }
        int rc = ms_compare_and_set(numbers, ms_str(key), expected, ms_int64_put(number + 1, new), flags, NULL);
        if (rc == 0) return;
        CHECK(rc == MS_E_CHANGED, "%d %s", rc, ms_error_message());
    }
}

static void *adder(void *context)
{
    int index = (int)(intptr_t)context;
    uint8_t bytes[8];
    for (int i = 0; i < ROUNDS; i++) {
        int flags = i % 3 ? MS_NOWAIT : 0;
        if (index % 3 == 0) OK(ms_compute(numbers, ms_str("shared"), add_one, bytes, flags, NULL));
        else if (index % 3 == 1) add_by_transaction("shared", flags);
        else add_by_comparing("shared", flags);
        if (i % 10 == 0) OK(lab_put(numbers, "other", i, flags, NULL));
    }
    return NULL;
}

static void serial(void)
{
    pthread_t threads[THREADS];
    begin_case(MS_LEVEL_OS);
    for (int i = 0; i < THREADS; i++) threads[i] = lab_thread(adder, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK(lab_number(numbers, "shared", 0) == THREADS * ROUNDS, "%lld", (long long)lab_number(numbers, "shared", 0));
    end_case();
}

/* ---- a held key ---------------------------------------------------------------------------------------------------------- */

struct attempt {
    const char *key;
    int wait_ms, rc;
    int64_t seen;
    atomic_bool started, done;
};

static void *try_key(void *context)
{
    struct attempt *attempt = context;
    struct ms_txn *txn;
    attempt->seen = -1;
    atomic_store(&attempt->started, true);
    attempt->rc = ms_begin(numbers, ms_str(attempt->key), attempt->wait_ms, &txn);
    if (attempt->rc == 0) {
        if (ms_txn_value(txn).data) OK(ms_int64_get(ms_txn_value(txn), &attempt->seen));
        ms_end(txn);
    }
    atomic_store(&attempt->done, true);
    return NULL;
}

static void others_do_not_wait(void)
{
    struct ms_txn *txn;
    struct attempt same = {.key = "k", .wait_ms = -1}, other = {.key = "l", .wait_ms = -1}, brief = {.key = "k", .wait_ms = 20};
    uint8_t bytes[8];
    begin_case(MS_LEVEL_DISK);
    OK(ms_begin(numbers, ms_str("k"), 0, &txn));
    pthread_t a = lab_thread(try_key, &same), b = lab_thread(try_key, &other), c = lab_thread(try_key, &brief);
    pthread_join(b, NULL);
    CHECK(other.rc == 0, "%d", other.rc);
    pthread_join(c, NULL);
    CHECK(brief.rc == MS_E_BUSY, "%d", brief.rc);
    CHECK(!atomic_load(&same.done), "got a key that is held");
    OK(ms_commit(txn, ms_int64_put(7, bytes), 0, NULL));
    CHECK(!atomic_load(&same.done), "got a key whose holder has not updated its own copy yet");
    ms_end(txn);
    pthread_join(a, NULL);
    CHECK(same.rc == 0 && same.seen == 7, "%d, saw %lld", same.rc, (long long)same.seen);
    end_case();
}

static void *put_held(void *context)
{
    struct attempt *attempt = context;
    atomic_store(&attempt->started, true);
    attempt->rc = lab_put(numbers, attempt->key, 2, 0, NULL);
    atomic_store(&attempt->done, true);
    return NULL;
}

static void *batch_held(void *context)
{
    struct attempt *attempt = context;
    uint8_t bytes[8];
    struct ms_write writes[] = {{numbers, ms_str("free"), ms_int64_put(3, bytes)}, {numbers, ms_str(attempt->key), ms_int64_put(3, bytes)}};
    atomic_store(&attempt->started, true);
    attempt->rc = ms_put_batch(node, writes, 2, 0, NULL);
    atomic_store(&attempt->done, true);
    return NULL;
}

static void *delete_held(void *context)
{
    struct attempt *attempt = context;
    atomic_store(&attempt->started, true);
    attempt->rc = ms_delete(numbers, ms_str(attempt->key), 0, NULL);
    atomic_store(&attempt->done, true);
    return NULL;
}

static void writes_wait_for_the_key(void)
{
    void *(*const writers[])(void *) = {put_held, batch_held, delete_held};
    begin_case(MS_LEVEL_DISK);
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        struct attempt attempt = {.key = "k"};
        struct ms_txn *txn;
        uint8_t bytes[8];
        OK(ms_begin(numbers, ms_str("k"), 0, &txn));
        pthread_t thread = lab_thread(writers[i], &attempt);
        EVENTUALLY(atomic_load(&attempt.started), 10);
        usleep(20000);
        CHECK(!atomic_load(&attempt.done), "writer %zu wrote to a key that is held", i);
        OK(ms_commit(txn, ms_int64_put(1, bytes), 0, NULL));
        CHECK(lab_number(numbers, "k", 0) == 1, "writer %zu got in between", i);
        ms_end(txn);
        pthread_join(thread, NULL);
        CHECK(attempt.rc == 0, "writer %zu: %d", i, attempt.rc);
        CHECK(lab_number(numbers, "k", -1) == (i == 0 ? 2 : i == 1 ? 3 : -1), "writer %zu", i);
    }
    end_case();
}

/* ---- nesting --------------------------------------------------------------------------------------------------------------- */

static int nested(void *context, struct ms_bytes current, struct ms_bytes *value)
{
    struct ms_txn *txn;
    uint8_t bytes[8];
    struct ms_write write = {numbers, ms_str("n"), ms_int64_put(1, bytes)};
    (void)current;
    FAILS(ms_begin(numbers, ms_str("n"), 0, &txn), MS_E_REENTRANT);
    FAILS(lab_put(numbers, "n", 1, 0, NULL), MS_E_REENTRANT);
    FAILS(lab_put(numbers, "n", 1, MS_NOWAIT, NULL), MS_E_REENTRANT);
    FAILS(ms_delete(numbers, ms_str("n"), 0, NULL), MS_E_REENTRANT);
    FAILS(ms_put_batch(node, &write, 1, 0, NULL), MS_E_REENTRANT);
    FAILS(ms_compare_and_set(numbers, ms_str("n"), (struct ms_bytes){NULL, 0}, write.value, 0, NULL), MS_E_REENTRANT);
    FAILS(ms_compute(numbers, ms_str("n"), nested, context, 0, NULL), MS_E_REENTRANT);
    CHECK(lab_number(numbers, "n", -1) == -1, "a refused write did something");
    CHECK(ms_table_count(numbers) == 0, "reading is allowed");
    *value = ms_int64_put(5, context);
    return 0;
}

static void reentrancy(void)
{
    uint8_t bytes[8];
    begin_case(MS_LEVEL_DISK);
    OK(ms_compute(numbers, ms_str("k"), nested, bytes, 0, NULL));
    CHECK(lab_number(numbers, "k", 0) == 5, "the outer one counts");
    OK(lab_put(numbers, "k", 6, 0, NULL));
    end_case();
}

/* ---- ends --------------------------------------------------------------------------------------------------------------------- */

static int refuse(void *context, struct ms_bytes current, struct ms_bytes *value)
{
    (void)current;
    *value = ms_int64_put(9, context);
    return 1;
}

static void no_commit(void)
{
    struct ms_txn *txn;
    uint8_t bytes[8];
    begin_case(MS_LEVEL_DISK);
    OK(lab_put(numbers, "k", 1, 0, NULL));
    uint64_t head = lab_position(node).head;
    OK(ms_begin(numbers, ms_str("k"), 0, &txn));
    ms_end(txn);
    ms_end(NULL);
    FAILS(ms_compute(numbers, ms_str("k"), refuse, bytes, 0, NULL), MS_E_REFUSED);
    CHECK(lab_number(numbers, "k", 0) == 1 && lab_position(node).head == head, "something was changed");
    OK(ms_begin(numbers, ms_str("k"), 0, &txn));
    OK(ms_commit(txn, ms_int64_put(2, bytes), 0, NULL));
    FAILS(ms_commit(txn, ms_int64_put(3, bytes), 0, NULL), MS_E_INVALID);
    ms_end(txn);
    CHECK(lab_number(numbers, "k", 0) == 2, "one commit per transaction");
    end_case();
}

static const struct spec_case cases[] = {
    SPEC_CASE(serial, "computes, transactions and compare-and-sets of one key from many threads are serial: no increment is lost"),
    SPEC_CASE(others_do_not_wait, "a held key makes its own callers wait, until the end and not only the commit, and nobody else"),
    SPEC_CASE(writes_wait_for_the_key, "put, batch and delete wait for a key that a transaction holds"),
    SPEC_CASE(reentrancy, "a thread inside a transaction may read, and any write of it is MS_E_REENTRANT and changes nothing"),
    SPEC_CASE(no_commit, "without a commit nothing happens, and there is one commit per transaction"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
