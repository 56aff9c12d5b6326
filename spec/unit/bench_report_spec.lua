-- The table of the benchmark (bench/report.lua): medians over pairs, what counts as a miss, and that misses come first.
local report = dofile("bench/report.lua")

local function row_of(metric, kind)
    for _, row in ipairs(report.rows) do
        if row.metric == metric and row.kind == kind then return row end
    end
    error("no row for " .. metric)
end

local RATIO = { scenario = "s", text = "speed", metric = "rate", kind = "ratio", against = "redis", at_least = 3 }
local FASTER = { scenario = "s", text = "join", metric = "join_s", kind = "faster", against = "redis", at_least = 2.5 }
local PLAIN = { scenario = "s", text = "growth", metric = "mib", kind = "plain", at_most = 64 }
local BEYOND = { scenario = "s", text = "call", metric = "b", their = "a", kind = "beyond", at_most = 5000 }

describe("the benchmark's table", function()
    it("takes the median, of an even number of values the middle", function()
        assert.equal(2, report.median({ 3, 1, 2 }))
        assert.equal(2.5, report.median({ 4, 1, 3, 2 }))
        assert.is_nil(report.median({}))
    end)

    it("judges the median of the pairs' ratios, not the ratio of the medians", function()
        local results = { s = {
            { ours = { rate = 30 }, redis = { rate = 10 } },
            { ours = { rate = 10 }, redis = { rate = 1 } },
            { ours = { rate = 20 }, redis = { rate = 10 } },
        } }
        local verdict = report.judge(RATIO, results)
        assert.equal(3, verdict.value)
        assert.equal(2, verdict.low)
        assert.equal(10, verdict.high)
        assert.equal(20, verdict.ours)
        assert.is_true(verdict.met)
    end)

    it("turns a ratio of times around where faster is better", function()
        local results = { s = { { ours = { join_s = 0.5 }, redis = { join_s = 2 } } } }
        assert.equal(4, report.judge(FASTER, results).value)
    end)

    it("judges plain numbers and differences without the peer", function()
        local results = { s = { { ours = { mib = 65, a = 100, b = 6000 } } } }
        assert.is_false(report.judge(PLAIN, results).met)
        assert.equal(5900, report.judge(BEYOND, results).value)
        assert.is_false(report.judge(BEYOND, results).met)
    end)

    it("judges what ours takes more than theirs, and shows theirs beside a plain number", function()
        local over = { scenario = "s", text = "more", metric = "ms", kind = "over", against = "own", at_most = 1 }
        local beside = { scenario = "s", text = "ms", metric = "ms", kind = "plain", against = "own", at_most = 5 }
        local results = { s = { { ours = { ms = 6 }, own = { ms = 4 } }, { ours = { ms = 4 } } } }
        assert.equal(2, report.judge(over, results).value)
        assert.is_false(report.judge(over, results).complete)
        assert.equal(5, report.judge(beside, results).value)
        assert.equal(4, report.judge(beside, results).theirs)
        assert.is_true(report.judge(beside, results).met)
    end)

    it("never counts a row as met when a program failed or a number is missing", function()
        local results = { s = {
            { ours = { rate = 90 }, redis = { rate = 10 } },
            { redis = { rate = 10 } },
        } }
        local verdict = report.judge(RATIO, results)
        assert.is_false(verdict.met)
        assert.is_false(verdict.complete)
        assert.is_false(report.judge(PLAIN, { s = { { ours = {} } } }).met)
    end)

    it("shows rows without a target, and never misses them", function()
        local results = { ["latency-os"] = { { ours = { host_p50_us = 9 }, redis = { applied_p50_us = 3 } } } }
        local text, misses = report.render(results, report.rows)
        assert.equal(2, misses) -- the two that have a target, and no numbers here
        assert.truthy(text:find("\n       the same to the host's callback, p50, os / everysec", 1, true))
    end)

    it("has no result for a row whose subject did not run", function()
        local row = row_of("replay_functions_per_s", "plain")
        local pair = { replay_functions_per_s = 1e6, replay_functions_filter_calls = 9, replay_functions_resolve_calls = 9 }
        assert.is_true(report.judge(row, { ["policy-replay"] = { { ours = pair } } }).met)
        for _, metric in ipairs { "replay_functions_filter_calls", "replay_functions_resolve_calls" } do
            for _, calls in ipairs { 0, false } do
                local idle = {}
                for name, number in pairs(pair) do idle[name] = number end
                idle[metric] = calls or nil
                local verdict = report.judge(row, { ["policy-replay"] = { { ours = pair }, { ours = idle } } })
                assert.same({ false, false }, { verdict.met, verdict.complete })
            end
        end
    end)

    it("says nothing of scenarios that were not run", function()
        assert.is_nil(report.judge(RATIO, {}))
    end)

    it("prints misses first, then all rows", function()
        local results = { ["memory-1"] = { { ours = { commit_p50_us = 1.5, commit_p999_us = 1 }, bare = { commit_p999_us = 1 } } } }
        local text, misses = report.render(results, report.rows)
        assert.equal(1, misses)
        local first = text:find("MISS   memory commit, p50", 1, true)
        local all = text:find("ALL ROWS", 1, true)
        assert.is_true(first < all)
        assert.truthy(text:find("ok     memory commit, p99.9", all, true))
        assert.truthy(text:find("^MISSES: 1 of 2\n"))
    end)

    it("holds the targets of the design", function()
        assert.equal(3, row_of("updates_per_s", "ratio").at_least)
        assert.equal(2.5, row_of("join_s", "faster").at_least)
        assert.equal(64, row_of("leader_growth_mib", "plain").at_most)
        assert.equal(0.9, row_of("wire_bytes", "ratio").at_most)
    end)

    it("writes every number that was measured, one value a pair", function()
        local results = { s = { { ours = { rate = 1 } }, { ours = { rate = 2.5 } }, {} } }
        assert.equal("s ours rate 1 2.5 -\n", report.raw(results, { "s" }))
    end)
end)
