-- Policies in specs: from a text to a struct ms_rules, and calls of its functions with Lua values.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local kit = {}

-- A file with the text; its name is what errors call it.
function kit.write(text, name, dir)
    local path = ("%s/%s"):format(dir or ms.tmpdir(), name or "policy.lua")
    ms.write_file(path, text)
    return path
end

-- Loads a file. Returns the rules, which are given back when they are collected; or nil, the code, the message and all problems as text.
function kit.load_file(path, base, clock)
    local rules, problems = ffi.new("struct ms_rules *[1]"), ms.buf()
    local rc = C.ms_lua_check(path, base, clock, problems, rules)
    if rc ~= 0 then return nil, rc, ms.err(), ms.buf_str(problems) end
    return ffi.gc(rules[0], C.ms_rules_unref)
end

function kit.load(text, base) return kit.load_file(kit.write(text), base) end

-- The same, where it has to work.
function kit.rules(text, base)
    local rules, _, why, all = kit.load(text, base)
    return rules or error(why .. "\n" .. tostring(all), 2)
end

-- "in" or "out".
function kit.decide(rules, table_name, key)
    return C.ms_rules_decide(rules, table_name, ms.bytes(key)) == C.MS_VIEW_OUT and "out" or "in"
end

function kit.int64(number)
    return ffi.string(C.ms_int64_put(number, ffi.new("uint8_t[8]")).data, 8)
end

function kit.number(bytes)
    return ffi.cast("int64_t *", ffi.cast("const char *", bytes))[0]
end

local TYPES = { bytes = 1, int64 = 2 }

-- conflict: { table, key, type = "bytes" | "int64", mine, theirs, base, base_known, reason, newer }, values are bytes.
-- Returns the outcome's name, the value, and who decided.
function kit.resolve(rules, conflict)
    local c, resolution = ffi.new("struct ms_conflict"), ffi.new("struct ms_resolution[1]")
    local name, key = conflict.table or "t", ms.bytes(conflict.key or "k")
    local mine, theirs, base = ms.bytes(conflict.mine), ms.bytes(conflict.theirs), ms.bytes(conflict.base)
    c.table, c.type, c.key, c.mine, c.theirs, c.base = name, TYPES[conflict.type or "bytes"], key, mine, theirs, base
    c.base_known = conflict.base_known or conflict.base ~= nil
    c.reason, c.newer = conflict.reason or 1, conflict.newer or 0
    C.ms_rules_resolve(rules, nil, c, resolution)
    local r = resolution[0]
    local value = r.outcome == C.MS_OUTCOME_VALUE and ms.buf_str(r.value) or nil
    local outcome, by = ffi.string(C.ms_outcome_name(r.outcome)), ffi.string(r.by)
    C.ms_buf_close(r.value)
    return outcome, value, by
end

-- stats: numbers by the names of struct ms_flush_stats. Microseconds, or nil.
function kit.flush(rules, name, stats)
    local s, next_us = ffi.new("struct ms_flush_stats"), ffi.new("uint64_t[1]")
    s.table = name
    for field, number in pairs(stats or {}) do s[field] = number end
    if not rules.ops.flush(rules, s, next_us) then return nil end
    return tonumber(next_us[0])
end

function kit.event(rules, kind, severity, text)
    local event = ffi.new("struct ms_event")
    event.kind, event.severity, event.text = kind, severity, text
    rules.ops.event(rules, event)
end

-- What describe says, as a Lua table; .by_name has its functions: "resolve", "resolve offset".
function kit.describe(rules)
    local text = ffi.new("char *[1]")
    ms.check(rules.ops.describe(rules, text))
    local about = require("dkjson").decode(ffi.string(text[0]))
    ffi.C.free(text[0])
    about.by_name = {}
    for _, fn in ipairs(about.functions) do about.by_name[fn.name .. (fn.table and " " .. fn.table or "")] = fn end
    return about
end

return kit
