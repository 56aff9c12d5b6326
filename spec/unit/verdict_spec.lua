-- sync/verdict: the whole table of what a follower has to do, given what both sides say of themselves (promises 5 and 6).
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

-- "0.1a@1 0.2b@50" -> a lineage: reign.run, a letter for the id, @ its first lsn.
local function lineage(text)
    local list = ffi.gc(ffi.new("struct ms_lineage"), C.ms_lineage_close)
    for reign, run, id, first in text:gmatch("(%d+)%.(%d+)(%a)@(%d+)") do
        local epoch = ffi.new("struct ms_epoch", tonumber(reign), tonumber(run), id:byte())
        ms.check(C.ms_lineage_add(list, epoch, tonumber(first)))
    end
    return list
end

local function verdict(leader, follower)
    local a, b = lineage(leader[1]), lineage(follower[1])
    local function history(list, side)
        return ffi.new("struct ms_history", { lineage = list, first = side[2], position = side[3] })
    end
    return C.ms_verdict(history(a, leader), history(b, follower))
end

-- luacheck: push no max line length
-- { what, leader {lineage, first, position}, follower {...}, verdict, common, extra, snapshot, allowed }
local cases = {
    { "an empty follower gets the log from its first record", { "0.1a@1", 1, 90 }, { "", 1, 0 }, "continue", 0, 0, false, true },
    { "an empty follower of an empty leader", { "0.1a@1", 1, 1 }, { "", 1, 0 }, "continue", 0, 0, false, true },
    { "an empty follower of a trimmed log", { "0.1a@1", 40, 90 }, { "", 1, 0 }, "empty", 0, 0, true, true },
    { "a follower in the middle of the only epoch", { "0.1a@1", 1, 90 }, { "0.1a@1", 1, 60 }, "continue", 60, 0, false, true },
    { "a follower at the head", { "0.1a@1", 1, 90 }, { "0.1a@1", 1, 90 }, "continue", 90, 0, false, true },
    { "the leader's log begins right after it", { "0.1a@1", 61, 90 }, { "0.1a@1", 1, 60 }, "continue", 60, 0, false, true },
    { "the leader's log begins one later: off by one is a gap", { "0.1a@1", 62, 90 }, { "0.1a@1", 1, 60 }, "trimmed", 60, 0, true, true },
    { "the leader was restarted after it", { "0.1a@1 0.2b@91", 1, 120 }, { "0.1a@1", 1, 60 }, "continue", 60, 0, false, true },
    { "it has exactly what the leader had when restarted", { "0.1a@1 0.2b@91", 1, 120 }, { "0.1a@1", 1, 90 }, "continue", 90, 0, false, true },
    { "it has one record that the restarted leader lost", { "0.1a@1 0.2b@90", 1, 120 }, { "0.1a@1", 1, 90 }, "diverged", 89, 1, true, true },
    { "B13: leader {1,3}, follower {2,3}: the lost record is extra", { "0.1a@1 0.2b@3", 1, 3 }, { "0.1a@1", 1, 3 }, "diverged", 2, 1, true, true },
    { "it is in the leader's own epoch and ahead", { "0.1a@1", 1, 50 }, { "0.1a@1", 1, 60 }, "ahead", 50, 10, true, false },
    { "promotion: a sibling goes on from the promoted node", { "0.1a@1 1.0c@81", 1, 100 }, { "0.1a@1", 1, 80 }, "continue", 80, 0, false, true },
    { "promotion: a sibling that lagged", { "0.1a@1 1.0c@81", 1, 100 }, { "0.1a@1", 1, 33 }, "continue", 33, 0, false, true },
    { "the deposed leader returns with extra records", { "0.1a@1 1.0c@81", 1, 100 }, { "0.1a@1", 1, 95 }, "diverged", 80, 15, true, true },
    { "the deposed leader opened one more epoch of its own", { "0.1a@1 1.0c@81", 1, 100 }, { "0.1a@1 0.2d@96", 1, 99 }, "diverged", 80, 19, true, true },
    { "the deposed leader had nothing extra but an epoch", { "0.1a@1 1.0c@81", 1, 100 }, { "0.1a@1 0.2d@81", 1, 81 }, "diverged", 80, 1, true, true },
    { "a leader restored from an old copy: its epoch is lower", { "0.1a@1 0.2x@41", 1, 60 }, { "0.1a@1 0.2b@50 0.3c@70", 1, 90 }, "diverged", 40, 50, true, false },
    { "the same, but it was promoted by hand: higher", { "0.1a@1 1.0x@41", 1, 60 }, { "0.1a@1 0.2b@50 0.3c@70", 1, 90 }, "diverged", 40, 50, true, true },
    { "a wiped leader", { "0.1w@1", 1, 5 }, { "0.1a@1", 1, 90 }, "other_history", 0, 90, true, false },
    { "a wiped leader whose run has counted up by restarts", { "0.1w@1 0.9x@3", 1, 5 }, { "0.1a@1 0.2b@50", 1, 90 }, "other_history", 0, 90, true, false },
    { "B21: the same epoch number, another id", { "0.1b@1", 1, 90 }, { "0.1a@1", 1, 60 }, "other_history", 0, 60, true, false },
    { "A31: epochs above 2^31 compare as numbers", { "0.1a@1 2147483649.0b@10", 1, 20 }, { "0.1a@1 1.0c@10", 1, 20 }, "diverged", 9, 11, true, true },
    { "the same epoch at another lsn is another history", { "0.1a@1 0.2b@50", 1, 90 }, { "0.1a@1 0.2b@60", 1, 90 }, "diverged", 49, 41, true, false },
    { "B15: a position beyond anything the leader has, in an old epoch", { "0.1a@1 0.2b@50", 1, 90 }, { "0.1a@1", 1, 1000000 }, "diverged", 49, 999951, true, true },
    { "a leader that follows late: the follower is a whole epoch ahead", { "0.1a@1", 1, 80 }, { "0.1a@1 1.0c@81", 1, 90 }, "diverged", 80, 10, true, false },
    { "the follower's epoch is higher and has nothing else", { "0.1a@1", 1, 90 }, { "0.1a@1 1.0c@81", 1, 81 }, "diverged", 80, 1, true, false },
}
-- luacheck: pop

describe("the resume verdict", function()
    for _, case in ipairs(cases) do
        local what, leader, follower, kind, common, extra, snapshot, allowed = unpack(case)
        it(what .. ": " .. kind, function()
            local v = verdict(leader, follower)
            assert.same({ kind = kind, common = common, extra = extra, snapshot = snapshot, allowed = allowed },
                { kind = ffi.string(C.ms_verdict_name(v.kind)), common = tonumber(v.common), extra = tonumber(v.extra),
                    snapshot = v.snapshot, allowed = v.allowed })
        end)
    end

    it("never continues where both would not hold the same records (all small lineages)", function()
        -- Two logs grown at random from one another; the truth is known because each record is a (epoch, lsn) pair.
        math.randomseed(5)
        local id = 0
        local function grow(log, epoch, records)
            for _ = 1, records do log[#log + 1] = epoch end
        end
        local function text(log)
            local parts, last = {}, nil
            for lsn, epoch in ipairs(log) do
                if epoch ~= last then parts[#parts + 1] = ("0.%d%s@%d"):format(epoch.run, string.char(97 + epoch.id % 26), lsn) end
                last = epoch
            end
            return table.concat(parts, " ")
        end
        for _ = 1, 3000 do
            local leader, follower = {}, {}
            local run = 0
            local function epoch() run = run + 1; id = id + 1; return { run = run, id = id } end
            for _ = 1, math.random(1, 3) do grow(leader, epoch(), math.random(1, 4)) end
            for lsn = 1, math.random(0, #leader) do follower[lsn] = leader[lsn] end
            if math.random() < 0.5 then grow(follower, epoch(), math.random(1, 3)) end
            if math.random() < 0.5 then grow(leader, epoch(), math.random(1, 3)) end
            local v = verdict({ text(leader), 1, #leader }, { text(follower), 1, #follower })
            local common = 0
            while common < #leader and common < #follower and leader[common + 1] == follower[common + 1] do common = common + 1 end
            assert.equal(common, tonumber(v.common))
            assert.equal(#follower - common, tonumber(v.extra))
            assert.equal(common == #follower, v.kind == C.MS_VERDICT_CONTINUE)
        end
    end)
end)

describe("epochs", function()
    it("compare by reign, then run, then id, over all 64 bits", function()
        local function epoch(reign, run, id) return ffi.new("struct ms_epoch", reign, run, id) end
        local rising = { epoch(0, 0, 0), epoch(0, 0, 1), epoch(0, 1, 0), epoch(0, 0xffffffffULL, 9), epoch(1, 0, 5), epoch(1, 0, 6),
            epoch(2147483649ULL, 0, 0), epoch(0x7fffffffffffffffULL, 0, 0), epoch(0x8000000000000000ULL, 0, 0), epoch(0xffffffffffffffffULL, 0, 0) }
        for i, a in ipairs(rising) do
            for j, b in ipairs(rising) do
                assert.equal(i < j and -1 or i > j and 1 or 0, C.ms_epoch_compare(a, b))
            end
        end
    end)

    it("can only be added in rising order", function()
        local list = lineage("0.1a@1 0.2b@5")
        assert.equal(C.MS_E_FORMAT, C.ms_lineage_add(list, ffi.new("struct ms_epoch", 0, 2, 98), 9))
        assert.equal(C.MS_E_FORMAT, C.ms_lineage_add(list, ffi.new("struct ms_epoch", 0, 3, 98), 5))
        assert.equal(2, list.count)
    end)

    it("survive encoding, and a malformed lineage is refused without taking memory", function()
        local list, buf = lineage("0.1a@1 0.2b@5 7.0c@900"), ms.buf()
        C.ms_lineage_encode(list, buf)
        local text = ms.buf_str(buf)
        local copy = ffi.gc(ffi.new("struct ms_lineage"), C.ms_lineage_close)
        ms.check(C.ms_lineage_decode(ms.bytes(text), copy))
        assert.equal(3, copy.count)
        assert.equal(900, tonumber(copy.entries[2].first))
        for cut = 0, #text - 1 do
            local fresh = ffi.new("struct ms_lineage")
            assert.equal(C.MS_E_FORMAT, C.ms_lineage_decode(ms.bytes(text:sub(1, cut)), fresh), "cut at " .. cut)
            C.ms_lineage_close(fresh)
        end
        local live, fresh = C.ms_mem_live(), ffi.new("struct ms_lineage")
        assert.equal(C.MS_E_FORMAT, C.ms_lineage_decode(ms.bytes("\255\255\3" .. ("x"):rep(50)), fresh))
        assert.is_true(live == C.ms_mem_live())
    end)
end)
