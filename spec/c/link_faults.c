/* Links that don't work: peers that are wrong, silent, hostile or suddenly gone. */
#include "link_lab.h"

/* ---- who may talk ----------------------------------------------------------------------------------------------------- */

static void expect_refusal(struct lab_options listening, struct lab_options connecting, int err, const char *word)
{
    struct side a, b;
    lab_open();
    side_open(&a, listening);
    side_open(&b, connecting);
    side_listen(&a);
    side_connect(&b, a.port);
    UNTIL(a.refusals == 1 && b.downs == 1);
    CHECK(a.ups == 0 && b.ups == 0, "%d %d ups", a.ups, b.ups);
    CHECK(a.err == err && b.err == err, "listener %d %s, client %d %s", a.err, a.why, b.err, b.why);
    CHECK(strstr(a.why, word) && strstr(b.why, word), "\"%s\" is not in: %s / %s", word, a.why, b.why);
    lab_close(&a, &b);
}

static void wrong_secret(void)
{
    struct lab_options one = {.secret = SECRET}, other = {.secret = SECRET "."}, none = {0};
    expect_refusal(one, other, MS_E_AUTH, "different secrets");
    expect_refusal(one, none, MS_E_AUTH, "the listening node has a secret, the connecting node has none");
    expect_refusal(none, one, MS_E_AUTH, "the connecting node has a secret, the listening node has none");
}

static void foreign_cluster(void)
{
    struct lab_options one = {.cluster = "blue"}, other = {.cluster = "green"};
    expect_refusal(one, other, MS_E_CLUSTER, "green");
    one.secret = other.secret = SECRET;
    expect_refusal(one, other, MS_E_CLUSTER, "blue");
}

/* A peer that sends everything back gets nowhere: with a secret the proof would have to come from it. */
static void mirror(void)
{
    for (int i = 0; i < 2; i++) {
        lab_open();
        struct side a;
        side_open(&a, (struct lab_options){.secret = i ? SECRET : NULL});
        side_listen(&a);
        int fd = raw_connect(a.port);
        uint8_t bytes[1024];
        UNTIL(a.refusals || ({
                  ssize_t got = raw_recv(fd, bytes, sizeof bytes);
                  if (got > 0) raw_send(fd, bytes, (size_t)got);
                  false;
              }));
        CHECK(a.ups == 0 && a.err == MS_E_AUTH, "%d: %s", a.err, a.why);
        close(fd);
        lab_close(&a, NULL);
    }
}

/* ---- malformed -------------------------------------------------------------------------------------------------------- */

static void garbage(void)
{
    lab_open();
    struct side a;
    side_open(&a, (struct lab_options){.handshake_ms = 300, .linger_ms = 300});
    side_listen(&a);
    static const char http[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    uint64_t seed = 20250101;
    for (int round = 0; round < 500; round++) {
        uint8_t bytes[600];
        size_t size = round == 0 ? sizeof http : 12 + spec_random(&seed) % (sizeof bytes - 12);
        for (size_t i = 0; i < size; i++) bytes[i] = round == 0 ? (uint8_t)http[i] : (uint8_t)spec_random(&seed);
        if (round % 4 == 1) bytes[6] = MS_FRAME_VERSION, bytes[7] = 0;
        if (round % 4 == 2) ms_frame_header(bytes, (uint8_t)spec_random(&seed), 0, ms_bytes(bytes + 12, size - 12), 0);
        int refusals = a.refusals, fd = raw_connect(a.port);
        raw_send(fd, bytes, size);
        shutdown(fd, SHUT_WR);
        UNTIL(a.refusals == refusals + 1);
        CHECK(a.ups == 0, "round %d got in", round);
        close(fd);
    }
    lab_close(&a, NULL);
}

/* One flipped bit of a control frame ends the link, and the peer is told. Flips in flags and size are caught by the hash
 * too. */
static void flipped_bits(void)
{
    lab_open();
    struct side a;
    side_open(&a, (struct lab_options){0});
    side_listen(&a);
    struct ms_buf frame;
    ms_buf_init(&frame);
    buf_frame(&frame, MS_FRAME_ACK, ms_str("some payload"));
    for (size_t bit = 0; bit < 8 * frame.size; bit++) {
        int fd = raw_link(&a), downs = a.downs, code = 0;
        frame.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        raw_send(fd, frame.data, frame.size);
        shutdown(fd, SHUT_WR); /* a flip in the size may make it wait for more */
        UNTIL(a.downs == downs + 1);
        CHECK(a.frames == 0, "bit %zu passed", bit);
        bool told = raw_bye(fd, &code) == 1;
        CHECK(told ? code == a.err : a.err == MS_E_IO, "bit %zu: %d, told %d: %s", bit, a.err, code, a.why);
        frame.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        close(fd);
    }
    ms_buf_close(&frame);
    lab_close(&a, NULL);
}

static size_t capacity_of(const struct side *side)
{
    struct ms_tcp_link *link = ms_tcp_find(side->tcp, side->link);
    CHECK(link, "the link is gone");
    return link->in.capacity;
}

/* D11: what is announced costs nothing; only what arrives does. */
static void announced_sizes(void)
{
    static const struct {
        uint8_t type;
        uint32_t size;
        int err;
    } frames[] = {
        {MS_FRAME_GROUP, BULK_MAX, 0},
        {MS_FRAME_GROUP, BULK_MAX + 1, MS_E_LIMIT},
        {MS_FRAME_SNAPSHOT_DATA, UINT32_MAX, MS_E_LIMIT},
        {MS_FRAME_HELLO, MS_FRAME_CONTROL_MAX, 0},
        {MS_FRAME_HELLO, MS_FRAME_CONTROL_MAX + 1, MS_E_LIMIT},
        {0x99, UINT32_MAX, MS_E_LIMIT},
    };
    for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
        lab_open();
        struct side a;
        side_open(&a, (struct lab_options){.linger_ms = 200});
        side_listen(&a);
        int fd = raw_link(&a), code = 0;
        int64_t live = ms_mem_live();
        uint8_t header[MS_FRAME_HEADER + 5000] = {0};
        ms_frame_header(header, frames[i].type, 0, ms_str(""), frames[i].size);
        raw_send(fd, header, sizeof header);
        if (frames[i].err) {
            UNTIL(a.downs == 1);
            CHECK(a.err == frames[i].err && raw_bye(fd, &code) == 1 && code == a.err, "frame %zu: %d %s", i, a.err, a.why);
        } else {
            turn(50);
            CHECK(a.downs == 0 && ms_mem_live() == live && capacity_of(&a) <= 16384, "frame %zu: %zu bytes", i,
                  capacity_of(&a));
        }
        close(fd);
        lab_close(&a, NULL);
    }
}

/* In a handshake a frame has to be small, whatever its type. */
static void large_handshake(void)
{
    static const uint8_t types[] = {MS_FRAME_GREETING, MS_FRAME_HELLO, MS_FRAME_GROUP};
    lab_open();
    struct side a;
    side_open(&a, (struct lab_options){.linger_ms = 200});
    side_listen(&a);
    for (size_t i = 0; i < sizeof types; i++) {
        int fd = raw_connect(a.port), code = 0;
        uint8_t header[MS_FRAME_HEADER];
        ms_frame_header(header, types[i], 0, ms_str(""), MS_AUTH_FRAME_MAX + 1);
        raw_send(fd, header, sizeof header);
        UNTIL(a.refusals == (int)i + 1);
        CHECK(a.err == MS_E_LIMIT && raw_bye(fd, &code) == 1 && code == MS_E_LIMIT, "%d %s", a.err, a.why);
        close(fd);
    }
    lab_close(&a, NULL);
}

/* ---- silent, slow, many ----------------------------------------------------------------------------------------------- */

static void silent_peer(void)
{
    lab_open();
    struct side a, b;
    struct lab_options quick = {.handshake_ms = 200, .linger_ms = 100};
    side_open(&a, quick);
    side_open(&b, quick);
    side_listen(&a);
    uint16_t port;
    int listener = raw_listen(&port), fd = raw_connect(a.port);
    uint64_t from = spec_now_ms();
    side_connect(&b, port); /* connects (the system answers), but nobody greets */
    UNTIL(a.refusals == 1 && b.downs == 1);
    CHECK(a.err == MS_E_TIMEOUT && b.err == MS_E_TIMEOUT, "%s / %s", a.why, b.why);
    CHECK(spec_now_ms() - from >= 150 && spec_now_ms() - from < 4000, "%llu ms", (unsigned long long)(spec_now_ms() - from));
    /* One byte of a good greeting every few milliseconds does not buy more time. */
    struct ms_buf greeting;
    ms_buf_init(&greeting);
    buf_greeting(&greeting, true);
    int slow = raw_connect(a.port);
    from = spec_now_ms();
    for (size_t i = 0; a.refusals == 1 && i < greeting.size; i++) {
        raw_send(slow, greeting.data + i, 1);
        turn(10);
    }
    CHECK(a.refusals == 2 && a.ups == 0 && spec_now_ms() - from < 4000, "%d refusals", a.refusals);
    ms_buf_close(&greeting);
    close(slow);
    close(fd);
    close(listener);
    lab_close(&a, &b);
}

/* D11: idle connections take no place from a link that works, nor from a new one. */
static void idle_crowd(void)
{
    struct side a, b, c;
    pair_open(&a, &b, (struct lab_options){.links_max = 8, .handshake_ms = LIMIT_MS, .linger_ms = 100});
    enum { CROWD = 200 };
    int crowd[CROWD];
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = raw_connect(a.port);
        turn(0);
    }
    UNTIL(a.refusals == CROWD - 8);
    CHECK(ms_tcp_count(a.tcp, MS_TCP_SHAKING, false) == 8, "%zu shaking", ms_tcp_count(a.tcp, MS_TCP_SHAKING, false));
    send_text(&b, MS_FRAME_ACK, "still here");
    UNTIL(a.frames == 1);
    side_open(&c, (struct lab_options){0});
    side_connect(&c, a.port);
    UNTIL(c.ups == 1 && a.ups == 2);
    for (int i = 0; i < CROWD; i++) close(crowd[i]);
    ms_tcp_close_all(c.tcp);
    UNTIL(ms_tcp_idle(c.tcp));
    ms_tcp_free(c.tcp);
    lab_close(&a, &b);
}

static void too_many_links(void)
{
    struct side a, b, c;
    pair_open(&a, &b, (struct lab_options){.links_max = 2, .linger_ms = 300});
    int second = raw_link(&a);
    side_open(&c, (struct lab_options){0});
    side_connect(&c, a.port);
    UNTIL(c.downs == 1 && a.refusals == 1);
    CHECK(c.err == MS_E_LIMIT && strstr(c.why, "all 2 links are taken"), "%d %s", c.err, c.why);
    close(second);
    UNTIL(a.downs == 1);
    c.downs = 0;
    side_connect(&c, a.port);
    UNTIL(c.ups == 1);
    send_text(&b, MS_FRAME_ACK, "unaffected");
    UNTIL(a.frames == 1);
    ms_tcp_close_all(c.tcp);
    UNTIL(ms_tcp_idle(c.tcp));
    ms_tcp_free(c.tcp);
    lab_close(&a, &b);
}

/* ---- suddenly gone ---------------------------------------------------------------------------------------------------- */

/* D9: the peer ends, with FIN or RST, after each byte of its part of the handshake. */
static void close_at_every_byte(void)
{
    struct ms_buf client, listener;
    ms_buf_init(&client);
    ms_buf_init(&listener);
    buf_greeting(&client, true);
    buf_greeting(&listener, false);
    lab_open();
    struct side a;
    side_open(&a, (struct lab_options){.linger_ms = 300});
    side_listen(&a);
    uint16_t port;
    int raw = raw_listen(&port);
    for (size_t cut = 0; cut <= client.size; cut++) {
        for (int how = 0; how < 4; how++) {
            int ended = a.refusals + a.downs, ups = a.ups;
            if (how >= 2) side_connect(&a, port);
            int fd = how < 2 ? raw_connect(a.port) : raw_accept(raw);
            const struct ms_buf *stream = how < 2 ? &client : &listener;
            raw_send(fd, stream->data, cut);
            if (cut % 3 == 0) turn(0);
            if (how % 2)
                raw_reset(fd);
            else
                close(fd);
            UNTIL(a.refusals + a.downs == ended + 1);
            CHECK(a.ups == ups || cut == client.size, "up after %zu bytes", cut);
        }
    }
    close(raw);
    lab_close(&a, NULL);
    ms_buf_close(&client);
    ms_buf_close(&listener);
}

/* We end it ourselves, at every turn of the loop. */
static void close_at_every_turn(void)
{
    for (int turns = 0; turns < 12; turns++) {
        for (int who = 0; who < 3; who++) {
            lab_open();
            struct side a, b;
            side_open(&a, (struct lab_options){.secret = SECRET});
            side_open(&b, (struct lab_options){.secret = SECRET});
            side_listen(&a);
            uint64_t link = side_connect(&b, a.port);
            for (int i = 0; i < turns; i++) turn(0);
            if (who == 0) ms_tcp_close(b.tcp, link);
            if (who == 1) ms_tcp_close_all(a.tcp);
            if (who == 2) { /* without any grace */
                ms_tcp_free(b.tcp);
                side_open(&b, (struct lab_options){0});
            }
            for (int i = 0; i < 5; i++) turn(0);
            CHECK(who == 1 || b.downs == 0, "told of its own close");
            lab_close(&a, &b);
        }
    }
}

static const struct spec_case cases[] = {
    SPEC_CASE(wrong_secret, "different secrets, or a secret on one side only, are refused, and both sides say why"),
    SPEC_CASE(foreign_cluster, "a node of another cluster is refused, and both sides name the clusters"),
    SPEC_CASE(mirror, "a peer that reflects what we send is refused"),
    SPEC_CASE(garbage, "what is no metasync is refused"),
    SPEC_CASE(flipped_bits, "any flipped bit of a control frame ends the link, and the peer is told"),
    SPEC_CASE(announced_sizes, "D11: a frame that is too long is refused, one that is only announced takes no memory"),
    SPEC_CASE(large_handshake, "a handshake takes no large frame"),
    SPEC_CASE(silent_peer, "silent and slow peers are given up after handshake_ms, on both sides"),
    SPEC_CASE(idle_crowd, "D11: a crowd of idle connections locks no one out"),
    SPEC_CASE(too_many_links, "a link too many is told so, and others are unaffected"),
    SPEC_CASE(close_at_every_byte, "D9: a peer may go after every byte of the handshake"),
    SPEC_CASE(close_at_every_turn, "D9: we may close in every turn of the handshake"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
