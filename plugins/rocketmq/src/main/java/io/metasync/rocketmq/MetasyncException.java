package io.metasync.rocketmq;

/** A refusal of the library, with its code (core/metasync.h, MS_E_*) and its message. */
public final class MetasyncException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    static final int NOT_LEADER = -3;
    static final int NOT_REPLICATED = -9;
    static final int UNKNOWN = -10;
    static final int LOG_FAILED = -12;
    static final int DEPOSED = -18;
    static final int NOT_FOUND = -20;
    static final int CLOSED = -23;

    private final int code;

    MetasyncException(int code, String message) {
        super("metasync: " + message);
        this.code = code;
    }

    public int code() {
        return code;
    }
}
