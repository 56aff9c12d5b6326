package io.metasync.rocketmq;

import java.util.HashMap;
import java.util.Map;

/**
 * Compares how often a table's version was counted up with how often a change was seen. The broker does one with the other, the count
 * shortly after the change; so counts without changes mean that it has changed objects in place. Where it counts without a change, or
 * changes without a count, a surprise may come for nothing, or one may be hidden by the other: the audit finds that.
 */
final class Counted {
    private static final class Account {
        long changes;
        long counter;
        boolean known;
        boolean missed;
    }

    private final Map<BrokerTable, Account> accounts = new HashMap<>();
    private final Runnable wake;

    /** wake: a version is about to move. */
    Counted(Runnable wake) {
        this.wake = wake;
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
        long counts = counter - account.counter;
        boolean surprise = account.known && (counts < 0 || counts > account.changes);
        if (!account.known || surprise) {
            account.changes = 0;
        } else {
            account.changes -= counts; /* what is left: changes whose count is still to come */
        }
        boolean missed = account.missed;
        account.missed = false;
        account.counter = counter;
        account.known = true;
        return surprise || missed;
    }
}
