-- The named resolvers: who wins when two values of one entry meet.
--
-- A policy may name one ("max"), give the function (metasync.max), or call it from a function of its own:
--
--     function policy.resolve(conflict)
--         if conflict.table == "offset" then return metasync.max(conflict) end
--     end
--
-- Named alone they are decided in C, without running anything (core/sync/rules.c says the same in C). A conflict is
-- {table, key, field, mine, theirs, base, base_known, reason, newer}; mine or theirs is nil where that side has no entry. What a
-- resolver returns: a value, nil for "theirs", or the mark for "delete the entry", which `make` gets.
local function make(delete)
    local resolvers = {}

    local function mine(conflict)
        if conflict.mine == nil then return delete end
        return conflict.mine
    end

    local function check_number(value)
        if type(value) ~= "cdata" and type(value) ~= "number" then error("max and min compare int64 values", 0) end
    end

    -- An entry beats none; equal numbers leave theirs.
    local function by_number(conflict, wins)
        if conflict.mine == nil or conflict.theirs == nil then return conflict.mine end
        check_number(conflict.mine)
        check_number(conflict.theirs)
        if wins(conflict.mine, conflict.theirs) then return conflict.mine end
        return nil
    end

    function resolvers.theirs() return nil end

    function resolvers.mine(conflict) return mine(conflict) end

    function resolvers.newest(conflict)
        if conflict.newer == "mine" then return mine(conflict) end
        return nil
    end

    function resolvers.max(conflict) return by_number(conflict, function(a, b) return a > b end) end

    function resolvers.min(conflict) return by_number(conflict, function(a, b) return a < b end) end

    return resolvers
end

return { make = make, names = { "theirs", "mine", "newest", "max", "min" } }
