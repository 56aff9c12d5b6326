-- Two real daemons: what is written to the leader is on the follower, and stays equal through kills of either.
local cluster = require "spec.support.cluster"
local process = require "spec.support.process"

local BUFFERED = { "--table", "offset=buffer:50:1000" }

describe("a leader and a follower", function()
    it("have equal tables after puts, deletes and batches of both types", cluster.test(function(c)
        local leader, follower = c:pair()
        for i = 1, 50 do leader:put("topic", "t" .. i, ('{"perm":%d}'):format(i)) end
        for i = 1, 10 do leader:delete("topic", "t" .. i) end
        local writes = {}
        for i = 1, 200 do writes[i] = { table = "count", key = { "k" .. i, tostring(i % 7 - 1) }, value = i * 1000 } end
        writes[201] = { table = "topic", key = "t50" } -- a delete in the same batch
        leader:batch(writes)
        c:equal(leader, follower)
        assert.equal('{"perm":11}', follower:get("topic", "t11"))
        assert.is_nil(follower:get("topic", "t10"))
        assert.is_nil(follower:get("topic", "t50"))
        assert.equal(3000, follower:get("count", { "k3", "2" }))
        assert.same(leader:entries "topic", follower:entries "topic")
        assert.same(leader:entries "count", follower:entries "count")
    end))

    it("carry all 64 bits of integers", cluster.test(function(c)
        local leader, follower = c:pair()
        local numbers = { 0, -1, 9007199254740993LL, 9223372036854775807LL, -9223372036854775807LL - 1 }
        for i, number in ipairs(numbers) do leader:put("count", "k" .. i, number) end
        c:equal(leader, follower)
        for i, number in ipairs(numbers) do
            assert.equal((tostring(number):gsub("LL", "")), (tostring(follower:get("count", "k" .. i)):gsub("LL", "")))
        end
    end))

    it("carry a buffered table's newest values, in fewer records than there were puts", cluster.test(function(c)
        local leader, follower = c:pair(BUFFERED)
        leader:put("offset", "t@g", 0)
        c:equal(leader, follower)
        local before = leader:status().log.head
        for i = 1, 500 do leader:put("offset", "t@g", i) end
        c:equal(leader, follower)
        assert.equal(500, follower:get("offset", "t@g"))
        assert.is_true(leader:status().log.head - before < 400)
        leader:delete("offset", "t@g")
        c:equal(leader, follower)
        assert.is_nil(follower:get("offset", "t@g"))
        assert.equal(0, leader:status().counters.at_risk_lost)
    end))

    it("show a buffered value without a flush by hand", cluster.test(function(c)
        local leader, follower = c:pair(BUFFERED)
        leader:put("offset", "t@g", 5)
        process.eventually("the follower has it", function() return follower:get("offset", "t@g") == 5 end, 5)
    end))

    it("refuse writes on the follower, by name", cluster.test(function(c)
        local leader, follower = c:pair()
        leader:put("topic", "t", "x")
        c:equal(leader, follower)
        local reply = follower:call { command = "put", table = "topic", key = "t", value = "y" }
        assert.is_false(reply.ok)
        assert.equal("MS_E_NOT_LEADER", reply.code)
        assert.equal("x", follower:get("topic", "t"))
    end))
end)

describe("a level", function()
    it("replica is answered by a follower, and refused when none is in sync", cluster.test(function(c)
        local leader, follower = c:pair { "--table", "safe=replica" }
        leader:wait("the follower is in sync", function(s) return #s.peers == 1 and s.peers[1].in_sync end)
        local reply = leader:put("safe", "k", "v")
        assert.is_true(leader:status().log.replicated >= reply.lsn)
        assert.equal("v", follower:get("safe", "k"))
        follower:kill()
        leader:wait("it is gone", function(s) return #s.peers == 0 end)
        reply = leader:call { command = "put", table = "safe", key = "k", value = "w" }
        assert.equal("MS_E_NO_REPLICA", reply.code)
        assert.equal("v", leader:get("safe", "k"))
    end))

    it("replica degrades to disk if the policy says so", cluster.test(function(c)
        local leader = c:node("a", { "--table", "safe=replica", "--no-replica", "degrade" }):start { "--lead" }
        local reply = leader:call { command = "put", table = "safe", key = "k", value = "v" }
        assert.equal("MS_E_NOT_REPLICATED", reply.code) -- it stands, but nobody else has it
        assert.equal("v", leader:get("safe", "k"))
    end))

    it("disk is answered after the sync", cluster.test(function(c)
        local leader = c:node("a"):start { "--lead" }
        local reply = leader:put("topic", "k", "v")
        assert.is_true(leader:status().log.synced >= reply.lsn)
    end))
end)

describe("a follower", function()
    it("with nothing gets everything, by log or by snapshot", cluster.test(function(c)
        local leader = c:node "a":start { "--lead" }
        for n = 1, 20 do
            local writes = {}
            for i = 1, 500 do writes[i] = { table = "topic", key = ("t%d-%d"):format(n, i), value = ("x"):rep(100) } end
            leader:batch(writes)
        end
        local follower = c:node "b":start { "--follow", leader.address }
        c:equal(leader, follower)
        assert.equal(("x"):rep(100), follower:get("topic", "t20-500"))
    end))

    it("with nothing bootstraps from a snapshot where the log was trimmed", cluster.test(function(c)
        -- A segment has room for the largest value, so it takes more than 4 MiB to fill one.
        local leader = c:node("a", { "--segment", "65536", "--log-keep", "65536" }):start { "--lead" }
        for n = 1, 24 do
            local writes = {}
            for i = 1, 500 do writes[i] = { table = "topic", key = ("t%d-%d"):format(n, i), value = ("x"):rep(400) } end
            leader:batch(writes)
        end
        for i = 1, 3 do
            leader:put("topic", "t0", tostring(i))
            leader:must "snapshot"
        end
        leader:wait("its log is trimmed", function(s) return s.log.first > 1 end)
        local follower = c:node "b":start { "--follow", leader.address }
        c:equal(leader, follower)
        assert.equal(1, follower:status().counters.bootstraps)
        assert.equal(("x"):rep(400), follower:get("topic", "t1-1"))
    end))

    it("resumes where it was after its own kill -9", cluster.test(function(c)
        local leader, follower = c:pair()
        for i = 1, 100 do leader:put("topic", "t" .. i, "1") end
        c:equal(leader, follower)
        follower:kill()
        for i = 50, 150 do leader:put("topic", "t" .. i, "2") end
        follower:start { "--follow", leader.address }
        c:equal(leader, follower)
        local counters = follower:status().counters
        assert.equal(0, counters.bootstraps)
        assert.equal(1, counters.resumes)
        assert.equal("2", follower:get("topic", "t150"))
    end))

    it("resumes after kill -9 of its leader, and nothing that was acknowledged is missing", cluster.test(function(c)
        local leader, follower = c:pair()
        for i = 1, 100 do leader:put("topic", "t" .. i, "1") end
        leader:kill()
        leader:start { "--lead" }
        for i = 1, 100 do assert.equal("1", leader:get("topic", "t" .. i)) end
        leader:put("topic", "after", "2")
        c:equal(leader, follower)
        assert.equal("2", follower:get("topic", "after"))
        assert.equal(0, follower:status().counters.bootstraps)
    end))

    it("reconnects when its leader starts after it", cluster.test(function(c)
        local leader, follower = c:node "a", c:node "b"
        follower:start { "--follow", leader.address }
        leader:start { "--lead" }
        leader:put("topic", "t", "x")
        c:equal(leader, follower)
    end))
end)

describe("the time that a change takes to the follower", function()
    it("is known from the follower's own record of it", cluster.test(function(c)
        local leader, follower = c:pair()
        local reply = leader:put("topic", "t", "x")
        c:equal(leader, follower)
        local applied = follower:must { command = "applied", lsn = reply.lsn }
        local took_ms = tonumber(applied.time_us - reply.at_us) / 1000
        assert.is_true(took_ms >= 0 and took_ms < 1000, "it took " .. took_ms .. " ms")
        assert.equal("MS_E_AGAIN", follower:call { command = "applied", lsn = 1000000 }.code)
    end))
end)
