-- rocketmq: an Apache RocketMQ broker's metadata, table by table.
--
-- Topics and groups are on disk before the broker's answer goes out. Offsets change thousands of times a second and are worth less: they
-- are buffered for 200 ms, and what a crash may take is bounded by at_risk. After a failover the further offset wins, unless somebody
-- reset it on purpose.
--
-- What to change first: `interval` and `at_risk` of the offset tables, log.keep (how long a slave may be away), replicate.exclude.

local policy = { name = "rocketmq" }

policy.ack = "disk"

-- A broker that can't write its metadata still serves messages: go on unreplicated, loudly.
policy.log = { keep = "256MiB", max = "1GiB", on_failure = "pass" }
-- Seldom: it writes all tables, whatever has changed; the log has the rest. A busy broker makes one after 64 MiB of log.
policy.snapshot = { every = "10m", keep = 2 }

-- A new master may have fewer messages than were consumed from the old one. Consumers wait there until their queue has grown over the
-- offset, and miss what comes until then; "clamp" sets such offsets to the queue's end.
policy.host = { beyond_end = "report" }

-- Two hosts that have nothing to tell each other wake as seldom as that allows.
policy.links = { heartbeat = "2500ms", timeout = "5s" }

-- ---- conflicts -----------------------------------------------------------------------------------------------------------------
-- mine: what a broker had that stopped being master; theirs: what today's master has; base: what both had before, if it is known.

-- Definitions (topics, groups, ...): what only the old master has was acknowledged to somebody, so it stays. Otherwise the newer one; so
-- too where a broker's own files are compared with the log: what is only in an older file was deleted since.
local function keep(conflict)
    if conflict.reason ~= "host" and conflict.theirs == nil and conflict.base == nil then return conflict.mine end
    return metasync.newest(conflict)
end

-- Offsets: the further one, so that nothing is consumed twice. An offset that went down from the common base was reset on purpose, maybe
-- to 0, and stays so: the master's reset first. One that the master has deleted since stays deleted. Of what a broker loaded from its
-- file, the newer one wins if that is known: an old file must not undo a reset.
local function further(conflict)
    local mine, theirs, base = conflict.mine, conflict.theirs, conflict.base
    if conflict.reason == "host" and (theirs == nil or conflict.newer) then return metasync.newest(conflict) end
    if base ~= nil then
        if theirs == nil or theirs < base then return nil end
        if mine ~= nil and mine < base then return mine end
    end
    return metasync.max(conflict)
end

-- Orders to reset an offset: never by size. One that only the old master has was given by an operator and is not carried out yet.
local function order(conflict)
    if conflict.theirs == nil and conflict.mine ~= conflict.base then return conflict.mine end
    return metasync.newest(conflict)
end

policy.resolve = keep

-- ---- tables ----------------------------------------------------------------------------------------------------------------------

local function hot(entries, bytes)
    return { interval = "200ms", entries = entries, bytes = bytes }
end

policy.tables = {
    -- definitions
    topic = { ack = "disk", type = "json" },
    group = { ack = "disk", type = "json" },
    request_mode = { ack = "disk", type = "json" },
    topic_mapping = { ack = "disk", type = "json" },
    forbidden = { ack = "disk", type = "int64" },
    data_version = { ack = "disk", type = "json", resolve = "theirs" }, -- only a master makes versions

    -- consumer offsets: at most 1 s or 20,000 of them are at risk
    offset = { type = "int64", buffer = hot(5000, "512KiB"), at_risk = { time = "1s", entries = 20000 }, resolve = further },
    pull_offset = { type = "int64", buffer = hot(5000, "512KiB"), at_risk = { time = "1s", entries = 20000 }, resolve = further },
    -- light message queues, where they are on: a table of its own, so said on its own
    lmq_offset = { type = "int64", buffer = hot(5000, "512KiB"), at_risk = { time = "1s", entries = 20000 }, resolve = further },
    -- an order of an operator: on disk at once, never "max"
    reset_offset = { type = "int64", ack = "disk", resolve = order },

    -- progress of the broker's own services
    delay_offset = { type = "int64", buffer = hot(1000, "64KiB"), at_risk = { time = "1s" }, resolve = further },
    timer_checkpoint = { type = "int64", buffer = hot(1000, "64KiB"), at_risk = { time = "1s" }, resolve = "theirs" },
    timer_metrics = { type = "json", buffer = hot(1000, "256KiB"), at_risk = { time = "2s" }, resolve = "theirs" },
    order_info = { type = "json", buffer = hot(1000, "1MiB"), at_risk = { time = "2s" }, resolve = "newest" },
}

-- Topics of a load test need no slave:
-- policy.replicate = { exclude = { topic = { "BenchmarkTest*" } } }

function policy.selftest()
    local reset = further { mine = 100LL, theirs = 0LL, base = 50LL }
    assert(reset == nil, "a reset to 0 by the master has to win over an advanced offset")
    assert(further { mine = 100LL, theirs = 70LL, base = 50LL } == 100LL, "the further offset has to win")
    assert(keep { mine = "a", reason = "host", newer = "theirs" } == nil, "an older file must not bring back what was deleted")
    assert(keep { mine = "a", reason = "host", newer = "mine" } == "a", "what a newer file has in addition has to stay")
    assert(keep { mine = "a", reason = "deposed", newer = "theirs" } == "a", "what the old master had promised has to stay")
    assert(further { mine = 100LL, theirs = 0LL, reason = "host", newer = "theirs" } == nil, "an older file must not undo a reset")
    assert(further { mine = 100LL, reason = "host", newer = "theirs" } == nil, "an older file must not bring back an offset row")
    assert(order { mine = 0LL, base = nil, theirs = nil } == 0LL, "an order that was not carried out has to stay")
end

return policy
