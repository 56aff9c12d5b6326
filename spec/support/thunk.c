/* LuaJIT cannot be called back with a struct by value. These functions are: they hand on pointers to the structs. Part of
 * libmetasync-private.so, used by spec/support/ms.lua only. */
#include "../../core/base/mem.h"
#include "../../core/sync/patterns.h"

struct spec_thunk {
    int (*two)(void *context, const struct ms_bytes *a, const struct ms_bytes *b);
    int (*three)(void *context, const struct ms_bytes *a, const struct ms_bytes *b, const struct ms_bytes *c);
    int (*compute)(void *context, const struct ms_bytes *current, struct ms_bytes *value);
    void (*entered)(void *context, const char *table, const struct ms_bytes *key);
    void *context;
};

/* For ms_review_fn. */
void spec_thunk_entered(void *thunk, const char *table, struct ms_bytes key);
void spec_thunk_entered(void *thunk, const char *table, struct ms_bytes key)
{
    struct spec_thunk *t = thunk;
    t->entered(t->context, table, &key);
}

/* For ms_walk_fn. */
int spec_thunk_two(void *thunk, struct ms_bytes a, struct ms_bytes b);
int spec_thunk_two(void *thunk, struct ms_bytes a, struct ms_bytes b)
{
    struct spec_thunk *t = thunk;
    return t->two(t->context, &a, &b);
}

/* For ms_key_fn. */
int spec_thunk_key(void *thunk, struct ms_bytes key);
int spec_thunk_key(void *thunk, struct ms_bytes key)
{
    return spec_thunk_two(thunk, key, ms_bytes(NULL, 0));
}

/* For ms_buffer_fn. */
int spec_thunk_three(void *thunk, struct ms_bytes a, struct ms_bytes b, struct ms_bytes c);
int spec_thunk_three(void *thunk, struct ms_bytes a, struct ms_bytes b, struct ms_bytes c)
{
    struct spec_thunk *t = thunk;
    return t->three(t->context, &a, &b, &c);
}

/* For ms_compute_fn. */
int spec_thunk_compute(void *thunk, struct ms_bytes current, struct ms_bytes *value);
int spec_thunk_compute(void *thunk, struct ms_bytes current, struct ms_bytes *value)
{
    struct spec_thunk *t = thunk;
    return t->compute(t->context, &current, value);
}

/* Rules without Lua. Without a callback: keys that begin with `out` are out of the view; the callback, if set, decides instead. */
struct spec_rules {
    struct ms_rules rules; /* first */
    char out[64];
    int (*filter)(const char *table, const struct ms_bytes *key);
    uint64_t (*flush)(const struct ms_flush_stats *stats); /* microseconds, 0 = nothing to say */
    void (*event)(const struct ms_event *event);
    uint64_t asked;  /* atomic */
    int *closed;     /* set to 1 at the end, if not NULL */
};

static int rules_filter(struct ms_rules *rules, const char *table, struct ms_bytes key)
{
    struct spec_rules *r = (struct spec_rules *)rules;
    size_t size = strlen(r->out);
    (void)__atomic_add_fetch(&r->asked, 1, __ATOMIC_RELAXED);
    if (r->filter) return r->filter(table, &key);
    return size && key.size >= size && memcmp(key.data, r->out, size) == 0 ? MS_VIEW_OUT : MS_VIEW_IN;
}

static bool rules_resolve(struct ms_rules *rules, const struct ms_conflict *conflict, struct ms_resolution *resolution)
{
    (void)rules;
    (void)conflict;
    (void)resolution;
    return false;
}

static bool rules_flush(struct ms_rules *rules, const struct ms_flush_stats *stats, uint64_t *next_us)
{
    const struct spec_rules *r = (const struct spec_rules *)rules;
    *next_us = r->flush ? r->flush(stats) : 0;
    return *next_us != 0;
}

static void rules_event(struct ms_rules *rules, const struct ms_event *event)
{
    const struct spec_rules *r = (const struct spec_rules *)rules;
    if (r->event) r->event(event);
}

static int rules_describe(struct ms_rules *rules, char **json)
{
    *json = ms_strdup(rules->name);
    return *json ? 0 : MS_E_MEMORY;
}

static void rules_close(struct ms_rules *rules)
{
    struct spec_rules *r = (struct spec_rules *)rules;
    if (r->closed) *r->closed = 1;
    ms_patterns_free(rules->patterns);
    ms_release(r);
}

/* With one reference; NULL without memory. */
struct spec_rules *spec_rules_new(const struct ms_policy *policy, uint32_t functions, uint64_t hash);
struct spec_rules *spec_rules_new(const struct ms_policy *policy, uint32_t functions, uint64_t hash)
{
    static const struct ms_rules_ops ops = {rules_filter, rules_resolve, rules_flush, rules_event, rules_describe, rules_close};
    struct spec_rules *r = ms_alloc_zero(sizeof *r);
    if (!r) return NULL;
    r->rules.ops = &ops;
    r->rules.references = 1;
    r->rules.functions = functions;
    r->rules.hash = hash;
    r->rules.policy = *policy;
    memcpy(r->rules.name, "spec", 5);
    return r;
}
