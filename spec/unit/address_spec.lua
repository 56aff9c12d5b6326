-- drive/address: addresses as people write them, and the rule that without a secret only loopback is allowed.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local function split(text)
    local host, port = ffi.new("char[?]", C.MS_HOST_SIZE), ffi.new("uint16_t[1]")
    local rc = C.ms_address_split(text, host, port)
    if rc < 0 then return nil, rc end
    return ffi.string(host), port[0]
end

local function numeric(text)
    local list = ffi.new("struct ms_address_list")
    local host, port = split(text)
    assert(host, text)
    C.ms_address_numeric(host, port, list)
    local all = {}
    for i = 0, tonumber(list.count) - 1 do
        local room = ffi.new("char[?]", C.MS_ADDRESS_TEXT)
        C.ms_address_text(list.at[i], room)
        all[#all + 1] = ffi.string(room)
    end
    return all, list
end

describe("an address", function()
    it("is HOST:PORT or [IPv6]:PORT", function()
        assert.same({ "127.0.0.1", 7000 }, { split "127.0.0.1:7000" })
        assert.same({ "::1", 0 }, { split "[::1]:0" })
        assert.same({ "broker-0.svc_1.example.", 65535 }, { split "broker-0.svc_1.example.:65535" })
        assert.same({ ("h"):rep(253), 1 }, { split(("h"):rep(253) .. ":1") })
    end)

    it("that is malformed is refused, with the reason", function()
        local cases = {
            ["expected HOST:PORT"] = { "", "host", "7000" },
            ["the port is not a number from 0 to 65535"] = { "h:", "h:x", "h:65536", "h:-1", "h:+1", "h: 1", "h:1 ", "h:000001",
                "h:99999999999", "[::1]:" },
            ["needs brackets"] = { "::1:7000", "fe80::1:7000" },
            ["expected [IPv6]:PORT"] = { "[::1", "[::1]", "[::1]7000" },
            ["the host is missing"] = { ":7000", "[]:7000" },
            ["not an IPv6 address"] = { "[127.0.0.1]:7000", "[host]:7000", "[::g]:7000" },
            ["neither an address nor a name"] = { "a b:1", "a/b:1", "a\nb:1", "ü:1", "*:1" },
            ["longer than 253"] = { ("h"):rep(254) .. ":1" },
        }
        for why, texts in pairs(cases) do
            for _, text in ipairs(texts) do
                local host, rc = split(text)
                assert.is_nil(host, text)
                assert.equal(C.MS_E_ADDRESS, rc)
                assert.matches(why, ms.err(), 1, true)
            end
        end
    end)

    it("of numbers needs no look-up, a name does", function()
        assert.same({ "1.2.3.4:5" }, (numeric "1.2.3.4:5"))
        assert.same({ "[2001:db8::1]:65535" }, (numeric "[2001:DB8:0::1]:65535"))
        assert.same({}, (numeric "broker.example:7000"))
    end)

    it("localhost is 127.0.0.1 and ::1, whatever name servers say", function()
        assert.same({ "127.0.0.1:7000", "[::1]:7000" }, (numeric "localhost:7000"))
        assert.same({ "127.0.0.1:7000", "[::1]:7000" }, (numeric "LocalHost:7000"))
    end)

    it("is looked up by the system on request", function()
        local list = ffi.new("struct ms_address_list")
        assert.equal(0, C.ms_address_resolve("127.0.0.1:7000", list))
        assert.equal(1, tonumber(list.count))
        assert.equal(C.MS_E_ADDRESS, C.ms_address_resolve("no port", list))
    end)
end)

describe("the loopback rule", function()
    local function loopback(text)
        local _, list = numeric(text)
        return C.ms_address_is_loopback(list.at[0])
    end

    it("knows loopback addresses", function()
        for _, text in ipairs { "127.0.0.1:1", "127.255.255.255:1", "[::1]:1", "[::ffff:127.0.0.1]:1" } do assert.is_true(loopback(text), text) end
        for _, text in ipairs { "126.255.255.255:1", "128.0.0.1:1", "0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[::2]:1", "[::ffff:10.0.0.1]:1",
            "[fe80::1]:1", "[::127.0.0.1]:1" } do assert.is_false(loopback(text), text) end
    end)

    it("refuses other addresses without a secret, and allows all with one", function()
        for _, text in ipairs { "0.0.0.0:7000", "[::]:7000", "192.0.2.7:7000" } do
            assert.equal(C.MS_E_ADDRESS, C.ms_address_check(text, false))
            assert.matches(text, ms.err(), 1, true)
            assert.matches("without a shared secret only loopback is allowed", ms.err(), 1, true)
            assert.equal(0, C.ms_address_check(text, true))
        end
        assert.equal(0, C.ms_address_check("localhost:0", false))
        assert.equal(0, C.ms_address_check("[::1]:7000", false))
    end)

    it("waits for the look-up where there is a name", function()
        assert.equal(0, C.ms_address_check("broker.example:7000", false))
        assert.equal(C.MS_E_ADDRESS, C.ms_address_check("broker.example", true))
    end)
end)
