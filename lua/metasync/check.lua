-- Reads the table that a policy file returns: every field is checked against schema.lua, and what is wrong is said with its path, its
-- value, what was expected and the nearest right name. All problems of a file are found, not only the first one.
--
-- The table comes from code that nobody trusts: it is looked at with rawget and next alone, so that no metamethod of it runs, and never
-- deeper than the schema goes.
local schema = require "metasync.schema"
local units = require "metasync.units"

local check = {}

local PROBLEMS_MAX = 100
local NAME_MAX = 64 -- longer names have no nearest one
local GLOB_MAX, GLOBS_MAX = 1024, 10000 -- as sync/patterns.h

-- ---- words for people --------------------------------------------------------------------------------------------------------

local function printable(text, length)
    local cut = #text > length and text:sub(1, length) .. "..." or text
    return (cut:gsub('[%c"\\\127-\255]', function(c) return ("\\%d"):format(c:byte()) end))
end

local function show(value)
    local kind = type(value)
    if kind == "string" then return '"' .. printable(value, 60) .. '"' end
    if kind == "number" then return ("%.17g"):format(value) end
    if kind == "boolean" or kind == "nil" then return tostring(value) end
    return "a " .. kind
end

local function show_key(key)
    if type(key) == "string" then
        if key:match("^[%w_.-]+$") and #key <= 80 then return key end
        return '["' .. printable(key, 60) .. '"]'
    end
    return "[" .. (type(key) == "number" and ("%.17g"):format(key) or type(key)) .. "]"
end

local function join(path, key)
    local shown = show_key(key)
    if path == "" then return shown end
    return shown:sub(1, 1) == "[" and path .. shown or path .. "." .. shown
end

-- How many single letters have to be put in, left out, changed or swapped with their neighbour.
local function distance(a, b)
    local before, row = nil, {}
    for j = 0, #b do row[j] = j end
    for i = 1, #a do
        local next_row = { [0] = i }
        for j = 1, #b do
            local cost = a:byte(i) == b:byte(j) and 0 or 1
            local best = math.min(row[j] + 1, next_row[j - 1] + 1, row[j - 1] + cost)
            if before and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then best = math.min(best, before[j - 2] + 1) end
            next_row[j] = best
        end
        before, row = row, next_row
    end
    return row[#b]
end

-- The name that somebody may have meant, or nil.
function check.nearest(name, names)
    if type(name) ~= "string" or #name > NAME_MAX then return nil end
    local best, best_distance
    for _, candidate in ipairs(names) do
        local d = distance(name:lower(), candidate:lower())
        if not best or d < best_distance then best, best_distance = candidate, d end
    end
    if best and best_distance <= math.max(1, math.floor(#best / 3)) then return best end
    return nil
end

-- ---- the schema as a tree ----------------------------------------------------------------------------------------------------

-- { children = { name = node }, names = { sorted }, field = definition of a leaf }
local function make_tree(fields)
    local root = { children = {}, names = {} }
    for _, field in ipairs(fields) do
        local node = root
        for part in field.path:gmatch("[^.]+") do
            if not node.children[part] then
                node.children[part] = { children = {}, names = {} }
                table.insert(node.names, part)
            end
            node = node.children[part]
        end
        node.field = field
    end
    return root
end

local policy_tree, table_tree = make_tree(schema.fields), make_tree(schema.table_fields)

-- Where the last part of a path, or a section, stands: "heartbeat" -> { "links.heartbeat" }, "lua" -> { "limits.lua" }.
local function make_elsewhere(fields)
    local found, seen = { paths = {}, names = {} }, {}
    local function add(last, path)
        if seen[path] then return end
        seen[path] = true
        if not found.paths[last] then table.insert(found.names, last) end
        found.paths[last] = found.paths[last] or {}
        table.insert(found.paths[last], path)
    end
    for _, field in ipairs(fields) do
        local section = field.path:match("^(.*)%.")
        while section do
            add(section:match("[^.]+$"), section)
            section = section:match("^(.*)%.")
        end
        add(field.path:match("[^.]+$"), field.path)
    end
    return found
end

local of_policy, of_table = make_elsewhere(schema.fields), make_elsewhere(schema.table_fields)

-- The places of fields with about this name: in the table that is read, in the policy, or in any table.
local function find_elsewhere(reader, key)
    local function look(known, before, behind)
        local paths = {}
        for _, path in ipairs(known.paths[check.nearest(key, known.names)] or {}) do table.insert(paths, before .. path .. behind) end
        return #paths > 0 and table.concat(paths, " or ") or nil
    end
    if reader.in_table then return look(of_table, "tables." .. reader.in_table .. ".", "") or look(of_policy, "", ", beside tables") end
    return look(of_policy, "", "") or look(of_table, "tables.NAME.", "")
end

-- ---- problems ------------------------------------------------------------------------------------------------------------------

-- A reader collects what was found and what is wrong.
local function complain(reader, path, text)
    if #reader.problems == PROBLEMS_MAX then
        table.insert(reader.problems, { path = "", text = "and more" })
    elseif #reader.problems < PROBLEMS_MAX then
        table.insert(reader.problems, { path = path, text = (path == "" and "the policy" or path) .. " " .. text })
    end
end

local function complain_value(reader, path, value, expected, near)
    local hint = near and ('; did you mean "%s"?'):format(near) or ""
    complain(reader, path, ("is %s, expected %s%s"):format(show(value), expected, hint))
end

local function complain_name(reader, node, path, key, value)
    local near = check.nearest(key, node.names)
    near = near and join(path, near) or find_elsewhere(reader, key)
    local hint = near and ("; did you mean %s?"):format(near) or ("; there are %s"):format(table.concat(node.names, ", "))
    complain(reader, join(path, key), ("(%s) is no field of a policy%s"):format(show(value), hint))
end

-- ---- values --------------------------------------------------------------------------------------------------------------------

local function quote_names(values)
    local names, quoted = {}, {}
    for _, pair in ipairs(values) do
        table.insert(names, pair[1])
        table.insert(quoted, '"' .. pair[1] .. '"')
    end
    return names, table.concat(quoted, ", ")
end

local function read_enum(reader, path, field, value, more)
    for _, pair in ipairs(field.values) do
        if pair[1] == value then return pair[2] end
    end
    local names, quoted = quote_names(field.values)
    complain_value(reader, path, value, "one of " .. quoted .. (more or ""), check.nearest(value, names))
    return nil
end

local converters = {
    duration = function(field, value)
        local us, expected = units.duration(value)
        if not us then return nil, expected end
        if field.unit ~= "ms" then return us end
        if us % 1000 ~= 0 then return nil, "a whole number of milliseconds" end
        return us / 1000
    end,
    bytes = function(_, value) return units.bytes(value) end,
    percent = function(_, value) return units.percent(value) end,
    count = function(_, value) return units.count(value) end,
}

local function range_text(field)
    if field.high >= 2 ^ 53 then return "at least " .. schema.text(field, field.low) end
    return ("%s to %s"):format(schema.text(field, field.low), schema.text(field, field.high))
end

local function read_number(reader, path, field, value)
    local number, expected = converters[field.kind](field, value)
    if not number then
        complain_value(reader, path, value, expected)
        return nil
    end
    if number < field.low or number > field.high then
        complain_value(reader, path, value, range_text(field))
        return nil
    end
    return number
end

-- A list without holes, as { [1] = ..., ... }; nil if it is something else.
local function read_list(value, most)
    if type(value) ~= "table" or getmetatable(value) ~= nil then return nil end
    local count = 0
    for key in next, value do
        count = count + 1
        if type(key) ~= "number" or count > most then return nil end
    end
    local list = {}
    for index = 1, count do
        list[index] = rawget(value, index)
        if list[index] == nil then return nil end
    end
    return list
end

local function sorted_keys(map)
    local keys = {}
    for key in next, map do table.insert(keys, key) end
    table.sort(keys, function(a, b)
        if type(a) == type(b) and (type(a) == "string" or type(a) == "number") then return a < b end
        return type(a) < type(b)
    end)
    return keys
end

local function is_table_name(name)
    return type(name) == "string" and #name >= 1 and #name <= schema.TABLE_NAME_MAX and name:match("^[%w_.-]+$") ~= nil
end

local TABLE_NAME = "a table's name: 1 to 63 of A-Z a-z 0-9 _ . -"

local function read_glob(reader, path, value)
    if type(value) ~= "string" or #value > GLOB_MAX then
        complain_value(reader, path, value, 'a pattern such as "tmp-*", of at most 1024 bytes')
        return nil
    end
    local trailing = value:match("\\+$")
    if trailing and #trailing % 2 == 1 then
        complain_value(reader, path, value, "a pattern that does not end with a lone \\")
        return nil
    end
    return value
end

-- replicate.include and replicate.exclude: { TABLE = { glob, ... } }.
local function read_globs(reader, path, value)
    local include = path == "replicate.include"
    if type(value) ~= "table" or getmetatable(value) ~= nil then
        complain_value(reader, path, value, "a table of lists: { TABLE = { PATTERN, ... } }")
        return
    end
    for _, name in ipairs(sorted_keys(value)) do
        local at, list = join(path, name), read_list(rawget(value, name), GLOBS_MAX)
        if name ~= "*" and not is_table_name(name) then
            complain(reader, at, "is not " .. TABLE_NAME .. ', or "*" for all others')
        elseif not list then
            complain_value(reader, at, rawget(value, name), 'a list of patterns such as { "tmp-*", "test-*" }')
        else
            for index, glob in ipairs(list) do
                glob = read_glob(reader, ("%s[%d]"):format(at, index), glob)
                if glob then table.insert(reader.patterns, { table = name, glob = glob, include = include }) end
            end
        end
    end
end

local read_tables -- below

local readers = {}

function readers.name(reader, path, _, value)
    if type(value) ~= "string" or #value < 1 or #value > 63 or value:match("[%c\127]") then
        complain_value(reader, path, value, "a name of 1 to 63 printable bytes")
        return
    end
    reader.name = value
end

function readers.globs(reader, path, _, value) read_globs(reader, path, value) end

function readers.tables(reader, path, _, value) read_tables(reader, path, value) end

readers["function"] = function(reader, path, field, value)
    if type(value) ~= "function" then
        complain_value(reader, path, value, "a function")
        return
    end
    table.insert(reader.functions, { name = field.path, table = reader.in_table, fn = value })
end

function readers.enum(reader, path, field, value)
    reader.numbers[field.c] = read_enum(reader, path, field, value)
    if field.c == "type" then reader.json = value == "json" end
end

function readers.flag(reader, path, field, value)
    if type(value) ~= "boolean" then
        complain_value(reader, path, value, "true or false")
        return
    end
    reader.numbers[field.c] = value and 1 or 0
end

function readers.resolver(reader, path, field, value)
    if type(value) == "function" then
        local name = reader.named[value]
        if not name then
            table.insert(reader.functions, { name = "resolve", table = reader.in_table, fn = value })
            reader.numbers[field.c] = schema.RESOLVE_FUNCTION
            return
        end
        value = name
    end
    reader.numbers[field.c] = read_enum(reader, path, field, value, ", or a function")
end

-- Walks one level of the file beside one level of the schema.
local function read_section(reader, node, path, section)
    if getmetatable(section) ~= nil then
        complain(reader, path, "has a metatable; only plain fields are read")
        return
    end
    for _, key in ipairs(sorted_keys(section)) do
        local value, child = rawget(section, key), type(key) == "string" and node.children[key] or nil
        local at = join(path, key)
        if not child then
            complain_name(reader, node, path, key, value)
        elseif child.field then
            local read = readers[child.field.kind]
            if read then
                read(reader, at, child.field, value)
            else
                reader.numbers[child.field.c] = read_number(reader, at, child.field, value)
            end
        elseif type(value) ~= "table" then
            complain_value(reader, at, value, "a table with " .. table.concat(child.names, ", "))
        else
            read_section(reader, child, at, value)
        end
    end
end

-- ---- tables --------------------------------------------------------------------------------------------------------------------

local BUFFER_FIELDS = { "interval_ms", "entries", "bytes" }
local RISK_FIELDS = { "at_risk_ms", "at_risk_entries", "at_risk_bytes" }

-- What two fields of one table say together. `given`: what the file says; numbers: with what was there before.
local function settle_table(reader, path, section, given, numbers)
    local buffered = rawget(section, "buffer") ~= nil
    if buffered and rawget(section, "ack") ~= nil then
        complain(reader, path, "has both ack and buffer; a buffered table's writes don't wait for a level")
        return
    end
    if buffered then
        numbers.level = 0
        if given.interval_ms == nil and numbers.interval_ms == 0 then numbers.interval_ms = schema.DEFAULT_INTERVAL_MS end
    elseif given.level then
        for _, field in ipairs(BUFFER_FIELDS) do numbers[field] = 0 end
        for _, field in ipairs(RISK_FIELDS) do numbers[field] = given[field] or 0 end
    end
    local risk = numbers.at_risk_ms + numbers.at_risk_entries + numbers.at_risk_bytes
    if risk > 0 and numbers.interval_ms == 0 then complain(reader, path .. ".at_risk", "needs a buffer: other tables have nothing at risk") end
    if numbers.resolver == 4 or numbers.resolver == 5 then
        if numbers.type == 1 then
            complain(reader, path .. ".resolve", 'compares numbers ("max", "min"), and the table\'s type is not "int64"')
        end
    end
end

local function read_table(reader, path, name, section)
    local numbers, known = {}, reader.base_tables[name]
    for _, field in ipairs(schema.table_fields) do
        if field.c then numbers[field.c] = known and known[field.c] or 0 end
    end
    local outer, before = reader.numbers, #reader.problems
    reader.numbers, reader.in_table, reader.json = {}, name, false
    read_section(reader, table_tree, path, section)
    local given = reader.numbers
    for field, number in pairs(given) do numbers[field] = number end
    if #reader.problems == before then settle_table(reader, path, section, given, numbers) end
    reader.tables[name] = { name = name, numbers = numbers, json = reader.json }
    reader.numbers, reader.in_table = outer, nil
end

function read_tables(reader, path, value)
    if type(value) ~= "table" or getmetatable(value) ~= nil then
        complain_value(reader, path, value, 'a table such as { topic = { ack = "disk" } }')
        return
    end
    for _, name in ipairs(sorted_keys(value)) do
        local at, section = join(path, name), rawget(value, name)
        if not is_table_name(name) then
            complain(reader, at, "is not " .. TABLE_NAME)
        elseif type(section) ~= "table" then
            complain_value(reader, at, section, "a table with " .. table.concat(table_tree.names, ", "))
        else
            read_table(reader, at, name, section)
        end
    end
end

-- Those of the base that the file does not mention come along.
local function collect_tables(reader)
    local list = {}
    for name, known in pairs(reader.base_tables) do
        if not reader.tables[name] then reader.tables[name] = { name = name, numbers = known, json = false } end
    end
    for _, name in ipairs(sorted_keys(reader.tables)) do table.insert(list, reader.tables[name]) end
    if #list > schema.TABLES_MAX then
        complain(reader, "tables", ("has %d tables, at most %d may have settings of their own"):format(#list, schema.TABLES_MAX))
    end
    return list
end

-- ---- all of it -------------------------------------------------------------------------------------------------------------------

-- policy: what the file returned. base: { numbers = { C field = number }, tables = { NAME = { C field = number } } }: what holds where
-- the file says nothing. named: function -> name of the named resolvers.
-- Returns { name, numbers, tables = { { name, numbers, json } }, patterns = { { table, glob, include } }, functions = { { name, table,
-- fn } } }, and a list of problems { path, text }, which is empty if the policy is good.
function check.read(policy, base, named)
    local reader = { problems = {}, numbers = {}, tables = {}, patterns = {}, functions = {}, base_tables = base.tables, named = named }
    if type(policy) ~= "table" then
        complain(reader, "", "file returns " .. show(policy) .. ", expected a table: it ends with `return policy`")
        return reader, reader.problems
    end
    read_section(reader, policy_tree, "", policy)
    for field, number in pairs(base.numbers) do
        if reader.numbers[field] == nil then reader.numbers[field] = number end
    end
    reader.tables = collect_tables(reader)
    if #reader.patterns > GLOBS_MAX then
        complain(reader, "replicate", ("has %d patterns, at most %d are allowed"):format(#reader.patterns, GLOBS_MAX))
    end
    return reader, reader.problems
end

-- "log_max_bytes" -> "log.max", for messages from C.
function check.path_of(c_field)
    for _, field in ipairs(schema.fields) do
        if field.c == c_field then return field.path end
    end
    return nil
end

return check
