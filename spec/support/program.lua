-- C programs of spec/c that are lists of cases (spec/c/cases.h), as tests. Each case is one test, in a process of its own. The
-- programs are built as the variant of the library that is tested.
--
--     local program = require "spec.support.program"
--     program.describe("a link", "link_cases", "link_faults")            -- all cases of both programs
--     it("...", program.case("link_cases", "stopped_reader"))            -- one of them
local busted = require "busted"
local ms = require "spec.support.ms"
local describe, it = busted.describe, busted.it

local SECONDS = 60

local program = {}

local variant = ms.library:match("build/(%w+)/") or "release"

-- A library elsewhere (spec/mutants.lua makes such) is linked to, instead of the objects of a variant.
local function build_beside(folder, name)
    local command = "gcc -std=gnu11 -D_GNU_SOURCE -pthread -g -w spec/c/%s.c %s -Wl,-rpath,$PWD/%s -levent -ljansson -o %s"
    local path = folder .. name
    local output, status = ms.sh(command:format(name, ms.library, folder, path))
    if status ~= 0 then error("can't build " .. path .. ":\n" .. output, 0) end
    return path
end

local function build(name)
    if variant == "mutants" then return build_beside(ms.library:match("^.*/"), name) end
    local path = ("build/%s/spec/c/%s"):format(variant, name)
    local command = "env -u LD_PRELOAD -u MAKEFLAGS -u MAKELEVEL make --no-print-directory VARIANT=%s %s"
    local output, status = ms.sh(command:format(variant, path))
    if status ~= 0 then error("can't build " .. path .. ":\n" .. output, 0) end
    return path
end

local function run(path, case)
    local output, status = ms.sh(("timeout -k 5 %d %s %s"):format(SECONDS, path, case))
    if status ~= 0 then error(("%s %s: exit status %d\n%s"):format(path, case, status, output), 0) end
end

function program.case(name, case)
    return function() run(build(name), case) end
end

-- MS_PROGRAMS=no: the programs are run without their specs, as the sanitizers' steps do.
function program.describe(subject, ...)
    if os.getenv "MS_PROGRAMS" == "no" then return end
    for _, name in ipairs { ... } do
        describe(subject .. " (" .. name .. ")", function()
            local path = build(name)
            local list = ms.sh(path .. " --list")
            local count = 0
            for case, sentence in list:gmatch("(%S+)\t([^\n]+)\n") do
                count = count + 1
                it(sentence, function() run(path, case) end)
            end
            if count == 0 then error(path .. " lists no cases: " .. list, 0) end
        end)
    end
end

return program
