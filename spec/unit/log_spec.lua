-- state/log: what the writer puts on the disk, what it promises about room, and what is left after each failure.
local ms = require "spec.support.ms"
local crash = require "spec.support.crash"
local seam = require "spec.support.seam"
local kit = require "spec.support.statekit"
local C, ffi = ms.C, ms.ffi

local function calls(disk, op) return tonumber(C.ms_sim_fs_counters(disk.sim).calls[op]) end

local function new_disk(seed)
    local disk = crash.disk(seed or 1)
    disk:mkdir "d"
    disk:sync_dir "/"
    return disk
end

-- An open log in "d" with the table "t" defined by its first group.
local function new_log(options, disk)
    local log = assert(kit.open(disk or new_disk(), "d", kit.history(), options))
    assert.equal(0, log:write { kit.define(1, "t") })
    return log
end

local function reopen(log, options)
    log:close()
    return kit.open(log.disk, log.dir, log.history, options)
end

-- The group headers that a directory holds, in order.
local function headers(disk, dir)
    local list = {}
    for _, group in ipairs(assert(kit.read(disk, dir, 0))) do
        local header = ffi.new "struct ms_group_header"
        ms.check(C.ms_group_check(ms.bytes(group.bytes), header))
        list[#list + 1] = header
    end
    return list
end

describe("a log", function()
    local before
    before_each(function() before = ms.live() end)
    after_each(function()
        kit.free_all()
        C.ms_mem_fail_after(0)
        crash.free_all()
        assert.equal(before, ms.live())
    end)

    it("of an empty directory has nothing, room for nothing, and starts with lsn 1", function()
        local log = assert(kit.open(new_disk(), "d", kit.history()))
        assert.same({ 1, 0, 0, 0, 0 }, { log:first(), log:written(), log:synced(), log:bytes(), log:room() })
        assert.equal(0, log.dropped)
        assert.equal("nothing", log:sync())
        local rc, why = log:write_groups { { kit.define(1, "t") } }
        assert.equal(C.MS_E_NO_SPACE, rc)
        assert.truthy(why:find("room for a group of 56 bytes", 1, true), why)
        assert.equal(0, log:written())
        assert.same({}, log.disk:list "d")
        log:close()
    end)

    it("of a directory whose path is too long for its segments is refused at once", function()
        local disk = new_disk()
        local _, rc, why = kit.open(disk, ("d"):rep(1010), kit.history())
        assert.equal(C.MS_E_LIMIT, rc)
        assert.truthy(why:find("path too long", 1, true), why)
        _, rc = kit.open(disk, ("d"):rep(2000), kit.history())
        assert.equal(C.MS_E_LIMIT, rc)
    end)

    it("continues after the lsn that the store is at", function()
        local disk, history, store = new_disk(), kit.history(), kit.store()
        history:add { kit.define(1, "t"), kit.put("a", "1") }
        kit.fold(store, history.groups[1].changes)
        local log = assert(kit.open(disk, "d", history, nil, store))
        assert.same({ 3, 2, 2 }, { log:first(), log:written(), log:synced() })
        assert.equal(0, log:write { kit.put("b", "2") })
        assert.same({ 3, 3, 2 }, { log:first(), log:written(), log:synced() })
        log:close()
    end)

    it("gives back what was written, over many segments, with everything counted", function()
        math.randomseed(3)
        local log, bytes = new_log(), 56
        for n = 1, 300 do
            local changes = {}
            for i = 1, math.random(1, 6) do
                local key = "key" .. math.random(1, 40)
                changes[i] = math.random() < 0.8 and kit.put(key, ("v"):rep(math.random(0, 90)) .. n) or kit.delete(key)
            end
            assert.equal(0, log:write(changes))
            bytes = bytes + kit.size(changes)
            if n % 37 == 0 then assert.equal(0, log:sync()) end
        end
        assert.equal(bytes, log:bytes())
        assert.equal(log.history.head, log:written())
        local again = assert(reopen(log))
        assert.equal(0, again.dropped)
        assert.same({ 1, log.history.head, log.history.head, bytes },
            { again:first(), again:written(), again:synced(), again:bytes() })
        assert.same(log.history:tables(), kit.tables(again.store))
        local groups = assert(kit.read(log.disk, "d", 0))
        assert.equal(#log.history.groups, #groups)
        for n, group in ipairs(log.history.groups) do
            assert.same({ group.first, group.last }, { groups[n].first, groups[n].last })
            assert.equal(kit.group(group.changes, group.first):sub(49), groups[n].bytes:sub(49))
        end
        assert.is_true(#log.disk:list "d" > 5)
        again:close()
    end)

    it("writes all blocks that go into one segment with one write, together with the segment's header", function()
        local log = assert(kit.open(new_disk(), "d", kit.history()))
        log:prepare()
        local groups = { { kit.define(1, "t") } }
        for n = 2, 40 do groups[n] = { kit.put("k" .. n, "value") } end
        local writes = calls(log.disk, C.MS_SIM_FS_WRITE)
        assert.equal(0, log:write_groups(groups))
        assert.equal(1, calls(log.disk, C.MS_SIM_FS_WRITE) - writes)
        log:close()
    end)

    it("splits a batch of thousands of blocks into writes and segments", function()
        local log = new_log { segment = 65536 }
        for n = 1, 4 do assert.equal(1, log:prepare(70000 * n)) end
        local groups = {}
        for n = 1, 3000 do groups[n] = { kit.put("k" .. n % 100, "v" .. n) } end
        assert.equal(0, log:write_groups(groups))
        local again = assert(reopen(log))
        assert.equal(3001, again:written())
        assert.same(log.history:tables(), kit.tables(again.store))
        again:close()
    end)

    it("stamps each group with what was synced when it was written, and never more", function()
        local log = new_log()
        assert.equal(0, log:write { kit.put("a", "1") })
        assert.equal(0, log:sync())
        assert.equal(0, log:write { kit.put("b", "1"), kit.put("c", "1") })
        assert.equal(0, log:write { kit.put("d", "1") })
        assert.equal(0, log:sync())
        assert.equal(0, log:write { kit.put("e", "1") })
        local stamps = {}
        for n, header in ipairs(headers(log.disk, "d")) do stamps[n] = tonumber(header.synced) end
        assert.same({ 0, 0, 2, 2, 5 }, stamps)
        log:close()
    end)

    it("puts its own stamp into a block that came from elsewhere, and leaves the body and time alone", function()
        local log = new_log()
        assert.equal(0, log:sync())
        assert.equal(0, log:write { kit.put("a", "0") })
        local changes = { kit.put("a", "1") }
        local header = ffi.new "struct ms_group_header"
        local theirs = kit.group(changes, 3, { synced = 77 })
        ms.check(C.ms_group_check(ms.bytes(theirs), header))
        local blocks = ffi.new("struct ms_block *[1]", { C.ms_block_of(ms.bytes(theirs), header) })
        assert.equal(0, C.ms_log_write(log.log, blocks, 1, 999))
        C.ms_block_unref(blocks[0])
        local mine = headers(log.disk, "d")[3]
        assert.same({ "1", "0", ms.dec(header.body_hash) }, { ms.dec(mine.synced), ms.dec(mine.time_us), ms.dec(mine.body_hash) })
        log:close()
    end)

    it("gives its own blocks the time of the call", function()
        local log = new_log()
        assert.equal(0, log:write_groups({ { kit.put("b", "1") } }, { time = 123456789 }))
        assert.equal(123456789, tonumber(headers(log.disk, "d")[2].time_us))
        log:close()
    end)

    it("refuses blocks that are not the next ones, and writes nothing", function()
        local log = new_log()
        for _, firsts in ipairs { { 1 }, { 3 }, { 2, 4 }, { 2, 2 } } do
            local blocks = ffi.new("struct ms_block *[?]", #firsts)
            for n, first in ipairs(firsts) do blocks[n - 1] = kit.block({ kit.put("a", "1") }, first) end
            assert.equal(C.MS_E_INVALID, C.ms_log_write(log.log, blocks, #firsts, 0))
            for n = 0, #firsts - 1 do C.ms_block_unref(blocks[n]) end
        end
        assert.equal(1, log:written())
        assert.equal(0, log:write { kit.put("a", "1") })
        log:close()
    end)

    it("takes short writes as they come", function()
        local log = new_log()
        C.ms_sim_fs_short_writes(log.disk.sim, 700000)
        for n = 1, 100 do
            log:prepare()
            assert.equal(0, log:write_groups { { kit.put("a" .. n, ("x"):rep(n)) }, { kit.put("b", "" .. n) } })
        end
        assert.is_true(tonumber(C.ms_sim_fs_counters(log.disk.sim).short_writes) > 50)
        local again = assert(reopen(log))
        assert.same(log.history:tables(), kit.tables(again.store))
        again:close()
    end)
end)

describe("room", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    it("is what groups of at most that size are sure to find, in any order of sizes", function()
        math.randomseed(11)
        for round = 1, 150 do
            local log = new_log { segment = 1024 }
            for _ = 1, math.random(1, 4) do log:prepare(math.random(1, 3000)) end
            for _ = 1, math.random(0, 3) do log:write_groups { { kit.put("k", ("x"):rep(math.random(0, 300))) } } end
            local largest = math.random(60, 1200)
            local room, sum = log:room(largest), 0
            while true do
                local limit = math.min(largest, room - sum)
                if limit < 64 then break end
                local changes = { kit.put("k", ("x"):rep(math.random(0, limit - 64))) }
                local size = kit.size(changes)
                if size > limit then break end
                local rc, why = log:write_groups { changes }
                assert.equal(0, rc, ("round %d, %d of %d, a group of %d: %s"):format(round, sum, room, size, tostring(why)))
                sum = sum + size
            end
            log:close()
        end
    end)

    it("is all of the segments when groups are small, and at least the largest group after preparing", function()
        local log = new_log { segment = 4096 }
        assert.equal(4096 - 32 - 56, log:room(8))
        assert.equal(1, log:prepare(8))
        assert.equal(2 * (4096 - 32) - 56, log:room(8))
        assert.equal(0, log:prepare(8))
        assert.equal(1, log:prepare(10000))
        assert.equal(10000, log:room(10000))
        log:close()
    end)

    it("lets a group that is larger than a segment have one of its own size", function()
        local log = new_log { segment = 1024 }
        assert.equal(1, log:prepare(100)) -- a spare that is too small
        local big = { kit.put("big", ("x"):rep(5000)) }
        assert.equal(0, log:write(big))
        assert.equal(0, log:write { kit.put("small", "1") })
        local again = assert(reopen(log))
        assert.same(log.history:tables(), kit.tables(again.store))
        assert.equal(3, #assert(kit.read(log.disk, "d", 0)))
        assert.equal(0, again:write(big))
        again:close()
    end)

    it("is not taken when the blocks do not all fit", function()
        local log = new_log { segment = 1024 }
        local groups = {}
        for n = 1, 20 do groups[n] = { kit.put("k" .. n, ("x"):rep(50)) } end
        local content = log.disk:get("d/" .. kit.segment_name(1))
        assert.equal(C.MS_E_NO_SPACE, (log:write_groups(groups)))
        assert.equal(content, log.disk:get("d/" .. kit.segment_name(1)))
        assert.equal(0, log:write(groups[1])) -- not final
        log:close()
    end)
end)

describe("preparing a segment", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    it("fills it with zeros and makes it durable before it is used", function()
        local disk = new_disk()
        local log = assert(kit.open(disk, "d", kit.history()))
        assert.equal(1, log:prepare())
        log:close()
        crash.power_loss(disk)
        assert.equal(("\0"):rep(4096), disk:get("d/" .. kit.segment_name(1)))
    end)

    it("writes the zeros if the log was synced often since the last one, else it only reserves them", function()
        local disk = new_disk()
        local log = assert(kit.open(disk, "d", kit.history()))
        local counters = C.ms_sim_fs_counters(disk.sim)
        local function prepared()
            local writes, reserves = tonumber(counters.calls[C.MS_SIM_FS_WRITE]), tonumber(counters.calls[C.MS_SIM_FS_RESERVE])
            assert.equal(1, log:prepare())
            return tonumber(counters.calls[C.MS_SIM_FS_WRITE]) - writes, tonumber(counters.calls[C.MS_SIM_FS_RESERVE]) - reserves
        end
        assert.same({ 1, 0 }, { prepared() }) -- nothing is known of its syncs yet
        log:write { kit.define(1, "t") }
        assert.same({ 0, 1 }, { prepared() })
        log:write { kit.put("k", ("x"):rep(4000)) }
        assert.equal(0, log:sync())
        assert.same({ 1, 0 }, { prepared() })
        log:close()
        crash.power_loss(disk)
        assert.equal(("\0"):rep(4096), disk:get("d/" .. kit.segment_name(3)))
    end)

    it("is wanted when no blank segment is left, and not while a job is under way", function()
        local log = assert(kit.open(new_disk(), "d", kit.history()))
        local job, full = ffi.new "struct ms_prepare_job", ffi.new "bool[1]"
        assert.is_true(C.ms_log_prepare_begin(log.log, 100, job, full))
        assert.is_false(C.ms_log_prepare_begin(log.log, 100, ffi.new "struct ms_prepare_job", full))
        assert.is_false(full[0])
        C.ms_prepare_run(job)
        assert.equal(0, C.ms_log_prepare_end(log.log, job))
        assert.equal(0, log:prepare())
        assert.equal(0, log:write { kit.define(1, "t") })
        assert.equal(1, log:prepare())
        assert.equal(0, log:prepare())
        log:close()
    end)

    it("that meets a full disk is a clean refusal, leaves no file, and works once there is space", function()
        local log = new_log()
        C.ms_sim_fs_capacity(log.disk.sim, C.ms_sim_fs_used(log.disk.sim) + 1000)
        local rc, why = log:prepare()
        assert.equal(C.MS_E_NO_SPACE, rc)
        assert.truthy(why:find(kit.segment_name(2), 1, true), why)
        assert.same({ kit.segment_name(1) }, log.disk:list "d")
        while log:room() > 0 do -- what is prepared already is not touched by the full disk
            if log:write_groups { { kit.put("k", ("x"):rep(30)) } } ~= 0 then break end
        end
        assert.equal(C.MS_E_NO_SPACE, (log:write { kit.put("k", ("y"):rep(200)) }))
        C.ms_sim_fs_capacity(log.disk.sim, 0xffffffffffffffffULL)
        assert.equal(0, log:write { kit.put("k", ("y"):rep(200)) })
        assert.equal(0, log:sync())
        local again = assert(reopen(log))
        assert.same(log.history:tables(), kit.tables(again.store))
        again:close()
    end)

    it("that fails at any operation leaves no file and the log in order", function()
        for _, op in ipairs { C.MS_SIM_FS_OPEN, C.MS_SIM_FS_WRITE, C.MS_SIM_FS_RESERVE, C.MS_SIM_FS_SYNC, C.MS_SIM_FS_SYNC_DIR } do
            local log = new_log()
            if op == C.MS_SIM_FS_WRITE then assert.equal(0, log:sync()) end -- else the zeros are only reserved
            C.ms_sim_fs_fail_after(log.disk.sim, op, 1, nil)
            local rc, why = log:prepare()
            assert.equal(C.MS_E_IO, rc)
            assert.truthy(why:find("injected", 1, true), why)
            assert.same({ kit.segment_name(1) }, log.disk:list "d")
            assert.equal(1, log:prepare())
            assert.equal(0, log:write { kit.put("a", "1") })
            log:close()
        end
    end)

    it("stops at max_bytes, counting every segment, and says so", function()
        local log = new_log { segment = 4096, max = 3 * 4096 }
        assert.equal(1, log:prepare())
        assert.equal(0, log:prepare())
        assert.equal(1, log:prepare(5 * 4096) == "full" and 1 or 0)
        for _ = 1, 3 do log:write { kit.put("k", ("x"):rep(3000)) } end
        assert.equal("full", log:prepare())
        local rc = log:write { kit.put("k", ("x"):rep(3000)) }
        assert.equal(C.MS_E_NO_SPACE, rc)
        log:sync()
        assert.equal(0, log:trim(log:written(), 0))
        assert.equal(0, log:write { kit.put("k", ("x"):rep(3000)) })
        log:close()
    end)
end)

describe("syncing", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    it("covers what was written when it began, not what is written meanwhile", function()
        local log = new_log()
        local job = ffi.new "struct ms_sync_job"
        assert.is_true(C.ms_log_sync_begin(log.log, job))
        assert.is_false(C.ms_log_sync_begin(log.log, ffi.new "struct ms_sync_job"))
        assert.equal(0, log:write { kit.put("a", "1") })
        C.ms_sync_run(job)
        assert.equal(0, C.ms_log_sync_end(log.log, job))
        assert.same({ 1, 2 }, { log:synced(), log:written() })
        assert.equal(0, log:sync())
        assert.equal(2, log:synced())
        assert.equal("nothing", log:sync())
        log:close()
    end)

    it("of more segments than a job holds takes several jobs, the oldest first", function()
        local log = new_log { segment = 1024 }
        for n = 1, 20 do assert.equal(0, log:write { kit.put("k" .. n, ("x"):rep(800)) }) end
        local seen = {}
        while log:sync() ~= "nothing" do seen[#seen + 1] = log:synced() end
        assert.same({ 9, 17, 21 }, seen) -- the first segment has two
        log:close()
    end)

    it("makes it survive a power loss, each time up to the lsn that it names", function()
        for seed = 1, 40 do
            local disk = new_disk(seed)
            local log = new_log({ segment = 1024 }, disk)
            for n = 1, 30 do
                assert.equal(0, log:write { kit.put("k" .. n, ("x"):rep(n * 11)) })
                if n == 9 or n == 20 then while log:sync() ~= "nothing" do end end
            end
            assert.equal(21, log:synced())
            log:close()
            crash.power_loss(disk)
            local again = assert(kit.open(disk, "d", log.history, { segment = 1024 }))
            assert.is_true(again:written() >= 21)
            assert.equal(log.history:state(again:written()), kit.state(again.store))
            again:close()
            crash.free_all()
        end
    end)

    it("closes the files that nothing is written to any more", function()
        local log = new_log { segment = 1024 }
        for n = 1, 12 do assert.equal(0, log:write { kit.put("k" .. n, ("x"):rep(800)) }) end
        while log:sync() ~= "nothing" do end
        assert.equal(1, C.ms_sim_fs_handles(log.disk.sim))
        log:close()
        assert.equal(0, C.ms_sim_fs_handles(log.disk.sim))
    end)
end)

describe("a log that failed", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    local function expect_dead(log)
        assert.equal(C.MS_E_LOG_FAILED, (log:write_groups { { kit.put("z", "1") } }))
        assert.equal(0, log:room())
        assert.equal(0, log:prepare())
        assert.equal("nothing", log:sync())
    end

    it("at a write takes nothing more; after reopening it has what was written before", function()
        for nth = 1, 4 do
            local log = new_log { segment = 1024 }
            assert.equal(1, log:prepare())
            C.ms_sim_fs_fail_after(log.disk.sim, C.MS_SIM_FS_WRITE, nth, nil)
            local rc, why
            for n = 1, 4 do
                rc, why = log:write_groups { { kit.put("k", ("x"):rep(n)) }, { kit.put("l", "1") } }
                if rc ~= 0 then break end
            end
            assert.equal(C.MS_E_IO, rc)
            assert.truthy(why:find("segment 1 of d", 1, true) and why:find("injected", 1, true), why)
            expect_dead(log)
            log:close()
            C.ms_sim_fs_crash(log.disk.sim)
            local again = assert(kit.open(log.disk, "d", log.history, { segment = 1024 }))
            assert.is_true(again:written() >= log.history.head)
            log:close()
            again:close()
        end
    end)

    it("at a sync takes nothing more, and does not call it synced", function()
        local log = new_log()
        assert.equal(0, log:sync())
        assert.equal(0, log:write { kit.put("a", "1") })
        C.ms_sim_fs_fail_after(log.disk.sim, C.MS_SIM_FS_SYNC, 1, nil)
        local rc, why = log:sync()
        assert.equal(C.MS_E_IO, rc)
        assert.truthy(why:find("injected", 1, true), why)
        assert.equal(1, log:synced())
        expect_dead(log)
        log:close()
    end)

    it("for a full disk in the midst of a write does not ask to try again", function()
        local log = new_log()
        local file = log.disk:open("d/" .. kit.segment_name(1), "w")
        log.disk:truncate(file, 200) -- a disk that has to allocate although the segment was filled
        log.disk:close(file)
        C.ms_sim_fs_capacity(log.disk.sim, 300)
        assert.equal(C.MS_E_IO, (log:write_groups { { kit.put("a", ("x"):rep(1000)) } }))
        expect_dead(log)
        log:close()
    end)
end)

describe("trimming", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    -- A synced log of one group per segment but for the last, which has two; sizes are equal.
    local function filled()
        local log = assert(kit.open(new_disk(), "d", kit.history(), { segment = 1024 }))
        assert.equal(0, log:write { kit.define(1, "t"), kit.put("k", ("x"):rep(700)) })
        for n = 2, 5 do assert.equal(0, log:write { kit.put("k" .. n, ("x"):rep(700)), kit.delete "k" }) end
        while log:sync() ~= "nothing" do end
        return log, kit.size { kit.put("k2", ("x"):rep(700)), kit.delete "k" }
    end

    it("removes a segment only if its last record may go, to the lsn", function()
        local log = filled()
        for lsn, first in ipairs { 1, 3, 3, 5, 5, 7, 7, 9, 9, 9 } do
            assert.equal(0, log:trim(lsn, 0))
            assert.equal(first, log:first(), "trimmed to " .. lsn)
            local oldest = assert(kit.read(log.disk, "d", 0))[1]
            assert.equal(first, oldest.first)
        end
        log:close()
    end)

    it("leaves at least keep_bytes of groups, to the byte", function()
        local log, size = filled()
        local total = log:bytes()
        assert.equal(0, log:trim(10, total - size + 9))
        assert.equal(1, log:first())
        local firsts = { [0] = 9, [size] = 9, [size + 1] = 7, [2 * size] = 7, [2 * size + 1] = 5 }
        for _, keep in ipairs { 2 * size + 1, 2 * size, size + 1, size, 0 } do
            assert.equal(0, log:trim(10, keep))
            assert.equal(firsts[keep], log:first(), "kept " .. keep)
            assert.is_true(log:bytes() >= keep)
        end
        log:close()
    end)

    it("never removes what is being written or is not synced yet", function()
        local log = assert(kit.open(new_disk(), "d", kit.history(), { segment = 1024 }))
        assert.equal(0, log:write { kit.define(1, "t"), kit.put("k", ("x"):rep(700)) })
        for n = 2, 4 do assert.equal(0, log:write { kit.put("k" .. n, ("x"):rep(700)) }) end
        assert.equal(0, log:trim(100, 0))
        assert.equal(1, log:first())
        local job = ffi.new "struct ms_sync_job"
        assert.is_true(C.ms_log_sync_begin(log.log, job))
        assert.equal(0, log:trim(100, 0))
        assert.equal(1, log:first())
        C.ms_sync_run(job)
        assert.equal(0, C.ms_log_sync_end(log.log, job))
        assert.equal(0, log:trim(100, 0))
        assert.equal(5, log:first())
        assert.equal(0, log:write { kit.put("k", "1") })
        log:close()
    end)

    it("that fails says so and goes on the next time", function()
        local log = filled()
        C.ms_sim_fs_fail_after(log.disk.sim, C.MS_SIM_FS_REMOVE, 2, nil)
        assert.equal(C.MS_E_IO, log:trim(10, 0))
        assert.equal(3, log:first())
        assert.equal(0, log:trim(10, 0))
        assert.equal(9, log:first())
        assert.equal(0, log:write { kit.put("k", "1") })
        log:close()
    end)

    it("takes a file that somebody removed as trimmed", function()
        local log = filled()
        log.disk:remove("d/" .. kit.segment_name(1))
        assert.equal(0, log:trim(4, 0))
        assert.equal(5, log:first())
        log:close()
    end)
end)

describe("memory", function()
    local before
    before_each(function() before = ms.live() end)
    after_each(function()
        kit.free_all()
        C.ms_mem_fail_after(0)
        crash.free_all()
        assert.equal(before, ms.live())
    end)

    it("that runs out while a log is opened or a segment added is an error, and the next try works", function()
        local disk, dir = seam.new(C.ms_fs_posix()), ms.tmpdir()
        local log = assert(kit.open(disk, dir, kit.history(), { segment = 1024 }))
        assert.equal(0, log:write { kit.define(1, "t") })
        for n = 1, 10 do assert.equal(0, log:write { kit.put("k" .. n, ("x"):rep(500)) }) end
        log:close()
        local opened, refused, unprepared = 0, 0, 0
        ms.with_alloc_failures(function(n)
            local again, rc = kit.open(disk, dir, log.history, { segment = 1024 })
            if not again then
                assert.equal(C.MS_E_MEMORY, rc)
                refused = refused + 1
                return
            end
            opened = opened + 1
            assert.equal(11, again:written())
            local prepared = again:prepare(2000 + n)
            assert.is_true(prepared == C.MS_E_MEMORY or prepared == 1 or prepared == 0)
            if prepared == C.MS_E_MEMORY then unprepared = unprepared + 1 end
            again:close()
            C.ms_store_close(again.store)
        end)
        assert.is_true(opened > 1 and refused > 10 and unprepared > 0)
    end)
end)

-- Random writes, syncs, prepares, trims, process crashes and power losses: what was synced is there, what is there is a state that the
-- log once had, and it goes on from there.
describe("a log under random operations", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    local function one_life(disk, history, synced)
        local log = assert(kit.open(disk, "d", history, { segment = 1024 }))
        local written = log:written()
        assert.is_true(written >= synced, ("%d was synced, the log ends at %d"):format(synced, written))
        assert.is_true(history:ends(written))
        assert.equal(history:state(written), kit.state(log.store))
        history:cut(written)
        if written == 0 then assert.equal(0, log:write { kit.define(1, "t") }) end
        for _ = 1, math.random(1, 40) do
            local dice = math.random()
            if dice < 0.8 then
                local changes = {}
                for n = 1, math.random(1, 3) do
                    changes[n] = kit.put("k" .. math.random(1, 20), ("x"):rep(math.random(0, 100)) .. math.random(1, 1e6))
                end
                if dice < 0.05 then changes[#changes + 1] = kit.put("big", ("b"):rep(2000)) end
                if dice > 0.75 then changes[#changes + 1] = kit.mark(log.store) changes = { changes[#changes] } end
                assert.equal(0, log:write(changes))
            else
                log:sync()
            end
        end
        local kept = log:synced()
        log:close()
        return kept
    end

    it("keeps what was synced and is at a state it once had, over crashes and power losses", function()
        local base = tonumber(os.getenv "MS_SEED") or 1
        for seed = base, base + 39 do
            math.randomseed(seed)
            local disk, history, synced = new_disk(seed), kit.history(), 0
            for life = 1, 6 do
                local ok, result = pcall(one_life, disk, history, synced)
                if not ok then error(("seed %d, life %d: %s"):format(seed, life, tostring(result.message or result)), 0) end
                synced = result
                if math.random() < 0.7 then crash.power_loss(disk) else C.ms_sim_fs_crash(disk.sim) synced = history.head end
            end
            crash.free_all()
        end
    end)
end)
