-- A real producer and a real consumer of a group over many failovers: what was sent, what was consumed, and which of it may come again.
--
-- Messages are sent before a failover and are on the slave by then, so what comes or does not come afterwards says something about offsets,
-- not about the replication of messages. The consumer is held back until then, and is in the middle of them when the master goes.
local process = require "spec.support.process"

local consumption = {}
consumption.__index = consumption

local TOPIC, GROUP, QUEUES = "consumed", "GID_consumed", 4
local MESSAGES, PACE_MS = 600, 5 -- three seconds of work
local HELD = -1
local FIRST = 60 -- of them are consumed before the failover may begin

function consumption.new(lab, master)
    local self = setmetatable({ client = lab:client(), sent = 0, serial = 0, missing = 0, again = 0, seen = {} }, consumption)
    master:rpc():create_topic(TOPIC, { readQueueNums = QUEUES, writeQueueNums = QUEUES })
    master:rpc():create_group(GROUP)
    return self
end

function consumption:start_consumer()
    self.serial = self.serial + 1
    self.name, self.delivered, self.committed = "consumer" .. self.serial, 0, {}
    self.client:ask("consumer", "start", self.name, GROUP, TOPIC, PACE_MS)
end

-- Sends messages, waits until the slave has them and some of them are consumed: right before a failover. crashes: the consumer goes together
-- with the master, and another one continues; otherwise it lives on.
function consumption:begin(master_rpc, slave, crashes)
    self.crashes = crashes
    if not self.name then self:start_consumer() end
    self.client:ask("consumer", "pace", self.name, HELD)
    self.client:ask("send", TOPIC, MESSAGES, "none", 0, self.sent)
    self.sent, self.missing = self.sent + MESSAGES, self.missing + MESSAGES
    process.eventually("the slave has all messages", function()
        for queue = 0, QUEUES - 1 do
            local here, there = master_rpc:max_offset(TOPIC, queue), slave:rpc():max_offset(TOPIC, queue)
            if here ~= there then return false, ("queue %d: %d, %d on the slave"):format(queue, here, there) end
        end
        return true
    end, 60)
    self.client:ask("consumer", "pace", self.name, PACE_MS)
    process.eventually("some are consumed", function()
        self:look()
        return self.missing <= MESSAGES - FIRST
    end, 60)
end

-- The master has been killed just now.
function consumption:broker_is_gone()
    if not self.crashes then return end
    self.client:ask("consumer", "crash", self.name)
    self:look()
    self.crashed = self:commits()
    self:start_consumer()
end

-- Takes what the consumer has got since the last look; nothing may come again from below self.earlier.
function consumption:look()
    for line in self.client:ask("consumer", "delivered", self.name, self.delivered):gmatch("[^,]+") do
        local key, queue, offset = line:match("^key(%d+) (%d+) (%d+) %d+$")
        key, queue, offset = tonumber(key), tonumber(queue), tonumber(offset)
        self.delivered = self.delivered + 1
        if self.seen[key] then
            self.again = self.again + 1
            assert(self.earlier and offset >= self.earlier[queue], ("message %d of queue %d came again; the old master had acknowledged %s")
                :format(offset, queue, self.earlier and self.earlier[queue] or "no offset yet"))
        else
            self.seen[key] = true
            self.missing = self.missing - 1
        end
    end
end

-- Its offsets that a broker has acknowledged, and when: queue -> { { offset, seconds }, ... }
function consumption:commits()
    local rows = {}
    for line in self.client:ask("consumer", "committed", self.name, 0):gmatch("[^,]+") do
        local queue, offset, nanos = line:match("^(%d+) (%d+) (%d+)$")
        queue = tonumber(queue)
        rows[queue] = rows[queue] or {}
        table.insert(rows[queue], { offset = tonumber(offset), at = tonumber(nanos) / 1e9 })
    end
    return rows
end

local function acknowledged(rows, before)
    local earlier = {}
    for queue = 0, QUEUES - 1 do
        earlier[queue] = 0
        for _, commit in ipairs(rows[queue] or {}) do
            if commit.at <= before then earlier[queue] = math.max(earlier[queue], commit.offset) end
        end
    end
    return earlier
end

-- The rest is consumed from the new master; nothing comes again of what was acknowledged before that time. Returns words for it.
function consumption:finish(before)
    self.earlier = acknowledged(self.crashed or self:commits(), before)
    local left, how = self.missing, self.crashed and "crashed" or "went on"
    self.crashed, self.again = nil, 0
    self.client:ask("consumer", "pace", self.name, 0)
    process.eventually("all messages are consumed", function()
        self:look()
        return self.missing == 0, self.missing .. " are missing"
    end, 60)
    return ("consumer %s, %d consumed before, %d after, %d of them again"):format(how, MESSAGES - left,
        left + self.again, self.again)
end

return consumption
