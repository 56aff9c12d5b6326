package io.metasync.rocketmq;

import java.util.concurrent.ConcurrentMap;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * A map of maps of numbers (topic@group -> queue -> offset) in which every inner map is observed too: one that the broker puts is
 * replaced by a {@link NumberMap} in front of it. `rows` makes, for a key, the one that hears of each inner key that has changed, come or gone.
 *
 * <p>A thread of the broker may hold an inner map while another one removes it from here, and put something into it that nobody will
 * ever see. So whoever hears of a change has to look the value up from here, not in the inner map.
 */
final class NestedMap extends ObservedMap<String, ConcurrentMap<Integer, Long>> {
    private final Function<String, Consumer<Integer>> rows;

    NestedMap(ConcurrentMap<String, ConcurrentMap<Integer, Long>> own, Function<String, Consumer<Integer>> rows) {
        super(own);
        this.rows = rows;
        own.replaceAll(this::observed);
    }

    NumberMap<Integer> observed(String key, ConcurrentMap<Integer, Long> inner) {
        return inner instanceof NumberMap ? (NumberMap<Integer>) inner : new NumberMap<>(inner, rows.apply(key));
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
            tell(cast(maps[0]));
            tell(cast(maps[1]));
        }
        return cast(maps[0]);
    }

    /** The broker goes on writing into what it gets here; that has to be seen. */
    @Override
    protected ConcurrentMap<Integer, Long> stored(String key, ConcurrentMap<Integer, Long> computed) {
        ConcurrentMap<Integer, Long> now = own().get(key);
        return now != null ? now : computed;
    }

    private static void tell(ConcurrentMap<Integer, Long> inner) {
        if (inner != null) {
            ((NumberMap<Integer>) inner).tellAll(); /* there are no others in the broker's own map */
        }
    }

    @SuppressWarnings("unchecked")
    private static ConcurrentMap<Integer, Long> cast(Object inner) {
        return (ConcurrentMap<Integer, Long>) inner;
    }
}
