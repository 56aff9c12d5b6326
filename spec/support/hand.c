/* One engine that leads, over a clock that a spec turns by hand and a disk that does at once what it is asked for, or nothing at all
 * while `stuck`. Part of libmetasync-private.so; specs reach it through spec/support/hand.lua. */
#include "../../core/base/mem.h"
#include "../../core/sync/engine.h"

struct spec_hand {
    struct ms_io io; /* first */
    struct ms_engine engine;
    struct ms_store store;
    uint64_t now, wake;
    uint64_t written, synced; /* asked for, not yet reported */
    bool stuck;
    uint64_t asks, events;    /* io->ask_flush, io->event */
    uint32_t asked;           /* the table that waits for a plan, 0 = none */
    struct ms_flush_stats stats;
};

static struct spec_hand *hand_of(struct ms_io *io) { return (struct spec_hand *)(void *)io; }
static uint64_t io_now(struct ms_io *io) { return hand_of(io)->now; }
static void io_random(struct ms_io *io, void *data, size_t size) { (void)io; memset(data, 7, size); }
static void io_wake_at(struct ms_io *io, uint64_t at) { if (at < hand_of(io)->wake) hand_of(io)->wake = at; }
static void io_log_write(struct ms_io *io, struct ms_block *block) { hand_of(io)->written = block->last; }
static void io_log_sync(struct ms_io *io) { hand_of(io)->synced = hand_of(io)->written; }
static void io_nothing(struct ms_io *io) { (void)io; }
static void io_trim(struct ms_io *io, uint64_t pin, uint64_t keep) { (void)io; (void)pin; (void)keep; }
static void io_role(struct ms_io *io, int is, const char *reason) { (void)io; (void)is; (void)reason; }
static void io_line(struct ms_io *io, int severity, const char *text) { (void)io; (void)severity; (void)text; }
static uint64_t io_connect(struct ms_io *io, const char *address) { (void)io; (void)address; return 1; }

static void io_archive(struct ms_io *io, uint64_t from, struct ms_bytes text, struct ms_bytes extras)
{
    (void)io;
    (void)from;
    (void)text;
    (void)extras;
}

static void io_event(struct ms_io *io, const struct ms_event *event)
{
    struct spec_hand *hand = hand_of(io);
    hand->events++;
    hand->engine.rules->ops->event(hand->engine.rules, event);
}

static void io_ask_flush(struct ms_io *io, uint32_t table, const struct ms_flush_stats *stats)
{
    struct spec_hand *hand = hand_of(io);
    hand->asks++;
    hand->asked = table;
    hand->stats = *stats;
}

static const struct ms_io_ops ops = {
    .now = io_now, .real_time = io_now, .random = io_random, .wake_at = io_wake_at, .log_write = io_log_write, .log_sync = io_log_sync,
    .log_reserve = io_nothing, .log_trim = io_trim, .snapshot_make = io_nothing, .archive = io_archive, .connect = io_connect,
    .changed = io_nothing, .role = io_role, .log_line = io_line, .event = io_event, .ask_flush = io_ask_flush,
};

void spec_hand_settle(struct spec_hand *hand);
void spec_hand_settle(struct spec_hand *hand)
{
    ms_engine_pump(&hand->engine);
    while (!hand->stuck && (hand->written > hand->engine.written || hand->synced > hand->engine.synced)) {
        if (hand->written > hand->engine.written) ms_engine_written(&hand->engine, hand->written, 0);
        if (hand->synced > hand->engine.synced) ms_engine_synced(&hand->engine, hand->synced, 0);
    }
    uint64_t next;
    uint32_t table = hand->asked;
    hand->asked = 0;
    if (table && hand->engine.rules && hand->engine.rules->ops->flush(hand->engine.rules, &hand->stats, &next))
        ms_engine_flush_plan(&hand->engine, table, next);
}

/* Turns the clock to `until`, with a tick whenever one is due. */
void spec_hand_turn(struct spec_hand *hand, uint64_t until);
void spec_hand_turn(struct spec_hand *hand, uint64_t until)
{
    while (hand->wake <= until) {
        if (hand->wake > hand->now) hand->now = hand->wake;
        hand->wake = UINT64_MAX;
        ms_engine_tick(&hand->engine);
        spec_hand_settle(hand);
    }
    hand->now = until;
}

void spec_hand_free(struct spec_hand *hand);
void spec_hand_free(struct spec_hand *hand)
{
    ms_engine_close(&hand->engine);
    ms_store_close(&hand->store);
    ms_release(hand);
}

/* NULL: the message says why. The rules get a reference more. */
struct spec_hand *spec_hand_new(const struct ms_policy *policy, struct ms_rules *rules);
struct spec_hand *spec_hand_new(const struct ms_policy *policy, struct ms_rules *rules)
{
    struct ms_engine_config config = {.cluster = "c", .name = "n", .node_id = 1, .policy = policy, .rules = rules, .log_room = 1u << 30};
    struct spec_hand *hand = ms_alloc_zero(sizeof *hand);
    if (!hand) return NULL;
    hand->io.ops = &ops;
    hand->now = 5000000;
    hand->wake = UINT64_MAX;
    int rc = ms_store_init(&hand->store);
    if (!rc) rc = ms_engine_init(&hand->engine, &hand->io, &hand->store, &config);
    if (!rc) rc = ms_engine_lead(&hand->engine, NULL, 0, 0);
    if (!rc) spec_hand_settle(hand);
    if (!rc && hand->engine.role == MS_ROLE_LEADER) return hand;
    spec_hand_free(hand);
    return NULL;
}
