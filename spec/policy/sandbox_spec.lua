-- A sandbox: fuel, memory, errors and what they say. What is in its libraries: sandbox_library_spec.lua.
local ms = require "spec.support.ms"
local sandbox = require "spec.support.sandbox"
local program = require "spec.support.program"
local C, ffi = ms.C, ms.ffi

describe("a sandbox", function()
    local box
    before_each(function() box = sandbox.new { instructions = 100000 } end)
    after_each(function() if box then box:close() end end)

    describe("runs code", function()
        it("and gives its results", function()
            local ok, a, b, c = box:run("return 1 + 1, 'two', nil, true", nil, 4)
            assert.same({ true, 2, "two" }, { ok, a, b })
            assert.is_nil(c)
        end)

        it("with globals that live as long as the state, and in no other one", function()
            box:run "counter = 1"
            assert.equal(2, box:value "counter = counter + 1 return counter")
            local other = sandbox.new()
            assert.is_nil(other:value "return counter")
            other:close()
        end)

        it("and 64-bit integers exactly", function()
            assert.equal("9223372036854775807LL", box:value "return tostring(9223372036854775806LL + 1LL)")
            assert.equal("-9223372036854775808LL", box:value "return tostring(9223372036854775807LL + 1LL)")
            assert.equal("9223372036854775807", box:value "return ('%d'):format(9223372036854775807LL)")
            assert.is_true(box:value "return 2LL ^ 62LL == 4611686018427387904LL and 1LL < 2 and -1LL < 0ULL == false")
        end)
    end)

    describe("out of fuel", function()
        it("says so, and where", function()
            local e = box:failure "local n = 0\nwhile true do\n  n = n + 1\nend"
            assert.equal("limit", e.code)
            assert.equal("took more than 100000 instructions", e.message)
            assert.equal("test.lua", e.file)
            assert.is_true(e.line >= 2 and e.line <= 4)
        end)

        it("ends at the same instruction every time, without a clock", function()
            box:limits { instructions = 50000, time_us = 0 }
            local counts = {}
            for n = 1, 3 do
                box:failure "count = 0 while true do count = count + 1 pcall(string.rep, 'x', 100) end"
                counts[n] = box:value "return count"
            end
            assert.is_true(counts[1] > 1000)
            assert.same({ counts[1], counts[1], counts[1] }, counts)
        end)

        it("is so for one call: the next one has all of it again", function()
            local near = "local n = 0 for i = 1, 20000 do n = n + i end return n"
            for _ = 1, 20 do assert.equal(200010000, box:value(near)) end
            box:failure "while true do end"
            assert.equal(200010000, box:value(near))
        end)

        it("does not let code say that it went well", function()
            local e = box:failure "pcall(function() while true do end end) return true"
            assert.equal("limit", e.code)
        end)

        it("by processor time too", function()
            box:limits { instructions = 4000000000, time_us = 2000 }
            local from = sandbox.cpu_us()
            local e = box:failure "while true do end"
            local spent = sandbox.cpu_us() - from
            assert.equal("limit", e.code)
            assert.equal("took more than 2000 us of processor time", e.message)
            assert.is_true(spent >= 1900 and spent < 20000, spent)
        end)

        it("by work done in C", function()
            box:limits { instructions = 20000, time_us = 0 }
            for _, code in ipairs {
                "return ('x'):rep(400000)",
                "local s = ('x'):rep(100000) for i = 1, 10 do s:upper() end",
                "local t = {} for i = 1, 1000 do t[i] = -i end table.sort(t)",
                "return ('a'):rep(2000):find('a*a*b')",
                "local t = {} for i = 1, 1500 do t[i] = i end for i = 1, 20 do table.concat(t, ',') end",
            } do
                assert.equal("limit", box:failure(code).code, code)
            end
        end)
    end)

    describe("out of memory", function()
        local bomb = "local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end"
        before_each(function() box:limits { instructions = 100000000, time_us = 0 } end)

        it("ends the call, whoever would catch it, and is spoiled", function()
            assert.is_false(box:spoiled())
            local e = box:failure("while true do pcall(function() " .. bomb .. " end) end")
            assert.equal("memory", e.code)
            assert.truthy(e.message:find("not enough memory", 1, true))
            assert.is_true(box:spoiled())
            assert.is_true(box:memory() < 8 * 2 ^ 20 + 65536)
        end)

        it("keeps what it has below the cap through garbage without end", function()
            assert.equal("done", box:value "local t = {} for i = 1, 300000 do t = { t[1], i, {} } end return 'done'")
            assert.equal("done", box:value "for i = 1, 2000 do local s = ('x'):rep(10000) .. i end return 'done'")
            assert.is_true(box:memory() < 2 * 2 ^ 20, box:memory())
            assert.is_false(box:spoiled())
        end)

        it("gives back all that it took", function()
            local live = ms.live()
            local other = sandbox.new { instructions = 100000000, time_us = 0 }
            other:failure(bomb)
            other:close()
            assert.equal(live, ms.live())
        end)
    end)

    describe("tells what went wrong", function()
        it("of a syntax error", function()
            assert.same({ code = "syntax", message = "'=' expected near '<eof>'", file = "policy.lua", line = 2 },
                select(2, box:run("\nx", "@policy.lua")))
        end)

        it("of an error that the code raises", function()
            assert.same({ code = "error", message = "bad topic", file = "test.lua", line = 3 },
                box:failure "local function check()\n\n  error 'bad topic'\nend\ncheck()")
        end)

        it("of an error of the machine", function()
            assert.same({ code = "error", message = "attempt to index global 'nothing' (a nil value)", file = "test.lua", line = 1 },
                box:failure "return nothing.at.all")
        end)

        it("of an error object, by its type and place", function()
            assert.same({ code = "error", message = "(an error object of type table)", file = "test.lua", line = 2 },
                box:failure "local t = {}\nerror(t)")
        end)

        it("in a text that can be printed, cut between characters", function()
            local e = box:failure "error('a\\0b\\27[2J\\n' .. ('ä'):rep(200), 0)"
            assert.equal("a", e.message)
            e = box:failure "error('x\\27[2J\\n' .. ('ä'):rep(200), 0)"
            assert.equal("x [2J " .. ("ä"):rep(124), e.message)
            assert.is_true(#e.message <= 255)
        end)

        it("as the thread's message too, with the place", function()
            box:failure "error 'no'"
            assert.equal("test.lua:1: no", ms.err())
        end)
    end)

    it("refuses bytecode", function()
        local e = select(2, box:run(string.dump(function() return 1 end), "=bytecode"))
        assert.equal("syntax", e.code)
        assert.equal("attempt to load chunk with wrong mode", e.message)
    end)

    it("bounds how deep the parser goes", function()
        assert.equal("syntax", select(2, box:run(("("):rep(10000) .. "1")).code)
        assert.equal("syntax", select(2, box:run("return " .. ("{"):rep(10000))).code)
        assert.equal("syntax", select(2, box:run(("do "):rep(10000))).code)
    end)

    program.describe("on a small stack", "sandbox_stack")

    it("lets calls nest about equally deep, whatever they go through", function()
        local counts = {}
        for name, down in pairs {
            pcall = "local function f() n = n + 1 return pcall(f) end f()",
            xpcall = "local function f() n = n + 1 return xpcall(f, f) end f()",
            resume = "local function f() n = n + 1 return coroutine.resume(coroutine.create(f)) end f()",
            wrap = "local function f() n = n + 1 return coroutine.wrap(f)() end pcall(f)",
            gsub = "local function f() n = n + 1 return (('x'):gsub('x', f)) end pcall(f)",
            sort = "local function f() n = n + 1 table.sort({ 1, 2 }, f) end pcall(f)",
            format = "local t = setmetatable({}, {}) getmetatable(t).__tostring = function() n = n + 1 return ('%s'):format(t) end"
                .. " pcall(tostring, t)",
        } do
            box:limits { instructions = 10000000, time_us = 0 }
            counts[name] = box:value("n = 0 " .. down .. " return n")
            assert.is_true(counts[name] > 90 and counts[name] <= 210, name .. " " .. counts[name])
        end
    end)

    it("can be made, used and closed with every single allocation failing", function()
        box:close()
        box = nil
        local code = [[
            local t = {}
            for i = 1, 50 do t[i] = ("x"):rep(i) .. i end
            local ok = pcall(error, {})
            local co = coroutine.wrap(function(a) coroutine.yield(a) return a .. "2" end)
            return co("1") .. co() .. ("abc"):gsub("%w", "%0%0") .. table.concat(t) .. tostring(ok) .. tostring(1LL)]]
        local expected
        local outcomes = {}
        local failures = ms.with_alloc_failures(function()
            local one, rc = sandbox.try_new { instructions = 100000, time_us = 0 }
            if not one then
                assert.equal(C.MS_E_MEMORY, rc)
                outcomes.new = true
                return
            end
            assert(one:offer("part", "return ('part'):upper()") <= 0)
            local ok, result = one:run(code)
            if ok then
                expected = expected or result
                assert.equal(expected, result)
            else
                assert.equal("memory", result.code)
                assert.is_true(one:spoiled())
                outcomes.run = true
            end
            local again, text = one:run "return 'works'"
            assert.is_true(again and text == "works" or text.code == "memory")
            one:close()
        end)
        assert.is_true(failures > 500, failures)
        assert.same({ new = true, run = true }, outcomes)
    end)

    it("protects its owner's own use of Lua", function()
        -- ms_sandbox_protect is what all owners use; here it runs a function that raises an error without a message.
        local L = box.L
        local fn = ffi.cast("int (*)(struct lua_State *)", C.ms_sandbox_require_plain) -- its argument is no string
        local e = ffi.new "struct ms_sandbox_error"
        assert.equal(C.MS_E_REFUSED, C.ms_sandbox_protect(box.box, fn, nil, e))
        assert.truthy(ffi.string(e.message):find("string expected"))
        assert.equal(0, C.lua_gettop(L))
    end)
end)
