/* How much of a thread's stack a sandbox needs. A host's thread may have little; here they have what core/lua/sandbox.h promises to be
 * enough, and an overflow ends the program. The frames of sanitizers are larger. */
#include <pthread.h>

#include "../../core/lua/sandbox.h"
#include "cases.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK = 2 << 20 };
#else
enum { STACK = 256 << 10 };
#endif

static const struct ms_sandbox_limits limits = {.instructions = 5000000, .time_us = 0, .memory = 8 << 20};

static void run_text(const char *text, size_t size)
{
    struct ms_sandbox *sandbox;
    CHECK(ms_sandbox_new(&limits, NULL, NULL, &sandbox) == 0, "no sandbox");
    int rc = ms_sandbox_compile(sandbox, "@deep", (struct ms_bytes){text, size}, NULL);
    if (rc == 0) rc = ms_sandbox_call(sandbox, 0, 0, NULL);
    CHECK(rc == 0 || rc == MS_E_REFUSED || rc == MS_E_LIMIT || rc == MS_E_FORMAT, "%d", rc);
    ms_sandbox_free(sandbox);
}

static void on_small_stack(void *(*fn)(void *))
{
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, STACK) == 0, "no attributes");
    CHECK(pthread_create(&thread, &attributes, fn, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* Each goes down as far as it can, through one of the ways by which C calls Lua, or all of them in turn. */
static void *go_down(void *unused)
{
    static const char *const texts[] = {
        "local function f() return pcall(f) end f()",
        "local function f() return xpcall(f, f) end f()",
        "local function f() return xpcall(error, f) end f()",
        "local function f() return coroutine.wrap(f)() end f()",
        "local function f() return coroutine.resume(coroutine.create(f)) end f()",
        "local function f() return (('x'):gsub('x', f)) end f()",
        "local function f() table.sort({ 1, 2 }, f) end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__tostring = function() return ('%s'):format(t) end tostring(t)",
        "local t = setmetatable({}, { __index = function(t, k) return (('x'):gsub('x', t)) end }) return t.x",
        "local m = {} m.__lt = function(a, b) table.sort { a, b } end table.sort { setmetatable({}, m), setmetatable({}, m) }",
        "local function f() return 1 + f() end f()",
        "local function f() return f() .. '' end f()",
        "local n, f = 0 function f() n = n + 1 if n % 5 == 0 then return pcall(f) elseif n % 5 == 1 then return xpcall(f, f)"
        " elseif n % 5 == 2 then return (('x'):gsub('x', f)) elseif n % 5 == 3 then return coroutine.wrap(f)()"
        " else table.sort({ 1, 2 }, f) end end f()",
        /* the deepest pattern in the deepest gsub */
        "local n, f = 0 function f() n = n + 1 if n < 99 then return (('x'):gsub('x', f)) end"
        " return (('x'):rep(300):gsub(('x?'):rep(195) .. '(x-)$', '')) end f()",
    };
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) run_text(texts[i], strlen(texts[i]));
    return NULL;
}

static void calls(void)
{
    on_small_stack(go_down);
}

static void *parse_deep(void *unused)
{
    static char text[40000];
    static const char *const starts[][2] = {
        {"return ", "("}, {"return ", "{"}, {"", "do "}, {"return ", "function() return "}, {"x = ", "-"}, {"x = ", "a^"}, {"x = ", "a.."}};
    (void)unused;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        for (int levels = 150; levels <= 2150; levels += 2000) { /* below the parser's limit and above it */
            size_t size = (size_t)sprintf(text, "%s", starts[i][0]);
            for (int n = 0; n < levels; n++) size += (size_t)sprintf(text + size, "%s", starts[i][1]);
            run_text(text, size);
        }
    }
    return NULL;
}

static void parsing(void)
{
    on_small_stack(parse_deep);
}

int main(int argc, char **argv)
{
    static const struct spec_case cases[] = {
        SPEC_CASE(calls, "stays within a small stack, however deep calls nest"),
        SPEC_CASE(parsing, "stays within a small stack, however deep a text nests"),
    };
    return spec_main(cases, sizeof cases / sizeof *cases, argc, argv);
}
