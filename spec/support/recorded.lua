-- Recorded change logs with times of one's choice, as one segment file, for replays.
--
--     local log = recorded.new()
--     log:group(0, recorded.table(1, "topic"), recorded.put(1, "a", "1"))       -- milliseconds
--     log:group(50, recorded.delete(1, "a"))
--     log:write(dir)                                                            -- a data directory with one live generation
local ms = require "spec.support.ms"
local kit = require "spec.support.statekit"
local C, ffi = ms.C, ms.ffi

local recorded = { START_US = 1700000000000000 } -- real time of millisecond 0

local Log = {}
Log.__index = Log

-- first: the lsn that it begins with (1).
function recorded.new(first)
    return setmetatable({ first = first or 1, next = first or 1, parts = {} }, Log)
end

function recorded.table(id, name, type) return kit.define(id, name, type == "int64" and C.MS_TYPE_INT64 or C.MS_TYPE_BYTES) end
function recorded.put(id, key, value)
    if type(value) == "number" then value = kit.u64(value) end
    return kit.put(key, value, id)
end
function recorded.delete(id, key) return kit.delete(key, id) end
function recorded.leave(id, key) return kit.leave(key, id) end
recorded.epoch = kit.epoch

local header = ffi.new "struct ms_group_header"

function Log:group(milliseconds, ...)
    local changes, bytes = { ... }, {}
    for i, change in ipairs(changes) do bytes[i] = change.bytes end
    local body = table.concat(bytes)
    ffi.fill(header, ffi.sizeof(header))
    header.body_size, header.count, header.first, header.time_us = #body, #changes, self.next, recorded.START_US + milliseconds * 1000
    local size = tonumber(C.ms_group_size(#body))
    local group = ffi.new("uint8_t[?]", size)
    ffi.copy(group + C.MS_GROUP_HEADER, body, #body)
    C.ms_group_seal(group, header)
    self.parts[#self.parts + 1] = ffi.string(group, size)
    self.next = self.next + #changes
end

function Log:write(dir)
    local head = "MSLOG01\n" .. kit.u64(1) .. kit.u64(self.first)
    os.execute(("mkdir -p '%s/gen-000001' '%s/archive'"):format(dir, dir))
    ms.write_file(dir .. "/current", "gen-000001\n")
    local groups = table.concat(self.parts)
    local rest = math.max(65536 - #groups, 4096)
    ms.write_file(dir .. "/gen-000001/log-0000000000000001", head .. kit.u64(C.ms_hash(head, #head)) .. groups .. ("\0"):rep(rest))
end

-- A snapshot that ends before the log begins: tables = { { id, name, type, { key = value } } }.
function Log:snapshot(dir, tables)
    local store = kit.store()
    local changes = { kit.epoch(1, 1, 77) }
    for _, t in ipairs(tables) do
        changes[#changes + 1] = recorded.table(t[1], t[2], t[3])
        for key, value in pairs(t[4]) do changes[#changes + 1] = recorded.put(t[1], key, value) end
    end
    assert(kit.fold(store, changes) == 0, ms.err())
    self.first = self.first + #changes
    self.next = self.first
    os.execute(("mkdir -p '%s/gen-000001'"):format(dir))
    local out, fs, generation = ffi.new "struct ms_snapshot_writer *[1]", C.ms_fs_posix(), dir .. "/gen-000001"
    ms.check(C.ms_snapshot_new(fs, generation, ms.bytes "spec", 5, 4096, out))
    ms.check(C.ms_snapshot_start(out[0], store))
    while ms.check(C.ms_snapshot_walk(out[0], store, 65536)) == 1 do ms.check(C.ms_snapshot_write(out[0])) end
    ms.check(C.ms_snapshot_write(out[0]))
    ms.check(C.ms_snapshot_cut(out[0], store))
    while ms.check(C.ms_snapshot_copy_log(out[0], generation, 65536)) == 1 do end
    ms.check(C.ms_snapshot_finish(out[0]))
    C.ms_snapshot_free(out[0])
end

return recorded
