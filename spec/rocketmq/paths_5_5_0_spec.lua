require("spec.rocketmq.paths").all("5.5.0")
