-- Brokers that are set up in a way that the plugin does not replicate: each starts and works as without it, and one line says why.
local beside = require "spec.rocketmq.beside"
local process = require "spec.support.process"
local story = require "spec.rocketmq.story"

-- What the plugin says of each.
local REFUSED = {
    rocksdb = { says = "RocksDBTopicConfigManager", conf = { storeType = "defaultRocksDB" } },
    v2 = { says = "TopicConfigManagerV2", conf = { configManagerVersion = "v2" } },
    lmq = { says = "enableLmq", conf = { enableLmq = true, enableMultiDispatch = true } },
    acting = { says = "enableSlaveActingMaster", conf = { enableSlaveActingMaster = true } },
    duplication = { says = "duplicationEnable", conf = { duplicationEnable = true } },
    dledger = { says = "enableDLegerCommitLog", conf = { enableDLegerCommitLog = true, dLegerGroup = "dledger", dLegerSelfId = "n0" } },
    container = { says = "BrokerContainer", contained = true },
}

describe("a broker with the jar that", function()
    local refused, order = {}, {}
    for name in pairs(REFUSED) do order[#order + 1] = name end
    table.sort(order)

    local test = story {
        start = function(lab)
            REFUSED.dledger.conf.dLegerPeers = "n0-127.0.0.1:" .. process.free_port()
            for i, name in ipairs(order) do
                if i > 2 then refused[order[i - 2]]:wait_port(180) end -- two at a time: each takes a core for seconds
                local given = REFUSED[name]
                refused[name] = lab:broker(name, { group = name, conf = given.conf, contained = given.contained }):begin()
            end
            for _, name in ipairs(order) do refused[name]:wait_port(180) end
        end,
    }

    for _, name in ipairs(order) do
        local why = REFUSED[name].says
        test(("is set up for %s works without it; one WARN line says why, and so does its status"):format(why), function()
            local one = refused[name]
            beside.works(one)
            local said = beside.lines(one, "WARN")
            assert.equal(1, #said)
            assert.truthy(said[1]:find("not started, the broker syncs its metadata as without it: ", 1, true), said[1])
            assert.truthy(said[1]:find(why, 1, true), said[1])
            local state = one:info().metasync_state
            assert.truthy(state:find("^absent: ") and state:find(why, 1, true), state)
            assert.same({}, beside.lines(one, "ERROR"))
        end)
    end
end)
