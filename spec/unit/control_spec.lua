-- drive/control: the control socket and its client.
require("spec.support.program").describe("the control socket", "control_cases")
