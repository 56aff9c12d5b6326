-- A load of writes on a leader's control socket: several connections, each with one change on its way, so that what may be in a table
-- after a crash is known exactly: the last acknowledged state of a key, or the one that was on its way.
local Socket = require "spec.support.socket"
local process = require "spec.support.process"

local Load = {}
Load.__index = Load

local ABSENT = false

-- tables: names to spread keys over; each connection has `keys` keys of its own in each.
function Load.new(tables, connections, keys)
    local load = { tables = tables, keys = keys or 20, clients = {}, number = 0, acknowledged = 0 }
    for i = 1, connections or 4 do load.clients[i] = { id = i, known = {} } end
    for _, client in ipairs(load.clients) do
        for _, name in ipairs(tables) do client.known[name] = {} end
    end
    return setmetatable(load, Load)
end

function Load:connect(node)
    for _, client in ipairs(self.clients) do
        if client.socket then client.socket:close() end
        client.socket = assert(Socket.connect(node.control))
        client.flying = nil
    end
end

-- The next change of a client: mostly a put of a new number, sometimes a delete.
function Load:send(client)
    self.number = self.number + 1
    local name = self.tables[math.random(#self.tables)]
    local key = ("c%d-%d"):format(client.id, math.random(self.keys))
    local value = math.random(8) == 1 and ABSENT or self.number
    client.flying = { name = name, key = key, value = value }
    return client.socket:send(value and { command = "put", table = name, key = key, value = value }
        or { command = "delete", table = name, key = key })
end

-- Takes a reply if there is one. false when the node is gone.
function Load:receive(client, timeout_ms)
    local reply, why = client.socket:receive(timeout_ms)
    if not reply then return why == "timeout" end
    local change = client.flying
    -- A delete in a table that was never made says so, which is as good.
    if reply.ok or (reply.code == "MS_E_NOT_FOUND" and change.value == ABSENT) then
        client.known[change.name][change.key] = change.value
        self.acknowledged = self.acknowledged + 1
        client.flying = nil
        return true
    end
    self.refused = reply.code
    return false
end

-- Keeps the clients busy for so long. Returns false early if the node refuses or is gone.
function Load:run(seconds)
    local deadline = process.now() + seconds
    while process.now() < deadline do
        for _, client in ipairs(self.clients) do
            if not client.flying and not self:send(client) then return false end
            if not self:receive(client, 1) then return false end
        end
    end
    return true
end

-- After a kill: answers that were sent before it count.
function Load:drain()
    for _, client in ipairs(self.clients) do
        while client.flying and self:receive(client, 1000) do end -- luacheck: ignore 542
    end
end

-- No more changes; those on their way are waited for.
function Load:finish(seconds)
    for _, client in ipairs(self.clients) do
        if client.flying then assert(self:receive(client, (seconds or 20) * 1000), "a change was not answered") end
        assert(not client.flying, "a change was not answered in time")
    end
end

-- Compares the leader's tables with what was acknowledged; raises an error that names the first key that is wrong. What is found becomes
-- the known state: a change that was on its way has happened or it has not.
function Load:check(leader)
    for _, name in ipairs(self.tables) do
        local found = leader:entries(name)
        for _, client in ipairs(self.clients) do
            local flying = client.flying and client.flying.name == name and client.flying or {}
            for i = 1, self.keys do
                local key = ("c%d-%d"):format(client.id, i)
                local here, known = found[key] or ABSENT, client.known[name][key] or ABSENT
                if here ~= known and not (flying.key == key and flying.value == here) then
                    error(("%s %s is %s, but %s was acknowledged"):format(name, key, tostring(here), tostring(known)), 2)
                end
                client.known[name][key] = here
            end
        end
    end
    for _, client in ipairs(self.clients) do client.flying = nil end
end

function Load:close()
    for _, client in ipairs(self.clients) do
        if client.socket then client.socket:close() end
    end
end

return Load
