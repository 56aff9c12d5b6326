-- sync/patterns: globs over bytes; which of a table's patterns decide, and in which order.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local function fits(pattern, text) return C.ms_pattern_fits(ms.bytes(pattern), ms.bytes(text)) end

local function patterns(list)
    local box = ffi.new "struct ms_patterns *[1]"
    ms.check(C.ms_patterns_new(box))
    local set = ffi.gc(box[0], C.ms_patterns_free)
    for _, p in ipairs(list or {}) do ms.check(C.ms_patterns_add(set, p[1], ms.bytes(p[2]), p[3] or false)) end
    return set
end

local NAMES = { [0] = "unknown", "in", "out" }
local function decide(set, name, key) return NAMES[tonumber(C.ms_patterns_decide(set, name, ms.bytes(key)))] end

-- The definition, as slow as it is plain.
local function plain(pattern, text)
    if pattern == "" then return text == "" end
    local first, rest = pattern:sub(1, 1), pattern:sub(2)
    if first == "*" then return plain(rest, text) or (text ~= "" and plain(pattern, text:sub(2))) end
    if text == "" then return false end
    if first == "?" then return plain(rest, text:sub(2)) end
    if first == "\\" then first, rest = rest:sub(1, 1), rest:sub(2) end
    return text:sub(1, 1) == first and plain(rest, text:sub(2))
end

describe("a glob", function()
    it("has to fit all of the text", function()
        assert.is_true(fits("orders", "orders"))
        assert.is_false(fits("orders", "orders2"))
        assert.is_false(fits("rders", "orders"))
        assert.is_true(fits("", ""))
        assert.is_false(fits("", "a"))
        assert.is_true(fits("*", ""))
        assert.is_true(fits("Bench*", "BenchmarkTest"))
        assert.is_false(fits("a*a", "a"))
        assert.is_true(fits("a*a", "aa"))
        assert.is_false(fits("?", ""))
    end)

    it("takes bytes, whatever they are", function()
        assert.is_true(fits("\255?\0*", "\255\128\0\1\2"))
        assert.is_true(fits("\\*\\?\\\\", "*?\\"))
        assert.is_false(fits("\\*", "a"))
        assert.is_true(fits("%*[a]", "%RETRY%[a]"))
    end)

    it("agrees with its definition on every short pattern and text", function()
        local alphabet, texts, count = { "a", "b", "*", "?", "\\a", "\\*" }, { "" }, 0
        for length = 1, 5 do
            local from = #texts
            for i = 1, from do
                if #texts[i] == length - 1 then
                    texts[#texts + 1] = texts[i] .. "a"
                    texts[#texts + 1] = texts[i] .. "b"
                end
            end
        end
        texts[#texts + 1] = "*"
        local function grow(pattern, left)
            for _, text in ipairs(texts) do
                count = count + 1
                if fits(pattern, text) ~= plain(pattern, text) then error(("%q and %q"):format(pattern, text)) end
            end
            if left == 0 then return end
            for _, unit in ipairs(alphabet) do grow(pattern .. unit, left - 1) end
        end
        grow("", 4)
        assert.is_true(count > 90000)
    end)

    it("is quick about patterns that are made to be slow", function()
        local text = ("a"):rep(60000)
        local began = os.clock()
        assert.is_false(fits(("a*"):rep(400) .. "b", text))
        assert.is_false(fits(("*a"):rep(500) .. "b*", text))
        assert.is_false(fits("*" .. ("a"):rep(500) .. "b*", text)) -- key x pattern, the worst there is
        assert.is_true(fits(("*"):rep(1024), text))
        assert.is_true(os.clock() - began < 1)
    end)
end)

describe("patterns", function()
    after_each(function() collectgarbage() collectgarbage() end) -- the sets are freed by then

    it("decide nothing of a table that no rule names", function()
        assert.equal("unknown", decide(patterns(), "topic", "a"))
        assert.equal("unknown", decide(patterns { { "group", "*" } }, "topic", "a"))
    end)

    it("exclude first, then include; what no include fits is out", function()
        local set = patterns { { "topic", "tmp*" }, { "topic", "*", true }, { "group", "g*", true } }
        assert.equal("out", decide(set, "topic", "tmp1"))
        assert.equal("in", decide(set, "topic", "orders"))
        assert.equal("in", decide(set, "group", "g1"))
        assert.equal("out", decide(set, "group", "x"))
    end)

    it("leave to others what no exclude fits", function()
        assert.equal("unknown", decide(patterns { { "topic", "tmp*" } }, "topic", "orders"))
    end)

    it("of * hold for tables that have no rule of their own", function()
        local set = patterns { { "*", "tmp*" }, { "topic", "bench*" } }
        assert.equal("out", decide(set, "group", "tmp1"))
        assert.equal("unknown", decide(set, "topic", "tmp1"))
        assert.equal("out", decide(set, "topic", "bench1"))
    end)

    it("fit KEY and FIELD apart", function()
        local set = patterns { { "offset", "tmp*" }, { "offset", "*\0bench*" }, { "offset", "a?\0x" } }
        assert.equal("out", decide(set, "offset", "tmp@g"))
        assert.equal("out", decide(set, "offset", "tmp@g\0001"))     -- says nothing of the field
        assert.equal("out", decide(set, "offset", "t@g\0bench1"))
        assert.equal("unknown", decide(set, "offset", "bench1\0t"))
        assert.equal("unknown", decide(set, "offset", "bench1"))     -- it has no field
        assert.equal("out", decide(set, "offset", "ab\0x"))
        assert.equal("unknown", decide(set, "offset", "a\0b\0x"))    -- the first NUL ends KEY
    end)

    it("have limits, each with its error", function()
        local set = patterns()
        assert.equal(C.MS_E_LIMIT, C.ms_patterns_add(set, "topic", ms.bytes(("a"):rep(1025)), true))
        assert.equal(C.MS_E_INVALID, C.ms_patterns_add(set, "topic", ms.bytes "a\\", true))
        assert.matches("topic", ms.err())
        assert.equal(C.MS_E_INVALID, C.ms_patterns_add(set, "topic", ms.bytes "a\\\0b", true))
        assert.equal(C.MS_E_LIMIT, C.ms_patterns_add(set, ("t"):rep(64), ms.bytes "a", true))
        assert.equal("unknown", decide(set, "topic", "b")) -- a refused one is not there
        ms.check(C.ms_patterns_add(set, "topic", ms.bytes(("a"):rep(1024)), true))
        for i = 2, 10000 do ms.check(C.ms_patterns_add(set, "topic", ms.bytes("p" .. i), true)) end
        assert.equal(C.MS_E_LIMIT, C.ms_patterns_add(set, "topic", ms.bytes "one more", true))
        assert.equal("in", decide(set, "topic", "p2"))
    end)

    it("leave nothing behind when memory is out", function()
        ms.with_alloc_failures(function()
            local box = ffi.new "struct ms_patterns *[1]"
            local rc = C.ms_patterns_new(box)
            for _, name in ipairs { "topic", "topic", "group" } do
                if rc == 0 then rc = C.ms_patterns_add(box[0], name, ms.bytes "a*", true) end
            end
            C.ms_patterns_free(box[0])
            assert.is_true(rc == 0 or rc == C.MS_E_MEMORY)
        end)
    end)
end)
