-- Sandboxes for specs:
--
--     local sandbox = require "spec.support.sandbox"
--     local box = sandbox.new { instructions = 100000, time_us = 5000, memory = 8 * 2 ^ 20 }
--     box:run "return 1 + 1"          --> true, 2
--     box:run "error 'no'"            --> false, { code = "MS_E_REFUSED", message = "no", file = "test.lua", line = 1 }
--     box:close()
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

if not pcall(ffi.typeof, "struct spec_sandbox_loaded") then
    ffi.cdef [[
        struct spec_sandbox_loaded { int unused; };
        int lua_type(lua_State *L, int index);
        int lua_gettop(lua_State *L);
        void lua_settop(lua_State *L, int top);
        int lua_toboolean(lua_State *L, int index);
        double lua_tonumber(lua_State *L, int index);
        const char *lua_tolstring(lua_State *L, int index, size_t *size);
        const char *lua_typename(lua_State *L, int type);
    ]]
end

local sandbox = {}
local methods = {}
local NAMES = { [0] = "ok", [C.MS_E_LIMIT] = "limit", [C.MS_E_MEMORY] = "memory", [C.MS_E_REFUSED] = "error", [C.MS_E_FORMAT] = "syntax" }

-- A value of the state's stack, read without anything that could raise an error there.
local function value_at(L, index)
    local kind = ffi.string(C.lua_typename(L, C.lua_type(L, index)))
    if kind == "nil" then return nil end
    if kind == "boolean" then return C.lua_toboolean(L, index) ~= 0 end
    if kind == "number" then return C.lua_tonumber(L, index) end
    if kind == "string" then
        local size = ffi.new "size_t[1]"
        local text = C.lua_tolstring(L, index, size)
        return ffi.string(text, size[0])
    end
    return "<" .. kind .. ">"
end

local function error_of(rc, e)
    return { code = NAMES[rc] or ms.code(rc), message = ffi.string(e.message), file = ffi.string(e.file), line = e.line }
end

-- Compiles and calls; returns true and the results, or false and the error.
function methods:run(text, chunk, results)
    local L, e = self.L, ffi.new "struct ms_sandbox_error"
    local rc = C.ms_sandbox_compile(self.box, chunk or "@test.lua", ms.bytes(text), e)
    if rc == 0 then rc = C.ms_sandbox_call(self.box, 0, results or 1, e) end
    if rc ~= 0 then
        assert(rc == e.code, "code and error differ")
        assert(C.lua_gettop(L) == 0, "something is left on the stack")
        return false, error_of(rc, e)
    end
    local values, count = {}, C.lua_gettop(L)
    for n = 1, count do values[n] = value_at(L, n) end
    C.lua_settop(L, 0)
    return true, unpack(values, 1, count)
end

-- The first result; raises what goes wrong.
function methods:value(text)
    local ok, result = self:run(text)
    if not ok then error(("%s: %s:%d: %s"):format(result.code, result.file, result.line, result.message), 2) end
    return result
end

-- The error; raises if there is none.
function methods:failure(text)
    local ok, result = self:run(text)
    if ok then error("no error, but " .. tostring(result), 2) end
    return result
end

function methods:offer(name, text, kind)
    self.kept[#self.kept + 1] = text
    return C.ms_sandbox_offer(self.box, name, ms.bytes(text), kind or C.MS_SANDBOX_PLAIN)
end

-- find(name) -> a text, or nil.
function methods:on_require(find)
    self.callback = ffi.cast("int (*)(void *, struct ms_sandbox *, const char *)", function(_, _, name)
        local text = find(ffi.string(name))
        if not text then return C.MS_E_NOT_FOUND end
        return self:offer(ffi.string(name), text)
    end)
    C.ms_sandbox_on_require(self.box, self.callback, nil)
end

function methods:limits(limits)
    C.ms_sandbox_set_limits(self.box, ffi.new("struct ms_sandbox_limits", sandbox.limits(limits)))
end

function methods:memory()
    return tonumber(C.ms_sandbox_memory(self.box))
end

function methods:spoiled()
    return C.ms_sandbox_spoiled(self.box)
end

function methods:close()
    C.ms_sandbox_free(self.box)
    if self.callback then self.callback:free() end
    self.box = nil
end

function sandbox.limits(limits)
    limits = limits or {}
    return { limits.instructions or 200000, limits.time_us or 5000, limits.memory or 8 * 2 ^ 20 }
end

-- nil and the code if it can't be made.
function sandbox.try_new(limits)
    local out = ffi.new "struct ms_sandbox *[1]"
    local rc = C.ms_sandbox_new(ffi.new("struct ms_sandbox_limits", sandbox.limits(limits)), nil, nil, out)
    if rc ~= 0 then return nil, rc end
    return setmetatable({ box = out[0], L = C.ms_sandbox_state(out[0]), kept = {} }, { __index = methods })
end

function sandbox.new(limits)
    return assert(sandbox.try_new(limits))
end

-- This thread's processor time in microseconds.
function sandbox.cpu_us()
    local t = ffi.new "struct timespec[1]"
    ffi.C.clock_gettime(3, t)
    return tonumber(t[0].tv_sec) * 1e6 + tonumber(t[0].tv_nsec) / 1e3
end

return sandbox
