-- A directory of files is read as one set: the good ones, a .bak for a bad or missing one, or nothing.
local ms = require "spec.support.ms"
local rmq = require "spec.support.rocketmq"
local C, ffi = ms.C, ms.ffi

local function load(dir)
    local files = ffi.gc(ffi.new("struct ms_rocketmq_files"), C.ms_rocketmq_files_close)
    local rc = C.ms_rocketmq_load(C.ms_fs_posix(), dir, files)
    return files, rc, rc ~= 0 and ms.err() or nil
end

local function origin(files, file)
    return ffi.string(C.ms_rocketmq_origin_names[files.sources[file].origin])
end

local TOPICS = '{"dataVersion":{"counter":7},"topicConfigTable":{"t":{}}}'
local OLD = '{"dataVersion":{"counter":6},"topicConfigTable":{"old":{}}}'
local DELAYS = '{"offsetTable":{1:77}}'
local BAD = { empty = "", nul = ("\0"):rep(40), torn = TOPICS:sub(1, -3), behind = TOPICS .. "}", real = '{"topicConfigTable":{"t":1.5}}' }

describe("a directory of files", function()
    it("gives the rows of all of them in one list, each file's together", function()
        local dir = rmq.directory { ["topics.json"] = TOPICS, ["delayOffset.json"] = DELAYS, ["topics.json.bak"] = OLD }
        rmq.touch(dir .. "/topics.json", 1700000000)
        local files, rc = load(dir)
        assert.equal(0, rc)
        assert.same({ ["topic/t"] = "{}", ["data_version/topic"] = '{"counter":7}', ["delay_offset/1"] = "77" }, rmq.rows(files.rows))
        assert.same({ "json", "missing", "missing", "json" }, { origin(files, 0), origin(files, 1), origin(files, 2), origin(files, 3) })
        assert.same({ 0, 2, 2, 1 }, { tonumber(files.sources[0].first), tonumber(files.sources[0].count), tonumber(files.sources[3].first),
            tonumber(files.sources[3].count) })
        assert.equal("1700000000000", ms.dec(files.sources[0].mtime_ms))
        assert.equal("7", ms.dec(files.sources[0].version.counter))
        assert.is_false(files.sources[3].version.known)
    end)

    for kind, text in pairs(BAD) do
        it("takes the .bak where the file is damaged (" .. kind .. "), and says so", function()
            local dir = rmq.directory { ["topics.json"] = text, ["topics.json.bak"] = OLD, ["delayOffset.json"] = DELAYS }
            local files, rc = load(dir)
            assert.equal(0, rc)
            assert.equal("bak", origin(files, rmq.TOPICS))
            assert.same({ ["topic/old"] = "{}", ["data_version/topic"] = '{"counter":6}', ["delay_offset/1"] = "77" }, rmq.rows(files.rows))
            local trouble = ffi.string(files.sources[rmq.TOPICS].trouble)
            assert.is_truthy(trouble:find(dir .. "/topics.json: line 1, column ", 1, true), trouble)
            assert.equal(text, ms.read_file(dir .. "/topics.json"))
            assert.equal(OLD, ms.read_file(dir .. "/topics.json.bak"))
        end)

        it("loads nothing where file and .bak are damaged (" .. kind .. "), or there is no .bak", function()
            for _, backup in ipairs { text, false } do
                local dir = rmq.directory { ["topics.json.bak"] = backup or nil, ["topics.json"] = text, ["delayOffset.json"] = DELAYS }
                local files, rc, message = load(dir)
                assert.equal(C.MS_E_FORMAT, rc)
                assert.equal(0, tonumber(files.rows.count))
                assert.is_truthy(message:find("topics.json: line 1, column ", 1, true), message)
                assert.is_truthy(message:find("topics.json.bak", 1, true), message)
            end
        end)
    end

    it("takes a .bak whose file is missing, and says so", function()
        local files, rc = load(rmq.directory { ["topics.json.bak"] = OLD })
        assert.equal(0, rc)
        assert.equal("bak", origin(files, rmq.TOPICS))
        assert.is_truthy(ffi.string(files.sources[rmq.TOPICS].trouble):find("topics.json is missing", 1, true))
    end)

    it("loads nothing where a file is missing and its .bak is damaged", function()
        local _, rc, message = load(rmq.directory { ["topics.json.bak"] = "{", ["delayOffset.json"] = DELAYS })
        assert.equal(C.MS_E_FORMAT, rc)
        assert.is_truthy(message:find("topics.json is missing", 1, true), message)
    end)

    it("that holds none of them is an error", function()
        local _, rc = load(rmq.directory { ["other.json"] = "{}" })
        assert.equal(C.MS_E_NOT_FOUND, rc)
        _, rc = load("/nonexistent/store/config")
        assert.equal(C.MS_E_NOT_FOUND, rc)
    end)

    it("is not half loaded: a damaged last file leaves nothing of the first", function()
        local files, rc = load(rmq.directory { ["topics.json"] = TOPICS, ["delayOffset.json"] = "{" })
        assert.equal(C.MS_E_FORMAT, rc)
        assert.equal(0, tonumber(files.rows.count))
    end)

    it("with a file that cannot be read fails, whatever the .bak says", function()
        local dir = rmq.directory { ["topics.json.bak"] = OLD }
        assert.equal(0, select(2, ms.sh("mkdir '" .. dir .. "/topics.json'")))
        local files, rc = load(dir)
        assert.equal(C.MS_E_IO, rc)
        assert.equal(0, tonumber(files.rows.count))
    end)

    it("of every broker that was recorded loads", function()
        for _, name in ipairs(rmq.DIRS) do
            local files, rc, message = load(rmq.data .. name)
            assert.equal(0, rc, message)
            for file = 0, 3 do
                local there = ms.read_file(rmq.data .. name .. "/" .. rmq.NAMES[file]) ~= nil
                assert.equal(there and "json" or "missing", origin(files, file), name)
            end
        end
    end)

    it("survives every allocation that fails", function()
        local dir = rmq.directory { ["topics.json"] = "{", ["topics.json.bak"] = OLD, ["delayOffset.json"] = DELAYS }
        assert.is_true(ms.with_alloc_failures(function()
            local files = ffi.new("struct ms_rocketmq_files")
            local rc = C.ms_rocketmq_load(C.ms_fs_posix(), dir, files)
            assert.is_true(rc == 0 or rc == C.MS_E_MEMORY, ms.err())
            C.ms_rocketmq_files_close(files)
        end) > 5)
    end)
end)
