-- sync/leave (ms_engine_set_rules): another policy while a node leads: numbers, buffers, timers, events, what waits for a start.
local ms = require "spec.support.ms"
local hand = require "spec.support.hand"
local C, ffi = ms.C, ms.ffi

local function buffered(fields)
    local made = { name = "offset", interval_ms = 1000 }
    for name, value in pairs(fields or {}) do made[name] = value end
    return { made }
end

local function dirty(state) return tonumber(C.ms_buffer_entries(state)) end

describe("another policy", function()
    after_each(hand.free_all)

    it("takes a reference of its rules and gives the old ones back", function()
        local closed = ffi.new "int[1]"
        local h = hand.new {}
        local made = C.spec_rules_new(hand.policy(), 0, 7)
        made.closed = closed
        h:set_rules(made)
        C.ms_rules_unref(hand.base(made))
        assert.equal(0, closed[0])
        assert.equal(7, tonumber(h.engine.policy_hash))
        h:set_rules(nil, hand.policy())
        assert.equal(1, closed[0])
        assert.equal(ms.dec(C.ms_policy_hash(hand.policy())), ms.dec(h.engine.policy_hash))
    end)

    it("keeps what only a start can change, and names it", function()
        local names = ffi.new("const char *[8]")
        local old = hand.policy()
        local fresh = hand.policy { group_bytes = 1000, key_max = 10, value_max = 1000, batch_max = 1000, window_bytes = 65536,
            log_segment_bytes = 1048576, log_max_bytes = 512 * 1048576, mark_changes = 5 }
        local count = C.ms_policy_start_only(old, fresh, names)
        local list = {}
        for i = 0, count - 1 do list[#list + 1] = ffi.string(names[i]) end
        table.sort(list)
        assert.same({ "batch_max", "group_bytes", "key_max", "log_max_bytes", "log_segment_bytes", "value_max", "window_bytes" }, list)
        assert.equal(4096, fresh.key_max)
        assert.equal(5, fresh.mark_changes)
        ms.check(C.ms_policy_check(fresh))
        local larger = hand.policy { log_max_bytes = 2 ^ 31 }
        assert.equal(0, C.ms_policy_start_only(old, larger, names))
        assert.equal(2 ^ 31, tonumber(larger.log_max_bytes))

        local h = hand.new {}
        h:set_rules(nil, hand.policy { key_max = 10, tail_bytes = 8192 })
        assert.equal(4096, h.engine.policy.key_max)
        assert.equal(8192, h.engine.policy.tail_bytes)
    end)

    it("may make levels stricter for later commits", function()
        local h = hand.new { tables = { { name = "topic", level = C.MS_LEVEL_OS } } }
        local topic = h:table "topic"
        local _, _, level = h:put(topic, "a", "1")
        assert.equal(C.MS_LEVEL_OS, level)
        h:set_rules(nil, hand.policy(nil, { { name = "topic", level = C.MS_LEVEL_DISK } }))
        _, _, level = h:put(topic, "a", "2")
        assert.equal(C.MS_LEVEL_DISK, level)
    end)

    it("leaves a table buffered until its buffer is empty", function()
        local h = hand.new { tables = buffered() }
        local offset = h:table "offset"
        for i = 1, 2000 do assert.equal(0, (h:put(offset, "k" .. i, "x"))) end
        h:set_rules(nil, hand.policy { level = C.MS_LEVEL_OS })
        assert.equal(2000, dirty(offset))
        local last = 2000
        for i = 1, 10 do -- who writes meanwhile takes part in emptying it
            local _, _, level = h:put(offset, "late" .. i, "x")
            assert.equal(0, level)
            assert.is_true(dirty(offset) < last)
            last = dirty(offset)
        end
        h:turn(1)
        assert.equal(0, dirty(offset))
        local _, lsn, level = h:put(offset, "k1", "y")
        assert.equal(C.MS_LEVEL_OS, level)
        assert.equal(h:head(), lsn)
        assert.equal(0, dirty(offset))
        assert.equal(2010, tonumber(offset.content.count))
        ms.check(C.ms_table_verify(offset))
    end)

    it("that takes a buffer away and another that gives it back lose nothing", function()
        local h = hand.new { tables = buffered() }
        local offset = h:table "offset"
        for i = 1, 700 do assert.equal(0, (h:put(offset, "k" .. i, "x"))) end
        h:set_rules(nil, hand.policy())
        h:set_rules(nil, hand.policy(nil, buffered { interval_ms = 400 }))
        assert.equal(700, dirty(offset))
        h:turn(401)
        assert.equal(0, dirty(offset))
        assert.equal(700, tonumber(offset.content.count))
    end)

    it("makes a buffer of an unbuffered table at once", function()
        local h = hand.new {}
        local offset = h:table "offset"
        assert.equal(0, (h:put(offset, "a", "1")))
        h:set_rules(nil, hand.policy(nil, buffered()))
        assert.equal(0, (h:put(offset, "a", "2")))
        assert.equal(1, dirty(offset))
        h:turn(1001)
        assert.equal(0, dirty(offset))
    end)

    it("re-arms what is running, so that a shorter interval holds now", function()
        local h = hand.new { tables = buffered { interval_ms = 60000 }, fields = { mark_every_ms = 3600000, snapshot_every_ms = 3600000 } }
        local offset, topic = h:table "offset", h:table "topic"
        assert.equal(0, (h:put(offset, "a", "1")))
        assert.equal(0, (h:put(topic, "a", "1")))
        h:turn(10)
        h:set_rules(nil, hand.policy({ mark_every_ms = 100, snapshot_every_ms = 200 }, buffered { interval_ms = 50 }))
        h:turn(41)
        assert.equal(0, dirty(offset))
        local head = h:head()
        h:turn(100)
        assert.equal(head + 1, h:head()) -- the mark
        assert.is_false(h.engine.snapshotting)
        h:turn(200)
        assert.is_true(h.engine.snapshotting)
    end)

    it("with a longer interval does not put off for ever what is due", function()
        local h = hand.new { tables = buffered { interval_ms = 100 } }
        local offset = h:table "offset"
        assert.equal(0, (h:put(offset, "a", "1")))
        for i = 1, 30 do
            h:set_rules(nil, hand.policy(nil, buffered { interval_ms = 100 + i % 2 }))
            h:turn(5)
        end
        assert.equal(0, dirty(offset))
    end)

    it("decides the type of a table that is opened", function()
        local h = hand.new { tables = { { name = "offset", type = C.MS_TYPE_INT64 } } }
        local box = ffi.new "struct ms_table_state *[1]"
        assert.equal(C.MS_E_TYPE, C.ms_engine_table(h.engine, "offset", C.MS_TYPE_BYTES, box))
        assert.matches("offset", ms.err())
        assert.equal(0, C.ms_engine_table(h.engine, "offset", C.MS_TYPE_INT64, box))
    end)

    it("hears of roles, alarms and what else the operator is told, if it wants to", function()
        local heard = {}
        local h = hand.new { rules = hand.rules { event = function(kind, _, text) heard[#heard + 1] = kind .. ": " .. text end } }
        C.ms_engine_log_failed(h.engine, C.MS_E_IO, "write")
        local all = table.concat(heard, "\n")
        assert.matches("role: leader: epoch 0.1", all)
        assert.matches("alarm: the log has failed", all)
        assert.matches("role: idle: the leader's log has failed", all)
        assert.is_nil(all:find("log: role", 1, true), "a role is one event")
        local quiet = hand.new { rules = hand.rules { out = "x" } }
        assert.equal(0, tonumber(quiet.hand.events))
    end)

    it("that switches replication off ends the role, with what was buffered in the log, and no role is taken until one switches it on", function()
        local h = hand.new { tables = buffered() }
        local offset = h:table "offset"
        for i = 1, 3000 do assert.equal(0, (h:put(offset, "k" .. i, "x"))) end
        local head = h:head()
        h:set_rules(nil, hand.policy({ enabled = 0 }, buffered()))
        assert.equal(C.MS_ROLE_IDLE, h.engine.role)
        assert.equal("the policy says replicate.enabled = false", ffi.string(h.engine.reason))
        assert.equal(0, h:counter "at_risk_lost")
        assert.equal(0, dirty(offset))
        assert.is_true(h:head() >= head + 3000)
        h:settle()
        assert.equal(C.MS_E_NOT_LEADER, (h:put(offset, "k1", "y")))
        assert.equal(C.MS_E_INVALID, C.ms_engine_lead(h.engine, nil, 0, 0))
        assert.equal(C.MS_E_INVALID, C.ms_engine_promote(h.engine, 0, C.MS_PROMOTE_FORCE))
        assert.equal(C.MS_E_INVALID, C.ms_engine_follow(h.engine, "127.0.0.1:1"))
        local position = ffi.new "struct ms_position[1]"
        C.ms_engine_position(h.engine, position)
        assert.equal(0, position[0].enabled)
        h:set_rules(nil, hand.policy(nil, buffered()))
        assert.equal(C.MS_ROLE_IDLE, h.engine.role)
        ms.check(C.ms_engine_lead(h.engine, nil, 0, 0))
        h:settle()
        assert.equal(C.MS_ROLE_LEADER, h.engine.role)
        assert.equal(0, (h:put(offset, "k1", "y")))
    end)

    it("is swapped a thousand times without a byte more", function()
        local few = { retain_bytes = 0 } -- or every group stays in memory for followers
        local h = hand.new { tables = buffered(), fields = few }
        local offset = h:table "offset"
        local function swap(i)
            local made = C.spec_rules_new(hand.policy(few, i % 3 > 0 and buffered { interval_ms = 10 + i % 7 } or nil), i % 16, i)
            h:set_rules(made)
            C.ms_rules_unref(hand.base(made))
            h:put(offset, "k" .. i % 10, tostring(i))
            h:turn(1)
        end
        for i = 1, 100 do swap(i) end
        h:turn(2000)
        local before = ms.live()
        for i = 1, 1000 do swap(i) end
        h:turn(2000)
        assert.is_true(ms.live() - before <= 2, tostring(ms.live() - before))
    end)
end)
