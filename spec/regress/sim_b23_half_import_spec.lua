-- B23 (rabbitmq/rabbitmq-server#5337, #3859): a half-done import was loaded at each start; an import died when the leader changed.
local simkit = require "spec.support.simkit"

local function behind(nodes, seed)
    local s = simkit.new { nodes = nodes, seed = seed, policy = { log_keep_bytes = 0 } }
    s:begin()
    s:put(0, "disk", "old", "1")
    s:settle(0)
    s:kill(nodes - 1)
    s:fill(0, "a", 200, 1500)
    for node = 1, nodes - 2 do s:await(function() return s:equal(0, node) end) end
    s:run(1000)
    return s, nodes - 1
end

describe("B23: a bootstrap that is cut short", function()
    after_each(simkit.free_all)

    it("leaves the old tables or all of the new ones after a kill at any step of it", function()
        for steps = 10, 250, 24 do
            local s, node = behind(2, steps)
            s:follow(node, 0)
            s:step(steps)
            s:kill(node)
            s:start(node)
            local new = s:get(node, "os", "a150") ~= nil
            for i = 1, 190 do assert.equal(new, s:get(node, "os", "a" .. i) ~= nil) end
            assert.equal("1", s:get(node, "disk", "old"))
            s:follow(node, 0)
            s:settle(0)
            assert.is_true(s:count "bootstraps" <= 2)
            simkit.free_all()
        end
    end)

    it("is begun anew from another leader when its own one dies", function()
        local s, node = behind(3, 7)
        s:wire(0, node).rest_us, s:wire(0, node).chunk, s:wire(0, node).buffer = 3000, 3000, 6000
        s:follow(node, 0)
        s:await(function() return s:engine(node).follow.stage_offset > 20000 end)
        s:power_loss(0)
        s:promote(1)
        s:follow(node, 1)
        s:settle(1)
        assert.is_truthy(s:get(node, "os", "a200"))
        assert.equal(1, s:count "bootstraps")
    end)
end)
