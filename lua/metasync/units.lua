-- Numbers with units, as a policy file writes them: "200ms", "512KiB", "10%", or a plain number.
--
--     units.duration("200ms")  -> 200000      microseconds; a plain number is seconds
--     units.bytes("512KiB")    -> 524288      a plain number is bytes
--     units.percent("10%")     -> 10          a plain number is percent
--     units.count(5000)        -> 5000
--
-- All give a whole number of at most 2^53, which a Lua number holds exactly, or nil and what was expected instead. Nothing is
-- rounded silently: "1.5KiB" is 1536 bytes, "0.3B" is refused.
local units = {}

local LARGEST = 2 ^ 53

-- Largest first: rendering takes the first one that fits without a rest.
units.durations = { { "d", 86400e6 }, { "h", 3600e6 }, { "m", 60e6 }, { "s", 1e6 }, { "ms", 1e3 }, { "us", 1 } }
units.sizes = { { "TiB", 2 ^ 40 }, { "GiB", 2 ^ 30 }, { "MiB", 2 ^ 20 }, { "KiB", 2 ^ 10 }, { "B", 1 } }

local function is_whole(number)
    return number == math.floor(number) and number <= LARGEST
end

-- "1.5KiB" -> 1.5, "KiB". A sign, an exponent, hexadecimal digits are no numbers of a policy.
local function split(text)
    local digits, unit = text:match("^%s*(%d+%.?%d*)%s*(%a+)%s*$")
    if not digits or #digits > 20 then return nil end
    return tonumber(digits), unit
end

local function factor_of(list, unit)
    for _, pair in ipairs(list) do
        if pair[1] == unit then return pair[2] end
    end
    return nil
end

local function is_plain(value)
    return type(value) == "number" and value >= 0 and value <= LARGEST -- NaN fails both
end

local DURATION = 'a duration such as "200ms", "5s" or "1m" (us, ms, s, m, h, d), or a number of seconds'
local SIZE = 'a size such as "512KiB" or "1GiB" (B, KiB, MiB, GiB, TiB), or a number of bytes'

function units.duration(value)
    local number, factor = value, 1e6
    if type(value) == "string" then
        local unit
        number, unit = split(value)
        factor = number and factor_of(units.durations, unit)
        if not factor then return nil, DURATION end
    elseif not is_plain(value) then
        return nil, DURATION
    end
    -- 0.07 s are 70000.00000000001 us in binary: what is that near to a whole number is meant to be one.
    local exact = number * factor
    local whole = math.floor(exact + 0.5)
    if whole > LARGEST or math.abs(exact - whole) > 1e-9 * math.max(1, whole) then return nil, DURATION end
    return whole
end

function units.bytes(value)
    local number, factor = value, 1
    if type(value) == "string" then
        local unit
        number, unit = split(value)
        factor = number and factor_of(units.sizes, unit)
        if not factor then return nil, SIZE end
    elseif not is_plain(value) then
        return nil, SIZE
    end
    if not is_whole(number * factor) then return nil, "a whole number of bytes" end
    return number * factor
end

function units.count(value)
    if not is_plain(value) or not is_whole(value) then return nil, "a whole number" end
    return value
end

function units.percent(value)
    local number = value
    if type(value) == "string" then number = tonumber(value:match("^%s*(%d%d?%d?)%s*%%%s*$")) end
    if not number or not is_plain(number) or not is_whole(number) or number > 100 then
        return nil, 'a percentage such as "10%", or a whole number in 0..100'
    end
    return number
end

-- ---- back to text --------------------------------------------------------------------------------------------------------

local function render(list, number)
    if number == 0 then return nil end
    for _, pair in ipairs(list) do
        if number % pair[2] == 0 then return ("%.0f%s"):format(number / pair[2], pair[1]) end
    end
    return nil
end

-- Microseconds -> "200ms"; bytes -> "512KiB". What comes out can be read again.
function units.duration_text(us) return render(units.durations, us) or "0s" end
function units.bytes_text(bytes) return render(units.sizes, bytes) or "0B" end

return units
