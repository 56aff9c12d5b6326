-- CASES C8 (aidanholm/luakit#231, AltraMayor/gatekeeper#651): a reload into a dirty state; a reload that fails and says nothing.
-- A file with a syntax error, with an error at load, with a call of a function that is missing: the old policy goes on, the caller
-- gets the error with its place, and the version (hash, number of reloads) stays.
local cluster = require "spec.support.cluster"
local policies = require "spec.support.policies"
local process = require "spec.support.process"

local BAD = {
    { "a syntax error", "return { name = 'x'", "policy.lua:1" },
    { "an error while it loads", "local t = nil\nreturn { name = t.x }", "policy.lua:2" },
    { "a missing function", "return { name = nosuch('x') }", "nosuch" },
    { "a missing module", "require 'nosuch'\nreturn {}", "nosuch" },
    { "nothing returned", "local policy = {}", "policy.lua" },
}

describe("C8: a reload of a bad policy", function()
    for _, case in ipairs(BAD) do
        it("with " .. case[1] .. " changes nothing and says why", cluster.test(function(c)
            local path = policies.write(c, "policy", "return { name = 'old', filter = function(entry) return entry.key ~= 'out' end }")
            local node = c:node "a":start { "--lead", "--policy", path }
            local before = policies.of(node)
            policies.write(c, "policy", case[2])
            local reply = node:call "policy_reload"
            assert.is_false(reply.ok)
            assert.truthy(reply.error:find(case[3], 1, true), reply.error)
            local after = policies.of(node)
            assert.same({ before.name, before.hash, before.reloads, before.loaded_us }, { after.name, after.hash, after.reloads, after.loaded_us })
            process.eventually("the log says so", function() return node:log_text():find("refused, the old one stays", 1, true) end)
            -- It is the old one that decides.
            node:put("topic", "in", "x")
            assert.is_true(node:call { command = "put", table = "topic", key = "out", value = "x" }.ok)
            assert.equal("x", node:get("topic", "in"))
            assert.is_nil(node:get("topic", "out"))
        end))
    end
end)
