-- sync/review: a reload counts what would leave and enter, then makes it so, in slices.
local ms = require "spec.support.ms"
local hand = require "spec.support.hand"
local C, ffi = ms.C, ms.ffi

local TABLES = { { name = "offset", interval_ms = 100 } }

local function leader(options)
    options.tables = TABLES
    local h = hand.new { rules = hand.rules(options) }
    return h, h:table "topic", h:table "offset"
end

local function entered(review, list)
    ms.with_callback("void (*)(void *, const char *, const struct ms_bytes *)", function(_, name, key)
        list[#list + 1] = ffi.string(name) .. ":" .. (ms.str(key) or "(more)")
    end, function(fn)
        local thunk = ffi.new "struct spec_thunk"
        thunk.entered = fn
        C.ms_review_entered(review, C.spec_thunk_entered, thunk)
    end)
end

-- Runs a review to its end, or to its first error. Returns the code, the report by table, who entered, and the number of holds.
local function run(h, rules, mode, between)
    local box = ffi.new "struct ms_review *[1]"
    ms.check(C.ms_review_new(h.engine, hand.base(rules), mode, box))
    local review, list, holds = ffi.gc(box[0], C.ms_review_free), {}, 0
    local rc
    repeat
        rc = C.ms_review_take(review, h.engine)
        holds = holds + 1
        if rc == 1 then
            C.ms_review_decide(review)
            if between then between(holds) end
            local applied
            repeat
                applied = C.ms_review_apply(review, h.engine)
                if applied ~= 0 then holds = holds + 1 end
                h:settle()
            until applied ~= 1 and applied ~= C.MS_E_AGAIN
            if applied < 0 then rc = applied end
            entered(review, list)
        end
    until rc ~= 1
    local tables, report = ffi.new "const struct ms_review_table *[1]", {}
    for i = 0, tonumber(C.ms_review_tables(review, tables)) - 1 do
        local t = tables[0][i]
        report[ffi.string(t.name)] = { tonumber(t.entries), tonumber(t.leaving), tonumber(t.entering), t.more }
    end
    C.ms_review_free(ffi.gc(review, nil))
    table.sort(list)
    return tonumber(rc), report, list, holds
end

local function fill(h, state, prefix, count)
    for i = 1, count do assert.equal(0, (h:commit(state, prefix .. i, "x", C.MS_VIEW_IN))) end
end

describe("a review", function()
    after_each(hand.free_all)

    it("counts, and changes nothing", function()
        local h, topic, offset = leader { out = "old-" }
        fill(h, topic, "tmp-", 7)
        fill(h, topic, "keep-", 5)
        fill(h, offset, "tmp-", 3)
        for i = 1, 4 do assert.equal(C.MS_LOCAL, (h:put(topic, "old-" .. i, "x"))) end
        local head = h:head()
        local rc, report, list = run(h, hand.rules { out = "tmp-", tables = TABLES }, C.MS_REVIEW_COUNT)
        assert.equal(0, rc)
        assert.same({ topic = { 12, 7, 4, false }, offset = { 3, 3, 0, false } }, report)
        assert.same({}, list)
        assert.equal(head, h:head())
        assert.equal(4, tonumber(h.engine.view.entries))
        assert.equal(C.MS_LOCAL, (h:commit(topic, "old-1", "x")))
    end)

    it("makes entries leave and says which may enter", function()
        local h, topic, offset = leader { out = "old-" }
        fill(h, topic, "tmp-", 7)
        fill(h, topic, "keep-", 5)
        fill(h, offset, "tmp-", 3) -- not even logged yet
        for i = 1, 2 do assert.equal(C.MS_LOCAL, (h:put(topic, "old-" .. i, "x"))) end
        local fresh = hand.rules { out = "tmp-", tables = TABLES }
        h:set_rules(fresh)
        local rc, report, list = run(h, fresh, C.MS_REVIEW_APPLY)
        assert.equal(0, rc)
        assert.same({ 12, 7, 2, false }, report.topic)
        assert.same({ "topic:old-1", "topic:old-2" }, list)
        assert.is_nil(h:get(topic, "tmp-1"))
        assert.equal("x", h:get(topic, "keep-1"))
        assert.equal(5, tonumber(topic.content.live))
        assert.equal(0, tonumber(offset.content.live))
        ms.check(C.ms_table_verify(topic))
        ms.check(C.ms_table_verify(offset))
        assert.equal(10, tonumber(h.engine.view.entries)) -- those that left; those that enter are forgotten
        assert.equal(10, h:counter "left")
        assert.equal(0, (h:put(topic, "old-1", "x")))
    end)

    it("wants everything back when the built-in policy takes over", function()
        local h, topic = leader { out = "tmp-" }
        assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-1", "x")))
        h:set_rules(nil, hand.policy(nil, TABLES))
        local rc, _, list = run(h, nil, C.MS_REVIEW_APPLY)
        assert.equal(0, rc)
        assert.same({ "topic:tmp-1" }, list)
        assert.equal(0, tonumber(h.engine.view.entries))
    end)

    it("says so when more was left out than is remembered, once", function()
        local h, topic = leader { out = "tmp-", fields = { outside_max = 2 } }
        for i = 1, 5 do assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-" .. i, "x"))) end
        local fresh = hand.rules { out = "none", tables = TABLES, fields = { outside_max = 2 } }
        local _, counted = run(h, fresh, C.MS_REVIEW_COUNT)
        assert.same({ 0, 0, 2, true }, counted.topic)
        h:set_rules(fresh)
        local _, _, list = run(h, fresh, C.MS_REVIEW_APPLY)
        assert.same({ "topic:(more)", "topic:tmp-4", "topic:tmp-5" }, list)
        local _, _, again = run(h, fresh, C.MS_REVIEW_APPLY)
        assert.same({}, again)
    end)

    it("goes in slices: no hold copies or logs more than about a thousand entries", function()
        local h, topic = leader { out = "old-" }
        fill(h, topic, "tmp-", 20000)
        local fresh = hand.rules { out = "tmp-", tables = TABLES }
        h:set_rules(fresh)
        local before, most = 0, 0
        local rc, _, _, holds = run(h, fresh, C.MS_REVIEW_APPLY, function()
            most = math.max(most, h:counter "left" - before)
            before = h:counter "left"
        end)
        assert.equal(0, rc)
        assert.equal(20000, h:counter "left")
        assert.is_true(most <= 1100, tostring(most))
        assert.is_true(holds > 20000 / 256)
    end)

    it("lets entries come, change and go meanwhile", function()
        local h, topic = leader { out = "old-" }
        fill(h, topic, "tmp-", 3000)
        local fresh = hand.rules { out = "tmp-", tables = TABLES }
        h:set_rules(fresh)
        local rc = run(h, fresh, C.MS_REVIEW_APPLY, function(n)
            assert.equal(0, (h:put(topic, "keep-" .. n, "x")))
            h:delete(topic, "tmp-" .. n)
            h:put(topic, "tmp-" .. (n + 1000), "changed")
            assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-late-" .. n, "x")))
        end)
        assert.equal(0, rc)
        for i = 1, 3000 do assert.is_nil(h:get(topic, "tmp-" .. i)) end
        ms.check(C.ms_table_verify(topic))
    end)

    it("ends when other rules have come, and when the node leads no more", function()
        local h, topic = leader { out = "old-" }
        fill(h, topic, "tmp-", 10)
        local fresh = hand.rules { out = "tmp-", tables = TABLES }
        h:set_rules(fresh)
        local rc = run(h, fresh, C.MS_REVIEW_APPLY, function() h:set_rules(hand.rules { out = "none", tables = TABLES }) end)
        assert.equal(C.MS_E_CHANGED, rc)
        assert.equal(0, h:counter "left")
        h:set_rules(fresh)
        rc = run(h, fresh, C.MS_REVIEW_APPLY, function() C.ms_engine_follow(h.engine, "127.0.0.1:1") end)
        assert.equal(C.MS_E_NOT_LEADER, rc)
        assert.equal("x", h:get(topic, "tmp-1"))
    end)

    it("leaves nothing behind when memory is out, and may go on then", function()
        local h, topic = leader { out = "old-" }
        fill(h, topic, "tmp-", 50)
        h:settle() -- a review pumps the engine, which would move the group that is still open
        local rules = hand.base(hand.rules { out = "none", tables = TABLES })
        ms.with_alloc_failures(function()
            local box = ffi.new "struct ms_review *[1]"
            if C.ms_review_new(h.engine, rules, C.MS_REVIEW_COUNT, box) ~= 0 then return end
            local rc
            repeat
                rc = C.ms_review_take(box[0], h.engine)
                if rc == 1 then
                    C.ms_review_decide(box[0])
                    assert.equal(0, C.ms_review_apply(box[0], h.engine))
                end
            until rc == 0
            local tables = ffi.new "const struct ms_review_table *[1]"
            assert.equal(1, C.ms_review_tables(box[0], tables))
            assert.equal(50, tonumber(tables[0][0].entries))
            C.ms_review_free(box[0])
        end)
    end)
end)
