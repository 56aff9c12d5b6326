-- B17 (etcd-io/etcd#20262, #8231, cilium/cilium#3011): a watcher that was idle for long was too old after a compaction although it had
--     missed nothing.
local simkit = require "spec.support.simkit"

describe("B17: a follower that has missed nothing", function()
    after_each(simkit.free_all)

    it("resumes without a snapshot after a long idle time, snapshots and trims", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 0 } }
        s:begin()
        s:fill(0, "a", 100, 1500)
        s:settle(0)
        s:run(5000)
        assert.is_true(s:count "trims" > 0)
        for _ = 1, 5 do
            s:cut(0, 1)
            s:run(500)
            s:heal(0, 1)
            s:settle(0)
        end
        assert.equal(0, s:count "bootstraps")
        assert.equal(s:position(0).head, s:position(1).leader_head)
    end)

    it("resumes while only a table that it never asks about changes: its position moves with every group", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 0 } }
        s:begin()
        for round = 1, 10 do
            for i = 1, 60 do s:insist(0, "memory", "noise" .. i, ("%d"):format(round):rep(300)) end
            s:settle(0)
            s:cut(0, 1)
            s:run(100)
            s:heal(0, 1)
        end
        s:settle(0)
        assert.equal(0, s:count "bootstraps")
    end)
end)
