-- The JVM checks each call of the native layer (-Xcheck:jni): pending exceptions, local references, types, threads.
local paths = require "spec.rocketmq.paths"
local process = require "spec.support.process"

local STARTS = { "^WARNING", "^FATAL ERROR in native method" }

-- A complaint is a line and the stack below it. The JVM's own libraries have some; ours has classes of ours in the stack, or is on a thread
-- of the node, which has no stack of Java.
local function complaints(text)
    local list, block
    list = {}
    for line in text:gmatch("[^\n]+") do
        local starts = line:find(STARTS[1]) or line:find(STARTS[2])
        if starts then
            block = { line }
            list[#list + 1] = block
        elseif block and line:find("^%s+at ") then
            block[#block + 1] = line
        else
            block = nil
        end
    end
    return list
end

local function found(one)
    for n = 1, one.starts do
        for _, block in ipairs(complaints(process.read(("%s/%s.%d.out"):format(one.dir, one.name, n)))) do
            local words = table.concat(block, "\n")
            local is_jni = words:find("JNI", 1, true) or words:find("native method", 1, true)
            if is_jni and (#block == 1 or words:find("io.metasync", 1, true)) then return words end
        end
    end
end

paths.under("brokers under -Xcheck:jni", { options = { "-Xcheck:jni" } }, found)
