-- Logs, snapshots and stores for specs, with a stupid model beside them.
--
--     local h = kit.history()                       -- what was written so far: groups, and the tables at each lsn
--     local log = kit.open(disk, "d", h)            -- ms_log_open into a new store; nil, code, message if it fails
--     log:write { kit.put("a", "1"), kit.delete "b" }      -- one group; the model follows
--     log:sync()
--     assert.same(h:tables(), kit.tables(log.store))
--
-- Records are encoded here, in Lua, and not with the library's functions.
local ms = require "spec.support.ms"
local bit = require "bit"
local C, ffi = ms.C, ms.ffi

local kit = {}

-- ---- records ---------------------------------------------------------------------------------------------------------

function kit.varint(n)
    n = tonumber(n)
    local out = {}
    while n >= 128 do
        out[#out + 1] = string.char(n % 128 + 128)
        n = math.floor(n / 128)
    end
    return table.concat(out) .. string.char(n)
end

function kit.u64(n)
    local bytes = ffi.new("uint64_t[1]", n)
    return ffi.string(bytes, 8)
end

function kit.u32(n) return kit.u64(n):sub(1, 4) end

function kit.record(type, payload) return string.char(type) .. kit.varint(#payload) .. payload end

local function change(op, id, key, value)
    local payload = kit.varint(id) .. kit.varint(#key) .. key .. (value or "")
    return { op = op, table = id, key = key, value = value, bytes = kit.record(op, payload) }
end

function kit.put(key, value, id) return change(1, id or 1, key, value) end
function kit.delete(key, id) return change(2, id or 1, key) end
function kit.leave(key, id) return change(3, id or 1, key) end

function kit.define(id, name, type)
    return { op = 4, table = id, name = name, bytes = kit.record(4, kit.varint(id) .. string.char(type or 1) .. name) }
end

function kit.epoch(reign, run, id)
    return { op = 5, bytes = kit.record(5, kit.varint(reign) .. kit.varint(run) .. kit.u64(id)) }
end

-- Any record, known or not.
function kit.raw(type, payload) return { op = type, bytes = kit.record(type, payload) } end

local function body_of(changes)
    local parts = {}
    for n, c in ipairs(changes) do parts[n] = c.bytes end
    return table.concat(parts)
end

-- A sealed group as a string.
function kit.group(changes, first, options)
    options = options or {}
    local body = type(changes) == "string" and changes or body_of(changes)
    local header = ffi.new("struct ms_group_header", {
        flags = options.flags or 0, body_size = #body, count = options.count or #changes, first = first, synced = options.synced or 0,
    })
    local size = tonumber(C.ms_group_size(#body))
    local bytes = ffi.new("uint8_t[?]", size)
    ffi.copy(bytes + C.MS_GROUP_HEADER, body, #body)
    C.ms_group_seal(bytes, header)
    return ffi.string(bytes, size)
end

-- A sealed, not yet finished block with one reference.
function kit.block(changes, first)
    local body = body_of(changes)
    local block = C.ms_block_new(C.MS_GROUP_HEADER + #body + 8)
    assert(block ~= nil, "out of memory")
    ffi.copy(block.data + C.MS_GROUP_HEADER, body, #body)
    block.first, block.last = first, first + #changes - 1
    block.count, block.body_size = #changes, #body
    block.size = C.ms_group_size(#body)
    return block
end

-- Bytes that a group of these changes takes.
function kit.size(changes) return tonumber(C.ms_group_size(#body_of(changes))) end

-- ---- stores ----------------------------------------------------------------------------------------------------------

local stores = setmetatable({}, { __mode = "k" })

-- An empty store, closed when it is collected, or by kit.free_all.
function kit.store()
    local store = ffi.new "struct ms_store"
    ms.check(C.ms_store_init(store))
    stores[store] = true
    return ffi.gc(store, C.ms_store_close)
end

-- Closes all stores: a compiled trace may keep one alive as a constant. For after_each, together with crash.free_all.
function kit.free_all()
    for store in pairs(stores) do C.ms_store_close(store) end
    stores = setmetatable({}, { __mode = "k" })
end

-- { [table name] = { [key] = value } }
function kit.tables(store)
    local all = {}
    for id = 1, C.MS_TABLES_MAX - 1 do
        local t = store.tables[id]
        if t ~= nil then
            local entries = {}
            ms.with_two(function(key, value) entries[key] = value end, function(fn, context)
                for shard = 0, C.MS_TABLE_SHARDS - 1 do assert(C.ms_table_visit(t, shard, true, fn, context) == 0) end
            end)
            all[ffi.string(t.name)] = entries
        end
    end
    return all
end

-- Digests say the same as kit.tables, faster: "position name:count:digest ...".
function kit.state(store)
    local parts = { ms.dec(store.applied) }
    for id = 1, C.MS_TABLES_MAX - 1 do
        local t = store.tables[id]
        if t ~= nil then
            parts[#parts + 1] = ("%s:%s:%s"):format(ffi.string(t.name), ms.dec(t.content.count), ms.dec(t.content.digest))
        end
    end
    return table.concat(parts, " ")
end

-- Folds a list of changes into a store, as a group.
function kit.fold(store, changes)
    local first = store.applied + 1
    local group = ms.bytes(kit.group(changes, first))
    local header = ffi.new "struct ms_group_header"
    ms.check(C.ms_group_check(group, header))
    return C.ms_store_fold(store, group, header, nil, nil)
end

-- A record that says what the tables of a store are.
function kit.mark(store)
    local buf = ms.buf()
    C.ms_store_mark(store, buf)
    return kit.raw(6, ms.buf_str(buf))
end

-- ---- the model -------------------------------------------------------------------------------------------------------

local History = {}
History.__index = History

-- groups[n] = { first, last, changes }. names: table ids that exist.
function kit.history() return setmetatable({ groups = {}, head = 0, states = {} }, History) end

function History:add(changes)
    local group = { first = self.head + 1, last = self.head + #changes, changes = changes }
    self.groups[#self.groups + 1] = group
    self.head = group.last
    return group
end

-- Forgets what is behind lsn, which ends a group.
function History:cut(lsn)
    while #self.groups > 0 and self.groups[#self.groups].first > lsn do table.remove(self.groups) end
    self.head = lsn
    for at in pairs(self.states) do
        if at > lsn then self.states[at] = nil end
    end
end

-- The tables at lsn, folded from the start.
function History:tables(lsn)
    local all, names = {}, {}
    for _, group in ipairs(self.groups) do
        for n, c in ipairs(group.changes) do
            if group.first + n - 1 > (lsn or self.head) then return all end
            if c.op == 4 then
                names[c.table] = c.name
                all[c.name] = all[c.name] or {}
            elseif c.op <= 3 then
                all[names[c.table]][c.key] = c.value
            end
        end
    end
    return all
end

-- What kit.state gives for the tables at lsn.
function History:state(lsn)
    lsn = lsn or self.head
    if not self.states[lsn] then
        local store = kit.store()
        for _, group in ipairs(self.groups) do
            if group.last <= lsn then ms.check(kit.fold(store, group.changes)) end
        end
        self.states[lsn] = kit.state(store)
    end
    return self.states[lsn]
end

-- Whether lsn is 0 or the end of a group.
function History:ends(lsn)
    if lsn == 0 then return true end
    for _, group in ipairs(self.groups) do
        if group.last == lsn then return true end
    end
    return false
end

-- ---- logs ------------------------------------------------------------------------------------------------------------

local Log = {}
Log.__index = Log

kit.SEGMENT = 4096

function kit.config(options)
    return ffi.new("struct ms_log_config", {
        segment_bytes = options and options.segment or kit.SEGMENT,
        max_bytes = options and options.max or 1024 * 1024 * 1024,
    })
end

-- store: what a snapshot left, default empty.
function kit.open(disk, dir, history, options, store)
    store = store or kit.store()
    local out, dropped = ffi.new "struct ms_log *[1]", ffi.new "uint64_t[1]"
    local path = ffi.new("char[?]", #dir + 1, dir) -- the log borrows it
    local config = kit.config(options)
    local rc = C.ms_log_open(disk.fs, path, config, store, out, dropped)
    if rc ~= 0 then return nil, rc, ms.err() end
    return kit.adopt(disk, dir, history, out[0], store, tonumber(dropped[0]), { path, config })
end

-- A log that somebody else opened.
function kit.adopt(disk, dir, history, handle, store, dropped, kept)
    return setmetatable({
        disk = disk, dir = dir, history = history, log = handle, store = store, dropped = dropped, kept = kept, largest = 1024,
    }, Log)
end

function Log:close()
    if self.log ~= nil then C.ms_log_close(self.log) end
    self.log = nil
end

for _, name in ipairs { "first", "written", "synced", "bytes" } do
    Log[name] = function(self) return tonumber(C["ms_log_" .. name](self.log)) end
end

function Log:room(largest) return tonumber(C.ms_log_room(self.log, largest or self.largest)) end

-- Zero-fills one segment if one is wanted: 1 = done, 0 = not wanted (or "full"), else code and message.
function Log:prepare(largest)
    local job, full = ffi.new "struct ms_prepare_job", ffi.new "bool[1]"
    if not C.ms_log_prepare_begin(self.log, largest or self.largest, job, full) then return full[0] and "full" or 0 end
    C.ms_prepare_run(job)
    local rc = C.ms_log_prepare_end(self.log, job)
    if rc ~= 0 then return rc, ms.err() end
    return 1
end

-- Writes groups (lists of changes) with one call; the model follows if it went well.
function Log:write_groups(groups, options)
    local blocks, first = ffi.new("struct ms_block *[?]", #groups + 1), self.history.head + 1
    for n, changes in ipairs(groups) do
        blocks[n - 1] = kit.block(changes, first)
        first = first + #changes
    end
    local rc = C.ms_log_write(self.log, blocks, #groups, options and options.time or 0)
    local why = rc ~= 0 and ms.err() or nil
    for n = 0, #groups - 1 do C.ms_block_unref(blocks[n]) end
    if rc == 0 then
        for _, changes in ipairs(groups) do
            self.history:add(changes)
            ms.check(kit.fold(self.store, changes))
        end
    end
    return rc, why
end

-- One group, with room made for it.
function Log:write(changes)
    local size = kit.size(changes)
    while self:room(size) < size do
        local rc, why = self:prepare(size)
        if rc ~= 1 then return rc == "full" and C.MS_E_NO_SPACE or rc, why end
    end
    return self:write_groups { changes }
end

-- 0, "nothing" to sync, or code and message.
function Log:sync()
    local job = ffi.new "struct ms_sync_job"
    if not C.ms_log_sync_begin(self.log, job) then return "nothing" end
    C.ms_sync_run(job)
    local rc = C.ms_log_sync_end(self.log, job)
    return rc, rc ~= 0 and ms.err() or nil
end

function Log:trim(lsn, keep) return C.ms_log_trim(self.log, lsn, keep or 0) end

-- ---- directories as strings -------------------------------------------------------------------------------------------

-- { [name] = content }
function kit.image(disk, dir)
    local image = {}
    for _, name in ipairs(disk:list(dir)) do image[name] = disk:get(dir .. "/" .. name) end
    return image
end

-- Puts an image into the empty or missing directory dir, durably.
function kit.restore(disk, dir, image)
    disk:mkdir(dir)
    for name, content in pairs(image) do disk:put(dir .. "/" .. name, content) end
    disk:sync_dir(dir)
    disk:sync_dir "/"
    return disk
end

function kit.copy(image)
    local copy = {}
    for name, content in pairs(image) do copy[name] = content end
    return copy
end

-- The string with the byte at offset (from 0) XORed.
function kit.flip(content, offset, mask)
    local byte = bit.bxor(content:byte(offset + 1), mask or 1)
    return content:sub(1, offset) .. string.char(byte) .. content:sub(offset + 2)
end

-- A segment's header.
function kit.segment_header(number, first)
    local header = ffi.new "uint8_t[32]"
    C.ms_segment_encode(header, number, first)
    return ffi.string(header, 32)
end

-- A segment of `size` bytes (default kit.SEGMENT) with these sealed groups; first = nil: without a header.
function kit.segment(number, first, groups, size)
    local content = (first and kit.segment_header(number, first) or "") .. table.concat(groups or {})
    return content .. ("\0"):rep((size or kit.SEGMENT) - #content)
end

-- ---- readers ---------------------------------------------------------------------------------------------------------

-- The groups of dir from lsn `from` to `limit` as { { first, last, bytes } }, or nil, code, message and what was read before.
function kit.read(disk, dir, from, limit)
    local out, block = ffi.new "struct ms_log_reader *[1]", ffi.new "struct ms_block *[1]"
    local rc = C.ms_log_reader_open(disk.fs, dir, from, out)
    if rc ~= 0 then return nil, rc, ms.err(), {} end
    local reader, groups = out[0], {}
    local more
    repeat
        more = C.ms_log_reader_next(reader, limit or 0xffffffffffffffffULL, block)
        if more == 1 then
            local b = block[0]
            groups[#groups + 1] = { first = tonumber(b.first), last = tonumber(b.last), bytes = ffi.string(b.data, b.size) }
            C.ms_block_unref(b)
        end
    until more ~= 1
    local why = more < 0 and ms.err()
    C.ms_log_reader_close(reader)
    if more < 0 then return nil, more, why, groups end
    return groups
end

-- ---- snapshots -------------------------------------------------------------------------------------------------------

-- Makes a snapshot of log.store in log.dir. options: id, cluster, bytes (per walk), each (called after each walk step, may write to
-- the log), group_bytes. Returns its end lsn, or nil, code, message.
function kit.snapshot(log, options)
    options = options or {}
    local out = ffi.new "struct ms_snapshot_writer *[1]"
    local cluster = ms.bytes(options.cluster or "test")
    local rc = C.ms_snapshot_new(log.disk.fs, log.dir, cluster, options.id or 7, options.group_bytes or 256, out)
    if rc ~= 0 then return nil, rc, ms.err() end
    local writer = out[0]
    local function step()
        rc = C.ms_snapshot_start(writer, log.store)
        if rc ~= 0 then return rc end
        repeat
            local more = C.ms_snapshot_walk(writer, log.store, options.bytes or 4096)
            if more < 0 then return more end
            if options.each then options.each() end
            rc = C.ms_snapshot_write(writer)
            if rc ~= 0 then return rc end
        until more == 0
        rc = C.ms_snapshot_cut(writer, log.store)
        if rc ~= 0 then return rc end
        repeat
            local more = C.ms_snapshot_copy_log(writer, log.dir, options.copy_bytes or 4096)
            if more < 0 then return more end
        until more == 0
        return C.ms_snapshot_finish(writer)
    end
    rc = step()
    local why, ended = rc ~= 0 and ms.err(), tonumber(C.ms_snapshot_end_lsn(writer))
    C.ms_snapshot_free(writer)
    if rc ~= 0 then return nil, rc, why end
    return ended
end

function kit.snapshot_name(lsn) return ("snap-%020d"):format(lsn) end
function kit.segment_name(number) return ("log-%016d"):format(number) end

-- A new store with the file's content, or nil, code, message.
function kit.load(disk, path, cluster)
    local store = kit.store()
    local rc = C.ms_snapshot_load(disk.fs, path, ms.bytes(cluster), store)
    if rc ~= 0 then return nil, rc, ms.err() end
    return store
end

-- ---- recovery --------------------------------------------------------------------------------------------------------

-- ms_recover of a generation directory: log, store, recovery; or nil, code, message, recovery.
function kit.recover(disk, dir, history, options)
    local datadir = ffi.new "struct ms_datadir"
    datadir.fs = disk.fs
    ffi.copy(datadir.live, dir)
    local store, out, recovery = kit.store(), ffi.new "struct ms_log *[1]", ffi.new "struct ms_recovery"
    local config = kit.config(options)
    local rc = C.ms_recover(datadir, ms.bytes(options and options.cluster or "test"), config, store, out, recovery)
    if rc ~= 0 then return nil, rc, ms.err(), recovery, store end
    local log = kit.adopt(disk, dir, history, out[0], store, tonumber(recovery.truncated), { datadir, config })
    return log, store, recovery
end

return kit
