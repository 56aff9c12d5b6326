-- default: what you get without a policy file, spelled out.
--
-- Every line below could be left out, and nothing would change. Copy the file, keep the lines that you want to change, and delete the
-- rest: what a file does not say keeps its default, also in later versions. docs/policy.md explains every field.
--
--     metasyncctl policy check my.lua        is it right?
--     metasyncd --policy my.lua ...          start with it
--     metasyncctl policy reload              after a change

local policy = { name = "default" }

-- How far a change must have got before a write returns: "memory", "os" (survives kill -9 of the broker), "disk" (survives power loss
-- here), "replica" (survives the loss of this machine). Single tables may say otherwise in policy.tables.
policy.ack = "disk"

-- Who wins when two values of one entry meet, after a failover or a restart: "theirs" is what the leader of today has.
policy.resolve = "theirs"

-- A snapshot so long after the first change that is in none, or after so much log, whichever comes first.
policy.snapshot = { every = "30s", log_bytes = "64MiB", keep = 2 }

policy.log = {
    keep = "256MiB",        -- for followers that come back; one that was away for longer loads a snapshot
    max = "1GiB",           -- hard bound: beyond it writes are refused
    on_failure = "refuse",  -- a broken disk stops writes; "pass" lets the broker go on, unreplicated, with an alarm
    segment = "16MiB",      -- (at the next start)
    group = "32KiB",        -- (at the next start)
    tail = "8MiB",          -- unwritten log in memory at which writers wait
    sync_every = "1s",      -- what nobody waits for is synced so often: bounds what power loss takes at level "os"
    mark_changes = 8192,    -- followers compare count and digest of all tables after so many changes
    mark_every = "1s",
}

policy.replica = {
    lag = "10s",            -- a follower that is behind for longer is no longer waited for
    on_none = "refuse",     -- level "replica" without a follower in sync: refuse the write; "degrade" is content with "disk"
}

policy.links = {
    heartbeat = "1s",
    timeout = "5s",         -- a silent link is dead after this
    connect_min = "50ms",   -- pauses between attempts to connect, growing, with jitter
    connect_max = "5s",
    ask = "2s",             -- how long a starting leader asks its peers whether one knows more
    window = "1MiB",        -- (at the next start) unsent bytes per follower in memory
    retain = "8MiB",        -- newest log in memory for all followers
}

policy.host = {
    queue = "16MiB",        -- changes that wait for the broker's callback
    audit_every = "1h",     -- how often a follower's broker is compared with the tables
    beyond_end = "report",  -- offsets beyond the ends of their queues, in a broker that leads; "clamp" sets them to the ends
}

policy.limits = {
    key = "4KiB",           -- these three at the next start
    value = "4MiB",
    batch = "256KiB",
    outside = 100000,       -- entries outside of the view that are remembered
    lua = {
        instructions = 200000, -- of one call of a function below
        time = "5ms",          -- processor time of one call
        wait = "5ms",          -- a broker's thread waits at most so long for another call to end
        memory = "16MiB",
        incidents = 10,        -- a function that failed so often is not called any more until the next reload
    },
}

policy.reload = {
    leave = "10%",          -- more of a table leaving the view needs --force
    probation = "1m",       -- incidents within this time bring the old policy back
}

-- What is replicated: all of it, as long as nothing else is said here; enabled = false: nothing, and the node has no role.
policy.replicate = { enabled = true }
-- policy.replicate = { enabled = true, exclude = { topic = { "BenchmarkTest*" } }, include = { group = { "prod-*" } } }

-- Single tables: a level or a buffer, the type of the values, who wins a conflict.
-- policy.tables = { offset = { type = "int64", buffer = { interval = "200ms", entries = 5000, bytes = "512KiB" }, resolve = "max" } }

-- Functions, where a list of fields is not enough.
-- function policy.filter(entry) return not entry.key:find("^tmp%-") end
-- function policy.resolve(conflict) return conflict.theirs end
-- function policy.flush(stats) return stats.rate > 1000 and 0.5 or 0.05 end
-- function policy.on_event(event) metasync.log(event.text) end
-- function policy.selftest() assert(policy.log.keep) end

return policy
