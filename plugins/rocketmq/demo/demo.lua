-- What the plugin does for real RocketMQ brokers: two pairs of unmodified brokers side by side, one with the jar on its class path and
-- one without. The same changes by real clients on both masters, and when they show on the slaves; then both masters are killed right
-- after a topic was acknowledged, the slaves become masters, and what each pair has lost is counted. Exit status 1 if the pair with the
-- plugin lost anything.
local broker = require "spec.support.broker"
local process = require "spec.support.process"
local shown = require("spec.rocketmq.shown").shown

local VERSION = os.getenv("VERSION") or "5.5.0"
local PATIENCE = 75 -- seconds; a broker's own sync comes every 63
local MESSAGES = 20

local lab, client
local pairs_of = {}       -- "with", "without" -> { master =, slave =, name = }
local ORDER = { "with", "without" }

-- ---- telling ---------------------------------------------------------------------------------------------------------------

local function say(format, ...)
    print(select("#", ...) > 0 and format:format(...) or format)
    io.flush()
end

local steps = 0
local function step(title, ...)
    steps = steps + 1
    say("\n%d. " .. title, steps, ...)
end

local function print_table(rows)
    local widths = {}
    for _, row in ipairs(rows) do
        for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #cell) end
    end
    for _, row in ipairs(rows) do
        local cells = { row[1] .. (" "):rep(widths[1] - #row[1]) }
        for i = 2, #row do cells[i] = (" "):rep(widths[i] - #row[i]) .. row[i] end
        say("   " .. table.concat(cells, "   "))
    end
end

-- ---- two pairs ----------------------------------------------------------------------------------------------------------------

local function start()
    step("A name server and four brokers %s, unmodified, from Maven Central", VERSION)
    say("   with:     java -cp 'lib/*:metasync-rocketmq.jar' ...BrokerStartup -c broker.conf     (the jar, and nothing else)")
    say("   without:  java -cp 'lib/*' ...BrokerStartup -c broker.conf")
    lab = broker.lab { version = VERSION }
    for _, kind in ipairs(ORDER) do
        local function make(suffix, id)
            return lab:broker(kind .. "-" .. suffix, { version = VERSION, group = kind, id = id, plugin = kind == "with" })
        end
        pairs_of[kind] = { name = kind, master = make("master", 0):begin(), slave = make("slave", 1) }
    end
    for _, kind in ipairs(ORDER) do pairs_of[kind].master:wait_port() end
    for _, kind in ipairs(ORDER) do pairs_of[kind].slave:begin() end
    for _, kind in ipairs(ORDER) do pairs_of[kind].slave:wait_port() end
    pairs_of.with.slave:in_sync(60)
    client = lab:client()
    for _, kind in ipairs(ORDER) do
        local pair = pairs_of[kind]
        say("   %-8s master %s, slave %s", kind, pair.master.address, pair.slave.address)
    end
    local info = pairs_of.with.slave:info()
    say("   what mqadmin brokerStatus of the slave with the plugin adds: role %s, leader %s, lag %s, the broker's own sync %s",
        info.metasync_role, info.metasync_leader, info.metasync_lag, info.metasync_own_sync)
end

-- ---- changes -------------------------------------------------------------------------------------------------------------------

local function topic(kind, name) return ("%s_%s"):format(kind, name) end

local function offsets_sum(rpc, name, group)
    local sum
    for _, offset in pairs(rpc:offsets()[name .. "@" .. group] or {}) do sum = (sum or 0) + tonumber(offset) end
    return sum
end

-- name; change(pair, topic prefix); shows(rpc of the slave, kind)
local CHANGES = {
    { "topic with an attribute", function(pair, kind) client:ask("topic", pair.master.address, topic(kind, "orders"), 4, "message.type=NORMAL") end,
        function(rpc, kind)
            local found = rpc:topics()[topic(kind, "orders")]
            return found and found.attributes["message.type"] == "NORMAL"
        end },
    { "subscription group", function(pair, kind) client:ask("group", pair.master.address, topic(kind, "billing")) end,
        function(rpc, kind) return rpc:groups()[topic(kind, "billing")] ~= nil end },
    { "offsets of a consumer", function(_, kind)
            client:ask("send", topic(kind, "orders"), MESSAGES)
            client:ask("consume", topic(kind, "billing"), topic(kind, "orders"), MESSAGES, 30)
        end,
        function(rpc, kind) return offsets_sum(rpc, topic(kind, "orders"), topic(kind, "billing")) == MESSAGES end },
    { "request mode (pop)", function(pair, kind)
            client:ask("mode", pair.master.address, topic(kind, "orders"), topic(kind, "billing"), "POP")
        end,
        function(rpc, kind) return (rpc:modes()[topic(kind, "orders")] or {})[topic(kind, "billing")] ~= nil end },
    { "a group may not read a topic", function(pair, kind) pair.master:rpc():forbid(topic(kind, "billing"), topic(kind, "secret"), true) end,
        function(rpc, kind) return (rpc:all_groups().forbiddenTable or {})[topic(kind, "billing")] ~= nil end },
    { "delayed message delivered", function(pair, kind)
            client:ask("send", topic(kind, "orders"), 1, "level", 1)
            process.eventually("the message is delivered", function() return (pair.master:rpc():delay_offsets().offsetTable["1"] or 0) >= 1 end, 20)
        end,
        function(rpc) return tonumber(rpc:delay_offsets().offsetTable["1"] or 0) >= 1 end },
    { "offset of another topic", function(pair, kind)
            client:ask("topic", pair.master.address, topic(kind, "moment"), 1)
            pair.master:rpc():create_group(topic(kind, "moment_group"))
            pair.master:rpc():commit(topic(kind, "moment_group"), topic(kind, "moment"), 0, 5)
        end,
        function(rpc, kind) return rpc:offset(topic(kind, "moment_group"), topic(kind, "moment"), 0) == 5 end },
    { "that topic and its offsets deleted", function(pair, kind) pair.master:rpc():delete_topic(topic(kind, "moment")) end,
        function(rpc, kind)
            return not rpc:topics()[topic(kind, "moment")] and not rpc:offsets()[topic(kind, "moment@" .. topic(kind, "moment_group"))]
        end,
        after = 7 },
}

local function milliseconds(seconds)
    return seconds < 1 and ("%.1f ms"):format(seconds * 1000) or ("%.1f s"):format(seconds)
end

-- When each change shows on the slave, after the master's answer.
local function change_with()
    local pair, seen = pairs_of.with, {}
    for i, change in ipairs(CHANGES) do
        change[2](pair, "with")
        local answered = process.now()
        process.eventually(change[1] .. " shows on the slave", function() return change[3](pair.slave:rpc(), "with") end, 20)
        seen[i] = milliseconds(process.now() - answered)
        say("   with     %-38s %10s", change[1], seen[i])
    end
    return seen
end

local function change_without()
    local pair, answered, seen, open = pairs_of.without, {}, {}, 0
    for i, change in ipairs(CHANGES) do
        change[2](pair, "without")
        answered[i] = process.now()
        open = open + 1
    end
    say("   without  the same changes are made; the slave's own sync is waited for, at most %d s ...", PATIENCE)
    local deadline = process.now() + PATIENCE
    while open > 0 and process.now() < deadline do
        for i, change in ipairs(CHANGES) do
            -- what was deleted counts as gone only once it has been there
            if not seen[i] and (not change.after or seen[change.after]) and change[3](pair.slave:rpc(), "without") then
                seen[i], open = milliseconds(process.now() - answered[i]), open - 1
                say("   without  %-38s %10s", change[1], seen[i])
            end
        end
        process.pause(0.02)
    end
    for i in ipairs(CHANGES) do seen[i] = seen[i] or "never seen" end
    return seen
end

-- ---- the masters die -----------------------------------------------------------------------------------------------------------------

local KINDS = { "topic", "group", "offset", "request_mode", "forbidden", "delay_offset" }

local function leaves(entries, name)
    local flat = {}
    for key, value in pairs(entries) do
        if name == "topic" or name == "group" or name == "delay_offset" then
            flat[key] = broker.text(value)
        else
            for field, inner in pairs(value) do flat[key .. "/" .. field] = broker.text(inner) end
        end
    end
    return flat
end

-- How many entries of `before` are not, or not so, in `now`.
local function lost(before, now)
    local counts = {}
    for _, name in ipairs(KINDS) do
        local a, b = leaves(before[name], name), leaves(now[name], name)
        counts[name] = 0
        for key, value in pairs(a) do
            if b[key] ~= value then counts[name] = counts[name] + 1 end
        end
    end
    return counts
end

local function kill_master(kind)
    local pair = pairs_of[kind]
    process.pause(0.5) -- what the offsets' flush interval (200 ms) may hold is not what is shown here
    local before = shown(pair.master:rpc())
    local last = topic(kind, "the_last_one")
    client:ask("topic", pair.master.address, last, 4, "message.type=NORMAL")
    pair.master:kill()
    say("   %-8s the client has its answer for topic %s, and kill -9 of the master", kind, last)
    before.topic[last] = { topicName = last }
    pair.slave:terminate()
    return before
end

local function promote(kind, before)
    local pair, last = pairs_of[kind], topic(kind, "the_last_one")
    pair.slave.process:wait(60)
    pair.slave.id = 0
    pair.slave:start()
    if kind == "with" then pair.slave:leads() end
    local now = shown(pair.slave:rpc())
    if now.topic[last] then now.topic[last] = { topicName = last } end
    return lost(before, now)
end

-- How many messages a consumer gets again that it has had: real consumer, real messages.
local function delivered_again(kind)
    local pair = pairs_of[kind]
    pair.slave:rpc():create_group(topic(kind, "billing"))
    pair.slave:rpc():create_topic(topic(kind, "orders"))
    pair.slave:rpc():set_mode(topic(kind, "orders"), topic(kind, "billing"), "PULL")
    local had = MESSAGES + 1
    process.eventually("clients have found the new master", function()
        return pcall(client.ask, client, "send", topic(kind, "orders"), 1)
    end, 60)
    client:ask("send", topic(kind, "orders"), 4)
    local got = tonumber(client:ask("consume", topic(kind, "billing"), topic(kind, "orders"), had + 5, 12))
    return math.max(0, got - 5 - 1), got -- one delayed message was not consumed before
end

-- ---- the whole ---------------------------------------------------------------------------------------------------------------------

local function run()
    start()
    step("Changes by real clients, and when they show on the slave (asked by RPC over and over; an answer takes about a millisecond)")
    local with, without = change_with(), change_without()

    step("kill -9 of both masters right after an acknowledged topic; the slaves are started again as masters (brokerId=0)")
    local before, gone = {}, {}
    for _, kind in ipairs(ORDER) do before[kind] = kill_master(kind) end
    for _, kind in ipairs(ORDER) do gone[kind] = promote(kind, before[kind]) end
    step("The consumer goes on at the new master: 5 new messages and a delayed one wait for it")
    local again = {}
    for _, kind in ipairs(ORDER) do
        local got
        again[kind], got = delivered_again(kind)
        say("   %-8s got %d messages, %d of them again", kind, got, again[kind])
    end

    say("")
    local rows = { { "shows on the slave after the master's answer", "with metasync", "without" } }
    for i, change in ipairs(CHANGES) do rows[#rows + 1] = { change[1], with[i], without[i] } end
    print_table(rows)
    say("")
    rows = { { "lost by the failover", "with metasync", "without" } }
    local bad = again.with
    for _, name in ipairs(KINDS) do
        rows[#rows + 1] = { name, tostring(gone.with[name]), tostring(gone.without[name]) }
        bad = bad + gone.with[name]
    end
    rows[#rows + 1] = { "messages consumed again", tostring(again.with), tostring(again.without) }
    print_table(rows)
    return bad == 0
end

local ok, result = pcall(run)
if lab then lab:close(not ok) end
if not ok then error(result, 0) end
say("\n%s; everything that was started here is stopped",
    result and "The pair with metasync lost nothing" or "FAILED: the pair with metasync lost something")
os.exit(result and 0 or 1)
