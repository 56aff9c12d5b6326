-- base/stock: pieces whose addresses stay readable, kept for the next who wants one.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local SIZE = 128 * 1024

-- Never collected: pieces that are kept are linked from it.
local function new_stock(size, link)
    local stock = ffi.cast("struct ms_stock *", ffi.gc(C.ms_alloc_zero(ffi.sizeof "struct ms_stock"), nil)) -- zeros are an unlocked mutex
    stock.size, stock.alignment, stock.link = size, 4096, link or 0
    return stock
end

local function bytes(piece) return ffi.cast("uint8_t *", piece) end

describe("a stock", function()
    it("gives zeros that count as one block", function()
        local stock, zero = new_stock(SIZE), ffi.new "bool[1]"
        local live = ms.live()
        local piece = C.ms_stock_take(stock, zero)
        assert.is_true(zero[0])
        assert.equal(live + 1, ms.live())
        for i = 0, SIZE - 1, 1000 do assert.equal(0, bytes(piece)[i]) end
        C.ms_stock_give(stock, piece)
        assert.equal(live, ms.live())
    end)

    if ms.library:find "asan" then return end -- there nothing is kept

    it("gives zeros, and what was given back again, at the same address", function()
        local stock = new_stock(SIZE)
        local live, zero = ms.live(), ffi.new "bool[1]"
        local a, b = C.ms_stock_take(stock, zero), C.ms_stock_take(stock, nil)
        assert.is_true(zero[0])
        assert.equal(live + 2, ms.live())
        assert.equal(0, tonumber(ffi.cast("uintptr_t", a)) % 4096)
        for i = 0, SIZE - 1, 1000 do assert.equal(0, bytes(a)[i]) end
        ffi.fill(a, SIZE, 1)
        ffi.fill(b, SIZE, 2)
        C.ms_stock_give(stock, a)
        C.ms_stock_give(stock, b)
        C.ms_stock_give(stock, nil)
        assert.equal(live, ms.live())
        assert.is_true(C.ms_stock_take(stock, zero) == b)
        assert.is_true(C.ms_stock_take(stock, zero) == a)
        for i = 8, SIZE - 1, 1000 do assert.equal(0, bytes(a)[i]) end -- a large piece gives its pages back meanwhile
        assert.is_true(zero[0])
        C.ms_stock_give(stock, a)
        C.ms_stock_give(stock, b)
    end)

    it("leaves a small piece as it was, but for the link, and says so", function()
        local stock, zero = new_stock(4096, 4000), ffi.new "bool[1]"
        local piece = C.ms_stock_take(stock, zero)
        assert.is_true(zero[0])
        ffi.fill(piece, 4096, 7)
        C.ms_stock_give(stock, piece)
        assert.equal(7, bytes(piece)[3999]) -- readable still
        assert.is_true(C.ms_stock_take(stock, zero) == piece)
        assert.is_false(zero[0])
        assert.equal(7, bytes(piece)[0])
        C.ms_stock_give(stock, piece)
    end)

    it("prepares pieces that don't count until they are used", function()
        local stock, live = new_stock(2 * 1024 * 1024), ms.live()
        stock.alignment = 2 * 1024 * 1024
        local piece = C.ms_stock_prepare(stock)
        assert.equal(0, tonumber(ffi.cast("uintptr_t", piece)) % (2 * 1024 * 1024))
        assert.equal(live, ms.live())
        for i = 0, 2 * 1024 * 1024 - 1, 4096 do assert.equal(0, bytes(piece)[i]) end
        C.ms_stock_keep(stock, piece)
        C.ms_stock_keep(stock, nil)
        assert.is_true(C.ms_stock_prepare(stock) == piece)
        C.ms_stock_keep(stock, piece)
        assert.equal(live, ms.live())
    end)

    it("fails where it is told to, with nothing taken", function()
        local stock = new_stock(SIZE)
        local live = ms.live()
        C.ms_mem_fail_after(1)
        assert.is_true(C.ms_stock_take(stock, nil) == nil)
        C.ms_mem_fail_after(0)
        assert.matches("out of memory", ms.err())
        assert.equal(live, ms.live())
    end)
end)
