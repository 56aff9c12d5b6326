-- Two brokers of one group fail over, round after round, in two ways:
--
--     plain        random changes on the master, kill -9 right after the last answer, the slave is restarted as master
--     controller   the same, and a controller makes the running slave the master; in some rounds it is told to while both run, in some both
--                  are killed
--
-- What was acknowledged is looked up on the new master by RPC; then the old one returns as a slave, and both have to agree, entry by entry.
-- The next round kills the other one. A real consumer is in the middle of what a real producer has sent when the master goes.
--
--     MS_ROUNDS=50 MS_SEED=7 busted --lua=luajit spec/rocketmq/failover_plain_spec.lua
--
-- What must hold: a topic or group that was acknowledged, or its removal, is lost by nobody: the new master has it, but for what the
-- kill cut off on its way, and that comes back with the old master. Of offsets, those of the last flush interval may be missing; none is
-- ever less than what the slave showed, and none is invented. The consumer gets every message that the new master has, and none again
-- whose offset was acknowledged longer than that before the kill. A reign is never below the controller's master epoch.
local it = require("busted").it
local broker = require "spec.support.broker"
local consumption = require "spec.rocketmq.consumption"
local shown = require "spec.rocketmq.shown"
local process = require "spec.support.process"

local failover = {}

local SEED = tonumber(os.getenv("MS_SEED")) or os.time()
local AT_RISK = 1.0 -- seconds of offsets, as the policy that is shipped says: flushed every 200 ms, at risk for 1 s at most

-- ---- random numbers: the same on every machine for a seed ------------------------------------------------------------------

local Random = {}
Random.__index = Random

function Random.new(seed)
    return setmetatable({ state = seed % 2147483646 + 1 }, Random)
end

-- 1 .. n
function Random:upto(n)
    self.state = self.state * 48271 % 2147483647
    return self.state % n + 1
end

function Random:pick(list)
    return list[self:upto(#list)]
end

-- ---- what was acknowledged ---------------------------------------------------------------------------------------------------

local function sorted_keys(map)
    local keys = {}
    for key in pairs(map) do keys[#keys + 1] = key end
    table.sort(keys)
    return keys
end

-- topics, groups: name -> fields, false where it was deleted. offsets: "topic@group/queue" -> its values with the times of their answers,
-- or gone_at. last: the last topic or group that was changed, which the kill may have cut off on its way.
local function model()
    return { topics = {}, groups = {}, offsets = {}, last = nil, serial = 0 }
end

local function living(map)
    local names = {}
    for _, name in ipairs(sorted_keys(map)) do
        if map[name] then names[#names + 1] = name end
    end
    return names
end

-- Rows of a deleted topic or group go with it, through the buffer.
local function drop_rows(m, pattern)
    for key in pairs(m.offsets) do
        if key:find(pattern) then m.offsets[key] = { gone_at = process.now() } end
    end
end

local CHANGES = {}

function CHANGES.topic(m, rpc, random)
    m.serial = m.serial + 1
    local name = ("t%d"):format(m.serial)
    local fields = { readQueueNums = 1 + random:upto(7), perm = 2 * random:upto(3), order = false }
    local kind = random:pick { "NORMAL", "FIFO", "DELAY" }
    fields.writeQueueNums = fields.readQueueNums
    rpc:create_topic(name, { readQueueNums = fields.readQueueNums, writeQueueNums = fields.readQueueNums, perm = fields.perm,
        attributes = "+message.type=" .. kind })
    fields.attributes = kind
    m.topics[name] = fields
    m.last = { topics = name }
end

function CHANGES.change_topic(m, rpc, random)
    local name = random:pick(living(m.topics))
    local perm = random:pick { 2, 4, 6 }
    local fields = m.topics[name]
    rpc:create_topic(name, { readQueueNums = fields.readQueueNums, writeQueueNums = fields.readQueueNums, perm = perm })
    local changed = {}
    for key, value in pairs(fields) do changed[key] = value end
    changed.perm = perm
    m.topics[name] = changed
    m.last = { topics = name }
end

function CHANGES.delete_topic(m, rpc, random)
    local name = random:pick(living(m.topics))
    rpc:delete_topic(name)
    m.topics[name] = false
    drop_rows(m, "^" .. name .. "@")
    m.last = { topics = name }
end

function CHANGES.group(m, rpc, random)
    m.serial = m.serial + 1
    local name = ("g%d"):format(m.serial)
    local fields = { retryMaxTimes = random:upto(16), retryQueueNums = random:upto(3) }
    rpc:create_group(name, fields)
    m.groups[name] = fields
    m.last = { groups = name }
end

function CHANGES.delete_group(m, rpc, random)
    local name = random:pick(living(m.groups))
    rpc:delete_group(name)
    m.groups[name] = false
    drop_rows(m, "@" .. name .. "/")
    m.last = { groups = name }
end

function CHANGES.commits(m, rpc, random)
    local topics, groups = living(m.topics), living(m.groups)
    for _ = 1, 10 do
        local topic, group = random:pick(topics), random:pick(groups)
        local queue = random:upto(m.topics[topic].readQueueNums) - 1
        local key = ("%s@%s/%d"):format(topic, group, queue)
        local row = m.offsets[key]
        if not row or row.gone_at then row = {} end
        local value = (#row > 0 and row[#row].value or 0) + random:upto(1000)
        rpc:commit(group, topic, queue, value)
        row[#row + 1] = { value = value, at = process.now() }
        m.offsets[key] = row
    end
end

local LAST = { "topic", "change_topic", "delete_topic", "group", "delete_group" } -- what the kill follows at once
local OFTEN = { "topic", "topic", "change_topic", "delete_topic", "group", "group", "delete_group", "commits", "commits", "commits", "pause" }

local function change(m, rpc, random, names)
    local name = random:pick(names)
    if name == "pause" then
        process.pause(random:upto(120) / 1000)
        return name
    end
    if name ~= "topic" and name ~= "group" then -- there is something to change or delete
        if #living(m.topics) < 2 then name = "topic" elseif #living(m.groups) < 2 then name = "group" end
    end
    CHANGES[name](m, rpc, random)
    return name
end

-- ---- what a broker has of it -------------------------------------------------------------------------------------------------

local function topic_text(fields)
    return fields and ("read %d write %d perm %d %s"):format(fields.readQueueNums, fields.writeQueueNums, fields.perm, fields.attributes) or "none"
end

local function group_text(fields)
    return fields and ("retry %d times, %d queues"):format(fields.retryMaxTimes, fields.retryQueueNums) or "none"
end

-- Those topics and groups that are not as acknowledged: "what name: ..." by "topics/name".
local function differing(m, rpc)
    local wrong, topics, groups = {}, rpc:topics(), rpc:groups()
    for name, fields in pairs(m.topics) do
        local has = topics[name]
        has = topic_text(has and { readQueueNums = has.readQueueNums, writeQueueNums = has.writeQueueNums, perm = has.perm,
            attributes = has.attributes["message.type"] })
        if has ~= topic_text(fields) then wrong["topics/" .. name] = ("%s, acknowledged: %s"):format(has, topic_text(fields)) end
    end
    for name, fields in pairs(m.groups) do
        local has = group_text(groups[name])
        if has ~= group_text(fields) then wrong["groups/" .. name] = ("%s, acknowledged: %s"):format(has, group_text(fields)) end
    end
    return wrong
end

local function rows_of(rpc)
    local rows = {}
    for key, queues in pairs(rpc:offsets()) do
        for queue, value in pairs(queues) do rows[key .. "/" .. queue] = tonumber(value) end
    end
    return rows
end

-- Offsets against the acknowledged ones and what the slave showed before (had): counts of those behind, or an error.
local function check_offsets(m, rpc, killed_at, had)
    local rows, behind = rows_of(rpc), 0
    for key, row in pairs(m.offsets) do
        local has = rows[key]
        if row.gone_at then
            assert(has == nil or row.gone_at > killed_at - AT_RISK, key .. " was deleted long before the kill and is back")
        else
            local known = false
            for i, commit in ipairs(row) do
                known = known or commit.value == has
                assert(has ~= nil and has >= commit.value or commit.at > killed_at - AT_RISK, ("%s: %s, %d was acknowledged %.3f s before the kill")
                    :format(key, tostring(has), commit.value, killed_at - commit.at))
                if i == #row and has ~= commit.value then behind = behind + 1 end
            end
            assert(has == nil or known, ("%s: %s was never committed"):format(key, tostring(has)))
            assert(not had[key] or (has and has >= had[key]), ("%s: %s, and the slave had shown %s"):format(key, tostring(has), had[key]))
        end
    end
    return behind
end

-- From here on what the master has is what was acknowledged: the next round begins with it.
local function rebase_offsets(m, rpc)
    local offsets = {}
    for key, value in pairs(rows_of(rpc)) do
        local topic, group = key:match("^(t%d+)@(g%d+)/")
        if topic and m.topics[topic] and m.groups[group] then offsets[key] = { { value = value, at = 0 } } end
    end
    m.offsets = offsets
end

-- ---- how the slave becomes the master -------------------------------------------------------------------------------------------

local function restart(one, id)
    one.id = id
    return one:start(60)
end

local function reign_of(one)
    local reign
    one:wait("tells its epoch", function(info) -- not while its role changes
        reign = tonumber((info.metasync_epoch or ""):match("^%d+"))
        return reign
    end)
    return reign
end

-- Each way: fails(pair, number) ends the master's reign and returns when that was, what the slave showed then, and words for it;
-- promotes(pair) returns when the slave leads; returns(pair) begins to bring the old one back; is_ready(pair) waits until the slave may
-- become master.
local plain, controller = {}, {}

function plain.fails(pair, number)
    local killed_at = process.now()
    pair.master:kill()
    pair.consumption:broker_is_gone()
    local had = rows_of(pair.slave:rpc())
    if number % 5 == 3 then -- takes 15 s
        pair.slave:stop()
        return killed_at, had, "slave stopped"
    end
    pair.slave:kill()
    return killed_at, had, "both killed"
end

function plain.promotes(pair)
    restart(pair.slave, 0):leads(60)
end

function plain.returns(pair)
    pair.master.id = 1
    pair.master:begin()
end

function plain.is_ready() end

local function controller_id(lab, one)
    for _, replica in ipairs(lab:elected(one.group).inSyncReplicas) do
        if replica.brokerAddress == one.address then return replica.brokerId end
    end
    error(one.name .. " is not in the SyncStateSet")
end

function controller.fails(pair, number)
    local lab = pair.master.lab
    pair.was = lab:elected(pair.master.group)
    local killed_at = process.now()
    if number % 5 == 4 then -- nobody is left to be elected, which counts as a master too: its epoch overtakes our reigns
        local had = rows_of(pair.slave:rpc())
        pair.master.process:kill(process.SIGSTOP) -- else it may see its slave go, and take it out of the SyncStateSet
        pair.slave:kill()
        pair.master:kill()
        pair.consumption:broker_is_gone()
        return killed_at, had, "both killed"
    end
    if number % 3 == 0 then
        lab.controller:rpc():elect("lab", pair.slave.group, controller_id(lab, pair.slave))
        return killed_at, rows_of(pair.slave:rpc()), "switched"
    end
    pair.master:kill()
    pair.consumption:broker_is_gone()
    return killed_at, rows_of(pair.slave:rpc()), "master killed"
end

function controller.promotes(pair)
    local lab, now = pair.master.lab, nil
    if not pair.slave:alive() then pair.slave:start(60) end
    process.eventually("the slave is elected", function()
        now = lab:elected(pair.slave.group)
        return now.masterAddress == pair.slave.address, broker.text(now)
    end, 30)
    pair.slave:leads(60)
    assert(now.masterEpoch > pair.was.masterEpoch, "the controller counts its masters")
    local reign = reign_of(pair.slave)
    assert(reign >= now.masterEpoch, ("reign %d is below the master epoch %d"):format(reign, now.masterEpoch))
end

function controller.returns(pair)
    if not pair.master:alive() then pair.master:begin() end
end

function controller.is_ready(pair)
    pair.master.lab:wait_in_sync_set(pair.master, pair.slave)
end

-- ---- a round -----------------------------------------------------------------------------------------------------------------

local function check(m, rpc, killed_at, had)
    local cut, missing = differing(m, rpc), 0
    local behind = check_offsets(m, rpc, killed_at, had)
    for what, words in pairs(cut) do
        missing = missing + 1
        assert(m.last[what:match("^(%a+)/")] == what:match("/(.*)$"), what .. " was not the last change and is lost: " .. words)
    end
    return missing, behind
end

local function round(way, number, pair, m, random)
    local master, slave = pair.master, pair.slave
    local M = master:rpc()
    local count, consuming = 25 + random:upto(30), pair.consumption
    for _ = 1, count do change(m, M, random, OFTEN) end
    way.is_ready(pair)
    consuming:begin(M, slave, number % 2 == 0)
    local last = change(m, M, random, LAST)
    local killed_at, had, how = way.fails(pair, number)

    local started = process.now()
    way.promotes(pair)
    local promoted = process.now() - started
    local missing, behind = check(m, slave:rpc(), killed_at, had)
    -- the new master is in use before the old one returns
    for _ = 1, 5 do change(m, slave:rpc(), random, { "topic", "group" }) end
    started = process.now()
    way.returns(pair)
    local again = consuming:finish(killed_at - AT_RISK)
    master:wait_port():in_sync(90)
    process.eventually("what the kill cut off is back", function()
        local what, words = next(differing(m, slave:rpc()))
        return what == nil, what and what .. ": " .. words
    end, 10)
    shown.same(slave, master, 20)
    way.is_ready(pair)
    io.write(("round %d, %s: %d changes, last %s, %s; promoted in %.1f s, cut off %d, offsets behind %d, %s; returned in %.1f s\n"):format(number,
        master.version, count, last, how, promoted, missing, behind, again, process.now() - started))
    io.flush()
    rebase_offsets(m, slave:rpc())
    pair.master, pair.slave = slave, master
end

local WAYS = { plain = plain, controller = controller }

-- MS_ROUNDS rounds of one way, `rounds` if that is not set. A spec file for each, so that they run beside each other.
function failover.rounds(name, version, rounds)
    rounds = tonumber(os.getenv("MS_ROUNDS")) or rounds
    local file = debug.getinfo(2, "S").short_src
    it(("of %s, %s: nothing that was acknowledged is lost in %d rounds"):format(version, name, rounds), function()
        local lab = broker.lab { controller = name == "controller", version = version }
        local random, m = Random.new(SEED), model()
        io.write(("failover rounds of %s, %s, seed %d\n"):format(version, name, SEED))
        local ok, why = pcall(function()
            local pair = {}
            pair.master, pair.slave = lab:pair { version = version }
            pair.consumption = consumption.new(lab, pair.master)
            for number = 1, rounds do round(WAYS[name], number, pair, m, random) end
        end)
        lab:close(not ok)
        if not ok then
            error(("%s\nagain with: MS_SEED=%d MS_ROUNDS=%d busted --lua=luajit %s"):format(tostring(why), SEED, rounds, file), 0)
        end
    end)
end

return failover
