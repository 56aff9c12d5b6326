/* Reads the keys of a table without the lock, while others change it under theirs. */
#include "cases.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "../../core/base/error.h"
#include "../../core/base/mem.h"
#include "../../core/state/buffer.h"
#include "../../core/state/store.h"

#define OK(call) do { int ok_rc = (call); CHECK(ok_rc == 0, "%d %s", ok_rc, ms_fail_message(ok_rc)); } while (0)

enum { WRITERS = 2, PASSES = 6, STEPS = 8 /* between begin and end */ };

enum { STAY = 3000, MOVING = 6000 };
enum { LINGER_EVERY = 16, LINGER_CHANGES = 32 }; /* the reader stays at one entry of so many until others have made so many changes */

static struct ms_store store;
static struct ms_table_state *table;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool stop, writing;
static _Atomic uint64_t changes;
static uint8_t met[STAY];

/* A key says of itself whether it is whole: "stay-N." or "move-N.", and N times 7 behind it. */
static struct ms_bytes key_of(char text[48], const char *kind, uint32_t number)
{
    return ms_bytes(text, (size_t)snprintf(text, 48, "%s-%u.%u", kind, number, number * 7));
}

static void change(struct ms_bytes key, struct ms_bytes value, bool buffered)
{
    uint64_t hash = ms_key_hash(key);
    if (buffered) {
        struct ms_spot spot = ms_table_find(table, key, hash);
        OK(ms_buffer_put(table, &spot, key, value));
    } else {
        OK(ms_table_fold(table, key, hash, value));
    }
}

static void flush(void)
{
    struct ms_bytes key, value;
    uint64_t hash;
    ms_buffer_swap(table);
    for (int i = 0; i < 200 && ms_buffer_next(table, &key, &hash, &value); i++) ms_buffer_done(table);
}

/* Entries come and go, those that stay get values of other sizes, some of which are blocks of their own, and shards grow. */
static void *write_on(void *context)
{
    static const char value[4096];
    uint64_t random = (uint64_t)(uintptr_t)context;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        char text[48];
        uint32_t dice = spec_random(&random) % 100;
        size_t size = spec_random(&random) % 50 ? spec_random(&random) % 200 : 3000;
        (void)pthread_mutex_lock(&lock);
        if (dice < 20) change(key_of(text, "stay", spec_random(&random) % STAY), ms_bytes(value, size), dice % 2);
        else if (dice < 60) change(key_of(text, "move", spec_random(&random) % MOVING), ms_bytes(value, size), dice % 2);
        else if (dice < 99) change(key_of(text, "move", spec_random(&random) % MOVING), ms_bytes(NULL, 0), dice % 2);
        else flush();
        (void)pthread_mutex_unlock(&lock);
        atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
    }
    return NULL;
}

static void linger(void)
{
    uint64_t before = atomic_load(&changes);
    while (atomic_load(&changes) < before + LINGER_CHANGES) (void)sched_yield();
}

static int meet(void *context, struct ms_bytes key)
{
    uint64_t *count = context;
    char text[48];
    unsigned number, check;
    CHECK(key.size < sizeof text, "a key of %zu bytes", key.size);
    memcpy(text, key.data, key.size);
    text[key.size] = 0;
    bool stays = sscanf(text, "stay-%u.%u", &number, &check) == 2;
    CHECK(stays || sscanf(text, "move-%u.%u", &number, &check) == 2, "key '%s'", text);
    CHECK(check == number * 7, "key '%s'", text);
    if (stays) met[number]++;
    if (++*count % LINGER_EVERY == 0 && atomic_load(&writing)) linger();
    return 0;
}

/* One look at everything, a few steps for each time that the lock is taken. */
static uint64_t read_all(void)
{
    uint64_t count = 0;
    for (struct ms_table_place place = {0}; place.shard < MS_TABLE_SHARDS;) {
        (void)pthread_mutex_lock(&lock);
        struct ms_content *content = ms_table_read_begin(table);
        (void)pthread_mutex_unlock(&lock);
        for (int i = 0; i < STEPS && place.shard < MS_TABLE_SHARDS; i++) CHECK(ms_content_read(content, &place, meet, &count) == 0, "stopped");
        ms_table_read_end(content);
    }
    return count;
}

static void fill(struct ms_table_state *into, const char *kind, uint32_t keys)
{
    char text[48];
    for (uint32_t i = 0; i < keys; i++) {
        struct ms_bytes key = key_of(text, kind, i);
        OK(ms_table_fold(into, key, ms_key_hash(key), ms_str("value")));
    }
}

static void begin(void)
{
    OK(ms_store_init(&store));
    OK(ms_store_define(&store, 1, MS_TYPE_BYTES, ms_str("topic")));
    table = ms_store_table(&store, 1);
    fill(table, "stay", STAY);
}

static void end(void)
{
    OK(ms_table_verify(table));
    ms_store_close(&store);
    CHECK(ms_mem_live() == 0, "%lld blocks", (long long)ms_mem_live());
}

static void meets_all_that_stay(void)
{
    pthread_t threads[WRITERS];
    begin();
    for (uintptr_t i = 0; i < WRITERS; i++) CHECK(pthread_create(&threads[i], NULL, write_on, (void *)(i + 1)) == 0, "no thread");
    atomic_store(&writing, true);
    for (int pass = 0; pass < PASSES; pass++) {
        memset(met, 0, sizeof met);
        uint64_t count = read_all();
        for (uint32_t i = 0; i < STAY; i++) CHECK(met[i] == 1, "pass %d met stay-%u %d times", pass, i, met[i]);
        CHECK(count >= STAY, "%llu", (unsigned long long)count);
    }
    atomic_store(&writing, false);
    atomic_store(&stop, true);
    for (int i = 0; i < WRITERS; i++) CHECK(pthread_join(threads[i], NULL) == 0, "join");
    end();
}

/* ---- a bootstrap meanwhile ----------------------------------------------------------------------------------------------- */

static void *close_it(void *context)
{
    ms_store_close(context);
    atomic_store(&stop, true);
    return NULL;
}

static void outlives_a_swap(void)
{
    struct ms_store other;
    struct ms_table_place place = {0};
    pthread_t closer;
    uint64_t count = 0;
    begin();
    OK(ms_store_init(&other));
    OK(ms_store_define(&other, 1, MS_TYPE_BYTES, ms_str("topic")));
    fill(ms_store_table(&other, 1), "move", 100);
    atomic_store(&stop, false);
    memset(met, 0, sizeof met);
    struct ms_content *content = ms_table_read_begin(table);
    OK(ms_store_take(&store, &other));
    CHECK(pthread_create(&closer, NULL, close_it, &other) == 0, "no thread");
    while (place.shard < MS_TABLE_SHARDS) CHECK(ms_content_read(content, &place, meet, &count) == 0, "stopped");
    CHECK(!atomic_load(&stop), "what is read was freed");
    ms_table_read_end(content);
    CHECK(pthread_join(closer, NULL) == 0, "join");
    CHECK(count == STAY, "%llu", (unsigned long long)count);
    end();
}

static const struct spec_case cases[] = {
    SPEC_CASE(meets_all_that_stay, "a reader without the lock meets each entry that stays once, and only whole keys, whatever writers do"),
    SPEC_CASE(outlives_a_swap, "what is read stays until its reader has ended, also when a bootstrap replaces it"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
