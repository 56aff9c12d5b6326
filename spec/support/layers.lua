-- Checks the direction of dependency: base <- state <- sync <- {lua, drive, sim} <- node <- plugins.
--
--     luajit spec/support/layers.lua ROOT
--
-- A host sees core/metasync.h only.
--
-- Reads every #include of the C files below ROOT/core and ROOT/plugins, and names each one that points upwards, sideways
-- (lua, drive and sim don't know each other), or at a library that the layer may not use. Exit status 1 if there are any.
local root = (arg[1] or "."):gsub("/+$", "")

-- Folder -> rank. core/metasync.h is everybody's; other files right under core/ are the node.
local RANKS = { ["core/base"] = 1, ["core/state"] = 2, ["core/sync"] = 3, ["core/lua"] = 4, ["core/drive"] = 4,
    ["core/sim"] = 4, ["core"] = 5, ["core/example"] = 6, ["plugins"] = 6 }
local PUBLIC = "core/metasync.h"

-- The stand-alone host lives in this tree and links these stateless helpers of the core instead of having its own: bytes and
-- messages, the real file system, the client of the control socket, names and ranges of the policy, JSON text.
local STANDALONE = { ["core/drive/fs.h"] = true, ["core/drive/control.h"] = true, ["core/sync/policy.h"] = true,
    ["core/sync/render.h"] = true }

-- Pattern of a <header> -> layers that may not include it, or the only ones that may.
local WORLD = { ["core/state"] = true, ["core/sync"] = true, ["core/sim"] = true }
local SYSTEM_RULES = {
    { "^event2/", only = { ["core/drive"] = true } },
    { "^event%.h$", only = { ["core/drive"] = true } },
    { "^lua%.h", only = { ["core/lua"] = true } },
    { "^lauxlib%.h", only = { ["core/lua"] = true } },
    { "^lualib%.h", only = { ["core/lua"] = true } },
    { "^luajit", only = { ["core/lua"] = true } },
    { "^jansson", never = { ["core/base"] = true, ["core/state"] = true } },
    { "^time%.h$", never = WORLD }, { "^sys/time", never = WORLD }, { "^sys/timerfd", never = WORLD },
    { "^sys/socket", never = WORLD }, { "^netinet/", never = WORLD }, { "^arpa/", never = WORLD },
    { "^netdb", never = WORLD },
    { "^poll%.h", never = WORLD }, { "^sys/epoll", never = WORLD }, { "^sys/select", never = WORLD },
    { "^pthread", never = WORLD }, { "^threads%.h", never = WORLD }, { "^semaphore", never = WORLD },
    { "^fcntl%.h", never = WORLD }, { "^unistd%.h", never = WORLD }, { "^sys/stat", never = WORLD },
}

local function layer_of(path)
    local plugin = path:match("^plugins/")
    if plugin then return "plugins" end
    return path:match("^(core/[^/]+)/") or path:match("^(core)/[^/]+$")
end

-- "core/state/../base/x.h" -> "core/base/x.h"
local function normalize(path)
    local parts = {}
    for part in path:gmatch("[^/]+") do
        if part == ".." and #parts > 0 then parts[#parts] = nil
        elseif part ~= "." then parts[#parts + 1] = part end
    end
    return table.concat(parts, "/")
end

local function exists(path)
    local file = io.open(root .. "/" .. path)
    if file then file:close() end
    return file ~= nil
end

-- Quoted includes are looked up beside the file first, then from the root, then in core/ (a host's -Icore).
local function resolve(path, name)
    local beside = normalize(path:match("^(.*/)") .. name)
    if exists(beside) then return beside end
    if exists(name) then return name end
    if exists("core/" .. name) then return "core/" .. name end
    return beside
end

local function check_quoted(path, layer, name)
    local target = resolve(path, name)
    local target_layer = layer_of(target)
    if target == PUBLIC or not target_layer or target_layer == layer then return nil end
    local rank, target_rank = RANKS[layer], RANKS[target_layer]
    if not target_rank then return "unknown layer " .. target_layer end
    if path:match("^plugins/standalone/") and (target_layer == "core/base" or STANDALONE[target]) then return nil end
    if rank == 6 then return "a host includes metasync.h only" end
    if target_rank > rank then return "upwards" end
    if target_rank == rank then return "sideways" end
    return nil
end

local function check_system(layer, name)
    for _, rule in ipairs(SYSTEM_RULES) do
        if name:match(rule[1]) then
            if rule.only and layer:match("^core") and layer ~= "core/example" and not rule.only[layer] then
                return "not in this layer"
            end
            if rule.never and rule.never[layer] then return "not in this layer" end
        end
    end
    return nil
end

local problems, files = 0, 0

local function check_file(path)
    local layer = layer_of(path)
    if not layer or not RANKS[layer] then
        print(("%s: in no known layer"):format(path))
        problems = problems + 1
        return
    end
    files = files + 1
    local number = 0
    for line in io.lines(root .. "/" .. path) do
        number = number + 1
        local open, name = line:match('^%s*#%s*include%s*([<"])([^>"]+)[>"]')
        if name then
            local why
            if open == '"' then why = check_quoted(path, layer, name) else why = check_system(layer, name) end
            if why then
                print(("%s:%d: includes %s: %s"):format(path, number, name, why))
                problems = problems + 1
            end
        end
    end
end

local find = io.popen(("cd '%s' && find core plugins -name '*.[ch]' 2>/dev/null | LC_ALL=C sort"):format(root))
for path in find:lines() do check_file(path) end
find:close()

if files == 0 then
    print("layers: no C files below " .. root)
    os.exit(1)
end
print(("layers: %d files, %d problems"):format(files, problems))
os.exit(problems == 0 and 0 or 1)
