-- `make bench-rocketmq`: what the plugin costs a real broker and what it gives, beside the same brokers without it, in one run.
--
--     luajit bench/rocketmq/run.lua --classes DIR --scratch DIR [--quick] [--only NAME] [--strict]
--
-- Sections: visible, load, map, size (--only runs those whose name has this text). --strict: exit status 1 if a target is missed. Everything
-- is on free ports of 127.0.0.1 below one scratch directory; brokers die with this program.
package.path = "bench/?.lua;" .. package.path
local options = require "options"
local report = require "report"
local broker = require "spec.support.broker"
local load = require "bench.rocketmq.load"
local process = require "spec.support.process"
local rows = require "bench.rocketmq.rows"
local size = require "bench.rocketmq.size"
local store = require "bench.rocketmq.store"
local visible = require "bench.rocketmq.visible"

local option = options("bench-rocketmq", { classes = "build/release/bench/rocketmq/classes", scratch = "build/release/bench/rocketmq" })

local quick = option.quick
local function sized(full, small) return quick and small or full end

local VERSION = "5.5.0"
-- With all of the JVM's compilers, as a broker is run. Its own timers are seldom, since what they do would be counted too; and under load it
-- lets requests wait, since one that it refuses is no answer.
local OPTIONS = { "-XX:TieredStopAtLevel=4", "-Xmx768m" }
local CONF = { flushConsumerOffsetInterval = 600000, registerNameServerPeriod = 60000, waitTimeMillsInSendQueue = 20000,
    osPageCacheBusyTimeOutMills = 20000 }

local results, order = {}, {}

local function note(scenario, pair)
    if not results[scenario] then
        results[scenario] = {}
        order[#order + 1] = scenario
    end
    table.insert(results[scenario], pair)
    return pair
end

local started = process.now()
local function say(format, ...)
    io.stderr:write(("bench-rocketmq: %4.0f s  %s\n"):format(process.now() - started, format:format(...)))
end

local open_lab

-- Pairs of brokers by name; the one that is called "with" has the plugin. All masters start at once, then all slaves.
local function pairs_of(names, prepare)
    open_lab = broker.lab(VERSION)
    local made = {}
    for _, name in ipairs(names) do
        local function make(suffix, id)
            local one = open_lab:broker(name .. "-" .. suffix, { version = VERSION, group = name, id = id, plugin = name == "with",
                options = OPTIONS, conf = CONF })
            if prepare then prepare(one) end
            return one
        end
        made[name] = { group = name, master = make("master", 0), slave = make("slave", 1) }
    end
    for _, end_of in ipairs { "master", "slave" } do
        for _, name in ipairs(names) do made[name][end_of]:begin() end
        for _, name in ipairs(names) do made[name][end_of]:wait_port(180) end
    end
    if made.with then made.with.slave:in_sync(120) end
    return made
end

local function done_with_pairs()
    open_lab:close()
    open_lab = nil
end

-- ---- the sections --------------------------------------------------------------------------------------------------------------

local function with_topic(pair)
    pair.master:rpc():create_topic "bench"
    pair.master:rpc():create_group "bench"
end

-- The shipped policy with another flush interval, in the file that the running node has.
local function flush_every(pair, interval)
    local path = pair.master.node .. "/rocketmq.lua"
    local text, count = assert(process.read(path)):gsub('interval = "%d+ms"', ('interval = "%dms"'):format(interval))
    assert(count == 1, path .. " has not one flush interval")
    process.write(path, text)
    local _, status, errors = pair.master:metasyncctl("policy", "reload")
    assert(status == 0, errors)
end

local function section_visible()
    local made = pairs_of { "with", "own" }
    with_topic(made.with)
    with_topic(made.own)
    say("visible: warming up")
    visible.round(made.with, sized(150, 30))
    for round = 1, sized(5, 1) do
        say("visible: round %d", round)
        local numbers = visible.round(made.with, sized(100, 30))
        visible.offsets(made.with, sized(25, 10), 200, numbers)
        note("visible", { ours = numbers })
    end
    flush_every(made.with, 5)
    visible.offsets(made.with, 20, 5, {})
    for round = 1, sized(5, 1) do visible.offsets(made.with, sized(100, 20), 5, results.visible[round].ours) end
    say("visible: the brokers' own sync")
    for round, numbers in ipairs(visible.own(made.own, sized(3, 1))) do results.visible[round].own = numbers end
    done_with_pairs()
end

local CONNECTIONS, GROUPS, MESSAGE = 8, 250, 256

local function prepare_load(pair)
    local rpc, names = pair.master:rpc(), {}
    rpc:create_topic "load"
    for i = 0, GROUPS - 1 do names[#names + 1] = load.group(i) end
    rpc:create_groups(names)
end

-- The order of the pairs turns around each time.
local function in_turn(round, names, fn)
    for k = 1, #names do
        fn(names[round % 2 == 1 and k or #names + 1 - k])
    end
end

local LOADED = { "with", "own", "again" }

local function load_round(made, frames, round, seconds)
    local numbers = { with = {}, own = {}, again = {} }
    for what, kind in pairs(frames) do
        in_turn(round, LOADED, function(name) numbers[name][what] = load.run(made[name].master.port, kind, CONNECTIONS, seconds) end)
    end
    note("load", { ours = numbers.with, own = numbers.own })
    note("load-again", { ours = numbers.again, own = numbers.own })
end

-- Milliseconds until the answer, p50.
local function creations(master, count, round)
    local times = {}
    for i = 1, count do
        local from = process.now()
        master:rpc():create_topic(("made_%d_%d"):format(round, i))
        times[i] = (process.now() - from) * 1000
    end
    return visible.percentile(times, 0.5)
end

-- Every generation of brokers is compiled anew by its JVM, which makes more of a difference than what is measured.
local function section_load()
    local frames = { commits = load.commits(GROUPS), sends = load.sends(MESSAGE) }
    local rounds, seconds = sized(4, 2), sized(1.5, 0.5)
    for generation = 1, sized(3, 1) do
        local made = pairs_of(LOADED)
        for _, pair in pairs(made) do prepare_load(pair) end
        say("load: generation %d is warming up", generation)
        for _ = 1, sized(2, 1) do
            for _, kind in pairs(frames) do
                in_turn(1, LOADED, function(name) load.run(made[name].master.port, kind, CONNECTIONS, sized(2, 1)) end)
            end
        end
        for round = 1, rounds do
            say("load: generation %d, round %d", generation, round)
            load_round(made, frames, round, seconds)
        end
        for round = 0, sized(2, 1) do -- round 0 warms up
            local numbers = {}
            in_turn(round, { "with", "own" }, function(name)
                numbers[name] = { create_p50_ms = creations(made[name].master, sized(60, 20), round) }
            end)
            if round > 0 then note("create", { ours = numbers.with, own = numbers.own }) end
        end
        done_with_pairs()
    end
end

local function section_map()
    local dir = process.tmpdir("map")
    for run = 1, sized(5, 1) do
        say("map: run %d", run)
        local output, status, errors = process.run { "java", "-Duser.home=" .. dir, "-cp",
            ("%s:%s:%s/%s/lib/*"):format(option.classes, broker.jar, broker.brokers, VERSION), "io.metasync.rocketmq.CommitCost",
            dir .. "/" .. run, "lua/policies/rocketmq.lua", sized("10", "4"), sized("300000", "100000") }
        assert(status == 0, errors)
        local numbers = {}
        for name, value in output:gmatch("(%S+) (%S+)\n") do numbers[name] = tonumber(value) end
        note("map", { ours = numbers })
    end
    os.execute("rm -rf " .. process.quote(dir))
end

local TOPICS, OFFSETS = 10000, 100000

local function section_size()
    local made = pairs_of({ "with", "own" }, function(one) store.write(one.store .. "/config", TOPICS, OFFSETS) end)
    size.warm(made.with, made.own, sized(40, 10))
    say("size: one change of many topics")
    local changes = size.changes(made.with, made.own, sized(5, 1), sized(8, 4))
    for _, pair in ipairs(changes) do note("change", pair) end
    if not quick then
        say("size: the brokers' own sync")
        changes[1].own = size.own_change(made.own)
    end
    for _ = 1, sized(5, 1) do
        say("size: idle")
        note("idle", { ours = size.idle(made.with, 10) })
    end
    for round = 1, sized(5, 1) do
        say("size: a slave joins, round %d", round)
        note("join", { ours = size.join(made.with, false, TOPICS) })
        note("join-kept", { ours = size.join(made.with, true, TOPICS) })
    end
    done_with_pairs()
end

-- ---- running --------------------------------------------------------------------------------------------------------------------

local function first_line(command)
    local pipe = io.popen(command)
    local text = pipe:read("*l") or "?"
    pipe:close()
    return text
end

local function machine()
    return ("machine: %s, %s cores, %s, %s; load average %s; brokers %s"):format(
        first_line("sed -n 's/^model name.*: //p' /proc/cpuinfo"), first_line("nproc"), first_line("uname -sr"),
        first_line("java -version 2>&1"), first_line("cut -d' ' -f1-3 /proc/loadavg"), VERSION)
end

local SECTIONS = { { "visible", section_visible }, { "load", section_load }, { "map", section_map }, { "size", section_size } }

print(machine())
local failures = 0
for _, section in ipairs(SECTIONS) do
    if not option.only or section[1]:find(option.only, 1, true) then
        local ok, why = xpcall(section[2], debug.traceback)
        if not ok then
            failures = failures + 1
            io.stderr:write(("bench-rocketmq: %s failed: %s\n"):format(section[1], why))
            if open_lab then open_lab:close(true) end
            open_lab = nil
        end
    end
end

local text, misses = report.render(results, rows)
print(text)
print("")
print(machine())
if quick then print("QUICK: few and short measurements; these numbers mean little") end
local raw = assert(io.open(option.scratch .. "/raw.txt", "w"))
raw:write(report.raw(results, order))
raw:close()
print("every number: " .. option.scratch .. "/raw.txt")
if failures > 0 then print(("FAILED sections: %d"):format(failures)) end
os.exit((failures > 0 or (option.strict and misses > 0)) and 1 or 0)
