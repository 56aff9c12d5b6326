-- drive/hold: ticks of the processor's counter become microseconds, and long holds are counted by their length.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local RATE = 2000 -- ticks a microsecond, of the holds below

-- A hold that seems to have begun so long ago that what the processor does between two readings says nothing any more.
local function new_hold()
    local hold = ffi.new "struct ms_hold"
    C.ms_hold_init(hold)
    hold.first_us = hold.first_us - 1000000000ULL
    hold.first_tick = hold.first_tick - 1000000000ULL * RATE
    return hold
end

local function counts(hold)
    local list = {}
    for i = 0, C.MS_HOLD_BOUND_COUNT - 1 do list[i + 1] = tonumber(hold.over[i]) end
    return list
end

describe("a hold of the lock", function()
    it("is counted under every bound that it exceeds, if the thread kept its processor", function()
        local hold = new_hold()
        C.ms_hold_long(hold, 700 * RATE, true)
        assert.is_true(hold.max_us >= 690 and hold.max_us <= 710, tostring(hold.max_us))
        assert.same({ 1, 1, 1, 0, 0, 0, 0 }, counts(hold)) -- over 100, 200, 500; not over 1000
    end)

    -- The kernel goes on reading what a watch names, and ends the process if that is gone with the library.
    it("leaves no watch behind, however short it is", function()
        if C.ms_core_kept() then return end -- this system can't tell, and watches nothing
        local hold = new_hold()
        for _ = 1, 100 do
            C.ms_hold_begin(hold)
            C.ms_hold_end(hold)
            assert.is_false(C.ms_core_kept())
        end
    end)

    it("stands apart if it did not, and does not count if its processor's counter is behind", function()
        local hold = new_hold()
        C.ms_hold_long(hold, 3000 * RATE, false)
        C.ms_hold_long(hold, ffi.cast("uint64_t", -5LL), true)
        assert.equal(0, tonumber(hold.max_us))
        assert.same({ 0, 0, 0, 0, 0, 0, 0 }, counts(hold))
        assert.is_true(hold.cut_us >= 2900 and hold.cut_us <= 3100, tostring(hold.cut_us))
    end)
end)
