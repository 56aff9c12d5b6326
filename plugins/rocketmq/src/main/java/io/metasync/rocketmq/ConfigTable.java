package io.metasync.rocketmq;

import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * Tables whose values are objects of the broker by name: topics, subscription groups. A value is the JSON that the broker itself makes of
 * the object.
 */
abstract class ConfigTable<V> extends BrokerTable implements LoggedMap.Leaf<String, V> {
    private final Class<V> valueClass;
    private LoggedMap<String, V> map;
    private volatile boolean dirty;

    ConfigTable(String name, Class<V> valueClass) {
        super(name, MetaNode.TYPE_BYTES);
        this.valueClass = valueClass;
    }

    /** The broker's map as it is now. */
    abstract ConcurrentMap<String, V> table();

    /** Has the broker use another map. */
    abstract void install(ConcurrentMap<String, V> map);

    /** Writes the broker's file. */
    abstract void store();

    @Override
    final void observe() {
        map = new LoggedMap<>(table(), this);
        install(map);
    }

    private ConcurrentMap<String, V> own() {
        return map != null ? map.own() : table();
    }

    // ---- the broker's copy -------------------------------------------------------------------------------------------------------

    @Override
    final void each(Visitor visitor) {
        own().forEach((key, value) -> visitor.entry(key(key), value(value)));
    }

    @Override
    void put(byte[] key, byte[] value) {
        V object = RemotingSerializable.fromJson(Bytes.text(value), valueClass);
        if (object == null) {
            throw new IllegalArgumentException("table " + name() + ", key " + Bytes.text(key) + ": no JSON object");
        }
        own().put(Bytes.text(key), object);
        dirty = true;
    }

    @Override
    void remove(byte[] key) {
        own().remove(Bytes.text(key));
        dirty = true;
    }

    @Override
    final void persist() {
        if (dirty) {
            dirty = false;
            store();
        }
    }

    /** Logs every object as it is now, for changes that the broker has made inside of them; equal ones cost nothing. */
    final void offerAll() {
        MetaTable meta = meta();
        if (meta != null) {
            own().forEach((key, value) -> meta.offer(key(key), value(value)));
        }
    }

    // ---- LoggedMap.Leaf -----------------------------------------------------------------------------------------------------------

    @Override
    public final byte[] key(String key) {
        return Bytes.key(key);
    }

    @Override
    public final byte[] value(V value) {
        return Bytes.utf8(RemotingSerializable.toJson(value, false));
    }
}
