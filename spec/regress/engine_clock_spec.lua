-- CASES D10 (libevent/libevent#872, #1080, #1473): periods that double, clocks that jump, loops that were blocked.
require("spec.support.program").describe("the engine's clock", "engine_clock")
