-- What a daemon refuses at its start, whom it talks to, and what can be asked over the network.
local cluster = require "spec.support.cluster"
local process = require "spec.support.process"

local function secret_file(c, name, text)
    local path = c.dir .. "/" .. name
    process.write(path, text .. "\n")
    os.execute("chmod 600 " .. path)
    return path
end

-- A daemon that is expected to refuse: exit status and what it said.
local function refused(node, args)
    node:launch(args)
    local status = node:exit_status(20)
    return status, node:log_text()
end

describe("a daemon", function()
    it("does not start twice on one data directory", cluster.test(function(c)
        local first = c:node "a":start { "--lead" }
        first:put("topic", "t", "x")
        local second = c:node "second"
        second.data = first.data
        second.args = { "--control", c.dir .. "/second.sock" }
        local status, text = refused(second, { "--lead" })
        assert.equal(1, status)
        assert.truthy(text:find("in use", 1, true) or text:find("locked", 1, true) or text:find("another", 1, true), text)
        assert.equal("x", first:get("topic", "t"))
        assert.equal("leader", first:status().role)
        first:kill()
        second:start { "--lead" } -- the lock ends with the process
    end))

    it("listens on other addresses than loopback only with a secret", cluster.test(function(c)
        local node = c:node "a"
        node.listen = "0.0.0.0:" .. node.port
        local status, text = refused(node, { "--lead" })
        assert.equal(1, status)
        assert.truthy(text:find("secret", 1, true), text)
        node.args = { "--secret-file", secret_file(c, "secret", "a long enough shared secret") }
        node:start { "--lead" }
        assert.equal("leader", node:status().role)
    end))

    it("wants a secret file that others can't read, and a secret of some length", cluster.test(function(c)
        local node = c:node "a"
        local path = secret_file(c, "secret", "a long enough shared secret")
        os.execute("chmod 644 " .. path)
        node.args = { "--secret-file", path }
        local status, text = refused(node, { "--lead" })
        assert.equal(1, status)
        assert.truthy(text:find("readable by others", 1, true), text)
        node.args = { "--secret-file", secret_file(c, "short", "short") }
        status, text = refused(node, { "--lead" })
        assert.equal(1, status)
        assert.truthy(text:find("16", 1, true), text)
        node.args = { "--secret-file", c.dir .. "/missing" }
        assert.equal(1, (refused(node, { "--lead" })))
    end))

    it("says what is wrong with its options: exit status 2", cluster.test(function(c)
        local node = c:node "a"
        for _, args in ipairs { { "--lead", "--follow", "127.0.0.1:1" }, { "--lead", "--level", "much" }, { "--peer", "127.0.0.1:1" },
            { "--unknown" }, { "--lead", "--table", "t=buffer:0" }, { "--lead", "extra" }, { "--lead", "--snapshot-keep", "-1" } } do
            local status, text = refused(node, args)
            assert.equal(2, status, table.concat(args, " "))
            assert.truthy(text:find("metasyncd: ", 1, true), text)
        end
        local output, status = process.run { cluster.build .. "/metasyncd", "--help" }
        assert.equal(0, status)
        assert.truthy(output:find("usage:", 1, true))
    end))

    it("whose address is taken says so", cluster.test(function(c)
        local first = c:node "a":start { "--lead" }
        local second = c:node "b"
        second.listen = first.address
        local status, text = refused(second, { "--lead" })
        assert.equal(1, status)
        assert.truthy(text:find(first.address, 1, true), text)
    end))

    it("takes over the socket file that a killed one left", cluster.test(function(c)
        local node = c:node "a":start { "--lead" }
        node:kill()
        assert.equal(0, (os.execute("test -S " .. node.control)))
        node:start { "--lead" }
        assert.equal("leader", node:status().role)
        node:stop()
        assert.is_not.equal(0, (os.execute("test -e " .. node.control)))
    end))

    it("keeps working through SIGHUP", cluster.test(function(c)
        local leader, follower = c:pair()
        for i = 1, 20 do
            leader.process:kill(process.SIGHUP)
            follower.process:kill(process.SIGHUP)
            leader:put("topic", "t" .. i, "x")
        end
        c:equal(leader, follower)
        assert.equal(1, follower:status().counters.connects) -- no link was lost
    end))
end)

describe("a link", function()
    local function with_secrets(c, one, other)
        local leader, follower = c:node "a", c:node "b"
        leader.args = one and { "--secret-file", secret_file(c, "one", one) } or {}
        follower.args = other and { "--secret-file", secret_file(c, "other", other) } or {}
        leader:start { "--lead" }
        leader:put("topic", "t", "x")
        follower:start { "--follow", leader.address }
        return leader, follower
    end

    it("comes up with the same secret on both sides", cluster.test(function(c)
        local leader, follower = with_secrets(c, "the same long secret", "the same long secret")
        c:equal(leader, follower)
    end))

    for what, secrets in pairs { ["another secret"] = { "the one long secret", "the other long secret" },
        ["a secret on the leader only"] = { "the one long secret" }, ["a secret on the follower only"] = { nil, "the other long secret" } } do
        it("is refused with " .. what .. ", and the log says why", cluster.test(function(c)
            local leader, follower = with_secrets(c, secrets[1], secrets[2])
            process.eventually("the follower's log speaks of the secret", function()
                return follower:log_text():find("secret", 1, true) or follower:log_text():find("authentication", 1, true)
            end)
            assert.equal(0, follower:status().applied)
            assert.equal(0, #leader:status().peers)
        end))
    end

    it("is refused with a node of another cluster, and the log says why", cluster.test(function(c)
        local leader, follower = c:node("a", { "--cluster", "red" }), c:node("b", { "--cluster", "blue" })
        leader:start { "--lead" }
        leader:put("topic", "t", "x")
        follower:start { "--follow", leader.address }
        process.eventually("the follower's log speaks of the cluster", function() return follower:log_text():find("red", 1, true) end)
        assert.equal(0, follower:status().applied)
    end))

    it("is not made with the node itself", cluster.test(function(c)
        local node = c:node "a":start { "--lead" }
        node:put("topic", "t", "x")
        node:must { command = "follow", address = node.address }
        process.eventually("it is refused", function()
            local text = node:log_text()
            return text:find("same node", 1, true) or text:find("does not lead", 1, true)
        end)
        assert.equal("x", node:get("topic", "t"))
    end))
end)

describe("the status over the network", function()
    it("shows each node, one that is down as such, and compares equal positions", cluster.test(function(c)
        local leader, follower = c:pair()
        leader:put("topic", "t", "x")
        c:equal(leader, follower)
        local output, code = cluster.ctl("status", leader.address, follower.address)
        assert.equal(0, code)
        assert.truthy(output:find(leader.address .. "%s+a%s+leader"), output)
        assert.truthy(output:find(follower.address .. "%s+b%s+follower"), output)
        follower:kill()
        output, code = cluster.ctl("status", leader.address, follower.address)
        assert.equal(3, code)
        assert.truthy(output:find(follower.address .. "%s+-%s+DOWN"), output)
        assert.truthy(output:find(leader.address .. "%s+a%s+leader"), output)
    end))

    it("needs the cluster's name and secret", cluster.test(function(c)
        local path = secret_file(c, "secret", "a long enough shared secret")
        local node = c:node("a", { "--cluster", "red", "--secret-file", path }):start { "--lead" }
        local _, code = cluster.ctl("status", node.address, "--cluster", "red", "--secret-file", path)
        assert.equal(0, code)
        local output
        output, code = cluster.ctl("status", node.address, "--cluster", "red")
        assert.equal(3, code, output)
        output, code = cluster.ctl("status", node.address, "--cluster", "blue", "--secret-file", path)
        assert.equal(3, code, output)
    end))
end)
