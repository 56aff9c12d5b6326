-- drive/fs_posix: the contract of base/fs.h on a real disk, and what only a real one has: modes, descriptors, processes,
-- errno.
local ms = require "spec.support.ms"
local seam = require "spec.support.seam"
local contract = require "spec.support.fs_contract"
local C, ffi = ms.C, ms.ffi

pcall(ffi.cdef, [[
    struct spec_rlimit { unsigned long soft, hard; };
    int getrlimit(int resource, struct spec_rlimit *limit);
    int setrlimit(int resource, const struct spec_rlimit *limit);
]])

-- Descriptors of this process below a folder; those of busted and of pipes come and go.
local function open_files(dir)
    return tonumber((ms.sh("ls -l /proc/$PPID/fd | grep -c '" .. dir .. "'"):match "^%d+"))
end

describe("the real file system", function()
    local disk, dir = seam.new(C.ms_fs_posix()), nil

    before_each(function() dir = ms.tmpdir() end)

    local function path(name) return dir .. "/" .. name end

    contract(function() return seam.new(C.ms_fs_posix()), ms.tmpdir() end)

    it("is one and the same for everybody", function()
        assert.equal(C.ms_fs_posix(), C.ms_fs_posix())
    end)

    it("makes files and directories that only their owner can read", function()
        disk:put(path "a", "x")
        disk:mkdir(path "d")
        disk:close(disk:lock(path "l"))
        assert.equal("600 a\n700 d\n600 l\n", (ms.sh("cd " .. dir .. " && stat -c '%a %n' a d l")))
    end)

    it("makes files that only the user can read, and shared ones as the umask says", function()
        local dir = ms.tmpdir()
        local function mode(fs, name)
            local path = dir .. "/" .. name
            local file = ffi.new("struct ms_file *[1]")
            ms.check(fs.ops.open(fs, path, C.MS_FS_CREATE, file))
            fs.ops.close(fs, file[0])
            return (ms.sh("stat -c %a " .. path):gsub("%s", ""))
        end
        assert.equal("600", mode(C.ms_fs_posix(), "own"))
        local umask = ms.sh("umask"):match("(%d%d%d)%s*$")
        assert.equal(("%o"):format(bit.band(tonumber("666", 8), bit.bnot(tonumber(umask, 8)))), mode(C.ms_fs_posix_shared(), "shared"))
    end)

    it("does not hand descriptors to other programs", function()
        local a, l = disk:open(path "a", "c"), disk:lock(path "l")
        -- io.popen forks and executes: what it lists are the descriptors that were handed on.
        local listing = ms.sh "ls -l /proc/self/fd"
        assert.is_nil(listing:find(dir, 1, true), listing)
        disk:close(a)
        disk:close(l)
    end)

    it("closes what it opened, also when an operation fails", function()
        disk:put(path "a", "x")
        local lock = disk:lock(path "l")
        local before = open_files(dir)
        assert.equal(1, before)
        for n = 1, 3 do
            for _, attempt in ipairs { { "open", path "a", "r" }, { "lock", path "b" }, { "list", dir } } do
                C.ms_mem_fail_after(n)
                local rc, file = disk["try_" .. attempt[1]](disk, unpack(attempt, 2))
                C.ms_mem_fail_after(0)
                if rc == 0 and attempt[1] ~= "list" then disk:close(file) end
            end
        end
        assert.equal(C.MS_E_LOCKED, (disk:try_lock(path "l")))
        disk:sync_dir(dir)
        assert.equal(before, open_files(dir))
        disk:close(lock)
        assert.equal(0, open_files(dir))
    end)

    it("a write of very many parts puts the first of them, and the rest on the next call", function()
        local parts, text = {}, ""
        for n = 1, 500 do
            parts[n] = ("%03d "):format(n)
            text = text .. parts[n]
        end
        local file = disk:open(path "a", "c")
        local put = disk:write(file, 0, unpack(parts))
        assert.truthy(put > 0 and put <= #text and put % 4 == 0)
        assert.equal(text:sub(1, put), disk:get(path "a"))
        disk:close(file)
    end)

    it("a full disk is MS_E_NO_SPACE", function()
        local full = disk:open("/dev/full", "w")
        local rc, why = disk:try_write(full, 0, "x")
        assert.equal(C.MS_E_NO_SPACE, rc)
        assert.equal("write /dev/full: No space left on device", why)
        disk:close(full)
    end)

    it("a sync that fails is MS_E_IO", function()
        local device = disk:open("/dev/null", "w")
        local rc, why = disk:try_sync(device)
        assert.equal(C.MS_E_IO, rc)
        assert.equal("sync /dev/null: Invalid argument", why)
        disk:close(device)
    end)

    it("too many open files is MS_E_IO", function()
        disk:put(path "a", "x")
        local limit, low = ffi.new "struct spec_rlimit[1]", ffi.new "struct spec_rlimit[1]"
        assert.equal(0, ffi.C.getrlimit(7, limit))
        low[0].soft, low[0].hard = 3, limit[0].hard
        assert.equal(0, ffi.C.setrlimit(7, low))
        local results = {
            open = { disk:try_open(path "a", "r") }, lock = { disk:try_lock(path "l") },
            list = { disk:try_list(dir) }, sync_dir = { disk:try_sync_dir(dir) },
        }
        assert.equal(0, ffi.C.setrlimit(7, limit))
        for verb, result in pairs(results) do
            assert.equal(C.MS_E_IO, result[1], verb)
            assert.truthy(result[2]:find("Too many open files", 1, true), result[2])
        end
    end)

    it("a long path does not push the cause out of the message", function()
        local long = path(("x"):rep(250) .. "/" .. ("y"):rep(250) .. "/end")
        local rc, why = disk:try_open(long, "r")
        assert.equal(C.MS_E_NOT_FOUND, rc)
        assert.truthy(why:find("^open %.%.%..*/end: No such file or directory$"), why)
    end)

    it("a refused rename names both paths", function()
        local rc, why = disk:try_rename(path "none", path "b")
        assert.equal(C.MS_E_NOT_FOUND, rc)
        assert.equal(("%s: rename to %s: No such file or directory"):format(path "none", path "b"), why)
    end)

    describe("locks between processes:", function()
        -- Runs a second process that takes the lock; returns what it printed.
        local function other_process(then_do)
            local script = path "other.lua"
            ms.write_file(script, ([[
                local ms = require "spec.support.ms"
                local seam = require "spec.support.seam"
                local rc, why = seam.new(ms.C.ms_fs_posix()):try_lock(%q)
                io.write(rc == 0 and "locked" or ms.code(rc) .. ": " .. why, "\n")
                io.flush()
                %s
            ]]):format(path "lock", then_do or ""))
            return (ms.sh("luajit " .. script))
        end

        it("the second one is refused and learns who has it", function()
            local lock = disk:lock(path "lock")
            assert.equal(ffi.C.getpid() .. "\n", ms.read_file(path "lock"))
            assert.equal(("the data directory is in use: %s is locked by process %d\n"):format(path "lock", ffi.C.getpid()),
                other_process())
            disk:close(lock)
            assert.equal("locked\n", other_process())
        end)

        it("a process that dies leaves no lock", function()
            assert.truthy(other_process("ms.libc.kill(ms.libc.getpid(), 9)"):find "^locked")
            ms.write_file(path "lock", "a longer text of before\n")
            disk:close(disk:lock(path "lock"))
            assert.equal(ffi.C.getpid() .. "\n", ms.read_file(path "lock"))
        end)

        it("is not lost when the same process opens and closes the file", function()
            local lock = disk:lock(path "lock")
            disk:get(path "lock")
            assert.truthy(other_process():find "is locked by process")
            disk:close(lock)
        end)
    end)
end)
