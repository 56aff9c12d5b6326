-- What of the plugin's numbers is judged (bench/report.lua says how). "theirs" is the pair of brokers without the plugin, measured in the
-- same run; an empty cell: the change never came there.
local visible = require "bench.rocketmq.visible"

local rows = {}

local function add(row)
    rows[#rows + 1] = row
end

local function plain(scenario, text, metric, at_most)
    add { scenario = scenario, text = text, metric = metric, unit = "", kind = "plain", against = "own", at_most = at_most }
end

for _, kind in ipairs(visible.order) do
    local text = visible.text(kind)
    plain("visible", text .. " shows on the slave, p50, ms", kind .. "_p50_ms", 1)
    plain("visible", text .. " shows on the slave, p99, ms", kind .. "_p99_ms", 3.5)
    plain("visible", "  the poll's grain, ms", kind .. "_grain_ms")
end
for _, interval in ipairs { 200, 5 } do
    local name = "offset" .. interval
    local text = ("offset, flushed every %d ms, shows on the slave"):format(interval)
    plain("visible", text .. ", p50, ms", name .. "_p50_ms")
    plain("visible", text .. ", p99, ms", name .. "_p99_ms", interval + 5)
    plain("visible", "  the poll's grain, ms", name .. "_grain_ms")
end

for _, what in ipairs { "commits", "sends" } do
    local text = { commits = "offset commits/s", sends = "messages sent/s" }
    add { scenario = "load", text = text[what] .. ", with the plugin against without", metric = what, unit = "/s", kind = "ratio",
        against = "own", at_least = 0.98 }
    add { scenario = "load-again", text = "  a second pair without it against the first (A/A)", metric = what, unit = "/s", kind = "ratio",
        against = "own" }
end
add { scenario = "create", text = "a topic made at level disk, p50, ms more than without", metric = "create_p50_ms", unit = "ms",
    kind = "over", against = "own", at_most = 1 }

plain("map", "the observing map adds to a commit, us", "added_us", 1)
plain("map", "  the same in time of the processor, us", "added_cpu_us")
plain("map", "  a commit without it, us", "plain_us")

plain("change", "10,000 topics, one changed: CPU of both brokers, ms", "change_ms", 5)
plain("change", "  of it the slave, ms", "slave_ms")
plain("change", "  of it the master beyond one without the plugin, ms", "master_ms")
plain("change", "  what the broker itself takes to change a topic, ms", "broker_ms")
plain("change", "10,000 topics, one changed: bytes on the wire", "wire_bytes", 10000)
plain("idle", "idle link: wake-ups a second, both ends", "link_wakeups", 2)
plain("idle", "  with the plugin's own threads (polls, files)", "all_wakeups")
plain("idle", "idle link: bytes a second, both directions", "bytes", 200)

plain("join", "an empty slave of that size is in sync, s after its port opens", "join_s", 2)
plain("join-kept", "a slave that has files and is sent all anew, s", "join_s", 2)
plain("join", "looks in which a topic was missing that had been there", "missed", 0)
plain("join-kept", "the same, of a slave that had files", "missed", 0)
plain("join-kept", "  looks", "polls")

return rows
