-- state/group: what is encoded is decoded, and nothing else is accepted.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

-- A sealed group of PUT (and DELETE, where the value is nil) records of table 1.
local function group(first, changes, synced)
    local body = ms.buf()
    for _, change in ipairs(changes) do
        local key, value = ms.bytes(change[1]), ms.bytes(change[2])
        local at = C.ms_buf_extend(body, C.ms_record_change_size(1, key, value))
        C.ms_record_change_put(at, change[2] and C.MS_RECORD_PUT or C.MS_RECORD_DELETE, 1, key, value)
    end
    local size = tonumber(C.ms_group_size(body.size))
    local memory = ffi.new("uint8_t[?]", size)
    ffi.copy(memory + C.MS_GROUP_HEADER, body.data, body.size)
    local header = ffi.new("struct ms_group_header", { body_size = body.size, count = #changes, first = first, synced = synced or 0, time_us = 77 })
    C.ms_group_seal(memory, header)
    return ffi.string(memory, size)
end

local function check(text)
    local header = ffi.new("struct ms_group_header")
    return C.ms_group_check(ms.bytes(text), header), header
end

-- All records of a checked group as Lua tables; nil and the code when it is refused.
local function records(text)
    local rc, header = check(text)
    if rc ~= 0 then return nil, rc end
    local reader, record, all = C.ms_record_reader(ms.bytes(text), header), ffi.new("struct ms_record"), {}
    reader = ffi.new("struct ms_record_reader", reader)
    while true do
        rc = C.ms_record_next(reader, record)
        if rc <= 0 then break end
        all[#all + 1] = { type = record.type, key = ms.str(record.key), value = ms.str(record.value) }
    end
    if rc < 0 then return nil, rc end
    return all, header
end

local changes = { { "topic\0field", "value" }, { "k", "" }, { "gone" }, { ("long"):rep(100), ("v"):rep(3000) } }

describe("a group", function()
    it("gives back its records, binary keys and empty values included", function()
        local all, header = records(group(42, changes, 40))
        assert.equal(4, #all)
        for i, change in ipairs(changes) do
            assert.same({ type = change[2] and C.MS_RECORD_PUT or C.MS_RECORD_DELETE, key = change[1], value = change[2] }, all[i])
        end
        assert.equal(42, tonumber(header.first))
        assert.equal(45, tonumber(C.ms_group_last(header)))
        assert.equal(40, tonumber(header.synced))
        assert.equal(0, #group(1, changes) % 8)
    end)

    it("is refused at every shorter length and at every flipped bit", function()
        local text = group(42, { { "key", "some value" }, { "other" } }, 40)
        for length = 0, #text - 1 do assert.equal(C.MS_E_FORMAT, (check(text:sub(1, length)))) end
        for at = 1, #text do
            for bit_ = 0, 7 do
                local flipped = text:sub(1, at - 1) .. string.char(bit.bxor(text:byte(at), bit.lshift(1, bit_))) .. text:sub(at + 1)
                assert.not_equal(0, (check(flipped)), ("byte %d bit %d"):format(at, bit_))
            end
        end
    end)

    it("may get another synced lsn, and nothing else changes", function()
        local text = group(42, changes, 40)
        local memory = ffi.new("uint8_t[?]", #text)
        ffi.copy(memory, text, #text)
        C.ms_group_restamp(memory, 12)
        local again = ffi.string(memory, #text)
        local all, header = records(again)
        assert.equal(4, #all)
        assert.equal(12, tonumber(header.synced))
        assert.equal(text:sub(C.MS_GROUP_HEADER + 1), again:sub(C.MS_GROUP_HEADER + 1))
    end)

    it("costs at most 8 bytes a change beside key and value", function()
        for _, sizes in ipairs { { 1, 0 }, { 40, 100 }, { 127, 2000000 }, { 40, 2 ^ 20 } } do
            local key, value = ms.bytes(("k"):rep(sizes[1])), ms.bytes(("v"):rep(sizes[2]))
            local overhead = tonumber(C.ms_record_change_size(255, key, value)) - sizes[1] - sizes[2]
            assert.is_true(overhead <= 8, "overhead " .. overhead)
        end
    end)
end)

-- A group whose body is given raw, with right hashes: the reader's own checks are what is left.
local function raw(body, count)
    local size = tonumber(C.ms_group_size(#body))
    local memory = ffi.new("uint8_t[?]", size)
    ffi.copy(memory + C.MS_GROUP_HEADER, body, #body)
    C.ms_group_seal(memory, ffi.new("struct ms_group_header", { body_size = #body, count = count, first = 1 }))
    return ffi.string(memory, size)
end

describe("records", function()
    local bad = {
        { "a payload that runs past the body", "\1\20\1\1k", 1 },
        { "a key that runs past the payload", "\1\3\1\9k", 1 },
        { "a huge key size", "\1\12\1\255\255\255\255\255\255\255\255\255\1", 1 },
        { "an empty key", "\1\3\1\0v", 1 },
        { "a key of 65536 bytes", "\1\132\128\4\1\128\128\4" .. ("k"):rep(65536), 1 },
        { "table 0", "\1\4\0\1kv", 1 },
        { "table 256", "\1\5\128\2\1kv", 1 },
        { "bytes after a delete", "\2\4\1\1kx", 1 },
        { "more records than the header counts", "\2\3\1\1k\2\3\1\1k", 1 },
        { "fewer records than the header counts", "\2\3\1\1k\2\3\1\1k", 3 },
        { "an epoch that is too short", "\5\3\0\1x", 1 },
    }
    for _, case in ipairs(bad) do
        it("refuse " .. case[1], function()
            local _, rc = records(raw(case[2], case[3]))
            assert.equal(C.MS_E_FORMAT, rc)
        end)
    end

    it("step over an unknown optional type, and stop at an unknown critical one (promise 12)", function()
        local all = records(raw("\213\5hello\2\3\1\1k", 2))
        assert.equal(2, #all)
        assert.equal("k", all[2].key)
        local _, rc = records(raw("\85\5hello\2\3\1\1k", 2))
        assert.equal(C.MS_E_VERSION, rc)
        assert.matches("85", ms.err())
    end)

    it("of a newer group version are refused as such", function()
        local text = raw("\2\3\1\1k", 1)
        local memory = ffi.new("uint8_t[?]", #text)
        ffi.copy(memory, text, #text)
        memory[2] = 9
        C.ms_group_restamp(memory, 0)
        assert.equal(C.MS_E_VERSION, (check(ffi.string(memory, #text))))
    end)

    it("a body size beyond the limit takes no memory and is refused", function()
        local memory = ffi.new("uint8_t[48]")
        ffi.copy(memory, raw("\2\3\1\1k", 1), 48)
        ffi.cast("uint32_t *", memory + 4)[0] = C.MS_GROUP_BODY_MAX + 1
        C.ms_group_restamp(memory, 0)
        local header = ffi.new("struct ms_group_header")
        assert.equal(C.MS_E_FORMAT, C.ms_group_open(ms.bytes(ffi.string(memory, 48)), header))
    end)
end)
