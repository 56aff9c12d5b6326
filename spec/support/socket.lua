-- A client of the control socket that can have several requests on their way: lines of JSON out, lines of JSON in.
local ffi = require "ffi"
local json = require "spec.support.json"
local C = ffi.C

if not pcall(ffi.typeof, "struct socket_path") then
    ffi.cdef [[
        struct socket_path { unsigned short family; char path[108]; };
        struct socket_poll { int fd; short events, revents; };
        int socket_new(int family, int type, int protocol) __asm__("socket");
        int socket_connect(int fd, const struct socket_path *address, unsigned size) __asm__("connect");
        int socket_poll_all(struct socket_poll *fds, unsigned long count, int timeout_ms) __asm__("poll");
        long socket_send(int fd, const void *data, unsigned long size, int flags) __asm__("send");
        long socket_receive(int fd, void *data, unsigned long size, int flags) __asm__("recv");
        int socket_close(int fd) __asm__("close");
    ]]
end

local Socket = {}
Socket.__index = Socket

local ROOM = 65536
local POLLIN, POLLOUT, MSG_NOSIGNAL, MSG_DONTWAIT = 1, 4, 0x4000, 0x40

-- nil and a reason if nobody listens there.
function Socket.connect(path)
    local fd = C.socket_new(1, 1 + 0x80000, 0) -- AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC
    local address = ffi.new("struct socket_path")
    address.family = 1
    ffi.copy(address.path, path)
    if C.socket_connect(fd, address, ffi.sizeof(address)) ~= 0 then
        C.socket_close(fd)
        return nil, path .. ": nobody listens there"
    end
    return setmetatable({ fd = fd, room = ffi.new("char[?]", ROOM), text = "" }, Socket)
end

local function ready(fd, events, timeout_ms)
    local poll = ffi.new("struct socket_poll[1]", { { fd = fd, events = events } })
    return C.socket_poll_all(poll, 1, timeout_ms) > 0
end

-- false if the other end is gone.
function Socket:send(request)
    local line = (type(request) == "string" and request or json.encode(request)) .. "\n"
    local at = 0
    while at < #line do
        local put = tonumber(C.socket_send(self.fd, ffi.cast("const char *", line) + at, #line - at, MSG_NOSIGNAL + MSG_DONTWAIT))
        if put > 0 then
            at = at + put
        elseif ffi.errno() ~= 11 or not ready(self.fd, POLLOUT, 10000) then -- EAGAIN
            return false
        end
    end
    return true
end

-- The next reply, decoded; nil and "timeout" or "closed".
function Socket:receive(timeout_ms)
    while true do
        local line, rest = self.text:match("^([^\n]*)\n(.*)$")
        if line then
            self.text = rest
            return json.decode(line)
        end
        if not ready(self.fd, POLLIN, timeout_ms) then return nil, "timeout" end
        local got = tonumber(C.socket_receive(self.fd, self.room, ROOM, 0))
        if got <= 0 then return nil, "closed" end
        self.text = self.text .. ffi.string(self.room, got)
    end
end

function Socket:close()
    if self.fd then C.socket_close(self.fd) end
    self.fd = nil
end

return Socket
