-- Directed scenarios on simulated nodes (core/sim/sim.h): a few verbs, each of which stops the spec when a promise is broken.
--
--     local s = simkit.new { nodes = 3 }
--     s:lead(0)                                   -- starts it if need be and waits until it leads
--     s:follow(1, 0)                              -- starts it if need be
--     local lsn = s:put(0, "disk", "key", "value")
--     s:reached(0, lsn, "disk")                   -- waits
--     s:settle(0)                                 -- all running nodes are equal to n0
--     assert.equal("value", s:get(1, "disk", "key"))
--
-- after_each(simkit.free_all) frees the simulations and wants that no memory is left over.
local ms = require "spec.support.ms"
local seam = require "spec.support.seam"
local C, ffi = ms.C, ms.ffi

local simkit = {}

local TABLES = { memory = C.MS_SIM_MEMORY, os = C.MS_SIM_OS, disk = C.MS_SIM_DISK, replica = C.MS_SIM_REPLICA,
    offset = C.MS_SIM_OFFSET, count = C.MS_SIM_COUNT }
local LEVELS = { memory = C.MS_LEVEL_MEMORY, os = C.MS_LEVEL_OS, disk = C.MS_LEVEL_DISK, replica = C.MS_LEVEL_REPLICA }
local ROLES = { [0] = "idle", "asking", "opening", "leader", "follower" }
local FOLLOW = { [0] = "off", "wait", "connect", "archive", "snapshot", "switch", "stream", "refused" }
local CUTS = { ok = C.MS_SIM_WIRE_OK, refused = C.MS_SIM_WIRE_REFUSED, silent = C.MS_SIM_WIRE_SILENT }

local Sim = {}
Sim.__index = Sim

local open, live

-- options: nodes (3), seed (1), has_host, policy = a table of fields to change in ms_sim_policy's, resolve = resolvers by table.
function simkit.new(options)
    options = options or {}
    if not open then open, live = {}, ms.live() end
    local o = ffi.new "struct ms_sim_options"
    o.nodes, o.random, o.has_host = options.nodes or 3, false, options.has_host or false
    local policy = ffi.new "struct ms_policy"
    C.ms_sim_policy(policy)
    for field, value in pairs(options.policy or {}) do policy[field] = value end
    for i = 0, policy.table_count - 1 do
        policy.tables[i].resolver = (options.resolve or {})[ffi.string(policy.tables[i].name)] or policy.tables[i].resolver
    end
    o.policy = policy
    local sim = C.ms_sim_new(options.seed or 1, o)
    assert(sim ~= nil, ms.err())
    local s = setmetatable({ sim = sim, nodes = o.nodes }, Sim)
    open[#open + 1] = s
    return s
end

function simkit.free_all()
    for _, s in ipairs(open or {}) do
        if os.getenv "MS_SIM_TRACE" then io.stderr:write(ffi.string(C.ms_sim_trace(s.sim))) end
        C.ms_sim_free(s.sim)
        s.sim = nil
    end
    if open and ms.live() ~= live then error(("%d blocks of memory are left over"):format(ms.live() - live)) end
    open = nil
end

-- Raises an error unless rc is 0, or the code that is allowed to come instead. Returns rc.
local function check(rc, allowed)
    if rc >= 0 or rc == allowed then return tonumber(rc) end
    error(("%s: %s"):format(ms.code(rc), ms.err()), 3)
end

-- ---- time ------------------------------------------------------------------------------------------------------------

function Sim:now() return tonumber(C.ms_sim_now(self.sim)) / 1000 end -- milliseconds
function Sim:run(milliseconds) check(C.ms_sim_run(self.sim, milliseconds * 1000)) end
function Sim:step(n) check(C.ms_sim_step(self.sim, n or 1)) end

-- Runs until fn returns a true value, which is returned; an error after so many (virtual) milliseconds.
function Sim:await(fn, milliseconds, what)
    local deadline = self:now() + (milliseconds or 5000)
    while true do
        local result = fn()
        if result then return result end
        if self:now() > deadline then error("not within the time: " .. (what or "the condition"), 2) end
        self:step()
    end
end

function Sim:settle(leader, milliseconds)
    local rc = C.ms_sim_settle(self.sim, leader, (milliseconds or 10000) * 1000)
    if rc < 0 then error(("%s: %s"):format(ms.code(rc), ms.err()), 2) end
end

-- ---- life and roles --------------------------------------------------------------------------------------------------

function Sim:up(node) return C.ms_sim_up(self.sim, node) end
function Sim:start(node) return check(C.ms_sim_start(self.sim, node)) end
function Sim:stop(node) check(C.ms_sim_stop(self.sim, node)) end
function Sim:kill(node) check(C.ms_sim_kill(self.sim, node)) end
function Sim:power_loss(node) check(C.ms_sim_power_loss(self.sim, node)) end
function Sim:wipe(node) check(C.ms_sim_wipe(self.sim, node)) end
function Sim:tampered(node) check(C.ms_sim_tampered(self.sim, node)) end

function Sim:engine(node) return C.ms_sim_engine(self.sim, node) end
function Sim:role(node) return self:up(node) and ROLES[self:engine(node).role] or "down" end
function Sim:following(node) return self:up(node) and FOLLOW[self:engine(node).follow.state] or "down" end
function Sim:result(node) return tonumber(self:engine(node).result) end

function Sim:await_role(node, role, milliseconds)
    self:await(function() return self:role(node) == role end, milliseconds, ("n%d is %s"):format(node, role))
end

function Sim:await_following(node, state, milliseconds)
    self:await(function() return self:following(node) == state end, milliseconds, ("n%d follows: %s"):format(node, state))
end

-- Without `wait` being false, returns when it leads.
function Sim:lead(node, ask, wait)
    if not self:up(node) then self:start(node) end
    check(C.ms_sim_lead(self.sim, node, ask ~= false))
    if wait ~= false then self:await_role(node, "leader") end
end

-- Has a node lead that lost its history, until its followers refuse it. They may depose it first: its epoch has the same
-- number as theirs and a random id. A second start has a higher one.
function Sim:lead_without_history(node, followers)
    local function refused()
        for _, follower in ipairs(followers) do
            if self:following(follower) ~= "refused" then return false end
        end
        return true
    end
    for _ = 1, 3 do
        self:lead(node, false, false)
        self:await(function() return self:result(node) == C.MS_E_DEPOSED or (self:role(node) == "leader" and refused()) end)
        if self:role(node) == "leader" then return end
        self:kill(node)
    end
    error("it is deposed again and again", 2)
end

function Sim:follow(node, leader)
    if not self:up(node) then self:start(node) end
    check(C.ms_sim_follow(self.sim, node, leader))
end

function Sim:promote(node)
    check(C.ms_sim_promote(self.sim, node))
    self:await_role(node, "leader")
end

-- By an election that counts terms.
function Sim:promote_to(node, least_reign)
    check(C.ms_sim_promote_to(self.sim, node, least_reign))
    self:await_role(node, "leader")
end

function Sim:adopt(node) check(C.ms_sim_adopt(self.sim, node)) end
function Sim:try_promote(node) return tonumber(C.ms_sim_promote(self.sim, node)) end
function Sim:try_lead(node) return tonumber(C.ms_sim_lead(self.sim, node, true)) end

-- n0 leads, the others follow, everything is quiet.
function Sim:begin()
    self:lead(0)
    for node = 1, self.nodes - 1 do self:follow(node, 0) end
    self:settle(0)
    for node = 1, self.nodes - 1 do
        self:await(function() return self:engine(node).follow.in_sync end, 1000, "n" .. node .. " is in sync")
    end
end

-- ---- writing and reading -----------------------------------------------------------------------------------------------

-- MS_E_AGAIN means "wait for progress": so does this. Returns the lsn, or nil and the code of a refusal.
function Sim:try_put(node, table_name, key, value)
    local lsn, level = ffi.new "uint64_t[1]", ffi.new "int[1]"
    local key_bytes, value_bytes = ms.bytes(key), ms.bytes(value)
    for _ = 1, 100000 do
        local rc = C.ms_sim_put(self.sim, node, TABLES[table_name], key_bytes, value_bytes, lsn, level)
        if rc == 0 then return lsn[0], level[0] end
        if rc == C.MS_E_DAMAGED then error(ms.err(), 2) end
        if rc ~= C.MS_E_AGAIN then return nil, tonumber(rc) end
        self:step()
    end
    error("no progress", 2)
end

function Sim:put(node, table_name, key, value)
    local lsn, level = self:try_put(node, table_name, key, value)
    if not lsn then error(("%s: %s"):format(ms.code(level), ms.err()), 2) end
    return lsn, level
end

function Sim:delete(node, table_name, key) return self:put(node, table_name, key, nil) end

-- A number of an int64 table.
function simkit.int64(number)
    local bytes = ffi.new "uint8_t[8]"
    C.ms_int64_put(number, bytes)
    return ffi.string(bytes, 8)
end

-- writes: a list of { table, key, value or nil }
function Sim:batch(node, writes)
    local made, anchors = ffi.new("struct ms_sim_write[?]", #writes), {}
    for i, write in ipairs(writes) do
        local key, value = ms.bytes(write[2]), ms.bytes(write[3])
        anchors[i] = { key, value }
        made[i - 1].table, made[i - 1].key, made[i - 1].value = TABLES[write[1]], key, value
    end
    local lsn, level = ffi.new "uint64_t[1]", ffi.new "int[1]"
    local rc
    repeat
        rc = C.ms_sim_batch(self.sim, node, made, #writes, lsn, level)
        if rc == C.MS_E_AGAIN then self:step() end
    until rc ~= C.MS_E_AGAIN
    check(rc)
    return lsn[0], #anchors > 0 and level[0]
end

function Sim:flush(node) check(C.ms_sim_flush(self.sim, node)) end

function Sim:get(node, table_name, key) return ms.str(C.ms_sim_get(self.sim, node, TABLES[table_name], ms.bytes(key))) end

-- How far a node's log got: head, written, synced, replicated, applied as numbers.
function Sim:position(node)
    local p = ffi.new "struct ms_position"
    C.ms_engine_position(self:engine(node), p)
    local result = {}
    for _, name in ipairs { "reign", "run", "head", "written", "synced", "replicated", "applied", "host_applied", "leader_head" } do
        result[name] = tonumber(p[name])
    end
    return result
end

function Sim:reached(node, lsn, level, milliseconds)
    local id = C.ms_lineage_last(self:engine(node).store.lineage).id
    return self:await(function()
        local rc = tonumber(C.ms_engine_reached(self:engine(node), lsn, LEVELS[level], id))
        if rc < 0 then error(("%s: %s"):format(ms.code(rc), ms.err()), 4) end
        return rc == 1
    end, milliseconds, ("lsn %d reaches %s"):format(tonumber(lsn), level))
end

function Sim:equal(a, b) return C.ms_sim_equal(self.sim, a, b) end
function Sim:spoil(node, table_name, key, value)
    check(C.ms_sim_spoil(self.sim, node, TABLES[table_name], ms.bytes(key), ms.bytes(value)))
end

-- ---- network and disk ----------------------------------------------------------------------------------------------------

function Sim:wire(a, b) return C.ms_sim_wire(self.sim, a, b) end
function Sim:cut(a, b, how) check(C.ms_sim_cut(self.sim, a, b, CUTS[how or "refused"])) end
function Sim:heal(a, b) check(C.ms_sim_heal(self.sim, a, b)) end
function Sim:fs(node) return C.ms_sim_fs_of(self.sim, node) end
function Sim:disk(node) return seam.new(C.ms_sim_fs(self:fs(node))) end -- verbs on its files; see seam.lua

-- The path of the live generation of a node that is down.
function Sim:generation(node) return "data/" .. self:disk(node):get("data/current"):gsub("%s", "") end

-- Names in the live generation that begin with `prefix`, sorted.
function Sim:files(node, prefix)
    local found = {}
    for _, name in ipairs(self:disk(node):list(self:generation(node))) do
        if name:sub(1, #prefix) == prefix then found[#found + 1] = name end
    end
    return found
end

-- All archived texts of a node, joined.
function Sim:archive(node)
    local disk, texts = self:disk(node), {}
    if disk:try_list("data/archive") ~= 0 then return "" end
    for _, name in ipairs(disk:list("data/archive")) do texts[#texts + 1] = disk:get("data/archive/" .. name) end
    return table.concat(texts)
end

-- ---- what happened ---------------------------------------------------------------------------------------------------------

function Sim:count(name) return tonumber(C.ms_sim_counts(self.sim)[name]) end
function Sim:counter(node, name) return tonumber(self:engine(node).counters[name]) end

-- Calls fn and returns by how much the count has risen meanwhile.
function Sim:rise(name, fn)
    local before = self:count(name)
    fn()
    return self:count(name) - before
end

-- As put, but waits while there is no space for the log, or nobody in sync.
function Sim:insist(node, table_name, key, value)
    return self:await(function() return (self:try_put(node, table_name, key, value)) end, 10000, "a put is taken")
end

-- Fills the leader's log: `count` puts of `size` bytes each, of keys prefix .. 1 to prefix .. count.
function Sim:fill(node, prefix, count, size, table_name)
    local lsn
    for i = 1, count do lsn = self:insist(node, table_name or "os", prefix .. i, i .. ":" .. ("x"):rep(size)) end
    return lsn
end

return simkit
