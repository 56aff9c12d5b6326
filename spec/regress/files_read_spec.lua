-- Faults that users met when config files were read, each with its origin. "rmq:" names apache/rocketmq issues. What RocketMQ's own
-- readers say of the damaged files is in spec/data/rocketmq/damaged.oracle.txt.
local ms = require "spec.support.ms"
local rmq = require "spec.support.rocketmq"
local C, ffi = ms.C, ms.ffi

local function damaged(name)
    return ms.read_file(rmq.data .. "damaged/" .. name)
end

-- A file of offsets is refused at line and column; nothing of it is loaded, nor of a good file beside it.
local function refused(text, line, column, what)
    local rows, message, rc = rmq.parse(rmq.OFFSETS, text)
    assert.is_nil(rows)
    assert.is_true(rc == C.MS_E_FORMAT or rc == C.MS_E_LIMIT)
    local start = ("consumerOffset.json: line %d, column %d: "):format(line, column)
    assert.equal(start, message:sub(1, #start))
    assert.is_truthy(message:find(what, 1, true), message)
    local files = ffi.gc(ffi.new("struct ms_rocketmq_files"), C.ms_rocketmq_files_close)
    local dir = rmq.directory { ["consumerOffset.json"] = text, ["topics.json"] = '{"topicConfigTable":{"t":{}}}' }
    assert.equal(rc, C.ms_rocketmq_load(C.ms_fs_posix(), dir, files))
    assert.equal(0, tonumber(files.rows.count))
end

local function offsets(text)
    local rows, message = rmq.parse(rmq.OFFSETS, text)
    assert.is_truthy(rows, message)
    return rows
end

describe("rmq:1506, rmq:3389: maps with integer keys, and with objects as keys", function()
    it("of every version load, from files and from replies", function()
        local count = 0
        for _, version in ipairs(rmq.VERSIONS) do
            for _, path in ipairs(rmq.list(rmq.data .. "serializer/" .. version .. "/*.json")) do
                local rows, message = rmq.parse(rmq.file_of(path), ms.read_file(path), path)
                assert.is_truthy(rows, message)
                count = count + 1
            end
            local rows = rmq.parse(rmq.DELAYS, ms.read_file(rmq.data .. "serializer/" .. version .. "/delayOffset.json"))
            assert.equal("77", rows["delay_offset/1"])
            assert.equal("9007199254740993", rows["delay_offset/2"])
        end
        assert.equal(47, count)
    end)

    it("of 3.x load, in whatever order", function()
        local rows = offsets(ms.read_file(rmq.data .. "forks-3x/consumerOffset.json.bak"))
        assert.equal("6", rows["offset/GAME_MATCH_MSG_NOTIFY@GAME_MATCH_MSG_NOTIFY_CG/0"])
        assert.equal("3", rows["offset/GAME_MATCH_MSG_NOTIFY@GAME_MATCH_MSG_NOTIFY_CG/4"])
        assert.equal("2009086", rows["offset/ACC_TOPIC_TRANSLOG_31@ACC_CG_TRANSLOG_REQUEST31/1"])
        assert.equal("74", rmq.parse(rmq.DELAYS, ms.read_file(rmq.data .. "forks-3x/delayOffset.json"))["delay_offset/18"])
    end)

    it("with objects as keys are refused with their place", function()
        refused(ms.read_file(rmq.data .. "issues/3389-object-keys.json"), 1, 17, "found an object")
    end)
end)

describe("a version stamp spelled \"timestatmp\" (3.x)", function()
    it("loads: the counter counts, the missing time is 0, the spelling stays", function()
        local text = ms.read_file(rmq.data .. "forks-3x/topics.json")
        local rows, version = rmq.parse(rmq.TOPICS, text)
        assert.equal("117", ms.dec(version.counter))
        assert.equal("0", ms.dec(version.timestamp))
        assert.equal('{"counter":117,"timestatmp":1453114491043}', rows["data_version/topic"])
    end)

    it("loads groups that lack a newer field, and adds none", function()
        local rows = rmq.parse(rmq.GROUPS, ms.read_file(rmq.data .. "forks-3x/subscriptionGroup.json"))
        assert.is_nil(rows["group/TOOLS_CONSUMER"]:find("notifyConsumerIdsChangedEnable", 1, true))
    end)
end)

describe("rmq:3401, 6096, 2531, 1498, 7729, 8395: files of NULs, empty and cut ones", function()
    local BAD = {
        { "all-nul.json", 1, 1, "NUL byte" }, { "empty.json", 1, 1, "found nothing" },
        { "eof-pos21.json", 2, 20, "expected near end of file" }, { "torn-middle.json", 14, 18, "premature end" },
    }
    for _, case in ipairs(BAD) do
        it(case[1] .. " is refused with its place", function()
            refused(damaged(case[1]), case[2], case[3], case[4])
        end)

        it(case[1] .. ": the good .bak is used, reported, and stays as it is", function()
            local store = rmq.store()
            local backup = ms.read_file(rmq.data .. "serializer/5.5.0/consumerOffset.json")
            local dir = rmq.directory { ["consumerOffset.json"] = damaged(case[1]), ["consumerOffset.json.bak"] = backup }
            local report, rc = rmq.import(store, dir)
            assert.equal(0, rc)
            assert.equal("bak", report["consumerOffset.json"].source)
            assert.is_truthy(report["consumerOffset.json"].trouble:find(case[4], 1, true))
            assert.equal("456", store:rows()["offset/TopicTest@gid-test/1"])
            assert.equal(backup, ms.read_file(dir .. "/consumerOffset.json.bak"))
            assert.equal(damaged(case[1]), ms.read_file(dir .. "/consumerOffset.json"))
            -- and an export there must not make the unreadable text the .bak
            assert.equal(0, (rmq.export(store, C.ms_fs_posix(), dir, nil)))
            assert.equal(backup, ms.read_file(dir .. "/consumerOffset.json.bak"))
            assert.equal("456", offsets(ms.read_file(dir .. "/consumerOffset.json"))["offset/TopicTest@gid-test/1"])
        end)

        it(case[1] .. ": two bad copies fail the import, with nothing written", function()
            local store = rmq.store()
            local _, rc, message = rmq.import(store, rmq.directory { ["consumerOffset.json"] = damaged(case[1]),
                ["consumerOffset.json.bak"] = damaged(case[1]) })
            assert.is_true(rc < 0)
            assert.is_truthy(message:find("consumerOffset.json.bak", 1, true), message)
            assert.equal(0, store.calls)
        end)
    end
end)

describe("ROCKETMQ-206, rmq:1271, 9270, 265, 6653, 11158, 9479: names that are not plain", function()
    it("beyond ASCII load and come back byte for byte", function()
        assert.same({ ["offset/订单@g/0"] = "1" }, offsets(damaged("utf8-topic.json")))
    end)

    it("that are no UTF-8 are refused, never replaced", function()
        refused(damaged("gbk-topic.json"), 1, 18, "unable to decode byte 0xb6")
        refused(damaged("overlong-utf8.json"), 1, 19, "unable to decode byte 0xc0")
        refused(damaged("lone-surrogate.json"), 1, 17, "invalid Unicode")
    end)

    it("with a NUL are refused", function()
        refused(damaged("nul-escape-key.json"), 1, 17, "NUL byte in object key")
    end)

    it("with |, %, +, / and long ones stay as they are, through import and export", function()
        for _, version in ipairs(rmq.VERSIONS) do
            local store, dir = rmq.store(), ms.tmpdir()
            assert.equal(0, select(2, rmq.import(store, rmq.data .. "serializer/" .. version)))
            for _, topic in ipairs { "44334≈≈∂ç√ß", "fifo|topic_1", "%RETRY%gid+TopicTest" } do
                assert.is_truthy(store:get("topic", topic), topic)
            end
            local long = "%RETRY%" .. ("a/b.c+|"):rep(40)
            store:put("topic", long, "{}")
            store:put("offset", long .. "@" .. long .. "\0000", rmq.bytes8(3))
            assert.equal(0, (rmq.export(store, C.ms_fs_posix(), dir, nil)))
            assert.equal("{}", rmq.parse(rmq.TOPICS, ms.read_file(dir .. "/topics.json"))["topic/" .. long])
            assert.equal("3", offsets(ms.read_file(dir .. "/consumerOffset.json"))["offset/" .. long .. "@" .. long .. "/0"])
        end
    end)
end)

describe("akheron/jansson#8, 698: integers beyond 64 bits", function()
    it("refuse the whole file with their place", function()
        refused(damaged("big-int.json"), 1, 48, "too big integer near '9223372036854775808'")
    end)

    it("up to 2^63-1 are exact", function()
        assert.equal("9223372036854775807", offsets('{"offsetTable":{"a@g":{0:9223372036854775807}}}')["offset/a@g/0"])
        assert.equal("9007199254740993", offsets('{"offsetTable":{"a@g":{0:9007199254740993}}}')["offset/a@g/0"])
        assert.equal("-9223372036854775808", offsets('{"offsetTable":{"a@g":{0:-9223372036854775808}}}')["offset/a@g/0"])
    end)
end)

describe("akheron/jansson#202, 673, 212: reals", function()
    local VALUE = '{"multiplier":7.6,"x":-0.0,"y":1e16,"z":1.8011670033376514e-308,"n":-0,"i":7}'

    it("of a value keep their spelling through import and export", function()
        local store, dir = rmq.store(), ms.tmpdir()
        local from = rmq.directory { ["topics.json"] = '{"topicConfigTable":{"t":' .. VALUE .. "}}" }
        assert.equal(0, select(2, rmq.import(store, from)))
        assert.equal(VALUE, store:get("topic", "t"))
        assert.equal(0, (rmq.export(store, C.ms_fs_posix(), dir, nil)))
        assert.equal(VALUE, rmq.parse(rmq.TOPICS, ms.read_file(dir .. "/topics.json"))["topic/t"])
    end)

    it("are no offsets", function()
        refused(damaged("real-offset.json"), 1, 39, "real number overflow near '1e309'")
        refused('{"offsetTable":{"a@g":{0:1e3}}}', 1, 26, "expected an integer")
        refused('{"offsetTable":{"a@g":{0:1,1:12.5}}}', 1, 30, "expected an integer")
    end)
end)

describe("akheron/jansson#282: nesting", function()
    it("too deep is refused with its place", function()
        refused(damaged("deep-2049.json"), 1, 527, "deeper than 512")
    end)
end)

describe("akheron/jansson#331 and others: byte order marks and line ends", function()
    it("are taken as RocketMQ takes them", function()
        local plain = offsets(ms.read_file(rmq.data .. "issues/5x-lmq-broadcast-consumerOffset.json"))
        assert.same(plain, offsets(damaged("bom.json")))
        assert.same(plain, offsets(damaged("crlf.json")))
    end)
end)

describe("duplicate and odd keys", function()
    it("twice in one object are refused, not merged and not overwritten", function()
        refused(damaged("dup-key.json"), 1, 28, "duplicate object key")
        refused('{"offsetTable":{"a@g":{0:5},"a@g":{1:9}}}', 1, 29, "duplicate object key")
        refused('{"offsetTable":{"a@g":{1:5,"1":7}}}', 1, 28, "duplicate object key")
        refused('{"offsetTable":{},"offsetTable":{}}', 1, 19, "duplicate object key")
    end)

    it("that are no int32 in its shortest form are refused", function()
        refused(damaged("key-forms.json"), 1, 39, "found 007")
        assert.same({ ["offset/a@g/0"] = "1", ["offset/a@g/1"] = "2", ["offset/a@g/-1"] = "3" },
            offsets('{"offsetTable":{"a@g":{0:1,"1":2,-1:3}}}'))
    end)
end)

describe("jansson under a Russian locale: a host that calls setlocale", function()
    ffi.cdef [[
        char *setlocale(int category, const char *locale);
        int setenv(const char *name, const char *value, int overwrite);
        int snprintf(char *, size_t, const char *, ...);
    ]]
    local LC_ALL = 6

    it("reads and writes 7.6 with a dot", function()
        local dir = ms.tmpdir()
        if select(2, ms.sh(("localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8'"):format(dir))) ~= 0 then
            pending("needs localedef and Debian's package locales")
            return
        end
        ffi.C.setenv("LOCPATH", dir, 1)
        assert.is_true(ffi.C.setlocale(LC_ALL, "de_DE.UTF-8") ~= nil)
        local ok, why = pcall(function()
            local shown = ffi.new("char[16]")
            ffi.C.snprintf(shown, 16, "%.1f", ffi.cast("double", 7.6))
            assert.equal("7,6", ffi.string(shown))
            local _, _, rows = rmq.parse(rmq.TOPICS, '{"topicConfigTable":{"t":{"m":7.6}}}')
            assert.equal('{"m":7.6}', rmq.rows(rows)["topic/t"])
            assert.is_truthy(rmq.compose(rows, rmq.TOPICS):find('"m":7.6\n', 1, true))
            assert.is_nil(rmq.parse(rmq.TOPICS, '{"topicConfigTable":{"t":{"m":7,6}}}'))
        end)
        ffi.C.setlocale(LC_ALL, "C")
        assert.is_true(ok, why)
    end)
end)
