-- B19 (nats-io/nats-server#5939): after too many failed catch-ups a node wiped its state, and then won the election.
local simkit = require "spec.support.simkit"
local ms = require "spec.support.ms"
local C = ms.C

describe("B19: a follower whose bootstrap fails again and again", function()
    after_each(simkit.free_all)

    local function behind()
        local s = simkit.new { policy = { log_keep_bytes = 0 } }
        s:begin()
        s:put(0, "disk", "old", "1")
        s:settle(0)
        s:kill(1)
        s:fill(0, "a", 200, 1500)
        s:run(1000)
        return s
    end

    local function keeps_and_waits(s)
        assert.equal("1", s:get(1, "disk", "old"))
        assert.is_nil(s:get(1, "os", "a200"))
        assert.equal(C.MS_E_NOT_PROMOTABLE, s:try_promote(1))
        assert.equal(C.MS_E_NOT_PROMOTABLE, s:try_lead(1))
    end

    it("keeps its old tables and may not be promoted, because of its link", function()
        local s = behind()
        s:wire(0, 1).cut_bytes = 1200 -- less than one group
        s:follow(1, 0)
        s:await(function() return s:counter(1, "reconnects") >= 8 end)
        keeps_and_waits(s)
        s:wire(0, 1).cut_bytes = 0
        s:settle(0)
        assert.is_truthy(s:get(1, "os", "a200"))
    end)

    it("keeps its old tables and may not be promoted, because of its disk", function()
        local s = behind()
        s:start(1)
        C.ms_sim_fs_capacity(s:fs(1), C.ms_sim_fs_used(s:fs(1)) + 3000)
        s:follow(1, 0)
        s:await(function() return s:counter(1, "bootstraps_failed") >= 5 end, 60000)
        keeps_and_waits(s)
        C.ms_sim_fs_capacity(s:fs(1), ms.ffi.cast("uint64_t", -1))
        s:settle(0, 60000)
        assert.equal(0, s:try_promote(1))
    end)
end)
