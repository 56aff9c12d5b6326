-- A broker beside which the plugin stays out: it works as without it, and its log says what the plugin has to say.
local assert = require "luassert"
local process = require "spec.support.process"

local beside = {}

-- A topic, a group, an offset, a message, as soon as the broker takes them.
function beside.works(one)
    local rpc = one:rpc()
    rpc:create_topic("t", { attributes = "+message.type=NORMAL" })
    rpc:create_group "GID"
    rpc:commit("GID", "t", 0, 7)
    process.eventually(one.name .. " takes a message", function()
        local ok, why = pcall(rpc.send_message, rpc, "t")
        return ok, why
    end, 60)
    assert.equal(7, rpc:offset("GID", "t", 0))
    assert.is_not_nil(rpc:topics().t)
    assert.equal("none", one:info().metasync_role or "none")
end

-- The plugin's lines of this level in the broker's log.
function beside.lines(one, level)
    local list = {}
    for _, line in ipairs(one:grep " metasync: ") do
        if line:find(" " .. level .. " ", 1, true) then list[#list + 1] = line end
    end
    return list
end

return beside
