-- Memory of a pair of real brokers under load for MS_LEAK_MINUTES (10): it stays what it was after the first fifth. The load changes the same
-- names over and over, so that nothing has a reason to grow; it also reloads the policy, and closes and opens the slave's node.
--
-- Looked at is anonymous memory (RssAnon): all that C and the JVM allocate. Java's heap has a fixed size, all of it resident from the start;
-- what the broker maps from files does not count.
local broker = require "spec.support.broker"
local process = require "spec.support.process"
local shown = require "spec.rocketmq.shown"

local MINUTES = tonumber(os.getenv("MS_LEAK_MINUTES")) or 10
local NAMES, ROWS = 40, 4
local GROWTH_KB = 2048
local EVERY = 5 -- seconds between two looks

local OPTIONS = { "-Xms160m", "-Xmx160m", "-XX:+AlwaysPreTouch" }

local function anonymous_kb(one)
    return tonumber((process.read(("/proc/%d/status"):format(one.process.pid)) or ""):match("RssAnon:%s*(%d+) kB"))
end

local function median(list, from, to)
    local part = {}
    for i = from, to do part[#part + 1] = list[i] end
    table.sort(part)
    return part[math.ceil(#part / 2)]
end

-- From the first third after the warm-up to the last one.
local function growth(samples)
    local first = math.floor(#samples / 5) + 1
    local third = math.floor((#samples - first + 1) / 3)
    return median(samples, #samples - third + 1, #samples) - median(samples, first, first + third - 1)
end

describe("a pair of brokers", function()
    it(("needs no more memory after %g minutes of load than before"):format(MINUTES), function()
        local lab = broker.lab()
        local ok, why = pcall(function()
            local conf = { serverPooledByteBufAllocatorEnable = false, ["metasync.graceMs"] = 3600000 }
            local master, slave = lab:pair { options = OPTIONS, conf = conf, wrap = { "env", "MALLOC_ARENA_MAX=2" } }
            local M, S = master:rpc(), slave:rpc()
            local count, last = 0

            local function change(i)
                local topic, group = "t" .. i % NAMES, "g" .. i % NAMES
                M:create_topic(topic, { perm = 2 + 2 * (i % 3), attributes = i < NAMES and "+message.type=NORMAL" or nil })
                M:create_group(group, { retryMaxTimes = 1 + i % 16 })
                M:forbid(group, topic, i % 2 == 0)
                M:set_mode(topic, group, "POP", 1 + i % 4)
                for row = 1, 20 do M:commit(group, topic, row % ROWS, i * 20 + row) end
                count = count + 24
                if i % 10 == 9 then
                    M:delete_topic(topic)
                    M:delete_group(group)
                end
            end

            -- Its node is closed and opened: as an operator does it, at run time.
            local function switch(on)
                S:call(25, nil, "allowMetadataIncrementalSync=" .. tostring(on) .. "\n")
                if on then slave:in_sync(60) else slave:wait("is off", function(info) return info.metasync_role == "none" end) end
                S = slave:rpc()
            end

            local samples, begun, looked, turn = { master = {}, slave = {} }, process.now(), process.now(), 0
            repeat
                change(turn)
                turn = turn + 1
                if turn % 200 == 100 then
                    local _, status, errors = master:metasyncctl("policy", "reload", "--force")
                    assert.equal(0, status, errors)
                elseif turn % 200 == 0 then
                    switch(false)
                    switch(true)
                end
                if process.now() - looked >= EVERY then
                    looked = process.now()
                    for name, one in pairs { master = master, slave = slave } do table.insert(samples[name], anonymous_kb(one)) end
                end
                last = process.now()
            until last - begun > MINUTES * 60
            shown.same(master, slave, 30)
            for name, list in pairs(samples) do
                io.write(("%s: %d changes in %.0f s; MB after each tenth:"):format(name, count, last - begun))
                for tenth = 1, 10 do io.write((" %.1f"):format(list[math.max(1, math.floor(#list * tenth / 10))] / 1024)) end
                io.write(("; grew by %d kB\n"):format(growth(list)))
            end
            for name, list in pairs(samples) do
                assert.is_true(#list >= 15, "too few looks: give it more minutes")
                assert.is_true(growth(list) <= GROWTH_KB, ("%s grew by %d kB"):format(name, growth(list)))
            end
        end)
        lab:close(not ok)
        if not ok then error(why, 0) end
    end)
end)
