-- Every way in which a broker changes its metadata, on a pair of real brokers of one version: what the master shows then has to be on the
-- slave, entry by entry. paths.all(version) and paths.short(version, slave's version) describe the tests of a spec file; one pair serves
-- all of them, so each test has names of its own.
local busted = require "busted"
local assert = require "luassert"
local broker = require "spec.support.broker"
local json = require "spec.support.json"
local process = require "spec.support.process"
local shown = require "spec.rocketmq.shown"
local story = require "spec.rocketmq.story"

local describe = busted.describe

-- TIMERS: configuration of brokers that tell that often how far their timer is. A slave's broker counts timed messages itself when it hears of
-- it: told seldom, it does so when their topic may be gone already.
local paths = { same = shown.same, TIMERS = { timerFlushIntervalMs = 2000 } }

-- ---- the tests -------------------------------------------------------------------------------------------------------------

local lab, master, slave, client, M, S
local times = {}

-- Runs a change on the master; returns when fn() says that the slave shows it, and notes how long after the answer that was.
local function timed(what, change, fn)
    change()
    local answered, polls = process.now(), 0
    process.eventually(what .. " shows on the slave", function()
        polls = polls + 1
        return fn()
    end, 10)
    local ms = (process.now() - answered) * 1000
    times[#times + 1] = ("%s -> %s  %-34s %8.1f ms, %d polls"):format(master.version, slave.version, what, ms, polls)
end

local function same(seconds)
    shown.same(master, slave, seconds)
end

local function topic_of(rpc, name)
    local header, body = rpc:request(351, { topic = name })
    return header.code == 0 and json.decode(body) or nil
end

-- Not by the request for one group: a broker makes a group that it is asked for.
local function group_of(rpc, name)
    return rpc:groups()[name]
end

local function start(given)
    return function(made)
        lab = made
        if given.start then
            master, slave = given.start(lab)
        else
            master, slave = lab:pair(given)
        end
        M, S = master:rpc(), slave:rpc()
    end
end

local function tell_times()
    io.write("after the master's answer:\n  ", table.concat(times, "\n  "), "\n")
    lab, client = nil, nil
end

-- given: as for lab:pair, or start: brings another pair up
local function describe_pair(title, given, tests)
    describe(title, function() tests(story { start = start(given), stop = tell_times }) end)
end

local function topics(test)
    test("a topic is created, changed, gets and loses attributes", function()
        timed("topic created", function() M:create_topic("t_a", { attributes = "+message.type=NORMAL" }) end,
            function() return topic_of(S, "t_a") end)
        assert.equal("NORMAL", topic_of(S, "t_a").attributes["message.type"])
        timed("topic changed", function() M:create_topic("t_a", { perm = 4 }) end, function() return topic_of(S, "t_a").perm == 4 end)
        M:create_topic("t_a", { attributes = "-message.type" })
        same()
        assert.is_nil(S:topics().t_a.attributes["message.type"])
    end)

    test("a list of topics is created", function()
        M:create_topics { "t_l1", "t_l2" }
        same()
        assert.is_not_nil(S:topics().t_l2)
    end)

    test("a topic is made by the first message to it", function()
        timed("topic made by a message", function() M:send_message "t_auto" end, function() return topic_of(S, "t_auto") end)
        same()
    end)

    test("a heartbeat makes a retry topic and a group, also for units", function()
        M:heartbeat("GID_hb", "t_a")
        M:heartbeat("GID_unit", "t_a", true)
        same()
        assert.is_not_nil(S:topics()["%RETRY%GID_hb"])
        assert.is_not_nil(S:groups().GID_hb)
        assert.equal(M:topics()["%RETRY%GID_unit"].topicSysFlag, S:topics()["%RETRY%GID_unit"].topicSysFlag)
    end)

    test("a message is sent back: group and retry topic", function()
        M:create_topic "t_back"
        M:send_message "t_back"
        process.eventually("the message can be read", function() return M:pull("GID_back", "t_back", 0, 0).code == 0 end)
        M:send_back("GID_back2", "t_back", 0)
        process.eventually("there is a group", function() return group_of(M, "GID_back2") end)
        same()
        assert.is_not_nil(S:topics()["%RETRY%GID_back2"])
    end)

    test("the order flag, which is set inside of the objects, comes and goes", function()
        lab.names:rpc():put_order("t_a", "broker-a:4")
        M:create_topic "t_trigger"
        process.eventually("the master has the flag", function() return topic_of(M, "t_a").order end, 30)
        timed("order flag", function() end, function() return topic_of(S, "t_a").order end)
        same()
        lab.names:rpc():call(101, { namespace = "ORDER_TOPIC_CONFIG", key = "t_a" })
    end)

    test("names of all kinds", function()
        for _, name in ipairs { "t%a|b", ("long_"):rep(20) .. "x", "%LMQ%like_t" } do
            local header = M:request(17, { topic = name, defaultTopic = "TBW102", readQueueNums = 1, writeQueueNums = 1, perm = 6,
                topicFilterType = "SINGLE_TAG", topicSysFlag = 0, order = false })
            if header.code == 0 then assert.is_not_nil(M:topics()[name]) end
        end
        same()
    end)

    test("a topic is deleted, with its offsets; one that is not there changes nothing", function()
        M:create_topic "t_gone"
        M:create_group "GID_gone"
        M:commit("GID_gone", "t_gone", 0, 3)
        M:commit("GID_gone", "t_gone", 1, 4)
        same()
        timed("topic deleted", function() M:delete_topic "t_gone" end, function() return not topic_of(S, "t_gone") end)
        M:delete_topic "t_never"
        same()
        assert.is_nil(S:offsets()["t_gone@GID_gone"])
    end)
end

local function groups(test)
    test("a group is created and changed, a list of them, one made by a pull", function()
        timed("group created", function() M:create_group "GID_a" end, function() return group_of(S, "GID_a") end)
        timed("group changed", function() M:create_group("GID_a", { retryMaxTimes = 3 }) end,
            function() return group_of(S, "GID_a").retryMaxTimes == 3 end)
        M:create_groups { "GID_l1", "GID_l2" }
        M:pull("GID_pulled", "t_a", 0, 0)
        same()
        assert.is_not_nil(S:groups().GID_l2)
        assert.is_not_nil(S:groups().GID_pulled)
    end)

    test("a group is forbidden one topic, then another, and allowed again", function()
        M:create_group "GID_f"
        timed("forbidden", function() M:forbid("GID_f", "t_a", true) end, function()
            local _, body = S:call(353, { group = "GID_f", topic = "t_a" })
            return not json.decode(body).readable
        end)
        M:forbid("GID_f", "t_l1", true)
        same()
        M:forbid("GID_f", "t_l1", false)
        same()
        M:forbid("GID_f", "t_a", false)
        same()
    end)

    test("a group is deleted, with its offsets", function()
        M:create_group "GID_gone2"
        M:forbid("GID_gone2", "t_a", true)
        M:commit("GID_gone2", "t_a", 0, 9)
        M:commit("GID_gone2", "t_a", 1, 8)
        same()
        timed("group deleted", function() M:delete_group "GID_gone2" end, function() return not group_of(S, "GID_gone2") end)
        same()
        assert.is_nil(S:offsets()["t_a@GID_gone2"])
    end)
end

local function offsets(test)
    test("offsets are committed: first, second queue, again, down", function()
        timed("offset committed", function() M:commit("GID_a", "t_a", 0, 5) end, function() return S:offset("GID_a", "t_a", 0) == 5 end)
        M:commit("GID_a", "t_a", 1, 7)
        M:commit("GID_a", "t_a", 0, 9)
        same()
        M:commit("GID_a", "t_a", 0, 0)
        same()
        assert.equal(0, S:offset("GID_a", "t_a", 0))
    end)

    test("a pull commits, and leaves a pull offset", function()
        M:create_topic "t_pull"
        for _ = 1, 3 do M:send_message "t_pull" end
        process.eventually("the messages can be read", function() return M:pull("GID_a", "t_pull", 0, 2).code == 0 end)
        M:pull("GID_a", "t_pull", 0, 0, 5, 2)
        same()
        assert.equal(2, S:offset("GID_a", "t_pull", 0))
        process.eventually("pull offsets are equal", function()
            local here, there = master:entries "pull_offset", slave:entries "pull_offset"
            return here["t_pull@GID_a/0"] and broker.difference(here, there, "pull_offset") == nil
        end)
    end)

    test("messages are popped and acknowledged; ordered ones leave order info", function()
        M:create_topic "t_pop"
        M:create_group "GID_pop"
        M:create_group("GID_popo", { consumeMessageOrderly = true })
        for _ = 1, 3 do M:send_message "t_pop" end
        local header
        process.eventually("messages are popped", function()
            header = M:pop("GID_pop", "t_pop")
            return header.code == 0
        end)
        M:ack(header, "GID_pop", "t_pop")
        process.eventually("the master has the offset", function() return M:offset("GID_pop", "t_pop", 0) end, 30)
        assert.equal(0, M:pop("GID_popo", "t_pop", true).code)
        same(20)
        process.eventually("order info is on the slave's disk", function()
            local here, there = master:file "consumerOrderInfo.json", slave:file "consumerOrderInfo.json"
            if not here or not there or not next(here.table) then return false, "no file" end
            return broker.text(here.table) == broker.text(there.table), broker.text(here.table) .. "\n" .. broker.text(there.table)
        end, 15)
    end)

    test("an offset is reset on the server, to 0 too, and the next pull takes the order", function()
        M:create_topic "t_reset"
        for _ = 1, 3 do M:send_message "t_reset" end
        M:commit("GID_a", "t_reset", 0, 3)
        process.eventually("the messages can be read", function() return M:pull("GID_x", "t_reset", 0, 2).code == 0 end)
        M:reset_offset("GID_a", "t_reset", 0, 0)
        process.eventually("the slave has the order", function() return slave:entries("reset_offset")["t_reset@GID_a/0"] == 0 end)
        assert.equal(M:offset("GID_a", "t_reset", 0), S:offset("GID_a", "t_reset", 0))
        M:pull("GID_a", "t_reset", 0, 3)
        process.eventually("the order is carried out", function() return next(master:entries "reset_offset") == nil end)
        process.eventually("on the slave too", function() return next(slave:entries "reset_offset") == nil end)
        same()
    end)

    test("offsets are cloned; a question for corrections deletes them", function()
        M:clone_offsets("GID_a", "GID_clone", "t_a")
        same()
        assert.equal(7, S:offset("GID_clone", "t_a", 1))
        pcall(M.correct_offsets, M, "GID_clone", "GID_a", "t_a")
        assert.is_nil(M:offsets()["t_a@GID_clone"])
        same()
        assert.is_nil(S:offsets()["t_a@GID_clone"])
    end)

    test("an offset beyond 2^53 is exact", function()
        M:commit("GID_a", "t_a", 3, "9007199254740993")
        same()
        local _, body = S:call(43)
        assert.truthy(body:find("9007199254740993", 1, true))
    end)
end

local function services(test)
    test("delayed messages move the offsets of their levels", function()
        M:create_topic "t_delay"
        for _ = 1, 3 do M:send_message("t_delay", "DELAY\0011\002") end
        process.eventually("the level was served", function() return M:delay_offsets().offsetTable["1"] == 3 end, 20)
        same()
        assert.equal(3, S:delay_offsets().offsetTable["1"])
    end)

    test("request modes: the first of a topic, a second group, changed", function()
        timed("request mode", function() M:set_mode("t_a", "GID_a", "POP", 2) end,
            function() return (S:modes().t_a or {}).GID_a end)
        M:set_mode("t_a", "GID_l1", "POP", 1)
        M:set_mode("t_a", "GID_a", "PULL")
        same()
        assert.equal("PULL", S:modes().t_a.GID_a.mode)
        assert.equal("POP", S:modes().t_a.GID_l1.mode)
    end)

    test("timed messages are counted, up and down; how far the timer is", function()
        M:create_topic "t_timer"
        for _ = 1, 3 do M:send_message("t_timer", "TIMER_DELAY_SEC\0014\002") end
        process.eventually("the master counts them", function() return (M:timer_metrics().timingCount.t_timer or {}).count end, 20)
        process.eventually("so does the slave", function() return S:timer_metrics().timingCount.t_timer end)
        process.eventually("they were delivered", function()
            local count = M:timer_metrics().timingCount.t_timer.count
            return type(count) == "table" and count.value == 0 or count == 0, broker.text(M:timer_metrics())
        end, 30)
        same()
        M:delete_topic "t_timer"
        same()
        assert.is_nil(S:timer_metrics().timingCount.t_timer)
        local function read_time(one) return tonumber(one:entries("timer_checkpoint").lastReadTimeMs) end
        process.eventually("the slave's timer is as far", function()
            local here, there = read_time(master), read_time(slave)
            return here and there and math.abs(here - there) < 7000, ("%s and %s"):format(here, there)
        end, 30)
        assert.truthy(S:timer_checkpoint())
    end)

    test("a static topic: made, more queues, deleted", function()
        client = client or lab:client()
        client:ask("admin", "updateStaticTopic", "-t", "t_static", "-qn", "4", "-b", "broker-a")
        assert.is_not_nil(M:all_topics().topicQueueMappingDetailMap.t_static)
        same()
        client:ask("admin", "updateStaticTopic", "-t", "t_static", "-qn", "8", "-b", "broker-a")
        same()
        assert.equal(8, S:all_topics().topicQueueMappingDetailMap.t_static.totalQueues)
        M:delete_topic "t_static"
        same()
    end)
end

local function whole(test)
    test("both nodes have the same entries in every table", function()
        for _, name in ipairs { "topic", "group", "forbidden", "offset", "pull_offset", "reset_offset", "delay_offset", "request_mode",
            "topic_mapping", "order_info", "data_version", "timer_metrics" } do
            process.eventually(name .. " is equal", function()
                local what = broker.difference(master:entries(name), slave:entries(name), name)
                return what == nil, what
            end)
        end
    end)

    test("the slave never synced whole tables and nothing was logged as a fault", function()
        assert.equal("paused", slave:info().metasync_own_sync)
        for _, one in ipairs { master, slave } do
            for _, line in ipairs(one:grep "metasync") do
                assert.is_nil(line:match(" ERROR "), line)
                assert.is_true(not line:match(" WARN ") or line:match("beyond the ends of their queues") ~= nil, line)
            end
        end
    end)
end

-- All paths. given: start(lab) brings the pair up (otherwise it is one of this version), more(test) describes what comes after.
function paths.all(version, given)
    given = given or {}
    describe_pair("brokers " .. version, { version = version, conf = paths.TIMERS, start = given.start }, function(test)
        topics(test)
        groups(test)
        offsets(test)
        services(test)
        whole(test)
        if given.more then given.more(test) end
    end)
end

-- One of each table, and the deletes.
function paths.short(version, slave_version)
    local given = { version = version, slave_version = slave_version, conf = paths.TIMERS }
    describe_pair(("brokers %s -> %s"):format(version, slave_version or version), given, function(test)
        test("topics with attributes, groups, offsets, modes come and go", function()
            timed("topic created", function() M:create_topic("t_a", { attributes = "+message.type=NORMAL" }) end,
                function() return topic_of(S, "t_a") end)
            M:create_group "GID_a"
            M:forbid("GID_a", "t_a", true)
            timed("offset committed", function() M:commit("GID_a", "t_a", 0, 5) end, function() return S:offset("GID_a", "t_a", 0) == 5 end)
            M:commit("GID_a", "t_a", 1, 6)
            M:set_mode("t_a", "GID_a", "POP", 2)
            for _ = 1, 2 do M:send_message("t_a", "DELAY\0011\002") end
            process.eventually("the level was served", function() return M:delay_offsets().offsetTable["1"] == 2 end, 20)
            same()
            M:delete_group "GID_a"
            M:delete_topic "t_a"
            same()
            assert.is_nil(S:topics().t_a)
            assert.is_nil(S:groups().GID_a)
            assert.same({}, S:offsets())
        end)
        whole(test)
    end)
end

-- All that crosses the border between Java and C, on a pair of brokers that run under some check (given: as for lab:pair): changes of every
-- kind, a policy that leaves entries out and takes them in again, a slave that begins with nothing, a master whose files are older than its
-- log, the brokers' end. Then found(one) says what the check has found in a broker's run: nil, or a text.
function paths.under(title, given, found)
    describe_pair(title, given, function(test)
        topics(test)
        groups(test)
        offsets(test)

        test("a group is large", function()
            local times = json.array {}
            for i = 1, 1500 do times[i] = 1000000 + i end
            M:create_group("GID_large", { groupRetryPolicy = { type = "CUSTOMIZED", customizedRetryPolicy = { next = times } } })
            same()
            assert.is_true(#broker.text(S:groups().GID_large) > 10000)
        end)

        test("a policy is reloaded that leaves topics out, and the old one again", function()
            local policy = master.node .. "/rocketmq.lua"
            local text = process.read(policy)
            local view = 'policy.replicate = { exclude = { topic = { "t_l*" } } }\n'
            local excluding = text:gsub("return policy%s*$", function(last) return view .. last end)
            for _, version in ipairs { excluding, text } do
                process.write(policy, version)
                local _, status, errors = master:metasyncctl("policy", "reload", "--force")
                assert.equal(0, status, errors)
            end
            process.eventually("the topic is logged again", function() return master:entries("topic").t_l1 end)
            same()
        end)

        test("a slave begins with nothing", function()
            slave:kill()
            assert(os.execute("rm -rf " .. process.quote(slave.node)) == 0)
            slave:start():in_sync(60)
            S = slave:rpc()
            same(20)
        end)

        test("a master is killed after changes that its files lack", function()
            for i = 1, 20 do M:create_topic("t_last" .. i) end
            M:delete_topic "t_last1"
            M:commit("GID_a", "t_a", 0, 77)
            process.eventually("the offset is logged", function() return slave:entries("offset")["t_a@GID_a/0"] == 77 end)
            master:kill():start():leads(60)
            M = master:rpc()
            assert.is_not_nil(M:topics().t_last20)
            assert.is_nil(M:topics().t_last1)
            assert.equal(77, M:offset("GID_a", "t_a", 0))
            slave:in_sync(60)
            same(20)
        end)

        test("both end, and nothing was found", function()
            for _, one in ipairs { slave, master } do one:terminate() end
            for _, one in ipairs { slave, master } do
                one.process:wait(60)
                assert.equal(0x8f, one.process.code, one.name .. " did not end by SIGTERM: " .. tostring(one.process.signal))
                assert.is_nil(found(one))
            end
        end)
    end)
end

return paths
