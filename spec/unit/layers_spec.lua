-- The gates of `make layers` and `make lint` must be able to fail: each planted fault is found, with file and line.
local ms = require "spec.support.ms"

-- A small tree that both gates are content with.
local function plant(extra)
    local root = ms.tmpdir()
    local files = {
        ["core/metasync.h"] = "#define MS_API\n",
        ["core/base/bytes.h"] = '#include "../metasync.h"\n#include <string.h>\n',
        ["core/state/log.c"] = '#include "../base/bytes.h"\n',
        ["core/sync/engine.h"] = '#include "../state/log.h"\n',
        ["core/state/log.h"] = '#include "../base/bytes.h"\n',
        ["core/drive/loop.c"] = '#include "../sync/engine.h"\n#include <event2/event.h>\n#include <pthread.h>\n',
        ["core/node.c"] = '#include "drive/loop.h"\n',
        ["core/drive/loop.h"] = "\n",
        ["plugins/standalone/main.c"] = '#include "../../core/metasync.h"\n#include "args.h"\n#include <event2/event.h>\n',
        ["plugins/standalone/args.h"] = "\n",
    }
    for path, text in pairs(extra or {}) do files[path] = text end
    for path, text in pairs(files) do
        ms.sh(("mkdir -p '%s/%s'"):format(root, path:match("^(.*)/")))
        ms.write_file(root .. "/" .. path, text)
    end
    return root
end

local function gate(name, extra)
    return ms.sh(("luajit spec/support/%s.lua '%s'"):format(name, plant(extra)))
end

describe("make layers", function()
    it("accepts includes that point down", function()
        local output, status = gate("layers")
        assert.equal("layers: 10 files, 0 problems\n", output)
        assert.equal(0, status)
    end)

    it("fails on an empty tree, so that a wrong path is no success", function()
        local _, status = ms.sh(("luajit spec/support/layers.lua '%s'"):format(ms.tmpdir()))
        assert.equal(1, status)
    end)

    local cases = {
        { "base includes state", "core/base/x.c", '#include "../state/log.h"' },
        { "state includes sync", "core/state/x.c", '#include "../sync/engine.h"' },
        { "sync includes drive", "core/sync/x.c", '#include "../drive/loop.h"' },
        { "sync includes drive by a path from the root", "core/sync/x.c", '#include "core/drive/loop.h"' },
        { "sim includes drive, its sibling", "core/sim/x.c", '#include "../drive/loop.h"' },
        { "drive includes the node", "core/drive/x.c", '#include "../node.h"' },
        { "a host includes something else than metasync.h", "plugins/other/x.c", '#include "../../core/base/bytes.h"' },
        { "the stand-alone host looks into the log", "plugins/standalone/x.c", '#include "../../core/state/log.h"' },
        { "the example includes more than metasync.h", "core/example/x.c", '#include "../base/bytes.h"' },
        { "libevent outside drive", "core/sync/x.c", "#include <event2/event.h>" },
        { "libevent in the node", "core/x.c", "#include <event2/event.h>" },
        { "Lua outside core/lua", "core/drive/x.c", "#include <lua.h>" },
        { "JSON in state", "core/state/x.c", "#include <jansson.h>" },
        { "a clock in state", "core/state/x.c", "#include <time.h>" },
        { "a socket in sync", "core/sync/x.c", "# include  <sys/socket.h>" },
        { "a thread in sync", "core/sync/x.c", "#include <pthread.h>" },
        { "a folder that is no layer", "core/misc/x.c", "" },
    }
    for _, case in ipairs(cases) do
        it("finds: " .. case[1], function()
            local output, status = gate("layers", { [case[2]] = case[3] .. "\n", ["core/node.h"] = "\n" })
            assert.equal(1, status)
            assert.truthy(output:find(case[2], 1, true), output)
        end)
    end
end)

describe("make lint", function()
    it("accepts the sound tree", function()
        local output, status = gate("lint")
        assert.equal("lint: 0 problems\n", output)
        assert.equal(0, status)
    end)

    local long = {}
    for n = 1, 90 do long[n] = "    f();" end
    local cases = {
        { "assert", "core/base/x.c", "void f(void) { assert(1); }", "calls assert" },
        { "exit after other code", "core/sync/x.c", 'int a; void f(void) { g("s"); exit(1); }', "calls exit" },
        { "printing", "core/node.c", 'void f(void) { printf("x"); }', "calls printf" },
        { "malloc beside the seam", "core/state/x.c", "void *p = malloc(5);", "calls malloc" },
        { "a function of 92 lines", "core/base/x.c", "void f(void)\n{\n" .. table.concat(long, "\n") .. "\n}", "a function of 92 lines" },
        { "a line of 160 columns", "plugins/standalone/x.c", "int " .. ("a"):rep(155) .. ";", "160 columns" },
        { "a note for later", "spec/x.lua", "-- TO" .. "DO: more", "TO" .. "DO" },
    }
    for _, case in ipairs(cases) do
        it("finds: " .. case[1], function()
            local output, status = gate("lint", { [case[2]] = case[3] .. "\n" })
            assert.equal(1, status)
            assert.truthy(output:find(case[2] .. ":", 1, true), output)
            assert.truthy(output:find(case[4], 1, true), output)
        end)
    end

    it("does not mistake comments, strings and other functions for calls", function()
        local output, status = gate("lint", { ["core/base/x.c"] = table.concat({
            "/* never call exit(1) or", " * abort() */", 'const char *s = "printf(\\"%d\\")"; // free(x)',
            "void f(struct o *o) { o->free(o); ms_free(o); snprintf(b, 5, \"x\"); char c = '\"'; }", "" }, "\n") })
        assert.equal("lint: 0 problems\n", output)
        assert.equal(0, status)
    end)
end)
