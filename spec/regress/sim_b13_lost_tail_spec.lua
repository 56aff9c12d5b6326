-- B13 (tarantool/tarantool#3210, #12264): the master lost its last log file, the replica still had the record; then the replica got {1,3}
--     where the master had {2,3}.
local simkit = require "spec.support.simkit"

-- n0 loses the newest `count` segments that have something in them while it is down.
local function lose_segments(s, count)
    local disk, lost = s:disk(0), 0
    local names = s:files(0, "log-")
    for i = #names, 1, -1 do
        local path = s:generation(0) .. "/" .. names[i]
        local used = disk:get(path):sub(1, 8) == "MSLOG01\n"
        disk:remove(path)
        lost = lost + (used and 1 or 0)
        if lost == count then break end
    end
    disk:sync_dir(s:generation(0))
    s:tampered(0)
end

describe("B13: a leader that lost the end of its log", function()
    after_each(simkit.free_all)

    local function cluster()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 1024 * 1024, snapshot_every_ms = 60000, snapshot_log_bytes = 1024 * 1024 } }
        s:begin()
        s:put(0, "disk", "one", "1")
        s:fill(0, "a", 100, 1000)
        s:put(0, "disk", "two", "on the follower only")
        s:settle(0)
        s:stop(0)
        return s
    end

    it("opens a new epoch, and its follower drops and archives what the leader does not have", function()
        local s = cluster()
        lose_segments(s, 1)
        s:lead(0)
        assert.is_nil(s:get(0, "disk", "two"))
        s:put(0, "disk", "three", "3")
        s:settle(0)
        assert.is_nil(s:get(1, "disk", "two"))
        assert.same({ "1", "3" }, { s:get(1, "disk", "one"), s:get(1, "disk", "three") })
        assert.is_truthy(s:archive(1):find("on the follower only", 1, true))
        assert.is_true(s:count "verdict_diverged" > 0)
    end)

    it("is no leader for a follower with history when it lost all of its log", function()
        local s = cluster()
        lose_segments(s, 100)
        s:lead_without_history(0, { 1 })
        assert.equal("on the follower only", s:get(1, "disk", "two"))
    end)
end)
