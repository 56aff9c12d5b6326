package io.metasync.rocketmq;

import java.util.concurrent.ConcurrentMap;
import java.util.function.UnaryOperator;

/**
 * A map whose changes are logged before the broker sees them: the key is begun, the new value made and committed, then put into the
 * broker's own map, then the key is ended. If the log refuses, the caller gets the library's message and the map is unchanged.
 *
 * <p>While this node does not lead, or metasync is off, a change goes to the broker's own map alone; so does one that the policy lets pass
 * although the log has no space or has failed.
 */
final class LoggedMap<K, V> extends ObservedMap<K, V> {
    /** How a key and a value of this map are named in metasync's table, and whether to. */
    interface Leaf<K, V> {
        byte[] key(K key);

        /** A table that is open while this node leads; null: changes are not logged. */
        MetaTable meta();

        /** Before a change that is not logged. Throws if such are refused. */
        default void mayChange() {
        }

        byte[] value(V value);

        /** A change was made (value null: a removal): the broker will count its version up soon. */
        void changed(V value);

        /** The log has refused a change. Whether the broker goes on with it nevertheless. */
        boolean goesOn(MetaTable table, MetasyncException e);

        /** It went on, and the map has the change. */
        void passed();

        /** A change was made that could not be logged where it was made: it has to be looked for. */
        default void missed() {
        }

        /** A change stands here, but is on no follower, and the caller will be told so: the broker does not go on with it. */
        default void unconfirmed() {
        }
    }

    private static final int PATIENCE_MS = 10_000;
    private static final int PASSED = MetaNode.LOCAL + 1;

    private final Leaf<K, V> leaf;

    LoggedMap(ConcurrentMap<K, V> own, Leaf<K, V> leaf) {
        super(own);
        this.leaf = leaf;
    }

    @Override
    protected V update(K key, UnaryOperator<V> change) {
        MetaTable table = leaf.meta();
        if (table == null) {
            leaf.mayChange();
            return local(key, change);
        }
        MetaTable.Transaction transaction;
        try {
            transaction = table.begin(leaf.key(key), PATIENCE_MS);
        } catch (MetasyncException e) {
            return unlogged(table, e, key, change);
        }
        V old;
        V value;
        int code;
        try {
            old = own().get(key);
            value = change.apply(old);
            if (isKeep(value) || (value == null && old == null)) {
                return old;
            }
            code = commit(table, transaction, value);
            set(key, value);
        } finally {
            transaction.close();
        }
        leaf.changed(value);
        if (code == PASSED) {
            leaf.passed();
        }
        if (code == MetasyncException.NOT_REPLICATED) {
            leaf.unconfirmed();
            throw new MetasyncException(code, "changed here, but no follower has confirmed it");
        }
        return old;
    }

    private int commit(MetaTable table, MetaTable.Transaction transaction, V value) {
        try {
            return transaction.commit(value == null ? null : leaf.value(value));
        } catch (MetasyncException e) {
            if (!leaf.goesOn(table, e)) {
                throw e;
            }
            return PASSED;
        }
    }

    /** The key could not be begun. */
    private V unlogged(MetaTable table, MetasyncException e, K key, UnaryOperator<V> change) {
        if (e.code() == MetasyncException.REENTRANT) { /* the broker changes one table while it computes a value of another */
            V old = local(key, change);
            leaf.missed();
            return old;
        }
        if (!leaf.goesOn(table, e)) {
            throw e;
        }
        return local(key, change);
    }

    private V local(K key, UnaryOperator<V> change) {
        Object[] before = new Object[1];
        own().compute(key, (same, old) -> {
            before[0] = old;
            V value = change.apply(old);
            return isKeep(value) ? old : value;
        });
        @SuppressWarnings("unchecked")
        V old = (V) before[0];
        return old;
    }

    private void set(K key, V value) {
        if (value == null) {
            own().remove(key);
        } else {
            own().put(key, value);
        }
    }
}
