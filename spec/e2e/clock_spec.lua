-- The wall clock of a machine jumps (libevent#872, #1080, #1473: timers that fire twice, or for an hour not at all). Nothing that
-- metasync decides depends on it: flushes, marks, heartbeats and time-outs go on as before.
local ffi = require "ffi"
local cluster = require "spec.support.cluster"
local process = require "spec.support.process"

local HOUR = 3600

describe("a wall clock that jumps", function()
    it("an hour ahead and an hour back changes no timer: buffers are flushed, the link stays", cluster.test(function(c)
        local clock = c.dir .. "/clock"
        process.write(clock, ("\0"):rep(8))
        local function jump(seconds)
            local file = assert(io.open(clock, "r+b")) -- in place: the daemons have it mapped
            file:write(ffi.string(ffi.new("int64_t[1]", seconds), 8))
            file:close()
        end
        local leader, follower = c:node("a", { "--table", "offset=buffer:200" }), c:node "b"
        leader:preload("other_clock", { "CLOCK_FILE=" .. clock }):start { "--lead" }
        follower:preload("other_clock", { "CLOCK_FILE=" .. clock }):start { "--follow", leader.address }
        c:equal(leader, follower)
        local number = 0
        for _, seconds in ipairs { 0, HOUR, -HOUR, 30 * 24 * HOUR, 0 } do
            jump(seconds)
            local reply = leader:put("topic", "t" .. seconds, "x")
            local apart = tonumber(reply.at_us) / 1e6 - process.real_us() / 1e6 - seconds
            assert.is_true(math.abs(apart) < 5, "the daemon's clock did not jump") -- so the spec shows something
            for _ = 1, 3 do
                number = number + 1
                leader:put("offset", "k", number)
                process.eventually("the flush reaches the follower", function() return follower:get("offset", "k") == number end, 2)
            end
        end
        local status = follower:status()
        assert.equal(1, status.counters.connects)
        assert.equal(0, status.counters.link_timeouts)
        local flushes = leader:status().counters.flushes
        assert.is_true(flushes >= 15 and flushes <= 60, flushes .. " flushes") -- no catching up
        c:equal(leader, follower)
    end))
end)
