# metasyncd and metasyncctl. They use parts of the library that are not public (file system, control client), so they are
# linked with its objects, not with libmetasync.so.

HOST_SRC := $(sort $(wildcard plugins/standalone/*.c))
HOST_OBJ := $(HOST_SRC:%.c=$(BUILD)/%.o)
DAEMON_OBJ := $(addprefix $(BUILD)/plugins/standalone/,metasyncd.o options.o secret.o files.o entered.o) $(FILES_OBJ)
CTL_OBJ := $(filter-out $(DAEMON_OBJ),$(HOST_OBJ)) $(BUILD)/plugins/standalone/secret.o

$(BUILD)/libmetasync.a: $(CORE_OBJ)
	@echo "AR    $@"
	@rm -f $@
	@ar rcs $@ $^

$(BUILD)/metasyncd: $(DAEMON_OBJ) $(BUILD)/libmetasync.a
	@echo "LINK  $@"
	@$(CC) $(LDFLAGS) $^ $(LIBS) -o $@

$(BUILD)/metasyncctl: $(CTL_OBJ) $(BUILD)/libmetasync.a
	@echo "LINK  $@"
	@$(CC) $(LDFLAGS) $^ $(LIBS) -o $@

.PHONY: demo
demo: $(BINARIES) ## two nodes on this machine: import, follow, crash, failover, return
	@plugins/standalone/demo/demo.sh

-include $(HOST_OBJ:.o=.d)
