package io.metasync.rocketmq;

import java.util.Arrays;
import java.util.Map;

/** What the node tells this broker, on the node's host thread. Nothing is thrown back over the border. */
final class Host implements Native.Callbacks {
    private static final int ERROR = 3;
    private static final int WARN = 2;
    private static final int INFO = 1;
    private static final long QUIET_NS = 60_000_000_000L;

    private final Map<String, BrokerTable> tables;
    private final Applier applier;
    private final Runnable wake;
    private final Runnable changed;
    private String lastLine = "";
    private long lastTime;
    private long repeated;

    /** wake: the role may have changed; changed: the broker's objects have. */
    Host(Map<String, BrokerTable> tables, Runnable wake, Runnable changed) {
        this.tables = tables;
        this.applier = new Applier(tables);
        this.wake = wake;
        this.changed = changed;
    }

    @Override
    public int apply(byte[] table, int flags, long lsn, byte[] changes, int count) {
        try {
            applier.apply(Bytes.text(table), flags, changes);
            return 0;
        } catch (Throwable e) { /* out of memory too: it comes again */
            Log.error("table " + Bytes.text(table) + " at lsn " + lsn + " could not be applied", e);
            return -1;
        } finally {
            changed.run();
        }
    }

    @Override
    public void role(int role, byte[] reason) {
        wake.run();
    }

    /** A line that comes again and again (a master without this plugin can't be reached) is written once a minute. */
    @Override
    public void log(int severity, byte[] line) {
        String text = Bytes.text(line);
        long now = System.nanoTime();
        if (text.equals(lastLine) && now - lastTime < QUIET_NS) {
            repeated++;
            return;
        }
        String words = repeated == 0 || !text.equals(lastLine) ? text : text + " (" + repeated + " times more since)";
        lastLine = text;
        lastTime = now;
        repeated = 0;
        if (severity >= ERROR) {
            Log.error(words);
        } else if (severity == WARN) {
            Log.warn(words);
        } else if (severity == INFO) {
            Log.info(words);
        }
    }

    @Override
    public void entered(byte[] table, byte[] key) {
        BrokerTable entered = tables.get(Bytes.text(table));
        MetaTable meta = entered == null ? null : entered.meta();
        try {
            if (meta == null) {
                return;
            }
            if (key != null) {
                meta.offer(key, entered.get(key)); /* no wait is allowed here; a newer value that is put meanwhile is found by the audit */
            } else {
                entered.each(meta::offer);
            }
        } catch (RuntimeException e) {
            Log.warn("table " + Bytes.text(table) + ": what the policy wants now was not logged, the next audit does it", e);
        }
    }

    @Override
    public int resolved(byte[] table, byte[] key, byte[] value) {
        BrokerTable resolved = tables.get(Bytes.text(table));
        try {
            if (resolved != null && value != null && !Arrays.equals(value, resolved.get(key))) {
                resolved.put(key, value);
            } else if (resolved != null && value == null) {
                resolved.remove(key);
            }
            if (resolved != null) {
                resolved.applied();
                changed.run();
            }
            return 0;
        } catch (Throwable e) {
            Log.error("table " + Bytes.text(table) + ", key " + Bytes.readable(key) + ": the decided value could not be applied", e);
            return -1;
        }
    }
}
