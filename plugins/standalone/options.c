#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../core/sync/policy.h"

static const char help[] =
    "metasyncd: keeps tables of metadata equal on a leader and its followers\n"
    "\n"
    "usage: metasyncd --data DIR (--lead | --follow HOST:PORT) [options]\n"
    "\n"
    "  --data DIR             data directory: log and snapshots; made if missing, one daemon at a time\n"
    "  --lead                 lead: opens a new epoch and accepts writes\n"
    "  --peer HOST:PORT       with --lead: asked first whether it knows a higher epoch (repeat for more)\n"
    "  --follow HOST:PORT     follow the leader at that address\n"
    "                         with neither: wait for `metasyncctl lead`, `follow` or `promote`\n"
    "  --listen HOST:PORT     accept links there (followers also listen: they may be promoted, and are asked) [none]\n"
    "  --cluster NAME         only nodes of the same cluster talk to each other [default]\n"
    "  --name NAME            what people call this node [host name]\n"
    "  --secret-file FILE     shared secret; needed for addresses that are not loopback; mode 0600\n"
    "  --control PATH         socket for metasyncctl [DIR/control.sock]\n"
    "  --policy FILE          a policy in Lua (docs/policy.md): all that is tunable, also while the node runs; SIGHUP reads it\n"
    "                         anew. Goes with none of the options of the next group, each of which is a field of the file\n"
    "\n"
    "  --level LEVEL          how far a change gets before its put returns: memory, os, disk, replica [disk]\n"
    "  --table NAME=LEVEL     the same for one table\n"
    "  --table NAME=buffer:INTERVAL_MS[:ENTRIES[:BYTES]]\n"
    "                         a double buffer instead: logged every INTERVAL_MS, or at so many dirty entries or bytes\n"
    "  --no-replica refuse|degrade     a replica-level put with no follower in sync [refuse]\n"
    "  --log-failure refuse|pass       after the log's disk failed [refuse]\n"
    "  --snapshot-every MS    [30000]     --snapshot-keep N        [2]\n"
    "  --log-keep BYTES       [268435456] --log-max BYTES          [1073741824]\n"
    "  --segment BYTES        [16777216]; at least room for one largest value (4 MiB)\n"
    "\n"
    "  --import DIR           leading: import a RocketMQ store/config directory at start, as a difference to the last import\n"
    "  --force                import also what is older than what is here\n"
    "  --export DIR           write the tables there as RocketMQ files, after changes and at the end\n"
    "  --export-every MS      at most so often [1000]\n"
    "  --log-level LEVEL      debug, info, warn, error [info]\n"
    "  --help, --version\n"
    "\n"
    "SIGTERM and SIGINT end it cleanly: buffers are flushed, the log is synced. SIGHUP reloads the policy file (without one it does\n"
    "nothing). Exit status: 0 clean, 1 failed, 2 wrong usage,\n"
    "3 --lead was refused because a peer knows a higher epoch (start it with --follow).\n"
    "\n"
    "example: metasyncd --data /var/lib/ms1 --listen 127.0.0.1:7701 --lead --import /opt/rocketmq/store/config\n"
    "         metasyncd --data /var/lib/ms2 --listen 127.0.0.1:7702 --follow 127.0.0.1:7701 --export /backup/config\n"
    "         metasyncd --data /var/lib/ms3 --listen 127.0.0.1:7703 --lead --policy /etc/metasync/policy.lua\n"
    "         metasyncctl --data /var/lib/ms2 status\n";

enum {
    OPTION_DATA = 256, OPTION_LEAD, OPTION_PEER, OPTION_FOLLOW, OPTION_LISTEN, OPTION_CLUSTER, OPTION_NAME, OPTION_SECRET, OPTION_CONTROL,
    OPTION_LEVEL, OPTION_TABLE, OPTION_NO_REPLICA, OPTION_LOG_FAILURE, OPTION_SNAPSHOT_EVERY, OPTION_SNAPSHOT_KEEP, OPTION_LOG_KEEP,
    OPTION_LOG_MAX, OPTION_SEGMENT, OPTION_IMPORT, OPTION_FORCE, OPTION_EXPORT, OPTION_EXPORT_EVERY, OPTION_LOG_LEVEL, OPTION_POLICY,
    OPTION_HELP, OPTION_VERSION,
};

static const struct option known[] = {
    {"data", required_argument, NULL, OPTION_DATA},
    {"lead", no_argument, NULL, OPTION_LEAD},
    {"peer", required_argument, NULL, OPTION_PEER},
    {"follow", required_argument, NULL, OPTION_FOLLOW},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"cluster", required_argument, NULL, OPTION_CLUSTER},
    {"name", required_argument, NULL, OPTION_NAME},
    {"secret-file", required_argument, NULL, OPTION_SECRET},
    {"control", required_argument, NULL, OPTION_CONTROL},
    {"policy", required_argument, NULL, OPTION_POLICY},
    {"level", required_argument, NULL, OPTION_LEVEL},
    {"table", required_argument, NULL, OPTION_TABLE},
    {"no-replica", required_argument, NULL, OPTION_NO_REPLICA},
    {"log-failure", required_argument, NULL, OPTION_LOG_FAILURE},
    {"snapshot-every", required_argument, NULL, OPTION_SNAPSHOT_EVERY},
    {"snapshot-keep", required_argument, NULL, OPTION_SNAPSHOT_KEEP},
    {"log-keep", required_argument, NULL, OPTION_LOG_KEEP},
    {"log-max", required_argument, NULL, OPTION_LOG_MAX},
    {"segment", required_argument, NULL, OPTION_SEGMENT},
    {"import", required_argument, NULL, OPTION_IMPORT},
    {"force", no_argument, NULL, OPTION_FORCE},
    {"export", required_argument, NULL, OPTION_EXPORT},
    {"export-every", required_argument, NULL, OPTION_EXPORT_EVERY},
    {"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

/* What a policy file says in place of the options that tune. */
static const struct {
    int option;
    const char *name, *field;
} tuning[] = {
    {OPTION_LEVEL, "level", "ack = \"disk\""},
    {OPTION_TABLE, "table", "tables = { NAME = { ack = \"disk\" } } or { NAME = { buffer = { interval = \"200ms\" } } }"},
    {OPTION_NO_REPLICA, "no-replica", "replica = { on_none = \"refuse\" }"},
    {OPTION_LOG_FAILURE, "log-failure", "log = { on_failure = \"refuse\" }"},
    {OPTION_SNAPSHOT_EVERY, "snapshot-every", "snapshot = { every = \"30s\" }"},
    {OPTION_SNAPSHOT_KEEP, "snapshot-keep", "snapshot = { keep = 2 }"},
    {OPTION_LOG_KEEP, "log-keep", "log = { keep = \"256MiB\" }"},
    {OPTION_LOG_MAX, "log-max", "log = { max = \"1GiB\" }"},
    {OPTION_SEGMENT, "segment", "log = { segment = \"16MiB\" }"},
};

static int wrong(const char *option, const char *value, const char *expected)
{
    fprintf(stderr, "metasyncd: --%s %s: expected %s\n", option, value, expected);
    return 2;
}

/* A number up to `most`, into *number; with the whole text used. */
static int parse_number(const char *option, const char *text, uint64_t most, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || *number > most) return wrong(option, text, "a whole number in range");
    return 0;
}

static int parse_u32(const char *option, const char *text, uint32_t *number)
{
    uint64_t wide;
    int rc = parse_number(option, text, UINT32_MAX, &wide);
    if (!rc) *number = (uint32_t)wide;
    return rc;
}

static int parse_level(const char *option, const char *text, int *level)
{
    *level = ms_level_parse(text);
    return *level ? 0 : wrong(option, text, "memory, os, disk or replica");
}

/* One of two words, which become 0 and 1. */
static int parse_choice(const char *option, const char *text, const char *zero, const char *one, int *choice)
{
    char expected[64];
    (void)snprintf(expected, sizeof expected, "%s or %s", zero, one);
    *choice = strcmp(text, one) == 0;
    return *choice || strcmp(text, zero) == 0 ? 0 : wrong(option, text, expected);
}

static int parse_buffer(const char *text, struct ms_table_policy *table)
{
    unsigned interval = 0, entries = 0, bytes = 0;
    char extra;
    int fields = sscanf(text, "%u:%u:%u%c", &interval, &entries, &bytes, &extra);
    if (fields < 1 || fields > 3 || interval == 0) return wrong("table", text, "buffer:INTERVAL_MS[:ENTRIES[:BYTES]]");
    table->interval_ms = interval;
    table->entries = entries;
    table->bytes = bytes;
    return 0;
}

static int parse_table(const char *text, struct ms_policy *policy)
{
    const char *equals = strchr(text, '=');
    size_t size = equals ? (size_t)(equals - text) : 0;
    if (size == 0 || size > MS_TABLE_NAME_MAX) return wrong("table", text, "NAME=LEVEL or NAME=buffer:INTERVAL_MS");
    if (policy->table_count == MS_POLICY_TABLES_MAX) return wrong("table", text, "fewer tables");
    struct ms_table_policy *table = &policy->tables[policy->table_count++];
    memcpy(table->name, text, size);
    if (strncmp(equals + 1, "buffer:", 7) == 0) return parse_buffer(equals + 8, table);
    return parse_level("table", equals + 1, &table->level);
}

static int parse_severity(const char *text, int *severity)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    for (*severity = 0; *severity < 4; ++*severity)
        if (strcmp(names[*severity], text) == 0) return 0;
    return wrong("log-level", text, "debug, info, warn or error");
}

static int parse_tuning(int option, const char *value, struct options *o)
{
    if (!o->tuned_by) o->tuned_by = option;
    switch (option) {
    case OPTION_LEVEL: return parse_level("level", value, &o->policy.level);
    case OPTION_TABLE: return parse_table(value, &o->policy);
    case OPTION_NO_REPLICA: return parse_choice("no-replica", value, "refuse", "degrade", &o->policy.on_no_replica);
    case OPTION_LOG_FAILURE: return parse_choice("log-failure", value, "refuse", "pass", &o->policy.on_log_failure);
    case OPTION_SNAPSHOT_EVERY: return parse_u32("snapshot-every", value, &o->policy.snapshot_every_ms);
    case OPTION_SNAPSHOT_KEEP: return parse_u32("snapshot-keep", value, &o->policy.snapshot_keep);
    case OPTION_LOG_KEEP: return parse_number("log-keep", value, UINT64_MAX, &o->policy.log_keep_bytes);
    case OPTION_LOG_MAX: return parse_number("log-max", value, UINT64_MAX, &o->policy.log_max_bytes);
    default: return parse_number("segment", value, UINT64_MAX, &o->policy.log_segment_bytes);
    }
}

static int parse_one(int option, const char *value, struct options *o)
{
    uint32_t every;
    switch (option) {
    case OPTION_DATA: o->data = value; return 0;
    case OPTION_LEAD: o->mode |= OPTIONS_LEAD; return 0;
    case OPTION_FOLLOW: o->mode |= OPTIONS_FOLLOW; o->follow = value; return 0;
    case OPTION_PEER:
        if (o->peer_count == OPTIONS_PEERS_MAX) return wrong("peer", value, "at most 16 of them");
        o->peers[o->peer_count++] = value;
        return 0;
    case OPTION_LISTEN: o->listen = value; return 0;
    case OPTION_CLUSTER: o->cluster = value; return 0;
    case OPTION_NAME: o->name = value; return 0;
    case OPTION_SECRET: o->secret_file = value; return 0;
    case OPTION_POLICY: o->policy_file = value; return 0;
    case OPTION_CONTROL: (void)snprintf(o->control, sizeof o->control, "%s", value); return 0;
    case OPTION_IMPORT: o->import = value; return 0;
    case OPTION_FORCE: o->force = true; return 0;
    case OPTION_EXPORT: o->export = value; return 0;
    case OPTION_EXPORT_EVERY:
        if (parse_u32("export-every", value, &every) || every == 0 || every > 86400000) return wrong("export-every", value, "1..86400000");
        o->export_every_ms = (int)every;
        return 0;
    case OPTION_LOG_LEVEL: return parse_severity(value, &o->severity);
    case OPTION_HELP: (void)fputs(help, stdout); return 1;
    case OPTION_VERSION: puts("metasyncd " MS_VERSION); return 1;
    case '?': fprintf(stderr, "metasyncd: try --help\n"); return 2;
    default: return parse_tuning(option, value, o);
    }
}

/* Two places that say the same thing would differ some day. */
static int check_tuning(const struct options *o)
{
    for (size_t i = 0; o->policy_file && i < sizeof tuning / sizeof *tuning; i++) {
        if (tuning[i].option != o->tuned_by) continue;
        fprintf(stderr, "metasyncd: --%s and --policy exclude each other: the policy file says it, as %s\n", tuning[i].name, tuning[i].field);
        return 2;
    }
    return 0;
}

static int check(struct options *o)
{
    const char *trouble = NULL;
    if (!o->data)
        trouble = "--data DIR is missing";
    else if (o->mode == (OPTIONS_LEAD | OPTIONS_FOLLOW))
        trouble = "--lead and --follow exclude each other";
    else if (o->peer_count && o->mode != OPTIONS_LEAD)
        trouble = "--peer goes with --lead";
    else if (o->import && o->mode != OPTIONS_LEAD)
        trouble = "--import goes with --lead (a follower gets what its leader has)";
    if (trouble) {
        fprintf(stderr, "metasyncd: %s; try --help\n", trouble);
        return 2;
    }
    if (check_tuning(o)) return 2;
    if (!o->control[0]) (void)snprintf(o->control, sizeof o->control, "%s/control.sock", o->data);
    if (ms_policy_check(&o->policy)) {
        fprintf(stderr, "metasyncd: %s\n", ms_error_message());
        return 2;
    }
    return 0;
}

int options_parse(int argc, char **argv, struct options *o)
{
    memset(o, 0, sizeof *o);
    ms_policy_init(&o->policy);
    o->cluster = "default";
    o->severity = MS_LOG_INFO;
    o->export_every_ms = 1000;
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        int rc = parse_one(option, optarg, o);
        if (rc) return rc;
    }
    if (optind < argc) {
        fprintf(stderr, "metasyncd: %s is no option; try --help\n", argv[optind]);
        return 2;
    }
    return check(o);
}
