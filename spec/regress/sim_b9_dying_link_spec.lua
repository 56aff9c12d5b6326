-- B9 (redis/redis#1400): a partial resync was accepted, the link dropped after 300 ms, and so on for ever.
local simkit = require "spec.support.simkit"

describe("B9: a link that is cut after every so many bytes", function()
    after_each(simkit.free_all)

    it("moves the position with each connect", function()
        local s = simkit.new { nodes = 2, policy = { log_keep_bytes = 1024 * 1024, log_max_bytes = 2 * 1024 * 1024 } }
        s:begin()
        s:kill(1)
        s:fill(0, "a", 400, 1500)
        s:settle(0)
        s:wire(0, 1).cut_bytes = 65536
        s:follow(1, 0)
        local connects, last = s:counter(1, "reconnects"), -1
        local function done() return s:position(1).applied == s:position(0).head end
        while not done() do
            s:await(function() return done() or s:counter(1, "reconnects") > connects end)
            connects = s:counter(1, "reconnects")
            assert.is_true(s:position(1).applied > last, "a connect brought nothing")
            last = s:position(1).applied
        end
        assert.is_true(s:count "links_cut_bytes" >= 8)
        assert.equal(0, s:count "bootstraps")
    end)

    it("is tried less and less often while nothing comes of it, and at once again when it does", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:kill(1)
        s:put(0, "disk", "k", "1")
        s:wire(0, 1).cut_bytes = 30 -- not even a hello
        s:follow(1, 0)
        s:run(500)
        local before = s:counter(1, "reconnects")
        s:run(2000) -- connect_max_ms is 100, half of it by chance
        local tries = s:counter(1, "reconnects") - before
        assert.is_true(tries >= 15 and tries <= 45, tries .. " tries")
        s:wire(0, 1).cut_bytes = 0
        s:settle(0)
        s:wire(0, 1).cut_bytes = 4000
        before = s:count "links"
        s:fill(0, "a", 40, 1500) -- each link carries a group or so: the back-off stays at its shortest
        s:await(function() return s:position(1).applied == s:position(0).head end, 2000)
        assert.is_true(s:count "links" - before >= 12)
    end)
end)
