package io.metasync.rocketmq;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Steps through an encoded batch (plugins/rocketmq/native/callbacks.c draws it). */
final class Changes {
    static final int PUT = 1;
    static final int DELETE = 2;
    /** Out of the view: the host keeps its copy. */
    static final int LEAVE = 3;

    static final int FULL = 1;
    static final int FIRST = 2;
    static final int LAST = 4;
    static final int AUDIT = 8;

    private final ByteBuffer bytes;
    private int op;
    private byte[] key;
    private byte[] value;

    Changes(byte[] encoded) {
        bytes = ByteBuffer.wrap(encoded).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** Moves to the next change; false after the last. */
    boolean next() {
        if (!bytes.hasRemaining()) {
            return false;
        }
        op = bytes.get();
        key = new byte[bytes.getInt(bytes.position())];
        int valueSize = bytes.getInt(bytes.position() + 4);
        bytes.position(bytes.position() + 8);
        bytes.get(key);
        value = valueSize < 0 ? null : new byte[valueSize];
        if (value != null) {
            bytes.get(value);
        }
        return true;
    }

    int op() {
        return op;
    }

    byte[] key() {
        return key;
    }

    /** null unless it is a PUT. */
    byte[] value() {
        return value;
    }
}
