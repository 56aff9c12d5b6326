-- The benchmark: runs our programs, the peer's and the floor's in turn, and prints a table, misses first.
--
--     luajit bench/run.lua --tools build/release/bench [--quick] [--pairs N] [--only WORD] [--strict] [--redis CONNECTIONS]
--
--   --quick   one pair, a tenth of the size: shows that everything works, its numbers mean little
--   --only    scenarios whose name contains WORD, e.g. update, latency-os, join, memory
--   --strict  exit status 1 if a target is missed; else misses don't count, only programs that fail do
--
-- In each pair the order of the programs turns around. All of them work in a scratch directory of their own below --tools,
-- which is emptied before each run, and find memory that was touched just before. Programs die with this one, and their servers with them.
package.path = "bench/?.lua;" .. package.path
local options = require "options"
local report = require "report"

local option = options("bench", { tools = "build/release/bench", pairs = "5", redis = "4" })

local quick = option.quick
local PAIRS = quick and 1 or tonumber(option.pairs)
local SCRATCH = option.tools .. "/scratch"
local updates = quick and 100000 or 1000000
local entries = quick and 100000 or 1000000
local keys = quick and 10000 or 100000
local seconds = quick and 2 or 5

local function sized(text)
    return (text:gsub("%$(%w+)", { updates = updates, entries = entries, keys = keys, seconds = seconds, redis = option.redis }))
end

-- The programs of each scenario; "ours" is first in odd pairs.
local SCENARIOS = {
    { name = "update-os",
        { "ours", "node update --level os --keys $keys --updates $updates" },
        { "redis", "redis_load update --conf bench/redis-everysec.conf --connections $redis --keys $keys --updates $updates" },
        { "floor", "floor update --keys $keys --updates $updates" } },
    { name = "update-disk",
        { "ours", "node update --level disk --keys $keys --updates $updates" },
        { "redis", "redis_load update --conf bench/redis-always.conf --connections $redis --keys $keys --updates $updates" },
        { "floor", "floor update --sync 1000 --keys $keys --updates $updates" } },
    { name = "latency-os",
        { "ours", "node latency --level os --keys $keys --seconds $seconds" },
        { "redis", "redis_load latency --conf bench/redis-everysec.conf --keys $keys --seconds $seconds" } },
    { name = "latency-disk",
        { "ours", "node latency --level disk --keys $keys --seconds $seconds" },
        { "redis", "redis_load latency --conf bench/redis-always.conf --keys $keys --seconds $seconds" } },
    { name = "join",
        { "ours", "node join --entries $entries --seconds $seconds" },
        { "redis", "redis_load join --conf bench/redis-everysec.conf --entries $entries" } },
    { name = "memory-1",
        { "ours", "node memory --threads 1 --keys $keys --commits $updates" },
        { "bare", "floor memory --threads 1 --keys $keys --commits $updates" } },
    { name = "memory-2",
        { "ours", "node memory --threads 2 --keys $keys --commits $updates" },
        { "bare", "floor memory --threads 2 --keys $keys --commits $updates" } },
    { name = "policy-commit", { "ours", "policy commit --keys $keys --commits $updates" } },
    { name = "policy-first", { "ours", "policy first --keys $keys" } },
    { name = "policy-reload", { "ours", "policy reload --entries $entries" } },
    { name = "policy-replay", { "ours", "policy replay --keys $keys --commits $updates" } },
}

local failures = 0

-- Runs one program on an empty scratch directory; its numbers, or nil if it did not come to its end.
local function run(name, who, command)
    os.execute("rm -rf '" .. SCRATCH .. "' && mkdir -p '" .. SCRATCH .. "'")
    os.execute(("%s/floor warm --mib %d >/dev/null"):format(option.tools, quick and 256 or 1536))
    local pipe = io.popen(("exec %s/%s --dir %s"):format(option.tools, sized(command), SCRATCH))
    local numbers, complete = {}, false
    for text in pipe:lines() do
        local key, value = text:match("^(%S+) (%S+)$")
        if key == "complete" then complete = true elseif key then numbers[key] = tonumber(value) end
    end
    pipe:close()
    if complete then return numbers end
    failures = failures + 1
    io.stderr:write(("bench: %s of %s failed: %s\n"):format(who, name, sized(command)))
    return nil
end

local function run_pair(scenario, number)
    local pair = {}
    for k = 1, #scenario do
        local entry = scenario[number % 2 == 1 and k or #scenario + 1 - k]
        pair[entry[1]] = run(scenario.name, entry[1], entry[2])
    end
    return pair
end

local function first_line(command)
    local pipe = io.popen(command)
    local text = pipe:read("*l") or "?"
    pipe:close()
    return text
end

local function machine()
    return ("machine: %s, %s cores, %s, %s; load average %s"):format(
        first_line("sed -n 's/^model name.*: //p' /proc/cpuinfo"), first_line("nproc"), first_line("uname -sr"),
        first_line("redis-server --version | cut -d' ' -f1-3"), first_line("cut -d' ' -f1-3 /proc/loadavg"))
end

if os.execute("command -v redis-server >/dev/null") ~= 0 then
    io.stderr:write("bench: redis-server is not installed (make deps)\n")
    os.exit(2)
end

local results, order = {}, {}
print(machine())
for number = 1, PAIRS do
    for _, scenario in ipairs(SCENARIOS) do
        if not option.only or scenario.name:find(option.only, 1, true) then
            io.stderr:write(("bench: pair %d of %d, %s\n"):format(number, PAIRS, scenario.name))
            results[scenario.name] = results[scenario.name] or {}
            if number == 1 then order[#order + 1] = scenario.name end
            table.insert(results[scenario.name], run_pair(scenario, number))
        end
    end
end
os.execute("rm -rf '" .. SCRATCH .. "'")

local text, misses = report.render(results, report.rows)
print(text)
print("")
print(machine())
if quick then print("QUICK: one pair, small sizes; these numbers mean little") end
local raw = assert(io.open(option.tools .. "/raw.txt", "w"))
raw:write(report.raw(results, order))
raw:close()
print("every number: " .. option.tools .. "/raw.txt")
if failures > 0 then print(("FAILED programs: %d"):format(failures)) end
os.exit((failures > 0 or (option.strict and misses > 0)) and 1 or 0)
