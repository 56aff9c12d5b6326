-- Building groups by hand, for specs of what reads them.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local groups = {}

-- One record's bytes. { "put", table, key, value } { "delete", table, key } { "table", id, type, name } { "epoch", reign, run, id }
-- { "mark", payload } { "raw", type, payload }
function groups.record(record)
    local buf = ms.buf()
    local kind = record[1]
    if kind == "put" or kind == "delete" then
        local key, value = ms.bytes(record[3]), ms.bytes(record[4])
        local at = C.ms_buf_extend(buf, C.ms_record_change_size(record[2], key, value))
        C.ms_record_change_put(at, kind == "put" and C.MS_RECORD_PUT or C.MS_RECORD_DELETE, record[2], key, value)
    elseif kind == "table" then
        C.ms_record_add_table(buf, record[2], record[3], ms.bytes(record[4]))
    elseif kind == "epoch" then
        C.ms_record_add_epoch(buf, record[2], record[3], record[4])
    elseif kind == "mark" then
        C.ms_record_add(buf, C.MS_RECORD_MARK, ms.bytes(record[2]))
    else
        C.ms_record_add(buf, record[2], ms.bytes(record[3]))
    end
    return ms.buf_str(buf)
end

-- A sealed group as a Lua string; fields of the header may be given.
function groups.group(first, records, fields)
    local parts = {}
    for i, record in ipairs(records) do parts[i] = groups.record(record) end
    local body = table.concat(parts)
    local size = tonumber(C.ms_group_size(#body))
    local memory = ffi.new("uint8_t[?]", size)
    ffi.copy(memory + C.MS_GROUP_HEADER, body, #body)
    local header = ffi.new("struct ms_group_header", { body_size = #body, count = #records, first = first })
    for name, value in pairs(fields or {}) do header[name] = value end
    C.ms_group_seal(memory, header)
    return ffi.string(memory, size)
end

-- Folds such a group into a store.
function groups.fold(store, first, records, fields)
    local text = groups.group(first, records, fields)
    local header = ffi.new("struct ms_group_header")
    ms.check(C.ms_group_check(ms.bytes(text), header))
    return C.ms_store_fold(store, ms.bytes(text), header, nil, nil)
end

function groups.mark_of(store)
    local buf = ms.buf()
    C.ms_store_mark(store, buf)
    return ms.buf_str(buf)
end

function groups.store()
    local store = ffi.new("struct ms_store")
    ms.check(C.ms_store_init(store))
    return ffi.gc(store, C.ms_store_close)
end

return groups
