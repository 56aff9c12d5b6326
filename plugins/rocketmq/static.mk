# LuaJIT, libevent and jansson as archives that can be linked into a shared library. Debian's archives are not position independent, so
# its source packages are built here. Nothing of this is installed; it all stays in $(STATIC).

STATIC := build/static
STATIC_LIBS := $(STATIC)/lib/libluajit.a $(STATIC)/lib/libevent_pthreads.a $(STATIC)/lib/libevent_core.a $(STATIC)/lib/libevent_extra.a \
    $(STATIC)/lib/libjansson.a
STATIC_CFLAGS := -O2 -fPIC -fvisibility=hidden

# The sources, checked by apt. A list of our own, so that the system's need not name source packages.
$(STATIC)/src/.fetched:
	@echo "FETCH $(@D)"
	@rm -rf $(@D) && mkdir -p $(@D)/lists/partial
	@echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main" > $(@D)/sources.list
	@cd $(@D) && options="-q -o Dir::Etc::sourcelist=$$PWD/sources.list -o Dir::Etc::sourceparts=- -o Dir::State::lists=$$PWD/lists \
	    -o APT::Sandbox::User=root" && \
	    { apt-get $$options update && apt-get $$options source --download-only luajit libevent jansson; } > fetch.log 2>&1 || \
	    { tail -n 20 fetch.log; exit 1; }
	@cd $(@D) && for name in luajit libevent jansson; do mkdir $$name && \
	    tar xf $$name[_-]*.orig.tar.* -C $$name --strip-components=$$(tar tf $$name[_-]*.orig.tar.* | grep -q '^src/Makefile$$' && echo 0 || echo 1); done
	@touch $@

$(STATIC)/lib/libluajit.a: $(STATIC)/src/.fetched
	@echo "BUILD $@"
	@mkdir -p $(@D)
	@env -u MAKEFLAGS -u MAKELEVEL $(MAKE) -C $(STATIC)/src/luajit/src BUILDMODE=static XCFLAGS="-fPIC -fvisibility=hidden" libluajit.a \
	    > $(STATIC)/luajit.log 2>&1 || { tail -n 20 $(STATIC)/luajit.log; exit 1; }
	@cp $(STATIC)/src/luajit/src/libluajit.a $@

CMAKE_STATIC = cmake -DCMAKE_BUILD_TYPE=Release -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_FLAGS="$(STATIC_CFLAGS)" -Wno-dev

$(STATIC)/lib/libevent_core.a: $(STATIC)/src/.fetched
	@echo "BUILD libevent"
	@mkdir -p $(@D)
	@{ $(CMAKE_STATIC) -DEVENT__LIBRARY_TYPE=STATIC -DEVENT__DISABLE_OPENSSL=ON -DEVENT__DISABLE_TESTS=ON -DEVENT__DISABLE_SAMPLES=ON \
	    -DEVENT__DISABLE_BENCHMARK=ON -S $(STATIC)/src/libevent -B $(STATIC)/src/libevent/b && \
	    env -u MAKEFLAGS -u MAKELEVEL $(MAKE) -C $(STATIC)/src/libevent/b; } > $(STATIC)/libevent.log 2>&1 || { tail -n 20 $(STATIC)/libevent.log; exit 1; }
	@cp $(STATIC)/src/libevent/b/lib/*.a $(@D)/

$(STATIC)/lib/libevent_pthreads.a $(STATIC)/lib/libevent_extra.a: $(STATIC)/lib/libevent_core.a

$(STATIC)/lib/libjansson.a: $(STATIC)/src/.fetched
	@echo "BUILD $@"
	@mkdir -p $(@D)
	@{ $(CMAKE_STATIC) -DJANSSON_BUILD_SHARED_LIBS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF \
	    -S $(STATIC)/src/jansson -B $(STATIC)/src/jansson/b && \
	    env -u MAKEFLAGS -u MAKELEVEL $(MAKE) -C $(STATIC)/src/jansson/b; } > $(STATIC)/jansson.log 2>&1 || { tail -n 20 $(STATIC)/jansson.log; exit 1; }
	@cp $(STATIC)/src/jansson/b/lib/libjansson.a $@
