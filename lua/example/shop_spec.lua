-- How to test a policy, with busted:
--
--     LUA_PATH="/usr/local/share/metasync/lua/?.lua;;" busted --lua=luajit shop_spec.lua
--
-- Each test has a small cluster of its own, in virtual time: n0 leads, the others follow. Seconds cost nothing.
local here = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"
package.path = package.path .. ";" .. here .. "../?.lua" -- in the source tree, the kit is beside this folder

local kit = require "metasync.kit"

describe("the shop's policy", function()
    local k

    before_each(function() k = kit.new { policy = here .. "shop.lua", nodes = 3 } end)

    after_each(function()
        k:expect_no_incidents()
        k:close()
    end)

    it("has topics and groups on disk before a write returns, and on every follower soon after", function()
        local outcome, lsn = k:put("topic", "orders", '{"queues":8}')
        assert.equal("logged", outcome)
        k:reached(lsn, "disk")
        k:settle()
        k:expect_value(1, "topic", "orders", '{"queues":8}')
        k:expect_value(2, "topic", "orders", '{"queues":8}')
    end)

    it("keeps load tests and developers' machines to the broker where they are", function()
        assert.equal("local", k:put("topic", "loadtest-7", "{}"))
        assert.equal("local", k:put("group", "dev:alice", "{}"))
        assert.equal("local", k:put("offset", "dev:alice@orders", 5))
        k:advance "2s"
        k:expect_local("topic", "loadtest-7")
        k:expect_local("group", "dev:alice")
        k:expect_log_count("offset", 0)
    end)

    it("merges offsets for 300 ms at most", function()
        for offset = 1, 30 do
            k:put("offset", "billing@orders", offset)
            k:advance "50ms"
        end
        k:advance "300ms"
        k:expect_logged { table = "offset", key = "billing@orders", value = 30, within = "300ms" }
        assert.is_true(#k:log() < 20) -- and not one record for each of the 30
        k:settle()
        k:expect_value(1, "offset", "billing@orders", 30)
    end)

    it("never has more than 1,000 offsets at risk", function()
        for i = 1, 2500 do
            k:put("offset", "g" .. i .. "@orders", i)
            assert.is_true(k:at_risk "offset" <= 1000)
        end
    end)

    it("loses nothing of what was flushed when the leader dies", function()
        k:put("offset", "billing@orders", 100)
        k:advance "1s"
        k:power_loss(0)
        k:promote(1)
        k:follow(2)
        k:put("offset", "billing@orders", 101)
        k:flush()
        k:settle()
        k:expect_value(2, "offset", "billing@orders", 101)
    end)

    it("can be changed while it runs: what is wanted no more leaves, and stays with whoever had it", function()
        k:put("topic", "orders", "{}")
        k:put("topic", "old", "{}")
        k:settle()
        k:reload [[
            return { filter = function(entry) return entry.key ~= "old" end }
        ]]
        k:reviewed()
        k:expect_logged { table = "topic", key = "old", op = "leave" }
        k:expect_not_logged { table = "topic", key = "orders", op = "leave" }
    end)
end)
