-- sync/view, leave, commit: what a leader's policy leaves out of the view, and how an entry leaves it.
local ms = require "spec.support.ms"
local hand = require "spec.support.hand"
local C, ffi = ms.C, ms.ffi

local TABLES = { { name = "offset", interval_ms = 100 }, { name = "topic", level = C.MS_LEVEL_DISK } }

local function leader(options)
    options.tables = options.tables or TABLES
    local rules = hand.rules(options)
    local h = hand.new { rules = rules }
    h.rules = rules
    return h, h:table "topic", h:table "offset"
end

local function asked(h) return tonumber(h.rules.asked) end

describe("the view", function()
    after_each(hand.free_all)

    it("asks once about an entry that does not exist, and never about one that does", function()
        local h, topic = leader { out = "tmp-" }
        assert.equal(C.MS_ASK, (h:commit(topic, "orders", "1")))
        assert.is_nil(h:get(topic, "orders"))
        assert.equal(0, (h:commit(topic, "orders", "1", C.MS_VIEW_IN)))
        assert.equal(0, (h:commit(topic, "orders", "2")))
        assert.equal(0, (h:commit(topic, "orders", "3", C.MS_VIEW_OUT))) -- it is in the view, whoever thinks what
        assert.equal("3", h:get(topic, "orders"))
    end)

    it("logs and buffers nothing of what is out, and remembers it", function()
        local h, topic, offset = leader { out = "tmp-" }
        local head = h:head()
        for _, state in ipairs { topic, offset } do
            assert.equal(C.MS_LOCAL, (h:put(state, "tmp-1", "x")))
            assert.equal(C.MS_LOCAL, (h:put(state, "tmp-1", "y")))
            assert.is_nil(h:get(state, "tmp-1"))
        end
        assert.equal(2, asked(h))
        assert.equal(0, tonumber(C.ms_buffer_entries(offset)))
        h:turn(1000)
        assert.equal(head, h:head())
        assert.equal(4, h:counter "outside")
        assert.equal(2, tonumber(h.engine.view.entries))
    end)

    it("is not asked when nothing is left out", function()
        local h, topic = leader { flush = function() return 0 end }
        assert.equal(0, (h:commit(topic, "tmp-1", "x")))
    end)

    it("lets patterns decide without the filter", function()
        local h, topic = leader { out = "x", exclude = { { "topic", "tmp-*" } }, include = { { "topic", "*-keep" } } }
        assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-keep", "x")))
        assert.equal(0, (h:put(topic, "x-keep", "x")))
        assert.equal(C.MS_LOCAL, (h:put(topic, "x", "x")))
        assert.equal(0, asked(h))
        assert.equal(2, tonumber(h.rules.rules.out_by_pattern))
        assert.equal(0, tonumber(h.rules.rules.out_by_filter))
    end)

    it("answers a delete of what it knows to be outside with MS_LOCAL, and one of nothing with 0", function()
        local h, topic = leader { out = "tmp-" }
        assert.equal(0, (h:delete(topic, "tmp-1")))
        assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-1", "x")))
        assert.equal(C.MS_LOCAL, (h:delete(topic, "tmp-1")))
        assert.equal(0, asked(h) - 1)
    end)

    it("refuses before it decides: no leader, limits, types", function()
        local h, topic = leader { out = "tmp-", fields = { key_max = 8 } }
        assert.equal(C.MS_E_LIMIT, (h:commit(topic, "tmp-123456789", "x")))
        C.ms_engine_log_failed(h.engine, C.MS_E_IO, "write")
        assert.equal(C.MS_E_LOG_FAILED, (h:commit(topic, "tmp-1", "x")))
        assert.equal(0, asked(h))
    end)

    it("is not asked once the log has failed and the policy lets writes pass", function()
        local h, topic = leader { out = "tmp-", fields = { on_log_failure = C.MS_ON_LOG_FAILURE_PASS } }
        C.ms_engine_log_failed(h.engine, C.MS_E_IO, "write")
        assert.equal(C.MS_LOCAL, (h:commit(topic, "orders", "x")))
        assert.equal(0, h:counter "outside")
    end)

    it("needs no follower for what stays outside", function()
        local h, topic = leader { out = "tmp-", tables = { { name = "topic", level = C.MS_LEVEL_REPLICA } } }
        assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-1", "x")))
        assert.equal(C.MS_E_NO_REPLICA, (h:put(topic, "orders", "x")))
    end)

    it("remembers so many at most, and asks anew about those it forgot", function()
        local h, topic = leader { out = "tmp-", fields = { outside_max = 10 } }
        for i = 1, 30 do assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-" .. i, "x"))) end
        assert.equal(10, tonumber(h.engine.view.entries))
        assert.is_true(h.engine.view.tables[0].forgot)
        assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-30", "x")))
        assert.equal(30, asked(h))
        assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-1", "x")))
        assert.equal(31, asked(h))
    end)

    it("remembers less of long keys, so that its memory is bounded", function()
        local h, topic = leader { out = "tmp-", fields = { outside_max = 100 } }
        for i = 1, 100 do assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-" .. i .. ("x"):rep(2000), "x"))) end
        assert.is_true(tonumber(h.engine.view.bytes) <= 100 * 256)
        assert.is_true(tonumber(h.engine.view.entries) > 5)
    end)

    it("decides without remembering when memory is out", function()
        local h, topic = leader { out = "tmp-" }
        for n = 1, 3 do
            C.ms_mem_fail_after(n)
            assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-" .. n, "x")))
        end
        C.ms_mem_fail_after(0)
        assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-1", "x")))
    end)

    it("asks again after the rules were swapped, and forgets who is in by then", function()
        local h, topic = leader { out = "tmp-" }
        assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-1", "x")))
        h:set_rules(hand.rules { out = "other", tables = TABLES })
        assert.equal(C.MS_ASK, (h:commit(topic, "tmp-1", "x")))
        assert.equal(0, (h:put(topic, "tmp-1", "x")))
        assert.equal(0, tonumber(h.engine.view.entries))
        h:set_rules(nil, hand.policy(nil, TABLES))
        assert.equal(0, (h:commit(topic, "other", "x")))
    end)

    it("gives memory back when a policy lets less be remembered", function()
        local h, topic = leader { out = "tmp-" }
        for i = 1, 5000 do assert.equal(C.MS_LOCAL, (h:put(topic, "tmp-" .. i, "x"))) end
        h:set_rules(hand.rules { out = "tmp-", tables = TABLES, fields = { outside_max = 100 } })
        h:turn(1)
        assert.equal(100, tonumber(h.engine.view.entries))
    end)
end)

describe("a batch", function()
    after_each(hand.free_all)

    local function batch(h, list)
        local writes, kept = ffi.new("struct ms_engine_write[?]", #list), {}
        for i, w in ipairs(list) do
            kept[i] = { ms.bytes(w[2]), ms.bytes(w[3]) }
            writes[i - 1] = C.ms_engine_write(w[1], kept[i][1], C.ms_key_hash(kept[i][1]), kept[i][2])
        end
        local lsn, level = ffi.new "uint64_t[1]", ffi.new "int[1]"
        local rc = tonumber(C.ms_engine_commit_batch(h.engine, writes, #list, lsn, level))
        local asks = {}
        for i = 1, #list do asks[i] = writes[i - 1].ask end
        if rc == C.MS_ASK then
            for i = 0, #list - 1 do
                if writes[i].ask then writes[i].decision = C.ms_rules_decide(h.engine.rules, writes[i].table.name, writes[i].key) end
            end
            rc = tonumber(C.ms_engine_commit_batch(h.engine, writes, #list, lsn, level))
        end
        return rc, asks, #kept
    end

    it("leaves out the writes that are out, and asks only about those that it has to", function()
        local h, topic, offset = leader { out = "tmp-" }
        assert.equal(0, (h:put(topic, "orders", "1")))
        local head = h:head()
        local rc, asks = batch(h, { { topic, "orders", "2" }, { topic, "tmp-1", "x" }, { topic, "new", "3" }, { offset, "tmp-2", "x" },
            { offset, "o", "4" } })
        assert.equal(0, rc)
        assert.same({ false, true, true, true, true }, asks)
        assert.equal(head + 2, h:head())
        assert.same({ "2", "3", "4" }, { h:get(topic, "orders"), h:get(topic, "new"), h:get(offset, "o") })
        assert.is_nil(h:get(topic, "tmp-1"))
        assert.is_nil(h:get(offset, "tmp-2"))
        assert.equal(2, h:counter "outside")
    end)

    it("of nothing but writes that are out is MS_LOCAL", function()
        local h, topic = leader { out = "tmp-" }
        local head = h:head()
        assert.equal(C.MS_LOCAL, (batch(h, { { topic, "tmp-1", "x" }, { topic, "tmp-2", "x" } })))
        assert.equal(head, h:head())
        assert.equal(2, h:counter "outside")
    end)

    it("counts only what is in the view to its size and its level", function()
        local h, topic = leader { out = "tmp-", fields = { batch_max = 64, value_max = 4096 } }
        assert.equal(0, (batch(h, { { topic, "tmp-1", ("x"):rep(100) }, { topic, "a", "1" } })))
        assert.equal(C.MS_E_LIMIT, (batch(h, { { topic, "b", ("x"):rep(100) } })))
    end)
end)

describe("leaving", function()
    after_each(hand.free_all)

    it("is logged, takes the entry out of the table, and remembers it as outside", function()
        local h, topic = leader { out = "tmp-" }
        assert.equal(0, (h:commit(topic, "tmp-1", "x", C.MS_VIEW_IN)))
        local head = h:head()
        assert.equal(0, h:leave(topic, "tmp-1"))
        assert.equal(head + 1, h:head())
        assert.is_nil(h:get(topic, "tmp-1"))
        assert.equal(1, h:counter "left")
        assert.equal(C.MS_LOCAL, (h:commit(topic, "tmp-1", "y")))
        ms.check(C.ms_table_verify(topic))
        assert.equal(0, h:leave(topic, "tmp-1")) -- there is nothing to leave any more
        assert.equal(head + 1, h:head())
    end)

    it("drops what a buffer held of the entry, whether it was logged before or not", function()
        local h, _, offset = leader { out = "tmp-" }
        assert.equal(0, (h:commit(offset, "tmp-old", "1", C.MS_VIEW_IN)))
        h:turn(1000)
        assert.equal(0, (h:commit(offset, "tmp-old", "2", C.MS_VIEW_IN)))
        assert.equal(0, (h:commit(offset, "tmp-new", "1", C.MS_VIEW_IN)))
        assert.equal(0, (h:commit(offset, "keep", "1", C.MS_VIEW_IN)))
        assert.equal(0, h:leave(offset, "tmp-old"))
        assert.equal(0, h:leave(offset, "tmp-new"))
        ms.check(C.ms_table_verify(offset))
        assert.equal(1, tonumber(C.ms_buffer_entries(offset)))
        local head = h:head()
        h:turn(1000)
        assert.equal(head + 1, h:head()) -- `keep`, and nothing of the others
        assert.equal(1, tonumber(offset.content.count))
    end)

    it("is refused before anything changed when the log has no room, or memory is out", function()
        local h, topic = leader { out = "tmp-" }
        assert.equal(0, (h:commit(topic, "tmp-1", "x", C.MS_VIEW_IN)))
        h.engine.room_error, h.engine.room_end = C.MS_E_NO_SPACE, 0
        assert.equal(C.MS_E_NO_SPACE, h:leave(topic, "tmp-1"))
        assert.equal("x", h:get(topic, "tmp-1"))
        h.engine.room_error, h.engine.room_end = 0, 2 ^ 30
        h.engine.tail.unwritten = 2 ^ 40
        assert.equal(C.MS_E_AGAIN, h:leave(topic, "tmp-1"))
        h.engine.tail.unwritten = 0
        assert.equal("x", h:get(topic, "tmp-1"))
    end)
end)
