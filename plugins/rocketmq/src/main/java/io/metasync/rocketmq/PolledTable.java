package io.metasync.rocketmq;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * A table that the broker changes inside of its objects, where no map can see it: a leader compares it with what it offered last. How
 * late a change shows is the poll's time, {@link Replication#POLL_MS}.
 */
abstract class PolledTable extends BrokerTable {
    private final Map<ByteBuffer, byte[]> offered = new HashMap<>();

    PolledTable(String name, int type) {
        super(name, type);
    }

    /** A cheap look whether anything can have changed since this was asked last. */
    boolean moved() {
        return true;
    }

    @Override
    final void observe() {
        /* it is polled */
    }

    @Override
    final void poll() {
        MetaTable meta = meta();
        if (meta == null) {
            offered.clear();
        } else if (moved() || offered.isEmpty()) {
            offerChanges(meta);
        }
    }

    private void offerChanges(MetaTable meta) {
        Set<ByteBuffer> gone = new HashSet<>(offered.keySet());
        each((key, value) -> {
            ByteBuffer name = ByteBuffer.wrap(key);
            gone.remove(name);
            if (!Arrays.equals(value, offered.get(name)) && meta.offer(key, value) >= 0) {
                offered.put(name, value);
            }
        });
        for (ByteBuffer name : gone) {
            if (meta.offer(name.array(), (byte[]) null) >= 0) {
                offered.remove(name);
            }
        }
    }
}
