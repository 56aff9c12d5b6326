-- C6 (redis/redis#5292, #13960, PR 9812): a script that asked for the time or for a random number gave another result on each replica, and after
-- a restart none, as the scripts were gone. Here a policy decides once, on the leader, and what it decided is in the log.
local testkit = require "spec.support.testkit"

local POLICY = [[return {
    filter = function() return (os.time() + math.random(1000)) % 3 > 0 end,
    tables = { topic = { resolve = function(c)
        return ("%s/%s at %d, %d"):format(c.mine, c.theirs, os.time(), math.random(1000000))
    end } },
}]]

describe("a policy that asks for the time and for random numbers", function()
    local k
    before_each(function() k = testkit.new { policy = POLICY, nodes = 3, seed = 6 } end)
    after_each(function() k:close() end)

    -- What each node has of the keys.
    local function contents(node, keys)
        local list = {}
        for i, key in ipairs(keys) do list[i] = k:get("topic", key, node) or false end
        return list
    end

    local function expect_equal(keys)
        k:settle()
        local expected = contents(k.leader, keys)
        for node = 0, 2 do assert.same(expected, contents(node, keys)) end
        return expected
    end

    it("leaves the same entries out on every node: those that its leader left out, once", function()
        local keys, logged = {}, 0
        for i = 1, 40 do
            keys[i] = "t" .. i
            logged = logged + (k:put("topic", keys[i], "v") == "logged" and 1 or 0)
            k:advance "700ms"
        end
        assert.is_true(logged > 5 and logged < 35, logged)
        local all = expect_equal(keys)
        for _, change in ipairs(k:dropped()) do
            for i, key in ipairs(keys) do
                if key == change.key then assert.is_false(all[i]) end
            end
        end
        k:power_loss(0)
        k:promote(1)
        k:follow(2)
        k:follow(0)
        assert.same(all, expect_equal(keys)) -- another leader, another state of the sandbox, the same entries
    end)

    it("merges a conflict to one value, which is what every node has, also after all of them were started anew", function()
        repeat until k:put("topic", "a", "0") == "logged" or k:advance "1s"
        k:settle()
        k:cut(0, 1, "silent")
        k:cut(0, 2, "silent")
        k:put("topic", "a", "mine")
        k:promote(1)
        k:follow(2)
        k:put("topic", "a", "theirs")
        k:heal(0, 1)
        k:heal(0, 2)
        k:follow(0)
        k:await(function() return #k:resolved(0) == 1 end, "20s", "the old leader's change is decided")
        local decided = k:expect_resolved { table = "topic", key = "a", outcome = "value", by = "function", mine = "mine", theirs = "theirs" }
        assert.matches("^mine/theirs at %d+, %d+$", decided.value)
        assert.same({ decided.value }, expect_equal { "a" })
        for node = 0, 2 do k:power_loss(node) end
        k:lead(1)
        k:follow(0)
        k:follow(2)
        assert.same({ decided.value }, expect_equal { "a" })
    end)
end)
