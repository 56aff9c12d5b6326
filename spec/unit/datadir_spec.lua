-- state/datadir: whose the directory is, and that `current` names a whole generation whatever the moment of a crash.
local ms = require "spec.support.ms"
local seam = require "spec.support.seam"
local crash = require "spec.support.crash"
local C, ffi = ms.C, ms.ffi

local D = "/var/data"
local CLUSTER = ms.bytes "prod"

local function try_open(disk, path, cluster, id)
    local dir = ffi.new "struct ms_datadir" -- not an array of one: a reference into that would not keep it alive
    local rc = C.ms_datadir_open(disk.fs, path or D, cluster or CLUSTER, id or 0x1234abcd, dir)
    if rc ~= 0 then C.ms_datadir_close(dir) end
    return rc, dir, dir
end

local function open(disk, ...)
    local rc, dir, anchor = try_open(disk, ...)
    if rc ~= 0 then error("open: " .. ms.err(), 2) end
    return dir, anchor
end

local function live(dir) return ffi.string(dir.live) end
local function staged(dir) return ffi.string(dir.next) end

-- A disk with the parent directory.
local function new_disk(seed)
    local disk = crash.disk(seed or 1)
    disk:mkdir "/var"
    disk:sync_dir "/"
    return disk
end

-- A generation with one synced file that says which one it is: what stands for log and snapshots here.
local function fill(disk, path, text)
    disk:put(path .. "/data", text)
    disk:sync_dir(path)
end

describe("a data directory", function()
    local before
    before_each(function() before = ms.live() end)
    after_each(function()
        crash.free_all()
        assert.equal(before, ms.live())
    end)

    local function refuses(disk, code, ...)
        local rc = try_open(disk)
        local why = ms.err()
        assert.equal(code, rc, why)
        for _, text in ipairs { ... } do assert.truthy(why:find(text, 1, true), why .. "\nhas no " .. text) end
        assert.is_true(disk.sim == nil or C.ms_sim_fs_handles(disk.sim) == 0)
    end

    it("is made with identity and an empty first generation", function()
        local disk = new_disk()
        local dir = open(disk, D .. "/", ms.bytes "prod", 0xfedcba9876543210ULL)
        assert.equal(D .. "/gen-000001", live(dir))
        assert.equal("", staged(dir))
        assert.equal("1", ms.dec(dir.generation))
        assert.equal("fedcba9876543210", bit.tohex(dir.node_id, 16))
        assert.same({ "current", "gen-000001", "lock", "node" }, disk:list(D))
        assert.same({}, disk:list(live(dir)))
        assert.equal("gen-000001\n", disk:get(D .. "/current"))
        assert.equal("metasync 1\nid fedcba9876543210\ncluster prod\n", disk:get(D .. "/node"))
        C.ms_datadir_close(dir)
        C.ms_datadir_close(dir)
    end)

    it("keeps its id when it is opened again, whatever new id is offered", function()
        local disk = new_disk()
        C.ms_datadir_close((open(disk, D, CLUSTER, 5)))
        local dir = open(disk, D, CLUSTER, 6)
        assert.equal("5", ms.dec(dir.node_id))
        C.ms_datadir_close(dir)
    end)

    it("works in the current directory and in the root", function()
        local disk = crash.disk(1)
        for _, path in ipairs { "here", "/there" } do
            C.ms_datadir_close((open(disk, path)))
            crash.power_loss(disk)
            assert.equal("gen-000001\n", disk:get(path .. "/current"))
        end
    end)

    it("works on a real disk", function()
        local disk, path = seam.new(C.ms_fs_posix()), ms.tmpdir() .. "/data"
        local dir, anchor = open(disk, path)
        C.ms_datadir_stage(anchor)
        fill(disk, staged(dir), "two")
        assert.equal(0, C.ms_datadir_switch(anchor))
        C.ms_datadir_close(anchor)
        assert.equal("current gen-000002 lock node\n", (ms.sh("cd " .. path .. " && echo *")))
        assert.equal("700 .\n600 current\n700 gen-000002\n600 node\n",
            (ms.sh("cd " .. path .. " && stat -c '%a %n' . current gen-000002 node")))
        dir = open(disk, path)
        assert.equal("two", disk:get(live(dir) .. "/data"))
        C.ms_datadir_close(dir)
    end)

    describe("is refused:", function()
        it("while another node has it", function()
            for _, disk in ipairs { new_disk(), seam.new(C.ms_fs_posix()) } do
                local path = disk.sim and D or ms.tmpdir()
                local dir = open(disk, path)
                local rc = try_open(disk, path)
                assert.equal(C.MS_E_LOCKED, rc)
                assert.truthy(ms.err():find(path .. "/lock", 1, true), ms.err())
                C.ms_datadir_close(dir)
                C.ms_datadir_close((open(disk, path)))
            end
        end)

        it("to a node of another cluster, naming both", function()
            local disk = new_disk()
            C.ms_datadir_close((open(disk)))
            local rc = try_open(disk, D, ms.bytes "test")
            assert.equal(C.MS_E_CLUSTER, rc)
            assert.equal(D .. ' belongs to cluster "prod", not to "test"', ms.err())
            assert.equal(C.MS_E_CLUSTER, (try_open(disk, D, ms.bytes "pro")))
            assert.equal("metasync 1\nid 000000001234abcd\ncluster prod\n", disk:get(D .. "/node"))
        end)

        it("with a cluster's name that no file could hold", function()
            local disk = new_disk()
            for _, name in ipairs { "", "a\nb", ("x"):rep(64) } do
                assert.equal(C.MS_E_INVALID, (try_open(disk, D, ms.bytes(name))))
            end
            C.ms_datadir_close((open(disk, D, ms.bytes(("x"):rep(63)))))
            assert.equal(C.MS_E_INVALID, (try_open(disk, "")))
            assert.equal(C.MS_E_LIMIT, (try_open(disk, ("x"):rep(2000))))
            assert.equal(C.MS_E_NOT_FOUND, (try_open(disk, "/none/sub")))
        end)

        it("made by a newer version", function()
            local disk = new_disk()
            C.ms_datadir_close((open(disk)))
            disk:put(D .. "/node", "metasync 2\nid 1\nsomething new\n")
            refuses(disk, C.MS_E_VERSION, D .. "/node", "version 2")
        end)

        it("with a damaged node file", function()
            local sound = "metasync 1\nid 000000001234abcd\ncluster prod\n"
            for _, text in ipairs {
                "", "\n", sound:sub(1, -2), sound .. "x", sound .. "\n", "x" .. sound, sound:upper(), sound:rep(100),
                (sound:gsub("1234", "123")), (sound:gsub("1234", "123g")), (sound:gsub("1234", "12345")),
                (sound:gsub("cluster prod", "cluster ")), (sound:gsub("cluster", "clu")), (sound:gsub("id ", "")),
                (sound:gsub(" 1\n", " 0\n")), (sound:gsub(" 1\n", " 01\n")), (sound:gsub(" 1\n", " 1\r\n")),
                (sound:gsub(" 1\n", " 2x\n")), ("\0"):rep(#sound), "metasync 1", "metasync 99999999999999999999\n",
            } do
                local disk = new_disk()
                C.ms_datadir_close((open(disk)))
                disk:put(D .. "/node", text)
                refuses(disk, C.MS_E_FORMAT, D .. "/node", 'expected three lines: "metasync 1"')
                assert.equal(text, disk:get(D .. "/node"))
            end
        end)

        it("with a damaged current file", function()
            for _, text in ipairs {
                "", "\n", "gen-000001", "gen-1\n", "gen-0000001\n", "gen-000000\n", "gen-00000a\n", "gen-000001\n\n",
                "GEN-000001\n", "gen-000001 \n", " gen-000001\n", "../000001\n", ("\0"):rep(11), "gen-000001\ngen-000002\n", ("x"):rep(5000),
                "gen-99999999999999999999\n",
            } do
                local disk = new_disk()
                C.ms_datadir_close((open(disk)))
                disk:put(D .. "/current", text)
                refuses(disk, C.MS_E_FORMAT, D .. "/current", 'expected one line like "gen-000001"')
                assert.equal(text, disk:get(D .. "/current"))
                assert.same({ "current", "gen-000001", "lock", "node" }, disk:list(D))
            end
        end)

        it("when current names what does not exist", function()
            local disk = new_disk()
            C.ms_datadir_close((open(disk)))
            fill(disk, D .. "/gen-000001", "data")
            disk:put(D .. "/current", "gen-000007\n")
            refuses(disk, C.MS_E_FORMAT, D .. "/current", D .. "/gen-000007 does not exist")
            assert.equal("data", disk:get(D .. "/gen-000001/data"))
        end)

        it("when current or node is missing although there is data", function()
            local disk = new_disk()
            C.ms_datadir_close((open(disk)))
            fill(disk, D .. "/gen-000001", "data")
            disk:remove(D .. "/current")
            refuses(disk, C.MS_E_FORMAT, D .. "/current", "expected one line")
            disk:remove(D .. "/node")
            refuses(disk, C.MS_E_FORMAT, D .. "/node", "expected three lines")
            disk:put(D .. "/current", "gen-000001\n")
            refuses(disk, C.MS_E_FORMAT, D .. "/node", "expected three lines")
            assert.equal("data", disk:get(D .. "/gen-000001/data"))
        end)
    end)

    it("removes left-overs at the next open, and nothing else", function()
        local disk = new_disk()
        C.ms_datadir_close((open(disk)))
        fill(disk, D .. "/gen-000001", "one")
        for _, name in ipairs { "gen-000002", "gen-000123", "gen-000002.bak", "gen-2", "archive", "other" } do
            disk:mkdir(D .. "/" .. name)
            fill(disk, D .. "/" .. name, name)
        end
        for _, name in ipairs { "node.tmp", "current.tmp", "notes.tmp" } do disk:put(D .. "/" .. name, "x") end
        local dir = open(disk)
        assert.same({
            "archive", "current", "gen-000001", "gen-000002.bak", "gen-2", "lock", "node", "notes.tmp", "other",
        }, disk:list(D))
        assert.equal("one", disk:get(live(dir) .. "/data"))
        C.ms_datadir_close(dir)
    end)

    describe("generations:", function()
        local disk, dir, anchor

        local function start(seed)
            disk = new_disk(seed)
            dir, anchor = open(disk)
            fill(disk, live(dir), "one")
        end

        after_each(function() if dir and disk.sim then C.ms_datadir_close(anchor) end end)

        it("staging makes an empty one beside the live one, also anew", function()
            start()
            assert.equal(0, C.ms_datadir_stage(anchor))
            assert.equal(D .. "/gen-000002", staged(dir))
            fill(disk, staged(dir), "half")
            assert.equal(0, C.ms_datadir_stage(anchor))
            assert.equal(D .. "/gen-000002", staged(dir))
            assert.same({}, disk:list(staged(dir)))
            assert.equal("gen-000001\n", disk:get(D .. "/current"))
        end)

        it("switching makes it live and removes the old one", function()
            start()
            for n = 2, 4 do
                assert.equal(0, C.ms_datadir_stage(anchor))
                fill(disk, staged(dir), "number " .. n)
                assert.equal(0, C.ms_datadir_switch(anchor))
                assert.equal(("%s/gen-%06d"):format(D, n), live(dir))
                assert.equal("", staged(dir))
                assert.equal(("gen-%06d\n"):format(n), disk:get(D .. "/current"))
                assert.same({ "current", ("gen-%06d"):format(n), "lock", "node" }, disk:list(D))
            end
            C.ms_datadir_close(anchor)
            dir, anchor = open(disk)
            assert.equal("number 4", disk:get(live(dir) .. "/data"))
        end)

        it("giving up removes the staged one", function()
            start()
            C.ms_datadir_stage(anchor)
            fill(disk, staged(dir), "half")
            assert.equal(0, C.ms_datadir_clean(anchor))
            assert.equal("", staged(dir))
            assert.same({ "current", "gen-000001", "lock", "node" }, disk:list(D))
            assert.equal(0, C.ms_datadir_clean(anchor))
        end)

        it("there is nothing to switch to before staging", function()
            start()
            assert.equal(C.MS_E_INVALID, C.ms_datadir_switch(anchor))
            assert.equal("one", disk:get(live(dir) .. "/data"))
        end)

        it("the million is no end", function()
            start()
            C.ms_datadir_close(anchor)
            disk:rename(D .. "/gen-000001", D .. "/gen-999999")
            disk:put(D .. "/current", "gen-999999\n")
            dir, anchor = open(disk)
            C.ms_datadir_stage(anchor)
            fill(disk, staged(dir), "more")
            assert.equal(0, C.ms_datadir_switch(anchor))
            C.ms_datadir_close(anchor)
            dir, anchor = open(disk)
            assert.equal(D .. "/gen-1000000", live(dir))
            assert.equal("more", disk:get(live(dir) .. "/data"))
        end)

        -- Fails the n-th call of one operation during a switch, for each n.
        local function each_failure(fn)
            for _, op in ipairs { "OPEN", "WRITE", "SYNC", "RENAME", "SYNC_DIR" } do
                for n = 1, 4 do
                    start(n)
                    C.ms_datadir_stage(anchor)
                    fill(disk, staged(dir), "two")
                    C.ms_sim_fs_fail_after(disk.sim, C["MS_SIM_FS_" .. op], n, nil)
                    local rc = C.ms_datadir_switch(anchor)
                    C.ms_sim_fs_fail_after(disk.sim, C["MS_SIM_FS_" .. op], 0, nil)
                    if rc ~= 0 then fn(rc, op .. " " .. n) end
                    C.ms_datadir_close(anchor)
                    crash.free_all()
                end
            end
        end

        it("a switch that fails leaves the old one live, and what is written to it later is not lost", function()
            local tried = 0
            each_failure(function(rc, where)
                tried = tried + 1
                assert.equal(C.MS_E_IO, rc)
                assert.truthy(ms.err():find "injected", ms.err())
                assert.equal(D .. "/gen-000001", live(dir), where)
                fill(disk, live(dir), "one, and more")
                if tried % 2 == 0 then assert.equal(0, C.ms_datadir_clean(anchor)) end
                crash.power_loss(disk)
                C.ms_datadir_close(anchor)
                dir, anchor = open(disk)
                assert.equal("one, and more", disk:get(live(dir) .. "/data"), where)
            end)
            assert.equal(6, tried) -- sync_dir of the staged one; create, write, sync and rename current; sync_dir of D
        end)

        it("a switch that fails can be tried again", function()
            each_failure(function(_, where)
                assert.equal(0, C.ms_datadir_switch(anchor), where)
                crash.power_loss(disk)
                C.ms_datadir_close(anchor)
                dir, anchor = open(disk)
                assert.equal("two", disk:get(live(dir) .. "/data"), where)
            end)
        end)

        it("a full disk fails a switch and nothing else", function()
            start()
            C.ms_datadir_stage(anchor)
            fill(disk, staged(dir), "two")
            C.ms_sim_fs_capacity(disk.sim, C.ms_sim_fs_used(disk.sim))
            assert.equal(C.MS_E_NO_SPACE, C.ms_datadir_switch(anchor))
            assert.equal("one", disk:get(live(dir) .. "/data"))
            C.ms_datadir_close(anchor)
            dir, anchor = open(disk) -- and the directory can still be opened
            assert.equal("one", disk:get(live(dir) .. "/data"))
        end)

        it("a switch of which neither new nor old name can be made durable says so, and removes nothing", function()
            for seed = 1, 30 do
                start(seed)
                C.ms_datadir_stage(anchor)
                fill(disk, staged(dir), "two")
                -- The name is renamed, its sync fails, and so does everything later.
                C.ms_sim_fs_fail_after(disk.sim, C.MS_SIM_FS_SYNC_DIR, 2, nil)
                C.ms_sim_fs_fail_after(disk.sim, C.MS_SIM_FS_RENAME, 2, nil)
                assert.equal(C.MS_E_UNKNOWN, C.ms_datadir_switch(anchor))
                assert.truthy(ms.err():find("nor could " .. D .. "/current be put back", 1, true), ms.err())
                C.ms_sim_fs_fail_often(disk.sim, C.MS_SIM_FS_RENAME, 1000000)
                assert.equal(C.MS_E_IO, C.ms_datadir_clean(anchor))
                assert.equal(C.MS_E_IO, C.ms_datadir_stage(anchor))
                C.ms_sim_fs_fail_often(disk.sim, C.MS_SIM_FS_RENAME, 0)
                crash.power_loss(disk)
                C.ms_datadir_close(anchor)
                dir, anchor = open(disk)
                local text = disk:get(live(dir) .. "/data")
                assert.truthy(text == "one" or text == "two")
                C.ms_datadir_close(anchor)
                crash.free_all()
            end
        end)

        it("what can't be removed after a switch is removed at the next open", function()
            start()
            C.ms_datadir_stage(anchor)
            fill(disk, staged(dir), "two")
            C.ms_sim_fs_fail_after(disk.sim, C.MS_SIM_FS_REMOVE, 1, nil)
            assert.equal(0, C.ms_datadir_switch(anchor))
            assert.same({ "current", "gen-000001", "gen-000002", "lock", "node" }, disk:list(D))
            C.ms_datadir_close(anchor)
            dir, anchor = open(disk)
            assert.same({ "current", "gen-000002", "lock", "node" }, disk:list(D))
        end)
    end)

    describe("whatever the moment of the end,", function()
        -- Opens once more after the end, then once more after another power loss, and gives dir to the check each time.
        local function opens(disk, fn)
            for _ = 1, 2 do
                local rc, dir = try_open(disk)
                assert(rc == 0, ms.err())
                local named = disk:get(D .. "/current")
                assert(live(dir) == D .. "/" .. named:sub(1, -2), named)
                fn(dir)
                for _, name in ipairs(disk:list(D)) do
                    assert(not name:match "^gen%-" or D .. "/" .. name == live(dir), name .. " is left over")
                    assert(not name:match "%.tmp$", name .. " is left over")
                end
                C.ms_datadir_close(dir)
                crash.power_loss(disk)
            end
        end

        local function open_and_keep(disk)
            disk.kept.dir, disk.kept.anchor = open(disk)
        end

        local function close_kept(disk)
            if disk.kept.anchor then C.ms_datadir_close(disk.kept.anchor) end
        end

        it("a new directory is opened as a new or as a finished one", function()
            local count = crash.sweep {
                seeds = 40,
                setup = function(disk)
                    disk:mkdir "/var"
                    disk:sync_dir "/"
                end,
                run = open_and_keep,
                check = function(disk, ran)
                    close_kept(disk)
                    opens(disk, function(dir)
                        assert(live(dir) == D .. "/gen-000001")
                        -- What ms_datadir_open had returned is durable.
                        if ran then assert(disk.kept.dir.node_id == dir.node_id) end
                    end)
                end,
            }
            assert.truthy(count > 10, count)
        end)

        it("an opened directory does not lose its name", function()
            for seed = 1, 50 do
                local disk = crash.disk(seed)
                disk:mkdir "/var"
                disk:sync_dir "/"
                local dir = open(disk)
                fill(disk, live(dir), "one")
                C.ms_datadir_close(dir)
                crash.power_loss(disk)
                assert.equal("one", disk:get(D .. "/gen-000001/data"))
                crash.free_all()
            end
        end)

        local function setup(disk)
            disk:mkdir "/var"
            disk:sync_dir "/"
            open_and_keep(disk)
            fill(disk, live(disk.kept.dir), "one")
        end

        it("staging and switching leave current on a whole generation, the old one or the new one", function()
            local seen = {}
            local count = crash.sweep {
                seeds = 40,
                setup = setup,
                run = function(disk)
                    local dir, anchor = disk.kept.dir, disk.kept.anchor
                    ms.check(C.ms_datadir_stage(anchor))
                    disk:put(staged(dir) .. "/data", "two") -- its name is synced by the switch
                    ms.check(C.ms_datadir_switch(anchor))
                    disk.kept.switched = true
                    fill(disk, live(dir), "two and more")
                end,
                check = function(disk, ran)
                    close_kept(disk)
                    opens(disk, function(dir)
                        local text = disk:get(live(dir) .. "/data")
                        seen[text] = true
                        if live(dir) == D .. "/gen-000001" then
                            assert(text == "one" and not disk.kept.switched, text)
                        elseif ran then
                            assert(text == "two and more", text)
                        else -- rewriting data above is not atomic; the switch is what counts here
                            assert(text == "two" or disk.kept.switched, text)
                        end
                    end)
                end,
            }
            assert.truthy(count > 15, count)
            assert.truthy(seen.one and seen.two and seen["two and more"])
        end)

        it("so do a start and a power loss after a crash in the midst of a switch", function()
            crash.sweep {
                ends = { "crash" },
                setup = function(disk)
                    setup(disk)
                    local dir, anchor = disk.kept.dir, disk.kept.anchor
                    ms.check(C.ms_datadir_stage(anchor))
                    fill(disk, staged(dir), "two")
                end,
                run = function(disk) ms.check(C.ms_datadir_switch(disk.kept.anchor)) end,
                check = function(disk)
                    close_kept(disk)
                    -- The next start may itself be cut short, anywhere.
                    for k = 0, 12 do
                        C.ms_sim_fs_stop_after(disk.sim, k)
                        local rc, _, anchor = try_open(disk)
                        crash.power_loss(disk)
                        if rc == 0 then C.ms_datadir_close(anchor) end
                    end
                    opens(disk, function(dir)
                        local text = disk:get(live(dir) .. "/data")
                        assert((live(dir) == D .. "/gen-000001" and "one" or "two") == text, live(dir) .. " has " .. text)
                    end)
                end,
            }
        end)

        it("what was archived is there, whole, and nothing else was overwritten", function()
            local count = crash.sweep {
                setup = setup,
                run = function(disk)
                    disk.kept.archived = 0
                    for n = 1, 3 do
                        local path = ffi.new("char[?]", C.MS_PATH_MAX)
                        ms.check(C.ms_datadir_archive(disk.kept.anchor, "tail.json", ms.bytes("text " .. n), path))
                        disk.kept.archived = n
                    end
                end,
                check = function(disk)
                    close_kept(disk)
                    local names = { "tail.json", "tail.json.2", "tail.json.3" }
                    for n, name in ipairs(names) do
                        local there = disk:exists(D .. "/archive/" .. name)
                        assert(there or n > disk.kept.archived, name .. " is missing")
                        assert(not there or disk:get(D .. "/archive/" .. name) == "text " .. n)
                    end
                end,
            }
            assert.truthy(count > 12, count)
        end)
    end)

    describe("archive:", function()
        local disk, anchor
        before_each(function()
            disk = new_disk()
            anchor = select(2, open(disk))
        end)
        after_each(function() if disk.sim then C.ms_datadir_close(anchor) end end)

        local function archive(name, text)
            local path = ffi.new("char[?]", C.MS_PATH_MAX)
            local rc = C.ms_datadir_archive(anchor, name, ms.bytes(text), path)
            return rc, ffi.string(path)
        end

        it("keeps every text under a name of its own", function()
            for n = 1, 12 do
                local rc, path = archive("tail.json", "text " .. n)
                assert.equal(0, rc)
                assert.equal(D .. "/archive/tail.json" .. (n > 1 and "." .. n or ""), path)
            end
            for n = 1, 12 do
                assert.equal("text " .. n, disk:get(D .. "/archive/tail.json" .. (n > 1 and "." .. n or "")))
            end
            assert.equal(12, #disk:list(D .. "/archive"))
            C.ms_datadir_close(anchor)
            anchor = select(2, open(disk))
            assert.equal(12, #disk:list(D .. "/archive"))
        end)

        it("takes empty texts, and names of up to 200 bytes that are plain", function()
            assert.equal(0, (archive("empty", "")))
            assert.equal("", disk:get(D .. "/archive/empty"))
            assert.equal(0, (archive(("x"):rep(200), "long")))
            for _, name in ipairs { "", ".", "..", ".hidden", "a/b", "/a", ("x"):rep(201), "a.tmp", ".tmp" } do
                assert.equal(C.MS_E_INVALID, (archive(name, "x")), name)
            end
        end)

        it("says which file could not be written, and leaves no name behind", function()
            archive("a", "first")
            C.ms_sim_fs_capacity(disk.sim, C.ms_sim_fs_used(disk.sim))
            assert.equal(C.MS_E_NO_SPACE, (archive("a", "second")))
            assert.truthy(ms.err():find("archive " .. D .. "/archive/a.2: ", 1, true), ms.err())
            assert.equal("first", disk:get(D .. "/archive/a"))
            assert.same({ "a" }, disk:list(D .. "/archive"))
        end)
    end)

    it("out of memory fails an open cleanly", function()
        local tried = ms.with_alloc_failures(function()
            local disk = crash.disk(1)
            if not disk then return end
            if disk:try_mkdir "/var" == 0 then
                local rc, _, anchor = try_open(disk)
                assert(rc == 0 or rc == C.MS_E_MEMORY, rc)
                assert(rc == 0 or C.ms_sim_fs_handles(disk.sim) == 0)
                if rc == 0 then rc = C.ms_datadir_stage(anchor) end
                if rc == 0 then rc = C.ms_datadir_switch(anchor) end
                assert(rc == 0 or rc == C.MS_E_MEMORY, rc)
                C.ms_datadir_close(anchor)
            end
            crash.free_all()
        end)
        assert.truthy(tried > 20, tried)
    end)
end)
