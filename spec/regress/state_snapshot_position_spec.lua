-- B6 (apache/kafka PR 11386): the position was taken from a batch header, not from the snapshot's last record. The tail must start
--    exactly behind the last record that the snapshot has, whatever the file is called and whatever its parts say.
-- B23 (rabbitmq/rabbitmq-server#5337, #3859): a half-done import is loaded again at each start. After a kill in the middle of making or
--    taking over a snapshot there are the old tables, or all of the new ones.
local ms = require "spec.support.ms"
local crash = require "spec.support.crash"
local kit = require "spec.support.statekit"
local C, ffi = ms.C, ms.ffi

local SEG = { segment = 1024 }
local META, ENTRIES = 2, 1

local function new_log(seed)
    local disk = crash.disk(seed or 1)
    disk:mkdir "d"
    disk:sync_dir "/"
    local log = assert(kit.open(disk, "d", kit.history(), SEG))
    assert.equal(0, log:write { kit.define(1, "t"), kit.put("a", "0") })
    return log
end

describe("B6: a snapshot's position", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    it("is that of its last record: the tail starts one behind it, with groups of several lsns before and behind", function()
        for tail = 0, 4 do
            local log = new_log()
            for n = 1, 5 do assert.equal(0, log:write { kit.put("a", "" .. n), kit.put("b", "" .. n), kit.delete "a" }) end
            local ended = assert(kit.snapshot(log, { bytes = 10, each = function()
                if log.history.head < 22 then assert.equal(0, log:write { kit.put("c", "x"), kit.put("a", "y") }) end
            end }))
            assert.equal(23, ended)
            for n = 1, tail do assert.equal(0, log:write { kit.put("a", "tail" .. n), kit.put("d", "1") }) end
            log:sync()
            log:close()
            local again, store, recovery = kit.recover(log.disk, "d", log.history, SEG)
            assert.equal(23, tonumber(recovery.snapshot_end))
            assert.equal(23 + 2 * tail, again:written())
            assert.same(log.history:tables(), kit.tables(store))
            local next_group = kit.read(log.disk, "d", 24, again:written())
            assert.equal(tail, next_group and #next_group or 0)
            again:close()
        end
    end)

    it("is not believed if it is not that of its records", function()
        local model = kit.store()
        ms.check(kit.fold(model, { kit.define(1, "t"), kit.put("a", "1") }))
        for claimed = 0, 4 do
            local parts = {
                kit.group({ kit.raw(16, kit.varint(2) .. kit.u64(5) .. "test"), kit.raw(17, "\0"), kit.define(1, "t") }, 0, { flags = META }),
                kit.group({ kit.put("a", "1") }, 1, { flags = ENTRIES }),
                kit.group({ kit.raw(17, "\0"), kit.mark(model), kit.raw(18, kit.varint(claimed) .. kit.varint(1)) }, 0, { flags = META }),
            }
            local disk = kit.restore(crash.disk(1), "d", { [kit.snapshot_name(claimed)] = table.concat(parts) })
            local log, store, recovery, refused = kit.recover(disk, "d", kit.history(), SEG)
            if claimed == 2 then
                assert.equal(0, recovery.bad_snapshots)
                assert.equal(2, log:written())
                assert.equal(kit.state(model), kit.state(store))
            elseif log then -- claimed 0: nothing is missing without it
                assert.equal(0, claimed)
                assert.equal(1, recovery.bad_snapshots)
                assert.equal("0", kit.state(store))
            else -- no older one and no log that reaches its end: what it held is lost, and that is said
                assert.equal(C.MS_E_DAMAGED, store, "claimed " .. claimed)
                assert.equal(1, refused.bad_snapshots)
            end
            if log then log:close() end
        end
    end)
end)

describe("B23: a kill in the middle of a snapshot", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    it("that is being made leaves the older one and the log, at every operation", function()
        local steps = crash.sweep {
            seeds = 3,
            setup = function(disk)
                disk:mkdir "d"
                disk:sync_dir "/"
                local log = assert(kit.open(disk, "d", kit.history(), SEG))
                assert.equal(0, log:write { kit.define(1, "t") })
                for n = 1, 10 do assert.equal(0, log:write { kit.put("k" .. n, "1") }) end
                assert.is_truthy(kit.snapshot(log))
                for n = 1, 10 do assert.equal(0, log:write { kit.put("k" .. n, "2"), kit.put("l" .. n, "1") }) end
                while log:sync() ~= "nothing" do end
                disk.kept.log = log
            end,
            run = function(disk)
                local ended, rc = kit.snapshot(disk.kept.log, { bytes = 64 })
                disk.kept.log:close()
                if not ended then error("stopped: " .. rc) end
            end,
            check = function(disk, ran)
                local history = disk.kept.log.history
                for _ = 1, 2 do -- and the next start finds the same
                    local log, store, recovery = kit.recover(disk, "d", history, SEG)
                    assert.is_truthy(log, store)
                    assert.equal(history:state(), kit.state(store))
                    assert.equal(0, recovery.bad_snapshots)
                    if ran then assert.equal(history.head, tonumber(recovery.snapshot_end)) end
                    log:close()
                end
            end,
        }
        assert.is_true(steps > 5)
    end)

    it("that was received in part is not taken over: only the closing group makes it one", function()
        local log = new_log()
        for n = 1, 30 do assert.equal(0, log:write { kit.put("k" .. n, ("v"):rep(20)) }) end
        local content = log.disk:get("d/" .. kit.snapshot_name(assert(kit.snapshot(log))))
        log:close()
        local ends, at, header = {}, 0, ffi.new "struct ms_group_header"
        while at < #content do
            ms.check(C.ms_group_check(ms.bytes(content:sub(at + 1)), header))
            at = at + tonumber(C.ms_group_size(header.body_size))
            ends[#ends + 1] = at
        end
        assert.is_true(#ends > 5)
        for n, length in ipairs(ends) do
            crash.free_all()
            local disk = kit.restore(crash.disk(1), "next", { [kit.snapshot_name(log.history.head)] = content:sub(1, length) })
            local again, store, recovery, refused, empty = kit.recover(disk, "next", kit.history(), SEG)
            if n == #ends then
                assert.equal(log.history:state(), kit.state(store))
                assert.equal(0, recovery.bad_snapshots)
                again:close()
            else
                assert.is_nil(again)
                assert.equal(C.MS_E_DAMAGED, store)
                assert.equal(1, refused.bad_snapshots)
                assert.equal("0", kit.state(empty))
            end
        end
    end)
end)
