-- A TCP proxy on 127.0.0.1 between two nodes, in a process of its own: a network that a spec takes to pieces.
--
--     local link = proxy.start(dir, port)     what connects to link.port gets to `port`
--     link:cut()                              connections are reset, new ones refused
--     link:hold()                             nothing moves and nobody is told: a half-open connection
--     link:delay(80)                          what is read from now on is passed on so many milliseconds later
--     link:every(5000)                        each new connection is reset after so many bytes, inside of whatever they are
--     link:pass()                             all as it should be; what was held back arrives now
--     link:counts().connections               also: bytes, resets
local ffi = require "ffi"
local process = require "spec.support.process"
local C = ffi.C

if not pcall(ffi.typeof, "struct proxy_address") then
    ffi.cdef [[
        struct proxy_address { unsigned short family, port; unsigned char host[4]; char rest[8]; };
        struct proxy_poll { int fd; short events, revents; };
        int proxy_socket(int family, int type, int protocol) __asm__("socket");
        int proxy_bind(int fd, const struct proxy_address *address, unsigned size) __asm__("bind");
        int proxy_listen(int fd, int backlog) __asm__("listen");
        int proxy_accept(int fd, void *address, void *size, int flags) __asm__("accept4");
        int proxy_connect(int fd, const struct proxy_address *address, unsigned size) __asm__("connect");
        int proxy_option(int fd, int level, int name, const int *value, unsigned size) __asm__("setsockopt");
        int proxy_poll_all(struct proxy_poll *fds, unsigned long count, int timeout_ms) __asm__("poll");
        long proxy_send(int fd, const void *data, unsigned long size, int flags) __asm__("send");
        long proxy_receive(int fd, void *data, unsigned long size, int flags) __asm__("recv");
        int proxy_close(int fd) __asm__("close");
    ]]
end

local POLLIN, POLLOUT, DONTWAIT_NOSIGNAL, CLOEXEC, EAGAIN = 1, 4, 0x4040, 0x80000, 11
local ROOM, QUEUE_MAX = 65536, 1048576

-- ---- sockets ----------------------------------------------------------------------------------------------------------------

local function address_of(port)
    local address = ffi.new("struct proxy_address", { family = 2, host = { 127, 0, 0, 1 } })
    address.port = math.floor(port / 256) + port % 256 * 256
    return address, ffi.sizeof(address)
end

local function option(fd, level, name, first, second)
    C.proxy_option(fd, level, name, ffi.new("int[2]", first, second or 0), second and 8 or 4)
end

local function new_socket()
    return C.proxy_socket(2, 1 + CLOEXEC, 0) -- AF_INET, SOCK_STREAM
end

local function listen(port)
    local fd = new_socket()
    option(fd, 1, 2, 1) -- SO_REUSEADDR
    assert(C.proxy_bind(fd, address_of(port)) == 0 and C.proxy_listen(fd, 64) == 0, "cannot listen on port " .. port)
    return fd
end

-- nil if nobody listens there.
local function connect(port)
    local fd = new_socket()
    option(fd, 6, 1, 1) -- TCP_NODELAY
    if C.proxy_connect(fd, address_of(port)) == 0 then return fd end
    C.proxy_close(fd)
end

local function reset(fd)
    option(fd, 1, 13, 1, 0) -- SO_LINGER of no time: a reset, not an end
    C.proxy_close(fd)
end

-- ---- the proxy's own process --------------------------------------------------------------------------------------------------

local Proxy = {}
Proxy.__index = Proxy

local room = ffi.new("char[?]", ROOM)

-- An end of a connection: what it is still to be sent is in its queue, { at, text } each.
local function new_end(fd)
    return { fd = fd, queue = {}, queued = 0 }
end

function Proxy:accept()
    local fd = C.proxy_accept(self.listener, nil, nil, CLOEXEC)
    if fd < 0 then return end
    local other = connect(self.target)
    if not other then return reset(fd) end
    option(fd, 6, 1, 1)
    self.connections = self.connections + 1
    local pair = { new_end(fd), new_end(other), left = self.limit or math.huge }
    self.pairs[pair] = true
end

function Proxy:drop(pair)
    if not self.pairs[pair] then return end
    self.pairs[pair] = nil
    self.resets = self.resets + 1
    reset(pair[1].fd)
    reset(pair[2].fd)
end

function Proxy:read(pair, from, to)
    local got = tonumber(C.proxy_receive(from.fd, room, math.min(ROOM, pair.left), DONTWAIT_NOSIGNAL))
    if got < 0 and ffi.errno() == EAGAIN then return end
    if got <= 0 then return self:drop(pair) end
    to.queue[#to.queue + 1] = { at = process.now() + self.late, text = ffi.string(room, got) }
    to.queued = to.queued + got
    pair.left = pair.left - got
end

function Proxy:write(pair, to)
    local first = to.queue[1]
    while first and first.at <= process.now() do
        local put = tonumber(C.proxy_send(to.fd, first.text, #first.text, DONTWAIT_NOSIGNAL))
        if put < 0 then return ffi.errno() ~= EAGAIN and self:drop(pair) end
        self.bytes, to.queued = self.bytes + put, to.queued - put
        first.text = first.text:sub(put + 1)
        if #first.text > 0 then return end
        table.remove(to.queue, 1)
        first = to.queue[1]
    end
    if pair.left <= 0 and pair[1].queued + pair[2].queued == 0 then self:drop(pair) end
end

local COMMANDS = {}

function COMMANDS.pass(self)
    self.held, self.late, self.limit = false, 0, nil
    self.listener = self.listener or listen(self.port)
end

function COMMANDS.cut(self)
    if self.listener then C.proxy_close(self.listener) end
    self.listener = nil
    for pair in pairs(self.pairs) do self:drop(pair) end
end

function COMMANDS.hold(self)
    self.held = true
end

function COMMANDS.delay(self, ms)
    self.late = ms / 1000
end

function COMMANDS.every(self, bytes)
    self.limit = bytes
    for pair in pairs(self.pairs) do self:drop(pair) end
end

function COMMANDS.counts()
end

-- A line of the control connection; false when that has ended, and with it this process.
function Proxy:obey()
    local got = tonumber(C.proxy_receive(self.control, room, ROOM, 0))
    if got <= 0 then return false end
    local name, number = ffi.string(room, got):match("^(%a+) ?(%d*)\n$")
    COMMANDS[name](self, tonumber(number))
    local answer = ("%d %d %d\n"):format(self.connections, self.bytes, self.resets)
    return tonumber(C.proxy_send(self.control, answer, #answer, 0x4000)) == #answer
end

-- What there is to wait for: a list of { fd, events, what to do }, and for how long.
function Proxy:waits()
    local list = { { self.control, POLLIN } }
    local soonest = math.huge
    if self.held then return list, -1 end
    if self.listener then list[2] = { self.listener, POLLIN, function() self:accept() end } end
    for pair in pairs(self.pairs) do
        for i = 1, 2 do
            local one, other = pair[i], pair[3 - i]
            local due = one.queue[1] and one.queue[1].at <= process.now()
            if one.queue[1] and not due then soonest = math.min(soonest, one.queue[1].at) end
            if other.queued < QUEUE_MAX and pair.left > 0 then
                list[#list + 1] = { one.fd, POLLIN, function() self:read(pair, one, other) end }
            end
            if due then list[#list + 1] = { one.fd, POLLOUT, function() self:write(pair, one) end } end
        end
    end
    return list, soonest == math.huge and -1 or math.max(1, math.ceil((soonest - process.now()) * 1000))
end

function Proxy:turn()
    local list, timeout = self:waits()
    local fds = ffi.new("struct proxy_poll[?]", #list)
    for i, wait in ipairs(list) do fds[i - 1].fd, fds[i - 1].events = wait[1], wait[2] end
    C.proxy_poll_all(fds, #list, timeout)
    if fds[0].revents ~= 0 then return self:obey() end -- the list may be old after it
    local begun = self.resets
    for i = 2, #list do
        -- a dropped pair's descriptors may be another's by now
        if fds[i - 1].revents ~= 0 and self.resets == begun then list[i][3]() end
    end
    return true
end

local function serve(port, control, target)
    local self = setmetatable({ port = port, target = target, pairs = {}, connections = 0, bytes = 0, resets = 0, held = false, late = 0 }, Proxy)
    local once = listen(control)
    self.listener = listen(port)
    self.control = C.proxy_accept(once, nil, nil, CLOEXEC)
    repeat until not self:turn()
end

if arg and arg[0] and arg[0]:match("proxy%.lua$") then return serve(tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])) end

-- ---- in the spec ----------------------------------------------------------------------------------------------------------------

local Link = {}
Link.__index = Link

local function ask(self, line)
    line = line .. "\n"
    assert(tonumber(C.proxy_send(self.fd, line, #line, 0x4000)) == #line, "the proxy has ended")
    local got = tonumber(C.proxy_receive(self.fd, room, ROOM, 0))
    assert(got > 0, "the proxy has ended")
    local connections, bytes, resets = ffi.string(room, got):match("^(%d+) (%d+) (%d+)\n$")
    return { connections = tonumber(connections), bytes = tonumber(bytes), resets = tonumber(resets) }
end

for name in pairs(COMMANDS) do
    Link[name] = function(self, number) return ask(self, number and name .. " " .. number or name) end
end

function Link:close()
    if self.fd then C.proxy_close(self.fd) end
    self.fd = nil
    self.process:destroy()
end

local proxy = {}

-- Its log is in `dir`.
function proxy.start(dir, target)
    local link = setmetatable({ port = process.free_port() }, Link)
    local control = process.free_port()
    local log = ("%s/proxy-%d.log"):format(dir, link.port)
    link.process = process.start({ "luajit", "spec/support/proxy.lua", tostring(link.port), tostring(control), tostring(target) }, log)
    process.eventually("the proxy listens", function()
        assert(link.process:alive(), process.read(log))
        link.fd = connect(control)
        return link.fd
    end)
    return link
end

return proxy
