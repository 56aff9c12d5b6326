-- Breaks the code on purpose, once per row of spec/mutants_list.lua, and checks that the spec named there notices:
--
--     luajit spec/mutants.lua            all of them (`make mutants`)
--     luajit spec/mutants.lua NAME...    some
--     luajit spec/mutants.lua --jobs 2   so many at a time
--
-- The tree is not touched: the broken file is compiled beside its directory, into a library of its own under build/mutants/, and
-- the spec runs against that. A mutant whose text is not found any more fails, so that the list follows the code.
local list = dofile("spec/mutants_list.lua")

local BUILD = "build/release"
local pkg_config = io.popen("pkg-config --cflags luajit")
local FLAGS = "-std=gnu11 -D_GNU_SOURCE -fPIC -pthread -O1 -w " .. pkg_config:read("*l")
pkg_config:close()

local function read(path)
    local file = assert(io.open(path), "cannot read " .. path)
    local text = file:read("*a")
    file:close()
    return text
end

local function write(path, text)
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
end

local function sh(command) return os.execute(command) == 0 end

-- The file's text with the one place changed; nil if it is not there exactly once.
local function broken(mutant)
    local text = read(mutant.file)
    local from, to = text:find(mutant.from, 1, true)
    if not from or text:find(mutant.from, to + 1, true) then return nil end
    return text:sub(1, from - 1) .. mutant.to .. text:sub(to + 1)
end

-- Objects of the library, with the mutant's in place of its own.
local function objects(mutant, object)
    local all = {}
    local pipe = io.popen("ls core/*.c core/*/*.c plugins/standalone/rocketmq/*.c spec/support/thunk.c spec/support/hand.c")
    for path in pipe:lines() do
        if not path:find("^core/example/") then
            all[#all + 1] = path == mutant.file and object or ("%s/%s.o"):format(BUILD, path:match("^(.*)%.c$"))
        end
    end
    pipe:close()
    all[#all + 1] = BUILD .. "/inline.o"
    all[#all + 1] = BUILD .. "/core/lua/embed.o"
    return table.concat(all, " ")
end

-- Its first failure is enough.
local function runs(mutant, library, log)
    local command = "%s MS_LIB=%s timeout 300 busted --lua=luajit --no-keep-going %s >%s 2>&1"
    return sh(command:format(mutant.env or "", library, mutant.spec, log))
end

-- Builds the library with `text` in the place of the mutant's file, in a folder of its own, and runs the spec: whether that
-- passes; nil and why if it can't be built.
local function passes(mutant, text, dir)
    sh("mkdir -p " .. dir)
    write(dir .. "/broken.c", text)
    local object, folder = dir .. "/broken.o", mutant.file:match("^(.*)/")
    if not sh(("gcc %s -iquote %s -c %s/broken.c -o %s"):format(FLAGS, folder, dir, object)) then return nil, "it does not compile" end
    sh(("cp %s/cdef.h %s/cdef.h"):format(BUILD, dir))
    local library = dir .. "/libmetasync-private.so"
    local link = "gcc -shared -pthread %s -levent -levent_pthreads -ljansson -lcrypto -lluajit-5.1 -o %s"
    if not sh(link:format(objects(mutant, object), library)) then return nil, "it does not link" end
    return runs(mutant, library, dir .. "/log")
end

-- A spec that fails here without any change would notice everything: each one has to pass first. One test for each spec.
local function unbroken_of(mutant)
    return (("unbroken-%s-%s"):format(mutant.spec:match("^spec/(.*)_spec.lua$"), mutant.env or ""):gsub("%W+", "-"):gsub("%-$", ""))
end

local function check_unbroken(mutant)
    local log = ("build/mutants/%s.unbroken"):format(unbroken_of(mutant))
    if runs(mutant, BUILD .. "/libmetasync-private.so", log) then return true, mutant.spec .. " passes without a change" end
    return false, ("%s fails without a change, see %s"):format(mutant.spec, log)
end

local function check_mutant(mutant)
    local text = broken(mutant)
    if not text then return false, "the text to change is not in " .. mutant.file .. " exactly once" end
    local passed, why = passes(mutant, text, "build/mutants/" .. mutant.name)
    if passed == nil then return false, why end
    return not passed, (passed and "NOT NOTICED by " or "noticed by ") .. mutant.spec
end

-- Every task by its name: the mutants, and before them the specs that they need.
local tasks, order = {}, {}

local function add(name, check, mutant)
    if tasks[name] then return end
    tasks[name] = function() return check(mutant) end
    order[#order + 1] = name
end

local function report(name, ok, what)
    print(("%-28s %-5s %s"):format(name, ok and "ok" or "BAD", what))
    io.stdout:flush()
end

local function run_one(name)
    local ok, what = tasks[name]()
    report(name, ok, what)
end

-- Each task in a process of its own; its line of output is its result.
local function run_all(names, jobs)
    local good, bad = 0, 0
    local pipe = io.popen(("echo %s | xargs -r -n 1 -P %d luajit spec/mutants.lua --one"):format(table.concat(names, " "), jobs))
    for line in pipe:lines() do
        print(line)
        io.stdout:flush()
        if line:find("^%S+%s+ok ") then good = good + 1 else bad = bad + 1 end
    end
    pipe:close()
    if good + bad ~= #names then bad = bad + #names - good - bad end -- one that died said nothing
    print(("%d passed, %d failed"):format(good, bad))
    return bad == 0 and good > 0
end

local jobs, one, wanted = 1, nil, {}
local i = 1
while arg[i] do
    if arg[i] == "--jobs" then
        jobs, i = tonumber(arg[i + 1]), i + 1
    elseif arg[i] == "--one" then
        one, i = arg[i + 1], i + 1
    else
        wanted[arg[i]] = true
    end
    i = i + 1
end
local all = next(wanted) == nil
for _, mutant in ipairs(list) do
    if all or wanted[mutant.name] then add(unbroken_of(mutant), check_unbroken, mutant) end
end
for _, mutant in ipairs(list) do
    if all or wanted[mutant.name] then add(mutant.name, check_mutant, mutant) end
end
if one then return run_one(one) end
if not sh("make --no-print-directory -s private") then os.exit(2) end
sh("mkdir -p build/mutants")
os.exit(run_all(order, jobs) and 0 or 1)
