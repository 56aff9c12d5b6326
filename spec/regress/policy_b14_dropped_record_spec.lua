-- B14 (tarantool/tarantool#3977, #4503): a replica skipped a record because of a conflict, and nothing of that was written down: after its next
--     restart it asked for the record again, and failed there.
--     Here what a policy drops is decided once, by the leader: a put of what is outside takes no position at all, and what leaves is a record of
--     its own, so that positions advance everywhere, durably, and a restart finds nothing to decide anew.
local ms = require "spec.support.ms"
local hand = require "spec.support.hand"
local simkit = require "spec.support.simkit"
local C, ffi = ms.C, ms.ffi

describe("B14: a record that a policy drops", function()
    after_each(function()
        simkit.free_all()
        hand.free_all()
    end)

    local function cluster()
        local policy = ffi.new "struct ms_policy"
        C.ms_sim_policy(policy)
        local strict = hand.base(hand.rules { out = "tmp", policy = policy })
        local s = simkit.new { nodes = 2, has_host = true }
        s:begin()
        return s, strict
    end

    local function drop(s, strict)
        ms.check(C.ms_sim_set_rules(s.sim, 0, strict))
        s:await(function() return not C.ms_sim_reviewing(s.sim, 0) end, 5000, "the review is done")
    end

    it("leaves no hole: the next record has the next position, on both nodes, before and after a restart", function()
        local s, strict = cluster()
        drop(s, strict)
        local first = tonumber((s:put(0, "disk", "a", "1")))
        for i = 1, 10 do
            local lsn, rc = s:try_put(0, "disk", "tmp" .. i, "x")
            assert.is_nil(lsn)
            assert.equal(C.MS_LOCAL, rc)
        end
        assert.equal(first + 1, tonumber((s:put(0, "disk", "b", "2"))))
        s:settle(0)
        for _ = 1, 2 do
            s:power_loss(1)
            s:follow(1, 0)
            s:settle(0)
            assert.equal("2", s:get(1, "disk", "b"))
            assert.is_nil(s:get(1, "disk", "tmp1"))
        end
        assert.equal(0, s:counter(0, "bootstraps"))
    end)

    it("that was there before has a record that says so: the position advances durably, and a restart ends at the same one", function()
        local s, strict = cluster()
        local lsn = s:put(0, "disk", "tmp1", "x")
        s:reached(0, lsn, "disk")
        s:settle(0)
        local before = s:position(1).applied
        drop(s, strict)
        s:await(function() return s:position(1).applied > before and s:position(1).synced > before end, 5000, "the follower has it on disk")
        s:settle(0)
        assert.is_nil(s:get(1, "disk", "tmp1"))
        local head, logged, leaves = s:position(0).head, ffi.new "struct ms_sim_logged", 0
        for at = before + 1, head do -- it says that the entry left, and not that it was deleted: hosts keep their copies
            if C.ms_sim_logged(s.sim, 0, at, logged) == 1 and logged.op == C.MS_OP_LEAVE then leaves = leaves + 1 end
        end
        assert.equal(1, leaves)
        for _, node in ipairs { 1, 0 } do s:power_loss(node) end
        s:start(1)
        assert.is_true(s:position(1).applied >= before + 1)
        assert.is_nil(s:get(1, "disk", "tmp1"))
        s:lead(0, false)
        assert.is_true(s:position(0).head > head)
        s:follow(1, 0)
        s:settle(0)
        assert.is_nil(s:get(0, "disk", "tmp1"))
        assert.is_nil(s:get(1, "disk", "tmp1"))
    end)
end)
