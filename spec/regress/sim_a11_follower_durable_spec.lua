-- A11 (apache/rocketmq#9206, PR 9207): a slave did not write what it received to its own store; after a promotion and a restart of both,
--     topics were gone.
local simkit = require "spec.support.simkit"

describe("A11: what a follower has confirmed", function()
    after_each(simkit.free_all)

    for _, how in ipairs { "kill", "power_loss" } do
        it("is there when it starts again as the leader and the old one is gone: " .. how, function()
            local s = simkit.new { nodes = 2 }
            s:begin()
            local lsn
            for i = 1, 10 do lsn = s:put(0, "replica", "topic" .. i, "perm=" .. i) end
            s:reached(0, lsn, "replica") -- the follower's ack
            s[how](s, 1)
            s:power_loss(0)
            s:wipe(0)
            s:start(1)
            s:promote(1)
            for i = 1, 10 do assert.equal("perm=" .. i, s:get(1, "replica", "topic" .. i)) end
        end)
    end

    it("is there after a bootstrap too, without a single group behind the snapshot", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 0 } }
        s:lead(0)
        s:fill(0, "topic", 100, 1500)
        s:run(1000)
        s:follow(1, 0)
        s:await(function() return s:count "bootstraps" == 1 end)
        s:power_loss(1)
        s:power_loss(0)
        s:start(1)
        s:promote(1)
        for i = 1, 90 do assert.is_truthy(s:get(1, "os", "topic" .. i)) end
    end)
end)
