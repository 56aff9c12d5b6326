# The RocketMQ plugin: one jar with the native library inside. Needs a JDK, Maven and cmake (make deps). Also the real brokers of
# its specs and its demo.

include plugins/rocketmq/static.mk

JAVA_HOME ?= $(shell readlink -f "$$(command -v javac)" 2>/dev/null | sed 's|/bin/javac$$||')
JNI_SRC := $(sort $(wildcard plugins/rocketmq/native/*.c))
JNI_OBJ := $(JNI_SRC:%.c=$(BUILD)/%.o)
JNI_LIB := $(BUILD)/rocketmq/native/linux-x86_64/libmetasync-jni.so
JAR     := $(BUILD)/rocketmq/metasync-rocketmq.jar
JAVA_SRC = $(shell find plugins/rocketmq/src plugins/rocketmq/pom.xml -type f)
POLICY_TEXT := lua/policies/rocketmq.lua

$(JNI_OBJ): CFLAGS += -fvisibility=hidden -I$(JAVA_HOME)/include -I$(JAVA_HOME)/include/linux

# Everything but libc inside, and nothing visible but what the JVM looks for: it must not meet another copy in the broker's process.
# The writer of files (metasyncctl export) comes along.
$(JNI_LIB): $(JNI_OBJ) $(FILES_OBJ) $(CORE_OBJ) $(STATIC_LIBS) plugins/rocketmq/native/exports.map
	@echo "LINK  $@"
	@mkdir -p $(@D)
	@$(CC) -shared $(LDFLAGS) -Wl,--version-script=plugins/rocketmq/native/exports.map -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,defs \
	    -Wl,--gc-sections $(JNI_OBJ) $(FILES_OBJ) $(CORE_OBJ) $(STATIC_LIBS) -l:libcrypto.a -lm -ldl -o $@

-include $(JNI_OBJ:.o=.d)

.PHONY: jni
jni: $(JNI_LIB) ## build the RocketMQ plugin's native library alone (VARIANT=asan: with sanitizers)

# Maven does little here and ends: the compiler that compiles at once, and one collector thread, are less to pay for.
MVN := MAVEN_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC $$MAVEN_OPTS" mvn -B -q -Dstyle.color=never

$(JAR): $(JNI_LIB) $(JAVA_SRC) $(POLICY_TEXT)
	@echo "MVN   $@"
	@$(MVN) -f plugins/rocketmq/pom.xml -Dmetasync.build=$(CURDIR)/$(BUILD)/rocketmq -Dmaven.test.skip=true package
	@cp $(BUILD)/rocketmq/target/metasync-rocketmq.jar $@

.PHONY: jar
jar: $(JAR) ## build the RocketMQ plugin's jar (JDK, Maven and cmake: make deps)

.PHONY: java-test
java-test: $(JNI_LIB) ## JUnit tests of the plugin's maps and its native side
	@$(MVN) -f plugins/rocketmq/pom.xml -Dmetasync.build=$(CURDIR)/$(BUILD)/rocketmq test

# ---- real brokers, for specs and the demo: from Maven Central, unmodified ------------------------------------------------

BROKERS := build/brokers
BROKER_VERSIONS := 5.5.0 5.3.3 5.4.0 5.1.4

$(BROKERS)/%/.fetched: plugins/rocketmq/brokers.xml
	@echo "FETCH broker $*"
	@rm -rf $(@D)/lib
	@$(MVN) -f $< -Drocketmq.version=$* dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/$(@D)/lib
	@touch $@

# A broker's RocksDB library as a file, which each start would write anew.
$(BROKERS)/%/native/librocksdbjni-linux64.so: $(BROKERS)/%/.fetched
	@mkdir -p $(@D)
	@cd $(@D) && $(JAVA_HOME)/bin/jar xf ../lib/*-rocksdb-*.jar $(@F)
	@touch $@

# The classes of a broker as its JVM has them in memory, for the versions that specs start most often: half the CPU time of a start.
$(BROKERS)/%/classes.jsa: $(BROKERS)/%/.fetched
	@echo "CLASSES $@"
	@luajit spec/support/broker_classes.lua $* $@

# The broker's container, for one spec: no other broker gets its jar.
CONTAINER := $(BROKERS)/container/.fetched

$(CONTAINER):
	@echo "FETCH container"
	@mkdir -p $(@D)
	@$(MVN) org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact=org.apache.rocketmq:rocketmq-container:5.5.0 \
	    -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

# A client program: what a spec or the demo has real clients do (it runs with the newest client, whatever the broker is).
CLIENT := $(BROKERS)/client/.built
CLIENT_SRC := $(wildcard spec/rocketmq/java/*.java)

$(CLIENT): $(CLIENT_SRC) $(BROKERS)/5.5.0/.fetched
	@echo "JAVAC $(@D)"
	@mkdir -p $(@D)
	@javac --release 8 -Xlint:-options -cp '$(BROKERS)/5.5.0/lib/*' -d $(@D) $(CLIENT_SRC)
	@touch $@

.PHONY: brokers
brokers: $(BROKER_VERSIONS:%=$(BROKERS)/%/native/librocksdbjni-linux64.so) $(BROKERS)/5.5.0/classes.jsa $(BROKERS)/5.3.3/classes.jsa $(CLIENT) $(CONTAINER) ## fetch the brokers that specs start: 5.5.0, 5.3.3, 5.4.0, 5.1.4

.PHONY: demo-rocketmq
demo-rocketmq: $(JAR) $(BINARIES) $(BROKERS)/5.5.0/.fetched $(CLIENT) ## two pairs of real brokers, with and without: changes, kill -9, promotion
	@plugins/rocketmq/demo/demo.sh

# ---- the plugin's numbers: docs/bench.md ---------------------------------------------------------------------------------------

ROCKETMQ_BENCH := $(BUILD)/bench/rocketmq
BENCH_CLASSES  := $(ROCKETMQ_BENCH)/classes/.built
BENCH_JAVA     := $(wildcard bench/rocketmq/java/io/metasync/rocketmq/*.java)

# In the plugin's own package: it measures classes that nobody else sees.
$(BENCH_CLASSES): $(BENCH_JAVA) $(JAR) $(BROKERS)/5.5.0/.fetched
	@echo "JAVAC $(@D)"
	@mkdir -p $(@D)
	@javac --release 8 -Xlint:all,-options,-classfile,-path,-processing -Werror -cp '$(JAR):$(BROKERS)/5.5.0/lib/*' -d $(@D) $(BENCH_JAVA)
	@touch $@

.PHONY: bench-rocketmq
bench-rocketmq: $(JAR) $(BINARIES) $(BROKERS)/5.5.0/.fetched $(BENCH_CLASSES) ## the plugin's numbers, brokers with and without it; QUICK=1 is small
	@luajit bench/rocketmq/run.lua --classes $(ROCKETMQ_BENCH)/classes --scratch $(ROCKETMQ_BENCH) $(if $(QUICK),--quick) $(BENCH_FLAGS)
