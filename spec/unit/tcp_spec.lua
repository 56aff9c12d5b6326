-- drive/tcp, drive/lookup, drive/remote: links over real sockets.
require("spec.support.program").describe("a link", "link_cases", "link_faults", "link_world", "link_visit")
