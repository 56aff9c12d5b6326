-- base/error: codes have stable numbers and texts; the message is per thread, bounded, and grows context at its front.
local ms = require "spec.support.ms"
local C, ffi = ms.C, ms.ffi

local function message() return ms.err() end

describe("error codes", function()
    it("have the numbers that the ABI promises, without gaps, and each has its own text", function()
        local texts = {}
        for code = -30, -1 do
            local text = ffi.string(C.ms_error_text(code))
            assert.not_equal("unknown error", text)
            assert.is_nil(texts[text], "two codes say: " .. text)
            texts[text] = code
        end
        assert.equal("unknown error", ffi.string(C.ms_error_text(-10000)))
        assert.equal("ok", ffi.string(C.ms_error_text(0)))
        assert.equal("not logged, by policy", ffi.string(C.ms_error_text(C.MS_LOCAL)))
        -- Spot checks of numbers: programs that were built against an older header rely on them.
        assert.equal(-1, C.MS_E_MEMORY)
        assert.equal(-10, C.MS_E_UNKNOWN)
        assert.equal(-14, C.MS_E_DAMAGED)
        assert.equal(-29, C.MS_E_LESS_HISTORY)
        assert.equal(-30, C.MS_E_AGAIN)
        assert.equal("leader_has_less_history", texts["leader_has_less_history"] and ms.code(-29))
    end)
end)

describe("the message", function()
    before_each(function() C.ms_fail_clear() end)

    it("is formatted once and comes with the code as result", function()
        assert.equal(C.MS_E_IO, C.ms_fail(C.MS_E_IO, "%s: byte %d", "seg-1", ffi.cast("int", 17)))
        assert.equal("seg-1: byte 17", message())
    end)

    it("is empty before any failure; then ms_fail_message falls back on the code's text", function()
        assert.equal("", message())
        assert.equal("out of memory", ffi.string(C.ms_fail_message(C.MS_E_MEMORY)))
        C.ms_fail(C.MS_E_IO, "disk on fire")
        assert.equal("disk on fire", ffi.string(C.ms_fail_message(C.MS_E_MEMORY)))
    end)

    it("gets the caller's context in front, again and again", function()
        C.ms_fail(C.MS_E_FORMAT, "no magic at 4096")
        assert.equal(C.MS_E_DAMAGED, C.ms_fail_wrap(C.MS_E_DAMAGED, "segment %d", ffi.cast("int", 3)))
        C.ms_fail_wrap(C.MS_E_DAMAGED, "open node")
        assert.equal("open node: segment 3: no magic at 4096", message())
    end)

    it("gets the code's text behind the context when there was no message", function()
        C.ms_fail_wrap(C.MS_E_TIMEOUT, "wait for lsn 5")
        assert.equal("wait for lsn 5: timed out", message())
    end)

    it("is cut at its size, and never written past it", function()
        local long = ("x"):rep(1000)
        C.ms_fail(C.MS_E_IO, "%s", ffi.cast("const char *", long))
        assert.equal(("x"):rep(C.MS_ERROR_SIZE - 1), message())
        C.ms_fail_wrap(C.MS_E_IO, "context")
        assert.equal("context: " .. ("x"):rep(C.MS_ERROR_SIZE - 1 - #"context: "), message())
        C.ms_fail(C.MS_E_IO, "cause")
        C.ms_fail_wrap(C.MS_E_IO, "%s", ffi.cast("const char *", long))
        assert.equal(("x"):rep(C.MS_ERROR_SIZE - 1), message())
    end)

    it("is text, not a format, when it is wrapped", function()
        C.ms_fail(C.MS_E_IO, "%s", ffi.cast("const char *", "100%n%s"))
        C.ms_fail_wrap(C.MS_E_IO, "x")
        assert.equal("x: 100%n%s", message())
    end)
end)
