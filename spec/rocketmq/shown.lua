-- What a broker shows of its metadata by RPC, and whether two brokers show the same.
local broker = require "spec.support.broker"
local process = require "spec.support.process"

local shown = {}

-- Table name -> its entries, as far as this version has a request for it; version: the data versions.
function shown.shown(rpc)
    local topics, groups, offsets, timer = rpc:all_topics(), rpc:all_groups(), rpc:all_offsets(), rpc:timer_metrics()
    local delays = rpc:delay_offsets()
    return {
        topic = topics.topicConfigTable,
        topic_mapping = topics.topicQueueMappingDetailMap or {},
        group = groups.subscriptionGroupTable,
        forbidden = groups.forbiddenTable or {},
        offset = offsets.offsetTable,
        pull_offset = offsets.pullOffsetTable or {},
        delay_offset = delays.offsetTable,
        request_mode = rpc:modes(),
        timer_metrics = timer.timingCount,
        version = { topic = topics.dataVersion, topic_mapping = topics.mappingDataVersion, group = groups.dataVersion,
            offset = offsets.dataVersion, delay_offset = delays.dataVersion, timer_metrics = timer.dataVersion },
    }
end

local function empty_inner(map, what)
    for key, inner in pairs(map) do
        if next(inner) == nil then return ("%s %s is an empty map"):format(what, key) end
    end
end

-- nil, or the first difference between what two brokers show.
function shown.difference(one, other)
    local a, b = shown.shown(one), shown.shown(other)
    for name, entries in pairs(a) do
        local what = broker.difference(entries, b[name], name)
        if what then return what end
    end
    for _, name in ipairs { "offset", "pull_offset", "request_mode" } do
        local what = empty_inner(b[name], name)
        if what then return what end
    end
end

-- Waits until both show the same, in every table.
function shown.same(master, slave, seconds)
    process.eventually(slave.name .. " shows what " .. master.name .. " shows", function()
        local what = shown.difference(master:rpc(), slave:rpc())
        return what == nil, what
    end, seconds or 10)
end

return shown
