require("spec.rocketmq.paths").short("5.4.0", "5.5.0")
