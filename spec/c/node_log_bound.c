/* Writers that are faster than the log is trimmed: snapshots are made all the same, and the log's bound holds nobody up for good. */
#include "node_lab.h"

enum { WRITERS = 2, KEYS = 20000, VALUE = 100, BOUND = 6 << 20 };

static struct lab lab;

struct writer {
    struct ms_table *table;
    atomic_bool *stop;
    _Atomic uint64_t puts;
};

static void *write_fast(void *context)
{
    struct writer *writer = context;
    char key[16], value[VALUE] = {0};
    for (uint64_t i = 0; !atomic_load(writer->stop); i++) {
        (void)snprintf(key, sizeof key, "k%u", (unsigned)(i * 7919 % KEYS));
        memcpy(value, &i, sizeof i);
        OK(ms_put(writer->table, ms_str(key), (struct ms_bytes){value, sizeof value}, MS_NOWAIT, NULL));
        writer->puts++;
    }
    return NULL;
}

/* Threads write as fast as they can until it is enough. */
static void under_load(const struct ms_policy *policy, bool (*enough)(struct ms_node *node, const struct writer writers[WRITERS]))
{
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    atomic_bool stop = false;
    lab_open(&lab);
    struct ms_node *node = lab_leader(&lab, "a", policy, NULL);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.table = lab_table(node, "texts", MS_TYPE_BYTES), .stop = &stop};
        threads[i] = lab_thread(write_fast, &writers[i]);
    }
    while (!enough(node, writers)) usleep(500);
    atomic_store(&stop, true);
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
    ms_close(node);
    lab_close(&lab);
}

static bool ten_snapshots(struct ms_node *node, const struct writer writers[WRITERS])
{
    (void)writers;
    for (int i = 0; i < 10; i++) OK(ms_snapshot(node, 20000));
    return true;
}

static void snapshots_under_load(void)
{
    struct ms_policy policy = lab_policy();
    policy.level = MS_LEVEL_MEMORY;
    under_load(&policy, ten_snapshots);
}

/* The log was filled to its bound several times, and the bound was met. */
static bool bound_was_met(struct ms_node *node, const struct writer writers[WRITERS])
{
    uint64_t puts = 0;
    for (int i = 0; i < WRITERS; i++) puts += atomic_load(&writers[i].puts);
    return puts * VALUE > 4 * BOUND && !lab_status_has(node, "\"no_space\":0");
}

static void bound_is_waited_for(void)
{
    struct ms_policy policy = lab_policy();
    policy.level = MS_LEVEL_MEMORY;
    policy.log_segment_bytes = 1 << 20;
    policy.log_max_bytes = BOUND;
    policy.snapshot_log_bytes = UINT64_MAX; /* none before the bound is met */
    under_load(&policy, bound_was_met);
}

static const struct spec_case cases[] = {
    SPEC_CASE(snapshots_under_load, "a snapshot is made whatever is being written, ten of ten"),
    SPEC_CASE(bound_is_waited_for, "writers at the log's bound wait for the snapshot that lets it be trimmed; none is refused"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
