-- B18 (nats-io/nats-server#8036): after a power loss the consumers' ack floor was 1 again.
local simkit = require "spec.support.simkit"
local ms = require "spec.support.ms"

local function number(text)
    local out = ms.ffi.new "int64_t[1]"
    assert.equal(0, ms.C.ms_int64_get(ms.bytes(text), out))
    return tonumber(out[0])
end

describe("B18: buffered offsets", function()
    after_each(simkit.free_all)

    for _, how in ipairs { "kill", "power_loss" } do
        it("go back at most to the last flush that was synced, never to 0: " .. how, function()
            for seed = 1, 8 do
                local s = simkit.new { nodes = 2, seed = seed }
                s:begin()
                local floor = 0
                for offset = 1, 300 do
                    s:put(0, "offset", "t@g:0", simkit.int64(offset))
                    if offset % 70 == 0 then
                        s:flush(0)
                        s:reached(0, s:position(0).head, "disk")
                        floor = offset
                    end
                    s:run(0.2)
                end
                s[how](s, 0)
                s:lead(0)
                local value = number(s:get(0, "offset", "t@g:0"))
                assert.is_true(value >= floor and value <= 300, ("%d, synced was %d"):format(value, floor))
                s:settle(0)
                assert.equal(value, number(s:get(1, "offset", "t@g:0")))
                simkit.free_all()
            end
        end)
    end

    it("are on the promoted follower at least as far as they were confirmed", function()
        local s = simkit.new()
        s:begin()
        for offset = 1, 100 do s:put(0, "offset", "t@g:0", simkit.int64(offset)) end
        s:flush(0)
        s:reached(0, s:insist(0, "replica", "fence", "1"), "replica")
        s:put(0, "offset", "t@g:0", simkit.int64(101)) -- in the buffer only
        s:power_loss(0)
        s:promote(1)
        assert.is_true(number(s:get(1, "offset", "t@g:0")) >= 100)
    end)
end)
