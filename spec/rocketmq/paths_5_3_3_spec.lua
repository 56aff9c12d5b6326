require("spec.rocketmq.paths").all("5.3.3")
