-- Breaks the code on purpose, once per row of spec/mutants_list.lua, and checks that the spec named there notices:
--
--     luajit spec/mutants.lua            all of them (`make mutants`)
--     luajit spec/mutants.lua NAME...    some
--     luajit spec/mutants.lua --part 1/2 every second one, for two processes side by side
--
-- The tree is not touched: the broken file is compiled beside its directory, into a library of its own under build/mutants/, and
-- the spec runs against that. A mutant whose text is not found any more fails, so that the list follows the code.
local list = dofile("spec/mutants_list.lua")

local BUILD = "build/release"
local pkg_config = io.popen("pkg-config --cflags luajit")
local FLAGS = "-std=gnu11 -D_GNU_SOURCE -fPIC -pthread -O1 -g -w " .. pkg_config:read("*l")
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

local function runs(mutant, library, log)
    return sh(("%s MS_LIB=%s timeout 300 busted --lua=luajit %s >%s 2>&1"):format(mutant.env or "", library, mutant.spec, log))
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

-- A spec that fails here without any change would notice everything: each one has to pass first.
local sound = {}

local function passes_unbroken(mutant)
    local key = (mutant.env or "") .. mutant.spec
    if sound[key] == nil then
        sound[key] = runs(mutant, BUILD .. "/libmetasync-private.so", ("build/mutants/%s.unbroken"):format(mutant.name))
    end
    return sound[key]
end

local function run(mutant)
    local text = broken(mutant)
    if not text then return false, "the text to change is not in " .. mutant.file .. " exactly once" end
    if not passes_unbroken(mutant) then return false, mutant.spec .. " fails without the change, see build/mutants/" .. mutant.name .. ".unbroken" end
    local passed, why = passes(mutant, text, "build/mutants/" .. mutant.name)
    if passed == nil then return false, why end
    return not passed, (passed and "NOT NOTICED by " or "noticed by ") .. mutant.spec
end

if not sh("make --no-print-directory -s private") then os.exit(2) end
sh("mkdir -p build/mutants")
local wanted, names, part, parts = {}, arg, 0, 1
if arg[1] == "--part" then
    part, parts = arg[2]:match("^(%d+)/(%d+)$")
    names = {}
end
for _, name in ipairs(names) do wanted[name] = true end
local good, bad = 0, 0
for i, mutant in ipairs(list) do
    if i % tonumber(parts) == tonumber(part) % tonumber(parts) and (#names == 0 or wanted[mutant.name]) then
        local ok, what = run(mutant)
        print(("%-28s %-5s %s"):format(mutant.name, ok and "ok" or "BAD", what))
        io.stdout:flush()
        if ok then good = good + 1 else bad = bad + 1 end
    end
end
print(("%d passed, %d failed"):format(good, bad))
os.exit(bad == 0 and good > 0 and 0 or 1)
