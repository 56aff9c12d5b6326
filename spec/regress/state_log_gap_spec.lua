-- B5 (apache/kafka PR 12653, KAFKA-14240): the log starts at 100 but the newest snapshot is 80. Nobody may start with that gap.
-- B15 (tarantool/tarantool#7961): files between the snapshot and the last log deleted by hand must not crash anybody: what is asked for
--     and not there any more is "not found", for which a follower gets a snapshot.
local ms = require "spec.support.ms"
local crash = require "spec.support.crash"
local kit = require "spec.support.statekit"
local C = ms.C

local SEG = { segment = 1024 }

-- A generation "d" whose log has one lsn in each segment but for the first, with snapshots at `cuts`.
local function generation(head, cuts)
    local disk, history = crash.disk(1), kit.history()
    disk:mkdir "d"
    disk:sync_dir "/"
    local log = assert(kit.open(disk, "d", history, SEG))
    assert.equal(0, log:write { kit.define(1, "t") })
    for lsn = 2, head do
        assert.equal(0, log:write { kit.put("k" .. lsn % 5, ("x"):rep(900) .. lsn) })
        if cuts[lsn] then assert.is_truthy(kit.snapshot(log)) end
        log:sync()
    end
    while log:sync() ~= "nothing" do end
    return disk, history, log
end

describe("B5: a log that starts behind the newest snapshot", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    it("is refused with both numbers: the newest snapshot is deleted, the log trimmed to it", function()
        local disk, history, log = generation(30, { [20] = true, [25] = true })
        assert.equal(0, log:trim(25, 0))
        assert.equal(26, log:first())
        log:close()
        disk:remove("d/" .. kit.snapshot_name(25))
        local recovered, rc, why, _, store = kit.recover(disk, "d", history, SEG)
        assert.is_nil(recovered)
        assert.equal(C.MS_E_DAMAGED, rc)
        assert.truthy(why:find("starts with lsn 26", 1, true) and why:find("end at lsn 20", 1, true), why)
        assert.equal("0", kit.state(store))
    end)

    it("is refused too if all snapshots are gone, or if the newest one is damaged", function()
        for _, case in ipairs { "gone", "damaged" } do
            local disk, history, log = generation(30, { [20] = true, [25] = true })
            assert.equal(0, log:trim(25, 0))
            log:close()
            if case == "gone" then
                disk:remove("d/" .. kit.snapshot_name(20))
                disk:remove("d/" .. kit.snapshot_name(25))
            else
                C.ms_sim_fs_corrupt(disk.sim, "d/" .. kit.snapshot_name(25), 200, 1)
            end
            local recovered, rc = kit.recover(disk, "d", history, SEG)
            assert.is_nil(recovered)
            assert.equal(C.MS_E_DAMAGED, rc)
        end
    end)

    it("is no gap if it starts right behind the older snapshot", function()
        local disk, history, log = generation(30, { [20] = true, [25] = true })
        assert.equal(0, log:trim(20, 0))
        assert.equal(21, log:first())
        log:close()
        disk:remove("d/" .. kit.snapshot_name(25))
        local recovered, store, recovery = kit.recover(disk, "d", history, SEG)
        assert.equal(20, tonumber(recovery.snapshot_end))
        assert.equal(history:state(30), kit.state(store))
        recovered:close()
    end)
end)

describe("B15: files between the snapshot and the last log that somebody deleted", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    it("don't matter to a start if the snapshot has what they held; asking for it is 'not found'", function()
        local disk, history, log = generation(30, { [25] = true })
        log:close()
        for number = 15, 20 do disk:remove("d/" .. kit.segment_name(number)) end
        local recovered, store = kit.recover(disk, "d", history, SEG)
        assert.equal(history:state(30), kit.state(store))
        local first = recovered:first()
        assert.is_true(first > 15 and first <= 26)
        for _, from in ipairs { 1, 10, 15, first - 1, 32, 1000 } do
            local groups, rc = kit.read(disk, "d", from, 30)
            assert.is_nil(groups, "lsn " .. from)
            assert.equal(C.MS_E_NOT_FOUND, rc)
        end
        assert.equal(30 - first + 1, #assert(kit.read(disk, "d", first, 30)))
        recovered:close()
    end)

    it("of a running node end a reader with 'not found', not with a crash or wrong groups", function()
        local disk, _, log = generation(30, {})
        for number = 15, 20 do disk:remove("d/" .. kit.segment_name(number)) end
        local groups, rc, _, seen = kit.read(disk, "d", 2, 30)
        assert.is_nil(groups)
        assert.equal(C.MS_E_NOT_FOUND, rc)
        for n, group in ipairs(seen) do assert.equal(n + 1, group.first) end
        log:close()
    end)

    it("are damage if nothing else has what they held", function()
        local disk, history, log = generation(30, {})
        log:close()
        for number = 15, 20 do disk:remove("d/" .. kit.segment_name(number)) end
        assert.equal(C.MS_E_DAMAGED, (select(2, kit.recover(disk, "d", history, SEG))))
    end)
end)
