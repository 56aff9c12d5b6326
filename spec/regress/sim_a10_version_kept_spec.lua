-- A10 (apache/rocketmq#10604, PR 10605, #9520, #10425): a version that was bumped in memory only went back with a restart, and parts
--     of one transfer that carried the same version were taken for "unchanged" and dropped.
local simkit = require "spec.support.simkit"

describe("A10: a version that was acknowledged", function()
    after_each(simkit.free_all)

    for _, how in ipairs { "kill", "power_loss" } do
        it("does not go back when the leader's process ends right after the ack: " .. how, function()
            local s = simkit.new()
            s:begin()
            for version = 1, 12 do
                local lsn = s:put(0, "disk", "data_version", tostring(version))
                s:reached(0, lsn, "disk")
                s[how](s, 0)
                s:lead(0)
                assert.equal(tostring(version), s:get(0, "disk", "data_version"))
            end
            for node = 1, 2 do s:follow(node, 0) end
            s:settle(0)
            assert.equal("12", s:get(2, "disk", "data_version"))
        end)
    end

    it("comes with every part of what is transferred, however many pieces it takes", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 0 } }
        s:lead(0)
        s:put(0, "disk", "data_version", "1")
        s:fill(0, "topic", 100, 1500)
        s:run(1000)
        s:follow(1, 0)
        s:settle(0)
        assert.equal(1, s:count "bootstraps")
        for i = 1, 100 do assert.is_truthy(s:get(1, "os", "topic" .. i)) end
        assert.equal("1", s:get(1, "disk", "data_version"))
    end)
end)
