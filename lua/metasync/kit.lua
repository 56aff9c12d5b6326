-- The test kit: your policy, and a small cluster in virtual time to try it on. For busted specs and for plain LuaJIT scripts.
--
--     local kit = require "metasync.kit"
--     local k = kit.new { policy = "my-policy.lua", nodes = 2 }    -- n0 leads, the others follow
--     k:put("offset", "group1@orders", 100)
--     k:advance "200ms"                                            -- the policy's os.time moves with it
--     k:expect_logged { table = "offset", key = "group1@orders", value = 100 }
--     k:expect_value(1, "offset", "group1@orders", 100)            -- the follower has it
--     k:close()
--
-- Underneath is metasync's own simulator (docs/simulator.md): the engine, tables, log and recovery of a real node over a clock, a network
-- and disks that do not exist. It checks all its promises after every step, so that a test ends with an error when one is broken. Equal
-- seeds and policies give equal runs.
--
-- The library libmetasync-kit.so is looked for in this order: the path in METASYNC_KIT; beside the folder of this file (lua/metasync/ in
-- the source tree: build/release/; installed: PREFIX/lib/); the system's library path.
--
-- Everywhere: nodes are numbers from 0, and the leader where none is named; a key is a string, or { key, field }; values of int64 tables
-- are numbers (int64_t beyond 2^53); times are as in a policy, "200ms", "3s", "5m", or a number
-- of seconds; times that come back are seconds since kit.new returned.
local ffi = require "ffi"
local nearest = require("metasync.check").nearest
local json = require "metasync.kit_json"
local units = require "metasync.units"

local kit = {}

-- ---- the library -------------------------------------------------------------------------------------------------------

-- metasync's own specs have declared everything already.
local declared = pcall(ffi.sizeof, "struct ms_kit_entry")
if not declared then ffi.cdef "const char *ms_kit_declarations(void);" end

local function candidates()
    local list = {}
    local named = os.getenv "METASYNC_KIT"
    if named then return { named } end
    local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$"
    if here then
        list[#list + 1] = here .. "/../../build/release/libmetasync-kit.so" -- lua/metasync/kit.lua of the source tree
        list[#list + 1] = here .. "/../../../../lib/libmetasync-kit.so"     -- PREFIX/share/metasync/lua/metasync/kit.lua
    end
    list[#list + 1] = "libmetasync-kit.so"
    return list
end

local function load_library()
    local why = {}
    for _, path in ipairs(candidates()) do
        local ok, library = pcall(ffi.load, path)
        if ok then return library end
        why[#why + 1] = tostring(library)
    end
    error("metasync.kit finds no libmetasync-kit.so (set METASYNC_KIT to its path):\n    " .. table.concat(why, "\n    "), 0)
end

local C = load_library()
if not declared then ffi.cdef(ffi.string(C.ms_kit_declarations())) end

local LEVELS = { memory = 1, os = 2, disk = 3, replica = 4 }
local INT64, LOCAL, AGAIN = 2, 1, -30
local CUTS = { refused = 1, silent = 2 }

-- ---- values ------------------------------------------------------------------------------------------------------------

local function microseconds(time, level)
    local us, expected = units.duration(time)
    if not us then error(("a time is %s, not %s"):format(expected, tostring(time)), level + 1) end
    return us
end

local function key_bytes(key, level)
    if type(key) == "string" then return key end
    if type(key) == "table" and type(key[1]) == "string" and type(key[2]) == "string" then return key[1] .. "\0" .. key[2] end
    error("a key is a string or { key, field }, not " .. type(key), level + 1)
end

local function split_key(bytes)
    local at = bytes:find("\0", 1, true)
    if not at then return bytes end
    return bytes:sub(1, at - 1), bytes:sub(at + 1)
end

local function printable(value)
    if value == nil then return "nothing" end
    if type(value) ~= "string" then return (tostring(value):gsub("LL$", "")) end
    local text = value:gsub("[%c\128-\255]", function(c) return ("\\x%02x"):format(c:byte()) end)
    return '"' .. (#text > 120 and text:sub(1, 120) .. "..." or text) .. '"'
end

local function key_text(bytes)
    local key, field = split_key(bytes)
    return field and ("{ %s, %s }"):format(printable(key), printable(field)) or printable(key)
end

local number_box = ffi.new "int64_t[1]"

local function encode(value, value_type, table_name, level)
    if value == nil then return nil end
    if value_type ~= INT64 then
        if type(value) ~= "string" then
            error(('table %s holds bytes: give a string, or say type = "int64" in the policy, or :table(name, "int64")'):format(table_name),
                level + 1)
        end
        return value
    end
    if type(value) == "string" then return value end -- the 8 bytes themselves
    number_box[0] = value
    return ffi.string(number_box, 8)
end

local function decode(bytes, value_type)
    if value_type ~= INT64 or not bytes or #bytes ~= 8 then return bytes end
    ffi.copy(number_box, bytes, 8)
    local number = number_box[0]
    if number >= -9007199254740992LL and number <= 9007199254740992LL then return tonumber(number) end
    return number
end

local function same(a, b)
    if type(a) == "cdata" or type(b) == "cdata" then return type(a) ~= "string" and type(b) ~= "string" and a ~= nil and b ~= nil and a == b end
    return a == b
end

-- ---- errors ------------------------------------------------------------------------------------------------------------

local function message(rc)
    return ("%s: %s"):format(ffi.string(C.ms_error_text(rc)), ffi.string(C.ms_error_message()))
end

local function check(rc, level)
    rc = tonumber(rc)
    if rc < 0 then error(message(rc), level + 1) end
    return rc
end

local OPTIONS = { "policy", "nodes", "seed", "start" }
local LOGGED = { "table", "key", "field", "value", "op", "node" }
local LOGGED_SOON = { "within", unpack(LOGGED) }
local RESOLVED = { "table", "key", "field", "outcome", "by", "reason", "mine", "theirs", "value", "node" }

-- A name that nobody looks at would make a test that can't fail.
local function only(given, names, what, level)
    for name in pairs(given) do
        local known = false
        for _, candidate in ipairs(names) do known = known or candidate == name end
        if not known then
            local near = nearest(name, names)
            error(("%s has no %s; %s"):format(what, tostring(name), near and "did you mean " .. near .. "?" or
                "there are " .. table.concat(names, ", ")), level + 1)
        end
    end
end

-- ---- life --------------------------------------------------------------------------------------------------------------

local Kit = {}
Kit.__index = Kit

-- A policy's path. Text of a policy (it has more than one line, or a "return") goes through a file.
local function with_policy_file(policy, use)
    if not policy:find "\n" and not policy:find "^%s*return%f[%W]" then return use(policy) end
    local reserved = os.tmpname()
    local path = reserved .. "-policy.lua"
    local file = assert(io.open(path, "wb"))
    file:write(policy)
    file:close()
    local rc = use(path)
    os.remove(path)
    os.remove(reserved)
    return rc
end

local function set_policy(self, policy, node, level)
    local first, last = node or 0, node or self.nodes - 1
    for index = first, last do
        if policy then check(with_policy_file(policy, function(path) return C.ms_kit_policy(self.sim, index, path) end), level + 1)
        else check(C.ms_kit_policy(self.sim, index, nil), level + 1) end
    end
    self.tables = {} -- types may be others
end

-- options: policy (a file's path, or its text; nil: the built-in one), nodes (2), seed (1), start = false leaves all nodes down.
function kit.new(options)
    options = options or {}
    only(options, OPTIONS, "kit.new", 2)
    local nodes = options.nodes or 2
    local sim = C.ms_kit_new(options.seed or 1, nodes)
    if sim == nil then error("metasync.kit: " .. ffi.string(C.ms_error_message()), 2) end
    local self = setmetatable({ sim = ffi.gc(sim, C.ms_sim_free), nodes = nodes, leader = 0, tables = {}, puts = {}, locals = {} }, Kit)
    self.began = tonumber(C.ms_sim_now(sim))
    if options.policy then set_policy(self, options.policy, nil, 2) end
    if options.start == false then return self end
    self:lead(0)
    for node = 1, nodes - 1 do self:follow(node) end
    for node = 1, nodes - 1 do self:await(function() return C.ms_kit_in_sync(self.sim, node) end, "10s", "n" .. node .. " is in sync") end
    self:settle()
    self.began = tonumber(C.ms_sim_now(sim))
    return self
end

-- Frees the simulation (so does the garbage collector).
function Kit:close()
    if self.sim then C.ms_sim_free(ffi.gc(self.sim, nil)) end
    self.sim = nil
end

-- Blocks of memory that the library holds: 0 once all kits are closed.
function kit.live() return tonumber(C.ms_mem_live()) end

-- The last few thousand events as text: what happened.
function Kit:trace() return ffi.string(C.ms_sim_trace(self.sim)) end

-- Of everything that happened: equal for equal runs.
function Kit:fingerprint() return (tostring(C.ms_sim_hash(self.sim)):gsub("ULL$", "")) end

-- ---- time --------------------------------------------------------------------------------------------------------------

-- A moment of the simulation (microseconds) as seconds since kit.new returned.
local function seconds(self, moment) return (tonumber(moment) - self.began) / 1e6 end

function Kit:now() return seconds(self, C.ms_sim_now(self.sim)) end

function Kit:advance(time) check(C.ms_sim_run(self.sim, microseconds(time, 2)), 2) end

-- Runs until fn returns a true value, which is returned; an error after `time` ("10s").
function Kit:await(fn, time, what)
    local deadline = tonumber(C.ms_sim_now(self.sim)) + microseconds(time or "10s", 2)
    while true do
        local result = fn()
        if result then return result end
        if tonumber(C.ms_sim_now(self.sim)) > deadline then error(("not within %s: %s"):format(time or "10s", what or "the condition"), 2) end
        check(C.ms_sim_step(self.sim, 1), 2)
    end
end

-- Until all running nodes are equal to the leader.
function Kit:settle(time) check(C.ms_sim_settle(self.sim, self.leader, microseconds(time or "30s", 2)), 2) end

-- ---- nodes and network -------------------------------------------------------------------------------------------------

function Kit:start(node) check(C.ms_sim_start(self.sim, node), 2) end
function Kit:stop(node) check(C.ms_sim_stop(self.sim, node), 2) end
function Kit:kill(node) check(C.ms_sim_kill(self.sim, node), 2) end             -- kill -9
function Kit:power_loss(node) check(C.ms_sim_power_loss(self.sim, node), 2) end -- what was not synced may be gone
function Kit:wipe(node) check(C.ms_sim_wipe(self.sim, node), 2) end             -- an empty disk, for a node that is down
function Kit:role(node) return ffi.string(C.ms_kit_role(self.sim, node)) end

local function await_leader(self, node)
    self:await(function() return self:role(node) == "leader" end, "60s", "n" .. node .. " leads")
    self.leader = node
end

-- Starts the node if it is down, has it lead and waits until it does.
function Kit:lead(node)
    if not C.ms_sim_up(self.sim, node) then self:start(node) end
    check(C.ms_sim_lead(self.sim, node, true), 2)
    await_leader(self, node)
end

-- A leader of a new reign, as after the loss of the old one.
function Kit:promote(node)
    check(C.ms_sim_promote(self.sim, node), 2)
    await_leader(self, node)
end

-- Starts the node if it is down, has it follow and returns at once.
function Kit:follow(node, leader)
    if not C.ms_sim_up(self.sim, node) then self:start(node) end
    check(C.ms_sim_follow(self.sim, node, leader or self.leader), 2)
end

function Kit:adopt(node) check(C.ms_sim_adopt(self.sim, node), 2) end

-- how: "refused" (resets) or "silent" (everything vanishes).
function Kit:cut(a, b, how) check(C.ms_sim_cut(self.sim, a, b, CUTS[how or "refused"] or error("how to cut: refused or silent", 2)), 2) end
function Kit:heal(a, b) check(C.ms_sim_heal(self.sim, a, b), 2) end

-- ---- policies ----------------------------------------------------------------------------------------------------------

-- Another policy for one node, or for all of them: at once; entries that it leaves out leave while time passes (:reviewed waits for it). It
-- counts nothing beforehand and refuses nothing, as `metasyncctl policy reload --force`. An error leaves the policies as they are.
function Kit:reload(policy, node) set_policy(self, policy, node, 2) end

-- Waits until the leader has looked at all its entries after a reload.
function Kit:reviewed(time)
    self:await(function() return not C.ms_sim_reviewing(self.sim, self.leader) end, time or "60s", "the review has ended")
end

-- How many calls of the policy's functions have failed on a node, and what is known of them: a list of { name = "filter", incidents =,
-- calls =, quarantined =, message =, file =, line = (of the last one) }.
function Kit:incidents(node)
    node = node or self.leader
    local text = C.ms_kit_describe(self.sim, node)
    if text == nil then return 0, {} end
    local described = json.decode(ffi.string(text))
    C.ms_free(text)
    local list = {}
    for _, fn in ipairs(described.functions or {}) do
        local last = fn.last or {}
        list[#list + 1] = { name = fn.name, table = fn.table, calls = fn.calls, incidents = fn.incidents, quarantined = fn.quarantined,
            message = last.message, file = last.file, line = last.line }
    end
    return tonumber(C.ms_kit_incidents(self.sim, node)), list
end

-- ---- writing and reading -----------------------------------------------------------------------------------------------

-- Makes a table known, with its value type ("bytes" or "int64"; default: what the policy says, else bytes). put does it too.
function Kit:table(name, value_type)
    local known = self.tables[name]
    if known and not value_type then return known end
    local number = value_type == "int64" and INT64 or value_type == "bytes" and 1 or 0
    local id = check(C.ms_kit_table(self.sim, self.leader, name, number), 2)
    self.tables[name] = { id = id, type = tonumber(C.ms_kit_type(self.sim, id)) }
    return self.tables[name]
end

local lsn, level = ffi.new "uint64_t[1]", ffi.new "int[1]"

local function try_put(self, table_name, key, value, node, depth)
    local known = self:table(table_name)
    local bytes, encoded = key_bytes(key, depth + 1), encode(value, known.type, table_name, depth + 1)
    node = node or self.leader
    local name, field = split_key(bytes)
    local noted = { time = self:now(), node = node, table = table_name, bytes = bytes, key = name, field = field, value = value }
    for _ = 1, 100000 do
        local rc = tonumber(C.ms_kit_put(self.sim, node, known.id, bytes, #bytes, encoded, encoded and #encoded or 0, lsn, level))
        if rc == LOCAL then
            self.locals[#self.locals + 1] = noted
            return "local"
        elseif rc == 0 then
            self.puts[#self.puts + 1] = noted
            return level[0] == 0 and "buffered" or "logged", tonumber(lsn[0])
        elseif rc ~= AGAIN then
            return nil, ffi.string(C.ms_error_text(rc)), ffi.string(C.ms_error_message())
        end
        check(C.ms_sim_step(self.sim, 1), depth + 1)
    end
    error("no progress", depth + 1)
end

-- Puts a value (nil deletes). Returns "logged", "buffered" or "local" (out of the policy's view: not replicated), and the lsn; or nil and why
-- it was refused, in two texts.
function Kit:try_put(table_name, key, value, node) return try_put(self, table_name, key, value, node, 2) end

-- The same; a refusal is an error.
function Kit:put(table_name, key, value, node)
    local outcome, at, why = try_put(self, table_name, key, value, node, 2)
    if not outcome then error(("put %s in %s: %s: %s"):format(key_text(key_bytes(key, 2)), table_name, at, why), 2) end
    return outcome, at
end

function Kit:delete(table_name, key, node)
    local outcome, at, why = try_put(self, table_name, key, nil, node, 2)
    if not outcome then error(("delete %s in %s: %s: %s"):format(key_text(key_bytes(key, 2)), table_name, at, why), 2) end
    return outcome, at
end

-- Logs what is buffered.
function Kit:flush(node) check(C.ms_sim_flush(self.sim, node or self.leader), 2) end

-- Waits until the lsn of a put has got as far as "memory", "os", "disk" or "replica".
function Kit:reached(at, name, node)
    local number = LEVELS[name] or error("a level is memory, os, disk or replica", 2)
    self:await(function() return check(C.ms_kit_reached(self.sim, node or self.leader, at, number), 4) == 1 end, "30s",
        "lsn " .. at .. " at " .. name)
end

local size = ffi.new "size_t[1]"

-- What readers of a node see; nil if there is no entry.
function Kit:get(table_name, key, node)
    local known, bytes = self:table(table_name), key_bytes(key, 2)
    local data = C.ms_kit_get(self.sim, node or self.leader, known.id, bytes, #bytes, size)
    if data == nil then return nil end
    return decode(ffi.string(data, size[0]), known.type)
end

-- ---- what happened -----------------------------------------------------------------------------------------------------

local entry = ffi.new "struct ms_kit_entry"

-- The changes in a node's log: a list of { lsn =, time = (when it was logged), op = "put" "delete" "leave", table =, key =, field =,
-- value = }.
function Kit:log(node)
    node = node or self.leader
    local list = {}
    for at = 1, tonumber(C.ms_kit_head(self.sim, node)) do
        if check(C.ms_kit_logged(self.sim, node, at, entry), 2) == 1 then
            local bytes = ffi.string(entry.key, entry.key_size)
            local key, field = split_key(bytes)
            local value = entry.value ~= nil and decode(ffi.string(entry.value, entry.value_size), tonumber(entry.type)) or nil
            list[#list + 1] = { lsn = at, time = seconds(self, entry.at), op = ffi.string(entry.op),
                table = ffi.string(entry.table), bytes = bytes, key = key, field = field, value = value }
        end
    end
    return list
end

-- What a follower was sent and has in its log by now.
function Kit:sent(node) return self:log(node) end

-- Writes that the policy kept out of the log: { time =, node =, table =, key =, field =, value = }.
function Kit:dropped() return self.locals end

-- Conflicts that were decided: { time =, node = (whose change it was), table =, key =, field =, reason = "deposed" "buffered",
-- base =, mine =, theirs =, outcome = "theirs" "mine" "value" "delete" "equal" "kept" "unresolved", value =, by =, lsn = }. From the loss
-- reports of all nodes, or of one.
function Kit:resolved(node)
    local list = {}
    for index = node or 0, node or self.nodes - 1 do
        local text = C.ms_kit_losses(self.sim, index)
        if text == nil then error(ffi.string(C.ms_error_message()), 2) end
        for line in ffi.string(text):gmatch "[^\n]+" do
            local loss = json.decode(line)
            for _, name in ipairs { "key", "field", "base", "mine", "theirs", "value" } do loss[name] = json.bytes(loss[name]) end
            loss.node, loss.time = index, seconds(self, loss.time_us - 1700000000000000)
            loss.bytes = loss.key and (loss.field and loss.key .. "\0" .. loss.field or loss.key)
            list[#list + 1] = loss
        end
        C.ms_free(text)
    end
    return list
end

local entries, risk_bytes = ffi.new "uint64_t[1]", ffi.new "uint64_t[1]"

-- Entries and bytes of a buffered table that are not logged yet.
function Kit:at_risk(table_name, node)
    check(C.ms_kit_at_risk(self.sim, node or self.leader, self:table(table_name).id, entries, risk_bytes), 2)
    return tonumber(entries[0]), tonumber(risk_bytes[0])
end

-- ---- what has to have happened: each is an error with what did happen ----------------------------------------------------

local function describe(change)
    local text = ("%s %s in %s"):format(change.op or "put", key_text(change.bytes), change.table)
    if change.value ~= nil then text = text .. " = " .. printable(change.value) end
    return change.time and ("%s at %gs"):format(text, change.time) or text
end

local function list_text(list, table_name)
    local lines = {}
    for _, change in ipairs(list) do
        if not table_name or change.table == table_name then lines[#lines + 1] = "    " .. describe(change) end
    end
    if #lines == 0 then return "    nothing" end
    if #lines > 20 then lines = { "    ...", unpack(lines, #lines - 19) } end
    return table.concat(lines, "\n")
end

local function fits(change, wanted, bytes)
    return (not wanted.table or change.table == wanted.table) and (not bytes or change.bytes == bytes) and
        (not wanted.op or change.op == wanted.op) and (wanted.value == nil or same(change.value, wanted.value))
end

local function wanted_text(wanted, bytes)
    local text = ("%s %s in %s"):format(wanted.op or "put", bytes and key_text(bytes) or "any key", wanted.table or "any table")
    return wanted.value ~= nil and text .. " = " .. printable(wanted.value) or text
end

local function last_put(self, wanted, bytes, before)
    for i = #self.puts, 1, -1 do
        local put = self.puts[i]
        if put.time <= before and fits(put, { table = wanted.table, value = wanted.value }, bytes) then return put end
    end
end

local function find_logged(self, wanted, level)
    local bytes = wanted.key ~= nil and key_bytes(wanted.field and { wanted.key, wanted.field } or wanted.key, level + 1) or nil
    local log = self:log(wanted.node)
    for i = #log, 1, -1 do
        if fits(log[i], wanted, bytes) then return log[i], bytes, log end
    end
    return nil, bytes, log
end

-- { table =, key =, field =, value =, op =, node =, within = }: what is given has to fit a change in the log, which is returned (the newest).
-- within: at most so long after it was put.
function Kit:expect_logged(wanted)
    only(wanted, LOGGED_SOON, "expect_logged", 2)
    local found, bytes, log = find_logged(self, wanted, 2)
    if not found then
        error(("not logged: %s\n  the log has:\n%s"):format(wanted_text(wanted, bytes), list_text(log, wanted.table)), 2)
    end
    local put = wanted.within and last_put(self, wanted, bytes, found.time)
    local took = put and math.floor((found.time - put.time) * 1e6 + 0.5) -- whole microseconds again: differences of seconds are not exact
    if took and took > microseconds(wanted.within, 2) then
        error(("logged late: %s, %s after it was put (within %s was wanted)"):format(describe(found), units.duration_text(took), wanted.within), 2)
    end
    return found
end

function Kit:expect_not_logged(wanted)
    only(wanted, LOGGED, "expect_not_logged", 2)
    local found, bytes = find_logged(self, wanted, 2)
    if found then error(("logged, but should not be: %s (%s)"):format(wanted_text(wanted, bytes), describe(found)), 2) end
end

-- { table =, key =, field =, outcome =, by =, reason =, mine =, theirs =, value =, node = }: what is given has to fit a conflict that was
-- decided, which is returned (the newest).
function Kit:expect_resolved(wanted)
    only(wanted, RESOLVED, "expect_resolved", 2)
    local bytes = wanted.key ~= nil and key_bytes(wanted.field and { wanted.key, wanted.field } or wanted.key, 2) or nil
    local list = self:resolved(wanted.node)
    for i = #list, 1, -1 do
        local fits_all = not bytes or list[i].bytes == bytes
        for _, name in ipairs { "table", "outcome", "by", "reason", "mine", "theirs", "value" } do
            fits_all = fits_all and (wanted[name] == nil or same(list[i][name], wanted[name]))
        end
        if fits_all then return list[i] end
    end
    local lines = {}
    for _, loss in ipairs(list) do
        lines[#lines + 1] = ("    %s in %s: mine %s, theirs %s: %s by %s"):format(loss.bytes and key_text(loss.bytes) or "?", loss.table or "?",
            printable(loss.mine), printable(loss.theirs), loss.outcome, loss.by or "nobody")
    end
    error("no such conflict was decided; these were:\n" .. (#lines > 0 and table.concat(lines, "\n") or "    none"), 2)
end

-- So many changes of a table are in the log.
function Kit:expect_log_count(table_name, count)
    local log, found = self:log(), 0
    for _, change in ipairs(log) do found = found + (change.table == table_name and 1 or 0) end
    if found ~= count then
        error(("%d changes of %s are in the log instead of %d:\n%s"):format(found, table_name, count, list_text(log, table_name)), 2)
    end
end

-- No call of the policy's functions has failed, on any node.
function Kit:expect_no_incidents()
    for node = 0, self.nodes - 1 do
        local count, list = self:incidents(node)
        for _, fn in ipairs(list) do
            if fn.incidents > 0 then
                error(("n%d: %d calls of %s failed; the last: %s (%s:%s)"):format(node, fn.incidents, fn.name, fn.message or "?", fn.file or "?",
                    fn.line or "?"), 2)
            end
        end
        if count > 0 then error(("n%d: %d calls of the policy failed"):format(node, count), 2) end
    end
end

-- This entry was written, and stayed on its node.
function Kit:expect_local(table_name, key)
    local bytes, written = key_bytes(key, 2), false
    for _, change in ipairs(self.locals) do written = written or (change.table == table_name and change.bytes == bytes) end
    local found = find_logged(self, { table = table_name, key = key }, 2)
    if found then error(("logged, but should be local: %s"):format(describe(found)), 2) end
    if not written then
        error(("no write of %s in %s was kept local; these were:\n%s"):format(key_text(bytes), table_name, list_text(self.locals)), 2)
    end
end

-- Readers of the node see this value (nil: no entry).
function Kit:expect_value(node, table_name, key, value)
    local found = self:get(table_name, key, node)
    if not same(found, value) then
        error(("n%d has %s for %s in %s instead of %s"):format(node, printable(found), key_text(key_bytes(key, 2)), table_name, printable(value)), 2)
    end
end

return kit
