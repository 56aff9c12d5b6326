-- A large broker (CASES A13: whole tables of 60,000 topics no longer fit a frame of 16 MiB, and clients time out): 60,000 topics, and one
-- group with 16 queues of each, which is about a million offsets. Imported, followed from nothing, exported; within time and memory.
local cluster = require "spec.support.cluster"
local process = require "spec.support.process"

local TOPICS, QUEUES = 60000, 16
local MIB = 1048576

local function write_topics(path)
    local file = assert(io.open(path, "w"))
    file:write('{"dataVersion":{"counter":', TOPICS, ',"stateVersion":0,"timestamp":1796083523789},"topicConfigTable":{\n')
    for i = 1, TOPICS do
        file:write(('"service_events_%05d":{"attributes":{},"order":false,"perm":6,"readQueueNums":%d,"topicFilterType":"SINGLE_TAG",'):format(i,
            QUEUES), ('"topicName":"service_events_%05d","topicSysFlag":0,"writeQueueNums":%d}%s\n'):format(i, QUEUES, i < TOPICS and "," or ""))
    end
    file:write "}}"
    file:close()
end

local function write_offsets(path)
    local file = assert(io.open(path, "w"))
    file:write('{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1796083523789},"offsetTable":{\n')
    for i = 1, TOPICS do
        local queues = {}
        for q = 0, QUEUES - 1 do queues[q + 1] = ("%d:%d"):format(q, i * 1000 + q) end
        file:write(('"service_events_%05d@GID_one":{%s}%s\n'):format(i, table.concat(queues, ","), i < TOPICS and "," or ""))
    end
    file:write "}}"
    file:close()
end

local function entries(status)
    local map = {}
    for _, t in ipairs(status.tables) do map[t.name] = t.entries end
    return map
end

local function said(what, from)
    print(("%-42s %6.1f s"):format(what, process.now() - from))
    return process.now() - from
end

local function check_memory(node)
    local now, most = node.process:memory()
    print(("memory of %s: %d MiB, at most %d MiB"):format(node.name, now / MIB, most / MIB))
    assert.is_true(most < 1500 * MIB, ("%s took %d MiB"):format(node.name, most / MIB))
end

describe("a million offsets and 60,000 topics", function()
    it("are imported, followed, exported and recovered within time and memory", cluster.test(function(c)
        local dir = c.dir .. "/config"
        os.execute("mkdir " .. dir)
        write_topics(dir .. "/topics.json")
        write_offsets(dir .. "/consumerOffset.json")

        local from = process.now()
        local leader = c:node("a", { "--table", "offset=buffer:200:5000", "--log-keep", "1048576" }):start({ "--lead", "--import", dir }, 120)
        local import_s = said("import", from)
        local count = entries(leader:status())
        assert.equal(TOPICS, count.topic)
        assert.equal(TOPICS * QUEUES, count.offset)
        assert.is_true(import_s < 60, "the import took " .. import_s .. " s")

        from = process.now()
        local follower = c:node "b":start { "--follow", leader.address }
        c:equal(leader, follower, 120)
        local follow_s = said("a follower from nothing", from)
        assert.is_true(follow_s < 60, "following took " .. follow_s .. " s")
        assert.equal(60000 * 1000 + 15, follower:get("offset", { "service_events_60000@GID_one", "15" }))

        from = process.now()
        local output, code, errors = follower:ctl("export", c.dir .. "/out")
        assert.equal(0, code, output .. errors)
        assert.is_true(said("export by the follower", from) < 60)

        from = process.now()
        leader:must("snapshot", 60)
        said("snapshot", from)
        check_memory(leader)
        leader:kill()
        from = process.now()
        leader:start({ "--lead" }, 60)
        said("restart of the leader after kill -9", from)
        assert.equal(TOPICS * QUEUES, entries(leader:status()).offset)
        from = process.now()
        assert.equal(0, (select(2, leader:ctl("import", dir))))
        said("the same import again", from)
        c:equal(leader, follower, 60)


        -- With the log trimmed, a new follower gets a snapshot.
        for i = 1, 3 do
            leader:put("topic", "one more", tostring(i))
            leader:must("snapshot", 60)
        end
        leader:wait("its log is trimmed", function(s) return s.log.first > 1000 end, 30)
        from = process.now()
        local third = c:node "c":start { "--follow", leader.address }
        c:equal(leader, third, 120)
        assert.is_true(said("a follower from a snapshot", from) < 60)
        assert.equal(1, third:status().counters.bootstraps)
        for _, node in ipairs { leader, follower, third } do check_memory(node) end
        print(("longest hold of the lock: %d us"):format(leader:status().max_lock_us))
    end))
end)
