/* The command line of metasyncctl. Options may stand anywhere; there are no short ones, so that -1 is a word like any other. */
#ifndef METASYNCCTL_OPTIONS_H
#define METASYNCCTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CTL_ARGS_MAX = 64, CTL_PEERS_MAX = 16, CTL_PATH_MAX = 1024 };

/* Exit statuses; --help lists them for scripts. */
enum ctl_exit {
    CTL_OK = 0,
    CTL_FAILED = 1,
    CTL_USAGE = 2,
    CTL_UNREACHABLE = 3,
    CTL_NOT_FOUND = 4,
    CTL_UNCONFIRMED = 5,
};

/* Bits of struct ctl_options.given, and of what a command takes. */
enum ctl_option {
    CTL_DATA = 1,
    CTL_CONTROL = 2,
    CTL_JSON = 4,
    CTL_HELP = 8,
    CTL_VERSION = 16,
    CTL_TIMEOUT = 32,
    CTL_TYPE = 64,
    CTL_PREFIX = 128,
    CTL_LIMIT = 256,
    CTL_BATCH = 512,
    CTL_FORCE = 1024,
    CTL_PEER = 2048,
    CTL_FROM = 4096,
    CTL_CLUSTER = 8192,
    CTL_SECRET = 16384,
    CTL_LOG_DIR = 32768,
    CTL_AGAINST = 65536,
    CTL_EVERYWHERE = CTL_DATA | CTL_CONTROL | CTL_JSON | CTL_HELP | CTL_VERSION | CTL_TIMEOUT,
};

struct ctl_options {
    unsigned given;      /* enum ctl_option bits */
    const char *command; /* NULL = none */
    const char *args[CTL_ARGS_MAX];
    size_t count;
    char control[CTL_PATH_MAX]; /* "" = not said which node */
    const char *data, *type, *prefix, *batch, *cluster, *secret_file, *log_dir, *against;
    const char *peers[CTL_PEERS_MAX];
    size_t peer_count;
    uint64_t limit, from;
    int timeout_ms; /* if given */
};

static inline bool ctl_given(const struct ctl_options *options, unsigned option)
{
    return (options->given & option) != 0;
}

/* CTL_OK, or CTL_USAGE after saying what is wrong. */
int ctl_options_parse(int argc, char **argv, struct ctl_options *options);

/* A whole number from text, at most `most`: true if it is one. */
bool ctl_number(const char *text, uint64_t most, uint64_t *number);

/* Prints "metasyncctl: ..." with a newline to standard error and returns CTL_USAGE. */
int ctl_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
