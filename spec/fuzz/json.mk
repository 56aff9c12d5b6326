# The fuzzer of RocketMQ's files:
#
#     make fuzz-json FUZZ_SECONDS=20    finds nothing
#     make fuzz-json-planted            finds the bug that -DMS_PLANT_JSON_BUG puts in (in seconds, on a busy machine later)
FUZZ_SECONDS ?= 20

FUZZ_JSON_SRC := spec/fuzz/json_fuzz.c \
    $(addprefix plugins/standalone/rocketmq/,json_prepass.c json.c parse.c layout.c rows.c version.c compose.c group_topics.c) \
    $(addprefix core/base/,bytes.c error.c hash.c mem.c)
FUZZ_JSON_FLAGS := -std=gnu11 -D_GNU_SOURCE -g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=undefined
FUZZ_JSON_RUN := -max_len=4096 -timeout=10 -dict=spec/fuzz/json.dict -print_final_stats=1 -verbosity=0
FUZZ_JSON_SEEDS := $(addprefix spec/data/rocketmq/,forks-3x forks-4x issues damaged serializer/4.5.2 serializer/5.5.0)

build/fuzz/json: $(FUZZ_JSON_SRC) $(FILES_HDR) $(CORE_HDR)
	@mkdir -p $(@D)
	@echo "FUZZ  $@"
	@clang $(FUZZ_JSON_FLAGS) $(FUZZ_JSON_SRC) -ljansson -o $@

build/fuzz/json-planted: $(FUZZ_JSON_SRC) $(FILES_HDR) $(CORE_HDR)
	@mkdir -p $(@D)
	@echo "FUZZ  $@"
	@clang $(FUZZ_JSON_FLAGS) -DMS_PLANT_JSON_BUG $(FUZZ_JSON_SRC) -ljansson -o $@

.PHONY: fuzz-json fuzz-json-planted
fuzz-json: build/fuzz/json ## fuzz the reader and writer of RocketMQ's files
	@mkdir -p build/fuzz/json-corpus
	build/fuzz/json $(FUZZ_JSON_RUN) -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/fuzz/json- \
	    build/fuzz/json-corpus $(FUZZ_JSON_SEEDS)

# Starts from nothing, so that it is the fuzzer that finds it.
fuzz-json-planted: build/fuzz/json-planted
	@rm -rf build/fuzz/json-planted-corpus build/fuzz/json-planted-crash-*
	@mkdir -p build/fuzz/json-planted-corpus
	@! build/fuzz/json-planted $(FUZZ_JSON_RUN) -max_total_time=90 -artifact_prefix=build/fuzz/json-planted- \
	    build/fuzz/json-planted-corpus >build/fuzz/json-planted.log 2>&1
	@ls build/fuzz/json-planted-crash-* >/dev/null && echo "the planted bug was found"
