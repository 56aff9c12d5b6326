-- CASES C10 (eclipse-mosquitto/mosquitto#2167, #965, #849, #1521): SIGHUP (also sent by log rotation) crashes the broker, or disconnects
-- clients and resets state. A hundred of them under load, with and without a change of the file: no reconnect, no bootstrap, positions
-- only rise, and both nodes are equal in the end.
local cluster = require "spec.support.cluster"
local Load = require "spec.support.load"
local policies = require "spec.support.policies"
local process = require "spec.support.process"

local POLICY = [[return { name = "p%d", reload = { leave = "100%%" }, tables = { offset = { buffer = { interval = "%dms" } } } }]]

describe("C10: SIGHUP", function()
    it("a hundred times under load disturbs nothing", cluster.test(function(c)
        local path = policies.write(c, "policy", POLICY:format(0, 5))
        local leader, follower = c:pair { "--policy", path }
        local load = Load.new({ "topic", "offset" }, 4)
        load:connect(leader)
        assert.is_true(load:run(0.3))
        local links, applied = policies.links(leader, follower), follower:status().applied
        for i = 1, 100 do
            if i % 2 == 0 then policies.write(c, "policy", POLICY:format(i, 5 + i % 10)) end
            leader.process:kill(process.SIGHUP)
            follower.process:kill(process.SIGHUP)
            assert.is_true(load:run(0.02), "the leader refused " .. tostring(load.refused))
            if i % 10 == 0 then
                local now = follower:status().applied
                assert.is_true(now >= applied, "the follower's position went back")
                applied = now
            end
        end
        assert.is_true(load:run(0.3))
        load:finish()
        leader:wait("has the last policy", function(s) return s.policy.name == "p100" and s.policy.reloads > 10 end)
        assert.equal(links, policies.links(leader, follower))
        assert.equal(0, policies.of(leader).refused)
        c:equal(leader, follower)
        load:check(leader)
    end))
end)
