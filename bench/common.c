/* See common.h. */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { VALUE_POOL = 1 << 20 };

static char value_pool[VALUE_POOL + BENCH_VALUE_SLACK];

void bench_die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void *bench_alloc(size_t size)
{
    void *memory = malloc(size);
    if (!memory) bench_die("out of memory (%zu bytes)", size);
    memset(memory, 0, size);
    return memory;
}

/* ---- clocks ------------------------------------------------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bench_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint64_t bench_real_us(void)
{
    return clock_ns(CLOCK_REALTIME) / 1000;
}

void bench_sleep_until(uint64_t monotonic_ns)
{
    struct timespec t = {(time_t)(monotonic_ns / 1000000000u), (long)(monotonic_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

/* ---- the workload --------------------------------------------------------------------------------------------------- */

void bench_key(char key[BENCH_KEY], uint32_t n)
{
    static const char prefix[] = "persistent://tenant/space/topic-";
    static const char digits[] = "0123456789abcdef";
    memcpy(key, prefix, 32);
    for (int i = 39; i >= 32; i--) {
        key[i] = digits[n & 15];
        n >>= 4;
    }
}

void bench_random_init(struct bench_random *random, uint64_t seed)
{
    random->a = seed * 0x9e3779b97f4a7c15u + 1;
    random->b = seed ^ 0xd1b54a32d192ed03u;
    for (int i = 0; i < 16; i++) bench_random_next(random);
}

uint64_t bench_random_next(struct bench_random *random)
{
    uint64_t a = random->a, b = random->b;
    random->a = b;
    a ^= a << 23;
    random->b = a ^ b ^ (a >> 17) ^ (b >> 26);
    return random->b + b;
}

uint32_t bench_random_below(struct bench_random *random, uint32_t bound)
{
    return (uint32_t)(((bench_random_next(random) >> 32) * bound) >> 32);
}

void bench_values_init(void)
{
    struct bench_random random;
    bench_random_init(&random, 7);
    for (size_t i = 0; i < sizeof value_pool; i++) value_pool[i] = (char)bench_random_next(&random);
}

const char *bench_value(struct bench_random *random)
{
    return value_pool + bench_random_below(random, VALUE_POOL);
}

/* ---- processes -------------------------------------------------------------------------------------------------------- */

/* The file of /proc as text; false if the process is gone. */
static bool proc_read(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    if (pid) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    } else {
        snprintf(path, sizeof path, "/proc/self/%s", name);
    }
    FILE *file = fopen(path, "r");
    if (!file) return false;
    size_t got = fread(text, 1, size - 1, file);
    text[got] = 0;
    fclose(file);
    return true;
}

static uint64_t proc_field(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

void bench_usage(pid_t pid, struct bench_usage *usage)
{
    char text[8192];
    memset(usage, 0, sizeof *usage);
    if (!proc_read(pid, "stat", text, sizeof text)) bench_die("process %d is gone", (int)pid);
    const char *at = strrchr(text, ')'); /* the name may hold spaces; fields 14..17 are utime stime cutime cstime */
    unsigned long long user = 0, system = 0;
    long long child_user = 0, child_system = 0;
    if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %lld %lld", &user, &system,
                      &child_user, &child_system) != 4) {
        bench_die("/proc/%d/stat is not understood", (int)pid);
    }
    usage->cpu_s = (double)(user + system + (unsigned long long)(child_user + child_system)) / (double)sysconf(_SC_CLK_TCK);
    if (proc_read(pid, "status", text, sizeof text)) {
        usage->rss = proc_field(text, "VmRSS:") * 1024;
        usage->peak = proc_field(text, "VmHWM:") * 1024;
    }
}

void bench_peak_reset(pid_t pid)
{
    char path[64];
    if (pid) {
        snprintf(path, sizeof path, "/proc/%d/clear_refs", (int)pid);
    } else {
        snprintf(path, sizeof path, "/proc/self/clear_refs");
    }
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "5", 1) != 1) bench_die("%s: %s", path, strerror(errno));
    close(fd);
}

static void child_exec(char *const argv[], int in, int out, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(in, 0);
    dup2(out, 1);
    execv(argv[0], argv);
    fprintf(stderr, "bench: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

void bench_spawn(struct bench_child *child, char *const argv[], bool piped)
{
    int to[2], from[2];
    memset(child, 0, sizeof *child);
    if (piped) {
        if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC)) bench_die("pipe: %s", strerror(errno));
    } else {
        to[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        from[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
        to[1] = from[0] = -1;
        if (to[0] < 0 || from[1] < 0) bench_die("/dev/null: %s", strerror(errno));
    }
    fflush(NULL);
    pid_t parent = getpid();
    /* Not fork: it would make every page of ours one that is copied at its next write, in the middle of what is measured. */
    child->pid = vfork();
    if (child->pid < 0) bench_die("fork: %s", strerror(errno));
    if (child->pid == 0) child_exec(argv, to[0], from[1], parent);
    close(to[0]);
    close(from[1]);
    if (!piped) return;
    child->in = fdopen(to[1], "w");
    child->out = fdopen(from[0], "r");
    if (!child->in || !child->out) bench_die("fdopen: %s", strerror(errno));
}

void bench_stop(struct bench_child *child)
{
    if (child->pid <= 0) return;
    if (child->in) {
        fclose(child->in);
        fclose(child->out);
    } else {
        kill(child->pid, SIGTERM);
    }
    uint64_t deadline = bench_now_ns() + 20000000000u;
    while (waitpid(child->pid, NULL, WNOHANG) == 0) {
        if (bench_now_ns() > deadline) {
            kill(child->pid, SIGKILL);
            waitpid(child->pid, NULL, 0);
            break;
        }
        bench_sleep_until(bench_now_ns() + 2000000);
    }
    memset(child, 0, sizeof *child);
}

void bench_tie_to_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
}

void bench_tell(struct bench_child *child, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(child->in, format, args);
    va_end(args);
    if (fputc('\n', child->in) == EOF || fflush(child->in) == EOF) bench_die("a child process ended early");
}

void bench_hear(struct bench_child *child, char *line, size_t size)
{
    if (!fgets(line, (int)size, child->out)) bench_die("a child process ended early");
    line[strcspn(line, "\n")] = 0;
}

void bench_mkdir(const char *path)
{
    char part[512];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) bench_die("%s: path too long", path);
    for (char *at = part + 1; *at; at++) {
        if (*at != '/') continue;
        *at = 0;
        mkdir(part, 0755);
        *at = '/';
    }
    if (mkdir(part, 0755) && errno != EEXIST) bench_die("mkdir %s: %s", path, strerror(errno));
}

/* ---- results ------------------------------------------------------------------------------------------------------------ */

void bench_result(const char *name, double value)
{
    printf("%s %.9g\n", name, value);
    fflush(stdout);
}

void bench_samples_init(struct bench_samples *samples, size_t capacity)
{
    samples->ns = bench_alloc(capacity * sizeof *samples->ns);
    samples->count = 0;
    samples->capacity = capacity;
}

void bench_samples_close(struct bench_samples *samples)
{
    free(samples->ns);
    memset(samples, 0, sizeof *samples);
}

static int compare_ns(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

void bench_samples_report(struct bench_samples *samples, const char *prefix)
{
    static const struct {
        const char *name;
        double part;
    } rows[] = {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1.0}};
    if (samples->count == 0) bench_die("%s: no samples", prefix);
    qsort(samples->ns, samples->count, sizeof *samples->ns, compare_ns);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[96];
        size_t at = (size_t)((double)(samples->count - 1) * rows[i].part + 0.5);
        snprintf(name, sizeof name, "%s_%s_us", prefix, rows[i].name);
        bench_result(name, samples->ns[at] / 1e3);
    }
}

/* ---- arguments ------------------------------------------------------------------------------------------------------------ */

const char *bench_arg(int argc, char **argv, const char *name, const char *fallback)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) return argv[i + 1];
    }
    return fallback;
}

uint64_t bench_arg_number(int argc, char **argv, const char *name, uint64_t fallback)
{
    const char *text = bench_arg(argc, argv, name, NULL);
    if (!text) return fallback;
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    if (end == text || *end) bench_die("%s: %s is not a number", name, text);
    return number;
}
