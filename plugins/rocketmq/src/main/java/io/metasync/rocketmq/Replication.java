package io.metasync.rocketmq;

import java.io.IOException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.store.config.BrokerRole;

/**
 * A broker's node: opens it, gives it the role that the broker has, and lets its tables and the broker's follow each other.
 *
 * <pre>
 *   load()   before any port is open: the node is opened; a master leads, and compares what it loaded with the log
 *   start()  a watcher: role changes, versions, what no map shows, whether the broker's own sync has to go on
 *   stop()   the maps log no more, the node is closed
 * </pre>
 *
 * <p>What can't be done now (somebody else was promoted, a log that has failed, a disk that is full) ends the node. The broker then goes on
 * as without it, and it is tried again from time to time.
 */
final class Replication {
    static final int POLL_MS = 200;
    private static final int CALM_MS = 1000;
    private static final int SOON_MS = 1;
    private static final int PATIENCE_MS = 1000;
    private static final int CATCH_UP_MS = 1000;
    private static final String OFF = "off";
    private static final String OFF_BY_POLICY = "off, its policy says replicate.enabled = false";

    private final BrokerController broker;
    private final Settings settings;
    private final Switch wanted;
    private final DataDir dir;
    private final Map<String, BrokerTable> tables = new LinkedHashMap<>();
    private final VersionTable versions;
    private final OwnSync ownSync;
    private final Sync sync = new Sync();
    private final Overrun overrun;
    private final Adoption adoption;
    private final Report report;
    private final BrokerFiles files = new BrokerFiles(tables.values());
    private final Thread watcher = new Thread(this::watch, "metasync-watch");
    private volatile boolean stopped;
    private volatile boolean calm;
    private boolean woken;

    /* The role, and what comes with it. Taken by the watcher, and by the broker's threads that change its role. */
    private final ReentrantLock roles = new ReentrantLock();
    private volatile MetaNode node;
    private volatile Leading leading;
    private String followed;
    private boolean fromFiles = true; /* the broker's tables are as it loaded them, which may be older than the log: compared when the node leads */
    private long retryAt = System.nanoTime();
    private long auditAt;
    private long catchUpAt = System.nanoTime();
    private boolean overrunDue;
    private boolean clampsBeyondEnd;
    private boolean logFailed;
    private String policyFile;
    private long inSyncAt = System.nanoTime();
    private String state = "";

    Replication(BrokerController broker, Settings settings, Switch wanted) {
        this.broker = broker;
        this.settings = settings;
        this.wanted = wanted;
        this.dir = new DataDir(settings.dir);
        this.policyFile = settings.policyFile;
        Counted counted = new Counted(this::wake, System::nanoTime);
        for (BrokerTable table : Tables.of(broker, counted)) {
            tables.put(table.name(), table);
        }
        versions = new VersionTable(new LinkedHashMap<>(tables));
        tables.put(versions.name(), versions);
        ownSync = new OwnSync(broker);
        adoption = new Adoption(broker, tables.get("topic"), tables.get("group"));
        overrun = new Overrun(broker);
        report = new Report(settings, tables, overrun);
        watcher.setDaemon(true);
    }

    // ---- life -----------------------------------------------------------------------------------------------------------------------

    void load() {
        tables.values().forEach(BrokerTable::observe);
        step(isMaster());
    }

    void start() {
        Names.open();
        watcher.start();
        files.start();
    }

    void stop() {
        stopped = true;
        wake();
        MetaNode open = node;
        if (open != null) {
            open.endCalls(); /* the watcher may be waiting in one */
        }
        roles.lock();
        try {
            closeNode();
            ownSync.pause(false);
            refuse(null);
        } finally {
            roles.unlock();
        }
        files.stop();
    }

    // ---- the node -------------------------------------------------------------------------------------------------------------------

    private void openNode() throws IOException {
        settings.prepare();
        MetaNode.Config config = new MetaNode.Config();
        config.dir = settings.dir;
        config.cluster = settings.cluster;
        config.name = settings.name;
        config.listen = settings.listen;
        config.secret = settings.secret;
        config.control = settings.control();
        config.policyFile = policyFile;
        node = MetaNode.open(config, new Host(tables, this::wake, files::changed));
    }

    private void closeNode() {
        if (leading != null) {
            leading.end();
            leading = null;
        }
        copies(null);
        calm = false;
        if (node != null) {
            node.close();
            node = null;
        }
        followed = null;
        sync.forget();
    }

    private void copies(MetaNode of) {
        tables.values().forEach(table -> table.follow(of));
    }

    /** Opens the node; data that it can't go on with is moved aside, never removed. */
    private void open() throws IOException {
        try {
            openNode();
        } catch (MetasyncException e) {
            if (!isForeign(e.code()) || !isOfData(e)) {
                throw e;
            }
            dir.moveAside(e.getMessage());
            openNode();
        }
    }

    private static boolean isForeign(int code) {
        return code == MetasyncException.DAMAGED || code == MetasyncException.FORMAT || code == MetasyncException.CLUSTER
            || code == MetasyncException.VERSION;
    }

    /** Not of the policy file, whose faults have the same codes, but name no folder. */
    private boolean isOfData(MetasyncException e) {
        return e.getMessage().contains(settings.dir);
    }

    // ---- roles ----------------------------------------------------------------------------------------------------------------------

    private boolean isElected() {
        return broker.getBrokerConfig().isEnableControllerMode();
    }

    private boolean hasMasterRole() {
        return broker.getMessageStoreConfig().getBrokerRole() != BrokerRole.SLAVE && broker.getBrokerConfig().getBrokerId() == MixAll.MASTER_ID;
    }

    private int term() {
        return broker.getReplicasManager() == null ? 0 : broker.getReplicasManager().getMasterEpoch();
    }

    /**
     * In controller mode the configured role says nothing until somebody was elected, and when this broker is, its role comes before its
     * name as the master's: a node that leads by then goes on.
     */
    private boolean isMaster() {
        return hasMasterRole() && (!isElected() || leading != null
            || (term() > 0 && broker.getBrokerAddr().equals(broker.getReplicasManager().getMasterAddress())));
    }

    /** The broker changes its role right now; it waits for this. */
    void statusChanged(boolean master) {
        if (master && hasMasterRole() && (!isElected() || term() > 0)) {
            step(true);
        } else if (!master && !hasMasterRole()) {
            roles.lock();
            try {
                resign(); /* from here on its changes are its own */
            } finally {
                roles.unlock();
            }
        }
        wake();
    }

    /** Brings the node to what the broker is by now. */
    private void step(boolean master) {
        roles.lock();
        try {
            if (stopped) {
                return;
            }
            if (!wanted.isAllowMetadataIncrementalSync()) {
                switchOff();
            } else if (node != null || System.nanoTime() - retryAt >= 0) {
                if (node == null) {
                    open();
                }
                if (!node.position().enabled) {
                    rest();
                } else {
                    resume();
                    take(master);
                }
            }
        } catch (IOException | RuntimeException e) {
            giveUp(e);
        } finally {
            roles.unlock();
        }
    }

    private void switchOff() {
        if (!state.equals(OFF)) {
            Log.info("switched off, the broker syncs its metadata as without it");
        }
        closeNode();
        fromFiles = false;
        refuse(null);
        ownSync.pause(false);
        state = OFF;
        report.state(state);
        retryAt = System.nanoTime();
    }

    private void take(boolean master) throws IOException {
        MetaNode.Position position = node.position();
        if (!position.enabled) {
            return; /* just now: the next step rests */
        }
        if (master) {
            overrunDue |= position.clampsBeyondEnd != clampsBeyondEnd; /* a policy that was reloaded */
            clampsBeyondEnd = position.clampsBeyondEnd;
            beMaster(position.role);
        } else {
            beSlave(position);
        }
    }

    /** Off by policy: the node stays open, since its policy can be reloaded. */
    private void rest() {
        if (!state.equals(OFF_BY_POLICY)) {
            Log.info("switched off by its policy (replicate.enabled), the broker syncs its metadata as without it");
        }
        resign();
        refuse(null);
        followed = null;
        fromFiles = false;
        copies(null);
        calm = false;
        sync.forget();
        ownSync.pause(false);
        state = OFF_BY_POLICY;
        report.state(state);
    }

    /** On again, by a policy that was reloaded: the node begins anew, since the broker's tables have gone their own way meanwhile. */
    private void resume() throws IOException {
        if (state.equals(OFF_BY_POLICY)) {
            Log.info("switched on by its policy");
            policyFile = (String) Report.part(Report.parse(node.status()), "policy").get("file");
            closeNode();
            openNode();
            state = "";
        }
    }

    private void giveUp(Exception e) {
        String words = "not replicating: " + e.getMessage();
        if (!stopped && !state.equals(words)) {
            tell(e);
        }
        state = words;
        report.state(state);
        closeNode();
        fromFiles &= !isMaster(); /* a master's clients go on changing them */
        retryAt = System.nanoTime() + settings.retryMs * 1_000_000L;
    }

    private void tell(Exception e) {
        if (e instanceof MetasyncException && ((MetasyncException) e).code() == MetasyncException.DEPOSED) {
            refuse(null); /* that is another matter than a log that fails */
            Log.warn("this broker is master, but another one of its group was promoted after it: what is changed here is not replicated, and its "
                + "node leads nobody. Restart this broker as a slave, or stop the other one for good (" + e.getMessage() + ")");
        } else {
            Log.error("the broker goes on without replication of its metadata, it is tried again every " + settings.retryMs / 1000 + " s: "
                + e.getMessage(), e);
        }
    }

    private void resign() {
        if (leading != null) {
            leading.end();
            leading = null;
        }
    }

    // ---- master -----------------------------------------------------------------------------------------------------------------------

    private void beMaster(int role) throws IOException {
        if (leading == null) {
            lead(true);
        } else if (role != MetaNode.ROLE_LEADER) {
            lost();
        } else if (System.nanoTime() - auditAt >= 0) {
            audit();
        }
    }

    /** retries: data that it can't lead with may be moved aside. */
    private void lead(boolean retries) throws IOException {
        if (dir.lostReign() != DataDir.NONE && !isElected()) {
            Leading.askAbove(dir.lostReign(), node, Peers.of(broker, settings));
            closeNode();
            openNode();
        }
        Leading made = new Leading(node, dir, tables, versions);
        Leading.Claim claim = new Leading.Claim();
        claim.loaded = fromFiles;
        claim.promoted = isElected() || followed != null || dir.followedLast() || dir.lostReign() != DataDir.NONE;
        claim.leastReign = Math.max(isElected() ? term() : 0, dir.lostReign() + 1);
        claim.peers = () -> Peers.of(broker, settings);
        try {
            made.begin(claim);
        } catch (MetasyncException e) {
            boolean damaged = e.code() == MetasyncException.DAMAGED || e.code() == MetasyncException.NOT_PROMOTABLE;
            if (!retries || !damaged) {
                throw e;
            }
            closeNode();
            dir.moveAside(e.getMessage());
            openNode();
            lead(false);
            return;
        }
        leading = made;
        fromFiles = false;
        refuse(null);
        calm = false;
        followed = null;
        copies(null);
        logFailed = false;
        ownSync.pause(false);
        dir.remember("leader", node.position().knownReign);
        dir.recovered();
        auditAt = System.nanoTime() + settings.auditMs * 1_000_000L;
        overrunDue = true;
        state = "leads";
        report.state(made.admit() ? state : "leads; slaves wait, since the log has no room for all tables yet");
    }

    /**
     * The node leads no more. If its log has failed, its policy says whether the broker may go on changing its tables, so that they go on asking
     * it, until it is opened anew; and until it leads again, if that fails. Otherwise somebody else leads.
     */
    private void lost() {
        Map<String, Object> log = Report.part(Report.parse(node.status()), "log");
        if (!Boolean.TRUE.equals(log.get("failed"))) {
            throw new MetasyncException(MetasyncException.DEPOSED, (String) Report.parse(node.status()).get("reason"));
        }
        if (!logFailed) {
            logFailed = true;
            refuse("pass".equals(log.get("on_failure")) ? null : "the log has failed");
            state = "not replicating: its log has failed";
            report.state(state);
            Log.error(state + ", the node is opened anew in " + settings.retryMs / 1000 + " s");
            retryAt = System.nanoTime() + settings.retryMs * 1_000_000L;
        } else if (System.nanoTime() - retryAt >= 0) {
            closeNode();
        }
    }

    private void refuse(String words) {
        tables.values().forEach(table -> table.refuse(words));
    }

    private void audit() {
        for (BrokerTable table : tables.values()) {
            int missed = table.audit();
            if (missed > 0) {
                Log.info("table " + table.name() + ": " + missed + " entries had changed in a way that was not seen, the audit has logged them");
            }
        }
        auditAt = System.nanoTime() + settings.auditMs * 1_000_000L;
    }

    // ---- slave ------------------------------------------------------------------------------------------------------------------------

    private void beSlave(MetaNode.Position position) throws IOException {
        resign();
        refuse(null);
        String master = broker.getSlaveSynchronize() == null ? null : broker.getSlaveSynchronize().getMasterAddr();
        if (master != null && !master.equals(broker.getBrokerAddr())) {
            follow(settings.peer(master), position);
        } else if (followed == null) {
            state = "waits for a master";
            report.state(state);
        }
        keepOwnSync();
    }

    private void follow(String address, MetaNode.Position position) throws IOException {
        if (address.equals(followed) && position.role == MetaNode.ROLE_FOLLOWER) {
            dir.remember("follower", position.knownReign);
            return;
        }
        if (address.equals(followed)) {
            throw new MetasyncException(MetasyncException.LOG_FAILED, (String) Report.parse(node.status()).get("reason"));
        }
        if (dir.hasBeginnings()) {
            closeNode();
            dir.dropBeginnings();
            openNode();
        }
        node.follow(address);
        dir.filled(); /* the tables are the leader's from now on */
        dir.remember("follower", node.position().knownReign);
        followed = address;
        fromFiles = false;
        copies(node);
        sync.forget();
        state = "follows " + address;
        report.state(state);
    }

    /** The broker's own sync is off while this node is in sync, and for a while after, so that a flap changes nothing. */
    private void keepOwnSync() {
        long now = System.nanoTime();
        boolean inSync = followed != null && sync.look(node);
        calm = inSync; /* nothing here is polled then, and a change of its role wakes */
        if (inSync) {
            inSyncAt = now;
            ownSync.pause(true);
            tables.values().forEach(BrokerTable::mend);
        } else if (followed != null && sync.isRefusing()) {
            ownSync.pause(true); /* it would remove what is refused to be removed */
        } else if (ownSync.isPaused()) {
            ownSync.pause(now - inSyncAt < settings.graceMs * 1_000_000L);
        }
    }

    // ---- watching -------------------------------------------------------------------------------------------------------------------

    synchronized void wake() {
        woken = true;
        notifyAll();
    }

    private synchronized void await() throws InterruptedException {
        if (!woken) {
            wait(calm ? CALM_MS : POLL_MS);
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
                    step(isMaster());
                    poll();
                    if (!calm) { /* else only what is applied changes something */
                        files.changed();
                    }
                }
            } catch (InterruptedException e) {
                return;
            } catch (RuntimeException | LinkageError e) {
                Log.warn("watcher", e);
            }
        }
    }

    /** One table's trouble is not the others'. */
    private void poll() {
        MetaNode open = node;
        if (open == null) {
            ownSyncWithoutNode();
        } else if (sync.isRefusing()) {
            adoption.consider(open, broker.getSlaveSynchronize().getMasterAddr());
        }
        for (BrokerTable table : tables.values()) {
            try {
                table.poll();
            } catch (MetasyncException e) {
                if (e.code() != MetasyncException.CLOSED && e.code() != MetasyncException.NOT_LEADER) {
                    Log.warn("table " + table.name() + " could not be looked at", e);
                }
            }
        }
        if (open != null && System.nanoTime() - catchUpAt >= 0) {
            catchUpAt = System.nanoTime() + CATCH_UP_MS * 1_000_000L;
            catchUp(open);
        }
        if (overrunDue && leading != null && overrun.isReady()) {
            overrunDue = false;
            overrun.look(clampsBeyondEnd);
        }
    }

    /** What the policy has let pass while the log had no room. */
    private void catchUp(MetaNode open) {
        try {
            if (tables.values().stream().anyMatch(BrokerTable::isLacking) && open.hasRoom()) {
                tables.values().stream().filter(BrokerTable::isLacking).forEach(BrokerTable::catchUp);
            }
            Leading current = leading;
            if (current != null && !current.isAdmitted() && current.admit()) {
                report.state(state);
            }
        } catch (IOException e) {
            Log.warn("its data directory can't be written", e);
        } catch (MetasyncException e) {
            if (e.code() != MetasyncException.CLOSED && e.code() != MetasyncException.NOT_LEADER) {
                Log.warn("what the log had no room for could not be logged", e);
            }
        }
    }

    private void ownSyncWithoutNode() {
        if (ownSync.isPaused()) {
            ownSync.pause(System.nanoTime() - inSyncAt < settings.graceMs * 1_000_000L);
        }
    }

    // ---- for operators ----------------------------------------------------------------------------------------------------------------

    void describe(Map<String, String> info) {
        boolean locked = false;
        try {
            locked = roles.tryLock(PATIENCE_MS, TimeUnit.MILLISECONDS); /* a change of role may take long, a step of the watcher does not */
            if (locked) {
                report.describe(info, node, followed, ownSync.isPaused(), leading == null ? Collections.emptyMap() : leading.blocked());
            } else {
                info.put("metasync_state", "its role is changing");
            }
        } catch (MetasyncException e) {
            info.put("metasync_state", e.getMessage());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            if (locked) {
                roles.unlock();
            }
        }
    }
}
