-- What goes wrong around a pair of real brokers while it is under load: a frozen slave, a policy that is reloaded, a damaged directory.
-- After each of them both brokers have to show the same, entry by entry, and none may have ended.
local broker = require "spec.support.broker"
local shown = require "spec.rocketmq.shown"
local story = require "spec.rocketmq.story"
local process = require "spec.support.process"

local SIGSTOP, SIGCONT = 19, 18

describe("a pair of brokers under load", function()
    local master, slave
    local serial = 0

    local check = story { start = function(lab) master, slave = lab:pair() end }

    -- Topics, groups and commits for so long; no answer may be an error or take longer than a second. Returns how many.
    local function load(seconds)
        local rpc, stop, count, slowest = master:rpc(), process.now() + seconds, 0, 0
        repeat
            serial = serial + 1
            local began = process.now()
            rpc:create_topic("c" .. serial, { attributes = "+message.type=NORMAL" })
            rpc:create_group("G" .. serial)
            for queue = 0, 3 do rpc:commit("G" .. serial, "c" .. serial, queue, serial) end
            if serial % 3 == 0 then rpc:delete_topic("c" .. serial - 1) end
            slowest = math.max(slowest, process.now() - began)
            count = count + 1
        until process.now() > stop
        assert.is_true(slowest < 6, ("six requests took %.3f s"):format(slowest))
        return count
    end

    check("goes on while the slave is frozen, which has everything soon after it thaws", function()
        slave.process:kill(SIGSTOP)
        local ok, why = pcall(load, 3)
        slave.process:kill(SIGCONT)
        assert(ok, why)
        slave:in_sync(30)
        shown.same(master, slave, 20)
    end)

    check("takes a policy that is reloaded, several times, and loses nothing by it", function()
        for round = 1, 4 do
            load(0.3)
            local _, status, errors = master:metasyncctl("policy", "reload", "--force")
            assert.equal(0, status, ("reload %d: %s"):format(round, errors))
        end
        load(0.3)
        shown.same(master, slave, 20)
    end)

    -- Bytes in the middle of its log, with sound records behind them: not what a kill leaves.
    local function damage(one)
        local output = process.run { "find", one.node, "-type", "f", "-name", "log-*" }
        local paths = {}
        for path in output:gmatch("[^\n]+") do paths[#paths + 1] = path end
        table.sort(paths)
        local text = process.read(assert(paths[1], "no log in " .. one.node))
        local used = #text -- room is reserved beyond what is written
        while used > 0 and text:byte(used) == 0 do used = used - 1 end
        assert.is_true(used > 1000)
        local at = math.floor(used / 4)
        process.write(paths[1], text:sub(1, at) .. ("\255"):rep(64) .. text:sub(at + 65))
    end

    local function has_error(one, words)
        for _, line in ipairs(one:grep "metasync: ") do
            if line:find(" ERROR ", 1, true) and line:find(words, 1, true) then return true end
        end
        return false
    end

    check("whose slave starts with a damaged directory says so, takes everything anew, and agrees afterwards", function()
        slave:kill()
        load(0.3)
        damage(slave)
        slave:start():in_sync(60)
        assert.is_true(has_error(slave, "not readable"))
        shown.same(master, slave, 20)
    end)

    -- Waits until the master's file has what it shows.
    local function written(name, field, has)
        process.eventually(name .. " is written", function()
            local file = master:file(name)
            local what = broker.difference(has[field], file and file[field] or {}, name)
            return what == nil, what
        end, 30)
    end

    check("whose master starts with a damaged directory fills a new one from its files, and its slave agrees", function()
        -- A heartbeat that only the slave got has made a group there: nothing that the master could lack, and no reason to refuse it.
        slave:rpc():heartbeat("GID_of_the_slave", "c1")
        assert.is_not_nil(slave:rpc():groups().GID_of_the_slave)
        local M = master:rpc()
        local topics = M:topics()
        written("topics.json", "topicConfigTable", M:all_topics())
        written("subscriptionGroup.json", "subscriptionGroupTable", M:all_groups())
        written("consumerOffset.json", "offsetTable", M:all_offsets())
        master:kill() -- an end in order takes a quarter of a minute
        damage(master)
        master:start():leads(60)
        assert.is_true(has_error(master, "moved to"))
        assert.is_nil(broker.difference(topics, master:rpc():topics(), "topic"))
        slave:in_sync(60)
        assert.same({}, slave:grep "NullPointerException") -- there was no master to ask for a while
        load(0.3)
        shown.same(master, slave, 20)
    end)
end)
