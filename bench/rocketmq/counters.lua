-- What a process of another program has used: processor time to the nanosecond, how often its threads gave the processor away, what it sent.
local ffi = require "ffi"
local process = require "spec.support.process"
local C = ffi.C

local counters = {}

-- Seconds of user and system time of all its threads, also of those that have ended.
function counters.cpu(pid)
    local time = ffi.new("struct process_time[1]")
    local clock = -(pid + 1) * 8 + 2 -- as clock_getcpuclockid makes it: ~pid << 3 | CPUCLOCK_SCHED
    assert(C.process_clock(clock, time) == 0, "no clock of process " .. pid)
    return tonumber(time[0].seconds) + tonumber(time[0].nanoseconds) / 1e9
end

local function threads(pid)
    local pipe = io.popen(("ls /proc/%d/task"):format(pid))
    local list = {}
    for id in pipe:lines() do list[#list + 1] = ("/proc/%d/task/%s/"):format(pid, id) end
    pipe:close()
    return list
end

-- Voluntary context switches of the threads whose name matches the pattern. Those that have ended are missing.
function counters.waits(pid, pattern)
    local sum = 0
    for _, path in ipairs(threads(pid)) do
        if (process.read(path .. "comm") or ""):find(pattern) then
            local count = (process.read(path .. "status") or ""):match("\nvoluntary_ctxt_switches:%s*(%d+)")
            sum = sum + (tonumber(count) or 0)
        end
    end
    return sum
end

-- Thread name -> seconds that its threads have run. Those that have ended are missing.
function counters.running(pid)
    local seconds = {}
    for _, path in ipairs(threads(pid)) do
        local name = (process.read(path .. "comm") or ""):match("^[^\n]*")
        local ran = (process.read(path .. "schedstat") or ""):match("^%d+")
        if name and ran then seconds[name] = (seconds[name] or 0) + tonumber(ran) / 1e9 end
    end
    return seconds
end

-- Payload that connections to this port of 127.0.0.1 have carried, both directions, as the kernel counts it.
function counters.carried(port)
    local pipe = io.popen(("ss -tinH state established '( sport = :%d )'"):format(port))
    local text = pipe:read("*a")
    pipe:close()
    local bytes = 0
    for count in text:gmatch("bytes_sent:(%d+)") do bytes = bytes + tonumber(count) end
    for count in text:gmatch("bytes_received:(%d+)") do bytes = bytes + tonumber(count) end
    assert(bytes > 0, "nothing was carried to port " .. port)
    return bytes
end

return counters
