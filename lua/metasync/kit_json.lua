-- JSON for the test kit, just enough for what the library answers: objects, lists, text, numbers. null and what is missing are both nil; whole
-- numbers beyond 2^53 are int64_t.
local json = {}

local NULL = {}
local parse
local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function utf8(code)
    if code < 0x80 then return string.char(code) end
    if code < 0x800 then return string.char(0xc0 + math.floor(code / 64), 0x80 + code % 64) end
    if code < 0x10000 then return string.char(0xe0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64) end
    return string.char(0xf0 + math.floor(code / 262144), 0x80 + math.floor(code / 4096) % 64, 0x80 + math.floor(code / 64) % 64,
        0x80 + code % 64)
end

local function escape_at(text, at)
    local c = text:sub(at + 1, at + 1)
    if c ~= "u" then return ESCAPES[c] or c, at + 2 end
    local code = tonumber(text:sub(at + 2, at + 5), 16) or error "JSON: \\u without four digits"
    local low = code >= 0xd800 and code < 0xdc00 and tonumber(text:match("^\\u(%x%x%x%x)", at + 6) or "", 16)
    if low then return utf8(0x10000 + (code - 0xd800) * 1024 + low - 0xdc00), at + 12 end
    return utf8(code), at + 6
end

local function string_at(text, at)
    local parts = {}
    at = at + 1
    while true do
        local stop = text:find('["\\]', at) or error "JSON: a string has no end"
        parts[#parts + 1] = text:sub(at, stop - 1)
        if text:sub(stop, stop) == '"' then return table.concat(parts), stop + 1 end
        parts[#parts + 1], at = escape_at(text, stop)
    end
end

local function list_at(text, at, close, item)
    local list, after = {}, text:match("^%s*" .. close .. "()", at)
    while not after do
        at = item(list, at)
        local mark, next_at = text:match("^%s*(.)()", at)
        if mark == "," then at = next_at else after = next_at end
    end
    return list, after
end

-- A whole number that Lua's own can't hold exactly.
local function whole(word)
    local sign, digits = word:match "^(%-?)(%d+)$"
    if not digits or #digits < 16 or #digits > 19 then return nil end
    local number = 0LL
    for digit in digits:gmatch "%d" do number = number * 10 - tonumber(digit) end
    if sign == "" then number = -number end
    if number >= -9007199254740992LL and number <= 9007199254740992LL then return tonumber(number) end
    return number
end

function parse(text, at)
    at = text:match("^%s*()", at)
    local c = text:sub(at, at)
    if c == '"' then return string_at(text, at) end
    if c == "[" then
        return list_at(text, at + 1, "%]", function(list, from)
            local value, after = parse(text, from)
            list[#list + 1] = value
            return after
        end)
    end
    if c == "{" then
        return list_at(text, at + 1, "}", function(object, from)
            local key, after = string_at(text, text:match("^%s*()", from))
            local value
            value, after = parse(text, text:match("^%s*:()", after))
            if value ~= NULL then object[key] = value end
            return after
        end)
    end
    local word, after = text:match("^([%w+.-]+)()", at)
    if word == "true" or word == "false" then return word == "true", after end
    if word == "null" then return NULL, after end
    return whole(word) or tonumber(word) or error("JSON: " .. text:sub(at, at + 20)), after
end

function json.decode(text) return (parse(text, 1)) end

-- ---- bytes ---------------------------------------------------------------------------------------------------------------

local DIGITS, BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", {}
for i = 1, 64 do BASE64[DIGITS:sub(i, i)] = i - 1 end

-- What a report says of a value: text, a number, or bytes that are no text.
function json.bytes(value)
    if type(value) ~= "table" then return value end
    local bits, count, out = 0, 0, {}
    for c in (value.base64 or ""):gmatch "[%w+/]" do
        bits, count = bits * 64 + BASE64[c], count + 6
        if count >= 8 then
            count = count - 8
            out[#out + 1] = string.char(math.floor(bits / 2 ^ count))
            bits = bits % 2 ^ count
        end
    end
    return table.concat(out)
end

return json
