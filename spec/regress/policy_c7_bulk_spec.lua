-- haproxy/haproxy#2903, #2356, #3241: helpers written in C were slow and the Lua budget did not see them; a bulk call failed above 101 items.
-- What C does for a policy is charged, and there is no size at which things change.
local ms = require "spec.support.ms"
local kit = require "spec.support.policykit"

local function conflict(mine) return { table = "j", mine = mine, theirs = "{}" } end

local function resolving(body, more)
    return kit.rules(("return { %s tables = { j = { type = 'json' } }, resolve = function(c) %s end }"):format(more or "", body))
end

local ROOMY = "limits = { lua = { instructions = 1e8, time = '1s', memory = '256MiB' } },"

describe("work that is done in C", function()
    for what, body in pairs { parsing = "return c.mine[1]", ["walking a list"] = "for _ in metasync.each(c.mine) do end",
        ["making text"] = "return metasync.text(metasync.json(metasync.text(c.mine)))", copying = "c.theirs.x = c.mine return c.theirs" } do
        it(("of a million offsets is counted: %s"):format(what), function()
            local rules, list = resolving(body), "[" .. ("12345,"):rep(1000000) .. "0]"
            local began = ms.now()
            local _, _, by = kit.resolve(rules, conflict(list))
            assert.equal("incident", by)
            assert.is_true(ms.now() - began < 1)
            local why = kit.describe(rules).by_name.resolve.last.message
            assert.is_truthy(why:find("instructions") or why:find("not enough memory"), why)
        end)
    end

    for _, count in ipairs { 100, 101, 102, 1000, 100000 } do
        it(("gives back %d results as it gives back one"):format(count), function()
            local rules = resolving(("local t = {} for i = 1, %d do t[i] = i end return t"):format(count), ROOMY)
            local _, value, by = kit.resolve(rules, conflict "{}")
            assert.equal("function", by)
            local _, commas = value:gsub(",", ",")
            assert.equal(count - 1, commas)
            local sum = resolving("local n = 0 for _, v in metasync.each(c.mine) do n = n + v end return metasync.text(n)", ROOMY)
            local _, text = kit.resolve(sum, conflict(value))
            assert.equal(("%.0f"):format(count * (count + 1) / 2), text)
        end)
    end
end)
