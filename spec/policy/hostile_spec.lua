-- Each script of spec/support/hostile.lua in a sandbox: it ends as it should, within the bound, and what is left works.
local sandbox = require "spec.support.sandbox"
local scripts = require "spec.support.hostile"
local ms = require "spec.support.ms"

-- Processor time of a call: its limit, and what the last instruction, the unwinding and the machine may add.
local LIMITS = { instructions = 2000000, time_us = 5000, memory = 8 * 2 ^ 20 }
local BOUND_US = (ms.library:match("asan") and 20 or 1) * (LIMITS.time_us + 10000)

local function contains(list, what)
    if type(list) == "string" then return list == what end
    for _, one in ipairs(list) do
        if one == what then return true end
    end
    return false
end

local function check(script, ok, result, hurried)
    local outcome = ok and "ok" or result.code
    if outcome == "limit" and hurried then return end
    local detail = ok and tostring(result) or ("%s:%d: %s"):format(result.file, result.line, result.message)
    assert(contains(script.outcome, outcome), ("%s: %s"):format(outcome, detail))
    if script.message and outcome == "error" then assert.truthy(result.message:find(script.message), result.message) end
    if script.result and outcome == "ok" then assert.equal(script.result, result) end
    if not ok then assert.is_nil(result.message:find("%c"), "control characters in the message") end
end

describe("a hostile script", function()
    it("has company: there are many of them", function()
        assert.is_true(#scripts >= 40)
    end)

    for _, limits in ipairs { { "time and instructions", LIMITS.instructions, LIMITS.time_us },
        { "instructions alone", 200000, 0 }, { "little time", 100000000, 1000 } } do
        for _, script in ipairs(scripts) do
            it(("bounded by %s: %s"):format(limits[1], script.name), function()
                local box = sandbox.new { instructions = limits[2], time_us = limits[3], memory = LIMITS.memory }
                local from = sandbox.cpu_us()
                local ok, result = box:run(script.code, "@hostile.lua")
                local spent = sandbox.cpu_us() - from
                check(script, ok, result, limits[3] == 1000)
                if limits[3] > 0 then assert.is_true(spent < BOUND_US, ("took %d us"):format(spent)) end
                assert.is_true(box:memory() <= LIMITS.memory + 65536, "memory " .. box:memory())

                -- The state goes on, or says that it is spoiled and leaves nothing behind.
                if box:spoiled() then
                    assert.equal("memory", result.code)
                    box:close()
                    box = sandbox.new(LIMITS)
                end
                assert.equal("2 x", ({ box:run "local s = 1 + 1 return s .. ' x'" })[2])
                assert.equal("limit", box:run("while true do end") and "ran" or "limit")
                box:close()
            end)
        end
    end
end)
