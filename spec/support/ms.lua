-- What specs need to talk to the library through LuaJIT's FFI:
--
--     local ms = require "spec.support.ms"
--     local C, ffi = ms.C, ms.ffi
--     assert.equal(0, C.ms_put(table, ms.bytes("key"), ms.bytes("value"), 0, nil))
--
-- C is libmetasync-private.so: every symbol of core/ (and the file import of plugins/standalone/rocketmq), inline functions
-- and enum constants included. MS_LIB names another build of it (the sanitizers' variants); its directory has the matching
-- cdef.h. MS_RUN_SECONDS scales the deadlines of ms.eventually.
local ffi = require "ffi"

local library = os.getenv("MS_LIB") or "build/release/libmetasync-private.so"

-- busted forgets loaded modules between spec files, but the FFI keeps its types: declare them once only.
if not pcall(ffi.typeof, "struct ms_cdef_loaded") then
    local path = os.getenv("MS_CDEF") or (library:match("^.*/") or "") .. "cdef.h"
    local file = assert(io.open(path), path .. " is missing: run `make " .. library .. "`")
    ffi.cdef(file:read("*a"))
    file:close()
    ffi.cdef [[
        struct spec_pollfd { int fd; short events, revents; };
        int poll(struct spec_pollfd *fds, unsigned long count, int timeout_ms);
        int clock_gettime(int clock, struct timespec *now);
        char *mkdtemp(char *template_path);
        void free(void *memory);
        int kill(int pid, int signal);
        int getpid(void);
    ]]
end

local ms = { ffi = ffi, C = ffi.load(library), libc = ffi.C, library = library }
local C = ms.C

-- ---- bytes ---------------------------------------------------------------------------------------------------------

-- A struct ms_bytes keeps no reference to the Lua string that it borrows; this table does, as long as the struct lives.
local anchors = setmetatable({}, { __mode = "k" })

-- Lua string -> struct ms_bytes; nil -> "no value". It lends the string for as long as the returned object is referenced.
function ms.bytes(text)
    if text == nil then return ffi.new("struct ms_bytes") end
    local bytes = ffi.new("struct ms_bytes", ffi.cast("const char *", text), #text)
    anchors[bytes] = text
    return bytes
end

-- struct ms_bytes (or a pointer to one) -> Lua string, nil for "no value".
function ms.str(bytes)
    if bytes.data == nil then return nil end
    return ffi.string(bytes.data, bytes.size)
end

-- What a struct ms_buf holds, as a Lua string.
function ms.buf_str(buf)
    if buf.size == 0 then return "" end
    return ffi.string(buf.data, buf.size)
end

-- A struct ms_buf that is closed when it is collected.
function ms.buf()
    return ffi.gc(ffi.new("struct ms_buf"), C.ms_buf_close)
end

-- Takes a `char *` that the library hands out as "owned, free with ms_free", frees it and returns the Lua string.
function ms.take(text)
    local copy = ffi.string(text)
    C.ms_free(text)
    return copy
end

-- Exact 64-bit numbers: 5, 5LL, 5ULL -> "5". Compare these, or use tonumber() below 2^53.
function ms.dec(number)
    return (tostring(number):gsub("[UL]+$", ""))
end

-- ---- errors --------------------------------------------------------------------------------------------------------

function ms.err()
    return ffi.string(C.ms_error_message())
end

function ms.code(rc)
    return ffi.string(C.ms_error_text(rc))
end

-- Returns rc if it is no error, else raises it with the library's message.
function ms.check(rc, what)
    rc = tonumber(rc)
    if rc < 0 then error(("%s%d %s: %s"):format(what and what .. ": " or "", rc, ms.code(rc), ms.err()), 2) end
    return rc
end

-- ---- callbacks -----------------------------------------------------------------------------------------------------

-- LuaJIT has few callback slots, so that every callback is to be freed: ms.with_callback(ctype, fn, use) gives the C
-- function pointer to `use` and frees it afterwards, whatever happens. `use` is not compiled: a C function that is called from
-- compiled code must not call back ("bad callback").
function ms.with_callback(ctype, fn, use)
    jit.off(use, true)
    local callback = ffi.cast(ctype, fn)
    local results = { pcall(use, callback) }
    callback:free()
    if not results[1] then error(results[2], 0) end
    return unpack(results, 2)
end

-- Callbacks whose C type takes structs by value, which LuaJIT can't do: `use` gets a C function and its context.
--   two      ms_walk_fn: fn(a, b)              three    ms_buffer_fn: fn(a, b, c)
--   compute  ms_compute_fn: fn(current) -> a string or nil (delete); raise or return false to refuse
-- The arguments are Lua strings or nil. fn returns nil or a number (non-zero stops a walk).
local function with_thunk(field, ctype, fn, use)
    jit.off(use, true)
    return ms.with_callback(ctype, fn, function(callback)
        local thunk = ffi.new("struct spec_thunk")
        thunk[field] = callback
        return use(C["spec_thunk_" .. field], thunk)
    end)
end

function ms.with_two(fn, use)
    return with_thunk("two", "int (*)(void *, const struct ms_bytes *, const struct ms_bytes *)", function(_, a, b)
        return fn(ms.str(a), ms.str(b)) or 0
    end, use)
end

function ms.with_three(fn, use)
    local ctype = "int (*)(void *, const struct ms_bytes *, const struct ms_bytes *, const struct ms_bytes *)"
    return with_thunk("three", ctype, function(_, a, b, c)
        return fn(ms.str(a), ms.str(b), ms.str(c)) or 0
    end, use)
end

function ms.with_compute(fn, use)
    local kept
    return with_thunk("compute", "int (*)(void *, const struct ms_bytes *, struct ms_bytes *)", function(_, current, value)
        local ok, result = pcall(fn, ms.str(current))
        if not ok or result == false then return 1 end
        kept = ms.bytes(result)
        value.data, value.size = kept.data, kept.size
        return 0
    end, use)
end

-- All entries of an open table as a Lua table, through ms_walk.
function ms.entries(handle)
    local all = {}
    ms.with_two(function(key, value) all[key] = value end, function(fn, thunk) ms.check(C.ms_walk(handle, fn, thunk)) end)
    return all
end

-- The value of a key through ms_get, nil if there is none.
function ms.get(handle, key)
    local size = ffi.new("size_t[1]")
    local rc = C.ms_get(handle, ms.bytes(key), nil, 0, size)
    if rc == C.MS_E_NOT_FOUND then return nil end
    local room = ffi.new("char[?]", size[0] + 1)
    ms.check(C.ms_get(handle, ms.bytes(key), room, size[0] + 1, size))
    return ffi.string(room, size[0])
end

-- ---- files ---------------------------------------------------------------------------------------------------------

local scratch = {}

-- Removed when the Lua state ends. KEEP_TMP=1 keeps it to look at.
local sweeper = newproxy(true)
getmetatable(sweeper).__gc = function()
    if os.getenv("KEEP_TMP") then return end
    for _, path in ipairs(scratch) do os.execute("rm -rf '" .. path .. "'") end
end
ms.sweeper = sweeper

-- A new empty directory.
function ms.tmpdir()
    local template = (os.getenv("TMPDIR") or "/tmp") .. "/metasync-spec-XXXXXX"
    local path = ffi.new("char[?]", #template + 1, template)
    assert(ffi.C.mkdtemp(path) ~= nil, "mkdtemp failed")
    scratch[#scratch + 1] = ffi.string(path)
    return scratch[#scratch]
end

-- The content of a file, or nil.
function ms.read_file(path)
    local file = io.open(path, "rb")
    if not file then return nil end
    local content = file:read("*a")
    file:close()
    return content
end

function ms.write_file(path, content)
    local file = assert(io.open(path, "wb"))
    file:write(content)
    assert(file:close())
end

-- Runs a shell command; returns its standard output (and error) and its exit status.
function ms.sh(command)
    local pipe = assert(io.popen("{ " .. command .. "\n} 2>&1; echo \"status=$?\""))
    local text = pipe:read("*a")
    pipe:close()
    local output, status = text:match("^(.*)status=(%d+)\n$")
    return output, tonumber(status)
end

-- ---- time ----------------------------------------------------------------------------------------------------------

-- Monotonic seconds.
function ms.now()
    local t = ffi.new("struct timespec[1]")
    ffi.C.clock_gettime(1, t)
    return tonumber(t[0].tv_sec) + tonumber(t[0].tv_nsec) / 1e9
end

function ms.pause(seconds)
    ffi.C.poll(nil, 0, math.ceil(seconds * 1000))
end

-- Calls fn until it returns a true value, which is returned. After `seconds` (default 10) it raises an error with `what`
-- and the second result of fn, if there is one.
function ms.eventually(fn, seconds, what)
    local deadline = ms.now() + (seconds or 10) * (tonumber(os.getenv("MS_RUN_SECONDS")) or 1)
    local wait = 0.001
    while true do
        local result, detail = fn()
        if result then return result, detail end
        if ms.now() > deadline then
            local text = ("not within %g seconds: %s"):format(seconds or 10, what or "the condition")
            error(detail ~= nil and text .. " (" .. tostring(detail) .. ")" or text, 2)
        end
        ms.pause(wait)
        wait = math.min(wait * 1.5, 0.05)
    end
end

-- ---- memory --------------------------------------------------------------------------------------------------------

function ms.live()
    collectgarbage()
    collectgarbage()
    return tonumber(C.ms_mem_live())
end

-- Runs fn with the first, the second, ... allocation failing, until a run gets by without the failure (that run is the
-- normal one). fn gets the number of the allocation that fails. It must clean up after itself: the number of live blocks is
-- the same before and after every run. fn decides what to assert; a run that meets MS_E_MEMORY simply returns.
-- Returns the number of allocations that were made to fail.
function ms.with_alloc_failures(fn, limit)
    for n = 1, limit or 100000 do
        local before = ms.live()
        C.ms_mem_fail_after(n)
        local ok, why = pcall(fn, n)
        local left = tonumber(C.ms_mem_fail_after(0))
        if not ok then error(("with allocation %d failing: %s"):format(n, tostring(why)), 2) end
        local leaked = ms.live() - before
        if leaked ~= 0 then error(("with allocation %d failing: %d blocks are left over"):format(n, leaked), 2) end
        if left > 0 then return n - 1 end
    end
    error("the number of allocations has no end", 2)
end

return ms
