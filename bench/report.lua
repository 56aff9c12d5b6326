-- What is compared with what, and the table of it. Pure: numbers in, text out.
--
-- A row judges one metric of our program. `against` names the program of the same scenario whose metric of the same name (or
-- `their`) it is divided by, once per pair; without it the number itself is judged. The row's result is the median over the
-- pairs of these ratios or numbers. A row without at_least and at_most has no target and is shown only.
local report = {}

-- ran: metrics that have to be above zero, or else what the row judges did not happen and it has no result.
-- kind: "ratio" ours / theirs, "faster" theirs / ours, "beyond" ours - our own metric `their`, "over" ours - theirs, "plain" ours, beside
-- theirs if `against` is given.
report.rows = {
    { scenario = "update-os", text = "updates/s, os, against Redis everysec", metric = "updates_per_s", unit = "/s",
        kind = "ratio", against = "redis", at_least = 3 },
    { scenario = "update-os", text = "updates/s, os, against the floor", metric = "updates_per_s", unit = "/s",
        kind = "ratio", against = "floor", at_least = 1 / 3 },
    { scenario = "update-os", text = "CPU s per million, both ends, os, against Redis everysec", metric = "cpu_s", unit = "s",
        kind = "ratio", against = "redis", at_most = 1 / 3 },
    { scenario = "update-os", text = "wire bytes per update", metric = "wire_bytes", unit = "B",
        kind = "ratio", against = "redis", at_most = 0.9 },
    { scenario = "update-disk", text = "updates/s, disk, against Redis always", metric = "updates_per_s", unit = "/s",
        kind = "ratio", against = "redis", at_least = 3 },
    { scenario = "update-disk", text = "CPU s per million, both ends, disk, against Redis always", metric = "cpu_s", unit = "s",
        kind = "ratio", against = "redis", at_most = 1 / 3 },
    { scenario = "latency-os", text = "change to applied at the follower, p50, os / everysec", metric = "applied_p50_us",
        unit = "us", kind = "ratio", against = "redis", at_most = 0.5 },
    { scenario = "latency-os", text = "change to applied at the follower, p99, os / everysec", metric = "applied_p99_us",
        unit = "us", kind = "ratio", against = "redis", at_most = 0.5 },
    { scenario = "latency-os", text = "the same to the host's callback, p50, os / everysec", metric = "host_p50_us",
        their = "applied_p50_us", unit = "us", kind = "ratio", against = "redis" },
    { scenario = "latency-disk", text = "change to applied at the follower, p50, disk / always", metric = "applied_p50_us",
        unit = "us", kind = "ratio", against = "redis", at_most = 0.5 },
    { scenario = "latency-disk", text = "change to applied at the follower, p99, disk / always", metric = "applied_p99_us",
        unit = "us", kind = "ratio", against = "redis", at_most = 0.5 },
    { scenario = "latency-disk", text = "the same to the host's callback, p50, disk / always", metric = "host_p50_us",
        their = "applied_p50_us", unit = "us", kind = "ratio", against = "redis" },
    { scenario = "join", text = "an empty follower joins, times faster", metric = "join_s", unit = "s",
        kind = "faster", against = "redis", at_least = 2.5 },
    { scenario = "join", text = "leader grows meanwhile, MiB", metric = "leader_growth_mib", unit = "MiB",
        kind = "plain", at_most = 64 },
    { scenario = "join", text = "leader grows meanwhile, under load, MiB", metric = "leader_growth_loaded_mib", unit = "MiB",
        kind = "plain", at_most = 64 },
    { scenario = "join", text = "longest lock hold during the joins, at most, us", metric = "join_lock_us", unit = "us", kind = "plain",
        at_most = 500 },
    { scenario = "join", text = "the same since the start of the leader, the loading too, us", metric = "max_lock_us", unit = "us", kind = "plain" },
    { scenario = "join", text = "longest stall of a bare thread on this machine, us", metric = "stall_us", unit = "us", kind = "plain" },
    { scenario = "join", text = "longest call, beyond that without a join, us", metric = "call_joining_max_us",
        their = "call_alone_max_us", unit = "us", kind = "beyond", at_most = 5000 },
    { scenario = "join", text = "resident bytes per entry, leader", metric = "entry_bytes_leader", unit = "B",
        kind = "ratio", against = "redis", at_most = 1 },
    { scenario = "join", text = "resident bytes per entry, follower", metric = "entry_bytes_follower", unit = "B",
        kind = "ratio", against = "redis", at_most = 1 },
    { scenario = "memory-1", text = "memory commit, p50, us", metric = "commit_p50_us", unit = "us",
        kind = "plain", at_most = 1 },
    { scenario = "memory-1", text = "memory commit, p99.9, against the bare loop", metric = "commit_p999_us", unit = "us",
        kind = "ratio", against = "bare", at_most = 2 },
    { scenario = "memory-2", text = "memory commits/s, two threads, against the bare loop", metric = "commits_per_s", unit = "/s",
        kind = "ratio", against = "bare", at_least = 0.9 },
    { scenario = "policy-commit", text = "commit with patterns, against none", metric = "commit_patterns_ratio", unit = "",
        kind = "plain", at_most = 1.05 },
    { scenario = "policy-commit", text = "commit with a filter, against none", metric = "commit_filter_ratio", unit = "",
        kind = "plain", at_most = 1.05 },
    { scenario = "policy-first", text = "first put of a key with a filter, p50, us", metric = "first_filter_p50_us", unit = "us",
        kind = "plain", at_most = 5 },
    { scenario = "policy-first", text = "the same without a policy's functions, p50, us", metric = "first_plain_p50_us", unit = "us",
        kind = "plain" },
    { scenario = "policy-reload", text = "longest lock hold of two reloads at a million entries, at most, us",
        metric = "reload_lock_us", unit = "us", kind = "plain", at_most = 500 },
    { scenario = "policy-reload", text = "the same with no reload, 4 s of the same puts, at most, us", metric = "no_reload_lock_us", unit = "us",
        kind = "plain" },
    { scenario = "policy-reload", text = "longest stall of a bare thread on this machine, us", metric = "stall_us", unit = "us", kind = "plain" },
    { scenario = "policy-reload", text = "longest put meanwhile, patterns, us", metric = "reload_patterns_call_us", unit = "us",
        kind = "plain" },
    { scenario = "policy-reload", text = "longest put meanwhile, filter, us", metric = "reload_filter_call_us", unit = "us",
        kind = "plain" },
    { scenario = "policy-replay", text = "replayed changes/s, declarative", metric = "replay_declarative_per_s", unit = "/s",
        kind = "plain", at_least = 500000 },
    { scenario = "policy-replay", text = "the same with a conflict for every two changes", metric = "replay_conflicts_per_s", unit = "/s",
        kind = "plain" },
    { scenario = "policy-replay", text = "the same, filter and resolver in Lua", metric = "replay_functions_per_s", unit = "/s",
        kind = "plain", at_least = 100000, ran = { "replay_functions_filter_calls", "replay_functions_resolve_calls" } },
    { scenario = "policy-replay", text = "calls of the filter meanwhile", metric = "replay_functions_filter_calls", unit = "", kind = "plain" },
    { scenario = "policy-replay", text = "calls of the resolver meanwhile", metric = "replay_functions_resolve_calls", unit = "", kind = "plain" },
}

function report.median(list)
    local sorted = {}
    for i, v in ipairs(list) do sorted[i] = v end
    table.sort(sorted)
    local n = #sorted
    if n == 0 then return nil end
    if n % 2 == 1 then return sorted[(n + 1) / 2] end
    return (sorted[n / 2] + sorted[n / 2 + 1]) / 2
end

local function judged(row, ours, theirs)
    for _, metric in ipairs(row.ran or {}) do
        if (ours[metric] or 0) <= 0 then return nil end
    end
    local mine = ours[row.metric]
    local other = theirs and theirs[row.their or row.metric]
    if row.kind == "plain" then return mine, other, mine end
    if not mine or not other then return mine, other, nil end
    if row.kind == "beyond" or row.kind == "over" then return mine, other, mine - other end
    if row.kind == "faster" then return mine, other, other / mine end
    return mine, other, mine / other
end

-- results[scenario] is a list of pairs; a pair maps "ours" and the others' names to { metric = number }, or to nothing if that
-- program failed. Returns nil if the scenario was not run.
function report.judge(row, results)
    local pairs_run = results[row.scenario]
    if not pairs_run then return nil end
    local mine, other, values = {}, {}, {}
    for _, pair in ipairs(pairs_run) do
        local theirs = row.kind == "beyond" and pair.ours or pair[row.against]
        local a, b, value = judged(row, pair.ours or {}, theirs)
        if a then mine[#mine + 1] = a end
        if b then other[#other + 1] = b end
        if value then values[#values + 1] = value end
    end
    local value = report.median(values)
    local met = value ~= nil and #values == #pairs_run
        and (not row.at_least or value >= row.at_least) and (not row.at_most or value <= row.at_most)
    table.sort(values)
    return { row = row, value = value, low = values[1], high = values[#values], ours = report.median(mine),
        theirs = report.median(other), met = met, complete = #values == #pairs_run }
end

local function number(v)
    if not v then return "-" end
    local size = math.abs(v)
    if size >= 10000 then return ("%d"):format(v) end
    if size >= 100 then return ("%.0f"):format(v) end
    if size >= 10 then return ("%.1f"):format(v) end
    return ("%.2f"):format(v)
end

local function target(row)
    if not row.at_most and not row.at_least then return "-" end
    if row.at_most then return "<= " .. number(row.at_most) end
    return ">= " .. number(row.at_least)
end

local WIDTHS = { 6, 60, 10, 10, 10, 16, 9 }

local function line(cells)
    local out = {}
    for i, cell in ipairs(cells) do
        local width = WIDTHS[i]
        out[i] = i <= 2 and ("%-" .. width .. "s"):format(cell) or ("%" .. width .. "s"):format(cell)
    end
    return (table.concat(out, " "):gsub("%s+$", ""))
end

local HEAD = line({ "", "median over the pairs", "ours", "theirs", "result", "from .. to", "target" })

local function show(verdict)
    local row = verdict.row
    local range = verdict.low and number(verdict.low) .. " .. " .. number(verdict.high) or "-"
    local word = not verdict.complete and "NONE" or not verdict.met and "MISS" or (row.at_least or row.at_most) and "ok" or ""
    return line({ word, row.text, number(verdict.ours), number(verdict.theirs), number(verdict.value), range, target(row) })
end

-- The whole report of these rows as text, misses first, and how many there are.
function report.render(results, rows)
    local all, missed = {}, {}
    for _, row in ipairs(rows) do
        local verdict = report.judge(row, results)
        if verdict then
            all[#all + 1] = show(verdict)
            if not verdict.met then missed[#missed + 1] = all[#all] end
        end
    end
    local out = { ("MISSES: %d of %d"):format(#missed, #all) }
    if #missed > 0 then
        out[#out + 1] = HEAD
        for _, text in ipairs(missed) do out[#out + 1] = text end
    end
    out[#out + 1] = ""
    out[#out + 1] = "ALL ROWS"
    out[#out + 1] = HEAD
    for _, text in ipairs(all) do out[#out + 1] = text end
    return table.concat(out, "\n"), #missed
end

-- Every number that was measured: scenario, who, metric, one value per pair.
function report.raw(results, order)
    local out = {}
    for _, name in ipairs(order) do
        local seen = {}
        for _, pair in ipairs(results[name] or {}) do
            for who, metrics in pairs(pair) do
                for metric in pairs(metrics) do seen[who .. " " .. metric] = { who, metric } end
            end
        end
        local keys = {}
        for key in pairs(seen) do keys[#keys + 1] = key end
        table.sort(keys)
        for _, key in ipairs(keys) do
            local who, metric = seen[key][1], seen[key][2]
            local values = {}
            for i, pair in ipairs(results[name]) do
                values[i] = pair[who] and pair[who][metric] and ("%.7g"):format(pair[who][metric]) or "-"
            end
            out[#out + 1] = ("%s %s %s %s"):format(name, who, metric, table.concat(values, " "))
        end
    end
    return table.concat(out, "\n") .. "\n"
end

return report
