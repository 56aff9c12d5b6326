-- The simulator's own eyes: what breaks a promise is noticed and named. (spec/mutants_list.lua breaks the code itself; these specs break
-- what the nodes hold.)
local ms = require "spec.support.ms"
local simkit = require "spec.support.simkit"
local C, ffi = ms.C, ms.ffi

-- fn breaks something in `s`, which has two equal nodes; returns the message of the promise that is found broken.
local function noticed(fn)
    local s = simkit.new { nodes = 2 }
    s:begin()
    s:fill(0, "k", 20, 100, "disk")
    s:settle(0)
    local ok, why = pcall(function()
        fn(s)
        s:put(0, "disk", "more", "1")
        s:run(1000)
        s:settle(0)
    end)
    assert.is_false(ok, "nothing was noticed")
    assert.is_truthy(tostring(why):find("seed 1)", 1, true), why) -- a broken promise, not an error of the spec
    return tostring(why)
end

local function store_of(s, node) return s:engine(node).store end

describe("the simulator notices", function()
    after_each(simkit.free_all)

    it("a value that changes in a node's memory", function()
        local why = noticed(function(s)
            local table_state = C.ms_store_find(store_of(s, 1), ms.bytes "disk")
            local key = ms.bytes "k3"
            C.ms_table_fold(table_state, key, C.ms_key_hash(key), ms.bytes "another")
        end)
        assert.is_truthy(why:find("n1: table disk at lsn", 1, true), why)
    end)

    it("an entry that vanishes from a node's memory", function()
        noticed(function(s)
            local key = ms.bytes "k3"
            C.ms_table_fold(C.ms_store_find(store_of(s, 1), ms.bytes "disk"), key, C.ms_key_hash(key), ms.bytes(nil))
        end)
    end)

    it("a record that goes missing from the log while the node is down", function()
        local why = noticed(function(s)
            s:stop(1)
            local disk, path = s:disk(1), s:generation(1) .. "/" .. s:files(1, "log-")[1]
            local file = disk:open(path, "w")
            disk:truncate(file, 600)
            disk:sync(file)
            s:disk(1).fs.ops.close(s:disk(1).fs, file)
            s:follow(1, 0)
        end)
        assert.is_truthy(why:find("was written", 1, true) or why:find("was synced", 1, true), why)
    end)

    it("a damaged log that nobody was told of", function()
        local why = noticed(function(s)
            s:put(0, "disk", "last", "1")
            s:settle(0)
            s:stop(1)
            assert.equal(0, C.ms_sim_fs_corrupt(s:fs(1), s:generation(1) .. "/" .. s:files(1, "log-")[1], 200, 1))
            s:follow(1, 0)
        end)
        assert.is_truthy(why:find("n1:", 1, true), why)
    end)

    it("a position that is claimed and not true", function()
        local why = noticed(function(s)
            s:engine(1).synced = s:engine(1).synced + 5
            s:engine(1).written = s:engine(1).written + 5
        end)
        assert.is_truthy(why:find("n1:", 1, true), why)
    end)
end)

describe("a simulation", function()
    after_each(simkit.free_all)

    it("is not made of one node, or of five", function()
        for _, nodes in ipairs { 1, 5 } do
            assert.is_true(C.ms_sim_new(1, ffi.new("struct ms_sim_options", { nodes = nodes })) == nil)
        end
    end)

    it("fails cleanly when there is no memory for it", function()
        local failed = ms.with_alloc_failures(function()
            local sim = C.ms_sim_new(1, ffi.new("struct ms_sim_options", { nodes = 3 }))
            if sim ~= nil then C.ms_sim_free(sim) end
        end)
        assert.is_true(failed >= 5)
    end)

    it("says why it does not settle", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        s:cut(0, 1)
        s:put(0, "disk", "k", "1")
        local ok, why = pcall(s.settle, s, 0, 200)
        assert.is_false(ok)
        assert.is_truthy(why:find("n1 does not stream", 1, true), why)
    end)

    it("refuses verbs for nodes that are down, or up", function()
        local s = simkit.new { nodes = 2 }
        assert.equal(C.MS_E_CLOSED, C.ms_sim_kill(s.sim, 0))
        assert.equal(C.MS_E_CLOSED, C.ms_sim_lead(s.sim, 0, true))
        s:start(0)
        assert.equal(C.MS_E_INVALID, C.ms_sim_start(s.sim, 0))
        assert.equal(C.MS_E_INVALID, C.ms_sim_wipe(s.sim, 0))
    end)
end)
