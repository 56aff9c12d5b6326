-- The policies that come with metasync: each loads, says what its comments say, and passes its selftest.
local ms = require "spec.support.ms"
local kit = require "spec.support.policykit"
local C, ffi = ms.C, ms.ffi

local function shipped(name)
    local rules, _, why, all = kit.load_file("lua/policies/" .. name .. ".lua")
    return rules or error(why .. "\n" .. all)
end

local function table_of(rules, name)
    for i = 0, rules.policy.table_count - 1 do
        if ffi.string(rules.policy.tables[i].name) == name then return rules.policy.tables[i] end
    end
    return nil
end

local NAMES = { "default", "rocketmq", "low-traffic-wan", "no-loss" }

describe("every shipped policy", function()
    it("is in the list of this spec", function()
        local found = {}
        for path in io.popen("ls lua/policies/*.lua"):lines() do found[#found + 1] = path:match("([^/]+)%.lua$") end
        table.sort(NAMES)
        assert.same(NAMES, found)
    end)

    for _, name in ipairs(NAMES) do
        it(("%s loads under its file's name and passes its selftest"):format(name), function()
            local rules = shipped(name)
            assert.equal(name, ffi.string(rules.name))
            assert.equal(0, C.ms_lua_selftest(rules), ms.err())
            assert.equal(0, tonumber(C.ms_lua_incidents(rules)))
        end)

        it(("%s says in comments what to change first, or that nothing has to be"):format(name), function()
            local text = ms.read_file("lua/policies/" .. name .. ".lua")
            assert.is_truthy(text:find("What to change first", 1, true) or name == "default")
        end)
    end
end)

describe("default", function()
    it("is what no file means, field by field", function()
        local rules, builtin = shipped "default", ffi.new("struct ms_policy[1]")
        C.ms_policy_init(builtin)
        assert.equal(ms.dec(C.ms_policy_hash(builtin)), ms.dec(C.ms_policy_hash(rules.policy)))
        assert.equal(0, rules.functions)
        assert.is_true(rules.patterns == nil)
    end)

    it("names every field that there is", function()
        local text = ms.read_file("lua/policies/default.lua")
        for _, field in ipairs(dofile("spec/support/schema.lua").fields) do
            local last = field.path:match("[^.]+$")
            assert.is_truthy(text:find(last .. " =", 1, true) or text:find("policy." .. last .. "(", 1, true), field.path)
        end
    end)
end)

describe("rocketmq", function()
    local rules
    setup(function() rules = shipped "rocketmq" end)

    local function number(text) return text and kit.int64(text) or nil end

    local function offsets(table_name, mine, theirs, base, more)
        local conflict = { table = table_name, type = "int64", mine = number(mine), theirs = number(theirs), base = number(base) }
        for key, value in pairs(more or {}) do conflict[key] = value end
        local outcome, _, by = kit.resolve(rules, conflict)
        assert.not_equal("incident", by)
        return outcome
    end

    it("says something of every table of a broker, LMQ offsets included", function() -- apache/rocketmq#8509
        for _, name in ipairs { "topic", "group", "forbidden", "offset", "pull_offset", "reset_offset", "delay_offset", "request_mode",
            "timer_metrics", "timer_checkpoint", "topic_mapping", "order_info", "lmq_offset", "data_version" } do
            assert.is_truthy(table_of(rules, name), name)
        end
    end)

    it("has definitions on disk, offsets in 200 ms buffers whose risk is bounded", function()
        for _, name in ipairs { "topic", "group", "request_mode", "forbidden", "reset_offset" } do
            assert.equal(C.MS_LEVEL_DISK, table_of(rules, name).level, name)
            assert.equal(0, table_of(rules, name).interval_ms, name)
        end
        for _, name in ipairs { "offset", "pull_offset", "lmq_offset", "delay_offset" } do
            assert.equal(200, table_of(rules, name).interval_ms, name)
            assert.equal(C.MS_TYPE_INT64, table_of(rules, name).type, name)
            assert.is_true(table_of(rules, name).at_risk_ms > 0, name)
        end
        assert.equal(C.MS_ON_LOG_FAILURE_PASS, rules.policy.on_log_failure)
    end)

    it("lets the further offset win, exactly, with and without a common base", function()
        for _, name in ipairs { "offset", "pull_offset", "lmq_offset", "delay_offset" } do
            assert.equal("mine", offsets(name, 200LL, 100LL))
            assert.equal("theirs", offsets(name, 100LL, 200LL, 50LL))
            assert.equal("mine", offsets(name, 9223372036854775807LL, 9223372036854775806LL, 5LL))
            assert.equal("mine", offsets(name, 5LL, nil), "an entry beats none")
            assert.equal("theirs", offsets(name, nil, 5LL))
        end
    end)

    it("lets a reset to 0 win over an offset that went on, on either side", function() -- apache/rocketmq#10549, #9309
        assert.equal("theirs", offsets("offset", 200LL, 0LL, 150LL))
        assert.equal("mine", offsets("offset", 0LL, 200LL, 150LL))
        assert.equal("theirs", offsets("offset", 10LL, 0LL, 150LL))
    end)

    it("leaves an offset deleted that the master has deleted since", function()
        assert.equal("theirs", offsets("offset", 200LL, nil, 150LL))
    end)

    it("never decides an order to reset by size: what is not carried out yet stays, also 0", function()
        assert.equal("mine", offsets("reset_offset", 0LL, nil))
        assert.equal("theirs", offsets("reset_offset", 100LL, 0LL))
        assert.equal("theirs", offsets("reset_offset", nil, 0LL))
        assert.equal("theirs", offsets("reset_offset", 7LL, nil, 7LL), "carried out by the new master")
        assert.equal("mine", offsets("reset_offset", 0LL, 100LL, nil, { newer = 1 }))
    end)

    it("keeps a topic that only the old master had acknowledged, else takes the newer one", function()
        local function topic(conflict)
            conflict.table = "topic"
            return (kit.resolve(rules, conflict))
        end
        assert.equal("mine", topic { mine = '{"perm":6}' })
        assert.equal("theirs", topic { mine = '{"perm":6}', base = '{"perm":4}' })
        assert.equal("theirs", topic { mine = '{"perm":6}', theirs = '{"perm":2}' })
        assert.equal("mine", topic { mine = '{"perm":6}', theirs = '{"perm":2}', newer = 1 })
        assert.equal("delete", topic { theirs = '{"perm":2}', newer = 1 })
    end)
end)

describe("low-traffic-wan", function()
    it("sends rarely, is patient with its line, and bounds what is at risk", function()
        local p, builtin = shipped("low-traffic-wan").policy, ffi.new("struct ms_policy[1]")
        C.ms_policy_init(builtin)
        assert.is_true(p.heartbeat_ms > builtin[0].heartbeat_ms and p.link_timeout_ms > builtin[0].link_timeout_ms)
        assert.is_true(p.log_keep_bytes > builtin[0].log_keep_bytes and p.snapshot_every_ms > builtin[0].snapshot_every_ms)
        for i = 0, p.table_count - 1 do
            local t = p.tables[i]
            if t.interval_ms > 0 then assert.is_true(t.interval_ms >= 5000 and t.at_risk_ms > 0) end
        end
    end)
end)

describe("no-loss", function()
    it("waits for followers, refuses without one, and buffers nothing", function()
        local p = shipped("no-loss").policy
        assert.equal(C.MS_LEVEL_REPLICA, p.level)
        assert.equal(C.MS_ON_NO_REPLICA_REFUSE, p.on_no_replica)
        assert.equal(C.MS_ON_LOG_FAILURE_REFUSE, p.on_log_failure)
        for i = 0, p.table_count - 1 do
            assert.equal(0, p.tables[i].interval_ms)
            assert.equal(C.MS_LEVEL_REPLICA, C.ms_policy_table(p, p.tables[i].name).level)
        end
    end)

    it("keeps what only the deposed leader had acknowledged", function()
        assert.equal("mine", (kit.resolve(shipped "no-loss", { table = "topic", mine = "x" })))
        assert.equal("theirs", (kit.resolve(shipped "no-loss", { table = "topic", mine = "x", base = "w" })))
    end)
end)

-- The same policies in a small cluster: the test kit that users have.
describe("in a cluster of the test kit", function()
    local testkit = require "spec.support.testkit"
    local k
    after_each(function()
        k:expect_no_incidents()
        k:close()
    end)

    local function cluster(name) k = testkit.new { policy = ("lua/policies/%s.lua"):format(name), nodes = 2 } end

    it("default logs every change at once and leaves nothing out", function()
        cluster "default"
        assert.equal("logged", (k:put("offset", "k", "1")))
        assert.equal("logged", (k:put("topic", "tmp-x", "{}")))
        k:settle()
        k:expect_value(1, "topic", "tmp-x", "{}")
        assert.equal(0, #k:dropped())
    end)

    it("rocketmq logs topics at once, offsets after 200 ms with their newest value, orders to reset at once", function()
        cluster "rocketmq"
        assert.equal("logged", (k:put("topic", "orders", '{"perm":6}')))
        assert.equal("logged", (k:put("reset_offset", { "g@t", "0" }, 0)))
        for i = 1, 50 do
            assert.equal("buffered", (k:put("offset", { "g@t", "0" }, i)))
            k:advance "1ms"
        end
        k:expect_not_logged { table = "offset" }
        assert.equal(1, (k:at_risk "offset"))
        k:advance "200ms"
        k:expect_log_count("offset", 1)
        k:expect_logged { table = "offset", key = "g@t", field = "0", value = 50 }
        k:settle()
        k:expect_value(1, "offset", { "g@t", "0" }, 50)
    end)

    it("rocketmq never has an offset at risk for longer than a second, nor more than it says", function()
        cluster "rocketmq"
        for i = 1, 400 do
            k:put("offset", { "g@t", tostring(i % 7) }, i)
            k:advance "10ms"
            local entries = k:at_risk "offset"
            assert.is_true(entries <= 7)
            if i > 100 then k:expect_logged { table = "offset", key = "g@t", field = tostring((i - 100) % 7) } end
        end
        local log = k:log()
        for i, change in ipairs(log) do
            if i > 1 and change.table == "offset" and log[i - 1].table == "offset" then assert.is_true(change.time - log[i - 1].time <= 1) end
        end
    end)

    it("low-traffic-wan sends offsets every five seconds only", function()
        cluster "low-traffic-wan"
        k:put("offset", "g", 1)
        k:advance "4s"
        k:expect_not_logged { table = "offset" }
        k:put("offset", "g", 2)
        k:advance "1500ms"
        k:expect_logged { table = "offset", key = "g", value = 2 }
        k:expect_log_count("offset", 1)
    end)

    it("no-loss reaches the other disk, and refuses writes once it is gone", function()
        cluster "no-loss"
        local outcome, lsn = k:put("topic", "orders", "{}")
        assert.equal("logged", outcome)
        k:reached(lsn, "replica")
        k:expect_value(1, "topic", "orders", "{}")
        k:kill(1)
        k:advance "30s"
        local refused, why = k:try_put("topic", "more", "{}")
        assert.is_nil(refused)
        assert.equal("no follower is in sync", why)
        k:follow(1)
        k:await(function() return k:try_put("topic", "more", "{}") == "logged" end, "60s", "the follower is in sync again")
    end)
end)
