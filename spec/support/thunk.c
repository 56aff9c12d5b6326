/* LuaJIT cannot be called back with a struct by value. These functions are: they hand on pointers to the structs. Part of
 * libmetasync-private.so, used by spec/support/ms.lua only. */
#include "../../core/metasync.h"

struct spec_thunk {
    int (*two)(void *context, const struct ms_bytes *a, const struct ms_bytes *b);
    int (*three)(void *context, const struct ms_bytes *a, const struct ms_bytes *b, const struct ms_bytes *c);
    int (*compute)(void *context, const struct ms_bytes *current, struct ms_bytes *value);
    void *context;
};

/* For ms_walk_fn. */
int spec_thunk_two(void *thunk, struct ms_bytes a, struct ms_bytes b);
int spec_thunk_two(void *thunk, struct ms_bytes a, struct ms_bytes b)
{
    struct spec_thunk *t = thunk;
    return t->two(t->context, &a, &b);
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
