-- Writes the corpus that the group fuzzer starts from: one file for each kind of group, and whole logs and snapshots.
--
--     luajit spec/fuzz/corpus.lua      (from the project's root, after `make private`)
--
-- The form of a file is described in spec/fuzz/group_fuzz.c.
package.path = "./?.lua;" .. package.path
local ms = require "spec.support.ms"
local kit = require "spec.support.statekit"

local ENTRIES, META = 1, 2

local function group(flags, first, changes)
    local parts = {}
    for n, change in ipairs(changes) do parts[n] = change.bytes end
    local body = table.concat(parts)
    return string.char(flags, first, #changes, #body % 256, math.floor(#body / 256)) .. body
end

local store = kit.store()
local function fold(changes)
    ms.check(kit.fold(store, changes))
    return changes
end

local define = fold { kit.define(1, "topic"), kit.define(2, "offset", 2), kit.epoch(1, 2, 3) }
local changes = fold { kit.put("a", "1"), kit.put("long key", ("x"):rep(200)), kit.put("q", kit.u64(77), 2), kit.delete "a", kit.leave "b" }
local mark = fold { kit.mark(store) }
local optional = fold { kit.raw(0x99, "later"), kit.put("b", "") }

local lineage = kit.raw(17, kit.varint(1) .. "\1\2" .. kit.u64(3) .. "\3")
local begin = { kit.raw(16, kit.varint(8) .. kit.u64(5) .. "test"), lineage, kit.define(1, "topic"), kit.define(2, "offset", 2) }
local entries = { kit.put("long key", ("x"):rep(200)), kit.put("q", kit.u64(77), 2) }
local tail = { lineage, kit.mark(store), kit.raw(18, kit.varint(store.applied) .. kit.varint(2)) }

local files = {
    define = group(0, 1, define),
    changes = group(0, 1, define) .. group(0, 4, changes),
    log = group(0, 1, define) .. group(0, 4, changes) .. group(0, 9, mark) .. group(0, 10, optional),
    begin = group(META, 0, begin),
    snapshot = group(META, 0, begin) .. group(ENTRIES, 1, entries) .. group(0, 9, mark) .. group(0, 10, optional) .. group(META, 0, tail),
    tail = group(META, 0, tail),
    sealed = kit.group(changes, 4),
    mark = group(0, 1, mark),
}
for name, content in pairs(files) do ms.write_file("spec/fuzz/corpus/group/" .. name, content) end
