/* Looks ahead without the lock at tables that are filled, emptied, swapped by a bootstrap and freed meanwhile. They change nothing and must
 * survive everything. */
#include "cases.h"

#include <pthread.h>
#include <stdatomic.h>

#include "../../core/base/error.h"
#include "../../core/base/mem.h"
#include "../../core/state/store.h"

#define OK(call) do { int ok_rc = (call); CHECK(ok_rc == 0, "%d %s", ok_rc, ms_fail_message(ok_rc)); } while (0)

enum { LOOKERS = 2, ROUNDS = 12, KEYS = 40000, KEYS_TSAN = 3000 };

#ifdef __SANITIZE_THREAD__
enum { KEYS_NOW = KEYS_TSAN };
#else
enum { KEYS_NOW = KEYS };
#endif

static struct ms_table_state *table;
static atomic_bool stop;
static _Atomic uint64_t looks;

static void *look(void *context)
{
    uint64_t random = (uint64_t)(uintptr_t)context, count = 0;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        ms_table_look_ahead(table, ms_mix(spec_random(&random)));
        count++;
    }
    atomic_fetch_add(&looks, count);
    return NULL;
}

static struct ms_bytes key_of(char text[32], int number)
{
    return ms_bytes(text, (size_t)snprintf(text, 32, "key-%d", number));
}

static void fill(struct ms_table_state *into, int keys, size_t size)
{
    static char value[4096];
    char text[32];
    for (int i = 0; i < keys; i++) {
        struct ms_bytes key = key_of(text, i);
        OK(ms_table_fold(into, key, ms_key_hash(key), ms_bytes(value, size)));
    }
}

static void empty(struct ms_table_state *from, int keys)
{
    char text[32];
    for (int i = 0; i < keys; i++) {
        struct ms_bytes key = key_of(text, i);
        OK(ms_table_fold(from, key, ms_key_hash(key), ms_bytes(NULL, 0)));
    }
}

static void looks_survive(void)
{
    struct ms_store store;
    pthread_t threads[LOOKERS];
    OK(ms_store_init(&store));
    OK(ms_store_define(&store, 1, MS_TYPE_BYTES, ms_str("topic")));
    table = ms_store_table(&store, 1);
    for (uintptr_t i = 0; i < LOOKERS; i++) CHECK(pthread_create(&threads[i], NULL, look, (void *)(i + 1)) == 0, "no thread");
    for (int round = 0; round < ROUNDS; round++) {
        struct ms_store other;
        fill(table, KEYS_NOW >> (round % 4), 20 + (size_t)round * 40);
        if (round % 3 == 1) empty(table, KEYS_NOW);
        OK(ms_store_init(&other));
        OK(ms_store_define(&other, 1, MS_TYPE_BYTES, ms_str("topic")));
        fill(ms_store_table(&other, 1), KEYS_NOW >> ((round + 2) % 4), 100);
        OK(ms_store_take(&store, &other));
        ms_store_close(&other); /* what the lookers may be looking at */
        OK(ms_table_verify(table));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < LOOKERS; i++) CHECK(pthread_join(threads[i], NULL) == 0, "join");
    CHECK(atomic_load(&looks) > 1000, "%llu", (unsigned long long)atomic_load(&looks));
    ms_store_close(&store);
    CHECK(ms_mem_live() == 0, "%lld blocks", (long long)ms_mem_live());
}

static const struct spec_case cases[] = {
    SPEC_CASE(looks_survive, "looking ahead survives growth, deletes, a bootstrap's swap and the end of what was looked at"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
