-- What sandboxed code sees: nothing that is not on the list, nothing that it can change for others, and functions that do what
-- LuaJIT's do.
local ms = require "spec.support.ms"
local sandbox = require "spec.support.sandbox"

local BASE = "_G _VERSION assert bit coroutine error getmetatable ipairs math next os pairs pcall rawequal rawget rawset require select "
    .. "setmetatable string table tonumber tostring type unpack xpcall"
local STRING = "byte char find format gmatch gsub len lower match rep reverse sub upper"
local TABLE = "concat insert maxn move remove sort"
local COROUTINE = "create isyieldable resume running status wrap yield"

describe("the library of a sandbox", function()
    local box
    before_each(function() box = sandbox.new { instructions = 20000000, time_us = 0 } end)
    after_each(function() box:close() end)

    it("has in its environment what is on the list, and nothing else", function()
        assert.equal(BASE, box:value "local all = {} for k in pairs(_G) do all[#all + 1] = k end table.sort(all) return table.concat(all, ' ')")
    end)

    it("has in its tables what is on the list, and nothing else", function()
        local probe = [[
            local found = {}
            for name in ("%s"):gmatch("%%S+") do if %s[name] ~= nil then found[#found + 1] = name end end
            return table.concat(found, " ")]]
        local function expect(library, wanted)
            local all = {}
            for name in pairs(_G[library]) do all[#all + 1] = name end
            for name in wanted:gmatch("%S+") do all[#all + 1] = name end
            local found, seen = {}, {}
            for name in box:value(probe:format(table.concat(all, " "), library)):gmatch("%S+") do
                if not seen[name] then found[#found + 1] = name end
                seen[name] = true
            end
            table.sort(found)
            assert.equal(wanted, table.concat(found, " "))
        end
        expect("string", STRING)
        expect("table", TABLE)
        expect("coroutine", COROUTINE)
        expect("os", "clock time")
        assert.is_true(box:value "return math.floor(1.5) == 1 and math.pi > 3 and math.random(5) <= 5 and bit.band(6, 3) == 2")
    end)

    describe("can't be changed", function()
        for name, code in pairs {
            ["by assignment"] = "string.find = print", ["by a new field"] = "math.MASTER = true",
            ["by rawset"] = "rawset(table, 'x', 1)", ["by insert"] = "table.insert(table, 1)",
            ["by move"] = "table.move({ 1 }, 1, 1, 1, table)", ["by move in place"] = "table.move(table, 1, 1, 2)",
            ["by remove"] = "table.remove(table)", ["by sort"] = "table.sort(table)", ["through os"] = "os.time = nil",
            ["through coroutine"] = "coroutine.yield = nil", ["through bit"] = "bit.band = nil",
        } do
            it(name, function() assert.equal("attempt to change a read-only table", box:failure(code).message) end)
        end

        it("through its metatables", function()
            assert.equal("protected", box:value "return getmetatable(string)")
            assert.equal("protected", box:value "return getmetatable('')")
            assert.equal("cannot change a protected metatable", box:failure "setmetatable(string, {})".message)
        end)

        it("while tables of the code's own can, also those with metatables", function()
            assert.equal("1 2 nil", box:value [[
                local t = setmetatable({}, { __newindex = error, __metatable = "mine" })
                rawset(t, "a", 1)
                table.insert(t, 2)
                local a, b = t.a, table.remove(t)
                return a .. " " .. b .. " " .. tostring(t[1])]])
        end)
    end)

    describe("catches errors", function()
        it("as pcall does", function()
            assert.equal("false 1 2 3", box:value [[
                return table.concat({ tostring((pcall(error))), select(2, pcall(unpack, { 1, 2, 3 })) }, " ")]])
            assert.equal("test.lua:1: x", box:value "return select(2, pcall(error, 'x', 1)) and select(2, pcall(function() error 'x' end))")
            assert.equal("table", box:value "return type(select(2, pcall(error, {})))")
            assert.equal("nil", box:value "return tostring(select(2, pcall(error)))")
            assert.truthy(box:failure("pcall()").message:find("value expected"))
            assert.truthy(box:value("return select(2, pcall(nil))"):find("attempt to call a nil value"))
        end)

        it("as xpcall does, with arguments and a handler that sees the stack of the error", function()
            assert.equal("1 2", box:value [[
                return table.concat({ select(2, xpcall(function(...) return ... end, error, 1, 2)) }, " ")]])
            assert.equal("handled test.lua:1: x",
                box:value "return select(2, xpcall(function() error 'x' end, function(m) return 'handled ' .. m end))")
            assert.equal("error in error handling", box:value "return select(2, xpcall(error, function() error 'again' end))")
            assert.equal("false", box:value "return tostring((xpcall(error, function() end)))")
        end)

        it("a thousand times, from any depth", function()
            assert.equal(1000, box:value [[
                local caught = 0
                local function deep(n) if n == 0 then error 'x' end return 1 + deep(n - 1) end
                for i = 1, 1000 do if not pcall(deep, i % 90) then caught = caught + 1 end end
                return caught]])
        end)

        it("of a stack that overflows", function()
            assert.truthy(box:value("local function f() return 1 + f() end return select(2, pcall(f))"):find("stack overflow"))
            assert.equal("on", box:value "local function f() return 1 + f() end for i = 1, 20 do pcall(f) end return 'on'")
        end)
    end)

    describe("has coroutines", function()
        for name, code in pairs {
            ["that give and take values"] = [[
                local co = coroutine.create(function(a, b) local c = coroutine.yield(a + b) return c * 2 end)
                local _, sum = coroutine.resume(co, 1, 2)
                local _, last = coroutine.resume(co, 21)
                return sum .. " " .. last .. " " .. coroutine.status(co)]],
            ["that are wrapped"] = [[
                local out = {}
                for n in coroutine.wrap(function() for n = 1, 3 do coroutine.yield(n) end end) do out[#out + 1] = n end
                return table.concat(out, " ")]],
            ["that fail"] = [[
                local co = coroutine.create(function() error({ 1 }) end)
                local ok, e = coroutine.resume(co)
                return tostring(ok) .. type(e) .. coroutine.status(co) .. tostring(coroutine.resume(co)) .. select(2, coroutine.resume(co))]],
            ["that fail, wrapped"] = [[
                local ok, e = pcall(coroutine.wrap(function() error("x", 0) end))
                return tostring(ok) .. e:match("x$")]],
            ["that know who runs"] = [[
                local seen
                local co = coroutine.create(function() seen = coroutine.running() return coroutine.status(seen) end)
                local _, status = coroutine.resume(co)
                return tostring(seen == co) .. status .. tostring(coroutine.running())]],
            ["in which pcall works"] = [[
                local co = coroutine.wrap(function() coroutine.yield(tostring(pcall(error))) return "end" end)
                return co() .. co()]],
            ["that can't resume the one that resumes them"] = [[
                local outer
                outer = coroutine.create(function()
                    return coroutine.resume(coroutine.create(function() return coroutine.resume(outer) end))
                end)
                local _, ok, inner, why = coroutine.resume(outer)
                return tostring(ok) .. tostring(inner) .. tostring(why)]],
            ["with many results"] = [[
                local t = {}
                for i = 1, 5000 do t[i] = i end
                local co = coroutine.wrap(function() coroutine.yield(unpack(t)) end)
                return select("#", co()) .. ""]],
        } do
            it(name, function()
                local here = assert(loadstring(code, "@test.lua"))
                assert.equal(here(), box:value(code))
            end)
        end
    end)

    describe("has tables", function()
        it("that it sorts as LuaJIT does", function()
            local code = [[
                local seed = %d
                local t = {}
                for i = 1, seed %% 200 do seed = (seed * 1103515245 + 12345) %% 2147483648 t[i] = seed %% 97 end
                local u = { unpack(t) }
                table.sort(t)
                table.sort(u, function(a, b) return a > b end)
                return table.concat(t, " ") .. "|" .. table.concat(u, " ")]]
            for seed = 1, 300 do
                local text = code:format(seed * 7919)
                assert.equal(assert(loadstring(text))(), box:value(text))
            end
        end)

        it("that keep their elements, whatever the comparison does", function()
            for _, comparison in ipairs { "true", "false", "a > b and a % 3 == 0", "(a * 7 + b) % 5 < 2" } do
                assert.equal(5050, box:value(([[
                    local t, sum = {}, 0
                    for i = 1, 100 do t[i] = i end
                    table.sort(t, function(a, b) return %s end)
                    for i = 1, 100 do sum = sum + t[i] end
                    return sum]]):format(comparison)))
            end
            assert.equal(5050, box:value [[
                local t, sum, n = {}, 0, 0
                for i = 1, 100 do t[i] = i end
                pcall(table.sort, t, function(a, b) n = n + 1 if n > 200 then error "stop" end return a < b end)
                for i = 1, 100 do sum = sum + t[i] end
                return sum]])
        end)

        it("that it sorts only with what can be compared", function()
            assert.truthy(box:failure("table.sort { 1, 'a', {} }").message:find("attempt to compare"))
            assert.truthy(box:failure("table.sort({ 1, 2 }, 3)").message:find("function expected"))
            assert.equal("ab", box:value [[
                local mt = { __lt = function(a, b) return a.n < b.n end }
                local t = { setmetatable({ n = "b" }, mt), setmetatable({ n = "a" }, mt) }
                table.sort(t)
                return t[1].n .. t[2].n]])
        end)

        for name, code in pairs {
            insert = "local t = { 1, 2, 3 } table.insert(t, 4) table.insert(t, 1, 0) table.insert(t, 3, 'x') return table.concat(t, ',')",
            remove = "local t = { 1, 2, 3 } local a, b = table.remove(t), table.remove(t, 1)"
                .. " local none = table.remove({}) return a .. b .. #t .. tostring(none)",
            concat = "return table.concat({ 1, 'a', 2.5 }, '-') .. table.concat({}, 'x') .. table.concat({ 1, 2, 3 }, '', 2, 3)",
            move = "return table.concat(table.move({ 1, 2, 3 }, 1, 3, 2), ',') .. table.concat(table.move({ 1, 2 }, 1, 2, 1, {}), ',')",
            maxn = "return table.maxn({ 1, 2, [10] = 1, [2.5] = 1, x = 3 }) .. ' ' .. table.maxn {}",
            unpack = "return select('#', unpack({ 1, nil, 3 }, 1, 3)) .. ' ' .. select('#', unpack {})",
        } do
            it("with " .. name, function() assert.equal(assert(loadstring(code))(), box:value(code)) end)
        end
    end)

    describe("has strings", function()
        for name, code in pairs {
            rep = "return ('ab'):rep(3) .. ('ab'):rep(0) .. ('ab'):rep(-1) .. ('x'):rep(3, ', ') .. (''):rep(5) .. ('a'):rep(2.7)",
            case = "return ('aBc'):upper() .. ('aBc'):lower() .. ('abc'):reverse()",
            format = "return ('%s|%5d|%-5s|%05.1f|%x|%q|%%|%c|%g'):format('a', 42, 'b', 3.14159, 255, 'q\\n', 65, 1e20)",
            formats = "return ('%d %s %s %s'):format(3, nil, true, 1.5) .. ('%10.4s|'):format('abcdefgh')",
            tostring = "return ('%s'):format(setmetatable({}, { __tostring = function() return 'mine' end }))",
            int64 = "return ('%d %x %s'):format(9223372036854775807LL, 255ULL, 1LL)",
            plain = "return table.concat({ ('a.b'):find('.', 1, true) }, ' ') .. ('abc'):find('') .. tostring(('abc'):find('', 10))",
            numbers = "return string.rep(12, 2) .. string.find(12345, 34) .. (string.gsub(123, 2, 'x'))",
        } do
            it("with " .. name, function()
                assert.equal(assert(loadstring(code))(), box:value(code))
            end)
        end

        it("with the errors of bad arguments", function()
            for _, code in ipairs { "('x'):rep()", "string.rep({}, 2)", "('%d'):format('x')", "('%s'):format()", "('%y'):format(1)",
                "string.find('x')", "('x'):gsub('x')", "('x'):gsub('x', true)", "string.gmatch(nil, 'x')",
                "('x'):gsub('x', function() return {} end)" } do
                assert.equal("error", box:failure(code).code, code)
                assert.is_false((pcall(assert(loadstring(code)))), code)
            end
        end)
    end)

    describe("has a clock", function()
        it("that is the owner's", function()
            local C, ffi = ms.C, ms.ffi
            local now = 1700000000999999ULL
            ms.with_callback("uint64_t (*)(void *)", function() return now end, function(callback)
                local out = ffi.new "struct ms_sandbox *[1]"
                ms.check(C.ms_sandbox_new(ffi.new("struct ms_sandbox_limits", sandbox.limits()), callback, nil, out))
                local other = setmetatable({ box = out[0], L = C.ms_sandbox_state(out[0]), kept = {} }, getmetatable(box))
                assert.equal(1700000000, other:value "return os.time()")
                other:close()
            end)
            assert.is_true(math.abs(box:value "return os.time()" - os.time()) <= 1)
        end)

        it("of processor time, which without a time limit is counted in instructions", function()
            local code = "local from = os.clock() for i = 1, 1e5 do end return os.clock() - from"
            assert.equal(box:value(code), box:value(code))
            assert.is_true(box:value(code) > 0)
            box:limits { instructions = 20000000, time_us = 1000000 }
            local spent = box:value(code)
            assert.is_true(spent > 0 and spent < 1, spent)
        end)
    end)

    it("has random numbers that are the same in every new state", function()
        local other = sandbox.new()
        local code = "return math.random() .. ' ' .. math.random(1000)"
        assert.equal(box:value(code), other:value(code))
        other:close()
    end)
end)
