-- redis/redis#466, #9581, valkey-io/valkey#1783: a script that has already written can't be killed without leaving half of its work. A policy
-- acts by what it returns, so that a call that is ended has done nothing.
local kit = require "spec.support.policykit"

describe("a function that is ended half-way", function()
    it("has changed nothing, neither values nor what the next call sees", function()
        local rules = kit.rules [[
            return { tables = { j = { type = "json" } }, resolve = function(c)
                c.mine.first = 1
                c.theirs.first = 1
                if c.key == "hang" then while true do end end
                c.mine.second = 2
                return c.mine
            end }]]
        local conflict = { table = "j", key = "hang", mine = '{"a":1}', theirs = '{"b":2}' }
        local outcome, value, by = kit.resolve(rules, conflict)
        assert.same({ "theirs", nil, "incident" }, { outcome, value, by })
        conflict.key = "go"
        outcome, value = kit.resolve(rules, conflict)
        assert.same({ "value", '{"a":1,"first":1,"second":2}' }, { outcome, value })
    end)
end)
