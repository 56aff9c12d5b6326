package io.metasync.rocketmq;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * A follower's side: brings batches of the leader's changes into the broker's objects, on the node's host thread. A FULL batch comes in
 * parts; what the broker has and no part named is removed with the last one. Nothing is ever cleared.
 */
final class Applier {
    private final Map<String, BrokerTable> tables;
    private final Map<String, Set<ByteBuffer>> named = new HashMap<>();

    Applier(Map<String, BrokerTable> tables) {
        this.tables = tables;
    }

    /** Throws if a change can't be applied, after the others of the batch were; all comes again then, as a FULL one. */
    void apply(String name, int flags, byte[] encoded) {
        BrokerTable table = tables.get(name);
        if (table == null) {
            return; /* a table of a newer plugin: kept by metasync, unknown to this broker */
        }
        Set<ByteBuffer> seen = null;
        if ((flags & Changes.FULL) != 0) {
            seen = (flags & Changes.FIRST) != 0 ? new HashSet<>() : named.get(name);
            if (seen == null) {
                throw new IllegalStateException("a part of a FULL batch of table " + name + " without its first one");
            }
            named.put(name, seen);
        }
        RuntimeException failure = null;
        for (Changes changes = new Changes(encoded); changes.next();) {
            try {
                change(table, changes);
            } catch (RuntimeException e) { /* the others are not to suffer from this one */
                Log.error("table " + name + ", key " + Bytes.readable(changes.key()) + ": the leader's value could not be applied", e);
                failure = e;
            }
            if (seen != null) {
                seen.add(ByteBuffer.wrap(changes.key()));
            }
        }
        if (seen != null && (flags & Changes.LAST) != 0) {
            removeUnnamed(table, seen, (flags & Changes.AUDIT) != 0);
            named.remove(name);
        }
        table.applied();
        if (failure != null) {
            throw failure;
        }
    }

    private static void change(BrokerTable table, Changes changes) {
        if (changes.op() == Changes.PUT) {
            table.put(changes.key(), changes.value());
        } else if (changes.op() == Changes.DELETE) {
            table.remove(changes.key());
        }
    }

    private static void removeUnnamed(BrokerTable table, Set<ByteBuffer> seen, boolean audit) {
        Set<ByteBuffer> extra = new HashSet<>();
        table.each((key, value) -> {
            if (!seen.contains(ByteBuffer.wrap(key))) {
                extra.add(ByteBuffer.wrap(key));
            }
        });
        for (ByteBuffer key : extra) {
            table.remove(key.array());
        }
        if (!extra.isEmpty()) {
            Log.info("table " + table.name() + ": " + extra.size() + " entries that the leader does not have were removed"
                + (audit ? ", found by the audit" : ""));
        }
    }
}
