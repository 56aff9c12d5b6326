package io.metasync.rocketmq;

import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/**
 * The data versions of the other tables. The broker counts a version up after it has made the change, so they are looked at a moment
 * later. A follower takes what it is told and never counts by itself.
 */
final class VersionTable extends BrokerTable {
    private final Map<String, BrokerTable> tables;
    private final Map<String, DataVersion> logged = new HashMap<>();
    private final Map<String, DataVersion> told = new HashMap<>();

    VersionTable(Map<String, BrokerTable> tables) {
        super("data_version", MetaNode.TYPE_BYTES);
        this.tables = tables;
    }

    private static String json(DataVersion version) {
        return RemotingSerializable.toJson(version, false);
    }

    @Override
    void each(Visitor visitor) {
        for (BrokerTable table : tables.values()) {
            if (table.version() != null) {
                visitor.entry(Bytes.key(table.name()), Bytes.utf8(json(table.version())));
            }
        }
    }

    @Override
    byte[] get(byte[] key) {
        BrokerTable table = tables.get(Bytes.text(key));
        return table == null || table.version() == null ? null : Bytes.utf8(json(table.version()));
    }

    @Override
    synchronized void put(byte[] key, byte[] value) {
        BrokerTable table = tables.get(Bytes.text(key));
        DataVersion version = RemotingSerializable.fromJson(Bytes.text(value), DataVersion.class);
        if (table != null && table.version() != null && version != null) {
            if (!version.equals(table.version())) { /* an audit tells it again: no reason to write a file */
                table.version().assignNewOne(version);
                table.touched();
            }
            told.put(table.name(), version);
            table.versioned();
        }
    }

    /** What this broker has counted up by itself goes back to what the leader said. */
    @Override
    synchronized void mend() {
        told.forEach((name, version) -> {
            DataVersion now = tables.get(name).version();
            if (!version.equals(now)) {
                now.assignNewOne(version);
            }
        });
    }

    @Override
    void remove(byte[] key) {
        /* a version does not go away */
    }

    @Override
    void observe() {
        /* a DataVersion can't be observed */
    }

    @Override
    synchronized void poll() {
        MetaTable meta = meta();
        if (meta == null) {
            logged.clear();
            return;
        }
        told.clear();
        for (BrokerTable table : tables.values()) {
            DataVersion now = table.version();
            if (now != null && !now.equals(logged.get(table.name()))) {
                DataVersion copy = new DataVersion();
                copy.assignNewOne(now);
                if (meta.offer(Bytes.key(table.name()), Bytes.utf8(json(copy))) >= 0) {
                    logged.put(table.name(), copy);
                }
            }
        }
    }

    /** The version that the log has for a table; null if it has none. */
    static DataVersion logged(MetaTable versions, BrokerTable table) {
        byte[] json = versions == null ? null : versions.get(Bytes.key(table.name()));
        return json == null ? null : RemotingSerializable.fromJson(Bytes.text(json), DataVersion.class);
    }

    /** Versions are compared with their tables, and logged as they are then. */
    @Override
    boolean isOwnAffair() {
        return true;
    }

    @Override
    int audit() {
        poll();
        return 0;
    }
}
