# metasync: `make deps demo` shows the main job, `make deps check` runs all tests. `make help` lists the rest.

VERSION   := 0.1.0
SOVERSION := 0
PREFIX    ?= /usr/local
DESTDIR   ?=

# VARIANT selects compiler and flags; each has its own directory, so that they don't disturb one another.
VARIANT ?= release
BUILD   := build/$(VARIANT)

WARN    := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Werror -Wno-format-truncation
CFLAGS  := -std=gnu11 -D_GNU_SOURCE -fPIC -pthread $(WARN)
LDFLAGS := -pthread
LIBS    := -levent -levent_pthreads -ljansson -lcrypto

ifeq ($(VARIANT),release)
  CC := gcc
  CFLAGS += -O2 -g
else ifeq ($(VARIANT),asan)
  CC := gcc
  CFLAGS += -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
  LDFLAGS += -fsanitize=address,undefined
else ifeq ($(VARIANT),tsan)
  CC := gcc
  CFLAGS += -O1 -g -fsanitize=thread
  LDFLAGS += -fsanitize=thread
else
  $(error VARIANT is release, asan or tsan)
endif

CORE_SRC := $(filter-out core/example/%,$(sort $(wildcard core/*.c core/*/*.c)))
CORE_OBJ := $(CORE_SRC:%.c=$(BUILD)/%.o)
CORE_HDR := $(sort $(wildcard core/*.h core/*/*.h))
# The file import of the stand-alone host: pure enough to be specified through FFI like the core.
FILES_SRC := $(sort $(wildcard plugins/standalone/rocketmq/*.c))
FILES_OBJ := $(FILES_SRC:%.c=$(BUILD)/%.o)
FILES_HDR := $(sort $(wildcard plugins/standalone/rocketmq/*.h))

SHARED   := $(BUILD)/libmetasync.so.$(SOVERSION)
PRIVATE  := $(BUILD)/libmetasync-private.so

.PHONY: all
all: $(SHARED) ## build library, metasyncd, metasyncctl and the example host

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "CC    $<"
	@$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

# The public library exports what metasync.h marks MS_API, and nothing else.
$(BUILD)/exports.map: core/metasync.h
	@mkdir -p $(@D)
	@{ echo '{ global:'; sed -n 's/^MS_API .*\b\(ms_[a-z0-9_]*\)(.*/  \1;/p' $<; echo '  local: *; };'; } > $@

$(SHARED): $(CORE_OBJ) $(BUILD)/exports.map
	@echo "LINK  $@"
	@$(CC) -shared -Wl,-soname,libmetasync.so.$(SOVERSION) -Wl,--version-script=$(BUILD)/exports.map -Wl,-z,defs $(LDFLAGS) \
	    $(CORE_OBJ) $(LIBS) -o $@
	@ln -sf libmetasync.so.$(SOVERSION) $(BUILD)/libmetasync.so

# ---- the library for specs: the same objects with every symbol visible, and their declarations for LuaJIT ----------------

$(BUILD)/cdef.h: spec/support/cdef.lua $(CORE_HDR) $(FILES_HDR)
	@mkdir -p $(@D)
	@echo "CDEF  $@"
	@luajit spec/support/cdef.lua "$(CC)" $@ $(BUILD)/inline.c $(CORE_HDR) $(FILES_HDR)

$(BUILD)/inline.o: $(BUILD)/cdef.h
	@$(CC) $(filter-out $(WARN),$(CFLAGS)) -I. -c $(BUILD)/inline.c -o $@

SPEC_OBJ := $(BUILD)/spec/support/thunk.o $(BUILD)/inline.o

$(PRIVATE): $(CORE_OBJ) $(FILES_OBJ) $(SPEC_OBJ)
	@echo "LINK  $@"
	@$(CC) -shared -Wl,-z,defs $(LDFLAGS) $(CORE_OBJ) $(FILES_OBJ) $(SPEC_OBJ) $(LIBS) -o $@

-include $(CORE_OBJ:.o=.d) $(FILES_OBJ:.o=.d) $(SPEC_OBJ:.o=.d)
