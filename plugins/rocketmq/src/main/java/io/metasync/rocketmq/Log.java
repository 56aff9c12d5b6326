package io.metasync.rocketmq;

import org.apache.rocketmq.common.constant.LoggerName;
import org.apache.rocketmq.logging.org.slf4j.Logger;
import org.apache.rocketmq.logging.org.slf4j.LoggerFactory;

/** The broker's own log. */
final class Log {
    private static final Logger LOGGER = LoggerFactory.getLogger(LoggerName.BROKER_LOGGER_NAME);

    private Log() {
    }

    static void info(String line) {
        LOGGER.info("metasync: {}", line);
    }

    static void warn(String line) {
        LOGGER.warn("metasync: {}", line);
    }

    static void warn(String line, Throwable cause) {
        LOGGER.warn("metasync: " + line, cause);
    }

    static void error(String line) {
        LOGGER.error("metasync: {}", line);
    }

    static void error(String line, Throwable cause) {
        LOGGER.error("metasync: " + line, cause);
    }
}
