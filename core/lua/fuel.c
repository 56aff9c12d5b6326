/* What a call may use up. Three things end it: instructions, processor time, memory.
 *
 * LuaJIT calls our hook every `interval` instructions. The clock is read there: the cheap wall clock first, and the thread's processor
 * time only when so much wall time went by that it could be over. The interval shrinks with the bytes that are in large blocks, because
 * what one instruction may cost (compare two strings, walk a crowded hash chain, skip an emptied table) is bounded by them: interval
 * times block size is about constant, some 2 ms in the worst case. Where no clock is looked at, short intervals cost more than they are.
 *
 * When the call is over, the hook is set to every instruction, so that nothing runs on, whoever caught the error. lua_sethook may be
 * called at any time, so that the allocator can do it too. */
#include "sandbox_inside.h"

#include <lauxlib.h>
#include <lua.h>
#include <time.h>

#include "../base/mem.h"

enum {
    INTERVAL = 500,
    LARGE = 8 << 10,           /* bytes: a large block */
    BYTES_AT_ONCE = 4 << 20,   /* interval * bytes in large blocks stays below this */
    BYTES_PER_INSTRUCTION = 64, /* charged for large blocks */
    RESERVE = 64 << 10,        /* beyond the cap, to get out */
    BLOCK_MIN = 256 << 10,     /* the largest block is never less than this */
    LOOK_EVERY = 1000,         /* charged instructions between two looks at the clock */
    CLOCKLESS = 64,            /* what an interval costs at least where no clock bounds it */
};

static void hook(lua_State *L, lua_Debug *unused);

struct ms_sandbox *ms_sandbox_of(lua_State *L)
{
    void *context = NULL;
    (void)lua_getallocf(L, &context);
    return context;
}

static void set_hook(struct ms_sandbox *sandbox, int interval)
{
    sandbox->interval = interval;
    (void)lua_sethook(sandbox->L, hook, LUA_MASKCOUNT, interval);
}

static void end_call(struct ms_sandbox *sandbox, int cause)
{
    if (cause == MS_CAUSE_MEMORY) sandbox->spoiled = true;
    if (sandbox->cause != MS_CAUSE_NONE) return;
    sandbox->cause = cause;
    set_hook(sandbox, 1);
}

/* ---- memory */

static int wanted_interval(const struct ms_sandbox *sandbox)
{
    if (sandbox->large <= BYTES_AT_ONCE / INTERVAL) return INTERVAL;
    size_t interval = BYTES_AT_ONCE / sandbox->large;
    return interval < 1 ? 1 : (int)interval;
}

/* A large block came or grew: it is paid for, and the hook comes more often. What the old interval had left is counted as used. */
static void charge_block(struct ms_sandbox *sandbox, size_t growth)
{
    if (sandbox->cause != MS_CAUSE_NONE) return;
    sandbox->used += growth / BYTES_PER_INSTRUCTION;
    int interval = wanted_interval(sandbox);
    if (interval < sandbox->interval) {
        sandbox->used += (uint64_t)sandbox->interval;
        set_hook(sandbox, interval);
    }
    if (sandbox->used > sandbox->limits.instructions) end_call(sandbox, MS_CAUSE_INSTRUCTIONS);
}

static size_t large_part(size_t size)
{
    return size >= LARGE ? size : 0;
}

static bool fits(const struct ms_sandbox *sandbox, size_t growth, size_t size)
{
    if (!sandbox->ready) return true;
    size_t cap = sandbox->limits.memory, block = cap / 4 > BLOCK_MIN ? cap / 4 : BLOCK_MIN;
    if (sandbox->cause != MS_CAUSE_NONE) cap += RESERVE;
    return size <= block && sandbox->memory + growth <= cap;
}

/* lua_newstate crashes when an allocation other than its first one fails, and opening the ffi leaks. So there is spare memory while a
 * state is made; a state that used any of it is closed at once. */
static void *take_spare(struct ms_sandbox *sandbox, const void *memory, size_t old_size, size_t size)
{
    size_t room = (size + 15) & ~(size_t)15;
    if (!sandbox->spare || sandbox->memory == 0 || room > MS_SANDBOX_SPARE - sandbox->spare_used) return NULL;
    void *block = sandbox->spare + sandbox->spare_used;
    sandbox->spare_used += room;
    if (memory) memcpy(block, memory, old_size);
    return block;
}

static bool is_spare(const struct ms_sandbox *sandbox, const void *memory)
{
    uintptr_t at = (uintptr_t)memory, from = (uintptr_t)sandbox->spare;
    return sandbox->spare && at >= from && at < from + MS_SANDBOX_SPARE;
}

static void *grow(struct ms_sandbox *sandbox, void *memory, size_t old_size, size_t size)
{
    if (!fits(sandbox, size - old_size, size)) return NULL;
    void *block = NULL;
    if (!memory) block = ms_alloc(size);
    else if (!is_spare(sandbox, memory)) block = ms_realloc(memory, size);
    if (block) return block;
    block = take_spare(sandbox, memory, old_size, size);
    if (block && memory && !is_spare(sandbox, memory)) ms_release(memory);
    return block;
}

void *ms_sandbox_allocate(void *context, void *memory, size_t old_size, size_t size)
{
    struct ms_sandbox *sandbox = context;
    if (!memory) old_size = 0;
    void *block = NULL;
    if (size > old_size) {
        block = grow(sandbox, memory, old_size, size);
        if (!block) {
            if (sandbox->ready) end_call(sandbox, MS_CAUSE_MEMORY);
            return NULL;
        }
    } else if (is_spare(sandbox, memory)) {
        block = size ? memory : NULL;
    } else if (size == 0) {
        ms_release(memory);
    } else {
        block = ms_realloc(memory, size);
        if (!block) block = memory; /* shrinking can't fail */
    }
    sandbox->memory = sandbox->memory - old_size + size;
    if (size >= LARGE || old_size >= LARGE) {
        size_t before = large_part(old_size);
        sandbox->large -= before < sandbox->large ? before : sandbox->large;
        sandbox->large += large_part(size);
        if (sandbox->ready && size > old_size) charge_block(sandbox, size - old_size);
    }
    return block;
}

/* ---- time */

static uint64_t read_clock(clockid_t clock)
{
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) return 0;
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The clock starts with the first look, so that short calls never read it. */
static bool time_is_out(struct ms_sandbox *sandbox)
{
    uint32_t limit = sandbox->limits.time_us;
    sandbox->unlooked = 0;
    if (limit == 0) return false;
    uint64_t now = read_clock(CLOCK_MONOTONIC);
    if (!sandbox->clock_runs) {
        sandbox->clock_runs = true;
        sandbox->cpu_from_us = read_clock(CLOCK_THREAD_CPUTIME_ID);
        sandbox->look_at_us = now + limit;
        return false;
    }
    if (now < sandbox->look_at_us) return false;
    uint64_t spent = read_clock(CLOCK_THREAD_CPUTIME_ID) - sandbox->cpu_from_us;
    if (spent >= limit) return true;
    sandbox->look_at_us = now + (limit - spent);
    return false;
}

void ms_sandbox_stop_clock(struct ms_sandbox *sandbox)
{
    if (!sandbox->clock_runs) return;
    sandbox->cpu_us += read_clock(CLOCK_THREAD_CPUTIME_ID) - sandbox->cpu_from_us;
    sandbox->clock_runs = false;
}

/* Without a time limit, runs must be equal: an instruction counts as 10 ns then. */
double ms_sandbox_clock(struct ms_sandbox *sandbox)
{
    if (sandbox->limits.time_us == 0) return (double)sandbox->used / 1e8;
    if (!sandbox->clock_runs) (void)time_is_out(sandbox);
    return (double)(sandbox->cpu_us + read_clock(CLOCK_THREAD_CPUTIME_ID) - sandbox->cpu_from_us) / 1e6;
}

/* ---- instructions */

/* The innermost chunk of the sandboxed code ("@name"), else of whatever runs. */
void ms_sandbox_note_place(lua_State *L)
{
    struct ms_sandbox_error *place = &ms_sandbox_of(L)->place;
    lua_Debug at;
    _Static_assert(sizeof at.short_src < sizeof place->file, "a chunk's name fits");
    place->line = 0;
    place->file[0] = 0;
    for (int level = 0; level < 30 && lua_getstack(L, level, &at); level++) {
        if (!lua_getinfo(L, "Sl", &at) || at.currentline <= 0) continue;
        if (place->line != 0 && at.source[0] != '@') continue;
        place->line = at.currentline;
        size_t size = strnlen(at.short_src, sizeof at.short_src);
        memcpy(place->file, at.short_src, size);
        place->file[size] = 0;
        if (at.source[0] == '@') return;
    }
}

int ms_sandbox_raise(lua_State *L)
{
    struct ms_sandbox *sandbox = ms_sandbox_of(L);
    if (sandbox->place.line == 0) ms_sandbox_note_place(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, sandbox->fuel_text); /* made in advance: there may be no memory left */
    return lua_error(L);
}

static void look(lua_State *L, struct ms_sandbox *sandbox, bool at_clock)
{
    if (sandbox->cause == MS_CAUSE_NONE) {
        if (sandbox->used > sandbox->limits.instructions) end_call(sandbox, MS_CAUSE_INSTRUCTIONS);
        else if (at_clock && time_is_out(sandbox)) end_call(sandbox, MS_CAUSE_TIME);
    }
    if (sandbox->cause != MS_CAUSE_NONE) (void)ms_sandbox_raise(L);
}

static void hook(lua_State *L, lua_Debug *unused)
{
    (void)unused;
    struct ms_sandbox *sandbox = ms_sandbox_of(L);
    int cost = sandbox->interval;
    if (sandbox->limits.time_us == 0 && cost < CLOCKLESS) cost = CLOCKLESS;
    sandbox->used += (uint64_t)cost;
    look(L, sandbox, true);
}

void ms_sandbox_charge(lua_State *L, uint64_t instructions)
{
    struct ms_sandbox *sandbox = ms_sandbox_of(L);
    sandbox->used += instructions;
    sandbox->unlooked += instructions;
    look(L, sandbox, sandbox->unlooked >= LOOK_EVERY);
}

void ms_sandbox_refuel(struct ms_sandbox *sandbox)
{
    sandbox->cause = MS_CAUSE_NONE;
    sandbox->depth = 0;
    sandbox->used = sandbox->unlooked = 0;
    sandbox->place.line = 0;
    sandbox->place.file[0] = 0;
    set_hook(sandbox, wanted_interval(sandbox));
}

/* ---- depth */

void ms_sandbox_deeper(lua_State *L)
{
    struct ms_sandbox *sandbox = ms_sandbox_of(L);
    if (sandbox->depth >= MS_SANDBOX_DEPTH)
        (void)luaL_error(L, "calls nested too deep (pcall, coroutines, sort, gsub: at most %d)", MS_SANDBOX_DEPTH);
    sandbox->depth++;
}

void ms_sandbox_back(lua_State *L)
{
    ms_sandbox_of(L)->depth--;
}
