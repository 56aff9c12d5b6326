-- An engine that leads, a clock turned by hand, rules without Lua: what specs of the view, of reviews and of flushes need.
--
--     local h = hand.new { policy = { table_count ... }, tables = { { name = "offset", interval_ms = 100 } }, rules = rules }
--     local t = h:table("topic")
--     assert.equal(C.MS_LOCAL, h:put(t, "tmp-1", "x"))       -- asks the rules as a driver does
--     h:turn(100)                                            -- milliseconds
--
-- after_each(hand.free_all) frees all of it and wants that no memory is left.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local hand = {}

local Hand = {}
Hand.__index = Hand

local engines, rules_made, live = {}, {}, nil

function hand.policy(fields, tables)
    local p = ffi.new "struct ms_policy"
    C.ms_policy_init(p)
    p.mark_every_ms = 3600000
    for name, value in pairs(fields or {}) do p[name] = value end
    for _, wanted in ipairs(tables or {}) do
        local made = p.tables[p.table_count]
        p.table_count = p.table_count + 1
        for name, value in pairs(wanted) do
            if name == "name" then ffi.copy(made.name, value) else made[name] = value end
        end
    end
    ms.check(C.ms_policy_check(p))
    return p
end

-- options: out (a prefix), exclude, include = { { table, glob }, ... }, filter, flush, event (Lua functions), hash, fields, tables, or
-- policy, a struct ms_policy
function hand.rules(options)
    if not live then live = ms.live() end
    local functions = 0
    if options.out or options.filter then functions = functions + C.MS_RULES_FILTER end
    if options.flush then functions = functions + C.MS_RULES_FLUSH end
    if options.event then functions = functions + C.MS_RULES_EVENT end
    local r = C.spec_rules_new(options.policy or hand.policy(options.fields, options.tables), functions, options.hash or 1)
    assert(r ~= nil, ms.err())
    local made = { pointer = r, callbacks = {} }
    rules_made[#rules_made + 1] = made
    if options.out then ffi.copy(r.out, options.out) end
    local function callback(field, ctype, fn)
        if not fn then return end
        made.callbacks[#made.callbacks + 1] = ffi.cast(ctype, fn)
        r[field] = made.callbacks[#made.callbacks]
    end
    callback("filter", "int (*)(const char *, const struct ms_bytes *)", options.filter and function(name, key)
        return options.filter(ffi.string(name), ms.str(key)) and C.MS_VIEW_IN or C.MS_VIEW_OUT
    end)
    callback("flush", "uint64_t (*)(const struct ms_flush_stats *)", options.flush)
    callback("event", "void (*)(const struct ms_event *)", options.event and function(event)
        options.event(ffi.string(event.kind), tonumber(event.severity), ffi.string(event.text))
    end)
    for _, list in ipairs { "exclude", "include" } do
        for _, pattern in ipairs(options[list] or {}) do
            if r.rules.patterns == nil then
                local box = ffi.new "struct ms_patterns *[1]"
                ms.check(C.ms_patterns_new(box))
                r.rules.patterns = box[0]
            end
            ms.check(C.ms_patterns_add(r.rules.patterns, pattern[1], ms.bytes(pattern[2]), list == "include"))
        end
    end
    return r
end

-- The rules as the library wants them.
function hand.base(rules) return rules and ffi.cast("struct ms_rules *", rules) or nil end

function hand.new(options)
    options = options or {}
    if not live then live = ms.live() end
    local rules = hand.base(options.rules)
    local policy = rules and rules.policy or hand.policy(options.fields, options.tables)
    local h = C.spec_hand_new(policy, rules)
    assert(h ~= nil, ms.err())
    local self = setmetatable({ hand = h, engine = h.engine }, Hand)
    engines[#engines + 1] = self
    return self
end

function hand.free_all()
    for _, h in ipairs(engines) do C.spec_hand_free(h.hand) end
    for _, made in ipairs(rules_made) do
        C.ms_rules_unref(ffi.cast("struct ms_rules *", made.pointer))
        for _, callback in ipairs(made.callbacks) do callback:free() end
    end
    local before = live
    engines, rules_made, live = {}, {}, nil
    if before then assert(ms.live() == before, "blocks of memory are left over") end
end

function Hand:table(name, type)
    local box = ffi.new "struct ms_table_state *[1]"
    ms.check(C.ms_engine_table(self.engine, name, type or C.MS_TYPE_BYTES, box))
    self:settle()
    return box[0]
end

-- One commit with a decision; 0, MS_LOCAL, MS_ASK or an error; then the lsn and the level.
function Hand:commit(state, key, value, decision)
    local lsn, level = ffi.new "uint64_t[1]", ffi.new "int[1]"
    local bytes = ms.bytes(key)
    local write = C.ms_engine_write(state, bytes, C.ms_key_hash(bytes), ms.bytes(value))
    write.decision = decision or C.MS_VIEW_UNKNOWN
    local rc = C.ms_engine_commit(self.engine, write, lsn, level)
    return tonumber(rc), tonumber(lsn[0]), level[0]
end

-- As a driver commits: asks the rules if need be.
function Hand:put(state, key, value)
    local rc, lsn, level = self:commit(state, key, value)
    if rc == C.MS_ASK then
        rc, lsn, level = self:commit(state, key, value, C.ms_rules_decide(self.engine.rules, state.name, ms.bytes(key)))
    end
    return rc, lsn, level
end

function Hand:delete(state, key) return self:put(state, key, nil) end

function Hand.get(_, state, key)
    local bytes = ms.bytes(key)
    return ms.str(C.ms_table_get(state, bytes, C.ms_key_hash(bytes)))
end

function Hand:leave(state, key)
    local bytes = ms.bytes(key)
    return tonumber(C.ms_engine_leave(self.engine, state, bytes, C.ms_key_hash(bytes)))
end

-- Swaps the rules (nil: the built-in policy with these numbers).
function Hand:set_rules(rules, numbers)
    C.ms_rules_unref(C.ms_engine_set_rules(self.engine, hand.base(rules), numbers))
end

function Hand:head() return tonumber(self.engine.tail.head) end
function Hand:counter(name) return tonumber(self.engine.counters[name]) end
function Hand:settle() C.spec_hand_settle(self.hand) end
function Hand:now() return tonumber(self.hand.now) / 1000 end
function Hand:turn(milliseconds) C.spec_hand_turn(self.hand, self.hand.now + milliseconds * 1000) end

-- A callback must not be reached from compiled code.
jit.off(true, true)

return hand
