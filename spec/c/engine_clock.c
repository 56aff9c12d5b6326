/* The engine's timers over a clock that the spec turns by hand: CASES D10 (libevent#872, #1080, #1473: a period that doubles, a wall
 * clock that jumps, a loop that was blocked). The engine knows one monotonic clock and re-arms from planned times. */
#include "../../core/base/error.h"
#include "../../core/sync/engine.h"
#include "cases.h"

enum { SECOND = 1000000 };

struct world {
    struct ms_io io; /* first */
    struct ms_engine engine;
    struct ms_store store;
    uint64_t now, real, wake;
    uint64_t written, synced; /* asked for, not yet reported */
};

static struct world *world_of(struct ms_io *io) { return (struct world *)(void *)io; }
static uint64_t now(struct ms_io *io) { return world_of(io)->now; }
static uint64_t real_time(struct ms_io *io) { return world_of(io)->real; }
static void random_bytes(struct ms_io *io, void *data, size_t size) { (void)io; memset(data, 7, size); }
static void wake_at(struct ms_io *io, uint64_t at) { if (at < world_of(io)->wake) world_of(io)->wake = at; }
static void log_write(struct ms_io *io, struct ms_block *block) { world_of(io)->written = block->last; }
static void log_sync(struct ms_io *io) { world_of(io)->synced = world_of(io)->written; }
static void nothing(struct ms_io *io) { (void)io; }
static void trim(struct ms_io *io, uint64_t pin, uint64_t keep) { (void)io; (void)pin; (void)keep; }
static void role(struct ms_io *io, int is, const char *reason) { (void)io; (void)is; (void)reason; }
static void line(struct ms_io *io, int severity, const char *text) { (void)io; (void)severity; (void)text; }

static const struct ms_io_ops ops = {
    .now = now, .real_time = real_time, .random = random_bytes, .wake_at = wake_at, .log_write = log_write, .log_sync = log_sync,
    .log_reserve = nothing, .log_trim = trim, .snapshot_make = nothing, .changed = nothing, .role = role, .log_line = line,
};

/* What the disk was asked for is done at once. */
static void settle(struct world *w)
{
    ms_engine_pump(&w->engine);
    while (w->written > w->engine.written || w->synced > w->engine.synced) {
        if (w->written > w->engine.written) ms_engine_written(&w->engine, w->written, 0);
        if (w->synced > w->engine.synced) ms_engine_synced(&w->engine, w->synced, 0);
    }
}

/* Turns the clock to `until`, with a tick whenever one is due. */
static void turn(struct world *w, uint64_t until)
{
    while (w->wake <= until) {
        if (w->wake > w->now) w->now = w->wake;
        w->wake = UINT64_MAX;
        ms_engine_tick(&w->engine);
        settle(w);
    }
    w->now = until;
}

static struct ms_table_state *leader(struct world *w)
{
    struct ms_policy policy;
    struct ms_table_state *table = NULL;
    ms_policy_init(&policy);
    policy.table_count = 1;
    snprintf(policy.tables[0].name, sizeof policy.tables[0].name, "offset");
    policy.tables[0].interval_ms = 1000;
    policy.mark_every_ms = 3600000;
    struct ms_engine_config config = {.cluster = "c", .name = "n", .node_id = 1, .policy = &policy, .log_room = 1 << 30};
    memset(w, 0, sizeof *w);
    w->io.ops = &ops;
    w->now = 5 * SECOND;
    w->real = 1700000000000000u;
    w->wake = UINT64_MAX;
    CHECK(ms_store_init(&w->store) == 0, "%s", ms_error_message());
    CHECK(ms_engine_init(&w->engine, &w->io, &w->store, &config) == 0, "%s", ms_error_message());
    CHECK(ms_engine_lead(&w->engine, NULL, 0, 0) == 0, "%s", ms_error_message());
    settle(w);
    CHECK(w->engine.role == MS_ROLE_LEADER, "role %s: %s", ms_role_name(w->engine.role), w->engine.reason);
    CHECK(ms_engine_table(&w->engine, "offset", MS_TYPE_INT64, &table) == 0, "%s", ms_error_message());
    settle(w);
    return table;
}

static void end(struct world *w)
{
    ms_engine_close(&w->engine);
    ms_store_close(&w->store);
}

static void put(struct world *w, struct ms_table_state *table, uint64_t number)
{
    uint64_t lsn;
    int level;
    struct ms_bytes key = ms_str("t@g");
    struct ms_engine_write write = ms_engine_write(table, key, ms_key_hash(key), ms_bytes(&number, sizeof number));
    int rc = ms_engine_commit(&w->engine, &write, &lsn, &level);
    CHECK(rc == 0, "%s", ms_error_message());
    settle(w);
}

/* The moment of each flush, seen as the head moving; puts come every 10 ms. */
static void watch(struct world *w, struct ms_table_state *table, uint64_t for_us, uint64_t *flushes, uint64_t *shortest, uint64_t *longest)
{
    uint64_t stop = w->now + for_us, last = 0, head = w->engine.tail.head;
    *flushes = *longest = 0;
    *shortest = UINT64_MAX;
    for (uint64_t n = 1; w->now < stop; n++) {
        put(w, table, n);
        turn(w, w->now + 10000);
        if (w->engine.tail.head == head) continue;
        head = w->engine.tail.head;
        if (last && w->now - last < *shortest) *shortest = w->now - last;
        if (last && w->now - last > *longest) *longest = w->now - last;
        last = w->now;
        ++*flushes;
    }
}

static void period(void)
{
    struct world w;
    struct ms_table_state *table = leader(&w);
    uint64_t flushes, shortest, longest;
    for (int i = 0; i < 4; i++) {
        static const int64_t jumps[] = {0, -3600, 3600, 86400};
        w.real += (uint64_t)(jumps[i] * SECOND);
        watch(&w, table, 30 * SECOND, &flushes, &shortest, &longest);
        CHECK(flushes >= 29 && flushes <= 31, "%llu flushes in 30 s", (unsigned long long)flushes);
        CHECK(shortest >= 800000 && longest <= 1200000, "%llu..%llu us apart", (unsigned long long)shortest, (unsigned long long)longest);
    }
    end(&w);
}

static void blocked(void)
{
    struct world w;
    struct ms_table_state *table = leader(&w);
    uint64_t flushes, shortest, longest;
    watch(&w, table, 3 * SECOND, &flushes, &shortest, &longest);
    put(&w, table, 4711);
    uint64_t head = w.engine.tail.head;
    w.now += 5 * SECOND; /* nobody ticked meanwhile */
    turn(&w, w.now);
    CHECK(w.engine.tail.head == head + 1, "%llu records after the loop was blocked", (unsigned long long)(w.engine.tail.head - head));
    watch(&w, table, 10 * SECOND, &flushes, &shortest, &longest);
    CHECK(flushes >= 9 && flushes <= 11, "%llu flushes in 10 s after it", (unsigned long long)flushes);
    CHECK(shortest >= 800000 && longest <= 1200000, "%llu..%llu us apart", (unsigned long long)shortest, (unsigned long long)longest);
    end(&w);
}

static void idle(void)
{
    struct world w;
    struct ms_table_state *table = leader(&w);
    put(&w, table, 1);
    turn(&w, w.now + 10 * SECOND);
    uint64_t head = w.engine.tail.head, ticks = 0;
    while (w.wake <= w.now + 60 * (uint64_t)SECOND && ticks < 1000) {
        turn(&w, w.wake);
        ticks++;
    }
    CHECK(w.engine.tail.head <= head + 1, "an idle leader logged %llu records", (unsigned long long)(w.engine.tail.head - head));
    CHECK(ticks <= 120, "an idle leader woke %llu times a minute", (unsigned long long)ticks);
    end(&w);
}

int main(int argc, char **argv)
{
    static const struct spec_case cases[] = {
        SPEC_CASE(period, "a flush of 1 s comes every second, however the wall clock jumps (CASES D10)"),
        SPEC_CASE(blocked, "a loop that was blocked for 5 s flushes once, not five times, and keeps its period (CASES D10)"),
        SPEC_CASE(idle, "an idle leader logs nothing and hardly wakes"),
    };
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
