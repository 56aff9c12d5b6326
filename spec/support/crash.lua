-- "Run this on a fresh simulated disk and stop the machine after k operations, for all k."
--
--     crash.sweep {
--         setup = function(disk) disk:mkdir "d" end,         -- before the machine can stop; may be left out
--         run = function(disk) disk:put("d/a", "text") end,  -- may fail: the machine stops in the midst of it
--         check = function(disk, ran) ... end,               -- after the power is back; ran = run came to its end
--     }
--
-- disk is a spec.support.seam object, with disk.fs (struct ms_fs *), disk.sim (struct ms_sim_fs *), and disk.kept, a
-- table in which the functions may leave things for each other. Each k is tried with several seeds and with both ends, power
-- loss and process crash. A check that raises an error is reported with k, seed and end. Disks made before are freed.
local ms = require "spec.support.ms"
local seam = require "spec.support.seam"
local C, ffi = ms.C, ms.ffi

local crash = {}

local disks = {}

-- A seam object on a new simulated file system; nil when memory is out. It lives until crash.free_all, which after_each is
-- the place for.
function crash.disk(seed)
    local sim = C.ms_sim_fs_new(seed)
    if sim == nil then return nil end
    local disk = seam.new(C.ms_sim_fs(sim))
    disk.sim, disk.kept = sim, {}
    disks[#disks + 1] = disk
    return disk
end

local function free(disk)
    C.ms_sim_fs_free(disk.sim)
    disk.sim, disk.fs = nil, nil
end

function crash.free_all()
    for _, disk in ipairs(disks) do free(disk) end
    disks = {}
end

-- What a power loss did, as a table of numbers.
function crash.power_loss(disk)
    local loss = ffi.new "struct ms_sim_fs_loss"
    C.ms_sim_fs_power_loss(disk.sim, loss)
    local result = {}
    for _, name in ipairs { "kept", "lost", "torn", "reordered", "names_kept", "names_lost" } do
        result[name] = tonumber(loss[name])
    end
    return result
end

local ends = {
    ["power loss"] = function(disk) crash.power_loss(disk) end,
    ["crash"] = function(disk) C.ms_sim_fs_crash(disk.sim) end,
}

-- One stop: returns whether the machine was stopped before run was through.
local function stop_once(plan, k, seed, name)
    crash.free_all()
    local disk = crash.disk(seed)
    if plan.setup then plan.setup(disk) end
    C.ms_sim_fs_stop_after(disk.sim, k)
    local ok, why = pcall(plan.run, disk)
    local stopped = C.ms_sim_fs_stopped(disk.sim)
    local place = ("%s after %d operations, seed %d"):format(name, k, seed)
    if not ok and not stopped then error(place .. ": run failed though nothing stopped it: " .. tostring(why), 0) end
    ends[name](disk)
    local sound, problem = pcall(plan.check, disk, ok)
    if not sound then error(place .. ": " .. (type(problem) == "table" and problem.message or tostring(problem)), 0) end
    return stopped
end

-- plan.seeds: how many seeds for each k (default 8). plan.ends: names of ends (default both). Returns the number of k.
function crash.sweep(plan)
    for k = 0, plan.limit or 10000 do
        local stopped = false
        for _, name in ipairs(plan.ends or { "power loss", "crash" }) do
            for seed = 1, plan.seeds or 8 do stopped = stop_once(plan, k, seed * 1000 + k, name) or stopped end
        end
        if not stopped then return k end
    end
    error("the number of operations has no end", 2)
end

return crash
