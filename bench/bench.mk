# `make bench` measures this library against Redis and against a floor, in one run; see docs/bench.md.
# QUICK=1 is a small run that only shows that everything works. BENCH_FLAGS is passed on (--pairs 3, --only update, --strict).

BENCH_DIR   := $(BUILD)/bench
BENCH_TOOLS := $(BENCH_DIR)/node $(BENCH_DIR)/redis_load $(BENCH_DIR)/floor $(BENCH_DIR)/policy

.PHONY: bench
bench: $(SHARED) $(BENCH_TOOLS) ## measure against Redis and against a floor; QUICK=1 is small
	@luajit bench/run.lua --tools $(BENCH_DIR) $(if $(QUICK),--quick) $(BENCH_FLAGS)

$(BENCH_DIR)/%.o: bench/%.c
	@mkdir -p $(@D)
	@echo "CC    $<"
	@$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(BENCH_DIR)/redis_load: $(BENCH_DIR)/redis_load.o $(BENCH_DIR)/redis_client.o $(BENCH_DIR)/common.o
$(BENCH_DIR)/floor: $(BENCH_DIR)/floor.o $(BENCH_DIR)/callers.o $(BENCH_DIR)/common.o
$(BENCH_DIR)/redis_load $(BENCH_DIR)/floor:
	@echo "LINK  $@"
	@$(CC) $(LDFLAGS) $^ -o $@

# The host program sees the public library only.
$(BENCH_DIR)/node: $(BENCH_DIR)/node.o $(BENCH_DIR)/follower.o $(BENCH_DIR)/callers.o $(BENCH_DIR)/status.o $(BENCH_DIR)/stall.o $(BENCH_DIR)/common.o $(SHARED)
	@echo "LINK  $@"
	@$(CC) $(LDFLAGS) $(filter %.o,$^) -L$(BUILD) -l:libmetasync.so.$(SOVERSION) -Wl,-rpath,$(abspath $(BUILD)) -o $@

$(BENCH_DIR)/policy: $(BENCH_DIR)/policy.o $(BENCH_DIR)/status.o $(BENCH_DIR)/stall.o $(BENCH_DIR)/common.o $(SHARED)
	@echo "LINK  $@"
	@$(CC) $(LDFLAGS) $(filter %.o,$^) -L$(BUILD) -l:libmetasync.so.$(SOVERSION) -Wl,-rpath,$(abspath $(BUILD)) -o $@

-include $(wildcard $(BENCH_DIR)/*.d)
