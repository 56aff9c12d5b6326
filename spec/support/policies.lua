-- Policy files for specs about nodes with policies.
local process = require "spec.support.process"

local policies = {}

-- Writes a policy file into the cluster's directory, in one step as an operator's tool should, and returns its path.
function policies.write(c, name, text)
    local path = ("%s/%s.lua"):format(c.dir, name)
    process.write(path .. ".new", text)
    assert(os.rename(path .. ".new", path))
    return path
end

-- The policy that shows in a node's status.
function policies.of(node)
    return node:status().policy
end

-- What must not move when a policy is reloaded: links, bootstraps and the like, of both ends.
function policies.links(leader, follower)
    local a, b = leader:status(), follower:status()
    return table.concat({ #a.peers, a.peers[1] and a.peers[1].state or "none", b.following.state, b.counters.connects, b.counters.bootstraps,
        b.counters.resumes, a.counters.snapshots_sent, a.counters.stepdowns, a.epoch.id, a.counters.link_timeouts, b.counters.link_timeouts }, " ")
end

-- Waits until the look at all entries that a reload starts is over.
function policies.settled(node)
    return node:wait("its view is settled", function(s) return not s.policy.review.running end)
end

return policies
