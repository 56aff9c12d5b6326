/* Inside of a loaded policy: what its files share.
 *
 *      policy.c       from a file to struct ms_rules, and the sandbox made anew
 *      policy_text.c  the files: the policy, and modules beside it
 *      policy_read.c  what the file returned -> numbers, patterns, functions
 *      policy_call.c  the calls: filter, resolve, flush, event; incidents
 *      policy_show.c  as JSON text, for people */
#ifndef MS_LUA_POLICY_INSIDE_H
#define MS_LUA_POLICY_INSIDE_H

#include <stdatomic.h>

#include "../base/error.h"
#include "gate.h"
#include "policy.h"
#include "sandbox.h"
#include "value.h"

enum {
    MS_LUA_TEXT_MAX = 1 << 20, /* bytes of one file */
    MS_LUA_TEXTS_MAX = 64,     /* the policy and its modules */
    MS_LUA_LOG_LINES = 16,     /* the newest lines of metasync.log */
    MS_LUA_LOG_BYTES = 200,    /* of one line */
};

/* One file. The first is the policy itself, its name is "". */
struct ms_lua_source {
    char name[64];
    char *text;
    size_t size;
};

/* One function of a policy. Numbers and the last incident are under the gate's mutex. */
struct ms_lua_function {
    char name[16];                       /* "filter" "resolve" "flush" "on_event" "selftest" */
    char table[MS_TABLE_NAME_MAX + 1];   /* "" = of all tables */
    int ref;                             /* in the registry of the present sandbox */
    char file[64];                       /* where it starts: the place of an incident that has none */
    int line;
    _Atomic bool quarantined;
    _Atomic uint64_t calls; /* counted without the mutex */
    uint64_t incidents, busy;
    struct ms_sandbox_error last;
};

struct ms_lua_rules {
    struct ms_rules rules; /* first: the engine has a pointer to it */
    char *path;            /* of the policy file */
    char file[64];         /* its last part: what errors call it */
    char folder[512];      /* where modules are looked for, with the last '/' */
    struct ms_policy base;
    struct ms_lua_clock clock;
    bool has_clock;
    bool loading; /* modules are read from files */

    struct ms_gate gate;        /* around all that follows */
    struct ms_sandbox *sandbox; /* NULL: could not be made anew */
    struct ms_json_scope scope; /* JSON values of the call that runs */
    _Atomic uint64_t rebuilt;
    pthread_t reaper; /* frees the sandbox before */
    struct ms_sandbox *condemned; /* what it frees */
    bool reaping;
    atomic_bool reaped; /* it is done */

    struct ms_lua_source sources[MS_LUA_TEXTS_MAX];
    uint32_t source_count;
    struct ms_lua_function *functions;
    uint32_t function_count;
    struct ms_lua_function *filter; /* one of them, or NULL: it is asked most */
    bool json[MS_POLICY_TABLES_MAX]; /* tables[i] of the policy has type "json" */

    /* under gate.mutex */
    char log[MS_LUA_LOG_LINES][MS_LUA_LOG_BYTES];
    uint64_t log_count;
};

static inline struct ms_lua_rules *ms_lua_of(struct ms_rules *rules)
{
    return (struct ms_lua_rules *)rules;
}

/* ---- policy_text.c */

/* Reads the policy file as sources[0]. IO, LIMIT, MEMORY. */
int ms_lua_read_policy(struct ms_lua_rules *lua);
/* For ms_sandbox_on_require: modules beside the policy, while it is loaded; what was read then later on. */
int ms_lua_find_module(void *context, struct ms_sandbox *sandbox, const char *name);
void ms_lua_free_sources(struct ms_lua_rules *lua);
uint64_t ms_lua_hash(const struct ms_lua_rules *lua);

/* ---- policy_read.c: inside of a protected call */

/* What it is busy with, and what comes out. */
struct ms_lua_job {
    struct ms_lua_rules *lua;
    struct ms_buf *problems; /* may be NULL; each problem a line */
    int rc;                  /* of what went wrong without an error being raised here, and why */
    char why[MS_ERROR_SIZE];
};
/* The glue's table is at `glue`, what the policy returned at `policy`. Fills in numbers, patterns, functions. [-0, +0, e] */
void ms_lua_read(lua_State *L, struct ms_lua_job *job, int glue, int policy);
/* Only the references of the functions that are known already. [-0, +0, e] */
void ms_lua_read_functions(lua_State *L, struct ms_lua_job *job, int glue, int policy);
/* Numbers of a policy as the tables that the glue takes: by C names, and by table. [-0, +2, m] */
void ms_lua_push_policy(lua_State *L, const struct ms_policy *policy, bool by_name);

/* ---- policy.c */

/* A new sandbox from the same texts, instead of the present one. host: on a thread of the host, which may not wait long. */
int ms_lua_rebuild(struct ms_lua_rules *lua, bool host);

/* ---- policy_call.c */

extern const struct ms_rules_ops ms_lua_ops; /* its close is policy.c's ms_lua_close */
void ms_lua_close(struct ms_rules *rules);
int ms_lua_describe(struct ms_rules *rules, char **json); /* policy_show.c */

#endif
