/* The test kit's C side; see kit.h. */
#include "kit.h"

#include "base/error.h"
#include "lua/policy.h"
#include "sync/policy.h"

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...) TEXT_OF(__VA_ARGS__)
#define DECLARE(type, name, arguments) #type " " #name #arguments ";\n"

static const char declarations[] = "struct ms_sim;\n" TEXT(MS_KIT_TYPES) ";\n" MS_KIT_FUNCTIONS(DECLARE);

const char *ms_kit_declarations(void)
{
    return declarations;
}

/* The defaults of a real node, but for segments: the simulator keeps them in memory. */
static void base_policy(struct ms_policy *policy)
{
    ms_policy_init(policy);
    policy->log_segment_bytes = 256 << 10;
}

struct ms_sim *ms_kit_new(uint64_t seed, uint32_t nodes)
{
    struct ms_policy policy;
    base_policy(&policy);
    return ms_sim_new(seed, &(struct ms_sim_options){.nodes = nodes, .named = true, .has_host = true, .policy = &policy});
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

const char *ms_kit_role(struct ms_sim *sim, uint32_t node)
{
    const struct ms_engine *engine = ms_sim_engine(sim, node);
    return engine ? ms_role_name(engine->role) : "down";
}

bool ms_kit_in_sync(struct ms_sim *sim, uint32_t node)
{
    const struct ms_engine *engine = ms_sim_engine(sim, node);
    return engine && engine->role == MS_ROLE_FOLLOWER && engine->follow.in_sync;
}

static struct ms_engine *running(struct ms_sim *sim, uint32_t node)
{
    struct ms_engine *engine = ms_sim_engine(sim, node);
    if (!engine) (void)ms_fail(MS_E_CLOSED, "n%u is down", node);
    return engine;
}

/* ---- policies -------------------------------------------------------------------------------------------------------------- */

int ms_kit_policy(struct ms_sim *sim, uint32_t node, const char *path)
{
    struct ms_lua_clock clock = {.context = sim, .real_time_us = ms_sim_real_time};
    struct ms_policy base;
    struct ms_rules *rules = NULL;
    base_policy(&base);
    int rc = path ? ms_lua_load(path, &base, &clock, &rules) : 0;
    if (!rc && rules) rc = ms_lua_selftest(rules);
    if (!rc) rc = ms_sim_set_rules(sim, node, rules);
    ms_rules_unref(rules);
    return rc;
}

uint64_t ms_kit_incidents(struct ms_sim *sim, uint32_t node)
{
    struct ms_rules *rules = ms_sim_rules_of(sim, node);
    return rules ? ms_lua_incidents(rules) : 0;
}

char *ms_kit_describe(struct ms_sim *sim, uint32_t node)
{
    struct ms_rules *rules = ms_sim_rules_of(sim, node);
    char *json = NULL;
    return rules && rules->ops->describe(rules, &json) == 0 ? json : NULL;
}

/* ---- tables -------------------------------------------------------------------------------------------------------------- */

int ms_kit_table(struct ms_sim *sim, uint32_t node, const char *name, int type)
{
    const struct ms_engine *engine = running(sim, node);
    uint32_t table = 0;
    if (!engine) return MS_E_CLOSED;
    if (!type) type = ms_policy_table(&engine->policy, name).type;
    int rc = ms_sim_table(sim, name, type ? type : MS_TYPE_BYTES, &table);
    return rc ? rc : (int)table;
}

int ms_kit_type(struct ms_sim *sim, uint32_t table)
{
    return ms_sim_table_type(sim, table);
}

int ms_kit_put(struct ms_sim *sim, uint32_t node, uint32_t table, const char *key, size_t key_size, const char *value, size_t value_size,
               uint64_t *lsn, int *level)
{
    return ms_sim_put(sim, node, table, ms_bytes(key, key_size), ms_bytes(value, value_size), lsn, level);
}

int ms_kit_reached(struct ms_sim *sim, uint32_t node, uint64_t lsn, int level)
{
    const struct ms_engine *engine = running(sim, node);
    return engine ? ms_engine_reached(engine, lsn, level, ms_lineage_last(&engine->store->lineage).id) : MS_E_CLOSED;
}

const char *ms_kit_get(struct ms_sim *sim, uint32_t node, uint32_t table, const char *key, size_t key_size, size_t *value_size)
{
    struct ms_bytes value = ms_sim_get(sim, node, table, ms_bytes(key, key_size));
    *value_size = value.size;
    return value.data;
}

int ms_kit_at_risk(struct ms_sim *sim, uint32_t node, uint32_t table, uint64_t *entries, uint64_t *bytes)
{
    const struct ms_engine *engine = running(sim, node);
    if (!engine) return MS_E_CLOSED;
    const struct ms_table_state *state = ms_store_find(engine->store, ms_str(ms_sim_table_of(sim, table)));
    *entries = state ? ms_buffer_entries(state) : 0;
    *bytes = state ? ms_buffer_bytes(state) : 0;
    return 0;
}

/* ---- archives ------------------------------------------------------------------------------------------------------------ */

enum { REPORT_BYTES_MAX = 64 << 20 };

struct losses {
    struct ms_fs *fs;
    struct ms_buf text;
};

static int add_report(void *context, const char *name)
{
    struct losses *losses = context;
    char path[MS_PATH_MAX];
    if (strncmp(name, "loss-", 5) != 0) return 0;
    int rc = ms_path(path, "data/archive", name);
    return rc ? rc : ms_fs_read_file(losses->fs, path, REPORT_BYTES_MAX, &losses->text);
}

char *ms_kit_losses(struct ms_sim *sim, uint32_t node)
{
    struct ms_sim_fs *fs = ms_sim_fs_of(sim, node);
    if (!fs) return NULL;
    struct losses losses = {.fs = ms_sim_fs(fs)};
    ms_buf_init(&losses.text);
    int rc = losses.fs->ops->list(losses.fs, "data/archive", add_report, &losses); /* in the order of epochs */
    ms_buf_add8(&losses.text, '\0');
    char *text = (!rc || rc == MS_E_NOT_FOUND) && !losses.text.failed ? ms_strdup((const char *)losses.text.data) : NULL;
    ms_buf_close(&losses.text);
    return text;
}

/* ---- logs ---------------------------------------------------------------------------------------------------------------- */

uint64_t ms_kit_head(struct ms_sim *sim, uint32_t node)
{
    return ms_sim_head(sim, node);
}

int ms_kit_logged(struct ms_sim *sim, uint32_t node, uint64_t lsn, struct ms_kit_entry *entry)
{
    struct ms_sim_logged logged;
    int rc = ms_sim_logged(sim, node, lsn, &logged);
    if (rc <= 0) return rc;
    *entry = (struct ms_kit_entry){.lsn = lsn,
                                   .at = logged.at,
                                   .op = logged.op == MS_OP_PUT ? "put" : logged.op == MS_OP_DELETE ? "delete" : "leave",
                                   .table = ms_sim_table_of(sim, logged.table),
                                   .type = ms_sim_table_type(sim, logged.table),
                                   .key = logged.key.data,
                                   .key_size = logged.key.size,
                                   .value = logged.value.data,
                                   .value_size = logged.value.size};
    return 1;
}
