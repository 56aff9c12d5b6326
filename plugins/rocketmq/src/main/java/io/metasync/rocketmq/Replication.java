package io.metasync.rocketmq;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.BrokerMemberGroup;
import org.apache.rocketmq.store.config.BrokerRole;

/**
 * A broker's node: opens it, gives it the role that the broker has, and lets its tables and the broker's follow each other.
 *
 * <pre>
 *   load()   before any port is open: the node is opened; a master leads, and compares what it loaded with the log
 *   start()  a watcher: role changes, versions, what no map shows, whether the broker's own sync has to go on
 *   stop()   the maps log no more, the node is closed
 * </pre>
 */
final class Replication implements Native.Callbacks {
    static final int POLL_MS = 200;
    private static final int PERSIST_MS = 1000;
    private static final int LEAD_MS = 30_000;
    private static final int SOON_MS = 1;
    private static final String ROLE_FILE = "role";

    private final BrokerController broker;
    private final Settings settings;
    private final Map<String, BrokerTable> tables = new LinkedHashMap<>();
    private final VersionTable versions;
    private final Applier applier;
    private final OwnSync ownSync;
    private final ScheduledExecutorService files = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "metasync-files");
        thread.setDaemon(true);
        return thread;
    });
    private final Thread watcher = new Thread(this::watch, "metasync-watch");
    private MetaNode node;
    private boolean leading;
    private String followed;
    private long inSyncAt;
    private volatile boolean stopped;
    private boolean woken;

    Replication(BrokerController broker, Settings settings) {
        this.broker = broker;
        this.settings = settings;
        Counted counted = new Counted(this::wake);
        for (BrokerTable table : Tables.of(broker, counted)) {
            tables.put(table.name(), table);
        }
        versions = new VersionTable(tables);
        Map<String, BrokerTable> all = new LinkedHashMap<>(tables);
        all.put(versions.name(), versions);
        applier = new Applier(all);
        ownSync = new OwnSync(broker);
        watcher.setDaemon(true);
    }

    // ---- life -----------------------------------------------------------------------------------------------------------------------

    void load() throws IOException {
        MetaNode.Config config = new MetaNode.Config();
        config.dir = settings.dir;
        config.cluster = settings.cluster;
        config.name = settings.name;
        config.listen = settings.listen;
        config.secret = settings.secret;
        config.control = settings.control();
        config.policyFile = settings.policyFile;
        node = MetaNode.open(config, this);
        tables.values().forEach(BrokerTable::observe);
        if (isMaster()) {
            lead();
        }
    }

    void start() {
        watcher.start();
        files.scheduleWithFixedDelay(this::persist, PERSIST_MS, PERSIST_MS, TimeUnit.MILLISECONDS);
    }

    private void persist() {
        for (BrokerTable table : tables.values()) {
            try {
                table.persist();
            } catch (RuntimeException e) {
                Log.warn("table " + table.name() + " could not be written to the broker's file", e);
            }
        }
    }

    void stop() {
        stopped = true;
        wake();
        if (watcher.isAlive()) {
            try {
                watcher.join(5000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        logNoMore();
        if (node != null) {
            node.close();
        }
        files.shutdown();
        persist();
    }

    // ---- roles ----------------------------------------------------------------------------------------------------------------------

    private boolean isMaster() {
        return broker.getMessageStoreConfig().getBrokerRole() != BrokerRole.SLAVE && broker.getBrokerConfig().getBrokerId() == MixAll.MASTER_ID;
    }

    private void allTables(java.util.function.Consumer<BrokerTable> action) {
        tables.values().forEach(action);
        action.accept(versions);
    }

    private void lead() throws IOException {
        boolean promoted = "follower".equals(lastRole());
        if (promoted) {
            node.promote(false, LEAD_MS);
        } else {
            node.lead(peers(), LEAD_MS);
        }
        rememberRole("leader");
        followed = null;
        ownSync.pause(false);
        allTables(table -> {
            MetaTable meta = node.table(table.name(), table.type());
            if (!leading && !promoted) {
                compare(table, meta);
            }
            table.lead(meta);
        });
        leading = true;
    }

    private void logNoMore() {
        allTables(table -> table.lead(null));
        leading = false;
    }

    /** What the broker has loaded from its files against what the log says: nobody may be rewound by an old file. */
    private void compare(BrokerTable table, MetaTable meta) {
        try (MetaTable.Comparison comparison = meta.compare(versionOf(table), writtenAt(table))) {
            table.each(comparison::entry);
            long[] result = comparison.finish();
            if (result[1] > 0) {
                Log.info("table " + table.name() + ": " + result[1] + " entries differed between the broker's files and the log; "
                    + result[2] + " are the files', " + result[3] + " the log's, " + result[4] + " neither's");
            }
        }
        table.applied();
        table.persist();
    }

    /** 1: the broker's version is higher than the logged one, -1: lower, 0: they don't tell. */
    private int versionOf(BrokerTable table) {
        if (table.version() == null) {
            return 0;
        }
        MetaTable meta = node.table(versions.name(), versions.type());
        byte[] logged = meta == null ? null : meta.get(Bytes.key(table.name()));
        DataVersion version = logged == null ? null : RemotingSerializable.fromJson(Bytes.text(logged), DataVersion.class);
        return version == null ? 0 : Long.compare(table.version().getCounter().get(), version.getCounter().get());
    }

    private long writtenAt(BrokerTable table) {
        File file = table.file();
        return file == null ? 0 : file.lastModified() * 1000;
    }

    /** The nodes of the other brokers of this group, as far as the name servers know them. */
    private String[] peers() {
        List<String> addresses = new ArrayList<>();
        try {
            BrokerMemberGroup group = broker.getBrokerOuterAPI() == null ? null : broker.getBrokerOuterAPI()
                .syncBrokerMemberGroup(broker.getBrokerConfig().getBrokerClusterName(), broker.getBrokerConfig().getBrokerName());
            if (group != null) {
                group.getBrokerAddrs().forEach((id, address) -> {
                    if (!address.equals(broker.getBrokerAddr())) {
                        addresses.add(settings.peer(address));
                    }
                });
            }
        } catch (Exception e) {
            Log.info("the name servers were not asked for other brokers of this group: " + e.getMessage());
        }
        return addresses.toArray(new String[0]);
    }

    private String lastRole() {
        try {
            return new String(Files.readAllBytes(new File(settings.dir, ROLE_FILE).toPath()), StandardCharsets.UTF_8).trim();
        } catch (IOException e) {
            return "";
        }
    }

    private void rememberRole(String role) throws IOException {
        File temporary = new File(settings.dir, ROLE_FILE + ".new");
        Files.write(temporary.toPath(), role.getBytes(StandardCharsets.UTF_8));
        Files.move(temporary.toPath(), new File(settings.dir, ROLE_FILE).toPath(), StandardCopyOption.ATOMIC_MOVE);
    }

    private void follow(String address) throws IOException {
        logNoMore();
        node.follow(address);
        rememberRole("follower");
        followed = address;
        inSyncAt = System.nanoTime();
    }

    // ---- watching -------------------------------------------------------------------------------------------------------------------

    synchronized void wake() {
        woken = true;
        notifyAll();
    }

    private synchronized void await() throws InterruptedException {
        if (!woken) {
            wait(POLL_MS);
        }
        boolean soon = woken;
        woken = false;
        if (soon && !stopped) {
            wait(SOON_MS); /* the version is counted after the change */
        }
    }

    private void watch() {
        while (!stopped) {
            try {
                await();
                if (!stopped) {
                    takeRole();
                    tables.values().forEach(BrokerTable::poll);
                    versions.poll();
                    if (ownSync.isPaused()) {
                        allTables(BrokerTable::mend);
                    }
                }
            } catch (InterruptedException e) {
                return;
            } catch (IOException | RuntimeException e) {
                Log.warn("watcher", e);
            }
        }
    }

    /** The role that the broker has by now. */
    private void takeRole() throws IOException {
        if (isMaster()) {
            if (!leading || node.position().role != MetaNode.ROLE_LEADER) {
                leading = false;
                lead();
            }
            return;
        }
        String master = broker.getSlaveSynchronize() == null ? null : broker.getSlaveSynchronize().getMasterAddr();
        if (master != null && !master.equals(broker.getBrokerAddr())) {
            String address = settings.peer(master);
            if (leading || !address.equals(followed)) {
                follow(address);
            }
        } else if (leading) {
            logNoMore();
        }
        keepOwnSync();
    }

    /** The broker's own sync is off while this node is in sync, and for a while after, so that a flap changes nothing. */
    private void keepOwnSync() {
        long now = System.nanoTime();
        if (followed != null && isInSync()) {
            inSyncAt = now;
            ownSync.pause(true);
        } else if (ownSync.isPaused()) {
            ownSync.pause(now - inSyncAt < settings.graceMs * 1_000_000L);
        }
    }

    private boolean isInSync() {
        MetaNode.Position position = node.position();
        return position.role == MetaNode.ROLE_FOLLOWER && position.hostApplied > 0 && position.hostApplied >= position.leaderHead;
    }

    // ---- callbacks, on the node's host thread ----------------------------------------------------------------------------------------

    @Override
    public int apply(byte[] table, int flags, long lsn, byte[] changes, int count) {
        try {
            applier.apply(Bytes.text(table), flags, changes);
            return 0;
        } catch (RuntimeException e) {
            Log.error("table " + Bytes.text(table) + " at lsn " + lsn + " could not be applied", e);
            return -1;
        }
    }

    @Override
    public void role(int role, byte[] reason) {
        wake();
    }

    @Override
    public void log(int severity, byte[] line) {
        if (severity >= 3) {
            Log.error(Bytes.text(line));
        } else if (severity == 2) {
            Log.warn(Bytes.text(line));
        } else if (severity == 1) {
            Log.info(Bytes.text(line));
        }
    }

    @Override
    public void entered(byte[] table, byte[] key) {
        BrokerTable entered = tables.get(Bytes.text(table));
        MetaTable meta = entered == null ? null : entered.meta();
        if (meta != null) {
            entered.each((name, value) -> {
                if (key == null || java.util.Arrays.equals(name, key)) {
                    meta.offer(name, value);
                }
            });
        }
    }

    @Override
    public int resolved(byte[] table, byte[] key, byte[] value) {
        BrokerTable resolved = versions.name().equals(Bytes.text(table)) ? versions : tables.get(Bytes.text(table));
        try {
            if (resolved != null && value != null) {
                resolved.put(key, value);
            } else if (resolved != null) {
                resolved.remove(key);
            }
            return 0;
        } catch (RuntimeException e) {
            Log.error("table " + Bytes.text(table) + ", key " + Bytes.text(key) + ": the decided value could not be applied", e);
            return -1;
        }
    }

    // ---- for operators ----------------------------------------------------------------------------------------------------------------

    void describe(Map<String, String> info) {
        MetaNode.Position position = node.position();
        info.put("metasync_role", MetaNode.roleName(position.role));
        info.put("metasync_epoch", position.reign + "." + position.run);
        info.put("metasync_leader", followed == null ? "" : followed);
        info.put("metasync_position", String.valueOf(position.applied));
        info.put("metasync_host_applied", String.valueOf(position.hostApplied));
        info.put("metasync_lag", String.valueOf(Math.max(0, position.leaderHead - position.applied)));
        info.put("metasync_own_sync", ownSync.isPaused() ? "paused" : "on");
    }
}
