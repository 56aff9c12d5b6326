package io.metasync.rocketmq;

import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
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

    private static final int REPAIR_MS = 1000;

    private final String name;
    private final int type;
    private volatile MetaTable meta;
    private volatile boolean lacking;
    private volatile String refusal;
    private volatile MetaNode followed;

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

    /** From now on changes that can't be logged are refused with these words, as the policy wants it; null: not any more. */
    final void refuse(String words) {
        refusal = words;
    }

    /** Before a change while {@link #meta} is null: throws if it is refused. */
    public final void mayChange() {
        String words = refusal;
        if (words != null) {
            throw new MetasyncException(MetasyncException.LOG_FAILED, words);
        }
    }

    /** The node follows: it has what the leader has; null: it does not. */
    final void follow(MetaNode node) {
        followed = node;
    }

    /** The leader's table on a follower; null if there is none. */
    final MetaTable copy() {
        MetaNode node = followed;
        return node == null ? null : node.table(name, type);
    }

    // ---- the broker's copy -----------------------------------------------------------------------------------------------------------

    /** Every entry of the broker's own copy that can be one of metasync's. */
    abstract void each(Visitor visitor);

    /** The broker's value of a key as it is now; null if there is none. */
    abstract byte[] get(byte[] key);

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

    /** The broker itself writes the file every few seconds, whatever its role. */
    boolean isWrittenByBroker() {
        return false;
    }

    /** Its version was set to the leader's: it belongs into the file. */
    void touched() {
    }

    /** On a follower: the leader has told the version of what was put and removed before. */
    void versioned() {
    }

    // ---- leading ---------------------------------------------------------------------------------------------------------------------

    /** Installs observing maps; once, after the broker has loaded its files. */
    abstract void observe();

    /** Puts back what every broker of this version has, but the leader before had not. Logged. */
    void completeOwn() {
    }

    /** On a leader, every {@link Replication#POLL_MS}: finds what no map shows. */
    void poll() {
    }

    /**
     * Whether the broker goes on with a change that the log has refused: the role was lost, or metasync ended, just now, and what a node that
     * does not lead changes is its broker's own affair; or the policy lets it pass.
     */
    public boolean goesOn(MetaTable table, MetasyncException e) {
        if (e.code() == MetasyncException.NOT_LEADER || e.code() == MetasyncException.CLOSED) {
            return true;
        }
        return table.passes(e.code());
    }

    /** The broker went on so, and has made the change by now. */
    public void passed() {
        lacking = true;
    }

    /** Whether the log lacks changes for which it had no room. */
    final boolean isLacking() {
        return lacking && meta != null;
    }

    /** The log has room by now. */
    final void catchUp() {
        lacking = false;
        int caught = audit();
        if (caught > 0) {
            Log.info("table " + name + ": " + caught + " entries were logged that the log had no room for");
        }
    }

    final void noteRefusal(int code) {
        if (code == MetasyncException.NO_SPACE || code == MetasyncException.TIMEOUT) {
            lacking = true;
        }
    }

    /**
     * On a leader: compares the whole of the broker's copy with the log, and logs what differs. Nothing of the broker is changed. This is for
     * what was changed before the maps logged, and for what no map and no poll has seen.
     *
     * @return how many entries differed
     */
    int audit() {
        MetaTable table = meta;
        if (table == null) {
            return 0;
        }
        List<byte[]> differing = new ArrayList<>();
        each((key, value) -> {
            if (!Arrays.equals(value, table.get(key))) {
                differing.add(key);
            }
        });
        for (byte[] key : table.keys()) {
            if (get(key) == null) {
                differing.add(key);
            }
        }
        int repaired = 0;
        for (byte[] key : differing) {
            repaired += repair(table, key) ? 1 : 0;
        }
        return repaired;
    }

    /** Logs the broker's value of a key, in the order of the changes that the broker makes meanwhile. False: it was not logged, or needn't be. */
    boolean repair(MetaTable table, byte[] key) {
        try (MetaTable.Transaction transaction = table.begin(key, REPAIR_MS)) {
            byte[] value = get(key);
            return !Arrays.equals(value, table.get(key)) && transaction.commit(value, MetaNode.NOWAIT) == 0;
        } catch (MetasyncException e) {
            noteRefusal(e.code());
            return false; /* the next audit will try again */
        }
    }

    // ---- following -------------------------------------------------------------------------------------------------------------------

    /** On a follower that is in sync, as often: puts right what this broker has counted or changed by itself in what the leader decides. */
    void mend() {
    }

    // ---- for the comparison at the start ---------------------------------------------------------------------------------------------

    /** The broker's files are about this broker alone, whatever the log says: they are not compared, but logged. */
    boolean isOwnAffair() {
        return false;
    }

    /** The file that the broker loaded it from; null if it is in none, or that is not known. */
    File file() {
        return null;
    }

    /** The version that the broker counts for this table; null if there is none of its own. */
    DataVersion version() {
        return null;
    }
}
