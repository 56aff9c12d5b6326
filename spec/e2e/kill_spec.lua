-- kill -9 at random moments under load. What was acknowledged at `disk` or `os` is there afterwards (the page cache survives the process),
-- and leader and follower are equal again, without a bootstrap. MS_SEED repeats a run, MS_ROUNDS changes its length.
local cluster = require "spec.support.cluster"
local Load = require "spec.support.load"
local process = require "spec.support.process"

describe("kill -9 at random moments under load", function()
    it("loses nothing that was acknowledged, and both sides are equal after every round", cluster.test(function(c)
        local seed = tonumber(os.getenv("MS_SEED")) or process.real_us() % 1000000007
        print("MS_SEED=" .. seed)
        local leader, follower = c:pair { "--table", "quick=os", "--snapshot-every", "700" }
        math.randomseed(seed)
        local load = Load.new({ "safe", "quick" }, 6)
        load:connect(leader)
        local killed = { leader = 0, follower = 0, both = 0 }
        for _ = 1, tonumber(os.getenv("MS_ROUNDS")) or 50 do
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
        assert.is_true(load.acknowledged > 500, load.acknowledged .. " changes were acknowledged")
        print(("%d changes acknowledged; killed: leader %d, follower %d, both %d times"):format(load.acknowledged, killed.leader,
            killed.follower, killed.both))
    end))
end)
