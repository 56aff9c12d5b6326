/* Everything at once, for the sanitizers: writers of every kind, readers, walkers, operators, a follower with a host, and roles that
 * change, for a while. Afterwards the tables of both nodes are equal. */
#include "node_lab.h"

enum { KEYS = 200, WRITERS = 4 };

static struct lab lab;
static struct ms_node *leader, *follower;
static struct ms_table *numbers, *texts, *hot, *copy_of_numbers;
static atomic_bool stop;
static atomic_llong writes, reads;

static bool may_fail(int rc)
{
    return rc == 0 || rc == MS_E_NO_SPACE || rc == MS_E_CHANGED || rc == MS_E_BUSY || rc == MS_E_NOT_FOUND || rc == MS_E_REFUSED;
}

static int add_one(void *context, struct ms_bytes current, struct ms_bytes *value)
{
    int64_t number = 0;
    if (current.data && ms_int64_get(current, &number)) return 1;
    *value = ms_int64_put(number + 1, context);
    return 0;
}

static int write_something(uint64_t *seed)
{
    char key[32], text[300];
    uint8_t bytes[8], more[8];
    uint32_t chance = spec_random(seed);
    int flags = chance & 64 ? MS_NOWAIT : 0;
    (void)snprintf(key, sizeof key, "key%u", spec_random(seed) % KEYS);
    (void)snprintf(text, sizeof text, "%0*u", (int)(chance % 250) + 1, chance);
    struct ms_write batch[] = {{numbers, ms_str(key), ms_int64_put(chance, bytes)}, {texts, ms_str(key), ms_str(text)},
                               {hot, ms_str(key), ms_int64_put(chance, more)}};
    switch (chance % 8) {
    case 0: return ms_compute(numbers, ms_str(key), add_one, bytes, flags, NULL);
    case 1: return ms_put_batch(leader, batch, 3, flags, NULL);
    case 2: return ms_delete(chance & 128 ? texts : hot, ms_str(key), flags, NULL);
    case 3: return ms_compare_and_set(texts, ms_str(key), (struct ms_bytes){NULL, 0}, ms_str(text), flags, NULL);
    case 4: return ms_put(texts, ms_str(key), ms_str(text), flags, NULL);
    default: return ms_put(hot, ms_str(key), batch[2].value, flags, NULL);
    }
}

static void *writer(void *context)
{
    uint64_t seed = (uint64_t)(uintptr_t)context;
    while (!atomic_load(&stop)) {
        int rc = write_something(&seed);
        CHECK(may_fail(rc), "%d %s", rc, ms_error_message());
        atomic_fetch_add(&writes, 1);
    }
    return NULL;
}

static int see(void *context, struct ms_bytes key, struct ms_bytes value)
{
    (void)context;
    (void)value;
    return key.size < 4;
}

static void *reader(void *context)
{
    struct ms_node *nodes[] = {leader, follower};
    struct ms_position position;
    size_t size;
    char room[512], *status;
    uint64_t seed = (uint64_t)(uintptr_t)context;
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "key%u", spec_random(&seed) % KEYS);
        CHECK(may_fail(ms_get(texts, ms_str(key), room, sizeof room, &size)), "get");
        CHECK(may_fail(ms_get(copy_of_numbers, ms_str(key), room, sizeof room, &size)), "get on the follower");
        OK(ms_position(nodes[i % 2], &position));
        if (i % 50 == 0) OK(ms_walk(i % 100 ? texts : copy_of_numbers, see, NULL));
        if (i % 100 == 0) {
            OK(ms_status(nodes[i / 100 % 2], &status));
            ms_free(status);
        }
        atomic_fetch_add(&reads, 1);
    }
    return NULL;
}

static void *operator(void *context)
{
    (void)context;
    for (int i = 0; !atomic_load(&stop); i++) {
        int rc = ms_snapshot(i % 2 ? leader : follower, 20000);
        CHECK(rc == 0 || rc == MS_E_IO || rc == MS_E_DAMAGED, "%d %s", rc, ms_error_message());
        OK(ms_flush(leader, i % 3 ? hot : NULL, NULL));
        OK(ms_wait(leader, lab_position(leader).head, MS_LEVEL_DISK, 20000));
        usleep(5000);
    }
    return NULL;
}

static atomic_llong applied;

static int apply(void *context, const struct ms_batch *batch)
{
    (void)context;
    atomic_fetch_add(&applied, (long long)batch->count);
    return atomic_load(&applied) % 997 == 0; /* fails now and then */
}

static int compare(void *context, struct ms_bytes key, struct ms_bytes value)
{
    struct ms_table *other = context;
    char room[512];
    size_t size = 0;
    OK(ms_get(other, key, room, sizeof room, &size));
    CHECK(size == value.size && memcmp(room, value.data, size) == 0, "a value differs");
    return 0;
}

static void open_both(void)
{
    static struct ms_host host = {.apply = apply};
    struct ms_policy policy = lab_policy();
    policy.snapshot_log_bytes = 512 << 10;
    policy.log_max_bytes = 8 << 20;
    policy.retain_bytes = 64 << 10;
    policy.host_queue_bytes = 32 << 10;
    policy.table_count = 2;
    (void)snprintf(policy.tables[0].name, sizeof policy.tables[0].name, "hot");
    policy.tables[0].interval_ms = 5;
    (void)snprintf(policy.tables[1].name, sizeof policy.tables[1].name, "texts");
    policy.tables[1].level = MS_LEVEL_OS;
    leader = lab_leader(&lab, "a", &policy, NULL);
    follower = lab_node(&lab, "b", &policy, &host);
    numbers = lab_table(leader, "numbers", MS_TYPE_INT64);
    texts = lab_table(leader, "texts", MS_TYPE_BYTES);
    hot = lab_table(leader, "hot", MS_TYPE_INT64);
    lab_follow(follower, leader);
    copy_of_numbers = lab_table(follower, "numbers", MS_TYPE_INT64);
}

static void all_at_once(void)
{
    pthread_t threads[WRITERS + 3];
    int count = 0;
    lab_open(&lab);
    open_both();
    atomic_store(&stop, false);
    for (int i = 0; i < WRITERS; i++) threads[count++] = lab_thread(writer, (void *)(uintptr_t)(i + 1));
    threads[count++] = lab_thread(reader, (void *)100);
    threads[count++] = lab_thread(reader, (void *)101);
    threads[count++] = lab_thread(operator, NULL);
    /* Meanwhile the follower is sent away and comes back. */
    for (int i = 0; i < 8; i++) {
        usleep(200000);
        OK(ms_follow(follower, "127.0.0.1:1"));
        usleep(20000);
        lab_follow(follower, leader);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    OK(ms_flush(leader, NULL, NULL));
    uint64_t head = lab_position(leader).head;
    EVENTUALLY(lab_position(follower).applied >= head && lab_position(follower).host_applied >= head, 60);
    struct ms_table *ours[] = {numbers, texts, hot};
    for (int i = 0; i < 3; i++) {
        struct ms_table *copy = lab_table(follower, ms_table_name(ours[i]), ms_table_type(ours[i]));
        CHECK(ms_table_count(copy) == ms_table_count(ours[i]), "table %d", i);
        OK(ms_walk(ours[i], compare, copy));
    }
    CHECK(atomic_load(&writes) > 100 && atomic_load(&reads) > 100, "nothing was done");
    ms_close(leader);
    ms_close(follower);
    lab_close(&lab);
}

static const struct spec_case cases[] = {
    SPEC_CASE(all_at_once, "with every call in use on many threads nothing breaks, and the follower is equal in the end"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
