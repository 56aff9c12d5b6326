-- Which rows a file gives, and that writing them and reading them again gives the same rows.
local ms = require "spec.support.ms"
local rmq = require "spec.support.rocketmq"
local C, ffi = ms.C, ms.ffi

local function refused(file, text, place, what)
    local rows, message, rc = rmq.parse(file, text)
    assert.is_nil(rows)
    assert.equal(C.MS_E_FORMAT, rc)
    assert.is_truthy(message:find(place, 1, true), message)
    assert.is_truthy(message:find(what, 1, true), message)
end

describe("a file of RocketMQ", function()
    it("of topics gives a row a topic, its version, and what is unknown", function()
        assert.same({
            ["topic/订单"] = '{"perm":6,"attributes":{"x":7.6}}',
            ["topic/b"] = "{}",
            ["data_version/topic"] = '{"counter":5,"future":[1]}',
            ["file_extra/topics.json/later"] = '[1,{"a":null}]',
        }, rmq.parse(rmq.TOPICS, [[{ "dataVersion" : {"counter" : 5, "future":[ 1 ]}, "later" : [1, {"a":null}],
            "topicConfigTable" : { "订单" : {"perm":6, "attributes": {"x" : 7.6}}, "b":{} } }]]))
    end)

    it("of groups gives groups and what is forbidden", function()
        assert.same({
            ["group/g"] = '{"a":1}',
            ["forbidden/g/t1"] = "4",
            ["forbidden/g/t2"] = "-2",
            ["file_extra/subscriptionGroup.json/forbiddenTable"] = "{}",
        }, rmq.parse(rmq.GROUPS, '{"forbiddenTable":{"g":{"t1":4,"t2":-2},"empty":{}},"subscriptionGroupTable":{"g":{"a":1}}}'))
    end)

    it("of offsets gives a row a queue, in all its tables", function()
        assert.same({
            ["offset/t@g/0"] = "5", ["offset/t@g/-1"] = "-7", ["offset/a@b@c/3"] = "9223372036854775807",
            ["pull_offset/t@g/0"] = "0",
            ["reset_offset/t@g/2147483647"] = "1",
            ["lmq_offset/%LMQ%a@g"] = "5",
            ["file_extra/consumerOffset.json/pullOffsetTable"] = "{}",
            ["file_extra/consumerOffset.json/resetOffsetTable"] = "{}",
            ["file_extra/consumerOffset.json/lmqOffsetTable"] = "{}",
            ["file_extra/consumerOffset.json/groupTopicMap"] = "{}",
        }, rmq.parse(rmq.OFFSETS, [[{"groupTopicMap":{"g":["t"]},"lmqOffsetTable":{"%LMQ%a@g":5},
            "offsetTable":{"t@g":{0:5,-1:-7},"a@b@c":{"3":9223372036854775807},"empty@g":{}},
            "pullOffsetTable":{"t@g":{0:0}},"resetOffsetTable":{"t@g":{2147483647:1}}}]]))
    end)

    it("of delay levels gives a row a level", function()
        assert.same({ ["delay_offset/1"] = "77", ["delay_offset/18"] = "0" },
            rmq.parse(rmq.DELAYS, '{"offsetTable":{1:77,"18":-0}}'))
    end)

    it("may have null in the place of what is missing", function()
        assert.same({}, rmq.parse(rmq.TOPICS, '{"dataVersion":null,"topicConfigTable":null}'))
        assert.same({}, rmq.parse(rmq.GROUPS, '{"subscriptionGroupTable":null,"forbiddenTable":null}'))
        assert.same({}, rmq.parse(rmq.OFFSETS, '{"groupTopicMap":null,"lmqOffsetTable":null,"pullOffsetTable":null}'))
        assert.same({}, rmq.parse(rmq.DELAYS, '{"dataVersion":null,"offsetTable":null}'))
        assert.same({}, rmq.parse(rmq.OFFSETS, ms.read_file(rmq.data .. "damaged/null-table.json")))
        assert.same({}, rmq.parse(rmq.OFFSETS, "{}"))
    end)

    it("names its tables even with escapes", function()
        assert.same({ ["offset/a@g/1"] = "2" }, rmq.parse(rmq.OFFSETS, '{"offset\\u0054able":{"\\u0061@g":{"\\u0031":2}}}'))
    end)

    it("is refused where a table is no object", function()
        refused(rmq.OFFSETS, '{"offsetTable":[]}', "line 1, column 16", "offsetTable: expected an object")
        refused(rmq.OFFSETS, '{"offsetTable":{\n"a@g":5}}', "line 2, column 7", "offsetTable: expected an object")
        refused(rmq.OFFSETS, '{"offsetTable":{"a@g":null}}', "line 1, column 23", "expected an object")
        refused(rmq.TOPICS, '{"topicConfigTable":{"t":null}}', "column 26", "topicConfigTable: expected an object")
        refused(rmq.TOPICS, '{"dataVersion":5}', "column 16", "dataVersion: expected an object")
    end)

    it("is refused where a queue or level is no int32 in its shortest form, quoted or not", function()
        for _, key in ipairs { '"007"', '"+5"', '"1.0"', '"2147483648"', '"x"', '"-0"', '" 1"' } do
            refused(rmq.OFFSETS, '{"offsetTable":{"a@g":{0:1,' .. key .. ":2}}}", "line 1, column 28", "expected an integer of 32 bits")
            refused(rmq.DELAYS, '{"offsetTable":{' .. key .. ":2}}", "line 1, column 17", "expected an integer of 32 bits")
        end
    end)

    it("is refused where a number is no integer of 64 bits", function()
        for _, value in ipairs { "1e3", "12.5", '"5"', "null", "true", "{}", "[1]" } do
            refused(rmq.OFFSETS, '{"offsetTable":{"a@g":{0:' .. value .. "}}}", "line 1, column 26", "offsetTable: expected an integer")
            refused(rmq.GROUPS, '{"forbiddenTable":{"g":{"t":' .. value .. "}}}", "line 1, column 29", "forbiddenTable: expected an integer")
        end
    end)

    it("is refused where a key is empty", function()
        refused(rmq.TOPICS, '{"topicConfigTable":{"":{}}}', "line 1, column 22", "found an empty string")
        refused(rmq.OFFSETS, '{"offsetTable":{"":{0:1}}}', "line 1, column 17", "found an empty string")
        refused(rmq.GROUPS, '{"forbiddenTable":{"g":{"":1}}}', "line 1, column 25", "found an empty string")
        refused(rmq.TOPICS, '{"":1}', "line 1, column 2", "found an empty string")
    end)

    it("is refused where its version is no integer", function()
        refused(rmq.TOPICS, '{"dataVersion":{"counter":1.5}}', "line 1, column 27", "expected an integer as counter")
    end)

    it("leaves no rows of itself when it is refused, and those of others", function()
        local rows, version = ffi.gc(ffi.new("struct ms_rows"), C.ms_rows_close), ffi.new("struct ms_rocketmq_version")
        assert.equal(0, C.ms_rocketmq_parse(rmq.DELAYS, "d", ms.bytes('{"offsetTable":{1:77}}'), rows, version))
        local bad = ms.bytes('{"offsetTable":{"a@g":{0:1,1:2},"b@g":{0:1.5}}}')
        assert.equal(C.MS_E_FORMAT, C.ms_rocketmq_parse(rmq.OFFSETS, "o", bad, rows, version))
        assert.same({ ["delay_offset/1"] = "77" }, rmq.rows(rows))
    end)

    it("survives every allocation that fails", function()
        local text = ms.bytes(ms.read_file(rmq.data .. "serializer/5.5.0/consumerOffset.json"))
        assert.is_true(ms.with_alloc_failures(function()
            local rows, version = ffi.new("struct ms_rows"), ffi.new("struct ms_rocketmq_version")
            local rc = C.ms_rocketmq_parse(rmq.OFFSETS, "o", text, rows, version)
            assert.is_true(rc == 0 or (rc == C.MS_E_MEMORY and rows.count == 0))
            C.ms_rows_close(rows)
        end) > 5)
    end)
end)

describe("a data version", function()
    local function version(text)
        local v = ffi.new("struct ms_rocketmq_version")
        assert.equal(0, C.ms_rocketmq_version_parse(ms.bytes(text), v))
        return v
    end

    it("is read with what is missing as 0", function()
        local v = version('{"counter":117,"timestatmp":1453114491043}')
        assert.is_true(v.known)
        assert.same({ "0", "117", "0" }, { ms.dec(v.state), ms.dec(v.counter), ms.dec(v.timestamp) })
        assert.is_false(version("nonsense").known)
        assert.is_false(version("[]").known)
    end)

    it("is ordered by state, counter and time, over all 64 bits", function()
        local order = { '{"counter":-1}', '{"counter":0}', '{"counter":1}', '{"counter":1,"timestamp":2}', '{"counter":2147483649}',
            '{"counter":9223372036854775807}', '{"stateVersion":1,"counter":0}' }
        for i, a in ipairs(order) do
            for j, b in ipairs(order) do
                local result = C.ms_rocketmq_version_compare(version(a), version(b))
                assert.is_true((i < j and result < 0) or (i == j and result == 0) or (i > j and result > 0), a .. " and " .. b)
            end
        end
    end)
end)

describe("rows", function()
    it("are found by table and key, whatever their number", function()
        local rows = ffi.gc(ffi.new("struct ms_rows"), C.ms_rows_close)
        for i = 1, 3000 do assert.equal(0, C.ms_rows_add(rows, i % 3, ms.bytes("k" .. i), ms.bytes("v" .. i))) end
        assert.equal(0, C.ms_rows_index(rows))
        for i = 1, 3000 do
            local row = C.ms_rows_find(rows, i % 3, ms.bytes("k" .. i))
            assert.equal("v" .. i, ms.str(C.ms_row_value(rows, row)))
            assert.is_true(C.ms_rows_find(rows, (i + 1) % 3, ms.bytes("k" .. i)) == nil)
        end
        assert.is_true(C.ms_rows_find(rows, 0, ms.bytes("k")) == nil)
    end)

    it("sort by table and key, numbers by value and before words", function()
        local rows = ffi.gc(ffi.new("struct ms_rows"), C.ms_rows_close)
        local keys = { "a@g/0", "a@g/10", "a@g/-1", "a@g/-10", "a@g/9", "a/100", "b", "1a", "10", "9", "a@g@x/0" }
        for _, key in ipairs(keys) do C.ms_rows_add(rows, 3, ms.bytes((key:gsub("/", "\0"))), ms.bytes("")) end
        C.ms_rows_add(rows, 0, ms.bytes("z"), ms.bytes(""))
        C.ms_rows_sort(rows)
        local sorted = {}
        for i = 0, tonumber(rows.count) - 1 do sorted[#sorted + 1] = (ms.str(C.ms_row_key(rows, rows.list + i)):gsub("%z", "/")) end
        assert.same({ "z", "9", "10", "1a", "b", "a/100", "a@g/-10", "a@g/-1", "a@g/0", "a@g/9", "a@g/10", "a@g@x/0" }, sorted)
    end)
end)
