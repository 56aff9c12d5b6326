-- The metadata of a broker's node as files, and back: what metasyncctl exports from a running broker's node is what other brokers, without
-- the plugin, start from and answer; a metasyncd that follows the node exports the same.
local broker = require "spec.support.broker"
local process = require "spec.support.process"
local shown_by = require("spec.rocketmq.shown").shown
local story = require "spec.rocketmq.story"
local Rpc = require "spec.support.rocketmq_rpc"

local BUILD = os.getenv("MS_BUILD") or "build/release"

describe("a broker's metadata in files", function()
    local lab, master, backup

    -- A metasyncd that follows the broker's node and exports.
    local function start_backup()
        local dir = lab.dir .. "/backup"
        backup = { dir = dir, files = dir .. "/files", node = dir .. "/data", control = master.control, entries = master.entries }
        backup.process = process.start({ BUILD .. "/metasyncd", "--data", dir .. "/data", "--name", "backup", "--cluster", "lab.broker-a",
            "--listen", "127.0.0.1:" .. process.free_port(), "--follow", master.node_address, "--export", backup.files }, lab.dir .. "/backup.log")
    end

    local function fill()
        local M = master:rpc()
        for i = 1, 5 do M:create_topic("t_" .. i, { attributes = "+message.type=NORMAL", readQueueNums = i }) end
        M:create_group("GID_a", { retryMaxTimes = 3 })
        M:create_group "GID_b"
        M:forbid("GID_a", "t_1", true)
        for queue = 0, 3 do M:commit("GID_a", "t_1", queue, 100 + queue) end
        M:commit("GID_b", "t_2", 0, "9007199254740993")
        M:send_message("t_1", "DELAY\0011\002")
        process.eventually("the level was served", function() return M:delay_offsets().offsetTable["1"] == 1 end, 20)
        M:delete_topic "t_5"
        M:set_mode("t_1", "GID_a", "POP", 2)
        M:set_mode("t_1", "GID_b", "PULL")
        M:create_group("GID_ordered", { consumeMessageOrderly = true })
        M:send_message "t_2"
        process.eventually("a message is popped in order", function() return M:pop("GID_ordered", "t_2", true).code == 0 end, 20)
        M:send_message("t_3", "TIMER_DELAY_SEC\001600\002")
        process.eventually("the timed message is counted", function() return (M:timer_metrics().timingCount.t_3 or {}).count == 1 end, 20)
        lab:client():ask("admin", "updateStaticTopic", "-t", "t_static", "-qn", "4", "-b", "broker-a")
        for _, name in ipairs { "order_info", "timer_metrics" } do
            process.eventually(name .. " is in the log", function() return next(master:entries(name)) ~= nil end, 20)
        end
    end

    local test = story {
        start = function(made)
            lab = made
            os.execute("mkdir -p " .. process.quote(lab.dir .. "/backup"))
            master = lab:broker("broker-a-m", { version = "5.5.0" }):start():leads()
            start_backup()
            fill()
        end,
        stop = function()
            if backup then backup.process:destroy() end
        end,
    }

    local TABLES = { "topic", "group", "forbidden", "offset", "request_mode", "topic_mapping", "timer_metrics" }

    -- There is no request for it; a broker writes all that it has of it once in ten seconds.
    local function orders_of(one, before)
        local now
        process.eventually(one.name .. " writes its order info", function()
            now = one:file "consumerOrderInfo.json"
            return process.read(one.store .. "/config/consumerOrderInfo.json") ~= before and now ~= nil
        end, 40)
        return now.table
    end

    test("exported by metasyncctl: brokers 5.5.0 and 5.3.3 that start from it answer the same, entry by entry", function()
        local shown = shown_by(master:rpc())
        local output, status, errors = master:metasyncctl("export", lab.dir .. "/exported")
        assert.equal(0, status, errors)
        assert.truthy(output:find("topics.json +yes"), output)
        assert.truthy(output:find("position %d+"), output)
        -- A broker sets delay offsets back to the ends of queues that it does not have; the file has them as they were.
        assert.equal(1, Rpc.decode(process.read(lab.dir .. "/exported/delayOffset.json")).offsetTable["1"])
        local others = {}
        for _, version in ipairs { "5.5.0", "5.3.3" } do
            local other = lab:broker("from-files-" .. version, { version = version, plugin = false, conf = { namesrvAddr = "127.0.0.1:1" } })
            os.execute(("cp -r %s %s"):format(lab.dir .. "/exported", other.store .. "/config"))
            others[version] = other:begin()
        end
        local orders = Rpc.decode(process.read(lab.dir .. "/exported/consumerOrderInfo.json")).table
        assert.is_not_nil(orders["t_2@GID_ordered"]["0"])
        for version, other in pairs(others) do
            other:wait_port()
            local answered = shown_by(other:rpc())
            if version == "5.5.0" then
                for _, name in ipairs(TABLES) do assert.is_nil(broker.difference(shown[name], answered[name], name)) end
                for _, name in ipairs { "topic", "group", "offset", "topic_mapping", "timer_metrics" } do
                    assert.equal(broker.text(shown.version[name]), broker.text(answered.version[name]), "version of " .. name)
                end
            else -- fields that 5.3.3 does not know are left out by it
                for key in pairs(shown.topic) do assert.is_not_nil(answered.topic[key], key) end
                for _, name in ipairs { "forbidden", "offset", "request_mode", "topic_mapping", "timer_metrics" } do
                    assert.is_nil(broker.difference(shown[name], answered[name], name))
                end
                assert.equal("NORMAL", answered.topic.t_3.attributes["message.type"])
                assert.equal(3, answered.topic.t_3.readQueueNums)
                assert.equal(3, answered.group.GID_a.retryMaxTimes)
            end
        end
        local exported = process.read(lab.dir .. "/exported/consumerOrderInfo.json")
        for _, other in pairs(others) do assert.is_nil(broker.difference(orders, orders_of(other, exported), "order info")) end
    end)

    test("exported all the time by a metasyncd that follows the broker's node", function()
        master:rpc():create_topic "t_later"
        master:rpc():commit("GID_a", "t_1", 0, 4711)
        local function file(name)
            local text = process.read(backup.files .. "/" .. name)
            return text and Rpc.decode(text)
        end
        process.eventually("the files have it", function()
            local topics, offsets = file "topics.json", file "consumerOffset.json"
            return topics and topics.topicConfigTable.t_later and offsets and (offsets.offsetTable["t_1@GID_a"] or {})["0"] == 4711,
                process.read(lab.dir .. "/backup.log")
        end, 20)
        assert.is_nil(broker.difference(master:rpc():topics(), file("topics.json").topicConfigTable, "topic"))
        assert.is_nil(broker.difference(master:rpc():groups(), file("subscriptionGroup.json").subscriptionGroupTable, "group"))
        assert.is_nil(broker.difference(master:rpc():offsets(), file("consumerOffset.json").offsetTable, "offset"))
        assert.is_nil(broker.difference(master:rpc():modes(), file("messageRequestMode.json").messageRequestModeMap, "request_mode"))
        assert.is_nil(broker.difference(master:rpc():all_topics().topicQueueMappingDetailMap,
            file("topicQueueMapping.json").topicQueueMappingInfoMap, "topic_mapping"))
        assert.is_not_nil(file("consumerOrderInfo.json").table["t_2@GID_ordered"])
        assert.is_not_nil(file("timermetrics").timingCount.t_3)
    end)
end)
