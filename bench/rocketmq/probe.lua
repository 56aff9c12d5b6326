-- How soon a change of the master shows on the slave: the change by one connection, then the same question to the slave over and over,
-- without a pause, until its answer has what is looked for. Nothing is decoded in between: a frame is asked for a text.
local process = require "spec.support.process"

local probe = {}

-- look: { rpc =, code =, fields =, body = (a request), text =, gone = (wait until the text is not there) }
-- Whether it shows, and how long the question took.
local function asked(look, frame)
    local from = process.now()
    look.rpc:send(frame)
    local answer = look.rpc:frame(from + 20)
    local found = answer:find(look.text, 1, true) ~= nil
    local now = process.now()
    return found ~= (look.gone or false), now - from, now
end

-- Milliseconds from the master's answer to the slave's first one that shows the change, and those of the slave's last answer (the
-- grain: it may have shown that much earlier). nil if it does not show within `seconds`.
function probe.shows(master, change, look, seconds)
    local frame = look.rpc:encoded(look.code, look.fields, look.body)
    change(master)
    local answered = master.answered
    repeat
        local shown, took, now = asked(look, frame)
        if shown then return (now - answered) * 1000, took * 1000 end
    until now - answered > seconds
end

-- One look, for those who pause between looks.
function probe.look(look)
    return (asked(look, look.rpc:encoded(look.code, look.fields, look.body)))
end

return probe
