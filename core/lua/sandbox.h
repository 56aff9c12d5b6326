/* One Lua state in which somebody else's code runs without being able to hurt: it can compute, and nothing else.
 *
 * Allowed: the basic library without load, dofile, loadstring, getfenv, setfenv, newproxy, collectgarbage, gcinfo, module, print and
 * raw access to protected tables; string (without dump), table, math, bit, coroutine; os.time and os.clock; `require` of what the owner
 * offers. Library tables and the metatable of strings are read-only. No bytecode, no ffi, no files. The JIT compiler is off, since a
 * compiled loop can't be interrupted.
 *
 * Fuel: each call has so many instructions and so much processor time. Once it is out, every further instruction raises the same error, so
 * that neither pcall, nor a coroutine, nor a metamethod keeps it alive. Work that is done in C counts too: pattern matching is our own
 * (match.c) with a step counter; sort, concat, rep, insert, remove, next and the like are charged by size; so is every byte that is
 * allocated. Memory: a cap; beyond it "not enough memory" is raised, and a state that could not be brought below it afterwards is
 * `spoiled`: its owner makes a new one.
 *
 * One thread at a time; the owner's lock. */
#ifndef MS_LUA_SANDBOX_H
#define MS_LUA_SANDBOX_H

#include <lua.h>

#include "../base/bytes.h"

struct ms_sandbox;

struct ms_sandbox_limits {
    uint32_t instructions; /* of one call */
    uint32_t time_us;      /* processor time of one call; 0 = not looked at */
    uint32_t memory;       /* bytes in all */
};

/* What went wrong in a call, for the incident. */
struct ms_sandbox_error {
    int code;         /* MS_E_LIMIT: fuel, MS_E_MEMORY: the cap, MS_E_REFUSED: an error that the code raised */
    char message[256]; /* cut, printable; of an error object that is no string: its type */
    char file[64];    /* where; "" if not known */
    int line;         /* 0 = not known */
};

/* A new state. real_time_us: for os.time (NULL = the machine's). MS_E_MEMORY. */
int ms_sandbox_new(const struct ms_sandbox_limits *limits, uint64_t (*real_time_us)(void *context), void *context,
                   struct ms_sandbox **sandbox);
void ms_sandbox_free(struct ms_sandbox *sandbox); /* NULL is allowed */

lua_State *ms_sandbox_state(struct ms_sandbox *sandbox);
void ms_sandbox_set_limits(struct ms_sandbox *sandbox, const struct ms_sandbox_limits *limits);
size_t ms_sandbox_memory(const struct ms_sandbox *sandbox); /* bytes in use */
bool ms_sandbox_spoiled(const struct ms_sandbox *sandbox);

/* Offers text as what `require "name"` runs and returns. trusted: it runs outside of the sandbox's environment, with ffi and all libraries
 * (the library's own glue); else in it. Borrowed for the sandbox's life. */
int ms_sandbox_offer(struct ms_sandbox *sandbox, const char *name, struct ms_bytes text, bool trusted);
/* Asked for what was not offered: the owner may read it (a file beside the policy) and offer it; 0, or MS_E_NOT_FOUND / IO / LIMIT. */
void ms_sandbox_on_require(struct ms_sandbox *sandbox, int (*find)(void *context, struct ms_sandbox *sandbox, const char *name), void *context);

/* Compiles text (never bytecode) as a function of the sandbox's environment and pushes it. error (may be NULL) is filled in. */
int ms_sandbox_compile(struct ms_sandbox *sandbox, const char *chunk_name, struct ms_bytes text, struct ms_sandbox_error *error);

/* lua_pcall under fuel: arguments and function are on the stack of ms_sandbox_state. On an error the stack is as before the function was
 * pushed, and the code is returned. Calls don't nest: the inner one runs on the outer one's fuel. */
int ms_sandbox_call(struct ms_sandbox *sandbox, int arguments, int results, struct ms_sandbox_error *error);

/* Runs fn(L, data) protected, under fuel, as lua_cpcall: for owners that push values, which may run out of memory. */
int ms_sandbox_protect(struct ms_sandbox *sandbox, lua_CFunction fn, void *data, struct ms_sandbox_error *error);

/* For C functions that are offered to the sandboxed code: charges so many instructions; raises when there is none left. */
void ms_sandbox_charge(lua_State *L, uint64_t instructions);

#endif
