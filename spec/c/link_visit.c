/* Visitors: threads that send on links of a loop that is not theirs. */
#include <pthread.h>
#include <stdatomic.h>

#include "link_lab.h"

struct heard {
    uint64_t link;
    size_t unsent;
    int count;
};

static void hear(void *context, uint64_t link, size_t unsent)
{
    struct heard *heard = context;
    heard->link = link;
    heard->unsent = unsent;
    heard->count++;
}

/* A side with a raw peer that has shaken hands. */
static int open_with_raw(struct side *side)
{
    lab_open();
    side_open(side, (struct lab_options){0});
    side_listen(side);
    int fd = raw_link(side);
    UNTIL(ms_tcp_unsent(side->tcp, side->link) == 0);
    return fd;
}

static void close_with_raw(struct side *side, int fd)
{
    close(fd);
    lab_close(side, NULL);
}

static void sent_at_once(void)
{
    struct side a;
    int fd = open_with_raw(&a), drains = a.drains;
    struct heard heard = {0};
    uint8_t bytes[MS_FRAME_HEADER + 4];
    CHECK(ms_tcp_visit(a.tcp), "nobody is inside");
    send_text(&a, MS_FRAME_ACK, "ball");
    CHECK(!ms_tcp_end_visit(a.tcp, hear, &heard), "something is left");
    CHECK(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) == sizeof bytes, "%s", strerror(errno)); /* no turn of the loop since */
    CHECK(memcmp(bytes + MS_FRAME_HEADER, "ball", 4) == 0, "other bytes");
    CHECK(heard.count == 1 && heard.link == a.link && heard.unsent == 0 && a.drains == drains, "%d reports", heard.count);
    close_with_raw(&a, fd);
}

static bool visited_from_event;

static void *try_visit(void *context)
{
    struct side *side = context;
    struct heard heard = {0};
    bool inside = ms_tcp_visit(side->tcp);
    if (inside) (void)ms_tcp_end_visit(side->tcp, hear, &heard);
    return inside ? side : NULL;
}

static bool other_thread_may(struct side *side)
{
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, try_visit, side) == 0, "no thread");
    pthread_join(thread, &result);
    return result != NULL;
}

static void visit_meanwhile(struct side *side, uint64_t link)
{
    (void)link;
    visited_from_event = other_thread_may(side);
}

static void one_inside(void)
{
    struct side a;
    int fd = open_with_raw(&a);
    struct heard heard = {0};
    ms_tcp_enter(a.tcp);
    CHECK(!other_thread_may(&a), "with the loop inside");
    ms_tcp_leave(a.tcp);
    CHECK(other_thread_may(&a), "with nobody inside");
    CHECK(ms_tcp_visit(a.tcp), "nobody is inside");
    CHECK(!other_thread_may(&a), "with a visitor inside");
    (void)ms_tcp_end_visit(a.tcp, hear, &heard);
    a.on_frame = visit_meanwhile;
    visited_from_event = true;
    struct ms_buf frame;
    ms_buf_init(&frame);
    buf_frame(&frame, MS_FRAME_ACK, ms_str("x"));
    raw_send(fd, frame.data, frame.size);
    ms_buf_close(&frame);
    UNTIL(a.frames == 1);
    CHECK(!visited_from_event, "from inside an event");
    close_with_raw(&a, fd);
}

/* More than the socket takes: the loop sends the rest, in order, together with what is said later by both. */
static void full_socket(void)
{
    enum { PIECES_SENT = 64, PIECE = 256 << 10 };
    struct side a;
    int fd = open_with_raw(&a);
    struct heard heard = {0};
    static uint8_t piece[PIECE], got[MS_FRAME_HEADER + PIECE];
    bool left = false;
    for (int i = 0; i < PIECES_SENT; i++) {
        memset(piece, i, sizeof piece);
        bool visit = i % 3 < 2;
        if (visit) CHECK(ms_tcp_visit(a.tcp), "nobody is inside");
        else ms_tcp_enter(a.tcp);
        ms_tcp_send(a.tcp, a.link, MS_FRAME_GROUP, 0, ms_bytes(piece, sizeof piece), NULL);
        if (visit) left = ms_tcp_end_visit(a.tcp, hear, &heard) || left;
        else ms_tcp_leave(a.tcp);
        if (i == PIECES_SENT / 2) turn(0);
    }
    CHECK(left && ms_tcp_unsent(a.tcp, a.link) > LOW_WATER, "%zu bytes are left", ms_tcp_unsent(a.tcp, a.link));
    ms_tcp_enter(a.tcp);
    ms_tcp_leave(a.tcp);
    int drains = a.drains;
    for (int i = 0; i < PIECES_SENT; i++) {
        raw_take(fd, got, sizeof got);
        for (size_t k = MS_FRAME_HEADER; k < sizeof got; k++) CHECK(got[k] == i, "piece %d has %d at %zu", i, got[k], k);
    }
    UNTIL(ms_tcp_unsent(a.tcp, a.link) == 0);
    CHECK(a.drains > drains && a.drained == 0, "%d reports", a.drains - drains);
    check_idle(100);
    close_with_raw(&a, fd);
}

/* A visitor meets the end of a link; the loop reports it, once. */
static void dead_link(void)
{
    struct side a;
    int fd = open_with_raw(&a);
    struct heard heard = {0};
    raw_reset(fd);
    bool left = false;
    for (int i = 0; i < 3; i++) {
        CHECK(ms_tcp_visit(a.tcp), "nobody is inside");
        send_text(&a, MS_FRAME_ACK, "into the void");
        left = ms_tcp_end_visit(a.tcp, hear, &heard) || left;
    }
    CHECK(left && heard.count == 0 && a.downs == 0, "%d %d %d", left, heard.count, a.downs);
    ms_tcp_enter(a.tcp);
    ms_tcp_leave(a.tcp);
    UNTIL(a.downs == 1);
    CHECK(a.err == MS_E_IO, "%s", a.why);
    CHECK(ms_tcp_visit(a.tcp), "nobody is inside");
    send_text(&a, MS_FRAME_ACK, "too late");
    CHECK(!ms_tcp_end_visit(a.tcp, hear, &heard), "something is left of a link that has ended");
    turn(20);
    CHECK(a.downs == 1, "%d reports", a.downs);
    lab_close(&a, NULL);
}

/* ---- many at once ------------------------------------------------------------------------------------------------------- */

enum { VISITORS = 3, NUMBERS = 3000 };

static struct {
    struct side *from;
    uint64_t link;
    uint32_t next; /* inside */
    atomic_bool left;
    atomic_int running, visits;
} crowd;

static void send_number(void)
{
    uint8_t bytes[900];
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, &crowd.next, sizeof crowd.next);
    crowd.next++;
    ms_tcp_send(crowd.from->tcp, crowd.link, MS_FRAME_GROUP, 0, ms_bytes(bytes, sizeof bytes), NULL);
}

static void *crowd_visitor(void *context)
{
    (void)context;
    for (int i = 0; i < NUMBERS;) {
        struct heard heard = {0};
        if (!ms_tcp_visit(crowd.from->tcp)) {
            usleep(10);
            continue;
        }
        send_number();
        if (ms_tcp_end_visit(crowd.from->tcp, hear, &heard)) atomic_store(&crowd.left, true);
        atomic_fetch_add(&crowd.visits, 1);
        i++;
    }
    atomic_fetch_sub(&crowd.running, 1);
    return NULL;
}

/* The reader takes what it wants when it wants, so that the sockets are now full and now empty. */
static uint32_t read_some(int fd, struct ms_buf *in, uint32_t expected, size_t most)
{
    static uint8_t bytes[64 << 10];
    ssize_t got = raw_recv(fd, bytes, most < sizeof bytes ? most : sizeof bytes);
    CHECK(got >= 0, "the link was closed");
    ms_buf_add(in, bytes, (size_t)got);
    size_t at = 0;
    while (in->size - at >= MS_FRAME_HEADER + 900) {
        uint32_t number;
        memcpy(&number, in->data + at + MS_FRAME_HEADER, sizeof number);
        CHECK(number == expected, "number %u instead of %u", number, expected);
        expected++;
        at += MS_FRAME_HEADER + 900;
    }
    memmove(in->data, in->data + at, in->size - at);
    in->size -= at;
    return expected;
}

static void crowded(void)
{
    struct side a;
    int fd = open_with_raw(&a);
    crowd.from = &a;
    crowd.link = a.link;
    atomic_store(&crowd.running, VISITORS);
    pthread_t threads[VISITORS];
    for (int i = 0; i < VISITORS; i++) CHECK(pthread_create(&threads[i], NULL, crowd_visitor, NULL) == 0, "no thread");
    struct ms_buf in;
    ms_buf_init(&in);
    uint32_t got = 0, mine = 0, all = VISITORS * NUMBERS + NUMBERS;
    uint64_t limit = spec_now_ms() + LIMIT_MS, seed = 7;
    while (got < all) {
        ms_tcp_enter(a.tcp); /* also for what a visitor has left */
        if (mine < NUMBERS) {
            send_number();
            mine++;
        }
        ms_tcp_leave(a.tcp);
        event_base_loop(loop, EVLOOP_NONBLOCK);
        if (spec_random(&seed) % 4) got = read_some(fd, &in, got, spec_random(&seed) % 40000 + 1);
        CHECK(spec_now_ms() < limit, "%u of %u frames", got, all);
    }
    for (int i = 0; i < VISITORS; i++) pthread_join(threads[i], NULL);
    CHECK(in.size == 0 && atomic_load(&crowd.visits) == VISITORS * NUMBERS, "%zu bytes more", in.size);
    ms_buf_close(&in);
    close_with_raw(&a, fd);
}

/* ---- the end of links meanwhile ------------------------------------------------------------------------------------------- */

static atomic_bool stop;
static _Atomic uint64_t current;

static void *restless_visitor(void *context)
{
    struct side *side = context;
    while (!atomic_load(&stop)) {
        struct heard heard = {0};
        if (!ms_tcp_visit(side->tcp)) continue;
        for (int i = 0; i < 3; i++) ms_tcp_send(side->tcp, atomic_load(&current), MS_FRAME_ACK, 0, ms_str("hello"), NULL);
        (void)ms_tcp_end_visit(side->tcp, hear, &heard);
        usleep(20);
    }
    return NULL;
}

static void note_current(struct side *side, uint64_t link)
{
    (void)side;
    atomic_store(&current, link);
}

static void ends_meanwhile(void)
{
    struct side a, b;
    pair_open(&a, &b, (struct lab_options){0});
    atomic_store(&stop, false);
    atomic_store(&current, b.link);
    b.on_up = note_current;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, restless_visitor, &b) == 0, "no thread");
    for (int round = 0; round < 100; round++) {
        int ups = b.ups, downs = b.downs, frames = a.frames;
        UNTIL(a.frames > frames + 3);
        ms_tcp_enter(b.tcp);
        ms_tcp_pause(b.tcp, b.link, true);
        ms_tcp_pause(b.tcp, b.link, false);
        if (round % 3 == 0) ms_tcp_close(b.tcp, b.link);
        ms_tcp_leave(b.tcp);
        ms_tcp_enter(a.tcp);
        if (round % 3) ms_tcp_close(a.tcp, a.link);
        ms_tcp_leave(a.tcp);
        UNTIL(round % 3 == 0 || b.downs == downs + 1);
        ms_tcp_enter(b.tcp);
        side_connect(&b, a.port);
        ms_tcp_leave(b.tcp);
        UNTIL(b.ups == ups + 1);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    lab_close(&a, &b);
}

static const struct spec_case cases[] = {
    SPEC_CASE(sent_at_once, "what a visitor sends has left when its visit ends, without the loop"),
    SPEC_CASE(one_inside, "one thread is inside: while the loop is, also in an event, or a visitor is, others are turned away"),
    SPEC_CASE(full_socket, "what a socket does not take at once is sent by the loop, in order with what others say"),
    SPEC_CASE(dead_link, "a visitor that meets the end of a link leaves it to the loop, which reports it once"),
    SPEC_CASE(crowded, "frames of several visitors and of the loop arrive in the order in which they were sent"),
    SPEC_CASE(ends_meanwhile, "links may be paused, closed and made while others visit"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
