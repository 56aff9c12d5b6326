package io.metasync.rocketmq;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Consumer;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.remoting.protocol.DataVersion;

/** Numbers of the consumer offset manager, by topic@group and queue: consumer offsets, pull offsets, reset offsets. */
final class QueueOffsetTable extends NumberTable {
    private static final int KEPT_KEYS = 256; /* a row's queues */

    private final BrokerController broker;
    private final String field;
    private final boolean versioned;
    private final boolean written;
    private NestedMap map;
    private volatile boolean dirty;

    /** field: of the manager, which has a setter for one of them only. */
    QueueOffsetTable(String name, BrokerController broker, String field, boolean versioned) {
        super(name);
        this.broker = broker;
        this.field = field;
        this.versioned = versioned;
        String getter = "get" + Character.toUpperCase(field.charAt(0)) + field.substring(1);
        this.written = Reflect.hasMethod(manager(), getter); /* the file is made by getters */
    }

    private ConsumerOffsetManager manager() {
        return broker.getConsumerOffsetManager();
    }

    @SuppressWarnings("unchecked")
    @Override
    void observe() {
        map = new NestedMap((ConcurrentMap<String, ConcurrentMap<Integer, Long>>) Reflect.get(manager(), field), Row::new);
        Reflect.set(manager(), field, map);
    }

    @SuppressWarnings("unchecked")
    private ConcurrentMap<String, ConcurrentMap<Integer, Long>> own() {
        return map != null ? map.own() : (ConcurrentMap<String, ConcurrentMap<Integer, Long>>) Reflect.get(manager(), field);
    }

    private static byte[] key(byte[] topicAtGroup, int queue) {
        return Bytes.join(topicAtGroup, Integer.toString(queue).getBytes(StandardCharsets.US_ASCII));
    }

    /** Offers the changes of one topic@group. A commit is too frequent to make its leaf key anew. */
    private final class Row implements Consumer<Integer> {
        private final String topicAtGroup;
        private volatile byte[][] keys = {};

        Row(String topicAtGroup) {
            this.topicAtGroup = topicAtGroup;
        }

        @Override
        public void accept(Integer queue) {
            if (meta() == null) {
                return;
            }
            if (Bytes.isKey(topicAtGroup)) {
                offer(key(queue), () -> number(topicAtGroup, queue));
            } else {
                refuse();
            }
        }

        private byte[] key(int queue) {
            byte[][] made = keys;
            byte[] key = queue >= 0 && queue < made.length ? made[queue] : null;
            return key != null ? key : make(queue);
        }

        private synchronized byte[] make(int queue) {
            byte[] key = QueueOffsetTable.key(Bytes.key(topicAtGroup), queue);
            if (queue >= 0 && queue < KEPT_KEYS) {
                byte[][] more = Arrays.copyOf(keys, Math.max(keys.length, queue + 1));
                more[queue] = key;
                keys = more; /* a new array, so that others see what is in it */
            }
            return key;
        }
    }

    private Long number(String topicAtGroup, Integer queue) {
        ConcurrentMap<Integer, Long> inner = own().get(topicAtGroup);
        return inner == null ? null : inner.get(queue);
    }

    @Override
    Long number(byte[] key) {
        return number(Bytes.name(key), queue(key));
    }

    @Override
    void each(Visitor visitor) {
        own().forEach((topicAtGroup, inner) -> {
            if (!Bytes.isKey(topicAtGroup)) {
                return;
            }
            byte[] name = Bytes.key(topicAtGroup);
            inner.forEach((queue, offset) -> visitor.entry(key(name, queue), Bytes.number(offset)));
        });
    }

    private static ConcurrentMap<Integer, Long> raw(ConcurrentMap<Integer, Long> inner) {
        return inner instanceof NumberMap ? ((NumberMap<Integer>) inner).own() : inner;
    }

    private static Integer queue(byte[] key) {
        return Integer.valueOf(Bytes.field(key));
    }

    @Override
    void put(byte[] key, byte[] value) {
        String topicAtGroup = Bytes.name(key);
        ConcurrentMap<Integer, Long> inner = own().get(topicAtGroup);
        if (inner == null) {
            ConcurrentMap<Integer, Long> made = new ConcurrentHashMap<>(4);
            inner = map != null ? map.observed(topicAtGroup, made) : made;
            own().put(topicAtGroup, inner);
        }
        Long offset = Bytes.number(value);
        dirty |= !offset.equals(raw(inner).put(queue(key), offset));
    }

    /** With its last queue the whole key goes: an empty map would stay for ever. */
    @Override
    void remove(byte[] key) {
        String topicAtGroup = Bytes.name(key);
        ConcurrentMap<Integer, Long> inner = own().get(topicAtGroup);
        if (inner == null) {
            return;
        }
        raw(inner).remove(queue(key));
        if (inner.isEmpty()) {
            own().remove(topicAtGroup);
            Reflect.callIfThere(manager(), "removeConsumerOffset", topicAtGroup);
        }
        dirty = true;
    }

    @Override
    void persist() {
        if (dirty) {
            dirty = false;
            manager().persist();
        }
    }

    /** flushConsumerOffsetInterval, 5 s. */
    @Override
    boolean isWrittenByBroker() {
        return true;
    }

    @Override
    void touched() {
        dirty = true;
    }

    /** null for what this version of the broker does not write: it begins empty, and that says nothing. */
    @Override
    File file() {
        return written ? new File(manager().configFilePath()) : null;
    }

    @Override
    DataVersion version() {
        return versioned ? manager().getDataVersion() : null;
    }
}
