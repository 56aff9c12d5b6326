-- B4 (apache/kafka PR 12265, KAFKA-13968): a snapshot was made at every commit before the start was through.
local simkit = require "spec.support.simkit"

local function with_log(nodes)
    local policy = { snapshot_log_bytes = 256 * 1024, log_max_bytes = 4 * 1024 * 1024, log_keep_bytes = 4 * 1024 * 1024 }
    local s = simkit.new { nodes = nodes, policy = policy }
    s:lead(0)
    for i = 1, 10000 do s:insist(0, "memory", "k" .. i % 500, tostring(i)) end
    s:run(200)
    return s
end

describe("B4: 10 000 records", function()
    after_each(simkit.free_all)

    it("make at most one snapshot while they are replayed at a start", function()
        local s = with_log(2)
        s:kill(0)
        local made = s:rise("snapshots_made", function()
            s:lead(0)
            s:run(20)
        end)
        assert.is_true(made <= 1, made .. " snapshots")
        assert.equal("10000", s:get(0, "memory", "k0"))
    end)

    it("make a few by their bytes, not one for each group, when a follower gets them all at once", function()
        local s = with_log(2)
        local made = s:rise("snapshots_made", function()
            s:follow(1, 0)
            s:settle(0)
        end)
        assert.is_true(made <= 4, made .. " snapshots")
        assert.is_true(s:counter(1, "groups_applied") > 20)
    end)
end)
