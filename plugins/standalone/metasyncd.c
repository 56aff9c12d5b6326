/* metasyncd: a host without a broker. It owns nothing but its node: what it leads is written through metasyncctl or imported from
 * RocketMQ files, what it follows can be exported as such files. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "entered.h"
#include "files.h"
#include "options.h"
#include "secret.h"

static void print_line(void *context, int severity, const char *line)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    const struct options *options = context;
    if (severity < options->severity) return;
    struct timespec now;
    struct tm tm;
    char stamp[32];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &tm);
    (void)strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
    fprintf(stderr, "%s.%03ldZ %-5s %s\n", stamp, now.tv_nsec / 1000000, names[severity & 3], line);
}

/* What the node's callbacks need. */
struct daemon {
    const struct options *options;
    struct entered entered;
};

static void log_line(void *context, int severity, const char *line)
{
    print_line((void *)(uintptr_t)((struct daemon *)context)->options, severity, line);
}

static void entered(void *context, const char *table, struct ms_bytes key)
{
    entered_add(&((struct daemon *)context)->entered, table, key);
}

static void print_failure(const struct options *options, const char *what)
{
    char line[700];
    (void)snprintf(line, sizeof line, "%s: %s", what, ms_error_message());
    print_line((void *)(uintptr_t)options, MS_LOG_ERROR, line);
}

static int start_role(struct ms_node *node, const struct options *options)
{
    int rc = 0;
    if (options->mode == OPTIONS_LEAD) rc = ms_lead(node, options->peers, options->peer_count, -1);
    if (options->mode == OPTIONS_FOLLOW) rc = ms_follow(node, options->follow);
    if (rc) print_failure(options, options->mode == OPTIONS_LEAD ? "cannot lead" : "cannot follow");
    return rc == MS_E_DEPOSED ? 3 : rc ? 1 : 0;
}

static int import_at_start(struct files *files)
{
    const struct options *options = files->options;
    if (!options->import) return 0;
    char *report = NULL;
    if (files_import(files, options->import, options->force, &report)) {
        print_failure(options, "cannot import");
        return 1;
    }
    print_line((void *)(uintptr_t)options, MS_LOG_INFO, report);
    ms_free(report);
    return 0;
}

/* The node itself says what came of it. */
static void reload_policy(struct files *files)
{
    if (files->options->policy_file) (void)ms_policy_reload(files->node, NULL, 0, NULL);
    else print_line((void *)(uintptr_t)files->options, MS_LOG_INFO, "SIGHUP: there is no policy file to reload");
}

/* The import is the host's own copy: what the policy wants now, and did not want then, is imported again. */
static void import_entered(struct files *files)
{
    if (!entered_pending(files->entered)) return;
    int rc = entered_import(files->entered, files);
    if (rc) print_failure(files->options, "cannot import what has entered the view");
}

/* Until a signal ends it; exports in between. */
static void serve(struct files *files, const sigset_t *signals)
{
    const struct options *options = files->options;
    int failed = 0; /* one line per streak of failed exports */
    for (;;) {
        struct timespec wait = {options->export_every_ms / 1000, options->export_every_ms % 1000 * 1000000L};
        int got = options->export ? sigtimedwait(signals, NULL, &wait) : sigwaitinfo(signals, NULL);
        if (got == SIGTERM || got == SIGINT) return;
        if (got < 0 && errno != EAGAIN && errno != EINTR) return;
        if (got == SIGHUP) reload_policy(files);
        import_entered(files);
        if (!options->export) continue;
        int rc = files_export_changes(files);
        if (rc && !failed) print_failure(options, "cannot export");
        failed = rc;
    }
}

static void announce(struct ms_node *node, const struct options *options)
{
    char line[OPTIONS_PATH_MAX + 100];
    (void)snprintf(line, sizeof line, "ready: port %d, control socket %s", ms_port(node), options->control);
    print_line((void *)(uintptr_t)options, MS_LOG_INFO, line);
}

/* `files` outlives the node: control threads may be at work with it until ms_close has joined them. */
static int run(struct files *files, const sigset_t *signals)
{
    const struct options *options = files->options;
    struct ms_node *node = files->node;
    if (options->import && files_check(files, options->import)) {
        print_failure(options, "cannot import");
        return 1;
    }
    ms_control_extend(node, files_control, files);
    int status = start_role(node, options);
    if (!status) status = import_at_start(files);
    if (status) return status;
    announce(node, options);
    serve(files, signals);
    print_line((void *)(uintptr_t)options, MS_LOG_INFO, "stopping");
    ms_control_extend(node, NULL, NULL);
    (void)ms_flush(node, NULL, NULL); /* refused on a follower, which has nothing to flush */
    if (options->export && files_export_changes(files)) print_failure(options, "cannot export");
    return 0;
}

int main(int argc, char **argv)
{
    struct options options;
    char secret[SECRET_MAX];
    int status = options_parse(argc, argv, &options);
    if (status) return status == 1 ? 0 : 2;
    if (options.secret_file && secret_read(options.secret_file, secret)) return 1;
    /* Before any thread exists: the signals are for sigwait in this one. */
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGHUP); /* reload; so a closed terminal does not end it */
    (void)sigaddset(&signals, SIGPIPE);
    (void)sigaddset(&signals, ENTERED_SIGNAL);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    struct daemon daemon = {.options = &options};
    entered_init(&daemon.entered);
    struct ms_host host = {.context = &daemon, .log = log_line, .entered = options.import ? entered : NULL};
    struct ms_config config = {
        .dir = options.data,
        .cluster = options.cluster,
        .name = options.name,
        .listen = options.listen,
        .secret = options.secret_file ? secret : NULL,
        .control = options.control,
        .policy = &options.policy,
        .policy_file = options.policy_file,
        .host = &host,
    };
    struct ms_node *node = NULL;
    if (ms_open(&config, &node)) {
        print_failure(&options, "cannot start");
        entered_close(&daemon.entered);
        return 1;
    }
    struct files files = {.node = node, .options = &options, .mutex = PTHREAD_MUTEX_INITIALIZER, .entered = &daemon.entered};
    status = run(&files, &signals);
    ms_close(node);
    entered_close(&daemon.entered);
    return status;
}
