-- A node's policy through the public API: what is shown, a thousand reloads, texts, memory that runs out.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi
local json = require "dkjson"

local function write(dir, text)
    local path = dir .. "/policy.lua"
    ms.write_file(path .. ".new", text)
    assert(os.rename(path .. ".new", path))
    return path
end

-- A node with small files in a directory of its own; `use` gets it, and it is closed afterwards.
local function with_node(text, use)
    local dir = ms.tmpdir()
    local policy, config, node = ffi.new("struct ms_policy"), ffi.new("struct ms_config"), ffi.new("struct ms_node *[1]")
    C.ms_policy_init(policy)
    policy.log_segment_bytes, policy.log_max_bytes, policy.value_max = 65536, 64 * 2 ^ 20, 8192
    policy.probation_ms = 0
    local data, file = dir .. "/data", text and write(dir, text)
    config.dir, config.cluster, config.policy, config.policy_file = data, "unit", policy, file
    ms.check(C.ms_open(config, node))
    local ok, why = pcall(use, node[0], dir)
    C.ms_close(node[0])
    if not ok then error(why, 0) end
end

local function lead(node)
    ms.check(C.ms_lead(node, nil, 0, 10000))
end

local function open_table(node, name)
    local handle = ffi.new("struct ms_table *[1]")
    ms.check(C.ms_table_open(node, name, C.MS_TYPE_BYTES, handle))
    return handle[0]
end

local function text_of(fn, ...)
    local text = ffi.new("char *[1]")
    local args = { ... }
    args[#args + 1] = text
    local rc = tonumber(fn(unpack(args)))
    return text[0] ~= nil and json.decode(ms.take(text[0])) or nil, rc
end

local function reload(node, path, flags)
    local text = ffi.new("char *[1]")
    local rc = tonumber(C.ms_policy_reload(node, path, flags or 0, text))
    return text[0] ~= nil and json.decode(ms.take(text[0])) or nil, rc
end

local function show(node)
    return (text_of(C.ms_policy_show, node))
end

local function status(node)
    return (text_of(C.ms_status, node))
end

describe("a node's policy", function()
    it("is the built-in one without a file: all fields are shown as a policy file would write them", function()
        with_node(nil, function(node)
            local shown = show(node)
            assert.equal("built-in", shown.name)
            assert.is_nil(shown.file)
            assert.equal("64KiB", shown.fields["log.segment"])
            assert.equal("1h", shown.fields["host.audit_every"])
            assert.equal("5ms", shown.fields["limits.lua.wait"])
            assert.equal("10%", shown.fields["reload.leave"])
            assert.equal("disk", shown.fields.ack)
            local report, rc = reload(node, nil)
            assert.equal(C.MS_E_INVALID, rc)
            assert.truthy(report.error:find("no policy file", 1, true), report.error)
        end)
    end)

    it("of a file that is wrong fails ms_open and leaves nothing behind", function()
        local before = ms.live()
        for _, text in ipairs { "return {", "return { nmae = 'x' }", "return { selftest = function() error('no') end }" } do
            local dir = ms.tmpdir()
            local config, node = ffi.new("struct ms_config"), ffi.new("struct ms_node *[1]")
            local data, file = dir .. "/data", write(dir, text)
            config.dir, config.cluster, config.policy_file = data, "unit", file
            assert.is_true(C.ms_open(config, node) < 0, text)
            assert.truthy(ms.err():find("policy.lua", 1, true), ms.err())
        end
        assert.equal(before, ms.live())
    end)

    it("is asked once for an entry that a batch writes twice, so that no answer can split it", function()
        local text = "local n = 0\nreturn { filter = function() n = n + 1 return n % 2 == 1 end }"
        with_node(text, function(node)
            lead(node)
            local topic = open_table(node, "topic")
            local writes = ffi.new("struct ms_write[3]")
            for i, write in ipairs { { "a", "1" }, { "b", "x" }, { "a", "2" } } do
                writes[i - 1].table, writes[i - 1].key, writes[i - 1].value = topic, ms.bytes(write[1]), ms.bytes(write[2])
            end
            ms.check(C.ms_put_batch(node, writes, 3, 0, nil))
            local value, size = ffi.new("char[8]"), ffi.new("size_t[1]")
            ms.check(C.ms_get(topic, ms.bytes("a"), value, 8, size))
            assert.equal("2", ffi.string(value, size[0]))
            assert.equal(C.MS_E_NOT_FOUND, C.ms_get(topic, ms.bytes("b"), value, 8, size))
        end)
    end)

    it("can be reloaded a thousand times: memory, threads and plans stay as they are", function()
        local text = [[
            local policy = { name = "p%d", tables = { offset = { buffer = { interval = "1s" } } } }
            function policy.filter(entry) return entry.key ~= "%d" end
            function policy.flush(stats) return "2ms" end
            function policy.on_event(event) end
            return policy]]
        with_node(text:format(0, 0), function(node, dir)
            lead(node)
            local topic = open_table(node, "topic")
            local function threads()
                return (ms.sh("ls /proc/" .. ffi.C.getpid() .. "/task | wc -l"))
            end
            local function settled()
                ms.eventually(function() return not status(node).policy.review.running end, 10, "the view is settled")
            end
            local function round(i)
                local report, rc = reload(node, write(dir, text:format(i % 10, i % 10)))
                assert.equal(0, rc, report and report.error)
            end
            for i = 1, 20 do round(i) end
            settled()
            local live, running = ms.live(), threads()
            for i = 1, 1000 do
                round(i)
                if i % 100 == 0 then ms.check(C.ms_put(topic, ms.bytes("k"), ms.bytes(tostring(i)), 0, nil)) end
            end
            settled()
            assert.equal(1020, status(node).policy.reloads)
            -- Two Lua states are alive, with more or less garbage; one block that each reload leaves behind would be a thousand.
            assert.is_true(ms.live() < live + 500, ("%d blocks before, %d after"):format(live, ms.live()))
            assert.equal(running, threads())
            -- The flush function of the last one is asked, not a thousand.
            local offset = open_table(node, "offset")
            local flushes = status(node).counters.flushes
            ms.check(C.ms_put(offset, ms.bytes("k"), ms.bytes("v"), 0, nil))
            ms.check(C.ms_flush(node, offset, nil)) -- after it the function is asked
            ms.eventually(function()
                ms.check(C.ms_put(offset, ms.bytes("k"), ms.bytes(tostring(ms.now())), 0, nil))
                return status(node).counters.flushes > flushes + 10
            end, 5, "flushes come every 2 ms, not every second")
        end)
    end)

    it("lets no more leave than the bound of the one in use allows, unless forced", function()
        with_node("return { name = 'old', reload = { leave = '50%' } }", function(node, dir)
            lead(node)
            local topic = open_table(node, "topic")
            for i = 1, 10 do ms.check(C.ms_put(topic, ms.bytes("t" .. i), ms.bytes "v", 0, nil)) end
            local text = "return { name = 'new', reload = { leave = '100%%' }, replicate = { include = { topic = { %s } } } }"
            local report, rc = reload(node, write(dir, text:format "'t1*', 't2', 't3'"))
            assert.equal(C.MS_E_LIMIT, rc)
            assert.truthy(report.error:find("6 of 10 entries of table topic", 1, true), report.error)
            assert.same({ { table = "topic", entries = 10, leaving = 6, entering = 0, more = false } }, report.tables)
            assert.equal("old", show(node).name)
            assert.equal(10, tonumber(C.ms_table_count(topic)))
            report, rc = reload(node, write(dir, text:format "'t1*', 't2', 't3', 't4'")) -- half of them, no more
            assert.equal(0, rc, report.error)
            ms.eventually(function() return C.ms_table_count(topic) == 5 end, 10, "five are left")
            report, rc = reload(node, write(dir, text:format "'nothing'"), C.MS_POLICY_FORCE)
            assert.equal(0, rc, report.error)
            assert.is_true(report.forced)
            ms.eventually(function() return C.ms_table_count(topic) == 0 end, 10, "none is left")
        end)
    end)

    it("that fails on probation makes way for the one before, later it does not", function()
        local bad = "return { name = 'bad', reload = { probation = '%s' }, filter = function(entry) error('no') end }"
        with_node("return { name = 'good', snapshot = { keep = 5 } }", function(node, dir)
            lead(node)
            local topic = open_table(node, "topic")
            local function put(key) ms.check(C.ms_put(topic, ms.bytes(key), ms.bytes "v", 0, nil)) end
            local report = reload(node, write(dir, bad:format "1h"))
            assert.equal(3600000, report.probation_ms)
            assert.equal("good", show(node).previous.name)
            ms.eventually(function() return not status(node).policy.review.running end, 10, "its look at the view, which asks too, is over")
            for i = 1, 2 do put("two" .. i) end
            ms.eventually(function() return show(node).functions[1].incidents >= 2 end, 5)
            ms.pause(0.2) -- four looks
            assert.equal("bad", show(node).name)
            put "three"
            ms.eventually(function() return show(node).name == "good" end, 10, "the good one is back")
            assert.equal("5", show(node).fields["snapshot.keep"])
            assert.is_nil(show(node).previous)
            assert.equal(1, status(node).alarms)
            reload(node, write(dir, bad:format "0s"))
            for i = 1, 5 do put("later" .. i) end
            ms.eventually(function() return show(node).functions[1].incidents >= 5 end, 5)
            ms.pause(1.2) -- a look at least
            assert.equal("bad", show(node).name)
            assert.equal(0, C.ms_policy_rollback(node, nil))
            assert.equal("good", show(node).name)
        end)
    end)

    it("is told what an operator is told: roles, policies, views, conflicts, alarms", function()
        local EVENTS = [[
            return { name = '%s', reload = { leave = '100%%', probation = '1h' }, on_event = function(event)
                metasync.log(event.kind .. ' ' .. event.severity .. ' ' .. event.text)
            end, %s }]]
        with_node(EVENTS:format("first", ""), function(node, dir)
            local function heard(pattern)
                ms.eventually(function() return table.concat(show(node).log, "\n"):find(pattern) end, 10, pattern)
            end
            lead(node)
            heard "role info opening: .*\nrole info leader: "
            local topic = open_table(node, "topic")
            for i = 1, 4 do ms.check(C.ms_put(topic, ms.bytes("t" .. i), ms.bytes "v", 0, nil)) end
            local compare = ffi.new("struct ms_compare *[1]")
            ms.check(C.ms_compare_begin(topic, nil, compare))
            for i = 1, 3 do ms.check(C.ms_compare_entry(compare[0], ms.bytes("t" .. i), ms.bytes(i == 1 and "v" or "w"))) end
            ms.check(C.ms_compare_end(compare[0], nil))
            heard "conflict warn table topic: 3 entries of the host's copy differed from the log; it kept 0 of the host's, 3 of the log's"
            local report = reload(node, write(dir, EVENTS:format("second", "filter = function(e) return e.key ~= 't1' end")))
            assert.is_nil(report.error)
            heard "policy info policy second was loaded from "
            heard "view info the policy's view: 1 of %d+ entries have left, 0 have entered"
            report = reload(node, write(dir, EVENTS:format("bad", "filter = function(e) error 'no' end")))
            assert.is_nil(report.error)
            heard "alarm error policy bad had %d+ incidents.* on probation, the one before is in place again"
            assert.equal("second", show(node).name)
            assert.equal(1, status(node).alarms)
        end)
    end)

    it("that was refused leaves a report that says why", function()
        with_node("return { name = 'first' }", function(node, dir)
            local hash = show(node).hash
            local report, rc = reload(node, write(dir, "return { snapshot = { evry = '1s' } }"))
            assert.equal(C.MS_E_INVALID, rc)
            assert.equal(ms.code(C.MS_E_INVALID), report.refused)
            assert.truthy(report.error:find("snapshot.evry", 1, true) and report.error:find("every", 1, true), report.error)
            assert.equal(hash, show(node).hash)
            report, rc = reload(node, dir .. "/" .. ("x"):rep(2000))
            assert.equal(C.MS_E_LIMIT, rc, report.error)
        end)
    end)
end)

describe("ms_policy_test", function()
    it("says what a file has that differs from the built-in policy", function()
        local path = write(ms.tmpdir(), "return { name = 'p', snapshot = { keep = 3 }, filter = function() return true end }")
        local report, rc = text_of(C.ms_policy_test, path)
        assert.equal(0, rc)
        assert.equal("p", report.name)
        assert.same({ { field = "snapshot.keep", was = "2", is = "3" } }, report.changed)
        assert.equal("filter", report.functions[1].name)
    end)

    it("runs the selftest, and says what it said", function()
        local path = write(ms.tmpdir(), "return { selftest = function() error('two is not three') end }")
        local report, rc = text_of(C.ms_policy_test, path)
        assert.equal(C.MS_E_REFUSED, rc)
        assert.truthy(report.error:find("two is not three", 1, true), report.error)
    end)
end)

require("spec.support.program").describe("a node's policy, with threads", "node_policy")
