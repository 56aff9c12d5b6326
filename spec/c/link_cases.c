/* Links that work: handshake, frames of all sizes and in all pieces, back-pressure, closing. */
#include "link_lab.h"

static void both_ends(const char *secret)
{
    struct side a, b;
    pair_open(&a, &b, (struct lab_options){.secret = secret});
    send_text(&b, MS_FRAME_HELLO, "from the client");
    send_text(&a, MS_FRAME_HELLO, "from the listener");
    UNTIL(a.frames == 1 && b.frames == 1);
    CHECK(strcmp(a.last_text, "from the client") == 0, "%s", a.last_text);
    CHECK(strcmp(b.last_text, "from the listener") == 0, "%s", b.last_text);
    CHECK(a.downs + b.downs + a.refusals + b.refusals == 0, "%s %s", a.why, b.why);
    lab_close(&a, &b);
}

static void handshake(void)
{
    both_ends(NULL);
    both_ends(SECRET);
}

static void answer(struct side *side, uint64_t link)
{
    if (side->frames < 500) ms_tcp_send(side->tcp, link, MS_FRAME_ACK, 0, ms_str("ball"), NULL);
}

/* A ping-pong of 1000 frames. */
static void from_events(void)
{
    struct side a, b;
    pair_open(&a, &b, (struct lab_options){0});
    a.on_frame = b.on_frame = answer;
    send_text(&a, MS_FRAME_ACK, "ball");
    UNTIL(a.frames + b.frames >= 999);
    CHECK(a.frames >= 499 && b.frames >= 499, "%d %d", a.frames, b.frames);
    lab_close(&a, &b);
}

/* Everything that a raw client sends in these cases: greeting, then control and bulk frames, an empty one among them. */
static int make_stream(struct ms_buf *stream, uint64_t *sum)
{
    static char text[700];
    memset(text, 'x', sizeof text);
    buf_greeting(stream, true);
    int frames = 0;
    for (size_t size = 0; size < sizeof text; size += 173, frames++) {
        uint8_t type = frames % 2 ? MS_FRAME_GROUP : MS_FRAME_ACK;
        struct ms_bytes payload = ms_bytes(text, size);
        buf_frame(stream, type, payload);
        *sum = lab_sum(*sum, type, payload);
    }
    return frames;
}

static void fragments(void)
{
    lab_open();
    struct side a;
    side_open(&a, (struct lab_options){0});
    side_listen(&a);
    struct ms_buf stream;
    ms_buf_init(&stream);
    uint64_t sum = 0;
    int frames = make_stream(&stream, &sum);
    for (size_t cut = 0; cut <= stream.size; cut++) {
        a.frames = 0;
        a.sum = 0;
        int fd = raw_connect(a.port);
        raw_send(fd, stream.data, cut);
        turn(0);
        turn(0);
        turn(0);
        raw_send(fd, stream.data + cut, stream.size - cut);
        UNTIL(a.frames == frames);
        CHECK(a.sum == sum, "cut at %zu", cut);
        close(fd);
        UNTIL(ms_tcp_count(a.tcp, MS_TCP_UP, false) == 0);
    }
    CHECK(a.refusals == 0, "%s", a.why);
    a.frames = 0;
    a.sum = 0;
    int fd = raw_connect(a.port);
    for (size_t i = 0; i < stream.size; i++) {
        raw_send(fd, stream.data + i, 1);
        turn(0);
    }
    UNTIL(a.frames == frames);
    CHECK(a.sum == sum, "byte by byte");
    close(fd);
    ms_buf_close(&stream);
    lab_close(&a, NULL);
}

/* D8: frames around every size at which the read buffer has to do something, two of them in one segment. */
static void sizes(void)
{
    struct side a, b;
    pair_open(&a, &b, (struct lab_options){0});
    static char bytes[(1 << 20) + 2];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7 + i / 251);
    int frames = 0;
    for (size_t around = 1024; around <= 1 << 20; around *= 2) {
        for (int delta = -2; delta <= 2; delta++) {
            for (size_t header = 0; header <= MS_FRAME_HEADER; header += MS_FRAME_HEADER) {
                size_t size = around - header + (size_t)delta;
                if (size > sizeof bytes) continue;
                uint64_t sum = a.sum;
                for (int i = 0; i < 2; i++, frames++) {
                    ms_tcp_send(b.tcp, b.link, MS_FRAME_GROUP, 0, ms_bytes(bytes, size), NULL);
                    sum = lab_sum(sum, MS_FRAME_GROUP, ms_bytes(bytes, size));
                }
                UNTIL(a.frames == frames);
                CHECK(a.sum == sum, "size %zu", size);
            }
        }
    }
    check_idle(300);
    lab_close(&a, &b);
}

static struct ms_block *make_block(size_t size, uint8_t seed)
{
    struct ms_block *block = ms_block_new(size);
    CHECK(block, "no block");
    for (size_t i = 0; i < size; i++) block->data[i] = (uint8_t)(i * 31 + seed);
    block->size = size;
    return block;
}

/* Small blocks are copied, large ones sent from where they are; either way in order and whole, and every reference comes
 * back. */
static void blocks(void)
{
    struct side a, b, c;
    pair_open(&a, &b, (struct lab_options){.secret = SECRET});
    side_open(&c, (struct lab_options){.secret = SECRET});
    uint64_t first = a.link;
    side_connect(&c, a.port);
    UNTIL(a.ups == 2 && c.ups == 1);
    uint64_t sum = 0;
    struct ms_buf whole;
    ms_buf_init(&whole);
    for (size_t i = 0; i < 64; i++) {
        size_t size = i % 3 ? i * 997 : 100 + i;
        struct ms_block *block = make_block(size, (uint8_t)i);
        const char *prefix = i % 2 ? "prefix" : "";
        ms_tcp_send(a.tcp, first, MS_FRAME_SNAPSHOT_DATA, 0, ms_str(prefix), block);
        ms_tcp_send(a.tcp, a.link, MS_FRAME_SNAPSHOT_DATA, 0, ms_str(prefix), block);
        ms_buf_clear(&whole);
        ms_buf_add(&whole, prefix, strlen(prefix));
        ms_buf_add(&whole, block->data, size);
        sum = lab_sum(sum, MS_FRAME_SNAPSHOT_DATA, ms_buf_bytes(&whole));
        ms_block_unref(block);
    }
    ms_buf_close(&whole);
    UNTIL(b.frames == 64 && c.frames == 64);
    CHECK(b.sum == sum && c.sum == sum, "wrong bytes");
    CHECK(ms_tcp_unsent(a.tcp, a.link) == 0, "unsent");
    ms_tcp_close_all(c.tcp);
    UNTIL(ms_tcp_idle(c.tcp));
    ms_tcp_free(c.tcp);
    lab_close(&a, &b);
}

/* D7: a reader that stops costs what was sent to it; the owner sees it grow, and sees it go again. */
static void stopped_reader(void)
{
    lab_open();
    struct side a;
    side_open(&a, (struct lab_options){0});
    side_listen(&a);
    int fd = raw_link(&a);
    enum { PIECE = 64 << 10, PIECES = 256 };
    struct ms_block *block = make_block(PIECE, 1);
    for (int i = 0; i < PIECES; i++) {
        ms_tcp_send(a.tcp, a.link, MS_FRAME_GROUP, 0, ms_str(""), block);
        turn(0);
    }
    size_t all = (size_t)PIECES * (PIECE + MS_FRAME_HEADER), unsent;
    do { /* until the system takes no more */
        unsent = ms_tcp_unsent(a.tcp, a.link);
        turn(100);
    } while (unsent != ms_tcp_unsent(a.tcp, a.link));
    CHECK(unsent > 0 && unsent < all, "unsent %zu of %zu", unsent, all);
    int drains = a.drains;
    check_idle(200);
    CHECK(a.drains == drains && ms_tcp_unsent(a.tcp, a.link) == unsent, "it moved without a reader");
    size_t got = 0;
    static uint8_t bytes[1 << 20];
    while (got < all) {
        ssize_t some = raw_recv(fd, bytes, sizeof bytes);
        CHECK(some >= 0, "closed after %zu", got);
        got += (size_t)some;
        turn(0);
    }
    UNTIL(ms_tcp_unsent(a.tcp, a.link) == 0);
    CHECK(a.drains > drains && a.drained == 0, "drained %d times, last %zu", a.drains, a.drained);
    ms_block_unref(block);
    close(fd);
    lab_close(&a, NULL);
}

static void pause_first(struct side *side, uint64_t link)
{
    if (side->frames == 1) ms_tcp_pause(side->tcp, link, true);
}

static void paused(void)
{
    struct side a, b;
    pair_open(&a, &b, (struct lab_options){0});
    a.on_frame = pause_first;
    for (int i = 0; i < 100; i++) send_text(&b, MS_FRAME_ACK, "one of many in one segment");
    UNTIL(a.frames == 1);
    turn(50);
    CHECK(a.frames == 1, "%d frames in spite of the pause", a.frames);
    for (int i = 0; i < 100; i++) send_text(&b, MS_FRAME_ACK, "more");
    turn(50);
    ms_tcp_pause(a.tcp, a.link, false);
    CHECK(a.frames == 1, "reported from inside ms_tcp_pause");
    UNTIL(a.frames == 200);
    /* Paused, and the peer goes: what it said is still reported, then its end. */
    a.frames = 0;
    send_text(&b, MS_FRAME_ACK, "first");
    UNTIL(a.frames == 1);
    send_text(&b, MS_FRAME_BYE, "last words");
    ms_tcp_close(b.tcp, b.link);
    turn(50);
    CHECK(a.downs == 0 && a.frames == 1, "noticed while paused");
    ms_tcp_pause(a.tcp, a.link, false);
    UNTIL(a.downs == 1);
    CHECK(a.frames == 2 && strcmp(a.last_text, "last words") == 0, "%s", a.last_text);
    lab_close(&a, &b);
}

/* A closed link still delivers what was sent before, and nothing is reported about it any more. */
static void graceful_close(void)
{
    struct side a, b;
    pair_open(&a, &b, (struct lab_options){0});
    struct ms_block *block = make_block(3 << 20, 9);
    for (int i = 0; i < 4; i++) ms_tcp_send(a.tcp, a.link, MS_FRAME_GROUP, 0, ms_str(""), block);
    send_text(&a, MS_FRAME_BYE, "that was all");
    for (int i = 0; i < 1000; i++) send_text(&b, MS_FRAME_ACK, "unread bytes at the one who closes must not reset the link");
    ms_tcp_close(a.tcp, a.link);
    ms_tcp_send(a.tcp, a.link, MS_FRAME_ACK, 0, ms_str("after the close"), NULL);
    UNTIL(b.downs == 1);
    CHECK(b.frames == 5 && b.bytes == 4 * (3 << 20) + 12 && strcmp(b.last_text, "that was all") == 0, "%d frames", b.frames);
    CHECK(a.downs == 0 && a.frames == 0, "the closing side heard of it");
    ms_block_unref(block);
    lab_close(&a, &b);
}

/* Closing a socket with unread bytes would reset the link and drop what the system has not transferred yet. */
static void close_with_unread_bytes(void)
{
    lab_open();
    struct side a;
    side_open(&a, (struct lab_options){0});
    side_listen(&a);
    int fd = raw_link(&a);
    enum { SIZE = 1 << 20 };
    struct ms_block *block = make_block(SIZE, 3);
    static uint8_t bytes[MS_FRAME_HEADER + SIZE], unread[20000];
    ms_tcp_send(a.tcp, a.link, MS_FRAME_GROUP, 0, ms_str(""), block);
    raw_send(fd, unread, sizeof unread);
    ms_tcp_close(a.tcp, a.link);
    ms_tcp_flush(a.tcp);
    raw_send(fd, unread, sizeof unread);
    turn(20);
    raw_take(fd, bytes, sizeof bytes);
    CHECK(memcmp(bytes + MS_FRAME_HEADER, block->data, SIZE) == 0, "wrong bytes");
    ms_block_unref(block);
    close(fd);
    lab_close(&a, NULL);
}

/* A peer that says BYE and is gone before it has read what we send: its words are reported, although sending fails first. */
static void last_words(void)
{
    lab_open();
    struct side a;
    side_open(&a, (struct lab_options){0});
    side_listen(&a);
    int fd = raw_link(&a);
    send_text(&a, MS_FRAME_ACK, "never read, so that the end is a reset");
    UNTIL(ms_tcp_unsent(a.tcp, a.link) == 0);
    struct ms_buf bye;
    ms_buf_init(&bye);
    ms_auth_bye(MS_E_DEPOSED, "there is a newer leader", &bye);
    raw_send(fd, bye.data, bye.size);
    close(fd);
    ms_buf_close(&bye);
    for (int i = 0; i < 3; i++) {
        send_text(&a, MS_FRAME_ACK, "into the void");
        ms_tcp_flush(a.tcp);
    }
    UNTIL(a.downs == 1);
    CHECK(a.frames == 1 && a.last_type == MS_FRAME_BYE && a.err == MS_E_IO, "%d frames, %s", a.frames, a.why);
    lab_close(&a, NULL);
}

static void bounded_linger(void)
{
    lab_open();
    struct side a;
    side_open(&a, (struct lab_options){.linger_ms = 200});
    side_listen(&a);
    int fd = raw_link(&a);
    struct ms_block *block = make_block(4 << 20, 2);
    for (int i = 0; i < 8; i++) ms_tcp_send(a.tcp, a.link, MS_FRAME_GROUP, 0, ms_str(""), block);
    ms_tcp_close(a.tcp, a.link);
    uint64_t from = spec_now_ms();
    UNTIL(block->references == 1);
    CHECK(spec_now_ms() - from >= 150 && spec_now_ms() - from < 4000, "%llu ms", (unsigned long long)(spec_now_ms() - from));
    ms_block_unref(block);
    close(fd);
    lab_close(&a, NULL);
}

static void close_it(struct side *side, uint64_t link)
{
    ms_tcp_close(side->tcp, link);
    ms_tcp_close(side->tcp, link);
    ms_tcp_pause(side->tcp, link, false);
    ms_tcp_send(side->tcp, link, MS_FRAME_ACK, 0, ms_str("too late"), NULL);
}

static void close_all(struct side *side, uint64_t link)
{
    close_it(side, link);
    ms_tcp_close_all(side->tcp);
}

/* Whoever is called may close: this link, all links, again and again. */
static void close_from_events(void)
{
    for (int where = 0; where < 6; where++) {
        struct side a, b;
        lab_open();
        side_open(&a, (struct lab_options){.secret = SECRET});
        side_open(&b, (struct lab_options){.secret = SECRET});
        side_listen(&a);
        void (*closer)(struct side *, uint64_t) = where % 2 ? close_all : close_it;
        if (where / 2 == 0) a.on_up = closer;
        if (where / 2 == 1) b.on_up = closer;
        if (where / 2 == 2) a.on_frame = closer;
        side_connect(&b, a.port);
        if (where / 2 == 2) {
            UNTIL(a.ups && b.ups);
            for (int i = 0; i < 10; i++) send_text(&b, MS_FRAME_ACK, "several");
        }
        UNTIL(where / 2 == 1 ? a.downs == 1 : b.downs == 1);
        CHECK(a.frames <= 1 && a.downs + b.downs == 1, "case %d: %d frames, %d and %d downs", where, a.frames, a.downs,
              b.downs);
        lab_close(&a, &b);
    }
}

static void flush_between_turns(void)
{
    struct side a, b;
    pair_open(&a, &b, (struct lab_options){0});
    send_text(&a, MS_FRAME_ACK, "now");
    CHECK(ms_tcp_unsent(a.tcp, a.link) > 0, "sent at once");
    ms_tcp_flush(a.tcp);
    CHECK(ms_tcp_unsent(a.tcp, a.link) == 0 && a.drains == 1, "unsent %zu", ms_tcp_unsent(a.tcp, a.link));
    UNTIL(b.frames == 1);
    lab_close(&a, &b);
}

static const struct spec_case cases[] = {
    SPEC_CASE(handshake, "two nodes link up with and without a secret, and frames pass both ways"),
    SPEC_CASE(from_events, "an owner may send from inside an event"),
    SPEC_CASE(fragments, "a stream cut at every byte gives the same frames"),
    SPEC_CASE(sizes, "D8: frames around every buffer size arrive, two in a segment, and the loop is idle afterwards"),
    SPEC_CASE(blocks, "blocks are sent whole and in order to several links, and every reference comes back"),
    SPEC_CASE(stopped_reader,
              "D7: a reader that stops holds what was sent to it, no more, and drained is reported when it flows"),
    SPEC_CASE(paused, "a paused link reports nothing; after it everything is reported, the peer's end last"),
    SPEC_CASE(graceful_close, "what was sent before a close arrives, although the peer is still sending"),
    SPEC_CASE(close_with_unread_bytes, "what was sent before a close arrives, although the peer sent what nobody read"),
    SPEC_CASE(last_words, "what a peer said before it reset the link is reported, although sending fails first"),
    SPEC_CASE(bounded_linger, "a closed link whose peer does not read is given up after linger_ms"),
    SPEC_CASE(close_from_events, "links may be closed from inside every event"),
    SPEC_CASE(flush_between_turns, "ms_tcp_flush sends without a turn of the loop"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
