-- LuaJIT/LuaJIT#252, #501, #685, openresty/luajit2#98, tarantool/tarantool#843: "not enough memory" ends in a crash or a loop, or the
-- state stays unusable. Here the entry gets what the built-in policy says, the process lives, and the next calls run below the cap again.
local ms = require "spec.support.ms"
local kit = require "spec.support.policykit"
local C = ms.C

local BOMBS = {
    tables = 'local t = {} while true do t[#t + 1] = ("x"):rep(2 ^ 20) end',
    growing = 'local s = "x" while true do s = s .. s end',
    caught = 'local t = {} while true do pcall(function() t[#t + 1] = ("x"):rep(2 ^ 20) end) end',
    handler = 'local t = {} xpcall(function() while true do t[#t + 1] = ("x"):rep(2 ^ 20) end end, function(e) return e .. ("y"):rep(2 ^ 22) end)',
    coroutines = 'local t = {} while true do t[#t + 1] = coroutine.create(function() end) end',
}

describe("a function without end to its memory", function()
    for name, bomb in pairs(BOMBS) do
        it("leaves the entry in the view, and the policy usable: " .. name, function()
            local rules = kit.rules(([[
                local policy = { limits = { lua = { memory = "4MiB", instructions = 100000000, time = "1s", incidents = 1000 } } }
                function policy.filter(entry)
                    if entry.key:find("^bomb") then %s end
                    return entry.key ~= "out"
                end
                return policy]]):format(bomb))
            for round = 1, 20 do
                assert.equal("in", kit.decide(rules, "t", "bomb" .. round))
                ms.eventually(function() return kit.decide(rules, "t", "out") == "out" end, 10, "the policy answers again")
                assert.equal("in", kit.decide(rules, "t", "other"))
            end
            assert.is_true(tonumber(C.ms_lua_incidents(rules)) >= 20)
        end)
    end
end)
