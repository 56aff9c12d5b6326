-- core/lua/match.c against LuaJIT's own string library: the same results for thousands of random patterns and subjects, and the
-- functions built on it (find, match, gmatch, gsub) against those of this process.
local ms = require "spec.support.ms"
local sandbox = require "spec.support.sandbox"
local C, ffi = ms.C, ms.ffi

local SEED = tonumber(os.getenv("MS_SEED")) or 20240607
local ROUNDS = 20000

local state = SEED
local function random(n)
    state = (state * 1103515245 + 12345) % 2 ^ 31
    return math.floor(state / 2 ^ 16) % n + 1
end

local function pick(list) return list[random(#list)] end

local SINGLE = { "a", "b", "c", ".", "%a", "%d", "%s", "%w", "%A", "%D", "%z", "%Z", "%p", "%x", "%u", "%l", "%c", "%g", "%.", "%%", "%S",
    "[abc]", "[^a]", "[a-c]", "[%d%s]", "[^%w]", "[]a]", "[a-]", "[%]]", "[^]]", "\200", "-", "]", "[a%-c]", "$", "^" }
local REPEAT = { "", "", "", "*", "+", "-", "?" }
local ODD = { "%b()", "%bab", "%f[%w]", "%f[a]", "%1", "%2", "()", "%f[^a]", "%0", "%b", "%f", "[", "%", "(", ")" }

local function item(depth)
    local kind = random(12)
    if kind == 1 and depth < 3 then return "(" .. item(depth + 1) .. item(depth + 1) .. ")" end
    if kind == 2 then return ODD[random(depth == 0 and random(3) > 1 and 8 or #ODD)] end
    return pick(SINGLE) .. pick(REPEAT)
end

local function pattern()
    local parts = { random(6) == 1 and "^" or "" }
    for n = 2, random(6) + 1 do parts[n] = item(0) end
    if random(6) == 1 then parts[#parts + 1] = "$" end
    return table.concat(parts)
end

local LETTERS = { "a", "b", "c", "a", "b", "1", " ", "(", ")", "\0", "A", ".", "\200", "-", "\n", "_", "$", "%" }
local function subject()
    local parts = {}
    for n = 1, random(25) - 1 do parts[n] = pick(LETTERS) end
    return table.concat(parts)
end

-- What a match gives, as one text: "nil", or from, to, the number of captures and the first three; or the error without its place.
local function describe_match(from, to, captures, count)
    if not from then return "nil" end
    local parts = { tostring(from), tostring(to), count }
    for n = 1, 3 do parts[#parts + 1] = tostring(captures[n]) end
    return table.concat(parts, "|")
end

local function by_lua(text, shape)
    local function gather(ok, from, to, ...)
        if not ok then return (from:gsub("^.-:%d+: ", "")) end
        return describe_match(from, to, { ... }, select("#", ...))
    end
    return gather(pcall(string.find, text, shape))
end

local match = ffi.new "struct ms_match"
local function by_us(text, shape)
    if not C.ms_match_special(shape, #shape) then
        local from, to = text:find(shape, 1, true)
        return describe_match(from, to, {}, 0)
    end
    C.ms_match_init(match, text, #text, nil, nil)
    local anchor = shape:sub(1, 1) == "^" and 1 or 0
    local p = ffi.cast("const char *", shape) + anchor
    for at = 0, anchor == 1 and 0 or #text do
        local to = C.ms_match_at(match, match.begin + at, p)
        if match.error ~= nil then return (ffi.string(match.error)) end
        if to ~= nil then
            local captures = {}
            for n = 0, match.level - 1 do
                local size = tonumber(match.capture[n].size)
                if size == -1 then return "unfinished capture" end
                local from = match.capture[n].at
                captures[n + 1] = size == -2 and tostring(tonumber(from - match.begin) + 1) or ffi.string(from, size)
            end
            return describe_match(at + 1, tonumber(to - match.begin), captures, match.level)
        end
    end
    return "nil"
end

local function same_error(a, b)
    return (a:gsub("[`']", "'")) == (b:gsub("[`']", "'"))
end

describe("pattern matching", function()
    it("gives what LuaJIT gives, for random patterns and subjects", function()
        local matched, failed = 0, 0
        for round = 1, ROUNDS do
            local text, shape = subject(), pattern()
            local expected, got = by_lua(text, shape), by_us(text, shape)
            if expected ~= got and not same_error(expected, got) then
                error(("round %d of seed %d: find(%q, %q): expected %s, got %s"):format(round, SEED, text, shape, expected, got))
            end
            if expected:match("^%d") then matched = matched + 1 elseif not expected:match("^nil") then failed = failed + 1 end
        end
        -- The generator must reach all three kinds of outcome.
        assert.is_true(matched > ROUNDS / 10 and matched < ROUNDS * 0.9, matched)
        assert.is_true(failed > ROUNDS / 100, failed)
    end)

    it("gives what LuaJIT gives, through find, match, gmatch and gsub", function()
        local box = sandbox.new { instructions = 10000000, time_us = 0 }
        local code = [[
            local text, shape, news = %s, %s, %s
            local out = {}
            local function note(...)
                for n = 1, select("#", ...) do out[#out + 1] = tostring((select(n, ...))) end
                out[#out + 1] = ";"
            end
            note(pcall(string.find, text, shape, %d))
            note(pcall(string.match, text, shape, %d))
            note(pcall(function() local n = 0 for a, b in text:gmatch(shape) do n = n + 1 note(a, b) if n > 50 then break end end end))
            note(pcall(string.gsub, text, shape, news, %d))
            note(pcall(string.gsub, text, shape, function(a, b) return b and a .. b end))
            note(pcall(string.gsub, text, shape, { a = "x", b = 1, c = false }))
            return (table.concat(out, "|"):gsub("[^|]-:%%d+: ", ""):gsub("`", "'"))]]
        local news = { "x", "%0", "<%1>", "%2", "%%", "", "%", "a%0b%1" }
        for round = 1, 1500 do
            local text = code:format(("%q"):format(subject()), ("%q"):format(pattern()), ("%q"):format(pick(news)), random(9) - 4,
                random(9) - 4, random(4) - 1)
            local expected, got = assert(loadstring(text))(), box:value(text)
            if expected ~= got then error(("round %d of seed %d\n%s\nexpected %q\ngot      %q"):format(round, SEED, text, expected, got)) end
        end
        box:close()
    end)

    it("counts steps, also of those that a set and a repetition take", function()
        local steps = 0
        ms.with_callback("void (*)(void *, uint64_t)", function(_, n) steps = steps + tonumber(n) end, function(tick)
            local function cost(text, shape)
                steps = 0
                C.ms_match_init(match, text, #text, tick, nil)
                C.ms_match_at(match, match.begin, shape)
                return steps + tonumber(match.steps)
            end
            assert.is_true(cost(("a"):rep(1000), "a*b") > 1000)
            assert.is_true(cost(("a"):rep(300), "a*a*b") > 300 * 300 / 2)
            assert.is_true(cost(("a"):rep(100), "[" .. ("b"):rep(100) .. "]*") < 400)
            assert.is_true(cost(("b"):rep(100), "[" .. ("a"):rep(100) .. "b]*") > 100 * 100)
            assert.is_true(cost("(" .. ("x"):rep(5000), "%b()") > 5000)
            assert.is_true(cost(("x"):rep(8000) .. ("x"):rep(8000), "(" .. ("x"):rep(20) .. ".*)%1") > 1000)
        end)
    end)
end)
