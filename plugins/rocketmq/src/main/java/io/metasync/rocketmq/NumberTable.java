package io.metasync.rocketmq;

import java.util.concurrent.atomic.AtomicLong;

/** What tables of int64 values have in common: offering the broker's last value of a key without waiting. */
abstract class NumberTable extends BrokerTable {
    private final AtomicLong refused = new AtomicLong();

    NumberTable(String name) {
        super(name, MetaNode.TYPE_INT64);
    }

    /** How often metasync did not take a value (it is found again by the next comparison). */
    final long refused() {
        return refused.get();
    }

    /** The broker's value of a key as its maps have it now; null: none. */
    interface Current {
        Long value();
    }

    /**
     * Two threads may change one key at once, and offer in the other order. So whoever has offered looks again: if the broker has another
     * value by then, that one is offered too. The last offer of all is then always of the broker's last value.
     */
    final void offer(byte[] key, Current current) {
        MetaTable table = meta();
        if (table == null) {
            return;
        }
        Long value;
        Long now = current.value();
        do {
            value = now;
            int code = value == null ? table.offer(key, (byte[]) null) : table.offer(key, value.longValue());
            if (code < 0) {
                refused.incrementAndGet();
            }
            now = current.value();
        } while (value == null ? now != null : !value.equals(now));
    }
}
