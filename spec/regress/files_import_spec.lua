-- Faults that users met when metadata was copied between files and tables, each with its origin.
local ms = require "spec.support.ms"
local rmq = require "spec.support.rocketmq"
local C = ms.C

local function good(store, dir)
    local report, rc, message = rmq.import(store, dir)
    assert.equal(0, rc, message)
    return report
end

describe("RIP-48's keys of three parts, test@push_test@broadcast", function()
    local text = ms.read_file(rmq.data .. "issues/5x-lmq-broadcast-consumerOffset.json")

    it("are opaque: a delete of the topic in the file takes all four, and leaves what only looks alike", function()
        local store, dir = rmq.store(), rmq.directory { ["consumerOffset.json"] = text }
        good(store, dir)
        assert.equal("100831", store:rows()["offset/test@push_test@broadcast/0"])
        local without = text:gsub('\t\t"test@[^\n]*\n', ""):gsub("},\n\t}", "}\n\t}"):gsub('("%%RETRY%%push_test@test":{0:0}),', "%1")
        ms.write_file(dir .. "/consumerOffset.json", without)
        local report = good(store, dir)
        assert.equal(16, report["consumerOffset.json"].deleted)
        local left = {}
        for key, value in pairs(store:rows()) do if key:find("^offset/") then left[key] = value end end
        assert.same({ ["offset/%RETRY%push_test@test/0"] = "0" }, left)
    end)
end)

describe("rmq:10549, rmq:9309, kafka#8730: offset 0", function()
    it("is a value like any other: the first one, and after a reset", function()
        local store, dir = rmq.store(), rmq.directory { ["consumerOffset.json"] = '{"offsetTable":{"t@g":{0:0,3:77}}}' }
        good(store, dir)
        assert.equal("0", store:rows()["offset/t@g/0"])
        ms.write_file(dir .. "/consumerOffset.json", '{"offsetTable":{"t@g":{0:0,3:0}}}')
        local report = good(store, dir)
        assert.equal(1, report["consumerOffset.json"].put)
        assert.equal("0", store:rows()["offset/t@g/3"])
    end)

    it("leaves no empty map behind when the last queue goes", function()
        local store, dir = rmq.store(), rmq.directory { ["consumerOffset.json"] = '{"offsetTable":{"t@g":{0:5},"u@g":{0:1},"e@g":{}}}' }
        good(store, dir)
        ms.write_file(dir .. "/consumerOffset.json", '{"offsetTable":{"t@g":{},"u@g":{0:1}}}')
        good(store, dir)
        local out = ms.tmpdir()
        assert.equal(0, (rmq.export(store, C.ms_fs_posix(), out, nil)))
        assert.equal('{\n\t"offsetTable":{\n\t\t"u@g":{\n\t\t\t0:1\n\t\t}\n\t}\n}', ms.read_file(out .. "/consumerOffset.json"))
    end)
end)

describe("rmq:10604, rmq:9520: a version that goes back", function()
    it("is not imported, although the file is newer by its time", function()
        local store, dir = rmq.store(), rmq.directory { ["topics.json"] = '{"dataVersion":{"counter":7},"topicConfigTable":{"new":{}}}' }
        rmq.touch(dir .. "/topics.json", 1700000000)
        good(store, dir)
        ms.write_file(dir .. "/topics.json", '{"dataVersion":{"counter":6},"topicConfigTable":{"old":{}}}')
        rmq.touch(dir .. "/topics.json", 1800000000)
        local report = good(store, dir)
        assert.is_true(report["topics.json"].skipped)
        assert.equal(3, report["topics.json"].differing)
        assert.is_truthy(store:get("topic", "new"))
        assert.is_nil(store:get("topic", "old"))
    end)
end)

describe("rmq:8509, rmq:8804: the second table of offsets", function()
    it("of LMQ topics is not left out", function()
        local store = rmq.store()
        good(store, rmq.directory { ["consumerOffset.json"] = '{"lmqOffsetTable":{"%LMQ%a@g":5},"offsetTable":{}}' })
        assert.equal("5", store:rows()["lmq_offset/%LMQ%a@g"])
        local out = ms.tmpdir()
        assert.equal(0, (rmq.export(store, C.ms_fs_posix(), out, nil)))
        assert.is_truthy(ms.read_file(out .. "/consumerOffset.json"):find('"lmqOffsetTable":{\n\t\t"%LMQ%a@g":5\n\t}', 1, true))
    end)
end)

describe("rmq:4985, rmq:9412: a rename without a sync before it, or after it", function()
    -- For all places between two operations of a write of one file, a hundred power losses each.
    it("leaves the old or the new file, never neither", function()
        local old, new = '{\n\t"offsetTable":{\n\t\t1:1\n\t}\n}', '{\n\t"offsetTable":{\n\t\t1:2\n\t}\n}'
        local store, runs = rmq.store(), 0
        store:put("delay_offset", "1", rmq.bytes8(2))
        for k = 0, 100 do
            local reached_end = true
            for seed = 1, 100 do
                local sim = C.ms_sim_fs_new(seed * 1000 + k)
                local fs = C.ms_sim_fs(sim)
                local others = { "topics.json", '{\n\t"topicConfigTable":{}\n}', "subscriptionGroup.json", '{\n\t"subscriptionGroupTable":{}\n}',
                    "consumerOffset.json", '{\n\t"offsetTable":{}\n}', "delayOffset.json", old }
                ms.check(fs.ops.mkdir(fs, "/c"))
                ms.check(fs.ops.sync_dir(fs, "/"))
                for i = 1, #others, 2 do ms.check(C.ms_fs_replace(fs, "/c", others[i], others[i + 1], #others[i + 1])) end
                C.ms_sim_fs_stop_after(sim, k)
                rmq.export(store, fs, "/c", nil)
                reached_end = reached_end and not C.ms_sim_fs_stopped(sim)
                C.ms_sim_fs_power_loss(sim, nil)
                local text = ms.buf()
                assert.equal(0, C.ms_fs_read_file(fs, "/c/delayOffset.json", 1024, text), ("no file after %d operations, seed %d"):format(k, seed))
                local found = ms.buf_str(text)
                assert.is_true(found == old or found == new, ("after %d operations, seed %d: %q"):format(k, seed, found))
                C.ms_sim_fs_free(sim)
                runs = runs + 1
            end
            if reached_end then break end
        end
        assert.is_true(runs >= 900, tostring(runs))
    end)
end)
