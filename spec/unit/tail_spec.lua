-- state/tail: records become groups of bounded size; what is written is kept for followers up to a bound.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local function tail(group_bytes, head)
    local t = ffi.new("struct ms_tail")
    C.ms_tail_init(t, group_bytes, head or 0)
    return ffi.gc(t, C.ms_tail_close)
end

local function append(t, size)
    ms.check(C.ms_tail_reserve(t, size))
    ffi.fill(C.ms_tail_append(t, size), size, 0x61)
end

describe("the tail", function()
    it("closes a group at its size, and counts exactly the bytes that groups take", function()
        local t, total = tail(256, 100), 0
        for _ = 1, 50 do append(t, 40) end
        C.ms_tail_seal(t)
        local block, lsn = t.retained.next, 101
        while block ~= t.retained do
            local b = ffi.cast("struct ms_block *", ffi.cast("char *", block) - ffi.offsetof("struct ms_block", "node"))
            assert.equal(lsn, tonumber(b.first))
            assert.is_true(b.body_size <= 256)
            assert.equal(0, tonumber(b.size) % 8)
            total = total + tonumber(b.size)
            assert.equal(total, tonumber(b.end_bytes))
            lsn = tonumber(b.last) + 1
            block = block.next
        end
        assert.equal(151, lsn)
        assert.equal(total, tonumber(t.bytes))
        assert.equal(total, tonumber(t.unwritten))
        assert.equal(150, tonumber(t.head))
    end)

    it("gives a large record a group of its own", function()
        local t = tail(256)
        append(t, 40)
        append(t, 5000)
        append(t, 40)
        C.ms_tail_seal(t)
        assert.equal(1, C.ms_tail_find(t, 1).count)
        assert.equal(5000, C.ms_tail_find(t, 2).body_size)
        assert.equal(1, C.ms_tail_find(t, 3).count)
    end)

    it("knows what an append will cost", function()
        math.randomseed(3)
        local t = tail(512)
        for _ = 1, 2000 do
            local size = math.random(1, 700)
            local before, cost = tonumber(t.bytes), tonumber(C.ms_tail_cost(t, size))
            append(t, size)
            assert.equal(cost, tonumber(t.bytes) - before)
            if math.random() < 0.1 then C.ms_tail_seal(t) end
        end
    end)

    it("keeps written blocks up to the bound, and unwritten ones beyond it", function()
        local t = tail(100)
        for _ = 1, 40 do append(t, 90) end
        C.ms_tail_seal(t)
        C.ms_tail_written(t, 10, 0)
        assert.is_true(C.ms_tail_find(t, 10) == nil)
        assert.is_false(C.ms_tail_find(t, 11) == nil)
        C.ms_tail_written(t, 40, 5 * 156) -- of memory: a usual block has room for header, 100 bytes, padding
        assert.is_true(C.ms_tail_find(t, 35) == nil)
        assert.is_false(C.ms_tail_find(t, 36) == nil)
        assert.equal(0, tonumber(t.unwritten))
    end)

    it("finds what is retained, and knows what is not written, as a list of all groups does", function()
        math.randomseed(11)
        local t, groups, written = tail(200), {}, 0
        local function check(lsn)
            local expected
            for _, group in ipairs(groups) do
                if group.first <= lsn and lsn <= group.last then expected = group end
            end
            local found = C.ms_tail_find(t, lsn)
            if not expected then return assert.is_true(found == nil, "lsn " .. lsn) end
            assert.equal(expected.first, tonumber(found.first))
            assert.equal(expected.last, tonumber(found.last))
        end
        for _ = 1, 3000 do
            local dice, head = math.random(), tonumber(t.head)
            if dice < 0.5 then
                for _ = 1, math.random(1, 3) do append(t, math.random(1, 60)) end
                local block = C.ms_tail_seal(t)
                groups[#groups + 1] = { first = head + 1, last = tonumber(t.head), size = tonumber(block.size), memory = tonumber(block.capacity) }
            elseif dice < 0.6 and written < head then
                written = math.random(written + 1, head)
                local keep, memory, unwritten = math.random(0, 20000), 0, 0
                for _, group in ipairs(groups) do
                    memory = memory + group.memory
                    if group.last > written then unwritten = unwritten + group.size end
                end
                C.ms_tail_written(t, written, keep)
                while groups[1] and groups[1].last <= written and memory > keep do memory = memory - table.remove(groups, 1).memory end
                assert.equal(unwritten, tonumber(t.unwritten))
            else
                check(math.random(0, head + 1))
            end
        end
        assert.is_true(#groups > 0)
    end)

    it("fails before anything changed when memory is out, and leaks nothing", function()
        local live = C.ms_mem_live()
        local t = tail(100)
        append(t, 60)
        C.ms_mem_fail_after(1)
        assert.equal(C.MS_E_MEMORY, C.ms_tail_reserve(t, 60))
        C.ms_mem_fail_after(0)
        assert.equal(1, tonumber(t.head))
        append(t, 60)
        assert.equal(2, tonumber(t.head))
        ms.check(C.ms_tail_reserve(t, 5000)) -- reserved and never used
        append(t, 7000)
        C.ms_tail_close(ffi.gc(t, nil))
        assert.is_true(live == C.ms_mem_live())
    end)
end)
