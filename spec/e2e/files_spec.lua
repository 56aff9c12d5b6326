-- Importing a RocketMQ store/config directory into real nodes, and exporting their tables as such files.
local cluster = require "spec.support.cluster"
local json = require "spec.support.json"
local process = require "spec.support.process"

local EXAMPLE = "plugins/standalone/example"
local TABLES = { "topic", "group", "forbidden", "offset", "pull_offset", "reset_offset", "lmq_offset", "delay_offset", "data_version", "file_extra" }
local FILES = { "topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json" }

local function copy_of(c, dir)
    local copy = c.dir .. "/config"
    os.execute(("rm -rf %s && cp -r %s %s"):format(copy, dir, copy))
    return copy
end

local function import(node, dir, ...)
    local output, code, errors = node:ctl("--json", "import", dir, ...)
    return output ~= "" and json.decode(output) or nil, code, errors
end

local function same_tables(a, b)
    for _, name in ipairs(TABLES) do assert.same(a:entries(name), b:entries(name), name) end
end

describe("an import", function()
    it("at the start brings the files' rows, to the follower too", cluster.test(function(c)
        local leader, follower = c:node "a", c:node "b"
        leader:start { "--lead", "--import", EXAMPLE }
        follower:start { "--follow", leader.address }
        c:equal(leader, follower)
        local in_file = process.run { "grep", "-c", '"topicName"', EXAMPLE .. "/topics.json" }
        local topics = 0
        for _ in pairs(follower:entries "topic") do topics = topics + 1 end
        assert.equal(tonumber(in_file), topics)
        assert.equal(1605, follower:get("offset", { "order-service_events_023@GID_016", "5" }))
        assert.equal(4, follower:get("forbidden", { "GID_rich", "rich_fifo" }))
        same_tables(leader, follower)
    end))

    it("of the same files again logs nothing", cluster.test(function(c)
        local leader = c:node "a":start { "--lead", "--import", EXAMPLE }
        local head = leader:status().log.head
        local report, code = import(leader, EXAMPLE)
        assert.equal(0, code)
        for _, file in ipairs(report.files) do assert.equal(0, file.put + file.deleted, file.file) end
        -- A mark may follow the first import's changes within a second; no change may.
        local records = cluster.ctl("--json", "log", leader.data, "--from", tostring(head + 1))
        for line in records:gmatch("[^\n]+") do assert.equal("mark", json.decode(line).op, line) end
    end))

    it("keeps what was changed here since the last one, where the file did not change it", cluster.test(function(c)
        local leader = c:node "a":start { "--lead", "--import", EXAMPLE }
        local key = { "order-service_events_023@GID_016", "5" }
        leader:put("offset", key, 99999)
        assert.equal(0, select(2, import(leader, EXAMPLE)))
        assert.equal(99999, leader:get("offset", key))
    end))

    it("is refused on a follower", cluster.test(function(c)
        local leader, follower = c:pair()
        leader:put("topic", "t", "{}")
        c:equal(leader, follower)
        local reply, code = import(follower, EXAMPLE)
        assert.equal(1, code)
        assert.equal("MS_E_NOT_LEADER", reply.code)
    end))

    it("uses the .bak of a damaged file and says so; the damaged one stays as it is", cluster.test(function(c)
        local leader = c:node "a":start { "--lead" }
        local dir = copy_of(c, EXAMPLE)
        local torn = process.read(dir .. "/topics.json"):sub(1, 3000)
        process.write(dir .. "/topics.json", torn)
        local report, code, errors = import(leader, dir)
        assert.equal(0, code, errors)
        assert.equal("bak", report.files[1].source)
        assert.truthy(report.files[1].trouble:find("topics.json", 1, true), report.files[1].trouble)
        assert.is_not_nil(leader:get("topic", "rich_fifo"))
        assert.equal(torn, process.read(dir .. "/topics.json"))
        local output = leader:ctl("import", dir)
        assert.truthy(output:find("topics.json%s+bak"), output)
    end))

    it("changes nothing if a file and its .bak are damaged, and names both", cluster.test(function(c)
        local leader = c:node "a":start { "--lead" }
        leader:put("topic", "mine", "{}")
        local head = leader:status().log.head
        local dir = copy_of(c, EXAMPLE)
        process.write(dir .. "/consumerOffset.json", "{")
        process.write(dir .. "/consumerOffset.json.bak", ("\0"):rep(500))
        local reply, code = import(leader, dir)
        assert.equal(1, code)
        assert.equal("MS_E_FORMAT", reply.code)
        assert.truthy(reply.error:find("consumerOffset.json", 1, true) and reply.error:find("consumerOffset.json.bak", 1, true), reply.error)
        assert.is_nil(leader:get("topic", "rich_fifo"))
        assert.is_true(leader:status().log.head - head <= 1) -- a mark at most
    end))

    it("that is damaged keeps a daemon from starting as leader with it: exit status 1", cluster.test(function(c)
        local dir = copy_of(c, EXAMPLE)
        process.write(dir .. "/topics.json", "{")
        process.write(dir .. "/topics.json.bak", "{")
        local node = c:node "a"
        node:launch { "--lead", "--import", dir }
        assert.equal(1, node:exit_status(20))
        assert.truthy(node:log_text():find("cannot import", 1, true), node:log_text())
    end))
end)

describe("an export", function()
    it("imported elsewhere gives identical tables", cluster.test(function(c)
        local first = c:node "a":start { "--lead", "--import", EXAMPLE }
        first:put("topic", "订单", '{"perm":6,"attributes":{"+x":"1"}}')
        first:put("offset", { "订单@g@broadcast", "-1" }, 9223372036854775807LL)
        first:delete("group", "GID_025")
        local dir = c.dir .. "/out"
        local output, code, errors = first:ctl("export", dir)
        assert.equal(0, code, errors)
        assert.truthy(output:find("topics.json%s+yes"), output)
        local second = c:node "b":start { "--lead", "--import", dir }
        same_tables(first, second)
        output = second:ctl("export", dir)
        assert.truthy(output:find("topics.json%s+no change"), output)
    end))

    it("is made by a follower that was told to, after changes and at its end", cluster.test(function(c)
        local leader = c:node "a":start { "--lead", "--import", EXAMPLE }
        local dir = c.dir .. "/out"
        local follower = c:node("b", { "--export", dir, "--export-every", "50" }):start { "--follow", leader.address }
        leader:put("topic", "exported_topic", "{}")
        process.eventually("the file has the new topic", function()
            local text = process.read(dir .. "/topics.json")
            return text and text:find("exported_topic", 1, true)
        end)
        leader:put("topic", "last_topic", "{}")
        c:equal(leader, follower)
        follower:stop()
        assert.truthy(process.read(dir .. "/topics.json"):find("last_topic", 1, true))
        for _, name in ipairs(FILES) do assert.truthy(process.read(dir .. "/" .. name), name) end
        local second = c:node "c":start { "--lead", "--import", dir }
        same_tables(leader, second)
    end))

    it("never leaves half a file to a reader", cluster.test(function(c)
        local leader = c:node "a":start { "--lead", "--import", EXAMPLE }
        local dir = c.dir .. "/out"
        leader:ctl("export", dir)
        for i = 1, 30 do
            leader:put("topic", "n" .. i, "{}")
            leader.socket:send { command = "export", dir = dir }
            repeat
                local text = process.read(dir .. "/topics.json")
                assert.truthy(text:find("^{") and text:find("}%s*$"), "a torn file")
                local reply = leader.socket:receive(0)
            until reply
        end
    end))
end)
