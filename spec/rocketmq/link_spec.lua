-- The link between a slave's node and its master's is taken to pieces by a proxy (spec/support/proxy.lua), while the brokers' own
-- connections stay. The slave finds its master's node at the broker's port and an offset, so another offset leads to the proxy.
local broker = require "spec.support.broker"
local process = require "spec.support.process"
local proxy = require "spec.support.proxy"
local shown = require "spec.rocketmq.shown"
local story = require "spec.rocketmq.story"

local GRACE_MS = 10000
local PAUSED, GOES_ON = "own metadata sync is paused", "own metadata sync goes on"

-- The shipped policy, with links that are given up and taken up quickly.
local LINKS = 'policy.links = { heartbeat = "200ms", timeout = "1s", connect_min = "20ms", connect_max = "200ms" }\n'

describe("a pair of brokers whose nodes' link", function()
    local master, slave, link, M
    local serial = 0

    local function start(lab)
        local policy = process.read("lua/policies/rocketmq.lua"):gsub("return policy%s*$", function(last) return LINKS .. last end)
        process.write(lab.dir .. "/policy.lua", policy)
        local conf = { ["metasync.policy"] = lab.dir .. "/policy.lua" }
        master = lab:broker("m", { conf = conf })
        link = proxy.start(lab.dir, master.port + broker.PORT_OFFSET)
        slave = lab:broker("s", { id = 1, conf = { ["metasync.policy"] = conf["metasync.policy"], ["metasync.graceMs"] = GRACE_MS,
            ["metasync.portOffset"] = link.port - master.port } })
        slave.conf["metasync.port"] = slave.port + broker.PORT_OFFSET
        master:start()
        slave:start():in_sync(60)
        M = master:rpc()
    end

    local check = story {
        start = start,
        stop = function()
            if link then link:close() end
        end,
    }

    -- A topic, a group, offsets, a delete. The topic's name.
    local function change()
        serial = serial + 1
        local topic, group = "t" .. serial, "g" .. serial
        M:create_topic(topic, { attributes = "+message.type=NORMAL" })
        M:create_group(group)
        for queue = 0, 3 do M:commit(group, topic, queue, serial * 10 + queue) end
        if serial > 2 then M:delete_topic("t" .. serial - 2) end
        return topic
    end

    local function has(topic)
        return slave:rpc():topics()[topic] ~= nil
    end

    local function arrives(topic)
        process.eventually(topic .. " is on the slave", function() return has(topic) end, 20)
    end

    -- How often its log has said so.
    local function said(words)
        return #slave:grep(words)
    end

    local function link_is(state, seconds)
        slave:wait("its link is " .. state, function(info) return (info.metasync_link == "stream") == (state == "up") end, seconds or 20)
    end

    -- Cuts it in some way, changes, heals it. The broker's own sync must not notice.
    local function flap(cut)
        local paused, goes_on = said(PAUSED), said(GOES_ON)
        cut()
        link_is "down"
        local topic = change()
        assert.is_false(has(topic), "the link is not cut")
        link:pass()
        arrives(topic)
        slave:in_sync(20)
        shown.same(master, slave, 20)
        assert.equal(paused, said(PAUSED))
        assert.equal(goes_on, said(GOES_ON))
    end

    check("goes through the proxy", function()
        local before = link:counts().bytes
        arrives(change())
        assert.is_true(link:counts().bytes > before)
        assert.equal("127.0.0.1:" .. link.port, slave:info().metasync_leader)
        shown.same(master, slave, 20)
    end)

    check("is cut for a moment: what changed meanwhile arrives, the broker's own sync stays paused", function()
        flap(function() link:cut() end)
    end)

    check("is half open for a moment: both ends notice, the same", function()
        local resets = link:counts().resets
        flap(function() link:hold() end)
        assert.is_true(link:counts().resets > resets, "nobody has given the dead connection up")
    end)

    check("is slow: changes arrive late and it stays in sync", function()
        link:delay(150)
        local from = process.now()
        local topic = change()
        arrives(topic)
        assert.is_true(process.now() - from > 0.15, "it was not slow")
        slave:in_sync(20)
        assert.equal(0, #slave:grep(GOES_ON))
        link:pass()
        shown.same(master, slave, 20)
    end)

    check("dies again and again in the middle of something: it gets there all the same", function()
        local resets = link:counts().resets
        link:every(6000)
        local last
        for _ = 1, 40 do last = change() end
        arrives(last)
        shown.same(master, slave, 20)
        assert.is_true(link:counts().resets - resets > 3, "it did not die often")
        link:pass()
        slave:in_sync(20)
        shown.same(master, slave, 20)
    end)

    check("is cut for longer than the grace time: the broker's own sync goes on and copies, and pauses when the link is back", function()
        local paused, goes_on = said(PAUSED), said(GOES_ON)
        local from = process.now()
        link:cut()
        local topic = change()
        slave:wait("its own sync goes on", function(info) return info.metasync_own_sync == "on" end, 30)
        assert.is_true(process.now() - from > (GRACE_MS - 2000) / 1000, "it did not wait for the grace time")
        process.eventually("the broker's own sync has copied " .. topic, function() return has(topic) end, 90)
        assert.equal(goes_on + 1, said(GOES_ON))
        link:pass()
        slave:in_sync(20)
        assert.equal(paused + 1, said(PAUSED))
        arrives(change())
        shown.same(master, slave, 20)
    end)

    check("was never the brokers' affair: no broker has logged a fault of it", function()
        for _, one in ipairs { master, slave } do
            for _, line in ipairs(one:grep " metasync: ") do assert.is_nil(line:match " ERROR ", line) end
        end
    end)
end)
