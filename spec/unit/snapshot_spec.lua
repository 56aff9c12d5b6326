-- state/snapshot: a snapshot made while changes go on is the tables at its end; what is not exactly that is refused.
local ms = require "spec.support.ms"
local crash = require "spec.support.crash"
local kit = require "spec.support.statekit"
local C, ffi = ms.C, ms.ffi

local SEG = { segment = 2048 }
local META, ENTRIES = 2, 1

local function new_disk(seed)
    local disk = crash.disk(seed or 1)
    disk:mkdir "d"
    disk:sync_dir "/"
    return disk
end

local function new_log(disk)
    local log = assert(kit.open(disk or new_disk(), "d", kit.history(), SEG))
    assert.equal(0, log:write { kit.define(1, "t"), kit.define(2, "numbers", 2), kit.epoch(3, 1, 77) })
    return log
end

local function fill(log, count)
    for n = 1, count do assert.equal(0, log:write { kit.put("k" .. n, "value " .. n), kit.put("n" .. n, kit.u64(n), 2) }) end
end

-- The groups of a snapshot file, as strings.
local function groups_of(content)
    local groups, at = {}, 1
    local header = ffi.new "struct ms_group_header"
    while at <= #content do
        ms.check(C.ms_group_check(ms.bytes(content:sub(at)), header))
        local size = tonumber(C.ms_group_size(header.body_size))
        groups[#groups + 1] = { bytes = content:sub(at, at + size - 1), flags = header.flags, first = tonumber(header.first), count = header.count }
        at = at + size
    end
    return groups
end

-- Feeds groups to a loader: store, loader; or nil, code, message.
local function feed(groups, cluster)
    local store, loader = kit.store(), ffi.new "struct ms_snapshot_loader"
    C.ms_snapshot_loader_init(loader, store)
    for _, group in ipairs(groups) do
        local rc = C.ms_snapshot_loader_group(loader, ms.bytes(group.bytes or group), ms.bytes(cluster))
        if rc ~= 0 then return nil, rc, ms.err(), loader end
    end
    return store, loader
end

describe("a snapshot", function()
    local before
    before_each(function() before = ms.live() end)
    after_each(function()
        kit.free_all()
        C.ms_mem_fail_after(0)
        crash.free_all()
        assert.equal(before, ms.live())
    end)

    it("of a store at rest is the store", function()
        local log = new_log()
        fill(log, 100)
        assert.equal(0, log:write { kit.delete "k7" })
        assert.equal(0, log:write { kit.mark(log.store) })
        local ended = assert(kit.snapshot(log))
        assert.equal(log.history.head, ended)
        local store = assert(kit.load(log.disk, "d/" .. kit.snapshot_name(ended), "test"))
        assert.equal(kit.state(log.store), kit.state(store))
        assert.same(log.history:tables(), kit.tables(store))
        assert.same({ 1, "3", "1", "77", "3" }, { store.lineage.count, ms.dec(store.lineage.entries[0].epoch.reign),
            ms.dec(store.lineage.entries[0].epoch.run), ms.dec(store.lineage.entries[0].epoch.id), ms.dec(store.lineage.entries[0].first) })
        assert.is_false(store.fuzzy)
        assert.equal(2, store.tables[2].type)
        log:close()
    end)

    it("of empty tables, and of a store without any, can be made and loaded", function()
        local log = new_log()
        local ended = assert(kit.snapshot(log))
        assert.equal(3, ended)
        assert.same({ t = {}, numbers = {} }, kit.tables(assert(kit.load(log.disk, "d/" .. kit.snapshot_name(3)))))
        log:close()
        local empty = assert(kit.open(new_disk(), "d", kit.history(), SEG))
        assert.equal(0, assert(kit.snapshot(empty)))
        local store = assert(kit.load(empty.disk, "d/" .. kit.snapshot_name(0)))
        assert.equal("0", kit.state(store))
        empty:close()
    end)

    it("made while changes, new tables, epochs and marks go on is the tables at its end", function()
        for seed = 1, 25 do
            math.randomseed(seed)
            local log = new_log()
            fill(log, math.random(0, 60))
            local steps = 0
            local ended = assert(kit.snapshot(log, { bytes = math.random(1, 1500), group_bytes = math.random(1, 500),
                copy_bytes = math.random(1, 3000), each = function()
                    steps = steps + 1
                    local dice, key = math.random(), "k" .. math.random(1, 80)
                    if dice < 0.5 then
                        assert.equal(0, log:write { kit.put(key, ("x"):rep(math.random(0, 50))), kit.delete("k" .. math.random(1, 80)) })
                    elseif dice < 0.55 then
                        assert.equal(0, log:write { kit.mark(log.store) })
                    elseif dice < 0.6 then
                        assert.equal(0, log:write { kit.epoch(3, 1 + steps, 5) })
                    elseif dice < 0.65 and not log.history:tables().late then
                        assert.equal(0, log:write { kit.define(9, "late"), kit.put("a", "b", 9) })
                    end
                end }))
            assert.equal(log.history.head, ended)
            local store = assert(kit.load(log.disk, "d/" .. kit.snapshot_name(ended)))
            assert.equal(log.history:state(ended), kit.state(store))
            assert.same(log.history:tables(), kit.tables(store))
            ms.check(C.ms_table_verify(store.tables[1]))
            local groups = groups_of(log.disk:get("d/" .. kit.snapshot_name(ended)))
            assert.is_true(groups[1].flags == META and groups[#groups].flags == META)
            log:close()
            crash.free_all()
        end
    end)

    it("contains the log's groups byte for byte", function()
        local log = new_log()
        fill(log, 20)
        local from = log.history.head + 1
        local ended = assert(kit.snapshot(log, { bytes = 60, each = function()
            if log.history.head < from + 10 then assert.equal(0, log:write { kit.put("new", "" .. log.history.head) }) end
        end }))
        local copied = {}
        for _, group in ipairs(groups_of(log.disk:get("d/" .. kit.snapshot_name(ended)))) do
            if group.flags == 0 then copied[#copied + 1] = group.bytes end
        end
        local originals = {}
        for _, group in ipairs(assert(kit.read(log.disk, "d", from, ended))) do originals[#originals + 1] = group.bytes end
        assert.is_true(#copied > 5)
        assert.same(originals, copied)
        log:close()
    end)

    it("has entry groups of about group_bytes, numbered without gaps, and one of its own for a large entry", function()
        local log = new_log()
        fill(log, 100)
        assert.equal(0, log:write { kit.put("large", ("x"):rep(5000)) })
        local ended = assert(kit.snapshot(log, { group_bytes = 300, bytes = 1000 }))
        local next_entry, largest, seen = 1, 0, 0
        for _, group in ipairs(groups_of(log.disk:get("d/" .. kit.snapshot_name(ended)))) do
            if group.flags == ENTRIES then
                assert.equal(next_entry, group.first)
                next_entry = next_entry + group.count
                if #group.bytes > 400 then
                    largest = largest + 1
                    assert.equal(1, group.count)
                else
                    seen = seen + 1
                end
            end
        end
        assert.equal(202, next_entry)
        assert.equal(1, largest)
        assert.is_true(seen >= 10)
        log:close()
    end)

    it("walks the logged values, not those that only a buffer has", function()
        local log = new_log()
        fill(log, 5)
        local t = log.store.tables[1]
        local function dirty(key, value)
            local bytes = ms.bytes(key)
            ms.check(C.ms_buffer_put(t, C.ms_table_find(t, bytes, C.ms_key_hash(bytes)), bytes, ms.bytes(value)))
        end
        dirty("k1", "only here")
        dirty("k2", nil)
        dirty("fresh", "only here")
        local ended = assert(kit.snapshot(log))
        assert.same(log.history:tables(), kit.tables(assert(kit.load(log.disk, "d/" .. kit.snapshot_name(ended)))))
        log:close()
    end)

    it("does its I/O in the steps without the lock only", function()
        local log = new_log()
        fill(log, 50)
        local out = ffi.new "struct ms_snapshot_writer *[1]"
        ms.check(C.ms_snapshot_new(log.disk.fs, "d", ms.bytes "test", 1, 256, out))
        local function calls()
            local sum, counters = 0, C.ms_sim_fs_counters(log.disk.sim)
            for op = 0, C.MS_SIM_FS_OPS - 1 do sum = sum + tonumber(counters.calls[op]) end
            return sum
        end
        local so_far = calls()
        ms.check(C.ms_snapshot_start(out[0], log.store))
        while ms.check(C.ms_snapshot_walk(out[0], log.store, 500)) == 1 do end
        ms.check(C.ms_snapshot_cut(out[0], log.store))
        assert.equal(so_far, calls())
        assert.equal(0, tonumber(C.ms_snapshot_written(out[0])))
        ms.check(C.ms_snapshot_copy_log(out[0], "d", 1000))
        ms.check(C.ms_snapshot_finish(out[0]))
        assert.equal(#log.disk:get("d/" .. kit.snapshot_name(log.history.head)), tonumber(C.ms_snapshot_written(out[0])))
        C.ms_snapshot_free(out[0])
        log:close()
    end)

    it("is walked a piece at a time, at least one shard each", function()
        local log = new_log()
        fill(log, 200)
        local out = ffi.new "struct ms_snapshot_writer *[1]"
        ms.check(C.ms_snapshot_new(log.disk.fs, "d", ms.bytes "test", 1, 256, out))
        ms.check(C.ms_snapshot_start(out[0], log.store))
        local written, steps = 0, 0
        while ms.check(C.ms_snapshot_walk(out[0], log.store, 700)) == 1 do
            steps = steps + 1
            ms.check(C.ms_snapshot_write(out[0]))
            local now = tonumber(C.ms_snapshot_written(out[0]))
            assert.is_true(now - written >= 700 and now - written < 1500)
            written = now
        end
        assert.is_true(steps > 10)
        C.ms_snapshot_free(out[0])
        ms.check(C.ms_snapshot_new(log.disk.fs, "d", ms.bytes "test", 1, 256, out))
        ms.check(C.ms_snapshot_start(out[0], log.store))
        for _ = 1, 2 * C.MS_TABLE_SHARDS do C.ms_snapshot_walk(out[0], log.store, 0) end
        assert.equal(0, C.ms_snapshot_walk(out[0], log.store, 0))
        C.ms_snapshot_free(out[0])
        log:close()
    end)

    it("is synced in pieces of 4 MiB while it is written", function()
        local log = new_log()
        for n = 1, 20 do assert.equal(0, log:write { kit.put("large" .. n, ("x"):rep(1000000)) }) end
        local syncs = tonumber(C.ms_sim_fs_counters(log.disk.sim).calls[C.MS_SIM_FS_SYNC])
        local ended = assert(kit.snapshot(log, { bytes = 9000000 }))
        syncs = tonumber(C.ms_sim_fs_counters(log.disk.sim).calls[C.MS_SIM_FS_SYNC]) - syncs
        assert.equal(math.floor(#log.disk:get("d/" .. kit.snapshot_name(ended)) / (4 * 1024 * 1024)) + 1, syncs)
        log:close()
    end)

    it("refuses steps out of order, and a store that is being loaded", function()
        local log = new_log()
        local out = ffi.new "struct ms_snapshot_writer *[1]"
        ms.check(C.ms_snapshot_new(log.disk.fs, "d", ms.bytes "test", 1, 256, out))
        local w = out[0]
        assert.equal(C.MS_E_INVALID, C.ms_snapshot_walk(w, log.store, 100))
        log.store.fuzzy = true
        assert.equal(C.MS_E_INVALID, C.ms_snapshot_start(w, log.store))
        log.store.fuzzy = false
        ms.check(C.ms_snapshot_start(w, log.store))
        assert.equal(C.MS_E_INVALID, C.ms_snapshot_start(w, log.store))
        assert.equal(C.MS_E_INVALID, C.ms_snapshot_cut(w, log.store))
        assert.equal(0, C.ms_snapshot_walk(w, log.store, 1000000))
        assert.equal(C.MS_E_INVALID, C.ms_snapshot_copy_log(w, "d", 1000))
        assert.equal(C.MS_E_INVALID, C.ms_snapshot_finish(w))
        C.ms_snapshot_free(w)
        assert.is_false(log.disk:exists "d/snap.tmp")
        log:close()
    end)

    it("whose log ends within a group, or was trimmed, fails and leaves nothing", function()
        for _, case in ipairs { "within", "trimmed" } do
            local log = new_log()
            fill(log, 40)
            if case == "trimmed" then while log:sync() ~= "nothing" do end end
            local trimmed
            local ended, rc, why = kit.snapshot(log, { bytes = 400, each = function()
                if trimmed then return end
                trimmed = true
                for _ = 1, 30 do assert.equal(0, log:write { kit.put("a", ("x"):rep(100)), kit.put("b", "1") }) end
                if case == "within" then log.store.applied = log.store.applied - 1 end
                while log:sync() ~= "nothing" do end
                if case == "trimmed" then assert.equal(0, log:trim(log:written(), 0)) end
            end })
            assert.is_nil(ended)
            assert.equal(case == "within" and C.MS_E_INVALID or C.MS_E_NOT_FOUND, rc, why)
            for _, file in ipairs(log.disk:list "d") do assert.is_nil(file:find "^snap") end
            log:close()
        end
    end)

    it("that meets an error at any operation leaves no file, and the next one works", function()
        local log = new_log()
        fill(log, 30)
        for op = 0, C.MS_SIM_FS_OPS - 1 do
            for nth = 1, 40 do
                local eio = tonumber(C.ms_sim_fs_counters(log.disk.sim).eio)
                C.ms_sim_fs_fail_after(log.disk.sim, op, nth, "snap")
                if op == C.MS_SIM_FS_SYNC_DIR then C.ms_sim_fs_fail_after(log.disk.sim, op, nth, nil) end
                local ended, rc = kit.snapshot(log, { bytes = 300 })
                local fired = tonumber(C.ms_sim_fs_counters(log.disk.sim).eio) > eio
                C.ms_sim_fs_fail_after(log.disk.sim, op, 0, nil)
                if ended then
                    log.disk:remove("d/" .. kit.snapshot_name(ended))
                else
                    assert.equal(C.MS_E_IO, rc)
                    assert.is_false(log.disk:exists "d/snap.tmp")
                end
                if not fired then break end
            end
        end
        C.ms_sim_fs_capacity(log.disk.sim, C.ms_sim_fs_used(log.disk.sim) + 1000)
        assert.equal(C.MS_E_NO_SPACE, (select(2, kit.snapshot(log))))
        assert.is_false(log.disk:exists "d/snap.tmp")
        C.ms_sim_fs_capacity(log.disk.sim, 0xffffffffffffffffULL)
        assert.is_truthy(kit.snapshot(log))
        log:close()
    end)

    it("frees everything whichever allocation fails, and then works", function()
        local disk = require "spec.support.seam".new(C.ms_fs_posix())
        local dir = ms.tmpdir()
        local log = assert(kit.open(disk, dir, kit.history(), SEG))
        assert.equal(0, log:write { kit.define(1, "t"), kit.define(2, "numbers", 2) })
        fill(log, 40)
        local refused = 0
        ms.with_alloc_failures(function()
            local ended, rc = kit.snapshot(log, { bytes = 100000, group_bytes = 1000 })
            if not ended then
                assert.equal(C.MS_E_MEMORY, rc)
                refused = refused + 1
            end
        end)
        assert.is_true(refused > 5)
        local path = dir .. "/" .. kit.snapshot_name(log.history.head)
        refused = 0
        ms.with_alloc_failures(function()
            local store = kit.store()
            local rc = C.ms_snapshot_load(disk.fs, path, ms.bytes "test", store)
            if rc ~= 0 then
                assert.equal(C.MS_E_MEMORY, rc)
                refused = refused + 1
            end
            C.ms_store_close(store)
        end)
        assert.is_true(refused > 100)
        log:close()
    end)

    it("is there as a whole or not at all, whenever the power goes", function()
        local steps = crash.sweep {
            seeds = 4,
            setup = function(disk)
                disk:mkdir "d"
                disk:sync_dir "/"
                local log = new_log(disk)
                fill(log, 12)
                assert(kit.snapshot(log))
                assert.equal(0, log:write { kit.put("more", "1") })
                log:sync()
                disk.kept.log = log
            end,
            run = function(disk)
                local log = disk.kept.log
                local ended, rc, why = kit.snapshot(log, { bytes = 200, each = function()
                    if log.history.head < 30 then log:write { kit.put("while", "1") } end
                end })
                log:close()
                if not ended then error(tostring(rc) .. why) end
            end,
            check = function(disk, ran)
                local names, count = ffi.new "struct ms_snapshot_name[32]", ffi.new "uint32_t[1]"
                ms.check(C.ms_snapshot_list(disk.fs, "d", names, count))
                assert.is_true(count[0] >= (ran and 2 or 1))
                for n = 0, count[0] - 1 do
                    local store = assert(kit.load(disk, "d/" .. ffi.string(names[n].name)))
                    assert.equal(disk.kept.log.history:state(tonumber(names[n]["end"])), kit.state(store))
                end
            end,
        }
        assert.is_true(steps > 10)
    end)
end)

describe("loading a snapshot", function()
    local log, file, groups
    before_each(function()
        log = new_log()
        fill(log, 12)
        local ended = assert(kit.snapshot(log, { id = 4711, bytes = 60, each = function()
            if log.history.head < 40 then assert.equal(0, log:write { kit.put("while", "" .. log.history.head) }) end
        end }))
        file = log.disk:get("d/" .. kit.snapshot_name(ended))
        groups = groups_of(file)
    end)
    after_each(function()
        kit.free_all()
        log:close()
        crash.free_all()
    end)

    local function expect_refused(list, code, text, cluster)
        local store, rc, why, loader = feed(list, cluster)
        if store then
            assert.is_false(store.fuzzy == false and loader ~= nil and loader.complete, "an incomplete snapshot is complete")
            assert.is_nil(text)
            return
        end
        assert.equal(code, rc, why)
        if text then assert.truthy(why:find(text, 1, true), why) end
        assert.is_false(loader.complete)
    end

    it("group by group gives the tables, positions and the id", function()
        local store, loader = feed(groups, "test")
        assert.equal(log.history:state(), kit.state(store))
        assert.is_true(loader.complete)
        assert.same({ "4711", 27, log.history.head }, { ms.dec(loader.id), tonumber(loader.start), tonumber(loader["end"]) })
        local entries = 0
        for _, group in ipairs(groups) do entries = entries + (group.flags == ENTRIES and group.count or 0) end
        assert.is_true(entries >= 24 and entries == tonumber(loader.entries))
        assert.equal(0, tonumber(store.changes_since_mark))
    end)

    it("refuses any group that is missing, doubled or in another's place", function()
        assert.is_true(#groups > 12)
        local flags = {}
        for n = 1, #groups do
            flags[groups[n].flags] = (flags[groups[n].flags] or 0) + 1
            local missing, doubled = {}, {}
            for m, group in ipairs(groups) do
                if m ~= n then missing[#missing + 1] = group end
                doubled[#doubled + 1] = group
                if m == n then doubled[#doubled + 1] = group end
            end
            local store, loader = feed(missing, "test")
            assert.is_true(store == nil or not loader.complete, "group " .. n .. " is missing")
            assert.is_nil((feed(doubled, "test")), "group " .. n .. " is doubled")
            if n < #groups then
                local swapped = { unpack(groups) }
                swapped[n], swapped[n + 1] = swapped[n + 1], swapped[n]
                assert.is_nil((feed(swapped, "test")), "groups " .. n .. " and the next are swapped")
            end
        end
        assert.is_true(flags[0] > 3 and flags[ENTRIES] > 3 and flags[META] == 2)
    end)

    it("refuses a mixture of two snapshots", function()
        assert.equal(0, log:write { kit.put("k3", "other") })
        local other = groups_of(log.disk:get("d/" .. kit.snapshot_name(assert(kit.snapshot(log, { bytes = 200 })))))
        local mixed = { unpack(groups) }
        mixed[#mixed] = other[#other]
        expect_refused(mixed, C.MS_E_DAMAGED, "a snapshot that ends at lsn")
    end)

    it("refuses groups that are torn, cut or too long, and everything after that", function()
        local torn = { unpack(groups) }
        torn[3] = kit.flip(groups[3].bytes, 60)
        expect_refused(torn, C.MS_E_FORMAT, "hash")
        torn[3] = groups[3].bytes:sub(1, -9)
        expect_refused(torn, C.MS_E_FORMAT)
        torn[3] = groups[3].bytes .. ("\0"):rep(8)
        expect_refused(torn, C.MS_E_FORMAT, "are not one group")
        local store, loader = kit.store(), ffi.new "struct ms_snapshot_loader"
        C.ms_snapshot_loader_init(loader, store)
        assert.equal(C.MS_E_FORMAT, C.ms_snapshot_loader_group(loader, ms.bytes(groups[2].bytes), ms.bytes "test"))
        assert.equal(C.MS_E_INVALID, C.ms_snapshot_loader_group(loader, ms.bytes(groups[1].bytes), ms.bytes "test"))
    end)

    it("refuses another cluster's, takes any if none is named", function()
        expect_refused(groups, C.MS_E_CLUSTER, "a snapshot of cluster test, not prod", "prod")
        assert.is_truthy((feed(groups, nil)))
    end)

    -- A small snapshot put together by hand; each change to it must be noticed.
    local function handmade(change)
        local s = kit.store()
        ms.check(kit.fold(s, { kit.define(1, "t"), kit.put("a", "1"), kit.put("b", "2") }))
        local mark = kit.mark(s)
        local parts = {
            begin = { kit.raw(16, kit.varint(2) .. kit.u64(5) .. "test"), kit.raw(17, kit.varint(0)), kit.define(1, "t") },
            entries = { kit.put("a", "1") },
            log = { kit.put("b", "2") },
            tail = { kit.raw(17, kit.varint(0)), mark, kit.raw(18, kit.varint(3) .. kit.varint(1)) },
            first = 1, lsn = 3, begin_first = 0, tail_first = 0,
        }
        if change then change(parts) end
        return {
            kit.group(parts.begin, parts.begin_first, { flags = META }), kit.group(parts.entries, parts.first, { flags = ENTRIES }),
            kit.group(parts.log, parts.lsn), kit.group(parts.tail, parts.tail_first, { flags = META }),
        }
    end

    it("takes one put together by hand, and refuses it with any part wrong", function()
        assert.is_true(select(2, feed(handmade(), "test")).complete)
        local cases = {
            { C.MS_E_FORMAT, "entry 1 of a snapshot is due, not 2", function(p) p.first = 2 end },
            { C.MS_E_FORMAT, "lsn 3 was expected, not lsn 4", function(p) p.lsn = 4 end },
            { C.MS_E_FORMAT, "lsn 3 was expected, not lsn 2", function(p) p.lsn = 2 end },
            { C.MS_E_FORMAT, "is not due in a snapshot", function(p) p.begin_first = 1 end },
            { C.MS_E_FORMAT, "is not due in a snapshot", function(p) p.tail_first = 1 end },
            { C.MS_E_FORMAT, "type 18", function(p) p.begin[1] = p.tail[3] end },
            { C.MS_E_FORMAT, "type 4", function(p) p.begin[2] = p.begin[3] end },
            { C.MS_E_FORMAT, "type 17", function(p) p.begin[3] = p.begin[2] end },
            { C.MS_E_FORMAT, "first group is not whole", function(p) p.begin = { p.begin[1] } end },
            { C.MS_E_FORMAT, "a snapshot that starts at lsn", function(p)
                p.begin[1] = kit.raw(16, ("\255"):rep(9) .. "\1" .. kit.u64(5) .. "test") end },
            { C.MS_E_FORMAT, "of table 2, which is not defined", function(p) p.entries[1] = kit.put("a", "1", 2) end },
            { C.MS_E_FORMAT, "type 2", function(p) p.entries[1] = kit.delete "a" end },
            { C.MS_E_FORMAT, "of 1 bytes for the int64 table t", function(p) p.begin[3] = kit.define(1, "t", 2) end },
            { C.MS_E_VERSION, "value type 9", function(p) p.begin[3] = kit.define(1, "t", 9) end },
            { C.MS_E_VERSION, "record type 100", function(p) p.entries[1] = kit.raw(100, "x") end },
            { C.MS_E_DAMAGED, "mark at lsn 3", function(p) p.entries[1] = kit.put("a", "2") end },
            { C.MS_E_DAMAGED, "mark at lsn 3", function(p) p.log[1] = kit.put("b", "3") end },
            { C.MS_E_DAMAGED, "a snapshot of 2 entries has 1", function(p) p.tail[3] = kit.raw(18, kit.varint(3) .. kit.varint(2)) end },
            { C.MS_E_DAMAGED, "that ends at lsn 2 has the log up to 3", function(p) p.tail[3] = kit.raw(18, kit.varint(2) .. kit.varint(1)) end },
            { C.MS_E_DAMAGED, "that ends at lsn 4 has the log up to 3", function(p) p.tail[3] = kit.raw(18, kit.varint(4) .. kit.varint(1)) end },
            { C.MS_E_DAMAGED, "lineage", function(p) p.tail[1] = kit.raw(17, kit.varint(1) .. "\1\1" .. kit.u64(1) .. "\1") end },
            { C.MS_E_FORMAT, "lineage", function(p) p.begin[2] = kit.raw(17, "\5") end },
            { C.MS_E_FORMAT, "type 18", function(p) p.tail[2], p.tail[3] = p.tail[3], p.tail[2] end },
            { C.MS_E_FORMAT, "last group is not whole", function(p) p.tail[3] = nil end },
            { C.MS_E_FORMAT, "type 18", function(p) p.tail[4] = p.tail[3] end },
        }
        for n, case in ipairs(cases) do
            local store, rc, why = feed(handmade(case[3]), "test")
            assert.is_nil(store, "case " .. n)
            assert.equal(case[1], rc, ("case %d: %s"):format(n, why))
            assert.truthy(why:find(case[2], 1, true), ("case %d: %s"):format(n, why))
        end
    end)

    it("steps over unknown optional records everywhere and counts them", function()
        local store, loader = feed(handmade(function(p)
            table.insert(p.begin, 2, kit.raw(0x90, "b"))
            p.entries[2] = kit.raw(0x91, "e")
            p.tail[3] = kit.raw(18, kit.varint(3) .. kit.varint(2))
            table.insert(p.tail, 2, kit.raw(0x92, ""))
        end), "test")
        assert.is_true(loader.complete)
        assert.equal(3, tonumber(store.skipped))
    end)

    it("is done into an empty store only", function()
        local store, loader = kit.store(), ffi.new "struct ms_snapshot_loader"
        ms.check(kit.fold(store, { kit.define(1, "t") }))
        C.ms_snapshot_loader_init(loader, store)
        assert.equal(C.MS_E_INVALID, C.ms_snapshot_loader_group(loader, ms.bytes(groups[1].bytes), ms.bytes "test"))
    end)

    it("from a file names file and offset of what is wrong", function()
        log.disk:put("d/x", file)
        local path = "d/x"
        assert.is_truthy(kit.load(log.disk, path, "test"))
        C.ms_sim_fs_corrupt(log.disk.sim, path, #groups[1].bytes + 50, 1)
        local store, rc, why = kit.load(log.disk, path, "test")
        assert.is_nil(store)
        assert.equal(C.MS_E_DAMAGED, rc)
        assert.equal(("snapshot d/x at offset %d: no sound group is there"):format(#groups[1].bytes), why)
        log.disk:put(path, file:sub(1, -#groups[#groups].bytes - 1))
        assert.equal(("snapshot d/x at offset %d: the closing group is missing"):format(#file - #groups[#groups].bytes),
            (select(3, kit.load(log.disk, path, "test"))))
        log.disk:put(path, file .. ("\0"):rep(8))
        assert.equal(C.MS_E_DAMAGED, (select(2, kit.load(log.disk, path, "test"))))
        log.disk:put(path, file .. groups[3].bytes)
        assert.equal(C.MS_E_DAMAGED, (select(2, kit.load(log.disk, path, "test"))))
        assert.equal(C.MS_E_NOT_FOUND, (select(2, kit.load(log.disk, "d/none", "test"))))
    end)

    it("reads the id from the first record", function()
        local id = ffi.new "uint64_t[1]"
        log.disk:put("d/x", file)
        assert.equal(0, C.ms_snapshot_read_id(log.disk.fs, "d/x", id))
        assert.equal(4711, tonumber(id[0]))
        for _, content in ipairs { "", file:sub(1, 60), file:sub(#groups[1].bytes + 1) } do
            log.disk:put("d/x", content)
            assert.equal(C.MS_E_DAMAGED, C.ms_snapshot_read_id(log.disk.fs, "d/x", id))
        end
    end)
end)

describe("snapshot files", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    local function with(ends, others)
        local disk = new_disk()
        for _, lsn in ipairs(ends) do disk:put("d/" .. kit.snapshot_name(lsn), "") end
        for _, other in ipairs(others or {}) do disk:put("d/" .. other, "") end
        return disk
    end

    local function list(disk)
        local names, count = ffi.new "struct ms_snapshot_name[32]", ffi.new "uint32_t[1]"
        ms.check(C.ms_snapshot_list(disk.fs, "d", names, count))
        local result = {}
        for n = 0, count[0] - 1 do
            assert.equal(kit.snapshot_name(tonumber(names[n]["end"])), ffi.string(names[n].name))
            result[n + 1] = tonumber(names[n]["end"])
        end
        return result
    end

    it("are listed newest first, and nothing else is", function()
        local others = { "snap.tmp", "snap-123", "log-0000000000000001", kit.snapshot_name(77) .. ".bad", kit.snapshot_name(78) .. "x",
            "snap-0000000000000000000x", "snap-000000000000000000001" }
        assert.same({ 100, 30, 9, 0 }, list(with({ 9, 100, 0, 30 }, others)))
        assert.same({}, list(with({}, others)))
    end)

    it("more than the list holds are left out at the old end", function()
        local ends, expected = {}, {}
        for n = 1, 50 do ends[n] = (n * 17) % 50 end
        for n = 49, 18, -1 do expected[#expected + 1] = n end
        assert.same(expected, list(with(ends)))
    end)

    it("are pruned to the newest, never one at or after the pinned lsn, with the bad ones of their age", function()
        local function pruned(keep, pinned, ends)
            local disk = with(ends or { 10, 20, 30, 40 }, { kit.snapshot_name(15) .. ".bad", kit.snapshot_name(35) .. ".bad" })
            assert.equal(0, C.ms_snapshot_prune(disk.fs, "d", keep, pinned))
            return list(disk), disk
        end
        assert.same({ 40 }, (pruned(1, 0)))
        assert.same({ 40, 30 }, (pruned(2, 0)))
        assert.same({ 40, 30, 20, 10 }, (pruned(4, 0)))
        assert.same({ 40, 30, 20, 10 }, (pruned(5, 0)))
        assert.same({ 40, 30, 20 }, (pruned(1, 20)))
        assert.same({ 40, 30 }, (pruned(1, 21)))
        assert.same({ 40, 30, 20, 10 }, (pruned(1, 10)))
        local _, disk = pruned(2, 0)
        assert.is_true(disk:exists("d/" .. kit.snapshot_name(35) .. ".bad") and not disk:exists("d/" .. kit.snapshot_name(15) .. ".bad"))
        local many = {}
        for n = 1, 60 do many[n] = n end
        assert.same({ 60, 59 }, (pruned(2, 0, many)))
        assert.equal(C.MS_E_INVALID, C.ms_snapshot_prune(disk.fs, "d", 0, 0))
        assert.same({ 40, 30 }, list(disk))
    end)
end)

describe("serving a snapshot", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    -- All pieces of a file, and their number.
    local function read_all(disk, path, limit, size)
        local file, data, got = disk:open(path, "r"), ms.buf(), ffi.new "size_t[1]"
        local parts, offset = {}, 0
        while true do
            local rc = C.ms_snapshot_read(disk.fs, file, offset, limit, size, data, got)
            if rc ~= 0 then
                local why = ms.err()
                disk:close(file)
                return nil, rc, why
            end
            if got[0] == 0 then break end
            assert.equal(tonumber(got[0]), tonumber(data.size))
            parts[#parts + 1] = ms.buf_str(data)
            offset = offset + tonumber(got[0])
        end
        disk:close(file)
        return table.concat(parts), parts
    end

    it("gives whole groups of about the size that was asked for, and at least one", function()
        local log = new_log()
        fill(log, 60)
        assert.equal(0, log:write { kit.put("large", ("x"):rep(3000)) })
        local path = "d/" .. kit.snapshot_name(assert(kit.snapshot(log)))
        local content = log.disk:get(path)
        for _, size in ipairs { 0, 1, 47, 48, 100, 256, 1000, 3100, 65536 } do
            local all, parts = read_all(log.disk, path, #content, size)
            assert.is_true(all == content)
            for n, part in ipairs(parts) do
                local groups = groups_of(part)
                assert.is_true(#part <= size or #groups == 1, ("part %d of size %d"):format(n, size))
            end
        end
        log:close()
    end)

    it("of a growing file stops at what is written", function()
        local log = new_log()
        fill(log, 60)
        local out = ffi.new "struct ms_snapshot_writer *[1]"
        ms.check(C.ms_snapshot_new(log.disk.fs, "d", ms.bytes "test", 1, 256, out))
        ms.check(C.ms_snapshot_start(out[0], log.store))
        repeat
            local more = ms.check(C.ms_snapshot_walk(out[0], log.store, 700))
            ms.check(C.ms_snapshot_write(out[0]))
            local written = tonumber(C.ms_snapshot_written(out[0]))
            assert.is_true(read_all(log.disk, "d/snap.tmp", written, 500) == log.disk:get "d/snap.tmp")
        until more == 0
        C.ms_snapshot_free(out[0])
        log:close()
    end)

    it("says where a file is damaged, or ends early", function()
        local log = new_log()
        fill(log, 60)
        local path = "d/" .. kit.snapshot_name(assert(kit.snapshot(log)))
        local content = log.disk:get(path)
        local first = #groups_of(content)[1].bytes
        local _, rc, why = read_all(log.disk, path, #content - 8, 200)
        assert.equal(C.MS_E_DAMAGED, rc)
        assert.truthy(why:find("a group runs past the end of the file", 1, true), why)
        assert.equal(C.MS_E_DAMAGED, (select(2, read_all(log.disk, path, #content + 8, 200))))
        C.ms_sim_fs_corrupt(log.disk.sim, path, first + 4, 1)
        _, rc, why = read_all(log.disk, path, #content, 60)
        assert.equal(C.MS_E_DAMAGED, rc)
        assert.truthy(why:find("snapshot at offset " .. first, 1, true), why)
        log:close()
    end)
end)
