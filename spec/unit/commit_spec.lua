-- sync/commit: one change on a leader. Refusals come before anything changed.
local ms = require "spec.support.ms"
local hand = require "spec.support.hand"
local C = ms.C

describe("a commit", function()
    after_each(function()
        C.ms_mem_fail_after(0)
        hand.free_all()
    end)

    -- Fails each allocation of the commit in turn, until it goes through (the last one may be one that it can do without); returns how
    -- often it was refused.
    local function fail_each(h, state, key, value)
        local before, failed = h:get(state, key), 0
        for n = 1, 100 do
            local head, count = h:head(), tonumber(state.content.count)
            C.ms_mem_fail_after(n)
            local rc = h:commit(state, key, value)
            C.ms_mem_fail_after(0)
            ms.check(C.ms_table_verify(state))
            if rc == 0 then
                assert.equal(value, h:get(state, key))
                return failed
            end
            failed = failed + 1
            assert.equal(C.MS_E_MEMORY, rc)
            assert.equal(head, h:head())
            assert.equal(count, tonumber(state.content.count))
            assert.equal(before, h:get(state, key))
        end
        error "it never went through"
    end

    it("changes nothing when memory is out, whichever allocation it is", function()
        local h = hand.new { tables = { { name = "topic", level = C.MS_LEVEL_OS } } }
        local topic = h:table "topic"
        assert.is_true(fail_each(h, topic, "new", "value") >= 2) -- its shard's buckets, the entry
        assert.equal(0, fail_each(h, topic, "new", "other")) -- in place
        assert.is_true(fail_each(h, topic, "new", "a longer value") >= 1)
        assert.is_true(fail_each(h, topic, "large", ("x"):rep(100000)) >= 2) -- a group of its own
        assert.is_true(fail_each(h, topic, "large", ("y"):rep(100000)) >= 1)
        fail_each(h, topic, "new", nil)
    end)

    it("answers with the lsn of the change, not with that of a mark that follows it at once", function()
        local h = hand.new { fields = { mark_changes = 1 }, tables = { { name = "topic", level = C.MS_LEVEL_OS } } }
        local topic = h:table "topic"
        local head = h:head()
        local rc, lsn, level = h:commit(topic, "k", "v")
        assert.same({ 0, head + 1, C.MS_LEVEL_OS }, { rc, lsn, level })
        assert.equal(head + 2, h:head())
    end)

    it("of an equal value logs nothing, whatever the value's size", function()
        local h = hand.new { tables = { { name = "topic", level = C.MS_LEVEL_DISK } } }
        local topic = h:table "topic"
        for _, value in ipairs { "", "v", ("x"):rep(3000) } do
            h:put(topic, "k", value)
            h:settle()
            local head = h:head()
            local rc, lsn, level = h:commit(topic, "k", value)
            assert.same({ 0, head, C.MS_LEVEL_DISK }, { rc, lsn, level })
            assert.equal(head, h:head())
        end
        assert.equal(0, (h:delete(topic, "k")))
        local head = h:head()
        assert.equal(0, (h:delete(topic, "k")))
        assert.equal(head, h:head())
    end)
end)
