package io.metasync.rocketmq;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * A table that the broker changes inside of its objects, where no map can see it: a leader compares it with what it offered last. How
 * late a change shows is the poll's time, {@link Replication#POLL_MS}; more where the table is so large that looking at it would take
 * more than a twentieth of a processor.
 */
abstract class PolledTable extends BrokerTable {
    private static final int REST = 20;

    private final Map<ByteBuffer, byte[]> offered = new HashMap<>();
    private long restUntil = System.nanoTime();

    PolledTable(String name, int type) {
        super(name, type);
    }

    /** So long at least between two looks. */
    int pauseMs() {
        return 0;
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
        long now = System.nanoTime();
        if (meta == null) {
            offered.clear();
        } else if (now - restUntil >= 0 && (moved() || offered.isEmpty())) {
            offerChanges(meta);
            restUntil = now + Math.max((System.nanoTime() - now) * REST, pauseMs() * 1_000_000L);
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
