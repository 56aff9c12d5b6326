-- luajit spec/support/broker_classes.lua VERSION FILE: starts a broker of this version without the plugin, has it do a little of everything,
-- and has its JVM write the classes that it has loaded by then to the file. With them a broker starts in half the CPU time.
local broker = require "spec.support.broker"
local process = require "spec.support.process"
local shown = require "spec.rocketmq.shown"

local version, path = arg[1], arg[2]

local function use(rpc)
    rpc:create_topic "t"
    rpc:create_group "g"
    rpc:commit("g", "t", 0, 1)
    rpc:send_message "t"
    rpc:send_message("t", "DELAY\0011\002")
    rpc:heartbeat("g", "t")
    process.eventually("the message can be read", function() return rpc:pull("g", "t", 0, 0).code == 0 end)
    shown.shown(rpc)
    rpc:runtime()
    rpc:delete_group "g"
    rpc:delete_topic "t"
end

os.remove(path)
local lab = broker.lab { version = version }
local ok, why = pcall(function()
    local one = lab:broker("recorded", { version = version, plugin = false, options = { "-XX:+RecordDynamicDumpInfo" } })
    use(one:start():rpc())
    local said, status, errors = process.run { "jcmd", tostring(one.process.pid), "VM.cds", "dynamic_dump", path }
    assert(status == 0 and process.exists(path), said .. errors)
end)
lab:close(not ok)
if not ok then error(why, 0) end
