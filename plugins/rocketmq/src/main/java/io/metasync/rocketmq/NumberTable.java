package io.metasync.rocketmq;

import java.util.concurrent.atomic.AtomicLong;

/** What tables of int64 values have in common: offering the broker's last value of a key without waiting. */
abstract class NumberTable extends BrokerTable {
    private final AtomicLong refused = new AtomicLong();

    NumberTable(String name) {
        super(name, MetaNode.TYPE_INT64);
    }

    /** How often metasync did not take a value (the next audit finds it). */
    final long refused() {
        return refused.get();
    }

    /** The broker's value of a key as its maps have it now; null: none. */
    interface Current {
        Long value();
    }

    /**
     * Never throws and never waits: it is called where the broker commits offsets. Two threads may change one key at once, and offer in the
     * other order. So whoever has offered looks again: if the broker has another value by then, that one is offered too. The last offer of
     * all is then always of the broker's last value.
     *
     * @return whether metasync has the value, or leaves it out by policy
     */
    final boolean offer(byte[] key, Current current) {
        MetaTable table = meta();
        if (table == null) {
            return false;
        }
        Long value;
        Long now = current.value();
        int code;
        do {
            value = now;
            code = value == null ? table.offer(key, (byte[]) null) : table.offer(key, value.longValue());
            if (code < 0) {
                refused.incrementAndGet();
                noteRefusal(code);
            }
            now = current.value();
        } while (value == null ? now != null : !value.equals(now));
        return code >= 0;
    }

    /** The broker's value of a key that metasync or the host's own copy has named; null: none. */
    abstract Long number(byte[] key);

    @Override
    final byte[] get(byte[] key) {
        Long value = number(key);
        return value == null ? null : Bytes.number(value);
    }

    /** These are not logged before the broker has them, so that the key is not to be held meanwhile. */
    @Override
    final boolean repair(MetaTable table, byte[] key) {
        return offer(key, () -> number(key));
    }

    /** A name that can't be a key: it stays the broker's own. */
    final void refuse() {
        refused.incrementAndGet();
    }
}
