-- E2 (RocketMQ PR 9617): a snapshot was applied although the follower was further, so that old values went over newer ones.
--     Found again by the random runs: a leader gave the newest snapshot it had to a follower that shared more history than that.
local simkit = require "spec.support.simkit"
local ms = require "spec.support.ms"

local function number(text) return tonumber((text or "0"):match "^%d+") end

-- The value of the key never goes back on the node while fn is not true yet.
local function never_back(s, node, key, fn)
    local last = number(s:get(node, "disk", key))
    s:await(function()
        local now = number(s:get(node, "disk", key))
        assert.is_true(now >= last, ("%d after %d"):format(now, last))
        last = now
        return fn()
    end)
end

describe("E2: a follower that is further than the leader's newest snapshot", function()
    after_each(simkit.free_all)

    -- n0's snapshot holds 40, its log goes up to 50, and no other snapshot is due.
    local function cluster(nodes)
        local policy = { snapshot_every_ms = 100000, snapshot_log_bytes = 1024 * 1024, log_keep_bytes = 1024 * 1024 }
        local s = simkit.new { nodes = nodes, policy = policy }
        s:begin()
        for i = 1, 40 do s:put(0, "disk", "position", tostring(i)) end
        assert.equal(0, ms.C.ms_engine_snapshot_now(s:engine(0)))
        s:await(function() return s:count "snapshots_made" == 1 end)
        for i = 41, 50 do s:put(0, "disk", "position", tostring(i)) end
        s:settle(0)
        return s
    end

    it("does not get it when its tables have to be loaded anew", function()
        local s = cluster(2)
        s:spoil(1, "disk", "elsewhere", "wrong")
        s:put(0, "disk", "other", "1")
        never_back(s, 1, "position", function() return s:count "bootstraps" == 1 end)
        s:settle(0)
        assert.equal("50", s:get(1, "disk", "position"))
    end)

    it("does not get it when it has diverged after it", function()
        local s = cluster(3)
        s:cut(0, 1)
        s:cut(0, 2)
        s:put(0, "disk", "extra", "1")
        s:run(20)
        s:promote(1)
        s:follow(2, 1)
        s:heal(0, 1)
        s:follow(0, 1)
        never_back(s, 0, "position", function() return s:count "bootstraps" == 1 end)
        s:settle(1)
        assert.equal("50", s:get(0, "disk", "position"))
    end)
end)
