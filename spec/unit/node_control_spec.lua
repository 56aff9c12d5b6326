-- The commands of the control socket, as metasyncctl sends them.
local ms = require "spec.support.ms"
local json = require "spec.support.json"
local C, ffi = ms.C, ms.ffi

describe("a control command", function()
    local node, socket

    setup(function()
        local dir = ms.tmpdir()
        local config, policy, out = ffi.new "struct ms_config", ffi.new "struct ms_policy", ffi.new "struct ms_node *[1]"
        C.ms_policy_init(policy)
        policy.log_segment_bytes = 262144
        policy.table_count = 1
        ffi.copy(policy.tables[0].name, "hot")
        policy.tables[0].interval_ms = 60000
        socket = dir .. "/control"
        local data = dir .. "/data"
        config.dir, config.cluster, config.name, config.policy, config.control = data, "unit", "controlled", policy, socket
        ms.check(C.ms_open(config, out))
        node = out[0]
    end)

    teardown(function() C.ms_close(node) end)

    local function send(request)
        local out = ffi.new "char *[1]"
        ms.check(C.ms_control_call(socket, type(request) == "string" and request or json.encode(request), 20000, out))
        return json.decode(ms.take(out[0]))
    end

    -- Fields of a command by name: send_command("put", { table = ... })
    local function command(name, fields)
        fields = fields or {}
        fields.command = name
        return send(fields)
    end

    local function refused(code, reply)
        assert.is_false(reply.ok)
        assert.equal(code, reply.code)
        assert.is_true(#reply.error > 0)
    end

    it("lead makes the node leader, which position and status tell", function()
        assert.is_true(command("lead", { peers = {} }).ok)
        local p = command "position"
        assert.equal("leader", p.role)
        assert.equal(p.head, p.synced)
        assert.equal("controlled", command("status").name)
    end)

    it("put takes text, get gives it back, delete removes it", function()
        local before = os.time()
        local reply = command("put", { table = "topic", key = "orders", value = '{"perm":6}' })
        assert.is_true(reply.ok)
        assert.is_true(reply.lsn > 0)
        assert.is_true(math.abs(reply.at_us / 1e6 - before) < 60)
        assert.equal('{"perm":6}', command("get", { table = "topic", key = "orders" }).value)
        local deleted = command("delete", { table = "topic", key = "orders" })
        assert.is_true(deleted.ok and deleted.lsn > reply.lsn)
        refused("MS_E_NOT_FOUND", command("get", { table = "topic", key = "orders" }))
        refused("MS_E_NOT_FOUND", command("get", { table = "none", key = "orders" }))
    end)

    it("put makes an int64 table of an integer, exactly", function()
        local line = '{"command":"%s","table":"offset","key":["orders@g","0"]%s}'
        assert.is_true(send(line:format("put", ',"value":9223372036854775807')).ok)
        local out = ffi.new "char *[1]"
        ms.check(C.ms_control_call(socket, line:format("get", ""), 20000, out))
        assert.truthy(ms.take(out[0]):find('"value":9223372036854775807', 1, true))
        refused("MS_E_TYPE", send(line:format("put", ',"value":"text"')))
        refused("MS_E_TYPE", send(line:format("put", ',"value":1.5')))
        assert.equal("int64", command("ls").tables[2].type)
    end)

    it("keys of parts are joined by NUL, other bytes are base64", function()
        assert.is_true(command("put", { table = "topic", key = { "a", "b" }, value = "v" }).ok)
        assert.equal("v", command("get", { table = "topic", key = "a\0b" }).value)
        for _, bytes in ipairs { { "AA==", "\0" }, { "/w==", "\255" }, { "AP8=", "\0\255" }, { "/wD/", "\255\0\255" } } do
            assert.is_true(command("put", { table = "topic", key = { base64 = bytes[1] }, value = { base64 = bytes[1] } }).ok)
            local handle = ffi.new "struct ms_table *[1]"
            ms.check(C.ms_table_open(node, "topic", C.MS_TYPE_BYTES, handle))
            assert.equal(bytes[2], ms.get(handle[0], bytes[2]))
        end
        assert.same({ base64 = "/wD/" }, command("get", { table = "topic", key = { base64 = "/wD/" } }).value)
        refused("MS_E_FORMAT", command("put", { table = "topic", key = { base64 = "?" }, value = "v" }))
        refused("MS_E_INVALID", command("put", { table = "topic", key = 5, value = "v" }))
        refused("MS_E_INVALID", command("put", { table = "topic", value = "v" }))
    end)

    it("ls lists entries by prefix, up to a limit", function()
        for i = 1, 20 do command("put", { table = "list", key = ("p%02d"):format(i), value = "v" .. i, nowait = true }) end
        command("put", { table = "list", key = "other", value = "w" })
        local reply = command("ls", { table = "list", prefix = "p" })
        assert.equal(20, #reply.entries)
        assert.is_false(reply.truncated)
        reply = command("ls", { table = "list", limit = 5 })
        assert.equal(5, #reply.entries)
        assert.is_true(reply.truncated)
        assert.same({ { key = "other", value = "w" } }, command("ls", { table = "list", prefix = "oth" }).entries)
        refused("MS_E_NOT_FOUND", command("ls", { table = "none" }))
    end)

    it("put-batch writes all or nothing", function()
        local writes = { { table = "batch", key = "a", value = "1" }, { table = "batch", key = "b", value = "2" },
            { table = "list", key = "other" } }
        assert.is_true(command("put-batch", { writes = writes }).ok)
        assert.equal("2", command("get", { table = "batch", key = "b" }).value)
        refused("MS_E_NOT_FOUND", command("get", { table = "list", key = "other" }))
        writes = { { table = "batch", key = "c", value = "3" }, { table = "batch", key = "", value = "4" } }
        refused("MS_E_INVALID", command("put-batch", { writes = writes }))
        refused("MS_E_NOT_FOUND", command("get", { table = "batch", key = "c" }))
        refused("MS_E_INVALID", command "put-batch")
    end)

    it("flush logs a buffered table; wait and applied tell how far a change got", function()
        local head = command("position").head
        assert.is_true(command("put", { table = "hot", key = "k", value = "v" }).ok)
        local reply = command("flush", { table = "hot" })
        assert.equal(head + 2, reply.lsn) -- the table, the entry
        assert.is_true(command("wait", { lsn = reply.lsn, level = "disk" }).ok)
        assert.is_true(command("applied", { lsn = reply.lsn }).time_us >= reply.at_us - 1000000)
        refused("MS_E_INVALID", command("wait", { lsn = reply.lsn, level = "paper" }))
        refused("MS_E_INVALID", command("wait", { lsn = reply.lsn + 100, level = "disk" }))
        refused("MS_E_AGAIN", command("applied", { lsn = reply.lsn + 100 }))
    end)

    it("snapshot makes one", function()
        assert.is_true(command("snapshot").ok)
        assert.equal(command("position").head, command("status").log.snapshot_end)
    end)

    it("follow, adopt, promote change the role or say why not", function()
        refused("MS_E_INVALID", command "adopt")
        refused("MS_E_INVALID", command "follow")
        refused("MS_E_ADDRESS", command("follow", { address = "nonsense" }))
        assert.is_true(command("follow", { address = "127.0.0.1:1" }).ok)
        refused("MS_E_NOT_LEADER", command("put", { table = "topic", key = "k", value = "v" }))
        assert.is_true(command("promote", { timeout_ms = 10000 }).ok)
        assert.equal(1, command("position").reign)
    end)

    it("that is none is refused, and so is what is no JSON", function()
        refused("MS_E_INVALID", command "dance")
        refused("MS_E_INVALID", send "{}")
        refused("MS_E_FORMAT", send "no JSON")
    end)
end)
