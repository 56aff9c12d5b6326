# The RocketMQ plugin: one jar with the native library inside. Needs a JDK, Maven and cmake (make deps-rocketmq).

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
$(JNI_LIB): $(JNI_OBJ) $(CORE_OBJ) $(STATIC_LIBS) plugins/rocketmq/native/exports.map
	@echo "LINK  $@"
	@mkdir -p $(@D)
	@$(CC) -shared $(LDFLAGS) -Wl,--version-script=plugins/rocketmq/native/exports.map -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,defs \
	    -Wl,--gc-sections $(JNI_OBJ) $(CORE_OBJ) $(STATIC_LIBS) -l:libcrypto.a -lm -ldl -o $@

-include $(JNI_OBJ:.o=.d)

MVN := mvn -B -q -f plugins/rocketmq/pom.xml

$(JAR): $(JNI_LIB) $(JAVA_SRC) $(POLICY_TEXT)
	@echo "MVN   $@"
	@$(MVN) -Dmetasync.build=$(CURDIR)/$(BUILD)/rocketmq package
	@cp $(BUILD)/rocketmq/target/metasync-rocketmq.jar $@

.PHONY: jar
jar: $(JAR) ## build the RocketMQ plugin's jar (needs a JDK, Maven and cmake: make deps-rocketmq)
