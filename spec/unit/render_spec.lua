-- sync/render: records as lines of JSON, exact for every key, value and number.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local kept = {} -- a record borrows its key and value

local function put(key, value)
    local record = ffi.new("struct ms_record", { type = C.MS_RECORD_PUT, table = 3 })
    kept = { ms.bytes(key), ms.bytes(value) }
    record.key, record.value = kept[1], kept[2]
    return record
end

local function lined(record, names)
    local buf = ms.buf()
    ms.check(C.ms_render_record(buf, record, 7, 0, names or ffi.new("struct ms_render_names")))
    return ms.buf_str(buf)
end

describe("a rendered record", function()
    it("names the table once its definition was seen, and its id before", function()
        local names = ffi.new("struct ms_render_names")
        local record = put("k", "v")
        assert.matches('"table":"3"', lined(record, names), 1, true)
        local name = ms.bytes("topic")
        local definition = ffi.new("struct ms_record", { type = C.MS_RECORD_TABLE, table = 3, value_type = C.MS_TYPE_BYTES })
        definition.key = name
        lined(definition, names)
        assert.equal('{"op":"put","table":"topic","key":"k","value":"v","lsn":7}\n', lined(record, names))
    end)

    it("shows a key's NUL as \\u0000 and bytes that are not UTF-8 as base64", function()
        local text = lined(put("t@g\0005", "\255\254\1"))
        assert.matches("t@g\\u00005", text, 1, true)
        assert.matches('"base64":"//4B"', text, 1, true)
    end)

    it("shows int64 values exactly, up to both ends", function()
        local names = ffi.new("struct ms_render_names")
        names.type[3] = C.MS_TYPE_INT64
        for _, number in ipairs { "9223372036854775807", "-9223372036854775808", "-1", "0" } do
            local bytes = ffi.new("int64_t[1]")
            bytes[0] = number == "-9223372036854775808" and -0x8000000000000000LL or loadstring("return " .. number .. "LL")()
            assert.matches('"value":' .. number .. ",", lined(put("k", ffi.string(bytes, 8)), names), 1, true)
        end
    end)

    it("of a type from the future is shown as unknown", function()
        local payload = ms.bytes("xyz")
        local record = ffi.new("struct ms_record", { type = 0xD0 })
        record.list = payload
        assert.equal('{"op":"unknown","type":208,"size":3,"lsn":7}\n', lined(record))
    end)
end)
