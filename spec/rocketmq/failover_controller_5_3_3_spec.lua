local failover = require "spec.rocketmq.failover"

describe("a pair of brokers, with a controller", function() failover.rounds("controller", "5.3.3", 2) end)
