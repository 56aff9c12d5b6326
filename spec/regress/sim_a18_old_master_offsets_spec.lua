-- A18 (apache/rocketmq#1094, #1440, #3210, #2513, alibaba/rocketmq#28): the old master comes back and overwrites newer offsets: minutes to
--     twelve hours of messages are consumed again.
local ms = require "spec.support.ms"
local simkit = require "spec.support.simkit"
local C = ms.C

local int64 = simkit.int64

describe("A18: an old leader that comes back with offsets of its own", function()
    after_each(simkit.free_all)

    -- q1: further on the new leader. q2: further on the old one, which served it alone for a while. q3: only the old one knows it.
    local function returned(resolver, buffered)
        local s = simkit.new { nodes = 2, resolve = { offset = resolver } }
        s:begin()
        for _, q in ipairs { "q1", "q2" } do s:put(0, "offset", q, int64(100)) end
        s:flush(0)
        s:settle(0)
        s:cut(0, 1)
        s:run(50)
        for q, at in pairs { q1 = 150, q2 = 400, q3 = 30 } do s:put(0, "offset", q, int64(at)) end
        if not buffered then
            s:flush(0)
            s:run(100)
            s:kill(0)
        end
        s:promote(1)
        s:put(1, "offset", "q1", int64(300))
        s:put(1, "offset", "q2", int64(200))
        s:flush(1)
        s:heal(0, 1)
        s:follow(0, 1)
        s:settle(1)
        return s
    end

    for _, buffered in ipairs { false, true } do
        local where = buffered and "in its buffer" or "in its log"
        it("rewinds nobody, and loses no progress, with max: " .. where, function()
            local s = returned(C.MS_RESOLVE_MAX, buffered)
            for node = 0, 1 do
                for q, at in pairs { q1 = 300, q2 = 400, q3 = 30 } do assert.equal(int64(at), s:get(node, "offset", q), q) end
            end
        end)

        it("rewinds nobody by default, and says what it dropped: " .. where, function()
            local s = returned(C.MS_RESOLVE_DEFAULT, buffered)
            for node = 0, 1 do
                assert.same({ int64(300), int64(200) }, { s:get(node, "offset", "q1"), s:get(node, "offset", "q2") })
                assert.is_nil(s:get(node, "offset", "q3"))
            end
            local archive = s:archive(0)
            for _, text in ipairs { '"mine":150', '"mine":400', '"mine":30' } do assert.is_truthy(archive:find(text, 1, true), text) end
        end)
    end

    it("rewinds nobody even if its own values count where nobody has written since", function()
        local s = returned(C.MS_RESOLVE_NEWEST, false)
        assert.same({ int64(300), int64(200), int64(30) },
            { s:get(0, "offset", "q1"), s:get(0, "offset", "q2"), s:get(0, "offset", "q3") })
    end)
end)
