-- The public API on one node. Threads, callbacks and pairs of nodes are specified by the C programs spec/c/node_*.c, since LuaJIT
-- can't be called from other threads.
local ms = require "spec.support.ms"
local json = require "spec.support.json"
local C, ffi = ms.C, ms.ffi

local function small_policy(change)
    local policy = ffi.new "struct ms_policy"
    C.ms_policy_init(policy)
    policy.log_segment_bytes = 65536
    policy.log_max_bytes = 1048576
    policy.log_keep_bytes = 65536
    policy.group_bytes = 4096
    policy.key_max = 512
    policy.value_max = 4096
    policy.batch_max = 8192
    if change then change(policy) end
    return policy
end

-- Tables of a policy: { name = { interval_ms = 5 } }
local function set_tables(policy, tables)
    local count = 0
    for name, fields in pairs(tables) do
        ffi.copy(policy.tables[count].name, name)
        for field, value in pairs(fields) do policy.tables[count][field] = value end
        count = count + 1
    end
    policy.table_count = count
end

describe("a node", function()
    local dir, nodes, kept

    -- Opens a node; options: dir, cluster, policy, listen, secret, control.
    local function try_open(options)
        options = options or {}
        local config = ffi.new "struct ms_config"
        kept[#kept + 1] = options
        config.dir, config.cluster, config.name = options.dir or dir, options.cluster or "unit", "unit-node"
        options.policy = options.policy or small_policy()
        config.policy = options.policy
        config.listen, config.secret, config.control = options.listen, options.secret, options.control
        local out = ffi.new "struct ms_node *[1]"
        local rc = C.ms_open(config, out)
        if rc == 0 then nodes[#nodes + 1] = out[0] end
        return rc, rc == 0 and out[0] or nil
    end

    local function open(options)
        local rc, node = try_open(options)
        ms.check(rc, "ms_open")
        return node
    end

    local function close(node)
        for i, open_node in ipairs(nodes) do
            if open_node == node then table.remove(nodes, i) end
        end
        C.ms_close(node)
    end

    local function leader(options)
        local node = open(options)
        ms.check(C.ms_lead(node, nil, 0, 10000), "ms_lead")
        return node
    end

    local function open_table(node, name, kind)
        local out = ffi.new "struct ms_table *[1]"
        local rc = C.ms_table_open(node, name, kind or C.MS_TYPE_BYTES, out)
        return rc == 0 and out[0] or nil, rc
    end

    local function put(handle, key, value, flags)
        local lsn = ffi.new "uint64_t[1]"
        local rc = C.ms_put(handle, ms.bytes(key), ms.bytes(value), flags or 0, lsn)
        return rc, tonumber(lsn[0])
    end

    local function position(node)
        local p = ffi.new "struct ms_position"
        ms.check(C.ms_position(node, p))
        return p
    end

    local function status(node)
        local out = ffi.new "char *[1]"
        ms.check(C.ms_status(node, out))
        return json.decode(ms.take(out[0]))
    end

    before_each(function()
        dir, nodes, kept = ms.tmpdir() .. "/data", {}, {}
    end)

    after_each(function()
        for _, node in ipairs(nodes) do C.ms_close(node) end
    end)

    describe("is opened", function()
        it("in a directory that it makes, as idle", function()
            local node = open()
            assert.equal(C.MS_ROLE_IDLE, position(node).role)
            assert.equal(0, C.ms_port(node))
            assert.truthy(ms.read_file(dir .. "/node"):find("cluster unit", 1, true))
        end)

        it("not twice at a time, and not for another cluster", function()
            local node = open()
            assert.equal(C.MS_E_LOCKED, (try_open()))
            close(node)
            assert.equal(C.MS_E_CLUSTER, (try_open { cluster = "other" }))
            assert.equal(0, (try_open()))
        end)

        it("only with a configuration that makes sense", function()
            assert.equal(C.MS_E_INVALID, (try_open { cluster = "" }))
            assert.equal(C.MS_E_INVALID, (try_open { cluster = ("c"):rep(64) }))
            assert.equal(C.MS_E_INVALID, (try_open { dir = "" }))
            assert.equal(C.MS_E_INVALID, (try_open { policy = small_policy(function(p) p.key_max = 0 end) }))
            assert.equal(C.MS_E_ADDRESS, (try_open { listen = "nonsense" }))
            assert.equal(C.MS_E_ADDRESS, (try_open { listen = "0.0.0.0:0" }))
            assert.equal(0, (try_open { listen = "0.0.0.0:0", secret = "long enough a secret" }))
        end)

        it("with the port that it got", function()
            local node = open { listen = "127.0.0.1:0" }
            assert.is_true(C.ms_port(node) > 0)
            local other = { listen = "127.0.0.1:" .. C.ms_port(node), dir = dir .. "2" }
            assert.equal(C.MS_E_IO, (try_open(other)))
        end)

        it("or leaves nothing behind, whichever allocation fails", function()
            local policy = small_policy()
            local tried = ms.with_alloc_failures(function()
                local rc, node = try_open { policy = policy, listen = "127.0.0.1:0" }
                if rc == 0 then close(node) else assert.equal(C.MS_E_MEMORY, rc) end
            end)
            assert.is_true(tried > 20)
        end)
    end)

    describe("leads", function()
        it("with a new run for each start", function()
            local node = leader()
            local first = position(node)
            assert.equal(1, tonumber(first.run))
            assert.equal(tonumber(first.head), tonumber(first.synced))
            close(node)
            assert.equal(2, tonumber(position(leader()).run))
        end)

        it("a new reign when it is promoted", function()
            local node = open()
            ms.check(C.ms_promote(node, 0, 10000))
            assert.equal(1, tonumber(position(node).reign))
            assert.equal(0, tonumber(position(node).run))
            ms.check(C.ms_promote(node, 0, 10000)) -- leads already
            assert.equal(1, tonumber(position(node).reign))
        end)

        it("and refuses writes in every other role", function()
            local node = leader()
            local handle = open_table(node, "t")
            ms.check(C.ms_follow(node, "127.0.0.1:1"))
            assert.equal(C.MS_E_NOT_LEADER, (put(handle, "k", "v")))
            assert.equal(C.MS_E_NOT_LEADER, C.ms_flush(node, nil, nil))
            local txn = ffi.new "struct ms_txn *[1]"
            assert.equal(C.MS_E_NOT_LEADER, C.ms_begin(handle, ms.bytes "k", 0, txn))
            assert.equal(C.MS_E_ADDRESS, C.ms_follow(node, "10.1.2.3:7000"))
            assert.equal(C.MS_E_INVALID, C.ms_adopt(node))
        end)
    end)

    describe("keeps entries", function()
        local node, topics

        before_each(function()
            node = leader()
            topics = open_table(node, "topic")
        end)

        it("from put to delete, and across a restart", function()
            assert.equal(0, (put(topics, "orders", "one")))
            assert.equal("one", ms.get(topics, "orders"))
            assert.equal(0, (put(topics, "orders", "two")))
            assert.equal(0, (put(topics, "empty", "")))
            assert.equal(0, (put(topics, "gone", "x")))
            assert.equal(0, C.ms_delete(topics, ms.bytes "gone", 0, nil))
            assert.equal(2, tonumber(C.ms_table_count(topics)))
            close(node)
            node = leader()
            topics = open_table(node, "topic")
            assert.same({ orders = "two", empty = "" }, ms.entries(topics))
        end)

        it("and an equal value logs nothing", function()
            local _, first = put(topics, "k", "v")
            local rc, second = put(topics, "k", "v")
            assert.equal(0, rc)
            assert.equal(first, second)
            assert.equal(0, C.ms_delete(topics, ms.bytes "never was", 0, nil))
            assert.equal(first, tonumber(position(node).head))
        end)

        it("within the limits", function()
            assert.equal(C.MS_E_INVALID, (put(topics, "", "v")))
            assert.equal(C.MS_E_INVALID, (put(topics, "k", nil)))
            assert.equal(C.MS_E_LIMIT, (put(topics, ("k"):rep(513), "v")))
            assert.equal(C.MS_E_LIMIT, (put(topics, "k", ("v"):rep(4097))))
            assert.equal(0, (put(topics, ("k"):rep(512), ("v"):rep(4096))))
            assert.equal(1, tonumber(C.ms_table_count(topics)))
        end)

        it("gives a value's size to who has too little room for it", function()
            put(topics, "k", "12345")
            local size, room = ffi.new "size_t[1]", ffi.new("char[8]", "unused")
            assert.equal(C.MS_E_LIMIT, C.ms_get(topics, ms.bytes "k", room, 4, size))
            assert.equal(5, tonumber(size[0]))
            assert.equal("unused", ffi.string(room))
            assert.equal(C.MS_E_NOT_FOUND, C.ms_get(topics, ms.bytes "l", room, 8, size))
        end)

        it("of the table's type", function()
            local numbers = open_table(node, "numbers", C.MS_TYPE_INT64)
            assert.equal(C.MS_E_TYPE, (put(numbers, "k", "no number")))
            assert.equal(0, (put(numbers, "k", "\255\255\255\255\255\255\255\127")))
            local _, rc = open_table(node, "numbers", C.MS_TYPE_BYTES)
            assert.equal(C.MS_E_TYPE, rc)
            _, rc = open_table(node, "bad name", C.MS_TYPE_BYTES)
            assert.equal(C.MS_E_INVALID, rc)
            assert.equal(C.MS_TYPE_INT64, C.ms_table_type(numbers))
            assert.equal("numbers", ffi.string(C.ms_table_name(numbers)))
            assert.equal(numbers, open_table(node, "numbers", C.MS_TYPE_INT64))
        end)

        it("in tables that are listed by id", function()
            open_table(node, "b")
            open_table(node, "a")
            local names = {}
            ms.with_callback("int (*)(void *, struct ms_table *)", function(_, handle)
                names[#names + 1] = ffi.string(C.ms_table_name(handle))
                return #names == 3 and 42 or 0
            end, function(fn) assert.equal(42, C.ms_table_each(node, fn, nil)) end)
            assert.same({ "topic", "b", "a" }, names)
        end)

        it("and a walk stops when it is told to", function()
            for i = 1, 500 do assert.equal(0, (put(topics, "k" .. i, ("v"):rep(i % 50), C.MS_NOWAIT))) end
            local count = 0
            for _ in pairs(ms.entries(topics)) do count = count + 1 end
            assert.equal(500, count)
            local seen = 0
            ms.with_two(function()
                seen = seen + 1
                return seen == 7 and 99 or 0
            end, function(fn, thunk) assert.equal(99, C.ms_walk(topics, fn, thunk)) end)
            assert.equal(7, seen)
        end)
    end)

    describe("compares and sets", function()
        it("only what has the expected value", function()
            local handle = open_table(leader(), "t")
            local function cas(expected, value) return C.ms_compare_and_set(handle, ms.bytes "k", ms.bytes(expected), ms.bytes(value), 0, nil) end
            assert.equal(C.MS_E_CHANGED, cas("a", "b"))
            assert.equal(0, cas(nil, "a"))
            assert.equal(C.MS_E_CHANGED, cas(nil, "b"))
            assert.equal(C.MS_E_CHANGED, cas("", "b"))
            assert.equal(0, cas("a", "b"))
            assert.equal("b", ms.get(handle, "k"))
        end)
    end)

    describe("computes", function()
        it("from the current value, or refuses", function()
            local handle = open_table(leader(), "t")
            local function compute(fn)
                return ms.with_compute(fn, function(f, thunk) return C.ms_compute(handle, ms.bytes "k", f, thunk, 0, nil) end)
            end
            assert.equal(0, compute(function(current) return (current or "") .. "a" end))
            assert.equal(0, compute(function(current) return current .. "b" end))
            assert.equal("ab", ms.get(handle, "k"))
            assert.equal(C.MS_E_REFUSED, compute(function() return false end))
            assert.equal("ab", ms.get(handle, "k"))
            assert.equal(0, compute(function() return nil end))
            assert.is_nil(ms.get(handle, "k"))
        end)
    end)

    describe("writes batches", function()
        local node, a, b

        -- writes: { { handle, key, value or nil }, ... }
        local function batch(writes)
            local list = ffi.new("struct ms_write[?]", math.max(#writes, 1))
            local keep = {}
            for i, write in ipairs(writes) do
                local key, value = ms.bytes(write[2]), ms.bytes(write[3])
                keep[i] = { key, value }
                list[i - 1].table, list[i - 1].key, list[i - 1].value = write[1], key, value
            end
            local lsn = ffi.new "uint64_t[1]"
            local rc = C.ms_put_batch(node, list, #writes, 0, lsn)
            return rc, tonumber(lsn[0]), keep
        end

        before_each(function()
            node = leader()
            a, b = open_table(node, "a"), open_table(node, "b", C.MS_TYPE_INT64)
        end)

        it("as one, the last write of a key winning", function()
            put(a, "old", "x")
            local rc, lsn = batch { { a, "k", "1" }, { b, "n", "12345678" }, { a, "old", nil }, { a, "k", "2" } }
            assert.equal(0, rc)
            assert.equal(tonumber(position(node).head), lsn)
            assert.same({ k = "2" }, ms.entries(a))
            assert.same({ n = "12345678" }, ms.entries(b))
        end)

        it("or not at all", function()
            local head = tonumber(position(node).head)
            assert.equal(C.MS_E_TYPE, (batch { { a, "k", "1" }, { b, "n", "short" } }))
            assert.equal(C.MS_E_LIMIT, (batch { { a, "k", ("v"):rep(4000) }, { a, "l", ("v"):rep(4000) }, { a, "m", ("v"):rep(400) } }))
            local many = {}
            for i = 1, 100 do many[i] = { a, "k" .. i, "v" } end
            many[101] = { a, "", "v" }
            assert.equal(C.MS_E_INVALID, (batch(many)))
            assert.equal(head, tonumber(position(node).head))
            assert.same({}, ms.entries(a))
            many[101] = nil
            assert.equal(0, (batch(many)))
            assert.equal(100, tonumber(C.ms_table_count(a)))
            assert.equal(0, (batch {}))
        end)

        it("only to tables of its own", function()
            local other = leader { dir = dir .. "-other" }
            assert.equal(C.MS_E_INVALID, (batch { { open_table(other, "a"), "k", "v" } }))
        end)
    end)

    describe("waits", function()
        it("for a level, within the time that it is given", function()
            local node = leader { policy = small_policy(function(p) p.level = C.MS_LEVEL_MEMORY end) }
            local _, lsn = put(open_table(node, "t"), "k", "v")
            assert.equal(0, C.ms_wait(node, lsn, C.MS_LEVEL_MEMORY, 0))
            assert.equal(0, C.ms_wait(node, lsn, C.MS_LEVEL_DISK, 10000))
            assert.is_true(tonumber(position(node).synced) >= lsn)
            assert.equal(C.MS_E_INVALID, C.ms_wait(node, lsn + 1, C.MS_LEVEL_DISK, 10000))
            assert.equal(C.MS_E_INVALID, C.ms_wait(node, lsn, 9, 0))
            assert.equal(C.MS_E_NOT_REPLICATED, C.ms_wait(node, lsn, C.MS_LEVEL_REPLICA, 10000))
        end)
    end)

    describe("buffers", function()
        it("a hot table's puts until the flush", function()
            local policy = small_policy(function(p) set_tables(p, { hot = { interval_ms = 60000 } }) end)
            local node = leader { policy = policy }
            local hot = open_table(node, "hot")
            local head = tonumber(position(node).head)
            for i = 1, 100 do assert.equal(0, (put(hot, "k" .. i % 10, "v" .. i))) end
            assert.equal(head, tonumber(position(node).head))
            assert.equal("v100", ms.get(hot, "k0"))
            assert.equal(10, status(node).tables[1].at_risk_entries)
            local lsn = ffi.new "uint64_t[1]"
            assert.equal(0, C.ms_flush(node, hot, lsn))
            assert.equal(head + 10, tonumber(lsn[0]))
            assert.equal(0, C.ms_wait(node, lsn[0], C.MS_LEVEL_DISK, 10000))
        end)

        it("and flushes by itself after the interval", function()
            local policy = small_policy(function(p) set_tables(p, { hot = { interval_ms = 20 } }) end)
            local node = leader { policy = policy }
            put(open_table(node, "hot"), "k", "v")
            ms.eventually(function() return status(node).tables[1].logged_entries == 1 end, 10, "the flush")
        end)
    end)

    describe("has a bounded log", function()
        it("which it trims behind its snapshots while it goes on", function()
            local policy = small_policy(function(p) p.snapshot_log_bytes = 131072 end)
            local node = leader { policy = policy }
            local handle = open_table(node, "t")
            for i = 1, 4000 do
                ms.eventually(function() -- a writer that outruns the snapshots is refused, cleanly, until one has made room
                    local rc = put(handle, "k" .. i % 50, ("v"):rep(1000) .. i, C.MS_NOWAIT)
                    assert.is_true(rc == 0 or rc == C.MS_E_NO_SPACE)
                    return rc == 0
                end)
            end
            assert.equal(0, C.ms_snapshot(node, 10000))
            assert.is_true(status(node).log.first > 1)
            local log, snapshot = ms.sh(("ls %s/gen-*/ | grep -c log-"):format(dir)), ms.sh(("ls %s/gen-*/ | grep -c snap-"):format(dir))
            assert.is_true(tonumber(log) <= 16 and tonumber(snapshot) <= 2)
            close(node)
            handle = open_table(leader { policy = policy }, "t")
            assert.equal(50, tonumber(C.ms_table_count(handle)))
            assert.equal(("v"):rep(1000) .. 4000, ms.get(handle, "k0"))
        end)
    end)

    describe("finds damage", function()
        it("and opens, refuses to lead, and says so", function()
            local node = leader()
            local handle = open_table(node, "t")
            for i = 1, 200 do put(handle, "key number " .. i, ("v"):rep(100)) end
            close(node)
            local path = ms.sh(("ls %s/gen-*/log-* | head -1"):format(dir)):match("%S+")
            local text = ms.read_file(path)
            local at = text:find("key number 100", 1, true)
            ms.write_file(path, text:sub(1, at) .. "?" .. text:sub(at + 2))
            node = open()
            assert.equal(C.MS_E_DAMAGED, C.ms_lead(node, nil, 0, 1000))
            assert.equal(C.MS_E_NOT_PROMOTABLE, C.ms_promote(node, 0, 1000))
            assert.is_true(status(node).damaged)
            assert.is_truthy(status(node).alarm:find("offset", 1, true))
            assert.equal(0, C.ms_follow(node, "127.0.0.1:1"))
        end)
    end)

    describe("tells its state", function()
        it("in positions, times and status", function()
            local node = leader { listen = "127.0.0.1:0" }
            local handle = open_table(node, "t")
            local before = os.time()
            local _, lsn = put(handle, "k", "v")
            local time = ffi.new "uint64_t[1]"
            assert.equal(0, C.ms_applied_at(node, lsn, time))
            assert.is_true(math.abs(tonumber(time[0]) / 1e6 - before) < 60)
            assert.equal(C.MS_E_AGAIN, C.ms_applied_at(node, lsn + 1, time))
            local s = status(node)
            assert.equal("leader", s.role)
            assert.equal("unit-node", s.name)
            assert.equal(dir, s.data_dir)
            assert.equal(C.ms_port(node), s.port)
            assert.is_string(s.version)
            assert.equal(0, s.transactions)
            assert.is_number(s.max_lock_us)
            assert.equal(lsn, s.log.head)
        end)
    end)

    describe("dumps", function()
        local function dump(path, from)
            local lines = {}
            local rc = ms.with_callback("int (*)(void *, const char *)", function(_, line)
                lines[#lines + 1] = json.decode(ffi.string(line))
                return 0
            end, function(fn) return C.ms_log_dump(path, from or 0, fn, nil) end)
            return rc, lines
        end

        local function of(lines, op)
            local found = {}
            for _, line in ipairs(lines) do
                if line.op == op then found[#found + 1] = line end
            end
            return found
        end

        it("loss reports, in the order of their names, and where one is damaged", function()
            local archive = dir .. "/archive"
            ms.sh("mkdir -p " .. archive)
            local function write(name, text) ms.write_file(archive .. "/" .. name, text) end
            write("loss-b.jsonl", '{"key":"3","mine":9223372036854775807}\n{"key":"half')
            write("loss-a.jsonl", '{"key":"1"}\n{"key":{"base64":"/w=="}}\n')
            write("buffers-1.jsonl", '{"lost":"buffered"}\n')
            local rc, lines = dump(archive)
            assert.equal(0, rc, ms.err())
            assert.same({ "1", { base64 = "/w==" }, "3" }, { lines[1].key, lines[2].key, lines[3].key })
            assert.equal(9223372036854775807LL, lines[3].mine)
            rc, lines = dump(archive .. "/buffers-1.jsonl")
            assert.same({ 0, "buffered" }, { rc, lines[1].lost })
            assert.equal(C.MS_E_INVALID, (dump(archive, 2)))
            assert.equal(C.MS_E_INVALID, (dump(archive .. "/loss-a.jsonl", 2)))
            write("loss-c.jsonl", '{"key":"4"}\n[]\n')
            assert.equal(C.MS_E_DAMAGED, (dump(archive)))
            assert.matches("archive/loss%-c.jsonl, line 2: no JSON object", ms.err())
        end)

        it("a data directory, from an lsn on, and a snapshot", function()
            local node = leader()
            local handle = open_table(node, "topic")
            local _, first = put(handle, "a", "1")
            local _, second = put(handle, "b\0f", "2")
            assert.equal(0, C.ms_snapshot(node, 10000))
            local rc, lines = dump(dir)
            assert.equal(0, rc)
            local puts = of(lines, "put")
            assert.equal(2, #puts)
            assert.same({ "topic", "a", "1", first }, { puts[1].table, puts[1].key, puts[1].value, puts[1].lsn })
            assert.equal("b\0f", puts[2].key)
            rc, lines = dump(dir, second)
            assert.equal(0, rc)
            assert.equal(second, lines[1].lsn)
            assert.equal("topic", of(lines, "put")[1].table) -- though the table was defined before
            local snapshot = ms.sh(("ls %s/gen-*/snap-* | head -1"):format(dir)):match("%S+")
            rc, lines = dump(snapshot)
            assert.equal(0, rc)
            assert.equal(2, #of(lines, "put"))
            assert.equal(1, #of(lines, "snapshot_end"))
            local segment = ms.sh(("ls %s/gen-*/log-* | head -1"):format(dir)):match("%S+")
            rc, lines = dump(segment)
            assert.equal(0, rc)
            assert.equal(2, #of(lines, "put"))
            assert.equal(C.MS_E_NOT_FOUND, (dump(dir .. "/nowhere")))
        end)

        it("and names the place of what is no group", function()
            local path = ms.tmpdir() .. "/snap-1"
            ms.write_file(path, ("no snapshot "):rep(20))
            assert.equal(C.MS_E_FORMAT, (dump(path)))
            assert.truthy(ms.err():find("offset 0", 1, true))
        end)
    end)

    describe("survives a lack of memory", function()
        it("at any allocation of a write: all of it, or nothing and an error", function()
            local node = leader()
            local handle = open_table(node, "t")
            local model = {}
            for n = 1, 60 do
                local key, value = "key" .. n % 7, ("value %d "):format(n):rep(n)
                C.ms_mem_fail_after(n % 6 + 1)
                local rc = put(handle, key, value, C.MS_NOWAIT)
                C.ms_mem_fail_after(0)
                if rc == 0 then model[key] = value else assert.equal(C.MS_E_MEMORY, rc) end
            end
            assert.same(model, ms.entries(handle))
            local rc, lsn = put(handle, "last", "v")
            if rc == 0 then
                model.last = "v"
                assert.equal(0, C.ms_wait(node, lsn, C.MS_LEVEL_DISK, 10000))
            end
            close(node)
            assert.same(model, ms.entries(open_table(leader(), "t")))
        end)
    end)

    it("is closed without harm if there is none", function()
        C.ms_close(nil)
        assert.equal(0, #nodes)
    end)
end)
