-- `require` in a sandbox: what the owner offers, once, and nothing else; and the wall between trusted code and the rest.
local ms = require "spec.support.ms"
local sandbox = require "spec.support.sandbox"
local C = ms.C

describe("require", function()
    local box
    before_each(function() box = sandbox.new { instructions = 1000000, time_us = 0 } end)
    after_each(function() box:close() end)

    it("runs an offered text once, with its name, and gives what it returns", function()
        box:offer("part", "loads = (loads or 0) + 1 return { name = ..., loads = loads }")
        assert.equal("part 1 true", box:value [[
            local a, b = require "part", require "part"
            return a.name .. " " .. b.loads .. " " .. tostring(a == b)]])
        assert.equal("part", box:value "return require 'part'.name")
    end)

    it("gives true for a text that returns nothing, or false", function()
        box:offer("nothing", "")
        box:offer("falsehood", "return false")
        assert.is_true(box:value "return require 'nothing' == true and require 'falsehood' == true")
    end)

    it("takes only names that can't be paths", function()
        for _, name in ipairs { "", ".", "..", "../x", "a/b", "/etc/passwd", "a..b", ".a", "a.", "a b", "a\\b", "a:b", "-a", "ä", ("a"):rep(101) } do
            assert.equal(C.MS_E_INVALID, box:offer(name, "return 1"), name)
            assert.truthy(box:failure(("require(%q)"):format(name)).message:find("a module can't be called", 1, true), name)
        end
        for _, name in ipairs { "a", "a.b", "a-b", "a_b", "A1.b-2_c", "_a" } do
            assert.equal(0, box:offer(name, "return 1"), name)
            assert.equal(1, box:value(("return require %q"):format(name)))
        end
        assert.equal(C.MS_E_INVALID, box:offer("a", "return 2"))
    end)

    it("asks the owner for what was not offered", function()
        local asked = {}
        box:on_require(function(name)
            asked[#asked + 1] = name
            return name:match("^found") and "return 'text of " .. name .. "'" or nil
        end)
        assert.equal("text of found", box:value "return require 'found'")
        assert.equal("text of found", box:value "return require 'found'")
        assert.equal("module 'lost' not found", box:failure("require 'lost'").message)
        assert.equal("error", box:failure("require '../found'").code)
        assert.same({ "found", "lost" }, asked)
    end)

    it("refuses a cycle, and leaves nothing of it", function()
        box:offer("a", "return require 'b'")
        box:offer("b", "return require 'a'")
        assert.truthy(box:failure("require 'a'").message:find("module 'a' requires itself", 1, true))
        assert.truthy(box:failure("require 'b'").message:find("module 'b' requires itself", 1, true))
    end)

    it("runs a text that failed again", function()
        box:offer("flaky", "tries = (tries or 0) + 1 if tries < 3 then error('try ' .. tries) end return tries")
        assert.same({ code = "error", message = "try 1", file = "flaky", line = 1 }, box:failure "require 'flaky'")
        assert.equal("try 2", box:failure("require 'flaky'").message)
        assert.equal(3, box:value "return require 'flaky'")
        assert.equal(3, box:value "return require 'flaky'")
    end)

    it("says where a syntax error is", function()
        box:offer("wrong", "\nlocal = 1")
        local e = box:failure "require 'wrong'"
        assert.equal("wrong", e.file)
        assert.equal(2, e.line)
    end)

    it("takes a text as text only", function()
        box:offer("bytes", string.dump(function() return 1 end))
        assert.equal("attempt to load chunk with wrong mode", box:failure("require 'bytes'").message)
    end)

    it("is bounded like everything else", function()
        box:offer("loop", "while true do end")
        box:offer("deep", "deeper = require")
        box:offer("bomb", "local s = 'x' while true do s = s .. s end")
        assert.equal("limit", box:failure("pcall(require, 'loop')").code)
        assert.equal("limit", box:failure("pcall(require, 'loop') return 1").code)
        assert.equal("memory", box:failure("pcall(require, 'bomb')").code)
    end)

    describe("and trusted texts:", function()
        it("they have all libraries, and the sandbox's strings and tables", function()
            box:offer("glue", [[
                local ffi = require "ffi"
                return type(ffi.cast) .. type(debug.getinfo) .. type(io.open) .. type(loadstring) .. type(string.dump) .. type(_G.readonly)
            ]], C.MS_SANDBOX_PUBLIC)
            assert.equal("functionfunctionfunctionfunctionnilfunction", box:value "return require 'glue'")
        end)

        it("only trusted ones can require those that are not public", function()
            box:offer("inner", "return { secret = 1 }", C.MS_SANDBOX_TRUSTED)
            box:offer("outer", "return require 'inner'.secret + 1", C.MS_SANDBOX_PUBLIC)
            assert.equal("module 'inner' not found", box:failure("require 'inner'").message)
            assert.equal(2, box:value "return require 'outer'")
            assert.equal("module 'inner' not found", box:failure("require 'inner'").message)
        end)

        it("a public table is read-only for others, always the same one, and the trusted side has the real one", function()
            box:offer("api", "local api = { n = 1 } function api.bump() api.n = api.n + 1 return api.n end return api", C.MS_SANDBOX_PUBLIC)
            box:offer("user", "require 'api'.extra = 'yes' return 1", C.MS_SANDBOX_PUBLIC)
            assert.equal("attempt to change a read-only table", box:failure("require 'api'.n = 5").message)
            assert.equal("attempt to change a read-only table", box:failure("rawset(require 'api', 'n', 5)").message)
            assert.is_true(box:value "return require 'api' == require 'api'")
            assert.equal("2 2 yes", box:value "local api = require 'api' require 'user' return api.bump() .. ' ' .. api.n .. ' ' .. api.extra")
        end)

        it("their globals and those of the sandbox are different ones", function()
            box:offer("setter", "shared = 'trusted' string.mark = nil return shared", C.MS_SANDBOX_PUBLIC)
            assert.equal("nil", box:value "require 'setter' return tostring(shared)")
            box:run "type = nil pcall = nil string = nil"
            box:offer("later", "return type(pcall) .. type(string.find)", C.MS_SANDBOX_PUBLIC)
            assert.equal("functionfunction", box:value "return require 'later'")
        end)

        it("a function of theirs gives nothing of its environment away", function()
            box:offer("give", "local secret = {} return function(f) return f and f() end", C.MS_SANDBOX_PUBLIC)
            assert.equal("nil nil nil", box:value [[
                local f = require "give"
                local function name(n) return tostring(f(function() return _G[n] end)) end
                return name "ffi" .. " " .. name "debug" .. " " .. name "getfenv"]])
        end)

        it("their code counts as the caller's", function()
            box:offer("spin", "return function() while true do end end", C.MS_SANDBOX_PUBLIC)
            local e = box:failure "\n\nlocal spin = require 'spin'\nspin()"
            assert.equal("limit", e.code)
            assert.same({ "test.lua", 4 }, { e.file, e.line }) -- the place is the caller's, not the glue's
        end)

        it("patterns and sorts of theirs are bounded too", function()
            box:offer("find", "return function(s, p) return string.find(s, p) end", C.MS_SANDBOX_PUBLIC)
            assert.equal("limit", box:failure("require 'find'(('a'):rep(5000), ('a*'):rep(20) .. 'b')").code)
        end)
    end)

    it("keeps its word with every allocation failing", function()
        local live = ms.live()
        local found
        ms.with_alloc_failures(function(n)
            C.ms_mem_fail_after(0)
            local one = sandbox.new { instructions = 1000000, time_us = 0 }
            C.ms_mem_fail_after(n)
            local rc = one:offer("part", "return { n = 1 }", C.MS_SANDBOX_PUBLIC)
            local ok, result = one:run "return require 'part'.n"
            local left = C.ms_mem_fail_after(0)
            found = rc == 0 and ok
            if ok then assert.equal(1, result) else assert.is_true(result.code == "memory" or rc ~= 0, result.message) end
            one:close()
            C.ms_mem_fail_after(left)
        end)
        assert.is_true(found)
        assert.equal(live, ms.live())
    end)
end)
