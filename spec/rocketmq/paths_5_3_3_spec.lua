-- One pair for both: it starts as the cases want it.
local cases = require "spec.rocketmq.cases"

require("spec.rocketmq.paths").all("5.3.3", {
    start = function(lab) return cases.start(lab, "5.3.3") end,
    more = function(test) cases.tests(test, "5.3.3") end,
})
