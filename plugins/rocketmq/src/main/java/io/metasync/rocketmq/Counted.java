package io.metasync.rocketmq;

import java.util.HashMap;
import java.util.Map;
import java.util.function.LongSupplier;

/**
 * Compares how often a table's version was counted up with how often a change was seen. The broker does one with the other, the count
 * shortly after the change; so counts without changes mean that it has changed objects in place. A change that is not counted within
 * {@link #PATIENCE_NS} never is, and is forgotten, since it would hide a change in place for good; a count that comes later than that, or
 * without a change, costs a surprise for nothing.
 */
final class Counted {
    static final long PATIENCE_NS = 500_000_000L;

    private static final class Account {
        long changes;
        long older; /* changes, too: from before the last turn */
        long turnedAt;
        long counter;
        boolean known;
        boolean missed;

        /** False: so many counts are more than the changes that were seen. */
        boolean take(long counts) {
            if (counts < 0 || counts > older + changes) {
                return false;
            }
            long ofOlder = Math.min(older, counts);
            older -= ofOlder;
            changes -= counts - ofOlder;
            return true;
        }

        /** What is left are changes whose count is still to come, or never comes. */
        void turn(long now) {
            if (now - turnedAt >= PATIENCE_NS) {
                turnedAt = now;
                older = changes;
                changes = 0;
            }
        }

        void forget() {
            older = 0;
            changes = 0;
        }
    }

    private final Map<BrokerTable, Account> accounts = new HashMap<>();
    private final Runnable wake;
    private final LongSupplier clock;

    /** wake: a version is about to move. */
    Counted(Runnable wake, LongSupplier clock) {
        this.wake = wake;
        this.clock = clock;
    }

    private Account account(BrokerTable table) {
        return accounts.computeIfAbsent(table, same -> new Account());
    }

    void changed(BrokerTable table) {
        synchronized (this) {
            account(table).changes++;
        }
        wake.run();
    }

    /** A change was made of which it is known that nothing has logged it. */
    void missed(BrokerTable table) {
        synchronized (this) {
            account(table).missed = true;
        }
        wake.run();
    }

    /** Whether there is more than the changes that were seen, since this was asked last. */
    synchronized boolean surprised(BrokerTable table) {
        Account account = account(table);
        long counter = table.version().getCounter().get();
        boolean surprise = account.known && !account.take(counter - account.counter);
        if (!account.known || surprise) {
            account.forget();
        }
        account.turn(clock.getAsLong());
        boolean missed = account.missed;
        account.missed = false;
        account.counter = counter;
        account.known = true;
        return surprise || missed;
    }
}
