-- Values in policies: 64 bits are exact in every direction, JSON is parsed only when it is touched, what nobody touched comes back byte for
-- byte, null is not absent, keys are any bytes, and what a call gave away ends with it.
local ms = require "spec.support.ms"
local kit = require "spec.support.policykit"

local function resolving(body, tables)
    return kit.rules(("return { tables = { %s }, resolve = function(c) %s end }"):format(tables or "", body))
end

local JSON = 'j = { type = "json" }'

local function json(body, text, more)
    local conflict = { table = "j", mine = text, theirs = "{}" }
    for key, value in pairs(more or {}) do conflict[key] = value end
    return kit.resolve(resolving(body, JSON), conflict)
end

describe("an int64 value", function()
    local numbers = { 0LL, 1LL, -1LL, 9007199254740992LL, 9007199254740993LL, -9007199254740993LL, 9223372036854775807LL,
        -9223372036854775807LL - 1 }

    it("goes through an identity policy bit for bit", function()
        local rules = resolving "return c.mine"
        for _, number in ipairs(numbers) do
            local outcome = kit.resolve(rules, { type = "int64", mine = kit.int64(number), theirs = kit.int64(5LL) })
            assert.equal("mine", outcome)
        end
    end)

    it("is exact in arithmetic, and comes back as the number that it is", function()
        local rules = resolving "return c.mine - 1 + 0"
        for _, number in ipairs(numbers) do
            local outcome, value = kit.resolve(rules, { type = "int64", mine = kit.int64(number), theirs = kit.int64(5LL) })
            assert.equal("value", outcome)
            assert.equal(ms.dec(number - 1), ms.dec(kit.number(value)))
        end
    end)

    it("can be made of digits, of a literal and of a Lua number", function()
        local cases = { ['metasync.int64("9223372036854775807")'] = 9223372036854775807LL, ["9223372036854775807LL"] = 9223372036854775807LL,
            ['metasync.int64("-9223372036854775808")'] = -9223372036854775807LL - 1, ["2^53"] = 9007199254740992LL, ["metasync.int64(7)"] = 7LL,
            ["-3"] = -3LL, ["7ULL"] = 7LL }
        for code, number in pairs(cases) do
            local outcome, value = kit.resolve(resolving("return " .. code), { type = "int64", mine = kit.int64(1LL) })
            assert.equal("value", outcome, code)
            assert.equal(ms.dec(number), ms.dec(kit.number(value)), code)
        end
    end)

    it("is digits as text, compares with numbers, and is a number where that is exact", function()
        assert.equal("mine", (kit.resolve(resolving [[
            assert(metasync.text(c.mine) == "9223372036854775807" and metasync.type(c.mine) == "int64")
            assert(c.mine > c.theirs and c.theirs == 5 and metasync.number(c.theirs) == 5)
            assert(not pcall(metasync.number, c.mine))
            return c.mine
        ]], { type = "int64", mine = kit.int64(9223372036854775807LL), theirs = kit.int64(5LL) })))
    end)

    for _, code in ipairs { "0.5", "2^53 + 2", "0/0", "1/0", '"5"', "{}", "true", "9223372036854775808ULL", "1i", "metasync.null",
        "function() end", 'metasync.int64("9223372036854775808")', 'metasync.int64("")', "metasync.int64(0.5)" } do
        it(("can't be %s: an incident, and theirs stays"):format(code), function()
            local rules = resolving("return " .. code)
            local outcome, _, by = kit.resolve(rules, { type = "int64", mine = kit.int64(1LL), theirs = kit.int64(2LL) })
            assert.equal("theirs incident", outcome .. " " .. by)
            assert.equal(1, kit.describe(rules).by_name.resolve.incidents)
        end)
    end

    it("of other than 8 bytes is an incident", function()
        local outcome, _, by = kit.resolve(resolving "return c.mine", { type = "int64", mine = "1234" })
        assert.equal("theirs incident", outcome .. " " .. by)
    end)
end)

describe("a value of bytes", function()
    local all = {}
    for byte = 0, 255 do all[#all + 1] = string.char(byte) end
    all = table.concat(all)

    it("is text with any bytes", function()
        local outcome, value = kit.resolve(resolving "return c.mine .. c.theirs", { mine = all, theirs = "\0" })
        assert.same({ "value", all .. "\0" }, { outcome, value })
    end)

    it("is parsed with metasync.json where a policy wants to", function()
        local outcome, value = kit.resolve(resolving 'local v = metasync.json(c.mine) v.perm = 4 return v', { mine = '{"perm":6,"q":8}' })
        assert.same({ "value", '{"perm":4,"q":8}' }, { outcome, value })
    end)

    it("is nil where a side has no entry, and the mark `delete` removes it", function()
        assert.equal("delete", (kit.resolve(resolving "if c.mine == nil then return metasync.delete end", { theirs = "x" })))
        assert.equal("theirs", (kit.resolve(resolving "assert(c.theirs == nil and not c.base_known)", { mine = "x" })))
    end)

    it("of no bytes is not absent", function()
        assert.equal("mine", (kit.resolve(resolving 'if c.mine == "" then return c.mine end', { mine = "", theirs = "x" })))
    end)

    it("that a function returns may not be a number, a table, or larger than limits.value", function()
        for _, code in ipairs { "5", "{}", "true", "metasync.null", "('x'):rep(2^22 - 100) .. ('y'):rep(200)" } do
            local outcome, _, by = kit.resolve(resolving("return " .. code), { mine = "m" })
            assert.equal("theirs incident", outcome .. " " .. by, code)
        end
    end)
end)

describe("a JSON value", function()
    local odd = '{ "b":1 ,"a" : [1.50, 1e2, null], "u":"\\u00e9" }'

    it("that nobody touches comes back byte for byte, even if it is none", function()
        assert.equal("mine", (json("return c.mine", "no json at all")))
        assert.equal("mine", (json("return c.mine", odd)))
    end)

    it("that is only read comes back byte for byte", function()
        assert.equal("mine", (json("assert(c.mine.b == 1 and #c.mine.a == 3) return c.mine", odd)))
    end)

    it("that is changed keeps the order of its keys and the fields that nobody knows", function()
        local outcome, value = json('c.mine.perm = 7 c.mine.new = "x" return c.mine', '{"z":{"deep":[]},"perm":6,"a":null}')
        assert.same({ "value", '{"z":{"deep":[]},"perm":7,"a":null,"new":"x"}' }, { outcome, value })
    end)

    it("keeps null and absent apart", function() -- 3scale/APIcast#626
        local body = [[
            local v = c.mine
            assert(v.attributes == metasync.null and v.nothing == nil and metasync.type(v.attributes) == "null")
            v.subscriptionDataSet = nil
            v.more = metasync.null
            return v]]
        local _, value = json(body, '{"attributes":null,"subscriptionDataSet":null}')
        assert.equal('{"attributes":null,"more":null}', value)
    end)

    it("holds whole numbers exactly: Lua numbers up to 2^53, int64 beyond", function()
        local body = [[
            local v = c.mine
            assert(type(v.small) == "number" and metasync.type(v.big) == "int64")
            v.big, v.min, v.small = v.big - 1, v.min, v.small + 1
            v.real = 0.5
            return v]]
        local _, value = json(body, '{"big":9223372036854775807,"min":-9223372036854775808,"small":9007199254740991,"real":1}')
        assert.equal('{"big":9223372036854775806,"min":-9223372036854775808,"small":9007199254740992,"real":0.5}', value)
    end)

    it("is walked with each and measured with len and #; fields may go meanwhile", function()
        local body = [[
            local v, seen = c.mine, {}
            for key, value in metasync.each(v) do
                seen[#seen + 1] = key .. "=" .. metasync.text(value)
                if key == "b" then v.b = nil v.c = nil end
            end
            assert(table.concat(seen, " ") == "list=[4,5,6] a=1 b=[2]", table.concat(seen, " "))
            assert(#v == 2 and metasync.len(v.list) == 3 and #v.list == 3)
            local sum = 0
            for _, number in metasync.each(v.list) do sum = sum + number end
            v.sum = sum
            return v]]
        local _, value = json(body, '{"list":[4,5,6],"a":1,"b":[2],"c":3}')
        assert.equal('{"list":[4,5,6],"a":1,"sum":15}', value)
    end)

    it("has lists that can be changed, made longer and shorter at the end", function()
        local body = [[
            local list = c.mine.list
            list[1], list[4] = 7, "x"
            list[5] = { a = { 1, 2 } }
            list[5] = nil
            assert(list[0] == nil and list[9] == nil and list.x == nil and list[1.5] == nil)
            for _, bad in ipairs { 0, 7, 1.5, "x" } do assert(not pcall(function() list[bad] = 1 end)) end
            assert(not pcall(function() list[1] = nil end))
            return c.mine]]
        local _, value = json(body, '{"list":[1,2,3]}')
        assert.equal('{"list":[7,2,3,"x"]}', value)
    end)

    it("takes tables, other values and parts of itself by copying them, so that it never contains itself", function()
        local body = [[
            local v = c.mine
            v.self = v
            v.self.inner.x = 2
            v.made = { list = { 1, { deep = true } }, text = "t" }
            return v.self]]
        local _, value = json(body, '{"inner":{"x":1}}')
        assert.equal('{"inner":{"x":2}}', value)
    end)

    it("may be returned as text, as a table, as null, and is refused if it is no JSON", function()
        local good = { ['return "{ }"'] = "{ }", ["return { a = { 1, 2 } }"] = '{"a":[1,2]}', ["return metasync.null"] = "null" }
        for code, expected in pairs(good) do assert.equal(expected, (select(2, json(code, "{}")))) end
        for _, code in ipairs { '"{"', '""', '"{\\"a\\":1,\\"a\\":2}"', "{ [true] = 1 }", "{ 1, 2, x = 3 }", "{ a = 0/0 }", "{ a = 1/0 }",
            "{ a = print or function() end }", '{ a = "\\255" }', '{ ["a\\0b"] = 1 }', "{ a = 1i }" } do
            local outcome, _, by = json("return " .. code, "{}")
            assert.equal("theirs incident", outcome .. " " .. by, code)
        end
    end)

    it("is refused when it is touched and no JSON, too deep, or has numbers beyond 64 bits", function()
        for _, text in ipairs { "", "{", "nul", '{"a":9223372036854775808}', '{"a":1,"a":2}', ("["):rep(101) .. ("]"):rep(101), "\255" } do
            local outcome, _, by = json("return c.mine.a", text)
            assert.equal("theirs incident", outcome .. " " .. by, text)
        end
        local _, _, by = json("local x = c.mine[1]", ("["):rep(100) .. ("]"):rep(100))
        assert.equal("function", by)
    end)

    it("can't be nested deeper than 100 by assignments either", function()
        local rules = resolving([[
            local v = c.mine
            local at = v
            for _ = 1, 99 do at.x = {} at = at.x end
            assert(not pcall(function() at.x = {} end), "a table that is too deep")
            assert(not pcall(function() local t = {} t.t = t v.loop = t end), "a table in itself")
            assert(not pcall(function() v.x.x = v end), "a copy that is too deep")
            at.y = 1
            return v]], JSON)
        local _, value, by = kit.resolve(rules, { table = "j", mine = "{}" })
        assert.equal("function", by, kit.describe(rules).by_name.resolve.last and kit.describe(rules).by_name.resolve.last.message)
        assert.equal(('{"x":'):rep(99) .. '{"y":1}' .. ("}"):rep(99), value)
    end)

    it("ends with its call: a policy that keeps one gets an error, never a value that has changed", function()
        local rules = kit.rules [[
            local kept, inner
            return { tables = { j = { type = "json" } }, resolve = function(c)
                if not kept then kept, inner = c.mine, c.mine.a return end
                local ok, why = pcall(function() return kept.a end)
                assert(not ok and why:find("one call only"), why)
                assert(not pcall(function() return inner[1] end) and not pcall(function() inner[1] = 2 end))
                assert(not pcall(metasync.text, kept) and not pcall(metasync.each, inner))
                assert(kept ~= c.mine)
                return metasync.delete
            end }]]
        local conflict = { table = "j", mine = '{"a":[1]}', theirs = "{}" }
        assert.equal("theirs", (kit.resolve(rules, conflict)))
        collectgarbage()
        local outcome, _, by = kit.resolve(rules, conflict)
        assert.equal("delete function", outcome .. " " .. by, (kit.describe(rules).by_name.resolve.last or {}).message)
    end)

    it("gives no way to what is behind it", function()
        local rules = resolving([[
            assert(getmetatable(c.mine) == "JSON value" and getmetatable(metasync.null) == "mark")
            assert(not pcall(setmetatable, c.mine, {}) and not pcall(function() metasync.null.x = 1 end))
            assert(not pcall(function() metasync.json = nil end) and not pcall(rawset, metasync, "json", 1))
            assert(c.mine.__gc == nil and c.mine.__index == nil)
            return c.mine]], JSON)
        assert.equal("mine", (kit.resolve(rules, { table = "j", mine = "{}", theirs = "[]" })))
    end)

    it("of a size that costs more than a call may take is refused before it is parsed", function()
        local rules = resolving("return c.mine[1]", JSON)
        local t = ms.now()
        local _, _, by = kit.resolve(rules, { table = "j", mine = "[" .. ("1,"):rep(1000000) .. "1]" })
        assert.equal("incident", by)
        assert.is_true(ms.now() - t < 0.1)
        assert.matches("instructions", kit.describe(rules).by_name.resolve.last.message)
    end)
end)

describe("an entry", function()
    it("has table, key and field with any bytes; the field is nil without a NUL byte", function()
        local rules = kit.rules [[
            return { filter = function(e)
                if e.table == "nofield" then return e.field == nil and e.key == "k\1\255" end
                return e.key == "t@g@x" and e.field == "-1\0\255"
            end }]]
        assert.equal("in", kit.decide(rules, "nofield", "k\1\255"))
        assert.equal("in", kit.decide(rules, "other", "t@g@x\0-1\0\255"))
        assert.equal("out", kit.decide(rules, "other", "t@g@x\0"))
    end)

    it("is a new table for every call: one that a policy keeps does not change", function()
        local rules = kit.rules [[
            local first
            return { filter = function(e)
                if not first then first = e e.mark = true return true end
                return first ~= e and first.key == "one" and first.mark and e.mark == nil
            end }]]
        assert.equal("in", kit.decide(rules, "t", "one"))
        assert.equal("in", kit.decide(rules, "t", "two"))
    end)
end)
