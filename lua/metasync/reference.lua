-- The reference of the policy language as Markdown, from schema.lua: what docs/policy.md has between its markers.
--
--     reference.replace(document, defaults) -> the document with the tables made anew, or nil and what is missing
--
-- defaults: C field -> number, as ms_policy_init says. A spec compares the document with what this makes; `make docs` writes it.
local schema = require "metasync.schema"

local reference = {}

local function escape(text) return (text:gsub("|", "\\|")) end

local function values_of(field)
    local names = {}
    for _, pair in ipairs(field.values) do table.insert(names, '`"' .. pair[1] .. '"`') end
    if field.kind == "resolver" then table.insert(names, "a function") end
    return table.concat(names, ", ")
end

local KINDS = { duration = "duration", bytes = "size", percent = "percent", count = "number", flag = "`true`, `false`", name = "text",
    globs = "patterns by table", tables = "see below", ["function"] = "function" }

local function range_of(field)
    if field.values then return values_of(field) end
    local kind = KINDS[field.kind]
    if not field.low then return kind end
    if field.high >= 2 ^ 53 then
        if field.low == 0 then return kind end
        return ("%s, at least %s"):format(kind, schema.text(field, field.low))
    end
    if field.high == 2 ^ 32 - 1 then return ("%s, at least %s"):format(kind, schema.text(field, field.low)) end
    return ("%s, %s to %s"):format(kind, schema.text(field, field.low), schema.text(field, field.high))
end

local function default_of(field, defaults)
    if not field.c then return "" end
    return "`" .. schema.text(field, defaults[field.c]) .. "`"
end

local function start_note(field)
    if field.start == true then return " **At the next start.**" end
    if field.start then return (" **At the next start, %s.**"):format(field.start) end
    return ""
end

local function field_table(defaults)
    local lines = { "| field | may be | default | what it says |", "|---|---|---|---|" }
    for _, field in ipairs(schema.fields) do
        table.insert(lines, ("| `%s` | %s | %s | %s.%s Example: `%s` |"):format(field.path, range_of(field), default_of(field, defaults),
            escape(field.help), start_note(field), escape(tostring(field.example))))
    end
    return table.concat(lines, "\n")
end

local function table_table()
    local lines = { "| field below `tables.NAME` | may be | what it says |", "|---|---|---|" }
    for _, field in ipairs(schema.table_fields) do
        table.insert(lines, ("| `%s` | %s | %s. Example: `%s` |"):format(field.path, range_of(field), escape(field.help),
            escape(tostring(field.example))))
    end
    return table.concat(lines, "\n")
end

function reference.replace(document, defaults)
    local parts = { fields = field_table(defaults), tables = table_table() }
    for name, text in pairs(parts) do
        local open, close = ("<!-- reference: %s -->"):format(name), "<!-- reference: end -->"
        local _, from = document:find(open, 1, true)
        local to = from and document:find(close, from, true)
        if not to then return nil, open .. " ... " .. close end
        document = document:sub(1, from) .. "\n" .. text .. "\n" .. document:sub(to)
    end
    return document
end

return reference
