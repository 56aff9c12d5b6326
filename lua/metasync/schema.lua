-- What a policy file may say: the one list of fields. Validation, defaults, the numbers that C gets, `metasyncctl policy show` and
-- the reference in docs/policy.md all come from it.
--
-- A field has
--     path     where it stands in the file: "log.max"
--     c        the field of struct ms_policy (below tables: of struct ms_table_policy) that it fills
--     kind     duration (unit "ms" or "us" of the C field), bytes, percent, count, flag, enum, or one of those that check.lua knows
--     low, high  the range, in the C field's unit; what core/sync/policy.c checks, a spec compares them
--     values   of an enum: name -> number, in the order of metasync.h
--     start    true: a reload keeps the old value, the next start takes the new one
--     help     one line
--     example  as one would write it
-- There are no defaults here: those are what ms_policy_init says, or what the host configured.
local schema = {}

local KIB, MIB, GIB = 2 ^ 10, 2 ^ 20, 2 ^ 30
local U32, HOUR_MS, DAY_MS = 2 ^ 32 - 1, 3600000, 86400000
local MOST = 2 ^ 53

schema.levels = { { "memory", 1 }, { "os", 2 }, { "disk", 3 }, { "replica", 4 } }
schema.resolvers = { { "theirs", 1 }, { "mine", 2 }, { "newest", 3 }, { "max", 4 }, { "min", 5 } }
schema.RESOLVE_FUNCTION = 6
-- "json" is MS_TYPE_BYTES whose values functions see as objects.
schema.types = { { "bytes", 1 }, { "int64", 2 }, { "json", 1 } }

schema.TABLES_MAX = 64
schema.TABLE_NAME_MAX = 63
schema.DEFAULT_INTERVAL_MS = 200 -- of a `buffer` that names none

schema.fields = {
    { path = "name", kind = "name", help = "what status and `policy show` call it; the file's name if it is missing",
      example = '"production"' },
    { path = "ack", c = "level", kind = "enum", values = schema.levels,
      help = "how far a change must have got before a write returns, in tables that say nothing else", example = '"disk"' },
    { path = "resolve", c = "resolver", kind = "resolver", values = schema.resolvers,
      help = "who wins a conflict, in tables that say nothing else: a name, or a function", example = '"theirs"' },

    { path = "replicate.enabled", c = "enabled", kind = "flag",
      help = "false: the node leads and follows nobody, its host goes on as without metasync", example = "true" },
    { path = "replicate.include", kind = "globs",
      help = "per table: if there are patterns, only keys that fit one are in the view", example = '{ topic = { "prod-*" } }' },
    { path = "replicate.exclude", kind = "globs",
      help = "per table: keys that fit one are out of the view; asked before include", example = '{ topic = { "Benchmark*" } }' },
    { path = "tables", kind = "tables", help = "what is said of single tables, see below", example = '{ topic = { ack = "disk" } }' },

    { path = "snapshot.every", c = "snapshot_every_ms", kind = "duration", unit = "ms", low = 10, high = U32,
      help = "a snapshot at most so long after the first change that is in none", example = '"30s"' },
    { path = "snapshot.log_bytes", c = "snapshot_log_bytes", kind = "bytes", low = 4 * KIB, high = MOST,
      help = "or after so much log, whichever comes first", example = '"64MiB"' },
    { path = "snapshot.keep", c = "snapshot_keep", kind = "count", low = 1, high = 16, help = "snapshots that are kept", example = "2" },

    { path = "log.keep", c = "log_keep_bytes", kind = "bytes", low = 0, high = MOST,
      help = "log kept for followers that come back", example = '"256MiB"' },
    { path = "log.max", c = "log_max_bytes", kind = "bytes", low = 0, high = MOST, start = "if it becomes smaller",
      help = "hard bound; writes wait there for a snapshot that gives room, or are refused. At least three segments, two of the largest groups",
      example = '"1GiB"' },
    { path = "log.on_failure", c = "on_log_failure", kind = "enum", values = { { "refuse", 0 }, { "pass", 1 } },
      help = "after the log failed: refuse writes, or let the host go on unreplicated (an alarm)", example = '"pass"' },
    { path = "log.segment", c = "log_segment_bytes", kind = "bytes", low = 64 * KIB, high = GIB, start = true,
      help = "size of one segment", example = '"16MiB"' },
    { path = "log.group", c = "group_bytes", kind = "bytes", low = 64, high = 16 * MIB, start = true,
      help = "size at which a group of changes is closed", example = '"32KiB"' },
    { path = "log.tail", c = "tail_bytes", kind = "bytes", low = 4 * KIB, high = GIB,
      help = "unwritten log in memory at which writers wait", example = '"8MiB"' },
    { path = "log.sync_every", c = "sync_every_ms", kind = "duration", unit = "ms", low = 1, high = HOUR_MS,
      help = "background sync of what nobody waits for", example = '"1s"' },
    { path = "log.mark_changes", c = "mark_changes", kind = "count", low = 1, high = U32,
      help = "a mark (count and digest of every table) after so many changes", example = "8192" },
    { path = "log.mark_every", c = "mark_every_ms", kind = "duration", unit = "ms", low = 1, high = HOUR_MS,
      help = "or so long after the first unmarked one", example = '"1s"' },

    { path = "replica.lag", c = "replica_lag_ms", kind = "duration", unit = "ms", low = 1, high = U32,
      help = "a follower that is behind for longer leaves the in-sync set", example = '"10s"' },
    { path = "replica.on_none", c = "on_no_replica", kind = "enum", values = { { "refuse", 0 }, { "degrade", 1 } },
      help = 'a write of level "replica" with nobody in sync: refuse it, or be content with "disk"', example = '"refuse"' },

    { path = "links.heartbeat", c = "heartbeat_ms", kind = "duration", unit = "ms", low = 1, high = HOUR_MS / 2,
      help = "silence after which a heartbeat is sent; at most half of links.timeout", example = '"1s"' },
    { path = "links.timeout", c = "link_timeout_ms", kind = "duration", unit = "ms", low = 2, high = HOUR_MS,
      help = "silence after which a link is dead", example = '"5s"' },
    { path = "links.connect_min", c = "connect_min_ms", kind = "duration", unit = "ms", low = 1, high = HOUR_MS,
      help = "first pause between attempts to connect; at most links.connect_max", example = '"50ms"' },
    { path = "links.connect_max", c = "connect_max_ms", kind = "duration", unit = "ms", low = 1, high = HOUR_MS,
      help = "longest pause between attempts to connect", example = '"5s"' },
    { path = "links.ask", c = "ask_ms", kind = "duration", unit = "ms", low = 1, high = 600000,
      help = "how long a starting leader asks its peers at most", example = '"2s"' },
    { path = "links.window", c = "window_bytes", kind = "bytes", low = 4 * KIB, high = GIB, start = true,
      help = "unsent bytes per follower in memory; beyond it, the follower is served from the log", example = '"1MiB"' },
    { path = "links.retain", c = "retain_bytes", kind = "bytes", low = 0, high = GIB,
      help = "newest log kept in memory for all followers", example = '"8MiB"' },

    { path = "host.queue", c = "host_queue_bytes", kind = "bytes", low = 4 * KIB, high = GIB,
      help = "changes queued for the host's callback; beyond it, the host gets a full batch", example = '"16MiB"' },
    { path = "host.audit_every", c = "audit_every_ms", kind = "duration", unit = "ms", low = 0, high = U32,
      help = 'how often a follower\'s host is compared with the tables; "0s" = never', example = '"1h"' },
    { path = "host.beyond_end", c = "on_beyond_end", kind = "enum", values = { { "report", 0 }, { "clamp", 1 } },
      help = "offsets beyond the ends of their queues, in a host that leads: it reports them, or sets them to the ends", example = '"clamp"' },

    { path = "limits.key", c = "key_max", kind = "bytes", low = 1, high = 65535, start = true,
      help = "largest key, its field included", example = '"4KiB"' },
    { path = "limits.value", c = "value_max", kind = "bytes", low = 8, high = 64 * MIB, start = true, help = "largest value", example = '"4MiB"' },
    { path = "limits.batch", c = "batch_max", kind = "bytes", low = 64, high = 64 * MIB, start = true,
      help = "largest atomic batch", example = '"256KiB"' },
    { path = "limits.outside", c = "outside_max", kind = "count", low = 0, high = 100000000,
      help = "entries outside of the view that are remembered, so that the filter is not asked again", example = "100000" },
    { path = "limits.lua.instructions", c = "call_instructions", kind = "count", low = 1000, high = 100000000,
      help = "virtual machine instructions of one call of a function", example = "200000" },
    { path = "limits.lua.time", c = "call_us", kind = "duration", unit = "us", low = 100, high = 1000000,
      help = "processor time of one call", example = '"5ms"' },
    { path = "limits.lua.wait", c = "call_wait_us", kind = "duration", unit = "us", low = 0, high = 1000000,
      help = "what a host's thread waits at most for another call to end", example = '"5ms"' },
    { path = "limits.lua.memory", c = "lua_memory", kind = "bytes", low = MIB, high = GIB,
      help = "memory that the policy's functions and what they keep may take", example = '"16MiB"' },
    { path = "limits.lua.incidents", c = "incidents_max", kind = "count", low = 1, high = 1000000,
      help = "incidents of one function after which it is not called until the next reload", example = "10" },

    { path = "reload.leave", c = "leave_max_percent", kind = "percent", low = 0, high = 100,
      help = "of a table's entries, what a reload may make leave the view without --force", example = '"10%"' },
    { path = "reload.probation", c = "probation_ms", kind = "duration", unit = "ms", low = 0, high = DAY_MS,
      help = 'a reloaded policy with incidents within this time is rolled back; "0s" = never', example = '"1m"' },

    { path = "filter", kind = "function", help = "filter(entry): whether an entry is in the view", example = "function(entry) ... end" },
    { path = "flush", kind = "function", help = "flush(stats): when a buffered table is flushed next", example = "function(stats) ... end" },
    { path = "on_event", kind = "function", help = "on_event(event): told what an operator is told", example = "function(event) ... end" },
    { path = "selftest", kind = "function", help = "selftest(): run before a reload takes effect; an error refuses it",
      example = "function() ... end" },
}

-- Below tables.NAME.
schema.table_fields = {
    { path = "type", c = "type", kind = "enum", values = schema.types,
      help = "what its values are; opening it otherwise is an error. json: functions see objects", example = '"int64"' },
    { path = "ack", c = "level", kind = "enum", values = schema.levels, help = "as the policy's ack, for this table", example = '"os"' },
    { path = "buffer.interval", c = "interval_ms", kind = "duration", unit = "ms", low = 1, high = U32,
      help = "buffered: logged so long after the first unlogged change. \"200ms\" if buffer does not say", example = '"200ms"' },
    { path = "buffer.entries", c = "entries", kind = "count", low = 0, high = U32,
      help = "or at so many unlogged entries; 0 = no bound", example = "5000" },
    { path = "buffer.bytes", c = "bytes", kind = "bytes", low = 0, high = U32,
      help = "or at so many bytes of unlogged values; 0 = no bound", example = '"512KiB"' },
    { path = "at_risk.time", c = "at_risk_ms", kind = "duration", unit = "ms", low = 0, high = U32,
      help = "buffered: no value stays unlogged for longer; 0 = no bound", example = '"1s"' },
    { path = "at_risk.entries", c = "at_risk_entries", kind = "count", low = 0, high = U32,
      help = "never more unlogged entries; 0 = no bound", example = "20000" },
    { path = "at_risk.bytes", c = "at_risk_bytes", kind = "bytes", low = 0, high = U32,
      help = "never more bytes of unlogged values; 0 = no bound", example = '"2MiB"' },
    { path = "resolve", c = "resolver", kind = "resolver", values = schema.resolvers,
      help = "who wins a conflict in this table: a name, or a function", example = '"max"' },
    { path = "flush", kind = "function", help = "as the policy's flush, for this table", example = "function(stats) ... end" },
}

-- ---- back to text ----------------------------------------------------------------------------------------------------------

local units = require "metasync.units"

local function name_of(values, number)
    for _, pair in ipairs(values) do
        if pair[2] == number then return pair[1] end
    end
    return nil
end

-- The number of a C field as a policy file would write it, without quotes: "200ms", "disk", "5000".
function schema.text(field, number)
    if field.kind == "duration" then return units.duration_text(field.unit == "ms" and number * 1000 or number) end
    if field.kind == "bytes" then return units.bytes_text(number) end
    if field.kind == "percent" then return ("%.0f%%"):format(number) end
    if field.kind == "flag" then return tostring(number ~= 0) end
    if field.kind == "resolver" and number == schema.RESOLVE_FUNCTION then return "function" end
    if field.values then return name_of(field.values, number) or "default" end
    return ("%.0f"):format(number)
end

-- Everything that a policy says, one { path, text } a line. numbers, tables: by the names of C fields, as check.read gives them.
function schema.show(numbers, tables)
    local lines = {}
    for _, field in ipairs(schema.fields) do
        if field.c then table.insert(lines, { field.path, schema.text(field, numbers[field.c]) }) end
    end
    for _, entry in ipairs(tables) do
        for _, field in ipairs(schema.table_fields) do
            local number = field.c and entry.numbers[field.c] or 0
            if number ~= 0 then table.insert(lines, { "tables." .. entry.name .. "." .. field.path, schema.text(field, number) }) end
        end
    end
    return lines
end

return schema
