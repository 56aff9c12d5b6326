-- base/pool: small blocks that don't overlap, are used again, count as alive one by one, and fail when they have to.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local function new_pool()
    local pool = ffi.new "struct ms_pool"
    C.ms_pool_init(pool)
    return pool
end

local function alloc(pool, size)
    local units = ffi.new "uint8_t[1]"
    local block = C.ms_pool_alloc(pool, size, units)
    if block == nil then return nil end
    return { at = ffi.cast("uint8_t *", block), size = size, units = units[0] }
end

describe("a pool", function()
    it("gives blocks that nobody else writes to, of all sizes, freed and taken in any order", function()
        math.randomseed(17)
        local live, pool, blocks = ms.live(), new_pool(), {}
        local function check(block)
            for _, i in ipairs { 0, math.floor(block.size / 2), block.size - 1 } do assert.equal(block.mark, block.at[i]) end
        end
        for step = 1, 40000 do
            if #blocks == 0 or math.random() < 0.55 then
                local block = alloc(pool, math.random() < 0.02 and math.random(2000, 9000) or math.random(1, 300))
                assert.equal(0, tonumber(ffi.cast("uintptr_t", block.at)) % 8)
                block.mark = step % 251
                ffi.fill(block.at, block.size, block.mark)
                blocks[#blocks + 1] = block
            else
                local i = math.random(#blocks)
                local block = blocks[i]
                check(block)
                C.ms_pool_free(pool, block.at, block.units)
                blocks[i] = blocks[#blocks]
                blocks[#blocks] = nil
            end
        end
        for _, block in ipairs(blocks) do
            check(block)
            C.ms_pool_free(pool, block.at, block.units)
        end
        C.ms_pool_close(pool)
        assert.equal(live, ms.live())
    end)

    it("takes no more chunks when as many blocks are freed as taken", function()
        if ms.library:find "asan" then return end -- there every block is an allocation of its own
        local pool, blocks = new_pool(), {}
        for i = 1, 5000 do blocks[i] = alloc(pool, 168) end
        local chunks = pool.chunks
        for _ = 1, 20 do
            for i = 1, 5000 do C.ms_pool_free(pool, blocks[i].at, blocks[i].units) end
            for i = 1, 5000 do blocks[i] = alloc(pool, 168) end
        end
        assert.is_true(chunks == pool.chunks)
        for i = 1, 5000 do C.ms_pool_free(pool, blocks[i].at, blocks[i].units) end
        C.ms_pool_close(pool)
    end)

    it("has arrays of any size up to a chunk, on cache lines, zeroed, that nobody else writes to; what they leave serves blocks", function()
        math.randomseed(19)
        local live, pool, arrays, blocks = ms.live(), new_pool(), {}, {}
        for step = 1, 3000 do
            local dice = math.random()
            if dice < 0.2 then
                local size = 64 * math.random(1, math.random() < 0.02 and 3000 or 40)
                local array = ffi.cast("uint8_t *", C.ms_pool_array(pool, size))
                assert.equal(0, tonumber(ffi.cast("uintptr_t", array)) % 64)
                for _, i in ipairs { 0, size / 2, size - 1 } do assert.equal(0, array[i]) end
                ffi.fill(array, size, step % 251)
                arrays[#arrays + 1] = { at = array, size = size, mark = step % 251 }
            elseif dice < 0.35 and #arrays > 0 then
                local array = table.remove(arrays, math.random(#arrays))
                for _, i in ipairs { 0, array.size / 2, array.size - 1 } do assert.equal(array.mark, array.at[i]) end
                C.ms_pool_array_free(pool, array.at, array.size)
            else
                local block = alloc(pool, math.random(8, 300))
                ffi.fill(block.at, block.size, 0xee)
                blocks[#blocks + 1] = block
            end
        end
        for _, array in ipairs(arrays) do
            assert.equal(array.mark, array.at[array.size - 1])
            C.ms_pool_array_free(pool, array.at, array.size)
        end
        for _, block in ipairs(blocks) do
            assert.equal(0xee, block.at[block.size - 1])
            C.ms_pool_free(pool, block.at, block.units)
        end
        C.ms_pool_close(pool)
        assert.equal(live, ms.live())
    end)

    it("takes a chunk for an array that the ones it has had so far would not hold, and refuses one that none holds", function()
        local live, pool = ms.live(), new_pool()
        local array = C.ms_pool_array(pool, 1024 * 1024)
        assert.is_true(array ~= nil)
        C.ms_pool_array_free(pool, array, 1024 * 1024)
        if not ms.library:find "asan" then assert.is_true(C.ms_pool_array(pool, 4 * 1024 * 1024) == nil) end
        C.ms_pool_close(pool)
        assert.equal(live, ms.live())
    end)

    it("uses what was stocked up, and keeps the addresses of what was given back for the next pool", function()
        if ms.library:find "asan" then return end
        local live = ms.live()
        local function fill(pool)
            local blocks, chunks = {}, {}
            for i = 1, 40000 do -- some 8 MB: the large chunks are reached
                blocks[i] = alloc(pool, 200)
                chunks[tostring(pool.chunks)] = true
                C.ms_pool_stock_up(i % 4 + 1)
            end
            for _, block in ipairs(blocks) do C.ms_pool_free(pool, block.at, block.units) end
            C.ms_pool_close(pool)
            return chunks
        end
        local first, again = fill(new_pool()), 0
        for address in pairs(fill(new_pool())) do if first[address] then again = again + 1 end end
        assert.is_true(again >= 8)
        assert.equal(live, ms.live())
    end)

    it("fails where it is told to, for the block or for its chunk, and goes on afterwards", function()
        local live, pool, failed = ms.live(), new_pool(), 0
        for n = 1, 4 do
            C.ms_mem_fail_after(n)
            local block = alloc(pool, 100)
            C.ms_mem_fail_after(0)
            if block then C.ms_pool_free(pool, block.at, block.units) else failed = failed + 1 end
            if failed > 0 and not block then assert.matches("out of memory", ms.err()) end
        end
        assert.is_true(failed >= 1)
        C.ms_pool_close(pool)
        assert.equal(live, ms.live())
    end)
end)
