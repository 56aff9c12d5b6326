-- kill -9 at random moments under load. What was acknowledged at `disk` or `os` is there afterwards (the page cache survives the process),
-- and leader and follower are equal again, without a bootstrap. MS_SEED repeats a run, MS_ROUNDS changes its length.
local cluster = require "spec.support.cluster"
local Load = require "spec.support.load"
local process = require "spec.support.process"

-- Rounds of load, kill, restart and comparison.
local function kill_again_and_again(c, leader, follower, rounds)
    local seed = tonumber(os.getenv("MS_SEED")) or process.real_us() % 1000000007
    print("MS_SEED=" .. seed)
    math.randomseed(seed)
    local load = Load.new({ "safe", "quick" }, 6)
    load:connect(leader)
    local killed = { leader = 0, follower = 0, both = 0 }
    for _ = 1, tonumber(os.getenv("MS_ROUNDS")) or rounds do
        local draw = math.random(10)
        local side = draw <= 5 and "leader" or draw <= 8 and "follower" or "both"
        killed[side] = killed[side] + 1
        assert(load:run(math.random() * 0.15), load.refused)
        if side ~= "leader" then
            follower.running = false
            follower.process:kill()
        end
        if side == "follower" then
            follower:kill()
            assert(load:run(math.random() * 0.1), load.refused)
            load:finish()
        else
            leader:kill()
            load:drain()
            leader:start { "--lead" }
            load:check(leader)
            load:connect(leader)
        end
        if side ~= "leader" then
            follower:kill()
            follower:start { "--follow", leader.address }
        end
        c:equal(leader, follower)
        load:check(leader)
        local counters = follower:status().counters
        assert.equal(0, counters.bootstraps)
        assert.equal(0, counters.marks_failed)
    end
    load:close()
    print(("%d changes acknowledged; killed: leader %d, follower %d, both %d times"):format(load.acknowledged, killed.leader,
        killed.follower, killed.both))
    return load.acknowledged
end

describe("kill -9 at random moments under load", function()
    it("loses nothing that was acknowledged, and both sides are equal after every round", cluster.test(function(c)
        local leader, follower = c:pair { "--table", "quick=os", "--snapshot-every", "700" }
        local acknowledged = kill_again_and_again(c, leader, follower, 50)
        assert.is_true(acknowledged > 500, acknowledged .. " changes were acknowledged")
    end))

    it("loses nothing either where the way to the disk is long", cluster.test(function(c)
        local leader, follower = c:node("a", { "--table", "quick=os" }), c:node("b", { "--table", "quick=os" })
        leader:preload("slow_disk", { "SLOW_DISK_US=4000" }):start { "--lead" }
        follower:start { "--follow", leader.address }
        local from = process.now()
        leader:put("quick", "k", 1)
        assert.is_true(process.now() - from > 0.004, "the disk is not slow")
        kill_again_and_again(c, leader, follower, 12)
    end))
end)
