local paths = require "spec.rocketmq.paths"

paths.short("5.4.0")
paths.short("5.1.4")
