-- B10 (tarantool/tarantool#7584): a master removed log files that a replica still needed, which then stayed in an error for ever.
local simkit = require "spec.support.simkit"

describe("B10: a follower that comes back", function()
    after_each(simkit.free_all)

    it("bootstraps when the log has been trimmed behind its position, whatever made the log move", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 0 } }
        s:begin()
        s:put(0, "disk", "needed", "old")
        s:settle(0)
        s:kill(1)
        for i = 1, 1000 do s:insist(0, "memory", "noise" .. i % 3, ("%d"):format(i):rep(60)) end
        s:put(0, "disk", "needed", "new")
        s:run(1500)
        s:follow(1, 0)
        s:settle(0)
        assert.equal("new", s:get(1, "disk", "needed"))
        assert.equal(1, s:count "bootstraps")
    end)

    it("resumes when the log still has it", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 256 * 1024 } }
        s:begin()
        s:kill(1)
        s:fill(0, "a", 60, 1000)
        s:run(1500)
        s:follow(1, 0)
        s:settle(0)
        assert.equal(0, s:count "bootstraps")
    end)

    it("bootstraps when the log is trimmed while it is reading it", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 0, retain_bytes = 0 } }
        s:begin()
        local wire = s:wire(0, 1)
        wire.rest_us, wire.chunk, wire.buffer = 30000, 1000, 2000
        s:fill(0, "a", 250, 1500)
        s:run(3000)
        wire.rest_us, wire.chunk, wire.buffer = 0, 65536, 262144
        s:settle(0)
        assert.is_truthy(s:get(1, "os", "a250"))
        assert.is_true(s:count "bootstraps" > 0)
    end)
end)
