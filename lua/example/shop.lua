-- A broker of a web shop. Two kinds of its metadata are nobody else's business: topics of load tests, and groups of developers' machines.
-- Offsets change all the time: they may be 300 ms old, and quicker than that when it is quiet.
local policy = { name = "shop" }

policy.tables = {
    topic = { ack = "disk", type = "json" },
    group = { ack = "disk", type = "json" },
    offset = { type = "int64", buffer = { interval = "300ms" }, at_risk = { time = "1s", entries = 1000 }, resolve = "max" },
}

policy.replicate = { exclude = { topic = { "loadtest-*" } } }

-- "dev:alice", "dev:bob": their groups and, as those are keys "group@topic", their offsets.
function policy.filter(entry)
    return entry.key:sub(1, 4) ~= "dev:"
end

function policy.flush(stats)
    if stats.rate < 5 then return "50ms" end
    return "300ms"
end

function policy.selftest()
    assert(policy.filter { table = "group", key = "billing" })
    assert(not policy.filter { table = "group", key = "dev:alice" })
end

return policy
