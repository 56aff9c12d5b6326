-- Policies of real daemons: read at the start, read anew while they run, refused, rolled back; and what that does not disturb.
local cluster = require "spec.support.cluster"
local policies = require "spec.support.policies"
local process = require "spec.support.process"

local PLAIN = [[
return { name = "plain", log = { segment = "1MiB" }, limits = { value = "64KiB" },
    tables = { offset = { buffer = { interval = "60s" } } } }
]]

-- A pair that runs on one policy file; the file and both nodes.
local function pair(c, text)
    local path = policies.write(c, "policy", text)
    local leader, follower = c:pair { "--policy", path }
    return path, leader, follower
end

local function filter(condition)
    return ('return { name = "filtered", filter = function(entry) return %s end }'):format(condition)
end

local function topics(leader, count)
    local writes = {}
    for i = 1, count do writes[i] = { table = "topic", key = "t" .. i, value = "x" } end
    leader:batch(writes)
end

describe("a daemon with a policy file", function()
    it("goes by it, and both nodes show its hash", cluster.test(function(c)
        c.args = { "--policy", policies.write(c, "policy", PLAIN) }
        local leader, follower = c:pair()
        local a, b = policies.of(leader), policies.of(follower)
        assert.equal("plain", a.name)
        assert.equal(c.dir .. "/policy.lua", a.file)
        assert.equal(a.hash, b.hash)
        assert.equal(a.hash, leader:status().policy_hash)
        leader:put("offset", "k", 1)
        local offset = leader:status().tables[1]
        assert.equal(60000, offset.buffer_ms)
        local shown = leader:must "policy_show"
        assert.equal("1MiB", shown.fields["log.segment"])
        assert.equal("1m", shown.fields["tables.offset.buffer.interval"])
    end))

    it("does not start with a wrong one, and says where it is wrong", cluster.test(function(c)
        local node = c:node "a"
        for _, case in ipairs { { 'return { log = { keeep = "1GiB" } }', "log.keep" }, { "return {", "policy.lua:1" },
            { 'return { snapshot = { every = "often" } }', "snapshot.every" }, { "return { selftest = function() error 'never' end }", "never" },
            { 'error "broken"', "broken" } } do
            node.args = { "--policy", policies.write(c, "policy", case[1]) }
            node:launch { "--lead" }
            assert.equal(1, node:exit_status(20), case[1])
            assert.truthy(node:log_text():find(case[2], 1, true), node:log_text())
        end
        node.args = { "--policy", c.dir .. "/missing.lua" }
        node:launch { "--lead" }
        assert.equal(1, node:exit_status(20))
        assert.truthy(node:log_text():find("missing.lua", 1, true), node:log_text())
    end))

    it("takes no options that tune besides it, and says which field says it", cluster.test(function(c)
        local node = c:node "a"
        local path = policies.write(c, "policy", PLAIN)
        for option, field in pairs { ["--level os"] = "ack =", ["--table t=os"] = "tables =", ["--no-replica degrade"] = "replica =",
            ["--log-failure pass"] = "on_failure", ["--snapshot-every 5"] = "snapshot =", ["--snapshot-keep 3"] = "snapshot =",
            ["--log-keep 5"] = "log =", ["--log-max 5000000000"] = "log =", ["--segment 65536"] = "log =" } do
            local name, value = option:match("(%S+) (%S+)")
            node:launch { "--lead", "--policy", path, name, value }
            assert.equal(2, node:exit_status(20), option)
            local text = node:log_text()
            assert.truthy(text:find(name .. " and --policy", 1, true) and text:find(field, 1, true), text)
        end
    end))
end)

describe("a reload", function()
    it("takes numbers at once, without a reconnect and with full buffers kept", cluster.test(function(c)
        local path, leader, follower = pair(c, PLAIN)
        leader:put("offset", "k", 7)
        local links, before = policies.links(leader, follower), policies.of(leader)
        policies.write(c, "policy", (PLAIN:gsub('"60s"', '"30s"'):gsub("plain", "faster")))
        local report = leader:must "policy_reload"
        assert.equal("faster", report.name)
        assert.equal(path, report.file)
        assert.same({ { field = "tables.offset.buffer.interval", was = "1m", is = "30s" } }, report.changed)
        assert.equal(before.hash, report.was.hash)
        local status = leader:status()
        assert.equal(30000, status.tables[1].buffer_ms)
        assert.equal(1, status.tables[1].at_risk_entries) -- not lost, not flushed for it
        assert.equal(report.hash, status.policy.hash)
        assert.equal(1, status.policy.reloads)
        assert.equal(links, policies.links(leader, follower))
        c:equal(leader, follower)
        assert.equal(7, follower:get("offset", "k"))
    end))

    it("logs what is buffered of a table that is buffered no more", cluster.test(function(c)
        local _, leader, follower = pair(c, PLAIN)
        for i = 1, 100 do leader:put("offset", "k" .. i, i) end
        policies.write(c, "policy", 'return { name = "unbuffered", log = { segment = "1MiB" }, limits = { value = "64KiB" } }')
        leader:must "policy_reload"
        leader:wait("nothing is buffered", function(s) return s.tables[1].level == "disk" and s.tables[1].logged_entries == 100 end)
        follower:wait("has them", function() return follower:get("offset", "k100") == 100 end)
    end))

    it("by SIGHUP does the same, without a policy file nothing", cluster.test(function(c)
        local _, leader, follower = pair(c, PLAIN)
        local links = policies.links(leader, follower)
        policies.write(c, "policy", (PLAIN:gsub("plain", "second")))
        leader.process:kill(process.SIGHUP)
        leader:wait("has the second policy", function(s) return s.policy.name == "second" end)
        assert.equal(links, policies.links(leader, follower))
        c.args = {}
        local bare = c:node "bare":start { "--lead" }
        bare.process:kill(process.SIGHUP)
        process.eventually("says so", function() return bare:log_text():find("no policy file", 1, true) end)
        assert.equal("built-in", policies.of(bare).name)
    end))

    it("says which fields wait for the next start, and they do", cluster.test(function(c)
        local _, leader = pair(c, PLAIN)
        policies.write(c, "policy", 'return { name = "larger", log = { segment = "2MiB", keep = "128MiB" }, limits = { value = "64KiB" } }')
        local report = leader:must "policy_reload"
        assert.same({ "log.segment" }, report.start_only)
        assert.same({ "log.segment" }, policies.of(leader).start_only)
        assert.equal("1MiB", leader:must("policy_show").fields["log.segment"])
        assert.equal("128MiB", leader:must("policy_show").fields["log.keep"])
        leader:stop()
        leader:start { "--lead" }
        assert.equal("2MiB", leader:must("policy_show").fields["log.segment"])
        assert.same({}, policies.of(leader).start_only)
    end))

    it("lets entries leave: gone from both nodes, each logged as leave", cluster.test(function(c)
        local _, leader, follower = pair(c, 'return { name = "all" }')
        topics(leader, 50)
        leader:put("topic", "tmp1", "x")
        leader:put("topic", "tmp2", "x")
        policies.write(c, "policy", filter 'not entry.key:find("^tmp")')
        local report = leader:must "policy_reload"
        assert.same({ { table = "topic", entries = 52, leaving = 2, entering = 0, more = false } }, report.tables)
        leader:wait("two have left", function(s) return s.policy.review.left == 2 and not s.policy.review.running end)
        assert.is_nil(leader:get("topic", "tmp1"))
        c:equal(leader, follower)
        assert.is_nil(follower:get("topic", "tmp2"))
        local lines = cluster.ctl("--json", "log", leader.data)
        local left = 0
        for _ in lines:gmatch('"op":"leave"') do left = left + 1 end
        assert.equal(2, left)
        assert.is_true(leader:must({ command = "put", table = "topic", key = "tmp3", value = "x" }).ok) -- local, by policy
        assert.is_nil(leader:get("topic", "tmp3"))
    end))

    it("that would make more leave than the bound needs --force", cluster.test(function(c)
        local _, leader, follower = pair(c, 'return { name = "all", reload = { leave = "20%" } }')
        topics(leader, 10)
        local before = policies.of(leader)
        policies.write(c, "policy", filter 'entry.key ~= "t1" and entry.key ~= "t2" and entry.key ~= "t3"')
        local output, code, errors = leader:ctl("policy", "reload")
        assert.equal(1, code, output)
        assert.truthy(errors:find("3 of 10 entries of table topic", 1, true), errors)
        assert.equal(before.hash, policies.of(leader).hash)
        assert.equal(1, policies.of(leader).refused)
        assert.equal("x", leader:get("topic", "t1"))
        output, code, errors = leader:ctl("policy", "reload", "--force")
        assert.equal(0, code, errors)
        assert.truthy(output:find("topic%s+10%s+3%s+0"), output)
        policies.settled(leader)
        assert.is_nil(leader:get("topic", "t1"))
        c:equal(leader, follower)
    end))

    it("of a broken file leaves everything as it was, and says why", cluster.test(function(c)
        local path, leader, follower = pair(c, PLAIN)
        local links, before = policies.links(leader, follower), policies.of(leader)
        for text, why in pairs { ["return {"] = "policy.lua", ["return { name = 5 }"] = "name", ["return 1"] = "table",
            ['return { selftest = function() error("no: " .. 1) end }'] = "no: 1", ["while true do end"] = "policy.lua" } do
            policies.write(c, "policy", text)
            local _, code, errors = leader:ctl("policy", "reload")
            assert.equal(1, code, text)
            assert.truthy(errors:find(why, 1, true), errors)
        end
        os.remove(path)
        assert.equal("MS_E_IO", leader:call("policy_reload").code)
        local after = policies.of(leader)
        assert.equal(before.hash, after.hash)
        assert.equal(0, after.reloads)
        assert.equal(6, after.refused)
        assert.equal(links, policies.links(leader, follower))
        leader:put("topic", "still", "works")
        c:equal(leader, follower)
    end))

    it("of a policy whose functions fail is undone on probation, with an alarm", cluster.test(function(c)
        local _, leader, follower = pair(c, 'return { name = "good" }')
        leader:put("topic", "before", "x")
        local links, hash = policies.links(leader, follower), policies.of(leader).hash
        policies.write(c, "policy", 'return { name = "bad", filter = function(entry) error("cannot judge " .. entry.key) end }')
        local report = leader:must "policy_reload"
        assert.equal(60000, report.probation_ms)
        for i = 1, 5 do leader:put("topic", "t" .. i, "x") end -- in the view all the same
        local status = leader:wait("the good one is back", function(s) return s.policy.name == "good" end)
        assert.equal(hash, status.policy.hash)
        assert.equal(1, status.policy.rollbacks)
        assert.truthy(status.policy.rolled_back_because:find("cannot judge", 1, true), status.policy.rolled_back_because)
        assert.truthy(status.alarm:find("policy bad", 1, true), status.alarm)
        assert.equal(0, status.policy.probation_until_us)
        assert.equal(links, policies.links(leader, follower))
        for i = 1, 5 do assert.equal("x", leader:get("topic", "t" .. i)) end
        c:equal(leader, follower)
    end))

    it("is undone by hand, once", cluster.test(function(c)
        local _, leader = pair(c, 'return { name = "first" }')
        assert.equal("MS_E_INVALID", leader:call("policy_rollback").code)
        local other = policies.write(c, "other", 'return { name = "second" }')
        local output, code, errors = leader:ctl("policy", "reload", other)
        assert.equal(0, code, errors)
        assert.truthy(output:find("second", 1, true), output)
        assert.equal("first", policies.of(leader).previous.name)
        output, code, errors = leader:ctl("policy", "rollback")
        assert.equal(0, code, errors)
        assert.truthy(output:find("first", 1, true), output)
        assert.equal("first", policies.of(leader).name)
        assert.equal(c.dir .. "/policy.lua", policies.of(leader).file)
        _, code, errors = leader:ctl("policy", "rollback")
        assert.equal(1, code)
        assert.truthy(errors:find("no policy to go back to", 1, true), errors)
        leader:must "policy_reload" -- the file of the one that is in use
        assert.equal("first", policies.of(leader).name)
    end))

    it("on a follower changes its policy and nothing else", cluster.test(function(c)
        local _, leader, follower = pair(c, 'return { name = "all" }')
        topics(leader, 10)
        c:equal(leader, follower)
        policies.write(c, "policy", filter "false")
        follower:must "policy_reload" -- no bound: it has no view to look at
        assert.equal("filtered", policies.of(follower).name)
        assert.not_equal(policies.of(leader).hash, policies.of(follower).hash)
        topics(leader, 12)
        c:equal(leader, follower)
        assert.equal("x", follower:get("topic", "t12"))
        follower:must { command = "promote" } -- a promotion does not look at the view either
        policies.settled(follower)
        assert.equal("x", follower:get("topic", "t1"))
    end))

    it("that switches replication off leaves both nodes without a role; switched on, they take it again", cluster.test(function(c)
        local path, leader, follower = pair(c, PLAIN)
        leader:put("topic", "before", "x")
        leader:put("offset", "buffered", 7)
        local off = PLAIN:gsub("^%s*return {", "return { replicate = { enabled = false },")
        process.write(path, off)
        for _, node in ipairs { follower, leader } do
            node:must "policy_reload"
            assert.equal("idle", node:status().role)
            assert.equal("the policy says replicate.enabled = false", node:status().reason)
            assert.is_false(node:must("position").enabled)
            assert.equal("false", node:must("policy_show").fields["replicate.enabled"])
        end
        local _, code, errors = leader:ctl "lead"
        assert.equal(1, code)
        assert.truthy(errors:find("replicate.enabled", 1, true), errors)
        process.write(path, PLAIN)
        for _, node in ipairs { leader, follower } do node:must "policy_reload" end
        leader:must "lead"
        follower:must { command = "follow", address = leader.address }
        leader:put("topic", "after", "x")
        follower:wait("has all", function() return follower:get("topic", "after") == "x" end)
        assert.equal(7, follower:get("offset", "buffered"))
        assert.equal("x", follower:get("topic", "before"))
    end))

    it("that wants more has it imported", cluster.test(function(c)
        local config = c.dir .. "/config"
        os.execute("cp -r plugins/standalone/example " .. process.quote(config))
        local path = policies.write(c, "policy", 'return { name = "few", replicate = { exclude = { topic = { "*" } } } }')
        local leader = c:node "a":start { "--lead", "--policy", path, "--import", config }
        assert.same({}, leader:entries "topic")
        policies.write(c, "policy", 'return { name = "all" }')
        leader:must "policy_reload"
        leader:wait("the topics are here", function() return next(leader:entries "topic") ~= nil end)
        assert.is_true(policies.of(leader).review.entered > 0)
    end))
end)
