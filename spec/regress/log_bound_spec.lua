-- The memory bench with ten million commits: half of the snapshots failed, since the walk could begin inside an open group of the log
-- ("no group of the log starts at lsn ..."), and a log at its bound refused writers instead of letting them wait for its next snapshot.
require("spec.support.program").describe("a log that is written faster than it is trimmed", "node_log_bound")
