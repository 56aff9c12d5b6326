-- The native library under AddressSanitizer and UBSan, inside of brokers. What they find ends the broker, which a test notices too.
local paths = require "spec.rocketmq.paths"
local process = require "spec.support.process"

local LIBRARY = "build/asan/rocketmq/native/linux-x86_64/libmetasync-jni.so"

local function output_of(command)
    local pipe = assert(io.popen(command .. " 2>&1; echo status=$?"))
    local text, status = pipe:read("*a"):match("^(.*)status=(%d+)\n$")
    pipe:close()
    assert(status == "0", text)
    return text
end

-- Before describe: a failure is to be of this file, not of a test.
output_of("env -u LD_PRELOAD -u MAKEFLAGS -u MAKELEVEL make --no-print-directory -j2 VARIANT=asan jni")

-- They have to be first in the process. The JVM uses SIGSEGV itself, and its own memory is not to be searched for leaks.
local function preload()
    local libraries = {}
    for i, name in ipairs { "libasan.so", "libubsan.so" } do libraries[i] = output_of("gcc -print-file-name=" .. name):gsub("%s+$", "") end
    return { "env", "LD_PRELOAD=" .. table.concat(libraries, " "), "ASAN_OPTIONS=detect_leaks=0:handle_segv=0:allow_user_segv_handler=1",
        "UBSAN_OPTIONS=print_stacktrace=1" }
end

local function found(one)
    for n = 1, one.starts do
        local text = process.read(("%s/%s.%d.out"):format(one.dir, one.name, n))
        local at = text:find("AddressSanitizer", 1, true) or text:find("runtime error: ", 1, true)
        if at then return text:sub(at, at + 4000) end
    end
end

paths.under("brokers with a library under AddressSanitizer", {
    wrap = preload(),
    options = { "-Dmetasync.library=" .. LIBRARY },
}, found)
