-- Faults that users of libevent met, and that our links must not have. Each names where it was reported first.
local case = require("spec.support.program").case

describe("a link", function()
    describe("libevent 861, 862, 1211, 1466: a write high watermark is not enforced", function()
        it("holds what was sent to a reader that stops, and no more", case("link_cases", "stopped_reader"))
        it("is given up in bounded time when it is closed", case("link_cases", "bounded_linger"))
    end)

    describe("libevent 362, 690, 891, sslsplit 109: reading stalls or spins around the read watermark", function()
        it("delivers messages around every buffer size, two in a segment, and is idle afterwards", case("link_cases", "sizes"))
        it("goes on after a pause", case("link_cases", "paused"))
    end)

    describe("libevent 997, 1809: callbacks after a free, a double free when the peer closes first", function()
        it("survives a peer that closes after any byte of the handshake", case("link_faults", "close_at_every_byte"))
        it("survives our own close in any turn of it", case("link_faults", "close_at_every_turn"))
        it("survives closes from inside its events", case("link_cases", "close_from_events"))
    end)

    describe("libevent 321, 593, 1411: announced bodies, slow peers, a limit reply lost by a reset", function()
        it("takes memory for what arrives only", case("link_faults", "announced_sizes"))
        it("gives slow and silent peers up", case("link_faults", "silent_peer"))
        it("is not affected by a crowd of idle connections", case("link_faults", "idle_crowd"))
        it("tells a peer too many that it is one", case("link_faults", "too_many_links"))
        it("lets its last words arrive", case("link_cases", "close_with_unread_bytes"))
        it("hears the peer's last words", case("link_cases", "last_words"))
    end)
end)
