-- base/bytes: little-endian integers, varints in their shortest form only, a reader that never runs past the end, and a
-- buffer whose failure is remembered.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

-- A reader over a Lua string. The bytes are copied to the very end of their own memory, so that ASan sees a read past it.
local function reader(text)
    local memory = ffi.new("uint8_t[?]", math.max(#text, 1))
    ffi.copy(memory, text, #text)
    local r = ffi.new("struct ms_reader")
    r.at, r["end"], r.bad = memory, memory + #text, false
    return r, memory
end

local function varint_of(value)
    local room = ffi.new("uint8_t[10]")
    local size = tonumber(C.ms_varint_put(room, value) - room)
    assert.equal(size, tonumber(C.ms_varint_size(value)))
    return ffi.string(room, size)
end

local function hex(text) return (text:gsub("%s+", ""):gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)) end

describe("a varint", function()
    local edges = { { 0ULL, "00" }, { 1ULL, "01" }, { 127ULL, "7f" }, { 128ULL, "80 01" }, { 300ULL, "ac 02" },
        { 16383ULL, "ff 7f" }, { 16384ULL, "80 80 01" }, { 2 ^ 32 - 1, "ff ff ff ff 0f" },
        { 0x7fffffffffffffffULL, "ff ff ff ff ff ff ff ff 7f" }, { 0x8000000000000000ULL, "80 80 80 80 80 80 80 80 80 01" },
        { 0xffffffffffffffffULL, "ff ff ff ff ff ff ff ff ff 01" } }
    for _, edge in ipairs(edges) do
        local value = ffi.cast("uint64_t", edge[1])
        it(("of %s is %s, and reads back"):format(ms.dec(value), edge[2]), function()
            assert.equal(hex(edge[2]), varint_of(value))
            local r = reader(hex(edge[2]))
            assert.is_true(C.ms_read_varint(r) == value)
            assert.is_false(r.bad)
            assert.equal(0, tonumber(C.ms_reader_left(r)))
        end)
    end

    it("reads back for every number of bits, with neighbours", function()
        for bit = 0, 63 do
            for _, delta in ipairs { -1LL, 0LL, 1LL } do
                local value = ffi.cast("uint64_t", bit == 63 and 0x8000000000000000ULL or 2ULL ^ bit) + ffi.cast("uint64_t", delta)
                local r = reader(varint_of(value))
                assert.is_true(C.ms_read_varint(r) == value)
                assert.is_false(r.bad)
            end
        end
    end)

    local refused = {
        { "nothing", "" },
        { "an end in its middle", "80" },
        { "ten bytes without an end", "ff ff ff ff ff ff ff ff ff ff" },
        { "eleven bytes", "80 80 80 80 80 80 80 80 80 80 01" },
        { "a 65th bit", "80 80 80 80 80 80 80 80 80 02" },
        { "0 in two bytes", "80 00" },
        { "1 in two bytes", "81 00" },
        { "127 in three bytes", "ff 80 00" },
        { "2^63 - 1 in ten bytes", "ff ff ff ff ff ff ff ff ff 00" },
    }
    for _, case in ipairs(refused) do
        it("is refused: " .. case[1], function()
            local r = reader(hex(case[2]))
            assert.is_true(C.ms_read_varint(r) == 0)
            assert.is_true(r.bad)
        end)
    end

    it("has one form: what two byte strings decode to is never the same", function()
        local seen = {}
        for first = 0, 255 do
            for second = 0, 255 do
                local text = string.char(first, second)
                local r = reader(text)
                local value = C.ms_read_varint(r)
                if not r.bad then
                    local used = text:sub(1, 2 - tonumber(C.ms_reader_left(r)))
                    local key = ms.dec(value)
                    assert.is_true(seen[key] == nil or seen[key] == used)
                    seen[key] = used
                end
            end
        end
    end)
end)

describe("integers", function()
    it("are little endian in memory", function()
        local room = ffi.new("uint8_t[8]")
        C.ms_store16(room, 0x1234)
        assert.equal("\52\18", ffi.string(room, 2))
        C.ms_store32(room, 0x12345678)
        assert.equal("\120\86\52\18", ffi.string(room, 4))
        C.ms_store64(room, 0x0123456789abcdefULL)
        assert.equal(hex "efcdab8967452301", ffi.string(room, 8))
        assert.is_true(C.ms_load64(room) == 0x0123456789abcdefULL)
        assert.equal(0x89abcdef, tonumber(C.ms_load32(room)))
        assert.equal(0xcdef, tonumber(C.ms_load16(room)))
    end)

    it("of 64 bits come back exactly from a value of 8 bytes, which has to have 8 bytes", function()
        local room, number = ffi.new("uint8_t[8]"), ffi.new("int64_t[1]")
        for _, n in ipairs { 0LL, 1LL, -1LL, 9007199254740993LL, 0x7fffffffffffffffLL, -0x7fffffffffffffffLL - 1 } do
            local value = C.ms_int64_put(n, room)
            assert.equal(8, tonumber(value.size))
            assert.equal(0, C.ms_int64_get(value, number))
            assert.is_true(number[0] == n)
        end
        for _, text in ipairs { "", "1234567", "123456789" } do
            assert.equal(C.MS_E_TYPE, C.ms_int64_get(ms.bytes(text), number))
        end
        assert.equal(C.MS_E_TYPE, C.ms_int64_get(ms.bytes(nil), number))
    end)
end)

describe("a reader", function()
    it("gives what is there, in order", function()
        local r = reader(hex "01 02000000 0300000000000000 ac02 616263")
        assert.equal(1, C.ms_read8(r))
        assert.equal(2, C.ms_read32(r))
        assert.equal(3, tonumber(C.ms_read64(r)))
        assert.equal(300, tonumber(C.ms_read_varint(r)))
        assert.equal("abc", ms.str(C.ms_read_bytes(r, 3)))
        assert.is_false(r.bad)
    end)

    it("goes bad at a read past the end, gives zeros, and stays bad", function()
        local reads = {
            function(r) return tonumber(C.ms_read32(r)) end,
            function(r) return tonumber(C.ms_read64(r)) end,
            function(r) return ms.str(C.ms_read_bytes(r, 4)) or 0 end,
        }
        for _, read in ipairs(reads) do
            local r = reader("abc")
            assert.equal(0, read(r))
            assert.is_true(r.bad)
            assert.equal(0, C.ms_read8(r)) -- although three bytes are there
            assert.is_true(r.bad)
        end
    end)

    it("gives empty bytes, not 'no value', for size 0; also at the end", function()
        local r = reader("")
        assert.equal("", ms.str(C.ms_read_bytes(r, 0)))
        assert.is_false(r.bad)
    end)

    it("is not led past the end by a size that overflows", function()
        local r = reader("abc")
        C.ms_read8(r)
        assert.is_nil(ms.str(C.ms_read_bytes(r, ffi.cast("size_t", -1LL))))
        assert.is_true(r.bad)
    end)
end)

describe("bytes", function()
    it("are equal when size and content are; no value differs from an empty one", function()
        assert.is_true(C.ms_bytes_equal(ms.bytes("a\0b"), ms.bytes("a\0b")))
        assert.is_false(C.ms_bytes_equal(ms.bytes("a\0b"), ms.bytes("a\0c")))
        assert.is_false(C.ms_bytes_equal(ms.bytes("a"), ms.bytes("ab")))
        assert.is_true(C.ms_bytes_equal(ms.bytes(""), ms.bytes("")))
        assert.is_true(C.ms_bytes_equal(ms.bytes(nil), ms.bytes(nil)))
        assert.is_false(C.ms_bytes_equal(ms.bytes(nil), ms.bytes("")))
    end)

    it("borrow C text without its end", function()
        assert.equal("abc", ms.str(C.ms_str("abc")))
        assert.equal("", ms.str(C.ms_str("")))
    end)
end)

describe("a buffer", function()
    it("grows and keeps what was added", function()
        local buf, expected = ms.buf(), {}
        for n = 1, 2000 do
            local text = ("%d,"):format(n)
            C.ms_buf_add(buf, text, #text)
            expected[n] = text
        end
        assert.is_false(buf.failed)
        assert.equal(table.concat(expected), ms.buf_str(buf))
        assert.equal(table.concat(expected), ms.str(C.ms_buf_bytes(buf)))
    end)

    it("writes what a reader reads", function()
        local buf = ms.buf()
        C.ms_buf_add8(buf, 200)
        C.ms_buf_add32(buf, 0xdeadbeef)
        C.ms_buf_add64(buf, 0x8000000000000001ULL)
        C.ms_buf_add_varint(buf, 0xffffffffffffffffULL)
        local r = reader(ms.buf_str(buf))
        assert.equal(200, C.ms_read8(r))
        assert.equal(0xdeadbeef, tonumber(C.ms_read32(r)))
        assert.is_true(C.ms_read64(r) == 0x8000000000000001ULL)
        assert.is_true(C.ms_read_varint(r) == 0xffffffffffffffffULL)
        assert.is_false(r.bad)
        assert.equal(0, tonumber(C.ms_reader_left(r)))
    end)

    it("is empty bytes before anything was added, and can be closed twice", function()
        local buf = ffi.new("struct ms_buf")
        C.ms_buf_init(buf)
        assert.equal("", ms.str(C.ms_buf_bytes(buf)))
        C.ms_buf_add(buf, "", 0)
        C.ms_buf_close(buf)
        C.ms_buf_close(buf)
    end)

    it("remembers a failed growth, keeps what it had, and works again once cleared", function()
        ms.with_alloc_failures(function()
            local buf = ffi.new("struct ms_buf")
            local text = ("x"):rep(100)
            for _ = 1, 20 do C.ms_buf_add(buf, text, #text) end
            C.ms_buf_add8(buf, 1)
            if buf.failed then
                assert.equal(0, tonumber(buf.size) % 100)
                assert.equal(ms.buf_str(buf), ("x"):rep(tonumber(buf.size)))
                assert.is_true(C.ms_buf_extend(buf, 1) == nil)
                C.ms_buf_clear(buf)
                C.ms_buf_add(buf, "again", 5)
                assert.equal("again", ms.buf_str(buf))
            else
                assert.equal(2001, tonumber(buf.size))
            end
            C.ms_buf_close(buf)
        end)
    end)

    it("refuses a size that no memory has, without going round the end of size_t", function()
        local buf = ms.buf()
        C.ms_buf_add(buf, "abc", 3)
        assert.is_true(C.ms_buf_extend(buf, ffi.cast("size_t", -1LL)) == nil)
        assert.is_true(buf.failed)
        assert.equal("abc", ms.buf_str(buf))
    end)
end)
