-- sync/policy: defaults are legal, every range is checked and named, look-ups and names.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local function policy(fields)
    local p = ffi.new("struct ms_policy")
    C.ms_policy_init(p)
    for name, value in pairs(fields or {}) do p[name] = value end
    return p
end

local function with_table(fields, base)
    local p = policy(base)
    p.table_count = 1
    for name, value in pairs(fields) do
        if name == "name" then ffi.copy(p.tables[0].name, value) else p.tables[0][name] = value end
    end
    return p
end

describe("the policy", function()
    it("has legal defaults", function() ms.check(C.ms_policy_check(policy())) end)

    local wrong = { level = 9, on_log_failure = 2, replica_lag_ms = 0, group_bytes = 1, snapshot_keep = 0, log_segment_bytes = 1000,
        log_max_bytes = 1, heartbeat_ms = 4000, connect_min_ms = 6000, key_max = 70000, value_max = 1, batch_max = 1, window_bytes = 1,
        table_count = 65, enabled = 2, on_beyond_end = 2 }
    for field, value in pairs(wrong) do
        it(("refuses %s = %d and names it"):format(field, value), function()
            assert.equal(C.MS_E_INVALID, C.ms_policy_check(policy { [field] = value }))
            assert.matches(field, ms.err())
        end)
    end

    it("refuses a log that has no room for two of the largest groups", function()
        local small = { log_segment_bytes = 65536, log_max_bytes = 4 * 65536 }
        assert.equal(C.MS_E_INVALID, C.ms_policy_check(policy(small))) -- values of 4 MiB
        assert.matches("log_max_bytes", ms.err())
        small.value_max, small.batch_max = 4096, 4096
        ms.check(C.ms_policy_check(policy(small)))
    end)

    it("refuses a table without a name, with a level and a buffer, or named twice", function()
        assert.equal(C.MS_E_INVALID, C.ms_policy_check(with_table { level = 2 }))
        assert.equal(C.MS_E_INVALID, C.ms_policy_check(with_table { name = "t", level = 2, interval_ms = 10 }))
        assert.equal(C.MS_E_INVALID, C.ms_policy_check(with_table { name = "t", entries = 10 }))
        local twice = with_table { name = "t", level = 2 }
        twice.table_count = 2
        ffi.copy(twice.tables[1].name, "t")
        assert.equal(C.MS_E_INVALID, C.ms_policy_check(twice))
        assert.matches("twice", ms.err())
    end)

    it("gives a table its entry, and any other the default level", function()
        local p = with_table({ name = "offset", interval_ms = 200 }, { level = C.MS_LEVEL_OS })
        assert.equal(200, C.ms_policy_table(p, "offset").interval_ms)
        assert.equal(C.MS_LEVEL_OS, C.ms_policy_table(p, "topic").level)
    end)

    it("has a hash that every field moves", function()
        local before = ms.dec(C.ms_policy_hash(policy()))
        assert.equal(before, ms.dec(C.ms_policy_hash(policy())))
        assert.not_equal(before, ms.dec(C.ms_policy_hash(policy { batch_max = 4711 })))
    end)

    it("knows a level by its name and back", function()
        for level = C.MS_LEVEL_MEMORY, C.MS_LEVEL_REPLICA do assert.equal(level, C.ms_level_parse(C.ms_level_name(level))) end
        assert.equal(0, C.ms_level_parse("disc"))
    end)

    it("has no group larger than it says", function()
        local p = policy { group_bytes = 100, batch_max = 64, value_max = 5000, key_max = 40 }
        local key, value = ms.bytes(("k"):rep(40)), ms.bytes(("v"):rep(5000))
        assert.is_true(C.ms_group_size(C.ms_record_change_size(255, key, value)) <= C.ms_policy_largest_group(p))
    end)
end)
