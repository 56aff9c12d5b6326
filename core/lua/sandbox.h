/* One Lua state in which somebody else's code runs without being able to hurt: it can compute, and nothing else.
 *
 * Allowed: assert error getmetatable ipairs next pairs pcall rawequal rawget rawset select setmetatable tonumber tostring type unpack
 * xpcall; string (without dump), table, math, bit, coroutine; os.time and os.clock; `require` of what the owner offers. Library tables
 * and the metatable of strings are read-only. No bytecode, no ffi, no files. The JIT compiler is off, since a compiled loop can't be
 * interrupted. Literals like 1LL make exact 64-bit integers; nothing else of the ffi comes with them.
 *
 * Fuel: each call has so many instructions and so much processor time. Once it is out, pcall, xpcall and coroutines hand the error on,
 * and every further instruction raises it again. Work that is done in C counts too: pattern matching is our own (match.c) with a step
 * counter; sort, concat, insert, rep and the like are charged by size; so are large allocations. The larger the blocks in memory, the
 * more often the clock is read, so that no single instruction on large data makes a call much longer than it may be. Without a time
 * limit, instructions are all that counts, and equal calls end equally.
 *
 * Memory: a cap, and no single block above a quarter of it. Running into it ends the call, like fuel, and the state is `spoiled`: its
 * owner makes a new one, because a state that ran out of memory is only good for being closed.
 *
 * Calls of Lua from C nest at most MS_SANDBOX_DEPTH deep, whatever they go through (pcall, coroutines, sort, gsub), and need less than
 * 256 KiB of the thread's stack.
 *
 * One thread at a time; the owner's lock. */
#ifndef MS_LUA_SANDBOX_H
#define MS_LUA_SANDBOX_H

#include "../base/bytes.h"

struct lua_State;
struct ms_sandbox;

enum { MS_SANDBOX_DEPTH = 100 };

struct ms_sandbox_limits {
    uint32_t instructions; /* of one call */
    uint32_t time_us;      /* processor time of one call; 0 = not looked at */
    uint32_t memory;       /* bytes in all, >= 1 MiB */
};

/* What went wrong in a call, for the incident. */
struct ms_sandbox_error {
    int code;          /* MS_E_LIMIT: fuel, MS_E_MEMORY: the cap, MS_E_FORMAT: syntax, MS_E_REFUSED: an error that the code raised */
    char message[256]; /* cut, printable, without the place; of an error object that is no string: its type */
    char file[64];     /* where: the chunk's name; "" if not known */
    int line;          /* 0 = not known */
};

/* A new state. real_time_us: for os.time (NULL = the machine's). MS_E_MEMORY. */
int ms_sandbox_new(const struct ms_sandbox_limits *limits, uint64_t (*real_time_us)(void *context), void *context,
                   struct ms_sandbox **sandbox);
void ms_sandbox_free(struct ms_sandbox *sandbox); /* NULL is allowed */

struct lua_State *ms_sandbox_state(struct ms_sandbox *sandbox);
void ms_sandbox_set_limits(struct ms_sandbox *sandbox, const struct ms_sandbox_limits *limits); /* for the next call */
size_t ms_sandbox_memory(const struct ms_sandbox *sandbox); /* bytes in use */
bool ms_sandbox_spoiled(const struct ms_sandbox *sandbox);

/* ---- texts for `require` */

enum ms_sandbox_kind {
    MS_SANDBOX_PLAIN = 0,   /* runs in the sandbox's environment */
    MS_SANDBOX_TRUSTED = 1, /* the owner's glue: runs outside of it, with ffi and all libraries; only trusted code may require it */
    MS_SANDBOX_PUBLIC = 2,  /* trusted, but everybody may require it; if it returns a table, others get a read-only view of that */
};

/* Offers text as what `require "name"` runs (once) and returns. The text is borrowed for the sandbox's life, the name copied. In errors
 * the chunk is called by its name; file and line in an error are of the innermost chunk that is not trusted, if there is one. INVALID: a
 * name that is not [A-Za-z0-9_.-]+ with a letter or digit at both ends and no "..", or one that is offered already. */
int ms_sandbox_offer(struct ms_sandbox *sandbox, const char *name, struct ms_bytes text, int kind);
/* Asked for what was not offered: the owner may read it (a file beside the policy) and offer it; 0, or MS_E_NOT_FOUND / IO / LIMIT.
 * The name is a good one already. */
void ms_sandbox_on_require(struct ms_sandbox *sandbox, int (*find)(void *context, struct ms_sandbox *sandbox, const char *name), void *context);

/* ---- running. Outside of these calls the owner uses nothing of lua.h that may raise an error: with nobody to catch it, the process ends */

/* Runs fn(L) protected, under fuel, as lua_cpcall: `data` is its only argument, a light userdata. Owners push arguments, call functions
 * (lua_call) and read results in there. */
int ms_sandbox_protect(struct ms_sandbox *sandbox, int (*fn)(struct lua_State *L), void *data, struct ms_sandbox_error *error);

/* Compiles text (never bytecode) as a function of the sandbox's environment and pushes it on ms_sandbox_state. chunk_name as lua_load's:
 * "@file" or "=name". error (may be NULL, in all of these) is filled in if the result is not 0. */
int ms_sandbox_compile(struct ms_sandbox *sandbox, const char *chunk_name, struct ms_bytes text, struct ms_sandbox_error *error);

/* lua_pcall under fuel: function and arguments are on the stack of ms_sandbox_state and are popped. On an error nothing is pushed in
 * their place, and the code is returned. Calls nest: the inner one runs on the outer one's fuel. */
int ms_sandbox_call(struct ms_sandbox *sandbox, int arguments, int results, struct ms_sandbox_error *error);

/* ---- for C functions of the owner; all of them may raise errors */

/* Charges so many instructions; raises when there are none left. The unit is about 5 ns of work. */
void ms_sandbox_charge(struct lua_State *L, uint64_t instructions);
/* Pushes the environment of trusted code [-0, +1]; in it, string and table are the sandbox's safe ones, and `readonly(table)` makes views. */
void ms_sandbox_push_trusted(struct lua_State *L);
/* Pushes the sandbox's environment [-0, +1]. */
void ms_sandbox_push_environment(struct lua_State *L);
/* Pushes what `require "name"` of trusted code returns [-0, +1]. */
void ms_sandbox_push_required(struct lua_State *L, const char *name);
/* Pushes a read-only view of the table at index [-0, +1]; it is empty for pairs and next. */
void ms_sandbox_push_readonly(struct lua_State *L, int index);

#endif
