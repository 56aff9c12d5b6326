-- ms_policy_replay: what policies make of a recorded log.
local ms = require "spec.support.ms"
local json = require "spec.support.json"
local recorded = require "spec.support.recorded"
local C, ffi = ms.C, ms.ffi

local put, delete, define = recorded.put, recorded.delete, recorded.table

describe("a replay", function()
    local dir, log

    before_each(function()
        dir = ms.tmpdir()
        log = recorded.new()
        log:group(0, recorded.epoch(1, 1, 9), define(1, "topic"), define(2, "offset", "int64"))
    end)

    local function policy(name, text)
        ms.write_file(dir .. "/" .. name .. ".lua", text)
        return dir .. "/" .. name .. ".lua"
    end

    local function try_replay(path, against)
        local report = ffi.new "char *[1]"
        local rc = tonumber(C.ms_policy_replay(path, against, dir, report))
        if rc ~= 0 then return nil, rc, ms.err() end
        return json.decode(ms.take(report[0]))
    end

    local function replay(text, against)
        local live = ms.live()
        local report, _, why = try_replay(policy("new", text), against and policy("old", against))
        assert(report, why)
        assert.equal(live, ms.live())
        return report
    end

    local function table_of(side, name)
        for _, t in ipairs(side.tables) do
            if t.table == name then return t end
        end
    end

    it("counts what an unbuffered table logs, at once", function()
        log:group(10, put(1, "a", "1"), put(1, "b", "22"))
        log:group(20, put(1, "a", "1"), delete(1, "b"))
        log:write(dir)
        local report = replay "return {}"
        local t = table_of(report.new, "topic")
        assert.same({ 4, 3, 1, 0, 0 }, { t["in"], t.logged, t.unchanged, t.coalesced, t.filtered })
        assert.same({ 8, 6, 0 }, { t.bytes_in, t.bytes_logged, t.stale_max_us })
        assert.same({ 4, 1, 2, 7 }, { report.changes, report.epochs, report.groups - 1, report.last })
        assert.equal(20000, report.to_us - report.from_us)
    end)

    it("flushes a buffer by the recorded times, and says how stale and how much at risk values were", function()
        log:group(1000, put(2, "g", 1), put(2, "h", 1))
        log:group(1050, put(2, "g", 2))
        log:group(1150, put(2, "g", 3))
        log:group(5000, put(2, "g", 4))
        log:write(dir)
        local t = table_of(replay([[return { tables = { offset = { type = "int64", buffer = { interval = "200ms" } } } }]]).new, "offset")
        assert.same({ 5, 3, 2, 2 }, { t["in"], t.logged, t.coalesced, t.flushes })
        assert.equal(200000, t.stale_max_us)
        assert.is_true(t.stale_p50_us >= 186000 and t.stale_p50_us <= 200000, t.stale_p50_us)
        assert.equal(2, t.at_risk_max)
        -- two entries for 0.2 s, one for 0.2 s, of 5.2 s
        assert.is_true(math.abs(t.at_risk_average - 0.6 / 5.2) < 0.001, t.at_risk_average)
    end)

    it("keeps what may be at risk in bounds", function()
        for i = 1, 100 do log:group(1000 + i, put(2, "g" .. i, i)) end
        log:write(dir)
        local function offset(extra)
            return table_of(replay(([[return { tables = { offset = { type = "int64", buffer = { interval = "10s" }, %s } } }]]):format(extra)).new,
                "offset")
        end
        assert.equal(100, offset("").at_risk_max)
        assert.is_true(offset("at_risk = { entries = 10 }").at_risk_max <= 10)
        assert.is_true(offset("at_risk = { time = '40ms' }").stale_max_us <= 40000)
    end)

    it("asks the policy's flush function for the next flush", function()
        for i = 0, 9 do log:group(1000 + 500 * i, put(2, "g", i)) end
        log:write(dir)
        local text = [[return { tables = { offset = { type = "int64", buffer = { interval = "400ms" } } }, flush = function(stats)
            return %s end }]]
        local slow = table_of(replay(text:format "'400ms'").new, "offset")
        local quick = table_of(replay(text:format "'20ms'").new, "offset")
        assert.equal(400000, slow.stale_max_us)
        assert.equal(400000, quick.stale_max_us) -- the first one: nobody was asked before it
        assert.is_true(quick.stale_p50_us <= 20000, quick.stale_p50_us)
    end)

    it("leaves out what the patterns and the filter leave out, and asks once for each entry", function()
        for i = 1, 5 do log:group(i, put(1, "Bench1", tostring(i)), put(1, "keep", tostring(i)), put(1, "odd", tostring(i))) end
        log:write(dir)
        local report = replay [[return { replicate = { exclude = { topic = { "Bench*" } } }, filter = function(e) return e.key ~= "odd" end }]]
        local t = table_of(report.new, "topic")
        assert.same({ 15, 5, 10, 0 }, { t["in"], t.logged, t.filtered, report.new.incidents })
        assert.equal(2, report.new.functions[1].calls)
    end)

    it("gives functions the recorded time", function()
        log:group(1000, put(1, "a", "1"))
        log:group(90000, put(1, "b", "1"))
        log:write(dir)
        local report = replay "local loaded = os.time() return { filter = function() return os.time() >= loaded + 60 end }"
        local t = table_of(report.new, "topic")
        assert.same({ 1, 1 }, { t.filtered, t.logged })
    end)

    it("begins with the snapshot that the log goes on from, without what is outside of the view", function()
        local late = recorded.new()
        late:snapshot(dir, { { 1, "topic", "bytes", { a = "1", b = "1", ["Bench1"] = "1" } } })
        late:group(10, put(1, "a", "1"), put(1, "b", "2"), put(1, "Bench1", "2"))
        late:write(dir)
        local report = replay [[return { replicate = { exclude = { topic = { "Bench*" } } } }]]
        local t = table_of(report.new, "topic")
        assert.same({ 3, 1 }, { t.entries_at_start, t.outside_at_start })
        assert.same({ 3, 1, 1, 1 }, { t["in"], t.logged, t.unchanged, t.filtered })
        assert.is_true(report.snapshot > 0)
    end)

    it("compares two policies entry by entry", function()
        log:group(10, put(1, "a", "1"), put(1, "Bench1", "x"), put(1, "both", "1"))
        log:group(20, put(1, "a\0f", "2"), delete(1, "both"))
        log:write(dir)
        local report = replay([[return { replicate = { exclude = { topic = { "Bench*" } } } }]],
            [[return { filter = function(e) return e.field == nil end }]])
        local d = report.differences
        assert.same({ 4, 1, 1, 2 }, { d.entries, d.logged_by_new_only, d.logged_by_against_only, d.values })
        table.sort(d.list, function(a, b) return a.key < b.key end)
        assert.same({ table = "topic", key = "Bench1", new_logged = false, against_logged = true, new = json.null, against = "x" }, d.list[1])
        assert.same({ table = "topic", key = "a", field = "f", new_logged = true, against_logged = false, new = "2", against = json.null },
            d.list[2])
        local equal = replay("return {}", "return {}").differences
        assert.same({ 0, 0, 0, 0 }, { equal.logged_by_new_only, equal.logged_by_against_only, equal.values, #equal.list })
    end)

    it("offers the conflicts of the loss reports to the resolvers", function()
        log:group(10, put(1, "a", "1"))
        log:write(dir)
        ms.write_file(dir .. "/archive/loss-1.jsonl", table.concat({
            [[{"time_us":1,"table":"offset","key":"g","reason":"buffered","mine":7,"outcome":"theirs","theirs":5,"by":"theirs"}]],
            [[{"time_us":2,"table":"topic","key":"t","reason":"deposed","base":"0","mine":"m","outcome":"theirs","theirs":"0","by":"theirs"}]],
            [[{"time_us":3,"table":"topic","key":"u","reason":"deposed","mine":"m","outcome":"equal","by":"equal"}]],
            [[{"time_us":3,"table":"topic","key":{"base64":"/w=="},"field":"f","reason":"host","mine":null,"outcome":"mine","theirs":"x",]] ..
                [["by":"function"}]],
            [[not json]], "" }, "\n"))
        local report = replay([[return { tables = { offset = { type = "int64", resolve = "max" }, topic = { resolve = function(c)
            if c.reason == "host" then error "no" end
            return c.mine end } } }]], [[return { tables = { offset = { type = "int64" } } }]])
        local offset, topic = table_of(report.new, "offset"), table_of(report.new, "topic")
        assert.same({ 3, 1 }, { report.conflicts, report.conflicts_unusable })
        assert.same({ 1, 1 }, { offset.resolved, offset.resolved_mine })
        assert.same({ 2, 1, 1 }, { topic.resolved, topic.resolved_theirs, topic.resolve_incidents })
        assert.equal(2, report.differences.conflicts)
        local first = report.differences.conflict_list[1]
        assert.same({ "offset", "g", 7, 5, "max", "theirs" }, { first.table, first.key, first.new, first.against, first.new_by, first.against_by })
    end)

    it("decides about a host's copy as a leader would: by age, unless a resolver was chosen", function()
        log:group(10, put(1, "a", "1"))
        log:write(dir)
        local line = [[{"time_us":1,"table":"topic","key":"%s","reason":"host",%s"mine":"m","outcome":"mine","theirs":"t","by":"newest"}]]
        ms.write_file(dir .. "/archive/loss-host-topic-1.jsonl", table.concat({ line:format("a", '"newer":"mine",'),
            line:format("b", '"newer":"theirs",'), line:format("c", ""), "" }, "\n"))
        for text, mine in pairs { ["return {}"] = 1, ["return { resolve = 'mine' }"] = 3,
            ["return { tables = { topic = { resolve = 'theirs' } } }"] = 0,
            ["return { resolve = function(c) return c.newer == 'mine' and c.mine or nil end }"] = 1 } do
            local report = replay(text)
            assert.equal(3, report.conflicts)
            local t = table_of(report.new, "topic")
            assert.same({ 3, mine, 3 - mine }, { t.resolved, t.resolved_mine, t.resolved_theirs }, text)
        end
    end)

    it("refuses a log that is none, a type that is not the policy's, and a bad policy", function()
        local _, rc, why = try_replay(policy("new", "return {}"))
        assert.equal(C.MS_E_NOT_FOUND, rc, why)
        log:group(1, put(1, "a", "1"))
        log:write(dir)
        _, rc, why = try_replay(policy("new", [[return { tables = { topic = { type = "int64" } } }]]))
        assert.equal(C.MS_E_TYPE, rc)
        assert.matches("table topic", why)
        _, rc, why = try_replay(policy("new", [[return { tabels = {} }]]))
        assert.equal(C.MS_E_INVALID, rc)
        assert.matches("tables", why)
    end)

    it("leaves nothing behind when memory runs out", function()
        log:group(10, put(1, "a", "1"), put(2, "g", 5))
        log:group(90, put(2, "g", 6), delete(1, "a"))
        log:write(dir)
        local numbers = ffi.new "struct ms_policy"
        C.ms_policy_init(numbers)
        ffi.copy(numbers.tables[0].name, "offset")
        numbers.tables[0].interval_ms, numbers.table_count = 20, 1
        local options = ffi.new "struct ms_replay_options"
        local generation = dir .. "/gen-000001"
        options.fs, options.dir, options.policy, options.remember = C.ms_fs_posix(), generation, numbers, true
        local made, codes = ffi.new "struct ms_replay *[1]", {}
        local failures = ms.with_alloc_failures(function()
            local rc = tonumber(C.ms_replay_new(options, made))
            if rc == 0 then rc = tonumber(C.ms_replay_run(made[0])) end
            codes[rc] = true
            C.ms_replay_free(made[0])
        end)
        assert.is_true(failures > 20)
        codes[0], codes[C.MS_E_MEMORY] = nil, nil
        assert.same({}, codes)
    end)
end)
