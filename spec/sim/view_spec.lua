-- The view on simulated nodes: entries leave with a reload, everywhere and for good, and only with a reload.
local ms = require "spec.support.ms"
local hand = require "spec.support.hand"
local simkit = require "spec.support.simkit"
local C, ffi = ms.C, ms.ffi

-- Rules have to be made before the simulation: simkit counts memory from there.
local function rules(out)
    local policy = ffi.new "struct ms_policy"
    C.ms_sim_policy(policy)
    return hand.rules { out = out, policy = policy, hash = #out }
end

local function reload(s, node, r)
    ms.check(C.ms_sim_set_rules(s.sim, node, hand.base(r)))
    if s:up(node) then s:await(function() return not C.ms_sim_reviewing(s.sim, node) end, 20000, "the review is done") end
end

-- What the nodes have of both kinds of keys: 0, or `count`.
local function left(s, node, table_name, prefix, count)
    local found = 0
    for i = 1, count do found = found + (s:get(node, table_name, prefix .. i) and 1 or 0) end
    return found
end

local function fill(s, table_name, prefix, count)
    for i = 1, count do s:put(0, table_name, prefix .. i, table_name == "offset" and simkit.int64(i) or "v" .. i) end
end

describe("an entry that left the view", function()
    after_each(function()
        simkit.free_all()
        hand.free_all()
    end)

    it("is gone from all nodes, after marks, restarts of each, a promotion, and a bootstrap from log and snapshot", function()
        local fresh = rules "tmp"
        local s = simkit.new { nodes = 3, has_host = true, policy = { mark_changes = 20 } }
        s:begin()
        for _, name in ipairs { "disk", "offset", "os" } do
            fill(s, name, "tmp", 40)
            fill(s, name, "keep", 40)
        end
        local marks = s:count "marks_compared"
        reload(s, 0, fresh)
        assert.equal(120, s:counter(0, "left"))
        s:settle(0)
        local function check(node)
            for _, name in ipairs { "disk", "offset", "os" } do
                assert.equal(0, left(s, node, name, "tmp", 40))
                assert.equal(40, left(s, node, name, "keep", 40))
            end
        end
        for node = 0, 2 do check(node) end
        s:run(500)
        assert.is_true(s:count "marks_compared" > marks)
        s:kill(1)
        s:power_loss(2)
        s:wipe(2)
        s:follow(1, 0)
        s:follow(2, 0)
        s:settle(0)
        check(1)
        check(2)
        s:stop(0)
        s:promote(1)
        s:follow(2, 1)
        s:follow(0, 1)
        s:settle(1)
        for node = 0, 2 do check(node) end
    end)

    it("is in no snapshot that was being made when it left", function()
        local fresh = rules "tmp"
        local s = simkit.new { nodes = 2 }
        s:lead(0)
        fill(s, "os", "tmp", 400)
        fill(s, "os", "keep", 400)
        ms.check(C.ms_engine_snapshot_now(s:engine(0)))
        s:step(3)
        assert.is_true(s:engine(0).snapshotting)
        ms.check(C.ms_sim_set_rules(s.sim, 0, hand.base(fresh)))
        s:follow(1, 0) -- loads it
        s:await(function() return not C.ms_sim_reviewing(s.sim, 0) end, 20000, "the review is done")
        s:settle(0)
        assert.equal(0, left(s, 1, "os", "tmp", 400))
        assert.equal(400, left(s, 1, "os", "keep", 400))
        s:kill(0)
        s:lead(0) -- recovers from it
        assert.equal(0, left(s, 0, "os", "tmp", 400))
        s:settle(0)
    end)

    it("did not take with it what was put meanwhile of others", function()
        local fresh = rules "tmp"
        local s = simkit.new { nodes = 2 }
        s:begin()
        fill(s, "offset", "tmp", 200)
        ms.check(C.ms_sim_set_rules(s.sim, 0, hand.base(fresh)))
        for i = 1, 200 do
            s:put(0, "offset", "keep" .. i, simkit.int64(i))
            s:step()
        end
        s:await(function() return not C.ms_sim_reviewing(s.sim, 0) end, 20000, "the review is done")
        s:settle(0)
        for node = 0, 1 do
            assert.equal(0, left(s, node, "offset", "tmp", 200))
            assert.equal(200, left(s, node, "offset", "keep", 200))
        end
    end)
end)

describe("the view", function()
    after_each(function()
        simkit.free_all()
        hand.free_all()
    end)

    it("is never re-evaluated by a promotion or a restart, only by a reload", function()
        local strict = rules "tmp"
        local s = simkit.new { nodes = 2 }
        ms.check(C.ms_sim_set_rules(s.sim, 1, hand.base(strict))) -- the follower has another policy
        s:begin()
        fill(s, "disk", "tmp", 20)
        s:settle(0)
        s:kill(0)
        s:promote(1)
        assert.equal(20, left(s, 1, "disk", "tmp", 20))
        assert.is_truthy(s:put(1, "disk", "tmp1", "changed")) -- it exists, so that it is in
        local lsn, rc = s:try_put(1, "disk", "tmp21", "new")
        assert.is_nil(lsn)
        assert.equal(C.MS_LOCAL, rc)
        s:kill(1)
        s:start(1)
        s:lead(1, false)
        s:follow(0, 1)
        s:settle(1)
        assert.equal(20, left(s, 0, "disk", "tmp", 20))
        reload(s, 1, strict)
        s:settle(1)
        assert.equal(0, left(s, 0, "disk", "tmp", 20))
        assert.equal(0, left(s, 1, "disk", "tmp", 20))
    end)

    it("of a follower's policy changes nothing of what it receives", function()
        local strict = rules "tmp"
        local s = simkit.new { nodes = 2 }
        s:begin()
        fill(s, "disk", "tmp", 20)
        s:settle(0)
        reload(s, 1, strict)
        fill(s, "disk", "tmpmore", 20)
        s:settle(0)
        assert.equal(20, left(s, 1, "disk", "tmp", 20))
        assert.equal(20, left(s, 1, "disk", "tmpmore", 20))
    end)
end)
