package io.metasync.rocketmq;

import java.io.File;
import java.io.IOException;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.rocketmq.remoting.protocol.DataVersion;

/**
 * How a node becomes the leader of its broker's tables.
 *
 * <pre>
 *   1. the node leads (asks its peers), or is promoted: a node that followed first applies all that it has
 *   2. when the tables are as the broker loaded them: they are compared with the log, so that nobody is rewound by an
 *      old file; what the log knows better is brought into the broker's objects
 *   3. from here on the broker's maps log
 *   4. what the broker has changed before that is found by going through all tables, and logged
 *   5. the broker's files are written
 *   6. all is in the log: slaves, which have waited so far, come in
 * </pre>
 */
final class Leading {
    private static final int TIMEOUT_MS = 30_000;

    private final MetaNode node;
    private final Map<String, BrokerTable> tables;
    private final VersionTable versions;
    private final DataDir dir;
    private volatile boolean admitted;
    private final Map<String, String> blocked = new LinkedHashMap<>();

    /** tables: versions is the last of them. */
    Leading(MetaNode node, DataDir dir, Map<String, BrokerTable> tables, VersionTable versions) {
        this.node = node;
        this.dir = dir;
        this.tables = tables;
        this.versions = versions;
    }

    /** Tables that could not be taken, and why. */
    Map<String, String> blocked() {
        return blocked;
    }

    /** What the broker knows of this role. */
    static final class Claim {
        /** The broker's tables are as it loaded them from its files. */
        boolean loaded;
        /** The broker was made master: it asks nobody, and opens a new reign. Otherwise it was it before. */
        boolean promoted;
        /** Of a promotion: a reign at least so high. */
        long leastReign;
        Supplier<String[]> peers;
    }

    /** Throws what keeps it from leading; the tables log nothing then. */
    void begin(Claim claim) throws IOException {
        Set<String> whole = new HashSet<>();
        for (BrokerTable table : tables.values()) {
            if (isInLog(table)) {
                whole.add(table.name());
            }
        }
        whole.removeAll(dir.unfinished()); /* what the log has of these is the beginning of what the broker has */
        try {
            takeRole(claim);
            Set<String> filled = new LinkedHashSet<>(tables.keySet());
            filled.removeAll(whole);
            dir.fills(filled, whole.isEmpty());
            for (BrokerTable table : tables.values()) {
                take(table, claim.loaded && whole.contains(table.name()));
            }
            complete(claim);
            admit();
        } catch (IOException | RuntimeException e) {
            end();
            throw e;
        }
    }

    /**
     * Lets slaves in as soon as the log has all that the broker has. What a table's log had no room for, a slave would drop.
     *
     * @return whether they are in
     */
    boolean admit() throws IOException {
        if (!admitted && tables.values().stream().noneMatch(BrokerTable::isLacking)) {
            try {
                node.compared();
            } catch (MetasyncException e) {
                if (e.code() != MetasyncException.NO_SPACE && e.code() != MetasyncException.TIMEOUT) {
                    throw e;
                }
                return false;
            }
            dir.filled();
            admitted = true;
        }
        return admitted;
    }

    boolean isAdmitted() {
        return admitted;
    }

    void end() {
        tables.values().forEach(table -> table.lead(null));
    }

    private boolean isInLog(BrokerTable table) {
        try {
            return node.table(table.name(), table.type()) != null;
        } catch (MetasyncException e) {
            return false; /* of another type, say: take() will tell */
        }
    }

    private void takeRole(Claim claim) {
        if (claim.promoted) {
            node.promote(claim.leastReign, MetaNode.PROMOTE_COMPARE, TIMEOUT_MS);
        } else {
            node.leadComparing(claim.peers.get(), TIMEOUT_MS);
        }
    }

    /**
     * For a node whose data was lost, and with it the reign that its followers have seen: whether nobody was promoted since, as far as the peers
     * know. Throws DEPOSED otherwise. The node is to be opened anew afterwards.
     */
    static void askAbove(long lostReign, MetaNode node, String[] peers) {
        try {
            node.leadComparing(peers, TIMEOUT_MS); /* and is gone again before anybody follows it */
        } catch (MetasyncException e) {
            if (e.code() != MetasyncException.DEPOSED || node.position().knownReign > lostReign) {
                throw e;
            }
        }
    }

    private void take(BrokerTable table, boolean compare) {
        try {
            MetaTable meta = node.table(table.name(), table.type());
            if (compare && !table.isOwnAffair()) {
                compare(table, meta);
            }
            table.lead(meta);
        } catch (MetasyncException e) {
            if (e.code() == MetasyncException.NOT_LEADER || e.code() == MetasyncException.CLOSED) {
                throw e;
            }
            blocked.put(table.name(), e.getMessage());
            Log.error("table " + table.name() + " is not replicated: " + e.getMessage());
        }
    }

    private void complete(Claim claim) {
        for (BrokerTable table : tables.values()) {
            if (!claim.loaded) {
                table.completeOwn();
            }
            int missed = table.audit();
            if (missed > 0) {
                Log.info("table " + table.name() + ": " + missed + " entries of the broker were not in the log yet");
            }
            table.persist();
        }
    }

    // ---- the broker's files against the log --------------------------------------------------------------------------------------------

    private void compare(BrokerTable table, MetaTable meta) {
        DataVersion own = table.version();
        DataVersion logged = own == null ? null : VersionTable.logged(node.table(versions.name(), versions.type()), table);
        int newer = logged == null ? 0 : Long.compare(own.getCounter().get(), logged.getCounter().get());
        File file = table.file();
        long[] result;
        try (MetaTable.Comparison comparison = meta.compare(newer, file == null ? 0 : file.lastModified() * 1000)) {
            table.each(comparison::entry);
            result = comparison.finish();
        }
        long differed = result[1];
        long keptHost = result[2];
        long keptLog = result[3];
        long other = result[4];
        if (differed > 0) {
            Log.info("table " + table.name() + ": " + differed + " entries differed between the broker's files and the log; " + keptHost
                + " are the files', " + keptLog + " the log's, " + other + " neither's");
        }
        if (own != null) {
            renew(own, newer < 0 ? logged : null, other > 0 || (newer < 0 ? keptHost > 0 : keptLog > 0));
            table.touched();
        }
        table.applied();
    }

    /** A version never goes back, and what is new gets a new one. */
    private static void renew(DataVersion own, DataVersion higher, boolean mixed) {
        if (higher != null) {
            own.assignNewOne(higher);
        }
        if (mixed) {
            own.nextVersion(own.getStateVersion());
        }
    }
}
