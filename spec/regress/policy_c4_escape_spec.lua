-- CVE-2022-0543 (Debian's redis: package.loadlib), redis/redis PR 10651 (CVE-2022-24735/6: changed library tables run by others),
-- Snapchat/KeyDB#958, CVE-2025-49844: ways out of a sandbox. A policy finds none of them, and the next policy sees nothing of it.
local kit = require "spec.support.policykit"

describe("a policy", function()
    for _, name in ipairs { "package", "io", "debug", "ffi", "jit", "load", "loadstring", "loadfile", "dofile", "getfenv", "setfenv", "newproxy",
        "collectgarbage", "gcinfo", "module", "print", "os.execute", "os.getenv", "os.exit", "os.remove", "os.rename", "os.tmpname",
        "string.dump", "arg" } do
        it(("has no %s"):format(name), function()
            local where, field = name:match("^(%w+)%.(%w+)$")
            local code = field and ("rawget(%s, %q) or %s.%s"):format(where, field, where, field) or "rawget(_G, '" .. name .. "') or " .. name
            assert.equal("in", kit.decide(kit.rules("return { filter = function() return (" .. code .. ") == nil end }"), "t", "k"))
        end)
    end

    it("can require none of what is behind metasync, and no bytecode", function()
        for _, name in ipairs { "ffi", "jit", "io", "package", "debug", "metasync.glue", "metasync.check", "metasync.schema", "string.buffer" } do
            local rules = kit.rules(("return { filter = function() return not pcall(require, %q) end }"):format(name))
            assert.equal("in", kit.decide(rules, "t", "k"), name)
        end
        assert.is_nil((kit.load(string.dump(function() return {} end))))
    end)

    it("can change neither the metatable of strings nor what the next policy sees", function()
        kit.rules [[
            local mt = getmetatable("")
            assert(not pcall(function() mt.__index = function() return "evil" end end))
            assert(not pcall(function() string.upper = function() return "evil" end end))
            assert(not pcall(rawset, string, "upper", print))
            assert(not pcall(setmetatable, string, {}))
            _G.tostring = function() return "evil" end
            tonumber = function() return 666 end
            metasync = { version = "evil" }
            return {}]]
        local rules = kit.rules [[
            return { filter = function()
                return ("x"):upper() == "X" and tostring(5) == "5" and tonumber("7") == 7 and metasync.version ~= "evil"
            end }]]
        assert.equal("in", kit.decide(rules, "t", "k"))
    end)

    it("can't make its own checks pass by changing functions that they use", function()
        local rules, _, why = kit.load [[
            next = function() end rawget = next type = function() return "table" end ipairs = next pairs = next getmetatable = next
            table = nil string = nil
            return { log = { mx = 1 } }]]
        assert.is_nil(rules)
        assert.matches("did you mean log.max", why)
    end)
end)
