-- 3scale/APIcast#626: JSON null became a userdata of which # fails. null is metasync.null, absent is nil, and the difference survives.
local kit = require "spec.support.policykit"

local VALUE = '{"attributes":null,"subscriptionDataSet":null}'

describe("null in a value", function()
    local function resolved(body)
        local rules = kit.rules("return { tables = { group = { type = 'json' } }, resolve = function(c) " .. body .. " end }")
        local outcome, value, by = kit.resolve(rules, { table = "group", mine = VALUE, theirs = "{}" })
        assert.equal("function", by, (kit.describe(rules).by_name.resolve.last or {}).message)
        return outcome, value
    end

    it("is a documented mark, absent is nil", function()
        assert.equal("mine", (resolved [[
            assert(c.mine.attributes == metasync.null and c.mine.attributes ~= nil and c.mine.nothing == nil)
            assert(metasync.type(c.mine.attributes) == "null" and tostring(c.mine.attributes) == "metasync.null")
            return c.mine]]))
    end)

    it("goes through untouched, beside a change, and can be put and taken away", function()
        assert.equal('{"attributes":null,"subscriptionDataSet":null,"x":1}', (select(2, resolved "c.mine.x = 1 return c.mine")))
        assert.equal('{"subscriptionDataSet":null,"x":null}', (select(2, resolved "c.mine.attributes = nil c.mine.x = metasync.null return c.mine")))
        assert.equal('{"attributes":{},"subscriptionDataSet":null}', (select(2, resolved "c.mine.attributes = {} return c.mine")))
    end)
end)
