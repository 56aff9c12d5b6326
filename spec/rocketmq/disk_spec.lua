-- A disk below a broker's node that is full, or fails, on either side: what the broker does then is its policy's `log.on_failure`; when the
-- disk is sound again both brokers agree. The disk is spec/support/bad_disk.c, which needs no rights; it is about the node's directory
-- alone, so that all that follows is metasync's doing.
local broker = require "spec.support.broker"
local process = require "spec.support.process"
local shown = require "spec.rocketmq.shown"
local story = require "spec.rocketmq.story"

describe("a pair of brokers, the disk of whose", function()
    local lab, master, slave
    local serial = 0

    -- Requests to the master, by whatever connection there is: a look at its state may have taken a new one.
    local M = setmetatable({}, { __index = function(_, request)
        return function(_, ...)
            local rpc = master:rpc()
            return rpc[request](rpc, ...)
        end
    end })

    -- The shipped policy with small segments of the log (the largest value has to fit), so that it needs new room often.
    local function policy(on_failure)
        local log = ('policy.log = { segment = "64KiB", keep = "1MiB", max = "64MiB", on_failure = "%s" }\n'):format(on_failure)
        local limits = 'policy.limits = { value = "32KiB", batch = "32KiB" }\n'
        local text = process.read("lua/policies/rocketmq.lua"):gsub("return policy%s*$", function(last) return log .. limits .. last end)
        process.write(lab.dir .. "/policy.lua", text)
    end

    local function start(made)
        lab = made
        policy "pass"
        local function make(name, id)
            local one = lab:broker(name, { id = id, conf = { ["metasync.policy"] = lab.dir .. "/policy.lua", ["metasync.retryMs"] = 2000 } })
            one.wrap = process.preload("bad_disk", lab.dir)
            one.wrap[#one.wrap + 1] = "BAD_DISK_DIR=" .. one.node
            one.wrap[#one.wrap + 1] = "BAD_DISK_STATE=" .. one.dir .. "/disk"
            return one
        end
        master, slave = make("m", 0), make("s", 1)
        master:start()
        slave:start():in_sync(60)
    end

    local check = story {
        start = start,
        after = function()
            for _, one in ipairs { master, slave } do os.remove(one.dir .. "/disk") end
        end,
    }

    local function disk_is(one, state)
        if state == "well" then
            assert(os.remove(one.dir .. "/disk"))
        else
            process.write(one.dir .. "/disk", state)
        end
    end

    local function name()
        serial = serial + 1
        return "t" .. serial
    end

    -- One change of each kind that is logged before the broker makes it, and commits. The newest topic.
    local function change()
        local topic = name()
        M:create_topic(topic, { attributes = "+message.type=NORMAL" })
        M:create_group("g" .. topic)
        M:forbid("g" .. topic, topic, true)
        M:set_mode(topic, "g" .. topic, "POP", 2)
        for queue = 0, 3 do M:commit("g" .. topic, topic, queue, serial + queue) end
        if serial > 4 then
            M:delete_topic("t" .. serial - 3)
            M:delete_group("gt" .. serial - 3)
        end
        return topic
    end

    local function log_is(one, words)
        return (one:info().metasync_log or ""):find(words, 1, true) ~= nil
    end

    -- Many changes at once, of a few hundred bytes each. The last topic.
    local function fill()
        local list = {}
        for i = 1, 20 do list[i] = name() .. ("_long"):rep(20) end
        M:create_topics(list)
        return list[#list]
    end

    local function refused(what, fn)
        local ok, why = pcall(fn)
        if not ok then assert.truthy(tostring(why):find("metasync: ", 1, true), what .. ": " .. tostring(why)) end
        return not ok
    end

    -- Each kind of change that is logged before the broker makes it; `i` is another one each time. What it needs is there: prepare().
    local KINDS = {
        topic = function(i) M:create_topic("k" .. i) end,
        ["change of a topic"] = function(i) M:create_topic("kept", { readQueueNums = i }) end,
        ["list of topics"] = function(i) M:create_topics { "l" .. i } end,
        ["delete of a topic"] = function(i) M:delete_topic("d" .. i) end,
        group = function(i) M:create_group("k" .. i) end,
        ["delete of a group"] = function(i) M:delete_group("d" .. i) end,
        ["request mode"] = function(i) M:set_mode("kept", "kept", "POP", i) end,
        permission = function(i) M:forbid("kept", "f" .. i, true) end,
    }

    local MOST = 30

    local function prepare()
        local list = { "kept" }
        for i = 1, MOST do list[#list + 1] = "d" .. i end
        M:create_topics(list)
        M:create_groups(list)
        M:forbid("kept", "kept", true)
    end

    -- Small changes still go through when large ones don't: each kind until it is refused, and then once more, which changes nothing.
    local function refuses_all()
        local at = {}
        for what, fn in pairs(KINDS) do
            at[what] = 1
            while not refused(what, function() fn(at[what]) end) do
                at[what] = at[what] + 1
                assert.is_true(at[what] < MOST, what .. " is never refused")
            end
        end
        local before = shown.shown(master:rpc())
        for what, fn in pairs(KINDS) do
            assert.is_true(refused(what, function() fn(at[what]) end), what .. " was refused, and is taken now")
        end
        local after = shown.shown(master:rpc())
        for _, table_name in ipairs { "topic", "group", "forbidden", "request_mode" } do
            assert.is_nil(broker.difference(before[table_name], after[table_name], table_name))
        end
    end

    local function agrees(topic)
        process.eventually(topic .. " is on the slave", function() return slave:rpc():topics()[topic] end, 30)
        slave:in_sync(30)
        shown.same(master, slave, 20)
    end

    local function reload(on_failure)
        policy(on_failure)
        local _, status, errors = master:metasyncctl("policy", "reload")
        assert.equal(0, status, errors)
    end

    check("master is full: with `pass` it takes changes and says that they are not logged; the slave gets all when there is room", function()
        disk_is(master, "full")
        local topic
        process.eventually("changes are not logged", function()
            topic = fill()
            return log_is(master, "no space") and not master:entries("topic")[topic]
        end, 60)
        assert.is_not_nil(M:topics()[topic])
        assert.is_nil(slave:rpc():topics()[topic])
        assert.equal("leader", master:info().metasync_role)
        disk_is(master, "well")
        agrees(topic)
        assert.is_true(log_is(master, "sound"))
        assert.equal(0, #slave:grep "own metadata sync goes on")
    end)

    check("master is full: with `refuse` its callers get metasync's words and nothing is changed", function()
        reload "refuse"
        prepare()
        disk_is(master, "full")
        process.eventually("a topic is refused", function()
            return refused("topic", fill)
        end, 60)
        refuses_all()
        assert.is_true(log_is(master, "no space"))
        disk_is(master, "well")
        process.eventually("it takes changes again", function() return pcall(change) end, 30)
        agrees(change())
    end)

    check("master fails: with `refuse` the same, until it leads again", function()
        prepare()
        disk_is(master, "broken")
        local tries = #master:grep "it is tried again every 2 s"
        refuses_all()
        assert.truthy(master:info().metasync_state:find("^not replicating"))
        process.eventually("it was tried in vain", function() return #master:grep "it is tried again every 2 s" > tries end, 30)
        refuses_all()
        disk_is(master, "well")
        master:leads(30)
        agrees(change())
    end)

    check("master fails: with `pass` it goes on, says so, and brings its slave all of it later", function()
        reload "pass"
        agrees(change())
        disk_is(master, "broken")
        local topic
        for _ = 1, 10 do topic = change() end
        assert.is_not_nil(M:topics()[topic])
        assert.truthy(master:info().metasync_state:find("^not replicating"))
        process.eventually("it was tried in vain", function() return master:info().metasync_role == "none" end, 30)
        topic = change()
        assert.is_nil(slave:rpc():topics()[topic])
        disk_is(master, "well")
        master:leads(30)
        agrees(topic)
    end)

    check("slave is full: its master notices nothing, it has all when there is room", function()
        disk_is(slave, "full")
        process.eventually("it has no room", function()
            fill()
            return slave:control({ command = "status" }).following.paused
        end, 60)
        assert.is_true(log_is(slave, "no space"))
        local topic = change()
        assert.is_nil(slave:rpc():topics()[topic])
        assert.equal("leader", master:info().metasync_role)
        disk_is(slave, "well")
        agrees(topic)
    end)

    check("slave fails: its master notices nothing, it has all when the disk is sound", function()
        disk_is(slave, "broken")
        change()
        process.eventually("it says so", function() return slave:info().metasync_role == "none" end, 20)
        local topic = change()
        disk_is(slave, "well")
        agrees(topic)
    end)
end)
