-- A disk that is full, for real: a small tmpfs. Where mounting is not allowed (it takes root) these specs are skipped.
local cluster = require "spec.support.cluster"
local process = require "spec.support.process"

local function mount(path, size)
    os.execute("mkdir -p " .. path)
    return select(2, process.run { "mount", "-t", "tmpfs", "-o", "size=" .. size, "none", path }) == 0
end

local function unmount(path)
    process.run { "umount", "-l", path }
end

-- A directory on a file system of `size` bytes. It is unmounted when the cluster is closed.
local function small_disk(c, size)
    local path = c.dir .. "/disk"
    assert(mount(path, size), "cannot mount")
    c.on_close = function() unmount(path) end
    return path
end

local function can_mount()
    local dir = process.tmpdir "mount"
    local ok = mount(dir .. "/disk", "1m")
    if ok then unmount(dir .. "/disk") end
    os.execute("rm -rf " .. dir)
    return ok
end

local it_mounts = can_mount() and it or pending

local function writes_of(n, count)
    local writes = {}
    for i = 1, count do writes[i] = { table = "topic", key = ("t%d-%d"):format(n, i), value = ("%d "):format(n) .. ("x"):rep(1000) } end
    return writes
end

-- Writes until the node refuses; the refusal, and what stands.
local function fill(node, most)
    for n = 1, most do
        local reply = assert(node:call({ command = "put-batch", writes = writes_of(n, 200) }, 60))
        if not reply.ok then return reply, n - 1 end
    end
    error("it never got full")
end

describe("a full disk", function()
    it_mounts("refuses writes cleanly, keeps everything, and takes writes again when there is room", cluster.test(function(c)
        local disk = small_disk(c, "24m")
        local leader, follower = c:node("a", { "--segment", "1048576", "--snapshot-every", "60000" }), c:node "b"
        leader.data, leader.control = disk .. "/a", disk .. "/a/control.sock"
        leader:start { "--lead" }
        follower:start { "--follow", leader.address }
        leader:put("topic", "before", "1")
        -- Something else fills the disk, all but a few segments.
        process.run { "sh", "-c", "head -c 12000000 /dev/zero > " .. disk .. "/ballast" }
        local refusal, batches = fill(leader, 100)
        assert.equal("MS_E_NO_SPACE", refusal.code)
        assert.is_true(batches > 2, batches .. " batches")
        local status = leader:status()
        assert.equal("leader", status.role)
        assert.is_true(status.log.no_space)
        assert.is_false(status.log.failed)
        -- Reading goes on, here and on the follower, which has all that was acknowledged.
        assert.equal("1", leader:get("topic", "before"))
        c:equal(leader, follower)
        assert.is_not_nil(follower:get("topic", ("t%d-200"):format(batches)))
        assert.is_nil(follower:get("topic", ("t%d-1"):format(batches + 1)))
        os.remove(disk .. "/ballast")
        process.eventually("it takes writes again", function()
            local reply = leader:call { command = "put", table = "topic", key = "after", value = "1" }
            return reply.ok, reply.error
        end, 30)
        c:equal(leader, follower)
        -- And nothing is damaged: a kill, and everything is there.
        leader:kill()
        leader:start { "--lead" }
        assert.equal("1", leader:get("topic", "after"))
        assert.is_not_nil(leader:get("topic", ("t%d-200"):format(batches)))
        c:equal(leader, follower)
    end))

    it_mounts("of a follower stops it, not its leader, and it goes on when there is room", cluster.test(function(c)
        local disk = small_disk(c, "40m")
        local leader, follower = c:node "a", c:node("b", { "--segment", "1048576" })
        follower.data, follower.control = disk .. "/b", disk .. "/b/control.sock"
        leader:start { "--lead" }
        follower:start { "--follow", leader.address }
        leader:put("topic", "before", "1")
        c:equal(leader, follower)
        process.run { "sh", "-c", "head -c 33000000 /dev/zero > " .. disk .. "/ballast" }
        for n = 1, 40 do leader:batch(writes_of(n, 200)) end
        follower:wait("it has no space", function(s) return s.log.no_space end)
        assert.equal("1", follower:get("topic", "before"))
        assert.equal("leader", leader:status().role)
        os.remove(disk .. "/ballast")
        assert.is_true(leader:status().log.head > 8000)
        c:equal(leader, follower, 40)
    end))

    it_mounts("from the start is a refusal to start, with the file named: exit status 1", cluster.test(function(c)
        local disk = small_disk(c, "1m")
        local node = c:node "a"
        node.data, node.control = disk .. "/a", disk .. "/a/control.sock"
        node:launch { "--lead" }
        assert.equal(1, node:exit_status())
        assert.truthy(node:log_text():find(node.data .. "/gen-000001/log-", 1, true), node:log_text())
    end))
end)

describe("files that may not grow (ulimit -f)", function()
    it("are a refusal to start, with the file named; without the limit nothing is amiss", cluster.test(function(c)
        local node = c:node "a"
        node.wrap = { "sh", "-c", 'trap "" XFSZ; ulimit -f 100; exec "$@"', "sh" }
        node:launch { "--lead" }
        assert.equal(1, node:exit_status())
        assert.truthy(node:log_text():find(node.data .. "/gen-000001/log-", 1, true), node:log_text())
        node.wrap = nil
        node:start { "--lead" }
        node:put("topic", "t", "x")
    end))
end)
