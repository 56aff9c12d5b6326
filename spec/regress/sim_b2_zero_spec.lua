-- B2 (apache/kafka PR 8730, KAFKA-10048): offset 0 was taken for "no offset" and not replicated.
local simkit = require "spec.support.simkit"

describe("B2: a first commit of 0", function()
    after_each(simkit.free_all)

    it("is there on the follower, streamed, bootstrapped and after a restart, and a key without one is not", function()
        local s = simkit.new { policy = { log_keep_bytes = 0 } }
        s:lead(0)
        s:follow(1, 0)
        s:settle(0)
        s:put(0, "offset", "topic@group:0", simkit.int64(0))
        s:flush(0)
        s:settle(0)
        s:fill(0, "a", 120, 1500)
        s:run(1000)
        s:follow(2, 0) -- by snapshot
        s:settle(0)
        assert.is_true(s:count "bootstraps" > 0)
        s:power_loss(1)
        s:start(1)
        for node = 0, 2 do
            assert.equal(simkit.int64(0), s:get(node, "offset", "topic@group:0"))
            assert.is_nil(s:get(node, "offset", "topic@group:1"))
        end
    end)

    it("is another thing than no value for bytes, too: an empty value is one", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:put(0, "disk", "empty", "")
        s:put(0, "count", "empty", "")
        s:put(0, "disk", "gone", "x")
        s:delete(0, "disk", "gone")
        s:flush(0)
        s:settle(0)
        assert.equal("", s:get(1, "disk", "empty"))
        assert.equal("", s:get(1, "count", "empty"))
        assert.is_nil(s:get(1, "disk", "gone"))
    end)
end)
