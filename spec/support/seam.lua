-- Verbs over a `struct ms_fs *` for specs, so that a file operation is one line:
--
--     local disk = seam.new(C.ms_fs_posix())
--     disk:put("/tmp/x/a", "text")          -- create, write, sync; not the directory
--     assert.equal("text", disk:get "/tmp/x/a")
--
-- Verbs raise an error with the library's message. The same verb with "try_" in front returns code and message instead:
-- disk:try_rename(a, b) --> MS_E_NOT_FOUND, "rename ...".
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local seam = {}
local verbs = {}

local modes = { r = C.MS_FS_READ, w = C.MS_FS_WRITE, c = C.MS_FS_CREATE, s = C.MS_FS_STREAM }

function verbs.open(fs, path, mode)
    local out = ffi.new "struct ms_file *[1]"
    local rc = fs.ops.open(fs, path, modes[mode], out)
    return rc, out[0]
end

function verbs.lock(fs, path)
    local out = ffi.new "struct ms_file *[1]"
    local rc = fs.ops.lock(fs, path, out)
    return rc, out[0]
end

function verbs.size(fs, file)
    local out = ffi.new "uint64_t[1]"
    return fs.ops.size(fs, file, out), tonumber(out[0])
end

function verbs.read(fs, file, offset, size)
    local got, room = ffi.new "size_t[1]", ffi.new("char[?]", size + 1)
    local rc = fs.ops.read(fs, file, offset, room, size, got)
    return rc, ffi.string(room, got[0])
end

-- One call of ops.write with the strings as parts; returns how much was put.
function verbs.write(fs, file, offset, ...)
    local texts, put = { ... }, ffi.new "size_t[1]"
    local parts = ffi.new("struct ms_bytes[?]", #texts + 1)
    for n, text in ipairs(texts) do parts[n - 1].data, parts[n - 1].size = ffi.cast("const char *", text), #text end
    local rc = fs.ops.write(fs, file, offset, parts, #texts, put)
    return rc, tonumber(put[0])
end

function verbs.write_all(fs, file, offset, text) return C.ms_fs_write_all(fs, file, offset, text, #text) end
function verbs.truncate(fs, file, size) return fs.ops.truncate(fs, file, size) end
function verbs.reserve(fs, file, size) return fs.ops.reserve(fs, file, size) end
function verbs.sync(fs, file) return fs.ops.sync(fs, file) end
function verbs.rename(fs, from, to) return fs.ops.rename(fs, from, to) end
function verbs.remove(fs, path) return fs.ops.remove(fs, path) end
function verbs.mkdir(fs, path) return fs.ops.mkdir(fs, path) end
function verbs.sync_dir(fs, path) return fs.ops.sync_dir(fs, path) end

-- Names of a directory, sorted. fn(name), if given, is called for each; its number (default 0) is what the C function
-- returns.
function verbs.list(fs, path, fn)
    local names = {}
    local rc = ms.with_callback("int (*)(void *, const char *)", function(_, name)
        names[#names + 1] = ffi.string(name)
        return fn and fn(ffi.string(name)) or 0
    end, function(callback) return fs.ops.list(fs, path, callback, nil) end)
    table.sort(names)
    return rc, names
end

-- The whole content of a file.
function verbs.get(fs, path)
    local buf = ms.buf()
    return C.ms_fs_read_file(fs, path, 64 * 1024 * 1024, buf), ms.buf_str(buf)
end

local function put(fs, path, text, sync)
    local rc, file = verbs.open(fs, path, "c")
    if rc ~= 0 then return rc end
    rc = verbs.write_all(fs, file, 0, text)
    if rc == 0 and sync then rc = verbs.sync(fs, file) end
    fs.ops.close(fs, file)
    return rc
end

-- A new or emptied file with this content, synced or not. Its name is not synced.
function verbs.put(fs, path, text) return put(fs, path, text, true) end
function verbs.put_unsynced(fs, path, text) return put(fs, path, text, false) end

local Disk = {}
Disk.__index = Disk

for name, verb in pairs(verbs) do
    Disk[name] = function(self, ...)
        local rc, result = verb(self.fs, ...)
        if rc < 0 then error(("%s %s: %s"):format(name, tostring((...)), ms.err()), 2) end
        return result == nil and rc or result
    end
    Disk["try_" .. name] = function(self, ...)
        local rc, result = verb(self.fs, ...)
        if rc < 0 then return rc, ms.err() end
        return rc, result
    end
end

function Disk:close(file) self.fs.ops.close(self.fs, file) end

function Disk:exists(path)
    local rc, file = verbs.open(self.fs, path, "r")
    if rc == 0 then self:close(file) end
    return rc == 0
end

function seam.new(fs) return setmetatable({ fs = fs }, Disk) end

return seam
