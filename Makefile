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
LUA_CFLAGS := $(shell pkg-config --cflags luajit)
LIBS    := -levent -levent_pthreads -ljansson -lcrypto $(shell pkg-config --libs luajit)

ifeq ($(VARIANT),release)
  CC := gcc
  CFLAGS += -O2 -g -fno-semantic-interposition
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
KIT      := $(BUILD)/libmetasync-kit.so
BINARIES := $(BUILD)/metasyncd $(BUILD)/metasyncctl
EXAMPLE  := $(BUILD)/example

.PHONY: all
all: $(SHARED) $(BINARIES) $(EXAMPLE) $(KIT) ## build library, metasyncd, metasyncctl and the example host

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "CC    $<"
	@$(CC) $(CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/core/lua/%.o: CFLAGS += $(LUA_CFLAGS)

# The policy language's own Lua, as text in the library: nothing has to be found at run time.
LUA_EMBED := $(patsubst %,lua/metasync/%.lua,check glue resolvers schema units)
CORE_OBJ  += $(BUILD)/core/lua/embed.o

$(BUILD)/core/lua/embed.c: $(LUA_EMBED)
	@mkdir -p $(@D)
	@{ echo '#include "core/lua/policy.h"'; echo '#define TEXT(name, text) {name, {text, sizeof text - 1}}'; \
	   echo 'const struct ms_lua_text ms_lua_texts[] = {'; \
	   for f in $^; do echo "TEXT(\"metasync.$$(basename $$f .lua)\","; sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $$f; echo '),'; done; \
	   echo '};'; echo 'const size_t ms_lua_text_count = sizeof ms_lua_texts / sizeof *ms_lua_texts;'; } > $@

$(BUILD)/core/lua/embed.o: $(BUILD)/core/lua/embed.c
	@echo "CC    $<"
	@$(CC) $(CFLAGS) -I. -MMD -MP -c $< -o $@

# The public library exports what metasync.h marks MS_API, and nothing else.
$(BUILD)/exports.map: core/metasync.h
	@mkdir -p $(@D)
	@{ echo '{ global:'; sed -n 's/^MS_API .*\b\(ms_[a-z0-9_]*\)(.*/  \1;/p' $<; echo '  local: *; };'; } > $@

$(SHARED): $(CORE_OBJ) $(BUILD)/exports.map
	@echo "LINK  $@"
	@$(CC) -shared -Wl,-soname,libmetasync.so.$(SOVERSION) -Wl,--version-script=$(BUILD)/exports.map -Wl,-z,defs $(LDFLAGS) \
	    $(CORE_OBJ) $(LIBS) -o $@
	@ln -sf libmetasync.so.$(SOVERSION) $(BUILD)/libmetasync.so

# The library of the test kit (lua/metasync/kit.lua): the same objects; what core/kit.h names is exported.
$(BUILD)/kit.map: core/kit.h
	@mkdir -p $(@D)
	@{ echo '{ global: ms_kit_declarations;'; sed -n 's/^ *X(.*, \(ms_[a-z0-9_]*\), (.*/  \1;/p' $<; echo '  local: *; };'; } > $@

$(KIT): $(CORE_OBJ) $(BUILD)/kit.map
	@echo "LINK  $@"
	@$(CC) -shared -Wl,--version-script=$(BUILD)/kit.map -Wl,-z,defs $(LDFLAGS) $(CORE_OBJ) $(LIBS) -o $@

# A host as others would write one: the public header, the public library.
$(EXAMPLE): core/example/example.c core/metasync.h $(SHARED)
	@echo "LINK  $@"
	@$(CC) $(CFLAGS) -Icore $< $(LDFLAGS) -L$(BUILD) -lmetasync -Wl,-rpath,'$$ORIGIN' -o $@

# ---- the library for specs: the same objects with every symbol visible, and their declarations for LuaJIT ----------------

$(BUILD)/cdef.h: spec/support/cdef.lua $(CORE_HDR) $(FILES_HDR)
	@mkdir -p $(@D)
	@echo "CDEF  $@"
	@luajit spec/support/cdef.lua "$(CC) $(LUA_CFLAGS)" $@ $(BUILD)/inline.c $(CORE_HDR) $(FILES_HDR)

$(BUILD)/inline.o: $(BUILD)/cdef.h
	@$(CC) $(filter-out $(WARN),$(CFLAGS)) -w -I. $(LUA_CFLAGS) -c $(BUILD)/inline.c -o $@

SPEC_OBJ := $(BUILD)/spec/support/thunk.o $(BUILD)/spec/support/hand.o $(BUILD)/inline.o

$(PRIVATE): $(CORE_OBJ) $(FILES_OBJ) $(SPEC_OBJ)
	@echo "LINK  $@"
	@$(CC) -shared -Wl,-z,defs $(LDFLAGS) $(CORE_OBJ) $(FILES_OBJ) $(SPEC_OBJ) $(LIBS) -o $@

.PHONY: private
private: $(PRIVATE) ## build the library that specs load (VARIANT=asan, tsan: with sanitizers)

# C programs among the specs: many threads on the public API, for the sanitizers.
SPEC_C := $(patsubst %.c,$(BUILD)/%,$(sort $(wildcard spec/c/*.c)))

$(SPEC_C): $(BUILD)/%: $(BUILD)/%.o $(CORE_OBJ)
	@echo "LINK  $@"
	@$(CC) $(LDFLAGS) $^ $(LIBS) -o $@

.PHONY: spec-c
spec-c: $(SPEC_C)

-include plugins/standalone/standalone.mk
-include plugins/rocketmq/rocketmq.mk
-include bench/bench.mk
-include $(wildcard spec/fuzz/*.mk)
-include $(CORE_OBJ:.o=.d) $(FILES_OBJ:.o=.d) $(SPEC_OBJ:.o=.d) $(SPEC_C:=.d)

# ---- tests ---------------------------------------------------------------------------------------------------------------

# Never an inherited jobserver: the runner starts makes of its own, one after the other.
RUN := env -u MAKEFLAGS -u MAKELEVEL luajit spec/run.lua

.PHONY: check layers lint asan tsan mutants soak
check: ## run all tests; STEPS="unit sim" runs some, SPEC=path one file
	@$(RUN) $(STEPS)

layers: ## check the direction of #includes
	@luajit spec/support/layers.lua .

lint: ## luacheck, and the rules that a compiler does not check
	@luacheck --quiet .
	@luajit spec/support/lint.lua .

asan: ## unit and simulator specs and C programs under AddressSanitizer and UBSan
	@$(RUN) asan

tsan: ## C programs with threads under ThreadSanitizer
	@$(RUN) tsan

mutants: private ## break the code once per row of spec/mutants_list.lua; each break must be noticed
	@env -u MAKEFLAGS -u MAKELEVEL luajit spec/mutants.lua $(MUTANTS)

soak: ## 220 failovers of real brokers (MS_ROUNDS=55 of each of four kinds); simulator specs with new seeds, chaos, leaks: over and over, MINUTES=10
	@env -u MAKEFLAGS -u MAKELEVEL luajit spec/run.lua soak

# Each spec/fuzz/NAME.mk has fuzz-NAME, which must find nothing, and fuzz-NAME-planted, which must find a bug put in on purpose.
FUZZERS := $(patsubst spec/fuzz/%.mk,%,$(wildcard spec/fuzz/*.mk))

.PHONY: fuzz fuzz-planted
fuzz: $(FUZZERS:%=fuzz-%) ## fuzz every parser of bytes from outside; FUZZ_SECONDS=20 each
fuzz-planted: $(FUZZERS:%=fuzz-%-planted) ## the fuzzers find bugs that are put in on purpose

.PHONY: docs
docs: $(PRIVATE) ## make the reference in docs/policy.md anew
	@luajit spec/support/policy_docs.lua

C_FILES := $(shell find core plugins spec bench -name '*.[ch]' 2>/dev/null)

.PHONY: format
format: ## clang-format all C files
	@clang-format -i $(C_FILES)

# ---- tools, installing, cleaning -----------------------------------------------------------------------------------------

PACKAGES := gcc libc6-dev make pkg-config luajit libluajit-5.1-dev libevent-dev libjansson-dev libxxhash-dev libssl-dev \
    lua-busted lua-check locales clang libclang-rt-14-dev llvm clang-format valgrind redis-server procps iproute2
# The RocketMQ plugin: its jar, and the static libraries inside of it.
PACKAGES += openjdk-17-jdk-headless maven cmake xz-utils
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.PHONY: deps
deps: ## install what building and testing need (Debian 12; asks nothing; as root or with sudo)
	@missing=""; for p in $(PACKAGES); do \
	    [ "$$(dpkg-query -W -f='$${db:Status-Status}' $$p 2>/dev/null)" = installed ] || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	    echo "deps: installing$$missing"; \
	    $(SUDO) apt-get -q update </dev/null && \
	    $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $$missing </dev/null || exit 1; \
	    case "$$missing" in *redis-server*) $(SUDO) service redis-server stop >/dev/null 2>&1 || true;; esac; \
	fi

define PC_FILE
prefix=$(PREFIX)
libdir=$${prefix}/lib
includedir=$${prefix}/include

Name: metasync
Description: Replicates a message broker's metadata from a leader to its followers
Version: $(VERSION)
Libs: -L$${libdir} -lmetasync
Cflags: -I$${includedir}
endef
export PC_FILE

.PHONY: install uninstall
install: all ## install library, header, metasync.pc and binaries below PREFIX (/usr/local)
	@install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/bin
	@install -m 644 $(SHARED) $(KIT) $(DESTDIR)$(PREFIX)/lib/
	@ln -sf libmetasync.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/libmetasync.so
	@install -m 644 core/metasync.h $(DESTDIR)$(PREFIX)/include/
	@echo "$$PC_FILE" > $(DESTDIR)$(PREFIX)/lib/pkgconfig/metasync.pc
	@install -m 755 $(BINARIES) $(DESTDIR)$(PREFIX)/bin/
	@install -d $(DESTDIR)$(PREFIX)/share/metasync/policies $(DESTDIR)$(PREFIX)/share/metasync/lua/metasync
	@install -m 644 lua/policies/*.lua $(DESTDIR)$(PREFIX)/share/metasync/policies/
	@install -m 644 lua/metasync/*.lua $(DESTDIR)$(PREFIX)/share/metasync/lua/metasync/
	@install -d $(DESTDIR)$(PREFIX)/share/metasync/example
	@install -m 644 lua/example/*.lua $(DESTDIR)$(PREFIX)/share/metasync/example/
	@[ -n "$(DESTDIR)" ] || $(SUDO) ldconfig

uninstall: ## remove what install put there
	@rm -f $(DESTDIR)$(PREFIX)/lib/libmetasync.so $(DESTDIR)$(PREFIX)/lib/libmetasync.so.$(SOVERSION) $(DESTDIR)$(PREFIX)/lib/libmetasync-kit.so \
	    $(DESTDIR)$(PREFIX)/include/metasync.h $(DESTDIR)$(PREFIX)/lib/pkgconfig/metasync.pc \
	    $(addprefix $(DESTDIR)$(PREFIX)/bin/,$(notdir $(BINARIES)))
	@rm -rf $(DESTDIR)$(PREFIX)/share/metasync

.PHONY: clean help
clean: ## remove build/
	@rm -rf build

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | grep -v '\.d:' | sed -E 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 18
