-- Faults that users of RocketMQ met when a master or slave died, came back or was replaced, with real daemons. "rmq:" names
-- apache/rocketmq issues, "nats:" nats-io/nats-server, "rabbit:" rabbitmq/rabbitmq-server.
local cluster = require "spec.support.cluster"
local process = require "spec.support.process"

local EXAMPLE = "plugins/standalone/example"
local DAMAGED = "spec/data/rocketmq/damaged/"

describe("rmq:9206: a slave did not write what it received, so that topics were gone after its promotion and restart", function()
    it("ten topics survive: acknowledged by a follower, which is killed at once and restarted as the only leader", cluster.test(function(c)
        local old, new = c:pair { "--table", "topic=replica" }
        old:wait("the follower is in sync", function(s) return s.peers[1] and s.peers[1].in_sync end)
        for i = 1, 10 do old:put("topic", "t" .. i, "{}") end
        new:kill()
        old:kill()
        os.execute("rm -rf " .. process.quote(old.data))
        new:start { "--lead" }
        for i = 1, 10 do assert.equal("{}", new:get("topic", "t" .. i)) end
    end))
end)

describe("rmq:9804, rmq:9864: a topic that an admin tool made was missing after a switch", function()
    it("a topic that was acknowledged at level replica is there after kill -9 of its leader and promotion", cluster.test(function(c)
        local old, new = c:pair { "--table", "topic=replica" }
        for round = 1, 6 do
            old:wait("the follower is in sync", function(s) return s.peers[1] and s.peers[1].in_sync end)
            old:put("topic", "made" .. round, "{}")
            old:kill()
            new:must "promote"
            assert.equal("{}", new:get("topic", "made" .. round))
            old:start { "--follow", new.address }
            old, new = new, old
        end
    end))

    it("and without that level the status of what is left names the part that was not replicated", cluster.test(function(c)
        local old, new = c:pair()
        old:put("topic", "t1", "{}")
        c:equal(old, new)
        new.process:kill(process.SIGSTOP)
        old:put("topic", "t2", "{}")
        local status = old:status()
        assert.is_true(status.log.head > status.peers[1].durable)
        new.process:kill(process.SIGCONT)
        c:equal(old, new)
    end))
end)

describe("rmq:1094, rmq:1440, rmq:3210, rmq:2513: an old master came back and overwrote newer offsets", function()
    it("it becomes a follower of the new reign, and nobody shows the old offsets again", cluster.test(function(c)
        local old, new = c:pair()
        for q = 0, 15 do old:put("offset", { "t@g", tostring(q) }, 100) end
        c:equal(old, new)
        old:kill()
        new:must "promote"
        for q = 0, 15 do new:put("offset", { "t@g", tostring(q) }, 200) end
        old:launch { "--lead", "--peer", new.address } -- as its unit file says
        assert.equal(3, old:exit_status())
        old:start { "--follow", new.address }
        process.eventually("it has the new offsets", function()
            for q = 0, 15 do
                assert.equal(200, new:get("offset", { "t@g", tostring(q) }))
                if old:get("offset", { "t@g", tostring(q) }) ~= 200 then return false end
            end
            return true
        end)
        c:equal(new, old)
    end))
end)

describe("rmq:7790: after a change of roles the first copy waited a whole period", function()
    it("a follower is at its leader within a second after `follow`", cluster.test(function(c)
        local leader, follower = c:node "a":start { "--lead" }, c:node "b":start {}
        for i = 1, 50 do leader:put("topic", "t" .. i, "{}") end
        follower:must { command = "follow", address = leader.address }
        follower:wait("it is there", function(s) return s.applied >= 50 end, 1)
    end))
end)

describe("rmq:9777: a slave made its own version after each copy, and copied everything each time", function()
    it("a second import, and a reconnect of the follower, transfer nothing", cluster.test(function(c)
        local leader = c:node "a":start { "--lead", "--import", EXAMPLE }
        local follower = c:node "b":start { "--follow", leader.address }
        c:equal(leader, follower)
        local version = follower:get("data_version", "topic")
        assert.equal(leader:get("data_version", "topic"), version)
        follower:stop():start { "--follow", leader.address }
        leader:ctl("import", EXAMPLE)
        c:equal(leader, follower)
        local counters = follower:status().counters
        assert.is_true(counters.groups_applied <= 2) -- marks
        assert.equal(0, counters.bootstraps)
        assert.equal(version, follower:get("data_version", "topic"))
    end))
end)

describe("rmq:7263, rmq:7264: offsets of a deleted group lived on on the slave", function()
    it("deletes arrive, and a group made anew starts from nothing", cluster.test(function(c)
        local leader, follower = c:pair { "--table", "offset=buffer:50" }
        for q = 0, 3 do leader:put("offset", { "t@g", tostring(q) }, 100 + q) end
        leader:put("group", "g", "{}")
        c:equal(leader, follower)
        local writes = { { table = "group", key = "g" } }
        for q = 0, 3 do writes[#writes + 1] = { table = "offset", key = { "t@g", tostring(q) } } end
        leader:batch(writes)
        c:equal(leader, follower)
        leader:put("group", "g", "{}")
        c:equal(leader, follower)
        assert.same({}, follower:entries "offset")
    end))
end)

describe("rmq:3401, rmq:6096, rmq:2531, rmq:1498: NUL-filled, empty or torn config files", function()
    local files = { ["all-nul.json"] = "consumerOffset", ["empty.json"] = "consumerOffset", ["eof-pos21.json"] = "consumerOffset",
        ["torn-middle.json"] = "consumerOffset" }

    for name, file in pairs(files) do
        it(name .. ": refused with its position, the good .bak is used and left alone, the start succeeds", cluster.test(function(c)
            local dir = c.dir .. "/config"
            os.execute(("cp -r %s %s"):format(EXAMPLE, dir))
            local text, bak = process.read(DAMAGED .. name), process.read(dir .. "/" .. file .. ".json.bak")
            process.write(dir .. "/" .. file .. ".json", text)
            local leader = c:node "a":start { "--lead", "--import", dir }
            assert.equal(1605, leader:get("offset", { "order-service_events_023@GID_016", "5" }))
            assert.truthy(leader:log_text():find(file .. ".json: line %d+, column %d+") or leader:log_text():find(file .. ".json.-empty"),
                leader:log_text())
            assert.equal(text, process.read(dir .. "/" .. file .. ".json"))
            -- An export to the same place keeps the good .bak: what nobody could read never replaces it.
            local _, code, errors = leader:ctl("export", dir)
            assert.equal(0, code, errors)
            assert.equal(bak, process.read(dir .. "/" .. file .. ".json.bak"))
            assert.truthy(process.read(dir .. "/" .. file .. ".json"):find("offsetTable", 1, true))
        end))

        it(name .. " twice: it is no leader then, but may follow one", cluster.test(function(c)
            local dir = c.dir .. "/config"
            os.execute(("cp -r %s %s"):format(EXAMPLE, dir))
            local text = process.read(DAMAGED .. name)
            process.write(dir .. "/" .. file .. ".json", text)
            process.write(dir .. "/" .. file .. ".json.bak", text)
            local node, leader = c:node "a", c:node "b":start { "--lead", "--import", EXAMPLE }
            node:launch { "--lead", "--import", dir }
            assert.equal(1, node:exit_status())
            assert.truthy(node:log_text():find(file .. ".json.bak", 1, true), node:log_text())
            node:start { "--follow", leader.address }
            c:equal(leader, node)
        end))
    end
end)

describe("ROCKETMQ-206: a character that is not ASCII made the file unreadable", function()
    it("UTF-8 is loaded, kept and written byte for byte", cluster.test(function(c)
        local dir = c.dir .. "/config"
        os.execute("mkdir " .. dir)
        process.write(dir .. "/consumerOffset.json", process.read(DAMAGED .. "utf8-topic.json"))
        local leader = c:node "a":start { "--lead", "--import", dir }
        local follower = c:node "b":start { "--follow", leader.address }
        c:equal(leader, follower)
        assert.equal(1, follower:get("offset", { "订单@g", "0" }))
        follower:ctl("export", c.dir .. "/out")
        assert.truthy(process.read(c.dir .. "/out/consumerOffset.json"):find("订单@g", 1, true))
    end))

    for _, name in ipairs { "gbk-topic.json", "overlong-utf8.json" } do
        it(name .. " is refused as a whole; no replacement character is ever written", cluster.test(function(c)
            local dir = c.dir .. "/config"
            os.execute("mkdir " .. dir)
            process.write(dir .. "/consumerOffset.json", process.read(DAMAGED .. name))
            local leader = c:node "a":start { "--lead" }
            local _, code, errors = leader:ctl("import", dir)
            assert.equal(1, code)
            assert.truthy(errors:find("consumerOffset.json", 1, true), errors)
            assert.same({}, leader:entries "offset")
        end))
    end
end)

describe("rabbit:5337, nats:5939: a copy that was interrupted was half there, or had wiped what was there before", function()
    it("kill -9 during a bootstrap leaves the old tables, or has all of the new ones", cluster.test(function(c)
        local leader = c:node("a", { "--segment", "65536", "--log-keep", "65536" }):start { "--lead" }
        local follower = c:node "b":start { "--follow", leader.address }
        for i = 1, 100 do leader:put("topic", "old" .. i, "{}") end
        c:equal(leader, follower)
        follower:stop()
        local count = 100
        for n = 1, 50 do
            local writes = {}
            for i = 1, 400 do writes[i] = { table = "topic", key = ("t%d-%d"):format(n, i), value = ("x"):rep(400) } end
            leader:batch(writes)
            count = count + #writes
        end
        for i = 1, 3 do
            leader:put("topic", "old1", tostring(i))
            leader:must "snapshot"
        end
        leader:wait("its log is trimmed", function(s) return s.log.first > 200 end)
        math.randomseed(process.real_us() % 1000000007)
        local interrupted = 0
        for _ = 1, 40 do
            follower:launch { "--follow", leader.address }
            process.pause(math.random() * 0.12)
            follower:kill()
            follower:start {} -- idle: just what is there
            local status = follower:status()
            local entries = status.tables[1].entries
            assert.is_true(entries == 100 or entries >= count, entries .. " entries")
            assert.is_false(status.damaged)
            if entries ~= 100 then break end
            interrupted = interrupted + 1
            follower:stop()
        end
        print("bootstraps interrupted: " .. interrupted)
        if follower:alive() then follower:stop() end
        follower:start { "--follow", leader.address }
        c:equal(leader, follower)
    end))
end)

describe("rmq:10580: epochs were compared by a subtraction that overflows", function()
    it("each promotion is a higher reign, each start as leader a higher run, in both orders of nodes", cluster.test(function(c)
        local one, other = c:pair()
        one:put("topic", "t", "0")
        local last = one:status().epoch
        for round = 1, 4 do
            c:equal(one, other)
            one:kill()
            other:must "promote"
            other:put("topic", "t", tostring(round))
            one:start { "--follow", other.address }
            c:equal(other, one)
            local epoch = other:status().epoch
            assert.is_true(epoch.reign > last.reign)
            assert.equal(tostring(round), one:get("topic", "t"))
            last = epoch
            one, other = other, one
        end
    end))
end)
