package io.metasync.rocketmq;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/** A table of a {@link MetaNode}. Any thread. */
final class MetaTable {
    private final MetaNode node;
    private final String name;
    private final long handle;

    MetaTable(MetaNode node, String name, long handle) {
        this.node = node;
        this.name = name;
        this.handle = handle;
    }

    String name() {
        return name;
    }

    /** {@link MetaNode#passes}. */
    boolean passes(int code) {
        return node.passes(code);
    }

    long count() {
        node.enter();
        try {
            return Native.tableCount(handle);
        } finally {
            node.leave();
        }
    }

    /** 0, or {@link MetaNode#LOCAL}: not logged, by policy. */
    int put(byte[] key, byte[] value) {
        node.enter();
        try {
            return MetaNode.check(value == null ? Native.delete(handle, key, 0) : Native.put(handle, key, value, 0));
        } finally {
            node.leave();
        }
    }

    /**
     * For the broker's hot paths: a number, without waiting and without an exception.
     *
     * @return 0, LOCAL, or a negative code
     */
    int offer(byte[] key, long value) {
        if (!node.tryEnter()) {
            return MetasyncException.CLOSED;
        }
        try {
            return Native.putLong(handle, key, value, MetaNode.NOWAIT);
        } finally {
            node.leave();
        }
    }

    /** As offer, with bytes; null removes the entry. */
    int offer(byte[] key, byte[] value) {
        if (!node.tryEnter()) {
            return MetasyncException.CLOSED;
        }
        try {
            return value == null ? Native.delete(handle, key, MetaNode.NOWAIT) : Native.put(handle, key, value, MetaNode.NOWAIT);
        } finally {
            node.leave();
        }
    }

    /** null if there is none. */
    byte[] get(byte[] key) {
        node.enter();
        try {
            return Native.get(handle, key);
        } finally {
            node.leave();
        }
    }

    /** The keys of all entries. */
    List<byte[]> keys() {
        byte[] encoded;
        node.enter();
        try {
            encoded = Native.keys(handle);
        } finally {
            node.leave();
        }
        if (encoded == null) {
            throw new MetasyncException(MetasyncException.MEMORY, "the keys of table " + name + " could not be listed");
        }
        List<byte[]> keys = new ArrayList<>();
        for (ByteBuffer bytes = ByteBuffer.wrap(encoded).order(ByteOrder.LITTLE_ENDIAN); bytes.hasRemaining();) {
            byte[] key = new byte[bytes.getInt()];
            bytes.get(key);
            keys.add(key);
        }
        return keys;
    }

    /** Writes all entries into a new file: see {@link Native#writeMembers}. */
    int writeMembers(byte[] path, byte[] head, byte[] tail) {
        node.enter();
        try {
            return Native.writeMembers(handle, path, head, tail);
        } finally {
            node.leave();
        }
    }

    /**
     * Makes the key this thread's until the transaction is closed. The order is: begin, make the new value, commit, change the
     * broker's own map, close.
     */
    Transaction begin(byte[] key, int waitMs) {
        node.enter();
        boolean begun = false;
        try {
            long txn = Native.begin(handle, key, waitMs);
            if (txn < 0) {
                throw MetaNode.failure((int) txn);
            }
            begun = true;
            return new Transaction(txn);
        } finally {
            if (!begun) {
                node.leave();
            }
        }
    }

    /** Of the thread that began it. */
    final class Transaction implements AutoCloseable {
        private final long txn;

        private Transaction(long txn) {
            this.txn = txn;
        }

        /**
         * Logs the value (null removes the entry) and waits for the table's level.
         *
         * @return 0, LOCAL, or NOT_REPLICATED: it stands, but is on no follower; then the broker's own map is to be changed
         * @throws MetasyncException it was refused, or its outcome is unknown: the broker's own map must stay as it is
         */
        int commit(byte[] value) {
            return commit(value, 0);
        }

        /** With {@link MetaNode#NOWAIT}: returns when it stands. */
        int commit(byte[] value, int flags) {
            int code = Native.commit(txn, value, flags);
            return code == MetasyncException.NOT_REPLICATED ? code : MetaNode.check(code);
        }

        @Override
        public void close() {
            Native.end(txn);
            node.leave();
        }
    }

    /** Compares the broker's copy with the log: see ms_compare_begin in core/metasync.h. */
    Comparison compare(int version, long writtenUs) {
        node.enter();
        boolean begun = false;
        try {
            long compare = Native.compareBegin(handle, version, writtenUs);
            if (compare < 0) {
                throw MetaNode.failure((int) compare);
            }
            begun = true;
            return new Comparison(compare);
        } finally {
            if (!begun) {
                node.leave();
            }
        }
    }

    /** Of the thread that began it; abandoned if it is closed without {@link #finish}. */
    final class Comparison implements AutoCloseable {
        private long compare;

        private Comparison(long compare) {
            this.compare = compare;
        }

        void entry(byte[] key, byte[] value) {
            MetaNode.check(Native.compareEntry(compare, key, value));
        }

        /** equal, different, kept host, kept log, other, outside, newer. */
        long[] finish() {
            long[] numbers = new long[7];
            long ended = compare;
            compare = 0;
            MetaNode.check(Native.compareEnd(ended, numbers));
            return numbers;
        }

        @Override
        public void close() {
            if (compare != 0) {
                Native.compareAbandon(compare);
                compare = 0;
            }
            node.leave();
        }
    }
}
