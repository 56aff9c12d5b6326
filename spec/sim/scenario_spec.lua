-- Directed scenarios on simulated nodes: one sentence each about what holds when one particular thing goes wrong. Random runs
-- (sim_spec.lua) meet them all; these say which of them we mean.
local ms = require "spec.support.ms"
local simkit = require "spec.support.simkit"
local C = ms.C

describe("simulated nodes", function()
    after_each(simkit.free_all)

    -- ---- resuming ------------------------------------------------------------------------------------------------------

    it("go on from where they were when the leader was restarted", function()
        local s = simkit.new()
        s:begin()
        s:fill(0, "a", 20, 50, "disk")
        s:settle(0)
        s:kill(0)
        s:run(30)
        s:lead(0)
        s:put(0, "disk", "after", "1")
        s:settle(0)
        assert.equal("1", s:get(2, "disk", "after"))
        assert.equal(0, s:count "bootstraps")
        assert.equal(2, s:position(0).run)
    end)

    it("resume from a promoted sibling without a snapshot", function()
        local s = simkit.new()
        s:begin()
        s:fill(0, "a", 20, 50, "replica")
        s:settle(0)
        s:power_loss(0)
        s:promote(1)
        s:follow(2, 1)
        s:insist(1, "replica", "after", "1") -- as soon as n2 is in sync
        s:settle(1)
        assert.equal("1", s:get(2, "replica", "after"))
        assert.equal(0, s:count "bootstraps")
        assert.same({ 1, 0 }, { s:position(2).reign, s:position(2).run })
    end)

    it("follow who was promoted by the later term, though neither has heard of the other", function()
        local s = simkit.new()
        s:begin()
        s:fill(0, "a", 20, 50, "disk")
        s:settle(0)
        s:power_loss(0)
        s:kill(2)
        s:promote_to(1, 5)
        s:insist(1, "disk", "by", "term 5")
        s:kill(1)
        s:start(2)
        s:promote_to(2, 6)
        s:insist(2, "disk", "by", "term 6")
        assert.same({ 6, 0 }, { s:position(2).reign, s:position(2).run })
        s:follow(1, 2)
        s:follow(0, 2)
        s:settle(2)
        assert.equal("term 6", s:get(1, "disk", "by"))
        assert.equal("term 6", s:get(0, "disk", "by"))
    end)

    it("load a snapshot when what they miss was trimmed, and readers see every entry all the time", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 0 } }
        s:begin()
        s:put(0, "disk", "eternal", "x")
        s:settle(0)
        s:kill(1)
        s:fill(0, "a", 200, 1000)
        s:run(1000) -- snapshots, trims
        s:follow(1, 0)
        s:await(function()
            assert.equal("x", s:get(1, "disk", "eternal"))
            return s:count "bootstraps" == 1
        end)
        s:settle(0)
        assert.is_true(s:count "verdict_trimmed" > 0)
        assert.equal("x", s:get(1, "disk", "eternal"))
    end)

    for _, delay in ipairs { 0, 3, 8 } do
        it(("fill with buffered puts and survive a promotion, %d ms after the last"):format(delay), function()
            local s = simkit.new { has_host = true }
            s:begin()
            for i = 1, 30 do s:put(0, "offset", "q" .. i % 5, simkit.int64(i)) end
            s:flush(0)
            local lsn = s:put(0, "replica", "fence", "1")
            s:reached(0, lsn, "replica")
            s:run(delay)
            s:power_loss(0)
            s:promote(2)
            s:follow(1, 2)
            s:settle(2)
            for q = 0, 4 do assert.equal(simkit.int64(q == 0 and 30 or 25 + q), s:get(1, "offset", "q" .. q)) end
        end)
    end

    -- ---- crashes ---------------------------------------------------------------------------------------------------------

    it("have all of a batch or nothing of it, whatever the moment of the crash", function()
        local seen = { all = 0, nothing = 0 }
        for k = 0, 12 do
            for seed = 1, 4 do
                local s = simkit.new { nodes = 2, seed = seed * 100 + k }
                s:begin()
                s:put(0, "disk", "before", "1")
                s:settle(0)
                s:cut(0, 1) -- so that only the leader's disk tells
                C.ms_sim_fs_stop_after(s:fs(0), k)
                local writes = {}
                for i = 1, 8 do writes[i] = { i % 2 == 0 and "disk" or "os", "b" .. i, ("v%d"):format(i):rep(50) } end
                s:batch(0, writes)
                s:run(20)
                if s:up(0) then s:power_loss(0) end
                s:lead(0, false)
                local found = 0
                for i = 1, 8 do found = found + (s:get(0, writes[i][1], "b" .. i) and 1 or 0) end
                assert.is_true(found == 0 or found == 8, ("%d of 8 after %d operations"):format(found, k))
                assert.equal("1", s:get(0, "disk", "before"))
                local which = found == 0 and "nothing" or "all"
                seen[which] = seen[which] + 1
                simkit.free_all()
            end
        end
        assert.is_true(seen.all > 0 and seen.nothing > 0)
    end)

    it("keep what is on disk through a power loss of all of them", function()
        local s = simkit.new()
        s:begin()
        local lsn = s:fill(0, "a", 30, 300, "disk")
        s:reached(0, lsn, "disk")
        for node = 0, 2 do s:power_loss(node) end
        s:lead(0)
        for node = 1, 2 do s:follow(node, 0) end
        s:settle(0)
        for node = 0, 2 do assert.is_truthy(s:get(node, "disk", "a30")) end
    end)

    it("see either the old tables or all of a snapshot, wherever its loading was cut short", function()
        for k = 0, 40, 4 do
            local s = simkit.new { nodes = 2, seed = k, policy = { log_keep_bytes = 0 } }
            s:begin()
            s:put(0, "disk", "old", "1")
            s:settle(0)
            s:stop(1)
            s:fill(0, "a", 200, 1000)
            s:run(1000)
            s:follow(1, 0)
            C.ms_sim_fs_stop_after(s:fs(1), k)
            s:await(function() return not s:up(1) or s:count "bootstraps" > 0 end)
            if s:up(1) then s:power_loss(1) end
            s:start(1) -- the simulator compares everything byte for byte
            assert.equal("1", s:get(1, "disk", "old"))
            s:follow(1, 0)
            s:settle(0)
            simkit.free_all()
        end
    end)

    it("fall back to the older snapshot when the newest is damaged", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:fill(0, "a", 60, 500)
        s:run(500)
        s:fill(0, "b", 60, 500)
        s:run(500)
        s:stop(0)
        local snapshots = s:files(0, "snap-")
        assert.is_true(#snapshots >= 2)
        assert.equal(0, C.ms_sim_fs_corrupt(s:fs(0), s:generation(0) .. "/" .. snapshots[#snapshots], 100, 1))
        s:lead(0)
        assert.equal(1, s:count "snapshot_fallbacks")
        assert.is_truthy(s:get(0, "os", "b60"))
        s:settle(0)
    end)

    -- ---- histories -------------------------------------------------------------------------------------------------------

    it("keep their tables when the leader comes back with an empty disk, until they are told to adopt", function()
        local s = simkit.new()
        s:begin()
        s:put(0, "disk", "topic", "1")
        s:settle(0)
        s:power_loss(0)
        s:wipe(0)
        -- Its peers know a higher epoch and say so; an operator who insists has it lead without asking.
        s:lead(0, true, false)
        s:await(function() return s:role(0) == "idle" end)
        assert.equal(C.MS_E_DEPOSED, s:result(0))
        s:kill(0)
        s:lead_without_history(0, { 1, 2 })
        s:put(0, "disk", "new", "2")
        assert.equal("1", s:get(1, "disk", "topic"))
        s:adopt(1)
        s:adopt(2)
        s:settle(0)
        assert.is_nil(s:get(1, "disk", "topic"))
        assert.equal("2", s:get(1, "disk", "new"))
        assert.is_truthy(s:archive(1):find("topic", 1, true)) -- what was given up can be read
    end)

    it("archive what only a deposed leader has, and show it the newer values", function()
        local s = simkit.new()
        s:begin()
        s:put(0, "disk", "common", "1")
        s:settle(0)
        s:cut(0, 1, "silent")
        s:cut(0, 2, "silent")
        s:put(0, "disk", "extra", "lonely")
        s:run(20)
        s:promote(1)
        s:follow(2, 1)
        s:put(1, "disk", "common", "2")
        assert.equal("leader", s:role(0)) -- it can't know
        s:heal(0, 1)
        s:heal(0, 2)
        s:follow(0, 1)
        s:settle(1)
        assert.equal("2", s:get(0, "disk", "common"))
        assert.is_nil(s:get(0, "disk", "extra"))
        assert.is_truthy(s:archive(0):find("extra", 1, true))
    end)

    it("stop leading when a follower knows a higher epoch", function()
        local s = simkit.new()
        s:begin()
        s:put(0, "disk", "k", "1")
        s:settle(0)
        s:kill(0)
        s:promote(1)
        s:follow(2, 1)
        s:settle(1)
        s:kill(1)
        s:kill(2)
        s:lead(0) -- nobody is there to tell it
        s:follow(2, 0)
        s:await(function() return s:role(0) == "idle" end)
        assert.equal(C.MS_E_DEPOSED, s:result(0))
    end)

    it("report what the buffers held when they stop leading", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:put(0, "count", "c", "first")
        s:flush(0)
        s:settle(0)
        s:put(0, "count", "c", "at risk")
        s:follow(0, 1)
        s:promote(1)
        s:settle(1)
        assert.equal("first", s:get(0, "count", "c"))
        assert.is_truthy(s:archive(0):find("at risk", 1, true))
    end)

    -- ---- links -------------------------------------------------------------------------------------------------------------

    for _, cut in ipairs { 65536, 8000 } do
        it(("make progress over a link that dies every %d bytes, streaming and bootstrapping"):format(cut), function()
            local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 0 } }
            s:begin()
            s:wire(0, 1).cut_bytes = cut
            s:fill(0, "a", 150, 1500) -- streaming
            s:settle(0, 60000)
            assert.is_true(s:count "links_cut_bytes" > 1)
            s:kill(1)
            s:fill(0, "b", 250, 1500)
            s:run(1000)
            s:follow(1, 0) -- bootstrapping
            s:settle(0, 60000)
            assert.equal(1, s:count "bootstraps")
            assert.is_true(s:count "bootstraps_resumed" > 0)
        end)
    end

    it("notice a link that nothing comes through any more, and connect anew", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:cut(0, 1, "silent")
        s:put(0, "disk", "k", "1")
        s:await(function() return s:count "link_timeouts" >= 2 end, 1000) -- both sides
        s:heal(0, 1)
        s:settle(0)
        assert.equal("1", s:get(1, "disk", "k"))
    end)

    it("refuse a flipped bit, and never apply it", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:wire(0, 1).flip = 300000
        for i = 1, 200 do
            s:insist(0, "os", "a" .. i, ("x"):rep(300))
            s:run(2)
        end
        s:wire(0, 1).flip = 0
        s:settle(0)
        assert.is_true(s:count "bits_flipped" > 10 and s:count "flips_refused" > 0)
    end)

    it("bound what waits for a slow follower, and do not let others wait", function()
        local s = simkit.new()
        s:begin()
        local wire = s:wire(0, 1)
        wire.rest_us, wire.chunk, wire.buffer = 20000, 500, 2000
        s:fill(0, "a", 100, 1000)
        s:await(function() return s:position(2).applied == s:position(0).head end, 500, "the fast one is there")
        assert.is_true(s:position(1).applied < s:position(0).head)
        wire.rest_us, wire.chunk, wire.buffer = 0, 65536, 262144
        s:settle(0)
    end)

    -- ---- disks ---------------------------------------------------------------------------------------------------------------

    it("refuse writes cleanly on a full disk, and take them again when there is room", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        C.ms_sim_fs_capacity(s:fs(0), C.ms_sim_fs_used(s:fs(0)) + 10000)
        local code
        for i = 1, 400 do
            local lsn, why = s:try_put(0, "disk", "k" .. i, ("x"):rep(1000))
            code = why
            if not lsn then break end
        end
        assert.equal(C.MS_E_NO_SPACE, code)
        assert.equal("leader", s:role(0))
        C.ms_sim_fs_capacity(s:fs(0), ms.ffi.cast("uint64_t", -1))
        s:await(function() return s:try_put(0, "disk", "again", "1") end)
        s:settle(0)
        assert.equal("1", s:get(1, "disk", "again"))
    end)

    it("stop leading for good when a sync fails, and lose nothing that was acknowledged", function()
        local s = simkit.new()
        s:begin()
        local lsn = s:put(0, "disk", "sure", "1")
        s:reached(0, lsn, "disk")
        s:settle(0)
        C.ms_sim_fs_fail_after(s:fs(0), C.MS_SIM_FS_SYNC, 1, "log-")
        s:put(0, "disk", "unsure", "1")
        s:await(function() return s:role(0) == "idle" end)
        local _, code = s:try_put(0, "disk", "later", "1")
        assert.equal(C.MS_E_LOG_FAILED, code)
        assert.equal(C.MS_E_LOG_FAILED, s:try_promote(0))
        s:power_loss(0)
        s:lead(0) -- a new process starts from what is on disk
        assert.equal("1", s:get(0, "disk", "sure"))
        s:settle(0)
    end)

    it("find a value that changed in memory at the next mark, and load everything anew", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:put(0, "disk", "k", "right")
        s:settle(0)
        s:spoil(1, "disk", "k", "wrong")
        s:put(0, "disk", "other", "1") -- a mark follows
        s:await(function() return s:count "bootstraps" == 1 end)
        s:settle(0)
        assert.equal("right", s:get(1, "disk", "k"))
        assert.equal(1, s:counter(1, "marks_failed"))
    end)

    -- ---- levels ----------------------------------------------------------------------------------------------------------------

    it("refuse a replica write that nobody could confirm, or degrade it, as the policy says", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:kill(1)
        s:run(300)
        local _, code = s:try_put(0, "replica", "k", "1")
        assert.equal(C.MS_E_NO_REPLICA, code)
        simkit.free_all()
        s = simkit.new { nodes = 2, policy = { on_no_replica = C.MS_ON_NO_REPLICA_DEGRADE } }
        s:begin()
        s:kill(1)
        s:run(300)
        s:put(0, "replica", "k", "1")
        s:await(function() return s:count "not_replicated" > 0 end)
    end)
end)
