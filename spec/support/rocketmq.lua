-- For specs of plugins/standalone/rocketmq: rows as Lua tables, a store of tables in Lua behind the seam of tables.h, and the real
-- files in spec/data/rocketmq.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

-- C functions that call back into Lua may not be called from compiled code.
if jit then jit.off(true, true) end

local rmq = { data = "spec/data/rocketmq/" }

rmq.TOPICS, rmq.GROUPS, rmq.OFFSETS, rmq.DELAYS, rmq.MODES, rmq.MAPPINGS, rmq.ORDERS, rmq.TIMERS = 0, 1, 2, 3, 4, 5, 6, 7
rmq.NAMES = { [0] = "topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json", "messageRequestMode.json",
    "topicQueueMapping.json", "consumerOrderInfo.json", "timermetrics" }
rmq.ALWAYS = 3 -- the last that is always exported
rmq.DIRS = { "master", "master-5.4.0", "master-nopull", "master-rich", "slave", "slave-5.4.0", "slave-rich" }
rmq.VERSIONS = { "4.5.2", "4.9.4", "5.1.4", "5.3.3", "5.4.0", "5.5.0" }

local INT64 = {}
for table_id = 0, C.MS_ROCKETMQ_TABLES - 1 do
    INT64[ffi.string(C.ms_rocketmq_table_names[table_id])] = C.ms_rocketmq_table_type(table_id) == C.MS_TYPE_INT64
end

-- An int64 value as exact decimal text, so that tables of rows can be compared and read.
function rmq.int64(bytes)
    local number = ffi.new("int64_t[1]")
    ffi.copy(number, bytes, 8)
    return ms.dec(number[0])
end

function rmq.bytes8(number)
    return ffi.string(ffi.new("int64_t[1]", number), 8)
end

-- struct ms_rows -> { ["table/key/field"] = "value" }; NULs in keys show as "/", integers as decimal text.
function rmq.rows(rows)
    local all = {}
    for i = 0, tonumber(rows.count) - 1 do
        local row = rows.list + i
        local name = ffi.string(C.ms_rocketmq_table_names[row.table])
        local value = ms.str(C.ms_row_value(rows, row))
        all[name .. "/" .. ms.str(C.ms_row_key(rows, row)):gsub("%z", "/")] = INT64[name] and rmq.int64(value) or value
    end
    return all
end

function rmq.count(map)
    local n = 0
    for _ in pairs(map) do n = n + 1 end
    return n
end

-- Text of a file -> rows as above and the version (nil: none); or nil and the message.
function rmq.parse(file, text, name)
    local rows = ffi.gc(ffi.new("struct ms_rows"), C.ms_rows_close)
    local version = ffi.new("struct ms_rocketmq_version")
    local bytes = ms.bytes(text)
    local rc = C.ms_rocketmq_parse(file, name or rmq.NAMES[file], bytes, rows, version)
    if rc ~= 0 then
        assert(rows.count == 0, "a refused text left rows behind")
        return nil, ms.err(), rc
    end
    return rmq.rows(rows), version.known and version or nil, rows
end

-- The composed text of one file.
function rmq.compose(rows, file)
    local text = ms.buf()
    local rc = C.ms_rocketmq_compose(rows, file, text)
    if rc ~= 0 then return nil, ms.err(), rc end
    return ms.buf_str(text)
end

-- Which file a real file's name means.
function rmq.file_of(path)
    local name = path:match("[^/]*$")
    for file = rmq.MODES, rmq.TIMERS do
        if name == rmq.NAMES[file] then return file end
    end
    if name:find("opics") then return rmq.TOPICS end
    if name:find("ubscription") then return rmq.GROUPS end
    if name:find("elay") then return rmq.DELAYS end
    return rmq.OFFSETS
end

function rmq.list(pattern)
    local paths = {}
    for path in ms.sh("ls " .. pattern):gmatch("[^\n]+") do paths[#paths + 1] = path end
    assert(#paths > 0, "no files: " .. pattern)
    return paths
end

-- A directory with these files: { ["topics.json"] = text, ... }.
function rmq.directory(files)
    local dir = ms.tmpdir()
    for name, text in pairs(files) do ms.write_file(dir .. "/" .. name, text) end
    return dir
end

-- Sets the modification time: seconds since 1970.
function rmq.touch(path, seconds)
    assert(select(2, ms.sh(("touch -d @%d '%s'"):format(seconds, path))) == 0)
end

-- ---- a store of tables -------------------------------------------------------------------------------------------------

-- The log of a real store in small: writes to a buffered table change the value at once and are logged by the next flush.
-- store:crash() goes back to what was logged. store.stop_after = n lets n more calls of write and flush pass.
local Store = {}
Store.__index = Store

function rmq.store(buffered)
    local store = { tables = {}, logged = {}, dirty = {}, writes = 0, calls = 0, waits = 0, walks = {}, buffered = {} }
    for _, name in ipairs(buffered or { "offset", "pull_offset", "reset_offset", "lmq_offset", "delay_offset" }) do
        store.buffered[name] = true
    end
    return setmetatable(store, Store)
end

function Store:get(name, key)
    return self.tables[name] and self.tables[name][key]
end

local function set(tables, name, key, value)
    tables[name] = tables[name] or {}
    tables[name][key] = value
end

-- A write by somebody else.
function Store:put(name, key, value)
    set(self.tables, name, key, value)
    set(self.logged, name, key, value)
end

function Store:crash()
    self.dirty = {}
    self.tables = {}
    for name, entries in pairs(self.logged) do
        for key, value in pairs(entries) do set(self.tables, name, key, value) end
    end
    self.stop_after = nil
end

function Store:stopped()
    self.calls = self.calls + 1
    if not self.stop_after then return false end
    self.stop_after = self.stop_after - 1
    return self.stop_after < 0
end

function Store:write(writes, count)
    if self:stopped() then return C.MS_E_IO end
    for i = 0, count - 1 do
        local w = writes[i]
        local name, key, value = ffi.string(w.table), ms.str(w.key), ms.str(w.value)
        assert(w.type == (INT64[name] and C.MS_TYPE_INT64 or C.MS_TYPE_BYTES), "type of " .. name)
        assert(value == nil or not INT64[name] or #value == 8)
        self.writes = self.writes + 1
        set(self.tables, name, key, value)
        if self.buffered[name] then self.dirty[#self.dirty + 1] = { name, key } else set(self.logged, name, key, value) end
    end
    return 0
end

function Store:flush()
    if self:stopped() then return C.MS_E_IO end
    for _, entry in ipairs(self.dirty) do set(self.logged, entry[1], entry[2], self:get(entry[1], entry[2])) end
    self.dirty = {}
    return 0
end

-- As rmq.rows.
function Store:rows()
    local all = {}
    for name, entries in pairs(self.tables) do
        if INT64[name] ~= nil then
            for key, value in pairs(entries) do all[name .. "/" .. key:gsub("%z", "/")] = INT64[name] and rmq.int64(value) or value end
        end
    end
    return all
end

-- One set of callbacks for all stores: LuaJIT has few slots.
local current, failure
local seam = ffi.new("struct ms_rocketmq_tables")

local function guarded(fn)
    return function(...)
        local ok, result = pcall(fn, ...)
        if ok then return result end
        failure = failure or result
        return C.MS_E_INVALID
    end
end

seam.walk = guarded(function(_, name, fn, context)
    local keys = {}
    current.walks[#current.walks + 1] = ffi.string(name)
    for key in pairs(current.tables[ffi.string(name)] or {}) do keys[#keys + 1] = key end
    for _, key in ipairs(keys) do
        local key_bytes, value_bytes = ms.bytes(key), ms.bytes(current:get(ffi.string(name), key))
        local rc = fn(context, key_bytes, value_bytes)
        if rc ~= 0 then return rc end
    end
    return 0
end)
seam.get = guarded(function(_, name, key, value)
    local found = current:get(ffi.string(name), ms.str(key))
    if not found then return C.MS_E_NOT_FOUND end
    C.ms_buf_add(value, found, #found)
    return value.failed and C.MS_E_MEMORY or 0
end)
seam.is_buffered = function(_, name) return current.buffered[ffi.string(name)] or false end
seam.write = guarded(function(_, writes, count) return current:write(writes, tonumber(count)) end)
seam.flush = guarded(function() return current:flush() end)
seam.wait = guarded(function()
    current.waits = current.waits + 1
    return 0
end)

-- Runs fn(seam) with store behind the seam; errors raised in callbacks come out here.
function rmq.with(store, fn)
    current, failure = store, nil
    local result = fn(seam)
    if failure then error(failure, 0) end
    return result
end

-- Imports dir into the store. Returns the decoded report, rc and the message.
function rmq.import(store, dir, options)
    local report = ffi.new("struct ms_rocketmq_report")
    local c_options = ffi.new("struct ms_rocketmq_import_options", { list_max = 100, timeout_ms = 1000 })
    for name, value in pairs(options or {}) do c_options[name] = value end
    local rc = rmq.with(store, function(tables)
        return C.ms_rocketmq_import(tables, C.ms_fs_posix(), dir, c_options, report)
    end)
    local message = rc ~= 0 and ms.err() or nil
    local text = rmq.report(report)
    C.ms_rocketmq_report_close(report)
    return text, rc, message
end

-- The report's JSON, and its files as { ["topics.json"] = { put = 3, ... } } beside it.
function rmq.report(report)
    local json = ffi.new("char *[1]")
    if C.ms_rocketmq_report_json(report, json) ~= 0 then return nil end
    local decoded = { text = ms.take(json[0]) }
    for i = 0, #rmq.NAMES do
        local f = report.files[i]
        decoded[rmq.NAMES[i]] = { source = ffi.string(C.ms_rocketmq_origin_names[f.origin]), rows = tonumber(f.rows), put = tonumber(f.put),
            deleted = tonumber(f.deleted), unchanged = tonumber(f.unchanged), differing = tonumber(f.differing), skipped = f.skipped,
            reason = ffi.string(f.reason), trouble = ffi.string(f.trouble) }
    end
    return decoded
end

function rmq.export(store, fs, dir, report)
    local rc = rmq.with(store, function(tables) return C.ms_rocketmq_export(tables, fs, dir, report) end)
    return rc, rc ~= 0 and ms.err() or nil
end

return rmq
