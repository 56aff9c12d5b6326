-- state/table: a table is the fold of what was applied to it, its digest does not depend on the order, and every refusal comes
-- before a change.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local function new_table(type)
    local table = ffi.new("struct ms_table_state")
    ms.check(C.ms_table_init(table, 1, type or C.MS_TYPE_BYTES, ms.bytes("topic")))
    return ffi.gc(table, C.ms_table_close)
end

local function fold(table, key, value)
    local bytes = ms.bytes(key)
    return C.ms_table_fold(table, bytes, C.ms_key_hash(bytes), ms.bytes(value))
end

local function get(table, key)
    local bytes = ms.bytes(key)
    return ms.str(C.ms_table_get(table, bytes, C.ms_key_hash(bytes)))
end

-- All entries, by visiting every shard.
local function entries(table, logged)
    local all = {}
    ms.with_two(function(key, value)
        assert.is_nil(all[key], "visited twice: " .. key)
        all[key] = value
    end, function(fn, context)
        for shard = 0, C.MS_TABLE_SHARDS - 1 do assert.equal(0, C.ms_table_visit(table, shard, logged or false, fn, context)) end
    end)
    return all
end

describe("a table", function()
    it("holds what a stupid model holds, under random puts of other sizes and deletes", function()
        math.randomseed(7)
        local table, model, live = new_table(), {}, 0
        for step = 1, 20000 do
            local key = "key-" .. math.random(1, 1500)
            local value = math.random() < 0.7 and ("v"):rep(math.random(0, 40)) .. step or nil
            ms.check(fold(table, key, value))
            live = live + (value and 1 or 0) - (model[key] and 1 or 0)
            model[key] = value
            if step % 50 == 0 then assert.equal(model[key], get(table, key)) end
        end
        assert.same(model, entries(table))
        assert.equal(live, tonumber(table.content.live))
        assert.equal(live, tonumber(table.content.count))
        ms.check(C.ms_table_verify(table))
    end)

    it("is walked a few entries at a time while it grows: what is there all the time is met once", function()
        local table, place, coming = new_table(), ffi.new "struct ms_table_place", {}
        for i = 1, 70000 do ms.check(fold(table, "old" .. i, "v")) end
        for i = 1, 70000 do
            local shard = tonumber(C.ms_key_hash(ms.bytes("new" .. i)) / 2ULL ^ 53)
            coming[shard] = coming[shard] or {}
            coming[shard][#coming[shard] + 1] = "new" .. i
        end
        local met, doubled = {}, 0
        ms.with_two(function(key)
            assert.is_nil(met[key], "met twice: " .. key)
            met[key] = true
        end, function(fn, context)
            while place.shard < C.MS_TABLE_SHARDS do
                local index = place.shard
                assert.equal(0, C.ms_table_walk(table, place, false, fn, context))
                local shard = table.content.shards[index]
                local before = shard.buckets
                for _, key in ipairs(coming[index] or {}) do ms.check(fold(table, key, "v")) end
                coming[index] = nil
                if place.shard == index and shard.buckets ~= before then doubled = doubled + 1 end
            end
        end)
        for i = 1, 70000 do assert.is_true(met["old" .. i], "not met: old" .. i) end
        assert.is_true(doubled > 50, doubled .. " shards doubled in the midst")
    end)

    -- Reads all keys in one go, with `change` called after each step. It ends in any case: who closes the table waits for that.
    local function read(table, change)
        local place, met, count = ffi.new "struct ms_table_place", {}, 0
        local content = C.ms_table_read_begin(table)
        local ok, why = pcall(ms.with_two, function(key)
            assert.is_nil(met[key], "met twice: " .. key)
            met[key] = true
            count = count + 1
        end, function(_, context)
            while place.shard < C.MS_TABLE_SHARDS do
                assert.equal(0, C.ms_content_read(content, place, C.spec_thunk_key, context))
                if change then change() end
            end
        end)
        C.ms_table_read_end(content)
        assert(ok, why)
        return met, count
    end

    it("is read without the lock while entries come, change, and go: what is freed meanwhile stays, and no shard gets other buckets", function()
        local table = new_table()
        for i = 1, 5000 do ms.check(fold(table, "stay" .. i, "v")) end
        for i = 1, 5000 do ms.check(fold(table, "go" .. i, "v")) end
        local n, buckets, changed = 0, {}, 0
        for shard = 0, C.MS_TABLE_SHARDS - 1 do buckets[shard] = table.content.shards[shard].buckets end
        local met = read(table, function()
            for _ = 1, 4 do
                n = n + 1
                if n > 5000 then return end
                ms.check(fold(table, "stay" .. n, ("v"):rep(n % 90)))
                ms.check(fold(table, "go" .. n, nil))
                for k = 1, 6 do ms.check(fold(table, "new" .. n .. "-" .. k, "v")) end
            end
        end)
        for i = 1, 5000 do assert.is_true(met["stay" .. i], "not met: stay" .. i) end
        for shard = 0, C.MS_TABLE_SHARDS - 1 do
            if buckets[shard] ~= 0 and table.content.shards[shard].buckets ~= buckets[shard] then changed = changed + 1 end
        end
        assert.equal(0, changed)
        ms.check(C.ms_table_verify(table))
        assert.is_true(table.content.limbo ~= nil)
        for i = 1, 5000 do -- with later ones that are freed, they leave limbo; and shards grow again
            ms.check(fold(table, "more" .. i, "v"))
            ms.check(fold(table, "new" .. i .. "-1", nil))
        end
        assert.is_true(table.content.limbo == nil)
        for shard = 0, C.MS_TABLE_SHARDS - 1 do
            if buckets[shard] ~= 0 and table.content.shards[shard].buckets ~= buckets[shard] then changed = changed + 1 end
        end
        assert.is_true(changed > 100, tostring(changed))
        local _, count = read(table)
        assert.equal(tonumber(table.content.live), count)
        ms.check(C.ms_table_verify(table))
    end)

    it("is read without what has no current value", function()
        local table = new_table()
        local function put(key, value)
            local bytes = ms.bytes(key)
            ms.check(C.ms_buffer_put(table, C.ms_table_find(table, bytes, C.ms_key_hash(bytes)), bytes, ms.bytes(value)))
        end
        for i = 1, 100 do put("k" .. i, "v") end
        ms.check(fold(table, "logged", "v"))
        put("logged", nil)
        put("k1", nil)
        local met, count = read(table)
        assert.equal(99, count)
        assert.is_nil(met.k1)
        assert.is_nil(met.logged)
    end)

    it("has a digest that depends on the entries and not on the way to them", function()
        local a, b = new_table(), new_table()
        for i = 1, 300 do ms.check(fold(a, "k" .. i, "v" .. i)) end
        for i = 300, 1, -1 do
            ms.check(fold(b, "k" .. i, "something else"))
            ms.check(fold(b, "gone" .. i, "x"))
        end
        for i = 1, 300 do
            ms.check(fold(b, "gone" .. i, nil))
            ms.check(fold(b, "k" .. i, "v" .. i))
        end
        assert.equal(ms.dec(a.content.digest), ms.dec(b.content.digest))
        ms.check(fold(b, "k1", "v2"))
        assert.not_equal(ms.dec(a.content.digest), ms.dec(b.content.digest))
        ms.check(fold(b, "k1", "v1"))
        assert.equal(ms.dec(a.content.digest), ms.dec(b.content.digest))
    end)

    it("keeps values apart that swap between two keys (a plain sum of value hashes would not)", function()
        local a, b = new_table(), new_table()
        ms.check(fold(a, "x", "1")) ms.check(fold(a, "y", "2"))
        ms.check(fold(b, "x", "2")) ms.check(fold(b, "y", "1"))
        assert.not_equal(ms.dec(a.content.digest), ms.dec(b.content.digest))
    end)

    it("tells an empty value from none, and keeps binary keys", function()
        local table = new_table()
        ms.check(fold(table, "a\0b", ""))
        assert.equal("", get(table, "a\0b"))
        assert.is_nil(get(table, "a"))
        ms.check(fold(table, "a\0b", nil))
        assert.is_nil(get(table, "a\0b"))
        ms.check(C.ms_table_verify(table))
    end)

    it("changes nothing when memory is out at any point", function()
        local table = new_table()
        for i = 1, 40 do ms.check(fold(table, "k" .. i, "old")) end
        local before = ms.dec(table.content.digest)
        for n = 1, 10 do
            C.ms_mem_fail_after(n)
            local rc = fold(table, "fresh" .. n, "a new value")
            local left = C.ms_mem_fail_after(0)
            if left > 0 then
                ms.check(rc)
                ms.check(fold(table, "fresh" .. n, nil))
            elseif rc ~= 0 then
                assert.equal(C.MS_E_MEMORY, rc)
                assert.is_nil(get(table, "fresh" .. n))
            else
                ms.check(fold(table, "fresh" .. n, nil))
            end
            assert.equal(before, ms.dec(table.content.digest))
            ms.check(C.ms_table_verify(table))
        end
    end)

    it("is found damaged when one byte of a value is flipped in memory (CASES B20's detector)", function()
        local table = new_table()
        ms.check(fold(table, "k", "value"))
        local bytes = C.ms_table_get(table, ms.bytes("k"), C.ms_key_hash(ms.bytes("k")))
        local at = ffi.cast("uint8_t *", bytes.data)
        at[2] = bit.bxor(at[2], 1)
        assert.equal(C.MS_E_DAMAGED, C.ms_table_verify(table))
        assert.matches("topic", ms.err())
        at[2] = bit.bxor(at[2], 1)
        ms.check(C.ms_table_verify(table))
    end)
end)

-- ---- spots ---------------------------------------------------------------------------------------------------------------

describe("a spot", function()
    local function find(table, key)
        local bytes = ms.bytes(key)
        return C.ms_table_find(table, bytes, C.ms_key_hash(bytes))
    end
    local function holds(table, key, value)
        local spot, bytes = find(table, key), ms.bytes(value)
        return C.ms_spot_holds(spot, bytes, value and C.ms_entry_hash(spot.key_hash, bytes) or 0)
    end

    it("says whether there is a value, and whether it is this one", function()
        local table = new_table()
        assert.is_false(C.ms_spot_live(find(table, "k")))
        assert.is_true(holds(table, "k", nil))
        assert.is_false(holds(table, "k", "v"))
        ms.check(fold(table, "k", "v"))
        assert.is_true(C.ms_spot_live(find(table, "k")))
        assert.is_true(holds(table, "k", "v"))
        assert.is_false(holds(table, "k", "w"))
        assert.is_false(holds(table, "k", nil))
        ms.check(fold(table, "k", nil))
        assert.is_false(C.ms_spot_live(find(table, "k")))
    end)

    it("is one for current values: of dirty entries and tombstones too", function()
        local table = new_table()
        local function put(key, value) ms.check(C.ms_buffer_put(table, find(table, key), ms.bytes(key), ms.bytes(value))) end
        ms.check(fold(table, "k", "logged"))
        put("k", "newer")
        assert.is_true(holds(table, "k", "newer"))
        assert.is_false(holds(table, "k", "logged"))
        put("k", nil)
        assert.is_false(C.ms_spot_live(find(table, "k")))
        assert.is_true(holds(table, "k", nil))
        assert.is_false(holds(table, "k", "logged"))
    end)

    it("does not take a value for equal because its hash is", function()
        local table = new_table()
        ms.check(fold(table, "k", "v"))
        local spot = find(table, "k")
        assert.is_false(C.ms_spot_holds(spot, ms.bytes "w", C.ms_entry_hash(spot.key_hash, ms.bytes "v")))
    end)

    it("serves prepare and apply, whether the entry is there, changes its size, or is new", function()
        local table, model = new_table(), {}
        for step = 1, 3000 do
            local key, value = "key" .. step % 700, step % 11 > 0 and ("x"):rep(step % 5) .. step or nil
            local bytes, spot, prepared = ms.bytes(key), find(table, key), ffi.new "struct ms_prepared[1]"
            ms.check(C.ms_table_prepare(table, spot, bytes, ms.bytes(value), prepared))
            if step % 7 == 0 then
                C.ms_prepared_abandon(prepared)
            else
                C.ms_table_apply(table, spot, bytes, ms.bytes(value), value and C.ms_entry_hash(spot.key_hash, ms.bytes(value)) or 0, prepared)
                model[key] = value
            end
            if step % 100 == 0 then ms.check(C.ms_table_verify(table)) end
        end
        assert.same(model, entries(table))
    end)
end)

-- ---- the double buffer -------------------------------------------------------------------------------------------------

local function buffer_put(table, key, value)
    local bytes = ms.bytes(key)
    return C.ms_buffer_put(table, C.ms_table_find(table, bytes, C.ms_key_hash(bytes)), bytes, ms.bytes(value))
end

-- Logs up to `max` keys of the flushing set into `log`, as a flush does.
local function flush(table, log, max)
    local key, hash, value = ffi.new("struct ms_bytes"), ffi.new("uint64_t[1]"), ffi.new("struct ms_bytes")
    C.ms_buffer_swap(table)
    local logged = 0
    while logged < max and C.ms_buffer_next(table, key, hash, value) do
        log[ms.str(key)] = ms.str(value)
        C.ms_buffer_done(table)
        logged = logged + 1
    end
    return logged
end

describe("the double buffer", function()
    it("has readers see the newest value, logs each key once a flush, and only the newest value", function()
        local table, log = new_table(), {}
        for i = 1, 100 do ms.check(buffer_put(table, "hot", "v" .. i)) end
        assert.equal("v100", get(table, "hot"))
        assert.equal(1, tonumber(C.ms_buffer_entries(table)))
        assert.same({}, entries(table, true))
        assert.equal(1, flush(table, log, 1000))
        assert.same({ hot = "v100" }, log)
        assert.same({ hot = "v100" }, entries(table, true))
        assert.equal(0, tonumber(C.ms_buffer_entries(table)))
        assert.equal(0, tonumber(C.ms_buffer_bytes(table)))
        ms.check(C.ms_table_verify(table))
    end)

    it("keeps a tombstone until the delete is logged, and never resurrects", function()
        local table, log = new_table(), {}
        ms.check(buffer_put(table, "k", "1"))
        flush(table, log, 10)
        ms.check(buffer_put(table, "k", nil))
        assert.is_nil(get(table, "k"))
        assert.same({ k = "1" }, entries(table, true))
        assert.same({}, entries(table))
        ms.check(C.ms_table_verify(table))
        flush(table, log, 10)
        assert.is_nil(log.k)
        assert.same({}, entries(table, true))
        ms.check(C.ms_table_verify(table))
    end)

    it("logs nothing for a value that went there and back", function()
        local table, log = new_table(), {}
        ms.check(buffer_put(table, "k", "1"))
        flush(table, log, 10)
        ms.check(buffer_put(table, "k", "22"))
        ms.check(buffer_put(table, "k", "1"))
        ms.check(buffer_put(table, "new", "x"))
        ms.check(buffer_put(table, "new", nil))
        assert.equal(0, flush(table, {}, 10))
        assert.equal(0, tonumber(C.ms_buffer_entries(table)))
        ms.check(C.ms_table_verify(table))
    end)

    it("goes on after a refused flush with the newest values, put meanwhile or not", function()
        local table, log = new_table(), {}
        for i = 1, 10 do ms.check(buffer_put(table, "k" .. i, "old")) end
        assert.equal(4, flush(table, log, 4)) -- the fifth append was refused
        for i = 1, 10 do ms.check(buffer_put(table, "k" .. i, "new" .. i)) end
        while flush(table, log, 3) > 0 do ms.check(C.ms_table_verify(table)) end
        for i = 1, 10 do assert.equal("new" .. i, log["k" .. i]) end
    end)

    it("is the same as a stupid model under random puts, deletes, partial flushes and discards", function()
        math.randomseed(11)
        local table, current, logged = new_table(), {}, {}
        for step = 1, 30000 do
            local dice = math.random()
            if dice < 0.97 then
                local key = "k" .. math.random(1, 300)
                local value = math.random() < 0.75 and ("x"):rep(math.random(0, 20)) .. math.random(1, 3) or nil
                ms.check(buffer_put(table, key, value))
                current[key] = value
            elseif dice < 0.999 then
                flush(table, logged, math.random(1, 200))
            else
                C.ms_buffer_discard(table)
                current = {}
                for key, value in pairs(logged) do current[key] = value end
            end
            if step % 1000 == 0 then
                ms.check(C.ms_table_verify(table))
                assert.same(current, entries(table))
                assert.same(logged, entries(table, true))
            end
        end
        C.ms_buffer_discard(table)
        assert.same(logged, entries(table))
        assert.equal(0, tonumber(C.ms_buffer_entries(table)))
        ms.check(C.ms_table_verify(table))
    end)

    it("changes nothing when memory is out", function()
        local table = new_table()
        ms.check(buffer_put(table, "k", "1"))
        flush(table, {}, 10)
        for n = 1, 6 do
            for _, change in ipairs { { "k", "longer value" .. n }, { "fresh", "v" }, { "k", nil } } do
                C.ms_mem_fail_after(n)
                local rc = buffer_put(table, change[1], change[2])
                C.ms_mem_fail_after(0)
                if rc ~= 0 then assert.equal(C.MS_E_MEMORY, rc) end
                ms.check(C.ms_table_verify(table))
                C.ms_buffer_discard(table)
                assert.same({ k = "1" }, entries(table))
            end
        end
    end)
end)
