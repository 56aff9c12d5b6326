package io.metasync.rocketmq;

/** A refusal of the library, with its code (core/metasync.h, MS_E_*) and its message. */
public final class MetasyncException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    static final int MEMORY = -1;
    static final int INVALID = -2;
    static final int NOT_LEADER = -3;
    static final int REENTRANT = -4;
    static final int NO_SPACE = -7;
    static final int NOT_REPLICATED = -9;
    static final int UNKNOWN = -10;
    static final int TIMEOUT = -11;
    static final int LOG_FAILED = -12;
    static final int DAMAGED = -14;
    static final int FORMAT = -15;
    static final int VERSION = -16;
    static final int DEPOSED = -18;
    static final int NOT_FOUND = -20;
    static final int CLOSED = -23;
    static final int CLUSTER = -25;
    static final int NOT_PROMOTABLE = -28;
    static final int LESS_HISTORY = -29;

    private final int code;

    MetasyncException(int code, String message) {
        super("metasync: " + message);
        this.code = code;
    }

    public int code() {
        return code;
    }
}
