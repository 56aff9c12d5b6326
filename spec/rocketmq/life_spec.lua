-- A broker that has the jar on its class path and can't or must not use it is a broker as without it.
local beside = require "spec.rocketmq.beside"
local story = require "spec.rocketmq.story"
local process = require "spec.support.process"

local works, lines = beside.works, beside.lines

local BUILD = os.getenv("MS_BUILD") or "build/release"

-- A table of the policy that the broker's can't be: the others are replicated all the same.
local BLOCKING = [[
local policy = require "rocketmq"
policy.tables.request_mode = { ack = "disk", type = "int64" }
return policy
]]

describe("a broker with the jar", function()
    local off, rip, lost, taken, holder, blocked

    local test = story {
        start = function(lab)
            off = lab:broker("off", { group = "off", options = { "-Dmetasync.enabled=false" } })
            rip = lab:broker("rip", { group = "rip", version = "5.3.3", options = { "-DallowMetadataIncrementalSync=false" } })
            lost = lab:broker("lost", { group = "lost", options = { "-Dmetasync.library=/nowhere/libmetasync-jni.so" } })
            taken = lab:broker("taken", { group = "taken", version = "5.3.3" })
            holder = process.start({ BUILD .. "/metasyncd", "--data", lab.dir .. "/holder", "--listen", taken.node_address, "--lead" },
                lab.dir .. "/holder.log")
            os.execute("mkdir -p " .. process.quote(lab.dir .. "/blocked/conf"))
            process.write(lab.dir .. "/blocked/conf/metasync.lua", BLOCKING)
            process.write(lab.dir .. "/blocked/conf/rocketmq.lua", process.read "lua/policies/rocketmq.lua")
            blocked = lab:broker("blocked", { group = "blocked" })
            local all = { off, rip, lost, taken, blocked }
            for i, one in ipairs(all) do -- a few at a time: each takes a core for seconds
                if i > 3 then all[i - 3]:wait_port(180) end
                one:begin()
            end
            for _, one in ipairs(all) do one:wait_port(180) end
        end,
        stop = function()
            if holder then holder:destroy() end
        end,
    }

    test("and -Dmetasync.enabled=false, or RIP-81's switch, works without it and says so", function()
        for _, one in ipairs { off, rip } do
            works(one)
            assert.equal(1, #one:grep "metasync: switched off, the broker syncs its metadata as without it")
            assert.same({}, lines(one, "ERROR"))
        end
    end)

    test("whose native library can't be loaded works without it; one ERROR line says why", function()
        works(lost)
        local said = lines(lost, "ERROR")
        assert.equal(1, #said)
        assert.truthy(said[1]:find("/nowhere/libmetasync-jni.so", 1, true), said[1])
    end)

    test("whose node's port is taken works without it; one ERROR line says why", function()
        works(taken)
        local said = lines(taken, "ERROR")
        assert.equal(1, #said)
        assert.truthy(said[1]:find(taken.node_address, 1, true), said[1])
    end)

    test("whose policy wants one table to be another than it is replicates the rest, and names that one", function()
        blocked:leads()
        local rpc = blocked:rpc()
        assert.truthy(blocked:info().metasync_tables_not_replicated:find("request_mode", 1, true))
        rpc:create_topic "t"
        rpc:create_group "GID"
        rpc:set_mode("t", "GID", "POP", 2)
        assert.equal("POP", rpc:modes().t.GID.mode)
        assert.is_not_nil(blocked:entries("topic").t)
        assert.same({}, blocked:entries "request_mode")
        local said = lines(blocked, "ERROR")
        assert.equal(1, #said)
        assert.truthy(said[1]:find("table request_mode is not replicated", 1, true), said[1])
    end)

    test("ends cleanly on SIGTERM, and has written its files", function()
        local ending = { off, rip, lost, taken, blocked }
        for _, one in ipairs(ending) do one:terminate() end
        for _, one in ipairs(ending) do
            one.process:wait(60)
            assert.is_not_nil(one:file("topics.json").topicConfigTable.t)
        end
    end)
end)
