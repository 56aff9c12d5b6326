-- What export writes is what a broker writes, gives the same rows when it is loaded, and replaces files in one step.
local ms = require "spec.support.ms"
local rmq = require "spec.support.rocketmq"
local C, ffi = ms.C, ms.ffi

-- Puts rows as they come from a load into a store.
local function fill(store, rows)
    for i = 0, tonumber(rows.count) - 1 do
        local row = rows.list + i
        store:put(ffi.string(C.ms_rocketmq_table_names[row.table]), ms.str(C.ms_row_key(rows, row)), ms.str(C.ms_row_value(rows, row)))
    end
end

local function load(fs, dir)
    local files = ffi.gc(ffi.new("struct ms_rocketmq_files"), C.ms_rocketmq_files_close)
    local rc = C.ms_rocketmq_load(fs, dir, files)
    assert.equal(0, rc, rc ~= 0 and ms.err() or nil)
    return rmq.rows(files.rows), files
end

local function export(store, dir)
    local report = ffi.new("struct ms_rocketmq_export_report")
    local rc, message = rmq.export(store, C.ms_fs_posix(), dir, report)
    assert.equal(0, rc, message)
    return report
end

-- JSON without blanks, bare keys quoted, members in the order of their keys: equal for texts that mean the same to RocketMQ, as
-- long as its sets are sorted too.
local function canonical(text)
    local json = ffi.gc(ffi.new("struct ms_json"), C.ms_json_close)
    local bytes = ms.bytes(text)
    ms.check(C.ms_json_open(json, "canonical", bytes, 0))
    local at, source = 1, ms.buf_str(json.clean)
    local value
    local function list(close)
        local parts = {}
        at = at + 1
        while source:sub(at, at) ~= close do
            if source:sub(at, at) == "," then at = at + 1 end
            local key = ""
            if close == "}" then
                key = source:match('^"[^"\\]*"', at)
                at = at + #key + 1
                key = key .. ":"
            end
            parts[#parts + 1] = key .. value()
        end
        at = at + 1
        table.sort(parts)
        return table.concat(parts, ",") .. close
    end
    function value()
        local c = source:sub(at, at)
        if c == "{" then return "{" .. list("}") end
        if c == "[" then return "[" .. list("]") end
        local word = source:match(c == '"' and '^"[^"]*"' or "^[^,%]}]+", at)
        at = at + #word
        return word
    end
    return value()
end

describe("an export", function()
    it("has the layout of RocketMQ's own writer", function()
        local store = rmq.store()
        local _, _, rows = rmq.parse(rmq.OFFSETS, [[{"dataVersion":{"counter":1},"groupTopicMap":{},"later":[],"offsetTable":
            {"t@g":{10:5,9:1,-1:-7},"a@b@c":{0:2}},"pullOffsetTable":{"t@g":{0:3}}}]])
        fill(store, rows)
        local dir = ms.tmpdir()
        export(store, dir)
        assert.equal(table.concat({ "{",
            '\t"dataVersion":{', '\t\t"counter":1', "\t},",
            '\t"groupTopicMap":{', '\t\t"g":[', '\t\t\t"t"', "\t\t]", "\t},",
            '\t"later":[],',
            '\t"offsetTable":{', '\t\t"a@b@c":{', "\t\t\t0:2", "\t\t},", '\t\t"t@g":{', "\t\t\t-1:-7,", "\t\t\t9:1,", "\t\t\t10:5", "\t\t}", "\t},",
            -- quoted: a 5.4.0 broker does not start if it has to skip bare keys
            '\t"pullOffsetTable":{', '\t\t"t@g":{', '\t\t\t"0":3', "\t\t}", "\t}",
            "}" }, "\n"), ms.read_file(dir .. "/consumerOffset.json"))
        assert.equal('{\n\t"offsetTable":{}\n}', ms.read_file(dir .. "/delayOffset.json"))
        assert.equal('{\n\t"topicConfigTable":{}\n}', ms.read_file(dir .. "/topics.json"))
        assert.equal('{\n\t"subscriptionGroupTable":{}\n}', ms.read_file(dir .. "/subscriptionGroup.json"))
    end)

    it("writes what not every broker has if there is any of it, and goes on where it did", function()
        local store, dir = rmq.store(), ms.tmpdir()
        local function text(name) return ms.read_file(dir .. "/" .. name) end
        store:put("request_mode", "t\0g", '{"mode":"POP"}')
        store:put("order_info", "t@g\00010", '{"o":[1]}')
        store:put("order_info", "t@g\0009", '{"o":[2]}')
        store:put("topic_mapping", "t", '{"hostedQueues":{0:[{"gen":1}]}}')
        store:put("data_version", "topic_mapping", '{"counter":5}')
        export(store, dir)
        assert.equal('{"messageRequestModeMap":{"t":{"g":{"mode":"POP"}}}}', (text("messageRequestMode.json"):gsub("%s", "")))
        assert.truthy(text("consumerOrderInfo.json"):gsub("%s", ""):find('{"table":{"t@g":{9:{"o":[2]},10:{"o":[1]}}}}', 1, true))
        assert.equal('{"dataVersion":{"counter":5},"topicQueueMappingInfoMap":{"t":{"hostedQueues":{"0":[{"gen":1}]}}}}',
            (text("topicQueueMapping.json"):gsub("%s", "")))
        assert.is_nil(text "timermetrics")
        store:put("request_mode", "t\0g", nil)
        local report = export(store, dir)
        assert.is_true(report.files[rmq.MODES].written)
        assert.is_false(report.files[rmq.TIMERS].written)
        assert.equal('{\n\t"messageRequestModeMap":{}\n}', text "messageRequestMode.json")
    end)

    local function round_trip(file, path)
        local text = ms.read_file(path)
        local rows, _, c_rows = rmq.parse(file, text)
        assert.is_truthy(rows, path)
        C.ms_rows_sort(c_rows)
        local written = rmq.compose(c_rows, file)
        assert.same(rows, (rmq.parse(file, written)), path)
        return text, written
    end

    it("of every real file means what the file meant, for each version of its writer", function()
        local paths = {}
        for _, name in ipairs(rmq.DIRS) do
            for _, path in ipairs(rmq.list(rmq.data .. name .. "/*.json*")) do paths[#paths + 1] = path end
        end
        for _, version in ipairs(rmq.VERSIONS) do
            for _, path in ipairs(rmq.list(rmq.data .. "serializer/" .. version .. "/*.json")) do paths[#paths + 1] = path end
        end
        for _, path in ipairs(rmq.list(rmq.data .. "more-*/*")) do paths[#paths + 1] = path end
        for _, path in ipairs(rmq.list(rmq.data .. "forks-*/*.json*")) do paths[#paths + 1] = path end
        for _, path in ipairs(rmq.list(rmq.data .. "issues/[58d]*.json")) do paths[#paths + 1] = path end
        assert.is_true(#paths > 100)
        for _, path in ipairs(paths) do
            local text, written = round_trip(rmq.file_of(path), path)
            if not path:find("5x%-lmq") then assert.equal(canonical(text), canonical(written), path) end
        end
    end)

    it("makes groupTopicMap as RocketMQ does, leaving out keys of three parts", function()
        local _, written = round_trip(rmq.OFFSETS, rmq.data .. "issues/5x-lmq-broadcast-consumerOffset.json")
        local map = written:match('"groupTopicMap":(%b{})'):gsub("[\n\t]", "")
        -- This file's own map lacks push_test, its test has a topic that is in no key: it was made at another moment.
        assert.equal('{"pull_test_asg":["test"],"pull_test_sub":["test"],"push_test":["test"],"test":["%RETRY%push_test"]}', map)
    end)

    it("of a whole directory loads to the same rows, and to the same files once more", function()
        for _, name in ipairs { "master-rich", "slave", "master-5.4.0" } do
            local rows, files = load(C.ms_fs_posix(), rmq.data .. name)
            local store, dir = rmq.store(), ms.tmpdir()
            fill(store, files.rows)
            local report = export(store, dir)
            assert.same(rows, (load(C.ms_fs_posix(), dir)))
            for file = 0, rmq.ALWAYS do
                assert.is_true(report.files[file].written)
                assert.equal(tonumber(files.sources[file].count), tonumber(report.files[file].rows))
                assert.equal(#ms.read_file(dir .. "/" .. rmq.NAMES[file]), tonumber(report.files[file].bytes))
            end
            report = export(store, dir)
            for file = 0, rmq.ALWAYS do
                assert.is_false(report.files[file].written)
                assert.is_nil(ms.read_file(dir .. "/" .. rmq.NAMES[file] .. ".bak"))
            end
        end
    end)

    it("after an import gives back what was imported", function()
        local store, dir = rmq.store(), ms.tmpdir()
        local _, rc = rmq.import(store, rmq.data .. "master-rich")
        assert.equal(0, rc)
        export(store, dir)
        assert.same((load(C.ms_fs_posix(), rmq.data .. "master-rich")), (load(C.ms_fs_posix(), dir)))
    end)

    it("reads the versions before the rows, so that no file claims more than it has", function()
        local store = rmq.store()
        export(store, ms.tmpdir())
        assert.equal("data_version", store.walks[1])
        assert.equal(tonumber(C.MS_ROCKETMQ_TABLES), #store.walks)
    end)

    it("keeps the old file as .bak, unless nobody could read it", function()
        local store, dir = rmq.store(), ms.tmpdir()
        ms.write_file(dir .. "/topics.json", '{"topicConfigTable":{"old":{}}}')
        ms.write_file(dir .. "/delayOffset.json", '{"offsetTable":{1:')
        ms.write_file(dir .. "/delayOffset.json.bak", '{"offsetTable":{1:7}}')
        local report = export(store, dir)
        assert.is_true(report.files[rmq.TOPICS].kept)
        assert.equal('{"topicConfigTable":{"old":{}}}', ms.read_file(dir .. "/topics.json.bak"))
        assert.is_false(report.files[rmq.DELAYS].kept)
        assert.is_truthy(ffi.string(report.files[rmq.DELAYS].trouble):find("line 1, column", 1, true))
        assert.equal('{"offsetTable":{1:7}}', ms.read_file(dir .. "/delayOffset.json.bak"))
        assert.equal('{\n\t"offsetTable":{}\n}', ms.read_file(dir .. "/delayOffset.json"))
    end)

    it("refuses entries that fit in no file, names them, and writes nothing", function()
        local long = ("x"):rep(300)
        for _, case in ipairs {
            { "offset", "t@g", rmq.bytes8(1), "one part" }, { "offset", "t@g\0x", rmq.bytes8(1), "no 32-bit integer" },
            { "offset", "t@g\0001\0002", rmq.bytes8(1), "NUL too many" }, { "offset", "\0001", rmq.bytes8(1), "a part of it is empty" },
            { "offset", "t\200@g\0001", rmq.bytes8(1), "not UTF-8" }, { "offset", "t@g\0001", "1", "8 bytes" },
            { "delay_offset", "007", rmq.bytes8(1), "no 32-bit integer" }, { "topic", "a\0b", "{}", "NUL too many" },
            { "topic", "t", "[]", "expected an object" }, { "topic", "t", "{}}", "end of file expected" },
            { "topic", "t", '{},"evil":{}', "end of file expected" }, { "topic", long, "", "found nothing" },
            { "forbidden", "g\0t\200", rmq.bytes8(1), "not UTF-8" }, { "data_version", "topic", "5", "'[' or '{' expected" },
            { "file_extra", "topics.json\0x", "nonsense", "invalid token" },
        } do
            local store, dir = rmq.store(), ms.tmpdir()
            store:put("topic", "good", "{}")
            store:put(case[1], case[2], case[3])
            local rc, message = rmq.export(store, C.ms_fs_posix(), dir, nil)
            assert.is_true(rc == C.MS_E_FORMAT or rc == C.MS_E_TYPE, case[1] .. " " .. tostring(rc))
            assert.is_truthy(message:find("table " .. case[1], 1, true), message)
            assert.is_truthy(message:find(case[4], 1, true), message)
            assert.equal("", (ms.sh("ls " .. dir)))
        end
    end)

    it("survives every allocation that fails", function()
        local store, dir = rmq.store(), ms.tmpdir()
        local _, files = load(C.ms_fs_posix(), rmq.data .. "serializer/5.5.0")
        fill(store, files.rows)
        assert.is_true(ms.with_alloc_failures(function()
            local rc = rmq.export(store, C.ms_fs_posix(), dir, nil)
            assert.is_true(rc == 0 or rc == C.MS_E_MEMORY)
        end) > 20)
    end)
end)

-- Failpoints on a simulated disk: at every operation of an export, by crash and by power loss.
describe("an export that is stopped", function()
    local OLD_TOPICS, OLD_OFFSETS = '{"topicConfigTable":{"old":{}}}', '{"offsetTable":{"t@g":{0:1}}}'

    local function write(fs, dir, name, text)
        ms.check(C.ms_fs_replace(fs, dir, name, text, #text))
    end

    local function read(fs, path)
        local buf = ms.buf()
        local rc = C.ms_fs_read_file(fs, path, 1048576, buf)
        if rc == C.MS_E_NOT_FOUND then return nil end
        ms.check(rc)
        return ms.buf_str(buf)
    end

    local function store_of(n)
        local store = rmq.store()
        for i = 1, 5 do store:put("topic", ("t%d"):format(i), ('{"n":%d}'):format(n)) end
        store:put("offset", "t@g\0" .. "0", rmq.bytes8(n))
        return store
    end

    -- The texts that an export of this store gives, by name.
    local function texts_of(store)
        local dir = ms.tmpdir()
        export(store, dir)
        local texts = {}
        for file = 0, rmq.ALWAYS do texts[rmq.NAMES[file]] = ms.read_file(dir .. "/" .. rmq.NAMES[file]) end
        return texts
    end

    local function each_stop(finish)
        local before, after = store_of(1), store_of(2)
        local old, new = texts_of(before), texts_of(after)
        local k = 0
        while true do
            local sim = C.ms_sim_fs_new(k + 1)
            local fs = C.ms_sim_fs(sim)
            assert.equal(0, (rmq.export(before, fs, "/config", nil)))
            assert.equal(0, fs.ops.sync_dir(fs, "/"))
            C.ms_sim_fs_stop_after(sim, k)
            local rc = rmq.export(after, fs, "/config", nil)
            local stopped = C.ms_sim_fs_stopped(sim)
            finish(sim)
            for file = 0, rmq.ALWAYS do
                local name = rmq.NAMES[file]
                local text, backup = read(fs, "/config/" .. name), read(fs, "/config/" .. name .. ".bak")
                assert.is_true(text == old[name] or text == new[name], ("%s after %d operations"):format(name, k))
                assert.is_true(backup == nil or backup == old[name], ("%s.bak after %d operations"):format(name, k))
            end
            if rc == 0 then
                for file = 0, rmq.ALWAYS do assert.equal(new[rmq.NAMES[file]], read(fs, "/config/" .. rmq.NAMES[file])) end
            end
            -- and it goes on
            assert.equal(0, (rmq.export(after, fs, "/config", nil)))
            assert.same(after:rows(), (load(fs, "/config")))
            assert.equal(0, C.ms_sim_fs_handles(sim))
            C.ms_sim_fs_free(sim)
            if not stopped then break end
            k = k + 1
        end
        assert.is_true(k >= 16, "only " .. k .. " places to stop at")
    end

    it("by a crash between any two operations leaves the old or the new file, never neither", function()
        each_stop(function(sim) C.ms_sim_fs_crash(sim) end)
    end)

    it("by a power loss between any two operations leaves the old or the new file, never neither", function()
        each_stop(function(sim) C.ms_sim_fs_power_loss(sim, nil) end)
    end)

    it("by an error of any operation says so and leaves the old or the new file", function()
        for _, op in ipairs { C.MS_SIM_FS_OPEN, C.MS_SIM_FS_WRITE, C.MS_SIM_FS_SYNC, C.MS_SIM_FS_RENAME, C.MS_SIM_FS_SYNC_DIR } do
            for nth = 1, 4 do
                local sim = C.ms_sim_fs_new(nth)
                local fs = C.ms_sim_fs(sim)
                ms.check(fs.ops.mkdir(fs, "/config"))
                write(fs, "/config", "topics.json", OLD_TOPICS)
                write(fs, "/config", "consumerOffset.json", OLD_OFFSETS)
                C.ms_sim_fs_fail_after(sim, op, nth, "/config")
                local rc = rmq.export(store_of(2), fs, "/config", nil)
                assert.equal(C.MS_E_IO, rc)
                local text = read(fs, "/config/topics.json")
                assert.is_true(text == OLD_TOPICS or text:find('"n":2', 1, true) ~= nil)
                assert.equal(0, (rmq.export(store_of(2), fs, "/config", nil)))
                assert.equal(0, C.ms_sim_fs_handles(sim))
                C.ms_sim_fs_free(sim)
            end
        end
    end)

    it("by a full disk says so and leaves the old files", function()
        local sim = C.ms_sim_fs_new(1)
        local fs = C.ms_sim_fs(sim)
        assert.equal(0, (rmq.export(store_of(1), fs, "/config", nil)))
        local before = load(fs, "/config")
        C.ms_sim_fs_capacity(sim, C.ms_sim_fs_used(sim) + 10)
        assert.equal(C.MS_E_NO_SPACE, (rmq.export(store_of(2), fs, "/config", nil)))
        assert.same(before, (load(fs, "/config")))
        C.ms_sim_fs_free(sim)
    end)
end)
