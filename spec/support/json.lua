-- JSON for specs and the demo: decode(text), encode(value). Integers stay exact: what does not fit a Lua number is an int64 cdata.
-- json.null stands for null. An empty Lua table is encoded as an object unless it is json.array{}.
local ffi = require "ffi"

local json = { null = setmetatable({}, { __tostring = function() return "null" end }) }
local array_mark = {}

function json.array(list)
    return setmetatable(list, array_mark)
end

-- ---- decoding: each function takes the text and a place in it, and returns the value and the place behind it ------------

local value_at

local function fail(at, what)
    error(("JSON, byte %d: expected %s"):format(at, what), 0)
end

local function skip(text, at)
    return (text:find("[^ \t\r\n]", at)) or #text + 1
end

local function utf8(code)
    if code < 0x80 then return string.char(code) end
    if code < 0x800 then return string.char(0xC0 + math.floor(code / 64), 0x80 + code % 64) end
    if code < 0x10000 then
        return string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
    end
    return string.char(0xF0 + math.floor(code / 262144), 0x80 + math.floor(code / 4096) % 64, 0x80 + math.floor(code / 64) % 64,
        0x80 + code % 64)
end

local SIMPLE = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function string_at(text, at)
    local parts, from = {}, at + 1
    while true do
        local to = text:find('["\\]', from) or fail(from, "the end of a string")
        parts[#parts + 1] = text:sub(from, to - 1)
        if text:sub(to, to) == '"' then return table.concat(parts), to + 1 end
        local kind = text:sub(to + 1, to + 1)
        from = to + 2
        if kind == "u" then
            local code = tonumber(text:match("^%x%x%x%x", from) or fail(from, "four hex digits"), 16)
            from = from + 4
            local low = code >= 0xD800 and code < 0xDC00 and text:match("^\\u(%x%x%x%x)", from)
            if low then
                code = 0x10000 + (code - 0xD800) * 0x400 + tonumber(low, 16) - 0xDC00
                from = from + 6
            end
            parts[#parts + 1] = utf8(code)
        else
            parts[#parts + 1] = SIMPLE[kind] or fail(to, "an escape")
        end
    end
end

local function integer(digits)
    local number = tonumber(digits)
    if math.abs(number) < 2 ^ 53 then return number end
    local exact = 0LL
    for digit in digits:gmatch("%d") do exact = exact * 10 + tonumber(digit) end
    return digits:sub(1, 1) == "-" and -exact or exact
end

local function number_at(text, at)
    local digits = text:match("^-?%d+[%d.eE+-]*", at) or fail(at, "a value")
    local whole = digits:match("^-?%d+$")
    return whole and integer(whole) or tonumber(digits) or fail(at, "a number"), at + #digits
end

local function array_at(text, at)
    local list = json.array {}
    at = skip(text, at + 1)
    if text:sub(at, at) == "]" then return list, at + 1 end
    while true do
        list[#list + 1], at = value_at(text, at)
        at = skip(text, at)
        local sign = text:sub(at, at)
        if sign == "]" then return list, at + 1 end
        if sign ~= "," then fail(at, ", or ]") end
        at = skip(text, at + 1)
    end
end

local function object_at(text, at)
    local object = {}
    at = skip(text, at + 1)
    if text:sub(at, at) == "}" then return object, at + 1 end
    while true do
        if text:sub(at, at) ~= '"' then fail(at, "a key") end
        local key
        key, at = string_at(text, at)
        at = skip(text, at)
        if text:sub(at, at) ~= ":" then fail(at, ":") end
        object[key], at = value_at(text, skip(text, at + 1))
        at = skip(text, at)
        local sign = text:sub(at, at)
        if sign == "}" then return object, at + 1 end
        if sign ~= "," then fail(at, ", or }") end
        at = skip(text, at + 1)
    end
end

local WORDS = { { "true", true }, { "false", false }, { "null", json.null } }

function value_at(text, at)
    local first = text:sub(at, at)
    if first == "{" then return object_at(text, at) end
    if first == "[" then return array_at(text, at) end
    if first == '"' then return string_at(text, at) end
    for _, word in ipairs(WORDS) do
        if text:sub(at, at + #word[1] - 1) == word[1] then return word[2], at + #word[1] end
    end
    return number_at(text, at)
end

function json.decode(text)
    local value, at = value_at(text, skip(text, 1))
    at = skip(text, at)
    if at <= #text then fail(at, "the end") end
    return value
end

-- ---- encoding -----------------------------------------------------------------------------------------------------------

local function quote(text)
    return '"' .. text:gsub('[%c"\\\127]', function(c) return ("\\u%04x"):format(c:byte()) end) .. '"'
end

function json.encode(value)
    local kind = type(value)
    if value == json.null or kind == "nil" then return "null" end
    if kind == "string" then return quote(value) end
    if kind == "boolean" then return tostring(value) end
    if kind == "number" then return value % 1 == 0 and ("%.0f"):format(value) or ("%.17g"):format(value) end
    if kind == "cdata" and (ffi.istype("int64_t", value) or ffi.istype("uint64_t", value)) then
        return (tostring(value):gsub("U?LL$", ""))
    end
    assert(kind == "table", "JSON has no " .. kind)
    local parts = {}
    if getmetatable(value) == array_mark or #value > 0 then
        for i, item in ipairs(value) do parts[i] = json.encode(item) end
        return "[" .. table.concat(parts, ",") .. "]"
    end
    for key, item in pairs(value) do parts[#parts + 1] = quote(key) .. ":" .. json.encode(item) end
    return "{" .. table.concat(parts, ",") .. "}"
end

return json
