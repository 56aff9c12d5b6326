package io.metasync.rocketmq;

import java.util.Collection;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** Writes the broker's files some time after its objects have changed, on a thread of its own: all that comes until then in one go. */
final class BrokerFiles {
    private static final int DELAY_MS = 1000;

    private final Collection<BrokerTable> tables;
    private final AtomicBoolean due = new AtomicBoolean();
    private final ScheduledExecutorService executor = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "metasync-files");
        thread.setDaemon(true);
        return thread;
    });
    private volatile boolean started;

    /** tables: they may still come. */
    BrokerFiles(Collection<BrokerTable> tables) {
        this.tables = tables;
    }

    /** The broker runs. */
    void start() {
        started = true;
        changed();
    }

    /** The broker's objects may have changed. */
    void changed() {
        if (started && due.compareAndSet(false, true)) {
            try {
                executor.schedule(this::writeDue, DELAY_MS, TimeUnit.MILLISECONDS);
            } catch (RejectedExecutionException e) {
                due.set(true); /* for ever: it stops, and writes them a last time */
            }
        }
    }

    /** Writes all of them a last time. */
    void stop() {
        executor.shutdown();
        write(true);
    }

    private void writeDue() {
        due.set(false);
        write(false);
    }

    private void write(boolean all) {
        for (BrokerTable table : tables) {
            try {
                if (all || !table.isWrittenByBroker()) {
                    table.persist();
                }
            } catch (RuntimeException e) {
                Log.warn("table " + table.name() + " could not be written to the broker's file", e);
            }
        }
    }
}
