-- CASES A35 (apache/rocketmq#7601, #7353): writes on a slave are lost, duplicated, or end in a null pointer. Here a follower refuses a
-- local write with a code, changes nothing and keeps nothing for later, whatever its policy says (docs/operations.md says so too).
local cluster = require "spec.support.cluster"
local policies = require "spec.support.policies"

describe("A35: a local write on a follower", function()
    for name, text in pairs { built_in = false, filter = "return { filter = function(entry) return false end }",
        patterns = "return { replicate = { exclude = { topic = { '*' } } } }" } do
        it("is refused with MS_E_NOT_LEADER (" .. name .. ")", cluster.test(function(c)
            local leader, follower = c:node "a", c:node "b"
            leader:start { "--lead" }
            follower.args = text and { "--policy", policies.write(c, "policy", text) } or {}
            follower:start { "--follow", leader.address }
            leader:put("topic", "t", "leader's")
            c:equal(leader, follower)
            for _, request in ipairs { { command = "put", table = "topic", key = "t", value = "mine" },
                { command = "delete", table = "topic", key = "t" }, { command = "put", table = "topic", key = "new", value = "mine" },
                { command = "put-batch", writes = { { table = "topic", key = "new", value = "mine" }, { table = "topic", key = "t" } } } } do
                assert.equal("MS_E_NOT_LEADER", follower:call(request).code, request.command)
            end
            local _, code, errors = follower:ctl("put", "topic", "new", "mine")
            assert.equal(1, code)
            assert.truthy(errors:find("not leader", 1, true), errors)
            c:equal(leader, follower)
            assert.equal("leader's", follower:get("topic", "t"))
            follower:must { command = "promote" } -- nothing was kept for later
            assert.is_nil(follower:get("topic", "new"))
            assert.equal("leader's", follower:get("topic", "t"))
        end))
    end
end)
