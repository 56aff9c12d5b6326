-- How late a slave shows what its master has answered: every kind of change, many times one after the other, with the plugin; and a few
-- times with the brokers' own sync, where a sample takes up to a minute.
local json = require "spec.support.json"
local probe = require "bench.rocketmq.probe"
local process = require "spec.support.process"

local visible = {}

local PATIENCE = 10      -- seconds until a change with the plugin counts as lost: an error
local OWN_PAUSE_MAX = 40 -- before a round of changes: their own sync has a period of 63 s
local OWN_PATIENCE = 75  -- until one of that counts as lost
local OWN_PAUSE = 0.02   -- between two looks there

local function mapping(name, group, number)
    local hosted = {}
    for queue = 0, 3 do
        hosted[tostring(queue)] = json.array { { bname = group, endOffset = -1, gen = 0, logicOffset = 0, queueId = queue,
            startOffset = 0, timeOfEnd = -1, timeOfStart = -1 } }
    end
    return { topic = name, bname = group, totalQueues = 4, epoch = number, scope = "__global__", currIdMap = {}, dirty = false,
        hostedQueues = hosted }
end

local TOPIC = { defaultTopic = "TBW102", readQueueNums = 4, writeQueueNums = 4, perm = 6, topicFilterType = "SINGLE_TAG", topicSysFlag = 0,
    order = false }

local function create_static(rpc, name, group, number)
    local fields = { topic = name, force = false }
    for key, value in pairs(TOPIC) do fields[key] = value end
    return rpc:call(513, fields, json.encode(mapping(name, group, number)))
end

-- change(master's rpc, n, broker name), and what to ask the slave for then. Groups are looked for among all: a broker makes one that it is
-- asked for by name. n is of seven digits.
local KINDS = {
    topic = { "topic", function(rpc, n) rpc:create_topic("t" .. n) end,
        function(n) return { code = 351, fields = { topic = "t" .. n }, text = ('"topicName":"t%d"'):format(n) } end },
    topic_deleted = { "topic deleted", function(rpc, n) rpc:delete_topic("t" .. n) end,
        function(n) return { code = 351, fields = { topic = "t" .. n }, text = ('"topicName":"t%d"'):format(n), gone = true } end },
    group = { "group", function(rpc, n) rpc:create_group("g" .. n) end,
        function(n) return { code = 201, text = ('"groupName":"g%d"'):format(n) } end },
    group_deleted = { "group deleted", function(rpc, n) rpc:delete_group("g" .. n) end,
        function(n) return { code = 201, text = ('"groupName":"g%d"'):format(n), gone = true } end },
    mode = { "request mode", function(rpc, n) rpc:set_mode("bench", "bench", "POP", n) end,
        function(n) return { code = 402, text = ('"popShareQueueNum":%d'):format(n) } end },
    mapping = { "static-topic mapping", function(rpc, n, group) create_static(rpc, "s" .. n, group, n) end,
        function(n) return { code = 21, text = ('"epoch":%d'):format(n) } end },
    mapping_deleted = { "mapping deleted", function(rpc, n) rpc:delete_topic("s" .. n) end,
        function(n) return { code = 21, text = ('"epoch":%d'):format(n), gone = true } end },
    offset = { "consumer offset", function(rpc, n) rpc:commit("bench", "bench", 0, n) end,
        function(n)
            return { code = 14, fields = { consumerGroup = "bench", topic = "bench", queueId = 0, setZeroIfNotFound = false },
                text = ('"offset":"%d"'):format(n) }
        end },
}

visible.order = { "topic", "topic_deleted", "group", "group_deleted", "mode", "mapping", "mapping_deleted" }

function visible.text(kind)
    return KINDS[kind][1]
end

local number = 1000000
local function next_number()
    number = number + 1
    return number
end

local function sample(pair, kind, n)
    local _, change, look = unpack(KINDS[kind])
    local question = look(n)
    question.rpc = pair.slave:rpc()
    local ms, grain = probe.shows(pair.master:rpc(), function(rpc) change(rpc, n, pair.group) end, question, PATIENCE)
    if not ms then error(("%s %d does not show on the slave within %d s"):format(kind, n, PATIENCE), 0) end
    return ms, grain
end

-- The value that a share of the numbers does not exceed.
local function percentile(list, share)
    local sorted = {}
    for i, v in ipairs(list) do sorted[i] = v end
    table.sort(sorted)
    return sorted[math.max(1, math.ceil(share * #sorted))]
end
visible.percentile = percentile

local function summed(numbers, name, values, grains)
    numbers[name .. "_p50_ms"] = percentile(values, 0.5)
    numbers[name .. "_p99_ms"] = percentile(values, 0.99)
    numbers[name .. "_max_ms"] = percentile(values, 1)
    numbers[name .. "_grain_ms"] = percentile(grains, 0.5)
end

-- One round: `count` changes of each kind. Topics and groups go again, so that tables, and with them answers, stay small.
function visible.round(pair, count)
    local values, grains = {}, {}
    local function note(kind, n)
        values[kind], grains[kind] = values[kind] or {}, grains[kind] or {}
        local ms, grain = sample(pair, kind, n)
        table.insert(values[kind], ms)
        table.insert(grains[kind], grain)
    end
    for _ = 1, count do
        local n = next_number()
        for _, kind in ipairs(visible.order) do note(kind, n) end
    end
    local numbers = {}
    for _, kind in ipairs(visible.order) do summed(numbers, kind, values[kind], grains[kind]) end
    return numbers
end

-- Offsets, at times that have nothing to do with the flushes; interval in ms.
function visible.offsets(pair, count, interval, numbers)
    local values, grains = {}, {}
    for i = 1, count do
        process.pause(math.random() * interval / 1000)
        values[i], grains[i] = sample(pair, "offset", next_number())
    end
    summed(numbers, "offset" .. interval, values, grains)
end

-- ---- the brokers' own sync ---------------------------------------------------------------------------------------------------

local OWN_CHANGES = { "topic", "group", "mode", "mapping", "offset" }
local OWN_DELETES = { "topic_deleted", "group_deleted" }
local NEVER = { mode = true, mapping = true } -- looked for, but not waited for alone

local function make_change(pair, waiting, kind, n)
    local _, change, look = unpack(KINDS[kind])
    local question = look(n)
    question.rpc = pair.slave:rpc()
    change(pair.master:rpc(), n, pair.group)
    waiting[kind] = { question = question, answered = pair.master:rpc().answered }
end

-- Looks at each in turn until all have come, except those that never do.
local function wait_for(waiting, numbers)
    local deadline = process.now() + OWN_PATIENCE
    local function open()
        for kind in pairs(waiting) do
            if not NEVER[kind] then return true end
        end
    end
    while open() do
        assert(process.now() < deadline, "the brokers' own sync did not come")
        for kind, one in pairs(waiting) do
            if probe.look(one.question) then
                numbers[kind .. "_p50_ms"] = (process.now() - one.answered) * 1000
                waiting[kind] = nil
            end
        end
        process.pause(OWN_PAUSE)
    end
end

-- Each round makes its changes some time after the sync before, and deletes what the round before has made. What never comes has no number.
function visible.own(pair, count)
    local rounds, last = {}, nil
    for round = 1, count do
        if last then process.pause(math.random() * OWN_PAUSE_MAX) end
        local numbers, waiting, n = {}, {}, next_number()
        for _, kind in ipairs(OWN_CHANGES) do make_change(pair, waiting, kind, n) end
        for _, kind in ipairs(last and OWN_DELETES or {}) do make_change(pair, waiting, kind, last) end
        wait_for(waiting, numbers)
        numbers.offset200_p50_ms, numbers.offset5_p50_ms = numbers.offset_p50_ms, numbers.offset_p50_ms
        rounds[round], last = numbers, n
    end
    return rounds
end

return visible
