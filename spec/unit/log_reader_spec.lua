-- state/log_reader: groups from any lsn on, while the log is written and trimmed, and what it says where there is none.
local ms = require "spec.support.ms"
local crash = require "spec.support.crash"
local kit = require "spec.support.statekit"
local C, ffi = ms.C, ms.ffi

local SEG = { segment = 1024 }
local ANY = 0xffffffffffffffffULL

local function name(number) return kit.segment_name(number) end

local function new_disk()
    local disk = crash.disk(1)
    disk:mkdir "d"
    disk:sync_dir "/"
    return disk
end

-- A log of `count` groups of one to three lsns in 1 KiB segments.
local function filled(count)
    math.randomseed(9)
    local log = assert(kit.open(new_disk(), "d", kit.history(), SEG))
    assert.equal(0, log:write { kit.define(1, "t") })
    for n = 2, count do
        local changes = {}
        for i = 1, math.random(1, 3) do changes[i] = kit.put("k" .. i, ("v"):rep(math.random(0, 120)) .. n) end
        assert.equal(0, log:write(changes))
        if n % 4 == 0 then log:sync() end
    end
    return log
end

local Reader = {}
Reader.__index = Reader

local function open(disk, from, dir)
    local out = ffi.new "struct ms_log_reader *[1]"
    local rc = C.ms_log_reader_open(disk.fs, dir or "d", from, out)
    if rc ~= 0 then return nil, rc, ms.err() end
    return setmetatable({ handle = out[0] }, Reader)
end

-- "first-last", 0, or code and message.
function Reader:next(limit)
    local block = ffi.new "struct ms_block *[1]"
    local rc = C.ms_log_reader_next(self.handle, limit or ANY, block)
    if rc < 0 then return rc, ms.err() end
    if rc == 0 then return 0 end
    local text = ("%s-%s"):format(ms.dec(block[0].first), ms.dec(block[0].last))
    assert(block[0].finished)
    C.ms_block_unref(block[0])
    return text
end

function Reader:place()
    local path, offset = ffi.new "const char *[1]", ffi.new "uint64_t[1]"
    C.ms_log_reader_place(self.handle, path, offset)
    return ffi.string(path[0]), tonumber(offset[0])
end

function Reader:close() C.ms_log_reader_close(self.handle) end

local function text_of(group) return ("%d-%d"):format(group.first, group.last) end

describe("a log reader", function()
    local before
    before_each(function() before = ms.live() end)
    after_each(function()
        kit.free_all()
        C.ms_mem_fail_after(0)
        crash.free_all()
        assert.equal(before, ms.live())
    end)

    it("gives every group from each lsn where one starts, and only from there", function()
        local log = filled(40)
        local starts = {}
        for n, group in ipairs(log.history.groups) do starts[group.first] = n end
        for from = 1, log.history.head do
            local groups, rc, why = kit.read(log.disk, "d", from, log:written())
            if starts[from] then
                assert.equal(40 - starts[from] + 1, #groups)
                for n, group in ipairs(groups) do
                    assert.equal(text_of(log.history.groups[starts[from] + n - 1]), text_of(group))
                end
            else
                assert.equal(C.MS_E_NOT_FOUND, rc)
                assert.equal("no group of the log in d starts at lsn " .. from, why)
            end
        end
        log:close()
    end)

    it("of the lsn behind the end waits there; further on is not found", function()
        local log = filled(20)
        local head = log:written()
        local reader = assert(open(log.disk, head + 1))
        assert.equal(0, reader:next())
        assert.equal(0, reader:next(head))
        local _, rc, why = open(log.disk, head + 2)
        assert.equal(C.MS_E_NOT_FOUND, rc)
        assert.equal(("the log in d ends before lsn %d, lsn %d was asked for"):format(head + 1, head + 2), why)
        assert.equal(0, log:write { kit.put("a", "1"), kit.put("b", "1") })
        assert.equal(("%d-%d"):format(head + 1, head + 2), reader:next())
        assert.equal(0, reader:next())
        reader:close()
        log:close()
    end)

    it("of an empty log waits for its first group, which may be any", function()
        local disk, history, store = new_disk(), kit.history(), kit.store()
        history:add { kit.define(1, "t"), kit.put("a", "1") }
        kit.fold(store, history.groups[1].changes)
        local log = assert(kit.open(disk, "d", history, SEG, store))
        local reader = assert(open(disk, 0))
        assert.equal(0, reader:next())
        log:prepare()
        assert.equal(0, reader:next())
        assert.equal(0, log:write { kit.put("b", "1") })
        assert.equal("3-3", reader:next())
        reader:close()
        assert.equal(C.MS_E_NOT_FOUND, (select(2, open(disk, 2))))
        assert.equal(C.MS_E_NOT_FOUND, (select(2, open(new_disk(), 1))))
        log:close()
    end)

    it("gives a group only if it ends at or before the limit", function()
        local log = filled(12)
        local reader = assert(open(log.disk, 0))
        for _, group in ipairs(log.history.groups) do
            for limit = 0, group.last - 1 do assert.equal(0, reader:next(limit)) end
            assert.equal(text_of(group), reader:next(group.last))
        end
        reader:close()
        log:close()
    end)

    it("follows the writer group by group over segments, headers without group, and large groups", function()
        local log = assert(kit.open(new_disk(), "d", kit.history(), SEG))
        local reader = assert(open(log.disk, 0))
        assert.equal(0, log:write { kit.define(1, "t") })
        assert.equal("1-1", reader:next(1))
        for n = 2, 60 do
            if n % 7 == 0 then log:prepare(200) end
            local changes = n % 9 == 0 and { kit.put("big", ("b"):rep(4000)) } or { kit.put("k", ("v"):rep(n * 3)), kit.delete "k" }
            local first = log:written() + 1
            assert.equal(0, reader:next())
            assert.equal(0, log:write(changes))
            assert.equal(("%d-%d"):format(first, log:written()), reader:next(log:written()))
            if n % 10 == 0 then
                while log:sync() ~= "nothing" do end
                log:trim(log:written(), 0)
            end
        end
        reader:close()
        log:close()
    end)

    it("goes on in a file that is trimmed meanwhile, and says that the next one is gone", function()
        local log = filled(60)
        local reader = assert(open(log.disk, 0))
        assert.equal("1-1", reader:next())
        while log:sync() ~= "nothing" do end
        assert.equal(0, log:trim(log:written(), 0))
        local given, rc, why = 0
        repeat
            rc, why = reader:next(log:written())
            given = given + 1
        until type(rc) == "number"
        assert.is_true(given > 3)
        assert.equal(C.MS_E_NOT_FOUND, rc)
        assert.truthy(why:find("was trimmed from the log in d", 1, true), why)
        reader:close()
        assert.equal(C.MS_E_NOT_FOUND, (select(2, open(log.disk, 1))))
        local again = assert(open(log.disk, 0))
        assert.equal(tonumber(again:next():match "^%d+"), log:first())
        again:close()
        log:close()
    end)

    it("finds the first lsn, 0 if there is no group", function()
        local first = ffi.new "uint64_t[1]"
        local function oldest(disk)
            ms.check(C.ms_log_reader_first(disk.fs, "d", first))
            return tonumber(first[0])
        end
        local log = filled(60)
        assert.equal(1, oldest(log.disk))
        while log:sync() ~= "nothing" do end
        log:trim(log:written() - 30, 0)
        assert.equal(log:first(), oldest(log.disk))
        log:close()
        assert.equal(0, oldest(new_disk()))
        local function image(segments) return kit.restore(crash.disk(1), "d", segments) end
        assert.equal(0, oldest(image { [name(1)] = kit.segment(1, 5, {}) }))
        assert.equal(0, oldest(image { [name(1)] = kit.segment(1) }))
        local group = kit.group({ kit.define(1, "t") }, 5)
        assert.equal(5, oldest(image { [name(1)] = kit.segment(1, 5, {}), [name(2)] = kit.segment(2, 5, { group }) }))
    end)

    it("names file and offset of the group given last", function()
        local log = filled(30)
        local reader = assert(open(log.disk, 0))
        while true do
            local text = reader:next()
            if text == 0 then break end
            local path, offset = reader:place()
            local header = ffi.new "struct ms_group_header"
            ms.check(C.ms_group_check(ms.bytes(log.disk:get(path):sub(offset + 1)), header))
            assert.equal(text:match "^%d+", ms.dec(header.first))
        end
        reader:close()
        log:close()
    end)

    it("calls a bad or missing group at or before the limit damage, with its place; behind it nothing is said", function()
        local log = filled(40)
        local head = log:written()
        log:close()
        local image = kit.image(log.disk, "d")
        -- Every byte of the second segment: none is given that was not written so.
        local content, whole = image[name(2)], nil
        local groups = assert(kit.read(log.disk, "d", 0, head))
        for offset = 0, #content - 1 do
            crash.free_all()
            local copy = kit.copy(image)
            copy[name(2)] = kit.flip(content, offset, 2 ^ (offset % 8))
            local disk = kit.restore(crash.disk(1), "d", copy)
            local got, rc, why, seen = kit.read(disk, "d", 1, head)
            for n, group in ipairs(got or seen) do assert.equal(groups[n].bytes, group.bytes) end
            if got then
                assert.equal(40, #got)
                whole = (whole or 0) + 1
            else
                assert.equal(C.MS_E_DAMAGED, rc, why)
                assert.truthy(why:find(offset < 32 and "header of the next segment is damaged" or "log segment 2 of d at offset %d+: no sound"), why)
                assert.equal(#seen, #assert(kit.read(disk, "d", 1, seen[#seen].last)))
            end
        end
        assert.is_true(whole > 0 and whole < 150) -- flips in the zeros at the segment's end
    end)

    it("tells the end of the log from a group that is missing by the limit", function()
        local groups = { kit.group({ kit.define(1, "t") }, 1), kit.group({ kit.put("a", "1") }, 2) }
        local disk = kit.restore(crash.disk(1), "d", { [name(1)] = kit.segment(1, 1, groups), [name(2)] = kit.segment(2) })
        local reader = assert(open(disk, 2))
        assert.equal("2-2", reader:next(2))
        assert.equal(0, reader:next(2))
        assert.equal(0, reader:next())
        local rc, why = reader:next(3)
        assert.equal(C.MS_E_DAMAGED, rc)
        assert.equal("log segment 1 of d at offset 144: no sound group of lsn 3 is there", why)
        reader:close()
    end)

    it("tells the end of the log from a torn tail, also without a limit", function()
        local groups = { kit.group({ kit.define(1, "t") }, 1), kit.flip(kit.group({ kit.put("a", "1") }, 2), 50) }
        local disk = kit.restore(crash.disk(1), "d", { [name(1)] = kit.segment(1, 1, groups) })
        local reader = assert(open(disk, 0))
        assert.equal("1-1", reader:next())
        local rc, why = reader:next()
        assert.equal(C.MS_E_DAMAGED, rc)
        assert.equal("log segment 1 of d at offset 88: no sound group of lsn 2 is there", why)
        reader:close()
    end)

    it("calls a segment that goes on with another lsn damage", function()
        local groups = { kit.group({ kit.define(1, "t") }, 1), kit.group({ kit.put("a", "1") }, 3) }
        local disk = kit.restore(crash.disk(1), "d", { [name(1)] = kit.segment(1, 1, { groups[1] }), [name(2)] = kit.segment(2, 3, { groups[2] }) })
        local reader = assert(open(disk, 1))
        assert.equal("1-1", reader:next())
        local rc, why = reader:next(3)
        assert.equal(C.MS_E_DAMAGED, rc)
        assert.equal("log segment 1 of d at offset 88: no sound group of lsn 2 is there, and: the next segment starts with lsn 3", why)
        reader:close()
    end)

    it("reads again after an error of the disk or of memory", function()
        local log = filled(20)
        local reader = assert(open(log.disk, 1))
        C.ms_sim_fs_fail_after(log.disk.sim, C.MS_SIM_FS_READ, 1, nil)
        local rc, why = reader:next()
        assert.equal(C.MS_E_IO, rc)
        assert.truthy(why:find("log segment 1 of d at offset 32", 1, true), why)
        C.ms_mem_fail_after(1)
        assert.equal(C.MS_E_MEMORY, (reader:next()))
        assert.equal("1-1", reader:next())
        C.ms_mem_fail_after(1)
        assert.equal(C.MS_E_MEMORY, (reader:next()))
        assert.equal(text_of(log.history.groups[2]), reader:next())
        reader:close()
        log:close()
    end)

    it("takes memory for a large group only while it reads it", function()
        local log = assert(kit.open(new_disk(), "d", kit.history(), SEG))
        assert.equal(0, log:write { kit.define(1, "t") })
        assert.equal(0, log:write { kit.put("big", ("b"):rep(3000000)) })
        for n = 1, 40 do assert.equal(0, log:write { kit.put("k" .. n, ("v"):rep(300)) }) end
        local groups = assert(kit.read(log.disk, "d", 0))
        assert.equal(42, #groups)
        assert.equal(3000000 + 48 + 16, #groups[2].bytes)
        log:close()
        -- A header that promises more than the file has takes none.
        local body = ("x"):rep(100)
        local header = ffi.new("struct ms_group_header", { body_size = 70000000, count = 1, first = 1 })
        local bytes = ffi.new("uint8_t[?]", 70000100)
        C.ms_group_seal(bytes, header)
        local disk = kit.restore(crash.disk(1), "d", { [name(1)] = kit.segment(1, 1, { ffi.string(bytes, 48) .. body }) })
        local reader = assert(open(disk, 1))
        assert.equal(C.MS_E_DAMAGED, (reader:next(1)))
        reader:close()
        local window, found = ffi.new "struct ms_window", ffi.new "struct ms_bytes"
        ms.check(C.ms_window_open(window, disk.fs, "d/" .. name(1)))
        assert.equal(C.MS_PLACE_BAD, C.ms_window_group(window, 32, true, header, found))
        assert.equal(C.MS_WINDOW, tonumber(window.capacity))
        C.ms_window_close(window)
    end)

    it("frees everything whichever allocation fails", function()
        local log = filled(30)
        local refused = 0
        ms.with_alloc_failures(function()
            local groups, rc = kit.read(log.disk, "d", log.history.groups[10].first, log.history.head)
            if groups then
                assert.equal(21, #groups)
            else
                assert.equal(C.MS_E_MEMORY, rc)
                refused = refused + 1
            end
        end)
        assert.is_true(refused > 20)
        log:close()
    end)
end)
