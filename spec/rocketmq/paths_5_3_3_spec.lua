-- One pair for both: it starts as the cases want it.
local cases = require "spec.rocketmq.cases"
local paths = require "spec.rocketmq.paths"

paths.all("5.3.3", {
    start = function(lab) return cases.start(lab, "5.3.3", { conf = paths.TIMERS }) end,
    more = function(test) cases.tests(test, "5.3.3") end,
})
