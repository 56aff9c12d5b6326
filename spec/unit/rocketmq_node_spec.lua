-- Import and export with a real node behind them.
local ms = require "spec.support.ms"
local rmq = require "spec.support.rocketmq"
local C, ffi = ms.C, ms.ffi

-- buffered: names of tables with a flush interval that no test waits for.
local function policy_of(buffered)
    local policy = ffi.new("struct ms_policy")
    C.ms_policy_init(policy)
    policy.mark_every_ms = 3600000 -- positions are compared: no mark may come between
    for i, name in ipairs(buffered) do
        ffi.copy(policy.tables[i - 1].name, name)
        policy.tables[i - 1].interval_ms = 3600000
    end
    policy.table_count = #buffered
    return policy
end

local function open(dir, policy)
    local config = ffi.new("struct ms_config")
    config.dir, config.cluster, config.policy = dir, "spec", policy
    local out = ffi.new("struct ms_node *[1]")
    ms.check(C.ms_open(config, out), "open")
    ms.check(C.ms_lead(out[0], nil, 0, 10000), "lead")
    return ffi.gc(out[0], C.ms_close)
end

local function close(node)
    C.ms_close(ffi.gc(node, nil))
end

local function seam_of(node, policy)
    local seam = ffi.new("struct ms_rocketmq_node")
    C.ms_rocketmq_node_init(seam, node, policy)
    return seam
end

local function import(node, policy, dir)
    local report = ffi.new("struct ms_rocketmq_report")
    local options = ffi.new("struct ms_rocketmq_import_options", { list_max = 10, timeout_ms = 10000 })
    ms.check(C.ms_rocketmq_import(seam_of(node, policy).tables, C.ms_fs_posix(), dir, options, report), "import")
    local decoded = rmq.report(report)
    C.ms_rocketmq_report_close(report)
    return decoded
end

local function position(node)
    local p = ffi.new("struct ms_position")
    ms.check(C.ms_position(node, p))
    return p
end

local function rows_of(node)
    local rows = ffi.gc(ffi.new("struct ms_rows"), C.ms_rows_close)
    ms.check(C.ms_rocketmq_collect(seam_of(node, nil).tables, rows))
    return rmq.rows(rows)
end

local function rows_in(dir)
    local files = ffi.gc(ffi.new("struct ms_rocketmq_files"), C.ms_rocketmq_files_close)
    ms.check(C.ms_rocketmq_load(C.ms_fs_posix(), dir, files))
    return rmq.rows(files.rows)
end

local EXAMPLE = "plugins/standalone/example"

describe("a node", function()
    for kind, buffered in pairs { ["without buffers"] = {}, ["with buffered offsets"] = { "offset", "pull_offset", "delay_offset" } } do
        it(kind .. " takes a broker's directory once, and its disk has it", function()
            local dir, policy = ms.tmpdir(), policy_of(buffered)
            local node = open(dir, policy)
            local report = import(node, policy, EXAMPLE)
            for file = 0, 3 do
                local r = report[rmq.NAMES[file]]
                assert.equal("json", r.source)
                assert.equal(r.rows, r.put)
            end
            local want = rows_in(EXAMPLE)
            assert.same(want, rows_of(node))
            local p = position(node)
            assert.equal(ms.dec(p.head), ms.dec(p.synced))

            report = import(node, policy, EXAMPLE)
            assert.equal(ms.dec(p.head), ms.dec(position(node).head), "the second import logged something")
            for file = 0, 3 do assert.equal(0, report[rmq.NAMES[file]].put + report[rmq.NAMES[file]].deleted) end
            close(node)

            node = open(dir, policy)
            assert.same(want, rows_of(node))
            local head = ms.dec(position(node).head)
            import(node, policy, EXAMPLE)
            assert.equal(head, ms.dec(position(node).head), "an import after a restart logged something")
            close(node)
        end)
    end

    it("gives back what it took, and export makes no tables", function()
        local dir, out = ms.tmpdir(), ms.tmpdir()
        local node = open(dir, nil)
        ms.check(C.ms_rocketmq_export(seam_of(node, nil).tables, C.ms_fs_posix(), out, nil))
        local head = ms.dec(position(node).head)
        ms.check(C.ms_rocketmq_export(seam_of(node, nil).tables, C.ms_fs_posix(), out, nil))
        assert.equal(head, ms.dec(position(node).head))
        import(node, nil, EXAMPLE)
        ms.check(C.ms_rocketmq_export(seam_of(node, nil).tables, C.ms_fs_posix(), out, nil))
        assert.same(rows_in(EXAMPLE), rows_in(out))
        assert.equal('{\n\t"offsetTable":{}\n}', ms.read_file(out .. "/delayOffset.json.bak"))
        close(node)
    end)

    it("takes entries larger than a batch", function()
        local dir, from = ms.tmpdir(), ms.tmpdir()
        local large = ('{"text":"%s"}'):format(("x"):rep(1500000))
        ms.write_file(from .. "/topics.json", '{"topicConfigTable":{"a":{},"large":' .. large .. ',"z":{}}}')
        local node = open(dir, nil)
        import(node, nil, from)
        assert.equal(large, rows_of(node)["topic/large"])
        close(node)
    end)

    it("that does not lead refuses, and stays as it is", function()
        local dir = ms.tmpdir()
        local config = ffi.new("struct ms_config")
        config.dir, config.cluster = dir, "spec"
        local out = ffi.new("struct ms_node *[1]")
        ms.check(C.ms_open(config, out))
        local report = ffi.new("struct ms_rocketmq_report")
        local rc = C.ms_rocketmq_import(seam_of(out[0], nil).tables, C.ms_fs_posix(), EXAMPLE, nil, report)
        assert.is_true(rc == C.MS_E_NOT_LEADER or rc == C.MS_E_NOT_FOUND, ms.code(rc))
        C.ms_rocketmq_report_close(report)
        assert.same({}, rows_of(out[0]))
        C.ms_close(out[0])
    end)
end)
