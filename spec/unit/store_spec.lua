-- state/store: folding the log, marks, and taking a bootstrap's tables without a reader noticing.
local ms = require "spec.support.ms"
local groups = require "spec.support.groups"
local C = ms.C

local function get(store, name, key)
    local table = C.ms_store_find(store, ms.bytes(name))
    if table == nil then return nil end
    local bytes = ms.bytes(key)
    return ms.str(C.ms_table_get(table, bytes, C.ms_key_hash(bytes)))
end

local function filled(id, name, entries)
    local store = groups.store()
    local records = { { "epoch", 0, 1, 7 }, { "table", id, C.MS_TYPE_BYTES, name } }
    for key, value in pairs(entries) do records[#records + 1] = { "put", id, key, value } end
    ms.check(groups.fold(store, 1, records))
    return store
end

describe("a store", function()
    it("is the fold of its log", function()
        local store = filled(1, "topic", { a = "1", b = "2" })
        ms.check(groups.fold(store, 5, { { "put", 1, "a", "3" }, { "delete", 1, "b" }, { "table", 2, C.MS_TYPE_INT64, "offset" },
            { "put", 2, "q", ("\1"):rep(8) } }))
        assert.equal("3", get(store, "topic", "a"))
        assert.is_nil(get(store, "topic", "b"))
        assert.equal(8, tonumber(store.applied))
        assert.equal(1, store.lineage.count)
    end)

    it("refuses a gap, a repetition, an undefined table, a value of the wrong type, a redefined table", function()
        local store = filled(1, "topic", { a = "1" })
        assert.equal(C.MS_E_FORMAT, groups.fold(store, 5, { { "put", 1, "a", "2" } }))
        assert.equal(C.MS_E_FORMAT, groups.fold(store, 3, { { "put", 1, "a", "2" } }))
        assert.equal(C.MS_E_DAMAGED, groups.fold(store, 4, { { "put", 9, "a", "2" } }))
        assert.equal(C.MS_E_DAMAGED, groups.fold(store, 4, { { "table", 1, C.MS_TYPE_INT64, "topic" } }))
        assert.equal(C.MS_E_DAMAGED, groups.fold(store, 4, { { "table", 2, C.MS_TYPE_BYTES, "topic" } }))
        ms.check(groups.fold(store, 4, { { "table", 2, C.MS_TYPE_INT64, "offset" } }))
        assert.equal(C.MS_E_DAMAGED, groups.fold(store, 5, { { "put", 2, "a", "1234567" } }))
        assert.equal("1", get(store, "topic", "a"))
    end)

    it("steps over optional records and counts them; their lsns count", function()
        local store = filled(1, "topic", { a = "1" })
        ms.check(groups.fold(store, 4, { { "raw", 0xD0, "from the future" }, { "put", 1, "a", "2" } }))
        assert.equal("2", get(store, "topic", "a"))
        assert.equal(1, tonumber(store.skipped))
        assert.equal(5, tonumber(store.applied))
    end)

    it("checks marks: equal tables pass, one flipped value does not, and the message names table and lsn", function()
        local store, other = filled(1, "topic", { a = "1", b = "2" }), filled(1, "topic", { a = "1", b = "x" })
        local mark = groups.mark_of(store)
        ms.check(groups.fold(store, 5, { { "mark", mark } }))
        assert.equal(1, tonumber(store.marks_checked))
        assert.equal(C.MS_E_DAMAGED, groups.fold(other, 5, { { "mark", mark } }))
        assert.matches("mark at lsn 5: table topic", ms.err())
    end)

    it("checks that a mark knows all tables, both ways", function()
        local store, more = filled(1, "topic", { a = "1" }), filled(1, "topic", { a = "1" })
        ms.check(groups.fold(more, 4, { { "table", 2, C.MS_TYPE_BYTES, "extra" } }))
        assert.equal(C.MS_E_DAMAGED, C.ms_store_check_mark(more, ms.bytes(groups.mark_of(store)), 9))
        assert.equal(C.MS_E_DAMAGED, C.ms_store_check_mark(store, ms.bytes(groups.mark_of(more)), 9))
    end)
end)

describe("taking a bootstrap's tables", function()
    it("keeps handles good (A34), swaps contents, parks what the new history lacks and gives back the old content", function()
        local store = filled(1, "topic", { a = "old", gone = "x" })
        ms.check(groups.fold(store, 5, { { "table", 2, C.MS_TYPE_BYTES, "mine" }, { "put", 2, "k", "v" } }))
        local topic, mine = C.ms_store_find(store, ms.bytes("topic")), C.ms_store_find(store, ms.bytes("mine"))
        local from = filled(5, "topic", { a = "new", fresh = "y" })
        ms.check(groups.fold(from, 5, { { "table", 6, C.MS_TYPE_BYTES, "theirs" }, { "put", 6, "k", "w" } }))
        ms.check(C.ms_store_take(store, from))
        assert.is_true(topic == C.ms_store_find(store, ms.bytes("topic")))
        assert.equal(5, topic.id)
        assert.equal("new", get(store, "topic", "a"))
        assert.equal("y", get(store, "topic", "fresh"))
        assert.is_nil(get(store, "topic", "gone"))
        assert.equal("w", get(store, "theirs", "k"))
        assert.equal(0, mine.id)
        assert.equal(0, tonumber(mine.content.live))
        assert.is_true(C.ms_store_find(store, ms.bytes("mine")) == nil)
        assert.equal(6, tonumber(store.applied))
        assert.equal(2, store.table_count)
        -- The parked handle comes back to life when the log defines its name.
        ms.check(groups.fold(store, 7, { { "table", 3, C.MS_TYPE_INT64, "mine" }, { "put", 3, "q", ("\0"):rep(8) } }))
        assert.is_true(mine == C.ms_store_find(store, ms.bytes("mine")))
        assert.equal(3, mine.id)
    end)

    it("changes nothing when memory is out or a type differs, and leaks nothing", function()
        collectgarbage() collectgarbage()
        local live = C.ms_mem_live()
        do
            local store = filled(1, "topic", { a = "old" })
            ms.check(groups.fold(store, 4, { { "table", 2, C.MS_TYPE_BYTES, "mine" } }))
            local from = filled(1, "topic", { a = "new" })
            for n = 1, 2 do
                C.ms_mem_fail_after(n)
                assert.equal(C.MS_E_MEMORY, C.ms_store_take(store, from))
                C.ms_mem_fail_after(0)
                assert.equal("old", get(store, "topic", "a"))
                assert.equal("new", get(from, "topic", "a"))
            end
            local typed = groups.store()
            ms.check(groups.fold(typed, 1, { { "table", 1, C.MS_TYPE_INT64, "topic" } }))
            assert.equal(C.MS_E_TYPE, C.ms_store_take(store, typed))
            ms.check(C.ms_store_take(store, from))
            for _, each in ipairs { store, from, typed } do C.ms_store_close(each) end
        end
        collectgarbage() collectgarbage()
        assert.is_true(live == C.ms_mem_live())
    end)
end)
