-- metasyncctl as an operator or a script sees it: words, output, exit statuses.
local cluster = require "spec.support.cluster"
local json = require "spec.support.json"
local process = require "spec.support.process"

local function leader_of(c)
    return c:node "a":start { "--lead" }
end

describe("metasyncctl", function()
    it("teaches with --help, of itself and of each command", function()
        local output, code = cluster.ctl "--help"
        assert.equal(0, code)
        local commands = 0
        for command in output:gmatch("\n  (%l+) [^\n]*") do
            if command ~= "metasyncctl" and command ~= "status" then
                local text, status = cluster.ctl(command, "--help")
                assert.equal(0, status, command)
                assert.truthy(text:find("usage: metasyncctl ", 1, true) and text:find("example", 1, true), text)
                commands = commands + 1
            end
        end
        assert.is_true(commands >= 15, commands .. " commands")
    end)

    it("says what is wrong with the words: exit status 2", function()
        for _, words in ipairs { {}, { "fly" }, { "status", "--force" }, { "get", "topic" }, { "put", "topic", "k" }, { "--limit", "x", "ls" },
            { "--nonsense" }, { "ls" }, { "wait", "x", "disk" }, { "--control", "/x", "wait", "1", "moon" }, { "get", "a", "b", "c", "d" },
            { "--timeout" }, { "put", "t", "k", "v", "--type", "float" }, { "--control", "/x", "ls", "--limit", "3" } } do
            local _, code, errors = cluster.ctl(unpack(words))
            assert.equal(2, code, table.concat(words, " "))
            assert.truthy(errors:find("metasyncctl", 1, true), errors)
        end
    end)

    it("says that a node cannot be reached: exit status 3", cluster.test(function(c)
        local node = leader_of(c)
        node:kill()
        local _, code, errors = node:ctl "status"
        assert.equal(3, code)
        assert.truthy(errors:find(node.control, 1, true), errors)
        _, code = cluster.ctl("--data", c.dir .. "/nowhere", "status")
        assert.equal(3, code)
    end))

    it("does not wait for ever for a node that does not answer", cluster.test(function(c)
        local node = leader_of(c)
        node.process:kill(process.SIGSTOP)
        local from = process.now()
        local _, code = node:ctl("--timeout", "300", "status")
        assert.equal(3, code)
        assert.is_true(process.now() - from < 5)
        node.process:kill(process.SIGCONT)
    end))

    it("puts, gets, lists and deletes entries of both types, with and without field", cluster.test(function(c)
        local node = leader_of(c)
        local function ok(...)
            local output, code, errors = node:ctl(...)
            assert.equal(0, code, errors)
            return output
        end
        ok("put", "topic", "orders", '{"perm":6}')
        ok("put", "offset", "orders@billing", "-1", "-9223372036854775808", "--type", "int64")
        ok("put", "offset", "orders@billing", "3", "9223372036854775807")
        ok("put", "--type=int64", "count", "n", "5")
        ok("put", "topic", "--", "--strange", "--value")
        assert.equal('{"perm":6}\n', ok("get", "topic", "orders"))
        assert.equal("-9223372036854775808\n", ok("get", "offset", "orders@billing", "-1"))
        assert.equal("9223372036854775807\n", ok("get", "offset", "orders@billing", "3"))
        assert.equal("--value\n", ok("get", "topic", "--", "--strange"))
        local list = ok("ls")
        assert.truthy(list:find("offset%s+int64%s+2"), list)
        list = ok("ls", "offset", "--prefix", "orders@")
        assert.truthy(list:find("orders@billing%s+3%s+9223372036854775807"), list)
        list = ok("ls", "offset", "--limit", "1")
        assert.truthy(list:find("there are more", 1, true), list)
        ok("delete", "offset", "orders@billing", "3")
        local _, code = node:ctl("get", "offset", "orders@billing", "3")
        assert.equal(4, code)
        _, code = node:ctl("get", "nowhere", "k")
        assert.equal(4, code)
        local errors
        _, code, errors = node:ctl("put", "count", "n", "many")
        assert.equal(2, code)
        assert.truthy(errors:find("whole numbers", 1, true), errors)
        _, code = node:ctl("put", "count", "n", "9223372036854775808")
        assert.equal(2, code)
    end))

    it("carries keys and values of any bytes that a word can have", cluster.test(function(c)
        local node = leader_of(c)
        for _, word in ipairs { "订单", "a\tb\nc", "\255\254", "=", "'\"\\" } do
            local _, code, errors = node:ctl("put", "topic", word, word)
            assert.equal(0, code, errors)
        end
        assert.equal("订单", node:get("topic", "订单"))
        assert.equal("//4=", node:get("topic", { base64 = "//4=" }).base64)
        local list = node:ctl("ls", "topic")
        assert.truthy(list:find("a\\tb\\nc", 1, true), list)
        assert.truthy(list:find("base64://4=", 1, true), list)
    end))

    it("prints the node's reply with --json, also of a refusal", cluster.test(function(c)
        local node = c:node "a":start {}
        local output, code = node:ctl("--json", "put", "topic", "t", "x")
        assert.equal(1, code)
        assert.equal("MS_E_NOT_LEADER", json.decode(output).code)
        output, code = node:ctl("--json", "status")
        assert.equal(0, code)
        assert.equal("idle", json.decode(output).role)
        output, code = cluster.ctl("--json", "status", node.address, "127.0.0.1:" .. process.free_port())
        assert.equal(3, code)
        local first, second = output:match("^([^\n]+)\n([^\n]+)\n$")
        assert.equal("a", json.decode(first).name)
        assert.is_false(json.decode(second).ok)
    end))

    it("reports what is not confirmed by exit status 5", cluster.test(function(c)
        local node = c:node("a", { "--table", "safe=replica", "--no-replica", "degrade" }):start { "--lead" }
        local _, code, errors = node:ctl("put", "safe", "k", "v")
        assert.equal(5, code, errors)
        assert.equal("v", node:get("safe", "k"))
        _, code = node:ctl("put", "topic", "k", "v")
        assert.equal(0, code)
        _, code = node:ctl("wait", tostring(node:status().log.head), "replica", "--timeout", "100")
        assert.equal(5, code)
        _, code = node:ctl("wait", "3", "disk")
        assert.equal(0, code)
    end))

    it("puts a batch of JSON lines, in chunks, and says where it stopped", cluster.test(function(c)
        local leader, follower = c:pair()
        local lines = {}
        for i = 1, 5000 do
            lines[i] = ('{"table":"offset","key":"t%d@g","field":%d,"value":%d}'):format(i, i % 16, i)
        end
        lines[5001] = '{"table":"topic","key":"big","value":"' .. ("x"):rep(300000) .. '"}' -- larger than a batch may be
        lines[5002] = ""
        lines[5003] = '{"table":"offset","key":["t7@g","7"]}'
        local path = c.dir .. "/lines"
        process.write(path, table.concat(lines, "\n"))
        local output, code, errors = leader:ctl("put", "--batch", path)
        assert.equal(0, code, errors)
        assert.truthy(output:find("^5002 changes in %d+ batches, up to position [1-9]"), output)
        c:equal(leader, follower)
        assert.equal(5000, follower:get("offset", { "t5000@g", "8" }))
        assert.is_nil(follower:get("offset", { "t7@g", "7" }))
        assert.equal(300000, #follower:get("topic", "big"))

        local input = '{"table":"topic","key":"a","value":"1"}\nnonsense\n{"table":"topic","key":"b","value":"1"}\n'
        local argv = { cluster.build .. "/metasyncctl", "--data", leader.data, "put", "--batch", "-" }
        output, code, errors = process.run(argv, input)
        assert.equal(1, code, output)
        assert.truthy(errors:find("line 2", 1, true), errors)
        assert.is_nil(leader:get("topic", "b"))
    end))

    it("shows records of a log and of a snapshot offline", cluster.test(function(c)
        local node = leader_of(c)
        node:put("topic", "orders", '{"perm":6}')
        node:put("offset", { "orders@g", "3" }, 1200)
        node:delete("topic", "orders")
        node:must "snapshot"
        node:stop()
        local output, code, errors = cluster.ctl("log", node.data)
        assert.equal(0, code, errors)
        assert.truthy(output:find('put%s+topic%s+orders%s+{"perm":6}'), output)
        assert.truthy(output:find("put%s+offset%s+orders@g / 3%s+1200"), output)
        assert.truthy(output:find("delete%s+topic%s+orders"), output)
        local records = {}
        for line in cluster.ctl("--json", "log", node.data, "--from", "4"):gmatch("[^\n]+") do records[#records + 1] = json.decode(line) end
        assert.is_true(#records > 0)
        for _, record in ipairs(records) do assert.is_true(record.lsn >= 4) end
        local snapshots = process.run { "sh", "-c", "ls " .. node.data .. "/*/snap*" }
        output, code, errors = cluster.ctl("log", (snapshots:match("[^\n]+")))
        assert.equal(0, code, errors)
        assert.truthy(output:find("orders@g / 3", 1, true), output)
        output, code = cluster.ctl("log", c.dir .. "/nowhere")
        assert.equal(4, code, output)
    end))

    it("shows a status that an operator can read", cluster.test(function(c)
        local leader, follower = c:pair { "--table", "offset=buffer:60000" }
        leader:put("topic", "t", "x")
        leader:put("offset", "t@g", 1)
        c:equal(leader, follower)
        leader:put("offset", "t@g", 2)
        local output = leader:ctl "status"
        assert.truthy(output:find("^a: leader"), output)
        assert.truthy(output:find("offset%s+int64%s+1%s+%d+ B%s+buffer 60000 ms%s+1 "), output)
        assert.truthy(output:find("b%s+127.0.0.1:%d+%s+stream"), output)
        assert.truthy(output:find("alarm%s+none"), output)
        follower:wait("it is in sync", function(s) return s.safe_to_failover end)
        output = follower:ctl "status"
        assert.truthy(output:find("^b: follower of 127.0.0.1:%d+, stream, in sync"), output)
        assert.truthy(output:find("failover%s+safe now"), output)
    end))
end)
