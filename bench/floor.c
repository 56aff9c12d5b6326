/* The floor: what the machine gives to somebody who leaves everything out. Our numbers are printed beside it.
 *
 *      floor update --dir DIR [--keys N --updates N --sync N]
 *          a replicator of two processes: hash table, log with write(2) in batches of 64, one socket. No protocol, no
 *          epochs, no checksums, no acknowledgements but one byte at the end. --sync N: the sender calls fdatasync
 *          after every N updates.
 *      floor memory --dir DIR [--keys N --commits N --threads N]
 *          the bare loop: lock, look-up, copy of 150 bytes, unlock, on N threads, while another thread takes what was
 *          copied and gives it to write(2).
 *      floor warm --mib N
 *          touches N MiB of fresh memory and gives it back: a virtual machine may have to get memory from its host first, which
 *          the program that happens to run next should not pay for.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "callers.h"

/* ---- a table: open addressing, never removes, never grows ------------------------------------------------------------ */

struct slot {
    bool used;
    char key[BENCH_KEY], value[BENCH_VALUE];
};

struct table {
    struct slot *slots;
    uint64_t mask;
};

static void table_init(struct table *table, uint64_t keys)
{
    uint64_t size = 1024;
    while (size < keys * 2) size *= 2;
    table->slots = bench_alloc(size * sizeof *table->slots);
    table->mask = size - 1;
}

static struct slot *table_find(struct table *table, const char *key, uint64_t hash)
{
    for (uint64_t at = hash;; at++) {
        struct slot *slot = &table->slots[at & table->mask];
        if (!slot->used || memcmp(slot->key, key, BENCH_KEY) == 0) return slot;
    }
}

static void table_put(struct table *table, const char *key, const char *value)
{
    struct slot *slot = table_find(table, key, XXH3_64bits(key, BENCH_KEY));
    if (!slot->used) {
        slot->used = true;
        memcpy(slot->key, key, BENCH_KEY);
    }
    memcpy(slot->value, value, BENCH_VALUE);
}

static int create(const char *dir, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) bench_die("%s: %s", path, strerror(errno));
    return fd;
}

static void write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t put = write(fd, data, size);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) bench_die("write: %s", strerror(errno));
        data += put;
        size -= (size_t)put;
    }
}

/* ---- the replicator ---------------------------------------------------------------------------------------------------- */

enum { RECORD = 4 + BENCH_KEY + BENCH_VALUE, BATCH = 64, RECEIVE = 64 * 1024 };

/* The receiver: logs what came, applies the whole records in it, answers one byte after the last of `records`. */
static void receive(int socket, int log, struct table *table, uint64_t records)
{
    static char buffer[RECEIVE];
    size_t have = 0;
    while (records) {
        ssize_t got = read(socket, buffer + have, sizeof buffer - have);
        if (got <= 0) bench_die("read: %s", got ? strerror(errno) : "closed");
        have += (size_t)got;
        size_t done = have / RECORD * RECORD;
        if (done == 0) continue;
        write_all(log, buffer, done);
        for (size_t at = 0; at < done; at += RECORD, records--) {
            table_put(table, buffer + at + 4, buffer + at + 4 + BENCH_KEY);
        }
        memmove(buffer, buffer + done, have - done);
        have -= done;
    }
    write_all(socket, "+", 1);
}

static void send_updates(int socket, int log, struct table *table, uint64_t updates, uint32_t keys, bool in_order,
                         uint64_t sync)
{
    struct bench_random random;
    char batch[BATCH * RECORD], answer;
    size_t size = 0;
    bench_random_init(&random, 1);
    for (uint64_t i = 0; i < updates; i++) {
        char *record = batch + size, *key = record + 4;
        uint32_t length = RECORD - 4;
        memcpy(record, &length, 4);
        bench_key(key, in_order ? (uint32_t)i : bench_random_below(&random, keys));
        memcpy(key + BENCH_KEY, bench_value(&random), BENCH_VALUE);
        table_put(table, key, key + BENCH_KEY);
        size += RECORD;
        bool full = size == sizeof batch || i + 1 == updates;
        if (full) write_all(log, batch, size);
        if (sync && (i + 1) % sync == 0) {
            if (!full) write_all(log, batch, size);
            if (fdatasync(log)) bench_die("fdatasync: %s", strerror(errno));
            full = true;
        }
        if (!full) continue;
        write_all(socket, batch, size);
        size = 0;
    }
    if (read(socket, &answer, 1) != 1) bench_die("the receiver ended early");
}

/* Two ends of one TCP connection over loopback, as our link is. */
static void tcp_pair(int sockets[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockets[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || sockets[0] < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &size) ||
        connect(sockets[0], (struct sockaddr *)&address, size) ||
        (sockets[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0) {
        bench_die("loopback connection: %s", strerror(errno));
    }
    close(listener);
    for (int i = 0; i < 2; i++) setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static double cpu_seconds(int who)
{
    struct rusage usage;
    getrusage(who, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void update(const char *dir, uint32_t keys, uint64_t updates, uint64_t sync)
{
    int sockets[2], log = create(dir, "floor-sender");
    struct table table;
    table_init(&table, keys);
    tcp_pair(sockets);
    pid_t pid = fork();
    if (pid < 0) bench_die("fork: %s", strerror(errno));
    if (pid == 0) {
        bench_tie_to_parent();
        int copy = create(dir, "floor-receiver");
        receive(sockets[1], copy, &table, keys);
        double before = cpu_seconds(RUSAGE_SELF);
        receive(sockets[1], copy, &table, updates);
        double used = cpu_seconds(RUSAGE_SELF) - before;
        write_all(sockets[1], (const char *)&used, sizeof used);
        _exit(0);
    }
    close(sockets[1]);
    send_updates(sockets[0], log, &table, keys, keys, true, 0);
    double before = cpu_seconds(RUSAGE_SELF), receiver = 0;
    uint64_t start = bench_now_ns();
    send_updates(sockets[0], log, &table, updates, keys, false, sync);
    uint64_t end = bench_now_ns();
    double sender = cpu_seconds(RUSAGE_SELF) - before;
    if (read(sockets[0], &receiver, sizeof receiver) != sizeof receiver) bench_die("the receiver ended early");
    waitpid(pid, NULL, 0);
    bench_result("updates_per_s", (double)updates / ((double)(end - start) / 1e9));
    bench_result("cpu_s", (sender + receiver) * 1e6 / (double)updates);
}

/* ---- the bare loop -------------------------------------------------------------------------------------------------------- */

enum { COPY = 150, TAIL = 8 << 20, PIECE = 32 << 10 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t room;
    struct table table;
    char *tail, *draining; /* swapped by the drainer */
    size_t size;
    bool done;
    uint64_t found;
    int log;
} bare = {.lock = PTHREAD_MUTEX_INITIALIZER, .room = PTHREAD_COND_INITIALIZER};

static void bare_commit(void *context, const char key[BENCH_KEY], const char *value)
{
    (void)context;
    uint64_t hash = XXH3_64bits(key, BENCH_KEY);
    pthread_mutex_lock(&bare.lock);
    while (bare.size + COPY > TAIL) pthread_cond_wait(&bare.room, &bare.lock);
    bare.found += table_find(&bare.table, key, hash)->used;
    memcpy(bare.tail + bare.size, value, COPY);
    bare.size += COPY;
    pthread_mutex_unlock(&bare.lock);
}

static void *bare_drain(void *argument)
{
    (void)argument;
    for (bool done = false; !done;) {
        pthread_mutex_lock(&bare.lock);
        char *take = bare.tail;
        size_t size = bare.size;
        done = bare.done && size == 0;
        bare.tail = bare.draining;
        bare.size = 0;
        bare.draining = take;
        pthread_cond_broadcast(&bare.room);
        pthread_mutex_unlock(&bare.lock);
        for (size_t at = 0; at < size; at += PIECE) write_all(bare.log, take + at, size - at < PIECE ? size - at : PIECE);
        if (size == 0) bench_sleep_until(bench_now_ns() + 20000);
    }
    return NULL;
}

static void memory(const char *dir, uint32_t keys, uint64_t commits, uint32_t threads)
{
    struct bench_random random;
    pthread_t drainer;
    table_init(&bare.table, keys);
    bench_random_init(&random, 9);
    for (uint32_t i = 0; i < keys; i++) {
        char key[BENCH_KEY];
        bench_key(key, i);
        table_put(&bare.table, key, bench_value(&random));
    }
    bare.tail = bench_alloc(TAIL);
    bare.draining = bench_alloc(TAIL);
    bare.log = create(dir, "floor-memory");
    if (pthread_create(&drainer, NULL, bare_drain, NULL)) bench_die("no thread");
    bench_callers_run(threads, keys, commits, bare_commit, NULL);
    pthread_mutex_lock(&bare.lock);
    bare.done = true;
    pthread_mutex_unlock(&bare.lock);
    pthread_join(drainer, NULL);
    if (bare.found != commits / threads * threads) bench_die("the bare loop lost keys");
}

static void warm(size_t mib)
{
    for (size_t size = mib << 20, piece = 64 << 20; size >= piece; size -= piece) {
        char *memory = mmap(NULL, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) bench_die("no memory to touch: %s", strerror(errno));
        for (size_t at = 0; at < piece; at += 4096) memory[at] = 1; /* stays until the end of the process */
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *dir = bench_arg(argc, argv, "--dir", "");
    uint32_t keys = (uint32_t)bench_arg_number(argc, argv, "--keys", 100000);
    bench_tie_to_parent();
    bench_values_init();
    if (strcmp(mode, "warm") != 0) bench_mkdir(dir);
    if (strcmp(mode, "warm") == 0) {
        warm(bench_arg_number(argc, argv, "--mib", 1024));
    } else if (strcmp(mode, "update") == 0) {
        update(dir, keys, bench_arg_number(argc, argv, "--updates", 1000000), bench_arg_number(argc, argv, "--sync", 0));
    } else if (strcmp(mode, "memory") == 0) {
        memory(dir, keys, bench_arg_number(argc, argv, "--commits", 1000000),
               (uint32_t)bench_arg_number(argc, argv, "--threads", 1));
    } else {
        bench_die("usage: floor update|memory --dir DIR ...");
    }
    bench_result("complete", 1);
    return 0;
}
