/* Callers that send what they have written: watched, and disturbed, at the system calls. The program's own sendmsg and pwritev stand in
 * front of the system's. They check that each group that leaves has been written before and follows the one before it on its
 * link; and they are slow, take less than they were given, or cut a link. */
#include "node_lab.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "../../core/node.h"

static struct lab lab;

/* ---- the system calls ---------------------------------------------------------------------------------------------------------- */

enum { FDS = 1024, HEAD = MS_FRAME_HEADER + MS_GROUP_HEADER };

struct stream { /* what has left on a socket */
    ino_t socket;       /* descriptors are used again */
    uint8_t head[HEAD]; /* of the frame under way */
    size_t have, size;  /* bytes of it, of its header and payload as far as known */
    uint64_t last;      /* lsn */
};

static struct {
    pthread_mutex_t mutex;
    struct stream streams[FDS];
    _Atomic uint64_t written; /* by the leader, whose directory is a */
    atomic_bool faults, callers_full, callers_cut;
    atomic_uint chance, slow_us, cuts, parts, fulls;
    atomic_ullong groups;
} spy = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool is_caller;
static _Thread_local unsigned sent_here; /* groups whose frames began to leave on this thread */

static uint32_t chance(void)
{
    uint64_t seed = atomic_fetch_add(&spy.chance, 1) * 2654435761u;
    return spec_random(&seed);
}

static uint64_t number_at(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;
    memcpy(&number, bytes, size);
    return number;
}

static uint64_t group_first(const uint8_t *group)
{
    return number_at(group + 8, 8);
}

static uint64_t group_last(const uint8_t *group)
{
    return group_first(group) + number_at(group + 32, 4) - 1;
}

static void check_group(struct stream *stream, uint64_t written)
{
    const uint8_t *group = stream->head + MS_FRAME_HEADER;
    CHECK(group_last(group) <= written, "lsn %llu was sent, %llu was written", (unsigned long long)group_last(group), (unsigned long long)written);
    CHECK(stream->last == 0 || group_first(group) == stream->last + 1, "lsn %llu follows %llu", (unsigned long long)group_first(group),
          (unsigned long long)stream->last);
    stream->last = group_last(group);
    atomic_fetch_add(&spy.groups, 1);
    sent_here++;
}

static struct stream *stream_of(int fd)
{
    struct stream *stream = &spy.streams[fd];
    struct stat stat;
    CHECK(fstat(fd, &stat) == 0, "no socket");
    if (stream->socket != stat.st_ino) *stream = (struct stream){.socket = stat.st_ino};
    return stream;
}

static void watch(struct stream *stream, const uint8_t *bytes, size_t size, uint64_t written)
{
    while (size > 0) {
        bool in_head = stream->have < HEAD && (stream->have < MS_FRAME_HEADER || stream->have < stream->size);
        size_t want = stream->have < MS_FRAME_HEADER ? MS_FRAME_HEADER : in_head && stream->size > HEAD ? HEAD : stream->size;
        size_t some = want - stream->have < size ? want - stream->have : size;
        if (in_head) memcpy(stream->head + stream->have, bytes, some);
        stream->have += some;
        bytes += some;
        size -= some;
        if (stream->have == MS_FRAME_HEADER) stream->size = MS_FRAME_HEADER + (size_t)number_at(stream->head, 4);
        if (stream->have == HEAD && stream->head[4] == MS_FRAME_GROUP) check_group(stream, written);
        if (stream->have >= MS_FRAME_HEADER && stream->have == stream->size) stream->have = stream->size = 0;
    }
}

/* A part of what is to be sent, by the letter of what a socket may do. */
static size_t take_part(struct iovec *parts, size_t count)
{
    size_t first = parts[0].iov_len;
    if (chance() % 2 && count > 1) return 1;
    parts[0].iov_len = first > 1 ? 1 + chance() % (first - 1) : first;
    return 1;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct iovec parts[64];
    struct msghdr some = *message;
    uint64_t written = atomic_load(&spy.written);
    CHECK(some.msg_iovlen <= 64 && (flags & MSG_DONTWAIT) && (flags & MSG_NOSIGNAL) && fd < FDS, "%zu parts, flags %x", some.msg_iovlen, flags);
    memcpy(parts, some.msg_iov, some.msg_iovlen * sizeof *parts);
    some.msg_iov = parts;
    uint32_t fault = atomic_load(&spy.faults) ? chance() % 256 : 255;
    if (fault < 1 || (is_caller && atomic_load(&spy.callers_cut))) {
        atomic_fetch_add(&spy.cuts, 1);
        (void)shutdown(fd, SHUT_RDWR);
    } else if (fault < 32 || (is_caller && atomic_load(&spy.callers_full))) {
        atomic_fetch_add(&spy.fulls, 1);
        errno = EAGAIN;
        return -1;
    } else if (fault < 96 && some.msg_iovlen > 0) {
        atomic_fetch_add(&spy.parts, 1);
        some.msg_iovlen = take_part(parts, some.msg_iovlen);
    }
    if (is_caller && atomic_load(&spy.slow_us)) usleep(atomic_load(&spy.slow_us));
    (void)pthread_mutex_lock(&spy.mutex);
    ssize_t took = syscall(SYS_sendmsg, fd, &some, flags);
    int err = errno;
    size_t left = took > 0 ? (size_t)took : 0;
    for (size_t i = 0; i < some.msg_iovlen && left > 0; i++) {
        size_t size = parts[i].iov_len < left ? parts[i].iov_len : left;
        watch(stream_of(fd), parts[i].iov_base, size, written);
        left -= size;
    }
    (void)pthread_mutex_unlock(&spy.mutex);
    errno = err;
    return took;
}

static bool is_leaders_log(int fd)
{
    char link[64], path[300];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    return strstr(path, "/a/") && strstr(path, "log");
}

static ssize_t write_watched(int fd, const struct iovec *parts, int count, off_t offset)
{
    bool log = is_leaders_log(fd);
    if (log && atomic_load(&spy.slow_us)) usleep(atomic_load(&spy.slow_us));
    if (log && atomic_load(&spy.faults) && chance() % 4 == 0) usleep(300);
    ssize_t put = syscall(SYS_pwritev, fd, parts, count, offset, 0);
    for (int i = 0; log && put > 0 && i < count; i++) {
        const uint8_t *group = parts[i].iov_base;
        if (parts[i].iov_len < MS_GROUP_HEADER || number_at(group, 2) != MS_GROUP_MAGIC) continue;
        uint64_t last = group_last(group), before = atomic_load(&spy.written);
        while (last > before && !atomic_compare_exchange_weak(&spy.written, &before, last)) continue;
    }
    return put;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    return write_watched(fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset)
{
    return write_watched(fd, parts, count, offset);
}

/* ---- cases ----------------------------------------------------------------------------------------------------------------------- */

static struct ms_policy os_policy(void)
{
    struct ms_policy policy = lab_policy();
    policy.level = MS_LEVEL_OS;
    policy.window_bytes = 64 << 10;
    policy.retain_bytes = 64 << 10;
    return policy;
}

static void open_lab(void)
{
    lab_open(&lab);
    atomic_store(&spy.written, 0);
}

/* The leader knows that its follower has applied it. */
static bool is_known(struct ms_node *leader, uint64_t lsn)
{
    bool known = false;
    ms_node_lock(leader);
    struct ms_list *peers = &leader->engine.peers;
    for (struct ms_list *at = peers->next; at != peers; at = at->next) known = known || ms_list_entry(at, struct ms_peer, node)->applied >= lsn;
    ms_node_unlock(leader);
    return known;
}

/* One change after the other from this thread, each of which has to be at the follower, and confirmed, before the next. No heartbeat, mark
 * or sync wakes the loops, and the window is smaller than what is sent: so the engine has to hear that it has left. */
static void put_one_by_one(int puts)
{
    struct ms_policy policy = os_policy();
    policy.window_bytes = 4096;
    policy.heartbeat_ms = 30000;
    policy.link_timeout_ms = 90000;
    policy.mark_every_ms = policy.sync_every_ms = 3600000;
    open_lab();
    struct ms_node *a = lab_leader(&lab, "a", &policy, NULL), *b = lab_node(&lab, "b", &policy, NULL);
    struct ms_table *numbers = lab_table(a, "numbers", MS_TYPE_INT64);
    lab_follow(b, a);
    EVENTUALLY(lab_position(b).applied >= lab_position(a).head, 20);
    is_caller = true;
    sent_here = 0;
    for (int i = 0; i < puts; i++) {
        uint64_t lsn;
        OK(lab_put(numbers, "k", i, 0, &lsn));
        EVENTUALLY(is_known(a, lsn), 20);
    }
    is_caller = false;
    ms_close(b);
    ms_close(a);
    lab_close(&lab);
}

static void by_the_caller(void)
{
    put_one_by_one(200);
    CHECK(sent_here >= 100, "the caller sent %u groups of 200", sent_here); /* the loop may have come first now and then */
}

static void left_to_the_loop(void)
{
    atomic_store(&spy.callers_full, true);
    put_one_by_one(100);
    atomic_store(&spy.callers_full, false);
    CHECK(sent_here == 0 && atomic_load(&spy.fulls) >= 50, "%u sockets were full", atomic_load(&spy.fulls));
    atomic_store(&spy.callers_cut, true);
    put_one_by_one(20);
    CHECK(sent_here == 0 && atomic_load(&spy.cuts) >= 10, "%u links were cut", atomic_load(&spy.cuts));
}

struct callers {
    struct ms_table *table;
    atomic_bool stop;
    atomic_int seed, puts;
};

static void *put_many(void *context)
{
    struct callers *callers = context;
    uint64_t seed = (uint64_t)atomic_fetch_add(&callers->seed, 1);
    static char text[4000];
    while (!atomic_load(&callers->stop)) {
        char key[16];
        uint32_t dice = spec_random(&seed);
        (void)snprintf(key, sizeof key, "key%u", dice % 300);
        struct ms_bytes value = {text, dice % 16 ? dice / 16 % 200 : dice / 16 % sizeof text};
        for (uint32_t i = 0; i < (dice % 50 ? 1 : 20); i++) OK(ms_put(callers->table, ms_str(key), value, dice % 8 ? 0 : MS_NOWAIT, NULL));
        atomic_fetch_add(&callers->puts, 1);
    }
    return NULL;
}

static int compare(void *context, struct ms_bytes key, struct ms_bytes value)
{
    static char room[8192];
    size_t size = 0;
    OK(ms_get(context, key, room, sizeof room, &size));
    CHECK(size == value.size, "%zu and %zu bytes", size, value.size);
    return 0;
}

static void is_equal(struct ms_node *follower, struct ms_node *leader, struct ms_table *table)
{
    EVENTUALLY(lab_position(follower).applied >= lab_position(leader).head, 40);
    struct ms_table *copy = lab_table(follower, "texts", MS_TYPE_BYTES);
    CHECK(ms_table_count(copy) == ms_table_count(table), "%llu entries", (unsigned long long)ms_table_count(copy));
    OK(ms_walk(table, compare, copy));
}

/* One follower comes and goes, another stands still now and then, so that its window is full; sockets take little, links are cut. */
static void disturbed(void)
{
    enum { CALLERS = 4, ROUNDS = 60 };
    struct ms_policy policy = os_policy();
    open_lab();
    struct ms_node *a = lab_leader(&lab, "a", &policy, NULL), *b = lab_node(&lab, "b", &policy, NULL), *c = lab_node(&lab, "c", &policy, NULL);
    struct callers callers = {.table = lab_table(a, "texts", MS_TYPE_BYTES)};
    pthread_t threads[CALLERS];
    lab_follow(b, a);
    lab_follow(c, a);
    atomic_store(&spy.faults, true);
    for (int i = 0; i < CALLERS; i++) threads[i] = lab_thread(put_many, &callers);
    for (int round = 0; round < ROUNDS; round++) {
        int before = atomic_load(&callers.puts);
        EVENTUALLY(atomic_load(&callers.puts) > before + 20, 20);
        if (round % 2) OK(ms_follow(b, "127.0.0.1:1"));
        else lab_follow(b, a);
        (void)pthread_mutex_lock(&c->mutex);
        before = atomic_load(&callers.puts);
        EVENTUALLY(atomic_load(&callers.puts) > before + 100, 20);
        (void)pthread_mutex_unlock(&c->mutex);
    }
    atomic_store(&callers.stop, true);
    for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
    atomic_store(&spy.faults, false);
    lab_follow(b, a);
    is_equal(b, a, callers.table);
    is_equal(c, a, callers.table);
    bool disturbed_at_all = atomic_load(&spy.cuts) > 0 && atomic_load(&spy.parts) > 0 && atomic_load(&spy.fulls) > 0;
    CHECK(disturbed_at_all && atomic_load(&spy.groups) > 0, "nothing happened");
    ms_close(a);
    ms_close(b);
    ms_close(c);
    lab_close(&lab);
}

struct last_call {
    struct ms_table *table;
    atomic_int *returned;
    int rc;
};

static void *put_once(void *context)
{
    struct last_call *call = context;
    is_caller = true; /* slow_us is for it */
    call->rc = lab_put(call->table, "k", 1, 0, NULL);
    atomic_fetch_add(call->returned, 1);
    return NULL;
}

static int waiting(struct ms_node *node)
{
    ms_node_lock(node);
    int count = (int)node->inside;
    ms_node_unlock(node);
    return count;
}

/* The disk and the sockets are slow, so that ms_close finds a caller that writes or sends for all of them. */
static void closed_meanwhile(void)
{
    enum { CALLS = 4, ROUNDS = 24 };
    struct ms_policy policy = os_policy();
    for (int round = 0; round < ROUNDS; round++) {
        struct last_call calls[CALLS];
        pthread_t threads[CALLS];
        atomic_int returned = 0;
        open_lab();
        struct ms_node *a = lab_leader(&lab, "a", &policy, NULL), *b = lab_node(&lab, "b", &policy, NULL);
        struct ms_table *table = lab_table(a, "numbers", MS_TYPE_INT64);
        lab_follow(b, a);
        EVENTUALLY(lab_position(b).applied >= lab_position(a).head, 20);
        atomic_store(&spy.slow_us, 2000 * (unsigned)(round % 4 + 1));
        for (int i = 0; i < CALLS; i++) {
            calls[i] = (struct last_call){.table = table, .returned = &returned};
            threads[i] = lab_thread(put_once, &calls[i]);
        }
        EVENTUALLY(waiting(a) + atomic_load(&returned) == CALLS, 20);
        ms_close(a);
        for (int i = 0; i < CALLS; i++) {
            pthread_join(threads[i], NULL);
            CHECK(calls[i].rc == 0 || calls[i].rc == MS_E_CLOSED, "call %d: %d", i, calls[i].rc);
        }
        atomic_store(&spy.slow_us, 0);
        ms_close(b);
        lab_close(&lab);
    }
}

static const struct spec_case cases[] = {
    SPEC_CASE(by_the_caller, "a lone change is sent by the caller that has written it, not by the loop"),
    SPEC_CASE(left_to_the_loop, "what a caller can't send, since the socket is full or the link has ended, arrives by the loop"),
    SPEC_CASE(disturbed, "however slow peers are and links end, groups leave in order, after they were written, and none is lost"),
    SPEC_CASE(closed_meanwhile, "a close waits for a caller that writes and sends, although its call has been ended"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
