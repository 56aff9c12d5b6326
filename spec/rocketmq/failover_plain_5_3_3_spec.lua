local failover = require "spec.rocketmq.failover"

describe("a pair of brokers, restarted by an operator", function() failover.rounds("plain", "5.3.3", 2) end)
