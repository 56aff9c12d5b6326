-- Nodes that are real metasyncd processes, for specs and the demo:
--
--     it("replicates", cluster.test(function(c)
--         local leader, follower = c:node "a", c:node "b"
--         leader:start { "--lead" }
--         follower:start { "--follow", leader.address }
--         leader:put("topic", "orders", "{}")
--         c:equal(leader, follower)
--     end))
--
-- Waits are for conditions, with deadlines. When a test fails its directory stays, and its name and the ends of the nodes' logs are
-- printed. MS_BUILD names the directory of the binaries (build/release).
local json = require "spec.support.json"
local process = require "spec.support.process"
local Socket = require "spec.support.socket"

local cluster = { build = os.getenv("MS_BUILD") or "build/release" }

-- ---- a node -------------------------------------------------------------------------------------------------------------

local Node = {}
Node.__index = Node

local function append(list, more)
    for _, word in ipairs(more or {}) do list[#list + 1] = word end
    return list
end

-- Starts the daemon without waiting for anything. `args` says the role: { "--lead" }. self.wrap: words in front of the command.
function Node:launch(args)
    assert(not self.process or not self.process:alive(), self.name .. " runs already")
    self:disconnect()
    self.starts = self.starts + 1
    self.log = ("%s/%s.%d.log"):format(self.cluster.dir, self.name, self.starts)
    local argv = append({}, self.wrap)
    append(argv, { cluster.build .. "/metasyncd", "--data", self.data, "--name", self.name })
    if self.listen then append(argv, { "--listen", self.listen }) end
    append(argv, self.cluster.args)
    append(argv, self.args)
    append(argv, args)
    self.process = process.start(argv, self.log)
    self.running = true
    return self
end

function Node:log_text()
    return self.log and process.read(self.log) or ""
end

-- Launches it and waits until it is ready to serve.
function Node:start(args, seconds)
    self:launch(args)
    process.eventually(self.name .. " is ready", function()
        if self:log_text():find("ready: port", 1, true) then return true end
        if not self.process:alive() then
            self.running = false
            error(("%s did not start (exit status %s, signal %s):\n%s"):format(self.name, tostring(self.process.code),
                tostring(self.process.signal), self:log_text()), 0)
        end
    end, seconds or 20)
    return self
end

function Node:alive()
    return self.process ~= nil and self.process:alive()
end

-- kill -9, and waits for the end.
function Node:kill()
    self.running = false
    self.process:destroy()
    return self
end

-- SIGTERM, and expects a clean end.
function Node:stop(seconds)
    self.running = false
    self.process:kill(process.SIGTERM)
    local code, signal = self.process:wait(seconds or 20)
    if code ~= 0 then
        error(("%s did not end cleanly: exit status %s, signal %s"):format(self.name, tostring(code), tostring(signal)), 2)
    end
    return self
end

-- For a daemon that is expected to end by itself: its exit status.
function Node:exit_status(seconds)
    self.running = false
    return (self.process:wait(seconds or 20))
end

function Node:disconnect()
    if self.socket then self.socket:close() end
    self.socket = nil
end

-- One request, one reply (decoded; also a refusal). nil and why, if the node does not answer.
function Node:call(request, seconds)
    if type(request) == "string" then request = { command = request } end
    if not self.socket then
        local socket, why = Socket.connect(self.control)
        if not socket then return nil, why end
        self.socket = socket
    end
    local reply, why
    if self.socket:send(request) then reply, why = self.socket:receive((seconds or 60) * 1000) else why = "closed" end
    if not reply then self:disconnect() end
    return reply, why
end

-- The same where anything but "ok" is an error.
function Node:must(request, seconds)
    local reply, why = self:call(request, seconds)
    if not reply or not reply.ok then
        error(("%s: %s: %s"):format(self.name, json.encode(request), reply and json.encode(reply) or why), 2)
    end
    return reply
end

function Node:status()
    return self:must "status"
end

-- Waits until fn(status) is true (the status is returned); a node that does not answer counts as false.
function Node:wait(what, fn, seconds)
    local last
    return process.eventually(self.name .. ": " .. what, function()
        local status = self:call("status", 5)
        last = status and json.encode(status) or "no answer"
        return status and status.ok and fn(status) and status, last
    end, seconds or 20)
end

-- value: a string, a number or int64 cdata; key: a string, or { key, field }.
function Node:put(name, key, value)
    return self:must { command = "put", table = name, key = key, value = value }
end

function Node:delete(name, key)
    return self:must { command = "delete", table = name, key = key }
end

-- { { table =, key =, value = (nil deletes) }, ... }
function Node:batch(writes)
    return self:must { command = "put-batch", writes = json.array(writes) }
end

-- nil if there is no such entry or table.
function Node:get(name, key)
    local reply = assert(self:call { command = "get", table = name, key = key })
    if not reply.ok and reply.code == "MS_E_NOT_FOUND" then return nil end
    assert(reply.ok, reply.error)
    return reply.value
end

-- All entries of a table by key (a NUL between key and field); values that are no text or number as JSON.
function Node:entries(name)
    local reply = assert(self:call({ command = "ls", table = name, limit = 100000000 }, 120))
    if not reply.ok and reply.code == "MS_E_NOT_FOUND" then return {} end
    assert(reply.ok, reply.error)
    local all = {}
    for _, entry in ipairs(reply.entries) do
        local key, value = entry.key, entry.value
        all[type(key) == "table" and json.encode(key) or key] = type(value) == "table" and json.encode(value) or value
    end
    return all
end

-- metasyncctl for this node: output, exit status, errors.
function Node:ctl(...)
    return process.run(append({ cluster.build .. "/metasyncctl", "--data", self.data }, { ... }))
end

-- metasyncctl without a node: output, exit status, errors.
function cluster.ctl(...)
    return process.run(append({ cluster.build .. "/metasyncctl" }, { ... }))
end

-- Builds spec/support/NAME.c and has this node preload it, with these words of its environment (NAME=VALUE).
function Node:preload(name, environment)
    self.wrap = append(process.preload(name, self.cluster.dir), environment)
    return self
end

-- ---- a cluster ----------------------------------------------------------------------------------------------------------

local Cluster = {}
Cluster.__index = Cluster

-- args: options for every node.
function cluster.new(args, name)
    return setmetatable({ dir = process.tmpdir(name or "e2e"), args = args or {}, nodes = {} }, Cluster)
end

-- A node that does not run yet. args: options of it alone.
function Cluster:node(name, args)
    local port = process.free_port()
    local address = "127.0.0.1:" .. port
    local data = self.dir .. "/" .. name
    local node = setmetatable({ cluster = self, name = name, args = args or {}, port = port, address = address, listen = address,
        data = data, control = data .. "/control.sock", starts = 0 }, Node)
    self.nodes[#self.nodes + 1] = node
    return node
end

-- A leader and a follower that stream and are counted in sync.
function Cluster:pair(args)
    local leader, follower = self:node("a", args), self:node("b", args)
    leader:start { "--lead" }
    follower:start { "--follow", leader.address }
    follower:wait("streams", function(s) return s.following.state == "stream" end)
    return leader, follower
end

local function digests(status)
    local map = {}
    for _, t in ipairs(status.tables) do map[t.name] = ("%d entries, digest %s"):format(t.logged_entries, t.digest) end
    return map
end

local function difference(a, b)
    for name, digest in pairs(a) do
        if b[name] ~= digest then return ("%s: %s here, %s there"):format(name, digest, tostring(b[name])) end
    end
    for name in pairs(b) do
        if not a[name] then return name .. ": only there" end
    end
end

-- Flushes the leader, waits until both are at one position of one history, and compares count and digest of every table. Returns the
-- leader's status.
function Cluster.equal(_, leader, follower, seconds)
    leader:must "flush"
    local a, b
    process.eventually(("%s and %s are at one position"):format(leader.name, follower.name), function()
        a, b = leader:status(), follower:call "status"
        return b and b.ok and a.log.head == b.applied and a.epoch.id == b.epoch.id,
            ("%s at %d, %s at %s"):format(leader.name, a.log.head, follower.name, b and b.applied or "?")
    end, seconds or 30)
    local what = difference(digests(a), digests(b))
    if what then error(("at position %d %s and %s differ: %s"):format(a.log.head, leader.name, follower.name, what), 2) end
    return a
end

-- The nodes that died although nobody asked them to.
local function casualties(self)
    local list = {}
    for _, node in ipairs(self.nodes) do
        if node.running and not node.process:alive() then
            list[#list + 1] = ("%s ended by itself: exit status %s, signal %s"):format(node.name, tostring(node.process.code),
                tostring(node.process.signal))
        end
    end
    return table.concat(list, "; ")
end

function Cluster:show_logs()
    for _, node in ipairs(self.nodes) do
        if node.log then
            local lines = {}
            for line in node:log_text():gmatch("[^\n]+") do lines[#lines + 1] = line end
            io.stderr:write(("---- %s\n%s\n"):format(node.log, table.concat(lines, "\n", math.max(1, #lines - 25))))
        end
    end
end

-- Ends all processes. keep: leave the directory for a look.
function Cluster:close(keep)
    local dead = casualties(self)
    for _, node in ipairs(self.nodes) do
        node:disconnect()
        if node.process then node.process:destroy() end
    end
    if self.on_close then self.on_close() end
    if keep or dead ~= "" then
        io.stderr:write(("kept for a look: %s\n"):format(self.dir))
        self:show_logs()
    else
        os.execute("rm -rf " .. process.quote(self.dir))
    end
    if dead ~= "" and not keep then error(dead, 0) end
end

-- A function for busted's `it`: fn gets a cluster that is closed afterwards, whatever happens.
function cluster.test(fn, args)
    return function()
        local c = cluster.new(args)
        local ok, why = pcall(fn, c)
        c:close(not ok)
        if not ok then error(why, 0) end
    end
end

return cluster
