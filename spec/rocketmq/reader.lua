-- Asks a broker over and over, hundreds of times a second, for a topic, a group and, if it is to have one, a request mode that nobody changes,
-- until a file says stop:
--
--     luajit spec/rocketmq/reader.lua PORT TOPIC GROUP STOP [nomode]
--
-- Prints "N looks" and, a line each, how often which of them was missing.
local process = require "spec.support.process"
local Rpc = require "spec.support.rocketmq_rpc"

local port, topic, group, stop, has_mode = tonumber(arg[1]), arg[2], arg[3], arg[4], arg[5] ~= "nomode"
local rpc = assert(Rpc.connect(port))
local looks, missing = 0, {}

local function look(what, found)
    looks = looks + 1
    if not found then missing[what] = (missing[what] or 0) + 1 end
end

local function is_stopped()
    local file = io.open(stop)
    if file then file:close() end
    return file ~= nil
end

local function names(code, name) -- in the answer's text: to decode all of it would take longer than what is looked for
    local _, body = rpc:call(code)
    return body:find('"' .. name .. '"', 1, true)
end

repeat
    for _ = 1, 5 do
        look("topic " .. topic, rpc:request(351, { topic = topic }).code == 0)
        look("group " .. group, names(201, group))
        if has_mode then look("mode of " .. topic, names(402, topic)) end
    end
    process.pause(0.01) -- the broker has something else to do too
until is_stopped()

print(("%d looks"):format(looks))
for what, count in pairs(missing) do print(("%s was missing %d times"):format(what, count)) end
