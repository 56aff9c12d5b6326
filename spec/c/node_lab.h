/* What the C programs about nodes share: nodes on directories of their own with small files and short times, threads, and waiting for a
 * condition with a deadline. */
#ifndef MS_SPEC_NODE_LAB_H
#define MS_SPEC_NODE_LAB_H

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../../core/base/error.h"
#include "../../core/base/mem.h"
#include "../../core/metasync.h"
#include "cases.h"

/* Calls that have to succeed. */
#define OK(call) \
    do { \
        int ok_rc = (call); \
        CHECK(ok_rc >= 0, "%s = %d %s: %s", #call, ok_rc, ms_error_text(ok_rc), ms_error_message()); \
    } while (0)

/* Calls that have to fail with this code. */
#define FAILS(call, code) \
    do { \
        int fails_rc = (call); \
        CHECK(fails_rc == (code), "%s = %d %s: %s", #call, fails_rc, ms_error_text(fails_rc), ms_error_message()); \
    } while (0)

/* Waits for a condition; `seconds` is generous, since machines are slow and sanitizers slower. */
#define EVENTUALLY(condition, seconds) \
    do { \
        uint64_t eventually_end = spec_now_ms() + (seconds) * 1000u; \
        while (!(condition)) { \
            CHECK(spec_now_ms() < eventually_end, "not within %d seconds", (int)(seconds)); \
            usleep(500); \
        } \
    } while (0)

struct lab {
    char dir[64];
    int64_t live;
};

static inline void lab_open(struct lab *lab)
{
    (void)snprintf(lab->dir, sizeof lab->dir, "/tmp/metasync-node-XXXXXX");
    CHECK(mkdtemp(lab->dir) != NULL, "no directory");
    lab->live = ms_mem_live();
}

/* Removes the files; every block of memory has to be back. */
static inline void lab_close(struct lab *lab)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", lab->dir);
    CHECK(system(command) == 0, "cannot remove %s", lab->dir);
    CHECK(ms_mem_live() == lab->live, "%lld blocks are left over", (long long)(ms_mem_live() - lab->live));
}

/* Files of 64 KiB, so that segments change often, and all that waits does so for milliseconds. */
static inline struct ms_policy lab_policy(void)
{
    struct ms_policy policy;
    ms_policy_init(&policy);
    policy.log_segment_bytes = 64 << 10;
    policy.log_keep_bytes = 1 << 20;
    policy.log_max_bytes = 64 << 20;
    policy.group_bytes = 4096;
    policy.value_max = 8192;
    policy.key_max = 512;
    policy.batch_max = 16384;
    policy.sync_every_ms = 20;
    policy.mark_every_ms = 50;
    policy.heartbeat_ms = 50;
    policy.connect_min_ms = 5;
    policy.connect_max_ms = 100;
    policy.ask_ms = 300;
    return policy;
}

/* A node in lab->dir/name, listening on any port. policy and host may be NULL. */
static inline struct ms_node *lab_node(const struct lab *lab, const char *name, const struct ms_policy *policy, const struct ms_host *host)
{
    char dir[100];
    struct ms_policy usual = lab_policy();
    (void)snprintf(dir, sizeof dir, "%s/%s", lab->dir, name);
    struct ms_config config = {
        .dir = dir, .cluster = "lab", .name = name, .listen = "127.0.0.1:0", .policy = policy ? policy : &usual, .host = host};
    struct ms_node *node = NULL;
    OK(ms_open(&config, &node));
    return node;
}

static inline struct ms_node *lab_leader(const struct lab *lab, const char *name, const struct ms_policy *policy, const struct ms_host *host)
{
    struct ms_node *node = lab_node(lab, name, policy, host);
    OK(ms_lead(node, NULL, 0, 20000));
    return node;
}

static inline void lab_follow(struct ms_node *node, const struct ms_node *leader)
{
    char address[32];
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", ms_port(leader));
    OK(ms_follow(node, address));
}

static inline struct ms_table *lab_table(struct ms_node *node, const char *name, int type)
{
    struct ms_table *table = NULL;
    EVENTUALLY(ms_table_open(node, name, type, &table) == 0, 20);
    return table;
}

static inline struct ms_position lab_position(struct ms_node *node)
{
    struct ms_position position;
    OK(ms_position(node, &position));
    return position;
}

/* The int64 value of a key, `otherwise` if there is none. */
static inline int64_t lab_number(struct ms_table *table, const char *key, int64_t otherwise)
{
    uint8_t bytes[8];
    size_t size;
    int64_t number;
    if (ms_get(table, ms_str(key), bytes, sizeof bytes, &size)) return otherwise;
    OK(ms_int64_get((struct ms_bytes){bytes, size}, &number));
    return number;
}

static inline int lab_put(struct ms_table *table, const char *key, int64_t number, int flags, uint64_t *lsn)
{
    uint8_t bytes[8];
    return ms_put(table, ms_str(key), ms_int64_put(number, bytes), flags, lsn);
}

/* Whether the status text has `"field":value`. */
static inline bool lab_status_has(struct ms_node *node, const char *text)
{
    char *status = NULL;
    OK(ms_status(node, &status));
    bool has = strstr(status, text) != NULL;
    ms_free(status);
    return has;
}

/* Names in a directory that begin with `prefix`. */
static inline int lab_count_names(const char *path, const char *prefix)
{
    DIR *dir = opendir(path);
    int count = 0;
    CHECK(dir != NULL, "no %s", path);
    for (struct dirent *entry; (entry = readdir(dir));) count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    closedir(dir);
    return count;
}

static inline int lab_count_files(const char *path)
{
    return lab_count_names(path, "");
}

static inline pthread_t lab_thread(void *(*fn)(void *), void *context)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fn, context) == 0, "no thread");
    return thread;
}

#endif
