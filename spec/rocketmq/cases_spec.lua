local cases = require "spec.rocketmq.cases"
local story = require "spec.rocketmq.story"

describe("a pair of brokers of a site", function()
    local function start(lab)
        cases.start(lab, "5.5.0", { conf = { autoCreateTopicEnable = false } })
    end

    cases.tests(story { start = start }, "5.5.0")
end)
