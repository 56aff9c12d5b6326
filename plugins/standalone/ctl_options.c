#include "ctl_options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct known {
    const char *name;
    unsigned bit;
    bool has_value;
} known[] = {
    {"data", CTL_DATA, true},   {"control", CTL_CONTROL, true},  {"json", CTL_JSON, false},
    {"help", CTL_HELP, false},  {"version", CTL_VERSION, false}, {"timeout", CTL_TIMEOUT, true},
    {"type", CTL_TYPE, true},   {"prefix", CTL_PREFIX, true},    {"limit", CTL_LIMIT, true},
    {"batch", CTL_BATCH, true}, {"force", CTL_FORCE, false},     {"peer", CTL_PEER, true},
    {"from", CTL_FROM, true},   {"cluster", CTL_CLUSTER, true},  {"secret-file", CTL_SECRET, true},
    {"log", CTL_LOG_DIR, true}, {"against", CTL_AGAINST, true},
};

int ctl_usage(const char *format, ...)
{
    va_list args;
    (void)fputs("metasyncctl: ", stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    return CTL_USAGE;
}

bool ctl_number(const char *text, uint64_t most, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !errno && !*end && *number <= most;
}

static int take_number(const char *name, const char *text, uint64_t most, uint64_t *number)
{
    return ctl_number(text, most, number)
               ? CTL_OK
               : ctl_usage("--%s %s: expected a whole number up to %llu", name, text, (unsigned long long)most);
}

static int take(const struct known *option, const char *value, struct ctl_options *o)
{
    uint64_t number = 0;
    int rc;
    switch (option->bit) {
    case CTL_DATA: o->data = value; return CTL_OK;
    case CTL_CONTROL:
        if (snprintf(o->control, sizeof o->control, "%s", value) >= (int)sizeof o->control)
            return ctl_usage("--control: the path is too long");
        return CTL_OK;
    case CTL_TYPE:
        o->type = value;
        return strcmp(value, "int64") && strcmp(value, "bytes") ? ctl_usage("--type %s: expected int64 or bytes", value)
                                                                : CTL_OK;
    case CTL_PREFIX: o->prefix = value; return CTL_OK;
    case CTL_BATCH: o->batch = value; return CTL_OK;
    case CTL_CLUSTER: o->cluster = value; return CTL_OK;
    case CTL_SECRET: o->secret_file = value; return CTL_OK;
    case CTL_LOG_DIR: o->log_dir = value; return CTL_OK;
    case CTL_AGAINST: o->against = value; return CTL_OK;
    case CTL_LIMIT: return take_number(option->name, value, INT64_MAX, &o->limit);
    case CTL_FROM: return take_number(option->name, value, INT64_MAX, &o->from);
    case CTL_TIMEOUT:
        rc = take_number(option->name, value, 1000000000, &number);
        o->timeout_ms = (int)number;
        return rc;
    case CTL_PEER:
        if (o->peer_count == CTL_PEERS_MAX) return ctl_usage("--peer: at most %d of them", CTL_PEERS_MAX);
        o->peers[o->peer_count++] = value;
        return CTL_OK;
    default: return CTL_OK;
    }
}

static const struct known *find(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == size && strncmp(known[i].name, name, size) == 0) return &known[i];
    return NULL;
}

/* One option at argv[*at], and its value, which may be the next word. */
static int parse_option(int argc, char **argv, int *at, struct ctl_options *o)
{
    const char *name = argv[*at] + 2, *equals = strchr(name, '=');
    const struct known *option = find(name, equals ? (size_t)(equals - name) : strlen(name));
    if (!option) return ctl_usage("there is no option %s; try --help", argv[*at]);
    const char *value = equals ? equals + 1 : NULL;
    if (value && !option->has_value) return ctl_usage("--%s takes no value", option->name);
    if (option->has_value && !value) {
        if (*at + 1 >= argc) return ctl_usage("--%s needs a value", option->name);
        value = argv[++*at];
    }
    o->given |= option->bit;
    return take(option, value, o);
}

static int parse_word(const char *word, struct ctl_options *o)
{
    if (!o->command) {
        o->command = word;
        return CTL_OK;
    }
    if (o->count == CTL_ARGS_MAX) return ctl_usage("too many words");
    o->args[o->count++] = word;
    return CTL_OK;
}

static int name_socket(struct ctl_options *o)
{
    if (!o->data || o->control[0]) return CTL_OK;
    if (snprintf(o->control, sizeof o->control, "%s/control.sock", o->data) >= (int)sizeof o->control)
        return ctl_usage("--data: the path is too long");
    return CTL_OK;
}

int ctl_options_parse(int argc, char **argv, struct ctl_options *o)
{
    bool words_only = false;
    memset(o, 0, sizeof *o);
    for (int at = 1; at < argc; at++) {
        int rc = CTL_OK;
        if (!words_only && strcmp(argv[at], "--") == 0)
            words_only = true;
        else if (!words_only && strncmp(argv[at], "--", 2) == 0)
            rc = parse_option(argc, argv, &at, o);
        else
            rc = parse_word(argv[at], o);
        if (rc) return rc;
    }
    return name_socket(o);
}
