-- Import is a difference against what the last import said: it writes what the file changed, leaves alone what others changed, never
-- goes back, and may be stopped anywhere.
local ms = require "spec.support.ms"
local rmq = require "spec.support.rocketmq"
local C, ffi = ms.C, ms.ffi

local function version(counter)
    return counter and ('"dataVersion":{"counter":%d,"stateVersion":0,"timestamp":9},'):format(counter) or ""
end

local function topics(counter, text)
    return "{" .. version(counter) .. '"topicConfigTable":{' .. text .. "}}"
end

local function offsets(counter, text)
    return "{" .. version(counter) .. '"offsetTable":{' .. text .. "}}"
end

local function put(dir, name, text, seconds)
    ms.write_file(dir .. "/" .. name, text)
    rmq.touch(dir .. "/" .. name, seconds or 1700000000)
end

local function good(store, dir, options)
    local report, rc, message = rmq.import(store, dir, options)
    assert.equal(0, rc, message)
    return report
end

describe("an import", function()
    local store, dir
    before_each(function()
        store, dir = rmq.store(), ms.tmpdir()
    end)

    it("puts every row once, and nothing the second time", function()
        put(dir, "topics.json", topics(3, '"a":{"perm":6},"b":{}'))
        put(dir, "consumerOffset.json", offsets(4, '"a@g":{0:5,1:6}'))
        local report = good(store, dir)
        assert.same({ 3, 0, 0 }, { report["topics.json"].put, report["topics.json"].deleted, report["topics.json"].unchanged })
        assert.equal(3, report["consumerOffset.json"].put)
        assert.equal("missing", report["delayOffset.json"].source)
        assert.same({ ["topic/a"] = '{"perm":6}', ["topic/b"] = "{}", ["offset/a@g/0"] = "5", ["offset/a@g/1"] = "6",
            ["data_version/topic"] = '{"counter":3,"stateVersion":0,"timestamp":9}',
            ["data_version/offset"] = '{"counter":4,"stateVersion":0,"timestamp":9}' }, store:rows())
        assert.equal(1, store.waits)
        local writes = store.writes
        report = good(store, dir)
        assert.equal(writes, store.writes)
        assert.same({ 0, 0, 3 }, { report["topics.json"].put, report["topics.json"].deleted, report["topics.json"].unchanged })
    end)

    it("puts what changed in the file and deletes what left it", function()
        put(dir, "topics.json", topics(3, '"a":{},"b":{},"c":{}'))
        put(dir, "consumerOffset.json", offsets(3, '"a@g":{0:5,1:6}'))
        good(store, dir)
        put(dir, "topics.json", topics(4, '"b":{"x":1},"c":{},"d":{}'))
        put(dir, "consumerOffset.json", offsets(3, '"a@g":{0:0}'))
        local report = good(store, dir)
        assert.same({ 3, 1, 1 }, { report["topics.json"].put, report["topics.json"].deleted, report["topics.json"].unchanged })
        assert.same({ 1, 1, 1 }, { report["consumerOffset.json"].put, report["consumerOffset.json"].deleted,
            report["consumerOffset.json"].unchanged })
        local rows = store:rows()
        assert.is_nil(rows["topic/a"])
        assert.equal('{"x":1}', rows["topic/b"])
        assert.equal("{}", rows["topic/d"])
        assert.equal("0", rows["offset/a@g/0"])
        assert.is_nil(rows["offset/a@g/1"])
    end)

    it("writes the same for a file with other blanks and another order of keys", function()
        put(dir, "consumerOffset.json", offsets(nil, '"a@g":{0:5,1:6},"b@g":{0:1}'))
        good(store, dir)
        local writes = store.writes
        put(dir, "consumerOffset.json", '{"offsetTable" : {\n"b@g":{"0": 1},\r\n "a@g" : {1 :6, "0":5}}}')
        good(store, dir)
        assert.equal(writes, store.writes)
    end)

    it("leaves alone what others changed, as long as the file did not change it", function()
        put(dir, "topics.json", topics(3, '"a":{},"b":{}'))
        good(store, dir)
        store:put("topic", "a", '{"ours":1}')
        store:put("topic", "mine", "{}")
        put(dir, "topics.json", topics(4, '"a":{},"b":{"x":2}'))
        good(store, dir)
        assert.equal('{"ours":1}', store:get("topic", "a"))
        assert.equal("{}", store:get("topic", "mine"))
        assert.equal('{"x":2}', store:get("topic", "b"))
    end)

    it("takes what the file changed, even where others did too", function()
        put(dir, "topics.json", topics(3, '"a":{},"b":{}'))
        good(store, dir)
        store:put("topic", "a", '{"ours":1}')
        store:put("topic", "b", nil)
        put(dir, "topics.json", topics(4, '"a":{"x":1},"b":{"x":1}'))
        good(store, dir)
        assert.equal('{"x":1}', store:get("topic", "a"))
        assert.equal('{"x":1}', store:get("topic", "b"))
    end)

    it("changes nothing for a file that is missing", function()
        put(dir, "topics.json", topics(3, '"a":{}'))
        put(dir, "delayOffset.json", '{"offsetTable":{1:5}}')
        good(store, dir)
        assert.equal(0, select(2, ms.sh("rm '" .. dir .. "/topics.json'")))
        local report = good(store, dir)
        assert.equal("missing", report["topics.json"].source)
        assert.equal("{}", store:get("topic", "a"))
    end)

    it("loads nothing when one of the files is damaged", function()
        put(dir, "topics.json", topics(3, '"a":{}'))
        put(dir, "delayOffset.json", '{"offsetTable":{1:5}')
        local _, rc = rmq.import(store, dir)
        assert.equal(C.MS_E_FORMAT, rc)
        assert.same({}, store:rows())
        assert.equal(0, store.calls)
    end)

    it("reports the .bak that it used, and why", function()
        put(dir, "topics.json", "")
        put(dir, "topics.json.bak", topics(3, '"a":{}'))
        local report = good(store, dir)
        assert.equal("bak", report["topics.json"].source)
        assert.is_truthy(report["topics.json"].trouble:find("found nothing", 1, true))
        assert.is_truthy(report.text:find('"source":"bak"', 1, true))
        assert.equal("{}", store:get("topic", "a"))
    end)

    it("ignores bases of tables that it does not know", function()
        put(dir, "topics.json", topics(3, '"a":{}'))
        store:put("import_base", "future\0x", "12345678")
        store:put("import_base", "no separator", "12345678")
        good(store, dir)
        assert.equal("12345678", store:get("import_base", "future\0x"))
    end)
end)

describe("an import of something older", function()
    local store, dir
    before_each(function()
        store, dir = rmq.store(), ms.tmpdir()
        put(dir, "topics.json", topics(10, '"a":{"n":10},"b":{}'), 1700000000)
        put(dir, "delayOffset.json", '{"offsetTable":{1:10,2:20}}', 1700000000)
        good(store, dir)
    end)

    local function skipped(name, what)
        local before, writes = store:rows(), store.writes
        local report = good(store, dir)
        assert.is_true(report[name].skipped)
        assert.is_truthy(report[name].reason:find(what, 1, true), report[name].reason)
        assert.same(before, store:rows())
        assert.equal(writes, store.writes)
        return report
    end

    it("by its version is skipped, its differences are counted and listed", function()
        put(dir, "topics.json", topics(9, '"a":{"n":9},"c":{}'), 1800000000)
        local report = skipped("topics.json", "its data version is 0.9 of 9, here it is 0.10 of 9")
        assert.equal(4, report["topics.json"].differing)
        for _, entry in ipairs { '{"table":"topic","change":"put","key":"a"}', '{"table":"topic","change":"put","key":"c"}',
            '{"table":"topic","change":"delete","key":"b"}', '{"table":"data_version","change":"put","key":"topic"}' } do
            assert.is_truthy(report.text:find(entry, 1, true), report.text)
        end
    end)

    it("lists no more than it was asked for", function()
        put(dir, "topics.json", topics(9, '"a":{"n":9},"c":{}'))
        local report = good(store, dir, { list_max = 2 })
        assert.equal(2, select(2, report.text:gsub('"change"', "")))
        assert.equal(4, report["topics.json"].differing)
    end)

    it("by the version that others wrote since is skipped", function()
        store:put("data_version", "topic", '{"counter":20,"stateVersion":0,"timestamp":9}')
        put(dir, "topics.json", topics(15, '"a":{"n":15}'))
        skipped("topics.json", "its data version is 0.15 of 9, here it is 0.20 of 9")
    end)

    it("by its state version or its time stamp is skipped", function()
        put(dir, "topics.json", '{"dataVersion":{"counter":10,"stateVersion":0,"timestamp":8},"topicConfigTable":{}}', 1800000000)
        skipped("topics.json", "0.10 of 8")
        put(dir, "topics.json", '{"dataVersion":{"counter":99,"stateVersion":-1,"timestamp":9},"topicConfigTable":{}}', 1800000000)
        skipped("topics.json", "-1.99 of 9")
    end)

    it("by its time is skipped where there is no version", function()
        put(dir, "delayOffset.json", '{"offsetTable":{1:9,2:20}}', 1699999999)
        local report = skipped("delayOffset.json", "its time is 1699999999000, the last import's 1700000000000")
        assert.equal(1, report["delayOffset.json"].differing)
    end)

    it("by its time is skipped where the versions are equal", function()
        put(dir, "topics.json", topics(10, '"a":{"n":9}'), 1699999999)
        skipped("topics.json", "its time")
    end)

    it("by its time only is done: the version is higher", function()
        put(dir, "topics.json", topics(11, '"a":{"n":11}'), 1600000000)
        assert.is_false(good(store, dir)["topics.json"].skipped)
        assert.equal('{"n":11}', store:get("topic", "a"))
    end)

    it("that differs in nothing is no matter", function()
        put(dir, "delayOffset.json", '{"offsetTable":{1:10,2:20}}', 1600000000)
        local report = good(store, dir)
        assert.is_false(report["delayOffset.json"].skipped)
        put(dir, "delayOffset.json", '{"offsetTable":{1:5}}', 1650000000)
        skipped("delayOffset.json", "the last import's 1700000000000")
    end)

    it("is done all the same when it is forced", function()
        put(dir, "topics.json", topics(9, '"a":{"n":9}'))
        local report = good(store, dir, { force = true })
        assert.is_false(report["topics.json"].skipped)
        assert.equal('{"n":9}', store:get("topic", "a"))
        assert.is_nil(store:get("topic", "b"))
    end)

    it("skips only that file", function()
        put(dir, "topics.json", topics(9, ""))
        put(dir, "delayOffset.json", '{"offsetTable":{1:11,2:20}}', 1700000001)
        local report = good(store, dir)
        assert.is_true(report["topics.json"].skipped)
        assert.equal("11", rmq.int64(store:get("delay_offset", "1")))
    end)

    it("knows versions beyond 32 bits", function()
        put(dir, "topics.json", topics(2147483649, '"a":{"n":2}'))
        good(store, dir)
        put(dir, "topics.json", topics(1, '"a":{"n":1}'), 1800000000)
        skipped("topics.json", "here it is 0.2147483649 of 9")
    end)
end)

describe("an import that is stopped", function()
    -- Both kinds of tables, more than one batch, puts and deletes.
    local function generation(dir, n, seconds)
        local t, o = {}, {}
        for i = 1, 12 do
            if (i + n) % 4 ~= 0 then t[#t + 1] = ('"t%d":{"n":%d}'):format(i, i % 3 == 0 and n or 0) end
            if (i + n) % 3 ~= 0 then o[#o + 1] = ('"t%d@g":{0:%d,1:%d}'):format(i, n, i) end
        end
        put(dir, "topics.json", topics(n, table.concat(t, ",")), seconds)
        put(dir, "consumerOffset.json", offsets(nil, table.concat(o, ",")), seconds)
    end

    local function directory(n, seconds)
        local dir = ms.tmpdir()
        generation(dir, n, seconds)
        return dir
    end

    local first, second = directory(1, 1700000000), directory(2, 1700000100)

    local function expected()
        local store = rmq.store()
        good(store, first)
        good(store, second)
        return store:rows(), store
    end

    local function each_stop(run)
        local stop, stops = 0, 0
        while true do
            local store = rmq.store()
            good(store, first, { batch_bytes = 600 })
            store.calls, store.stop_after = 0, stop
            local _, rc = rmq.import(store, second, { batch_bytes = 600 })
            if rc == 0 then break end
            assert.equal(C.MS_E_IO, rc)
            store:crash()
            run(store)
            stop, stops = stop + 1, stops + 1
        end
        assert.is_true(stops > 10, "only " .. stops .. " places to stop at")
    end

    it("at any write is finished by the next one", function()
        local want = expected()
        each_stop(function(store)
            good(store, second)
            assert.same(want, store:rows())
            local writes = store.writes
            good(store, second)
            assert.equal(writes, store.writes)
        end)
    end)

    it("at any write never lets anything older in afterwards, once it has begun", function()
        each_stop(function(store)
            if not store:get("import_state", "topics.json"):find('"counter":2', 1, true) then return end
            local before = store:get("topic", "t3")
            good(store, first)
            assert.equal(before, store:get("topic", "t3"))
        end)
    end)

    it("at any write has no new hash in its base whose value did not get into the log", function()
        local _, want = expected()
        local checked = 0
        each_stop(function(store)
            for key, hash in pairs(store.tables.import_base) do
                local name, rest = key:match("^(.-)%z(.*)$")
                if hash == want:get("import_base", key) then
                    checked = checked + 1
                    assert.equal(want:get(name, rest), store:get(name, rest), (key:gsub("%z", "/")))
                end
            end
        end)
        assert.is_true(checked > 50)
    end)

    it("keeps an entry and its hash in one write, except for buffered tables", function()
        local store = rmq.store()
        good(store, first)
        local seen = 0
        store.write = function(self, writes, count)
            local keys = {}
            for i = 0, count - 1 do keys[ffi.string(writes[i].table) .. "\0" .. ms.str(writes[i].key)] = true end
            for key in pairs(keys) do
                local name, rest = key:match("^(.-)%z(.*)$")
                if name == "topic" or name == "data_version" then
                    seen = seen + 1
                    assert(keys["import_base\0" .. name .. "\0" .. rest], "no hash beside " .. key)
                elseif name == "offset" then
                    assert(not keys["import_base\0" .. name .. "\0" .. rest], "a hash beside a buffered entry")
                end
            end
            return rmq.store().write(self, writes, count)
        end
        good(store, second)
        assert.is_true(seen > 5)
    end)

    it("splits into batches of the asked size, except for a single larger entry", function()
        local dir, largest = ms.tmpdir(), 0
        local list = {}
        for i = 1, 100 do list[i] = ('"topic%d":{"text":"%s"}'):format(i, ("x"):rep(100)) end
        list[101] = ('"large":{"text":"%s"}'):format(("x"):rep(5000))
        put(dir, "topics.json", topics(1, table.concat(list, ",")))
        local store = rmq.store()
        local write = store.write
        store.write = function(self, writes, count)
            local bytes = 0
            for i = 0, count - 1 do bytes = bytes + tonumber(writes[i].key.size + writes[i].value.size) end
            if count > 1 then largest = math.max(largest, bytes) end
            return write(self, writes, count)
        end
        good(store, dir, { batch_bytes = 1000 })
        assert.is_true(largest > 500 and largest <= 1000, tostring(largest))
        assert.equal(102, rmq.count(store:rows()))
    end)

    it("by missing memory leaves nothing behind and is finished by the next one", function()
        local want = expected()
        assert.is_true(ms.with_alloc_failures(function()
            local store = rmq.store()
            local report = ffi.new("struct ms_rocketmq_report")
            local rc = rmq.with(store, function(tables)
                return C.ms_rocketmq_import(tables, C.ms_fs_posix(), first, nil, report)
            end)
            C.ms_rocketmq_report_close(report)
            assert.is_true(rc == 0 or rc == C.MS_E_MEMORY, tostring(rc))
            if rc ~= 0 then
                C.ms_mem_fail_after(0)
                good(store, second)
                assert.same(want, store:rows())
            end
        end, 400) > 10)
    end)
end)
