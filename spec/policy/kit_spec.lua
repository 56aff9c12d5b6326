-- The test kit: what users get to test their policies with. Each verb does what it says, and each expectation can fail.
local kit = require "spec.support.testkit"

local BUFFERED = [[return { tables = { offset = { type = "int64", buffer = { interval = "200ms" } } } }]]

describe("a kit", function()
    local k

    local function new(options) k = kit.new(options) return k end
    after_each(function()
        if k then k:close() end
        k = nil
    end)

    local function refuses(pattern, fn, ...)
        local ok, why = pcall(function(...)
            fn(k, ...)
            return true
        end, ...)
        assert.is_false(ok, "it should have failed")
        assert.matches(pattern, why)
        assert.matches("kit_spec", why) -- it is the user's line that is named
    end

    it("leads with n0 and has the others follow, at time 0", function()
        new { nodes = 3 }
        assert.same({ "leader", "follower", "follower", 0 }, { k:role(0), k:role(1), k:role(2), k:now() })
        k:advance "1s"
        assert.equal(1, k:now())
        k:advance(0.5)
        assert.equal(1.5, k:now())
        k:advance "1m"
        assert.equal(61.5, k:now())
        -- times are written as in a policy, and an error says how
        for _, wrong in ipairs { "2 weeks", "5min", "250", "-1s", -1, 0 / 0, 1 / 0, {}, "1S" } do
            refuses("a time is a duration such as .*us, ms, s, m, h, d.*, or a number of seconds, not ", k.advance, wrong)
        end
        assert.equal(61.5, k:now())
    end)

    it("makes tables on demand, with the policy's types, and keeps bytes and numbers exact", function()
        new { policy = BUFFERED }
        k:put("anything", "a\1\0b\255", "\0\255")
        assert.equal("\0\255", k:get("anything", { "a\1", "b\255" }))
        for _, number in ipairs { 0, -1, 2 ^ 53, -2 ^ 53 } do
            k:put("offset", "g", number)
            assert.equal(number, k:get("offset", "g"))
        end
        k:put("offset", "g", 9223372036854775807LL)
        assert.is_true(k:get("offset", "g") == 9223372036854775807LL)
        k:flush()
        assert.is_true(k:log()[#k:log()].value == 9223372036854775807LL)
        refuses("holds bytes", k.put, "topic", "a", 5)
        k:table("count", "int64")
        k:put("count", "c", 5)
        k:expect_value(0, "count", "c", 5)
    end)

    it("says of each write what became of it", function()
        new { policy = [[return { tables = { offset = { type = "int64", buffer = {} } }, replicate = { exclude = { topic = { "x*" } } } }]] }
        local outcome, lsn = k:put("topic", "a", "1")
        assert.equal("logged", outcome)
        k:reached(lsn, "replica")
        assert.equal("buffered", (k:put("offset", "g", 1)))
        assert.equal("local", (k:put("topic", "x1", "1")))
        assert.equal("logged", (k:delete("topic", "a")))
        local result, code, why = k:try_put("topic", "a", "1", 1)
        assert.is_nil(result)
        assert.matches("does not lead", code)
        assert.matches("follower", why)
        refuses("does not lead", k.put, "topic", "a", "1", 1)
        assert.equal("x1", k:dropped()[1].key)
    end)

    it("shows what was logged, when, and what a follower has of it", function()
        new { policy = BUFFERED }
        k:put("topic", { "t", "f" }, "1")
        k:advance "10ms"
        k:put("offset", "g", 1)
        k:put("offset", "g", 2)
        assert.equal(1, (k:at_risk "offset"))
        assert.is_true(select(2, k:at_risk "offset") >= 8)
        k:advance "100ms"
        assert.equal(1, #k:log())
        k:advance "150ms"
        local log = k:log()
        assert.same({ "put", "topic", "t", "f", "1", 0 }, { log[1].op, log[1].table, log[1].key, log[1].field, log[1].value, log[1].time })
        assert.same({ "put", "offset", "g", 2 }, { log[2].op, log[2].table, log[2].key, log[2].value })
        assert.is_true(log[2].time >= 0.21 and log[2].time < 0.215, log[2].time)
        k:settle()
        assert.same(log, k:sent(1))
        assert.same({ 0, 0 }, { k:at_risk "offset" })
    end)

    it("cuts and heals links, kills, starts and promotes nodes", function()
        new { nodes = 3 }
        k:put("topic", "a", "1")
        k:settle()
        k:cut(0, 1)
        k:cut(0, 2, "silent")
        k:put("topic", "a", "2")
        k:advance "1s"
        k:expect_value(1, "topic", "a", "1")
        k:heal(0, 1)
        k:heal(0, 2)
        k:settle()
        k:expect_value(2, "topic", "a", "2")
        k:kill(0)
        assert.equal("down", k:role(0))
        k:promote(1)
        k:follow(2)
        k:put("topic", "b", "1")
        k:follow(0)
        k:settle()
        k:expect_value(0, "topic", "b", "1")
        k:power_loss(2)
        k:wipe(2)
        k:follow(2)
        k:settle()
        k:expect_value(2, "topic", "b", "1")
        refuses("n2 is up", k.wipe, 2)
    end)

    it("reloads: what is not wanted any more leaves, buffers that go are flushed first", function()
        new { policy = BUFFERED }
        k:put("topic", "keep", "1")
        k:put("topic", "go", "1")
        k:put("offset", "g", 1)
        k:settle()
        k:reload [[return { filter = function(e) return e.key ~= "go" end, tables = { offset = { type = "int64", ack = "os" } } }]]
        k:reviewed()
        k:expect_logged { table = "topic", key = "go", op = "leave" }
        k:expect_value(0, "topic", "go", nil)
        k:expect_value(0, "topic", "keep", "1")
        assert.equal("local", (k:put("topic", "go", "2")))
        k:advance "5ms"
        k:expect_logged { table = "offset", key = "g", value = 1 }
        assert.equal("logged", (k:put("offset", "g", 2)))
        k:reload(nil) -- the built-in policy wants everything
        assert.equal("logged", (k:put("topic", "go", "3")))
    end)

    it("refuses a bad policy with the place, and keeps the old one", function()
        new {}
        refuses("did you mean tables", k.reload, "return { tabels = {} }")
        refuses("selftest", k.reload, [[return { selftest = function() error "selftest says no" end }]])
        k:put("topic", "a", "1")
        assert.has_error(function() kit.new { policy = "return {" } end)
        assert.has_error(function() kit.new { policy = "no/such/file.lua" } end)
        assert.has_error(function() kit.new { nodes = 9 } end)
    end)

    it("counts incidents, and names function, line and message", function()
        new { policy = "return {\n filter = function(e)\n if e.key == 'bad' then error 'is bad' end return true end }" }
        k:expect_no_incidents()
        assert.equal("logged", (k:put("topic", "bad", "1"))) -- what the built-in policy would do
        local count, list = k:incidents()
        assert.same({ 1, "filter", 1, 3 }, { count, list[1].name, list[1].incidents, list[1].line })
        assert.matches("is bad", list[1].message)
        refuses("filter failed", k.expect_no_incidents)
    end)

    it("gives functions the virtual time", function()
        new { policy = [[
            local loaded = os.time()
            return { filter = function() return os.time() >= loaded + 3600 end }
        ]] }
        assert.equal("local", (k:put("topic", "a", "1")))
        k:advance "1h"
        assert.equal("logged", (k:put("topic", "b", "1")))
    end)

    it("asks flush functions, with what really is in the buffer", function()
        new { policy = [[return { tables = { offset = { type = "int64", buffer = { interval = "1s" } } },
            flush = function(stats) return stats.entries > 0 and "1s" or "20ms" end }]] }
        k:put("offset", "g", 1)
        k:advance "1100ms"
        k:put("offset", "g", 2)
        k:advance "100ms"
        k:expect_logged { table = "offset", key = "g", value = 2, within = "25ms" }
    end)

    it("has expectations that fail with what did happen", function()
        new { policy = [[return { tables = { offset = { type = "int64", buffer = {} } }, replicate = { exclude = { topic = { "x*" } } } }]] }
        k:put("topic", "a", "1")
        k:put("topic", "x", "1")
        k:put("offset", "g", 1)
        k:advance "1s"
        k:expect_logged { table = "topic", key = "a", value = "1", within = "1ms" }
        k:expect_logged { table = "offset", within = "210ms" }
        refuses('not logged: put "b" in topic.*put "a" in topic = "1"', k.expect_logged, { table = "topic", key = "b" })
        refuses('not logged: put "a" in topic = "2"', k.expect_logged, { table = "topic", key = "a", value = "2" })
        refuses("logged late", k.expect_logged, { table = "offset", key = "g", within = "50ms" })
        refuses("should not be", k.expect_not_logged, { table = "topic", key = "a" })
        k:expect_not_logged { table = "topic", key = "x" }
        k:expect_local("topic", "x")
        refuses("should be local", k.expect_local, "topic", "a")
        refuses("no write of", k.expect_local, "topic", "never")
        refuses('has "1" for "a" in topic instead of "2"', k.expect_value, 0, "topic", "a", "2")
        refuses("has nothing for", k.expect_value, 0, "topic", "x", "1")
        refuses("1 changes of topic are in the log instead of 2", k.expect_log_count, "topic", 2)
        k:expect_log_count("topic", 1)
        refuses("no such conflict", k.expect_resolved, { table = "topic" })
        refuses("expect_logged has no valeu; did you mean value%?", k.expect_logged, { table = "topic", valeu = "2" })
        refuses("expect_not_logged has no within; there are table, key", k.expect_not_logged, { table = "topic", within = "1s" })
        refuses("expect_resolved has no outcom; did you mean outcome%?", k.expect_resolved, { outcom = "mine" })
        refuses("not within 1s: the moon", k.await, function() return false end, "1s", "the moon")
    end)

    it("runs the same with the same seed and policy, and otherwise with another one", function()
        local function run(seed)
            local one = kit.new { seed = seed, nodes = 3, policy = [[return { filter = function() return math.random() < 0.5 end,
                tables = { offset = { type = "int64", buffer = { interval = "50ms" } } },
                flush = function() return (10 + os.time() % 40) .. "ms" end }]] }
            for i = 1, 50 do
                one:put("topic", "t" .. i, "v" .. i)
                one:put("offset", "g" .. i % 5, i)
                one:advance(i % 7 .. "ms")
            end
            one:advance "1s"
            local print, log = one:fingerprint(), one:log()
            one:close()
            return print, log
        end
        local print, log = run(1)
        local again, same_log = run(1)
        assert.equal(print, again)
        assert.same(log, same_log)
        assert.are_not.equal(print, (run(2)))
    end)

    it("takes no option that it does not know", function()
        local ok, why = pcall(kit.new, { polcy = BUFFERED })
        assert.is_false(ok)
        assert.matches("kit.new has no polcy; did you mean policy%?", why)
    end)

    it("frees everything", function()
        local live = kit.live()
        for _ = 1, 3 do
            local one = kit.new { policy = BUFFERED }
            one:put("offset", "g", 1)
            assert.is_true(kit.live() > live)
            one:close()
        end
        assert.equal(live, kit.live())
    end)
end)
