-- Real processes, from LuaJIT: start, signal, wait for; free ports, scratch directories, time. A child dies with the process that
-- started it, however that one ends, so that a spec or a demo that is killed leaves nothing running.
local ffi = require "ffi"
local C = ffi.C

-- Names of their own (the C names behind __asm__), because other declarations of the same functions may be loaded already.
if not pcall(ffi.typeof, "struct process_time") then
    ffi.cdef [[
        struct process_time { int64_t seconds; long nanoseconds; };
        struct process_address { unsigned short family, port; unsigned char host[4]; char rest[8]; };
        int process_clock(int clock, struct process_time *now) __asm__("clock_gettime");
        int process_poll(void *fds, unsigned long count, int timeout_ms) __asm__("poll");
        char *process_mkdtemp(char *path) __asm__("mkdtemp");
        int process_fork(void) __asm__("fork");
        int process_prctl(int option, unsigned long value, unsigned long, unsigned long, unsigned long) __asm__("prctl");
        int process_execvp(const char *file, const char *const *argv) __asm__("execvp");
        void process_exit(int status) __asm__("_exit");
        int process_open(const char *path, int flags, int mode) __asm__("open64");
        int process_dup2(int from, int to) __asm__("dup2");
        int process_close(int fd) __asm__("close");
        int process_kill(int pid, int signal) __asm__("kill");
        int process_waitpid(int pid, int *status, int options) __asm__("waitpid");
        int process_socket(int family, int type, int protocol) __asm__("socket");
        int process_bind(int fd, const struct process_address *address, unsigned size) __asm__("bind");
        int process_setsockopt(int fd, int level, int name, const int *value, unsigned size) __asm__("setsockopt");
    ]]
end

local process = { SIGKILL = 9, SIGTERM = 15, SIGINT = 2, SIGHUP = 1, SIGSTOP = 19, SIGCONT = 18 }

-- ---- time ---------------------------------------------------------------------------------------------------------------

local function clock(id)
    local t = ffi.new("struct process_time[1]")
    C.process_clock(id, t)
    return tonumber(t[0].seconds), tonumber(t[0].nanoseconds)
end

-- Seconds, monotonic.
function process.now()
    local seconds, nanoseconds = clock(1)
    return seconds + nanoseconds / 1e9
end

-- Microseconds since 1970.
function process.real_us()
    local seconds, nanoseconds = clock(0)
    return seconds * 1000000 + math.floor(nanoseconds / 1000)
end

function process.pause(seconds)
    C.process_poll(nil, 0, math.ceil(seconds * 1000))
end

-- A slow machine sets MS_RUN_SECONDS to multiply all deadlines.
local SCALE = tonumber(os.getenv("MS_RUN_SECONDS")) or 1

-- Calls fn until it returns a true value, which is returned; after `seconds` raises an error with `what` and fn's second result. `pause`: so
-- many seconds between, for what costs something; else a few milliseconds, then more.
function process.eventually(what, fn, seconds, pause)
    local deadline = process.now() + (seconds or 10) * SCALE
    local wait = pause or 0.001
    while true do
        local result, detail = fn()
        if result then return result end
        if process.now() > deadline then
            error(("not within %g s: %s%s"):format(seconds or 10, what, detail ~= nil and " (" .. tostring(detail) .. ")" or ""), 2)
        end
        process.pause(wait)
        wait = pause or math.min(wait * 1.5, 0.05)
    end
end

-- ---- files --------------------------------------------------------------------------------------------------------------

function process.tmpdir(name)
    local template = ("%s/metasync-%s-XXXXXX"):format(os.getenv("TMPDIR") or "/tmp", name or "run")
    local path = ffi.new("char[?]", #template + 1, template)
    assert(C.process_mkdtemp(path) ~= nil, "cannot make " .. template)
    return ffi.string(path)
end

function process.read(path)
    local file = io.open(path, "rb")
    if not file then return nil end
    local text = file:read("*a")
    file:close()
    return text
end

function process.exists(path)
    local file = io.open(path, "rb")
    if file then file:close() end
    return file ~= nil
end

function process.write(path, text)
    local file = assert(io.open(path, "wb"))
    assert(file:write(text))
    assert(file:close())
end

function process.quote(text)
    return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end

-- Runs a program to its end: standard output, exit status, standard error. `input` becomes its standard input.
function process.run(argv, input)
    local words = {}
    for i, word in ipairs(argv) do words[i] = process.quote(word) end
    local err, given = os.tmpname(), input and os.tmpname()
    if input then process.write(given, input) end
    local pipe = assert(io.popen(("%s 2>%s <%s; echo \"status=$?\""):format(table.concat(words, " "), err, given or "/dev/null")))
    local text = pipe:read("*a")
    pipe:close()
    local errors = process.read(err)
    os.remove(err)
    if given then os.remove(given) end
    local output, status = text:match("^(.*)status=(%d+)\n$")
    return output, tonumber(status), errors
end

-- ---- processes ----------------------------------------------------------------------------------------------------------

local Process = {}
Process.__index = Process

-- Starts argv[1] with output and errors appended to the file `log`.
function process.start(argv, log)
    local list = ffi.new("const char *[?]", #argv + 1)
    for i, word in ipairs(argv) do list[i - 1] = word end
    local pid = C.process_fork()
    assert(pid >= 0, "fork failed")
    if pid == 0 then
        C.process_prctl(1, process.SIGKILL, 0, 0, 0) -- PR_SET_PDEATHSIG
        local null, out = C.process_open("/dev/null", 0, 0), C.process_open(log, 0x441, 420) -- O_WRONLY|O_CREAT|O_APPEND, 0644
        C.process_dup2(null, 0)
        C.process_dup2(out, 1)
        C.process_dup2(out, 2)
        for fd = 3, 255 do C.process_close(fd) end
        C.process_execvp(argv[1], list)
        C.process_exit(127)
    end
    return setmetatable({ pid = pid }, Process)
end

-- Builds spec/support/NAME.c into `dir`. Words to put in front of a command, so that it is loaded before everything else.
function process.preload(name, dir)
    local library = ("%s/%s.so"):format(dir, name)
    local compile = "gcc -std=gnu11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -shared -fPIC spec/support/%s.c -o %s -ldl"
    assert(os.execute(compile:format(name, process.quote(library))) == 0, "gcc failed")
    -- AddressSanitizer wants to be the first library unless told otherwise.
    return { "env", "LD_PRELOAD=" .. library, "ASAN_OPTIONS=verify_asan_link_order=0" }
end

-- Reaps it if it has ended. Then `code` is its exit status, or nil and `signal` what killed it.
function Process:alive()
    if self.ended then return false end
    local status = ffi.new("int[1]")
    if C.process_waitpid(self.pid, status, 1) ~= self.pid then return true end -- WNOHANG
    self.ended = true
    local signal = status[0] % 128
    if signal == 0 then self.code = math.floor(status[0] / 256) else self.signal = signal end
    return false
end

function Process:kill(signal)
    if self:alive() then C.process_kill(self.pid, signal or process.SIGKILL) end
end

-- Waits for its end; raises an error after `seconds`. Returns exit status, signal.
function Process:wait(seconds)
    process.eventually("process " .. self.pid .. " ends", function() return not self:alive() end, seconds or 10)
    return self.code, self.signal
end

-- SIGKILL, and waits.
function Process:destroy()
    self:kill(process.SIGKILL)
    return self:wait(10)
end

-- Resident memory now and at its highest, bytes.
function Process:memory()
    local text = process.read(("/proc/%d/status"):format(self.pid)) or ""
    local function field(name) return (tonumber(text:match(name .. ":%s*(%d+) kB")) or 0) * 1024 end
    return field("VmRSS"), field("VmHWM")
end

-- ---- ports --------------------------------------------------------------------------------------------------------------

local function can_bind(port)
    local fd = C.process_socket(2, 1, 0)
    local one = ffi.new("int[1]", 1)
    C.process_setsockopt(fd, 1, 2, one, 4) -- SO_REUSEADDR
    local address = ffi.new("struct process_address", { family = 2, host = { 127, 0, 0, 1 } })
    address.port = math.floor(port / 256) + port % 256 * 256
    local rc = C.process_bind(fd, address, ffi.sizeof(address))
    C.process_close(fd)
    return rc == 0
end

local seeded, given = false, {}

-- A TCP port of 127.0.0.1 that nobody has now. Below the range from which the kernel gives ports to outgoing connections.
function process.free_port()
    if not seeded then
        local seconds, nanoseconds = clock(1)
        math.randomseed(seconds * 1000 + nanoseconds)
        seeded = true
    end
    for _ = 1, 1000 do
        local port = math.random(15000, 32000)
        if not given[port] and can_bind(port) then
            given[port] = true
            return port
        end
    end
    error("no free port")
end

-- A port p such that p and p + each of these are free.
function process.free_block(offsets)
    for _ = 1, 1000 do
        local port, free = process.free_port(), true
        for _, offset in ipairs(offsets) do free = free and not given[port + offset] and can_bind(port + offset) end
        if free then
            for _, offset in ipairs(offsets) do given[port + offset] = true end
            return port
        end
    end
    error("no free ports")
end

return process
