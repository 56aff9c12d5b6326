-- sync/frame: headers, and control messages made of tagged fields.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local function header(type, payload, more, flags)
    local bytes = ffi.new("uint8_t[?]", C.MS_FRAME_HEADER)
    C.ms_frame_header(bytes, type, flags or 0, ms.bytes(payload), more or 0)
    return bytes
end

local function open(bytes, bulk_max)
    local frame = ffi.new("struct ms_frame")
    return C.ms_frame_open(bytes, bulk_max or 1000, frame), frame
end

local function new_message(fields)
    local message = ffi.gc(ffi.new("struct ms_message"), C.ms_message_close)
    C.ms_message_init(message)
    for name, value in pairs(fields or {}) do message[name] = value end
    return message
end

local function encode(type, message)
    local buf = ms.buf()
    C.ms_message_encode(type, message, buf)
    assert.is_false(buf.failed)
    return ms.buf_str(buf)
end

local function decode(type, payload)
    local message = new_message()
    return C.ms_message_decode(type, ms.bytes(payload), message), message
end

-- One field, encoded here.
local function field(tag, bytes)
    assert(#bytes < 128)
    return string.char(tag, #bytes) .. bytes
end

local NUMBERS = { "node_id", "boot_id", "features", "policy_hash", "purpose", "role", "first", "position", "kind", "common", "extra",
    "allowed", "mode", "from", "snapshot", "size", "end", "durable", "applied", "host_applied", "head", "time_us", "in_sync", "code",
    "extra_max", "seq", "type", "base_known", "reason", "lsn", "epoch", "resent", "extra_id", "outcome" }
local VALUES = { "key", "mine", "base", "theirs", "value" }

describe("a frame header", function()
    it("gives back size, type and flags", function()
        local rc, frame = open(header(C.MS_FRAME_GROUP, "", 777, C.MS_FRAME_WANT_SYNC))
        assert.equal(0, rc)
        assert.same({ 777, C.MS_FRAME_GROUP, C.MS_FRAME_WANT_SYNC }, { frame.size, frame.type, frame.flags })
        rc, frame = open(header(C.MS_FRAME_SNAPSHOT_DATA, "12345678", 100))
        assert.same({ 0, 108 }, { rc, frame.size })
    end)

    it("covers the payload of a control frame, and not that of a bulk frame", function()
        local bytes = header(C.MS_FRAME_HELLO, "payload")
        local rc, frame = open(bytes)
        assert.equal(0, rc)
        assert.equal(0, C.ms_frame_check(bytes, frame, ms.bytes("payload")))
        assert.equal(C.MS_E_FORMAT, C.ms_frame_check(bytes, frame, ms.bytes("payloaD")))
        bytes = header(C.MS_FRAME_GROUP, "payload")
        rc, frame = open(bytes)
        assert.equal(0, rc)
        assert.equal(0, C.ms_frame_check(bytes, frame, ms.bytes("anything")))
    end)

    it("is refused at every flipped bit, at the latest with its payload; a bulk frame at once unless it became another", function()
        for _, type in ipairs { C.MS_FRAME_GROUP, C.MS_FRAME_ACK } do
            for bit = 0, 8 * C.MS_FRAME_HEADER - 1 do
                local bytes = header(type, "payload")
                bytes[math.floor(bit / 8)] = require("bit").bxor(bytes[math.floor(bit / 8)], 2 ^ (bit % 8))
                local rc, frame = open(bytes)
                if rc == 0 then
                    assert.is_true(type == C.MS_FRAME_ACK or frame.type ~= type, "bit " .. bit)
                    rc = C.ms_frame_check(bytes, frame, ms.bytes("payload"))
                end
                assert.is_true(rc == C.MS_E_FORMAT or rc == C.MS_E_VERSION or rc == C.MS_E_LIMIT, ("bit %d: %d"):format(bit, rc))
            end
        end
    end)

    it("has a limit for bulk frames, given by the caller, and one for all others", function()
        assert.equal(0, (open(header(C.MS_FRAME_GROUP, "", 1000), 1000)))
        assert.equal(C.MS_E_LIMIT, (open(header(C.MS_FRAME_GROUP, "", 1001), 1000)))
        assert.matches("group frame of 1001 bytes, at most 1000", ms.err(), 1, true)
        assert.equal(0, (open(header(C.MS_FRAME_STATUS_REPLY, "", C.MS_FRAME_CONTROL_MAX), 0)))
        assert.equal(C.MS_E_LIMIT, (open(header(C.MS_FRAME_STATUS_REPLY, "", C.MS_FRAME_CONTROL_MAX + 1), 2 ^ 40)))
        assert.equal(C.MS_E_LIMIT, (open(header(0xfe, "", C.MS_FRAME_CONTROL_MAX + 1), 2 ^ 40)))
        for _, type in ipairs { C.MS_FRAME_EXTRA, C.MS_FRAME_EXTRA_DONE } do -- may hold a value as large as a group
            assert.equal(0, (open(header(type, "", C.MS_FRAME_CONTROL_MAX), 0)))
            assert.equal(0, (open(header(type, "", C.MS_FRAME_CONTROL_MAX + 1), C.MS_FRAME_CONTROL_MAX + 1)))
            assert.equal(C.MS_E_LIMIT, (open(header(type, "", C.MS_FRAME_CONTROL_MAX + 1), 1000)))
        end
    end)

    it("of another version, and what is no header at all, is told apart", function()
        local bytes = header(C.MS_FRAME_ACK, "")
        bytes[6] = 2
        assert.equal(C.MS_E_VERSION, (open(bytes)))
        ffi.copy(bytes, "GET / HTTP/1")
        assert.equal(C.MS_E_FORMAT, (open(bytes)))
    end)

    it("has a name for every type", function()
        local seen = {}
        for type = 1, 14 do
            local name = ffi.string(C.ms_frame_name(type))
            assert.is_true(name ~= "unknown" and not seen[name], name)
            seen[name] = true
        end
        assert.same({ "extra", "extra_done" }, { ffi.string(C.ms_frame_name(0x81)), ffi.string(C.ms_frame_name(0x82)) })
        for _, type in ipairs { 0, 15, 0x80, 0x83, 255 } do assert.equal("unknown", ffi.string(C.ms_frame_name(type))) end
    end)
end)

describe("a control message", function()
    it("gives back every number, 64 bits exactly", function()
        for _, value in ipairs { 1ULL, 127ULL, 128ULL, 0x7fffffffffffffffULL, 0xffffffffffffffffULL } do
            local message = new_message()
            for i, name in ipairs(NUMBERS) do message[name] = value - i % 2 end
            local rc, got = decode(C.MS_FRAME_HELLO, encode(C.MS_FRAME_HELLO, message))
            assert.equal(0, rc)
            assert.equal("0", ms.dec(got.unknown))
            for i, name in ipairs(NUMBERS) do assert.equal(ms.dec(value - i % 2), ms.dec(got[name]), name) end
        end
    end)

    it("gives back names, text and lineage", function()
        local message = new_message { cluster = "prod", name = ("n"):rep(63) }
        local text = "{\"a\":\n1}"
        message.text = ms.bytes(text)
        for i = 1, 3 do C.ms_lineage_add(message.lineage, { reign = i, run = 2, id = 0xffffffffffffffffULL }, 10 * i) end
        local payload = encode(C.MS_FRAME_STATUS_REPLY, message)
        local rc, got = decode(C.MS_FRAME_STATUS_REPLY, payload)
        assert.equal(0, rc)
        assert.equal("prod", ffi.string(got.cluster))
        assert.equal(("n"):rep(63), ffi.string(got.name))
        assert.equal(text, ms.str(got.text))
        assert.equal(3, got.lineage.count)
        assert.same({ "3", "2", "18446744073709551615", "30" }, { ms.dec(got.lineage.entries[2].epoch.reign),
            ms.dec(got.lineage.entries[2].epoch.run), ms.dec(got.lineage.entries[2].epoch.id), ms.dec(got.lineage.entries[2].first) })
    end)

    it("tells no value from an empty one, and keeps every byte of a value", function()
        local binary = "\0\255k\0"
        for _, name in ipairs(VALUES) do
            for _, value in ipairs { "", binary } do
                local message = new_message { table = "topic", by = "max" }
                message[name] = ms.bytes(value)
                local rc, got = decode(C.MS_FRAME_EXTRA, encode(C.MS_FRAME_EXTRA, message))
                assert.same({ 0, "topic", "max" }, { rc, ffi.string(got.table), ffi.string(got.by) })
                for _, other in ipairs(VALUES) do
                    if other == name then assert.equal(value, ms.str(got[other]), other) else assert.is_nil(ms.str(got[other]), other) end
                end
            end
        end
    end)

    it("without anything to say is empty, and an empty one says nothing", function()
        assert.equal("", encode(C.MS_FRAME_STATUS_REQUEST, new_message()))
        local rc, got = decode(C.MS_FRAME_ACK, "")
        assert.equal(0, rc)
        assert.equal("0", ms.dec(got.durable))
        assert.is_nil(ms.str(got.text))
    end)

    it("may hold fields that the reader does not know: they are ignored and counted", function()
        local rc, got = decode(C.MS_FRAME_ACK, field(60, "new") .. field(32, "\5") .. field(255, "") .. field(60, "again"))
        assert.equal(0, rc)
        assert.same({ "5", "3" }, { ms.dec(got.durable), ms.dec(got.unknown) })
    end)

    it("may have its fields in any order", function()
        local rc, got = decode(C.MS_FRAME_ACK, field(34, "\3") .. field(32, "\1") .. field(33, "\2"))
        assert.equal(0, rc)
        assert.same({ "1", "2", "3" }, { ms.dec(got.durable), ms.dec(got.applied), ms.dec(got.host_applied) })
    end)

    it("is refused when it is malformed, and the reason names frame and field", function()
        local cases = {
            ["runs past the end"] = { "\32", "\32\5\1", "\32\255\255\255\255\255\255\255\255\255\1", "\60\200", "\60\0\32" },
            ["is not a number"] = { field(32, ""), field(32, "\128"), field(32, "\1\1"), field(32, "\128\0"), field(32, ("\255"):rep(10)) },
            ["twice"] = { field(32, "\1") .. field(32, "\1"), field(49, "a") .. field(49, "b") },
            ["at most 63"] = { field(7, ("x"):rep(64)) },
            ["printable"] = { field(7, "a\nb"), field(8, "a\0b"), field(8, "\27[2J"), field(8, "\127"), field(8, "\194\133"), field(8, "\192\128"),
                field(8, "\237\160\128"), field(8, "\226\130"), field(8, "\255"), field(8, "\244\144\128\128"), field(8, "\224\128\128") },
            ["ack frame"] = { field(11, "junk") },
        }
        for why, payloads in pairs(cases) do
            for i, payload in ipairs(payloads) do
                local rc = decode(C.MS_FRAME_ACK, payload)
                assert.equal(C.MS_E_FORMAT, rc, why .. " " .. i)
                assert.matches(why, ms.err(), 1, true)
                assert.matches("ack frame", ms.err(), 1, true)
            end
        end
    end)

    it("keeps names of people of all languages", function()
        for _, name in ipairs { "käse-1", "节点一", "узел", "\240\159\144\173", "a b" } do
            local rc, got = decode(C.MS_FRAME_HELLO, encode(C.MS_FRAME_HELLO, new_message { name = name }))
            assert.equal(0, rc, name)
            assert.equal(name, ffi.string(got.name))
        end
    end)

    it("carries the text of a BYE as printable UTF-8, so that a peer can't forge log lines", function()
        local message = new_message { code = 5 }
        local text = "key \0\255\n\27 größer"
        message.text = ms.bytes(text)
        local rc, got = decode(C.MS_FRAME_BYE, encode(C.MS_FRAME_BYE, message))
        assert.equal(0, rc)
        assert.equal("key ???? größer", ms.str(got.text))
        assert.equal(C.MS_E_FORMAT, (decode(C.MS_FRAME_BYE, field(49, "two\nlines"))))
        assert.equal(0, (decode(C.MS_FRAME_STATUS_REPLY, field(49, "two\nlines"))))
    end)

    it("is never read beyond its end, and random bytes never get far", function()
        math.randomseed(1)
        local refused = 0
        for _ = 1, 5000 do
            local bytes = {}
            for i = 1, math.random(0, 40) do bytes[i] = string.char(math.random(0, 255)) end
            local rc = decode(math.random(1, 14), table.concat(bytes))
            assert.is_true(rc == 0 or rc == C.MS_E_FORMAT)
            if rc ~= 0 then refused = refused + 1 end
        end
        assert.is_true(refused > 4000, refused)
    end)

    it("survives every failed allocation", function()
        local failures = ms.with_alloc_failures(function()
            local message = ffi.new("struct ms_message")
            C.ms_message_init(message)
            local buf, got, added = ffi.new("struct ms_buf"), ffi.new("struct ms_message"), true
            C.ms_message_init(got)
            for i = 1, 40 do added = added and C.ms_lineage_add(message.lineage, { reign = i }, i) == 0 end
            message.name = "node"
            C.ms_message_encode(C.MS_FRAME_HELLO, message, buf)
            if added and not buf.failed then
                local rc = C.ms_message_decode(C.MS_FRAME_HELLO, ms.bytes(ms.buf_str(buf)), got)
                assert.is_true(rc == 0 and got.lineage.count == 40 or rc == C.MS_E_MEMORY)
            end
            C.ms_message_close(message)
            C.ms_message_close(got)
            C.ms_buf_close(buf)
        end)
        assert.is_true(failures >= 3)
    end)
end)
