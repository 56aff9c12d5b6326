-- no-loss: an acknowledged change is never lost, whichever single machine is.
--
-- Every write waits until it is on the disk of this machine and of every follower in sync, and is refused while there is no such
-- follower. No table is buffered. This costs a round trip and two syncs for each write, shared by those that come together; and with one
-- follower, its failure stops writes until it is back or an operator decides otherwise (replica.on_none = "degrade" and a reload).
--
-- What to change first: replica.lag, which is how long a slow follower may hold everybody up before it is left behind.

local policy = { name = "no-loss" }

policy.ack = "replica"
policy.replica = { lag = "3s", on_none = "refuse" }
policy.log = { keep = "512MiB", max = "2GiB", on_failure = "refuse", sync_every = "100ms" }
policy.snapshot = { every = "30s", keep = 3 }

-- A dead follower has to be noticed soon: writes wait for it.
policy.links = { heartbeat = "200ms", timeout = "2s", connect_max = "1s" }

-- A change that only one side has was acknowledged to somebody: it stays, unless both sides had the entry and one deleted it since.
-- Otherwise the newer one wins.
function policy.resolve(conflict)
    if conflict.theirs == nil and conflict.base == nil then return conflict.mine end
    return metasync.newest(conflict)
end

-- Consumer offsets go back to nobody: the further one. Orders to reset are never decided by size.
policy.tables = {
    offset = { type = "int64", resolve = "max" },
    pull_offset = { type = "int64", resolve = "max" },
    lmq_offset = { type = "int64", resolve = "max" },
    delay_offset = { type = "int64", resolve = "max" },
}

-- Nothing is dropped from what is replicated without somebody saying so.
policy.reload = { leave = "0%", probation = "5m" }

return policy
