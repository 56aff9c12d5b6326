-- base/mem: every block is counted, and the n-th allocation can be made to fail, once.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

describe("the allocation seam", function()
    local before
    before_each(function() before = ms.live() end)
    after_each(function()
        C.ms_mem_fail_after(0)
        assert.equal(before, ms.live())
    end)

    it("counts live blocks", function()
        local a, b, c = C.ms_alloc(10), C.ms_alloc_zero(20), C.ms_strdup("text")
        assert.equal(before + 3, ms.live())
        C.ms_release(a)
        C.ms_release(b)
        assert.equal(before + 1, ms.live())
        C.ms_release(c)
        C.ms_release(nil)
    end)

    it("gives zeroed memory and true copies", function()
        local zero = ffi.cast("uint8_t *", C.ms_alloc_zero(100))
        for n = 0, 99 do assert.equal(0, zero[n]) end
        local copy = C.ms_strdup("a copy")
        assert.equal("a copy", ffi.string(copy))
        C.ms_release(zero)
        C.ms_release(copy)
    end)

    it("gives a block for size 0, so that NULL always means failure", function()
        local a, b, c = C.ms_alloc(0), C.ms_alloc_zero(0), C.ms_realloc(nil, 0)
        assert.is_true(a ~= nil and b ~= nil and c ~= nil)
        local d = C.ms_realloc(c, 0)
        assert.is_true(d ~= nil)
        for _, block in ipairs { a, b, d } do C.ms_release(block) end
    end)

    it("keeps content and count when a block grows", function()
        local block = ffi.cast("char *", C.ms_realloc(nil, 4))
        ffi.copy(block, "abcd", 4)
        block = ffi.cast("char *", C.ms_realloc(block, 100000))
        assert.equal("abcd", ffi.string(block, 4))
        assert.equal(before + 1, ms.live())
        C.ms_release(block)
    end)

    it("fails the n-th allocation from now, once, with a message", function()
        C.ms_mem_fail_after(2)
        local a = C.ms_alloc(1)
        local b = C.ms_alloc(123)
        assert.equal("out of memory (123 bytes)", ms.err())
        local c = C.ms_alloc(1)
        assert.is_true(a ~= nil and b == nil and c ~= nil)
        C.ms_release(a)
        C.ms_release(c)
    end)

    it("can fail each of its four functions; a failed growth leaves the old block alone", function()
        local block = ffi.cast("char *", C.ms_alloc(4))
        ffi.copy(block, "abcd", 4)
        for _, allocate in ipairs {
            function() return C.ms_alloc(1) end,
            function() return C.ms_alloc_zero(1) end,
            function() return C.ms_realloc(nil, 1) end,
            function() return C.ms_realloc(block, 1000) end,
            function() return C.ms_strdup("x") end,
        } do
            C.ms_mem_fail_after(1)
            assert.is_true(allocate() == nil)
            assert.equal(before + 1, ms.live())
        end
        assert.equal("abcd", ffi.string(block, 4))
        C.ms_release(block)
    end)

    it("hands back what is left of a countdown", function()
        assert.equal(0, tonumber(C.ms_mem_fail_after(5)))
        C.ms_release(C.ms_alloc(1))
        assert.equal(4, tonumber(C.ms_mem_fail_after(0)))
        C.ms_release(C.ms_alloc(1))
        assert.equal(0, tonumber(C.ms_mem_fail_after(0)))
    end)

    it("says out of memory for a size that nobody has", function()
        assert.is_true(C.ms_alloc(ffi.cast("size_t", 2 ^ 62)) == nil)
        assert.truthy(ms.err():find("out of memory", 1, true))
    end)
end)

describe("the sweep over failing allocations", function()
    it("fails each allocation in turn and stops at the first run without a failure", function()
        local failed = {}
        local count = ms.with_alloc_failures(function(n)
            local blocks = { C.ms_alloc(1), C.ms_alloc(2), C.ms_alloc(3) }
            for k = 1, 3 do
                if blocks[k] == nil then failed[n] = k end
                C.ms_release(blocks[k])
            end
        end)
        assert.equal(3, count)
        assert.same({ 1, 2, 3 }, failed)
    end)

    it("finds the run that loses a block", function()
        local lost
        local ok, why = pcall(ms.with_alloc_failures, function()
            local a, b = C.ms_alloc(1), C.ms_alloc(2)
            if b == nil then lost = a return end
            C.ms_release(a)
            C.ms_release(b)
        end)
        C.ms_release(lost)
        assert.is_false(ok)
        assert.truthy(why:find("allocation 2 failing: 1 blocks are left over", 1, true), why)
    end)
end)
