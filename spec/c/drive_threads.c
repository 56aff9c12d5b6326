/* The loop, the bulk thread and the parker by themselves. */
#include "node_lab.h"

#include "../../core/drive/bulk.h"
#include "../../core/drive/loop.h"

#include <sys/syscall.h>
#include <unistd.h>
#if __GLIBC_PREREQ(2, 35)
#include <sys/rseq.h>
#endif

/* ---- the loop ------------------------------------------------------------------------------------------------------------------ */

struct turns {
    struct ms_loop loop;
    atomic_int count;
    atomic_bool asked;           /* the timer is to be set */
    uint64_t delay;
    _Atomic uint64_t armed, fired; /* monotonic microseconds */
    bool waiting;
};

static bool count_turn(void *context)
{
    struct turns *turns = context;
    uint64_t now = ms_clock_now();
    atomic_fetch_add(&turns->count, 1);
    if (turns->waiting && now >= atomic_load(&turns->armed)) {
        atomic_store(&turns->fired, now);
        turns->waiting = false;
        ms_loop_arm(&turns->loop, MS_FOREVER);
    }
    if (atomic_exchange(&turns->asked, false)) {
        atomic_store(&turns->armed, now + turns->delay);
        turns->waiting = true;
        ms_loop_arm(&turns->loop, now + turns->delay);
    }
    return false;
}

static void start(struct turns *turns)
{
    memset(turns, 0, sizeof *turns);
    OK(ms_loop_init(&turns->loop, count_turn, turns));
    OK(ms_loop_start(&turns->loop));
}

static void stop(struct turns *turns)
{
    ms_loop_stop(&turns->loop);
    ms_loop_close(&turns->loop);
}

static void *wake_often(void *context)
{
    struct turns *turns = context;
    for (int i = 0; i < 2000; i++) ms_loop_wake(&turns->loop);
    return NULL;
}

static void no_wake_is_lost(void)
{
    struct turns turns;
    start(&turns);
    for (int i = 0; i < 200; i++) {
        int before = atomic_load(&turns.count);
        ms_loop_wake(&turns.loop);
        EVENTUALLY(atomic_load(&turns.count) > before, 10);
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) threads[i] = lab_thread(wake_often, &turns);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    int before = atomic_load(&turns.count);
    ms_loop_wake(&turns.loop);
    EVENTUALLY(atomic_load(&turns.count) > before, 10);
    usleep(20000);
    before = atomic_load(&turns.count);
    usleep(100000);
    CHECK(atomic_load(&turns.count) == before, "it turns without a reason");
    stop(&turns);
}

static void timer(void)
{
    static const uint64_t delays[] = {0, 200, 700, 3000, 20000};
    struct turns turns;
    start(&turns);
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
        uint64_t best = UINT64_MAX; /* of a few, since the machine may be busy */
        for (int attempt = 0; attempt < 20; attempt++) {
            turns.delay = delays[i];
            atomic_store(&turns.fired, 0);
            atomic_store(&turns.asked, true);
            ms_loop_wake(&turns.loop);
            EVENTUALLY(atomic_load(&turns.fired) != 0, 10);
            CHECK(atomic_load(&turns.fired) >= atomic_load(&turns.armed), "too early");
            uint64_t late = atomic_load(&turns.fired) - atomic_load(&turns.armed);
            best = late < best ? late : best;
        }
        CHECK(best < 1000, "a timer of %llu us is %llu us late at best", (unsigned long long)delays[i], (unsigned long long)best);
    }
    stop(&turns);
}

/* ---- promptness ------------------------------------------------------------------------------------------------------------------ */

struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static struct attributes attributes_now(void)
{
    struct attributes now = {0};
    CHECK(syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) == 0, "no attributes");
    return now;
}

struct prompt_loop {
    struct ms_loop loop;
    struct attributes seen;
    atomic_bool turned;
};

static bool note_attributes(void *context)
{
    struct prompt_loop *prompt = context;
    if (!atomic_load(&prompt->turned)) prompt->seen = attributes_now();
    atomic_store(&prompt->turned, true);
    return false;
}

static void *lengthen(void *context)
{
    struct attributes wanted = attributes_now();
    wanted.runtime = 300000;
    (void)syscall(SYS_sched_setattr, 0, &wanted, 0);
    *(bool *)context = attributes_now().runtime == 300000;
    return NULL;
}

static void prompt(void)
{
    bool heeded = false; /* does this kernel know lengths of turns? */
    pthread_join(lab_thread(lengthen, &heeded), NULL);
    struct attributes usual = attributes_now();
    struct prompt_loop prompt = {.turned = false};
    OK(ms_loop_init(&prompt.loop, note_attributes, &prompt));
    OK(ms_loop_start(&prompt.loop));
    EVENTUALLY(atomic_load(&prompt.turned), 10);
    ms_loop_stop(&prompt.loop);
    ms_loop_close(&prompt.loop);
    CHECK(prompt.seen.policy == usual.policy && prompt.seen.nice == usual.nice && prompt.seen.flags == usual.flags, "it is scheduled otherwise");
    CHECK(!heeded || prompt.seen.runtime == 100000, "its turns have %llu ns", (unsigned long long)prompt.seen.runtime);
}

/* ---- the processor ------------------------------------------------------------------------------------------------------------- */

static bool can_tell(void)
{
#ifdef RSEQ_SIG
    return __rseq_size > 0;
#else
    return false;
#endif
}

static void core_kept(void)
{
    int kept = 0;
    for (int i = 0; i < 1000; i++) {
        ms_core_watch();
        kept += ms_core_kept();
    }
    CHECK(kept > 500, "kept %d of 1000 times, for nothing at all", kept);
    ms_core_watch();
    usleep(2000);
    CHECK(ms_core_kept() == !can_tell(), "it slept");
}

/* ---- the parker ---------------------------------------------------------------------------------------------------------------- */


static void *wake_each(void *context)
{
    struct ms_parker **parkers = context;
    for (int i = 0; i < 2000; i++) ms_parker_wake(parkers[i]);
    return NULL;
}

static void parker(void)
{
    static struct ms_parker all[2000];
    static struct ms_parker *order[2000];
    struct ms_parker one;
    ms_parker_init(&one);
    uint64_t before = ms_clock_now();
    CHECK(!ms_parker_wait(&one, before + 20000), "woken by nobody");
    CHECK(ms_clock_now() >= before + 20000, "gave up too early");
    ms_parker_wake(&one);
    ms_parker_wake(&one);
    CHECK(ms_parker_wait(&one, before), "a wake before the wait counts, deadline or not");
    for (int i = 0; i < 2000; i++) {
        ms_parker_init(&all[i]);
        order[i] = &all[i];
    }
    pthread_t waker = lab_thread(wake_each, order);
    for (int i = 0; i < 2000; i++) CHECK(ms_parker_wait(&all[i], i % 2 ? MS_FOREVER : ms_clock_now() + 20000000), "number %d", i);
    pthread_join(waker, NULL);
}

/* ---- the bulk thread -------------------------------------------------------------------------------------------------------------- */

static pthread_mutex_t order_mutex = PTHREAD_MUTEX_INITIALIZER;
static char order_text[64];
static atomic_bool hold;
static atomic_int dropped;

struct letter {
    struct ms_bulk_job job;
    char name;
    int again;   /* times that it asks to be run again */
    bool parks;
};

static int write_letter(struct ms_bulk_job *job)
{
    struct letter *letter = ms_list_entry(job, struct letter, job);
    while (letter->name == '-' && atomic_load(&hold)) usleep(200);
    pthread_mutex_lock(&order_mutex);
    size_t length = strlen(order_text);
    order_text[length] = letter->name;
    order_text[length + 1] = '\0';
    pthread_mutex_unlock(&order_mutex);
    if (letter->parks) {
        letter->parks = false;
        return MS_BULK_PARK;
    }
    return letter->again-- > 0 ? MS_BULK_AGAIN : MS_BULK_DONE;
}

static void drop_letter(struct ms_bulk_job *job)
{
    (void)job;
    atomic_fetch_add(&dropped, 1);
}

static void add(struct ms_bulk *bulk, struct letter *letter, char name, int kind)
{
    letter->name = name;
    letter->job = (struct ms_bulk_job){.kind = kind, .run = write_letter, .drop = drop_letter};
    ms_bulk_queue(bulk, &letter->job);
}

static bool wrote(const char *text)
{
    pthread_mutex_lock(&order_mutex);
    bool same = strcmp(order_text, text) == 0;
    pthread_mutex_unlock(&order_mutex);
    return same;
}

static void urgency(void)
{
    struct ms_bulk bulk;
    struct letter first = {0}, letters[6] = {{.again = 0}};
    OK(ms_bulk_init(&bulk));
    OK(ms_bulk_start(&bulk));
    order_text[0] = '\0';
    atomic_store(&hold, true);
    add(&bulk, &first, '-', MS_BULK_PREPARE);
    letters[0].again = 2; /* a long job in steps */
    letters[5].parks = true;
    add(&bulk, &letters[0], 's', MS_BULK_SNAPSHOT);
    add(&bulk, &letters[1], 'o', MS_BULK_ORDERED);
    add(&bulk, &letters[2], 'p', MS_BULK_ORDERED);
    add(&bulk, &letters[3], 'r', MS_BULK_READ);
    add(&bulk, &letters[4], 'z', MS_BULK_PREPARE);
    add(&bulk, &letters[5], 't', MS_BULK_SNAPSHOT);
    atomic_store(&hold, false);
    EVENTUALLY(wrote("-zropstss"), 10);
    ms_bulk_queue(&bulk, &letters[5].job);
    EVENTUALLY(wrote("-zropstsst"), 10);
    /* What was not begun is dropped at the end. */
    atomic_store(&hold, true);
    add(&bulk, &first, '-', MS_BULK_PREPARE);
    add(&bulk, &letters[1], 'x', MS_BULK_READ);
    add(&bulk, &letters[2], 'x', MS_BULK_ORDERED);
    (void)pthread_mutex_lock(&bulk.mutex);
    bulk.stop = true;
    (void)pthread_mutex_unlock(&bulk.mutex);
    atomic_store(&hold, false);
    ms_bulk_stop(&bulk);
    CHECK(atomic_load(&dropped) >= 2 && strchr(order_text, 'x') == NULL, "%s, %d dropped", order_text, atomic_load(&dropped));
    ms_bulk_close(&bulk);
}

static const struct spec_case cases[] = {
    SPEC_CASE(no_wake_is_lost, "a wake-up brings a turn of the loop, whenever it comes, and without one the loop sleeps"),
    SPEC_CASE(timer, "the loop's timer is never early, and exact below a millisecond"),
    SPEC_CASE(prompt, "the loop asks for short turns, and changes nothing else about how it is scheduled"),
    SPEC_CASE(core_kept, "a thread knows whether it kept its processor, as far as the system can tell"),
    SPEC_CASE(parker, "a parker returns when it is woken, before or after it waits, or at its deadline"),
    SPEC_CASE(urgency, "the bulk thread does the most urgent job first, gives way between steps, and drops the rest at its end"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
