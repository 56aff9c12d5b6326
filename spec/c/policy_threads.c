/* One policy and many threads: hosts that ask its filter, a policy thread that resolves, somebody who looks at it, and functions that fail. */
#include "cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../../core/base/bytes.h"
#include "../../core/base/error.h"
#include "../../core/base/mem.h"
#include "../../core/lua/policy.h"

enum { HOSTS = 4, CALLS = 2000 };

static const char text[] =
    "local kept = {}\n"
    "return { limits = { lua = { incidents = 1000000, time = '1s', wait = '1s', instructions = 1e8, memory = '1MiB' } },\n"
    "  tables = { j = { type = 'json' } },\n"
    "  filter = function(e)\n"
    "    if e.key == 'bomb' then while true do kept[#kept + 1] = ('x'):rep(1000) .. #kept end end\n"
    "    if e.key == 'error' then error('wanted') end\n"
    "    return e.key ~= 'out'\n"
    "  end,\n"
    "  resolve = function(c) c.mine.n = c.mine.n + 1 metasync.log('resolved') return c.mine end }\n";

struct lab {
    char path[64];
    struct ms_rules *rules;
    atomic_uint wrong;
    atomic_bool stop;
};

static void open_lab(struct lab *lab)
{
    *lab = (struct lab){0};
    snprintf(lab->path, sizeof lab->path, "/tmp/metasync-policy-XXXXXX");
    int fd = mkstemp(lab->path);
    CHECK(fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1, "%s", lab->path);
    close(fd);
    int rc = ms_lua_load(lab->path, NULL, NULL, &lab->rules);
    CHECK(rc == 0, "%s", ms_fail_message(rc));
}

static void *ask(void *context)
{
    struct lab *lab = context;
    uint64_t dice = (uint64_t)(uintptr_t)&dice;
    for (int i = 0; i < CALLS; i++) {
        uint32_t pick = spec_random(&dice) % 200;
        const char *key = pick == 0 ? "bomb" : pick < 5 ? "error" : pick < 100 ? "out" : "in";
        struct ms_rules *rules = ms_rules_ref(lab->rules);
        int decision = ms_rules_decide(rules, "t", ms_str(key));
        ms_rules_unref(rules);
        /* A call that finds no sandbox is answered by the built-in policy: in. Nothing that is in may be out. */
        if (decision == MS_VIEW_OUT && strcmp(key, "out") != 0) atomic_fetch_add(&lab->wrong, 1);
    }
    return NULL;
}

static void *resolve(void *context)
{
    struct lab *lab = context;
    while (!atomic_load(&lab->stop)) {
        struct ms_conflict conflict = {.table = "j", .type = MS_TYPE_BYTES, .reason = MS_CONFLICT_DEPOSED, .key = ms_str("k"),
                                       .mine = ms_str("{\"n\":41}"), .theirs = ms_str("{}")};
        struct ms_resolution resolution = {0};
        ms_buf_init(&resolution.value);
        ms_rules_resolve(lab->rules, NULL, &conflict, &resolution);
        bool good = resolution.outcome == MS_OUTCOME_VALUE && resolution.value.size == 8 && memcmp(resolution.value.data, "{\"n\":42}", 8) == 0;
        if (!good && strcmp(resolution.by, "incident") != 0) atomic_fetch_add(&lab->wrong, 1);
        ms_buf_close(&resolution.value);
    }
    return NULL;
}

static void *look(void *context)
{
    struct lab *lab = context;
    while (!atomic_load(&lab->stop)) {
        char *json = NULL;
        if (lab->rules->ops->describe(lab->rules, &json) || !strstr(json, "\"functions\"")) atomic_fetch_add(&lab->wrong, 1);
        free(json);
        (void)ms_lua_incidents(lab->rules);
        (void)ms_lua_quarantined(lab->rules);
        usleep(500);
    }
    return NULL;
}

static void many_threads_share_a_policy_that_fails_now_and_then(void)
{
    int64_t live = ms_mem_live();
    struct lab lab;
    open_lab(&lab);
    pthread_t hosts[HOSTS], others[2];
    for (int i = 0; i < HOSTS; i++) CHECK(!pthread_create(&hosts[i], NULL, ask, &lab), "thread");
    CHECK(!pthread_create(&others[0], NULL, resolve, &lab), "thread");
    CHECK(!pthread_create(&others[1], NULL, look, &lab), "thread");
    for (int i = 0; i < HOSTS; i++) CHECK(!pthread_join(hosts[i], NULL), "join");
    atomic_store(&lab.stop, true);
    for (int i = 0; i < 2; i++) CHECK(!pthread_join(others[i], NULL), "join");
    CHECK(atomic_load(&lab.wrong) == 0, "%u wrong answers", atomic_load(&lab.wrong));
    CHECK(!ms_lua_quarantined(lab.rules), "%s", ms_error_message());
    CHECK(ms_lua_incidents(lab.rules) > 10, "%llu incidents", (unsigned long long)ms_lua_incidents(lab.rules));
    ms_rules_unref(lab.rules);
    CHECK(ms_mem_live() == live, "%lld blocks are left", (long long)(ms_mem_live() - live));
    unlink(lab.path);
}

static const struct spec_case cases[] = {
    SPEC_CASE(many_threads_share_a_policy_that_fails_now_and_then,
              "many threads get right answers of one policy while functions raise errors, run out of memory, and are looked at"),
};

int main(int argc, char **argv)
{
    return spec_main(cases, sizeof cases / sizeof cases[0], argc, argv);
}
