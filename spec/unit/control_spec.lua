-- drive/control: the control socket and its client.
require "spec.support.program" ("the control socket", "control_cases")
