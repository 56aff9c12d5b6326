-- docs/policy.md: its reference is what the schema says, its recipes load, and it names all that there is.
local ms = require "spec.support.ms"
local kit = require "spec.support.policykit"
local docs = require "spec.support.policy_docs"
local C = ms.C

local text = ms.read_file(docs.path)

local function section(title)
    local from = assert(text:find("\n## " .. title .. "\n", 1, true), title)
    local to = text:find("\n## ", from + 1, true)
    return text:sub(from, to)
end

describe("docs/policy.md", function()
    it("has the reference that the schema makes (else: make docs)", function()
        assert.is_true(docs.fresh(text) == text)
    end)

    it("loses its reference if a marker is missing, and says so", function()
        local fresh, missing = docs.fresh((text:gsub("<!%-%- reference: tables %-%->", "")))
        assert.is_nil(fresh)
        assert.matches("reference: tables", missing)
    end)

    local recipes = {}
    for title, code in section("Cookbook"):gmatch("\n### ([^\n]+)\n.-```lua\n(.-)```") do recipes[#recipes + 1] = { title, code } end

    it("has at least eight recipes", function() assert.is_true(#recipes >= 8, #recipes) end)

    for _, recipe in ipairs(recipes) do
        it(("has a recipe that works: %s"):format(recipe[1]), function()
            local rules = kit.rules(recipe[2])
            assert.equal(0, C.ms_lua_selftest(rules), ms.err())
            assert.equal("in", kit.decide(rules, "whatever", "orders"))
            assert.equal("theirs", (kit.resolve(rules, { table = "whatever", mine = "a", theirs = "b" })))
            kit.event(rules, "alarm", C.MS_LOG_ERROR, "text")
            assert.equal(0, tonumber(C.ms_lua_incidents(rules)))
        end)
    end

    it("shows a merge that does what it says", function()
        local code
        for _, recipe in ipairs(recipes) do code = recipe[1]:find("Merge") and recipe[2] or code end
        local _, value = kit.resolve(kit.rules(code), { table = "topic", mine = '{"perm":4,"writeQueueNums":16,"attributes":{"a":1,"b":2}}',
            theirs = '{"new":[1],"perm":6,"writeQueueNums":8,"attributes":{"b":3}}' })
        assert.equal('{"new":[1],"perm":4,"writeQueueNums":16,"attributes":{"b":3,"a":1}}', value)
    end)

    it("shows a flush that does what it says", function()
        local code
        for _, recipe in ipairs(recipes) do code = recipe[1]:find("Flush slowly") and recipe[2] or code end
        local rules = kit.rules(code)
        assert.same({ 500000, 50000, 1000000 }, { kit.flush(rules, "offset", { rate = 2000 }), kit.flush(rules, "offset", { rate = 1 }),
            kit.flush(rules, "offset", { lag = 200000 }) })
    end)

    it("names everything that `metasync` has", function()
        local rules = kit.rules [[
            return { filter = function(e) return metasync[e.key] ~= nil end }]]
        for name in section("What functions see of values"):gmatch("metasync%.(%w+)") do
            assert.equal("in", kit.decide(rules, "t", name), name)
        end
        local glue = ms.read_file("lua/metasync/glue.lua")
        local names = { "json", "log", "null", "delete", "version", "theirs", "mine", "newest", "max", "min" }
        for name in glue:gmatch("function public%.(%w+)") do names[#names + 1] = name end
        for _, name in ipairs(names) do
            assert.equal("in", kit.decide(rules, "t", name), name)
            assert.is_truthy(text:find("`metasync." .. name, 1, true) or text:find("`" .. name .. "`", 1, true), name)
        end
    end)

    it("names every field that functions get", function()
        local call = ms.read_file("core/lua/policy_call.c") .. ms.read_file("core/lua/value.c")
        for name in call:gmatch('lua_setfield%(L, %-2, "(%l[%l_]+)"%)') do
            if not ({ int64 = 1, kind = 1, json = 1, log = 1, null = 1, delete = 1 })[name] then
                assert.is_truthy(section("Functions"):find("%f[%w_]" .. name .. "%f[^%w_]"), name)
            end
        end
        for name in call:gmatch('set_number%(L, "(%l+)"') do assert.is_truthy(section("Functions"):find(name, 1, true), name) end
    end)
end)
