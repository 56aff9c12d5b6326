-- Policy files: how they are read and run, what their functions may return, what becomes of those that fail.
local ms = require "spec.support.ms"
local kit = require "spec.support.policykit"
local C, ffi = ms.C, ms.ffi

local function refused(code, pattern, text)
    local rules, rc, why = kit.load(text)
    assert.is_nil(rules)
    assert.equal(ms.code(code), ms.code(rc))
    assert.matches(pattern, why)
end

local function inside(rules) return ffi.cast("struct ms_lua_rules *", rules) end

describe("a policy file", function()
    it("gives numbers, patterns, functions, a name and a hash of its text", function()
        local rules = kit.rules [[
            local policy = { name = "production", ack = "os", tables = { offset = { buffer = { entries = 50 }, type = "int64" } } }
            policy.replicate = { include = { topic = { "a*" } }, exclude = { topic = { "a-tmp*" } } }
            policy.snapshot = { every = 0.5 }
            function policy.filter() return true end
            function policy.flush() return nil end
            return policy]]
        assert.equal("production", ffi.string(rules.name))
        assert.equal(C.MS_RULES_FILTER + C.MS_RULES_FLUSH, rules.functions)
        assert.equal(C.MS_LEVEL_OS, rules.policy.level)
        assert.equal(500, rules.policy.snapshot_every_ms)
        assert.same({ 1, 200, 50 }, { rules.policy.table_count, rules.policy.tables[0].interval_ms, rules.policy.tables[0].entries })
        local decided = { kit.decide(rules, "topic", "abc"), kit.decide(rules, "topic", "a-tmp1"), kit.decide(rules, "topic", "x") }
        assert.same({ "in", "out", "out" }, decided)
        assert.is_true(rules.hash ~= 0)
    end)

    it("that says nothing is the built-in policy, under its file's name", function()
        local rules, builtin = kit.load_file(kit.write("return {}", "my.policy.lua")), ffi.new("struct ms_policy[1]")
        C.ms_policy_init(builtin)
        assert.equal(ms.dec(C.ms_policy_hash(builtin)), ms.dec(C.ms_policy_hash(rules.policy)))
        assert.equal("my.policy", ffi.string(rules.name))
        assert.same({ 0, true }, { rules.functions, rules.patterns == nil })
        assert.equal("in", kit.decide(rules, "t", "k"))
    end)

    it("stands on what the host configured", function()
        local base = ffi.new("struct ms_policy[1]")
        C.ms_policy_init(base)
        base[0].snapshot_log_bytes = 0xffffffffffffffffULL -- more than a Lua number holds
        base[0].table_count = 2
        local a, b = base[0].tables[0], base[0].tables[1]
        a.name, a.interval_ms, a.entries = "a", 300, 7
        b.name, b.level = "b", 2
        local rules = kit.rules('return { ack = "os", tables = { a = { ack = "disk" }, c = { ack = "memory" }, b = { type = "json" } } }', base)
        local p = rules.policy
        assert.equal("18446744073709551615", ms.dec(p.snapshot_log_bytes))
        assert.equal(3, p.table_count)
        assert.same({ 3, 0, 0 }, { p.tables[0].level, p.tables[0].interval_ms, p.tables[0].entries })
        assert.same({ 2, 1 }, { p.tables[1].level, p.tables[1].type })
        assert.equal("c", ffi.string(p.tables[2].name))
    end)

    it("with an error of syntax, or one while it runs, is refused with its place", function()
        refused(C.MS_E_FORMAT, "^policy.lua:2: .*expected", "local x = 1\nlocal = 2")
        refused(C.MS_E_FORMAT, "^policy.lua:3: no such luck", "\n\nerror('no such luck')")
        refused(C.MS_E_FORMAT, "^policy.lua:1: attempt to call", "nothing()")
        refused(C.MS_E_FORMAT, "error object", "error({})")
        refused(C.MS_E_FORMAT, "returns a nil, expected a table", "local policy = {}")
        refused(C.MS_E_FORMAT, "returns a function", "return function() end")
        refused(C.MS_E_FORMAT, "", "\27LJ\2\0")
        refused(C.MS_E_FORMAT, "", "")
    end)

    it("that runs for ever, or takes all memory, is refused", function()
        refused(C.MS_E_LIMIT, "policy.lua:1: took more than", "while true do end")
        refused(C.MS_E_MEMORY, "not enough memory", "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end")
        refused(C.MS_E_LIMIT, "limits.lua.memory is 1048576 bytes, and the policy holds",
            "local t = {} for i = 1, 2000 do t[i] = ('x'):rep(1000) .. i end" ..
            " return { limits = { lua = { memory = '1MiB' } }, filter = function() return #t > 0 end }")
    end)

    it("that is missing, no file, or too large is refused with its path", function()
        local dir = ms.tmpdir()
        local cases = { { dir .. "/none.lua", C.MS_E_IO, "No such file" }, { dir, C.MS_E_IO, "regular file" },
            { kit.write(("-"):rep(2 ^ 20 + 1), "large.lua", dir), C.MS_E_LIMIT, "larger than 1048576" } }
        os.execute("mkfifo " .. dir .. "/pipe.lua")
        table.insert(cases, { dir .. "/pipe.lua", C.MS_E_IO, "regular file" })
        for _, case in ipairs(cases) do
            local rules, rc, why = kit.load_file(case[1])
            assert.is_nil(rules)
            assert.equal(case[2], rc)
            assert.matches(case[3], why)
            assert.is_truthy(why:find(case[1], 1, true))
        end
    end)

    it("leaves its globals to itself", function()
        local first = kit.rules 'leaked = 1 return { filter = function() return leaked == 1 end }'
        local second = kit.rules 'return { filter = function() return leaked ~= nil or _G.leaked ~= nil end }'
        assert.same({ "in", "out" }, { kit.decide(first, "t", "k"), kit.decide(second, "t", "k") })
    end)
end)

describe("modules beside a policy", function()
    local function folder(files)
        local dir = ms.tmpdir()
        os.execute("mkdir -p " .. dir .. "/lib")
        for name, text in pairs(files) do ms.write_file(dir .. "/" .. name, text) end
        return dir .. "/policy.lua"
    end

    it("are found by require, also in folders, run once, and are part of the hash", function()
        local files = { ["policy.lua"] = 'local a = require "a" assert(a == require "a") return { filter = function(e) return a(e.key) end }',
            ["a.lua"] = 'local b = require "lib.b" return function(key) return key ~= b.bad end', ["lib/b.lua"] = 'return { bad = "bad" }' }
        local path = folder(files)
        local rules = assert(kit.load_file(path))
        assert.same({ "in", "out" }, { kit.decide(rules, "t", "good"), kit.decide(rules, "t", "bad") })
        local before = ms.dec(rules.hash)
        assert.equal(before, ms.dec(kit.load_file(path).hash))
        ms.write_file(path:gsub("policy.lua$", "lib/b.lua"), 'return { bad = "worse" }')
        assert.not_equal(before, ms.dec(kit.load_file(path).hash))
    end)

    it("are read while the policy is loaded only", function()
        local path = folder { ["policy.lua"] = 'return { filter = function() return require("late") end }', ["late.lua"] = "return false" }
        local rules = assert(kit.load_file(path))
        assert.equal("in", kit.decide(rules, "t", "k"))
        assert.matches("late' not found", kit.describe(rules).by_name.filter.last.message)
    end)

    it("can't be files elsewhere, parts of metasync, or too many", function()
        for _, name in ipairs { "../x", "/etc/passwd", "lib/b", "..x", "metasync.glue", "metasync.check", "ffi", "none", "" } do
            local path = folder { ["policy.lua"] = ("require %q return {}"):format(name), ["x.lua"] = "return 1", ["lib/b.lua"] = "return 1" }
            local rules, rc = kit.load_file(path)
            assert.is_nil(rules, name)
            assert.equal(C.MS_E_FORMAT, rc)
        end
        local files = { ["policy.lua"] = 'for i = 1, 64 do require("m" .. i) end return {}' }
        for i = 1, 64 do files["m" .. i .. ".lua"] = "return " .. i end
        local _, rc, why = kit.load_file(folder(files))
        assert.equal(C.MS_E_FORMAT, rc)
        assert.matches("at most 64 files", why)
    end)

    it("can't be links that lead out of the policy's folder; links inside are as good as files", function()
        local outside = ms.tmpdir()
        ms.write_file(outside .. "/secret.lua", "return { bad = 'x' }")
        local text = "local m = require %q return { filter = function(e) return e.key ~= m.bad end }"
        for link, name in pairs { ["secret.lua"] = "secret", far = "far.secret", ["lib/deep.lua"] = "lib.deep" } do
            local path = folder { ["policy.lua"] = text:format(name) }
            local dir = path:match "^(.*)/"
            assert(os.execute(("ln -s %s %s/%s"):format(link:find "%.lua$" and outside .. "/secret.lua" or outside, dir, link)) == 0)
            local rules, rc, why = kit.load_file(path)
            assert.same({ nil, C.MS_E_FORMAT }, { rules, rc })
            assert.matches("leads to " .. outside .. "/secret.lua, outside of the policy's folder", why, 1, true)
        end
        -- As configuration is often deployed: the folder's files are links into a version of it.
        local path = folder { ["lib/policy.lua"] = text:format "secret", ["lib/secret.lua"] = "return { bad = 'bad' }" }
        local dir = path:match "^(.*)/"
        assert(os.execute(("cd %s && ln -s lib now && ln -s now/policy.lua policy.lua && ln -s now/secret.lua secret.lua"):format(dir)) == 0)
        assert.equal("out", kit.decide(assert(kit.load_file(path)), "t", "bad"))
        -- The policy itself may be a link to anywhere, and its folder may be one.
        assert(os.execute(("ln -s %s %s/elsewhere"):format(dir, outside)) == 0)
        assert.equal("out", kit.decide(assert(kit.load_file(outside .. "/elsewhere/policy.lua")), "t", "bad"))
    end)

    it("may have names that begin like metasync's", function()
        local path = folder { ["policy.lua"] = 'return { filter = require "metasynchronous" }',
            ["metasynchronous.lua"] = "return function() return false end" }
        assert.equal("out", kit.decide(assert(kit.load_file(path)), "t", "k"))
    end)

    it("name their own file when they are wrong", function()
        local path = folder { ["policy.lua"] = 'require "a" return {}', ["a.lua"] = "\nerror 'in a'" }
        local _, rc, why = kit.load_file(path)
        assert.equal(C.MS_E_FORMAT, rc)
        assert.matches("a:2: in a", why)
    end)

    it("find metasync by require as well", function()
        local path = folder { ["policy.lua"] = 'return { filter = require "a" }',
            ["a.lua"] = 'local m = require "metasync" return function() return m.version == nil or m.delete == nil end' }
        assert.equal("out", kit.decide(assert(kit.load_file(path)), "t", "k"))
    end)
end)

describe("filter", function()
    it("says yes or no; anything else is an incident with its place, and the entry is in the view", function()
        for _, code in ipairs { "nil", "0", '"no"', "{}", "metasync.delete", "error('x')", "e.key.x.y" } do
            local rules = kit.rules("\nreturn { filter = function(e)\n return " .. code .. " end }")
            assert.equal("in", kit.decide(rules, "t", "k"), code)
            local filter = kit.describe(rules).by_name.filter
            assert.same({ 1, 1, "policy.lua" }, { filter.calls, filter.incidents, filter.last.file })
            assert.is_true(filter.last.line == 2 or filter.last.line == 3)
        end
        assert.equal("out", kit.decide(kit.rules "return { filter = function(e) return e.key == 'x' end }", "t", "k"))
    end)

    it("is stopped when it takes too long, and no longer called after too many incidents", function()
        local rules = kit.rules [[
            local calls = 0
            return { limits = { lua = { incidents = 3, time = "2ms" } }, filter = function(e)
                calls = calls + 1
                if e.key == "count" then return calls == 4 end
                while true do pcall(error) end
            end }]]
        for _ = 1, 2 do
            local t = ms.now()
            assert.equal("in", kit.decide(rules, "t", "k"))
            assert.is_true(ms.now() - t < 0.2)
        end
        assert.is_false(C.ms_lua_quarantined(rules))
        assert.equal("in", kit.decide(rules, "t", "k"))
        assert.is_true(C.ms_lua_quarantined(rules))
        assert.equal("in", kit.decide(rules, "t", "count"), "not called, else it would say no")
        local filter = kit.describe(rules).by_name.filter
        assert.same({ 3, 3, true }, { filter.calls, filter.incidents, filter.quarantined })
        assert.equal(3, tonumber(C.ms_lua_incidents(rules)))
    end)

    it("that runs out of memory gets a new sandbox from the same text, with what it kept gone", function()
        local path = kit.write [[
            local kept = {}
            return { limits = { lua = { instructions = 1e8, time = "1s" } }, filter = function(e)
                if e.key == "bomb" then while true do kept[#kept + 1] = ("x"):rep(10000) .. #kept end end
                return #kept > 0
            end }]]
        local rules = assert(kit.load_file(path))
        ms.write_file(path, "this is no policy any more")
        assert.equal("out", kit.decide(rules, "t", "k"))
        assert.equal("in", kit.decide(rules, "t", "bomb"))
        assert.equal("in", kit.decide(rules, "t", "k"), "this call makes the new one")
        assert.equal("out", kit.decide(rules, "t", "k"))
        local about = kit.describe(rules)
        assert.same({ 1, 1 }, { about.rebuilt, about.by_name.filter.incidents })
        assert.matches("not enough memory", about.by_name.filter.last.message)
    end)

    it("that can't be started afresh is an incident, and the next call tries again", function()
        local rules = kit.rules [[
            local kept = {}
            return { limits = { lua = { instructions = 1e8, time = "1s", incidents = 5 } }, filter = function(e)
                while e.key == "bomb" do kept[#kept + 1] = ("x"):rep(10000) .. #kept end
                return false
            end }]]
        assert.equal("in", kit.decide(rules, "t", "bomb"))
        for n = 1, 2 do
            C.ms_mem_fail_after(3) -- making a new state fails
            assert.equal("in", kit.decide(rules, "t", "k"))
            C.ms_mem_fail_after(0)
            local filter = kit.describe(rules).by_name.filter
            assert.same({ 1 + n, false }, { filter.incidents, filter.quarantined })
            assert.matches("could not be started afresh", filter.last.message)
        end
        assert.equal("in", kit.decide(rules, "t", "k")) -- this makes one
        assert.equal("out", kit.decide(rules, "t", "k"))
    end)

    it("waits for its turn no longer than limits.lua.wait", function()
        local rules = kit.rules "return { limits = { lua = { wait = '20ms' } }, filter = function() return false end }"
        assert.is_true(C.ms_gate_enter(inside(rules).gate, 0))
        local t = ms.now()
        assert.equal("in", kit.decide(rules, "t", "k"))
        local waited = ms.now() - t
        assert.is_true(waited >= 0.02 and waited < 0.5, waited)
        C.ms_gate_leave(inside(rules).gate)
        assert.equal("out", kit.decide(rules, "t", "k"))
        local filter = kit.describe(rules).by_name.filter
        assert.same({ 1, 1, 0, false }, { filter.calls, filter.busy, filter.incidents, filter.quarantined })
        assert.equal(1, tonumber(C.ms_lua_incidents(rules)))
    end)
end)

describe("resolve", function()
    it("of a table comes before the policy's, and a name before both where a table says one", function()
        local rules = kit.rules [[
            return { resolve = function() return "global" end, tables = {
                own = { resolve = function(c) return "own " .. c.reason .. " " .. tostring(c.newer) end },
                named = { resolve = "mine" }, value = { resolve = metasync.mine }, plain = { ack = "os" } } }]]
        local function of(name, more)
            local conflict = { table = name, mine = "m", theirs = "t", reason = C.MS_CONFLICT_HOST, newer = -1 }
            for key, value in pairs(more or {}) do conflict[key] = value end
            return kit.resolve(rules, conflict)
        end
        assert.same({ "value", "own host theirs", "function" }, { of "own" })
        assert.same({ "value", "global", "function" }, { of "plain" })
        assert.same({ "value", "global", "function" }, { of "other" })
        assert.same({ "mine", nil, "mine" }, { of "named" })
        assert.same({ "mine", nil, "mine" }, { of "value" })
        assert.same({ "value", "own deposed nil", "function" }, { of("own", { reason = 1, newer = 0 }) })
    end)

    it("is called with the base where it is known, and nothing of a failed call remains", function()
        local rules = kit.rules [[
            return { resolve = function(c)
                if c.mine == "fail" then c.theirs = "changed" error("late") end
                return tostring(c.base) .. tostring(c.base_known) .. c.key .. tostring(c.field) .. c.table
            end }]]
        local function value(conflict) return select(2, kit.resolve(rules, conflict)) end
        assert.equal("btruekft", value { mine = "m", base = "b", key = "k\0f" })
        assert.equal("niltrueknilt", value { mine = "m", base_known = true })
        assert.equal("nilfalseknilt", value { mine = "m" })
        assert.same({ "theirs", nil, "incident" }, { kit.resolve(rules, { mine = "fail", theirs = "t" }) })
    end)

    for name, cases in pairs {
        theirs = { { 1, 2, "theirs" }, { nil, 2, "theirs" }, { 1, nil, "theirs" } },
        mine = { { 1, 2, "mine" }, { nil, 2, "delete" } },
        newest = { { 1, 2, "theirs" }, { 1, 2, "mine", 1 }, { 1, 2, "theirs", -1 } },
        max = { { 1, 2, "theirs" }, { 2, 1, "mine" }, { nil, 1, "theirs" }, { 1, nil, "mine" } },
        min = { { 1, 2, "mine" }, { 2, 1, "theirs" }, { nil, 1, "theirs" }, { 1, nil, "mine" } },
    } do
        it(("%s is the same by name, as a value, and called from a function"):format(name), function()
            local forms = { ('"%s"'):format(name), "metasync." .. name, ("function(c) return metasync.%s(c) end"):format(name) }
            for form, code in ipairs(forms) do
                local rules = kit.rules(("return { tables = { t = { type = 'int64', resolve = %s } } }"):format(code))
                for _, case in ipairs(cases) do
                    local outcome, _, by = kit.resolve(rules, { type = "int64", mine = case[1] and kit.int64(case[1]),
                        theirs = case[2] and kit.int64(case[2]), newer = case[4] })
                    -- By name, "mine" without an entry is the outcome `mine`: the entry goes.
                    if outcome == "mine" and not case[1] then outcome = "delete" end
                    assert.equal(case[3], outcome, code)
                    assert.equal(form == 3 and "function" or name, by)
                end
            end
        end)
    end
end)

describe("flush", function()
    it("plans the next flush in seconds or as a duration; nil is the table's interval", function()
        local rules = kit.rules [[
            return { flush = function(s)
                if s.table == "late" then return nil end
                if s.table == "text" then return "50ms" end
                assert(s.interval == 0.2 and s.oldest == 0.1 and s.took == 0.002 and s.lag == 7 and s.entries == 3 and s.bytes == 30)
                return s.rate > 1000 and 0.5 or 0.05
            end, tables = { own = { buffer = {}, flush = function() return 0 end } } }]]
        local stats = { rate = 2000, interval_us = 200000, oldest_us = 100000, flush_us = 2000, lag = 7, entries = 3, bytes = 30 }
        assert.equal(500000, kit.flush(rules, "fast", stats))
        stats.rate = 1
        assert.equal(50000, kit.flush(rules, "slow", stats))
        assert.equal(50000, kit.flush(rules, "text"))
        assert.is_nil(kit.flush(rules, "late"))
        assert.equal(0, kit.flush(rules, "own"))
        assert.equal(0, tonumber(C.ms_lua_incidents(rules)))
    end)

    for _, code in ipairs { "0/0", "1/0", "-1", "3601", '"5"', '"soon"', "true", "{}", "1LL", "error('x')" } do
        it(("that returns %s is an incident, and the table's interval holds"):format(code), function()
            local rules = kit.rules("return { flush = function() return " .. code .. " end }")
            assert.is_nil(kit.flush(rules, "t"))
            assert.equal(1, kit.describe(rules).by_name.flush.incidents)
        end)
    end
end)

describe("on_event and metasync.log", function()
    it("gets what an operator is told, and lines of a policy are kept, the newest of them", function()
        local rules = kit.rules "return { on_event = function(e) metasync.log(e.kind .. ' ' .. e.severity .. ' ' .. e.text) end }"
        kit.event(rules, "role", C.MS_LOG_WARN, "now\1leader")
        for i = 1, 20 do kit.event(rules, "alarm", C.MS_LOG_ERROR, ("x"):rep(300) .. i) end
        local log = kit.describe(rules).log
        assert.equal(16, #log)
        assert.equal("alarm error " .. ("x"):rep(187), log[16])
        kit.event(rules, "role", 99, "odd\1")
        assert.equal("role error odd?", kit.describe(rules).log[16])
    end)
end)

describe("selftest", function()
    local function selftest(text)
        local rules = kit.rules(text)
        local rc = C.ms_lua_selftest(rules)
        return rc, rc ~= 0 and ms.err() or nil, rules
    end

    it("passes if it is missing, returns nothing or true", function()
        for _, text in ipairs { "return {}", "return { selftest = function() end }", "return { selftest = function() return true end }" } do
            assert.equal(0, (selftest(text)))
        end
    end)

    it("may do more than a call, and refuses with its message and place", function()
        assert.equal(0, (selftest "return { selftest = function() for i = 1, 2e6 do local _ = i end end }"))
        local rc, why, rules = selftest "return { selftest = function()\n assert(1 == 2, 'one is not two') end }"
        assert.same({ C.MS_E_REFUSED, true }, { rc, why:find("selftest: one is not two", 1, true) ~= nil })
        assert.matches("^policy.lua:%d+: selftest", why)
        assert.equal(0, tonumber(C.ms_lua_incidents(rules)))
        rc, why = selftest "return { selftest = function() return false end }"
        assert.equal(C.MS_E_REFUSED, rc)
        assert.matches("selftest returned boolean, expected nothing, or true", why)
        assert.equal(C.MS_E_REFUSED, (selftest "return { selftest = function() while true do end end }"))
    end)

    it("leaves the limits of calls as they were", function()
        local _, _, rules = selftest "return { selftest = function() end, filter = function() for _ = 1, 1e6 do end return false end }"
        assert.equal("in", kit.decide(rules, "t", "k"))
        assert.matches("200000 instructions", kit.describe(rules).by_name.filter.last.message)
    end)
end)

describe("a policy without a clock", function()
    it("has the time that its owner says, and is bounded by instructions alone", function()
        local clock = ffi.new("struct ms_lua_clock")
        local callback = ffi.cast("uint64_t (*)(void *)", function() return 1234567890123456ULL end)
        clock.real_time_us = callback
        jit.off(kit.decide)
        jit.off(kit.load_file)
        local path = kit.write("return { filter = function(e) return os.time() ~= 1234567890 end }")
        local rules = kit.load_file(path, nil, clock)
        assert.equal("out", kit.decide(rules, "t", "k"))
        ffi.gc(rules, nil)
        C.ms_rules_unref(rules)
        callback:free()
    end)
end)

describe("memory", function()
    it("that fails while a policy is loaded or called is an error or an incident, and nothing is left over", function()
        local path = kit.write [[
            return { tables = { t = { type = "json", ack = "os" } }, replicate = { exclude = { t = { "x*" } } },
                filter = function(e) return e.key ~= "k" end,
                resolve = function(c) c.mine.x = { 1, "two" } metasync.log("l") return c.mine end }]]
        collectgarbage()
        local n, step, survived = 1, 1, 0
        repeat
            local before = ms.live()
            C.ms_mem_fail_after(n)
            local out = ffi.new("struct ms_rules *[1]")
            local rc = C.ms_lua_load(path, nil, nil, out)
            local left = tonumber(C.ms_mem_fail_after(0))
            if rc ~= 0 then
                assert.is_true(rc == C.MS_E_MEMORY or rc == C.MS_E_FORMAT, ms.err())
            else
                survived = survived + 1
                C.ms_rules_unref(out[0])
            end
            assert.equal(before, ms.live(), "allocation " .. n)
            n, step = n + step, n > 150 and 97 or 1
        until left > 0
        assert.is_true(n > 150 and survived >= 1)
    end)

    it("that fails in a call leaves theirs and an incident, and the next call goes well", function()
        local rules = kit.rules [[
            return { limits = { lua = { incidents = 100000 } }, tables = { t = { type = "json" } },
                resolve = function(c) c.mine.x = { 1, "two" } return c.mine end }]]
        for n = 1, 60 do
            C.ms_mem_fail_after(n)
            local outcome = kit.resolve(rules, { mine = '{"a":1}', theirs = "{}" })
            C.ms_mem_fail_after(0)
            assert.is_true(outcome == "theirs" or outcome == "value")
            local again, value = kit.resolve(rules, { mine = '{"a":1}', theirs = "{}" })
            assert.same({ "value", '{"a":1,"x":[1,"two"]}' }, { again, value })
        end
    end)

    it("is flat over 100 loads", function()
        local path = kit.write "return { tables = { t = { type = 'json' } }, filter = function() return true end }"
        local before
        for i = 1, 100 do
            local rules = ffi.new("struct ms_rules *[1]")
            ms.check(C.ms_lua_load(path, nil, nil, rules))
            C.ms_rules_unref(rules[0])
            if i == 1 then before = ms.live() end
        end
        assert.equal(before, ms.live())
    end)
end)

require("spec.support.program").describe("a policy in C", "policy_threads", "policy_values")
