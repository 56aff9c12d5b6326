-- rmq:5061, rmq:7381 (CASES A23): counters that are changed by "add" reached the slave only when they were made, or counted twice. Here
-- what replicates is the value that the compute came to, not the addition.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local function open(dir, listen)
    local policy, config, out = ffi.new "struct ms_policy", ffi.new "struct ms_config", ffi.new "struct ms_node *[1]"
    C.ms_policy_init(policy)
    policy.table_count = 1
    ffi.copy(policy.tables[0].name, "buffered")
    policy.tables[0].interval_ms = 20
    config.dir, config.cluster, config.listen, config.policy = dir, "counters", listen, policy
    ms.check(C.ms_open(config, out), "ms_open")
    return out[0]
end

local function table_of(node, name)
    local out = ffi.new "struct ms_table *[1]"
    ms.check(C.ms_table_open(node, name, C.MS_TYPE_INT64, out))
    return out[0]
end

local function int64(number)
    local bytes = ffi.new "int64_t[1]"
    bytes[0] = number
    return ffi.string(bytes, 8)
end

local function number_of(text)
    local bytes = ffi.new "int64_t[1]"
    ffi.copy(bytes, text, 8)
    return bytes[0]
end

local function add(handle, key, amount)
    ms.check(ms.with_compute(function(current) return int64((current and number_of(current) or 0LL) + amount) end,
        function(fn, thunk) return C.ms_compute(handle, ms.bytes(key), fn, thunk, 0, nil) end))
end

local function arrived(node, name, key, expected)
    ms.eventually(function()
        local out = ffi.new "struct ms_table *[1]"
        if C.ms_table_open(node, name, C.MS_TYPE_INT64, out) ~= 0 then return false end
        local value = ms.get(out[0], key)
        return value and number_of(value) == expected
    end, 10)
end

describe("A23: counters", function()
    for _, name in ipairs { "logged", "buffered" } do
        it(("of a %s table have their final values on the follower, also below zero and after a restart of either side"):format(name), function()
            local a, b = ms.tmpdir(), ms.tmpdir()
            local leader, follower = open(a, "127.0.0.1:0"), open(b, nil)
            ms.check(C.ms_lead(leader, nil, 0, 5000))
            ms.check(C.ms_follow(follower, ("127.0.0.1:%d"):format(C.ms_port(leader))))
            local counts = table_of(leader, name)
            add(counts, "topic", 3LL)
            add(counts, "topic", -1LL)
            add(counts, "negative", -88837LL)
            add(counts, "large", 0x7ffffffffffffff0LL)
            add(counts, "large", 15LL)
            arrived(follower, name, "topic", 2LL)
            arrived(follower, name, "negative", -88837LL)
            arrived(follower, name, "large", 0x7fffffffffffffffLL)
            C.ms_close(follower)
            add(counts, "topic", 40LL)
            C.ms_close(leader)
            leader = open(a, "127.0.0.1:0")
            ms.check(C.ms_lead(leader, nil, 0, 5000))
            add(table_of(leader, name), "topic", -2LL)
            follower = open(b, nil)
            ms.check(C.ms_follow(follower, ("127.0.0.1:%d"):format(C.ms_port(leader))))
            arrived(follower, name, "topic", 40LL)
            C.ms_close(follower)
            C.ms_close(leader)
        end)
    end
end)
