-- low-traffic-wan: a follower far away, over a line that is slow, expensive, or often gone.
--
-- Fewer and larger packets instead of fast ones: hot tables are logged every 5 s, heartbeats are rare, a silent link is not given up
-- early, and enough log is kept for a line that is down for long. What a crash of the leader may take from buffered tables is up to 10 s:
-- use it for a remote copy, not for the failover next door.
--
-- What to change first: `interval` and `at_risk` (traffic against loss), log.keep (how long the line may be down without a new snapshot).

local policy = { name = "low-traffic-wan" }

-- Writes are safe on the local disk and don't wait for the far side.
policy.ack = "disk"

-- Who wins after a failover: the newer value where that is known.
policy.resolve = "newest"

local function rare()
    return { interval = "5s", entries = 50000, bytes = "1MiB" }
end

policy.tables = {
    offset = { type = "int64", buffer = rare(), at_risk = { time = "10s" }, resolve = "max" },
    pull_offset = { type = "int64", buffer = rare(), at_risk = { time = "10s" }, resolve = "max" },
    lmq_offset = { type = "int64", buffer = rare(), at_risk = { time = "10s" }, resolve = "max" },
    delay_offset = { type = "int64", buffer = rare(), at_risk = { time = "10s" }, resolve = "max" },
    timer_checkpoint = { type = "int64", buffer = rare(), at_risk = { time = "10s" } },
    timer_metrics = { buffer = rare(), at_risk = { time = "10s" } },
    reset_offset = { type = "int64", ack = "disk" }, -- an order, not a progress: never "max"
}

-- A snapshot is what a far follower has to fetch whole: keep the log long, so that it rarely has to.
policy.log = { keep = "1GiB", max = "2GiB", on_failure = "pass", mark_every = "10s" }
policy.snapshot = { every = "10m", log_bytes = "128MiB", keep = 2 }

policy.links = {
    heartbeat = "10s",
    timeout = "45s",      -- a line that stalls for half a minute is not dead
    connect_min = "1s",
    connect_max = "2m",   -- and one that is gone is not called all the time
    ask = "10s",
    retain = "32MiB",
}

policy.replica = { lag = "2m", on_none = "degrade" }

return policy
