-- A17 (apache/rocketmq#8509, #8523, #8804, #9105, #9711; PR 8709): a second table of offsets, of light message queues, was not sent to slaves.
-- The shipped rocketmq policy names it, it is buffered, replicated and resolved as the first one is; and a table that a policy does not
-- name is in the view all the same.
local testkit = require "spec.support.testkit"

describe("LMQ offsets with the rocketmq policy", function()
    local k
    before_each(function() k = testkit.new { policy = "lua/policies/rocketmq.lua", nodes = 2 } end)
    after_each(function() k:close() end)

    it("are buffered and arrive, beside the other offsets", function()
        assert.equal("buffered", (k:put("lmq_offset", "%LMQ%a@g", 5)))
        assert.equal("buffered", (k:put("offset", { "t@g", "0" }, 6)))
        k:advance "250ms"
        k:expect_logged { table = "lmq_offset", key = "%LMQ%a@g", value = 5, within = "250ms" }
        k:settle()
        k:expect_value(1, "lmq_offset", "%LMQ%a@g", 5)
        k:expect_value(1, "offset", { "t@g", "0" }, 6)
        k:expect_no_incidents()
    end)

    it("are no more behind than the others when a master comes back", function()
        k:put("lmq_offset", "%LMQ%a@g", 5)
        k:flush()
        k:settle()
        k:cut(0, 1, "silent")
        k:put("lmq_offset", "%LMQ%a@g", 9)
        k:flush()
        k:advance "1s"
        k:promote(1)
        k:put("lmq_offset", "%LMQ%a@g", 7)
        k:flush()
        k:heal(0, 1)
        k:follow(0, 1)
        k:settle "60s"
        k:advance "5s"
        for node = 0, 1 do k:expect_value(node, "lmq_offset", "%LMQ%a@g", 9) end
    end)

    it("would arrive even if no policy named them: nothing is left out that nobody left out", function()
        k:put("some_new_table", "key", "value")
        k:settle()
        k:expect_value(1, "some_new_table", "key", "value")
        assert.equal(0, #k:dropped())
    end)
end)
