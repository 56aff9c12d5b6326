-- Recovery: where a log ends, when that is damage, what is cleaned and synced, and which snapshot it starts from. The rule stands in
-- state/log.h.
local ms = require "spec.support.ms"
local crash = require "spec.support.crash"
local kit = require "spec.support.statekit"
local C, ffi = ms.C, ms.ffi

local SEG = { segment = 1024 }

local function new_disk(seed)
    local disk = crash.disk(seed or 1)
    disk:mkdir "d"
    disk:sync_dir "/"
    return disk
end

local function name(number) return kit.segment_name(number) end

-- A closed log of about `count` groups in 1 KiB segments, with syncs after some of them: image, history, places. places[n] =
-- { segment, from, to, first, last, synced }: where group n stands.
local function sample(count, syncs, seed)
    math.randomseed(seed or 5)
    local disk, history = new_disk(), kit.history()
    local log = assert(kit.open(disk, "d", history, SEG))
    assert.equal(0, log:write { kit.define(1, "t") })
    for n = 2, count do
        local changes = {}
        for i = 1, math.random(1, 3) do changes[i] = kit.put("k" .. math.random(1, 9), ("v"):rep(math.random(0, 60)) .. n) end
        if n % 5 == 0 then changes = { kit.delete "k1", kit.put("k2", "x") } end
        assert.equal(0, log:write(changes))
        if syncs[n] then while log:sync() ~= "nothing" do end end
    end
    log:close()
    local image, places = kit.image(disk, "d"), {}
    for number = 1, 99 do
        local content, at = image[name(number)], 32
        local header = ffi.new "struct ms_group_header"
        while content and at + 48 <= #content and C.ms_group_check(ms.bytes(content:sub(at + 1)), header) == 0 do
            local size = tonumber(C.ms_group_size(header.body_size))
            places[#places + 1] = { segment = number, from = at, to = at + size, first = tonumber(header.first),
                last = tonumber(C.ms_group_last(header)), synced = tonumber(header.synced) }
            at = at + size
        end
    end
    assert.equal(count, #places)
    crash.free_all()
    return image, history, places
end

-- What recovery must say if group `bad` is not readable: the lsn where the log ends, or "damaged". lost(n) = group n is not there.
local function verdict(places, bad, lost)
    if not bad then return places[#places].last end
    local due = places[bad].first
    for n = bad + 1, #places do
        if places[n].synced >= due and not (lost and lost(n)) then return "damaged" end
    end
    return due - 1
end

-- Recovers the image; a log that opens must be at the state of its end, take a group, and be the same after reopening.
local function recovered(image, history, place)
    local disk = kit.restore(crash.disk(1), "d", image)
    local log, rc, why = kit.open(disk, "d", history, SEG)
    if not log then
        assert.equal(C.MS_E_DAMAGED, rc, place .. ": " .. why)
        assert.truthy(why:find("segment %d+ of d at offset %d+"), place .. ": " .. why)
        local after = kit.image(disk, "d")
        assert.same(image, after, place .. ": a refused log was changed")
        crash.free_all()
        return "damaged"
    end
    local written = log:written()
    assert.equal(history:state(written), kit.state(log.store), place)
    assert.equal(written, log:synced())
    if written > 0 then
        local mine = kit.history()
        for _, group in ipairs(history.groups) do
            if group.last <= written then mine:add(group.changes) end
        end
        log.history = mine
        assert.equal(0, log:write { kit.put("new", "1") }, place)
        log:close()
        local again, code, message = kit.open(disk, "d", mine, SEG)
        assert.is_truthy(again, ("%s: reopened: %s %s"):format(place, tostring(code), tostring(message)))
        assert.equal(written + 1, again:written(), place)
        assert.equal(mine:state(), kit.state(again.store), place)
        again:close()
    else
        log:close()
    end
    crash.free_all()
    return written
end

describe("recovery of a log", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    it("with a bit flipped anywhere ends before the bad group, or is damage if a later group says that it was synced", function()
        local image, history, places = sample(16, { [4] = true, [9] = true, [12] = true })
        local seen = { damaged = 0, ended = 0, whole = 0 }
        local last_segment = places[#places].segment
        for number = 1, last_segment + 1 do
            local content = image[name(number)]
            for offset = 0, content and #content - 1 or -1 do
                local bad
                for n, p in ipairs(places) do
                    local header_hit = p.segment == number and offset < 32
                    if header_hit or (p.segment == number and offset >= p.from and offset < p.to) then bad = bad or n end
                end
                local in_zeros = not bad
                if not in_zeros or offset % 5 == 0 then
                    local copy = kit.copy(image)
                    copy[name(number)] = kit.flip(content, offset, 2 ^ (offset % 8))
                    local place = ("segment %d, offset %d"):format(number, offset)
                    local result, expected = recovered(copy, history, place), verdict(places, bad)
                    assert.equal(expected, result, place)
                    local kind = result == "damaged" and "damaged" or bad and "ended" or "whole"
                    seen[kind] = seen[kind] + 1
                end
            end
        end
        assert.is_true(seen.damaged > 500 and seen.ended > 300 and seen.whole > 20, ("%d %d %d"):format(seen.damaged, seen.ended, seen.whole))
    end)

    it("cut to any length ends at a group, or is damage if a later segment says that what is missing was synced", function()
        local image, history, places = sample(16, { [4] = true, [9] = true, [12] = true })
        local seen = { damaged = 0, ended = 0 }
        for number = 1, places[#places].segment do
            local content = image[name(number)]
            for length = 0, #content - 1 do
                local bad
                for n, p in ipairs(places) do
                    if p.segment == number and (p.to > length or length < 32) then bad = bad or n end
                end
                if bad or length % 31 == 0 then
                    local copy = kit.copy(image)
                    copy[name(number)] = content:sub(1, length)
                    local place = ("segment %d cut to %d"):format(number, length)
                    local lost = function(n) return places[n].segment == number end
                    local result = recovered(copy, history, place)
                    assert.equal(verdict(places, bad, lost), result, place)
                    seen[result == "damaged" and "damaged" or "ended"] = seen[result == "damaged" and "damaged" or "ended"] + 1
                end
            end
        end
        assert.is_true(seen.damaged > 500 and seen.ended > 300)
    end)

    it("is damage exactly if a later group says synced >= n, one more or less decides", function()
        local define = kit.group({ kit.define(1, "t") }, 1)
        local torn = kit.flip(kit.group({ kit.put("a", "1"), kit.put("b", "1") }, 2), 60)
        for synced, expected in pairs { [1] = 1, [2] = "damaged", [3] = "damaged" } do
            local later = kit.group({ kit.put("c", "1") }, 4, { synced = synced })
            local history = kit.history()
            history:add { kit.define(1, "t") }
            local same = { [name(1)] = kit.segment(1, 1, { define, torn, later }, 1024) }
            assert.equal(expected, recovered(same, history, "in this segment, synced " .. synced))
            local other = { [name(1)] = kit.segment(1, 1, { define, torn }, 1024), [name(2)] = kit.segment(2, 4, { later }, 1024) }
            assert.equal(expected, recovered(other, history, "in a later one, synced " .. synced))
            local headless = { [name(1)] = kit.segment(1, 1, { define, torn }, 1024),
                [name(2)] = ("\0"):rep(32) .. later .. ("\0"):rep(500) }
            assert.equal(expected, recovered(headless, history, "in one without header, synced " .. synced))
        end
    end)

    it("finds who says that it was synced also across the pieces in which it reads", function()
        local define, later = kit.group({ kit.define(1, "t") }, 1), kit.group({ kit.put("c", "1") }, 4, { synced = 2 })
        local place = 32 + #define
        for offset = -56, 8, 8 do
            local at = place + 256 * 1024 + offset
            local head = kit.segment(1, 1, { define, "torn" }, at)
            local disk = kit.restore(crash.disk(1), "d", { [name(1)] = head .. later .. ("\0"):rep(4096) })
            local log, rc, why = kit.open(disk, "d", kit.history())
            assert.is_nil(log)
            assert.equal(C.MS_E_DAMAGED, rc)
            assert.truthy(why:find(("(segment 1, offset %d)"):format(at), 1, true), why)
            crash.free_all()
        end
    end)

    it("is not damage because of what an older group says, however it came there", function()
        local define, old = kit.group({ kit.define(1, "t") }, 1), kit.group({ kit.put("a", "1") }, 2, { synced = 9 })
        local torn = kit.flip(kit.group({ kit.put("a", "1"), kit.put("b", "1") }, 2), 60)
        local history = kit.history()
        history:add { kit.define(1, "t") }
        assert.equal(1, recovered({ [name(1)] = kit.segment(1, 1, { define, torn, old }) }, history, "old"))
    end)

    it("names the place of the damage and who says that it was synced", function()
        local groups = { kit.group({ kit.define(1, "t") }, 1), kit.flip(kit.group({ kit.put("a", "1") }, 2), 50),
            kit.group({ kit.put("c", "1") }, 3, { synced = 2 }) }
        local disk = kit.restore(crash.disk(1), "d", { [name(1)] = kit.segment(1, 1, groups) })
        local _, rc, why = kit.open(disk, "d", kit.history())
        assert.equal(C.MS_E_DAMAGED, rc)
        assert.equal("log segment 1 of d at offset 88: lsn 2 is due there and not readable, but the group of lsn 3 (segment 1, offset 144) "
            .. "says that it was synced", why)
    end)

    it("does not take a value that looks like a group for a group", function()
        local fake = kit.group({ kit.put("x", "1") }, 9, { synced = 8 })
        local define = kit.group({ kit.define(1, "t") }, 1)
        local body = kit.put("a", ("\0"):rep(3) .. fake) -- at a multiple of 8 in the segment
        local holder = kit.group({ body }, 2)
        assert.equal(0, (holder:find(fake, 1, true) - 1) % 8)
        local history = kit.history()
        history:add { kit.define(1, "t") }
        local torn = kit.flip(holder, 49) -- the header is sound, the body is not
        assert.equal(1, recovered({ [name(1)] = kit.segment(1, 1, { define, torn }) }, history, "value"))
        assert.equal("damaged", recovered({ [name(1)] = kit.segment(1, 1, { define, torn, fake }) }, history, "behind it"))
    end)

    it("of a log with segments that have a header and no group goes on through them", function()
        local g = { kit.group({ kit.define(1, "t") }, 1), kit.group({ kit.put("a", "1") }, 2, { synced = 1 }),
            kit.group({ kit.put("b", "1") }, 3, { synced = 2 }) }
        local history = kit.history()
        history:add { kit.define(1, "t") }
        history:add { kit.put("a", "1") }
        history:add { kit.put("b", "1") }
        local images = {
            { [name(1)] = kit.segment(1, 1, {}, 1024), [name(2)] = kit.segment(2, 1, g, 1024) },
            { [name(1)] = kit.segment(1, 1, { g[1] }, 1024), [name(2)] = kit.segment(2, 2, {}, 1024), [name(3)] = kit.segment(3, 2, {}, 1024),
                [name(4)] = kit.segment(4, 2, { g[2], g[3] }, 1024) },
            { [name(1)] = kit.segment(1, 1, { g[1], g[2], g[3] }, 1024), [name(2)] = kit.segment(2, 4, {}, 1024),
                [name(3)] = kit.segment(3, 4, {}, 1024), [name(4)] = kit.segment(4, nil, {}, 1024) },
        }
        for n, image in ipairs(images) do assert.equal(3, recovered(image, history, "image " .. n)) end
        for _, empty in ipairs { { [name(1)] = kit.segment(1, 1, {}, 1024) }, { [name(7)] = kit.segment(7, nil, {}, 1024) },
            { [name(1)] = kit.segment(1, 1, {}, 1024), [name(2)] = kit.segment(2, 1, {}, 1024), [name(3)] = kit.segment(3, nil, {}, 1024) } } do
            assert.equal(0, recovered(empty, history, "no group anywhere"))
            local disk = kit.restore(crash.disk(1), "d", empty)
            local log = assert(kit.open(disk, "d", kit.history(), SEG))
            assert.equal(0, log:write { kit.define(1, "t") })
            log:close()
            assert.equal(1, assert(kit.open(disk, "d", log.history, SEG)):written())
        end
    end)

    it("does not go on in a segment whose header names another number or another lsn", function()
        local define = kit.group({ kit.define(1, "t") }, 1)
        local next_one = kit.group({ kit.put("a", "1") }, 2, { synced = 1 })
        local history = kit.history()
        history:add { kit.define(1, "t") }
        local function second(content) return { [name(1)] = kit.segment(1, 1, { define }, 1024), [name(2)] = content } end
        assert.equal(1, recovered(second(kit.segment(1, 2, { next_one }, 1024)), history, "another number"))
        assert.equal(1, recovered(second(kit.segment(2, 1, { define }, 1024)), history, "an old lsn"))
        assert.equal(1, recovered(second(kit.segment(2, 3, { kit.group({ kit.put("a", "1") }, 3, { synced = 1 }) }, 1024)), history, "a later lsn"))
        assert.equal(1, recovered(second(kit.segment(2, 2, { kit.group({ kit.put("a", "1") }, 3, { synced = 1 }) }, 1024)), history, "another group"))
        assert.equal(1, recovered(second(kit.segment(2, 2, { kit.group({ kit.put("a", "1") }, 2, { flags = 1 }) }, 1024)), history, "entries"))
    end)

    it("removes later segments with content and zeros the tail, so that no old group can follow a new one", function()
        local define, a = kit.group({ kit.define(1, "t") }, 1), kit.group({ kit.put("a", "old") }, 2, { synced = 0 })
        local b = kit.group({ kit.put("b", "old") }, 3, { synced = 0 })
        local image = { [name(1)] = kit.segment(1, 1, { define, kit.flip(a, 20), b }, 1024), [name(2)] = kit.segment(2, 4, {
            kit.group({ kit.put("c", "old") }, 4, { synced = 0 }) }, 1024), [name(3)] = kit.segment(3, nil, {}, 1024) }
        local disk = kit.restore(crash.disk(1), "d", image)
        local log = assert(kit.open(disk, "d", kit.history(), SEG))
        assert.equal(#a + #b + 32 + #a, log.dropped)
        assert.same({ [name(1)] = kit.segment(1, 1, { define }, 1024) }, kit.image(disk, "d"))
        assert.equal(1, log:prepare()) -- numbers go on without a gap
        assert.same({ name(1), name(2) }, disk:list "d")
        log:close()
    end)

    it("keeps the prepared segment that follows, and no other", function()
        local define = kit.group({ kit.define(1, "t") }, 1)
        local blank, first = kit.segment(2, nil, {}, 1024), kit.segment(1, 1, { define }, 1024)
        local cases = {
            { { blank }, { 1, 2 } },
            { { blank, blank }, { 1, 2, 3 } },
            { { blank:sub(1, 1000) }, { 1 } },                       -- not filled to its end
            { { blank .. blank }, { 1, 2 } },                        -- for a large group
            { { kit.flip(blank, 1023) }, { 1 } },
            { { blank, kit.flip(blank, 500), blank }, { 1, 2 } },
            { { [2] = blank }, { 1 } },
        }
        for n, case in ipairs(cases) do
            local image, expected = { [name(1)] = first }, {}
            for number, content in pairs(case[1]) do image[name(number + 1)] = content end
            for _, number in ipairs(case[2]) do expected[#expected + 1] = name(number) end
            local disk = kit.restore(crash.disk(1), "d", image)
            local log = assert(kit.open(disk, "d", kit.history(), SEG))
            assert.same(expected, disk:list "d", "case " .. n)
            log:close()
        end
    end)

    it("stops at a mark that does not fit, naming segment, offset and table", function()
        local history = kit.history()
        local log = assert(kit.open(new_disk(), "d", history))
        assert.equal(0, log:write { kit.define(1, "t"), kit.put("a", "1") })
        local mark = kit.mark(log.store)
        assert.equal(0, log:write { mark })
        assert.equal(0, log:write { kit.put("a", "2") })
        local blocks = ffi.new("struct ms_block *[1]", { kit.block({ mark }, log:written() + 1) })
        assert.equal(0, C.ms_log_write(log.log, blocks, 1, 0))
        C.ms_block_unref(blocks[0])
        log:close()
        local _, rc, why = kit.open(log.disk, "d", history)
        assert.equal(C.MS_E_DAMAGED, rc)
        assert.truthy(why:find("log segment 1 of d at offset 216: mark at lsn 5: table t", 1, true), why)
    end)

    it("stops at a sound group that makes no sense, and at one of a newer version", function()
        local define = kit.group({ kit.define(1, "t") }, 1)
        local function open(second)
            local disk = kit.restore(crash.disk(1), "d", { [name(1)] = kit.segment(1, 1, { define, second }) })
            local log, rc, why = kit.open(disk, "d", kit.history())
            assert.is_nil(log)
            assert.truthy(why:find("log segment 1 of d at offset 88", 1, true), why)
            return rc
        end
        assert.equal(C.MS_E_DAMAGED, open(kit.group({ kit.put("a", "1", 9) }, 2)))     -- an undefined table
        assert.equal(C.MS_E_DAMAGED, open(kit.group({ kit.raw(18, "ab") }, 2)))         -- END in a log
        assert.equal(C.MS_E_DAMAGED, open(kit.group("\1\200", 2, { count = 1 })))       -- a record that runs past the end
        assert.equal(C.MS_E_VERSION, open(kit.group({ kit.raw(77, "ab") }, 2)))         -- an unknown critical record
        local newer = ffi.new("uint8_t[?]", 200)
        local group = kit.group({ kit.put("a", "1") }, 2)
        ffi.copy(newer, group, #group)
        newer[2] = 2
        C.ms_group_restamp(newer, 1)
        assert.equal(C.MS_E_VERSION, open(ffi.string(newer, #group)))
        -- and behind the end: it is not ours to remove
        assert.equal(C.MS_E_VERSION, (function()
            local disk = kit.restore(crash.disk(1), "d", { [name(1)] = kit.segment(1, 1, { define, ("x"):rep(64), ffi.string(newer, #group) }) })
            return (select(2, kit.open(disk, "d", kit.history())))
        end)())
    end)

    it("steps over unknown optional records and counts them", function()
        local group = kit.group({ kit.define(1, "t"), kit.raw(0x99, "abc"), kit.put("a", "1") }, 1)
        local disk = kit.restore(crash.disk(1), "d", { [name(1)] = kit.segment(1, 1, { group }) })
        local log = assert(kit.open(disk, "d", kit.history()))
        assert.same({ t = { a = "1" } }, kit.tables(log.store))
        assert.equal(1, tonumber(log.store.skipped))
        assert.equal(3, log:written())
        log:close()
    end)

    it("never takes a file that can't be read, or lack of memory, for the end of the log", function()
        local image, history = sample(16, { [4] = true })
        for _, op in ipairs { C.MS_SIM_FS_OPEN, C.MS_SIM_FS_READ, C.MS_SIM_FS_LIST, C.MS_SIM_FS_SYNC, C.MS_SIM_FS_SYNC_DIR, C.MS_SIM_FS_WRITE } do
            local failures = 0
            for nth = 1, 100 do
                local disk = kit.restore(crash.disk(1), "d", image)
                C.ms_sim_fs_fail_after(disk.sim, op, nth, nil)
                local log, rc, why = kit.open(disk, "d", kit.history(), SEG)
                C.ms_sim_fs_fail_after(disk.sim, op, 0, nil)
                if log then
                    log:close()
                    break
                end
                failures = failures + 1
                assert.equal(C.MS_E_IO, rc)
                assert.truthy(why:find("injected", 1, true), why)
                log = assert(kit.open(disk, "d", kit.history(), SEG))
                assert.equal(history.head, log:written())
                log:close()
            end
            assert.is_true(failures > 0 and failures < 99, "operation " .. op)
            crash.free_all()
        end
    end)
end)

describe("recovery behind a snapshot", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    -- Five groups of two lsns in segments of two, one and two groups; a store at `lsn`.
    local function parts(lsn)
        local history, groups = kit.history(), {}
        history:add { kit.define(1, "t"), kit.put("k", "0") }
        for n = 1, 4 do history:add { kit.put("a" .. n, "1"), kit.put("k", "" .. n) } end
        for n, group in ipairs(history.groups) do groups[n] = kit.group(group.changes, group.first, { synced = group.first - 1 }) end
        local image = { [name(1)] = kit.segment(1, 1, { groups[1], groups[2] }, 1024), [name(2)] = kit.segment(2, 5, { groups[3] }, 1024),
            [name(3)] = kit.segment(3, 7, { groups[4], groups[5] }, 1024) }
        local store = kit.store()
        for _, group in ipairs(history.groups) do
            if group.last <= lsn then ms.check(kit.fold(store, group.changes)) end
        end
        return image, history, store, groups
    end

    local function open(image, history, store)
        local disk = kit.restore(crash.disk(1), "d", image)
        local log, rc, why = kit.open(disk, "d", history, SEG, store)
        return log, rc, why, disk
    end

    it("folds what is behind its end, wherever that is", function()
        for lsn = 0, 10, 2 do
            local image, history, store = parts(lsn)
            local log = assert(open(image, history, store))
            assert.same({ 1, 10 }, { log:first(), log:written() })
            assert.equal(history:state(10), kit.state(store))
            log:close()
            image, history, store = parts(lsn)
            image[name(1)] = nil -- trimmed
            local trimmed, rc, why = open(image, history, store)
            if lsn >= 4 then
                assert.same({ 5, 10 }, { trimmed:first(), trimmed:written() })
                assert.equal(history:state(10), kit.state(store))
                trimmed:close()
            else
                assert.equal(C.MS_E_DAMAGED, rc)
                assert.equal(("the log in d starts with lsn 5 in segment 2, but the tables end at lsn %d: what is between is lost"):format(lsn), why)
            end
        end
    end)

    it("must reach to the lsn before the log's first one", function()
        for base = 0, 3 do
            local history, store = kit.history(), kit.store()
            history:add { kit.define(1, "t") }
            for n = 2, 4 do history:add { kit.put("k" .. n, "1") } end
            for n = 1, base do ms.check(kit.fold(store, history.groups[n].changes)) end
            local log, rc = open({ [name(3)] = kit.segment(3, 3, { kit.group(history.groups[3].changes, 3),
                kit.group(history.groups[4].changes, 4) }, 1024) }, history, store)
            if base >= 2 then
                assert.equal(history:state(4), kit.state(store))
                log:close()
            else
                assert.equal(C.MS_E_DAMAGED, rc, "the snapshot ends at " .. base)
                local empty, code = open({ [name(3)] = kit.segment(3, 3, {}, 1024) }, history, store)
                assert.is_nil(empty)
                assert.equal(C.MS_E_DAMAGED, code, "the same with a mere header")
            end
        end
    end)

    it("that ends within a group is damage", function()
        local image, history, store = parts(4)
        store.applied = 5
        local _, rc, why = open(image, history, store)
        assert.equal(C.MS_E_DAMAGED, rc)
        assert.truthy(why:find("the group of lsn 5 to 6 does not end where the snapshot does, at 5", 1, true), why)
    end)

    it("starts a fresh log behind it if the log ends earlier, and takes nothing old with it", function()
        for _, gone in ipairs { { 3 }, { 2, 3 }, { 1, 2, 3 } } do
            local image, history, store = parts(10)
            for _, number in ipairs(gone) do image[name(number)] = nil end
            local log, _, _, disk = open(image, history, store)
            assert.same({ 11, 10, 10, 0 }, { log:first(), log:written(), log:synced(), log:bytes() })
            assert.same({}, disk:list "d")
            assert.equal(0, log:write { kit.put("new", "1") })
            log:close()
            local _, _, fresh = parts(10)
            local again = assert(kit.open(disk, "d", history, SEG, fresh))
            assert.same({ 11, 11 }, { again:first(), again:written() })
            assert.equal(history:state(11), kit.state(fresh))
            again:close()
            -- and an older snapshot does not reach it
            local _, _, older = parts(8)
            local _, rc = kit.open(disk, "d", history, SEG, older)
            assert.equal(C.MS_E_DAMAGED, rc)
        end
    end)

    it("takes segments before a missing number as left-overs of a trim that a power loss undid", function()
        local image, history, store = parts(8)
        image[name(2)] = nil
        local log, _, _, disk = open(image, history, store)
        assert.same({ 7, 10 }, { log:first(), log:written() })
        assert.same({ name(3) }, disk:list "d")
        assert.equal(history:state(10), kit.state(store))
        assert.equal(0, log:write { kit.put("new", "1") })
        log:close()
    end)

    it("does not take them so if their records, or those of the missing segment, are needed", function()
        for lsn = 0, 4, 2 do
            local image, history, store = parts(lsn)
            image[name(2)] = nil
            local log, rc, why, disk = open(image, history, store)
            assert.is_nil(log)
            assert.equal(C.MS_E_DAMAGED, rc, why)
            assert.same({ name(1), name(3) }, disk:list "d")
        end
        -- What is behind the gap was never synced, and nothing before it is lost: the log ends at the gap.
        local image, history, store, groups = parts(0)
        image = { [name(1)] = image[name(1)], [name(3)] = kit.segment(3, 7, { kit.group(history.groups[4].changes, 7, { synced = 2 }) }, 1024) }
        local log = assert(open(image, history, store))
        assert.equal(4, log:written())
        assert.equal(history:state(4), kit.state(store))
        assert.is_table(groups)
        log:close()
    end)

    it("keeps what is sound when the header of the segment behind a gap is torn", function()
        local image, history, store = parts(0)
        image = { [name(1)] = image[name(1)], [name(3)] = kit.flip(kit.segment(3, 7, {}, 1024), 9) }
        local log = assert(open(image, history, store))
        assert.equal(4, log:written())
        log:close()
        -- The same with a snapshot behind the left-overs: what the torn segment had was not synced.
        local _, _, newer, groups = parts(8)
        image[name(3)] = kit.flip(kit.segment(3, 9, { kit.group(history.groups[5].changes, 9, { synced = 8 }) }, 1024), 9)
        local fresh, _, _, disk = open(image, history, newer)
        assert.same({ 9, 8 }, { fresh:first(), fresh:written() })
        assert.same({}, disk:list "d")
        assert.is_table(groups)
        fresh:close()
    end)
end)

describe("what recovery keeps is synced before it is called synced", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    it("so that it survives a power loss that follows a mere crash of the process", function()
        for seed = 1, 60 do
            local disk = new_disk(seed)
            local log = assert(kit.open(disk, "d", kit.history(), SEG))
            assert.equal(0, log:write { kit.define(1, "t") })
            for n = 1, 12 do assert.equal(0, log:write { kit.put("k" .. n, ("x"):rep(150)) }) end
            log:close()
            C.ms_sim_fs_crash(disk.sim)
            local again = assert(kit.open(disk, "d", log.history, SEG))
            assert.same({ 13, 13 }, { again:written(), again:synced() })
            again:close()
            crash.power_loss(disk)
            local third = assert(kit.open(disk, "d", log.history, SEG))
            assert.equal(13, third:written())
            assert.equal(log.history:state(13), kit.state(third.store))
            third:close()
            crash.free_all()
        end
    end)

    it("also after a sync that failed: what is readable but may never get to the disk is written anew", function()
        for seed = 1, 60 do
            local disk = new_disk(seed)
            local log = assert(kit.open(disk, "d", kit.history(), SEG))
            assert.equal(0, log:write { kit.define(1, "t") })
            assert.equal(0, log:sync())
            for n = 1, 12 do assert.equal(0, log:write { kit.put("k" .. n, ("x"):rep(150)) }) end
            C.ms_sim_fs_fail_after(disk.sim, C.MS_SIM_FS_SYNC, seed % 4 + 1, nil)
            while log:sync() == 0 do end
            log:close()
            C.ms_sim_fs_crash(disk.sim)
            local again = assert(kit.open(disk, "d", log.history, SEG))
            assert.equal(13, again:synced())
            again:close()
            crash.power_loss(disk)
            local third = assert(kit.open(disk, "d", log.history, SEG))
            assert.equal(13, third:written())
            third:close()
            crash.free_all()
        end
    end)

    -- A directory as a power loss may leave it: torn tail, a later segment with content, a prepared one, left-overs of a trim.
    local function torn_image()
        local history, groups = kit.history(), {}
        history:add { kit.define(1, "t"), kit.put("k", "0") }
        for n = 1, 6 do history:add { kit.put("a" .. n, ("v"):rep(80)), kit.put("k", "" .. n) } end
        for n, group in ipairs(history.groups) do
            groups[n] = kit.group(group.changes, group.first, { synced = math.min(group.first - 1, 8) })
        end
        return history, {
            [name(1)] = kit.segment(1, 1, { groups[1] }, 1024),
            [name(3)] = kit.segment(3, 5, { groups[3], groups[4] }, 1024),
            [name(4)] = kit.segment(4, 9, { groups[5], kit.flip(groups[6], 70) }, 1024),
            [name(5)] = kit.segment(5, 13, { groups[7] }, 1024),
            [name(6)] = kit.segment(6, nil, {}, 1024),
            [name(7)] = kit.flip(kit.segment(7, nil, {}, 1024), 700),
        }
    end

    local function store_at(history, lsn)
        local store = kit.store()
        for _, group in ipairs(history.groups) do
            if group.last <= lsn then ms.check(kit.fold(store, group.changes)) end
        end
        return store
    end

    -- base: the snapshot's end; expected: the log's.
    local function sweep(base, expected, image_of)
        local history
        return crash.sweep {
            seeds = 4,
            setup = function(disk)
                local image
                history, image = (image_of or torn_image)()
                kit.restore(disk, "d", image)
            end,
            run = function(disk)
                local log, rc, why = kit.open(disk, "d", history, SEG, store_at(history, base))
                if not log then error(tostring(rc) .. why) end
                log.history = kit.history()
                for _, group in ipairs(history.groups) do
                    if group.last <= expected then log.history:add(group.changes) end
                end
                local rc2, why2 = log:write { kit.put("fresh", "1") }
                local rc3 = rc2 == 0 and log:sync()
                log:close()
                disk.kept.done = rc2 == 0 and rc3 == 0
                if rc2 ~= 0 or rc3 ~= 0 then error(tostring(why2)) end
            end,
            check = function(disk, ran)
                assert.equal(ran, disk.kept.done or false)
                local log, rc, why = kit.open(disk, "d", history, SEG, store_at(history, base))
                if not log then error(("%d %s"):format(rc, why)) end
                local written = log:written()
                if ran then assert.equal(expected + 1, written) end
                assert.is_true(written == expected or written == expected + 1, "ends at " .. written)
                local model = store_at(history, expected)
                if written > expected then ms.check(kit.fold(model, { kit.put("fresh", "1") })) end
                assert.equal(kit.state(model), kit.state(log.store))
                log:close()
            end,
        }
    end

    it("and recovery may be cut short by power loss or crash at any operation and done again", function()
        local count = sweep(4, 10)
        assert.is_true(count > 12, tostring(count))
    end)

    it("also where the snapshot ends with the log and several later segments go", function()
        local count = sweep(10, 10, function()
            local history, image = torn_image()
            image[name(6)] = kit.segment(6, 15, { kit.group({ kit.put("later", "1") }, 15, { synced = 8 }) }, 1024)
            return history, image
        end)
        assert.is_true(count > 12, tostring(count))
    end)

    it("also where the snapshot is ahead and all segments go", function()
        assert.is_true(sweep(12, 12, function()
            local history, image = torn_image()
            image[name(5)] = kit.segment(5, nil, {}, 1024)
            return history, image
        end) > 15)
    end)
end)

-- ---- snapshots and log together -------------------------------------------------------------------------------------------

-- A generation "d" with snapshots at the lsns in `cuts` and a log: disk, history, names of the snapshots, oldest first.
local function generation(cuts, head, seed)
    local disk, history = new_disk(seed), kit.history()
    local log, names = assert(kit.open(disk, "d", history, SEG)), {}
    assert.equal(0, log:write { kit.define(1, "t"), kit.epoch(1, 1, 99) })
    for lsn = 3, head do
        if cuts[lsn - 1] then names[#names + 1] = kit.snapshot_name(assert(kit.snapshot(log))) end
        assert.equal(0, log:write { kit.put("k" .. lsn % 7, ("x"):rep(40) .. lsn) })
        if lsn % 5 == 0 then log:sync() end
    end
    if cuts[head] then names[#names + 1] = kit.snapshot_name(assert(kit.snapshot(log))) end
    while log:sync() ~= "nothing" do end
    log:close()
    return disk, history, names
end

describe("recovery of a generation", function()
    local before
    before_each(function() before = ms.live() end)
    after_each(function()
        kit.free_all()
        C.ms_mem_fail_after(0)
        crash.free_all()
        assert.equal(before, ms.live())
    end)

    it("of an empty directory gives empty tables and an empty log", function()
        local log, store, recovery = kit.recover(new_disk(), "d", kit.history())
        assert.same({ 1, 0 }, { log:first(), log:written() })
        assert.same({}, kit.tables(store))
        assert.same({ 0, 0, 0, "" }, { tonumber(recovery.snapshot_end), recovery.bad_snapshots, tonumber(recovery.truncated),
            ffi.string(recovery.note) })
        log:close()
    end)

    it("takes the newest snapshot and the log behind it", function()
        local disk, history = generation({ [10] = true, [20] = true }, 30)
        local log, store, recovery = kit.recover(disk, "d", history, SEG)
        assert.equal(20, tonumber(recovery.snapshot_end))
        assert.equal(30, log:written())
        assert.equal(history:state(30), kit.state(store))
        assert.same(history:tables(), kit.tables(store))
        assert.equal(1, store.lineage.count)
        log:close()
    end)

    it("passes over a damaged one, says so, and sets it aside", function()
        local disk, history, names = generation({ [10] = true, [20] = true }, 30)
        C.ms_sim_fs_corrupt(disk.sim, "d/" .. names[2], 100, 1)
        local log, store, recovery = kit.recover(disk, "d", history, SEG)
        assert.equal(10, tonumber(recovery.snapshot_end))
        assert.equal(1, recovery.bad_snapshots)
        local note = ffi.string(recovery.note)
        assert.truthy(note:find("snapshot d/" .. names[2] .. " at offset 88: no sound group", 1, true), note)
        assert.equal(history:state(30), kit.state(store))
        log:close()
        assert.is_true(disk:exists("d/" .. names[1]) and disk:exists("d/" .. names[2] .. ".bad") and not disk:exists("d/" .. names[2]))
        local again, _, second = kit.recover(disk, "d", history, SEG)
        assert.equal(0, second.bad_snapshots)
        again:close()
    end)

    it("takes the log from lsn 1 if no snapshot is sound", function()
        local disk, history, names = generation({ [10] = true, [20] = true }, 30)
        for _, snapshot in ipairs(names) do C.ms_sim_fs_corrupt(disk.sim, "d/" .. snapshot, 150, 1) end
        local log, store, recovery = kit.recover(disk, "d", history, SEG)
        assert.same({ 0, 2 }, { tonumber(recovery.snapshot_end), recovery.bad_snapshots })
        assert.equal(history:state(30), kit.state(store))
        log:close()
    end)

    it("is damage if that log was trimmed; the store is empty then and nothing is renamed", function()
        local disk, history, names = generation({ [12] = true, [20] = true }, 30)
        disk:remove("d/" .. kit.segment_name(1))
        for n, expected in ipairs { 0, C.MS_E_DAMAGED } do
            C.ms_sim_fs_corrupt(disk.sim, "d/" .. names[3 - n], 150, 1)
            local image = kit.image(disk, "d")
            local log, rc, why, _, store = kit.recover(disk, "d", history, SEG)
            if expected == 0 then
                assert.is_truthy(log, why)
                assert.equal(30, log:written())
                log:close()
            else
                assert.equal(C.MS_E_DAMAGED, rc)
                assert.truthy(why:find("1 snapshots of d were refused", 1, true) and why:find("the log in d starts with lsn", 1, true), why)
                assert.same(image, kit.image(disk, "d"))
                assert.equal("0", kit.state(store))
            end
        end
    end)

    it("does not believe a name: the position is the file's", function()
        local disk, history, names = generation({ [10] = true, [20] = true }, 30)
        disk:rename("d/" .. names[2], "d/" .. kit.snapshot_name(25))
        local log, store, recovery = kit.recover(disk, "d", history, SEG)
        assert.same({ 10, 1 }, { tonumber(recovery.snapshot_end), recovery.bad_snapshots })
        assert.truthy(ffi.string(recovery.note):find("ends at lsn 20", 1, true))
        assert.equal(history:state(30), kit.state(store))
        log:close()
    end)

    it("refuses another cluster's, and does not try an older one", function()
        local disk, history = generation({ [10] = true, [20] = true }, 30)
        local log, rc, why = kit.recover(disk, "d", history, { segment = 1024, cluster = "other" })
        assert.is_nil(log)
        assert.equal(C.MS_E_CLUSTER, rc)
        assert.truthy(why:find("a snapshot of cluster test, not other", 1, true), why)
    end)

    it("with a bit flipped in a snapshot or the log never gives a wrong table", function()
        local disk, history = generation({ [10] = true, [20] = true }, 24)
        local image, seen = kit.image(disk, "d"), {}
        crash.free_all()
        for file, content in pairs(image) do
            for offset = 0, #content - 1, 3 do
                local copy = kit.copy(image)
                copy[file] = kit.flip(content, offset, 2 ^ (offset % 8))
                local damaged = kit.restore(crash.disk(1), "d", copy)
                local log, rc, why, recovery = kit.recover(damaged, "d", history, SEG)
                local place = file .. " at " .. offset
                if log then
                    local written = log:written()
                    assert.equal(history:state(written), kit.state(log.store), place)
                    seen[written] = (seen[written] or 0) + 1
                    log:close()
                else
                    assert.equal(C.MS_E_DAMAGED, rc, place .. ": " .. why)
                    assert.equal(0, recovery.bad_snapshots, place)
                    seen.damaged = (seen.damaged or 0) + 1
                end
                crash.free_all()
            end
        end
        assert.is_true(seen[24] > 500 and seen.damaged > 100, ("%d %s"):format(seen[24], tostring(seen.damaged)))
    end)

    it("with a snapshot cut to any length takes the older one, or the log", function()
        local disk, history, names = generation({ [10] = true, [20] = true }, 24)
        local image = kit.image(disk, "d")
        crash.free_all()
        for length = 0, #image[names[2]] - 1 do
            local copy = kit.copy(image)
            copy[names[2]] = image[names[2]]:sub(1, length)
            local cut = kit.restore(crash.disk(1), "d", copy)
            local log, _, recovery = kit.recover(cut, "d", history, SEG)
            assert.is_truthy(log, "cut to " .. length)
            assert.same({ 10, 1 }, { tonumber(recovery.snapshot_end), recovery.bad_snapshots })
            assert.equal(history:state(24), kit.state(log.store))
            log:close()
            crash.free_all()
        end
    end)

    it("frees everything whichever allocation fails, and then works", function()
        local disk, history, names = generation({ [10] = true, [20] = true }, 30)
        local image = kit.image(disk, "d")
        image[names[2]] = kit.flip(image[names[2]], 100)
        local posix = require "spec.support.seam".new(C.ms_fs_posix())
        local dir = ms.tmpdir() .. "/g"
        local refused, expected = 0, history:state(30)
        posix:mkdir(dir)
        local failed = ms.with_alloc_failures(function()
            local left = C.ms_mem_fail_after(0)
            for file, content in pairs(image) do posix:put(dir .. "/" .. file, content) end
            C.ms_mem_fail_after(left)
            local log, store, message, _, emptied = kit.recover(posix, dir, history, SEG)
            if not log then
                assert.equal(C.MS_E_MEMORY, store, message)
                assert.equal("0", kit.state(emptied))
                refused = refused + 1
                C.ms_store_close(emptied)
                return
            end
            assert.equal(expected, kit.state(store))
            log:close()
            C.ms_store_close(store)
        end)
        assert.is_true(failed > 30 and refused > 20)
    end)

    it("goes on after EIO at any operation, once the disk works again", function()
        local disk, history = generation({ [10] = true, [20] = true }, 30)
        local image = kit.image(disk, "d")
        for op = 0, C.MS_SIM_FS_OPS - 1 do
            for nth = 1, 60 do
                crash.free_all()
                local sick = kit.restore(crash.disk(1), "d", image)
                C.ms_sim_fs_fail_after(sick.sim, op, nth, nil)
                local log, rc = kit.recover(sick, "d", history, SEG)
                local fired = tonumber(C.ms_sim_fs_counters(sick.sim).eio) > 0
                C.ms_sim_fs_fail_after(sick.sim, op, 0, nil)
                if log then log:close() else assert.equal(C.MS_E_IO, rc) end
                log = assert(kit.recover(sick, "d", history, SEG))
                assert.equal(30, log:written())
                assert.equal(history:state(30), kit.state(log.store))
                log:close()
                if not fired then break end
            end
        end
    end)
end)

-- Lives of one generation: writes, marks, snapshots (also while changes go on), trims by bytes and snapshots, power loss, crash.
describe("a generation under random operations", function()
    after_each(function()
        kit.free_all()
        crash.free_all()
    end)

    local function trim(log, disk)
        local names, count = ffi.new "struct ms_snapshot_name[32]", ffi.new "uint32_t[1]"
        ms.check(C.ms_snapshot_prune(disk.fs, "d", 2, 0))
        ms.check(C.ms_snapshot_list(disk.fs, "d", names, count))
        if count[0] > 0 then ms.check(log:trim(names[count[0] - 1]["end"], math.random(0, 3000))) end
    end

    local function change() return kit.put("k" .. math.random(1, 30), ("x"):rep(math.random(0, 100)) .. math.random(1, 1e6)) end

    local function live(disk, history, synced)
        local log, store = kit.recover(disk, "d", history, SEG)
        assert(log, log or (store and "recovery failed: " .. ms.err()))
        local written = log:written()
        assert.is_true(written >= synced, ("%d was synced, the log ends at %d"):format(synced, written))
        assert.equal(history:state(written), kit.state(store))
        history:cut(written)
        if written == 0 then assert.equal(0, log:write { kit.define(1, "t") }) end
        for _ = 1, math.random(1, 50) do
            local dice = math.random()
            if dice < 0.75 then
                assert.equal(0, log:write(dice < 0.7 and { change(), change() } or { kit.mark(log.store) }))
            elseif dice < 0.87 then
                log:sync()
            elseif dice < 0.95 then
                local ended, _, why = kit.snapshot(log, { bytes = 200, each = function()
                    if math.random() < 0.1 then assert.equal(0, log:write { change() }) end
                end })
                assert.is_truthy(ended, why)
                synced = math.max(synced, ended)
            else
                trim(log, disk)
            end
        end
        local kept = math.max(synced, log:synced())
        log:close()
        return kept
    end

    it("keeps what was synced or in a snapshot, and is at a state that it once had", function()
        local base = tonumber(os.getenv "MS_SEED") or 1
        for seed = base, base + 29 do
            math.randomseed(seed)
            local disk, history, synced = new_disk(seed), kit.history(), 0
            for life = 1, 6 do
                local ok, result = pcall(live, disk, history, synced)
                if not ok then error(("seed %d, life %d: %s"):format(seed, life, tostring(result.message or result)), 0) end
                synced = result
                if math.random() < 0.7 then
                    crash.power_loss(disk)
                else
                    C.ms_sim_fs_crash(disk.sim)
                    synced = history.head
                end
            end
            crash.free_all()
        end
    end)
end)
