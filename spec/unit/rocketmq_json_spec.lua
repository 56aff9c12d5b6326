-- The pre-pass for RocketMQ's bare keys, and JSON behind it: what is accepted, and where exactly the rest is refused.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

-- The clean text; or nil, the message, the code.
local function clean(text, flags)
    local json = ffi.gc(ffi.new("struct ms_json"), C.ms_json_close)
    local bytes = ms.bytes(text)
    local rc = C.ms_json_open(json, "t.json", bytes, flags or 0)
    if rc ~= 0 then return nil, ms.err(), rc end
    return ms.buf_str(json.clean)
end

-- Refused at line and column, with a message that has `what` in it.
local function refused(text, line, column, what)
    local result, message, rc = clean(text)
    assert.is_nil(result)
    assert.is_true(rc == C.MS_E_FORMAT or rc == C.MS_E_LIMIT, "code " .. tostring(rc))
    local start = ("t.json: line %d, column %d: "):format(line, column)
    assert.equal(start, message:sub(1, #start))
    assert.is_truthy(message:find(what, 1, true), message)
end

describe("the JSON pre-pass", function()
    it("quotes bare integer keys and takes the blanks out", function()
        assert.equal('{"a@g":{"0":1,"-1":-5,"2147483647":3,"-2147483648":4}}',
            clean(' { "a@g" :\r\n\t{0:1 , -1 : -5,\n2147483647:3,-2147483648:4} } '))
    end)

    it("leaves the spelling of strings and numbers alone", function()
        local text = '{"a b":[7.6,-0.0,1e16,1.8011670033376514e-308,9223372036854775807,-9223372036854775808,true,null,"x\\u00e9\\/ \\\\\\" {,:"]}'
        assert.equal(text, clean(text))
    end)

    it("takes a byte order mark at the start, and no other", function()
        assert.equal('{"a":1}', clean('\239\187\191{"a":1}'))
        refused('{"a":\239\187\1911}', 1, 6, "invalid token")
    end)

    it("does not join what blanks keep apart", function()
        refused('{"a":1 2}', 1, 8, "'}' expected")
        refused('{"a":tr ue}', 1, 6, "invalid token")
        refused('{"a":- 1}', 1, 6, "invalid token")
    end)

    for _, key in ipairs { "007", "+5", "1.0", "-0", "00", "2147483648", "-2147483649", "99999999999999999999", "1e1", "--1", "-", "a", "0x1" } do
        it("refuses the bare key " .. key, function()
            refused('{"t":\n {0:1,\n  ' .. key .. ":2}}", 3, 3, "found " .. key)
        end)
    end

    it("refuses objects and arrays as keys", function()
        refused('{"t":{{"q":1}:2}}', 1, 7, "found an object")
        refused('{"t":{"a":1, [1]:2}}', 1, 14, "found an array")
    end)

    it("takes 1 and \"1\" as the same key", function()
        refused('{1:2,\n"1":3}', 2, 1, "duplicate object key")
        refused('{"a":1,"b":{"\\u0031":2,1:3}}', 1, 24, "duplicate object key")
    end)

    it("refuses NUL bytes and says where", function()
        refused(("\0"):rep(522), 1, 1, "NUL byte")
        refused('{"a":\n"x\0y"}', 2, 3, "NUL byte")
        refused('{"a":1}\0', 1, 8, "NUL byte")
    end)

    it("refuses an empty text and one of blanks", function()
        refused("", 1, 1, "found nothing")
        refused(" \n ", 2, 2, "found nothing")
    end)

    it("refuses what stands behind the text", function()
        refused('{"a":1} x', 1, 9, "end of file expected")
        refused('{"a":1}{', 1, 8, "end of file expected")
        refused('{"a":1}}', 1, 8, "end of file expected")
    end)

    it("refuses a text that ends early at its end", function()
        for cut = 1, 37 do
            local text = ('{"a":{0:1,"b":[1,true,"x"]},\n"c":null}'):sub(1, cut)
            local result, message, rc = clean(text)
            assert.is_nil(result, text)
            assert.equal(C.MS_E_FORMAT, rc)
            assert.is_truthy(message:find("^t.json: line [12], column %d+: "), message)
        end
        refused('{"a":{0:1,\n "b', 2, 4, "premature end")
        refused('{"a":{0:1', 1, 10, "expected near end of file")
    end)

    it("names the first fault, not the one that it leads to", function()
        refused('{"a" 1, b:2}', 1, 6, "':' expected")
        refused('{"a":1 2, 007:3}', 1, 8, "'}' expected")
    end)

    it("names the byte of a string that is no UTF-8", function()
        refused('{0:1,"ab\200c":1}', 1, 9, "unable to decode byte 0xc8")
        refused('{"k":"a\192\128"}', 1, 8, "unable to decode byte 0xc0")
        refused('{"k":"a\nb"}', 1, 8, "unexpected newline")
    end)

    it("counts columns of the original text, whatever was quoted or left out before", function()
        refused('{1:1,2:2,   3:3,-4:4, "x":bad}', 1, 27, "invalid token")
        refused('\239\187\191{"x":bad}', 1, 9, "invalid token")
        refused("{\r\n\t\"x\" : 1,\r\n\t5 :\tbad}", 3, 6, "invalid token")
    end)

    it("knows where each byte of the clean text came from", function()
        local text = ms.bytes(' {12 :\n"ab",-3:tru e, "x":5}')
        local out = ms.buf()
        assert.equal(0, C.ms_json_prepass(text, out, ffi.new("struct ms_json_fault")))
        assert.equal('{"12":"ab","-3":tru e,"x":5}', ms.buf_str(out))
        local places = {}
        for i = 0, tonumber(out.size) do places[#places + 1] = tonumber(C.ms_json_original(text, i)) end
        --               {  "  1  2  "  :  "  a  b  "   ,   "   -   3   "   :   t   r   u   _   e   ,   "   x   "   :   5   }   end
        assert.same({ 1, 2, 2, 3, 3, 5, 7, 8, 9, 10, 11, 12, 12, 13, 13, 14, 15, 16, 17, 19, 19, 20, 22, 23, 24, 25, 26, 27, 28 }, places)
    end)

    it("takes 512 levels and refuses 513", function()
        local function nested(levels) return '{"a":' .. ("["):rep(levels - 1) .. ("]"):rep(levels - 1) .. "}" end
        assert.is_truthy(clean(nested(512)))
        refused(nested(513), 1, 6 + 511, "deeper than 512")
        refused('{"a":' .. ("[{1:"):rep(100000), 1, 6 + 4 * 255 + 1, "deeper than 512")
    end)

    it("survives brackets too many", function()
        refused("}}}}]]]", 1, 1, "'[' or '{' expected")
        refused('{"a":1]]]]}', 1, 7, "'}' expected")
    end)

    it("takes the largest integers exactly and refuses larger ones", function()
        assert.is_truthy(clean('{"a":9223372036854775807,"b":-9223372036854775808}'))
        refused('{"a":9223372036854775808}', 1, 6, "too big integer")
        refused('{"a":-9223372036854775809}', 1, 6, "too big negative integer")
        refused('{"a":1e309}', 1, 6, "real number overflow")
    end)

    it("wants an object, unless any value will do", function()
        refused("[1]", 1, 1, "expected an object")
        refused("5", 1, 1, "'[' or '{' expected")
        assert.equal("5", clean(" 5 ", C.MS_JSON_ANY))
        assert.equal('"x"', clean('"x"', C.MS_JSON_ANY))
    end)

    it("keeps escaped NULs in values and refuses them in keys", function()
        assert.equal('{"a":"x\\u0000"}', clean('{"a":"x\\u0000"}'))
        refused('{"a\\u0000b":1}', 1, 2, "NUL byte in object key")
    end)

    it("refuses what is longer than 256 MiB before it looks at it", function()
        local bytes = ms.bytes("{}")
        bytes.size = C.MS_JSON_SIZE_MAX + 1
        local json = ffi.gc(ffi.new("struct ms_json"), C.ms_json_close)
        assert.equal(C.MS_E_LIMIT, C.ms_json_prepass(bytes, json.clean, ffi.new("struct ms_json_fault")))
    end)

    it("needs a small stack only: 512 levels, and the refusal of more, in 256 KiB", function()
        local dir = ms.tmpdir()
        ms.write_file(dir .. "/deep.lua", [[
            local ms = require "spec.support.ms"
            for _, text in ipairs { '{"a":' .. ('{"b":'):rep(511) .. "1" .. ("}"):rep(512), '{"a":' .. ("["):rep(100000) } do
                local json, bytes = ms.ffi.new("struct ms_json"), ms.bytes(text)
                print(ms.C.ms_json_open(json, "t.json", bytes, 0))
                ms.C.ms_json_close(json)
            end
        ]])
        local output, status = ms.sh(("ulimit -s 256; LUA_PATH='./?.lua' luajit '%s/deep.lua'"):format(dir))
        assert.equal(0, status, output)
        assert.equal(("0\n%d\n"):format(C.MS_E_LIMIT), output)
    end)

    it("survives every allocation that fails", function()
        local text = '{"a@g":{0:1,"x":[' .. ("1,"):rep(200) .. "1]}}"
        local failures = ms.with_alloc_failures(function()
            local json = ffi.new("struct ms_json")
            local bytes = ms.bytes(text)
            local rc = C.ms_json_open(json, "t.json", bytes, 0)
            assert.is_true(rc == 0 or rc == C.MS_E_MEMORY)
            C.ms_json_close(json)
        end)
        assert.is_true(failures > 2)
    end)
end)

describe("the text of a value", function()
    local function pretty(text)
        local out, bytes = ms.buf(), ms.bytes(text)
        C.ms_json_pretty(bytes, 0, out)
        return ms.buf_str(out)
    end

    it("is laid out as RocketMQ does", function()
        assert.equal('{\n\t"a":{},\n\t"b":{\n\t\t"c":"{,:}",\n\t\t"d":[\n\t\t\t1,\n\t\t\t[]\n\t\t]\n\t}\n}',
            pretty('{"a":{},"b":{"c":"{,:}","d":[1,[]]}}'))
    end)

    it("comes back the same through the reader", function()
        for _, text in ipairs { '{"a":{},"b":[{"x":"\\"}"}],"c":-1.5e-7}', "[]", '"x"', "5" } do
            assert.equal(text, clean(pretty(text), C.MS_JSON_ANY))
        end
    end)

    it("walks members, however their strings look", function()
        local json = ffi.gc(ffi.new("struct ms_json"), C.ms_json_close)
        local bytes = ms.bytes('{"a}":"x,\\"}", "\\u0062\\"": {"n":[1,{"m":"]"}]},3:-7,"e":{},"t":true}')
        assert.equal(0, C.ms_json_open(json, "t.json", bytes, 0))
        local members, seen = C.ms_json_members(C.ms_json_root(json)), {}
        local holder = ffi.new("struct ms_json_members[1]", members)
        while C.ms_json_next(holder) do
            local key = ms.buf()
            C.ms_json_key(holder[0].key, key)
            seen[#seen + 1] = ms.buf_str(key) .. "=" .. ms.str(holder[0].value)
        end
        assert.same({ 'a}="x,\\"}"', 'b"={"n":[1,{"m":"]"}]}', "3=-7", "e={}", "t=true" }, seen)
    end)

    it("is an integer only without fraction, exponent and overflow", function()
        local number = ffi.new("int64_t[1]")
        local function integer(text) return C.ms_json_integer(ms.bytes(text), number) and ms.dec(number[0]) or nil end
        assert.equal("9223372036854775807", integer("9223372036854775807"))
        assert.equal("-9223372036854775808", integer("-9223372036854775808"))
        assert.equal("0", integer("-0"))
        for _, text in ipairs { "1.0", "1e3", "12.5", '"5"', "true", "9223372036854775808", "-9223372036854775809",
            "99999999999999999999999", "-" } do
            assert.is_nil(integer(text), text)
        end
    end)

    it("quotes any UTF-8 and nothing else", function()
        local function quote(text)
            local out = ms.buf()
            return C.ms_json_quote(ms.bytes(text), out), ms.buf_str(out)
        end
        assert.same({ 0, '"a\\"b\\\\c\\n订单"' }, { quote('a"b\\c\n订单') })
        assert.equal(C.MS_E_FORMAT, (quote("a\200")))
    end)
end)
