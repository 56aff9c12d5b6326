-- What users of brokers met with other ways of syncing metadata (the cases of docs/rocketmq-tests.md, which names the test of each), on a pair
-- of real brokers of a site: the master starts from files with names of all kinds and has a check listener of the site's, the slave gets the
-- plugin as an agent, the policy is a file of the site. The tests are steps of one story: switches at run time, and at the end a failover.
--
--     local test = story { start = function(lab) cases.start(lab, "5.5.0") end }
--     cases.tests(test)
local assert = require "luassert"
local broker = require "spec.support.broker"
local process = require "spec.support.process"
local shown = require "spec.rocketmq.shown"

local cases = {}

local ODD_TOPIC, SECOND_ODD_TOPIC, BROADCAST = "44334≈≈∂ç√ß", "%RETRY%gid+TopicTest", "test@push_test@broadcast"
local HERE, AWAY = "true", "false"
local SELDOM, OFTEN = "1h", "2s"

local lab, master, slave, M, S, policy

local LISTENER = "META-INF/service/org.apache.rocketmq.broker.transaction.AbstractTransactionalMessageCheckListener"

-- The policy that is shipped, but for how often a host is audited.
local function policy_text(audit, enabled, beyond_end)
    return ([[
local policy = require "rocketmq"
policy.host = { audit_every = "%s", beyond_end = "%s" }
policy.replicate = { enabled = %s }
return policy
]]):format(audit, beyond_end or "report", enabled)
end

local function reload(text, brokers)
    process.write(policy, text)
    for _, one in ipairs(brokers or { slave, master }) do
        local _, status, errors = one:metasyncctl("policy", "reload")
        assert.equal(0, status, errors)
    end
end

-- Brings the pair up (given.conf: of both); master and slave.
function cases.start(made, version, given)
    lab = made
    local site = lab.dir .. "/site"
    os.execute("mkdir -p " .. process.quote(site .. "/META-INF/service"))
    process.write(site .. "/" .. LISTENER, "SiteListener\n")
    policy = site .. "/metasync.lua"
    process.write(policy, policy_text(SELDOM, HERE))
    process.write(site .. "/rocketmq.lua", process.read "lua/policies/rocketmq.lua")
    local conf = { ["metasync.policy"] = policy, registerNameServerPeriod = 60000 }
    for name, value in pairs(given and given.conf or {}) do conf[name] = value end
    master = lab:broker("site-m", { version = version, conf = conf, class_path = broker.brokers .. "/client:" .. site })
    slave = lab:broker("site-s", { version = version, id = 1, conf = conf, plugin = false, options = { "-javaagent:" .. broker.jar } })
    os.execute("mkdir -p " .. process.quote(master.store .. "/config"))
    for _, name in ipairs { "topics", "subscriptionGroup", "consumerOffset" } do -- as RocketMQ's own classes have written them
        local file = name .. ".json"
        process.write(master.store .. "/config/" .. file, process.read(("spec/data/rocketmq/serializer/%s/%s"):format(version, file)))
    end
    master:start(90):leads(60)
    slave:start(90):in_sync(60)
    M, S = master:rpc(), slave:rpc()
    M:create_topic("t_still", { attributes = "+message.type=FIFO" })
    M:create_group "G_still"
    M:set_mode("t_still", "G_still", "POP", 2)
    return master, slave
end

local function same(seconds)
    shown.same(master, slave, seconds or 20)
end

local function topic_of(rpc, name)
    return rpc:request(351, { topic = name }).code == 0
end

local function events(one, text)
    local lines = {}
    for _, line in ipairs(one:grep " metasync: ") do
        if line:find(text, 1, true) then lines[#lines + 1] = line end
    end
    return lines
end

-- ---- what operators see -----------------------------------------------------------------------------------------------------

local function operators(test)
    test("shows every line that docs/rocketmq.md names in brokerStatus, and each event as one line of the broker's log", function()
        local of_role = { metasync_leader = slave, metasync_lag = slave, metasync_followers = master }
        local infos, count = { [master] = master:info(), [slave] = slave:info() }, 0
        for name in process.read("docs/rocketmq.md"):match("## Operating(.-)\n## "):gmatch("`(metasync_[%w_]+)`") do
            count = count + 1
            for _, one in ipairs { of_role[name] or master, of_role[name] or slave } do
                assert.is_not_nil(infos[one][name], ("%s of %s"):format(name, one.name))
            end
        end
        assert.is_true(count > 8)
        assert.equal("leader", infos[master].metasync_role)
        assert.equal("follows " .. master.node_address, infos[slave].metasync_state)
        assert.equal(master.node_address, infos[slave].metasync_leader)
        for _, event in ipairs { { master, "role leader" }, { slave, "role follower" }, { slave, "the broker's own metadata sync is paused" } } do
            local lines = events(event[1], event[2])
            assert.equal(1, #lines, event[2])
            assert.truthy(lines[1]:find("^%d+%-%d+%-%d+ %d+:%d+:%d+ INFO %S+ %- metasync: "), lines[1])
        end
    end)
end

-- ---- names, keys ------------------------------------------------------------------------------------------------------------

local function names(test)
    test("has names and keys of all kinds on the slave, byte for byte, and the deletes of them (A5, A16, A30)", function()
        same()
        local topics, offsets = S:topics(), S:offsets()
        assert.is_not_nil(topics[ODD_TOPIC])
        assert.is_not_nil(topics[SECOND_ODD_TOPIC])
        assert.is_not_nil(topics["fifo|topic_1"].attributes["message.type"])
        assert.equal(100832, offsets[BROADCAST]["1"])
        assert.equal(-5, offsets["SCHEDULE_TOPIC_XXXX@x|y-z_0"]["-1"])
        assert.truthy(select(2, S:call(43)):find("9223372036854775807", 1, true))
        M:create_topic "test"
        M:create_group "push_test"
        M:commit("push_test", "test", 0, 5)
        same()
        M:delete_topic "test" -- with the rows that the broker drops then, and no others
        M:delete_topic(ODD_TOPIC)
        M:delete_group "gid-test"
        same()
        assert.is_nil(S:topics()[ODD_TOPIC])
        assert.is_nil(S:offsets()["test@push_test"])
        assert.is_nil(S:offsets()["TopicTest@gid-test"])
        assert.equal(broker.text(M:offsets()[BROADCAST]), broker.text(S:offsets()[BROADCAST]))
    end)

    test("registers topics of the slave at the name server at once, as the broker does with its own", function()
        M:create_topic "t_registered"
        process.eventually("the name server knows the slave's version", function()
            local version = S:all_topics().dataVersion
            local header = lab.names:rpc():request(322, { brokerName = slave.group, brokerAddr = slave.address, clusterName = "lab", brokerId = 1 },
                broker.text(version))
            return header.code == 0 and header.extFields.changed == "false" and topic_of(S, "t_registered"), broker.text(version)
        end, 20) -- the slave registers by itself once a minute
    end)
end

-- ---- side tables --------------------------------------------------------------------------------------------------------------

-- keeps: the broker keeps pull and reset offsets of a topic that is deleted.
local function side_tables(test, keeps)
    test("drops all side tables' rows with a topic and a group; a group that is made again begins without them (A14, A15, A32)", function()
        M:create_topic "t_side"
        for _ = 1, 3 do M:send_message "t_side" end
        for _, group in ipairs { "G_side", "G_side2" } do
            M:create_group(group)
            M:commit(group, "t_side", 1, 2)
            process.eventually("the messages can be read", function() return M:pull(group, "t_side", 0, 2).code == 0 end)
            M:commit(group, "t_side", 0, 3)
            M:reset_offset(group, "t_side", 0, 1)
        end
        local function rows(one)
            local list = {}
            for _, name in ipairs { "offset", "pull_offset", "reset_offset" } do
                for key in pairs(one:entries(name)) do
                    if key:find("t_side@", 1, true) then list[#list + 1] = name .. " " .. key end
                end
            end
            table.sort(list)
            return list
        end
        process.eventually("every side table has rows", function()
            local here, there = rows(master), rows(slave)
            return #there >= 6 and table.concat(here) == table.concat(there), table.concat(there, ", ")
        end)
        M:delete_group "G_side"
        process.eventually("one group's are gone", function() return not table.concat(rows(slave)):find("@G_side/", 1, true) end)
        M:create_group "G_side"
        assert.is_nil(M:offset("G_side", "t_side", 1))
        same()
        assert.is_nil(S:offset("G_side", "t_side", 1))
        M:delete_topic "t_side"
        process.eventually("so are the other's, but for those that the broker keeps", function()
            local here, there = table.concat(rows(master), ", "), table.concat(rows(slave), ", ")
            return here == there and not there:find("^offset") and (keeps or there == ""), there
        end)
        same()
    end)

    test("writes nothing on the slave while nothing changes (A8)", function()
        reload(policy_text(OFTEN, HERE))
        local function files()
            local names = { "stat", "-c", "%n %i %s %y" }
            for _, name in ipairs { "topics", "subscriptionGroup", "topicQueueMapping", "messageRequestMode" } do -- offsets: the broker, each second
                names[#names + 1] = ("%s/config/%s.json"):format(slave.store, name)
            end
            return (process.run(names))
        end
        local function clock() return (process.run { "stat", "-c", "%i %y", slave.store .. "/config/consumerOffset.json" }) end
        process.eventually("the files stay as they are while the broker writes its offsets four times, and an audit passes", function()
            local before = files()
            for _ = 1, 4 do
                local looked = clock()
                process.eventually("the broker writes its offsets", function() return clock() ~= looked end, 30)
            end
            local after = files()
            return before == after, before .. after
        end, 60)
    end)

    test("builds the slave's queues by the topic's attributes: the message store knows the topics that it gets (A34)", function()
        M:create_topic("t_batch", { attributes = "+queue.type=BatchCQ" })
        same()
        M:send_message "t_batch"
        for _, one in ipairs { master, slave } do
            process.eventually(one.name .. " has a batch queue", function()
                return (process.run { "ls", one.store .. "/batchconsumequeue/t_batch" }) ~= ""
            end, 20)
        end
    end)
end

-- ---- what the broker changes in place --------------------------------------------------------------------------------------------

local function in_place(test)
    -- It looks for slow groups every three minutes; the site's listener has it do so twice a second.
    test("has a group that the broker disabled, since it reads slowly, and enabled by an operator again", function()
        local function protect(on)
            M:call(25, nil, ("disableConsumeIfConsumerReadSlowly=%s\nconsumerFallbehindThreshold=60000\n"):format(on))
        end
        M:create_topic "t_slow"
        M:create_group "G_slow"
        M:send_message("t_slow", nil, 0)
        M:send_message("t_slow", nil, 1, ("x"):rep(70000))
        process.eventually("the first message can be read", function() return M:pull("G_slow", "t_slow", 0, 0).code == 0 end)
        protect(true)
        process.eventually("the broker disables the group", function() return M:groups().G_slow.consumeEnable == false end)
        protect(false) -- it would count a version each time
        process.eventually("the slave has that", function() return S:groups().G_slow.consumeEnable == false end)
        same()
        M:create_group "G_slow"
        same()
        assert.is_true(S:groups().G_slow.consumeEnable)
    end)
end

-- ---- changes on a slave, switches -----------------------------------------------------------------------------------------------

-- brings: what the broker's own sync brings, and not the defects of its version: "topic", "offset".
local function switches(test, brings)
    test("takes back what is changed on the slave, at the next look of the audit (A35)", function()
        M:create_topic("t_mine", { perm = 6 })
        same()
        S:create_topic "t_local"
        S:create_topic("t_mine", { perm = 2 })
        S:delete_topic "t_registered"
        process.eventually("the slave is as the master", function()
            local topics = S:topics()
            return not topics.t_local and topics.t_mine.perm == 6 and topics.t_registered
        end, 30)
        same()
        assert.is_nil(M:topics().t_local)
    end)

    test("syncs as without the plugin while the policy says so, and goes on by itself when it says otherwise", function()
        local function switch_off(one)
            reload(policy_text(OFTEN, AWAY), { one })
            one:wait("is switched off", function(info)
                return info.metasync_role == "idle" and info.metasync_own_sync == "on" and info.metasync_state:find("^off, its policy")
            end)
            assert.equal(1, #events(one, "switched off by its policy (replicate.enabled)"))
        end
        switch_off(master)
        M:create_topic "t_off"
        M:commit("G_still", "t_still", 0, 77)
        assert.is_nil(master:entries("topic").t_off)
        switch_off(slave) -- last: its broker syncs within seconds then, but not again for a minute
        process.eventually("the broker's own sync brings it", function()
            if brings == "topic" then return topic_of(S, "t_off") end
            return S:offset("G_still", "t_still", 0) == 77
        end, 90)
        M:delete_topic "t_off"
        reload(policy_text(OFTEN, HERE))
        master:leads()
        slave:in_sync(60)
        same(30)
        assert.is_nil(S:topics().t_off)
        assert.equal(77, S:offset("G_still", "t_still", 0))
    end)

    local function switch(one, on)
        one:rpc():call(25, nil, "allowMetadataIncrementalSync=" .. tostring(on) .. "\n")
    end

    test("does the same by the broker's property at run time; on again, it reports offsets beyond their queues' ends (A22)", function()
        switch(master, false)
        master:wait("is off", function(info) return info.metasync_state == "off" and info.metasync_role == "none" end)
        M:create_topic "t_beyond"
        M:commit("G_still", "t_beyond", 0, 1000)
        local before = tonumber(master:info().metasync_offsets_beyond_end) -- those of its files
        switch(master, true)
        master:leads()
        master:wait("has looked", function(info) return tonumber(info.metasync_offsets_beyond_end) > before end)
        assert.truthy(events(master, "beyond the ends of their queues, they stay (the policy's host.beyond_end = \"report\")")[1])
        slave:in_sync(60)
        same(30)
        assert.equal(1000, S:offset("G_still", "t_beyond", 0))
    end)

    test("sets them to the ends when its policy is reloaded and says so, and leaves them when it says otherwise (A22)", function()
        reload(policy_text(OFTEN, HERE, "clamp"), { master })
        process.eventually("the offset is at the queue's end", function() return M:offset("G_still", "t_beyond", 0) == 0 end)
        same()
        assert.equal(0, S:offset("G_still", "t_beyond", 0))
        reload(policy_text(OFTEN, HERE, "report"), { master })
        M:commit("G_still", "t_beyond", 0, 1000)
        same()
    end)
end

-- ---- many ------------------------------------------------------------------------------------------------------------------------

local function many(test, title, count)
    test(title .. ", and the versions of many commits; what nobody touches is never missing on the slave (A6, A7, A8)", function()
        same()
        local names, stop, out = {}, lab.dir .. "/stop", lab.dir .. "/reader.out"
        local reader = process.start({ "luajit", "spec/rocketmq/reader.lua", tostring(slave.port), "t_still", "G_still", stop }, out)
        for i = 1, count do names[i] = ("n%04d"):format(i) end
        for from = 1, count, 667 do M:create_topics { unpack(names, from, math.min(from + 666, count)) } end
        for i = 1, 60 do -- the broker counts the offsets' version once in 500 commits
            M:create_group("G" .. i)
            for queue = 0, 9 do M:commit("G" .. i, "t_still", queue, i) end
            if i % 3 == 0 then M:delete_group("G" .. i - 1) end
            if i % 10 == 0 then M:delete_topic(names[i]) end
            M:set_mode("t_still", "G" .. i, "PULL")
        end
        same(60)
        process.write(stop, "")
        local status = reader:wait(30)
        local looks, missing = process.read(out):match("^(%d+) looks\n(.*)$")
        assert.equal(0, status, process.read(out))
        assert.is_true(tonumber(looks) > 500)
        assert.equal("", missing)
        assert.is_nil(S:topics().n0010)
        assert.is_not_nil(S:topics()[names[count]])
    end)
end

-- ---- delay levels, and a failover -------------------------------------------------------------------------------------------------

local function failover(test)
    local function delayed(rpc)
        rpc:send_message("t_late", "DELAY\0011\002")
    end

    test("keeps the master's delay offsets on the slave, in memory and in its file, also where its queue is shorter (A21)", function()
        M:create_topic "t_late"
        local function served() return M:delay_offsets().offsetTable["1"] or 0 end
        local before = served()
        delayed(M)
        process.eventually("it was served", function() return served() == before + 1 end, 30)
        same()
        local _, status, errors = master:metasyncctl("put", "delay_offset", "1", "509548460")
        assert.equal(0, status, errors)
        process.eventually("the slave keeps it", function()
            local file = slave:file "delayOffset.json"
            return S:delay_offsets().offsetTable["1"] == 509548460 and file and file.offsetTable["1"] == 509548460
        end, 20)
    end)

    test("killed right after the slave has it, all of it: the slave restarts as master with everything (A11, A18, A22, A25)", function()
        for i = 1, 10 do M:create_topic("k" .. i, { attributes = "+message.type=DELAY" }) end
        process.eventually("the slave has the last", function() return topic_of(S, "k10") end)
        slave:kill()
        master:kill()
        process.write(policy, policy_text(OFTEN, HERE, "clamp"))
        slave.id, slave.conf = 0, { ["metasync.policy"] = policy }
        slave:start(90):leads(60)
        S = slave:rpc()
        local topics = S:topics()
        for i = 1, 10 do assert.equal("DELAY", (topics["k" .. i] or { attributes = {} }).attributes["message.type"]) end
        process.eventually("the offset is at the queue's end", function() return S:offset("G_still", "t_beyond", 0) == 0 end, 30)
        assert.truthy(events(slave, "they were set to the ends")[1])
        process.eventually("so it is in the log", function() return slave:entries("offset")["t_beyond@G_still/0"] == 0 end)
        delayed(S)
        process.eventually("a delay level whose offset was beyond its queue serves messages", function()
            return S:pull("G_still", "t_late", 0, 1).code == 0
        end, 60)
    end)

    test("has the old master follow soon after its start, although it has no timer (A18, A19, A33)", function()
        master.id, master.conf = 1, { ["metasync.policy"] = policy, timerWheelEnable = false }
        master:start(90)
        local up = process.now()
        master:wait("follows", function(info) return info.metasync_role == "follower" end, 30)
        assert.is_true(process.now() - up < 30, "the broker's own sync would come after 60 s")
        master:in_sync(60)
        M = master:rpc()
        process.eventually("both show the same", function()
            local what
            for name, fn in pairs { topic = M.topics, group = M.groups, offset = M.offsets, mode = M.modes } do
                what = what or broker.difference(fn(S), fn(M), name)
            end
            return what == nil, what
        end, 30)
        for _, name in ipairs { "topic", "group", "forbidden", "offset", "request_mode", "data_version", "timer_metrics" } do
            process.eventually(name .. " is equal", function()
                local what = broker.difference(slave:entries(name), master:entries(name), name)
                return what == nil, what
            end)
        end
        for _, one in ipairs { master, slave } do assert.same({}, events(one, " ERROR ")) end
    end)
end

-- Describes the tests of the pair that cases.start has brought up.
function cases.tests(test, version)
    local older = version == "5.3.3"
    operators(test)
    names(test)
    side_tables(test, older)
    in_place(test)
    switches(test, older and "offset" or "topic")
    if older then -- its own sync does not get topics page by page
        many(test, "has 301 topics more", 301)
    else
        many(test, "has 2,001 topics more", 2001)
    end
    failover(test)
end

return cases
