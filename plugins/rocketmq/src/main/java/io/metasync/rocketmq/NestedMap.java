package io.metasync.rocketmq;

import java.util.concurrent.ConcurrentMap;
import java.util.function.BiConsumer;
import java.util.function.UnaryOperator;

/**
 * A map of maps of numbers (topic@group -> queue -> offset) in which every inner map is observed too: one that the broker puts is
 * replaced by a {@link NumberMap} in front of it. `changed` hears of each inner key that has changed, come or gone.
 *
 * <p>A thread of the broker may hold an inner map while another one removes it from here, and put something into it that nobody will
 * ever see. So whoever hears of a change has to look the value up from here, not in the inner map.
 */
final class NestedMap extends ObservedMap<String, ConcurrentMap<Integer, Long>> {
    private final BiConsumer<String, Integer> changed;

    NestedMap(ConcurrentMap<String, ConcurrentMap<Integer, Long>> own, BiConsumer<String, Integer> changed) {
        super(own);
        this.changed = changed;
        own.replaceAll(this::observed);
    }

    NumberMap<Integer> observed(String key, ConcurrentMap<Integer, Long> inner) {
        return inner instanceof NumberMap ? (NumberMap<Integer>) inner : new NumberMap<>(inner, leaf -> changed.accept(key, leaf));
    }

    @Override
    protected ConcurrentMap<Integer, Long> update(String key, UnaryOperator<ConcurrentMap<Integer, Long>> change) {
        Object[] maps = new Object[2];
        own().compute(key, (same, old) -> {
            Object value = change.apply(old); /* may be the mark that says "keep" */
            maps[0] = old;
            if (isKeep(value) || value == null) {
                maps[1] = value == null ? null : old;
                return value == null ? null : old;
            }
            NumberMap<Integer> now = observed(key, cast(value));
            maps[1] = now;
            return now;
        });
        if (maps[0] != maps[1]) {
            tell(key, cast(maps[0]));
            tell(key, cast(maps[1]));
        }
        return cast(maps[0]);
    }

    /** The broker goes on writing into what it gets here; that has to be seen. */
    @Override
    protected ConcurrentMap<Integer, Long> stored(String key, ConcurrentMap<Integer, Long> computed) {
        ConcurrentMap<Integer, Long> now = own().get(key);
        return now != null ? now : computed;
    }

    private void tell(String key, ConcurrentMap<Integer, Long> inner) {
        if (inner != null) {
            inner.keySet().forEach(leaf -> changed.accept(key, leaf));
        }
    }

    @SuppressWarnings("unchecked")
    private static ConcurrentMap<Integer, Long> cast(Object inner) {
        return (ConcurrentMap<Integer, Long>) inner;
    }
}
