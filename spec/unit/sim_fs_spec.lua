-- sim/sim_fs: the contract of base/fs.h, and what a power loss, a crash and each fault may and may not do.
local ms = require "spec.support.ms"
local crash = require "spec.support.crash"
local contract = require "spec.support.fs_contract"
local C = ms.C

local SEEDS = 300

-- Runs fn on a fresh disk for each seed and counts its results: { [result] = how often }.
local function outcomes(fn, seeds)
    local counts = {}
    for seed = 1, seeds or SEEDS do
        local result = fn(crash.disk(seed))
        crash.free_all()
        counts[result] = (counts[result] or 0) + 1
    end
    return counts
end

local function keys(set)
    local list = {}
    for key in pairs(set) do list[#list + 1] = key end
    table.sort(list)
    return list
end

-- "d" with the synced file "d/a".
local function with_file(disk, text)
    disk:mkdir "d"
    disk:sync_dir "/"
    disk:put("d/a", text)
    disk:sync_dir "d"
    return disk:open("d/a", "w")
end

local function counter(disk, name) return tonumber(C.ms_sim_fs_counters(disk.sim)[name]) end

describe("the simulated file system", function()
    local before
    before_each(function() before = ms.live() end)
    after_each(function()
        crash.free_all()
        assert.equal(before, ms.live())
    end)

    contract(function()
        local disk = crash.disk(1)
        disk:mkdir "/d"
        return disk, "/d"
    end, crash.free_all)

    it("takes / at the start, at the end and twice, and . as nothing", function()
        local disk = crash.disk(1)
        disk:mkdir "/d"
        disk:put("d//./a", "x")
        assert.equal("x", disk:get "/d/a/")
        assert.same({ "d" }, disk:list ".")
        assert.same({ "a" }, disk:list "/d/")
    end)

    it("refuses a rename into another directory or over a directory", function()
        local disk = crash.disk(1)
        disk:mkdir "d"
        disk:mkdir "e"
        disk:put("a", "x")
        assert.equal(C.MS_E_IO, (disk:try_rename("a", "d/a")))
        assert.equal(C.MS_E_IO, (disk:try_rename("d", "e")))
        assert.equal(C.MS_E_IO, (disk:try_rename("d", "a")))
        disk:rename("d", "f")
        assert.same({ "a", "e", "f" }, disk:list "/")
        assert.equal(C.MS_E_IO, (disk:try_remove "/"))
    end)

    it("lists names in no particular order", function()
        local first = outcomes(function(disk)
            for _, name in ipairs { "a", "b", "c" } do disk:put(name, "") end
            local seen
            disk:list("/", function(name)
                seen = seen or name
                return 0
            end)
            return seen
        end, 50)
        assert.same({ "a", "b", "c" }, keys(first))
    end)

    it("gives the same for the same seed, and not for another", function()
        local function story(seed)
            local disk, text = crash.disk(seed), {}
            C.ms_sim_fs_short_writes(disk.sim, 300000)
            C.ms_sim_fs_fail_often(disk.sim, C.MS_SIM_FS_WRITE, 100000)
            C.ms_sim_fs_fail_often(disk.sim, C.MS_SIM_FS_SYNC, 100000)
            for round = 1, 10 do
                for n = 1, 10 do disk:try_put_unsynced("f" .. n, (round .. "."):rep(200 * n)) end
                disk:sync_dir "/"
                crash.power_loss(disk)
                for _, name in ipairs(disk:list "/") do text[#text + 1] = name .. "=" .. disk:get(name) end
            end
            return table.concat(text)
        end
        assert.equal(story(7), story(7))
        assert.not_equal(story(7), story(8))
    end)

    describe("after a power loss", function()
        it("everything synced is there", function()
            for seed = 1, SEEDS do
                local disk = crash.disk(seed)
                local file = with_file(disk, ("x"):rep(3000))
                disk:write_all(file, 1000, ("y"):rep(3000))
                disk:truncate(file, 3500)
                disk:sync(file)
                disk:close(file)
                crash.power_loss(disk)
                assert.equal(("x"):rep(1000) .. ("y"):rep(2500), disk:get "d/a")
            end
        end)

        it("an un-synced overwrite is lost, there, torn by sectors or cut at a byte; the rest is untouched", function()
            local old, new = ("o"):rep(4096), ("n"):rep(2000)
            local seen = outcomes(function(disk)
                local file = with_file(disk, old)
                disk:write_all(file, 700, new)
                disk:close(file)
                local loss = crash.power_loss(disk)
                local text = disk:get "d/a"
                assert.equal(4096, #text)
                assert.equal(old:sub(1, 700), text:sub(1, 700))
                assert.equal(old:sub(2701), text:sub(2701))
                local middle = text:sub(701, 2700)
                local result = "sectors"
                if middle == new then result = "kept"
                elseif middle:match "^o+$" then result = "lost"
                elseif middle:match "^n+o+$" then result = "cut" end
                assert.equal(1, loss[result == "kept" and "kept" or result == "lost" and "lost" or "torn"], result)
                if result == "sectors" then -- borders are multiples of 512
                    for at in middle:gmatch "()no" do assert.equal(0, (700 + at) % 512) end
                    for at in middle:gmatch "()on" do assert.equal(0, (700 + at) % 512) end
                end
                return result
            end)
            assert.same({ "cut", "kept", "lost", "sectors" }, keys(seen))
        end)

        it("a later write may be there and an earlier one not", function()
            local seen = outcomes(function(disk)
                local file = with_file(disk, ("."):rep(2048))
                disk:write_all(file, 0, "A")
                disk:write_all(file, 600, "B")
                disk:close(file)
                local loss = crash.power_loss(disk)
                local text = disk:get "d/a"
                local result = text:sub(1, 1) .. text:sub(601, 601)
                assert.equal(result == ".B" and 1 or 0, loss.reordered)
                return result
            end)
            assert.same({ "..", ".B", "A.", "AB" }, keys(seen))
        end)

        it("where writes overlap the newer one wins if it is there", function()
            local seen = outcomes(function(disk)
                local file = with_file(disk, "....")
                disk:write_all(file, 0, "AAA")
                disk:write_all(file, 1, "BBB")
                disk:close(file)
                crash.power_loss(disk)
                return disk:get "d/a"
            end)
            for result in pairs(seen) do assert.truthy(result:match "^[A.][AB.][AB.][B.]$", result) end
            assert.truthy(seen["...."] and seen["ABBB"] and seen["AAA."] and seen[".BBB"])
        end)

        it("an un-synced extension is a size that the file had; what no write reached is zeros", function()
            local zeros
            local seen = outcomes(function(disk)
                local file = with_file(disk, "ab")
                disk:write_all(file, 2, "CD")
                disk:write_all(file, 4, "EF")
                disk:close(file)
                crash.power_loss(disk)
                local text = disk:get "d/a"
                assert.truthy(("abCDEF"):find(text:gsub("%z", "."):gsub("^ab", "^ab")) or #text == 6, text)
                if text:find "%z" then zeros = true end
                return #text
            end)
            assert.same({ 2, 4, 6 }, keys(seen))
            assert.truthy(zeros)
        end)

        it("an un-synced truncation happened or not", function()
            local seen = outcomes(function(disk)
                local file = with_file(disk, "abcdef")
                disk:truncate(file, 3)
                disk:close(file)
                crash.power_loss(disk)
                return disk:get "d/a"
            end)
            assert.same({ "abc", "abcdef" }, keys(seen))
        end)

        it("what was truncated does not come back when the file is lengthened again", function()
            local sizes = outcomes(function(disk)
                local file = with_file(disk, "abcdef")
                disk:truncate(file, 2)
                disk:write_all(file, 4, "X")
                disk:close(file)
                crash.power_loss(disk)
                local text = disk:get "d/a"
                if #text == 5 then assert.equal("ab\0\0", text:sub(1, 4)) end
                return #text
            end)
            assert.same({ 2, 5, 6 }, keys(sizes))
        end)

        it("a file whose name was not synced may be gone, and one whose content was not may be empty", function()
            local seen = outcomes(function(disk)
                disk:put("a", "text")
                crash.power_loss(disk)
                return disk:exists "a" and disk:get "a" or "gone"
            end)
            assert.same({ "gone", "text" }, keys(seen))
            seen = outcomes(function(disk)
                disk:put_unsynced("a", "text")
                disk:sync_dir "/"
                crash.power_loss(disk)
                return disk:get "a"
            end)
            assert.truthy(seen[""] and seen["text"])
        end)

        it("an un-synced removal happened or not, and then the content is there", function()
            local seen = outcomes(function(disk)
                local file = with_file(disk, "text")
                disk:close(file)
                disk:remove "d/a"
                crash.power_loss(disk)
                return disk:exists "d/a" and disk:get "d/a" or "gone"
            end)
            assert.same({ "gone", "text" }, keys(seen))
        end)

        it("a directory that was not synced may be gone with all that was synced in it", function()
            local seen = outcomes(function(disk)
                disk:mkdir "d"
                disk:put("d/a", "text")
                disk:sync_dir "d"
                crash.power_loss(disk)
                return disk:exists "d/a" and disk:get "d/a" or #disk:list "/" == 0 and "gone" or "broken"
            end)
            assert.same({ "gone", "text" }, keys(seen))
        end)

        it("a rename has the old content or the new one, never neither", function()
            local seen = outcomes(function(disk)
                disk:put("a", "old")
                disk:sync_dir "/"
                disk:put("a.tmp", "new")
                disk:rename("a.tmp", "a")
                crash.power_loss(disk)
                return disk:get "a" .. (disk:exists "a.tmp" and "+" or "")
            end)
            assert.same({ "new", "old", "old+" }, keys(seen))
        end)

        it("the changes of one name are there in order, those of different names in any", function()
            local one = outcomes(function(disk)
                for n = 1, 3 do
                    disk:put("t" .. n, "v" .. n)
                    disk:rename("t" .. n, "a")
                end
                crash.power_loss(disk)
                local names = disk:list "/"
                return disk:exists "a" and disk:get "a" or #names == 0 and "none" or "temporary"
            end)
            assert.same({ "none", "temporary", "v1", "v2", "v3" }, keys(one))
            local two = outcomes(function(disk)
                disk:put("a", "")
                disk:put("b", "")
                crash.power_loss(disk)
                return table.concat(disk:list "/")
            end)
            assert.same({ "", "a", "ab", "b" }, keys(two))
            local moved = outcomes(function(disk)
                disk:put("a", "text")
                disk:sync_dir "/"
                disk:rename("a", "b")
                disk:rename("b", "c")
                crash.power_loss(disk)
                return table.concat(disk:list "/")
            end)
            assert.same({ "a", "b", "c" }, keys(moved))
        end)

        it("handles and locks are invalid, and may be closed", function()
            for _, way in ipairs { "power loss", "crash" } do
                local disk = crash.disk(3)
                local file, lock = with_file(disk, "text"), disk:lock "d/lock"
                disk:sync_dir "d"
                if way == "crash" then C.ms_sim_fs_crash(disk.sim) else crash.power_loss(disk) end
                for _, attempt in ipairs {
                    { "read", file, 0, 4 }, { "write", file, 0, "x" }, { "size", file }, { "truncate", file, 0 },
                    { "reserve", file, 9 }, { "sync", file },
                } do
                    local rc, why = disk["try_" .. attempt[1]](disk, unpack(attempt, 2))
                    assert.equal(C.MS_E_IO, rc, attempt[1])
                    assert.truthy(why:find("d/a: the handle is from before", 1, true), why)
                end
                assert.equal("text", disk:get "d/a")
                local again = disk:lock "d/lock"
                assert.equal(3, C.ms_sim_fs_handles(disk.sim))
                disk:close(lock) -- the old one: it must not free the new one's lock
                assert.equal(C.MS_E_LOCKED, (disk:try_lock "d/lock"))
                disk:close(file)
                disk:close(again)
                assert.equal(0, C.ms_sim_fs_handles(disk.sim))
            end
        end)

        it("free closes what is still open", function()
            local disk = crash.disk(1)
            disk:open("a", "c")
            crash.power_loss(disk)
            disk:open("b", "c")
            disk:lock "c"
        end)
    end)

    it("a crash keeps everything written, and it is still not synced", function()
        local seen = outcomes(function(disk)
            disk:put_unsynced("a", "text")
            C.ms_sim_fs_crash(disk.sim)
            assert.equal("text", disk:get "a")
            crash.power_loss(disk)
            return disk:exists "a" and disk:get "a" or "gone"
        end)
        assert.truthy(seen.gone and seen.text and seen[""])
    end)

    describe("a failed sync", function()
        local function after_failed_sync(disk)
            local file = with_file(disk, "old")
            disk:write_all(file, 0, "new")
            C.ms_sim_fs_fail_after(disk.sim, C.MS_SIM_FS_SYNC, 1, nil)
            assert.equal(C.MS_E_IO, (disk:try_sync(file)))
            assert.equal("new", disk:get "d/a")
            return file
        end

        it("may lose the bytes although a later sync returns 0", function()
            local seen = outcomes(function(disk)
                local file = after_failed_sync(disk)
                disk:sync(file)
                disk:close(file)
                assert.equal("new", disk:get "d/a")
                crash.power_loss(disk)
                return disk:get "d/a"
            end)
            assert.truthy(seen.old and seen.new)
        end)

        it("does no harm to what is written anew and synced", function()
            for seed = 1, SEEDS do
                local disk = crash.disk(seed)
                local file = after_failed_sync(disk)
                disk:write_all(file, 1, "NEWER")
                disk:sync(file)
                disk:close(file)
                crash.power_loss(disk)
                assert.equal("NEWER", disk:get("d/a"):sub(2))
            end
        end)

        it("of a directory leaves its names as they were", function()
            local disk = crash.disk(1)
            disk:put("a", "x")
            C.ms_sim_fs_fail_after(disk.sim, C.MS_SIM_FS_SYNC_DIR, 1, nil)
            assert.equal(C.MS_E_IO, (disk:try_sync_dir "/"))
            disk:sync_dir "/"
            crash.power_loss(disk)
            assert.equal("x", disk:get "a")
        end)
    end)

    describe("faults", function()
        it("the n-th call fails, once, and only for a path that matches", function()
            local disk = crash.disk(1)
            local a, b = disk:open("a", "c"), disk:open("b", "c")
            C.ms_sim_fs_fail_after(disk.sim, C.MS_SIM_FS_WRITE, 2, "b")
            disk:write_all(a, 0, "1")
            disk:write_all(b, 0, "1")
            disk:write_all(a, 0, "2")
            local rc, why = disk:try_write(b, 0, "2")
            assert.equal(C.MS_E_IO, rc)
            assert.equal("write b: injected input/output error", why)
            disk:write_all(b, 0, "3")
            assert.equal("3", disk:get "b")
            assert.equal(1, counter(disk, "eio"))
            C.ms_sim_fs_fail_after(disk.sim, C.MS_SIM_FS_WRITE, 1, nil)
            C.ms_sim_fs_fail_after(disk.sim, C.MS_SIM_FS_WRITE, 0, nil)
            disk:write_all(b, 0, "4")
            disk:close(a)
            disk:close(b)
        end)

        it("each operation can fail, and changes nothing then (a write may put a part)", function()
            local disk = crash.disk(1)
            disk:mkdir "d"
            local file = disk:open("d/a", "c")
            disk:write_all(file, 0, "text")
            for op, attempt in pairs {
                [C.MS_SIM_FS_OPEN] = { "open", "d/new", "c" }, [C.MS_SIM_FS_READ] = { "read", file, 0, 4 },
                [C.MS_SIM_FS_TRUNCATE] = { "truncate", file, 1 }, [C.MS_SIM_FS_RESERVE] = { "reserve", file, 9 },
                [C.MS_SIM_FS_SYNC] = { "sync", file }, [C.MS_SIM_FS_RENAME] = { "rename", "d/a", "d/b" }, [C.MS_SIM_FS_REMOVE] = { "remove", "d/a" },
                [C.MS_SIM_FS_MKDIR] = { "mkdir", "d/sub" }, [C.MS_SIM_FS_SYNC_DIR] = { "sync_dir", "d" },
                [C.MS_SIM_FS_LIST] = { "list", "d" }, [C.MS_SIM_FS_LOCK] = { "lock", "d/lock" },
            } do
                C.ms_sim_fs_fail_after(disk.sim, op, 1, nil)
                local rc, why = disk["try_" .. attempt[1]](disk, unpack(attempt, 2))
                assert.equal(C.MS_E_IO, rc, attempt[1])
                assert.truthy(why:find "injected", why)
                assert.same({ "a" }, disk:list "d")
                assert.equal("text", disk:get "d/a")
            end
            disk:close(file)
            local seen = outcomes(function(other)
                C.ms_sim_fs_fail_after(other.sim, C.MS_SIM_FS_WRITE, 1, nil)
                other:try_put("a", "text")
                return other:get "a"
            end, 100)
            assert.same({ "", "t", "te", "tex", "text" }, keys(seen))
        end)

        it("often: about so many of a million calls", function()
            local disk, failed = crash.disk(1), 0
            disk:put("a", "x")
            C.ms_sim_fs_fail_often(disk.sim, C.MS_SIM_FS_OPEN, 250000)
            for _ = 1, 1000 do
                if disk:exists "a" == false then failed = failed + 1 end
            end
            assert.truthy(failed > 180 and failed < 320, failed)
            C.ms_sim_fs_fail_often(disk.sim, C.MS_SIM_FS_OPEN, 0)
            assert.truthy(disk:exists "a")
        end)

        it("short writes put less, at least a byte, and say so", function()
            local disk = crash.disk(1)
            C.ms_sim_fs_short_writes(disk.sim, 1000000)
            local file = disk:open("a", "c")
            local put = disk:write(file, 0, "hello ", "world")
            assert.truthy(put >= 1 and put < 11)
            assert.equal(("hello world"):sub(1, put), disk:get "a")
            assert.equal(1, disk:write(file, 0, "h"))
            disk:write_all(file, 0, "hello world")
            assert.equal("hello world", disk:get "a")
            assert.truthy(counter(disk, "short_writes") > 1)
            disk:close(file)
        end)

        it("a full disk takes what fits, then nothing; overwriting goes on; freed space is free", function()
            local disk = crash.disk(1)
            C.ms_sim_fs_capacity(disk.sim, 10)
            local file = disk:open("a", "c")
            assert.equal(8, disk:write(file, 0, "12345678"))
            assert.equal(2, disk:write(file, 8, "9abc"))
            local rc, why = disk:try_write(file, 10, "x")
            assert.equal(C.MS_E_NO_SPACE, rc)
            assert.truthy(why:find("write a", 1, true), why)
            assert.equal(C.MS_E_NO_SPACE, (disk:try_put("b", "x")))
            assert.equal(4, disk:write(file, 2, "OVER"))
            assert.equal(2, counter(disk, "enospc"))
            assert.equal(10, tonumber(C.ms_sim_fs_used(disk.sim)))
            disk:truncate(file, 5)
            disk:put("b", "12345")
            disk:remove "a" -- still open: its space is taken
            assert.equal(C.MS_E_NO_SPACE, (disk:try_put("c", "x")))
            disk:close(file)
            disk:put("c", "12345")
            disk:rename("c", "b")
            assert.equal(5, tonumber(C.ms_sim_fs_used(disk.sim)))
            C.ms_sim_fs_capacity(disk.sim, 3)
            assert.equal(C.MS_E_NO_SPACE, (disk:try_put("c", "x")))
            C.ms_sim_fs_capacity(disk.sim, 6)
            disk:put("c", "x")
        end)

        it("space of files that only a dead process held is free", function()
            local disk = crash.disk(1)
            C.ms_sim_fs_capacity(disk.sim, 4)
            local file = disk:open("a", "c")
            disk:write_all(file, 0, "1234")
            disk:remove "a"
            assert.equal(4, tonumber(C.ms_sim_fs_used(disk.sim)))
            C.ms_sim_fs_crash(disk.sim)
            assert.equal(0, tonumber(C.ms_sim_fs_used(disk.sim)))
            disk:put("b", "1234")
            disk:close(file)
            assert.equal(4, tonumber(C.ms_sim_fs_used(disk.sim)))
        end)

        it("a flipped bit is there now and after a power loss", function()
            local disk = crash.disk(1)
            local file = with_file(disk, "abc")
            disk:write_all(file, 2, "C")
            assert.equal(0, C.ms_sim_fs_corrupt(disk.sim, "d/a", 1, 32))
            assert.equal(0, C.ms_sim_fs_corrupt(disk.sim, "d/a", 2, 32))
            assert.equal("aBc", disk:get "d/a")
            disk:sync(file)
            disk:close(file)
            crash.power_loss(disk)
            assert.equal("aBc", disk:get "d/a")
            assert.equal(C.MS_E_INVALID, C.ms_sim_fs_corrupt(disk.sim, "d/a", 3, 1))
            assert.equal(C.MS_E_NOT_FOUND, C.ms_sim_fs_corrupt(disk.sim, "d/none", 0, 1))
            assert.equal(2, counter(disk, "corrupted"))
        end)

        it("a stopped machine does nothing more until it is on again", function()
            local disk = crash.disk(1)
            local file = with_file(disk, "old") -- changes something 5 times: mkdir, sync_dir, create, write, sync, sync_dir
            assert.equal(6, counter(disk, "changes"))
            C.ms_sim_fs_stop_after(disk.sim, 2)
            disk:write_all(file, 0, "1")
            disk:read(file, 0, 3) -- reading is no change
            assert.is_false(C.ms_sim_fs_stopped(disk.sim))
            disk:sync(file)
            assert.is_true(C.ms_sim_fs_stopped(disk.sim))
            for _, attempt in ipairs {
                { "write", file, 0, "2" }, { "read", file, 0, 1 }, { "size", file }, { "sync", file },
                { "truncate", file, 0 }, { "reserve", file, 9 }, { "open", "d/a", "r" },
                { "rename", "d/a", "d/b" }, { "remove", "d/a" }, { "mkdir", "e" }, { "list", "d" },
                { "sync_dir", "d" }, { "lock", "d/l" },
            } do
                local rc, why = disk["try_" .. attempt[1]](disk, unpack(attempt, 2))
                assert.equal(C.MS_E_IO, rc, attempt[1])
                assert.truthy(why:find "the machine has stopped", why)
            end
            disk:close(file)
            crash.power_loss(disk)
            assert.is_false(C.ms_sim_fs_stopped(disk.sim))
            assert.equal("1ld", disk:get "d/a")
        end)

        it("what was armed is disarmed by the end of the process, chances stay", function()
            local disk = crash.disk(1)
            C.ms_sim_fs_fail_after(disk.sim, C.MS_SIM_FS_OPEN, 1, nil)
            C.ms_sim_fs_crash(disk.sim)
            disk:put("a", "x")
            C.ms_sim_fs_fail_often(disk.sim, C.MS_SIM_FS_OPEN, 1000000)
            C.ms_sim_fs_crash(disk.sim)
            assert.is_false(disk:exists "a")
        end)
    end)

    it("forgets what nothing refers to any more", function()
        local disk, after = crash.disk(1), {}
        for round = 1, 20 do
            disk:mkdir "d"
            disk:put("d/a", "one")
            disk:sync_dir "d"
            disk:put("d/b", "two")
            disk:rename("d/b", "d/a")
            disk:remove "d/a"
            disk:remove "d"
            disk:sync_dir "/"
            after[round] = ms.live()
        end
        assert.equal(after[2], after[20])
    end)

    it("out of memory is MS_E_MEMORY, changes nothing and leaves nothing behind", function()
        local tried = ms.with_alloc_failures(function()
            local sim = C.ms_sim_fs_new(1)
            if sim == nil then return end
            local disk = require("spec.support.seam").new(C.ms_sim_fs(sim))
            local rc = disk:try_mkdir "d"
            if rc == 0 then rc = disk:try_put("d/a", ("text"):rep(100)) end
            if rc == 0 then rc = disk:try_rename("d/a", "d/b") end
            if rc == 0 then rc = disk:try_sync_dir "d" end
            if rc == 0 then rc = disk:try_put("d/b", "again") end
            C.ms_sim_fs_power_loss(sim, nil)
            C.ms_sim_fs_free(sim)
            assert(rc == 0 or rc == C.MS_E_MEMORY, rc)
        end)
        assert.truthy(tried > 10)
    end)
end)

-- A model that is too simple to be wrong: each file is its synced content and the list of what was done to it since. After
-- a power loss each byte must be explained by one of them, and the size by one that the file had.
describe("under random operations the simulated file system", function()
    local NAMES = { "a", "b", "c" }
    after_each(crash.free_all)

    local function explained(model, text)
        local sizes = { [#model.safe] = true }
        for _, change in ipairs(model.changes) do sizes[change.size] = true end
        if not sizes[#text] then return false, "size " .. #text end
        for at = 1, #text do
            local byte = text:sub(at, at)
            local found = byte == model.safe:sub(at, at) or (byte == "\0" and (at > #model.safe or model.cut))
            for _, change in ipairs(model.changes) do
                local from = change.offset and at - change.offset
                found = found or (from and from >= 1 and from <= #change.text and change.text:sub(from, from) == byte)
            end
            if not found then return false, ("byte %d is %q"):format(at, byte) end
        end
        return true
    end

    local function overwrite(text, offset, new)
        if #text < offset then text = text .. ("\0"):rep(offset - #text) end
        return text:sub(1, offset) .. new .. text:sub(offset + #new + 1)
    end

    local steps = {}

    function steps.write(disk, file, model, random)
        local offset, text = random(0, 1500), string.char(random(65, 90)):rep(random(1, 1200))
        local put = disk:write(file, offset, text)
        text = text:sub(1, put)
        model.now = overwrite(model.now, offset, text)
        table.insert(model.changes, { offset = offset, text = text, size = #model.now })
    end

    function steps.truncate(disk, file, model, random)
        local size = random(0, 2000)
        disk:truncate(file, size)
        model.cut = model.cut or size < #model.now
        model.now = model.now:sub(1, size) .. ("\0"):rep(size - #model.now)
        table.insert(model.changes, { size = size })
    end

    function steps.sync(disk, file, model)
        disk:sync(file)
        model.safe, model.changes, model.cut = model.now, {}, false
    end

    local function power_loss(disk, models, files)
        crash.power_loss(disk)
        for _, name in ipairs(NAMES) do
            local text, model = disk:get(name), models[name]
            local ok, why = explained(model, text)
            assert(ok, ("file %s: %s"):format(name, tostring(why)))
            model.safe, model.now, model.changes, model.cut = text, text, {}, false
            disk:close(files[name])
            files[name] = disk:open(name, "w")
        end
    end

    it("shows only what the simple model can explain", function()
        for seed = 1, 40 do
            local disk, models, files, state = crash.disk(seed), {}, {}, seed
            local function random(low, high)
                state = (state * 1103515245 + 12345) % 2147483648
                return low + math.floor(state / 65536) % (high - low + 1)
            end
            C.ms_sim_fs_short_writes(disk.sim, 100000)
            for _, name in ipairs(NAMES) do
                files[name] = disk:open(name, "c")
                models[name] = { now = "", safe = "", changes = {} }
            end
            disk:sync_dir "/"
            for _ = 1, 150 do
                local name = NAMES[random(1, #NAMES)]
                local kind = ({ "write", "write", "write", "write", "truncate", "sync", "loss" })[random(1, 7)]
                if kind == "loss" then power_loss(disk, models, files)
                else steps[kind](disk, files[name], models[name], random) end
                assert.equal(models[name].now, disk:get(name))
            end
            for _, name in ipairs(NAMES) do disk:close(files[name]) end
        end
    end)
end)

describe("crash.sweep", function()
    after_each(crash.free_all)
    it("stops after every operation and says where a check failed", function()
        local at = {}
        local count = crash.sweep {
            setup = function(disk) disk:put("old", "x") end,
            run = function(disk)
                disk:put("a", "text")
                disk:sync_dir "/"
            end,
            check = function(disk, ran) at[#at + 1] = ran and disk:exists "a" end,
            ends = { "power loss" }, seeds = 1,
        }
        assert.equal(5, count) -- create, write, sync, sync_dir: stopped with 0 to 4 of them done
        assert.same({ false, false, false, false, true, true }, at)
        local ok, why = pcall(crash.sweep, {
            run = function(disk) disk:put("a", "text") end,
            check = function(disk) assert(disk:exists "b", "b is missing") end,
        })
        assert.is_false(ok)
        assert.truthy(why:find("after 0 operations, seed %d+: .*b is missing"), why)
    end)
end)
