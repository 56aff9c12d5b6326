# The fuzzer of what reads groups: log, snapshots, wire.
#
#     make fuzz-group FUZZ_SECONDS=20    finds nothing; new inputs stay in build/fuzz/group-corpus
#     make fuzz-group-planted            finds the bug that -DMS_PLANT_GROUP_BUG puts into the record reader (in seconds, on a busy machine later)
FUZZ_SECONDS ?= 20

FUZZ_GROUP_SRC := spec/fuzz/group_fuzz.c $(sort $(wildcard core/base/*.c)) \
    $(addprefix core/state/,block.c buffer.c group.c lineage.c log_segment.c snapshot_load.c store.c table.c)
FUZZ_GROUP_FLAGS := -std=gnu11 -D_GNU_SOURCE -g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=undefined
FUZZ_GROUP_RUN := -max_len=4096 -timeout=10 -print_final_stats=1 -verbosity=0

build/fuzz/group: $(FUZZ_GROUP_SRC) $(CORE_HDR)
	@mkdir -p $(@D)
	@echo "FUZZ  $@"
	@clang $(FUZZ_GROUP_FLAGS) $(FUZZ_GROUP_SRC) -lxxhash -o $@

build/fuzz/group-planted: $(FUZZ_GROUP_SRC) $(CORE_HDR)
	@mkdir -p $(@D)
	@echo "FUZZ  $@"
	@clang $(FUZZ_GROUP_FLAGS) -DMS_PLANT_GROUP_BUG $(FUZZ_GROUP_SRC) -lxxhash -o $@

.PHONY: fuzz-group fuzz-group-planted
fuzz-group: build/fuzz/group ## fuzz what reads groups, marks, lineages and snapshots
	@mkdir -p build/fuzz/group-corpus
	build/fuzz/group $(FUZZ_GROUP_RUN) -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/fuzz/group- \
	    build/fuzz/group-corpus spec/fuzz/corpus/group

# Starts from nothing, so that it is the fuzzer that finds it. The bug is a read past the end of memory.
fuzz-group-planted: build/fuzz/group-planted
	@rm -rf build/fuzz/group-planted-corpus build/fuzz/group-planted-crash-*
	@mkdir -p build/fuzz/group-planted-corpus
	@! build/fuzz/group-planted $(FUZZ_GROUP_RUN) -max_total_time=90 -artifact_prefix=build/fuzz/group-planted- \
	    build/fuzz/group-planted-corpus >build/fuzz/group-planted.log 2>&1
	@ls build/fuzz/group-planted-crash-* >/dev/null && grep -qE "AddressSanitizer|UndefinedBehaviorSanitizer" build/fuzz/group-planted.log
	@echo "the planted bug was found"
