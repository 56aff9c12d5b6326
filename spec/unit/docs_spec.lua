-- The documents follow the code: every field of the status is explained in docs/status.md and no other one; links between
-- documents lead somewhere.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi
local json = require "dkjson"

-- Names of all fields of a status, at any depth.
local function fields_of(value, names)
    if type(value) ~= "table" then return names end
    for key, inner in pairs(value) do
        if type(key) == "string" then names[key] = true end
        fields_of(inner, names)
    end
    return names
end

local function status(node)
    local text = ffi.new("char *[1]")
    ms.check(C.ms_status(node, text))
    return json.decode(ms.take(text[0]))
end

-- A leader with a buffered and an unbuffered table, and a follower of it: between them every field appears.
local function fields_of_a_pair()
    local dir = ms.tmpdir()
    local policy = ffi.new("struct ms_policy[1]")
    C.ms_policy_init(policy)
    policy[0].table_count = 1
    policy[0].tables[0].name = "offset"
    policy[0].tables[0].interval_ms = 1000
    local kept = { dir .. "/policy.lua" }
    ms.write_file(kept[1], [[return { filter = function(entry) error("no") end,
        tables = { offset = { buffer = { interval = "1s" }, flush = function(stats) return 1 end } } }]])
    local function open(name)
        local config, node = ffi.new("struct ms_config"), ffi.new("struct ms_node *[1]")
        kept[#kept + 1] = dir .. "/" .. name
        config.dir, config.cluster, config.listen, config.policy = kept[#kept], "docs", "127.0.0.1:0", policy
        config.policy_file = kept[1]
        ms.check(C.ms_open(config, node))
        return node[0]
    end
    local leader, follower = open "leader", open "follower"
    ms.check(C.ms_lead(leader, nil, 0, 5000))
    for _, name in ipairs { "topic", "offset" } do
        local handle = ffi.new("struct ms_table *[1]")
        ms.check(C.ms_table_open(leader, name, C.MS_TYPE_BYTES, handle))
        ms.check(C.ms_put(handle[0], ms.bytes "k", ms.bytes "v", 0, nil)) -- the filter fails
    end
    ms.check(C.ms_policy_reload(leader, nil, 0, nil)) -- now there is one before it
    ms.check(C.ms_follow(follower, "127.0.0.1:" .. C.ms_port(leader)))
    ms.eventually(function() return #status(leader).peers == 1 end, 10, "the follower is a peer")
    local names = fields_of(status(follower), fields_of(status(leader), {}))
    C.ms_close(follower)
    C.ms_close(leader)
    return names
end

describe("docs/status.md", function()
    local given, written
    setup(function()
        given, written = fields_of_a_pair(), {}
        for line in io.lines("docs/status.md") do
            -- The first column of a table row names fields; rows of objects name theirs in the second.
            local first, second = line:match("^|([^|]*)|(.*)|$")
            if first then
                for name in (first:find("verdicts", 1, true) and first .. second or first):gmatch("`([%w_]+)`") do
                    written[name] = true
                end
                if first:find "`epoch`" or first:find "`conflicts`" or first:find "`functions`" or first:find "`review`" or
                    first:find "`previous`" then
                    for name in second:gmatch("`([%w_]+)`") do written[name] = true end
                end
            end
            local heading = line:match("^## `([%w_]+)`")
            if heading then written[heading] = true end
        end
        written.ok = nil -- added by the control socket
    end)

    it("explains every field that a node gives", function()
        local missing = {}
        for name in pairs(given) do
            if not written[name] then missing[#missing + 1] = name end
        end
        assert.same({}, missing)
    end)

    it("explains no field that there is not", function()
        local extra = {}
        for name in pairs(written) do
            if not given[name] then extra[#extra + 1] = name end
        end
        assert.same({}, extra)
    end)
end)

describe("links in documents", function()
    local find = io.popen("ls README.md docs/*.md")
    for path in find:lines() do
        it("lead somewhere: " .. path, function()
            local folder = path:match("^(.*/)") or ""
            for target in ms.read_file(path):gmatch("%]%(([^)#]+)[^)]*%)") do
                if not target:match("^%a+:") then
                    local file = io.open(folder .. target)
                    assert.is_not_nil(file, path .. " points to " .. target)
                    file:close()
                end
            end
        end)
    end
    find:close()

    it("and tests that are named with words of their names are there", function()
        local count = 0
        for row in ms.read_file("docs/rocketmq-tests.md"):gmatch("[^\n]+") do
            local path
            for kind, part in row:gmatch('([`"])([^`"]+)[`"]') do -- a file, then words of its tests
                if kind == '`' then
                    path = part:find("/", 1, true) and part
                elseif path then
                    count = count + 1
                    assert.is_truthy(ms.read_file(path):find(part, 1, true), ("%s: no test \"%s\""):format(path, part))
                end
            end
        end
        assert.is_true(count > 60, tostring(count))
    end)

    it("and names of files in them are names of files", function()
        local folders = { core = true, spec = true, plugins = true, bench = true, docs = true, lua = true }
        local pipe = io.popen("cat README.md docs/*.md")
        for name in pipe:read("*a"):gmatch("`(%w+/[%w_./-]+)`") do
            if folders[name:match("^%w+")] then
                assert.equal(0, select(2, ms.sh("test -e " .. name)), name .. " is not there")
            end
        end
        pipe:close()
    end)
end)
