/* Real processes and SIGKILL: what was confirmed is there afterwards; a follower goes on with a leader that comes back.
 *
 * The program starts itself as "PROGRAM --writer DIR PORT LEVEL": a leader that writes as fast as it can and prints each
 * confirmed number to its standard output, until it is killed. */
#include "node_lab.h"

#include <signal.h>
#include <sys/wait.h>

enum { WRITERS = 3 };

/* ---- the process that is killed ----------------------------------------------------------------------------------------------- */

struct writer {
    struct ms_node *node;
    struct ms_table *table;
    int number;
};

/* Each writer has a key of its own, which it counts up; and adds a new key from time to time. */
static void *write_on(void *context)
{
    struct writer *writer = context;
    char key[32], line[64];
    (void)snprintf(key, sizeof key, "count%d", writer->number);
    for (int64_t n = lab_number(writer->table, key, 0) + 1;; n++) {
        OK(lab_put(writer->table, key, n, 0, NULL));
        int length = snprintf(line, sizeof line, "%d %lld\n", writer->number, (long long)n);
        if (write(STDOUT_FILENO, line, (size_t)length) != length) exit(0); /* nobody reads any more */
        if (n % 5) continue;
        (void)snprintf(key, sizeof key, "new%d-%lld", writer->number, (long long)n);
        OK(lab_put(writer->table, key, n, MS_NOWAIT, NULL));
        (void)snprintf(key, sizeof key, "count%d", writer->number);
    }
}

static int writer_main(const char *dir, const char *port, int level)
{
    struct ms_policy policy = lab_policy();
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS];
    char listen[32];
    policy.level = level;
    policy.snapshot_every_ms = 30; /* kills shall hit snapshots and trims too */
    policy.log_keep_bytes = 128 << 10;
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%s", port);
    struct ms_config config = {.dir = dir, .cluster = "lab", .listen = listen, .policy = &policy};
    struct ms_node *node;
    OK(ms_open(&config, &node));
    OK(ms_lead(node, NULL, 0, 20000));
    struct ms_table *table = lab_table(node, "numbers", MS_TYPE_INT64);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){node, table, i};
        threads[i] = lab_thread(write_on, &writers[i]);
    }
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
    return 1;
}

/* ---- the process that kills -------------------------------------------------------------------------------------------------------- */

static struct lab lab;

struct child {
    pid_t pid;
    int output;
    int64_t confirmed[WRITERS];
    int kills; /* since what is there was looked at */
    char rest[64];
    size_t rest_size;
};

static void start(struct child *child, int port, int level)
{
    int pipes[2];
    char dir[100], port_text[16], level_text[16];
    (void)snprintf(dir, sizeof dir, "%s/leader", lab.dir);
    (void)snprintf(port_text, sizeof port_text, "%d", port);
    (void)snprintf(level_text, sizeof level_text, "%d", level);
    CHECK(pipe(pipes) == 0, "no pipe");
    child->pid = fork();
    CHECK(child->pid >= 0, "no process");
    if (child->pid == 0) {
        (void)dup2(pipes[1], STDOUT_FILENO);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
        (void)execl("/proc/self/exe", "node_crash", "--writer", dir, port_text, level_text, (char *)NULL);
        _exit(127);
    }
    (void)close(pipes[1]);
    child->output = pipes[0];
    child->rest_size = 0;
}

static void take_line(struct child *child, const char *line)
{
    int number;
    long long n;
    CHECK(sscanf(line, "%d %lld", &number, &n) == 2 && number < WRITERS, "the writer said: %s", line);
    if (n > child->confirmed[number]) child->confirmed[number] = n;
}

/* Reads what there is; false at the end. */
static bool read_some(struct child *child)
{
    char text[4096];
    memcpy(text, child->rest, child->rest_size);
    ssize_t got = read(child->output, text + child->rest_size, sizeof text - child->rest_size - 1);
    if (got <= 0) return false;
    size_t size = child->rest_size + (size_t)got;
    text[size] = '\0';
    char *at = text;
    for (char *newline; (newline = strchr(at, '\n')); at = newline + 1) {
        *newline = '\0';
        take_line(child, at);
    }
    child->rest_size = size - (size_t)(at - text);
    memcpy(child->rest, at, child->rest_size);
    return true;
}

/* Lets it write at least `more` changes, then kills it, and reads what it had confirmed until then. */
static void kill_after(struct child *child, int64_t more)
{
    int64_t goal = child->confirmed[0] + more;
    while (child->confirmed[0] < goal) CHECK(read_some(child), "the writer ended by itself");
    CHECK(kill(child->pid, SIGKILL) == 0, "cannot kill");
    while (read_some(child)) continue;
    int status;
    CHECK(waitpid(child->pid, &status, 0) == child->pid && WIFSIGNALED(status), "it was not killed");
    (void)close(child->output);
    child->kills++;
}

/* Each kill may leave one change a thread that was made and not confirmed. */
static void check_confirmed(struct child *child, struct ms_node *node)
{
    struct ms_table *table = lab_table(node, "numbers", MS_TYPE_INT64);
    for (int i = 0; i < WRITERS; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "count%d", i);
        int64_t found = lab_number(table, key, 0);
        CHECK(found >= child->confirmed[i], "writer %d: %lld confirmed, %lld found", i, (long long)child->confirmed[i], (long long)found);
        CHECK(found <= child->confirmed[i] + child->kills,
              "writer %d: %lld confirmed, %lld found", i, (long long)child->confirmed[i], (long long)found);
        child->confirmed[i] = found;
    }
    child->kills = 0;
}

static void killed(int level, int times)
{
    struct child child = {0};
    uint64_t seed = 42;
    lab_open(&lab);
    for (int i = 0; i < times; i++) {
        start(&child, 0, level);
        kill_after(&child, 1 + spec_random(&seed) % 300);
        struct ms_node *node = lab_node(&lab, "leader", NULL, NULL);
        CHECK(lab_status_has(node, "\"damaged\":false"), "recovery failed");
        check_confirmed(&child, node);
        ms_close(node);
    }
    lab_close(&lab);
}

static void killed_at_disk(void)
{
    killed(MS_LEVEL_DISK, 8);
}

static void killed_at_os(void)
{
    killed(MS_LEVEL_OS, 8);
}

/* The follower lives in this process, the leader's process is killed and comes back at the same port, again and again. */
static void follower_goes_on(void)
{
    struct child child = {0};
    lab_open(&lab);
    struct ms_node *probe = lab_node(&lab, "probe", NULL, NULL), *follower = lab_node(&lab, "follower", NULL, NULL);
    int port = ms_port(probe); /* one that is free */
    char address[32];
    ms_close(probe);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    OK(ms_follow(follower, address));
    for (int i = 0; i < 5; i++) {
        start(&child, port, MS_LEVEL_DISK);
        uint64_t run = lab_position(follower).run;
        kill_after(&child, 50);
        start(&child, port, MS_LEVEL_DISK);
        EVENTUALLY(lab_position(follower).run > run, 30); /* it streams from an epoch that it had not seen */
        kill_after(&child, 1);
    }
    /* The leader's machine does not come back. What the follower has is a prefix of what was confirmed, and it leads from there. */
    OK(ms_promote(follower, 0, 20000));
    struct ms_table *table = lab_table(follower, "numbers", MS_TYPE_INT64);
    int64_t newest = child.confirmed[0] + 1000;
    OK(lab_put(table, "count0", newest, 0, NULL));
    struct ms_node *old = lab_node(&lab, "leader", NULL, NULL);
    check_confirmed(&child, old);
    lab_follow(old, follower);
    EVENTUALLY(lab_position(old).id == lab_position(follower).id && lab_position(old).applied >= lab_position(follower).head, 30);
    CHECK(lab_number(lab_table(old, "numbers", MS_TYPE_INT64), "count0", 0) == newest, "the old leader has not followed");
    ms_close(old);
    ms_close(follower);
    lab_close(&lab);
}

static const struct spec_case cases[] = {
    SPEC_CASE(killed_at_disk, "after kill -9 everything is there that was confirmed at the disk level, and at most one change more a thread"),
    SPEC_CASE(killed_at_os, "the same at the os level: what was written survives the process"),
    SPEC_CASE(follower_goes_on, "a follower goes on with a leader that is killed and comes back, and can take over in the end"),
};

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--writer") == 0) return writer_main(argv[2], argv[3], atoi(argv[4]));
    (void)signal(SIGPIPE, SIG_IGN);
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
