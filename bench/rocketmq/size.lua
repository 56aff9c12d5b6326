-- A broker with 10,000 topics and 100,000 consumer offsets: what one changed topic costs, what an idle link costs, and how a slave joins.
-- The same files are under a pair without the plugin.
local broker = require "spec.support.broker"
local counters = require "bench.rocketmq.counters"
local probe = require "bench.rocketmq.probe"
local process = require "spec.support.process"
local Rpc = require "spec.support.rocketmq_rpc"
local store = require "bench.rocketmq.store"

local size = {}

local UNTOUCHED = store.topic(1)
local SETTLE = 1.2      -- seconds after a change until all that comes of it is done: files are written once a second
local OWN_PERIOD = 63   -- of the brokers' own sync
local OWN_PATIENCE = 75

local function looking_for(rpc, topic)
    return { rpc = rpc, code = 351, fields = { topic = topic }, text = ('"topicName":"%s"'):format(topic) }
end

local function topic_of(one, name)
    return probe.look(looking_for(one:rpc(), name))
end

-- ---- one changed topic -------------------------------------------------------------------------------------------------------

-- The threads that can have to do with a change: metasync's, those of requests and their connections, the one of the broker's small tasks, the
-- collector. A broker has a dozen others that look for something every few milliseconds, and compilers; what they take moves by more
-- than a change costs.
local CONCERNED = { "^ms%-", "^metasync", "^AdminBroker", "^Netty", "^BrokerController", "^brokerOut", "^AsyncAppender", "^VM Thread", "^GC " }

local function running(one)
    local sum = 0
    for name, seconds in pairs(counters.running(one.process.pid)) do
        for _, pattern in ipairs(CONCERNED) do
            if name:find(pattern) then
                sum = sum + seconds
                break
            end
        end
    end
    return sum
end

-- Over the link of the two nodes.
local function carried(pair)
    return counters.carried(pair.master.port + broker.PORT_OFFSET)
end

-- Milliseconds of processor time that each of the brokers takes for a call of fn and what follows from it, and metasync's bytes.
local function used(pair, brokers, count, fn)
    local numbers, bytes = {}, carried(pair)
    for i, one in ipairs(brokers) do numbers[i] = running(one) end
    for _ = 1, count do
        fn()
        process.pause(SETTLE)
    end
    for i, one in ipairs(brokers) do numbers[i] = (running(one) - numbers[i]) * 1000 / count end
    numbers.bytes = (carried(pair) - bytes) / count
    return numbers
end

local serial = 0

local function change(masters)
    serial = serial + 1
    for _, master in ipairs(masters) do master:rpc():create_topic("changed_" .. serial) end
end

-- The same changes on the masters of both pairs, less what an idle time as long takes. A master is compared with the one without the plugin,
-- since the broker itself writes the whole of its file for a change; a slave has no other reason to work.
local function change_round(pair, own, count)
    local brokers = { pair.master, pair.slave, own.master }
    local idle = used(pair, brokers, count, function() end)
    local busy = used(pair, brokers, count, function() change { pair.master, own.master } end)
    local master, slave, plain = busy[1] - idle[1], busy[2] - idle[2], busy[3] - idle[3]
    return { ours = { change_ms = master - plain + slave, slave_ms = slave, master_ms = master - plain, broker_ms = plain,
        wire_bytes = busy.bytes - idle.bytes } }
end

-- Rounds of `count` changes each.
function size.changes(pair, own, rounds, count)
    local list = {}
    for round = 1, rounds do list[round] = change_round(pair, own, count) end
    assert(topic_of(pair.slave, "changed_" .. serial), "the changed topic is not on the slave")
    return list
end

function size.warm(pair, own, count)
    for _ = 1, count do change { pair.master, own.master } end
end

-- What one round of the brokers' own sync takes, both ends, with one topic changed; and the bytes that connections to the master carry.
function size.own_change(own)
    change { own.master }
    process.pause(SETTLE)
    local pids = { own.master.process.pid, own.slave.process.pid }
    local function now() return counters.cpu(pids[1]) + counters.cpu(pids[2]) end
    local from, before, bytes = process.now(), now(), counters.carried(own.master.port)
    while not topic_of(own.slave, "changed_" .. serial) do
        assert(process.now() - from < OWN_PATIENCE, "the brokers' own sync did not come")
        process.pause(0.05)
    end
    process.pause(SETTLE)
    local long, took, sent = process.now() - from, now() - before, counters.carried(own.master.port) - bytes
    before, bytes = now(), counters.carried(own.master.port)
    process.pause(OWN_PERIOD / 4)
    local idle, idle_bytes = (now() - before) / (OWN_PERIOD / 4), (counters.carried(own.master.port) - bytes) / (OWN_PERIOD / 4)
    return { change_ms = (took - idle * long) * 1000, wire_bytes = sent - idle_bytes * long }
end

-- ---- idle --------------------------------------------------------------------------------------------------------------------

local function waits(pair, pattern)
    local sum = 0
    for _, one in ipairs { pair.master, pair.slave } do
        sum = sum + counters.waits(one.process.pid, pattern)
    end
    return sum
end

-- A second, both ends.
function size.idle(pair, seconds)
    local bytes = carried(pair)
    local link, all = waits(pair, "^ms%-"), waits(pair, "^metasync")
    process.pause(seconds)
    local of_link, of_all = waits(pair, "^ms%-") - link, waits(pair, "^metasync") - all
    return { link_wakeups = of_link / seconds, all_wakeups = (of_link + of_all) / seconds, bytes = (carried(pair) - bytes) / seconds }
end

-- ---- joining -----------------------------------------------------------------------------------------------------------------

local function is_in_sync(info)
    return info.metasync_role == "follower" and info.metasync_own_sync == "paused" and info.metasync_lag == "0"
end

local function up(slave)
    local rpc
    process.eventually(slave.name .. " listens", function()
        assert(slave:alive(), "the slave has ended")
        rpc = Rpc.connect(slave.port)
        return rpc ~= nil
    end, 120)
    return rpc
end

-- Looks for the topic every millisecond or so until the slave is in sync. Once seen (or had from the start), it must never be missing.
local function read_until_in_sync(slave, rpc, had)
    local look, from, asked = looking_for(rpc, UNTOUCHED), process.now(), 0
    local seen, missed, polls = had, 0, 0
    while true do
        local shows = probe.look(look)
        polls = polls + 1
        missed = missed + (seen and not shows and 1 or 0)
        seen = seen or shows
        local now = process.now()
        assert(now - from < 60, "the slave does not get in sync")
        if now - asked > 0.02 then
            asked = now
            if is_in_sync(slave:info()) then return { join_s = process.now() - from, missed = missed, polls = polls } end
        end
        process.pause(0.001)
    end
end

-- Starts a slave that has nothing, or (kept) its broker's files but nothing of its node's, so that it is sent all.
function size.join(pair, kept, last)
    local slave = pair.slave
    if kept then
        process.eventually("the slave's file is written", function()
            return (process.read(slave.store .. "/config/topics.json") or ""):find(store.topic(last), 1, true) ~= nil
        end, 30)
    end
    slave:kill()
    assert(os.execute("rm -rf " .. process.quote(kept and slave.node or slave.store)) == 0)
    slave:begin()
    local rpc = up(slave)
    local numbers = read_until_in_sync(slave, rpc, kept)
    rpc:close()
    assert(topic_of(slave, store.topic(last)), "a slave in sync lacks a topic")
    return numbers
end

return size
