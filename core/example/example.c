/* A small host: a "broker" whose topics and offsets metasync keeps equal on a leader and a follower. Both nodes live in this one
 * process, so that the example can be run as it is:   build/release/example [directory]
 *
 * What to look at:
 *   1. change_topic     the host's own map and metasync's table change together, or not at all
 *   2. follower_apply   how a follower's host takes FULL and DELTA batches
 *   3. main             opening, leading, following, promoting, closing */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <metasync.h>

enum { TOPICS_MAX = 16, NAME_SIZE = 32, VALUE_SIZE = 64 };

/* The broker's own map of topics. */
struct broker {
    const char *name;
    pthread_mutex_t mutex;
    struct topic {
        char name[NAME_SIZE], value[VALUE_SIZE];
        int used, named;
    } topics[TOPICS_MAX];
};

static void fail(const char *what, int rc)
{
    fprintf(stderr, "example: %s: %s (%s)\n", what, ms_error_message(), ms_error_text(rc));
    exit(1);
}

static struct topic *find_topic(struct broker *broker, struct ms_bytes name)
{
    struct topic *unused = NULL;
    for (int i = 0; i < TOPICS_MAX; i++) {
        struct topic *topic = &broker->topics[i];
        if (topic->used && strlen(topic->name) == name.size && memcmp(topic->name, name.data, name.size) == 0) return topic;
        if (!topic->used) unused = topic;
    }
    return unused;
}

static void set_topic(struct broker *broker, struct ms_bytes name, struct ms_bytes value)
{
    struct topic *topic = find_topic(broker, name);
    if (!topic) return;
    (void)snprintf(topic->name, sizeof topic->name, "%.*s", (int)name.size, (const char *)name.data);
    (void)snprintf(topic->value, sizeof topic->value, "%.*s", (int)value.size, (const char *)value.data);
    topic->used = topic->named = 1;
}

static void remove_topic(struct broker *broker, struct ms_bytes name)
{
    struct topic *topic = find_topic(broker, name);
    if (topic) topic->used = 0;
}

/* ---- 1. the leader: one change ---------------------------------------------------------------------------------------------------- */

/* Puts a topic, or deletes it (value NULL). The key is this thread's from ms_begin to ms_end: nobody else changes it meanwhile, here or in
 * the broker's map. */
static int change_topic(struct broker *broker, struct ms_table *topics, const char *name, const char *value)
{
    struct ms_txn *txn;
    int rc = ms_begin(topics, ms_str(name), 1000, &txn);
    if (rc) return rc;
    rc = ms_commit(txn, value ? ms_str(value) : (struct ms_bytes){NULL, 0}, 0, NULL);
    /* 0: on disk here. MS_E_NOT_REPLICATED: on disk here, but no follower has it. MS_LOCAL: the policy lets the host go on alone. In
     * all three cases the change stands; after anything else it does not, and the broker's own map stays as it is. */
    if (rc == 0 || rc == MS_E_NOT_REPLICATED || rc == MS_LOCAL) {
        pthread_mutex_lock(&broker->mutex);
        if (value) set_topic(broker, ms_str(name), ms_str(value));
        else remove_topic(broker, ms_str(name));
        pthread_mutex_unlock(&broker->mutex);
    }
    ms_end(txn);
    return rc;
}

/* ---- 2. the follower: callbacks, all on the node's host thread ------------------------------------------------------------------------ */

static int follower_apply(void *context, const struct ms_batch *batch)
{
    struct broker *broker = context;
    if (strcmp(batch->table_name, "topic") != 0) return 0;
    pthread_mutex_lock(&broker->mutex);
    if (batch->flags & MS_BATCH_FIRST)
        for (int i = 0; i < TOPICS_MAX; i++) broker->topics[i].named = 0;
    for (size_t i = 0; i < batch->count; i++) {
        const struct ms_change *change = &batch->changes[i];
        if (change->op == MS_OP_PUT) set_topic(broker, change->key, change->value);
        if (change->op == MS_OP_DELETE) remove_topic(broker, change->key);
    }
    if (batch->flags & MS_BATCH_LAST) /* what the leader does not have goes now, and readers never saw an empty map */
        for (int i = 0; i < TOPICS_MAX; i++)
            if (!broker->topics[i].named) broker->topics[i].used = 0;
    pthread_mutex_unlock(&broker->mutex);
    return 0;
}

static void log_line(void *context, int severity, const char *line)
{
    const struct broker *broker = context;
    if (severity >= MS_LOG_INFO) printf("  %s: %s\n", broker->name, line);
}

static void show(struct broker *broker)
{
    printf("%s has:", broker->name);
    pthread_mutex_lock(&broker->mutex);
    for (int i = 0; i < TOPICS_MAX; i++)
        if (broker->topics[i].used) printf(" %s=%s", broker->topics[i].name, broker->topics[i].value);
    pthread_mutex_unlock(&broker->mutex);
    printf("\n");
}

/* ---- 3. two nodes ------------------------------------------------------------------------------------------------------------------------- */

static struct ms_node *open_node(struct broker *broker, const char *base, int follows)
{
    char dir[512];
    struct ms_node *node;
    struct ms_host host = {.context = broker, .apply = follows ? follower_apply : NULL, .log = log_line};
    (void)snprintf(dir, sizeof dir, "%s/%s", base, broker->name);
    struct ms_config config = {.dir = dir, .cluster = "example", .name = broker->name, .listen = "127.0.0.1:0", .host = &host};
    int rc = ms_open(&config, &node);
    if (rc) fail("ms_open", rc);
    return node;
}

static void wait_for_host(struct ms_node *follower, uint64_t lsn)
{
    struct ms_position position;
    do {
        usleep(1000);
        (void)ms_position(follower, &position);
    } while (position.host_applied < lsn);
}

int main(int argc, char **argv)
{
    char base[256] = "/tmp/metasync-example-XXXXXX", address[32];
    struct broker master = {.name = "master", .mutex = PTHREAD_MUTEX_INITIALIZER}, slave = {.name = "slave", .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct ms_table *topics;
    struct ms_position position;
    if (argc > 1) (void)snprintf(base, sizeof base, "%s", argv[1]);
    else if (!mkdtemp(base)) return 1;

    struct ms_node *leader = open_node(&master, base, 0);
    int rc = ms_lead(leader, NULL, 0, 10000);
    if (rc) fail("ms_lead", rc);
    rc = ms_table_open(leader, "topic", MS_TYPE_BYTES, &topics);
    if (rc) fail("ms_table_open", rc);
    rc = change_topic(&master, topics, "orders", "{\"perm\":6}");
    if (rc) fail("change_topic", rc);

    struct ms_node *follower = open_node(&slave, base, 1);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", ms_port(leader));
    rc = ms_follow(follower, address);
    if (rc) fail("ms_follow", rc);
    rc = change_topic(&master, topics, "payments", "{\"perm\":4}");
    if (rc) fail("change_topic", rc);
    rc = change_topic(&master, topics, "orders", NULL);
    if (rc) fail("change_topic", rc);

    (void)ms_position(leader, &position);
    wait_for_host(follower, position.head);
    show(&master);
    show(&slave);

    ms_close(leader); /* the master is gone: the slave takes over */
    rc = ms_promote(follower, 0, 10000);
    if (rc) fail("ms_promote", rc);
    rc = ms_table_open(follower, "topic", MS_TYPE_BYTES, &topics);
    if (rc) fail("ms_table_open", rc);
    rc = change_topic(&slave, topics, "refunds", "{\"perm\":6}");
    if (rc) fail("change_topic", rc);
    show(&slave);
    ms_close(follower);

    char command[300];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", base);
    return argc > 1 ? 0 : system(command) != 0;
}
