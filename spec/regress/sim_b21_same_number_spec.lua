-- B21 (nats-io/nats-server#4875): a node's log began at 0 again under the same epoch number; its counters were 0, the others' 23 000.
local simkit = require "spec.support.simkit"
local C = require("spec.support.ms").C

-- All files below a directory of a node that is down, as a table path -> content; or put back.
local function copy_of(disk, path, files)
    files = files or {}
    for _, name in ipairs(disk:list(path)) do
        local child = path .. "/" .. name
        if disk:try_list(child) == 0 then copy_of(disk, child, files) else files[child] = disk:get(child) end
    end
    return files
end

local function put_back(disk, files)
    for path, content in pairs(files) do
        local at = ""
        for part in path:gmatch "([^/]+)/" do
            at = at == "" and part or at .. "/" .. part
            disk:mkdir(at)
        end
        disk:put(path, content)
    end
    for path in pairs(files) do
        local dir = path:match "^(.*)/"
        while dir do
            disk:sync_dir(dir)
            dir = dir:match "^(.*)/"
        end
    end
    disk:sync_dir "/"
end

describe("B21: a history of the same epoch number but another id", function()
    after_each(simkit.free_all)

    it("is never taken for the follower's own: a wiped leader is refused", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:fill(0, "counter", 23, 100, "disk")
        s:settle(0)
        assert.same({ 0, 1 }, { s:position(0).reign, s:position(0).run })
        s:kill(0)
        s:wipe(0)
        s:lead(0, false)
        assert.same({ 0, 1 }, { s:position(0).reign, s:position(0).run })
        for i = 1, 60 do s:try_put(0, "disk", "counter" .. i, "new") end -- beyond the follower's position
        s:await(function() return s:following(1) == "refused" or s:result(0) == C.MS_E_DEPOSED end)
        assert.is_truthy(s:get(1, "disk", "counter23"):find("x", 1, true))
        if s:role(0) ~= "leader" then s:kill(0) end
        if not s:up(0) then s:lead_without_history(0, { 1 }) end
        assert.is_truthy(s:get(1, "disk", "counter23"))
        assert.equal(0, s:count "resumes")
        assert.is_true(s:count "verdict_other" > 0)
    end)

    it("is a diverged one when the leader's directory was put back from an older copy", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:put(0, "disk", "k", "1")
        s:settle(0)
        s:stop(0)
        local files = copy_of(s:disk(0), "data")
        s:lead(0) -- 0.2
        s:put(0, "disk", "k", "2")
        s:settle(0)
        s:kill(0)
        s:wipe(0)
        put_back(s:disk(0), files)
        s:tampered(0)
        s:lead(0, false) -- 0.2 again, of another id
        assert.same({ 0, 2 }, { s:position(0).reign, s:position(0).run })
        s:put(0, "disk", "k", "3")
        s:await(function() return s:count "verdict_diverged" > 0 or s:result(0) == C.MS_E_DEPOSED end)
        s:run(100)
        -- As the ids compare: it is deposed, or its follower gives its own record up and archives it. Never a mix.
        local mine = s:get(1, "disk", "k")
        assert.is_true(mine == "2" and s:result(0) == C.MS_E_DEPOSED or mine == "3" and s:archive(1):find('"2"', 1, true) ~= nil)
    end)
end)
