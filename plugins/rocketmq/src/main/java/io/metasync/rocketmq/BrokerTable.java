package io.metasync.rocketmq;

import java.io.File;
import org.apache.rocketmq.remoting.protocol.DataVersion;

/**
 * One table of metasync, and what of the broker it stands for. Its keys are leaf keys and its values are what the broker writes into its
 * own files: docs/rocketmq.md lists them.
 *
 * <p>While this node leads, {@link #meta} is the open table, and the maps that {@link #observe} has installed log what the broker changes.
 * Otherwise it is null, and {@link #put} and {@link #remove} bring what the leader has decided into the broker's objects. They never go
 * through an observing map.
 */
abstract class BrokerTable {
    interface Visitor {
        void entry(byte[] key, byte[] value);
    }

    private final String name;
    private final int type;
    private volatile MetaTable meta;

    BrokerTable(String name, int type) {
        this.name = name;
        this.type = type;
    }

    final String name() {
        return name;
    }

    final int type() {
        return type;
    }

    public final MetaTable meta() {
        return meta;
    }

    /** From now on changes are logged (table not null), or not any more. */
    final void lead(MetaTable table) {
        meta = table;
    }

    /** Every entry of the broker's own copy. */
    abstract void each(Visitor visitor);

    /** Brings a value into the broker's copy. Throws what makes it impossible, with the key. */
    abstract void put(byte[] key, byte[] value);

    abstract void remove(byte[] key);

    /** After a batch of put and remove: tells who has to know. */
    void applied() {
    }

    /**
     * Writes the broker's file if put or remove has changed anything since. Not after every batch: a file is written as a whole, and
     * what it lacks after a crash is in metasync's log. On a thread of its own.
     */
    void persist() {
    }

    /** Installs observing maps; once, after the broker has loaded its files. */
    abstract void observe();

    /** On a leader, every {@link Replication#POLL_MS}: finds what no map shows. */
    void poll() {
    }

    /** On a follower that is in sync, as often: puts right what this broker has counted or changed by itself in what the leader decides. */
    void mend() {
    }

    /** The file that the broker loaded it from; null if that is not known. */
    File file() {
        return null;
    }

    /** The version that the broker counts for this table; null if there is none of its own. */
    DataVersion version() {
        return null;
    }
}
