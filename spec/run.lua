-- Runs all tests of the project, or the steps that are named:
--
--     luajit spec/run.lua [STEP...]            the same as `make check STEPS="STEP..."`
--     SPEC=spec/unit/x_spec.lua make check     one spec file
--
-- Every step writes to build/check/STEP.log. A step that fails does not stop the others; what failed is printed. The last
-- line says `N passed, N failed`: each test of a spec file counts, every other step counts once. The exit status is 0 only
-- if something ran and nothing failed.
local ffi = require "ffi"

ffi.cdef [[
    struct run_time { int64_t seconds; long nanoseconds; };
    int clock_gettime(int clock, struct run_time *now);
]]

local LOGS = os.getenv("MS_LOGS") or "build/check" -- two runs at a time need two
local MAKE = "make --no-print-directory -j2 "

local passed, failed, pending = 0, 0, 0

local function now()
    local t = ffi.new("struct run_time[1]")
    ffi.C.clock_gettime(1, t)
    return tonumber(t[0].seconds) + tonumber(t[0].nanoseconds) / 1e9
end

local function say(format, ...)
    io.write(format:format(...), "\n")
    io.flush()
end

-- Runs a shell command with its output in a log, at most `seconds` long; the command's children end with it.
local function run(command, log, seconds)
    local status = os.execute(("timeout -k 10 %d sh -c '%s' >'%s' 2>&1 </dev/null"):format(seconds, command:gsub("'", "'\\''"), log))
    return status == 0
end

local function read(path)
    local file = io.open(path)
    if not file then return nil end
    local text = file:read("*a")
    file:close()
    return text
end

local function lines_of(command)
    local list = {}
    local pipe = io.popen(command)
    for line in pipe:lines() do list[#list + 1] = line end
    pipe:close()
    return list
end

-- The end of a log, indented.
local function show(log)
    for _, line in ipairs(lines_of("tail -n 150 '" .. log .. "'")) do say("    %s", line) end
end

-- ---- kinds of work: each counts what it ran and returns whether all of it passed ----------------------------------------

local function count(ok)
    if ok then passed = passed + 1 else failed = failed + 1 end
    return ok
end

-- One command, counted once.
local function command(name, text, seconds)
    local log = ("%s/%s.log"):format(LOGS, name)
    local ok = run(text, log, seconds or 300)
    if not ok then
        say("FAILED %s: %s", name, text)
        show(log)
    end
    return count(ok)
end

-- Spec files and commands that run in processes of their own, so that a crash costs one of them; `jobs` at a time. A task is
-- { name =, script =, count = function that looks at what it left, counts, and returns whether all of it passed }.

local function write_script(path, text)
    local script = assert(io.open(path, "w"))
    script:write(text)
    script:close()
end

-- Those that take longest begin first, or a pool would end with one of them alone.
local LONGEST = { "paths_5_3_3_spec", "failover_controller_spec", "cases_spec", "failover_plain_spec", "jni_asan_spec",
    "failover_controller_5_3_3_spec", "failover_plain_5_3_3_spec", "first_spec", "jni_check_spec", "link_spec", "life_spec", "large_spec",
    "kill_spec", "sim_spec", "hostile_node_spec", "node_policy_spec", "hostile_spec", "node_spec", "recover_spec", "policy_reload_spec",
    "replication_spec", "failover_spec", "node_stress", "policy_threads", "log_threads", "node_pair" }

local function run_pool(tasks, jobs)
    local rank, scripts = {}, {}
    for n, name in ipairs(LONGEST) do rank[name] = n end
    local function rank_of(task) return rank[task.name] or #LONGEST + 1 end
    for n, task in ipairs(tasks) do task.place = n end
    table.sort(tasks, function(a, b)
        if rank_of(a) ~= rank_of(b) then return rank_of(a) < rank_of(b) end
        return a.place < b.place
    end)
    for n, task in ipairs(tasks) do scripts[n] = task.script end
    os.execute(("echo %s | xargs -r -n 1 -P %d sh"):format(table.concat(scripts, " "), jobs))
    local ok = true
    for _, task in ipairs(tasks) do ok = task.count() and ok end
    return ok
end

-- Names are files' names, with their folder where it is not the step's own: two folders may have files of one name.
local function task_paths(step, folder, name)
    local base = ("%s/%s-%s%s"):format(LOGS, step, folder == step and "" or folder .. "-", name)
    local paths = { log = base .. ".log", report = base .. ".report", status = base .. ".status", script = base .. ".sh" }
    os.remove(paths.report)
    os.remove(paths.status)
    return paths
end

local function ended_well(paths) return (read(paths.status) or ""):match("^0") ~= nil end

local function spec_task(step, path, prefix, seconds)
    local folder, name = path:match("([^/]*)/([^/]*)%.lua$")
    local task, paths = { name = name }, task_paths(step, folder, name)
    local text = ("%s MS_REPORT=%s busted --lua=luajit -o spec/support/report.lua %s"):format(prefix, paths.report, path)
    write_script(paths.script, ("timeout -k 10 %d env %s >%s 2>&1 </dev/null\necho $? >%s\n"):format(seconds, text, paths.log, paths.status))
    task.script = paths.script
    function task.count()
        local good, bad, open = (read(paths.report) or ""):match("^(%d+) (%d+) (%d+)")
        good, bad, open = tonumber(good or 0), tonumber(bad or 0), tonumber(open or 0)
        if not ended_well(paths) and bad == 0 then bad = 1 end -- a crash, a time-out, or an error outside of the tests
        if good + bad + open == 0 then bad = 1 end             -- a spec file without tests is a mistake
        passed, failed, pending = passed + good, failed + bad, pending + open
        if bad > 0 then
            say("FAILED %s (%d failed): sh %s", path, bad, paths.script)
            show(paths.log)
        end
        return bad == 0
    end
    return task
end

-- One command, counted once.
local function command_task(step, name, text, seconds)
    local task, paths = { name = name }, task_paths(step, "c", name)
    write_script(paths.script, ("timeout -k 10 %d %s >%s 2>&1 </dev/null\necho $? >%s\n"):format(seconds, text, paths.log, paths.status))
    task.script = paths.script
    function task.count()
        if not ended_well(paths) then
            say("FAILED %s: sh %s", text, paths.script)
            show(paths.log)
        end
        return count(ended_well(paths))
    end
    return task
end

local function add_specs(tasks, step, files, prefix, seconds)
    for _, path in ipairs(files) do tasks[#tasks + 1] = spec_task(step, path, prefix, seconds) end
    return tasks
end

local function folder_files(folder)
    return lines_of(("find %s -name '*_spec.lua' 2>/dev/null | LC_ALL=C sort"):format(folder))
end

local function spec_files(step, files, prefix, seconds, jobs)
    return run_pool(add_specs({}, step, files, prefix, seconds), jobs)
end

local function spec_folder(step, folder, prefix, seconds, jobs)
    return spec_files(step, folder_files(folder), prefix or "", seconds or 300, jobs or 1)
end

-- ---- sanitizers -------------------------------------------------------------------------------------------------------

-- AddressSanitizer must be first in the process; LuaJIT itself is not instrumented, and its memory is not to be searched for
-- leaks (specs compare ms_mem_live instead).
local function asan_prefix()
    local library = lines_of("gcc -print-file-name=libasan.so")[1]
    return table.concat({ "LD_PRELOAD=" .. library, "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS=print_stacktrace=1", "MS_LIB=build/asan/libmetasync-private.so" }, " ")
end

local DAEMON_SPECS = { "spec/e2e/replication_spec.lua", "spec/e2e/failover_spec.lua" }

-- ThreadSanitizer wants its address ranges, which a randomized layout may take.
local function tsan_prefix()
    return os.execute("setarch -R true 2>/dev/null") == 0 and "setarch -R " or ""
end

local function add_programs(tasks, variant, prefix)
    for _, path in ipairs(lines_of("find spec/c -name '*.c' 2>/dev/null | LC_ALL=C sort")) do
        local name = path:match("([^/]*)%.c$")
        tasks[#tasks + 1] = command_task(variant, name, ("%sbuild/%s/spec/c/%s"):format(prefix, variant, name), 300)
    end
    return tasks
end

-- What specs would run of the C programs, the sanitizers' steps run themselves, with more checks; and Lua alone needs none.
local NOT_FOR_ASAN = { ["spec/unit/tcp_spec.lua"] = true, ["spec/unit/control_spec.lua"] = true, ["spec/unit/bench_report_spec.lua"] = true,
    ["spec/unit/docs_spec.lua"] = true, ["spec/unit/layers_spec.lua"] = true }

local function add_asan_folder(tasks, folder)
    local files = {}
    for _, path in ipairs(folder_files(folder)) do
        if not NOT_FOR_ASAN[path] then files[#files + 1] = path end
    end
    return add_specs(tasks, "asan", files, asan_prefix() .. " MS_PROGRAMS=no", 300)
end

-- ---- the steps, in their order ------------------------------------------------------------------------------------------

local ORDER = { "layers", "build", "lint", "unit", "sim", "policy", "e2e", "regress", "mutants", "example", "demo",
    "rocketmq", "fuzz", "asan", "tsan" }

local STEPS = {
    layers = function() return command("layers", "make --no-print-directory layers") end,
    build = function() return command("build", MAKE .. "all private", 600) end,
    lint = function() return command("lint", "make --no-print-directory lint") end,
    unit = function() return spec_folder("unit", "spec/unit", "", 300, 2) end,
    sim = function() return spec_folder("sim", "spec/sim", "", 600, 2) end,
    policy = function() -- and the example that users get, as they would run it
        local ok = spec_folder("policy", "spec/policy", "", 300, 2)
        return spec_folder("policy", "lua/example") and ok
    end,
    e2e = function() return spec_folder("e2e", "spec/e2e", "", 300, 3) end, -- most of it is waiting
    regress = function() return spec_folder("regress", "spec/regress", "", 300, 2) end,
    mutants = function() return command("mutants", "luajit spec/mutants.lua --jobs 2", 600) end,
    example = function() return command("example", "build/release/example", 60) end,
    demo = function() return command("demo", MAKE .. "demo", 120) end,
    rocketmq = function() -- real brokers with the plugin; three files at a time, since each of them also waits
        if not command("rocketmq-build", MAKE .. "jar brokers all", 900) then return false end
        local tasks = { command_task("rocketmq", "java-test", "make --no-print-directory java-test", 300) }
        return run_pool(add_specs(tasks, "rocketmq", folder_files("spec/rocketmq"), "", 600), 3)
    end,
    fuzz = function()
        local ok = command("fuzz", MAKE .. "fuzz", 3600)
        return command("fuzz-planted", MAKE .. "fuzz-planted", 300) and ok
    end,
    asan = function()
        local build = MAKE .. "VARIANT=asan private build/asan/metasyncd build/asan/metasyncctl spec-c"
        if not command("asan-build", build, 600) then return false end
        local tasks = {}
        for _, folder in ipairs { "spec/unit", "spec/sim", "spec/policy" } do add_asan_folder(tasks, folder) end
        -- Whole daemons, leaks included: a daemon that reports something does not exit with 0, and the spec sees that.
        add_specs(tasks, "asan", DAEMON_SPECS, "MS_BUILD=build/asan MS_RUN_SECONDS=3", 300)
        return run_pool(add_programs(tasks, "asan", ""), 3)
    end,
    tsan = function()
        if not command("tsan-build", MAKE .. "VARIANT=tsan spec-c", 600) then return false end
        return run_pool(add_programs({}, "tsan", tsan_prefix()), 2)
    end,
    soak = function()
        local deadline, round = now() + 60 * (tonumber(os.getenv("MINUTES")) or 10), 0
        local there = os.execute("test -d build/brokers/5.5.0/lib") == 0 -- make brokers jar
        local failover = lines_of "find spec/rocketmq -name 'failover_*_spec.lua' | LC_ALL=C sort"
        -- once, however few the minutes: 55 rounds of each of their four tests
        if there and not spec_files("soak", failover, "MS_ROUNDS=" .. (os.getenv("MS_ROUNDS") or 55), 7200, 2) then return false end
        repeat
            round = round + 1
            if not spec_folder("soak", "spec/sim", ("MS_SEED=%d"):format(os.time() * 1000 + round), 1200) then return false end
            if there and not spec_folder("soak", "spec/soak", "", 3600, 1) then return false end
        until now() > deadline
        return true
    end,
}

local function wanted_steps()
    local spec = os.getenv("SPEC")
    if spec and spec ~= "" then
        STEPS.spec = function() return spec_files("spec", { spec }, "MS_SLOW=1", 600, 1) end
        return { "build", "spec" }
    end
    return #arg > 0 and arg or ORDER
end

os.execute("mkdir -p " .. LOGS)
local begin = now()
for _, name in ipairs(wanted_steps()) do
    local step = STEPS[name]
    if not step then
        say("unknown step %s; there are: %s", name, table.concat(ORDER, " "))
        os.exit(2)
    end
    local from, good, bad = now(), passed, failed
    local ok = step()
    if passed + failed > good + bad then
        say("%-8s %-6s %6.1f s   %d passed, %d failed", name, ok and "ok" or "FAILED", now() - from, passed - good, failed - bad)
    end
end
say("all steps %.1f s, logs in %s", now() - begin, LOGS)
if passed + failed == 0 then
    say("nothing ran")
    failed = 1
end
say(pending > 0 and "%d passed, %d failed, %d skipped" or "%d passed, %d failed", passed, failed, pending)
os.exit(failed == 0 and 0 or 1)
