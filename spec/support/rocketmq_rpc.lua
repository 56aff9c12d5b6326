-- A client of a RocketMQ broker or name server, over a plain socket: the remoting protocol's frames (a length, a JSON header, a body), and
-- the requests that specs and the demo need. Replies are decoded; what a broker answers with another code than 0 is an error, unless a
-- function says otherwise.
--
--     local rpc = Rpc.connect(port)
--     rpc:create_topic("orders", { attributes = "+message.type=NORMAL" })
--     rpc:topics().orders.perm
local ffi = require "ffi"
local bit = require "bit"
local json = require "spec.support.json"
local process = require "spec.support.process"
local C = ffi.C

if not pcall(ffi.typeof, "struct rpc_address") then
    ffi.cdef [[
        struct rpc_address { unsigned short family, port; unsigned char host[4]; char rest[8]; };
        struct rpc_poll { int fd; short events, revents; };
        int rpc_socket(int family, int type, int protocol) __asm__("socket");
        int rpc_connect(int fd, const struct rpc_address *address, unsigned size) __asm__("connect");
        int rpc_option(int fd, int level, int name, const int *value, unsigned size) __asm__("setsockopt");
        int rpc_poll_all(struct rpc_poll *fds, unsigned long count, int timeout_ms) __asm__("poll");
        long rpc_send(int fd, const void *data, unsigned long size, int flags) __asm__("send");
        long rpc_receive(int fd, void *data, unsigned long size, int flags) __asm__("recv");
        int rpc_close(int fd) __asm__("close");
    ]]
end

local Rpc = {}
Rpc.__index = Rpc

local ROOM, MSG_NOSIGNAL, POLLIN = 1048576, 0x4000, 1

-- nil and a reason if nobody listens there.
function Rpc.connect(port)
    local fd = C.rpc_socket(2, 1 + 0x80000, 0) -- AF_INET, SOCK_STREAM | SOCK_CLOEXEC
    local address = ffi.new("struct rpc_address", { family = 2, host = { 127, 0, 0, 1 } })
    address.port = math.floor(port / 256) + port % 256 * 256
    if C.rpc_connect(fd, address, ffi.sizeof(address)) ~= 0 then
        C.rpc_close(fd)
        return nil, "nobody listens on port " .. port
    end
    local one = ffi.new("int[1]", 1)
    C.rpc_option(fd, 6, 1, one, 4) -- TCP_NODELAY
    return setmetatable({ fd = fd, port = port, opaque = 0, room = ffi.new("uint8_t[?]", ROOM), text = "" }, Rpc)
end

function Rpc:close()
    if self.fd then C.rpc_close(self.fd) end
    self.fd = nil
end

-- ---- frames ---------------------------------------------------------------------------------------------------------------

local function big32(n)
    return string.char(bit.band(bit.rshift(n, 24), 255), bit.band(bit.rshift(n, 16), 255), bit.band(bit.rshift(n, 8), 255), bit.band(n, 255))
end

local function read32(text, at)
    local a, b, c, d = text:byte(at, at + 3)
    return ((a * 256 + b) * 256 + c) * 256 + d
end

function Rpc:send(text)
    local at = 0
    while at < #text do
        local put = tonumber(C.rpc_send(self.fd, ffi.cast("const char *", text) + at, #text - at, MSG_NOSIGNAL))
        assert(put > 0, "port " .. self.port .. ": the connection is gone")
        at = at + put
    end
end

-- `size` bytes from the connection.
function Rpc:take(size, deadline)
    local parts, have = { self.text }, #self.text
    while have < size do
        local left = math.max(0, math.ceil((deadline - process.now()) * 1000))
        local poll = ffi.new("struct rpc_poll[1]", { { fd = self.fd, events = POLLIN } })
        assert(C.rpc_poll_all(poll, 1, left) > 0, "port " .. self.port .. ": no answer in time")
        local got = tonumber(C.rpc_receive(self.fd, self.room, ROOM, 0))
        assert(got > 0, "port " .. self.port .. ": the connection was closed")
        parts[#parts + 1] = ffi.string(self.room, got)
        have = have + got
    end
    local all = table.concat(parts)
    self.text = all:sub(size + 1)
    return all:sub(1, size)
end

-- A line of text, without its end: for a peer that talks in lines.
function Rpc:line(seconds)
    local deadline = process.now() + seconds
    local stop = self.text:find("\n", 1, true)
    while not stop do
        local have = #self.text
        self.text = self:take(have + 1, deadline) .. self.text
        stop = self.text:find("\n", have + 1, true)
    end
    return self:take(stop, deadline):sub(1, -2)
end

-- The body of a JSON that fastjson has made has numbers as keys, without quotes: they get some.
local function quoted_keys(text)
    local out, at = {}, 1
    while at <= #text do
        local quote = text:find('"', at, true) or #text + 1
        out[#out + 1] = (text:sub(at, quote - 1):gsub("([{,]%s*)(%-?%d+)(%s*:)", '%1"%2"%3'))
        if quote > #text then break end
        local stop = quote + 1
        while true do
            stop = text:find('["\\]', stop) or #text
            if text:byte(stop) ~= 92 then break end
            stop = stop + 2
        end
        out[#out + 1] = text:sub(quote, stop)
        at = stop + 1
    end
    return table.concat(out)
end

function Rpc.decode(text)
    return json.decode(quoted_keys(text))
end

-- A request as it is sent; the answer to it has the same number.
function Rpc:encoded(code, fields, body)
    self.opaque = self.opaque + 1
    local texts = {}
    for name, value in pairs(fields or {}) do texts[name] = tostring(value) end
    local head = json.encode { code = code, extFields = texts, flag = 0, language = "OTHER", opaque = self.opaque,
        serializeTypeCurrentRPC = "JSON", version = 475 }
    body = body or ""
    return big32(4 + #head + #body) .. big32(#head) .. head .. body
end

-- The next frame that comes: header and body in one, after the header's size.
function Rpc:frame(deadline)
    return self:take(read32(self:take(4, deadline), 1), deadline)
end

-- Sends a request, returns header and body (a string) of its answer, whatever its code. self.answered: when that came.
function Rpc:request(code, fields, body, seconds)
    self:send(self:encoded(code, fields, body))
    local deadline = process.now() + (seconds or 20)
    while true do
        local frame = self:frame(deadline)
        self.answered = process.now()
        local size = bit.band(read32(frame, 1), 0xffffff)
        local header = Rpc.decode(frame:sub(5, 4 + size))
        if header.opaque == self.opaque and header.flag % 2 == 1 then return header, frame:sub(5 + size) end
    end
end

-- The same where any other code than 0 is an error. `also`: a code that is fine too.
function Rpc:call(code, fields, body, also)
    local header, answer = self:request(code, fields, body)
    if header.code ~= 0 and header.code ~= also then
        error(("request %d: code %d, %s"):format(code, header.code, tostring(header.remark)), 2)
    end
    return header, answer
end

-- ---- changes ----------------------------------------------------------------------------------------------------------------

local function merged(defaults, given)
    local all = {}
    for name, value in pairs(defaults) do all[name] = value end
    for name, value in pairs(given or {}) do all[name] = value end
    return all
end

local TOPIC = { defaultTopic = "TBW102", readQueueNums = 4, writeQueueNums = 4, perm = 6, topicFilterType = "SINGLE_TAG", topicSysFlag = 0,
    order = false }
local GROUP = { consumeEnable = true, consumeBroadcastEnable = true, retryQueueNums = 1, retryMaxTimes = 16, brokerId = 0,
    whichBrokerWhenConsumeSlowly = 1, notifyConsumerIdsChangedEnable = true }

-- fields.attributes: "+name=value" adds or changes, "-name" removes
function Rpc:create_topic(name, fields)
    return self:call(17, merged(merged(TOPIC, fields), { topic = name }))
end

local LISTED = { readQueueNums = 2, writeQueueNums = 2, perm = 6, topicFilterType = "SINGLE_TAG", topicSysFlag = 0, order = false }

function Rpc:create_topics(names)
    local list = json.array {}
    for i, name in ipairs(names) do list[i] = merged(LISTED, { topicName = name, attributes = {} }) end
    return self:call(18, nil, json.encode { topicConfigList = list })
end

function Rpc:delete_topic(name)
    return self:call(215, { topic = name })
end

function Rpc:create_group(name, fields)
    return self:call(200, nil, json.encode(merged(merged(GROUP, fields), { groupName = name })))
end

function Rpc:create_groups(names)
    local list = json.array {}
    for i, name in ipairs(names) do list[i] = merged(GROUP, { groupName = name }) end
    return self:call(225, nil, json.encode { groupConfigList = list })
end

function Rpc:delete_group(name, clean_offsets)
    return self:call(207, { groupName = name, cleanOffset = clean_offsets ~= false })
end

function Rpc:forbid(group, topic, forbidden)
    return self:call(353, { group = group, topic = topic, readable = not forbidden })
end

function Rpc:commit(group, topic, queue, offset)
    return self:call(15, { consumerGroup = group, topic = topic, queueId = queue, commitOffset = offset })
end

-- What a consumer of this group would go on from; nil if there is none.
function Rpc:offset(group, topic, queue)
    local header = self:call(14, { consumerGroup = group, topic = topic, queueId = queue, setZeroIfNotFound = false }, nil, 22)
    return header.code == 0 and tonumber(header.extFields.offset) or nil
end

local serial = 0

-- properties: "NAME\1VALUE\2"
function Rpc:send_message(topic, properties, queue, text)
    serial = serial + 1
    return self:call(10, { producerGroup = "spec-producer", topic = topic, defaultTopic = "TBW102", defaultTopicQueueNums = 4,
        queueId = queue or 0, sysFlag = 0, bornTimestamp = ("%.0f"):format(process.real_us() / 1000), flag = 0, reconsumeTimes = 0,
        unitMode = false, batch = false, properties = ("UNIQ_KEY\1%032X\2%s"):format(serial, properties or "") }, text or "hello")
end

-- sys_flag: 4 has a subscription, 1 commits the offset too. Returns header, body.
function Rpc:pull(group, topic, queue, from, sys_flag, commit)
    return self:request(11, { consumerGroup = group, topic = topic, queueId = queue, queueOffset = from, maxMsgNums = 32,
        sysFlag = sys_flag or 4, commitOffset = commit or 0, suspendTimeoutMillis = 0, subscription = "*", subVersion = 0,
        expressionType = "TAG" })
end

function Rpc:pop(group, topic, order, invisible_ms)
    return self:request(200050, { consumerGroup = group, topic = topic, queueId = 0, maxMsgNums = 32, invisibleTime = invisible_ms or 20000,
        pollTime = 0, bornTime = ("%.0f"):format(process.real_us() / 1000), initMode = 0, expType = "TAG", exp = "*", order = order or false })
end

-- Acknowledges all messages of an answer to pop.
function Rpc:ack(header, group, topic)
    local x = header.extFields
    local first = x.startOffsetInfo:match("%S+ %S+ (%S+)$") or x.startOffsetInfo:match("(%S+)$")
    for offset in x.msgOffsetInfo:match("(%S+)$"):gmatch("%d+") do
        self:call(200051, { consumerGroup = group, topic = topic, queueId = 0, offset = offset, extraInfo = ("%s %s %s %s 0 %s 0 %s"):format(
            first, x.popTime, x.invisibleTime, x.reviveQid, self.broker or "broker-a", offset) })
    end
end

-- On a connection of its own: the broker closes those of clients whose heartbeats stop.
function Rpc:heartbeat(group, topic, unit)
    local subscription = { topic = topic, subString = "*", tagsSet = json.array {}, codeSet = json.array {}, subVersion = 1,
        expressionType = "TAG", classFilterMode = false }
    local other = assert(Rpc.connect(self.port))
    other:call(34, nil, json.encode { clientID = "127.0.0.1@spec", producerDataSet = json.array {}, consumerDataSet = json.array { {
        consumeFromWhere = "CONSUME_FROM_FIRST_OFFSET", consumeType = "CONSUME_PASSIVELY", groupName = group, messageModel = "CLUSTERING",
        unitMode = unit or false, subscriptionDataSet = json.array { subscription } } } })
    other:close()
end

function Rpc:send_back(group, topic, offset)
    return self:call(36, { offset = offset, group = group, delayLevel = 3, originMsgId = "X", originTopic = topic, unitMode = false,
        maxReconsumeTimes = 16 })
end

function Rpc:reset_offset(group, topic, queue, offset)
    return self:call(222, { topic = topic, group = group, timestamp = 0, isForce = true, offset = offset, queueId = queue })
end

function Rpc:clone_offsets(from, to, topic)
    return self:call(314, { srcGroup = from, destGroup = to, topic = topic, offline = true })
end

-- Drops the offsets of `group` on this topic (filterGroups removes rows).
function Rpc:correct_offsets(group, compare, topic)
    return self:call(308, { filterGroups = group, compareGroup = compare, topic = topic })
end

function Rpc:set_mode(topic, group, mode, queues)
    return self:call(401, nil, json.encode { topic = topic, consumerGroup = group, mode = mode, popShareQueueNum = queues or 0 })
end

-- A property of broker.conf, at run time.
function Rpc:configure(name, value)
    return self:call(25, nil, ("%s=%s\n"):format(name, value))
end

-- A name server's: the order configuration of a topic, which brokers take with an answer to a registration.
function Rpc:put_order(topic, value)
    return self:call(100, { namespace = "ORDER_TOPIC_CONFIG", key = topic, value = value })
end

-- A controller's: makes this broker (by the id that the controller gave it) the master of its group now, while the other one runs.
function Rpc:elect(cluster, group, id)
    return self:call(1002, { clusterName = cluster, brokerName = group, brokerId = id, designateElect = true,
        invokeTime = ("%.0f"):format(process.real_us() / 1000) })
end

-- ---- looking ------------------------------------------------------------------------------------------------------------------

function Rpc:read(code)
    local _, body = self:call(code)
    return Rpc.decode(body)
end

function Rpc:all_topics()
    return self:read(21)
end

function Rpc:topics()
    return self:all_topics().topicConfigTable
end

function Rpc:all_groups()
    return self:read(201)
end

function Rpc:groups()
    return self:all_groups().subscriptionGroupTable
end

function Rpc:all_offsets()
    return self:read(43)
end

function Rpc:offsets()
    return self:read(43).offsetTable
end

-- A name server's: broker name -> its brokerAddrs, by id.
function Rpc:brokers()
    return self:read(106).brokerAddrTable or {}
end

-- Where the next message of the queue goes.
function Rpc:max_offset(topic, queue)
    return tonumber(self:call(30, { topic = topic, queueId = queue }).extFields.offset)
end

-- A controller's.
function Rpc:replicas(group)
    local _, body = self:call(1006, nil, json.encode(json.array { group }))
    return Rpc.decode(body).replicasInfoTable[group] or { inSyncReplicas = {}, notInSyncReplicas = {} }
end

function Rpc:delay_offsets()
    return self:read(45)
end

function Rpc:modes()
    return self:read(402).messageRequestModeMap
end

function Rpc:timer_checkpoint()
    local _, body = self:call(60)
    return body
end

function Rpc:timer_metrics()
    return self:read(61)
end

-- The plugin's lines are in it: metasync_role and so on. The broker goes through its whole timer wheel for it: 0.1 s of CPU.
function Rpc:runtime()
    return self:read(28).table
end

return Rpc
