-- A broker that has the jar on its class path and can't or must not use it is a broker as without it.
local broker = require "spec.support.broker"
local process = require "spec.support.process"

local BUILD = os.getenv("MS_BUILD") or "build/release"

describe("a broker with the jar", function()
    local lab, off, rip, lost, taken, holder
    local all

    lazy_setup(function()
        lab = broker.lab()
        local ok, why = pcall(function()
            off = lab:broker("off", { group = "off", options = { "-Dmetasync.enabled=false" } })
            rip = lab:broker("rip", { group = "rip", version = "5.3.3", options = { "-DallowMetadataIncrementalSync=false" } })
            lost = lab:broker("lost", { group = "lost", options = { "-Dmetasync.library=/nowhere/libmetasync-jni.so" } })
            taken = lab:broker("taken", { group = "taken", version = "5.3.3" })
            holder = process.start({ BUILD .. "/metasyncd", "--data", lab.dir .. "/holder", "--listen", taken.node_address, "--lead" },
                lab.dir .. "/holder.log")
            all = { off, rip, lost, taken }
            for _, one in ipairs(all) do one:begin() end
            for _, one in ipairs(all) do one:wait_port(90) end
        end)
        if not ok then
            lab:close(true)
            lab = nil
            error(why, 0)
        end
    end)
    lazy_teardown(function()
        if holder then holder:destroy() end
        if lab then lab:close() end
    end)

    local function works(one)
        local rpc = one:rpc()
        rpc:create_topic("t", { attributes = "+message.type=NORMAL" })
        rpc:create_group "GID"
        rpc:commit("GID", "t", 0, 7)
        rpc:send_message "t"
        assert.equal(7, rpc:offset("GID", "t", 0))
        assert.is_not_nil(rpc:topics().t)
        assert.equal("none", one:info().metasync_role or "none")
    end

    local function lines(one, level)
        local list = {}
        for _, line in ipairs(one:grep " metasync: ") do
            if line:find(" " .. level .. " ", 1, true) then list[#list + 1] = line end
        end
        return list
    end

    it("and -Dmetasync.enabled=false, or RIP-81's switch, works without it and says so", function()
        for _, one in ipairs { off, rip } do
            works(one)
            assert.equal(1, #one:grep "metasync: switched off, the broker syncs its metadata as without it")
            assert.same({}, lines(one, "ERROR"))
        end
    end)

    it("whose native library can't be loaded works without it; one ERROR line says why", function()
        works(lost)
        local said = lines(lost, "ERROR")
        assert.equal(1, #said)
        assert.truthy(said[1]:find("/nowhere/libmetasync-jni.so", 1, true), said[1])
    end)

    it("whose node's port is taken works without it; one ERROR line says why", function()
        works(taken)
        local said = lines(taken, "ERROR")
        assert.equal(1, #said)
        assert.truthy(said[1]:find(taken.node_address, 1, true), said[1])
    end)

    it("ends cleanly on SIGTERM, and has written its files", function()
        for _, one in ipairs(all) do one:terminate() end
        for _, one in ipairs(all) do
            one.process:wait(60)
            assert.is_not_nil(one:file("topics.json").topicConfigTable.t)
        end
    end)
end)
