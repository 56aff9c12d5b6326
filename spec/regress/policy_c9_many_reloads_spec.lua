-- CASES C9 (jkeys089/lua-resty-resolver#6, openresty/lua-nginx-module#734, openresty/openresty#1053): after reloads timers never fire
-- again, fire more than once, use old copies of data, or memory grows. A real daemon takes 1,000 reloads of a policy with a flush
-- function and some data: its resident memory stays, and flushes come as the last policy says. (spec/unit/node_policy_spec.lua counts blocks.)
local cluster = require "spec.support.cluster"
local policies = require "spec.support.policies"
local process = require "spec.support.process"

local POLICY = [[
local data = {}
for i = 1, 1000 do data[i] = "some text " .. i end
return { name = "p%d", tables = { offset = { buffer = { interval = "50s" } } },
    flush = function(stats) return data[500] and "5ms" end }
]]

local function resident_kib(node)
    return tonumber(process.read(("/proc/%d/status"):format(node.process.pid)):match("VmRSS:%s*(%d+)"))
end

describe("C9: a thousand reloads", function()
    it("leave memory and timers as they are", cluster.test(function(c)
        local path = policies.write(c, "policy", POLICY:format(0))
        local node = c:node "a":start { "--lead", "--policy", path }
        local function reload(i)
            policies.write(c, "policy", POLICY:format(i % 7))
            node:must "policy_reload"
        end
        node:put("offset", "k", 0)
        for i = 1, 100 do reload(i) end
        local before = resident_kib(node)
        for i = 1, 1000 do reload(i) end
        local after = resident_kib(node)
        assert.is_true(after < before + 2048, ("%d KiB before, %d after"):format(before, after))
        node:must "flush"
        local flushes = node:status().counters.flushes
        process.eventually("flushes come every 5 ms, not every 50 s", function()
            node:put("offset", "k", math.floor(process.now() * 1000))
            return node:status().counters.flushes > flushes + 5
        end, 10)
    end))
end)
