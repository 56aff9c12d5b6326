-- redis/redis#1725, #1724: math.MASTER = true on the master made scripts decide otherwise on the slave. Library tables are read-only here, and
-- only the leader decides.
local kit = require "spec.support.policykit"

describe("a library table", function()
    for _, name in ipairs { "math", "string", "table", "bit", "os", "coroutine", "metasync" } do
        it(("can't carry state of a policy: %s"):format(name), function()
            local text = ([[
                return { filter = function(e)
                    local set = pcall(function() NAME.MASTER = true end) or pcall(rawset, NAME, "MASTER", true)
                        or pcall(setmetatable, NAME, { __index = { MASTER = true } })
                    return not set and NAME.MASTER == nil
                end }]]):gsub("NAME", name)
            local rules = kit.rules(text)
            assert.equal("in", kit.decide(rules, "t", "k"))
            local other = kit.rules("return { filter = function(e) return " .. name .. ".MASTER == nil end }")
            assert.equal("in", kit.decide(other, "t", "k"))
        end)
    end
end)
