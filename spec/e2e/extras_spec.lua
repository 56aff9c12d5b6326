-- Real processes: what a killed leader alone had, decided by the next one, and read in the loss report.
local cluster = require "spec.support.cluster"
local json = require "spec.support.json"
local process = require "spec.support.process"

-- The lines of a node's loss reports, by key.
local function reported(node)
    local text = process.run { "sh", "-c", 'cat "$1"/archive/loss-*.jsonl', "sh", node.data }
    local lines = {}
    for line in text:gmatch("[^\n]+") do
        local object = json.decode(line)
        lines[object.key] = object
    end
    return lines
end

local function alone(c, arguments)
    local old, new = c:pair(arguments)
    old:put("topic", "both", "1")
    c:equal(old, new)
    new:kill()
    old:put("topic", "both", "2")
    old:put("topic", "lost", "only here")
    old:kill()
    new:start(arguments or {})
    new:must "promote"
    old:start { "--follow", new.address, unpack(arguments or {}) }
    old:wait("everything is decided", function(s) return s.counters.extras_answered == 2 and s.extras_pending == 0 end)
    c:equal(new, old)
    return old, new
end

describe("what a killed leader alone had", function()
    it("is dropped by default, and is in the loss report and the status", cluster.test(function(c)
        local old, new = alone(c)
        assert.is_nil(new:get("topic", "lost"))
        assert.equal("1", old:get("topic", "both"))
        local lines = reported(old)
        assert.same({ "only here", "theirs" }, { lines.lost.mine, lines.lost.outcome })
        assert.same({ "1", "2", "1" }, { lines.both.base, lines.both.mine, lines.both.theirs })
        assert.truthy(old:status().loss_report:find("/archive/loss-", 1, true))
        assert.equal(2, new:status().counters.conflicts.theirs)
        assert.truthy((old:ctl "status"):find("losses     see ", 1, true))
    end))

    it("is shown offline by metasyncctl log: all reports, or one", cluster.test(function(c)
        local old = alone(c)
        old:stop()
        local output, code, errors = cluster.ctl("log", old.data .. "/archive")
        assert.equal(0, code, errors)
        assert.matches("%d%d:%d%d:%d%d%.%d+  deposed   topic  lost  theirs by theirs  mine only here  theirs nothing  base nothing\n", output)
        assert.matches("deposed   topic  both  theirs by theirs  mine 2  theirs 1  base 1\n", output)
        local report = process.run { "sh", "-c", 'ls "$1"/archive/loss-*.jsonl', "sh", old.data }:match "[^\n]+"
        assert.equal(output, (cluster.ctl("log", report)))
        assert.equal((process.run { "cat", report }), (cluster.ctl("--json", "log", old.data .. "/archive")))
        output, code, errors = cluster.ctl("log", report, "--from", "2")
        assert.same({ 1, "" }, { code, output })
        assert.matches("no positions to begin from", errors)
    end))

    it("comes back where the policy file says so", cluster.test(function(c)
        local path = os.tmpname()
        local file = assert(io.open(path, "w"))
        file:write [[
            return { name = "mine", tables = { topic = { resolve = "mine" } }, on_event = function(event)
                if event.kind == "conflict" then metasync.log(event.severity .. " " .. event.text) end
            end }]]
        file:close()
        local old, new = alone(c, { "--policy", path })
        os.remove(path)
        assert.same({ "only here", "2" }, { new:get("topic", "lost"), new:get("topic", "both") })
        assert.same({ "only here", "2" }, { old:get("topic", "lost"), old:get("topic", "both") })
        assert.equal("mine", reported(old).lost.outcome)
        process.eventually("on_event was told of both on the leader", function()
            local log = table.concat(new:must("policy_show").log, "\n")
            return log:find("info table topic, key both: mine by mine, reason deposed", 1, true) and
                log:find("info table topic, key lost: mine by mine, reason deposed", 1, true)
        end)
        process.eventually("and of the report where it is", function()
            return (old:must("policy_show").log[1] or ""):find("^warn what only this node had is decided; see the loss report .*/archive/loss%-")
        end)
        local shown = cluster.ctl("log", old.data .. "/archive")
        assert.matches("topic  lost  mine by mine  mine only here  theirs nothing  base nothing  lsn %d+\n", shown)
    end))
end)
