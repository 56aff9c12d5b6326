-- A32 (apache/rocketmq#10549, #9309): a reset of an offset to 0 was ignored, because the larger offset won. In the shipped rocketmq policy a
-- reset wins over an offset that a deposed master still has, also to 0, and orders in reset_offset are never decided by size.
local testkit = require "spec.support.testkit"

local KEY = { "group1@orders", "3" }

describe("a reset to 0 with the rocketmq policy", function()
    local k
    before_each(function() k = testkit.new { policy = "lua/policies/rocketmq.lua", nodes = 2 } end)
    after_each(function() k:close() end)

    -- The old master goes on to what it likes while nobody hears it; the new one does the rest; then the old one comes back.
    local function failover(old, new)
        k:cut(0, 1, "silent")
        old()
        k:flush()
        k:advance "1s"
        k:promote(1)
        new()
        k:flush()
        k:heal(0, 1)
        k:follow(0, 1)
        k:settle "60s"
        k:advance "5s"
        k:expect_no_incidents()
    end

    local function resolved()
        local _, functions = k:incidents(1)
        local calls = 0
        for _, fn in ipairs(functions) do calls = calls + (fn.name == "resolve" and fn.calls or 0) end
        return calls
    end

    it("is a decrease that replicates", function()
        k:put("offset", KEY, 100)
        k:flush()
        k:settle()
        k:put("offset", KEY, 0)
        k:flush()
        k:settle()
        k:expect_value(1, "offset", KEY, 0)
    end)

    it("stands against the further offset of a master that comes back", function()
        k:put("offset", KEY, 100)
        k:flush()
        k:settle()
        failover(function() k:put("offset", KEY, 200) end, function() k:put("offset", KEY, 0) end)
        assert.equal(1, resolved())
        for node = 0, 1 do k:expect_value(node, "offset", KEY, 0) end
    end)

    it("of the master that comes back is not lost either", function()
        k:put("offset", KEY, 100)
        k:flush()
        k:settle()
        failover(function() k:put("offset", KEY, 0) end, function() k:put("offset", KEY, 200) end)
        assert.equal(1, resolved())
        for node = 0, 1 do k:expect_value(node, "offset", KEY, 0) end
    end)

    it("leaves the further offset the winner where nobody reset anything", function()
        k:put("offset", KEY, 100)
        k:flush()
        k:settle()
        failover(function() k:put("offset", KEY, 250) end, function() k:put("offset", KEY, 200) end)
        for node = 0, 1 do k:expect_value(node, "offset", KEY, 250) end
    end)

    it("as an order in reset_offset that only the old master has is carried over", function()
        k:put("reset_offset", { "g@t", "0" }, 5) -- the table is there
        k:settle()
        failover(function() k:put("reset_offset", KEY, 0) end, function() k:put("reset_offset", { "g@t", "1" }, 7) end)
        for node = 0, 1 do k:expect_value(node, "reset_offset", KEY, 0) end
    end)
end)
