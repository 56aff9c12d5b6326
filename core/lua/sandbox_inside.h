/* Inside of the sandbox: what its files share.
 *
 *      sandbox.c   a state's life; calls and their errors
 *      fuel.c      memory, instructions, time: the allocator, the hook, charges
 *      library.c   what the sandboxed code sees: base, coroutine, os, read-only views
 *      strings.c   string; the patterns are match.c's
 *      tables.c    table
 *      require.c   texts that are offered */
#ifndef MS_LUA_SANDBOX_INSIDE_H
#define MS_LUA_SANDBOX_INSIDE_H

#include "sandbox.h"

struct ms_sandbox_text {
    char *name;
    struct ms_bytes text;
    int kind;
};

enum ms_sandbox_cause { MS_CAUSE_NONE, MS_CAUSE_INSTRUCTIONS, MS_CAUSE_TIME, MS_CAUSE_MEMORY };

struct ms_sandbox {
    struct lua_State *L;
    struct ms_sandbox_limits limits;
    uint64_t (*real_time_us)(void *context);
    void *time_context;

    /* memory */
    bool ready;    /* the state is complete: from here on the cap holds */
    bool spoiled;
    uint8_t *spare; /* while the state is made, see fuel.c */
    size_t spare_used;
    size_t memory; /* bytes in use */
    size_t large;  /* of these, in large blocks; the baseline of a new state is taken off */

    /* fuel of the call that runs */
    int running;          /* calls inside one another */
    int depth;            /* calls of Lua from C inside one another */
    int cause;            /* enum ms_sandbox_cause: why the call is over; NONE = it is not */
    uint64_t used;        /* instructions, real ones and charged ones */
    uint64_t unlooked;    /* charged since the clock was read */
    int interval;         /* instructions between two hooks */
    bool clock_runs;
    uint64_t cpu_from_us; /* this thread's processor time when the clock was first read */
    uint64_t look_at_us;  /* not before this wall time can the processor time be over */
    uint64_t cpu_us;      /* of the calls before, for os.clock */
    struct ms_sandbox_error place; /* file and line where the fuel ran out, or an error was raised */

    /* registry references */
    int handler, fuel_text, compiled, trusted, environment, loaded;

    struct ms_sandbox_text *texts;
    size_t text_count, text_room;
    int (*find)(void *context, struct ms_sandbox *sandbox, const char *name);
    void *find_context;
};

struct ms_sandbox *ms_sandbox_of(struct lua_State *L);

/* ---- fuel.c */

enum { MS_SANDBOX_SPARE = 32 << 10 }; /* bytes of `spare` */
/* A lua_Alloc; context is the sandbox. */
void *ms_sandbox_allocate(void *context, void *memory, size_t old_size, size_t size);
void ms_sandbox_refuel(struct ms_sandbox *sandbox); /* before a call */
void ms_sandbox_stop_clock(struct ms_sandbox *sandbox); /* after it */
double ms_sandbox_clock(struct ms_sandbox *sandbox);    /* seconds of processor time so far */
int ms_sandbox_raise(struct lua_State *L);              /* raises why the call is over */
void ms_sandbox_note_place(struct lua_State *L);        /* remembers where the code is */
/* Around every call of Lua from C. deeper raises if it is too deep; whoever catches an error sets depth back. */
void ms_sandbox_deeper(struct lua_State *L);
void ms_sandbox_back(struct lua_State *L);

/* ---- parts of the library. Each finds the built-in table on top of the stack and leaves it there, with its own functions in it */
void ms_sandbox_open_strings(struct lua_State *L);
void ms_sandbox_open_tables(struct lua_State *L);
void ms_sandbox_open_libraries(struct ms_sandbox *sandbox); /* all; needs a state with the built-in libraries */
int ms_sandbox_require_plain(struct lua_State *L);
int ms_sandbox_require_trusted(struct lua_State *L);
/* Raises an error if the table at index is a read-only view. */
void ms_sandbox_writable(struct lua_State *L, int index);

/* Raises the errors of a bad text; pushes its function, in the environment of its kind. */
void ms_sandbox_load(struct lua_State *L, struct ms_bytes text, const char *chunk_name, bool trusted);

#endif
