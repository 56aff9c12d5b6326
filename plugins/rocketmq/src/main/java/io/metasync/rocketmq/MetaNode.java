package io.metasync.rocketmq;

import java.util.Map;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;

/**
 * One node of metasync inside this JVM. Every call goes through {@link #enter} and {@link #leave}, so that {@link #close} can wait for
 * those that are under way and refuse those that come later: a handle is never used after its node is gone.
 */
final class MetaNode implements AutoCloseable {
    static final int NOWAIT = 1;
    static final int LOCAL = 1;
    static final int PROMOTE_FORCE = 1;
    /** The host compares its own copy with the log afterwards, and followers wait until {@link #compared}. */
    static final int PROMOTE_COMPARE = 2;
    static final int TYPE_BYTES = 1;
    static final int TYPE_INT64 = 2;
    static final int ROLE_LEADER = 3;
    static final int ROLE_FOLLOWER = 4;

    private static final String[] ROLES = {"idle", "asking", "opening", "leader", "follower"};

    private final long handle;
    /* Entered is read after left: when they are equal then, nobody is inside. One adder could show zero while somebody is. */
    private final LongAdder entered = new LongAdder();
    private final LongAdder left = new LongAdder();
    private volatile boolean closed;

    private MetaNode(long handle) {
        this.handle = handle;
    }

    /** What a node needs to open; null where there is none. */
    static final class Config {
        String dir;
        String cluster;
        String name;
        String listen;
        String secret;
        String control;
        String policyFile;
    }

    static MetaNode open(Config config, Native.Callbacks callbacks) {
        byte[][] texts = {Bytes.utf8(config.dir), Bytes.utf8(config.cluster), Bytes.utf8(config.name), Bytes.utf8(config.listen),
            Bytes.utf8(config.secret), Bytes.utf8(config.control), Bytes.utf8(config.policyFile)};
        long handle = Native.open(texts, callbacks);
        if (handle < 0) {
            throw failure((int) handle);
        }
        return new MetaNode(handle);
    }

    /** The exception of this thread's last failed call. */
    static MetasyncException failure(int code) {
        String message = Bytes.text(Native.lastError());
        boolean older = code == MetasyncException.MEMORY; /* the border has no words for that */
        return new MetasyncException(code, message.isEmpty() || older ? Bytes.text(Native.errorText(code)) : message);
    }

    boolean tryEnter() {
        entered.increment();
        if (closed) {
            left.increment();
            return false;
        }
        return true;
    }

    void enter() {
        if (!tryEnter()) {
            throw new MetasyncException(MetasyncException.CLOSED, "the node is closed");
        }
    }

    void leave() {
        left.increment();
    }

    /** The code if it is no failure. */
    static int check(int code) {
        if (code < 0) {
            throw failure(code);
        }
        return code;
    }

    /** Calls that wait return with CLOSED, later ones too. Then it only remains to close it. */
    void endCalls() {
        if (tryEnter()) {
            try {
                Native.endCalls(handle);
            } finally {
                leave();
            }
        }
    }

    /** Ends it once. Not from a callback. Calls that wait in the library return first, what was begun is ended. */
    @Override
    public synchronized void close() {
        if (closed) {
            return;
        }
        closed = true;
        Native.endCalls(handle); /* nobody waits inside any more */
        long patience = System.nanoTime() + 30_000_000_000L;
        while (inside() && System.nanoTime() < patience) {
            LockSupport.parkNanos(100_000);
        }
        if (!inside()) { /* else a call is stuck: better to leave the node open than to pull it away from under the call */
            Native.close(handle);
        }
    }

    private boolean inside() {
        long gone = left.sum();
        return gone != entered.sum();
    }

    boolean isClosed() {
        return closed;
    }

    int port() {
        enter();
        try {
            return Native.port(handle);
        } finally {
            leave();
        }
    }

    void lead(String[] peers, int timeoutMs) {
        lead(peers, false, timeoutMs);
    }

    /** For a host that compares its own copy, or fills the log from it: followers wait until {@link #compared}. */
    void leadComparing(String[] peers, int timeoutMs) {
        lead(peers, true, timeoutMs);
    }

    private void lead(String[] peers, boolean compares, int timeoutMs) {
        byte[][] addresses = new byte[peers.length][];
        for (int i = 0; i < peers.length; i++) {
            addresses[i] = Bytes.utf8(peers[i]);
        }
        enter();
        try {
            check(Native.lead(handle, addresses, compares, timeoutMs));
        } finally {
            leave();
        }
    }

    void follow(String address) {
        enter();
        try {
            check(Native.follow(handle, Bytes.utf8(address)));
        } finally {
            leave();
        }
    }

    /** Opens a reign of at least that number, and higher than all that are known. */
    void promote(long leastReign, int flags, int timeoutMs) {
        enter();
        try {
            check(Native.promote(handle, leastReign, flags, timeoutMs));
        } finally {
            leave();
        }
    }

    /** All that the host has is in the log, and on disk: followers come in. */
    void compared() {
        enter();
        try {
            check(Native.compared(handle));
        } finally {
            leave();
        }
    }

    /** A follower that refuses its leader's history takes it. */
    void adopt() {
        enter();
        try {
            check(Native.adopt(handle));
        } finally {
            leave();
        }
    }

    Position position() {
        long[] numbers = new long[Position.NUMBERS];
        enter();
        try {
            Native.position(handle, numbers);
        } finally {
            leave();
        }
        return new Position(numbers);
    }

    /** The node's state as JSON text. */
    String status() {
        enter();
        try {
            byte[] json = Native.status(handle);
            if (json == null) {
                throw new MetasyncException(MetasyncException.MEMORY, Bytes.text(Native.lastError()));
            }
            return Bytes.text(json);
        } finally {
            leave();
        }
    }

    /**
     * Whether the policy ({@code log.on_failure = "pass"}) lets the broker go on with a change that the log has refused with this code: it has no
     * space, its disk does not answer, or it has failed.
     */
    boolean passes(int code) {
        boolean noRoom = code == MetasyncException.NO_SPACE || code == MetasyncException.TIMEOUT;
        if (!noRoom && code != MetasyncException.UNKNOWN && code != MetasyncException.LOG_FAILED) {
            return false;
        }
        Map<String, Object> log = Report.part(Report.parse(status()), "log");
        return "pass".equals(log.get("on_failure")) && (noRoom || Boolean.TRUE.equals(log.get("failed")));
    }

    /** Whether its log has room for changes. */
    boolean hasRoom() {
        return Boolean.FALSE.equals(Report.part(Report.parse(status()), "log").get("no_space"));
    }

    void flush() {
        enter();
        try {
            check(Native.flush(handle));
        } finally {
            leave();
        }
    }

    /** Opens a table; null if this node follows and the log has not brought it yet. */
    MetaTable table(String name, int type) {
        enter();
        try {
            long table = Native.tableOpen(handle, Bytes.utf8(name), type);
            if (table == MetasyncException.NOT_FOUND) {
                return null;
            }
            if (table < 0) {
                throw failure((int) table);
            }
            return new MetaTable(this, name, table);
        } finally {
            leave();
        }
    }

    static String roleName(int role) {
        return role >= 0 && role < ROLES.length ? ROLES[role] : "unknown";
    }

    /** struct ms_position. */
    static final class Position {
        static final int NUMBERS = 14;

        final int role;
        final long reign;
        final long run;
        final long head;
        final long synced;
        final long replicated;
        final long applied;
        final long hostApplied;
        final long leaderHead;
        final long knownReign;
        /** False: the policy says that the node takes no role. */
        final boolean enabled;
        /** The policy's {@code host.beyond_end} is "clamp", otherwise "report". */
        final boolean clampsBeyondEnd;

        Position(long[] numbers) {
            role = (int) numbers[0];
            reign = numbers[1];
            run = numbers[2];
            head = numbers[4];
            synced = numbers[6];
            replicated = numbers[7];
            applied = numbers[8];
            hostApplied = numbers[9];
            leaderHead = numbers[10];
            knownReign = numbers[11];
            enabled = numbers[12] != 0;
            clampsBeyondEnd = numbers[13] != 0;
        }
    }
}
