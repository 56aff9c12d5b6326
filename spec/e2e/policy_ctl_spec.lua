-- metasyncctl policy as an operator sees it: what it prints, and its exit statuses.
local cluster = require "spec.support.cluster"
local json = require "spec.support.json"
local policies = require "spec.support.policies"
local process = require "spec.support.process"

local FULL = [[
local policy = { name = "production", log = { keep = "128MiB" }, tables = { offset = { buffer = { interval = "200ms" }, resolve = "max" } } }
function policy.filter(entry) return entry.key:sub(1, 4) ~= "tmp-" end
return policy
]]

describe("metasyncctl policy check", function()
    -- What is wrong with it -> what is said: the file, the path of the field, the value, the nearest right name.
    local broken = {
        { "return { snapshot = { evry = '30s' } }", { "snapshot.evry", "every" } },
        { "return { snapshot = { every = 'often' } }", { "snapshot.every", "often", "duration" } },
        { "return { tables = { topic = { ack = 'dsk' } } }", { "tables.topic.ack", "dsk", "disk" } },
        { "return { filtr = function() end }", { "filtr", "filter" } },
        { "return { log = { keep = -5 } }", { "log.keep", "-5" } },
        { "return { reload = { leave = '200%' } }", { "reload.leave", "200" } },
        { "return { filter = 7 }", { "filter", "7" } },
        { "return", { "expected a table" } },
        { "local x = \nreturn {}", { "policy.lua:2" } },
        { "return { selftest = function() error('the sum is wrong') end }", { "the sum is wrong" } },
    }

    it("names what is wrong: exit status 1", cluster.test(function(c)
        for _, case in ipairs(broken) do
            local path = policies.write(c, "policy", case[1])
            local output, code, errors = cluster.ctl("policy", "check", path)
            assert.equal(1, code, case[1])
            assert.equal("", output)
            assert.truthy(errors:find("policy.lua", 1, true), errors)
            for _, part in ipairs(case[2]) do assert.truthy(errors:find(part, 1, true), ("%s: %s"):format(part, errors)) end
            output, code = cluster.ctl("--json", "policy", "check", path)
            assert.equal(1, code)
            assert.truthy(json.decode(output).error:find(case[2][1], 1, true), output)
        end
    end))

    it("names every wrong field, not only the first", cluster.test(function(c)
        local path = policies.write(c, "policy", "return { snapshot = { evry = '30s' }, log = { kepp = 1 } }")
        local _, code, errors = cluster.ctl("policy", "check", path)
        assert.equal(1, code)
        assert.truthy(errors:find("snapshot.evry", 1, true) and errors:find("log.kepp", 1, true), errors)
    end))

    it("of a file that is not there: exit status 1", function()
        local _, code, errors = cluster.ctl("policy", "check", "/nowhere/policy.lua")
        assert.equal(1, code)
        assert.truthy(errors:find("/nowhere/policy.lua", 1, true), errors)
    end)

    it("says what a right file changes", cluster.test(function(c)
        local path = policies.write(c, "policy", FULL)
        local output, code = cluster.ctl("policy", "check", path)
        assert.equal(0, code)
        assert.truthy(output:find("production: " .. path, 1, true), output)
        assert.truthy(output:find("log%.keep%s+256MiB%s+128MiB"), output)
        assert.truthy(output:find("tables%.offset%.resolve%s+%-%s+max"), output)
        local report = json.decode((cluster.ctl("--json", "policy", "check", path)))
        assert.equal("128MiB", report.fields["log.keep"])
    end))
end)

describe("metasyncctl policy", function()
    it("show prints state, functions and fields; status prints a line", cluster.test(function(c)
        local node = c:node "a":start { "--lead", "--policy", policies.write(c, "policy", FULL) }
        node:put("topic", "t", "x")
        local output, code = node:ctl("policy", "show")
        assert.equal(0, code)
        for _, pattern in ipairs { "production: ", "hash %x+", "filter%s+%d+%s+0%s+0%s+called%s+none", "log%.keep%s+128MiB",
            "tables%.offset%.buffer%.interval%s+200ms", "reloads%s+0, 0 refused, 0 rolled back" } do
            assert.truthy(output:find(pattern), pattern .. "\n" .. output)
        end
        assert.equal("not logged: the policy leaves it out of the view\n", (node:ctl("put", "topic", "tmp-1", "x")))
        assert.truthy((node:ctl("put", "topic", "prod", "x")):find "^position %d+\n$")
        local shown = json.decode((node:ctl("--json", "policy", "show")))
        assert.equal("production", shown.name)
        assert.equal("disk", shown.fields.ack)
        assert.truthy((node:ctl "status"):find("policy%s+production, hash " .. shown.hash), "status")
    end))

    it("shows what a function did wrong, and where", cluster.test(function(c)
        local node = c:node "a":start { "--lead", "--policy", policies.write(c, "policy",
            "return { name = 'p', limits = { lua = { incidents = 2 } },\n filter = function(entry) error('cannot say') end }") }
        for i = 1, 4 do node:put("topic", "t" .. i, "x") end
        local output = node:ctl("policy", "show")
        assert.truthy(output:find("QUARANTINED until the next reload", 1, true), output)
        assert.truthy(output:find("cannot say (policy.lua:2)", 1, true), output)
        assert.truthy((node:ctl "status"):find("QUARANTINED functions: 1", 1, true), "status")
        policies.write(c, "policy", "return { name = 'p', filter = function(entry) return true end }")
        local reloaded, code = node:ctl("policy", "reload") -- ends the quarantine
        assert.equal(0, code, reloaded)
        policies.settled(node)
        local filter = policies.of(node).functions[1]
        assert.is_false(filter.quarantined)
        assert.is_true(filter.calls >= 4 and filter.incidents == 0)
    end))

    it("reload takes a path as the caller sees it, and says what changed", cluster.test(function(c)
        local node = c:node "a":start { "--lead" }
        policies.write(c, "other", FULL)
        local here = io.popen("pwd"):read "*l"
        local command = "cd '%s' && '%s/%s/metasyncctl' --control '%s' policy reload other.lua"
        local output, code, errors = process.run { "sh", "-c", command:format(c.dir, here, cluster.build, node.control) }
        assert.equal(0, code, errors)
        assert.truthy(output:find("production: " .. c.dir .. "/other.lua", 1, true), output)
        assert.truthy(output:find("instead of built%-in, hash %x+"), output)
        assert.truthy(output:find("probation  60000 ms", 1, true), output)
        assert.truthy(output:find("log%.keep%s+256MiB%s+128MiB"), output)
        local report = json.decode((node:ctl("--json", "policy", "rollback")))
        assert.equal("built-in", report.name)
    end))

    it("without a policy file has nothing to reload or to go back to: exit status 1", cluster.test(function(c)
        local node = c:node "a":start { "--lead" }
        for _, verb in ipairs { "reload", "rollback" } do
            local _, code, errors = node:ctl("policy", verb)
            assert.equal(1, code)
            assert.truthy(errors:find("policy", 1, true), errors)
        end
    end))

    it("replay runs a recorded log through one policy or two", cluster.test(function(c)
        local node = c:node "a":start { "--lead" }
        for i = 1, 30 do node:put("topic", (i % 3 == 0 and "tmp-" or "t-") .. i, "x") end
        local new, old = policies.write(c, "new", FULL), policies.write(c, "old", "return { name = 'old' }")
        local output, code, errors = cluster.ctl("policy", "replay", new, "--log", node.data)
        assert.equal(0, code, errors)
        assert.truthy(output:find("production: ", 1, true) and output:find("topic%s+30%s+20%s+0%s+10"), output)
        output, code, errors = cluster.ctl("policy", "replay", new, "--log", node.data, "--against", old)
        assert.equal(0, code, errors)
        assert.truthy(output:find("0 are logged by the new policy only, 10 by the other only", 1, true), output)
        assert.truthy(output:find("tmp%-3"), output)
        local report = json.decode((cluster.ctl("--json", "policy", "replay", new, "--log", node.data)))
        assert.equal("production", report.new.name)
        code = select(2, cluster.ctl("policy", "replay", new, "--log", "/nowhere"))
        assert.is_true(code == 1 or code == 4)
    end))

    it("says what is wrong with the words: exit status 2", function()
        for _, words in ipairs { { "policy" }, { "policy", "fly" }, { "policy", "check" }, { "policy", "check", "a", "b" },
            { "policy", "replay", "x" }, { "policy", "show", "x" }, { "policy", "rollback", "--force" }, { "policy", "check", "x", "--log", "y" },
            { "policy", "reload" } } do
            local _, code, errors = cluster.ctl(unpack(words))
            assert.equal(2, code, table.concat(words, " "))
            assert.truthy(errors:find("metasyncctl", 1, true), errors)
        end
    end)
end)
