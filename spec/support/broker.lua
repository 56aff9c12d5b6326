-- Real RocketMQ brokers of any version, with the plugin or without, for specs and the demo:
--
--     local lab = broker.lab()
--     local master, slave = lab:pair { version = "5.5.0" }        name server, master and slave; in sync
--     master:rpc():create_topic "orders"
--     lab:close()
--
--     broker.lab { controller = true }                              a controller inside of the name server; it elects the masters
--
-- Everything is below one scratch directory and on free ports of 127.0.0.1. Waits are for conditions, with deadlines. Processes end
-- with the process that started them, however that ends. `make brokers jar` makes what is started here.
local json = require "spec.support.json"
local process = require "spec.support.process"
local Rpc = require "spec.support.rocketmq_rpc"
local Socket = require "spec.support.socket"

local BUILD = os.getenv("MS_BUILD") or "build/release"
local broker = { jar = BUILD .. "/rocketmq/metasync-rocketmq.jar", brokers = "build/brokers", ctl = BUILD .. "/metasyncctl" }

broker.PORT_OFFSET = 5 -- a node's port is its broker's port and this

-- Small, and quick to start: one compiler that compiles at once, one collector thread, no TLS (each broker would make a certificate).
local JAVA = { "java", "-Xms96m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=256m", "-Xshare:auto",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED", "-Dtls.server.mode=disabled" }

local function append(list, more)
    for _, word in ipairs(more or {}) do list[#list + 1] = word end
    return list
end

local function mkdir(path)
    assert(os.execute("mkdir -p " .. process.quote(path)) == 0)
end

-- ---- a process of Java: name server, broker, client ----------------------------------------------------------------------

local Java = {}
Java.__index = Java

local function java(lab, name, version)
    local one = { lab = lab, name = name, version = version, dir = lab.dir .. "/" .. name, starts = 0 }
    mkdir(one.dir)
    lab.all[#lab.all + 1] = one
    return one
end

-- The broker's RocksDB library as a file (`make brokers` takes it out of its jar): each start would write one of 12 MB, and one that is
-- killed would leave it.
local function library_path(version)
    local dir = ("%s/%s/native"):format(broker.brokers, version)
    return process.exists(dir .. "/librocksdbjni-linux64.so") and { "-Djava.library.path=" .. dir } or {}
end

-- What the JVM would parse and verify anew at each start (`make brokers` writes it for the versions that are started most). It is for
-- class paths that begin as the one it was made with: the broker's jars come first.
local function class_archive(version)
    local path = ("%s/%s/classes.jsa"):format(broker.brokers, version)
    return process.exists(path) and { "-XX:SharedArchiveFile=" .. path } or {}
end

-- more: what stands behind the broker's jars in the class path. self.wrap: words in front of the command.
function Java:launch(main, args, more)
    assert(not self:alive(), self.name .. " runs already")
    self:disconnect()
    self.starts = self.starts + 1
    self.out = ("%s/%s.%d.out"):format(self.dir, self.name, self.starts)
    local argv = append(append({}, self.wrap), JAVA)
    append(argv, { "-Duser.home=" .. self.dir, "-Drocketmq.home.dir=" .. self.dir, "-Djava.io.tmpdir=" .. self.dir })
    append(argv, class_archive(self.version))
    append(argv, library_path(self.version))
    append(argv, self.java)
    append(argv, { "-cp", table.concat(append({ ("%s/%s/lib/*"):format(broker.brokers, self.version) }, more), ":"), main })
    self.process = process.start(append(argv, args), self.out)
    self.running = true
    return self
end

function Java:alive()
    return self.process ~= nil and self.process:alive()
end

-- Waits until its port answers.
function Java:wait_port(seconds)
    process.eventually(self.name .. " listens", function()
        if not self:alive() then
            self.running = false
            error(("%s did not start:\n%s"):format(self.name, process.read(self.out) or ""), 0)
        end
        local rpc = Rpc.connect(self.port)
        if rpc then rpc:close() end
        return rpc ~= nil
    end, seconds or 60)
    return self
end

function Java:disconnect()
    if self.connection then self.connection:close() end
    self.connection = nil
end

-- One connection, kept.
function Java:rpc()
    if not self.connection then self.connection = assert(Rpc.connect(self.port)) end
    return self.connection
end

-- kill -9, and waits for the end.
function Java:kill()
    self.running = false
    self:disconnect()
    if self.process then self.process:destroy() end
    return self
end

-- SIGTERM: the broker writes its files, and takes about 15 seconds for its end, with the plugin or without.
function Java:terminate()
    self.running = false
    self:disconnect()
    self.process:kill(process.SIGTERM)
    return self
end

-- The same, and waits for the end.
function Java:stop(seconds)
    self:terminate()
    self.process:wait(seconds or 60)
    return self
end

-- What it has said since it was made, in its own log and on its output.
function Java:log_text()
    local text = {}
    for _, path in ipairs { self.dir .. "/logs/rocketmqlogs/broker.log", self.dir .. "/logs/rocketmqlogs/namesrv.log" } do
        text[#text + 1] = process.read(path) or ""
    end
    for n = 1, self.starts do text[#text + 1] = process.read(("%s/%s.%d.out"):format(self.dir, self.name, n)) or "" end
    return table.concat(text, "\n")
end

-- The lines of its log that have this text.
function Java:grep(text)
    local lines = {}
    for line in self:log_text():gmatch("[^\n]+") do
        if line:find(text, 1, true) then lines[#lines + 1] = line end
    end
    return lines
end

-- ---- a broker ------------------------------------------------------------------------------------------------------------

local Broker = setmetatable({}, { __index = Java })
Broker.__index = Broker

-- Timers are short where specs wait for them. Two services of a broker cost whole seconds of CPU in a small one: one spins until its first
-- interval is over (transactionMetricFlushInterval), one compares the whole timer wheel byte by byte each time (timerFlushIntervalMs).
local function configuration(self)
    local conf = {
        brokerClusterName = "lab", brokerName = self.group, brokerId = self.id, brokerRole = self.id == 0 and "ASYNC_MASTER" or "SLAVE",
        brokerIP1 = "127.0.0.1", brokerIP2 = "127.0.0.1", bindAddress = "127.0.0.1", namesrvAddr = self.lab.names_address,
        listenPort = self.port, haListenPort = self.port + 1,
        storePathRootDir = self.store, storePathCommitLog = self.store .. "/commitlog", storePathConsumeQueue = self.store .. "/consumequeue",
        mappedFileSizeCommitLog = 16777216, mappedFileSizeConsumeQueue = 600000, mappedFileSizeTimerLog = 1024000, maxMessageSize = 1048576,
        flushDiskType = "ASYNC_FLUSH", autoCreateTopicEnable = true, autoCreateSubscriptionGroup = true, timerWheelEnable = true,
        diskMaxUsedSpaceRatio = 98, transientStorePoolEnable = false, warmMapedFileEnable = false, flushConsumerOffsetInterval = 1000,
        registerNameServerPeriod = 10000, popCkStayBufferTime = 500, reviveInterval = 500, popFromRetryProbability = 0,
        transactionMetricFlushInterval = 200, timerFlushIntervalMs = 60000,
    }
    if self.lab.controller_address then -- what a broker is, it hears
        for name, value in pairs { enableControllerMode = true, controllerAddr = self.lab.controller_address, brokerId = -1, brokerRole = "SLAVE",
            syncBrokerMetadataPeriod = 1000, checkSyncStateSetPeriod = 1000, haSendHeartbeatInterval = 500 } do conf[name] = value end
    end
    for name, value in pairs(self.conf) do conf[name] = value end
    local lines = {}
    for name, value in pairs(conf) do lines[#lines + 1] = name .. "=" .. tostring(value) end
    table.sort(lines)
    return table.concat(lines, "\n") .. "\n"
end

-- The broker's configuration is one of those that the container's names.
local function container_configuration(self, conf)
    return ("listenPort=%d\nbindAddress=127.0.0.1\nnamesrvAddr=%s\nbrokerConfigPaths=%s\n"):format(process.free_port(), self.lab.names_address, conf)
end

-- Starts the JVM, waits for nothing. self.id says the role: 0 a master.
function Broker:begin()
    local main, conf = "org.apache.rocketmq.broker.BrokerStartup", self.dir .. "/broker.conf"
    local more = append({ self.plugin and broker.jar or nil }, { self.class_path })
    process.write(conf, configuration(self))
    if self.contained then
        main, more = "org.apache.rocketmq.container.BrokerContainerStartup", append(more, { broker.brokers .. "/container/*" })
        process.write(self.dir .. "/container.conf", container_configuration(self, conf))
        conf = self.dir .. "/container.conf"
    end
    self.java = append({}, self.options)
    return self:launch(main, { "-c", conf }, more)
end

-- Waits until the name server has it. A broker's first registration comes to nothing, without a word, if its connection to the name server is
-- not there yet, which is chance; the next one is 10 s later, and a slave does not know its master until then. Setting a permission, even to
-- what it is, makes it register.
function Broker:wait_registered()
    local ask_at = process.now() + 0.2
    process.eventually(self.name .. " is registered", function()
        local group = self.lab.names:rpc():brokers()[self.group]
        if group and group.brokerAddrs[tostring(self.id)] == self.address then return true end
        if process.now() > ask_at then
            self:rpc():configure("brokerPermission", 6)
            ask_at = process.now() + 1
        end
    end, 60)
    return self
end

function Broker:start(seconds)
    self:begin()
    self:wait_port(seconds)
    return self.lab.controller and self or self:wait_registered() -- with a controller it registers when it has a role
end

-- What it tells operators; {} if it does not answer.
function Broker:info()
    if not self.connection then
        self.connection = Rpc.connect(self.port)
        if not self.connection then return {} end
    end
    local ok, info = pcall(function() return self.connection:runtime() end)
    if ok then return info end
    self:disconnect()
    return {}
end

-- Waits until fn(info) is true.
function Broker:wait(what, fn, seconds)
    local info
    return process.eventually(self.name .. ": " .. what, function()
        info = self:info()
        return fn(info), json.encode(info)
    end, seconds or 30, 0.1)
end

-- Waits until its node says so, which costs less than to ask the broker.
function Broker:wait_node(what, fn, seconds)
    process.eventually(("%s: its node %s"):format(self.name, what), function()
        local ok, status = pcall(self.control, self, { command = "status" })
        return ok and fn(status), ok and json.encode(status) or status
    end, seconds or 30)
end

-- A slave that has everything, and has paused the broker's own sync. Not one that refuses its leader's history: that lags behind nothing.
function Broker:in_sync(seconds)
    self:wait_node("follows", function(status) return status.role == "follower" and status.following.state == "stream" end, seconds)
    self:wait("is in sync", function(info)
        return info.metasync_role == "follower" and info.metasync_link == "stream" and info.metasync_own_sync == "paused" and
            info.metasync_lag == "0"
    end, seconds)
    return self
end

function Broker:leads(seconds)
    self:wait_node("leads", function(status) return status.role == "leader" end, seconds)
    self:wait("leads", function(info) return info.metasync_role == "leader" end, seconds)
    return self
end

-- metasyncctl for this broker's node: output, exit status, errors.
function Broker:metasyncctl(...)
    return process.run(append({ broker.ctl, "--data", self.node }, { ... }))
end

-- One request to the node's control socket.
function Broker:control(request)
    local socket = assert(Socket.connect(self.node .. "/control.sock"))
    assert(socket:send(request))
    local reply = assert(socket:receive(60000))
    socket:close()
    return reply
end

-- All entries of the node's table; keys of two parts with "/" between them.
function Broker:entries(name)
    local reply = self:control { command = "ls", table = name, limit = 1000000 }
    if not reply.ok and reply.code == "MS_E_NOT_FOUND" then return {} end
    assert(reply.ok, reply.error)
    local all = {}
    for _, entry in ipairs(reply.entries) do
        all[(entry.key:gsub("%z", "/"))] = entry.value
    end
    return all
end

-- A file of the broker's store/config, decoded; nil if there is none.
function Broker:file(name)
    local text = process.read(self.store .. "/config/" .. name)
    return text and text ~= "" and Rpc.decode(text) or nil
end

-- ---- a lab ----------------------------------------------------------------------------------------------------------------

local Lab = {}
Lab.__index = Lab

local function names_configuration(lab)
    local dir, lines = lab.names.dir, {}
    local conf = { listenPort = lab.names.port, bindAddress = "127.0.0.1", kvConfigPath = dir .. "/kv.json", configStorePath = dir .. "/own.conf" }
    if lab.controller then
        for name, value in pairs { enableControllerInNamesrv = true, controllerDLegerGroup = "lab", controllerDLegerSelfId = "n0",
            controllerDLegerPeers = "n0-" .. lab.controller_address, controllerStorePath = dir .. "/controller",
            mappedFileSize = 4194304, scanNotActiveBrokerInterval = 1000, scanInactiveMasterInterval = 1000 } do conf[name] = value end
    end
    for name, value in pairs(conf) do lines[#lines + 1] = name .. "=" .. tostring(value) end
    return table.concat(lines, "\n") .. "\n"
end

-- A name server starts with it. given: version (of the name server, 5.5.0), controller (true: it has one).
function broker.lab(given)
    given = given or {}
    local lab = setmetatable({ dir = process.tmpdir("rmq"), all = {} }, Lab)
    local names = setmetatable(java(lab, "names", given.version or "5.5.0"), Java)
    names.port = process.free_port()
    lab.names, lab.names_address = names, "127.0.0.1:" .. names.port
    if given.controller then
        lab.controller = setmetatable({ port = process.free_port() }, Java)
        lab.controller_address = "127.0.0.1:" .. lab.controller.port
    end
    process.write(names.dir .. "/namesrv.conf", names_configuration(lab))
    names:launch("org.apache.rocketmq.namesrv.NamesrvStartup", { "-c", names.dir .. "/namesrv.conf" })
    local ok, why = pcall(function()
        names:wait_port()
        if lab.controller then lab:wait_controller() end
    end)
    if ok then return lab end
    lab:close(true)
    error(why, 0)
end

function Lab:wait_controller()
    process.eventually("the controller leads", function()
        assert(self.names:alive(), "the name server with the controller has ended")
        local ok, header = pcall(function() return self.controller:rpc():call(1005) end)
        if not ok then self.controller:disconnect() end
        return ok and header.extFields.isLeader == "true", tostring(header)
    end, 60)
end

-- What the controller says of this group of brokers: its master, its master epoch, who is in the SyncStateSet.
function Lab:elected(group)
    return self.controller:rpc():replicas(group or "broker-a")
end

-- Waits until the controller has all these brokers in the SyncStateSet: it elects nobody else.
function Lab:wait_in_sync_set(...)
    local wanted = { ... }
    process.eventually("the controller has all of them in the SyncStateSet", function()
        local known, names = self:elected(wanted[1].group), {}
        for _, replica in ipairs(known.inSyncReplicas) do names[replica.brokerAddress] = true end
        for _, one in ipairs(wanted) do
            if not names[one.address] then return false, one.name .. " is not: " .. broker.text(known) end
        end
        return true
    end, 60)
end

-- A broker that does not run yet. given: version, id (0), group (its broker name), plugin (true), conf, options (of the JVM), class_path,
-- wrap (words in front of its command), contained (in a BrokerContainer).
function Lab:broker(name, given)
    local one = setmetatable(java(self, name, given.version or "5.5.0"), Broker)
    one.id, one.group = given.id or 0, given.group or "broker-a"
    one.plugin = given.plugin ~= false
    one.conf, one.options, one.class_path, one.wrap = given.conf or {}, given.options, given.class_path, given.wrap
    one.contained = given.contained
    one.port = process.free_block { -2, 1, broker.PORT_OFFSET }
    one.address = "127.0.0.1:" .. one.port
    one.store = one.dir .. "/store"
    one.node, one.node_address = one.store .. "/metasync", "127.0.0.1:" .. one.port + broker.PORT_OFFSET
    mkdir(one.store)
    return one
end

-- Master and slave of one group, running; with the plugin: in sync. given: as for a broker; slave_version.
function Lab:pair(given)
    given = given or {}
    local group = given.group or "broker-a"
    local function make(suffix, id, version)
        return self:broker(group .. suffix, { version = version, id = id, group = group, plugin = given.plugin, conf = given.conf,
            options = given.options, wrap = given.wrap })
    end
    local master, slave = make("-m", 0, given.version), make("-s", 1, given.slave_version or given.version)
    master:start()
    if self.controller then -- the first one is elected
        process.eventually("a master is elected", function() return self:elected(group).masterAddress == master.address end, 60)
    end
    slave:start()
    if master.plugin then slave:in_sync(90) end
    if self.controller then self:wait_in_sync_set(master, slave) end
    return master, slave
end

-- Real clients (spec/rocketmq/java/Client.java): client:ask("send", "orders", 10). An error is one here too.
local Client = setmetatable({}, { __index = Java })
Client.__index = Client

function Lab:client()
    local client = setmetatable(java(self, "client", "5.5.0"), Client)
    client.port = process.free_port()
    client.java = { "-Drocketmq.client.rebalance.waitInterval=500" } -- a consumer gets its queues that soon
    client:launch("Client", { self.names_address, tostring(client.port) }, { broker.brokers .. "/client" })
    return client:wait_port()
end

function Client:ask(...)
    local words = {}
    for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
    local rpc = self:rpc()
    rpc:send(table.concat(words, "\t") .. "\n")
    local ok, rest = rpc:line(120):match("^(%S+) (.*)$")
    if ok ~= "ok" then error(("client, %s: %s"):format(table.concat(words, " "), rest), 2) end
    return rest
end

-- Those that died although nobody asked them to.
function Lab:casualties()
    local list = {}
    for _, one in ipairs(self.all) do
        if one.running and not one:alive() then list[#list + 1] = one.name .. " ended by itself" end
    end
    return table.concat(list, "; ")
end

-- Ends all processes. keep: leave the directory for a look, and show the ends of the brokers' logs.
function Lab:close(keep)
    local dead = self:casualties()
    for i = #self.all, 1, -1 do self.all[i]:kill() end
    if self.controller then self.controller:disconnect() end
    if keep or dead ~= "" then
        io.stderr:write(("kept for a look: %s\n"):format(self.dir))
        for _, one in ipairs(self.all) do
            local lines = one:grep("metasync")
            io.stderr:write(("---- %s\n%s\n"):format(one.name, table.concat(lines, "\n", math.max(1, #lines - 25))))
        end
    else
        os.execute("rm -rf " .. process.quote(self.dir))
    end
    if dead ~= "" and not keep then error(dead, 0) end
end

-- ---- comparing -------------------------------------------------------------------------------------------------------------

-- A value as text that is equal where the values are, whatever the order of keys.
function broker.text(value)
    if type(value) ~= "table" or getmetatable(value) ~= nil or #value > 0 then return json.encode(value) end
    local keys, parts = {}, {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys)
    for i, key in ipairs(keys) do parts[i] = json.encode(key) .. ":" .. broker.text(value[key]) end
    return "{" .. table.concat(parts, ",") .. "}"
end

-- The first difference of two maps of decoded values, as a sentence; nil if there is none.
function broker.difference(a, b, what)
    for key, value in pairs(a) do
        local here, there = broker.text(value), b[key] ~= nil and broker.text(b[key]) or "nothing"
        if here ~= there then return ("%s %s: %s on one, %s on the other"):format(what, key, here, there) end
    end
    for key, value in pairs(b) do
        if a[key] == nil then return ("%s %s: nothing on one, %s on the other"):format(what, key, broker.text(value)) end
    end
end

return broker
