-- A link that is taken to pieces by a proxy (spec/support/proxy.lua) between a follower and its leader.
local cluster = require "spec.support.cluster"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"

-- More than a segment, of 4 MiB at least, can hold; then what is in a snapshot is trimmed.
local function fill(leader)
    for batch = 1, 24 do
        local writes = {}
        for i = 1, 500 do writes[i] = { table = "topic", key = ("t%d-%d"):format(batch, i), value = ("x"):rep(400) } end
        leader:batch(writes)
    end
    for i = 1, 3 do
        leader:put("topic", "t0", tostring(i))
        leader:must "snapshot"
    end
    leader:wait("its log is trimmed", function(s) return s.log.first > 1 end)
end

local SHORT_LOG = { "--segment", "65536", "--log-keep", "65536" }

-- fn(c, leader, follower, link): the follower is told the proxy's port.
local function with_link(args, fn)
    return cluster.test(function(c)
        local leader, follower = c:node("a", args), c:node("b", args)
        leader:start { "--lead" }
        local link = proxy.start(c.dir, tonumber(leader.address:match(":(%d+)$")))
        c.on_close = function() link:close() end
        fn(c, leader, follower, link)
    end)
end

describe("a link between two nodes", function()
    it("that dies again and again: a bootstrap goes on where it was, and gets there", with_link(SHORT_LOG, function(c, leader, follower, link)
        fill(leader)
        link:every(1000000)
        follower:start { "--follow", "127.0.0.1:" .. link.port }
        c:equal(leader, follower, 60)
        local counters = follower:status().counters
        assert.is_true(link:counts().resets >= 3, "it did not die often")
        assert.equal(1, counters.bootstraps)
        assert.is_true(counters.bootstraps_resumed > 0, "every attempt began anew")
    end))

    it("that is half open: both ends give it up, and go on when it is sound", with_link({}, function(c, leader, follower, link)
        follower:start { "--follow", "127.0.0.1:" .. link.port }
        leader:put("topic", "before", "1")
        c:equal(leader, follower)
        link:hold()
        leader:put("topic", "meanwhile", "1")
        follower:wait("it has noticed", function(s) return s.following.state ~= "stream" end, 30)
        process.eventually("the leader has noticed", function() return leader:status().counters.link_timeouts > 0 end, 30)
        assert.equal(1, follower:status().counters.link_timeouts)
        assert.is_nil(follower:get("topic", "meanwhile"))
        link:pass()
        c:equal(leader, follower, 30)
        assert.equal("1", follower:get("topic", "meanwhile"))
        assert.equal(0, follower:status().counters.bootstraps)
    end))
end)
