-- What base/fs.h promises of every file system. make() returns a seam object and the path of an empty directory; free(), if
-- given, is called after each test.
local busted = require "busted"
local assert = require "luassert"
local ms = require "spec.support.ms"
local C = ms.C
local describe, it, before_each, after_each = busted.describe, busted.it, busted.before_each, busted.after_each

return function(make, free)
    local disk, dir, before

    local function path(name) return dir .. "/" .. name end

    before_each(function()
        before = ms.live()
        disk, dir = make()
    end)
    after_each(function()
        if free then free() end
        assert.equal(before, ms.live())
    end)

    describe("keeps the contract of base/fs.h:", function()
        it("what is written is read back, and a read at the end gives nothing", function()
            local file = disk:open(path "a", "c")
            assert.equal(5, disk:write(file, 0, "hello"))
            assert.equal(6, disk:write(file, 5, " w", "", "orld"))
            assert.equal(11, disk:size(file))
            assert.equal("hello world", disk:read(file, 0, 100))
            assert.equal("wor", disk:read(file, 6, 3))
            assert.equal("", disk:read(file, 11, 10))
            assert.equal("", disk:read(file, 500, 10))
            disk:close(file)
            assert.equal("hello world", disk:get(path "a"))
        end)

        it("a stream empties the file, and what is synced is read back as what is not", function()
            disk:put(path "a", ("old"):rep(10000))
            local file = disk:open(path "a", "s")
            local text = ("0123456789abcdef"):rep(1000)
            disk:write_all(file, 0, text)
            disk:sync(file)
            disk:write_all(file, #text, "the rest")
            assert.equal(text .. "the rest", disk:read(file, 0, 2 * #text))
            disk:sync(file)
            disk:close(file)
            assert.equal(text .. "the rest", disk:get(path "a"))
        end)

        it("a hole is zeros", function()
            local file = disk:open(path "a", "c")
            disk:write(file, 3, "x")
            assert.equal("\0\0\0x", disk:read(file, 0, 10))
            disk:close(file)
        end)

        it("a write of nothing puts nothing", function()
            local file = disk:open(path "a", "c")
            assert.equal(0, disk:write(file, 7))
            assert.equal(0, disk:write(file, 7, ""))
            assert.equal(0, disk:size(file))
            disk:close(file)
        end)

        it("truncate cuts, and lengthens with zeros", function()
            local file = disk:open(path "a", "c")
            disk:write(file, 0, "abcdef")
            disk:truncate(file, 2)
            disk:truncate(file, 4)
            assert.equal("ab\0\0", disk:read(file, 0, 10))
            disk:truncate(file, 0)
            assert.equal(0, disk:size(file))
            disk:close(file)
        end)

        it("reserve lengthens with zeros, and never cuts", function()
            local file = disk:open(path "a", "c")
            disk:write(file, 0, "ab")
            disk:reserve(file, 4)
            assert.equal("ab\0\0", disk:read(file, 0, 10))
            disk:reserve(file, 3)
            assert.equal(4, disk:size(file))
            disk:close(file)
        end)

        it("opening: create empties, write keeps, read can't write", function()
            disk:put(path "a", "old")
            local file = disk:open(path "a", "w")
            disk:write(file, 0, "O")
            disk:close(file)
            assert.equal("Old", disk:get(path "a"))
            file = disk:open(path "a", "r")
            assert.equal("Old", disk:read(file, 0, 9))
            assert.equal(C.MS_E_IO, (disk:try_write(file, 0, "x")))
            disk:close(file)
            disk:close(disk:open(path "a", "c"))
            assert.equal("", disk:get(path "a"))
        end)

        it("what is missing is MS_E_NOT_FOUND, with the path", function()
            for _, attempt in ipairs {
                { "open", path "none", "r" }, { "open", path "none", "w" }, { "open", path "none/a", "c" }, { "open", path "none/a", "s" },
                { "rename", path "none", path "b" }, { "remove", path "none" }, { "mkdir", path "none/sub" },
                { "list", path "none" }, { "sync_dir", path "none" }, { "lock", path "none/lock" },
            } do
                local rc, why = disk["try_" .. attempt[1]](disk, unpack(attempt, 2))
                assert.equal(C.MS_E_NOT_FOUND, rc, attempt[1])
                assert.truthy(why:find(attempt[2], 1, true), why)
            end
        end)

        it("a file in the place of a directory, and the reverse, is MS_E_IO", function()
            disk:put(path "file", "x")
            disk:mkdir(path "sub")
            assert.equal(C.MS_E_IO, (disk:try_open(path "file/a", "r")))
            assert.equal(C.MS_E_IO, (disk:try_mkdir(path "file")))
            assert.equal(C.MS_E_IO, (disk:try_list(path "file")))
            assert.equal(C.MS_E_IO, (disk:try_sync_dir(path "file")))
            assert.equal(C.MS_E_IO, (disk:try_open(path "sub", "c")))
            assert.equal(C.MS_E_IO, (disk:try_rename(path "file", path "sub")))
        end)

        it("rename replaces the target", function()
            disk:put(path "a", "new")
            disk:put(path "b", "old")
            disk:rename(path "a", path "b")
            assert.equal("new", disk:get(path "b"))
            assert.same({ "b" }, disk:list(dir))
            disk:rename(path "b", path "b")
            assert.equal("new", disk:get(path "b"))
        end)

        it("an open file outlives its name", function()
            disk:put(path "a", "text")
            disk:put(path "b", "other")
            local a, b = disk:open(path "a", "w"), disk:open(path "b", "r")
            disk:rename(path "a", path "b")
            assert.equal("text", disk:read(a, 0, 9))
            assert.equal("other", disk:read(b, 0, 9))
            disk:remove(path "b")
            assert.equal("text", disk:read(a, 0, 9))
            disk:write(a, 4, "+")
            disk:sync(a)
            disk:close(a)
            disk:close(b)
            assert.same({}, disk:list(dir))
        end)

        it("remove takes files and empty directories", function()
            disk:mkdir(path "sub")
            disk:put(path "sub/a", "x")
            assert.equal(C.MS_E_IO, (disk:try_remove(path "sub")))
            disk:remove(path "sub/a")
            disk:remove(path "sub")
            assert.same({}, disk:list(dir))
        end)

        it("mkdir is content with a directory that exists", function()
            disk:mkdir(path "sub")
            disk:mkdir(path "sub")
            assert.same({ "sub" }, disk:list(dir))
            disk:sync_dir(dir)
        end)

        it("list gives each name once, without . and .., and ends with what its function returns", function()
            local expected = {}
            for n = 1, 40 do
                expected[n] = ("f%02d"):format(n)
                disk:put_unsynced(path(expected[n]), "x")
            end
            assert.same(expected, disk:list(dir))
            local seen = 0
            local rc = disk:try_list(dir, function()
                seen = seen + 1
                return seen == 3 and 77 or 0
            end)
            assert.equal(77, rc)
            assert.equal(3, seen)
            assert.equal(C.MS_E_BUSY, (disk:try_list(dir, function() return C.MS_E_BUSY end)))
        end)

        it("names may be removed while they are listed", function()
            for n = 1, 300 do disk:put_unsynced(path("f" .. n), "x") end
            assert.equal(300, #disk:list(dir, function(name) return disk:remove(path(name)) end))
            assert.same({}, disk:list(dir))
        end)

        it("a lock keeps others out until it is closed", function()
            local lock = disk:lock(path "lock")
            local rc, why = disk:try_lock(path "lock")
            assert.equal(C.MS_E_LOCKED, rc)
            assert.truthy(why:find(path "lock", 1, true), why)
            disk:close(disk:lock(path "other"))
            disk:close(lock)
            disk:close(disk:lock(path "lock"))
            assert.same({ "lock", "other" }, disk:list(dir))
        end)

        it("closing nothing is allowed", function() disk:close(nil) end)

        it("a failed allocation is MS_E_MEMORY and leaves nothing behind", function()
            disk:put(path "a", "text")
            local function step(rc, file)
                if rc == 0 and file then disk:close(file) end
                if rc ~= 0 then assert.equal(C.MS_E_MEMORY, rc) end
            end
            for n = 1, 3 do
                for _, attempt in ipairs {
                    { "open", path "a", "r" }, { "open", path "a", "c" }, { "lock", path "a" }, { "list", dir },
                } do
                    local held = ms.live()
                    C.ms_mem_fail_after(n)
                    local rc, file = disk["try_" .. attempt[1]](disk, unpack(attempt, 2))
                    C.ms_mem_fail_after(0)
                    step(rc, attempt[1] ~= "list" and file)
                    assert.equal(held, ms.live())
                end
            end
        end)
    end)
end
