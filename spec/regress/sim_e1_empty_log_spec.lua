-- E1 (RocketMQ PR 9617): a snapshot was applied only if the local position was behind it; a master whose log is still empty, or shorter
--     than the old one's, never gave a slave anything.
local simkit = require "spec.support.simkit"

describe("E1: a leader", function()
    after_each(simkit.free_all)

    it("whose log holds nothing gives a new follower all that its snapshot holds", function()
        local s = simkit.new { policy = { log_keep_bytes = 0 } }
        s:lead(0)
        for i = 1, 10 do s:put(0, "disk", "topic" .. i, tostring(i)) end
        s:fill(0, "a", 150, 1500)
        s:run(1000)
        s:follow(1, 0) -- its generation is a snapshot and an empty log
        s:settle(0)
        assert.equal(1, s:count "bootstraps")
        s:kill(0)
        s:wipe(0)
        s:promote(1)
        s:follow(2, 1)
        s:settle(1)
        for i = 1, 10 do assert.equal(tostring(i), s:get(2, "disk", "topic" .. i)) end
    end)

    it("that has nothing at all gives a new follower just that", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        assert.is_true(s:equal(0, 1))
        assert.is_true(s:position(1).applied > 0) -- its epoch
    end)

    it("with a shorter log than the follower's gives it everything after adopt", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:fill(0, "old", 100, 100, "disk")
        s:settle(0)
        local before = s:position(1).applied
        s:kill(0)
        s:wipe(0)
        s:lead_without_history(0, { 1 })
        for i = 1, 10 do s:put(0, "disk", "topic" .. i, tostring(i)) end
        assert.is_true(s:position(0).head < before)
        s:adopt(1)
        s:settle(0)
        for i = 1, 10 do assert.equal(tostring(i), s:get(1, "disk", "topic" .. i)) end
        assert.is_nil(s:get(1, "disk", "old1"))
    end)
end)
