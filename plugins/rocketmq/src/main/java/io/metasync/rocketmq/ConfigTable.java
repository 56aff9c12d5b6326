package io.metasync.rocketmq;

import java.util.Arrays;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * Tables whose values are objects of the broker by name: topics, subscription groups. A value is the JSON that the broker itself makes of
 * the object.
 */
abstract class ConfigTable<V> extends BrokerTable implements LoggedMap.Leaf<String, V> {
    private final Class<V> valueClass;
    private final Counted counted;
    private LoggedMap<String, V> map;
    private volatile boolean dirty;

    ConfigTable(String name, Class<V> valueClass, Counted counted) {
        super(name, MetaNode.TYPE_BYTES);
        this.valueClass = valueClass;
        this.counted = counted;
    }

    /** The broker's map as it is now. */
    abstract ConcurrentMap<String, V> table();

    /** Has the broker use another map. */
    abstract void install(ConcurrentMap<String, V> map);

    /** Writes the broker's file. */
    abstract void store();

    /** What a broker makes by itself when it starts. */
    Map<String, V> builtIn() {
        return Collections.emptyMap();
    }

    @Override
    final void observe() {
        map = new LoggedMap<>(table(), this);
        install(map);
    }

    final ConcurrentMap<String, V> own() {
        return map != null ? map.own() : table();
    }

    // ---- the broker's copy -------------------------------------------------------------------------------------------------------

    @Override
    final void each(Visitor visitor) {
        own().forEach((key, value) -> {
            if (Bytes.isKey(key)) {
                visitor.entry(key(key), value(value));
            }
        });
    }

    @Override
    final byte[] get(byte[] key) {
        V value = own().get(Bytes.text(key));
        return value == null ? null : value(value);
    }

    /** Readers see the object that they saw before, unless it is to be another. */
    @Override
    void put(byte[] key, byte[] value) {
        if (Arrays.equals(value, get(key))) {
            return;
        }
        V object = RemotingSerializable.fromJson(Bytes.text(value), valueClass);
        if (object == null) {
            throw new IllegalArgumentException("table " + name() + ", key " + Bytes.text(key) + ": no JSON object");
        }
        own().put(Bytes.text(key), object);
        dirty = true;
        changedBy(Bytes.text(key), object);
    }

    /** The leader has put this. */
    void changedBy(String key, V value) {
    }

    @Override
    void remove(byte[] key) {
        dirty |= own().remove(Bytes.text(key)) != null;
    }

    @Override
    final void persist() {
        if (dirty) {
            dirty = false;
            store();
        }
    }

    @Override
    final void touched() {
        dirty = true;
    }

    // ---- leading -----------------------------------------------------------------------------------------------------------------

    @Override
    final void completeOwn() {
        builtIn().forEach((key, value) -> {
            if (table().putIfAbsent(key, value) == null) {
                Log.info("table " + name() + ": " + key + " was made again, every broker of this version has it");
                unconfirmed();
            }
        });
    }

    /** What the broker has changed inside of its objects: it has counted the version up, and no change was seen. */
    @Override
    void poll() {
        if (meta() != null && counted.surprised(this)) {
            audit();
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

    @Override
    public final void changed(V value) {
        counted.changed(this);
    }

    @Override
    public final void missed() {
        counted.missed(this);
    }

    /** The version and the file, which the broker won't get to. */
    @Override
    public final void unconfirmed() {
        version().nextVersion();
        dirty = true;
    }
}
