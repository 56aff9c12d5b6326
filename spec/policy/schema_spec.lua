-- The schema of policy files: it covers struct ms_policy, agrees with what C says, and tells everything that is wrong with a file.
local ms = require "spec.support.ms"
local kit = require "spec.support.policykit"
local C, ffi = ms.C, ms.ffi
local schema = dofile("spec/support/schema.lua")
local check, units = require "metasync.check", require "metasync.units"

-- Names of the fields of a struct, from the declarations that specs give to LuaJIT.
local function fields_of(struct)
    local text = ms.read_file((os.getenv("MS_CDEF") or ms.library:match("^.*/") .. "cdef.h"))
    local body = text:match("\nstruct " .. struct .. "%s*(%b{})"):sub(2, -2)
    local names = {}
    for declaration in body:gmatch("[^;]+;") do
        for name in declaration:gsub("%b[]", ""):gmatch("([%w_]+)%s*[,;]") do names[#names + 1] = name end
    end
    return names
end

local function c_names(fields)
    local names = {}
    for _, field in ipairs(fields) do
        if field.c then names[#names + 1] = field.c end
    end
    table.sort(names)
    return names
end

local function without(names, ...)
    local out, left = {}, { ... }
    for _, name in ipairs(names) do
        local keep = true
        for _, other in ipairs(left) do keep = keep and name ~= other end
        if keep then out[#out + 1] = name end
    end
    table.sort(out)
    return out
end

local function by_c(name)
    for _, field in ipairs(schema.fields) do
        if field.c == name then return field end
    end
end

local function builtin()
    local policy = ffi.new("struct ms_policy[1]")
    C.ms_policy_init(policy)
    return policy
end

local function base()
    local numbers, policy = {}, builtin()[0]
    for _, field in ipairs(schema.fields) do
        if field.c then numbers[field.c] = tonumber(policy[field.c]) end
    end
    return { numbers = numbers, tables = {} }
end

local function problems_of(policy)
    local _, problems = check.read(policy, base(), {})
    local texts = {}
    for _, problem in ipairs(problems) do texts[#texts + 1] = problem.text end
    return texts
end

describe("the schema", function()
    it("reaches every field of struct ms_policy", function()
        assert.same(without(fields_of "ms_policy", "table_count", "tables"), c_names(schema.fields))
    end)

    it("reaches every field of struct ms_table_policy", function()
        assert.same(without(fields_of "ms_table_policy", "name"), c_names(schema.table_fields))
    end)

    it("is what core/lua/fields.c carries over", function()
        local function names(list, count)
            local out = {}
            for i = 0, tonumber(count) - 1 do out[#out + 1] = ffi.string(list[i].name) end
            table.sort(out)
            return out
        end
        assert.same(c_names(schema.fields), names(C.ms_policy_fields, C.ms_policy_field_count))
        assert.same(c_names(schema.table_fields), names(C.ms_table_fields, C.ms_table_field_count))
    end)

    it("has C's numbers for every name", function()
        local enums = { { schema.levels, "MS_LEVEL_" }, { schema.resolvers, "MS_RESOLVE_" },
            { by_c("on_log_failure").values, "MS_ON_LOG_FAILURE_" }, { by_c("on_no_replica").values, "MS_ON_NO_REPLICA_" },
            { by_c("on_beyond_end").values, "MS_ON_BEYOND_END_" } }
        for _, enum in ipairs(enums) do
            for _, pair in ipairs(enum[1]) do assert.equal(tonumber(C[enum[2] .. pair[1]:upper()]), pair[2], pair[1]) end
        end
        assert.equal(tonumber(C.MS_RESOLVE_FUNCTION), schema.RESOLVE_FUNCTION)
        assert.same({ { "bytes", tonumber(C.MS_TYPE_BYTES) }, { "int64", tonumber(C.MS_TYPE_INT64) }, { "json", tonumber(C.MS_TYPE_BYTES) } },
            schema.types)
        assert.equal(tonumber(C.MS_POLICY_TABLES_MAX), schema.TABLES_MAX)
        assert.equal(tonumber(C.MS_TABLE_NAME_MAX), schema.TABLE_NAME_MAX)
    end)

    -- Fields whose range depends on others: their own check is C's.
    local together = { log_max_bytes = true, heartbeat_ms = true, connect_min_ms = true, link_timeout_ms = true, connect_max_ms = true }

    for _, field in ipairs(schema.fields) do
        if field.low and not together[field.c] then
            it(("has C's range of %s"):format(field.path), function()
                local function ok(number)
                    local policy = builtin()
                    policy[0][field.c] = number
                    policy[0].log_max_bytes = 2 ^ 55 -- room for any segment
                    return C.ms_policy_check(policy) == 0
                end
                assert.is_true(ok(field.low))
                assert.is_true(ok(field.high))
                local _, problems = check.read({}, base(), {})
                assert.equal(0, #problems)
                if field.low > 0 then assert.is_false(ok(field.low - 1)) end
                if field.high < 2 ^ 32 - 1 then assert.is_false(ok(field.high + 1)) end
            end)
        end
    end

    it("says which fields wait for the next start, as core/sync/policy.c does", function()
        for _, field in ipairs(schema.fields) do
            if field.c then
                local old, fresh, names = builtin(), builtin(), ffi.new("const char *[16]")
                fresh[0][field.c] = fresh[0][field.c] - 1
                local count = C.ms_policy_start_only(old, fresh, names)
                assert.equal(field.start and 1 or 0, count, field.path)
                if count == 1 then assert.equal(field.c, ffi.string(names[0])) end
            end
        end
    end)

    it("has one line of help and an example for each field, and each example is right", function()
        for _, list in ipairs { schema.fields, schema.table_fields } do
            for _, field in ipairs(list) do
                assert.is_truthy(field.help and not field.help:find("\n") and field.example, field.path)
                local value = assert(loadstring("return " .. tostring(field.example):gsub("%.%.%.", "return nil")))()
                local policy = { tables = {} }
                if list == schema.table_fields then policy.tables.x = {} end
                local at = list == schema.fields and policy or policy.tables.x
                for part in field.path:gmatch("([^.]+)%.") do
                    at[part] = at[part] or {}
                    at = at[part]
                end
                at[field.path:match("[^.]+$")] = value
                if field.path:match("^at_risk") then policy.tables.x.buffer = {} end
                assert.same({}, problems_of(policy), field.path)
            end
        end
    end)

    it("shows every field as a file may say it: what it shows is read as the same policy", function()
        local text, policy = ffi.new("char *[1]"), builtin()
        for _, field in ipairs(schema.fields) do
            if field.kind == "duration" or field.kind == "count" then
                policy[0][field.c] = policy[0][field.c] + (field.c == "snapshot_keep" and 1 or 7)
            end
        end
        policy[0].enabled = 0
        policy[0].table_count = 1
        local t = policy[0].tables[0]
        t.name, t.interval_ms, t.entries, t.bytes, t.type, t.resolver, t.at_risk_ms = "offset", 1500, 7, 1025, 2, 4, 60001
        ms.check(C.ms_lua_show(policy, text))
        local shown = require("dkjson").decode(ms.take(text[0]))
        local file = {}
        for path, value in pairs(shown) do
            local at = file
            for part in path:gmatch("([^.]+)%.") do
                at[part] = at[part] or {}
                at = at[part]
            end
            local words = { ["true"] = true, ["false"] = false } -- Lua's, not texts
            if words[value] ~= nil then value = words[value] end
            at[path:match("[^.]+$")] = tonumber(value) or value
        end
        local read, problems = check.read(file, base(), {})
        assert.same({}, problems)
        for _, field in ipairs(schema.fields) do
            if field.c then assert.equal(tonumber(policy[0][field.c]), read.numbers[field.c], field.path) end
        end
        for _, field in ipairs(schema.table_fields) do
            if field.c then assert.equal(tonumber(t[field.c]), read.tables[1].numbers[field.c], field.path) end
        end
    end)
end)

describe("units", function()
    it("of time: us to d, exact, a plain number is seconds", function()
        local cases = { ["200ms"] = 200000, ["5s"] = 5e6, ["1m"] = 60e6, ["2h"] = 7200e6, ["1d"] = 86400e6, ["7us"] = 7, ["0.5s"] = 500000,
            [" 3 s "] = 3e6, ["0s"] = 0 }
        for text, us in pairs(cases) do assert.equal(us, units.duration(text), text) end
        for number, us in pairs { [0.05] = 50000, [0.07] = 70000, [1] = 1e6, [0] = 0 } do assert.equal(us, units.duration(number)) end
    end)

    it("of size: B to TiB, whole bytes, powers of two only", function()
        local cases = { ["512KiB"] = 524288, ["1GiB"] = 2 ^ 30, ["1.5KiB"] = 1536, ["0B"] = 0, ["2TiB"] = 2 ^ 41, ["9007199254740992B"] = 2 ^ 53 }
        for text, bytes in pairs(cases) do assert.equal(bytes, units.bytes(text), text) end
        for _, bad in ipairs { "1KB", "1kib", "1", "KiB", "-1B", "0.3B", "1e3B", "0x10B", "8193TiB", ("9"):rep(30) .. "B", "", "1 2B" } do
            assert.is_nil((units.bytes(bad)), bad)
        end
    end)

    it("take no NaN, infinity, negative or fractional number, and no other type", function()
        for _, name in ipairs { "duration", "bytes", "count", "percent" } do
            for _, bad in ipairs { 0 / 0, 1 / 0, -1 / 0, -1, -0.001, 2 ^ 53 + 2, true, {}, print, "", "x", "nan", "inf", "1e5" } do
                local value, expected = units[name](bad)
                assert.is_nil(value, name .. " " .. tostring(bad))
                assert.is_string(expected)
            end
            assert.is_nil((units[name](nil)))
        end
        assert.is_nil((units.count(1.5)))
        assert.is_nil((units.bytes(0.5)))
        assert.is_nil((units.percent("101%")))
        assert.equal(10, units.percent("10%"))
    end)

    it("are rendered so that they can be read back", function()
        for _, us in ipairs { 0, 1, 999, 1000, 1500, 200000, 1e6, 60e6, 61e6, 3600e6, 86400e6, 2 ^ 53 } do
            assert.equal(us, units.duration(units.duration_text(us)))
        end
        for _, bytes in ipairs { 0, 1, 1023, 1024, 1025, 2 ^ 20, 3 * 2 ^ 29, 2 ^ 53 } do assert.equal(bytes, units.bytes(units.bytes_text(bytes))) end
    end)
end)

describe("a wrong field", function()
    local cases = {
        { { log = { mx = "1GiB" } }, 'log.mx ("1GiB") is no field of a policy; did you mean log.max?' },
        { { tabels = {} }, "tabels (a table) is no field of a policy; did you mean tables?" },
        { { heartbeat = "1s" }, 'heartbeat ("1s") is no field of a policy; did you mean links.heartbeat?' },
        { { lua = {} }, "lua (a table) is no field of a policy; did you mean limits.lua?" },
        { { keep = 2 }, "keep (2) is no field of a policy; did you mean snapshot.keep or log.keep?" },
        { { atrisk = {} }, "atrisk (a table) is no field of a policy; did you mean tables.NAME.at_risk?" },
        { { snapshot = { every = "5min" } }, 'snapshot.every is "5min", expected a duration such as "200ms", "5s" or "1m" (us, ms, s, m, h, d), ' ..
            "or a number of seconds" },
        { { tables = { offset = { interval = 1 } } }, "tables.offset.interval (1) is no field of a policy; did you mean " ..
            "tables.offset.buffer.interval?" },
        { { tables = { offset = { entries = 1 } } }, "tables.offset.entries (1) is no field of a policy; did you mean " ..
            "tables.offset.buffer.entries or tables.offset.at_risk.entries?" },
        { { tables = { t = { filtr = 1 } } }, "tables.t.filtr (1) is no field of a policy; did you mean filter, beside tables?" },
        { { log = { max = "1 GB" } }, 'log.max is "1 GB", expected a size such as "512KiB" or "1GiB" (B, KiB, MiB, GiB, TiB), or a number of bytes' },
        { { ack = "dsk" }, 'ack is "dsk", expected one of "memory", "os", "disk", "replica"; did you mean "disk"?' },
        { { resolve = "maximum" }, 'resolve is "maximum", expected one of "theirs", "mine", "newest", "max", "min", or a function' },
        { { snapshot = { keep = 17 } }, "snapshot.keep is 17, expected 1 to 16" },
        { { snapshot = { every = "1ms" } }, 'snapshot.every is "1ms", expected 10ms to 4294967295ms' },
        { { limits = { key = "1MiB" } }, 'limits.key is "1MiB", expected 1B to 65535B' },
        { { log = "x" }, 'log is "x", expected a table with keep, max, on_failure, segment, group, tail, sync_every, mark_changes, mark_every' },
        { { tables = { offset = { buffer = { intervall = 1 } } } },
            "tables.offset.buffer.intervall (1) is no field of a policy; did you mean tables.offset.buffer.interval?" },
        { { tables = { t = { at_risk = { time = "1s" } } } }, "tables.t.at_risk needs a buffer: other tables have nothing at risk" },
        { { tables = { t = { ack = "os", buffer = {} } } },
            "tables.t has both ack and buffer; a buffered table's writes don't wait for a level" },
        { { tables = { t = { type = "json", resolve = "min" } } },
            'tables.t.resolve compares numbers ("max", "min"), and the table\'s type is not "int64"' },
        { { tables = { ["no spaces"] = {} } }, 'tables["no spaces"] is not a table\'s name: 1 to 63 of A-Z a-z 0-9 _ . -' },
        { { tables = { { name = "x" } } }, "tables[1] is not a table's name: 1 to 63 of A-Z a-z 0-9 _ . -" },
        { { replicate = { exclude = { topic = "tmp-*" } } },
            'replicate.exclude.topic is "tmp-*", expected a list of patterns such as { "tmp-*", "test-*" }' },
        { { replicate = { include = { topic = { "a", "b\\" } } } },
            [[replicate.include.topic[2] is "b\92", expected a pattern that does not end with a lone \]] },
        { { filter = true }, "filter is true, expected a function" },
        { { name = "" }, 'name is "", expected a name of 1 to 63 printable bytes' },
        { { reload = { leave = 10.5 } }, 'reload.leave is 10.5, expected a percentage such as "10%", or a whole number in 0..100' },
        { setmetatable({}, { __index = { ack = "disk" } }), "the policy has a metatable; only plain fields are read" },
        { { ["a\nb"] = 1 }, [[["a\10b"] (1) is no field of a policy]] },
    }
    for _, case in ipairs(cases) do
        it("is told: " .. case[2], function()
            local texts = problems_of(case[1])
            assert.equal(1, #texts)
            assert.equal(case[2], texts[1]:sub(1, #case[2]))
        end)
    end

    it("is told together with all others, in the order of their names", function()
        local texts = problems_of { ack = 1, log = { max = 0 / 0, kep = 1 }, zzz = 1, tables = { t = { ack = "x" } } }
        assert.equal(5, #texts)
        assert.matches("^ack is 1", texts[1])
        assert.matches("^log.kep .*did you mean log.keep", texts[2])
        assert.matches("^log.max is nan", texts[3])
        assert.matches("^tables.t.ack", texts[4])
        assert.matches("^zzz .*there are name, ack", texts[5])
    end)

    it("does not make a file with thousands of them say thousands of things", function()
        local policy = {}
        for i = 1, 5000 do policy["field" .. i] = i end
        assert.equal(101, #problems_of(policy))
    end)
end)

-- Anything at all, a few levels deep, with names and values that are nearly right.
local function anything(random, depth)
    local names = { "name", "ack", "log", "max", "tables", "buffer", "interval", "replicate", "include", "limits", "lua", "time", "flush",
        "resolve", "at_risk", "snapshot", 1, 2, 0.5, true, "", "\0", ("x"):rep(300), "logg", print }
    local values = { 1, -1, 0, 0.5, 0 / 0, 1 / 0, 2 ^ 60, "disk", "max", "1s", "1KiB", "10%", "", "\255", ("y"):rep(5000), true, false, print,
        newproxy(false), 5LL, 1i, coroutine.create(print) }
    if depth > 0 and random(3) > 1 then
        local made = {}
        for _ = 1, random(6) do made[names[random(#names)]] = anything(random, depth - 1) end
        if random(12) == 1 then setmetatable(made, { __index = error, __newindex = error, __metatable = random(2) == 1 and "no" or nil }) end
        return made
    end
    return values[random(#values)]
end

describe("random tables", function()
    it("never crash the schema: a policy, or problems with a path each", function()
        local seed = tonumber(os.getenv("MS_SEED")) or os.time()
        local bad = 0
        for round = 1, 1000 do
            math.randomseed(seed + round)
            local policy = anything(math.random, 4)
            local ok, read, problems = pcall(check.read, policy, base(), {})
            assert.is_true(ok, ("seed %d: %s"):format(seed + round, tostring(read)))
            for _, problem in ipairs(problems) do
                assert.is_string(problem.path)
                assert.is_true(#problem.text > 10 and not problem.text:find("[%c\127-\255]"), problem.text)
            end
            bad = bad + (#problems > 0 and 1 or 0)
        end
        assert.is_true(bad > 300)
    end)
end)

describe("the whole language", function()
    it("says where a policy's file is wrong through C as well, all of it", function()
        local rules, rc, why, all = kit.load "return { log = { mx = 1 }, ack = 'dsk', tables = { t = 5 } }"
        assert.is_nil(rules)
        assert.equal(C.MS_E_INVALID, rc)
        assert.matches('^policy.lua: ack is "dsk"', why)
        assert.matches("and 2 more", why)
        local _, lines = all:gsub("\n", "\n")
        assert.equal(3, lines)
    end)

    it("names the field of the file where only C can tell what is wrong", function()
        for text, path in pairs { ['links = { heartbeat = "4s" }'] = "links.heartbeat", ['log = { max = "1MiB" }'] = "log.max",
            ['links = { connect_min = "6s" }'] = "links.connect_min" } do
            local _, rc, why, all = kit.load("return { " .. text .. " }")
            assert.equal(C.MS_E_INVALID, rc)
            assert.is_truthy(why:find("policy.lua: " .. path .. ": ", 1, true), why)
            assert.equal(path, all:match("^[^:]+"))
        end
    end)
end)
