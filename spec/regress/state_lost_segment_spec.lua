-- B13 (tarantool/tarantool#3210, #12264), the log's part: a node that lost its last log file starts with what is left, and goes on from
--     there; records that others still have are theirs to drop, because the next start as leader opens a new epoch.
local crash = require "spec.support.crash"
local kit = require "spec.support.statekit"

local SEG = { segment = 1024 }

local function names_of(disk, what)
    local names = {}
    for _, name in ipairs(disk:list "d") do
        if name:find("^" .. what) then names[#names + 1] = name end
    end
    return names
end

describe("B13: a log whose last segment is lost", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    -- A log of 20 lsns in segments of four, perhaps with a prepared one behind, perhaps with a snapshot at 20.
    local function lost(options)
        local disk, history = crash.disk(1), kit.history()
        disk:mkdir "d"
        disk:sync_dir "/"
        local log = assert(kit.open(disk, "d", history, SEG))
        assert.equal(0, log:write { kit.define(1, "t"), kit.epoch(1, 1, 1) })
        for lsn = 3, 20 do assert.equal(0, log:write { kit.put("k" .. lsn, ("x"):rep(180)) }) end
        while log:sync() ~= "nothing" do end
        if options.snapshot then assert.equal(20, kit.snapshot(log)) end
        if options.prepared then assert.equal(1, log:prepare()) end
        local written = names_of(disk, "log")
        log:close()
        disk:remove("d/" .. written[#written - (options.prepared and 1 or 0)])
        return disk, history
    end

    it("ends with the segment before, whether or not a prepared one stands behind the lost one", function()
        for _, prepared in ipairs { true, false } do
            local disk, history = lost { prepared = prepared }
            local log, store = kit.recover(disk, "d", history, SEG)
            assert.is_truthy(log, store)
            local written = log:written()
            assert.is_true(written < 20 and written > 10)
            assert.equal(history:state(written), kit.state(store))
            history:cut(written)
            -- The next leader's epoch: other records with the lsns that were lost.
            assert.equal(0, log:write { kit.epoch(1, 2, 9), kit.put("other", "1") })
            log:sync()
            log:close()
            local again, folded = kit.recover(disk, "d", history, SEG)
            assert.equal(written + 2, again:written())
            assert.equal(history:state(), kit.state(folded))
            assert.same({ 2, written + 1 }, { folded.lineage.count, tonumber(folded.lineage.entries[1].first) })
            again:close()
        end
    end)

    it("is replaced by a fresh one behind the snapshot, if a snapshot is ahead of what is left", function()
        for _, prepared in ipairs { true, false } do
            local disk, history = lost { prepared = prepared, snapshot = true }
            local log, store = kit.recover(disk, "d", history, SEG)
            assert.same({ 21, 20, 20 }, { log:first(), log:written(), log:synced() })
            assert.equal(history:state(20), kit.state(store))
            assert.same({}, names_of(disk, "log"))
            assert.equal(0, log:write { kit.epoch(1, 2, 9), kit.put("other", "1") })
            log:sync()
            log:close()
            local again, folded = kit.recover(disk, "d", history, SEG)
            assert.same({ 21, 22 }, { again:first(), again:written() })
            assert.equal(history:state(), kit.state(folded))
            again:close()
        end
    end)
end)
