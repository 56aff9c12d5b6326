-- drive/auth: the handshake, without a socket: what one side says is given to the other.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi
local bit = require "bit"

local SECRET = "sixteen bytes or more"
local kept = {} -- strings that the machines borrow

local function side(is_client, options)
    local self = { auth = ffi.new("struct ms_auth"), options = options or {} }
    local nonce = ffi.new("uint8_t[?]", C.MS_AUTH_NONCE)
    if self.options.nonce then ffi.fill(nonce, C.MS_AUTH_NONCE, self.options.nonce) else ms.check(C.ms_auth_nonce(nonce)) end
    self.cluster = self.options.cluster or "prod"
    local secret = self.options.secret
    if secret == nil then secret = SECRET end
    self.secret = secret or nil
    kept[#kept + 1] = self
    self.rc = C.ms_auth_init(self.auth, self.secret, self.cluster, is_client, nonce)
    return self
end

-- Cuts a string of frames into { type, payload } pairs.
local function frames_of(text)
    local frames, at = {}, 0
    while at < #text do
        local bytes, frame = text:sub(at + 1, at + C.MS_FRAME_HEADER), ffi.new("struct ms_frame")
        assert.equal(0, C.ms_frame_open(ffi.cast("const uint8_t *", bytes), 0, frame))
        local payload = text:sub(at + C.MS_FRAME_HEADER + 1, at + C.MS_FRAME_HEADER + frame.size)
        assert.equal(0, C.ms_frame_check(ffi.cast("const uint8_t *", bytes), frame, ms.bytes(payload)))
        frames[#frames + 1] = { frame.type, payload }
        at = at + C.MS_FRAME_HEADER + frame.size
    end
    return frames
end

local function greeting(self)
    local buf = ms.buf()
    C.ms_auth_greeting(self.auth, buf)
    local frames = frames_of(ms.buf_str(buf))
    assert.equal(1, #frames)
    return frames[1]
end

-- Gives a frame to a side; its result and the frames that it answers.
local function give(self, frame)
    local buf = ms.buf()
    local rc = C.ms_auth_frame(self.auth, frame[1], ms.bytes(frame[2]), buf)
    return rc, frames_of(ms.buf_str(buf))
end

local function bye_of(frames)
    assert.equal(1, #frames)
    assert.equal(C.MS_FRAME_BYE, frames[1][1])
    local message = ffi.gc(ffi.new("struct ms_message"), C.ms_message_close)
    C.ms_message_init(message)
    assert.equal(0, C.ms_message_decode(C.MS_FRAME_BYE, ms.bytes(frames[1][2]), message))
    return -tonumber(message.code), ms.str(message.text)
end

-- Runs a handshake until both sides have a result; returns the two results and all frames that passed.
local function shake(client, listener)
    local queue = { { listener, greeting(client) }, { client, greeting(listener) } }
    local result, passed = {}, {}
    while #queue > 0 do
        local to, frame = unpack(table.remove(queue, 1))
        passed[#passed + 1] = frame
        if not result[to] then
            local rc, answers = give(to, frame)
            if rc ~= C.MS_AUTH_MORE then result[to] = rc end
            for _, answer in ipairs(answers) do queue[#queue + 1] = { to == client and listener or client, answer } end
        end
    end
    return result[client], result[listener], passed
end

describe("the handshake", function()
    it("succeeds with the same secret: the client proves first, then the listener", function()
        local client, listener = side(true), side(false)
        assert.equal(C.MS_AUTH_MORE, (give(listener, greeting(client))))
        local rc, answers = give(client, greeting(listener))
        assert.equal(C.MS_AUTH_MORE, rc)
        assert.equal(C.MS_FRAME_PROOF, answers[1][1])
        local proof = answers[1]
        rc, answers = give(listener, proof)
        assert.equal(C.MS_AUTH_DONE, rc)
        assert.equal(C.MS_FRAME_PROOF, answers[1][1])
        assert.are_not.equal(proof[2], answers[1][2])
        assert.equal(C.MS_AUTH_DONE, (give(client, answers[1])))
    end)

    it("without secrets is over with the greetings", function()
        local one, two, passed = shake(side(true, { secret = false }), side(false, { secret = false }))
        assert.same({ C.MS_AUTH_DONE, C.MS_AUTH_DONE, 2 }, { one, two, #passed })
    end)

    it("makes other proofs each time", function()
        local seen = {}
        for _ = 1, 3 do
            local _, _, passed = shake(side(true), side(false))
            for _, frame in ipairs(passed) do
                assert.is_nil(seen[frame[2]])
                seen[frame[2]] = true
            end
        end
    end)

    it("is HMAC-SHA256 over context, side and both greetings", function()
        local client, listener = side(true, { nonce = 1 }), side(false, { nonce = 2 })
        local own, peer = greeting(client)[2], greeting(listener)[2]
        local _, answers = give(client, greeting(listener))
        local function sized(text) return string.char(#text, 0, 0, 0) .. text end
        local path = ms.tmpdir() .. "/text"
        ms.write_file(path, "metasync-1C" .. sized(own) .. sized(peer))
        local command = "openssl dgst -sha256 -mac HMAC -macopt key:'%s' -binary %s | od -An -v -tx1 | tr -d ' \\n'"
        local output, status = ms.sh(command:format(SECRET, path))
        assert.equal(0, status)
        assert.equal(output, (answers[1][2]:gsub(".", function(c) return ("%02x"):format(c:byte()) end)))
    end)

    local function refused(client_options, listener_options, code, word)
        local client, listener = side(true, client_options), side(false, listener_options)
        local one, two, passed = shake(client, listener)
        assert.same({ code, code }, { one, two })
        local bye_code, text = bye_of { passed[#passed] }
        assert.equal(code, bye_code)
        assert.matches(word, text, 1, true)
    end

    it("refuses another secret, on both sides", function()
        refused({}, { secret = SECRET .. "x" }, C.MS_E_AUTH, "different secrets")
    end)

    it("refuses a secret on one side only, and says which side", function()
        refused({ secret = false }, {}, C.MS_E_AUTH, "the listening node has a secret, the connecting node has none")
        refused({}, { secret = false }, C.MS_E_AUTH, "the connecting node has a secret, the listening node has none")
    end)

    it("refuses another cluster, and names both", function()
        refused({ cluster = "blue" }, { cluster = "green" }, C.MS_E_CLUSTER, "blue")
        refused({ cluster = "blue", secret = false }, { cluster = "green", secret = false }, C.MS_E_CLUSTER, "green")
    end)

    it("refuses its own words: a reflected greeting, a reflected proof", function()
        for _, is_client in ipairs { true, false } do
            local self = side(is_client)
            local rc, answers = give(self, greeting(self))
            assert.equal(C.MS_E_AUTH, rc)
            assert.equal(C.MS_E_AUTH, (bye_of(answers)))
        end
        local client, listener = side(true), side(false)
        local _, answers = give(client, greeting(listener))
        assert.equal(C.MS_E_AUTH, (give(client, answers[1])))
    end)

    it("refuses a proof of another link", function()
        local _, _, passed = shake(side(true), side(false))
        local old
        for _, frame in ipairs(passed) do if frame[1] == C.MS_FRAME_PROOF then old = old or frame end end
        local client, listener = side(true), side(false)
        give(listener, greeting(client))
        assert.equal(C.MS_E_AUTH, (give(listener, old)))
    end)

    it("gives no proof away before the client has proved", function()
        local client, listener = side(true), side(false)
        local _, answers = give(listener, greeting(client))
        assert.equal(0, #answers)
        local rc
        rc, answers = give(listener, { C.MS_FRAME_PROOF, ("\0"):rep(32) })
        assert.equal(C.MS_E_AUTH, rc)
        bye_of(answers)
    end)

    it("notices any change of a greeting or a proof on the way", function()
        local client_text = greeting(side(true, { nonce = 3 }))[2]
        for at = 1, #client_text do
            for b = 0, 7 do
                local client, listener = side(true, { nonce = 3 }), side(false)
                local changed = client_text:sub(1, at - 1) .. string.char(bit.bxor(client_text:byte(at), 2 ^ b)) .. client_text:sub(at + 1)
                local rc = give(listener, { C.MS_FRAME_GREETING, changed })
                if rc == C.MS_AUTH_MORE then
                    local _, answers = give(client, greeting(listener))
                    rc = give(listener, answers[1])
                end
                assert.is_true(rc < 0, ("byte %d bit %d: %d"):format(at, b, rc))
            end
        end
        for at = 1, 32 do
            local client, listener = side(true), side(false)
            give(listener, greeting(client))
            local _, answers = give(client, greeting(listener))
            local proof = answers[1][2]
            local changed = proof:sub(1, at - 1) .. string.char(bit.bxor(proof:byte(at), 1)) .. proof:sub(at + 1)
            assert.equal(C.MS_E_AUTH, (give(listener, { C.MS_FRAME_PROOF, changed })))
        end
    end)

    it("refuses what is out of turn or no part of it", function()
        local cases = {
            { C.MS_FRAME_PROOF, ("\0"):rep(32) }, { C.MS_FRAME_HELLO, "" }, { C.MS_FRAME_GROUP, "" }, { C.MS_FRAME_STATUS_REQUEST, "" },
            { 0x99, "" }, { C.MS_FRAME_GREETING, "" }, { C.MS_FRAME_GREETING, ("x"):rep(44) },
            { C.MS_FRAME_GREETING, greeting(side(true))[2]:sub(1, 43) }, { C.MS_FRAME_GREETING, greeting(side(true))[2] .. ("\60\0"):rep(250) },
        }
        for i, frame in ipairs(cases) do
            local listener = side(false)
            local rc, answers = give(listener, frame)
            assert.equal(C.MS_E_FORMAT, rc, "case " .. i)
            assert.equal(C.MS_E_FORMAT, (bye_of(answers)))
            assert.equal(C.MS_E_INVALID, (give(listener, greeting(side(true))))) -- it is over
        end
        local listener = side(false)
        give(listener, greeting(side(true)))
        assert.equal(C.MS_E_FORMAT, (give(listener, greeting(side(true)))))
        listener = side(false)
        give(listener, greeting(side(true)))
        assert.equal(C.MS_E_AUTH, (give(listener, { C.MS_FRAME_PROOF, "" })))
    end)

    it("ignores fields of later versions in a greeting, and refuses a version that it does not speak", function()
        local client, listener = side(true, { secret = false }), side(false, { secret = false })
        local text = greeting(client)[2]
        assert.equal(C.MS_AUTH_DONE, (give(listener, { C.MS_FRAME_GREETING, text .. "\60\3new" })))
        local function versions(newest, oldest) return text:sub(1, 8) .. string.char(newest, oldest) .. text:sub(11) end
        assert.equal(C.MS_AUTH_DONE, (give(side(false, { secret = false }), { C.MS_FRAME_GREETING, versions(7, 1) })))
        local rc, answers = give(side(false, { secret = false }), { C.MS_FRAME_GREETING, versions(7, 2) })
        assert.equal(C.MS_E_VERSION, rc)
        local _, why = bye_of(answers)
        assert.matches("versions 2 to 7 of the handshake, the other version 1", why, 1, true)
    end)

    it("ends with a peer's BYE, with its code and its words, and says nothing more", function()
        local function bye(code, text)
            local buf = ms.buf()
            C.ms_auth_bye(code, text, buf)
            return frames_of(ms.buf_str(buf))[1]
        end
        local rc, answers = give(side(true), bye(C.MS_E_LIMIT, "all links are taken"))
        assert.equal(C.MS_E_LIMIT, rc)
        assert.matches("refused by the peer: all links are taken", ms.err(), 1, true)
        assert.equal(0, #answers)
        assert.equal(C.MS_E_AUTH, (give(side(true), bye(-1000, "a code of the future"))))
        assert.equal(C.MS_E_AUTH, (give(side(true), { C.MS_FRAME_BYE, "" })))
        assert.equal(C.MS_E_FORMAT, (give(side(true), { C.MS_FRAME_BYE, "\48" })))
    end)

    it("takes no secret shorter than 16 bytes, no cluster longer than 63", function()
        assert.equal(C.MS_E_INVALID, side(true, { secret = "fifteen bytes.." }).rc)
        assert.equal(0, side(true, { secret = "sixteen bytes..." }).rc)
        assert.equal(C.MS_E_INVALID, side(true, { cluster = ("c"):rep(64) }).rc)
        assert.equal(0, side(true, { cluster = ("c"):rep(63) }).rc)
    end)

    it("survives every failed allocation", function()
        assert.is_true(ms.with_alloc_failures(function()
            local client, listener = side(true), side(false)
            if client.rc ~= 0 or listener.rc ~= 0 then return end
            local buf = ffi.new("struct ms_buf")
            C.ms_auth_greeting(client.auth, buf)
            local failed = buf.failed
            local text = ms.buf_str(buf)
            C.ms_buf_close(buf)
            if failed then return end
            local rc = C.ms_auth_frame(listener.auth, C.MS_FRAME_GREETING, ms.bytes(text:sub(C.MS_FRAME_HEADER + 1)), buf)
            assert.is_true(rc == C.MS_AUTH_MORE or rc == C.MS_E_MEMORY)
            rc = C.ms_auth_frame(listener.auth, C.MS_FRAME_PROOF, ms.bytes(("\0"):rep(32)), buf)
            assert.is_true(rc < 0)
            C.ms_buf_close(buf)
        end) >= 3)
    end)
end)
