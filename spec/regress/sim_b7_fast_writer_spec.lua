-- B7 (redis/redis#11534, #4697, #2315): the replica's output buffer overran during the full sync, which began again, for ever.
local simkit = require "spec.support.simkit"

-- Writes faster than the link carries, until fn is true; the follower's bootstraps are counted.
local function write_until(s, fn)
    for i = 1, 200000 do
        if fn() then return i end
        s:try_put(0, "os", "hot" .. i % 40, ("%d"):format(i):rep(60))
        s:run(0.3)
    end
    error "it never ends"
end

describe("B7: a bootstrap while the leader is written to faster than the follower reads", function()
    after_each(simkit.free_all)

    it("ends, in a bounded number of attempts, with bounded memory on the leader", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 64 * 1024, log_max_bytes = 16 * 1024 * 1024 } }
        s:lead(0)
        s:fill(0, "big", 150, 1500)
        s:run(1000)
        local wire = s:wire(0, 1)
        wire.rest_us, wire.chunk, wire.buffer = 3000, 2000, 8000
        s:follow(1, 0)
        write_until(s, function() return s:count "bootstraps" > 0 end) -- what waits is checked at every send
        assert.is_true(s:counter(1, "bootstraps_failed") <= 5)
        wire.rest_us, wire.chunk, wire.buffer = 0, 65536, 262144
        s:settle(0)
    end)

    it("ends even when the log behind the snapshot does not keep anything", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 0 } }
        s:lead(0)
        s:fill(0, "big", 150, 1500)
        s:run(1000)
        local wire = s:wire(0, 1)
        wire.rest_us, wire.chunk, wire.buffer = 1000, 4000, 16000
        s:follow(1, 0)
        write_until(s, function() return s:count "bootstraps" > 0 and s:following(1) == "stream" end)
        assert.is_true(s:count "bootstraps" <= 3)
        wire.rest_us, wire.chunk, wire.buffer = 0, 65536, 262144
        s:settle(0)
    end)
end)
