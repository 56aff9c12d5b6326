-- What a policy sees as `metasync`, and what C calls. The library runs this once per sandbox, outside of it: `native` has the C functions
-- of core/lua/value.c, and nothing of what is local here can be reached from a policy.
local ffi = require "ffi"
local units = require "metasync.units"
local resolvers = require "metasync.resolvers"

local int64, uint64 = ffi.typeof("int64_t"), ffi.typeof("uint64_t")
local EXACT = 2 ^ 53 -- a Lua number holds every whole number up to here

-- 1: int64, 2: uint64, 0: any other cdata (complex numbers can be written in LuaJIT).
local function kind(value)
    if ffi.istype(int64, value) then return 1 end
    if ffi.istype(uint64, value) then return 2 end
    return 0
end

local function is_whole(number)
    return number == math.floor(number) and number >= -EXACT and number <= EXACT
end

-- Decimal digits -> int64; nil if they are none, or too many.
local function parse(text)
    local sign, digits = text:match("^(%-?)(%d+)$")
    if not digits or #digits > 19 then return nil end
    local number = uint64(0)
    for index = 1, #digits do number = number * 10 + (digits:byte(index) - 48) end
    if sign == "-" then
        if number > 0x8000000000000000ULL then return nil end
        return int64(-number)
    end
    if number > 0x7fffffffffffffffULL then return nil end
    return int64(number)
end

local function make(native, version)
    local public = {}

    -- metasync.int64("9223372036854775807"), metasync.int64(5)
    function public.int64(value)
        local result
        if type(value) == "string" then
            result = parse(value)
        elseif type(value) == "number" then
            result = is_whole(value) and int64(value) or nil
        elseif type(value) == "cdata" then
            local which = kind(value)
            if which == 1 or (which == 2 and value <= 0x7fffffffffffffffULL) then result = int64(value) end
        end
        if result == nil then error("metasync.int64: not a whole number of 64 bits", 2) end
        return result
    end

    -- An int64 as a Lua number, where that is exact.
    function public.number(value)
        if type(value) == "number" then return value end
        if type(value) == "cdata" and kind(value) == 1 and value >= -0x20000000000000LL and value <= 0x20000000000000LL then
            return tonumber(value)
        end
        error("metasync.number: not a number that Lua holds exactly", 2)
    end

    -- What is written to a value: its JSON, its digits, its bytes.
    function public.text(value)
        if type(value) == "cdata" and kind(value) > 0 then return (tostring(value):gsub("[UL]+$", "")) end
        if type(value) == "number" and is_whole(value) then return ("%.0f"):format(value) end
        return native.text(value)
    end

    function public.type(value)
        if value == native.null then return "null" end
        if value == native.delete then return "delete" end
        if type(value) == "cdata" then return kind(value) == 1 and "int64" or "cdata" end
        return native.kind(value) or type(value)
    end

    function public.len(value)
        if native.kind(value) or type(value) == "table" or type(value) == "string" then return #value end
        error("metasync.len: no object, list or text", 2)
    end

    -- for key, value in metasync.each(object): those that are there now; it may be changed meanwhile.
    function public.each(value)
        if type(value) == "table" then return next, value, nil end
        local keys, count = native.keys(value)
        local at = 0
        return function()
            while at < count do
                at = at + 1
                local key = keys and keys[at] or at
                local found = value[key]
                if found ~= nil then return key, found end
            end
            return nil
        end
    end

    public.json, public.log = native.json, native.log
    public.null, public.delete, public.version = native.null, native.delete, version

    local named = {}
    for name, fn in pairs(resolvers.make(native.delete)) do
        public[name] = fn
        named[fn] = name
    end

    local glue = { public = public, int64 = int64, kind = kind }

    -- A planned flush in microseconds, from what policy.flush returned; nil if that is no time.
    function glue.flush_time(value)
        local us = units.duration(value)
        if us and us <= 3600e6 then return us end
        return nil
    end

    -- While a policy is loaded: all of it, checked.
    function glue.read(policy, base)
        return require("metasync.check").read(policy, base, named)
    end

    function glue.path_of(c_field)
        return require("metasync.check").path_of(c_field)
    end

    -- When its sandbox is made anew from the same text: the functions, as check.lua lists them.
    function glue.functions(policy)
        local list = {}
        local function add(from, name, owner)
            local fn = rawget(from, name)
            if type(fn) == "function" and not named[fn] then table.insert(list, { name = name, table = owner, fn = fn }) end
        end
        for _, name in ipairs { "filter", "resolve", "flush", "on_event", "selftest" } do add(policy, name) end
        for owner, section in next, rawget(policy, "tables") or {} do
            add(section, "resolve", owner)
            add(section, "flush", owner)
        end
        return list
    end

    function glue.show(numbers, tables)
        return require("metasync.schema").show(numbers, tables)
    end

    return glue
end

return make
