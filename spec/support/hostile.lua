-- Scripts that try to hurt whoever runs them. Each is the body of a function without arguments: a chunk for a sandbox, or a policy's
-- filter, resolve or flush for a node.
--
--     name      what it tries
--     code      the body
--     outcome   "limit" (out of fuel), "memory" (the cap), "error" (an error of its own), "ok" (it returns, having done no harm);
--               a list of them where machine or moment decide
--     message   a pattern that the error's message has
--     result    what it returns ("ok")
return {
    -- loops
    { name = "an empty loop", code = "while true do end", outcome = "limit" },
    { name = "a repeat loop", code = "repeat until false", outcome = "limit" },
    { name = "a numeric loop without an end", code = "for i = 1, math.huge do end", outcome = "limit" },
    { name = "a goto loop", code = "::again:: goto again", outcome = "limit" },
    { name = "tail calls for ever", code = "local function f() return f() end return f()", outcome = "limit" },
    { name = "an iterator that never ends", code = "for _ in function() return 1 end do end", outcome = "limit" },

    -- catching the error
    { name = "a loop inside of pcall", code = "pcall(function() while true do end end) return 'escaped'", outcome = "limit" },
    { name = "a loop around pcall", code = "while true do pcall(function() while true do end end) end", outcome = "limit" },
    { name = "a loop around pcall of error", code = "while true do pcall(error) end", outcome = "limit" },
    { name = "pcall in pcall in pcall", outcome = "limit", code = [[
        local function nest(n) if n == 0 then while true do end end return pcall(nest, n - 1) end
        while true do nest(50) end]] },
    { name = "pcall deeper than it may go", outcome = "ok", result = "bounded", code = [[
        local depth = 0
        local function down() depth = depth + 1 return pcall(down) end
        down()
        return depth <= 150 and "bounded" or "depth " .. depth]] },
    { name = "a loop in xpcall's handler, after an error", outcome = "limit",
        code = "xpcall(error, function() while true do end end) return 'escaped'" },
    { name = "a loop in xpcall's handler, out of fuel", outcome = "limit", code = [[
        xpcall(function() while true do end end, function() while true do end end)
        return "escaped"]] },
    { name = "an error in xpcall's handler", outcome = "ok", result = "false",
        code = "return tostring(xpcall(error, function() error('again') end))" },
    { name = "xpcall in its own handler", outcome = { "limit", "ok", "error" }, code = [[
        local function handler() return xpcall(error, handler) end
        return tostring(xpcall(error, handler))]] },

    -- coroutines
    { name = "a loop in a coroutine", code = "return coroutine.wrap(function() while true do end end)()", outcome = "limit" },
    { name = "a loop around coroutines that loop", outcome = "limit", code = [[
        while true do coroutine.resume(coroutine.create(function() while true do end end)) end]] },
    { name = "coroutines that yield for ever", outcome = "limit", code = [[
        local co = coroutine.wrap(function() while true do coroutine.yield() end end)
        while true do co() end]] },
    { name = "coroutines inside one another", outcome = { "ok", "error" }, code = [[
        local function down() return coroutine.wrap(down)() end
        return down()]], message = "nested too deep" },
    { name = "a coroutine with pcall in a coroutine with pcall", outcome = { "limit", "ok" }, code = [[
        local function down() while true do pcall(coroutine.wrap(function() pcall(down) end)) end end
        down()]] },
    { name = "a coroutine that resumes itself", outcome = "ok", result = "false", code = [[
        local co
        co = coroutine.create(function() return coroutine.resume(co) end)
        local _, inner = coroutine.resume(co)
        return tostring(inner)]] },
    { name = "a yield out of the call", code = "coroutine.yield(1)", outcome = "error", message = "yield" },
    { name = "a yield across sort", outcome = "error", message = "yield", code = [[
        return coroutine.wrap(function() table.sort({ 3, 2, 1 }, coroutine.yield) end)()]] },
    { name = "a yield across gsub", outcome = "error", message = "yield", code = [[
        return coroutine.wrap(function() return (("x"):gsub("x", coroutine.yield)) end)()]] },
    { name = "a yield across pcall", outcome = "ok", result = "false", code = [[
        return coroutine.wrap(function() return tostring(pcall(coroutine.yield)) end)()]] },
    { name = "many coroutines that are never finished", outcome = { "memory", "limit" }, code = [[
        local all = {}
        while true do
            local co = coroutine.create(function() coroutine.yield() end)
            coroutine.resume(co)
            all[#all + 1] = co
        end]] },

    -- metamethods
    { name = "a loop in __index", outcome = "limit", code = [[
        return setmetatable({}, { __index = function() while true do end end }).x]] },
    { name = "an __index chain that is a circle", outcome = "error", message = "loop", code = [[
        local t = {}
        setmetatable(t, { __index = t })
        return t.x]] },
    { name = "an __index that asks itself", outcome = { "limit", "error", "memory" }, code = [[
        local t = setmetatable({}, { __index = function(t, k) return t[k .. "x"] end })
        return t.x]] },
    { name = "a loop in __eq", outcome = "limit", code = [[
        local mt = { __eq = function() while true do end end }
        return setmetatable({}, mt) == setmetatable({}, mt)]] },
    { name = "a loop in __lt, inside sort", outcome = "limit", code = [[
        local mt = { __lt = function() while true do end end }
        table.sort { setmetatable({}, mt), setmetatable({}, mt), setmetatable({}, mt) }]] },
    { name = "a loop in __concat", outcome = "limit", code = [[
        return setmetatable({}, { __concat = function() while true do end end }) .. "x"]] },
    { name = "a loop in __call", outcome = "limit", code = "return setmetatable({}, { __call = function() while true do end end })()" },
    { name = "a __call that is a circle", outcome = "error", message = "call", code = [[
        local t = {}
        setmetatable(t, { __call = t })
        return t()]] },
    { name = "a loop in __tostring", outcome = "limit", code = [[
        return tostring(setmetatable({}, { __tostring = function() while true do end end }))]] },
    { name = "a __tostring that formats itself", outcome = { "error", "limit" }, code = [[
        local t = setmetatable({}, { __tostring = function(t) return ("%s"):format(t) end })
        return tostring(t)]] },
    { name = "a loop in __len and __unm", outcome = "limit", code = [[
        local t = setmetatable({}, { __len = function() while true do end end, __unm = function() while true do end end })
        return #t, -t]] },
    { name = "a loop in __newindex", outcome = "limit", code = [[
        setmetatable({}, { __newindex = function() while true do end end }).x = 1]] },

    -- depth
    { name = "recursion without an end", code = "local function f() return 1 + f() end return f()", outcome = { "error", "limit" } },
    { name = "recursion that catches its overflow", outcome = "limit", code = [[
        local function f() pcall(f) return f() + 1 end
        while true do pcall(f) end]] },
    { name = "gsub in gsub in gsub", outcome = { "error", "ok" }, code = [[
        local function down() return (("x"):gsub("x", down)) end
        return down()]], message = "nested too deep" },
    { name = "sort in sort in sort", outcome = { "error", "limit" }, code = [[
        local function down() table.sort({ 1, 2 }, down) end
        down()]], message = "nested too deep" },
    { name = "more arguments than a stack has room for", outcome = { "error", "memory", "limit" }, code = [[
        local t = {}
        for i = 1, 7000 do t[i] = i end
        local function f(...) return f(1, 2, 3, 4, 5, ...) end
        return f(unpack(t))]] },

    -- strings
    { name = "rep of two gigabytes", code = "return ('x'):rep(2 ^ 31)", outcome = "error", message = "too large" },
    { name = "rep of rep of rep", code = "return ('x'):rep(1e4):rep(1e4):rep(1e4)", outcome = { "limit", "memory", "error" } },
    { name = "rep of nothing, very often", code = "return (''):rep(2 ^ 30)", outcome = "ok", result = "" },
    { name = "concatenation that doubles", outcome = { "memory", "limit" }, code = "local s = 'x' while true do s = s .. s end" },
    { name = "table.concat of one long string", outcome = { "memory", "limit" }, code = [[
        local s, t = ("x"):rep(1e5), {}
        for i = 1, 1e4 do t[i] = s end
        return table.concat(t)]] },
    { name = "format with many long strings", outcome = { "memory", "limit" }, code = [[
        local s, t = ("x"):rep(1e5), {}
        for i = 1, 200 do t[i] = s end
        return ("%s"):rep(200):format(unpack(t))]] },
    { name = "a gsub that grows", outcome = { "memory", "limit" }, code = [[
        local s = "x"
        while true do s = s:gsub("x", "xxxxxxxx") end]] },
    { name = "a pattern that backtracks for ever (find)", outcome = "limit",
        code = "return ('a'):rep(5000):find(('a*'):rep(20) .. 'b')" },
    { name = "a pattern that backtracks for ever (match)", outcome = "limit",
        code = "return ('a'):rep(5000):match(('a-'):rep(20) .. 'b')" },
    { name = "a pattern that backtracks for ever (gmatch)", outcome = "limit",
        code = "for _ in ('a'):rep(5000):gmatch(('a?'):rep(30) .. ('a*'):rep(10) .. 'b') do end" },
    { name = "a pattern that backtracks for ever (gsub, in pcall)", outcome = "limit",
        code = "while true do pcall(string.gsub, ('a'):rep(5000), ('.-'):rep(20) .. 'b', '') end" },
    { name = "%b without an end, at every place", outcome = "limit", code = "return ('('):rep(50000):find('%b()')" },
    { name = "a set as long as the subject", outcome = "limit", code = "return ('a'):rep(50000):find('[' .. ('b'):rep(50000) .. ']')" },
    { name = "a pattern that is too deep", outcome = "error", message = "too complex",
        code = "return ('x'):rep(1000):match(('x?'):rep(1000) .. 'y')" },
    { name = "a plain find of what is almost there", outcome = { "limit", "ok" }, code = [[
        local s = ("a"):rep(1e5)
        local needle = ("a"):rep(5e4) .. "b"
        while true do s:find(needle, 1, true) end]] },
    { name = "comparisons of long strings", outcome = "limit", code = [[
        local a, b = ("x"):rep(5e5) .. "a", ("x"):rep(5e5) .. "b"
        while true do local _ = a < b end]] },
    { name = "numbers that are long strings", outcome = "limit", code = [[
        local s = ("0"):rep(5e5) .. "1"
        while true do local _ = s + 1 end]] },

    -- tables
    { name = "a table that grows", code = "local t = {} while true do t[#t + 1] = t end", outcome = { "memory", "limit" } },
    { name = "many large strings, in pcall", outcome = { "memory", "limit" }, code = [[
        local t = {}
        while true do pcall(function() t[#t + 1] = ("x"):rep(2 ^ 20) .. #t end) end]] },
    { name = "small tables without an end", outcome = { "memory", "limit" }, code = "local t = {} while true do t = { t } end" },
    { name = "next on a table that was emptied", outcome = { "limit", "memory" }, code = [[
        local t = {}
        for i = 1, 15000 do t["k" .. i] = i end
        for i = 1, 15000 do t["k" .. i] = nil end
        while true do next(t) end]] },
    { name = "pairs over a table that was emptied", outcome = { "limit", "memory" }, code = [[
        local t = {}
        for i = 1, 60000 do t[i + 0.5] = i end
        for i = 1, 60000 do t[i + 0.5] = nil end
        while true do for _ in pairs(t) do end end]] },
    { name = "sort with a comparison that lies", code = "local t = {} for i = 1, 3000 do t[i] = i % 7 end table.sort(t, function() return true end)",
        outcome = { "ok", "limit" } },
    { name = "sort with a comparison in C that never ends it", outcome = "limit", code = [[
        local t = {}
        for i = 1, 60000 do t[i] = i end
        while true do table.sort(t, rawequal) end]] },
    { name = "sort with a comparison that changes the table", outcome = { "ok", "limit", "error" }, code = [[
        local t = { 5, 3, 1, 4 }
        table.sort(t, function(a, b) t[#t + 1] = 1 t[1] = nil return (a or 0) < (b or 0) end)]] },
    { name = "insert at a place far below", code = "table.insert({ 1, 2, 3 }, 1 - 2 ^ 31, 1)", outcome = "limit" },
    { name = "insert at a place that is no number", code = "table.insert({ 1, 2, 3 }, 0 / 0, 1)", outcome = "error", message = "bounds" },
    { name = "insert at a place far above", code = "table.insert({ 1, 2, 3 }, 1e15, 1)", outcome = "error", message = "bounds" },
    { name = "insert at the front, for ever", outcome = { "limit", "memory" }, code = "local t = {} while true do table.insert(t, 1, 1) end" },
    { name = "concat over two billion places", code = "return table.concat({}, '', 1, 2 ^ 31 - 2)", outcome = { "limit", "error" } },
    { name = "unpack over two billion places", code = "return unpack({}, 1, 2 ^ 31 - 2)", outcome = "error", message = "too many results" },
    { name = "move over two billion places", code = "table.move({}, 1, 2 ^ 31 - 2, 2)", outcome = { "limit", "error" } },
    { name = "a return of many values", outcome = { "ok", "error", "limit" }, code = [[
        local t = {}
        for i = 1, 1e5 do t[i] = i end
        return unpack(t)]] },

    -- getting out
    { name = "ffi, io, debug and the like", outcome = "ok", result = "", code = [[
        local found = {}
        for _, name in ipairs { "ffi", "io", "debug", "jit", "package", "load", "loadstring", "loadfile", "dofile", "getfenv", "setfenv",
            "newproxy", "collectgarbage", "gcinfo", "module", "print" } do
            if _G[name] ~= nil then found[#found + 1] = name end
        end
        for _, name in ipairs { "execute", "exit", "getenv", "remove", "rename", "tmpname", "setlocale" } do
            if os[name] ~= nil then found[#found + 1] = "os." .. name end
        end
        if string.dump or ("").dump then found[#found + 1] = "dump" end
        return table.concat(found, " ")]] },
    { name = "require of ffi and friends", outcome = "ok", result = "", code = [[
        local found = {}
        for _, name in ipairs { "ffi", "io", "os", "debug", "jit", "jit.opt", "package", "table.new", "string.buffer", "_G", "../x",
            "/etc/passwd" } do
            if pcall(require, name) then found[#found + 1] = name end
        end
        return table.concat(found, " ")]] },
    { name = "a library function replaced", code = "string.find = nil", outcome = "error", message = "read%-only" },
    { name = "a library function added by rawset", code = "rawset(math, 'MASTER', true)", outcome = "error", message = "read%-only" },
    { name = "state kept in a library table", outcome = "ok", result = "nil", code = [[
        pcall(table.insert, math, 1)
        pcall(table.move, { 1 }, 1, 1, 1, math)
        pcall(table.sort, math)
        pcall(function() math[1] = 1 end)
        return tostring(math[1] or rawget(math, 1))]] },
    { name = "the metatable of strings", outcome = "ok", result = "protected", code = [[
        pcall(function() getmetatable("").__index = nil end)
        pcall(setmetatable, string, nil)
        pcall(setmetatable, string, {})
        assert(("x"):upper() == "X")
        return getmetatable("")]] },
    { name = "bytecode of a function", code = "return string.dump(function() end)", outcome = "error", message = "dump" },
    { name = "globals changed", outcome = "ok", result = "3", code = [[
        _G.type, _G.pcall, _G.string = nil, nil, nil
        pcall, tostring = nil, nil
        return #{ 1, 2, 3 } .. ""]] },
    { name = "64-bit integers as a way to the ffi", outcome = "ok", result = "ffi nil", code = [[
        local found
        for _, name in ipairs { "cast", "new", "C", "typeof", "__index" } do
            local ok, value = pcall(function() return (1LL)[name] end)
            if ok and value ~= nil then found = name end
        end
        pcall(function() getmetatable(1LL).__index = nil end)
        return tostring(getmetatable(1LL)) .. " " .. tostring(found)]] },

    -- odd errors and values
    { name = "an error that is nil", code = "error(nil)", outcome = "error", message = "type nil" },
    { name = "an error that is a table", code = "error({})", outcome = "error", message = "type table" },
    { name = "an error that is an int64", code = "error(1LL)", outcome = "error", message = "type cdata" },
    { name = "an error whose __tostring loops", outcome = "error", message = "type table",
        code = "error(setmetatable({}, { __tostring = function() while true do end end }))" },
    { name = "an error of a megabyte", code = "error(('x'):rep(2 ^ 20))", outcome = { "error", "limit" }, message = "^x+$" },
    { name = "an error with control characters", code = [[error("a\0b\27[2Jc\nd", 0)]], outcome = "error", message = "^a" },
    { name = "a function as result", code = "return function() while true do end end", outcome = "ok" },
    { name = "a table that loops when it is looked at", outcome = "ok", code = [[
        local function loop() while true do end end
        return setmetatable({}, { __index = loop, __tostring = loop, __len = loop, __eq = loop, __call = loop })]] },
    { name = "not a number", code = "return 0 / 0", outcome = "ok" },
    { name = "infinite", code = "return 1 / 0", outcome = "ok" },
    { name = "a coroutine as result", code = "return coroutine.create(function() end)", outcome = "ok" },
    { name = "an int64 as result", code = "return 9223372036854775807LL", outcome = "ok" },
}
