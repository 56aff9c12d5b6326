-- Tests with one lab of brokers, inside a describe(): the lab is made before the first of them and closed after the last; its directory
-- stays if one has failed. Returns what is called in place of it().
--
--     local test = story { start = function(lab) ... end, stop = function() ... end, after = function() ... end }
--
-- start makes in the lab what the tests need. If they are given: stop ends what is not the lab's, after runs after each test, however it went.
local busted = require "busted"
local broker = require "spec.support.broker"

local it, lazy_setup, lazy_teardown = busted.it, busted.lazy_setup, busted.lazy_teardown

return function(given)
    local lab, failed

    lazy_setup(function()
        lab = broker.lab()
        local ok, why = pcall(given.start, lab)
        if not ok then
            lab:close(true)
            lab = nil
            error(why, 0)
        end
    end)
    lazy_teardown(function()
        if given.stop then given.stop() end
        if lab then lab:close(failed) end
    end)

    return function(name, fn)
        it(name, function()
            local ok, why = pcall(fn)
            if given.after then given.after() end
            if not ok then
                failed = true
                error(why, 0)
            end
        end)
    end
end
