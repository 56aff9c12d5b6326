-- The main job of metasync, shown with two real daemons on this machine: import, follow, change, crash, resume, fail over, return.
-- Every step prints the command that an operator would type. At the end stands what was checked; exit status 1 if any of it failed.
local cluster = require "spec.support.cluster"
local json = require "spec.support.json"
local process = require "spec.support.process"

local EXAMPLE = "plugins/standalone/example"
local OFFSETS = 10000

local OPTIONS = { "--table", "offset=buffer:200:5000" }

local c = cluster.new(OPTIONS, "nodes")
local a, b = c:node "a", c:node "b"
local checks = {}

-- ---- telling ------------------------------------------------------------------------------------------------------------

local function say(format, ...)
    print(select("#", ...) > 0 and format:format(...) or format)
    io.flush()
end

local steps = 0
local function step(title)
    steps = steps + 1
    say("\n%d. %s", steps, title)
end

-- Paths are shown as if the scratch directory were the current one.
local function show_command(words)
    local directory = (c.dir .. "/"):gsub("%p", "%%%0")
    say("   $ %s", (table.concat(words, " "):gsub(directory, "")))
end

local function print_table(rows)
    local widths = {}
    for _, row in ipairs(rows) do
        for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, #tostring(cell)) end
    end
    for _, row in ipairs(rows) do
        local cells = {}
        for i, cell in ipairs(row) do
            local blanks = (" "):rep(widths[i] - #tostring(cell))
            cells[i] = type(cell) == "number" and blanks .. cell or cell .. blanks
        end
        say("   " .. table.concat(cells, "  "):gsub("%s+$", ""))
    end
end

local function check(what, expected, seen)
    local ok = expected == seen
    checks[#checks + 1] = { what, tostring(expected), tostring(seen), ok and "ok" or "FAILED" }
    return ok
end

-- ---- doing --------------------------------------------------------------------------------------------------------------

local function start(node, ...)
    local words = { "metasyncd", "--data", node.name, "--listen", node.address, unpack(OPTIONS) }
    for _, word in ipairs { ... } do words[#words + 1] = word end
    show_command(words)
    node:start { ... }
end

-- Types a metasyncctl command; its output is the result (decoded, if --json was asked for). Errors end the demo.
local function ctl(node, ...)
    local words = { ... }
    for i, word in ipairs(words) do words[i] = word:find "[ {]" and "'" .. word .. "'" or word end
    show_command { "metasyncctl", "--data", node.name, table.concat(words, " ") }
    local output, status, errors = node:ctl("--json", ...)
    if status ~= 0 then error(("metasyncctl ended with status %d: %s%s"):format(status, output, errors), 0) end
    return output ~= "" and json.decode(output) or nil
end

-- Milliseconds from the leader taking the change to the follower having it in its table, by the follower's own record.
local function took_ms(follower, lsn, at_us)
    local time_us
    process.eventually("the follower applied position " .. lsn, function()
        local reply = follower:call { command = "applied", lsn = lsn }
        time_us = reply and reply.ok and reply.time_us
        return time_us
    end)
    return (time_us - at_us) / 1000
end

local function tables_of(node)
    local map = {}
    for _, t in ipairs(node:status().tables) do map[t.name] = t end
    return map
end

-- Waits until both are at one position, shows their tables side by side, and returns how many are equal and the position.
local function compare(leader, follower)
    local status = c:equal(leader, follower)
    local here, there = tables_of(leader), tables_of(follower)
    local rows, equal, names = { { "TABLE", "ENTRIES " .. leader.name, "ENTRIES " .. follower.name, "DIGEST " .. leader.name,
        "DIGEST " .. follower.name } }, 0, {}
    for name in pairs(here) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
        local one, other = here[name], there[name] or {}
        rows[#rows + 1] = { name, one.logged_entries, other.logged_entries or 0, one.digest, other.digest or "-" }
        if one.digest == other.digest and one.logged_entries == other.logged_entries then equal = equal + 1 end
    end
    print_table(rows)
    return ("%d of %d equal"):format(equal, #names), status.log.head, ("%d of %d equal"):format(#names, #names)
end

-- How many offsets of `now` are below what they were in `before`.
local function rewound(before, now)
    local count = 0
    for key, value in pairs(before) do
        if not now[key] or now[key] < value then count = count + 1 end
    end
    return count
end

local function count_of(map)
    local n = 0
    for _ in pairs(map) do n = n + 1 end
    return n
end

local function write_offsets(path, base)
    local lines = {}
    for i = 1, OFFSETS do
        lines[i] = ('{"table":"offset","key":"demo_topic_%03d@GID_demo","field":%d,"value":%d}'):format(i % 625, i % 16, base + i)
    end
    process.write(path, table.concat(lines, "\n") .. "\n")
end

-- ---- the story ----------------------------------------------------------------------------------------------------------

local function import_and_follow()
    step "A leader imports a broker's files, a follower follows it"
    os.execute(("cp -r %s %s/config"):format(EXAMPLE, c.dir))
    start(a, "--lead", "--import", c.dir .. "/config")
    start(b, "--follow", a.address)
    local equal, position, all = compare(a, b)
    check("tables after the import, at position " .. position, all, equal)
end

local function change()
    step "Changes on the leader, and when the follower had them"
    local rows = { { "CHANGE", "POSITION", "ON THE FOLLOWER AFTER" } }
    local function add(what, lsn, ms, most)
        rows[#rows + 1] = { what, lsn, ("%.1f ms"):format(ms) }
        local wanted = ("within %d ms"):format(most)
        check("time for " .. what .. " to reach the follower", wanted, ms <= most and wanted or ("%.0f ms"):format(ms))
    end
    local put = ctl(a, "put", "topic", "demo_topic", '{"perm":6,"readQueueNums":16}')
    add("a topic", put.lsn, took_ms(b, put.lsn, put.at_us), 1000)
    put = ctl(a, "put", "group", "GID_demo", '{"consumeEnable":true,"retryMaxTimes":16}')
    add("a group", put.lsn, took_ms(b, put.lsn, put.at_us), 1000)
    write_offsets(c.dir .. "/offsets.jsonl", 1000000)
    local batch = ctl(a, "put", "--batch", c.dir .. "/offsets.jsonl")
    local flush = a:must "flush"
    add(("%d offsets"):format(OFFSETS), flush.lsn, took_ms(b, flush.lsn, batch.first_at_us), 5000)
    print_table(rows)
    say "   (offsets: from the first one taken by the leader to the last one applied by the follower; they are double-buffered,"
    say "   their newest values are logged every 200 ms, or at 5000 changed ones)"
    local equal, position, all = compare(a, b)
    check("tables after the changes, at position " .. position, all, equal)
    check("the topic on the follower", '{"perm":6,"readQueueNums":16}', ctl(b, "get", "topic", "demo_topic").value)
end

local function crash_leader()
    step "kill -9 of the leader, and its restart"
    local bootstraps, resumes = b:status().counters.bootstraps, b:status().counters.resumes
    say "   $ kill -9 <metasyncd of a>"
    a:kill()
    b:wait("it has noticed", function(s) return s.following.state ~= "stream" end)
    start(a, "--lead")
    ctl(a, "put", "topic", "after_the_crash", '{"perm":6}')
    c:equal(a, b)
    local counters = b:status().counters
    say("   the follower went on where it was (resumes: %d), without a snapshot (bootstraps: %d)", counters.resumes - resumes,
        counters.bootstraps - bootstraps)
    check("resumes after the leader's crash", 1, counters.resumes - resumes)
    check("snapshots that were needed for it", 0, counters.bootstraps - bootstraps)
    check("the topic made after the restart", '{"perm":6}', b:get("topic", "after_the_crash"))
end

local function fail_over()
    step "The leader dies for good: the follower is promoted"
    b:wait("nothing would be lost", function(s) return s.safe_to_failover end)
    local before = a:entries "offset"
    say "   $ metasyncctl --data b status      # failover: safe now, nothing would be lost"
    say "   $ kill -9 <metasyncd of a>"
    a:kill()
    local from = process.now()
    ctl(b, "promote")
    local status = b:status()
    say("   b leads reign %d, %.0f ms after the command was given", status.epoch.reign, (process.now() - from) * 1000)
    check("role of b after the promotion", "leader", status.role)
    check("reign", 1, status.epoch.reign)
    check("offsets on b that are behind the dead leader's", 0, rewound(before, b:entries "offset"))
    write_offsets(c.dir .. "/offsets.jsonl", 2000000)
    ctl(b, "put", "--batch", c.dir .. "/offsets.jsonl")
    b:must "flush"
    return before
end

local function come_back(before)
    step "The old leader comes back, as a follower"
    local promoted = b:entries "offset"
    start(a, "--follow", b.address)
    local equal, position, all = compare(b, a)
    check("tables after the return, at position " .. position, all, equal)
    local here, there = b:entries "offset", a:entries "offset"
    local same = 0
    for key, value in pairs(here) do
        if there[key] == value then same = same + 1 end
    end
    check("offsets compared entry by entry", ("%d equal"):format(count_of(here)), ("%d equal"):format(same))
    check("offsets that went back, on a and on b", 0, rewound(before, there) + rewound(promoted, there) + rewound(promoted, here))
    check("snapshots that the return needed", 0, a:status().counters.bootstraps)
    ctl(a, "export", c.dir .. "/export-a")
    ctl(b, "export", c.dir .. "/export-b")
    show_command { "diff -r export-a export-b" }
    local differences, status = process.run { "diff", "-r", c.dir .. "/export-a", c.dir .. "/export-b" }
    check("difference of the exported RocketMQ files", "none", status == 0 and "none" or differences:sub(1, 60))
end

local function tell()
    import_and_follow()
    change()
    crash_leader()
    come_back(fail_over())
    step "What an operator sees"
    local output = cluster.ctl("status", a.address, b.address)
    show_command { "metasyncctl status", a.address, b.address }
    say("   %s", (output:gsub("\n(.)", "\n   %1"):gsub("\n$", "")))
end

local function conclude(from)
    say "\nChecked\n"
    table.insert(checks, 1, { "CHECK", "EXPECTED", "SEEN", "" })
    print_table(checks)
    local failed = 0
    for _, row in ipairs(checks) do failed = failed + (row[4] == "FAILED" and 1 or 0) end
    say("\n%d checks, %d failed, %.1f s", #checks - 1, failed, process.now() - from)
    return failed == 0
end

local from = process.now()
say("metasync: two nodes, a crash, a failover and a return (what they write is below %s until the end)", c.dir)
local ok, why = xpcall(tell, function(what) return type(what) == "string" and what or debug.traceback(tostring(what)) end)
if not ok then
    io.stderr:write("\nthe demo failed: ", why, "\n")
    c:show_logs()
end
local good = conclude(from)
if not ok then say "(it did not get to its end, see above)" end
c:close()
os.exit(ok and good and 0 or 1)
