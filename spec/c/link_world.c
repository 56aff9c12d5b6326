/* Links and the world around them: memory and descriptors that run out, addresses, names, the status of another node. */
#include <event2/dns.h>
#include <event2/dns_struct.h>
#include <pthread.h>
#include <sys/resource.h>

#include "../../core/drive/lookup.h"
#include "link_lab.h"

/* ---- out of something ------------------------------------------------------------------------------------------------- */

/* libevent's own allocations, counted down in the same way as ours. */
static int64_t libevent_left;

static bool libevent_fails(void)
{
    return libevent_left > 0 && --libevent_left == 0;
}

static void *libevent_malloc(size_t size)
{
    return libevent_fails() ? NULL : malloc(size);
}

static void *libevent_realloc(void *memory, size_t size)
{
    return libevent_fails() ? NULL : realloc(memory, size);
}

static int64_t fail_after(bool libevent, int64_t n)
{
    int64_t left = libevent ? libevent_left : ms_mem_fail_after(n);
    if (libevent) libevent_left = n;
    return left;
}

/* Each allocation fails once: the link comes up or its end is reported; nothing hangs, nothing leaks. */
static void allocations(bool libevent)
{
    for (int64_t n = 1;; n++) {
        lab_open();
        struct side a, b;
        side_open(&a, (struct lab_options){.secret = SECRET, .linger_ms = 100});
        side_open(&b, (struct lab_options){.secret = SECRET, .linger_ms = 100});
        side_listen(&a);
        (void)fail_after(libevent, n);
        side_connect(&b, a.port);
        UNTIL(b.downs || (a.ups && b.ups));
        if (b.downs == 0) {
            ms_tcp_send(b.tcp, b.link, MS_FRAME_GROUP, 0, ms_bytes(live_before ? "x" : "y", 1), NULL);
            static char large[100000];
            ms_tcp_send(b.tcp, b.link, MS_FRAME_GROUP, 0, ms_bytes(large, sizeof large), NULL);
            UNTIL(a.frames == 2 || (b.downs && a.downs));
        }
        bool failed = fail_after(libevent, 0) <= 0;
        lab_close(&a, &b);
        if (!failed) {
            CHECK(n > 5, "only %lld allocations failed", (long long)n - 1);
            break;
        }
        CHECK(n < 200, "too many allocations");
    }
}

static void failing_allocations(void)
{
    allocations(false);
    allocations(true);
}

/* Out of descriptors the listener pauses instead of spinning, and takes the waiting connection once there are some again. */
static void out_of_descriptors(void)
{
    lab_open();
    struct side a;
    side_open(&a, (struct lab_options){0});
    side_listen(&a);
    int waiting = raw_connect(a.port), fillers[64], count = 0;
    while ((fillers[count] = dup(waiting)) < waiting) count++; /* no free numbers below */
    close(fillers[count]);
    struct rlimit old, low;
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    low.rlim_cur = (rlim_t)waiting + 1;
    setrlimit(RLIMIT_NOFILE, &low);
    check_idle(300);
    CHECK(ms_tcp_count(a.tcp, MS_TCP_SHAKING, false) == 0, "accepted");
    setrlimit(RLIMIT_NOFILE, &old);
    UNTIL(ms_tcp_count(a.tcp, MS_TCP_SHAKING, false) == 1);
    while (count) close(fillers[--count]);
    close(waiting);
    lab_close(&a, NULL);
}

/* ---- addresses -------------------------------------------------------------------------------------------------------- */

static void expect_down(struct side *side, const char *address, int err, int or_err)
{
    int downs = side->downs;
    ms_tcp_connect(side->tcp, ms_tcp_reserve(side->tcp), address);
    CHECK(side->downs == downs, "told from inside ms_tcp_connect");
    UNTIL(side->downs == downs + 1);
    CHECK(side->err == err || side->err == or_err, "%s: %d %s", address, side->err, side->why);
}

static void bad_addresses(void)
{
    lab_open();
    struct side a, b;
    side_open(&a, (struct lab_options){.handshake_ms = 1000});
    side_open(&b, (struct lab_options){.secret = SECRET});
    uint16_t port;
    int fd = raw_listen(&port);
    char nobody[40], taken[40];
    snprintf(nobody, sizeof nobody, "localhost:%u", port);
    snprintf(taken, sizeof taken, "127.0.0.1:%u", port);
    CHECK(ms_tcp_listen(b.tcp, taken, &port) == MS_E_IO && strstr(ms_error_message(), taken), "%s", ms_error_message());
    close(fd);
    expect_down(&a, nobody, MS_E_IO, MS_E_IO);
    expect_down(&a, "no port", MS_E_ADDRESS, MS_E_ADDRESS);
    expect_down(&a, "127.0.0.1:0", MS_E_ADDRESS, MS_E_ADDRESS);
    expect_down(&a, "192.0.2.1:7000", MS_E_ADDRESS, MS_E_ADDRESS);
    CHECK(strstr(a.why, "192.0.2.1:7000") && strstr(a.why, "secret"), "%s", a.why);
    expect_down(&a, "no-such-host.invalid:7000", MS_E_ADDRESS, MS_E_TIMEOUT);
    CHECK(ms_tcp_listen(a.tcp, "0.0.0.0:0", &port) == MS_E_ADDRESS && strstr(ms_error_message(), "secret"), "%s",
          ms_error_message());
    CHECK(ms_tcp_listen(b.tcp, "192.0.2.1:0", &port) == MS_E_ADDRESS, "%s", ms_error_message());
    CHECK(ms_tcp_listen(b.tcp, "0.0.0.0:0", &port) == 0 && port, "%s", ms_error_message());
    CHECK(ms_tcp_listen(b.tcp, "0.0.0.0:0", &port) == MS_E_INVALID, "twice");
    CHECK(ms_tcp_listen(a.tcp, "localhost:0", &port) == 0 && port, "%s", ms_error_message());
    ms_tcp_connect(a.tcp, ms_tcp_reserve(a.tcp), "no-such-host.invalid:7000"); /* and closed while it is looked up */
    turn(0);
    lab_close(&a, &b);
}

/* A name server: knows one name with an IPv4 address, says nothing about "silent", and knows no other name. */
static void name_server(struct evdns_server_request *request, void *context)
{
    (void)context;
    const char *name = request->questions[0]->name;
    bool known = strcasecmp(name, "broker.example") == 0;
    if (strcasecmp(name, "silent.example") == 0) {
        (void)evdns_server_request_drop(request);
        return;
    }
    static const uint8_t loopback[4] = {127, 0, 0, 7};
    if (known && request->questions[0]->type == EVDNS_TYPE_A)
        (void)evdns_server_request_add_a_reply(request, name, 1, loopback, 60);
    (void)evdns_server_request_respond(request, known ? DNS_ERR_NONE : DNS_ERR_NOTEXIST);
}

struct found {
    int calls, rc;
    char text[MS_ADDRESS_TEXT];
};

static void looked_up(void *context, int rc, const struct ms_address_list *list)
{
    struct found *found = context;
    found->calls++;
    found->rc = rc;
    if (list->count) ms_address_text(&list->at[0], found->text);
}

static void look_ups(void)
{
    lab_open();
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    CHECK(bind(fd, (struct sockaddr *)&at, size) == 0 && getsockname(fd, (struct sockaddr *)&at, &size) == 0, "%s",
          strerror(errno));
    struct evdns_server_port *server = evdns_add_server_port_with_base(loop, fd, 0, name_server, NULL);
    char path[] = "/tmp/metasync-resolv-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0 && dprintf(file, "nameserver 127.0.0.1:%u\nsearch example\n", ntohs(at.sin_port)) > 0, "%s",
          strerror(errno));
    close(file);
    struct ms_list pending;
    ms_list_init(&pending);
    static const struct {
        const char *host;
        int rc;
        const char *text;
    } names[] = {
        {"broker.example", 0, "127.0.0.7:7000"},
        {"Broker", 0, "127.0.0.7:7000"}, /* by the search domain */
        {"other.example", MS_E_ADDRESS, ""},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct found found = {0};
        struct ms_lookup *lookup;
        struct ms_lookup_question question = {loop, names[i].host, 7000, path, &pending, looked_up, &found};
        CHECK(ms_lookup_start(&question, &lookup) == 0 && found.calls == 0, "%s", ms_error_message());
        UNTIL(found.calls == 1 && ms_list_empty(&pending));
        CHECK(found.rc == names[i].rc && strcmp(found.text, names[i].text) == 0, "%s: %d %s", names[i].host, found.rc,
              found.text);
    }
    for (int turns = 0; turns < 4; turns++) {
        struct found found = {0};
        struct ms_lookup *lookup;
        struct ms_lookup_question question = {loop, "silent.example", 7000, path, &pending, looked_up, &found};
        CHECK(ms_lookup_start(&question, &lookup) == 0, "%s", ms_error_message());
        for (int i = 0; i < turns; i++) step();
        ms_lookup_cancel(lookup);
        UNTIL(ms_list_empty(&pending));
        CHECK(found.calls == 0, "called after it was canceled");
    }
    unlink(path);
    evdns_close_server_port(server);
    close(fd);
    event_base_free(loop);
    CHECK(ms_mem_live() == live_before, "%lld blocks are left", (long long)(ms_mem_live() - live_before));
}

/* ---- status of another node ------------------------------------------------------------------------------------------- */

struct remote_job {
    uint16_t port;
    int rc, timeout_ms;
    const char *secret;
    char *json, why[512];
    atomic_bool done;
};

static void *ask_status(void *context)
{
    struct remote_job *job = context;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", job->port);
    job->rc = ms_remote_status(address, "spec", job->secret, job->timeout_ms, &job->json);
    snprintf(job->why, sizeof job->why, "%s", ms_error_message());
    atomic_store(&job->done, true);
    return NULL;
}

static const char *status_text;

static void reply_status(struct side *side, uint64_t link)
{
    if (side->last_type != MS_FRAME_STATUS_REQUEST || !status_text) return;
    struct ms_message message;
    ms_message_init(&message);
    message.text = ms_str(status_text);
    struct ms_buf payload;
    ms_buf_init(&payload);
    ms_message_encode(MS_FRAME_STATUS_REPLY, &message, &payload);
    ms_tcp_send(side->tcp, link, MS_FRAME_STATUS_REPLY, 0, ms_buf_bytes(&payload), NULL);
    ms_buf_close(&payload);
}

static void remote_status(void)
{
    static const struct {
        const char *text, *secret, *expected;
        int rc, timeout_ms;
    } tries[] = {
        {"{\"role\": \"leader\",\n \"head\": 9223372036854775807}", SECRET,
         "{\"role\":\"leader\",\"head\":9223372036854775807}", 0, 5000},
        {"{\"role\":", SECRET, NULL, MS_E_FORMAT, 5000},
        {NULL, SECRET, NULL, MS_E_TIMEOUT, 150},
        {"{}", SECRET "!", NULL, MS_E_AUTH, 5000},
        {"{}", NULL, NULL, MS_E_AUTH, 5000},
        {"{}", "too short", NULL, MS_E_INVALID, 5000},
    };
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        lab_open();
        struct side a;
        side_open(&a, (struct lab_options){.secret = SECRET});
        side_listen(&a);
        status_text = tries[i].text;
        a.on_frame = reply_status;
        struct remote_job job = {.port = a.port, .timeout_ms = tries[i].timeout_ms, .secret = tries[i].secret};
        pthread_t thread;
        uint64_t from = spec_now_ms();
        CHECK(pthread_create(&thread, NULL, ask_status, &job) == 0, "no thread");
        UNTIL(atomic_load(&job.done));
        pthread_join(thread, NULL);
        CHECK(job.rc == tries[i].rc, "try %zu: %d %s", i, job.rc, job.why);
        CHECK(spec_now_ms() - from < (uint64_t)job.timeout_ms + 4000, "try %zu took too long", i);
        CHECK(job.rc < 0 || strcmp(job.json, tries[i].expected) == 0, "%s", job.json);
        ms_free(job.json);
        lab_close(&a, NULL);
    }
}

static const struct spec_case cases[] = {
    SPEC_CASE(failing_allocations, "any allocation may fail: the link comes up or its end is reported"),
    SPEC_CASE(out_of_descriptors, "a listener without descriptors waits without spinning"),
    SPEC_CASE(bad_addresses, "malformed, unknown, forbidden and taken addresses are refused with their code"),
    SPEC_CASE(look_ups, "names are looked up at the name servers of resolv.conf, and a look-up can be canceled at any time"),
    SPEC_CASE(remote_status, "ms_remote_status gets the JSON of another node, or says why not, in time"),
};

int main(int argc, char **argv)
{
    event_set_mem_functions(libevent_malloc, libevent_realloc, free);
    return spec_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
