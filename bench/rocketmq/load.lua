-- Load for a broker from one thread: several connections, each with one request on its way. Frames are made before; only digits of fixed
-- width are written into them, so that little of what is measured is the load's own work.
local ffi = require "ffi"
local bit = require "bit"
local process = require "spec.support.process"
local Rpc = require "spec.support.rocketmq_rpc"
local C = ffi.C

local load = {}

local ROOM, POLLIN, MSG_DONTWAIT, MSG_NOSIGNAL = 65536, 1, 0x40, 0x4000
local DIGITS = 12

local function connections(port, count)
    local list = {}
    for i = 1, count do
        list[i] = assert(Rpc.connect(port))
        list[i].have = 0
    end
    return list
end

-- One request of each kind of load: make(rpc, i) -> the frame as a string; `mark` in it is where the number goes, or nil.
local function framed(make, count, mark)
    local rpc, frames = setmetatable({ opaque = 0 }, { __index = Rpc }), {}
    for i = 1, count do
        local text = make(rpc, i)
        local at = mark and assert(text:find(mark, 1, true), "no place for a number in the frame")
        frames[i] = { data = ffi.new("uint8_t[?]", #text, text), size = #text, at = at and at - 1 }
    end
    return frames
end

local MARK = ("0"):rep(DIGITS - 1) .. "1"

function load.group(i)
    return "load_group_" .. i
end

-- Commits of `groups` consumer groups with four queues each. Offsets grow.
function load.commits(groups)
    return framed(function(rpc, i)
        return rpc:encoded(15, { consumerGroup = load.group(i % groups), topic = "load", queueId = math.floor(i / groups) % 4,
            commitOffset = MARK })
    end, groups * 4, MARK)
end

-- Messages of `size` bytes into four queues.
function load.sends(size)
    return framed(function(rpc, i)
        return rpc:encoded(10, { producerGroup = "load", topic = "load", defaultTopic = "TBW102", defaultTopicQueueNums = 4, queueId = i % 4,
            sysFlag = 0, bornTimestamp = ("%.0f"):format(process.real_us() / 1000), flag = 0, reconsumeTimes = 0, unitMode = false,
            batch = false, properties = ("UNIQ_KEY\1%032X\2"):format(i) }, ("x"):rep(size))
    end, 4)
end

local function write_number(frame, n)
    for i = DIGITS - 1, 0, -1 do
        local digit = n % 10
        frame.data[frame.at + i] = 48 + digit
        n = (n - digit) / 10
    end
end

local function be32(p)
    return bit.bor(bit.lshift(p[0], 24), bit.lshift(p[1], 16), bit.lshift(p[2], 8), p[3])
end

-- Whether a whole answer has come; its code is looked at, since a broker that refuses is fast.
local function answered(one)
    local got = tonumber(C.rpc_receive(one.fd, one.room + one.have, ROOM - one.have, MSG_DONTWAIT))
    assert(got > 0, "the broker closed a connection of the load")
    one.have = one.have + got
    if one.have < 4 or one.have < 4 + be32(one.room) then return false end
    assert(one.have == 4 + be32(one.room), "more came than an answer")
    one.have = 0
    return true
end

local function check(one)
    local size = bit.band(be32(one.room + 4), 0xffffff)
    local head = ffi.string(one.room + 8, size)
    assert(head:find('"code":0', 1, true), "the broker refused: " .. head)
end

local serial = 0

local function request(one, frames)
    serial = serial + 1
    local frame = frames[serial % #frames + 1]
    if frame.at then write_number(frame, serial) end
    assert(tonumber(C.rpc_send(one.fd, frame.data, frame.size, MSG_NOSIGNAL)) == frame.size, "a request did not get into a socket")
end

-- Answers a second, over `seconds`.
function load.run(port, frames, count, seconds)
    local list, polls = connections(port, count), ffi.new("struct rpc_poll[?]", count)
    for i, one in ipairs(list) do
        polls[i - 1].fd, polls[i - 1].events = one.fd, POLLIN
        request(one, frames)
    end
    local from, done, now = process.now(), 0
    repeat
        assert(C.rpc_poll_all(polls, count, 20000) > 0, "no answer from the broker under load")
        for i, one in ipairs(list) do
            if polls[i - 1].revents ~= 0 and answered(one) then
                if done % 1000 == 0 then check(one) end
                done = done + 1
                request(one, frames)
            end
        end
        now = process.now()
    until now - from >= seconds
    for _, one in ipairs(list) do one:close() end
    return done / (now - from)
end

return load
