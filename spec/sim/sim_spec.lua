-- Random runs of whole clusters. Each seed is one run: up to four nodes, a client, and whatever can go wrong; every promise of
-- docs/architecture.md is checked after every input (core/sim/sim_check.c), and at the end, without faults, everybody has to become equal.
--
--     MS_SIM_SEEDS    how many seeds (500)               MS_SIM_SEED     the first one
--     MS_SIM_STEPS    events of each run (2000)          MS_SIM_SECONDS  instead of a number of seeds: so long
--
-- A seed that fails prints the command that runs it alone; MS_SIM_TRACE=1 adds what happened before.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local slow = ms.library:find "asan" ~= nil -- sanitizers: fewer runs, for the same time
local STEPS = tonumber(os.getenv "MS_SIM_STEPS") or 2000
local FIRST = tonumber(os.getenv "MS_SIM_SEED" or os.getenv "MS_SEED") or 20240601
local SECONDS = tonumber(os.getenv "MS_SIM_SECONDS")
local SEEDS = tonumber(os.getenv "MS_SIM_SEEDS") or (SECONDS and math.huge or slow and 150 or 500)
local CALM_US = 60000000

-- What no honest run can show: a follower that has records of the leader's own epoch that the leader does not have would need
-- a leader that lost its disk without starting anew, and each start opens a new epoch.
local IMPOSSIBLE = { verdict_ahead = true }

local function count_names()
    local names = {}
    while C.ms_sim_count_name(#names) ~= nil do names[#names + 1] = ffi.string(C.ms_sim_count_name(#names)) end
    return names
end

local function rerun(seed)
    return ("MS_SIM_TRACE=1 MS_SIM_SEED=%d MS_SIM_SEEDS=1 MS_SIM_STEPS=%d busted --lua=luajit spec/sim/sim_spec.lua"):format(seed, STEPS)
end

-- Runs one seed, adds what happened to `totals`; returns nil, or what is wrong.
local function run(seed, totals)
    local options = ffi.new "struct ms_sim_options"
    options.random = true
    local live = ms.live()
    local sim = C.ms_sim_new(seed, options)
    assert(sim ~= nil, ms.err())
    local rc = C.ms_sim_step(sim, STEPS)
    local counts = C.ms_sim_counts(sim)
    for _, name in ipairs(totals.names) do totals[name] = totals[name] + tonumber(counts[name]) end
    if rc == 0 then rc = C.ms_sim_calm(sim, CALM_US) end
    local why = rc ~= 0 and ms.err() or nil
    if why and os.getenv "MS_SIM_TRACE" then io.stderr:write(ffi.string(C.ms_sim_trace(sim))) end
    C.ms_sim_free(sim)
    if not why and ms.live() ~= live then why = ("%d blocks of memory are left over"):format(ms.live() - live) end
    return why
end

local function new_totals()
    local totals = { names = count_names() }
    for _, name in ipairs(totals.names) do totals[name] = 0 end
    return totals
end

local function print_totals(totals, runs)
    print(("%d runs of %d events each, from seed %d:"):format(runs, STEPS, FIRST))
    local line = {}
    for _, name in ipairs(totals.names) do
        line[#line + 1] = ("%s %d"):format(name, totals[name])
        if #table.concat(line, ", ") > 110 then
            print("    " .. table.concat(line, ", "))
            line = {}
        end
    end
    if #line > 0 then print("    " .. table.concat(line, ", ")) end
end

describe("random runs", function()
    local totals, runs = new_totals(), 0

    it("keep every promise, and settle when the faults end", function()
        local begin, bad = ms.now(), {}
        while runs < SEEDS and not (SECONDS and ms.now() - begin > SECONDS) and #bad < 5 do
            local seed = FIRST + runs
            local why = run(seed, totals)
            runs = runs + 1
            if why then
                print("seed " .. seed .. ": " .. why .. "\n    " .. rerun(seed))
                bad[#bad + 1] = why
            end
        end
        print_totals(totals, runs)
        assert.equal(0, #bad, bad[1])
    end)

    it("show everything that can go wrong", function()
        if runs < 400 then return end -- too few to say: some things happen once in fifty runs
        local missing = {}
        for _, name in ipairs(totals.names) do
            if totals[name] == 0 and not IMPOSSIBLE[name] then missing[#missing + 1] = name end
        end
        assert.equal("", table.concat(missing, " "))
    end)

    it("never show what can't be", function()
        for name in pairs(IMPOSSIBLE) do assert.equal(0, totals[name], name) end
    end)
end)

describe("a seed", function()
    local function fingerprint(seed)
        local options = ffi.new "struct ms_sim_options"
        options.random = true
        local sim = C.ms_sim_new(seed, options)
        assert.equal(0, C.ms_sim_step(sim, 1500), ms.err())
        local print_of = { ms.dec(C.ms_sim_hash(sim)), ms.dec(C.ms_sim_now(sim)), ffi.string(C.ms_sim_trace(sim)) }
        C.ms_sim_free(sim)
        return print_of
    end

    it("gives the same run, event for event, whatever ran before", function()
        local first = fingerprint(FIRST)
        assert.are_not.equal(first[1], fingerprint(FIRST + 1)[1])
        assert.same(first, fingerprint(FIRST))
    end)
end)
