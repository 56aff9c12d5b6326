-- The first start of a master with the plugin, or one that has lost its node's data: its log is filled from the broker's own tables. A slave
-- that is there already waits meanwhile, since what it was given of a half-filled log it would take for all, and drop the rest.
local process = require "spec.support.process"
local store = require "bench.rocketmq.store"
local story = require "spec.rocketmq.story"

local TOPICS, OFFSETS = 10000, 40000
local UNTOUCHED = store.topic(TOPICS)

-- A slave that tries so often meets the time in which the master fills its log, which is short.
local LINKS = 'policy.links = { heartbeat = "200ms", timeout = "5s", connect_min = "5ms", connect_max = "10ms" }\n'

describe("a master that fills its log for the first time", function()
    local lab, master, slave
    local reads = 0

    local test = story {
        start = function(made)
            lab = made
            local policy = process.read("lua/policies/rocketmq.lua"):gsub("return policy%s*$", function(last) return LINKS .. last end)
            process.write(lab.dir .. "/policy.lua", policy)
            local conf = { ["metasync.policy"] = lab.dir .. "/policy.lua" }
            master = lab:broker("m", { plugin = false, conf = conf })
            slave = lab:broker("s", { id = 1, conf = conf })
            for _, one in ipairs { master, slave } do store.write(one.store .. "/config", TOPICS, OFFSETS) end
            master:start()
            slave:start()
            slave:wait("tries to follow", function(info) return info.metasync_leader == master.node_address end, 60)
        end,
    }

    -- Runs fn while a topic and a group of the slave are read all the time: they are never missing.
    local function nothing_vanishes(fn)
        reads = reads + 1
        local stop, out = ("%s/stop.%d"):format(lab.dir, reads), ("%s/reader.%d"):format(lab.dir, reads)
        local reader = process.start({ "luajit", "spec/rocketmq/reader.lua", tostring(slave.port), UNTOUCHED, "group_1", stop, "nomode" }, out)
        local ok, why = pcall(fn)
        process.write(stop, "")
        local status = reader:wait(30)
        assert(ok, why)
        assert.equal(0, status, process.read(out))
        local looks, missing = process.read(out):match("^(%d+) looks\n(.*)$")
        assert.is_true(tonumber(looks) > 500)
        assert.equal("", missing)
    end

    local function lose_data(one)
        assert.equal(0, os.execute("rm -rf " .. process.quote(one.node)))
    end

    local function has_all(one)
        local topics = one:rpc():topics()
        for i = 1, TOPICS do assert(topics[store.topic(i)], one.name .. " has lost " .. store.topic(i)) end
        assert.equal(1, one:rpc():offset("group_1", UNTOUCHED, 3))
    end

    test("loses nothing on a slave that has its tables and no log", function()
        nothing_vanishes(function()
            master:kill()
            master.plugin = true
            master:start()
            slave:in_sync(60)
        end)
        has_all(slave)
        assert.equal(1, #slave:grep "waiting: the host of") -- it came while the log was being filled
    end)

    -- The master's broker has all, its node nothing; it ends when its log has a part of it. The slave, whose node would depose one that has
    -- lost its data, is down.
    local function dies_filling()
        slave:kill()
        master:kill()
        lose_data(master)
        master:begin()
        process.eventually("it fills its log", function()
            assert(master:alive(), "it has ended")
            local ok, status = pcall(master.control, master, { command = "status" })
            for _, table in ipairs(ok and status.tables or {}) do
                if table.name == "topic" and table.entries > 0 then return true end
            end
        end, 60)
        master:kill()
        assert.is_true(process.exists(master.node .. "/filling"))
    end

    test("and dies in the midst of it, has what its own files say, not what the log has by then", function()
        dies_filling()
        master:start():leads()
        assert.is_false(process.exists(master.node .. "/filling"))
        has_all(master)
        lose_data(slave)
        slave:start():in_sync(60)
        has_all(slave)
    end)

    test("and dies so, may come back as a slave: it follows with nothing in its log, and keeps what it has", function()
        dies_filling()
        slave.id, master.id = 0, 1
        slave:start():leads()
        master:start():in_sync(60)
        assert.equal(1, #master:grep "its node begins anew")
        has_all(master)
    end)
end)
