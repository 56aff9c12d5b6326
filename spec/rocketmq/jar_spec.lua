-- What is in the jar, and what its native library shows to the process that loads it and wants of the system.
local process = require "spec.support.process"
local broker = require "spec.support.broker"

local LIBRARIES = { ["libc.so.6"] = true, ["libm.so.6"] = true, ["ld-linux-x86-64.so.2"] = true, ["libgcc_s.so.1"] = true }

local function lines_of(...)
    local output, status, errors = process.run { ... }
    assert(status == 0, errors)
    local lines = {}
    for line in output:gmatch("[^\n]+") do lines[#lines + 1] = line end
    return lines
end

describe("the jar", function()
    local dir, names = nil, {}
    lazy_setup(function()
        dir = process.tmpdir("jar")
        local _, status, errors = process.run { "unzip", "-q", "-o", broker.jar, "-d", dir }
        assert(status == 0, errors)
        for _, name in ipairs(lines_of("find", dir, "-type", "f")) do names[#names + 1] = name:sub(#dir + 2) end
    end)
    lazy_teardown(function() os.execute("rm -rf " .. process.quote(dir)) end)

    it("has classes of ours alone, for Java 8", function()
        local classes = 0
        for _, name in ipairs(names) do
            if name:find "%.class$" then
                classes = classes + 1
                assert.truthy(name:find("^io/metasync/rocketmq/"), name)
                local head = process.read(dir .. "/" .. name)
                assert.equal(52, head:byte(7) * 256 + head:byte(8), name .. ": version of the class file")
            end
        end
        assert.is_true(classes > 20)
    end)

    it("has the policy that the documents speak of, and the service by which a broker finds it", function()
        assert.equal(process.read "lua/policies/rocketmq.lua", process.read(dir .. "/policies/rocketmq.lua"))
        assert.equal("io.metasync.rocketmq.CheckListener\n", process.read(dir ..
            "/META-INF/service/org.apache.rocketmq.broker.transaction.AbstractTransactionalMessageCheckListener"))
    end)

    it("has a library that shows the JVM's entry points and nothing else", function()
        local shown = 0
        for _, line in ipairs(lines_of("nm", "-D", "--defined-only", dir .. "/native/linux-x86_64/libmetasync-jni.so")) do
            local name = line:match("(%S+)$")
            shown = shown + 1
            assert.truthy(name == "JNI_OnLoad" or name:find "^Java_io_metasync_rocketmq_Native_", name)
        end
        assert.is_true(shown > 20)
    end)

    it("has a library that needs glibc 2.34, as docs/rocketmq.md says, and no other library than glibc's and gcc's", function()
        local library = dir .. "/native/linux-x86_64/libmetasync-jni.so"
        local highest = 0
        for _, line in ipairs(lines_of("objdump", "-T", library)) do
            local version = line:match("GLIBC_2%.(%d+)")
            highest = math.max(highest, tonumber(version) or 0)
        end
        assert.equal(34, highest)
        assert.truthy(process.read("docs/rocketmq.md"):find("glibc 2.34", 1, true))
        for _, line in ipairs(lines_of("objdump", "-p", library)) do
            local needed = line:match("NEEDED%s+(%S+)")
            if needed then assert.truthy(LIBRARIES[needed], needed) end
        end
    end)
end)
