-- Who may lead, and what becomes of the others: promotion, the old leader's return, a wiped leader, refusals.
local cluster = require "spec.support.cluster"
local process = require "spec.support.process"

-- Entries of the archive below a node's data directory, as text.
local function archive_of(node)
    local text = process.run { "sh", "-c", 'find "$1" -name "*.jsonl" -o -name "*archive*" -type f | xargs -r cat', "sh", node.data }
    return text
end

describe("a promoted follower", function()
    it("leads a new reign, and the old leader comes back as its follower without a rewind", cluster.test(function(c)
        local old, new = c:pair()
        for i = 1, 100 do old:put("offset", { "t@g", tostring(i) }, 1000 + i) end
        c:equal(old, new)
        new:wait("it is safe to fail over", function(s) return s.safe_to_failover end)
        old:kill()
        new:must "promote"
        local status = new:status()
        assert.equal("leader", status.role)
        assert.equal(1, status.epoch.reign)
        for i = 1, 100 do new:put("offset", { "t@g", tostring(i) }, 2000 + i) end
        old:start { "--follow", new.address }
        c:equal(new, old)
        for i = 1, 100 do assert.equal(2000 + i, old:get("offset", { "t@g", tostring(i) })) end
        assert.same(new:entries "offset", old:entries "offset")
        assert.equal(0, old:status().counters.bootstraps)
    end))

    it("is made by metasyncctl promote, which says the new role", cluster.test(function(c)
        local old, new = c:pair()
        c:equal(old, new)
        old:kill()
        local output, status = new:ctl "promote"
        assert.equal(0, status)
        assert.truthy(output:find("b: leader", 1, true))
    end))

    it("archives what only the old leader had, when that one returns", cluster.test(function(c)
        local old, new = c:pair()
        old:put("topic", "both", "1")
        c:equal(old, new)
        new:kill()
        old:put("topic", "lost", "only the old leader has this")
        old:put("topic", "both", "2")
        old:kill()
        new:start {}
        new:must "promote"
        new:put("topic", "new", "1")
        old:start { "--follow", new.address }
        c:equal(new, old)
        assert.is_nil(old:get("topic", "lost"))
        assert.equal("1", old:get("topic", "both"))
        local status = old:status()
        assert.is_true(status.counters.archived > 0)
        local archive = archive_of(old)
        assert.truthy(archive:find("only the old leader has this", 1, true), "the archive names what was dropped:\n" .. archive)
    end))
    it("archives it also where its own log was trimmed: then as what its tables made of it", cluster.test(function(c)
        local old, new = c:pair { "--log-keep", "0", "--segment", "65536", "--snapshot-keep", "1" }
        old:put("topic", "both", "1")
        c:equal(old, new)
        new:kill()
        local big = ("x"):rep(60000)
        old:put("topic", "first lost", "this was trimmed")
        local from = old:status().applied
        for i = 1, 180 do old:put("topic", "filler" .. i % 5, i .. big) end
        old:wait("its log is trimmed", function(s)
            if s.log.first <= from then old:ctl "snapshot" end
            return s.log.first > from
        end)
        old:put("topic", "last lost", "this was not")
        old:kill()
        new:start {}
        new:must "promote"
        old:start { "--follow", new.address, "--log-keep", "0", "--segment", "65536", "--snapshot-keep", "1" }
        c:equal(new, old)
        local archive = archive_of(old)
        for _, expected in ipairs { "this was trimmed", "this was not", '"lost":"trimmed"' } do
            assert.truthy(archive:find(expected, 1, true), expected .. " is not in the archive")
        end
    end))
end)

describe("an old leader", function()
    it("steps down when it meets a follower of the new reign", cluster.test(function(c)
        local old, new = c:pair()
        local third = c:node "c":start { "--follow", old.address }
        old:put("topic", "t", "x")
        c:equal(old, new)
        c:equal(old, third)
        new:must "promote" -- while the old one still runs
        new:put("topic", "t", "y")
        third:must { command = "follow", address = new.address }
        c:equal(new, third)
        third:must { command = "follow", address = old.address } -- an operator's mistake brings the word
        local status = old:wait("it steps down", function(s) return s.role == "idle" end)
        assert.truthy(status.reason:find("higher epoch 1.0", 1, true), status.reason)
        local refused = old:call { command = "put", table = "topic", key = "t", value = "z" }
        assert.equal("MS_E_NOT_LEADER", refused.code)
        assert.equal("y", third:get("topic", "t"))
        old:must { command = "follow", address = new.address }
        third:must { command = "follow", address = new.address }
        c:equal(new, old)
        c:equal(new, third)
    end))

    it("does not start as leader if a peer knows a higher epoch: exit status 3", cluster.test(function(c)
        local old, new = c:pair()
        old:put("topic", "t", "x")
        c:equal(old, new)
        old:kill()
        new:must "promote"
        old:launch { "--lead", "--peer", new.address }
        assert.equal(3, old:exit_status(20))
        assert.truthy(old:log_text():find("higher epoch", 1, true), old:log_text())
        new:put("topic", "t", "y")
        old:start { "--follow", new.address }
        c:equal(new, old)
    end))

    it("leads again if its peers know nothing higher, or don't answer", cluster.test(function(c)
        local old, new = c:pair()
        old:put("topic", "t", "x")
        c:equal(old, new)
        old:kill()
        old:start { "--lead", "--peer", new.address }
        c:equal(old, new)
        old:stop()
        new:kill()
        old:start { "--lead", "--peer", new.address }
        assert.equal("x", old:get("topic", "t"))
    end))
end)

describe("a leader that was wiped", function()
    -- Runs of the leader before the wipe and after it: the higher run of the two is the higher epoch.
    local function wiped(c, before, after)
        local leader, follower = c:pair()
        for _ = 2, before do leader:stop():start { "--lead" } end
        for i = 1, 20 do leader:put("topic", "t" .. i, "old") end
        c:equal(leader, follower)
        leader:kill()
        os.execute("rm -rf " .. process.quote(leader.data))
        follower:kill() -- so that it meets none of the runs but the last
        for _ = 1, after do
            if leader:alive() then leader:stop() end
            leader:start { "--lead" }
        end
        leader:put("topic", "new", "1")
        follower:start { "--follow", leader.address }
        return leader, follower
    end

    local function refused(c)
        local leader, follower = wiped(c, 1, 2)
        follower:wait("it refuses", function(s) return s.following.state == "leader_has_less_history" end)
        return leader, follower
    end

    it("stops leading when it meets a follower of a higher epoch, which keeps its tables", cluster.test(function(c)
        local leader, follower = wiped(c, 2, 1)
        local status = leader:wait("it steps down", function(s) return s.role == "idle" end)
        assert.truthy(status.reason:find("higher epoch", 1, true), status.reason)
        assert.equal("old", follower:get("topic", "t20"))
        follower:must "promote"
        leader:must { command = "follow", address = follower.address }
        leader:wait("it refuses, having records of its own", function(s) return s.following.state == "leader_has_less_history" end)
        leader:must "adopt"
        c:equal(follower, leader)
        assert.equal("old", leader:get("topic", "t20"))
    end))

    it("wipes nobody: its follower keeps its tables, says why, and may be promoted", cluster.test(function(c)
        local leader, follower = refused(c)
        local status = follower:status()
        assert.is_true(status.alarms > 0)
        assert.truthy(status.alarm:find("leader_has_less_history", 1, true), status.alarm)
        assert.equal("old", follower:get("topic", "t20"))
        assert.is_false(status.safe_to_failover)
        follower:must "promote"
        leader:must { command = "follow", address = follower.address }
        leader:wait("it refuses too, having records of its own", function(s) return s.following.state == "leader_has_less_history" end)
        leader:must "adopt"
        c:equal(follower, leader)
        assert.equal("old", leader:get("topic", "t20"))
    end))

    it("is taken after adopt, and what is given up is archived", cluster.test(function(c)
        local leader, follower = refused(c)
        local output, code = follower:ctl "adopt"
        assert.equal(0, code, output)
        c:equal(leader, follower)
        assert.is_nil(follower:get("topic", "t20"))
        assert.equal("1", follower:get("topic", "new"))
        assert.truthy(archive_of(follower):find("t20", 1, true))
        assert.equal("MS_E_INVALID", follower:call("adopt").code)
    end))
end)

describe("a node", function()
    it("keeps its old tables until a bootstrap is finished, and is promoted before that only by force", cluster.test(function(c)
        local leader = c:node("a", { "--segment", "65536", "--log-keep", "65536" }):start { "--lead" }
        local follower = c:node "b":start { "--follow", leader.address }
        leader:put("topic", "t0", "old")
        c:equal(leader, follower)
        follower:stop()
        for n = 1, 50 do
            local writes = {}
            for i = 1, 500 do writes[i] = { table = "topic", key = ("t%d-%d"):format(n, i), value = ("x"):rep(400) } end
            leader:batch(writes)
        end
        for i = 1, 3 do
            leader:put("topic", "t0", "new" .. i)
            leader:must "snapshot"
        end
        leader:wait("its log is trimmed", function(s) return s.log.first > 10 end)
        -- The leader is stopped in the middle of sending; a bootstrap that was faster is tried again from the old files.
        local saved = follower.data .. ".saved"
        os.execute(("cp -a %s %s"):format(follower.data, saved))
        local status
        for _ = 1, 50 do
            follower:start { "--follow", leader.address }
            process.eventually("the bootstrap has begun", function()
                status = follower:status()
                return status.following.state == "snapshot" or status.counters.bootstraps > 0
            end)
            leader.process:kill(process.SIGSTOP)
            process.pause(0.05) -- what is in the socket arrives
            status = follower:status()
            if status.following.state == "snapshot" then break end
            leader.process:kill(process.SIGCONT)
            follower:kill()
            os.execute(("rm -rf %s && cp -a %s %s"):format(follower.data, saved, follower.data))
        end
        assert.equal("snapshot", status.following.state)
        assert.is_false(status.promotable)
        assert.is_false(status.safe_to_failover)
        assert.equal("old", follower:get("topic", "t0"))
        local _, code, errors = follower:ctl "promote"
        assert.equal(1, code)
        assert.truthy(errors:find("bootstrap", 1, true), errors)
        local output
        output, code = follower:ctl("promote", "--force")
        assert.equal(0, code, output)
        assert.equal("old", follower:get("topic", "t0"))
        leader.process:kill(process.SIGCONT)
    end))

    it("ends cleanly at SIGTERM: buffered values are there after the restart", cluster.test(function(c)
        local node = c:node("a", { "--table", "offset=buffer:60000" }):start { "--lead" }
        for i = 1, 300 do node:put("offset", "k" .. i, i) end
        assert.is_true(node:status().tables[1].at_risk_entries > 0)
        node:stop()
        assert.falsy(node:log_text():find("error", 1, true), node:log_text())
        node:start { "--lead" }
        for i = 1, 300 do assert.equal(i, node:get("offset", "k" .. i)) end
    end))

    it("steps down for another leader, and what its buffers held is archived", cluster.test(function(c)
        local old = c:node("a", { "--table", "offset=buffer:60000" }):start { "--lead" }
        local new = c:node "b":start {}
        old:put("offset", "kept", 1)
        old:must "flush"
        new:must { command = "follow", address = old.address }
        c:equal(old, new)
        old:put("offset", "kept", 2)
        old:put("offset", "risk", 3)
        new:must "promote"
        old:must { command = "follow", address = new.address }
        c:equal(new, old)
        assert.equal(1, old:get("offset", "kept"))
        local status = old:status()
        assert.is_true(status.counters.at_risk_lost >= 2 or archive_of(old):find("risk", 1, true) ~= nil)
        assert.truthy(archive_of(old):find("risk", 1, true), archive_of(old))
    end))
end)
