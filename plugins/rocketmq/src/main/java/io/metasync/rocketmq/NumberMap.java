package io.metasync.rocketmq;

import java.util.concurrent.ConcurrentMap;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;

/** A map of a hot table (queue -> offset, level -> offset): the broker's own map changes first, then `changed` hears which key did. */
final class NumberMap<K> extends ObservedMap<K, Long> {
    private final Consumer<K> changed;

    NumberMap(ConcurrentMap<K, Long> own, Consumer<K> changed) {
        super(own);
        this.changed = changed;
    }

    /** As if each entry had changed. */
    void tellAll() {
        own().keySet().forEach(changed);
    }

    @Override
    protected Long update(K key, UnaryOperator<Long> change) {
        Long[] values = new Long[2];
        own().compute(key, (same, old) -> {
            Object value = change.apply(old); /* may be the mark that says "keep" */
            values[0] = old;
            values[1] = isKeep(value) ? old : (Long) value;
            return values[1];
        });
        if (values[0] == null ? values[1] != null : !values[0].equals(values[1])) {
            changed.accept(key);
        }
        return values[0];
    }

    /** The broker's hottest call: one look at the old value, nothing else if it is the same. */
    @Override
    public Long put(K key, Long value) {
        Long old = own().put(key, value);
        if (!value.equals(old)) {
            changed.accept(key);
        }
        return old;
    }

    @Override
    public Long remove(Object key) {
        Long old = own().remove(key);
        if (old != null) {
            @SuppressWarnings("unchecked")
            K typed = (K) key;
            changed.accept(typed);
        }
        return old;
    }
}
