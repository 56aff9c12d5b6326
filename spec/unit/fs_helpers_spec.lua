-- base/fs: the helpers over the file system seam, run on a file system in Lua that records each call, writes and reads in
-- small pieces, and fails the n-th call; and once on the real one.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

jit.off(true, true) -- compiled code may not be called back by the C functions that it calls

-- ---- a file system that lives in a Lua table -------------------------------------------------------------------------

-- fs.files: path -> content. fs.dirs: path -> true. fs.calls: what was called. fs.piece: bytes per read and write at most.
-- fs.fail_at: the number of the call that fails with fs.fail_code. fs.opened: files that are open now.
local function new_fs()
    local fs = { files = {}, dirs = {}, calls = {}, piece = 1e9, fail_code = C.MS_E_IO, opened = 0, handles = {}, slots = {} }

    -- Notes the call; true if it has to fail.
    local function note(name, path)
        fs.calls[#fs.calls + 1] = path and name .. " " .. path or name
        if #fs.calls == fs.fail_at then
            C.ms_fail(fs.fail_code, "planned")
            return true
        end
        return false
    end

    local function handle(file) return fs.handles[tonumber(ffi.cast("intptr_t", file))] end

    local ops = {}
    function ops.open(_, cpath, mode, out)
        local path = ffi.string(cpath)
        if note("open", path) then return fs.fail_code end
        if mode == C.MS_FS_CREATE then fs.files[path] = "" end
        if not fs.files[path] then return C.ms_fail(C.MS_E_NOT_FOUND, "no file") end
        local id = #fs.handles + 1
        fs.handles[id] = path
        fs.opened = fs.opened + 1
        out[0] = ffi.cast("struct ms_file *", id)
        return 0
    end
    function ops.close()
        fs.calls[#fs.calls + 1] = "close"
        fs.opened = fs.opened - 1
    end
    function ops.size(_, file, out)
        if note "size" then return fs.fail_code end
        out[0] = fs.pretend_size or #fs.files[handle(file)]
        return 0
    end
    function ops.read(_, file, offset, data, size, got)
        if note "read" then return fs.fail_code end
        local from = tonumber(offset)
        local part = fs.files[handle(file)]:sub(from + 1, from + math.min(tonumber(size), fs.piece))
        ffi.copy(data, part, #part)
        got[0] = #part
        return 0
    end
    function ops.write(_, file, offset, parts, count, put)
        if note "write" then return fs.fail_code end
        local text = ""
        for n = 0, tonumber(count) - 1 do text = text .. ms.str(parts[n]) end
        text = text:sub(1, fs.piece)
        local path, from = handle(file), tonumber(offset)
        local old = fs.files[path]
        fs.files[path] = old:sub(1, from) .. text .. old:sub(from + #text + 1)
        put[0] = fs.pretend_put or #text
        return 0
    end
    function ops.sync(_, file) return note("sync", handle(file)) and fs.fail_code or 0 end
    function ops.rename(_, cfrom, cto)
        local from, to = ffi.string(cfrom), ffi.string(cto)
        if note("rename", from .. " " .. to) then return fs.fail_code end
        fs.files[to], fs.files[from] = fs.files[from], nil
        return 0
    end
    function ops.remove(_, cpath)
        local path = ffi.string(cpath)
        if note("remove", path) then return fs.fail_code end
        if not fs.files[path] and not fs.dirs[path] then return C.ms_fail(C.MS_E_NOT_FOUND, "no file") end
        fs.files[path], fs.dirs[path] = nil, nil
        return 0
    end
    function ops.sync_dir(_, cpath) return note("sync_dir", ffi.string(cpath)) and fs.fail_code or 0 end
    function ops.list(_, cpath, fn, context)
        local path = ffi.string(cpath)
        if note("list", path) then return fs.fail_code end
        if not fs.dirs[path] then return C.ms_fail(C.MS_E_NOT_FOUND, "no directory") end
        local names = {}
        for file in pairs(fs.files) do names[#names + 1] = file:match("^" .. path .. "/(.*)$") end
        table.sort(names)
        if fs.vanished then table.insert(names, 1, fs.vanished) end
        for _, name in ipairs(names) do
            local rc = fn(context, name)
            if rc ~= 0 then return rc end
        end
        return 0
    end

    fs.ops = ffi.new("struct ms_fs_ops")
    for name, fn in pairs(ops) do
        local ctype = ffi.typeof(fs.ops[name])
        local slot = ffi.cast(ctype, fn)
        fs.slots[#fs.slots + 1] = slot
        fs.ops[name] = slot
    end
    fs.c = ffi.new("struct ms_fs")
    fs.c.ops = fs.ops
    return fs
end

describe("file system helpers", function()
    local fs, before

    before_each(function()
        before = ms.live()
        fs = new_fs()
    end)

    after_each(function()
        for _, slot in ipairs(fs.slots) do slot:free() end
        assert.equal(0, fs.opened, "files are left open")
        assert.equal(before, ms.live(), "blocks are left over")
    end)

    local function open(path, mode)
        local file = ffi.new("struct ms_file *[1]")
        ms.check(fs.ops.open(fs.c, path, mode, file))
        fs.calls = {}
        return file[0]
    end

    describe("write_all", function()
        it("goes on after short writes, at the right offset", function()
            fs.files.f = "0123456789"
            fs.piece = 3
            local file = open("f", C.MS_FS_WRITE)
            assert.equal(0, C.ms_fs_write_all(fs.c, file, 2, "abcdefg", 7))
            fs.ops.close(fs.c, file)
            assert.equal("01abcdefg9", fs.files.f)
            assert.same({ "write", "write", "write", "close" }, fs.calls)
        end)

        it("writes nothing for no bytes", function()
            fs.files.f = "x"
            local file = open("f", C.MS_FS_WRITE)
            assert.equal(0, C.ms_fs_write_all(fs.c, file, 0, "", 0))
            fs.ops.close(fs.c, file)
            assert.same({ "close" }, fs.calls)
        end)

        it("ends with the error of a later piece", function()
            fs.files.f, fs.piece = "", 2
            local file = open("f", C.MS_FS_WRITE)
            fs.fail_at, fs.fail_code = 2, C.MS_E_NO_SPACE
            assert.equal(C.MS_E_NO_SPACE, C.ms_fs_write_all(fs.c, file, 0, "abcd", 4))
            fs.ops.close(fs.c, file)
            assert.equal("ab", fs.files.f)
        end)

        it("does not believe a file system that writes nothing, or more than it was given", function()
            for _, put in ipairs { 0, 5 } do
                fs.files.f = ""
                local file = open("f", C.MS_FS_WRITE)
                fs.pretend_put = put
                assert.equal(C.MS_E_IO, C.ms_fs_write_all(fs.c, file, 0, "abcd", 4))
                assert.truthy(ms.err():find("4 bytes wrote " .. put, 1, true), ms.err())
                fs.ops.close(fs.c, file)
            end
        end)
    end)

    describe("read_all", function()
        it("collects short reads", function()
            fs.files.f, fs.piece = "0123456789", 3
            local file, room = open("f", C.MS_FS_READ), ffi.new("char[8]")
            assert.equal(0, C.ms_fs_read_all(fs.c, file, 1, room, 8))
            fs.ops.close(fs.c, file)
            assert.equal("12345678", ffi.string(room, 8))
        end)

        it("calls a file that ends early damaged, and says where", function()
            fs.files.f = "0123"
            local file, room = open("f", C.MS_FS_READ), ffi.new("char[8]")
            assert.equal(C.MS_E_DAMAGED, C.ms_fs_read_all(fs.c, file, 1, room, 8))
            fs.ops.close(fs.c, file)
            assert.equal("the file ends at 4, 5 bytes early", ms.err())
        end)
    end)

    describe("read_file", function()
        it("appends the whole file", function()
            fs.files.f, fs.piece = ("line\n"):rep(100), 7
            local buf = ms.buf()
            C.ms_buf_add(buf, "before:", 7)
            assert.equal(0, C.ms_fs_read_file(fs.c, "f", 500, buf))
            assert.equal("before:" .. fs.files.f, ms.buf_str(buf))
            C.ms_buf_close(buf)
        end)

        it("refuses a file over the limit before it takes memory", function()
            fs.files.f, fs.pretend_size = "x", 2 ^ 40
            local buf = ms.buf()
            assert.equal(C.MS_E_LIMIT, C.ms_fs_read_file(fs.c, "f", 500, buf))
            assert.equal(0, tonumber(buf.capacity))
            assert.truthy(ms.err():find("f has 1099511627776 bytes, more than 500", 1, true), ms.err())
        end)

        it("leaves the buffer as it was when a call fails, whichever", function()
            fs.files.f, fs.piece = "0123456789", 4
            local failures = 0
            for n = 1, 6 do
                fs.calls, fs.fail_at = {}, n
                local buf = ms.buf()
                C.ms_buf_add(buf, "before", 6)
                local rc = C.ms_fs_read_file(fs.c, "f", 500, buf)
                if rc == C.MS_E_IO then failures = failures + 1 end
                assert.equal(rc == 0 and "before0123456789" or "before", ms.buf_str(buf))
                C.ms_buf_close(buf)
            end
            assert.equal(5, failures) -- open, size, three reads
        end)

        it("survives every allocation that fails", function()
            fs.files.f = ("0123456789"):rep(20)
            ms.with_alloc_failures(function()
                local buf = ffi.new("struct ms_buf")
                local rc = C.ms_fs_read_file(fs.c, "f", 500, buf)
                assert.is_true(rc == 0 or rc == C.MS_E_MEMORY)
                C.ms_buf_close(buf)
            end)
        end)
    end)

    describe("replace", function()
        it("syncs the new content before the name, and the name before it returns", function()
            fs.files["d/current"] = "old"
            assert.equal(0, C.ms_fs_replace(fs.c, "d", "current", "new", 3))
            assert.same({ ["d/current"] = "new" }, fs.files)
            assert.same({ "open d/current.tmp", "write", "sync d/current.tmp", "close", "rename d/current.tmp d/current", "sync_dir d" },
                fs.calls)
        end)

        it("keeps the old content when a step before the rename fails, has the new one after it, and says so", function()
            for n, expected in ipairs { "old", "old", "old", false, "old", "new" } do
                fs.files = { ["d/current"] = "old" }
                fs.calls, fs.fail_at = {}, n
                local rc = C.ms_fs_replace(fs.c, "d", "current", "new", 3)
                if expected then -- closing cannot fail
                    assert.equal(C.MS_E_IO, rc)
                    assert.equal(expected, fs.files["d/current"])
                end
            end
        end)

        it("refuses a path that does not fit", function()
            assert.equal(C.MS_E_LIMIT, C.ms_fs_replace(fs.c, ("d"):rep(1020), "current", "x", 1))
            assert.same({}, fs.calls)
        end)
    end)

    describe("remove_tree", function()
        it("removes the files, then the directory, and nothing beside it", function()
            fs.dirs.d = true
            fs.files = { ["d/a"] = "", ["d/b"] = "", ["e"] = "" }
            assert.equal(0, C.ms_fs_remove_tree(fs.c, "d"))
            assert.same({ e = "" }, fs.files)
            assert.is_nil(fs.dirs.d)
            assert.equal("remove d", fs.calls[#fs.calls])
        end)

        it("is content with what is gone already", function()
            assert.equal(0, C.ms_fs_remove_tree(fs.c, "nowhere"))
            fs.dirs.d, fs.vanished = true, "vanished"
            assert.equal(0, C.ms_fs_remove_tree(fs.c, "d"))
        end)

        it("stops at the first file that can't be removed", function()
            fs.dirs.d = true
            fs.files = { ["d/a"] = "", ["d/b"] = "" }
            fs.fail_at = 2
            assert.equal(C.MS_E_IO, C.ms_fs_remove_tree(fs.c, "d"))
            assert.is_true(fs.dirs.d)
            assert.equal("", fs.files["d/b"])
        end)
    end)

    it("join a path, up to its bound", function()
        local path = ffi.new("char[?]", C.MS_PATH_MAX)
        assert.equal(0, C.ms_path(path, "/a/b", "c"))
        assert.equal("/a/b/c", ffi.string(path))
        assert.equal(0, C.ms_path(path, ("d"):rep(C.MS_PATH_MAX - 3), "c"))
        assert.equal(C.MS_PATH_MAX - 1, #ffi.string(path))
        assert.equal(C.MS_E_LIMIT, C.ms_path(path, ("d"):rep(C.MS_PATH_MAX - 2), "c"))
        assert.truthy(ms.err():find("path too long", 1, true))
    end)
end)

describe("file system helpers on the real disk", function()
    it("replace, read back and remove", function()
        local posix, dir = C.ms_fs_posix(), ms.tmpdir()
        local before = ms.live()
        ms.check(C.ms_fs_replace(posix, dir, "current", "one", 3))
        ms.check(C.ms_fs_replace(posix, dir, "current", "second", 6))
        local buf = ms.buf()
        ms.check(C.ms_fs_read_file(posix, dir .. "/current", 100, buf))
        assert.equal("second", ms.buf_str(buf))
        assert.equal(C.MS_E_NOT_FOUND, C.ms_fs_read_file(posix, dir .. "/none", 100, buf))
        C.ms_buf_close(buf)
        assert.is_nil(ms.read_file(dir .. "/current.tmp"))
        ms.check(C.ms_fs_remove_tree(posix, dir))
        assert.is_nil(ms.read_file(dir .. "/current"))
        assert.equal(0, C.ms_fs_remove_tree(posix, dir))
        assert.equal(before, ms.live())
    end)
end)
