-- The files of a broker that has many topics and consumer offsets, so that it has them when it starts.
local process = require "spec.support.process"

local store = { GROUPS = 50, QUEUES = 4 }

function store.topic(i)
    return ("orders_%05d"):format(i)
end

local VERSION = '"dataVersion":{"counter":%d,"stateVersion":0,"timestamp":1796080074456}'

local function write(dir, name, head, entries)
    process.write(dir .. "/" .. name, ("{%s,%s{%s}}"):format(VERSION:format(#entries), head, table.concat(entries, ",")))
end

-- Each of the offsets is of a topic, a group and one of four queues.
function store.write(dir, topics, offsets)
    assert(os.execute("mkdir -p " .. process.quote(dir)) == 0)
    local list = {}
    for i = 1, topics do
        local name = store.topic(i)
        list[i] = ('"%s":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"%s",'
            .. '"topicSysFlag":0,"writeQueueNums":4}'):format(name, name)
    end
    write(dir, "topics.json", '"topicConfigTable":', list)
    list = {}
    for i = 1, store.GROUPS do
        local name = "group_" .. i
        list[i] = ('"%s":{"attributes":{},"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,'
            .. '"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"%s","groupRetryPolicy":{"type":"CUSTOMIZED"},'
            .. '"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
            .. '"whichBrokerWhenConsumeSlowly":1}'):format(name, name)
    end
    write(dir, "subscriptionGroup.json", '"forbiddenTable":{},"subscriptionGroupTable":', list)
    list = {}
    local keys = math.floor(offsets / store.QUEUES)
    for i = 0, keys - 1 do
        list[i + 1] = ('"%s@group_%d":{0:1,1:1,2:1,3:1}'):format(store.topic(i % topics + 1), math.floor(i / topics) % store.GROUPS + 1)
    end
    write(dir, "consumerOffset.json", '"offsetTable":', list)
end

return store
