-- What only a deposed leader had: the next leader's policy decides about each entry, the outcome reaches all nodes, and a loss report of the
-- deposed node has a line for it.
local ms = require "spec.support.ms"
local json = require "spec.support.json"
local simkit = require "spec.support.simkit"
local C, ffi = ms.C, ms.ffi

local int64 = simkit.int64

-- The lines of a node's loss reports by "table/key".
local function report(s, node)
    local disk, lines = s:disk(node), {}
    if disk:try_list("data/archive") ~= 0 then return lines end
    for _, name in ipairs(disk:list("data/archive")) do
        if name:find("^loss%-") then
            for text in disk:get("data/archive/" .. name):gmatch("[^\n]+") do
                local line = json.decode(text)
                local key = (line.table or "?") .. "/" .. (line.key or "?")
                lines[key] = lines[key] or {}
                table.insert(lines[key], line)
            end
        end
    end
    return lines
end

local function pending(s, node) return tonumber(s:engine(node).extras.pending) end

-- n0 leads, n1 follows, both have `common`; then n0 is alone, and does what `alone` does; then n1 leads and does what `after` does; then n0
-- returns, and everything is decided.
local function split(options, alone, after)
    local s = simkit.new { nodes = 2, policy = options.policy, resolve = options.resolve }
    s:begin()
    s:put(0, "disk", "common", "1")
    s:put(0, "disk", "gone", "1")
    s:put(0, "offset", "q", int64(10))
    s:flush(0)
    s:settle(0)
    s:cut(0, 1)
    alone(s)
    if not options.alive then s:kill(0) end
    s:promote(1)
    if after then after(s) end
    s:heal(0, 1)
    s:follow(0, 1)
    if not options.early then s:settle(1) end
    return s
end

local function put_new(s)
    local lsn = s:put(0, "disk", "new", "only here")
    s:reached(0, lsn, "disk")
end

describe("what only a deposed leader had", function()
    after_each(simkit.free_all)

    it("is dropped and reported by default, whatever it is", function()
        local s = split({}, function(s)
            put_new(s)
            s:put(0, "disk", "common", "2")
            s:delete(0, "disk", "gone")
            s:reached(0, s:put(0, "os", "last", "1"), "os")
        end)
        local lines = report(s, 0)
        assert.is_nil(s:get(0, "disk", "new"))
        assert.same({ "1", "1" }, { s:get(1, "disk", "common"), s:get(1, "disk", "gone") })
        local line = lines["disk/new"][1]
        assert.same({ "deposed", "only here", "theirs", "theirs" }, { line.reason, line.mine, line.outcome, line.by })
        line = lines["disk/common"][1]
        assert.same({ "1", "2", "1" }, { line.base, line.mine, line.theirs })
        line = lines["disk/gone"][1]
        assert.same({ "1", "1" }, { line.base, line.theirs })
        assert.is_true(line.mine == json.null)
        assert.same({ 0, 4 }, { pending(s, 0), s:counter(0, "extras_answered") })
    end)

    it("comes back on all nodes where the resolver says mine", function()
        local s = split({ policy = { resolver = C.MS_RESOLVE_MINE } }, function(s)
            s:delete(0, "disk", "gone")
            put_new(s)
        end)
        for node = 0, 1 do
            assert.equal("only here", s:get(node, "disk", "new"))
            assert.is_nil(s:get(node, "disk", "gone"))
        end
        local line = report(s, 0)["disk/new"][1]
        assert.same({ "mine", "mine" }, { line.outcome, line.by })
        assert.is_true(line.lsn > 0)
        assert.equal(2, s:count "conflicts_mine")
    end)

    it("is kept by newest only where nobody has changed the entry since", function()
        local s = split({ policy = { resolver = C.MS_RESOLVE_NEWEST } }, function(s)
            s:put(0, "disk", "common", "mine")
            s:delete(0, "disk", "gone")
            put_new(s)
        end, function(s) s:put(1, "disk", "common", "theirs") end)
        assert.same({ "theirs", "only here" }, { s:get(0, "disk", "common"), s:get(0, "disk", "new") })
        assert.is_nil(s:get(0, "disk", "gone"))
    end)

    for _, case in ipairs { { 50, 20, 50 }, { 20, 50, 50 } } do
        it(("is the larger offset with max: %d there, %d here"):format(case[1], case[2]), function()
            local s = split({ resolve = { offset = C.MS_RESOLVE_MAX } }, function(s)
                s:put(0, "offset", "q", int64(case[1]))
                s:flush(0)
                s:run(20)
            end, function(s)
                s:put(1, "offset", "q", int64(case[2]))
                s:flush(1)
            end)
            for node = 0, 1 do assert.equal(int64(case[3]), s:get(node, "offset", "q")) end
            assert.equal(case[1], report(s, 0)["offset/q"][1].mine)
        end)
    end

    it("and was still in its buffers is decided too, with what was logged as the base", function()
        local s = split({ alive = true, resolve = { offset = C.MS_RESOLVE_MAX } }, function(s)
            s:run(200)
            s:put(0, "offset", "q", int64(99))
        end, function(s)
            assert.equal("leader", s:role(0)) -- it is told to follow only later
        end)
        local line = report(s, 0)["offset/q"][1]
        assert.same({ "buffered", 10, 99, "mine" }, { line.reason, line.base, line.mine, line.outcome })
        assert.equal(int64(99), s:get(1, "offset", "q"))
    end)

    it("is nothing to decide where the new leader has the same", function()
        local s = split({}, put_new, function(s) s:put(1, "disk", "new", "only here") end)
        assert.equal("equal", report(s, 0)["disk/new"][1].outcome)
        assert.equal("only here", s:get(0, "disk", "new"))
    end)

    it("has no base where the log before it was trimmed, and is decided all the same", function()
        local s = split({ policy = { log_keep_bytes = 0, snapshot_keep = 1, resolver = C.MS_RESOLVE_MINE } }, function(s)
            s:run(1000) -- a snapshot beyond the common position
            s:put(0, "disk", "common", "2")
            s:run(1000)
            put_new(s)
        end)
        assert.is_true(#report(s, 0)["disk/new"] == 1 or #report(s, 0)["?/?"] == 1)
        assert.equal(0, pending(s, 0))
    end)

    it("waits for a leader that knows such things", function()
        local s = split({ early = true }, put_new)
        s:await(function() return s:following(0) == "stream" end)
        s:engine(0).follow.leader_features = 0
        s:await(function() return s:engine(0).follow.in_sync end)
        s:run(500)
        assert.equal(1, pending(s, 0))
        s:kill(0)
        s:follow(0, 1) -- an up-to-date hello
        s:settle(1)
        assert.same({ 0, 1 }, { pending(s, 0), #report(s, 0)["disk/new"] })
    end)

    it("survives a restart of its node in the middle, and is reported once", function()
        local function many(s)
            for i = 1, 200 do s:insist(0, "disk", "k" .. i, "v" .. i) end
            s:run(100)
        end
        for steps = 1, 6 do
            local s = split({ early = true, policy = { resolver = C.MS_RESOLVE_MINE } }, many)
            s:await(function() return s:counter(0, "extras_sent") >= steps * 20 end)
            s:kill(0)
            s:follow(0, 1)
            s:settle(1)
            local lines = report(s, 0)
            for i = 1, 200 do
                assert.equal(1, #lines["disk/k" .. i], "k" .. i)
                assert.equal("v" .. i, s:get(0, "disk", "k" .. i))
            end
            simkit.free_all()
        end
    end)

    it("survives the end of the leader in the middle: the next one decides the rest", function()
        local s = simkit.new { nodes = 3, policy = { resolver = C.MS_RESOLVE_MINE } }
        s:begin()
        s:cut(0, 1)
        s:cut(0, 2)
        for i = 1, 100 do s:insist(0, "disk", "k" .. i, "v" .. i) end
        s:run(100)
        s:kill(0)
        s:promote(1)
        s:follow(2, 1)
        s:heal(0, 1)
        s:heal(0, 2)
        s:follow(0, 1)
        s:await(function() return s:count "conflicts_mine" >= 30 end)
        s:kill(1)
        s:promote(2)
        s:follow(0, 2)
        s:settle(2)
        s:follow(1, 2)
        s:settle(2)
        for i = 1, 100 do assert.equal("v" .. i, s:get(2, "disk", "k" .. i)) end
        local lines = report(s, 0)
        for i = 1, 100 do assert.is_truthy(lines["disk/k" .. i], "k" .. i) end -- twice if it was in the log of n1, which is lost too
    end)

    it("does not take effect again when it is sent again and somebody has written the entry since", function()
        local s = split({ early = true, policy = { resolver = C.MS_RESOLVE_MINE } }, put_new)
        s:await(function() return s:get(1, "disk", "new") == "only here" end) -- decided; the answer is on its way
        s:kill(0)
        s:put(1, "disk", "new", "newer")
        s:follow(0, 1)
        s:settle(1)
        assert.equal("newer", s:get(0, "disk", "new"))
        local line = report(s, 0)["disk/new"][1]
        assert.same({ "theirs", "resent" }, { line.outcome, line.by })
    end)

    it("is kept when the node leads again before anybody could decide", function()
        local s = simkit.new { nodes = 2, policy = { resolver = C.MS_RESOLVE_MINE } }
        s:begin()
        s:put(0, "offset", "q", int64(1))
        s:follow(0, 1) -- steps down with a full buffer; n1 does not lead
        s:await_role(0, "follower")
        s:await(function() return pending(s, 0) == 1 end)
        s:promote(0)
        s:put(0, "offset", "q", int64(2))
        s:settle(0)
        assert.equal(int64(2), s:get(0, "offset", "q")) -- what was buffered before is older
        local line = report(s, 0)["offset/q"][1]
        assert.same({ "theirs", "newest" }, { line.outcome, line.by })
        assert.equal(1, s:count "extras_own")
    end)

    it("is decided by the node itself when it is promoted in the meantime", function()
        local s = split({ early = true, policy = { resolver = C.MS_RESOLVE_MINE } }, put_new)
        s:await(function() return s:following(0) == "stream" end)
        s:kill(1)
        s:kill(0)
        s:start(0)
        assert.equal(1, pending(s, 0))
        s:promote(0)
        s:await(function() return pending(s, 0) == 0 end)
        assert.equal("only here", s:get(0, "disk", "new"))
        assert.equal("mine", report(s, 0)["disk/new"][1].outcome)
    end)

    it("ends a link that offers more at a time than is allowed", function()
        local s = simkit.new { nodes = 2 }
        s:begin()
        local message, payload = ffi.new "struct ms_message", ms.buf()
        C.ms_message_init(message)
        message.type, message.reason, message.table = C.MS_TYPE_BYTES, C.MS_CONFLICT_DEPOSED, "disk"
        local key = ms.bytes "k"
        message.key = key
        C.ms_message_encode(C.MS_FRAME_EXTRA, message, payload)
        local leader = s:engine(0)
        local first = leader.peers.next
        local peer = ffi.cast("struct ms_peer *", first) -- its list node is its first member
        for _ = 1, C.MS_EXTRAS_WINDOW do C.ms_engine_frame(leader, peer.link, C.MS_FRAME_EXTRA, 0, ms.bytes(ms.buf_str(payload))) end
        assert.equal(C.MS_EXTRAS_WINDOW, peer.extras)
        C.ms_engine_frame(leader, peer.link, C.MS_FRAME_EXTRA, 0, ms.bytes(ms.buf_str(payload)))
        assert.is_true(leader.peers.next ~= first)
        s:settle(0)
    end)
end)
