-- B11 (tarantool/tarantool#1910, #4078): a log file with nothing but a header looks like a gap. It is none, wherever it stands: after a
--     rotation without records, between two others, several in a row, at the end, alone.
local crash = require "spec.support.crash"
local kit = require "spec.support.statekit"

local SEG = { segment = 1024 }

describe("B11: a segment with a header and no group", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    -- groups: for each segment, how many groups it has; -1 = not even a header. Each group has two lsns.
    local function recovered(groups)
        local history, image, synced = kit.history(), {}, 0
        for number, count in ipairs(groups) do
            local first, sealed = history.head + 1, {}
            for n = 1, math.max(count, 0) do
                local lsn = history.head + 1
                local changes = lsn == 1 and { kit.define(1, "t"), kit.put("a", "0") } or { kit.put("a", "" .. lsn), kit.put("k" .. lsn, "1") }
                history:add(changes)
                sealed[n] = kit.group(changes, lsn, { synced = synced })
                synced = history.head
            end
            image[kit.segment_name(number)] = kit.segment(number, count >= 0 and first or nil, sealed, 1024)
        end
        local disk = kit.restore(crash.disk(1), "d", image)
        local log, rc, why = kit.open(disk, "d", history, SEG)
        assert.is_truthy(log, tostring(rc) .. ": " .. tostring(why))
        assert.equal(history.head, log:written())
        assert.equal(history:state(), kit.state(log.store))
        assert.equal(history.head > 0 and #history.groups or 0, #assert(kit.read(disk, "d", 0)))
        if history.head == 0 then assert.equal(0, log:write { kit.define(1, "t") }) end
        -- It goes on, and does so after the next start.
        for n = 1, 12 do assert.equal(0, log:write { kit.put("new" .. n, ("x"):rep(200)) }) end
        log:close()
        local again = assert(kit.open(disk, "d", history, SEG))
        assert.equal(history:state(), kit.state(again.store))
        assert.equal(#history.groups, #assert(kit.read(disk, "d", 1, history.head)))
        again:close()
    end

    it("between two others is no gap", function() recovered { 2, 0, 3 } end)
    it("several in a row are no gap", function() recovered { 2, 0, 0, 0, 3, 0, 1 } end)
    it("at the end, with and without a prepared one behind, is where the log goes on", function()
        recovered { 2, 0 }
        recovered { 2, 0, -1 }
        recovered { 2, 0, 0, -1, -1 }
    end)
    it("at the start is no gap", function() recovered { 0, 0, 2 } end)
    it("alone is an empty log", function()
        recovered { 0 }
        recovered { 0, -1 }
        recovered { -1 }
    end)

    it("is left by a group that is too large for the prepared segment, and read over", function()
        local disk = crash.disk(1)
        disk:mkdir "d"
        local log = assert(kit.open(disk, "d", kit.history(), SEG))
        assert.equal(0, log:write { kit.define(1, "t") })
        assert.equal(1, log:prepare(64))
        assert.equal(0, log:write { kit.put("large", ("x"):rep(3000)) })
        assert.equal(kit.segment(2, 2, {}, 1024), disk:get("d/" .. kit.segment_name(2)))
        log:close()
        local again = assert(kit.open(disk, "d", log.history, SEG))
        assert.equal(log.history:state(), kit.state(again.store))
        assert.equal(2, #assert(kit.read(disk, "d", 0)))
        again:close()
    end)
end)
