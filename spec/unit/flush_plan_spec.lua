-- sync/flush: when a buffer is logged: intervals, plans of a policy's function, bounds of what may be at risk.
local ms = require "spec.support.ms"
local hand = require "spec.support.hand"
local C = ms.C

local function leader(fields, rules)
    local tables = { { name = "offset" } }
    for name, value in pairs(fields) do tables[1][name] = value end
    local h = rules and hand.new { rules = hand.rules { flush = rules, tables = tables, out = "never" } } or hand.new { tables = tables }
    return h, h:table "offset"
end

local function dirty(state) return tonumber(C.ms_buffer_entries(state)) end

-- Puts a new key and says in which millisecond the buffer was empty again.
local function flushed_after(h, state, key)
    local began = h:now()
    assert.equal(0, (h:put(state, key, "x")))
    for _ = 1, 100000 do
        if dirty(state) == 0 then return h:now() - began end
        h:turn(1)
    end
end

describe("a buffer", function()
    after_each(hand.free_all)

    it("is logged an interval after its first value", function()
        local h, offset = leader { interval_ms = 200 }
        assert.equal(200, flushed_after(h, offset, "a"))
        h:turn(777)
        assert.equal(200, flushed_after(h, offset, "b"))
    end)

    it("is empty after a flush, whatever an earlier one has left in it", function()
        local h, offset = leader { interval_ms = 60000 }
        for i = 1, 3 do assert.equal(0, (h:put(offset, "old" .. i, "x"))) end
        assert.equal(1, C.ms_engine_flush(h.engine, nil, 1))
        for i = 1, 3 do assert.equal(0, (h:put(offset, "new" .. i, "x"))) end
        assert.equal(0, C.ms_engine_flush(h.engine, nil, 100))
        assert.equal(0, dirty(offset))
    end)

    it("is logged at half of the time that a value may be at risk", function()
        local h, offset = leader { interval_ms = 1000, at_risk_ms = 300 }
        assert.equal(150, flushed_after(h, offset, "a"))
        -- also what comes while there is always something dirty: no value ever gets as old as 300 ms
        local oldest = 0
        for i = 1, 3000 do
            assert.equal(0, (h:put(offset, "k" .. i, "x")))
            h:turn(1)
            local since = tonumber(C.ms_flush_oldest(h.engine, offset))
            if since > 0 then oldest = math.max(oldest, h:now() - since / 1000) end
        end
        assert.is_true(oldest <= 151, tostring(oldest))
        assert.is_true(oldest >= 149, tostring(oldest))
    end)

    it("is logged early at half of the entries, or bytes, that may be at risk", function()
        local h, offset = leader { interval_ms = 60000, at_risk_entries = 10 }
        for i = 1, 5 do assert.equal(0, (h:put(offset, "k" .. i, "x"))) end
        h:turn(1)
        assert.equal(0, dirty(offset))
        h, offset = leader { interval_ms = 60000, at_risk_bytes = 1000 }
        for i = 1, 5 do assert.equal(0, (h:put(offset, "k" .. i, ("x"):rep(99)))) end
        h:turn(1)
        assert.equal(0, dirty(offset))
    end)

    it("never holds more than may be at risk, though nobody turns the clock", function()
        local h, offset = leader { interval_ms = 60000, at_risk_entries = 100, at_risk_bytes = 2000 }
        for i = 1, 5000 do
            assert.equal(0, (h:put(offset, "k" .. i, ("x"):rep(i % 60))))
            assert.is_true(dirty(offset) <= 100)
            assert.is_true(tonumber(C.ms_buffer_bytes(offset)) <= 2000)
        end
        assert.equal(0, (h:put(offset, "large", ("x"):rep(3000)))) -- alone too much: logged before the put returns
        assert.equal(0, dirty(offset))
        assert.equal(0, h:counter "at_risk_exceeded")
        ms.check(C.ms_table_verify(offset))
    end)

    it("holds more only while the log takes nothing, and counts that", function()
        local h, offset = leader { interval_ms = 60000, at_risk_entries = 10 }
        h.engine.tail.unwritten = 2 ^ 40
        for i = 1, 12 do assert.equal(0, (h:put(offset, "k" .. i, "x"))) end
        assert.equal(12, dirty(offset))
        assert.equal(2, h:counter "at_risk_exceeded")
        h.engine.tail.unwritten = 0
        assert.equal(0, (h:put(offset, "k13", "x")))
        assert.is_true(dirty(offset) <= 10)
    end)

    it("keeps a batch one group although its bounds are kept", function()
        local tables = { { name = "offset", interval_ms = 60000, at_risk_entries = 4 }, { name = "topic", level = C.MS_LEVEL_DISK } }
        local h = hand.new { tables = tables }
        local offset, topic = h:table "offset", h:table "topic"
        local ffi = ms.ffi
        local n = 40
        local writes, kept = ffi.new("struct ms_engine_write[?]", n), {}
        for i = 0, n - 1 do
            kept[i] = { ms.bytes("k" .. i), ms.bytes(("v"):rep(200)) }
            writes[i] = C.ms_engine_write(i % 2 == 0 and offset or topic, kept[i][1], C.ms_key_hash(kept[i][1]), kept[i][2])
        end
        local lsn, level = ffi.new "uint64_t[1]", ffi.new "int[1]"
        assert.equal(0, C.ms_engine_commit_batch(h.engine, writes, n, lsn, level))
        assert.is_true(dirty(offset) <= 4)
        h:settle()
        ms.check(C.ms_table_verify(offset))
        ms.check(C.ms_table_verify(topic))
        assert.equal(20, tonumber(topic.content.count))
        assert.is_true(kept[0] ~= nil)
    end)
end)

describe("a plan", function()
    after_each(hand.free_all)

    it("is asked for when a flush has been written, and holds from the first value on", function()
        local seen = {}
        local h, offset = leader({ interval_ms = 200 }, function(stats)
            seen[#seen + 1] = { entries = tonumber(stats.entries), interval = tonumber(stats.interval_us), rate = stats.rate,
                name = ms.ffi.string(stats.table), took = tonumber(stats.flush_us) }
            return 50000
        end)
        assert.equal(200, flushed_after(h, offset, "a"))
        assert.equal(1, #seen)
        assert.equal("offset", seen[1].name)
        assert.equal(200000, seen[1].interval)
        assert.is_true(math.abs(seen[1].rate - 5) < 0.1) -- one put in 200 ms
        h:turn(500)
        assert.equal(50, flushed_after(h, offset, "b"))
        assert.equal(2, #seen)
    end)

    it("is clipped to 1 ms .. 60 s, and to what may be at risk", function()
        local say = 1
        local h, offset = leader({ interval_ms = 200, at_risk_ms = 0 }, function() return say end)
        flushed_after(h, offset, "a")
        say = 3600e6
        assert.equal(1, flushed_after(h, offset, "b"))
        assert.equal(60000, flushed_after(h, offset, "c"))
        h, offset = leader({ interval_ms = 200, at_risk_ms = 100 }, function() return 3600e6 end)
        flushed_after(h, offset, "a")
        assert.equal(50, flushed_after(h, offset, "b"))
    end)

    it("that is not made leaves the policy's interval; the one before holds without an answer", function()
        local say = 70000
        local h, offset = leader({ interval_ms = 200 }, function() return say end)
        flushed_after(h, offset, "a")
        C.ms_engine_flush_plan(h.engine, offset.id, 0)
        assert.equal(200, flushed_after(h, offset, "b"))
        say = 0 -- nothing to say from now on
        assert.equal(70, flushed_after(h, offset, "c"))
        assert.equal(70, flushed_after(h, offset, "d"))
    end)

    it("moves a flush that is due already", function()
        local h, offset = leader { interval_ms = 10000 }
        assert.equal(0, (h:put(offset, "a", "x")))
        h:turn(100)
        C.ms_engine_flush_plan(h.engine, offset.id, 300000)
        h:turn(199)
        assert.equal(1, dirty(offset))
        h:turn(2)
        assert.equal(0, dirty(offset))
    end)

    it("for a table that is not there, or not buffered, changes nothing", function()
        local h = leader { interval_ms = 200 }
        local topic = h:table "topic"
        for _, id in ipairs { 0, 200, 255, 256, 100000, topic.id } do C.ms_engine_flush_plan(h.engine, id, 5000) end
        assert.equal(0, tonumber(h.engine.plans[topic.id].plan_us))
    end)
end)
