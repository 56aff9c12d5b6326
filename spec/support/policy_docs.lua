-- Makes the reference in docs/policy.md anew from lua/metasync/schema.lua and the defaults in C:
--
--     luajit spec/support/policy_docs.lua            writes the document (make docs)
--     require "spec.support.policy_docs".fresh(text)  what a document should be
local docs = {}

function docs.fresh(document)
    local ms = require "spec.support.ms"
    local schema = dofile("spec/support/schema.lua")
    local policy, defaults = ms.ffi.new("struct ms_policy[1]"), {}
    ms.C.ms_policy_init(policy)
    for _, field in ipairs(schema.fields) do
        if field.c then defaults[field.c] = tonumber(policy[0][field.c]) end
    end
    return require("metasync.reference").replace(document, defaults)
end

docs.path = "docs/policy.md"

if arg and arg[0] and arg[0]:match("policy_docs%.lua$") then
    local ms = require "spec.support.ms"
    local fresh, missing = docs.fresh(ms.read_file(docs.path))
    if not fresh then
        io.stderr:write(docs.path, " lacks ", missing, "\n")
        os.exit(1)
    end
    ms.write_file(docs.path, fresh)
end

return docs
