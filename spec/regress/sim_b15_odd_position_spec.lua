-- B15 (tarantool/tarantool#7961): a replica with a position that the master's files don't cover, or files that somebody removed,
--     crashed the master.
local simkit = require "spec.support.simkit"
local ms = require "spec.support.ms"
local C = ms.C

describe("B15: a follower's position", function()
    after_each(simkit.free_all)

    it("that is older than anything the leader has gets a snapshot", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 0 } }
        s:begin()
        s:kill(1)
        s:fill(0, "a", 200, 1500)
        s:run(1000)
        s:follow(1, 0)
        s:settle(0)
        assert.is_true(s:count "verdict_trimmed" > 0)
    end)

    it("that is newer than anything the leader has gets a snapshot", function()
        local s = simkit.new()
        s:begin()
        s:cut(0, 1)
        s:put(0, "disk", "k", "1")
        s:await(function() return s:equal(0, 2) end)
        s:fill(0, "more", 30, 100, "disk") -- n2 gets further than n1
        s:await(function() return s:position(2).applied == s:position(0).head end)
        s:kill(0)
        s:promote(1)
        s:follow(2, 1)
        s:settle(1)
        assert.is_nil(s:get(2, "disk", "more30"))
        assert.is_truthy(s:archive(2):find("more30", 1, true))
    end)

    it("does not matter to a leader whose middle files were removed: it says what is missing, and may follow only", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 1024 * 1024, snapshot_every_ms = 60000, snapshot_log_bytes = 1024 * 1024 } }
        s:begin()
        s:fill(0, "a", 200, 1500)
        s:settle(0)
        s:put(0, "disk", "last", "1") -- its group says what was synced before it
        s:settle(0)
        s:stop(0)
        local names = s:files(0, "log-")
        assert.is_true(#names >= 4)
        s:disk(0):remove(s:generation(0) .. "/" .. names[2])
        s:disk(0):sync_dir(s:generation(0))
        s:tampered(0)
        s:start(0)
        assert.equal(C.MS_E_DAMAGED, tonumber(C.ms_sim_recovered(s.sim, 0, nil)))
        assert.equal(C.MS_E_DAMAGED, s:try_lead(0))
        s:promote(1)
        s:follow(0, 1)
        s:settle(1)
        assert.is_truthy(s:get(0, "os", "a200"))
    end)
end)
