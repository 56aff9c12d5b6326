-- sync/extras: one extra as bytes, what becomes of it, and the files that extras wait in.
local ms = require "spec.support.ms"
local crash = require "spec.support.crash"
local C, ffi = ms.C, ms.ffi

local function extra_of(fields)
    local extra = ffi.new "struct ms_extra"
    extra.table, extra.type, extra.reason = "topic", C.MS_TYPE_BYTES, C.MS_CONFLICT_DEPOSED
    for name, value in pairs(fields) do extra[name] = type(value) == "string" and name ~= "table" and ms.bytes(value) or value end
    return extra, fields
end

local function encode(fields)
    local extra, anchor = extra_of(fields)
    local buf = ms.buf()
    C.ms_extra_encode(extra, buf)
    return anchor and ms.buf_str(buf)
end

describe("an extra", function()
    it("gives back every field", function()
        local bytes = encode { key = "k\0f", mine = "", base = "b", base_known = true, lsn = 7, epoch = 0xffffffffffffffffULL }
        local got, held = ffi.new "struct ms_extra", ms.bytes(bytes)
        assert.equal(0, C.ms_extra_decode(held, got))
        assert.same({ "topic", "k\0f", "", "b" }, { ffi.string(got.table), ms.str(got.key), ms.str(got.mine), ms.str(got.base) })
        assert.same({ true, "7", "18446744073709551615" }, { got.base_known, ms.dec(got.lsn), ms.dec(got.epoch) })
        held = ms.bytes(encode { key = "k" })
        assert.equal(0, C.ms_extra_decode(held, got))
        assert.same({ false }, { got.base_known })
        assert.is_nil(ms.str(got.mine))
    end)

    it("that makes no sense is refused", function()
        local got = ffi.new "struct ms_extra"
        for _, case in ipairs { { C.MS_E_FORMAT, {} }, { C.MS_E_FORMAT, { key = "k", type = 3 } },
            { C.MS_E_FORMAT, { key = "k", reason = C.MS_CONFLICT_HOST } },
            { C.MS_E_FORMAT, { key = "k", base = "b" } }, { C.MS_E_TYPE, { key = "k", type = C.MS_TYPE_INT64, mine = "1234567" } },
            { C.MS_E_LIMIT, { key = ("k"):rep(65536) } } } do
            local held = ms.bytes(encode(case[2]))
            assert.equal(case[1], C.ms_extra_decode(held, got))
        end
    end)

    it("is refused or understood, whatever byte of it is flipped", function()
        math.randomseed(7)
        local bytes = encode { key = "key", mine = "mine", base = "base", base_known = true, lsn = 300, epoch = 400 }
        local got, refused = ffi.new "struct ms_extra", 0
        for _ = 1, 20000 do
            local at = math.random(#bytes)
            local held = ms.bytes(bytes:sub(1, at - 1) .. string.char(math.random(0, 255)) .. bytes:sub(at + 1, math.random(at, #bytes)))
            local rc = C.ms_extra_decode(held, got)
            assert.is_true(rc == 0 or rc == C.MS_E_FORMAT or rc == C.MS_E_TYPE or rc == C.MS_E_LIMIT, rc)
            if rc ~= 0 then refused = refused + 1 end
        end
        assert.is_true(refused > 2000)
    end)
end)

describe("what becomes of an extra", function()
    local policy = ffi.new "struct ms_policy"

    local function decide(resolver, fields, theirs)
        C.ms_policy_init(policy)
        policy.resolver = resolver
        local extra = extra_of(fields)
        local resolution = ffi.new "struct ms_resolution"
        C.ms_buf_init(resolution.value)
        local held = ms.bytes(theirs)
        C.ms_extra_decide(extra, held, nil, policy, resolution)
        local chosen = ms.str(C.ms_extra_chosen(extra, held, resolution))
        C.ms_buf_close(resolution.value)
        return ffi.string(C.ms_extra_outcome_name(resolution.outcome)), ffi.string(resolution.by), chosen
    end
    local MINE, THEIRS, NEWEST = C.MS_RESOLVE_MINE, C.MS_RESOLVE_THEIRS, C.MS_RESOLVE_NEWEST

    it("is nothing when both have the same", function()
        assert.same({ "equal", "equal", "v" }, { decide(MINE, { key = "k", mine = "v" }, "v") })
        assert.same({ "equal", "equal" }, { decide(MINE, { key = "k" }, nil) })
        assert.same({ "mine", "mine", "" }, { decide(MINE, { key = "k", mine = "" }, nil) }) -- empty is not none
    end)

    it("is what the resolver says", function()
        assert.same({ "theirs", "theirs", "t" }, { decide(THEIRS, { key = "k", mine = "m" }, "t") })
        assert.same({ "mine", "mine", "m" }, { decide(MINE, { key = "k", mine = "m" }, "t") })
        assert.same({ "mine", "mine" }, { decide(MINE, { key = "k" }, "t") }) -- deletes
    end)

    it("is mine by newest exactly if theirs is what both had in common", function()
        assert.same({ "mine", "newest", "m" }, { decide(NEWEST, { key = "k", mine = "m", base = "b", base_known = true }, "b") })
        assert.same({ "theirs", "newest", "t" }, { decide(NEWEST, { key = "k", mine = "m", base = "b", base_known = true }, "t") })
        assert.same({ "theirs", "newest", "t" }, { decide(NEWEST, { key = "k", mine = "m" }, "t") })
        assert.same({ "mine", "newest", "m" }, { decide(NEWEST, { key = "k", mine = "m", base_known = true }, nil) })
    end)

    it("sent again is theirs unless the entry is what both had in common", function()
        local again = { key = "k", mine = "m", base = "b", base_known = true, resent = true }
        assert.same({ "theirs", "resent", "t" }, { decide(MINE, again, "t") })
        assert.same({ "mine", "mine", "m" }, { decide(MINE, again, "b") })
        assert.same({ "theirs", "resent", "t" }, { decide(MINE, { key = "k", mine = "m", resent = true }, "t") })
    end)

    it("that is older than what this node wrote itself is theirs", function()
        assert.same({ "theirs", "newest", "t" }, { decide(MINE, { key = "k", mine = "m", base = "b", base_known = true, older = true }, "t") })
    end)

    it("of a host's copy is the newer side where nobody chose a resolver", function()
        local host = { key = "k", mine = "m", reason = C.MS_CONFLICT_HOST, newer = 1 }
        assert.same({ "mine", "newest", "m" }, { decide(THEIRS, host, "t") })
        host.newer = -1
        assert.same({ "theirs", "newest", "t" }, { decide(THEIRS, host, "t") })
        assert.same({ "mine", "mine", "m" }, { decide(MINE, host, "t") })
    end)
end)

describe("extras files", function()
    local D = "/var/data"
    local live
    before_each(function() live = ms.live() end)
    after_each(function()
        crash.free_all()
        assert.equal(live, ms.live())
    end)

    local function open(disk)
        local dir = ffi.new "struct ms_datadir"
        assert.equal(0, C.ms_datadir_open(disk.fs, D, ms.bytes "prod", 1, dir), ms.err())
        return dir, dir
    end

    local function new_disk()
        local disk = crash.disk(1)
        disk:mkdir "/var"
        disk:sync_dir "/"
        return disk
    end

    -- Keeps `count` extras of an epoch (reign).
    local function keep(dir, reign, count)
        local buf, kept, epoch = ms.buf(), ffi.new "uint64_t[1]", ffi.new("struct ms_epoch", { reign, 0, 5 })
        C.ms_extras_put_epoch(buf, epoch)
        local bytes = { ms.buf_str(buf) }
        for i = 1, count do
            local record = encode { key = reign .. "k" .. i, mine = ("v"):rep(100), base_known = true, reason = C.MS_CONFLICT_BUFFERED }
            bytes[#bytes + 1] = ffi.string(ffi.new("uint32_t[1]", #record), 4) .. record
        end
        local held = ms.bytes(table.concat(bytes))
        local rc = C.ms_extras_keep(dir, 10 + reign, held, kept)
        return rc, tonumber(kept[0])
    end

    local function read(dir, boot)
        local batch = ffi.new "struct ms_extras_batch"
        local rc = C.ms_extras_read(dir, boot or 1, batch)
        local got = { rc = rc, id = tonumber(batch.id), first = tonumber(batch.first), count = batch.count, sent = tonumber(batch.sent),
            boot = tonumber(batch.boot), pending = tonumber(batch.pending) }
        C.ms_buf_close(batch.bytes)
        return got
    end

    local function report(dir, id, done, text)
        local pending, path = ffi.new "uint64_t[1]", ffi.new("char[?]", C.MS_PATH_MAX)
        local held = ms.bytes(text)
        local rc = C.ms_extras_report(dir, id, done, held, pending, path)
        return rc, tonumber(pending[0]), ffi.string(path)
    end

    it("give a window at a time, oldest file first, and go when all is reported", function()
        local disk = new_disk()
        local dir, anchor = open(disk)
        assert.same({ 0, 3 }, { keep(dir, 2, 3) })
        assert.same({ 0, 100 }, { keep(dir, 1, 100) })
        local got = read(dir)
        assert.same({ 0, 11, 0, 64, 0, 103 }, { got.rc, got.id, got.first, got.count, got.sent, got.pending })
        local rc, pending, path = report(dir, 11, 64, "first\n")
        assert.same({ 0, 39 }, { rc, pending })
        got = read(dir)
        assert.same({ 11, 64, 36 }, { got.id, got.first, got.count })
        rc, pending = report(dir, 11, 100, "second\n")
        assert.same({ 0, 3 }, { rc, pending })
        assert.equal("first\nsecond\n", disk:get(path))
        assert.equal(12, read(dir).id)
        assert.equal(C.MS_E_NOT_FOUND, (report(dir, 11, 100, "again\n")))
        C.ms_datadir_close(dir)
        assert.is_truthy(anchor)
    end)

    it("remember to whom they may have been sent", function()
        local disk = new_disk()
        local dir, anchor = open(disk)
        keep(dir, 1, 3)
        assert.same({ sent = 0 }, { sent = read(dir, 7).sent })
        local got = read(dir, 7)
        assert.same({ 3, 7 }, { got.sent, got.boot })
        read(dir, 8)
        got = read(dir, 8)
        assert.same({ 3, 0 }, { got.sent, got.boot }) -- to several
        C.ms_datadir_close(dir)
        assert.is_truthy(anchor)
    end)

    it("that are damaged are set aside, and don't stand in the way", function()
        local disk = new_disk()
        local dir, anchor = open(disk)
        keep(dir, 1, 3)
        keep(dir, 2, 1)
        for _, name in ipairs(disk:list(D .. "/archive")) do
            if name:find("^extras%-0*1%-") then
                local text = disk:get(D .. "/archive/" .. name)
                disk:put(D .. "/archive/" .. name, text:sub(1, 60) .. "?" .. text:sub(62))
            end
        end
        assert.equal(C.MS_E_DAMAGED, read(dir).rc)
        assert.is_truthy(ms.err():find("set aside", 1, true))
        local got = read(dir)
        assert.same({ 0, 12, 1 }, { got.rc, got.id, got.pending })
        C.ms_datadir_close(dir)
        assert.is_truthy(anchor)
    end)
end)
