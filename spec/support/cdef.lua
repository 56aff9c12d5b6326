-- Makes what specs give to LuaJIT's ffi.cdef out of the C headers, so that a spec never repeats a declaration.
--
--     luajit spec/support/cdef.lua CC OUT.h OUT.c HEADER...
--
-- OUT.c includes every header with `static` and `inline` defined away; linked into libmetasync-private.so it gives inline
-- functions a symbol. OUT.h has the declarations of the headers, in order:
--   1. the preprocessor reads OUT.c; only lines that came from a header of the project are kept;
--   2. what LuaJIT's parser does not know is rewritten (_Alignas, _Atomic) or removed (most attributes);
--   3. the text is cut into declarations, function bodies are dropped, integer macros become enum constants;
--   4. each declaration is tried. One that LuaJIT refuses is left out and named on standard error.
local ffi = require "ffi"

local cc, out_header, out_source = arg[1], arg[2], arg[3]
local headers = { unpack(arg, 4) }

-- Types of libc and of other libraries that our headers mention. By value only where the size is that of Linux on 64 bits.
local PRELUDE = {
    "struct ms_cdef_loaded { int unused; };",
    "typedef long ssize_t;", "typedef int64_t off_t;", "typedef int pid_t;", "typedef int64_t time_t;",
    "typedef unsigned mode_t;", "typedef unsigned socklen_t;",
    "struct timespec { int64_t tv_sec; long tv_nsec; };", "struct timeval { int64_t tv_sec; long tv_usec; };",
    "typedef unsigned long pthread_t;", "typedef union { char size[40]; long align; } pthread_mutex_t;",
    "typedef union { char size[48]; long long align; } pthread_cond_t;", "typedef unsigned pthread_key_t;",
    "typedef bool atomic_bool; typedef int atomic_int; typedef unsigned atomic_uint; typedef size_t atomic_size_t;",
    "typedef long atomic_long; typedef unsigned long atomic_ulong; typedef int64_t atomic_llong;",
    "typedef uint64_t atomic_uint_fast64_t; typedef int64_t atomic_int_fast64_t; typedef uint64_t atomic_ullong;",
    "struct sockaddr;", "struct sockaddr_storage { unsigned short ss_family; char size[118]; unsigned long align; };",
    "struct event { uint64_t opaque[16]; };",
    "typedef struct json_t json_t;", "typedef struct lua_State lua_State;", "typedef struct spec_FILE FILE;",
}

-- What spec/support/thunk.c exports. It is no header of the core, so that it is declared here.
local THUNK = {
    [[struct spec_thunk {
    int (*two)(void *context, const struct ms_bytes *a, const struct ms_bytes *b);
    int (*three)(void *context, const struct ms_bytes *a, const struct ms_bytes *b, const struct ms_bytes *c);
    int (*compute)(void *context, const struct ms_bytes *current, struct ms_bytes *value);
    void (*entered)(void *context, const char *table, const struct ms_bytes *key);
    void *context;
};]],
    [[struct spec_rules {
        struct ms_rules rules;
        char out[64];
        int (*filter)(const char *table, const struct ms_bytes *key);
        uint64_t (*flush)(const struct ms_flush_stats *stats);
        void (*event)(const struct ms_event *event);
        uint64_t asked;
        int *closed;
    };]],
    [[struct spec_hand {
        struct ms_io io;
        struct ms_engine engine;
        struct ms_store store;
        uint64_t now, wake, written, synced;
        bool stuck;
        uint64_t asks, events;
        uint32_t asked;
        struct ms_flush_stats stats;
    };]],
    "void spec_hand_settle(struct spec_hand *hand);",
    "void spec_hand_turn(struct spec_hand *hand, uint64_t until);",
    "void spec_hand_free(struct spec_hand *hand);",
    "struct spec_hand *spec_hand_new(const struct ms_policy *policy, struct ms_rules *rules);",
    "struct spec_rules *spec_rules_new(const struct ms_policy *policy, uint32_t functions, uint64_t hash);",
    "void spec_thunk_entered(void *thunk, const char *table, struct ms_bytes key);",
    "int spec_thunk_two(void *thunk, struct ms_bytes a, struct ms_bytes b);",
    "int spec_thunk_key(void *thunk, struct ms_bytes key);",
    "int spec_thunk_three(void *thunk, struct ms_bytes a, struct ms_bytes b, struct ms_bytes c);",
    "int spec_thunk_compute(void *thunk, struct ms_bytes current, struct ms_bytes *value);",
}

local function write_source(path)
    local f = assert(io.open(path, "w"))
    -- System headers come first: they must not see the two macros.
    for _, name in ipairs { "stdatomic", "stdbool", "stddef", "stdint", "stdio", "stdlib", "string", "strings", "pthread",
        "time", "errno", "inttypes", "limits", "unistd", "fcntl", "jansson", "sys/socket", "sys/types", "netinet/in", "sys/uio" } do
        f:write(("#include <%s.h>\n"):format(name))
    end
    f:write("#define static\n#define inline\n")
    for _, header in ipairs(headers) do f:write(('#include "%s"\n'):format(header)) end
    assert(f:close())
end

-- The lines that came from the project (its paths are relative), and the integer macros among them.
local function read_own_lines(path)
    local pipe = assert(io.popen(cc .. " -std=gnu11 -D_GNU_SOURCE -I. -E -dD " .. path))
    local own, lines, macros = false, {}, {}
    for line in pipe:lines() do
        local file = line:match('^# %d+ "([^"]*)"')
        if file then
            own = not file:match("^[/<]") and file ~= path
        elseif own and line:match("^#define") then
            local name, value = line:match("^#define (MS_%w+) (%-?%d%w*)$")
            value = value and tonumber((value:gsub("[uUlL]+$", "")))
            if value and value == math.floor(value) and math.abs(value) < 2 ^ 31 then
                macros[#macros + 1] = ("enum { %s = %d };"):format(name, value)
            end
        elseif own and not line:match("^#") then
            lines[#lines + 1] = line
        end
    end
    local ok = pipe:close()
    if not ok then
        os.remove(out_source)
        io.stderr:write("cdef: the preprocessor failed\n")
        os.exit(1)
    end
    return table.concat(lines, "\n"), macros
end

local function rewrite(text)
    text = text:gsub("_Alignas%s*(%b())", "__attribute__((aligned%1))")
    text = text:gsub("_Atomic%s*(%b())", function(inner) return inner:sub(2, -2) end)
    text = text:gsub("__attribute__%s*(%b())", function(inner)
        if inner:match("^%(%(aligned") or inner:match("^%(%(%s*_*packed") then return "__attribute__" .. inner end
        return " "
    end)
    text = text:gsub("_Static_assert%s*%b()%s*;", "")
    for _, word in ipairs { "_Atomic", "_Noreturn", "__extension__", "_Thread_local" } do
        text = text:gsub("%f[%w_]" .. word .. "%f[^%w_]", " ")
    end
    return text
end

-- Position after the string or character constant that starts at `at`.
local function skip_quoted(text, at)
    local quote = text:sub(at, at)
    at = at + 1
    while true do
        local c = text:sub(at, at)
        if c == "\\" then at = at + 2
        elseif c == quote or c == "" then return at + 1
        else at = at + 1 end
    end
end

local function cut_declarations(text)
    local list, from, at, depth, body_at = {}, 1, 1, 0, nil
    while true do
        at = text:find("[{};\"']", at)
        if not at then return list end
        local c = text:sub(at, at)
        if c == '"' or c == "'" then
            at = skip_quoted(text, at) - 1
        elseif c == "{" then
            if depth == 0 and text:sub(from, at - 1):match("%)%s*$") then body_at = at end
            depth = depth + 1
        elseif c == "}" then
            depth = depth - 1
            if depth == 0 and body_at then
                list[#list + 1] = text:sub(from, body_at - 1) .. ";"
                from, body_at = at + 1, nil
            end
        elseif depth == 0 then
            list[#list + 1] = text:sub(from, at)
            from = at + 1
        end
        at = at + 1
    end
end

local function tidy(declaration)
    return (declaration:gsub("\n%s*\n+", "\n"):gsub("^%s+", ""):gsub("[ \t]+\n", "\n"):gsub("%s+;$", ";"))
end

write_source(out_source)
local text, macros = read_own_lines(out_source)
local declarations = {}
for _, d in ipairs(PRELUDE) do declarations[#declarations + 1] = d end
for _, d in ipairs(macros) do declarations[#declarations + 1] = d end
for _, d in ipairs(cut_declarations(rewrite(text))) do declarations[#declarations + 1] = tidy(d) end
for _, d in ipairs(THUNK) do declarations[#declarations + 1] = d end

local out = assert(io.open(out_header, "w"))
for _, declaration in ipairs(declarations) do
    local ok, why = pcall(ffi.cdef, declaration)
    if ok then
        out:write(declaration, "\n")
    else
        io.stderr:write(("cdef: left out: %s (%s)\n"):format(declaration:match("^[^\n]*"), why))
    end
end
assert(out:close())
