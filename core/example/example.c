/* A host, whole: two nodes in one process, a leader with a table of topics and a follower that keeps its own copy of it.
 *
 *     example [DIRECTORY]          (default: a new directory below /tmp, removed at the end)
 *
 * A real host has one node; here both ends are in sight. The steps are those of every host:
 *   1. open a node with a policy and callbacks;
 *   2. the leader opens its tables and writes; a compute function reads and writes one entry in one step;
 *   3. the follower's callback applies batches to the host's own copy: a FULL batch is compared, never "clear and refill";
 *   4. promote the follower, and go on writing there. */
#include <metasync.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COPY_MAX = 100 };

/* The host's own copy of the topics: what its readers use. Only the node's host thread touches it until the node is closed; a
 * real host has a lock of its own here. */
struct copy {
    char key[COPY_MAX][64], value[COPY_MAX][64];
    int named[COPY_MAX]; /* by the FULL batch that is coming in */
    size_t count;
};

static size_t find(const struct copy *copy, struct ms_bytes key)
{
    size_t at = 0;
    while (at < copy->count && (strlen(copy->key[at]) != key.size || memcmp(copy->key[at], key.data, key.size) != 0)) at++;
    return at;
}

static void take_out(struct copy *copy, size_t at)
{
    size_t last = --copy->count;
    memcpy(copy->key[at], copy->key[last], sizeof copy->key[at]);
    memcpy(copy->value[at], copy->value[last], sizeof copy->value[at]);
    copy->named[at] = copy->named[last];
}

static int put(struct copy *copy, struct ms_bytes key, struct ms_bytes value)
{
    size_t at = find(copy, key);
    if (at == COPY_MAX || key.size >= sizeof copy->key[0] || value.size >= sizeof copy->value[0]) return -1;
    if (at == copy->count) copy->count++;
    (void)snprintf(copy->key[at], sizeof copy->key[at], "%.*s", (int)key.size, (const char *)key.data);
    (void)snprintf(copy->value[at], sizeof copy->value[at], "%.*s", (int)value.size, (const char *)value.data);
    copy->named[at] = 1;
    return 0;
}

/* 0 says "it is in my copy now". An entry that is there before and after never vanishes in between. */
static int apply(void *context, const struct ms_batch *batch)
{
    struct copy *copy = context;
    if (strcmp(batch->table_name, "topic") != 0) return 0; /* this host keeps no copy of the other tables */
    if (batch->flags & MS_BATCH_FIRST) memset(copy->named, 0, sizeof copy->named);
    for (size_t i = 0; i < batch->count; i++) {
        const struct ms_change *change = &batch->changes[i];
        if (change->op == MS_OP_PUT && put(copy, change->key, change->value) != 0) return -1;
        size_t at = find(copy, change->key);
        if (change->op == MS_OP_DELETE && at < copy->count) take_out(copy, at);
    }
    for (size_t at = copy->count; (batch->flags & MS_BATCH_LAST) && at-- > 0;)
        if (!copy->named[at]) take_out(copy, at);
    return 0;
}

/* Counts up: the current value plus one. */
static int count_up(void *context, struct ms_bytes current, struct ms_bytes *value)
{
    uint8_t *room = context;
    int64_t number = 0;
    if (current.data && ms_int64_get(current, &number) != 0) return -1; /* refuses */
    *value = ms_int64_put(number + 1, room);
    return 0;
}

static void check(int rc, const char *what)
{
    if (rc == 0) return;
    fprintf(stderr, "%s: %s (%s)\n", what, ms_error_message(), ms_error_text(rc));
    exit(1);
}

static struct ms_node *open_node(const char *dir, const char *name, const struct ms_host *host)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    struct ms_policy policy;
    ms_policy_init(&policy);
    policy.level = MS_LEVEL_DISK; /* a write returns when it is synced */
    struct ms_config config = {
        .dir = path, .cluster = "example", .name = name, .listen = "127.0.0.1:0", .policy = &policy, .host = host};
    struct ms_node *node = NULL;
    check(ms_open(&config, &node), "open");
    return node;
}

static void write_topics(struct ms_node *node)
{
    struct ms_table *topics = NULL, *counters = NULL;
    check(ms_table_open(node, "topic", MS_TYPE_BYTES, &topics), "open topic");
    check(ms_table_open(node, "counter", MS_TYPE_INT64, &counters), "open counter");
    check(ms_put(topics, ms_str("orders"), ms_str("{\"perm\":6}"), 0, NULL), "put");
    check(ms_put(topics, ms_str("payments"), ms_str("{\"perm\":4}"), 0, NULL), "put");
    check(ms_put(topics, ms_str("old"), ms_str("{}"), 0, NULL), "put");
    check(ms_delete(topics, ms_str("old"), 0, NULL), "delete");
    for (int i = 0; i < 3; i++) {
        uint8_t room[8];
        check(ms_compute(counters, ms_str("writes"), count_up, room, 0, NULL), "compute");
    }
}

/* Waits until the follower's host has confirmed what the leader has now; a real host has no reason to. */
static void wait_for_follower(struct ms_node *leader, struct ms_node *follower)
{
    struct ms_position ahead, behind = {0};
    check(ms_position(leader, &ahead), "position");
    for (int tries = 0; tries < 10000 && behind.host_applied < ahead.head; tries++) {
        (void)usleep(1000);
        check(ms_position(follower, &behind), "position");
    }
    if (behind.host_applied < ahead.head) check(MS_E_TIMEOUT, "the follower");
}

static int print_entry(void *context, struct ms_bytes key, struct ms_bytes value)
{
    (void)context;
    printf("  %.*s = %.*s\n", (int)key.size, (const char *)key.data, (int)value.size, (const char *)value.data);
    return 0;
}

static void run(const char *dir)
{
    struct copy copy = {.count = 0};
    struct ms_host host = {.context = &copy, .apply = apply};
    struct ms_node *leader = open_node(dir, "leader", NULL);
    struct ms_node *follower = open_node(dir, "follower", &host);
    check(ms_lead(leader, NULL, 0, 5000), "lead");
    char address[32];
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", ms_port(leader));
    check(ms_follow(follower, address), "follow");

    write_topics(leader);
    wait_for_follower(leader, follower);
    ms_close(leader); /* from here on the first broker is gone */

    check(ms_promote(follower, 0, 5000), "promote");
    struct ms_table *topics = NULL;
    check(ms_table_open(follower, "topic", MS_TYPE_BYTES, &topics), "open topic");
    check(ms_put(topics, ms_str("refunds"), ms_str("{\"perm\":2}"), 0, NULL), "put");
    printf("the follower leads now, and has these topics:\n");
    check(ms_walk(topics, print_entry, NULL), "walk");
    ms_close(follower);
    printf("its host had its own copy of %zu of them from the first leader\n", copy.count);
    if (copy.count != 2) check(MS_E_CHANGED, "the host's copy");
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/metasync-example-XXXXXX";
    if (argc > 1) {
        run(argv[1]);
        return 0;
    }
    if (!mkdtemp(dir)) return 1;
    run(dir);
    char command[64];
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command) == 0 ? 0 : 1;
}
