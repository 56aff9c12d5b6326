-- busted's output for spec/run.lua: a failure is printed in full, a success not at all, and the counts go to the file that
-- MS_REPORT names: "passed failed pending". With MS_SLOW=1 tests of more than a second are named too.
local pretty = require "pl.pretty"

return function(options)
    local busted = require "busted"
    local handler = require "busted.outputHandlers.base"()

    local function describe(failure)
        local trace = failure.element.trace or failure.trace or {}
        local message = failure.message
        if type(message) ~= "string" then message = message == nil and "nil error" or pretty.write(message) end
        print(("FAILED %s:%s"):format(trace.short_src or "?", trace.currentline or "?"))
        print("  " .. failure.name)
        print("  " .. message:gsub("\n", "\n  "))
        if failure.trace and failure.trace.traceback then print((failure.trace.traceback:gsub("\n", "\n  "))) end
    end

    function handler.testEnd(element, _, status)
        if os.getenv("MS_SLOW") and element.duration and element.duration > 1 then
            print(("%6.1f s  %s  (%s)"):format(element.duration, handler.getFullName(element), status))
        end
        return nil, true
    end

    function handler.suiteEnd()
        for _, failure in ipairs(handler.failures) do describe(failure) end
        for _, failure in ipairs(handler.errors) do describe(failure) end
        local failed = handler.failuresCount + handler.errorsCount
        local counts = ("%d %d %d"):format(handler.successesCount, failed, handler.pendingsCount)
        local path = os.getenv("MS_REPORT")
        if path then
            local file = assert(io.open(path, "w"))
            file:write(counts, "\n")
            assert(file:close())
        end
        return nil, true
    end

    busted.subscribe({ "test", "end" }, handler.testEnd)
    busted.subscribe({ "suite", "end" }, handler.suiteEnd)
    handler.options = options
    return handler
end
