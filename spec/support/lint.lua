-- Rules that neither compiler nor luacheck knows.
--
--     luajit spec/support/lint.lua ROOT
--
--   1. The library never ends, prints or asserts: no assert, abort, exit, printf and the like in core/.
--   2. All memory goes through base/mem.h.
--   3. A line has at most 150 columns (125 is what .clang-format makes; comments may be a little wider), a C file 600 lines, a
--      C function 80 lines.
--   4. No notes to do something later.
--   5. If libmetasync.so.0 is built: it exports exactly the MS_API functions, and needs no function of rule 1.
local root = (arg[1] or "."):gsub("/+$", "")

local COLUMNS, FILE_LINES, FUNCTION_LINES = 150, 600, 80

local DEADLY = { "assert", "abort", "exit", "_exit", "_Exit", "quick_exit", "printf", "vprintf", "puts", "putchar",
    "fprintf", "vfprintf", "fputs", "fputc", "perror", "psignal", "err", "errx", "warn", "warnx", "syslog" }
local MEMORY = { "malloc", "calloc", "realloc", "free", "strdup", "strndup", "asprintf", "vasprintf", "alloca" }

-- ms_free gives back texts that jansson has made: the one place where memory of others is freed.
local EXEMPT = { ["core/node_read.c"] = { free = true } }

local problems = 0

local function report(path, number, text)
    print(("%s:%s %s"):format(path, number and number .. ":" or "", text))
    problems = problems + 1
end

local function list_files(folders, pattern)
    local paths = {}
    local command = "cd '%s' && find %s -type f \\( %s \\) 2>/dev/null | LC_ALL=C sort"
    local find = io.popen(command:format(root, folders, pattern))
    for path in find:lines() do paths[#paths + 1] = path end
    find:close()
    return paths
end

local function read(path)
    local file = assert(io.open(root .. "/" .. path, "rb"))
    local text = file:read("*a")
    file:close()
    return text
end

-- The text with comments and quoted text blanked; lines and columns stay where they are.
local function code_only(text)
    local out, at = {}, 1
    local function blank(to)
        out[#out + 1] = text:sub(at, to):gsub("[^\n]", " ")
        at = to + 1
    end
    while at <= #text do
        local from = text:find("[/\"']", at)
        if not from then break end
        out[#out + 1] = text:sub(at, from - 1)
        at = from
        local two = text:sub(from, from + 1)
        if two == "/*" then
            blank(select(2, text:find("*/", from + 2, true)) or #text)
        elseif two == "//" then
            blank((text:find("\n", from, true) or #text + 1) - 1)
        elseif two:sub(1, 1) == "/" then
            out[#out + 1] = "/"
            at = from + 1
        else
            local quote, to = text:sub(from, from), from + 1
            while to <= #text and text:sub(to, to) ~= quote do
                to = to + (text:sub(to, to) == "\\" and 2 or 1)
            end
            blank(to)
        end
    end
    out[#out + 1] = text:sub(at)
    return table.concat(out)
end

local function lines_of(text)
    local lines = {}
    for line in (text:gsub("\n$", "") .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = line end
    return lines
end

local function check_calls(path, lines, names, why)
    for number, line in ipairs(lines) do
        for _, name in ipairs(names) do
            local from = line:find("%f[%w_]" .. name .. "%s*%(")
            -- ops->free(...), x.exit(...) and declarations of fields are other functions.
            local before = from and line:sub(1, from - 1) or ""
            local exempt = EXEMPT[path] and EXEMPT[path][name]
            if from and not exempt and not before:match("%->$") and not before:match("%.$") and not before:match("%*$") then
                report(path, number, ("calls %s: %s"):format(name, why))
            end
        end
    end
end

-- A function starts at the line "{" alone in the first column, and ends at "}" in the first column.
local function check_functions(path, lines)
    local start
    for number, line in ipairs(lines) do
        if line:match("^{%s*$") then start = number end
        if line:match("^}") and start then
            if number - start + 1 > FUNCTION_LINES then
                report(path, start, ("a function of %d lines, at most %d"):format(number - start + 1, FUNCTION_LINES))
            end
            start = nil
        end
    end
end

local function check_width(path, lines)
    for number, line in ipairs(lines) do
        local _, continuation = line:gsub("[\128-\191]", "") -- UTF-8: count characters
        local columns = #line - continuation
        if columns > COLUMNS then report(path, number, ("%d columns, at most %d"):format(columns, COLUMNS)) end
    end
end

-- Spelled in two parts, so that this file does not find itself.
local LATER = { "TO" .. "DO", "FIX" .. "ME", "XX" .. "X", "HA" .. "CK" }

local function check_later(path, lines)
    for number, line in ipairs(lines) do
        for _, word in ipairs(LATER) do
            if line:find("%f[%w]" .. word .. "%f[%W]") then report(path, number, word) end
        end
    end
end

local function check_c(path)
    local text = read(path)
    local raw = lines_of(text)
    local code = lines_of(code_only(text))
    if #raw > FILE_LINES then report(path, nil, ("%d lines, at most %d"):format(#raw, FILE_LINES)) end
    check_width(path, raw)
    check_functions(path, code)
    if path:match("^core/") and not path:match("^core/example/") then
        check_calls(path, code, DEADLY, "the library never ends, prints or asserts")
        if path ~= "core/base/mem.c" then check_calls(path, code, MEMORY, "memory goes through base/mem.h") end
    end
end

local function words(command)
    local set = {}
    local pipe = io.popen(command)
    for line in pipe:lines() do
        local name = line:match("(%S+)%s*$")
        if name then set[name:gsub("@.*", "")] = true end
    end
    pipe:close()
    return set
end

local function check_symbols(library)
    local file = io.open(root .. "/" .. library)
    if not file then return end
    file:close()
    local wanted = {}
    for name in read("core/metasync.h"):gmatch("\nMS_API [^\n(]-(ms_[%w_]+)%(") do wanted[name] = true end
    local exported = words(("nm -D --defined-only '%s/%s'"):format(root, library))
    for name in pairs(exported) do
        if not wanted[name] then report(library, nil, "exports " .. name .. ", which metasync.h does not mark MS_API") end
    end
    for name in pairs(wanted) do
        if not exported[name] then report(library, nil, "does not export " .. name) end
    end
    local needed = words(("nm -D --undefined-only '%s/%s'"):format(root, library))
    for _, name in ipairs(DEADLY) do
        if needed[name] then report(library, nil, "needs " .. name) end
    end
    if needed["__assert_fail"] then report(library, nil, "needs __assert_fail") end
end

for _, path in ipairs(list_files("core plugins bench spec", "-name '*.c' -o -name '*.h'")) do check_c(path) end
local texts = "-name '*.[ch]' -o -name '*.lua' -o -name '*.sh' -o -name '*.mk' -o -name Makefile -o -name '*.md'"
for _, path in ipairs(list_files("core plugins lua bench spec docs Makefile README.md", texts)) do
    check_later(path, lines_of(read(path)))
end
check_symbols("build/release/libmetasync.so.0")

print(("lint: %d problems"):format(problems))
os.exit(problems == 0 and 0 or 1)
